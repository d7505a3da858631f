//! A backend of which one call fails.
//!
//! The invariant: calls are counted in the order in which they are made, so the same work fails at the same call. It
//! works on the real file system, and knows nothing of databases.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use zipfdb_storage::{Backend, BackendFile, BackendReader, Bytes, FileBackend, HeldDirectory};

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// Nothing happens.
    Refused,
    /// The call has its effect all the same; a write only in part.
    Done,
    /// No space: a write ends early and the rest of it fails, what else takes space does not happen.
    NoSpace,
}

/// A backend of which one call fails.
#[derive(Clone, Debug)]
pub struct Faulty {
    pub mode: Mode,
    /// Calls until the one that fails; shared with the files.
    pub left: Arc<AtomicI64>,
    inner: Arc<dyn Backend>,
}

impl Faulty {
    pub fn new(mode: Mode, call: i64) -> Faulty {
        Faulty {
            mode,
            left: Arc::new(AtomicI64::new(call)),
            inner: Arc::new(FileBackend),
        }
    }

    fn fails_now(&self) -> bool {
        self.left.fetch_sub(1, Ordering::Relaxed) == 0
    }

    fn error(&self) -> io::Error {
        match self.mode {
            Mode::NoSpace => io::ErrorKind::StorageFull.into(),
            _ => io::Error::from_raw_os_error(5), // EIO
        }
    }

    fn call<T>(&self, run: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if self.fails_now() {
            if self.mode == Mode::Done {
                run()?;
            }
            return Err(self.error());
        }
        run()
    }
}

struct FaultyFile {
    faults: Faulty,
    inner: Box<dyn BackendFile>,
}

impl Write for FaultyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.faults.fails_now() {
            let half = bytes.len() / 2;
            if self.faults.mode == Mode::NoSpace && half > 0 {
                self.faults.left.store(0, Ordering::Relaxed); // the next call
                return self.inner.write(&bytes[..half]);
            }
            if self.faults.mode == Mode::Done {
                self.inner.write_all(&bytes[..bytes.len() / 2])?;
            }
            return Err(self.faults.error());
        }
        // Short, but not a failure.
        self.inner.write(&bytes[..bytes.len().div_ceil(2)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl BackendFile for FaultyFile {
    fn sync(&mut self) -> io::Result<()> {
        let faults = self.faults.clone();
        faults.call(|| self.inner.sync())
    }
}

#[derive(Debug)]
struct FaultyReader {
    faults: Faulty,
    inner: Arc<dyn BackendReader>,
}

impl BackendReader for FaultyReader {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_at(&self, offset: u64, size: u64) -> io::Result<Bytes> {
        self.faults.call(|| self.inner.read_at(offset, size))
    }
}

impl Backend for Faulty {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn BackendReader>> {
        let inner = self.call(|| self.inner.open(path))?;
        let faults = self.clone();
        Ok(Arc::new(FaultyReader { faults, inner }))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn BackendFile>> {
        let inner = self.call(|| self.inner.create(path))?;
        let faults = self.clone();
        Ok(Box::new(FaultyFile { faults, inner }))
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.call(|| self.inner.sync_file(path))
    }

    fn rename(&self, source: &Path, target: &Path) -> io::Result<()> {
        self.call(|| self.inner.rename(source, target))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call(|| self.inner.remove(path))
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.call(|| self.inner.create_directory(path))
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.call(|| self.inner.sync_directory(path))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.call(|| self.inner.list(path))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.call(|| self.inner.exists(path))
    }

    fn within(&self, directory: &Arc<HeldDirectory>) -> Option<Arc<dyn Backend>> {
        let inner = self.inner.within(directory)?;
        Some(Arc::new(Faulty {
            inner,
            ..self.clone()
        }))
    }

    fn outward_path(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.outward_path(path)
    }
}
