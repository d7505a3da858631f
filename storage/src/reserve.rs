//! Some space on the disk that is kept for making room on it.
//!
//! A full disk would refuse the few kilobytes that deleting takes. So a file `RESERVE` is kept, which holds nothing:
//! when a small write finds no space, the file is removed and the write tried again. Until it can be made again,
//! whatever adds text is refused beforehand ([`Reserve::require`]); what makes room may use up the rest.
//!
//! Invariant: a write that fails here has failed without the reserve as well. Nothing depends on the content of the
//! file, and a database without one is whole.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::backend::{Backend, BackendFile, BackendReader};
use crate::catalog::Corpora;
use crate::path_text::PathText;
use crate::{Error, Result};

/// The name of the file in a database directory.
pub(crate) const RESERVE_NAME: &str = "RESERVE";

/// Bytes for a new log file, a marker, a small segment and the manifest of few segments, each in blocks of its own.
const SIZE_MIN: usize = 64 << 10;

/// The reserve of a database that is open for writing.
#[derive(Debug)]
pub(crate) struct Reserve {
    inner: Arc<dyn Backend>,
    database: PathBuf,
    file: PathBuf,
    size: AtomicUsize,
    /// The file is there, and large enough.
    held: AtomicBool,
    changing: Mutex<()>,
}

impl Reserve {
    /// The reserve of the database in the directory `database`, as it was left.
    pub(crate) fn open(inner: Arc<dyn Backend>, database: &Path) -> Arc<Reserve> {
        let file = database.join(RESERVE_NAME);
        let size = inner.read(&file).map_or(0, |bytes| bytes.len());
        Arc::new(Reserve {
            inner,
            database: database.to_path_buf(),
            file,
            size: AtomicUsize::new(size.max(SIZE_MIN)),
            held: AtomicBool::new(size >= SIZE_MIN),
            changing: Mutex::default(),
        })
    }

    /// Makes the file large enough for a manifest of `corpora`, if there is room.
    pub(crate) fn fit(&self, corpora: &Corpora) {
        let record = |segments: usize| (segments + 50) * size_of::<u64>();
        let manifest: usize = (corpora.values())
            .map(|corpus| record(corpus.segments.len()))
            .sum();
        // The manifest is written beside the old one, and may have grown.
        let size = (SIZE_MIN / 2 + 2 * manifest).next_multiple_of(SIZE_MIN);
        if size > self.size.load(Ordering::Relaxed) {
            self.size.store(size, Ordering::Relaxed);
            // The smaller file is removed before.
            self.held.store(false, Ordering::Release);
        }
        let _ = self.refill();
    }

    /// Returns if the file is there, or can be made.
    ///
    /// # Errors
    /// [`Error::Full`].
    pub(crate) fn require(&self) -> Result<()> {
        match self.refill() {
            Err(source) if is_full(&source) => Err(Error::Full {
                path: self.database.clone(),
                source,
            }),
            _ => Ok(()),
        }
    }

    /// Makes the file, if it is not there.
    pub(crate) fn refill(&self) -> io::Result<()> {
        if self.held.load(Ordering::Acquire) {
            return Ok(());
        }
        let _changing = self.changing.lock();
        if self.held.load(Ordering::Acquire) {
            return Ok(());
        }
        let _ = self.inner.remove(&self.file); // too small, or part of one
        let result = self.write();
        match result {
            Ok(()) => self.held.store(true, Ordering::Release),
            Err(_) => drop(self.inner.remove(&self.file)),
        }
        result
    }

    fn write(&self) -> io::Result<()> {
        // File systems cannot save the blocks of incompressible bytes. They are not synced: the next open checks
        // whether they exist.
        let mut state = 1_u64;
        let mut bytes = Vec::new();
        while bytes.len() < self.size.load(Ordering::Relaxed) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend(state.to_le_bytes());
        }
        self.inner.create(&self.file)?.write_all(&bytes)
    }

    fn release(&self) {
        let _changing = self.changing.lock();
        if self.held.swap(false, Ordering::AcqRel) && self.inner.remove(&self.file).is_ok() {
            // Some file systems give blocks back when the removal is on the disk.
            let _ = self.inner.sync_directory(&self.database);
            tracing::warn!(
                "{}: the disk is full, space in reserve is used",
                PathText(&self.database)
            );
        }
    }

    /// Does something, if need be with the space of the reserve.
    fn lend<T>(&self, mut run: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        match run() {
            Err(error) if is_full(&error) => {
                self.release(); // or another thread has done so
                run()
            }
            result => result,
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// Another backend whose small writes may use the reserve.
#[derive(Debug)]
pub(crate) struct ReserveBackend(pub(crate) Arc<Reserve>);

struct ReserveFile {
    reserve: Arc<Reserve>,
    inner: Box<dyn BackendFile>,
}

impl Write for ReserveFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // More would use up the reserve and fail all the same.
        if bytes.len() > self.reserve.size.load(Ordering::Relaxed) / 2 {
            return self.inner.write(bytes);
        }
        let inner = &mut self.inner;
        self.reserve.lend(|| inner.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl BackendFile for ReserveFile {
    fn sync(&mut self) -> io::Result<()> {
        self.inner.sync()
    }
}

impl Backend for ReserveBackend {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn BackendReader>> {
        self.0.inner.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn BackendFile>> {
        let inner = self.0.lend(|| self.0.inner.create(path))?;
        let reserve = Arc::clone(&self.0);
        Ok(Box::new(ReserveFile { reserve, inner }))
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.0.inner.sync_file(path)
    }

    fn rename(&self, source: &Path, target: &Path) -> io::Result<()> {
        self.0.lend(|| self.0.inner.rename(source, target))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.inner.remove(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.0.lend(|| self.0.inner.create_directory(path))
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.0.inner.sync_directory(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.0.inner.list(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.0.inner.exists(path)
    }

    fn is_file_system(&self) -> bool {
        self.0.inner.is_file_system()
    }

    fn outward_path(&self, path: &Path) -> io::Result<PathBuf> {
        self.0.inner.outward_path(path)
    }
}
