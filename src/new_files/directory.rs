//! A directory by its descriptor, independent of its path.
//!
//! Invariant: files and directories opened, made and removed by name lie in the directory that was opened. A name is one
//! component, not `.` or `..`; a symbolic link of that name is an error and is never followed.

use std::io;
use std::path::Path;

pub(crate) use imp::{Directory, FileIdentity, FileMode};

fn is_link(name: &Path) -> io::Error {
    io::Error::other(format!(
        "\"{}\" is a symbolic link, which is not followed; hint: remove it or choose another directory",
        name.display()
    ))
}

#[cfg(unix)]
mod imp {
    use std::ffi::OsStr;
    use std::fs::File;
    use std::io;
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    use rustix::fs::{
        AtFlags, CWD, FileType, Mode, OFlags, linkat, mkdirat, openat, renameat, statat, unlinkat,
    };
    use rustix::io::Errno;

    /// The permission bits of a file.
    pub(crate) type FileMode = rustix::fs::RawMode;

    /// The identity of a file, whatever its name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct FileIdentity {
        device: u64,
        inode: u64,
    }

    impl FileIdentity {
        pub(crate) fn of(file: &File) -> io::Result<FileIdentity> {
            let found = file.metadata()?;
            Ok(FileIdentity {
                device: found.dev(),
                inode: found.ino(),
            })
        }
    }

    /// A directory, by a descriptor.
    #[derive(Debug)]
    pub(crate) struct Directory(OwnedFd);

    /// The flags that open directories: on Linux also one that may be searched and not listed.
    #[cfg(target_os = "linux")]
    const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
    #[cfg(not(target_os = "linux"))]
    const DIRECTORY: OFlags = OFlags::RDONLY
        .union(OFlags::DIRECTORY)
        .union(OFlags::CLOEXEC);

    impl Directory {
        /// Opens a directory. Symbolic links in the path are followed.
        pub(crate) fn open(path: &Path) -> io::Result<Directory> {
            Ok(Directory(openat(CWD, path, DIRECTORY, Mode::empty())?))
        }

        pub(crate) fn try_clone(&self) -> io::Result<Directory> {
            self.0.try_clone().map(Directory)
        }

        /// Opens a directory in it; none if the name is free.
        pub(crate) fn enter(&self, name: &OsStr) -> io::Result<Option<Directory>> {
            match openat(&self.0, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) {
                Ok(opened) => Ok(Some(Directory(opened))),
                Err(Errno::NOENT) => Ok(None),
                Err(error) => Err(self.explain(name, error)),
            }
        }

        /// Makes a directory in it; `false` if the name is taken.
        pub(crate) fn make_directory(&self, name: &OsStr) -> io::Result<bool> {
            match mkdirat(&self.0, name, Mode::from_raw_mode(0o777)) {
                Ok(()) => Ok(true),
                Err(Errno::EXIST) => Ok(false),
                Err(error) => Err(error.into()),
            }
        }

        /// Opens a regular file for reading; none if the name is free.
        pub(crate) fn open_file(&self, name: &OsStr) -> io::Result<Option<File>> {
            // Opening a pipe without a writer must not block.
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            match openat(&self.0, name, flags, Mode::empty()).map(File::from) {
                Ok(file) if file.metadata()?.is_file() => Ok(Some(file)),
                Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
                Err(Errno::NOENT) => Ok(None),
                Err(error) => Err(self.explain(name, error)),
            }
        }

        /// Creates a file for writing, which must not exist yet.
        pub(in crate::new_files) fn create_file(
            &self,
            name: &OsStr,
            mode: FileMode,
        ) -> io::Result<File> {
            let flags =
                OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            Ok(openat(&self.0, name, flags, Mode::from_raw_mode(mode))?.into())
        }

        /// Creates a file without a name, for writing; none where the system could not give it a name later.
        #[cfg(target_os = "linux")]
        pub(in crate::new_files) fn create_unnamed(&self, mode: FileMode) -> Option<File> {
            let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
            let file = openat(&self.0, ".", flags, Mode::from_raw_mode(mode)).ok()?;
            let file = File::from(file);
            let found = statat(CWD, descriptor_path(&file), AtFlags::SYMLINK_NOFOLLOW);
            found.is_ok().then_some(file)
        }

        #[cfg(not(target_os = "linux"))]
        pub(in crate::new_files) fn create_unnamed(&self, _mode: FileMode) -> Option<File> {
            None
        }

        /// Gives a file without a name a free name.
        pub(in crate::new_files) fn link_unnamed(
            &self,
            file: &File,
            name: &OsStr,
        ) -> io::Result<()> {
            let flags = AtFlags::SYMLINK_FOLLOW;
            Ok(linkat(CWD, descriptor_path(file), &self.0, name, flags)?)
        }

        /// Gives a file a second, free name.
        pub(in crate::new_files) fn link(&self, name: &OsStr, second: &OsStr) -> io::Result<()> {
            Ok(linkat(&self.0, name, &self.0, second, AtFlags::empty())?)
        }

        /// Renames a file, replacing the file that has the new name.
        pub(in crate::new_files) fn rename(&self, name: &OsStr, other: &OsStr) -> io::Result<()> {
            Ok(renameat(&self.0, name, &self.0, other)?)
        }

        pub(in crate::new_files) fn remove_file(&self, name: &OsStr) -> io::Result<()> {
            Ok(unlinkat(&self.0, name, AtFlags::empty())?)
        }

        /// Removes the name of a file, if the name still leads to this file.
        #[allow(clippy::unnecessary_cast)] // the numbers have other types on other systems
        pub(crate) fn remove(&self, name: &OsStr, identity: FileIdentity) -> io::Result<()> {
            match statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found)
                    if (found.st_dev as u64, found.st_ino as u64)
                        == (identity.device, identity.inode) =>
                {
                    self.remove_file(name)
                }
                Ok(_) | Err(Errno::NOENT) => Ok(()),
                Err(error) => Err(error.into()),
            }
        }

        /// Removes a directory in it, if it is empty.
        pub(crate) fn remove_directory(&self, name: &OsStr) -> io::Result<()> {
            Ok(unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
        }

        /// Makes names durable, where the system supports it.
        pub(crate) fn sync(&self) -> io::Result<()> {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            match openat(&self.0, ".", flags, Mode::empty()) {
                Ok(directory) => File::from(directory).sync_all(),
                Err(_) => Ok(()),
            }
        }

        /// The error for a symbolic link, which differs between systems.
        fn explain(&self, name: &OsStr, error: Errno) -> io::Error {
            let found = statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW);
            match found.map(|found| FileType::from_raw_mode(found.st_mode)) {
                Ok(FileType::Symlink) => super::is_link(Path::new(name)),
                _ => error.into(),
            }
        }
    }

    /// A path that leads to an open file.
    fn descriptor_path(file: &File) -> String {
        format!("/proc/self/fd/{}", file.as_raw_fd())
    }
}

// Other systems cannot open directories: a name is checked before it is used.
#[cfg(not(unix))]
mod imp {
    use std::ffi::OsStr;
    use std::fs::{self, File, OpenOptions};
    use std::io;
    use std::path::{Path, PathBuf};

    /// The permission bits of a file, which this system keeps elsewhere.
    pub(crate) type FileMode = u32;

    /// Stands for any file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct FileIdentity;

    impl FileIdentity {
        pub(crate) fn of(_file: &File) -> io::Result<FileIdentity> {
            Ok(FileIdentity)
        }
    }

    /// A directory, by its path without links.
    #[derive(Debug)]
    pub(crate) struct Directory(PathBuf);

    impl Directory {
        pub(crate) fn open(path: &Path) -> io::Result<Directory> {
            let path = fs::canonicalize(path)?;
            if !fs::metadata(&path)?.is_dir() {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            Ok(Directory(path))
        }

        pub(crate) fn try_clone(&self) -> io::Result<Directory> {
            Ok(Directory(self.0.clone()))
        }

        pub(crate) fn enter(&self, name: &OsStr) -> io::Result<Option<Directory>> {
            match self.look(name)? {
                None => Ok(None),
                Some(found) if found.is_dir() => Ok(Some(Directory(self.0.join(name)))),
                Some(_) => Err(io::ErrorKind::NotADirectory.into()),
            }
        }

        pub(crate) fn make_directory(&self, name: &OsStr) -> io::Result<bool> {
            match fs::create_dir(self.0.join(name)) {
                Ok(()) => Ok(true),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
                Err(error) => Err(error),
            }
        }

        pub(crate) fn open_file(&self, name: &OsStr) -> io::Result<Option<File>> {
            match self.look(name)? {
                None => Ok(None),
                Some(found) if found.is_file() => File::open(self.0.join(name)).map(Some),
                Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
            }
        }

        pub(in crate::new_files) fn create_file(
            &self,
            name: &OsStr,
            _mode: FileMode,
        ) -> io::Result<File> {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).open(self.0.join(name))
        }

        pub(in crate::new_files) fn create_unnamed(&self, _mode: FileMode) -> Option<File> {
            None
        }

        pub(in crate::new_files) fn link_unnamed(
            &self,
            _file: &File,
            _name: &OsStr,
        ) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(in crate::new_files) fn link(&self, name: &OsStr, second: &OsStr) -> io::Result<()> {
            fs::hard_link(self.0.join(name), self.0.join(second))
        }

        pub(in crate::new_files) fn rename(&self, name: &OsStr, other: &OsStr) -> io::Result<()> {
            fs::rename(self.0.join(name), self.0.join(other))
        }

        pub(in crate::new_files) fn remove_file(&self, name: &OsStr) -> io::Result<()> {
            fs::remove_file(self.0.join(name))
        }

        pub(crate) fn remove(&self, name: &OsStr, _identity: FileIdentity) -> io::Result<()> {
            self.remove_file(name)
        }

        pub(crate) fn remove_directory(&self, name: &OsStr) -> io::Result<()> {
            fs::remove_dir(self.0.join(name))
        }

        pub(crate) fn sync(&self) -> io::Result<()> {
            Ok(())
        }

        /// The metadata of a name, if it is taken.
        fn look(&self, name: &OsStr) -> io::Result<Option<fs::Metadata>> {
            match fs::symlink_metadata(self.0.join(name)) {
                Ok(found) if found.is_symlink() => Err(super::is_link(Path::new(name))),
                Ok(found) => Ok(Some(found)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            }
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_name_that_is_that_of_another_file_by_now_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path()).unwrap();
        let file = directory.create_file("name".as_ref(), 0o600).unwrap();
        let identity = FileIdentity::of(&file).unwrap();
        fs::write(folder.path().join("other"), "other").unwrap();
        fs::rename(folder.path().join("other"), folder.path().join("name")).unwrap();
        directory.remove("name".as_ref(), identity).unwrap();
        assert_eq!(fs::read(folder.path().join("name")).unwrap(), b"other");
        let identity = FileIdentity::of(&fs::File::open(folder.path().join("name")).unwrap());
        directory
            .remove("name".as_ref(), identity.unwrap())
            .unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_no_file_is_not_opened_as_one() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path()).unwrap();
        assert!(directory.open_file("none".as_ref()).unwrap().is_none());
        fs::create_dir(folder.path().join("directory")).unwrap();
        symlink("none", folder.path().join("link")).unwrap();
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        for name in ["directory", "pipe"] {
            let error = directory.open_file(name.as_ref()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{name}");
        }
        let error = directory.open_file("link".as_ref()).unwrap_err();
        assert!(error.to_string().contains("is a symbolic link"), "{error}");
    }
}
