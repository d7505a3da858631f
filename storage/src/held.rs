//! A directory that is held open, and the files in it by its descriptor instead of its path.
//!
//! Invariant: an operation on a [`HeldDirectory`] works in the directory that was opened, wherever that has been moved since and
//! whatever has its path now. The folders in it are held too, from their first use on: a symbolic link is followed then and at no
//! time after.
//!
//! What it means for a database that a path leads elsewhere is decided in `ownership.rs`. Where directories cannot be opened
//! (systems other than Unix), operations go by path, and every path counts as leading where it led before.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory that is held open.
#[derive(Debug)]
pub struct HeldDirectory {
    /// As it was given; the paths of its files begin with it.
    path: PathBuf,
    /// The path, independent of the current directory of the process.
    absolute: PathBuf,
    held: imp::Held,
}

pub(crate) use imp::FileStatus;

impl HeldDirectory {
    /// Opens the directory that has this path now.
    pub(crate) fn open(path: &Path) -> io::Result<Arc<HeldDirectory>> {
        Ok(Arc::new(HeldDirectory {
            path: path.to_path_buf(),
            absolute: std::path::absolute(path)?,
            held: imp::Held::open(path)?,
        }))
    }

    /// Its path when it was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether its path still leads to it.
    pub(crate) fn is_in_place(&self) -> io::Result<bool> {
        // The absolute path goes on holding when the process changes its current directory, the given one when a directory above
        // both is renamed.
        Ok(self.held.is_at(&self.path)? || self.held.is_at(&self.absolute)?)
    }

    /// Whether the folder of this name is the one that is held, if it is.
    pub(crate) fn is_folder_in_place(&self, name: &str) -> io::Result<bool> {
        self.held.is_folder_at(Path::new(name))
    }

    /// What has this path now, if anything.
    pub(crate) fn status(&self, path: &Path) -> io::Result<Option<FileStatus>> {
        self.held.status(self.relative(path)?)
    }

    /// As `status`, by the names in the directory, whatever folders they lead to.
    pub(crate) fn named_status(&self, path: &Path) -> io::Result<Option<FileStatus>> {
        self.held.named_status(self.relative(path)?)
    }

    /// Opens the file that `named_status` describes for reading.
    pub(crate) fn open_named(&self, path: &Path) -> io::Result<File> {
        self.held.open_named(self.relative(path)?)
    }

    /// Opens a file for reading.
    pub(crate) fn open_file(&self, path: &Path) -> io::Result<File> {
        self.held.open_file(self.relative(path)?)
    }

    /// Opens a file for reading and writing, and creates it if there is none.
    pub(crate) fn open_or_create(&self, path: &Path) -> io::Result<File> {
        self.held.open_or_create(self.relative(path)?)
    }

    /// Opens a directory as a file of its own, to be synced or locked.
    pub(crate) fn open_directory(&self, path: &Path) -> io::Result<File> {
        self.held.open_directory(self.relative(path)?)
    }

    /// A path of `path` for code that opens files itself: it leads into this directory as long as this value lives, where the
    /// system has such paths. Elsewhere it is the path itself, which the caller checks before.
    pub(crate) fn outward_path(&self, path: &Path) -> io::Result<PathBuf> {
        let relative = self.relative(path)?;
        let directory = self.held.outward_path();
        Ok(directory.map_or_else(|| path.to_path_buf(), |directory| directory.join(relative)))
    }

    /// Removes a file, or a directory with all that is in it.
    pub(crate) fn remove_all(&self, path: &Path) -> io::Result<()> {
        let outward = self.outward_path(path)?;
        self.held.forget(self.relative(path)?);
        if outward.is_dir() {
            std::fs::remove_dir_all(&outward)
        } else {
            std::fs::remove_file(&outward)
        }
    }

    /// A path below this one, without that.
    fn relative<'a>(&self, path: &'a Path) -> io::Result<&'a Path> {
        path.strip_prefix(&self.path).map_err(|_| {
            let message = format!("it does not lie in {}", self.path.display());
            io::Error::new(io::ErrorKind::InvalidInput, message)
        })
    }
}

/// What only [`HeldDirectory`] on Unix can do: the operations of a backend.
#[cfg(unix)]
impl HeldDirectory {
    pub(crate) fn create(&self, path: &Path) -> io::Result<File> {
        self.held.create(self.relative(path)?)
    }

    pub(crate) fn rename(&self, source: &Path, target: &Path) -> io::Result<()> {
        (self.held).rename(self.relative(source)?, self.relative(target)?)
    }

    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        self.held.remove(self.relative(path)?)
    }

    pub(crate) fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.held.create_directory(self.relative(path)?)
    }

    pub(crate) fn list(&self, path: &Path) -> io::Result<Vec<std::ffi::OsString>> {
        self.held.list(self.relative(path)?)
    }
}

#[cfg(unix)]
mod imp {
    use std::collections::BTreeMap;
    use std::ffi::{OsStr, OsString};
    use std::fs::File;
    use std::io;
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
    use std::os::unix::ffi::OsStrExt;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use parking_lot::Mutex;
    use rustix::fs::{
        AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, renameat, statat,
        unlinkat,
    };
    use rustix::io::{Errno, retry_on_intr};

    /// How directories are held. Linux asks for no right to list them, which readers need not have.
    #[cfg(target_os = "linux")]
    const HOLD: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
    #[cfg(not(target_os = "linux"))]
    const HOLD: OFlags = OFlags::RDONLY
        .union(OFlags::DIRECTORY)
        .union(OFlags::CLOEXEC);

    #[derive(Debug)]
    pub(super) struct Held {
        root: Arc<HeldFolder>,
        /// Folders by their path in the directory.
        folders: Mutex<BTreeMap<PathBuf, Arc<HeldFolder>>>,
    }

    #[derive(Debug)]
    struct HeldFolder {
        descriptor: OwnedFd,
        /// As it was opened.
        status: FileStatus,
    }

    impl AsFd for HeldFolder {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.descriptor.as_fd()
        }
    }

    impl HeldFolder {
        fn open(directory: impl AsFd, path: &Path) -> io::Result<Arc<HeldFolder>> {
            let descriptor = retry_on_intr(|| openat(&directory, path, HOLD, Mode::empty()))?;
            let status = FileStatus(fstat(&descriptor)?);
            Ok(Arc::new(HeldFolder { descriptor, status }))
        }

        /// Whether this is what was found under a name.
        fn is(&self, found: Option<FileStatus>) -> io::Result<bool> {
            match found {
                None => Ok(false),
                Some(found) if found.is_same_file(&self.status) => Ok(true),
                // Where the number of a file changes while it is open, both are asked now.
                Some(found) => Ok(found.is_same_file(&FileStatus(fstat(&self.descriptor)?))),
            }
        }
    }

    /// What a name leads to, as far as that shows without reading it. Two that are equal mean one file with one content, unless
    /// that was changed within a tick of the system's clock.
    #[derive(Clone, Copy)]
    pub(crate) struct FileStatus(Stat);

    impl FileStatus {
        /// That of an open file.
        pub(crate) fn of(file: &File) -> io::Result<FileStatus> {
            Ok(FileStatus(fstat(file)?))
        }

        /// Its size in bytes.
        pub(crate) fn size(&self) -> u64 {
            u64::try_from(self.0.st_size).unwrap_or(0)
        }

        fn is_directory(&self) -> bool {
            FileType::from_raw_mode(self.0.st_mode) == FileType::Directory
        }

        /// Whether both are of one file, whatever it holds.
        pub(crate) fn is_same_file(&self, other: &FileStatus) -> bool {
            let (a, b) = (&self.0, &other.0);
            a.st_dev == b.st_dev && a.st_ino == b.st_ino
        }
    }

    impl PartialEq for FileStatus {
        fn eq(&self, other: &FileStatus) -> bool {
            let (a, b) = (&self.0, &other.0);
            self.is_same_file(other)
                && a.st_size == b.st_size
                && a.st_mtime == b.st_mtime
                && a.st_mtime_nsec == b.st_mtime_nsec
                && a.st_ctime == b.st_ctime
                && a.st_ctime_nsec == b.st_ctime_nsec
        }
    }

    impl std::fmt::Debug for FileStatus {
        fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(formatter, "FileStatus({}, {})", self.0.st_ino, self.size())
        }
    }

    /// What a path leads to; none if it leads nowhere.
    fn find(directory: impl AsFd, path: &Path) -> io::Result<Option<FileStatus>> {
        match retry_on_intr(|| statat(&directory, path, AtFlags::empty())) {
            Ok(found) => Ok(Some(FileStatus(found))),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn open(directory: impl AsFd, path: &Path, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        let file = retry_on_intr(|| openat(&directory, path, flags, mode))?;
        Ok(file.into())
    }

    /// The directory itself, as the name of a file.
    fn named(path: &Path) -> &Path {
        if path == Path::new("") {
            Path::new(".")
        } else {
            path
        }
    }

    impl Held {
        pub(super) fn open(path: &Path) -> io::Result<Held> {
            Ok(Held {
                root: HeldFolder::open(CWD, path)?,
                folders: Mutex::default(),
            })
        }

        /// The folder that holds what has this path, and the name of that in it.
        fn place<'a>(&self, path: &'a Path) -> io::Result<(Arc<HeldFolder>, &'a Path)> {
            match (path.parent(), path.file_name()) {
                (Some(folder), Some(name)) if folder != Path::new("") => {
                    Ok((self.folder(folder)?, Path::new(name)))
                }
                _ => Ok((Arc::clone(&self.root), named(path))),
            }
        }

        fn folder(&self, path: &Path) -> io::Result<Arc<HeldFolder>> {
            let mut folders = self.folders.lock();
            if let Some(folder) = folders.get(path) {
                return Ok(Arc::clone(folder));
            }
            let folder = HeldFolder::open(&self.root, path)?;
            folders.insert(path.to_path_buf(), Arc::clone(&folder));
            Ok(folder)
        }

        /// A name leads to another folder from here on.
        pub(super) fn forget(&self, path: &Path) {
            self.folders.lock().remove(path);
        }

        pub(super) fn is_at(&self, path: &Path) -> io::Result<bool> {
            self.root.is(find(CWD, path)?)
        }

        pub(super) fn is_folder_at(&self, path: &Path) -> io::Result<bool> {
            let Some(folder) = self.folders.lock().get(path).map(Arc::clone) else {
                return Ok(true);
            };
            folder.is(find(&self.root, path)?)
        }

        pub(super) fn status(&self, path: &Path) -> io::Result<Option<FileStatus>> {
            match self.place(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                place => place.and_then(|(folder, name)| find(&folder, name)),
            }
        }

        pub(super) fn named_status(&self, path: &Path) -> io::Result<Option<FileStatus>> {
            find(&self.root, path)
        }

        pub(super) fn open_named(&self, path: &Path) -> io::Result<File> {
            open(&self.root, path, OFlags::RDONLY)
        }

        pub(super) fn open_file(&self, path: &Path) -> io::Result<File> {
            let (folder, name) = self.place(path)?;
            open(&folder, name, OFlags::RDONLY)
        }

        pub(super) fn open_or_create(&self, path: &Path) -> io::Result<File> {
            let (folder, name) = self.place(path)?;
            open(&folder, name, OFlags::RDWR | OFlags::CREATE)
        }

        pub(super) fn open_directory(&self, path: &Path) -> io::Result<File> {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let folder = if path == Path::new("") {
                Arc::clone(&self.root)
            } else {
                self.folder(path)?
            };
            open(&folder, Path::new("."), flags)
        }

        pub(super) fn create(&self, path: &Path) -> io::Result<File> {
            let (folder, name) = self.place(path)?;
            open(
                &folder,
                name,
                OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL,
            )
        }

        pub(super) fn rename(&self, source: &Path, target: &Path) -> io::Result<()> {
            let (from, name) = self.place(source)?;
            let (to, new_name) = self.place(target)?;
            renameat(&from, name, &to, new_name)?;
            self.forget(source);
            self.forget(target);
            Ok(())
        }

        pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
            let (folder, name) = self.place(path)?;
            Ok(unlinkat(&folder, name, AtFlags::empty())?)
        }

        pub(super) fn create_directory(&self, path: &Path) -> io::Result<()> {
            let (folder, name) = self.place(path)?;
            match mkdirat(&folder, name, Mode::from_raw_mode(0o777)) {
                Ok(()) => {
                    self.forget(path);
                    Ok(())
                }
                Err(Errno::EXIST) => match find(&folder, name)? {
                    Some(found) if found.is_directory() => Ok(()),
                    _ => Err(io::ErrorKind::NotADirectory.into()),
                },
                Err(error) => Err(error.into()),
            }
        }

        pub(super) fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
            let directory = self.open_directory(path)?;
            let mut names = Vec::new();
            for entry in Dir::new(OwnedFd::from(directory))? {
                let name = entry?.file_name().to_bytes().to_vec();
                if name != b"." && name != b".." {
                    names.push(OsStr::from_bytes(&name).to_owned());
                }
            }
            names.sort_unstable();
            Ok(names)
        }

        /// A path of the directory that no rename changes, if this system has one.
        pub(super) fn outward_path(&self) -> Option<PathBuf> {
            let path =
                Path::new("/proc/self/fd").join(self.root.descriptor.as_raw_fd().to_string());
            self.is_at(&path).unwrap_or(false).then_some(path)
        }
    }
}

#[cfg(not(unix))]
mod imp {
    use std::fs::{self, File, OpenOptions};
    use std::io;
    use std::path::{Path, PathBuf};
    use std::time::SystemTime;

    #[derive(Debug)]
    pub(super) struct Held(PathBuf);

    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) struct FileStatus {
        size: u64,
        modified: Option<SystemTime>,
    }

    impl FileStatus {
        /// That of an open file.
        pub(crate) fn of(file: &File) -> io::Result<FileStatus> {
            Ok(FileStatus::from(file.metadata()?))
        }

        fn from(found: fs::Metadata) -> FileStatus {
            FileStatus {
                size: found.len(),
                modified: found.modified().ok(),
            }
        }

        /// Its size in bytes.
        pub(crate) fn size(&self) -> u64 {
            self.size
        }

        /// Whether both are of one file, whatever it holds: this system does not say.
        pub(crate) fn is_same_file(&self, _other: &FileStatus) -> bool {
            true
        }
    }

    impl Held {
        pub(super) fn open(path: &Path) -> io::Result<Held> {
            Ok(Held(path.to_path_buf()))
        }

        pub(super) fn is_at(&self, path: &Path) -> io::Result<bool> {
            Ok(path.is_dir())
        }

        pub(super) fn is_folder_at(&self, _path: &Path) -> io::Result<bool> {
            Ok(true)
        }

        pub(super) fn status(&self, path: &Path) -> io::Result<Option<FileStatus>> {
            match fs::metadata(self.0.join(path)) {
                Ok(found) => Ok(Some(FileStatus::from(found))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            }
        }

        pub(super) fn named_status(&self, path: &Path) -> io::Result<Option<FileStatus>> {
            self.status(path)
        }

        pub(super) fn open_file(&self, path: &Path) -> io::Result<File> {
            File::open(self.0.join(path))
        }

        pub(super) fn open_named(&self, path: &Path) -> io::Result<File> {
            self.open_file(path)
        }

        pub(super) fn open_or_create(&self, path: &Path) -> io::Result<File> {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            options.open(self.0.join(path))
        }

        pub(super) fn open_directory(&self, _path: &Path) -> io::Result<File> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(super) fn forget(&self, _path: &Path) {}

        pub(super) fn outward_path(&self) -> Option<PathBuf> {
            None
        }
    }
}
