//! Whether the directory of a database that is open for writing is still the one that was opened, and its writer the only one.
//!
//! Invariant: nothing is created, renamed, removed or written to the record log, and nothing is reported as durable, unless at that
//! moment the path leads to the directory that is held, `LOCK` is the file that is locked, and `MANIFEST` and the newest file of the
//! log are as this process read or wrote them last. What departs from that was done by another program. It ends writing for good,
//! for what this process knows of the directory may be wrong from then on.
//!
//! A file whose status has changed is read and compared, so new rights, names and times do no harm. What the files mean is not
//! known here. Other programs can act between a look and what follows it; but what follows happens in the directory that is held,
//! and is examined again before it is acknowledged. A look costs five system calls.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};

use crate::Result;
use crate::backend::{Backend, BackendFile, BackendReader};
use crate::error::{Displacement, io_error};
use crate::fingerprint::Fingerprint;
use crate::held::{FileStatus, HeldDirectory};
use crate::lock::LOCK_NAME;
use crate::log::{self, LOG_NAME, LogTail};
use crate::manifest::MANIFEST_NAME;

/// The claim of a process to be the only one that writes to a directory.
#[derive(Debug)]
pub(crate) struct Ownership {
    directory: Arc<HeldDirectory>,
    lock: Arc<File>,
    /// That of `lock` when it was locked.
    lock_status: FileStatus,
    /// The name of a folder that must stay as well. That of the log stays if its newest file does.
    folder: &'static str,
    manifest: PathBuf,
    log: PathBuf,
    /// Held while one of the files changes, so that no other thread looks at half of it. Nothing else is locked under it.
    known: Mutex<KnownFiles>,
    /// The first departure that was found.
    lost: OnceLock<Displacement>,
}

/// The files that nothing but this process may change.
#[derive(Debug)]
struct KnownFiles {
    manifest: KnownFile,
    /// The newest file of the log.
    newest: Option<(u64, KnownFile)>,
}

/// What is known of a file.
#[derive(Debug)]
enum KnownFile {
    Missing,
    Content(Box<KnownContent>),
    /// Nothing, after an operation on it failed.
    Unknown,
}

/// The content of a file as it was last.
#[derive(Clone, Debug)]
struct KnownContent {
    status: FileStatus,
    size: u64,
    /// Fingerprint of all its bytes.
    fingerprint: Fingerprint,
    /// Whether this process has it open to write to it: another file of the same content is not the same.
    is_open: bool,
}

/// Bytes that are read at a time at most.
const CHUNK_SIZE_MAX: u64 = 64 << 10;

impl KnownFile {
    /// What `path` holds now.
    fn read(directory: &HeldDirectory, path: &Path) -> io::Result<KnownFile> {
        // Before the content: what changes in between shows as another status than this one.
        let Some(status) = directory.named_status(path)? else {
            return Ok(KnownFile::Missing);
        };
        let mut file = directory.open_named(path)?;
        let mut fingerprint = Fingerprint::default();
        let chunk_size = status.size().clamp(1, CHUNK_SIZE_MAX) as usize; // at most that
        let (mut chunk, mut size) = (vec![0; chunk_size], 0);
        loop {
            match file.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => {
                    fingerprint.update(&chunk[..read]);
                    size += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(KnownFile::Content(Box::new(KnownContent {
            status,
            size,
            fingerprint,
            is_open: false,
        })))
    }

    /// Whether `path` is still this. Takes up another status of the same content.
    fn is_unchanged(&mut self, directory: &HeldDirectory, path: &Path) -> io::Result<bool> {
        let now = match self {
            KnownFile::Unknown => return Ok(true),
            _ => directory.named_status(path)?,
        };
        match (self, now) {
            (KnownFile::Missing, None) => Ok(true),
            (KnownFile::Content(known), Some(now)) => {
                if known.status == now {
                    return Ok(true);
                }
                let is_replaced = known.is_open && !known.status.is_same_file(&now);
                if is_replaced || now.size() != known.size {
                    return Ok(false);
                }
                match KnownFile::read(directory, path)? {
                    KnownFile::Content(found) if found.is_same(known) => {
                        known.status = found.status;
                        Ok(true)
                    }
                    _ => Ok(false),
                }
            }
            _ => Ok(false),
        }
    }

    fn has_content_of(&self, other: &KnownFile) -> bool {
        match (self, other) {
            (KnownFile::Content(content), KnownFile::Content(other)) => content.is_same(other),
            _ => false,
        }
    }
}

impl KnownContent {
    /// Whether the bytes are the same.
    fn is_same(&self, other: &KnownContent) -> bool {
        self.size == other.size && self.fingerprint.value() == other.fingerprint.value()
    }
}

impl Ownership {
    /// That of the process that has just locked `lock` in `directory`. Takes `MANIFEST` and the newest file of the log for what they
    /// are now: both must be read after that.
    pub(crate) fn begin(
        backend: &dyn Backend,
        directory: Arc<HeldDirectory>,
        lock: Arc<File>,
        folder: &'static str,
    ) -> Result<Arc<Ownership>> {
        let path = directory.path();
        let (manifest, log) = (path.join(MANIFEST_NAME), path.join(LOG_NAME));
        let read = |path: &Path| KnownFile::read(&directory, path).map_err(io_error(path, "read"));
        let newest = match log::list(backend, &log)?.last() {
            Some(&number) => Some((number, read(&log::path_of(&log, number))?)),
            None => None,
        };
        let known = KnownFiles {
            manifest: read(&manifest)?,
            newest,
        };
        let lock_path = path.join(LOCK_NAME);
        let lock_status = FileStatus::of(&lock).map_err(io_error(&lock_path, "look at"))?;
        Ok(Arc::new(Ownership {
            lock,
            lock_status,
            folder,
            manifest,
            log,
            known: Mutex::new(known),
            lost: OnceLock::new(),
            directory,
        }))
    }

    /// Looks at all of it.
    ///
    /// # Errors
    /// [`crate::Error::Displaced`] if it is lost, [`crate::Error::Io`] if that cannot be found out.
    pub(crate) fn check(&self) -> Result<()> {
        (self.look()).map_err(io_error(self.directory.path(), "look at"))
    }

    /// Looks at the path alone.
    ///
    /// # Errors
    /// [`crate::Error::Displaced`] if it leads elsewhere or the directory was found to be another one before,
    /// [`crate::Error::Io`] if that cannot be found out.
    pub(crate) fn check_path(&self) -> Result<()> {
        self.look_at_path()
            .map_err(io_error(self.directory.path(), "look at"))
    }

    /// # Errors
    /// [`crate::Error::Displaced`] if it was found to be lost before.
    pub(crate) fn refuse_lost(&self) -> Result<()> {
        (self.lost.get()).map_or(Ok(()), |lost| Err(lost.clone().into_error()))
    }

    /// The newest file of the log as this process knows it; none if it does not.
    pub(crate) fn tail(&self) -> Option<LogTail> {
        match &self.known.lock().newest {
            None => Some(LogTail::default()),
            Some((number, KnownFile::Content(known))) => Some(LogTail {
                number: *number,
                size: known.size,
                fingerprint: known.fingerprint.value(),
            }),
            Some(_) => None,
        }
    }

    fn look(&self) -> io::Result<()> {
        self.hold().map(drop)
    }

    /// As `look`; what is known stays locked.
    fn hold(&self) -> io::Result<MutexGuard<'_, KnownFiles>> {
        let mut known = self.known.lock();
        self.look_at_path()?;
        let directory = &*self.directory;
        let lock = directory.path().join(LOCK_NAME);
        if !self.is_locked(directory.named_status(&lock)?)? {
            return Err(self.lose(&lock, REPLACED));
        }
        if !directory.is_folder_in_place(self.folder)? {
            return Err(self.lose(&directory.path().join(self.folder), MOVED));
        }
        let KnownFiles { manifest, newest } = &mut *known;
        if !manifest.is_unchanged(directory, &self.manifest)? {
            return Err(self.lose(&self.manifest, CHANGED));
        }
        if let Some((number, newest)) = newest {
            let path = log::path_of(&self.log, *number);
            if !newest.is_unchanged(directory, &path)? {
                return Err(self.lose(&path, CHANGED));
            }
        }
        Ok(known)
    }

    fn look_at_path(&self) -> io::Result<()> {
        if let Some(lost) = self.lost.get() {
            return Err(lost.clone().into());
        }
        match check_directory(&self.directory).map_err(io::Error::downcast::<Displacement>) {
            Ok(()) => Ok(()),
            Err(Ok(Displacement { path, fault })) => Err(self.lose(&path, fault)),
            Err(Err(error)) => Err(error),
        }
    }

    /// Whether what was found as `LOCK` is the file that is locked.
    fn is_locked(&self, found: Option<FileStatus>) -> io::Result<bool> {
        match found {
            None => Ok(false),
            Some(found) if found.is_same_file(&self.lock_status) => Ok(true),
            // Where the number of a file changes while it is open, both are asked now.
            Some(found) => Ok(found.is_same_file(&FileStatus::of(&self.lock)?)),
        }
    }

    /// Gives up.
    fn lose(&self, path: &Path, fault: &'static str) -> io::Error {
        let path = path.to_path_buf();
        let lost = self.lost.get_or_init(|| Displacement { path, fault });
        lost.clone().into()
    }

    /// The number of the log file of this path.
    fn log_number(&self, path: &Path) -> Option<u64> {
        let name = path.strip_prefix(&self.log).ok()?;
        log::number_of(name.as_os_str())
    }
}

/// Fails with a [`Displacement`] if the path of a directory does not lead to it any more.
pub(crate) fn check_directory(directory: &HeldDirectory) -> io::Result<()> {
    if directory.is_in_place()? {
        return Ok(());
    }
    let path = directory.path().to_path_buf();
    Err(Displacement { path, fault: MOVED }.into())
}

/// The fault of a directory.
const MOVED: &str = "the directory is another one now: it was moved, removed or replaced";
/// The fault of `LOCK`.
const REPLACED: &str =
    "the file is another one now: it was removed or replaced, and another process may have written";
/// The fault of another file.
const CHANGED: &str = "the file was changed, removed or replaced by another program";

/// The backend of a writer: another one, with a look at the [`Ownership`] before each change and after each sync.
#[derive(Debug)]
pub(crate) struct OwnedBackend {
    pub(crate) inner: Arc<dyn Backend>,
    pub(crate) ownership: Arc<Ownership>,
}

/// A file of the log that this process writes.
struct OwnedLogFile {
    inner: Box<dyn BackendFile>,
    ownership: Arc<Ownership>,
    path: PathBuf,
    number: u64,
}

impl Write for OwnedLogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let ownership = &self.ownership;
        let mut known = ownership.hold()?;
        let written = self.inner.write(bytes);
        let Some((number, file)) = &mut known.newest else {
            return written;
        };
        let KnownFile::Content(content) = file else {
            return written;
        };
        if *number != self.number {
            return written;
        }
        if let Ok(count) = &written {
            content.fingerprint.update(&bytes[..*count]);
            content.size += *count as u64;
        }
        match (ownership.directory.named_status(&self.path), &written) {
            (Ok(Some(now)), _)
                if now.is_same_file(&content.status) && now.size() == content.size =>
            {
                content.status = now;
            }
            (Ok(_), Ok(_)) => return Err(ownership.lose(&self.path, CHANGED)),
            // A write that fails may have written some of it.
            _ => *file = KnownFile::Unknown,
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl BackendFile for OwnedLogFile {
    fn sync(&mut self) -> io::Result<()> {
        self.inner.sync()?;
        self.ownership.look()
    }
}

impl Backend for OwnedBackend {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn BackendReader>> {
        self.inner.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn BackendFile>> {
        let ownership = &self.ownership;
        let mut known = ownership.hold()?;
        let Some(number) = ownership.log_number(path) else {
            drop(known);
            return self.inner.create(path);
        };
        let inner = self.inner.create(path)?;
        let Some(status) = ownership.directory.named_status(path)? else {
            return Err(ownership.lose(path, CHANGED));
        };
        let content = Box::new(KnownContent {
            status,
            size: 0,
            fingerprint: Fingerprint::default(),
            is_open: true,
        });
        known.newest = Some((number, KnownFile::Content(content)));
        Ok(Box::new(OwnedLogFile {
            inner,
            ownership: Arc::clone(ownership),
            path: path.to_path_buf(),
            number,
        }))
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.inner.sync_file(path)?;
        self.ownership.look()
    }

    fn rename(&self, source: &Path, target: &Path) -> io::Result<()> {
        let ownership = &self.ownership;
        let mut known = ownership.hold()?;
        if target != ownership.manifest {
            drop(known);
            return self.inner.rename(source, target);
        }
        let directory = &*ownership.directory;
        let stored = KnownFile::read(directory, source)?;
        // A rename that fails may have happened.
        known.manifest = KnownFile::Unknown;
        self.inner.rename(source, target)?;
        known.manifest = KnownFile::read(directory, target)?;
        if !known.manifest.has_content_of(&stored) {
            return Err(ownership.lose(target, CHANGED));
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let ownership = &self.ownership;
        let mut known = ownership.hold()?;
        let number = ownership.log_number(path);
        if number.is_none() || known.newest.as_ref().map(|(newest, _)| *newest) != number {
            drop(known);
            return self.inner.remove(path);
        }
        let removed = self.inner.remove(path);
        known.newest = match removed {
            Ok(()) => None,
            Err(_) => number.map(|number| (number, KnownFile::Unknown)),
        };
        removed
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.ownership.look()?;
        self.inner.create_directory(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.inner.sync_directory(path)?;
        self.ownership.look()
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.inner.list(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }

    fn is_file_system(&self) -> bool {
        self.inner.is_file_system()
    }

    fn outward_path(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.outward_path(path)
    }
}
