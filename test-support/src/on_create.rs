//! The real file system, with something that happens before a file is created.
//!
//! The invariant: everything else is what `FileBackend` does.

use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

use zipfdb_storage::{Backend, BackendFile, BackendReader, FileBackend};

/// Calls `before` with its state before each creation of a file, which an error of it prevents.
#[derive(Debug)]
pub struct OnCreate<S> {
    pub state: S,
    before: fn(&S, &Path) -> io::Result<()>,
}

impl<S: Default> OnCreate<S> {
    pub fn new(before: fn(&S, &Path) -> io::Result<()>) -> Arc<OnCreate<S>> {
        let state = S::default();
        Arc::new(OnCreate { state, before })
    }
}

impl<S: Debug + Send + Sync> Backend for OnCreate<S> {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn BackendReader>> {
        FileBackend.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn BackendFile>> {
        (self.before)(&self.state, path)?;
        FileBackend.create(path)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        FileBackend.sync_file(path)
    }

    fn rename(&self, source: &Path, target: &Path) -> io::Result<()> {
        FileBackend.rename(source, target)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        FileBackend.remove(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        FileBackend.create_directory(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        FileBackend.sync_directory(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        FileBackend.list(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        FileBackend.exists(path)
    }
}

/// Whether a path is that of a segment, or of one that is being written.
pub fn is_segment(path: &Path) -> bool {
    path.to_string_lossy().contains(".seg")
}
