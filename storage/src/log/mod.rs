//! The record log: edits that are not in segments yet, appended commit by commit and replayed when the database is
//! opened.
//!
//! A *record* is what one statement does to one corpus ([`LogRecord`]). A *commit* is one or more records, of one corpus
//! or several, that count together or not at all. Each commit has a *position*, the place behind it ([`LogPosition`]);
//! positions rise. A corpus has a *merged position*: what was committed up to there is in its segments.
//!
//! How it is used, by way of [`crate::Store`]:
//!
//! - `append` puts a commit into the log, behind all others, and returns its position; `ensure_durable` waits until it
//!   is as durable as asked. `append_commit` does both. A caller that checks edits against what was committed before holds a
//!   lock of its own for `append` only: threads that wait at the same time share one sync.
//! - `replay` gives the records of all commits that are not merged, in order, whenever it is called.
//! - `begin_recompression` publishes segments that replace others and contain all records up to a position. Log files
//!   all of whose records are merged, or belong to corpora that were dropped, are removed.
//!
//! What a commit outlives once it is acknowledged says [`Durability`]. Whatever happens, what is left is a prefix of
//! the commits, each of them whole: an acknowledged commit implies all before it, at any durability. All other changes
//! (creating, publishing, recompressing, dropping) make the log before them durable first, so that they are part of
//! this order.
//!
//! After a write or a sync of the log failed nothing more is accepted: what of it reached the disk is known when the
//! database is opened again.
//!
//! Invariant: bytes are only ever added to the newest file, by the process that created it. The modules: `record` has
//! the edits, `frame` the bytes around them, `scan` reads files, `remains`
//! damaged ones, `writer` appends. Bytes: `storage/FORMAT.md`. What an
//! edit does to a text is not known here.

use std::path::Path;

use crate::backend::Backend;
use crate::{Error, Result};

mod frame;
mod position;
mod record;
mod remains;
mod scan;
mod values;
mod writer;

/// What threads that commit wait for. In unit tests `interleavings` chooses the thread that goes on.
mod sync {
    #[cfg(test)]
    pub(crate) use zipfdb_test_support::locks::{Condvar, Mutex, MutexGuard};

    #[cfg(not(test))]
    pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
}

pub use record::{Edit, Edits, LogRecord, RECORD_SIZE_MAX, SetValues};
pub use values::{decode_values, encode_values};

pub(crate) use frame::Merge;
pub(crate) use remains::Remains;
pub(crate) use scan::{LogFile, Scan, list, number_of, path_of};
pub(crate) use writer::{KeepExtent, Log};

pub use position::LogPosition;
pub(crate) use position::{LogExtent, LogTail};
use scan::ReplayFile;

/// The name of the log's directory in that of the database.
pub(crate) const LOG_NAME: &str = "log";

/// What an acknowledged commit outlives. Each implies those below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// The database being closed. If the process is killed or the power fails, the newest commits may be lost: whole
    /// ones, never one that is followed by another that is kept. A commit is written at the latest when
    /// [`LOG_BUFFER_SIZE`] bytes are waiting.
    Off,
    /// The process being killed. If the power or the operating system fails, the newest commits may be lost, as with
    /// `Off`. The log is synced at the latest when a log file is full, and when the database is closed.
    Normal,
    /// Power loss.
    #[default]
    Full,
}

/// Gives the records of all commits of the log in `directory`, merged or not, apart from any database: for tests and
/// tools. Returns a warning if the log was cut short.
///
/// # Errors
/// [`Error::CorruptLog`] and [`Error::Version`], before any record is given; [`Error::Io`].
pub fn read_log(
    backend: &dyn Backend,
    directory: &Path,
    mut visit: impl FnMut(LogPosition, LogRecord<'_>),
) -> Result<Option<String>> {
    let found = Scan::read(backend, directory, None)?;
    for file in found.files.iter().filter(|file| !file.corpora.is_empty()) {
        let path = path_of(directory, file.number);
        ReplayFile::read(backend, path, file.number, file.end)?.replay(|position, record| {
            visit(position, record);
            Ok::<_, Error>(())
        })?;
    }
    Ok(found.torn.map(|cut| cut.to_string()))
}

/// Bytes of commits that [`Durability::Off`] keeps in the process at most.
pub const LOG_BUFFER_SIZE: usize = 1 << 20;

/// Bytes from which on the next commit begins a new log file.
pub(crate) const LOG_FILE_SIZE: u64 = 8 << 20;

#[cfg(test)]
mod interleavings;
#[cfg(test)]
mod tests;
