//! Plans to rows: one module for each kind of statement.
//!
//! A query first takes a snapshot, then chooses its rows and their order, then makes each row when it is asked for; the contents
//! of files are never all in memory. Names are checked before; files are not, and a missing file has no rows.

mod check;
mod copy_from;
mod copy_notices;
mod copy_to;
mod copy_to_archive;
mod edit;
mod export;
mod follow;
#[cfg(test)]
mod hostile_tests;
mod index;
#[cfg(test)]
mod limit_tests;
mod parameter_sets;
mod recompress;
mod sandboxed_dir;
pub(crate) mod select;
mod unpack;

use std::sync::Arc;

use zipfdb_sql::plan::{Encoding, Ingest, OnConflict as PlanOnConflict, OnError as PlanOnError};
use zipfdb_sql::{Plan, quote};
use zipfdb_storage::{CorpusSettings, IngestMode, MetadataSchema, PathText, Tokenizer};

use crate::handles::record::metadata_kind;
use crate::handles::rows::Rows;
use crate::handles::session::Session;
use crate::ingest::Progress;
use crate::paths::encodings::TextEncoding;
use crate::paths::sources::{OnConflict, OnError};
use crate::runtime::interrupt::Interrupt;
use crate::{Error, Result};

pub use check::SegmentCheck;
pub(crate) use check::check;
pub use copy_from::CopyOptions;
pub(crate) use copy_from::list_files;
pub(crate) use copy_to::copy_to;
use copy_to_archive::copy_to_archive;
pub(crate) use export::ExportFile;
pub(crate) use follow::copy_from;
pub(crate) use parameter_sets::execute_many;
pub(crate) use recompress::recompress;

/// Runs a plan.
pub(crate) fn execute(session: &Arc<Session>, plan: Plan, progress: &dyn Progress) -> Result<Rows> {
    let interrupt = session.shared().runtime.interrupt();
    execute_until(session, plan, progress, &interrupt)
}

/// Runs a plan of a statement that has begun.
fn execute_until(
    session: &Arc<Session>,
    plan: Plan,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<Rows> {
    if let Some(statement) = edit::is_alone(&plan)
        && session.is_in_transaction()
    {
        return Err(Error::Invalid {
            subject: statement.into(),
            reason: "it cannot be part of a transaction; hint: COMMIT or ROLLBACK first".into(),
        });
    }
    let _writing = match &plan {
        // They read what they change.
        Plan::Insert { .. } | Plan::Update { .. } | Plan::Delete { .. } => {
            Some(session.shared().writing(interrupt)?)
        }
        _ => None,
    };
    match plan {
        Plan::CreateCorpus {
            name,
            if_not_exists,
            tokenizer,
            segment_size,
            recompress_threshold,
            ingest,
            columns,
        } => {
            if if_not_exists && session.corpus(&name).is_ok() {
                return Ok(Rows::none());
            }
            let defaults = CorpusSettings::default();
            let mut metadata = MetadataSchema::default();
            for (name, kind) in &columns {
                metadata.add(name, metadata_kind(*kind))?;
            }
            let settings = CorpusSettings {
                tokenizer: tokenizer.map_or(defaults.tokenizer, stored_tokenizer),
                segment_size: segment_size.unwrap_or(defaults.segment_size),
                recompress_threshold: recompress_threshold.unwrap_or(defaults.recompress_threshold),
                ingest: ingest.map_or(defaults.ingest, ingest_mode),
                metadata,
                ..defaults
            };
            session.create_corpus_until(&name, settings, interrupt)?;
            Ok(Rows::none())
        }
        Plan::DropCorpus { name, if_exists } => {
            if if_exists && session.corpus(&name).is_err() {
                return Ok(Rows::none());
            }
            session.drop_corpus_until(&name, interrupt)?;
            Ok(Rows::none())
        }
        Plan::CopyFrom {
            corpus,
            path,
            on_error,
            on_conflict,
            encoding,
            ingest,
            records,
            follow,
        } => {
            let options = CopyOptions {
                on_error: match on_error {
                    PlanOnError::Stop => OnError::Stop,
                    PlanOnError::Skip => OnError::Skip,
                },
                on_conflict: match on_conflict {
                    PlanOnConflict::Error => OnConflict::Stop,
                    PlanOnConflict::Skip => OnConflict::Skip,
                    PlanOnConflict::Replace => OnConflict::Replace,
                },
                encoding: text_encoding(encoding)?,
                ingest: ingest.map(ingest_mode),
                names: None,
                records: &records,
                follow,
                progress,
            };
            let corpus = session.corpus(&corpus)?;
            session.set_rejects(&[]);
            let report = copy_from(&corpus, path.as_ref(), &options, interrupt)?;
            for skipped in &report.unreadable {
                let reason = skipped.placed_reason();
                tracing::warn!("skipped {}: {reason}", PathText(&skipped.path));
            }
            session.set_rejects(&report.unreadable);
            let rows = Rows::none().with_changed(report.files);
            Ok(rows.with_notices(report.notices))
        }
        Plan::CopyTo { corpus, directory } => {
            let corpus = session.corpus(&corpus)?;
            let files = copy_to(&corpus, directory.as_ref(), progress, interrupt)?;
            Ok(Rows::none().with_changed(files))
        }
        Plan::CopyToArchive {
            corpus,
            path,
            compression,
        } => {
            let corpus = session.corpus(&corpus)?;
            let files = copy_to_archive(&corpus, path.as_ref(), compression, progress, interrupt)?;
            Ok(Rows::none().with_changed(files))
        }
        Plan::Check { corpus } => {
            let corpus = session.corpus(&corpus)?;
            Ok(check::rows(check(&corpus, progress, interrupt)?))
        }
        Plan::Query(query) => select::select(session, query, interrupt),
        Plan::Explain {
            query,
            analyze,
            format,
        } => select::explain(session, &query, analyze, format, interrupt),
        Plan::CreateView {
            name,
            is_temporary,
            if_not_exists,
            sql,
        } => {
            session.create_view(&name, &sql, is_temporary, if_not_exists, interrupt)?;
            Ok(Rows::none())
        }
        Plan::DropView { name, if_exists } => {
            session.drop_view(&name, if_exists, interrupt)?;
            Ok(Rows::none())
        }
        Plan::CreateIndex {
            name,
            if_not_exists,
            corpus,
            kind,
            options,
        } => {
            let new = index::NewIndex {
                name,
                if_not_exists,
                corpus,
                kind,
                options,
            };
            index::create(session, new, progress, interrupt)?;
            Ok(Rows::none())
        }
        Plan::DropIndex { name, if_exists } => {
            index::drop_index(session, &name, if_exists, interrupt)?;
            Ok(Rows::none())
        }
        Plan::AlterCorpus {
            corpus,
            segment_size,
            recompress_threshold,
            ingest,
        } => {
            let corpus = session.corpus(&corpus)?;
            if let Some(size) = segment_size {
                corpus.set_segment_size_until(size, interrupt)?;
            }
            if let Some(bytes) = recompress_threshold {
                corpus.set_recompress_threshold_until(bytes, interrupt)?;
            }
            if let Some(mode) = ingest {
                corpus.set_ingest_until(ingest_mode(mode), interrupt)?;
            }
            Ok(Rows::none())
        }
        Plan::AddColumn { corpus, name, kind } => {
            let corpus = session.corpus(&corpus)?;
            let kind = metadata_kind(kind);
            corpus.change_metadata_until(interrupt, |metadata| metadata.add(&name, kind))?;
            Ok(Rows::none())
        }
        Plan::DropColumn { corpus, name } => {
            let corpus = session.corpus(&corpus)?;
            // Another statement may have dropped it.
            corpus.change_metadata_until(interrupt, |metadata| {
                metadata.remove(&name);
                Ok(())
            })?;
            Ok(Rows::none())
        }
        Plan::CopyQuery {
            query,
            path,
            format,
            compression,
        } => {
            let shared = session.shared();
            let target = ExportFile::open(path.as_ref(), shared.directory().as_deref(), interrupt)?;
            let rows = select::select(session, query, interrupt)?;
            let notices = export::export(rows, target, format, compression, &shared.runtime.pool)?;
            Ok(Rows::none().with_notices(notices))
        }
        Plan::CopyTable {
            query,
            path,
            format,
            kinds,
        } => {
            export::check_table(format)?;
            let shared = session.shared();
            let target = ExportFile::open(path.as_ref(), shared.directory().as_deref(), interrupt)?;
            let rows = select::select(session, query, interrupt)?;
            let notices = export::export_table(rows, target, format, &kinds)?;
            Ok(Rows::none().with_notices(notices))
        }
        Plan::Insert {
            corpus,
            columns,
            query,
            replace,
        } => edit::insert(
            session,
            edit::InsertRows {
                corpus,
                columns,
                query,
                replace,
            },
            interrupt,
        ),
        Plan::Update {
            corpus,
            columns,
            query,
        } => edit::update(session, &corpus, &columns, query, interrupt),
        Plan::Delete { corpus, query } => edit::delete(session, &corpus, query, interrupt),
        Plan::Begin => {
            session.begin(interrupt)?;
            Ok(Rows::none())
        }
        Plan::Commit => {
            session.end("COMMIT")?.commit_until(interrupt)?;
            Ok(Rows::none())
        }
        Plan::Rollback => {
            drop(session.end("ROLLBACK")?);
            Ok(Rows::none())
        }
        Plan::Recompress { corpus } => {
            let corpus = session.corpus(&corpus)?;
            recompress(&corpus, progress, interrupt)?;
            Ok(Rows::none())
        }
        Plan::Set(setting) => {
            session.set(setting)?;
            Ok(Rows::none())
        }
    }
}

fn text_encoding(encoding: Encoding) -> Result<TextEncoding> {
    Ok(match encoding {
        Encoding::Bytes => TextEncoding::BYTES,
        Encoding::Auto => TextEncoding::AUTO,
        Encoding::Named(name) => TextEncoding::named(&name).ok_or_else(|| Error::Invalid {
            subject: "encoding".into(),
            reason: format!("no such encoding {}", quote(&name)),
        })?,
    })
}

fn ingest_mode(ingest: Ingest) -> IngestMode {
    match ingest {
        Ingest::Grammar => IngestMode::Grammar,
        Ingest::Fast => IngestMode::Fast,
        Ingest::Auto => IngestMode::Auto,
    }
}

fn stored_tokenizer(tokenizer: zipfdb_sql::plan::Tokenizer) -> Tokenizer {
    match tokenizer {
        zipfdb_sql::plan::Tokenizer::Unicode => Tokenizer::Unicode,
        zipfdb_sql::plan::Tokenizer::Alnum => Tokenizer::Alnum,
        zipfdb_sql::plan::Tokenizer::Whitespace => Tokenizer::Whitespace,
    }
}
