//! The real file system, with something that happens before a file is created.
//!
//! The invariant: everything else is what `FileBackend` does.

use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zipfdb_storage::{Backend, BackendFile, BackendReader, FileBackend, HeldDirectory};

/// Calls `before` with its state before each creation of a file, which an error of it prevents.
#[derive(Debug)]
pub struct OnCreate<S> {
    pub state: Arc<S>,
    before: fn(&S, &Path) -> io::Result<()>,
    inner: Arc<dyn Backend>,
}

impl<S: Default> OnCreate<S> {
    pub fn new(before: fn(&S, &Path) -> io::Result<()>) -> Arc<OnCreate<S>> {
        Arc::new(OnCreate {
            state: Arc::default(),
            before,
            inner: Arc::new(FileBackend),
        })
    }
}

impl<S: Debug + Send + Sync + 'static> Backend for OnCreate<S> {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn BackendReader>> {
        self.inner.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn BackendFile>> {
        (self.before)(&self.state, path)?;
        self.inner.create(path)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.inner.sync_file(path)
    }

    fn rename(&self, source: &Path, target: &Path) -> io::Result<()> {
        self.inner.rename(source, target)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.inner.create_directory(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.inner.sync_directory(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.inner.list(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }

    fn within(&self, directory: &Arc<HeldDirectory>) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(OnCreate {
            state: Arc::clone(&self.state),
            before: self.before,
            inner: self.inner.within(directory)?,
        }))
    }

    fn outward_path(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.outward_path(path)
    }
}

/// Whether a path is that of a segment, or of one that is being written.
pub fn is_segment(path: &Path) -> bool {
    path.to_string_lossy().contains(".seg")
}
