//! Where files live: the few operations on files and directories that the rest of the crate needs, behind one trait.
//!
//! Invariant: a file is written once, from its beginning to its end. Bytes that were read are a copy in memory: whatever
//! another program does to the file, they do not change, and a file that became shorter is an error of the next read.
//!
//! What it deliberately does not do: random access writes, memory mapping, buffering, retries, and any idea of what the
//! bytes mean. The catalog (sled) and the lock file open their files themselves; only their syncs come through here. Which
//! directory a path means is the business of `held.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::held::HeldDirectory;

/// Files up to this size are read whole when they are opened, and closed: a database of many small segments needs no
/// file descriptor for each.
const WHOLE_SIZE_MAX: u64 = 64 << 10;

/// Files and directories, real or simulated.
///
/// Paths are given whole: a backend has no current directory of its own. Errors are those of the operating system
/// (or look like them); callers add the path and what they were doing. A backend that is only read need not have the operations
/// that change something: they are refused, as on a file system that is mounted read-only.
pub trait Backend: fmt::Debug + Send + Sync {
    /// Opens a file for reading. What is appended later is not in it; what is renamed or removed stays readable.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn BackendReader>>;

    /// The whole content of a file, as it is now.
    fn read(&self, path: &Path) -> io::Result<Bytes> {
        let file = self.open(path)?;
        file.read_at(0, file.size())
    }

    /// Creates a file that must not exist yet.
    ///
    /// What is written is durable after [`BackendFile::sync`] of the file and [`Backend::sync_directory`] of the
    /// directory that holds it.
    fn create(&self, _path: &Path) -> io::Result<Box<dyn BackendFile>> {
        refused()
    }

    /// Makes the content of a file durable that something else has written (the catalog's files).
    fn sync_file(&self, _path: &Path) -> io::Result<()> {
        refused()
    }

    /// Renames a file or directory; a file that has the new name already is replaced, in one step.
    fn rename(&self, _source: &Path, _target: &Path) -> io::Result<()> {
        refused()
    }

    /// Removes a file. Readers of it stay valid.
    fn remove(&self, _path: &Path) -> io::Result<()> {
        refused()
    }

    /// Creates a directory whose parent exists; no error if it is there already.
    fn create_directory(&self, _path: &Path) -> io::Result<()> {
        refused()
    }

    /// Makes creations, renames and removals in a directory durable (not those in its subdirectories).
    fn sync_directory(&self, _path: &Path) -> io::Result<()> {
        refused()
    }

    /// The names in a directory, sorted.
    fn list(&self, path: &Path) -> io::Result<Vec<OsString>>;

    /// Whether a file or directory of this name exists.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Whether the paths are those of the operating system, so that others can open them as well.
    ///
    /// Where they are not, a database has no catalog behind its manifest, keeps no space in reserve and takes no lock:
    /// the application ensures that only one process opens it for writing.
    fn is_file_system(&self) -> bool {
        true
    }

    /// A backend that does with the files of a directory that is held what this one does with those of its path. None if this
    /// one goes by paths.
    fn within(&self, _directory: &Arc<HeldDirectory>) -> Option<Arc<dyn Backend>> {
        None
    }

    /// A path of the same file for code of this process that opens it without a backend, for as long as this backend lives.
    fn outward_path(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_path_buf())
    }
}

/// A file being written, from [`Backend::create`].
pub trait BackendFile: Write + Send {
    /// Makes everything written so far durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// A file being read, from [`Backend::open`].
pub trait BackendReader: fmt::Debug + Send + Sync {
    /// Its size when it was opened.
    fn size(&self) -> u64;

    /// The `size` bytes from `offset` on.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if the file ends before, [`io::ErrorKind::OutOfMemory`] if there is no room for
    /// the bytes, and what the operating system says.
    fn read_at(&self, offset: u64, size: u64) -> io::Result<Bytes>;
}

/// Bytes of a file: immutable, cheap to clone, shared between threads.
#[derive(Clone)]
pub struct Bytes {
    content: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.content[self.range.clone()]
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(Arc::new(bytes))
    }
}

impl From<Arc<Vec<u8>>> for Bytes {
    fn from(content: Arc<Vec<u8>>) -> Self {
        let range = 0..content.len();
        Bytes { content, range }
    }
}

/// A file whose whole content is in memory.
impl BackendReader for Bytes {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, size: u64) -> io::Result<Bytes> {
        check_range(offset, size, self.len() as u64)?;
        let start = self.range.start + offset as usize; // at most the length
        Ok(Bytes {
            content: Arc::clone(&self.content),
            range: start..start + size as usize,
        })
    }
}

/// Refuses to read behind the end of a file.
fn check_range(offset: u64, size: u64, file_size: u64) -> io::Result<()> {
    match offset.checked_add(size) {
        Some(end) if end <= file_size => Ok(()),
        _ => Err(ends_early(file_size, file_size)),
    }
}

/// A file that ends at `end` and had `size` bytes.
fn ends_early(end: u64, size: u64) -> io::Error {
    let message = if end == size {
        format!("the file has no more than {size} bytes")
    } else {
        format!("the file ends at byte {end} and had {size} bytes: it was truncated")
    };
    io::Error::new(io::ErrorKind::UnexpectedEof, message)
}

impl fmt::Debug for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Bytes({})", self.len())
    }
}

/// The file system of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileBackend;

impl Backend for FileBackend {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn BackendReader>> {
        FileReader::of(File::open(path)?)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn BackendFile>> {
        Ok(Box::new(File::create_new(path)?))
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn rename(&self, source: &Path, target: &Path) -> io::Result<()> {
        fs::rename(source, target)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        match fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if path.is_dir() {
                    Ok(())
                } else {
                    Err(io::ErrorKind::NotADirectory.into())
                }
            }
            result => result,
        }
    }

    #[cfg(unix)]
    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    // Elsewhere a directory cannot be opened as a file; its entries are as durable as the system makes them.
    #[cfg(not(unix))]
    fn sync_directory(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let mut names = fs::read_dir(path)?
            .map(|entry| Ok(entry?.file_name()))
            .collect::<io::Result<Vec<_>>>()?;
        names.sort_unstable();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    #[cfg(unix)]
    fn within(&self, directory: &Arc<HeldDirectory>) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(HeldBackend(Arc::clone(directory))))
    }
}

/// The files of a directory that is held, under paths below that which it had when it was opened.
#[cfg(unix)]
#[derive(Debug)]
struct HeldBackend(Arc<HeldDirectory>);

#[cfg(unix)]
impl Backend for HeldBackend {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn BackendReader>> {
        FileReader::of(self.0.open_file(path)?)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn BackendFile>> {
        Ok(Box::new(self.0.create(path)?))
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.0.open_file(path)?.sync_all()
    }

    fn rename(&self, source: &Path, target: &Path) -> io::Result<()> {
        self.0.rename(source, target)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.0.create_directory(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.0.open_directory(path)?.sync_all()
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.0.list(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.0.status(path)?.is_some())
    }

    fn outward_path(&self, path: &Path) -> io::Result<PathBuf> {
        self.0.outward_path(path)
    }
}

impl BackendFile for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

/// A file of the operating system that is written, read and forgotten by this process: nothing makes it durable.
pub(crate) struct TemporaryFile(pub(crate) File);

impl TemporaryFile {
    /// Reads what has been written to a file.
    pub(crate) fn reader(file: File) -> io::Result<Arc<dyn BackendReader>> {
        FileReader::of(file)
    }
}

impl Write for TemporaryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl BackendFile for TemporaryFile {
    fn sync(&mut self) -> io::Result<()> {
        self.flush()
    }
}

/// A file of the operating system, open.
#[derive(Debug)]
struct FileReader {
    file: File,
    size: u64,
}

impl FileReader {
    /// A file that was just opened.
    fn of(file: File) -> io::Result<Arc<dyn BackendReader>> {
        let size = file.metadata()?.len();
        let reader = FileReader { file, size };
        if size <= WHOLE_SIZE_MAX {
            return Ok(Arc::new(reader.read_at(0, size)?));
        }
        Ok(Arc::new(reader))
    }
}

impl BackendReader for FileReader {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, size: u64) -> io::Result<Bytes> {
        check_range(offset, size, self.size)?;
        let length = usize::try_from(size).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length)?;
        bytes.resize(length, 0);
        let mut filled = 0;
        while filled < length {
            let at = offset + filled as u64;
            match read_some(&self.file, &mut bytes[filled..], at) {
                Ok(0) => return Err(ends_early(at, self.size)),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Bytes::from(bytes))
    }
}

#[cfg(unix)]
fn read_some(file: &File, target: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, target, offset)
}

#[cfg(windows)]
fn read_some(file: &File, target: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, target, offset)
}

/// Files in memory, for databases that are never stored. Everything is gone when it is dropped.
///
/// Directories exist once created; parents are not checked.
#[derive(Debug, Default)]
pub struct MemoryBackend(Mutex<MemoryTree>);

#[derive(Debug, Default)]
struct MemoryTree {
    files: BTreeMap<PathBuf, Arc<MemoryFile>>,
    directories: BTreeSet<PathBuf>,
}

/// Content of a file in memory. Views share the inner `Arc`; a write while one is held copies.
#[derive(Debug, Default)]
struct MemoryFile(Mutex<Arc<Vec<u8>>>);

impl MemoryBackend {
    /// A backend without any file.
    pub fn new() -> Self {
        Self::default()
    }
}

impl MemoryTree {
    fn file(&self, path: &Path) -> io::Result<&Arc<MemoryFile>> {
        self.files.get(path).ok_or_else(not_found)
    }
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Backend for MemoryBackend {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn BackendReader>> {
        let tree = self.0.lock();
        let content = tree.file(path)?.0.lock();
        Ok(Arc::new(Bytes::from(Arc::clone(&content))))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn BackendFile>> {
        let mut tree = self.0.lock();
        if tree.files.contains_key(path) || tree.directories.contains(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = Arc::<MemoryFile>::default();
        tree.files.insert(path.to_path_buf(), Arc::clone(&file));
        Ok(Box::new(MemoryWriter(file)))
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.0.lock().file(path).map(drop)
    }

    fn rename(&self, source: &Path, target: &Path) -> io::Result<()> {
        let mut tree = self.0.lock();
        let file = tree.files.remove(source).ok_or_else(not_found)?;
        tree.files.insert(target.to_path_buf(), file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0
            .lock()
            .files
            .remove(path)
            .map(drop)
            .ok_or_else(not_found)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.0.lock().directories.insert(path.to_path_buf());
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        if self.0.lock().directories.contains(path) {
            Ok(())
        } else {
            Err(not_found())
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let tree = self.0.lock();
        if !tree.directories.contains(path) {
            return Err(not_found());
        }
        let mut names: Vec<OsString> = (tree.files.keys().chain(&tree.directories))
            .filter(|entry| entry.parent() == Some(path))
            .filter_map(|entry| entry.file_name().map(OsString::from))
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let tree = self.0.lock();
        Ok(tree.files.contains_key(path) || tree.directories.contains(path))
    }

    fn is_file_system(&self) -> bool {
        false
    }
}

/// A file in memory being written; it stays valid when the file is renamed or removed, as on Unix.
struct MemoryWriter(Arc<MemoryFile>);

impl Write for MemoryWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Arc::make_mut(&mut self.0.0.lock()).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl BackendFile for MemoryWriter {
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Another backend with every change refused, as on a file system that is mounted read-only.
///
/// A database opened for reading goes through it, so that no code path can write by mistake.
#[derive(Debug)]
pub struct ReadOnlyBackend {
    inner: Arc<dyn Backend>,
    pinned: Mutex<BTreeMap<PathBuf, Arc<dyn BackendReader>>>,
}

impl ReadOnlyBackend {
    /// Reads through `inner`.
    pub fn new(inner: Arc<dyn Backend>) -> Self {
        ReadOnlyBackend {
            inner,
            pinned: Mutex::default(),
        }
    }

    /// Keeps the content of a file readable even if another process removes it. Costs a file descriptor, except for a
    /// small file.
    pub fn pin(&self, path: &Path) -> io::Result<()> {
        let file = self.inner.open(path)?;
        self.pinned.lock().insert(path.to_path_buf(), file);
        Ok(())
    }

    /// The paths of all files that are pinned, ascending.
    pub(crate) fn pinned(&self) -> Vec<PathBuf> {
        self.pinned.lock().keys().cloned().collect()
    }

    /// What it reads through: files as they are now, pinned or not.
    pub(crate) fn inner(&self) -> &Arc<dyn Backend> {
        &self.inner
    }

    /// Ends all pins. Readers handed out stay valid.
    pub fn unpin(&self) {
        self.pinned.lock().clear();
    }
}

fn refused<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Backend for ReadOnlyBackend {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn BackendReader>> {
        if let Some(file) = self.pinned.lock().get(path) {
            return Ok(Arc::clone(file));
        }
        self.inner.open(path)
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
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// What every backend must do, in an empty directory `root`.
    fn behaves_like_a_file_system(backend: &dyn Backend, root: &Path) {
        let (a, b) = (root.join("a"), root.join("b"));
        assert_eq!(
            backend.read(&a).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        assert_eq!(
            backend.remove(&a).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        assert_eq!(
            backend.rename(&a, &b).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        assert_eq!(
            backend.list(&root.join("none")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );

        let mut file = backend.create(&a).unwrap();
        file.write_all(b"one").unwrap();
        file.write_all(b" two").unwrap();
        file.sync().unwrap();
        drop(file);
        assert_eq!(
            backend.create(&a).err().unwrap().kind(),
            io::ErrorKind::AlreadyExists
        );
        let view = backend.read(&a).unwrap();
        assert_eq!(&*view, b"one two");
        let reader = backend.open(&a).unwrap();
        assert_eq!(reader.size(), 7);
        assert_eq!(&*reader.read_at(4, 3).unwrap(), b"two");
        assert_eq!(&*reader.read_at(7, 0).unwrap(), b"");
        for (offset, size) in [(5, 3), (8, 0), (0, 8), (u64::MAX, 1)] {
            let error = reader.read_at(offset, size).unwrap_err();
            assert_eq!(
                error.kind(),
                io::ErrorKind::UnexpectedEof,
                "{offset} {size}"
            );
        }

        backend.create(&b).unwrap();
        assert_eq!(&*backend.read(&b).unwrap(), b"");
        backend.rename(&a, &b).unwrap();
        backend.sync_directory(root).unwrap();
        backend.sync_file(&b).unwrap();
        assert!(!backend.exists(&a).unwrap());
        assert_eq!(&*backend.read(&b).unwrap(), b"one two");

        let inner = root.join("inner");
        backend.create_directory(&inner).unwrap();
        backend.create_directory(&inner).unwrap();
        backend.create(&inner.join("c")).unwrap();
        assert_eq!(backend.list(root).unwrap(), ["b", "inner"]);
        assert_eq!(backend.list(&inner).unwrap(), ["c"]);

        backend.remove(&b).unwrap();
        assert!(!backend.exists(&b).unwrap());
        assert_eq!(&*view, b"one two", "bytes outlive their file");
        assert_eq!(&*reader.read_at(0, 3).unwrap(), b"one", "a reader too");
    }

    #[test]
    fn the_file_backend_behaves_like_a_file_system() {
        let directory = tempfile::tempdir().unwrap();
        behaves_like_a_file_system(&FileBackend, directory.path());
    }

    #[cfg(unix)]
    #[test]
    fn a_held_directory_behaves_like_a_file_system_wherever_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let (path, moved) = (directory.path().join("a"), directory.path().join("moved"));
        fs::create_dir(&path).unwrap();
        let held = HeldDirectory::open(&path).unwrap();
        fs::rename(&path, &moved).unwrap();
        // Another one has its path, with what the test expects to create.
        fs::create_dir_all(path.join("inner")).unwrap();
        fs::write(path.join("a"), "of another").unwrap();
        let backend = FileBackend.within(&held).unwrap();
        behaves_like_a_file_system(&*backend, &path);
        assert_eq!(fs::read(path.join("a")).unwrap(), b"of another");
        assert_eq!(fs::read_dir(path.join("inner")).unwrap().count(), 0);
        assert!(moved.join("inner/c").exists());
        if cfg!(target_os = "linux") {
            // What sled opens.
            let outward = backend.outward_path(&path.join("inner/d")).unwrap();
            fs::write(outward, "").unwrap();
            assert!(moved.join("inner/d").exists());
        }
        assert!(backend.open(&moved.join("inner/c")).is_err(), "outside");
    }

    #[test]
    fn a_large_file_is_read_in_parts_and_one_that_became_shorter_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let content: Vec<u8> = (0..WHOLE_SIZE_MAX + 10).map(|byte| byte as u8).collect();
        FileBackend
            .create(&path)
            .unwrap()
            .write_all(&content)
            .unwrap();
        let reader = FileBackend.open(&path).unwrap();
        assert_eq!(&*reader.read_at(0, reader.size()).unwrap(), &content[..]);
        assert_eq!(&*reader.read_at(300, 5).unwrap(), &content[300..305]);
        let error = reader.read_at(WHOLE_SIZE_MAX, 11).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);

        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(1000).unwrap();
        assert_eq!(&*reader.read_at(990, 10).unwrap(), &content[990..1000]);
        let error = reader.read_at(990, 11).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(error.to_string().contains("ends at byte 1000"), "{error}");

        FileBackend.remove(&path).unwrap();
        assert_eq!(&*reader.read_at(0, 4).unwrap(), &content[..4], "removed");
    }

    #[test]
    fn the_memory_backend_behaves_like_a_file_system() {
        let backend = MemoryBackend::new();
        let root = Path::new("memory");
        backend.create_directory(root).unwrap();
        behaves_like_a_file_system(&backend, root);
    }

    #[test]
    fn a_directory_is_not_created_over_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        FileBackend.create(&path).unwrap();
        let error = FileBackend.create_directory(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
    }

    #[test]
    fn a_read_only_backend_reads_and_refuses_every_change() {
        let memory = Arc::new(MemoryBackend::new());
        let root = Path::new("memory");
        memory.create_directory(root).unwrap();
        let path = root.join("a");
        memory.create(&path).unwrap().write_all(b"one").unwrap();

        let backend = ReadOnlyBackend::new(Arc::clone(&memory) as Arc<dyn Backend>);
        assert_eq!(&*backend.read(&path).unwrap(), b"one");
        assert_eq!(backend.list(root).unwrap(), ["a"]);
        assert!(backend.exists(&path).unwrap());
        let refused = [
            backend.create(&root.join("b")).err(),
            backend.sync_file(&path).err(),
            backend.rename(&path, &root.join("b")).err(),
            backend.remove(&path).err(),
            backend.create_directory(&root.join("c")).err(),
            backend.sync_directory(root).err(),
        ];
        for error in refused {
            assert_eq!(error.unwrap().kind(), io::ErrorKind::ReadOnlyFilesystem);
        }

        backend.pin(&path).unwrap();
        memory.remove(&path).unwrap();
        assert_eq!(&*backend.read(&path).unwrap(), b"one", "pinned");
        backend.unpin();
        assert!(backend.read(&path).is_err());
    }
}
