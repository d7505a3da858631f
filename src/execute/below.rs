//! Files below a directory, whatever others put there.
//!
//! Invariant: a file that is created lies below the directory that was opened. Each component is opened below the one
//! before it and is never a symbolic link, so no link, whenever it comes, leads elsewhere. Names have no `.` and `..`;
//! what is escaped in them becomes the bytes it stands for.

use std::fs::File;
use std::io;
use std::path::Path;

/// A directory to write files below.
pub(crate) struct Below(imp::Directory);

/// A file that was created, and where.
pub(crate) struct NewFile {
    pub(crate) file: File,
    parent: imp::Directory,
    name: String,
}

impl Below {
    /// Opens a directory, which is created if it is not there. Symbolic links of `path` itself are followed.
    pub(crate) fn open(path: &Path) -> io::Result<Below> {
        match std::fs::create_dir_all(path) {
            // What is there is no directory.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            created => created?,
        }
        imp::Directory::open(path).map(Below)
    }

    /// Creates a file that must not exist yet, and the directories in its name that do not.
    ///
    /// # Panics
    /// If the name has a component `.` or `..`.
    pub(crate) fn create(&self, name: &str) -> io::Result<NewFile> {
        assert!(!name.split('/').any(|part| matches!(part, "." | "..")));
        let mut parts = name.split('/');
        let last = parts.next_back().unwrap_or_default();
        let mut parent = self.0.try_clone()?;
        for part in parts {
            parent = parent.enter(part)?;
        }
        Ok(NewFile {
            file: parent.create(last)?,
            parent,
            name: last.to_owned(),
        })
    }
}

impl NewFile {
    /// Removes it again.
    pub(crate) fn remove(self) -> io::Result<()> {
        self.parent.remove(&self.name)
    }
}

fn is_link(part: &str) -> io::Error {
    io::Error::other(format!(
        "\"{part}\" is a symbolic link, which is not followed; hint: remove it or choose another directory"
    ))
}

#[cfg(unix)]
mod imp {
    use std::fs::File;
    use std::io;
    use std::os::fd::OwnedFd;
    use std::path::Path;

    use rustix::fs::{AtFlags, FileType, Mode, OFlags, mkdirat, openat, statat, unlinkat};
    use rustix::io::Errno;

    use crate::paths::escaped::restored;

    pub(super) struct Directory(OwnedFd);

    impl Directory {
        pub(super) fn open(path: &Path) -> io::Result<Directory> {
            File::open(path).map(|file| Directory(file.into()))
        }

        pub(super) fn try_clone(&self) -> io::Result<Directory> {
            self.0.try_clone().map(Directory)
        }

        pub(super) fn enter(&self, part: &str) -> io::Result<Directory> {
            let path = restored(part);
            let open = || {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                openat(&self.0, &path[..], flags, Mode::empty())
            };
            let opened = match open() {
                Err(Errno::NOENT) => {
                    match mkdirat(&self.0, &path[..], Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => open(), // another thread was first
                        Err(error) => Err(error),
                    }
                }
                other => other,
            };
            opened
                .map(Directory)
                .map_err(|error| self.explain(part, error))
        }

        pub(super) fn create(&self, name: &str) -> io::Result<File> {
            let flags =
                OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let created = openat(
                &self.0,
                &restored(name)[..],
                flags,
                Mode::from_raw_mode(0o666),
            );
            created
                .map(File::from)
                .map_err(|error| self.explain(name, error))
        }

        pub(super) fn remove(&self, name: &str) -> io::Result<()> {
            Ok(unlinkat(&self.0, &restored(name)[..], AtFlags::empty())?)
        }

        /// What is said of a link differs between systems.
        fn explain(&self, part: &str, error: Errno) -> io::Error {
            let found = statat(&self.0, &restored(part)[..], AtFlags::SYMLINK_NOFOLLOW);
            match found.map(|found| FileType::from_raw_mode(found.st_mode)) {
                Ok(FileType::Symlink) => super::is_link(part),
                _ => error.into(),
            }
        }
    }
}

// Elsewhere directories cannot be opened: each component is looked at before it is used.
#[cfg(not(unix))]
mod imp {
    use std::fs::{self, File};
    use std::io;
    use std::path::{Path, PathBuf};

    pub(super) struct Directory(PathBuf);

    impl Directory {
        pub(super) fn open(path: &Path) -> io::Result<Directory> {
            fs::canonicalize(path).map(Directory)
        }

        pub(super) fn try_clone(&self) -> io::Result<Directory> {
            Ok(Directory(self.0.clone()))
        }

        pub(super) fn enter(&self, part: &str) -> io::Result<Directory> {
            let path = self.0.join(part);
            match fs::create_dir(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            if fs::symlink_metadata(&path)?.is_symlink() {
                return Err(super::is_link(part));
            }
            Ok(Directory(path))
        }

        pub(super) fn create(&self, name: &str) -> io::Result<File> {
            File::create_new(self.0.join(name))
        }

        pub(super) fn remove(&self, name: &str) -> io::Result<()> {
            fs::remove_file(self.0.join(name))
        }
    }
}
