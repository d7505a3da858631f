//! Follows the commits that another process makes after a reader was opened.
//!
//! Invariant: what is taken up are whole commits of records, all up to the last one, to corpora and segments that are as they
//! were, behind a log that begins as it did. The manifest says that of corpora and segments: it is replaced before a commit can rest on
//! another state, and read again behind the log. A directory that has the path in place of the one that was opened is never examined.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::backend::ReadOnlyBackend;
use crate::error::io_error;
use crate::held::FileStatus;
use crate::log::{self, LOG_NAME, Log, LogTail, Scan};
use crate::manifest::{Manifest, ManifestFile};
use crate::store::location::Location;
use crate::{Error, Result};

/// What [`crate::Store::follow`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed {
    /// Nothing was committed.
    Same,
    /// Records were committed, and taken up.
    Grown,
    /// Something else changed: the directory has to be opened anew.
    Changed,
}

/// What a reader knows of the files.
#[derive(Debug)]
pub(super) struct Follower {
    location: Location,
    backend: Arc<ReadOnlyBackend>,
    known: Mutex<SeenFiles>,
}

/// The files as they were examined last.
#[derive(Debug)]
struct SeenFiles {
    /// `None` if it could not be read.
    manifest: Option<Manifest>,
    newest: LogTail,
    /// That of the newest file of the log before it was read.
    status: Option<FileStatus>,
}

impl Follower {
    /// For a reader at `location` that found this manifest and this log, whose files are pinned; `status` is that of its newest file.
    pub(super) fn new(
        location: Location,
        backend: Arc<ReadOnlyBackend>,
        manifest: Option<Manifest>,
        found: &Scan,
        status: Option<FileStatus>,
    ) -> Follower {
        Follower {
            location,
            backend,
            known: Mutex::new(SeenFiles {
                manifest,
                newest: found.newest,
                status,
            }),
        }
    }

    /// Where the files are, those that were found pinned.
    pub(super) fn backend(&self) -> &Arc<ReadOnlyBackend> {
        &self.backend
    }

    /// The sequence number of the manifest.
    pub(super) fn sequence(&self) -> Option<u64> {
        let known = self.known.lock();
        known.manifest.as_ref().map(|manifest| manifest.sequence)
    }

    /// The newest file of the log as it was examined last.
    pub(super) fn tail(&self) -> LogTail {
        self.known.lock().newest
    }

    /// Takes up what was appended to `log`, if nothing else has changed.
    pub(super) fn follow(&self, log: &Log) -> Result<Followed> {
        self.location.check()?;
        let path = &self.location.path;
        let mut known = self.known.lock();
        let files = self.backend.inner();
        let Ok(manifest) = ManifestFile::read(&**files, path) else {
            return Ok(Followed::Changed);
        };
        let Some(before) = &known.manifest else {
            return Ok(Followed::Changed);
        };
        let is_same = manifest.sequence == before.sequence;
        if !is_same && manifest.corpora != before.corpora {
            return Ok(Followed::Changed);
        }
        // A file that is not there any more was removed, which the log shows below.
        let newest = newest_file(&self.location).ok();
        if is_same
            && let Some((newest, status)) = newest
            && newest == (known.newest.number, known.newest.size)
            && status == known.status
        {
            return Ok(Followed::Same);
        }
        let end = log.end();
        // The log begins at its first file again when the corpus with the highest merged position was dropped.
        if newest.is_some_and(|(newest, _)| newest.0 != 0 && newest < (end.file, end.offset)) {
            return Ok(Followed::Changed);
        }
        let directory = path.join(LOG_NAME);
        let found = match Scan::read_after(&**files, &directory, end, manifest.log, known.newest) {
            Ok(found) => found,
            // Files were removed meanwhile, or it is damaged or another one, which the next open distinguishes.
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(Followed::Changed);
            }
            Err(Error::CorruptLog { .. }) => return Ok(Followed::Changed),
            Err(error) => return Err(error),
        };
        let again = ManifestFile::read(&**files, path);
        if !again.is_ok_and(|again| again.sequence == manifest.sequence) {
            return Ok(Followed::Changed);
        }
        known.newest = found.newest;
        known.status = newest.and_then(|(_, status)| status);
        known.manifest = Some(manifest);
        if found.end <= end {
            return Ok(Followed::Same);
        }
        for file in &found.files {
            let path = log::path_of(&directory, file.number);
            match self.backend.pin(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(Followed::Changed);
                }
                pinned => pinned.map_err(io_error(&path, "read"))?,
            }
        }
        log.take_up(found);
        Ok(Followed::Grown)
    }
}

/// The newest file of the log as it is now: its number, which is 0 if there is none, its size, and its status where there are
/// such. The manifest records a file before the first commit in it, so a commit may come to a file that was not there when the
/// manifest was read.
pub(super) fn newest_file(location: &Location) -> Result<((u64, u64), Option<FileStatus>)> {
    let (backend, directory) = (&*location.backend, location.path.join(LOG_NAME));
    let Some(&number) = log::list(backend, &directory)?.last() else {
        return Ok(((0, 0), None));
    };
    let path = log::path_of(&directory, number);
    let Some(held) = &location.held else {
        let file = backend.open(&path).map_err(io_error(&path, "read"))?;
        return Ok(((number, file.size()), None));
    };
    let status = held.status(&path).map_err(io_error(&path, "read"))?;
    let size = status.map_or(0, |status| status.size());
    Ok(((number, size), status))
}
