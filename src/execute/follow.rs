//! COPY ... FROM with `follow`: files that grow, such as logs, are appended to the files of a corpus until the statement is interrupted.
//!
//! Invariant: the text of a followed file in the corpus is the beginning of the file, so its length is where reading goes on, also after
//! a restart. Each batch is durable by itself. A file that is shorter than its text, or does not continue the end of it, is an error.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::error::io_error;
use crate::execute::copy_from::{CopyOptions, copy_once, import_listing};
use crate::handles::corpus::Corpus;
use crate::maintain::ingest::Report;
use crate::paths::encodings::TextEncoding;
use crate::paths::sources::{
    Listing, OnConflict, OnError, SIZE_UNKNOWN, Source, Unreadable, list_sources,
};
use crate::runtime::interrupt::Interrupt;
use crate::{Error, Result};
use zipfdb_sql::plan::RecordOptions;

/// The time between two looks at the files.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// The time between two looks at whether the statement must end.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Bytes of a file that are appended at a time.
const FILE_BYTES: u64 = 8 << 20;

/// Bytes of all files that are appended at a time, about.
const BATCH_BYTES: usize = 64 << 20;

/// Bytes at the end of a text that its file must have too.
const END_BYTES: u64 = 4096;

/// Imports the files that `path` means, once or until it is interrupted.
pub(crate) fn copy_from(
    corpus: &Corpus,
    path: &Path,
    options: &CopyOptions<'_>,
    interrupt: &Interrupt,
) -> Result<Report> {
    if options.follow {
        follow(corpus, path, options, interrupt)
    } else {
        copy_once(corpus, path, options, interrupt)
    }
}

/// Appends what files get until it is interrupted. The report counts the files that were new, and the bytes of all texts.
fn follow(
    corpus: &Corpus,
    path: &Path,
    options: &CopyOptions<'_>,
    interrupt: &Interrupt,
) -> Result<Report> {
    check_options(options)?;
    let mut report = Report::default();
    let mut left_out = HashSet::new();
    loop {
        let done = look(corpus, path, options, &mut left_out, &mut report, interrupt);
        let has_more = match done {
            Err(Error::Interrupted) => return Ok(report),
            done => done?,
        };
        if has_more {
            continue;
        }
        let mut waited = Duration::ZERO;
        while waited < LOOK_INTERVAL {
            match interrupt.check() {
                Err(Error::Interrupted) => return Ok(report),
                checked => checked?,
            }
            std::thread::sleep(CHECK_INTERVAL);
            waited += CHECK_INTERVAL;
        }
    }
}

/// Refuses options that followed files cannot have.
fn check_options(options: &CopyOptions<'_>) -> Result<()> {
    let is_plain = RecordOptions {
        format: None,
        ..options.records.clone()
    } == RecordOptions::NONE
        && (options.records.format.as_deref()).is_none_or(|format| format == "bytes");
    let other = if !is_plain {
        "files of records, and packed ones, are not followed"
    } else if options.encoding != TextEncoding::BYTES {
        "texts are not decoded that are followed"
    } else if options.on_conflict != OnConflict::Stop {
        "files that are followed are the ones of the corpus, so there is no conflict"
    } else {
        return Ok(());
    };
    Err(Error::Invalid {
        subject: "option follow".to_owned(),
        reason: format!("{other}; hint: follow takes on_error and compression beside it"),
    })
}

/// Imports files that are new and appends what others have got. Says whether there is more.
fn look(
    corpus: &Corpus,
    path: &Path,
    options: &CopyOptions<'_>,
    left_out: &mut HashSet<Arc<Path>>,
    report: &mut Report,
    interrupt: &Interrupt,
) -> Result<bool> {
    interrupt.check()?;
    let shared = corpus.shared();
    let directory = shared.directory();
    let listing = interrupt.watch(&shared.runtime.pool, |stop| {
        list_sources(path, directory.as_deref(), stop)
    })?;
    if options.on_error == OnError::Stop {
        listing.check_readable()?;
    }
    let snapshot = corpus.reader(interrupt)?;
    let view = snapshot.view();
    let mut new = Listing {
        sources: Vec::new(),
        ..listing.clone()
    };
    new.unreadable.clear();
    let mut appended: Vec<(String, Vec<u8>)> = Vec::new();
    let (mut bytes, mut has_more) = (0, false);
    for source in listing.sources {
        interrupt.check()?;
        if left_out.contains(&source.path) {
            continue;
        }
        let Some(file) = view.find_file(&source.name) else {
            new.sources.push(source);
            continue;
        };
        let known = view.files()[file].bytes;
        let end = snapshot.extract(file, known.saturating_sub(END_BYTES), END_BYTES, interrupt)?;
        match continuation(&source, known, &end) {
            Ok(text) if text.is_empty() => {}
            Ok(text) => {
                has_more |= text.len() as u64 == FILE_BYTES;
                bytes += text.len();
                appended.push((source.name, text));
            }
            Err(reason) if options.on_error == OnError::Skip => {
                let path = source.path.to_path_buf();
                tracing::warn!("{}: {reason}", zipfdb_storage::PathText(&path));
                report.unreadable.push(Unreadable::whole(path, reason));
                left_out.insert(source.path);
            }
            Err(reason) => {
                return Err(Error::Unreadable {
                    path: source.path.to_path_buf(),
                    reason,
                    more: 0,
                });
            }
        }
        if bytes >= BATCH_BYTES {
            has_more = true;
            break;
        }
    }
    if !new.sources.is_empty() {
        let writing = shared.writing(interrupt)?;
        let (imported, _) = import_listing(corpus, &writing, new, options, interrupt)?;
        report.files += imported.files;
        report.bytes += imported.bytes;
        report.words += imported.words;
        report.tokens += imported.tokens;
        report.segments.extend(imported.segments);
        (left_out).extend((imported.unreadable.iter()).map(|left| Arc::from(&*left.path)));
        report.unreadable.extend(imported.unreadable);
    }
    if !appended.is_empty() {
        corpus.append_many(&appended)?;
        report.bytes += bytes as u64;
    }
    Ok(has_more)
}

/// The bytes that follow a text of `known` bytes with this end in its file, [`FILE_BYTES`] at most.
///
/// # Errors
/// Why the file does not continue the text.
fn continuation(source: &Source, known: u64, end: &[u8]) -> std::result::Result<Vec<u8>, String> {
    if source.bytes == SIZE_UNKNOWN {
        return Err("it has no size, so it cannot be followed".to_owned());
    }
    if source.bytes == known {
        return Ok(Vec::new());
    }
    let replaced = "it does not continue the text of the corpus, as if another file had its name or it had been cut; hint: \
                    on_conflict = 'replace', without follow, copies it anew";
    if source.bytes < known {
        return Err(replaced.to_owned());
    }
    let read = || -> io::Result<Option<Vec<u8>>> {
        let mut file = File::open(&source.path)?;
        file.seek(SeekFrom::Start(known - end.len() as u64))?;
        let mut before = vec![0; end.len()];
        file.read_exact(&mut before)?;
        if before != end {
            return Ok(None);
        }
        let mut text = Vec::new();
        file.take(FILE_BYTES).read_to_end(&mut text)?;
        Ok(Some(text))
    };
    match read() {
        Ok(Some(text)) => Ok(text),
        Ok(None) => Err(replaced.to_owned()),
        Err(error) => Err(io_error("read", &source.path)(error).to_string()),
    }
}
