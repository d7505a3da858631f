//! CREATE INDEX and DROP INDEX.

use std::sync::Arc;

use zipfdb_kernels::PostingsCodec;
use zipfdb_sql::plan::{IndexKind as PlanIndexKind, ListOptions};
use zipfdb_storage::{Error as StorageError, IndexKind, IndexRecord};

use crate::handles::session::Session;
use crate::ingest::Progress;
use crate::maintain::indexes::build_indexes;
use crate::runtime::interrupt::Interrupt;
use crate::{Error, Result};

/// An index that a statement describes.
pub(super) struct NewIndex {
    pub(super) name: String,
    pub(super) if_not_exists: bool,
    pub(super) corpus: String,
    pub(super) kind: PlanIndexKind,
    pub(super) options: ListOptions,
}

/// Creates an index and builds it for all segments; readers and writers continue meanwhile. With `if_not_exists` the missing
/// files of an existing index are built.
///
/// # Errors
/// If an index has this name, a segment is damaged, the disk is full, the database is read-only, or it is interrupted: then the
/// index does not exist, unless it did before.
pub(super) fn create(
    session: &Arc<Session>,
    new: NewIndex,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<()> {
    let shared = session.shared();
    let writing = shared.writing(interrupt)?;
    let corpus = writing.store.corpus(&new.corpus)?;
    let codec = new
        .options
        .codec
        .as_deref()
        .and_then(PostingsCodec::from_name);
    let record = IndexRecord {
        name: new.name,
        corpus: corpus.id,
        kind: match new.kind {
            PlanIndexKind::Postings => IndexKind::Postings,
            PlanIndexKind::Occurrences => IndexKind::Occurrences,
            PlanIndexKind::Suffixes => IndexKind::Suffixes,
            PlanIndexKind::Ngrams => IndexKind::Ngrams,
        },
        codec: codec.map_or(0, |codec| codec as u8),
        unit: new.options.unit.unwrap_or(0),
        is_reordered: new.options.is_reordered,
    };
    let created = match writing.store.create_index(record.clone()) {
        Err(StorageError::IndexExists { .. }) if new.if_not_exists => false,
        created => {
            created?;
            true
        }
    };
    writing.attach_indexes(&corpus);
    let pool = &shared.runtime.pool;
    let built = interrupt.attend(|stop| {
        build_indexes(&writing, pool, &corpus.name, true, progress, stop)?;
        interrupt.check()
    });
    if built.is_err() && created {
        // The first error is returned.
        let _ = writing.store.drop_index(&record.name);
        writing.attach_indexes(&corpus);
    }
    built
}

/// Drops an index with its files.
///
/// # Errors
/// If no index has this name, unless `if_exists`, or the database is read-only.
pub(super) fn drop_index(
    session: &Arc<Session>,
    name: &str,
    if_exists: bool,
    interrupt: &Interrupt,
) -> Result<()> {
    let shared = session.shared();
    let is_same = |record: &IndexRecord| record.answers_to(name);
    let absent = || {
        if if_exists {
            Ok(())
        } else {
            Err(Error::Storage(StorageError::NoSuchIndex {
                index: name.to_owned(),
            }))
        }
    };
    // For a missing index nothing is locked or created.
    if !shared.fresh()?.store.indexes()?.iter().any(is_same) {
        return absent();
    }
    let writing = shared.writing(interrupt)?;
    let records = writing.store.indexes()?;
    let Some(record) = records.iter().find(|record| is_same(record)) else {
        return absent();
    };
    writing.store.drop_index(&record.name)?;
    let mut corpora = writing.store.corpora().into_iter();
    if let Some(corpus) = corpora.find(|corpus| corpus.id == record.corpus) {
        writing.attach_indexes(&corpus);
    }
    Ok(())
}
