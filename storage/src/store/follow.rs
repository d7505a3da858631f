//! What a reader does about commits that another process makes after it was opened.
//!
//! Invariant: what is taken up are whole commits of records, all up to the last one, to corpora and segments that are as they
//! were. The manifest says that they are: it is replaced before a commit can rest on another state, and read again behind
//! the log.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::backend::{Backend, ReadOnlyBackend};
use crate::error::io_error;
use crate::log::{self, LOG_NAME, Log, Scan};
use crate::manifest::{Manifest, ManifestFile};
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
    backend: Arc<ReadOnlyBackend>,
    path: PathBuf,
    known: Mutex<Known>,
}

/// The files as they were looked at last.
#[derive(Debug)]
struct Known {
    /// `None` if it could not be read.
    manifest: Option<Manifest>,
    /// The newest file of the log and its size, if there is one.
    newest: Option<(u64, u64)>,
}

impl Follower {
    /// For a reader of the directory `path` that found this manifest and this log, whose files are pinned.
    pub(super) fn new(
        backend: Arc<ReadOnlyBackend>,
        path: &Path,
        manifest: Option<Manifest>,
        found: &Scan,
    ) -> Follower {
        Follower {
            backend,
            path: path.to_path_buf(),
            known: Mutex::new(Known {
                manifest,
                newest: found.newest,
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

    /// Takes up what was appended to `log`, if nothing else has changed.
    pub(super) fn follow(&self, log: &Log) -> Result<Followed> {
        let mut known = self.known.lock();
        let files = self.backend.inner();
        let Ok(manifest) = ManifestFile::read(&**files, &self.path) else {
            return Ok(Followed::Changed);
        };
        let Some(before) = &known.manifest else {
            return Ok(Followed::Changed);
        };
        let is_same = manifest.sequence == before.sequence;
        if !is_same && manifest.corpora != before.corpora {
            return Ok(Followed::Changed);
        }
        // A file that is not there any more was removed, which the log tells below.
        let newest = newest_file(&**files, &self.path).ok();
        if is_same && newest == Some(known.newest) {
            return Ok(Followed::Same);
        }
        let end = log.end();
        // The log begins at its first file again when the corpus with the highest merged position was dropped.
        if newest
            .flatten()
            .is_some_and(|newest| newest < (end.file, end.offset))
        {
            return Ok(Followed::Changed);
        }
        let directory = self.path.join(LOG_NAME);
        let found = match Scan::read_after(&**files, &directory, end, manifest.log) {
            Ok(found) => found,
            // Files were removed meanwhile, or it is damaged, which the next open tells apart.
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(Followed::Changed);
            }
            Err(Error::CorruptLog { .. }) => return Ok(Followed::Changed),
            Err(error) => return Err(error),
        };
        let again = ManifestFile::read(&**files, &self.path);
        if !again.is_ok_and(|again| again.sequence == manifest.sequence) {
            return Ok(Followed::Changed);
        }
        known.newest = found.newest;
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

/// The newest file of the log as it is now, and its size. The manifest tells of a file before the first commit in it, so a
/// commit may come to a file that was not there when the manifest was read.
fn newest_file(backend: &dyn Backend, database: &Path) -> Result<Option<(u64, u64)>> {
    let directory = database.join(LOG_NAME);
    let Some(&number) = log::list(backend, &directory)?.last() else {
        return Ok(None);
    };
    let path = log::path_of(&directory, number);
    let file = backend.open(&path).map_err(io_error(&path, "read"))?;
    Ok(Some((number, file.size())))
}
