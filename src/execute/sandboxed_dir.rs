//! Files below a directory, safe against links that others put there, and the removal of what was made.
//!
//! Invariant: a new file lies below the directory that was opened. Each component is opened below the one before it and is never
//! a symbolic link, so no link, whenever it is made, leads elsewhere. Names have no `.` and `..`; escapes in them become the
//! bytes that they stand for. `undo` removes what was made here and nothing else.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::new_files::{Directory, FileIdentity, NewFile, PLAIN};

/// A directory to write files below.
pub(crate) struct Below {
    directory: Directory,
    made: Mutex<Made>,
}

/// The files and directories that were made and may be removed again.
#[derive(Default)]
struct Made {
    /// The directory itself and those above it, the outermost first.
    path: Vec<PathBuf>,
    /// Directories below it, by their names.
    directories: Vec<String>,
    files: Vec<(String, FileIdentity)>,
}

/// The place of a file to be written.
pub(crate) struct TargetPlace<'a> {
    below: &'a Below,
    name: &'a str,
    parent: Directory,
    last: OsString,
}

impl Below {
    /// Opens a directory, which is made if it is missing. Symbolic links of `path` itself are followed.
    pub(crate) fn open(path: &Path) -> io::Result<Below> {
        let mut made = Made::default();
        match made.make_path(path).and_then(|()| Directory::open(path)) {
            Ok(directory) => Ok(Below {
                directory,
                made: Mutex::new(made),
            }),
            Err(error) => {
                made.remove_path();
                Err(error)
            }
        }
    }

    /// The place of a name; missing directories in it are made.
    ///
    /// # Panics
    /// If the name has a component `.` or `..`.
    pub(crate) fn place<'a>(&'a self, name: &'a str) -> io::Result<TargetPlace<'a>> {
        assert!(!name.split('/').any(|part| matches!(part, "." | "..")));
        let (parents, last) = split(name);
        let mut parent = self.directory.try_clone()?;
        let mut end = 0;
        for part in parents {
            let first = end;
            end = first + part.len();
            let on_disk = on_disk(part);
            parent = match parent.enter(&on_disk)? {
                Some(entered) => entered,
                None => {
                    // False if another thread was first.
                    if parent.make_directory(&on_disk)? {
                        self.made.lock().directories.push(name[..end].to_owned());
                    }
                    parent.enter(&on_disk)?.ok_or(io::ErrorKind::NotFound)?
                }
            };
            end += 1; // the slash
        }
        Ok(TargetPlace {
            below: self,
            name,
            parent,
            last: on_disk(last).into_owned(),
        })
    }

    /// Removes all that was made.
    ///
    /// # Errors
    /// The first error; the other files are still removed.
    pub(crate) fn undo(self) -> io::Result<()> {
        let mut made = self.made.into_inner();
        let mut removed = Ok(());
        let directory = &self.directory;
        for (name, identity) in &made.files {
            let (parent, last) = parent_of(directory, name);
            let gone = parent.and_then(|parent| match parent {
                Some(parent) => parent.remove(&last, *identity),
                None => Ok(()),
            });
            removed = removed.and(gone);
        }
        // Inner directories before outer ones.
        made.directories
            .sort_by_key(|name| std::cmp::Reverse(name.len()));
        for name in &made.directories {
            let (parent, last) = parent_of(directory, name);
            if let Ok(Some(parent)) = parent {
                // The directory stays if it has other files.
                let _ = parent.remove_directory(&last);
            }
        }
        made.remove_path();
        removed
    }
}

impl Made {
    /// Makes a directory and the missing ones above it.
    fn make_path(&mut self, path: &Path) -> io::Result<()> {
        let missing = path
            .ancestors()
            .take_while(|path| !path.as_os_str().is_empty() && fs::metadata(path).is_err());
        let missing: Vec<&Path> = missing.collect();
        for path in missing.into_iter().rev() {
            match fs::create_dir(path) {
                Ok(()) => self.path.push(path.to_path_buf()),
                // Another process was first, or it is `..` of one that was made. A file that is no directory fails to open as
                // one.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn remove_path(self) {
        for path in self.path.iter().rev() {
            // The directory stays if it has other files.
            let _ = fs::remove_dir(path);
        }
    }
}

impl TargetPlace<'_> {
    /// Opens the file at the place; none if the place is free.
    pub(crate) fn open_file(&self) -> io::Result<Option<File>> {
        self.parent.open_file(&self.last)
    }

    /// A new file, which gets the place when it is published.
    pub(crate) fn new_file(&self) -> io::Result<NewFile> {
        NewFile::create(&self.parent, PLAIN)
    }

    /// Gives a complete file the place.
    ///
    /// # Errors
    /// `AlreadyExists` if the place is taken.
    pub(crate) fn publish(&self, file: NewFile) -> io::Result<()> {
        let identity = file.publish(&self.last)?;
        let made = &mut self.below.made.lock().files;
        made.push((self.name.to_owned(), identity));
        Ok(())
    }
}

/// The directory of a name below another one, if it still exists, and the last part of the name.
fn parent_of(directory: &Directory, name: &str) -> (io::Result<Option<Directory>>, OsString) {
    let (parents, last) = split(name);
    let enter = || {
        let mut parent = directory.try_clone()?;
        for part in parents {
            match parent.enter(&on_disk(part))? {
                Some(entered) => parent = entered,
                None => return Ok(None),
            }
        }
        Ok(Some(parent))
    };
    (enter(), on_disk(last).into_owned())
}

/// The directories of a name, and its last part.
fn split(name: &str) -> (impl Iterator<Item = &str>, &str) {
    let (parents, last) = match name.rsplit_once('/') {
        Some((parents, last)) => (Some(parents), last),
        None => (None, name),
    };
    (
        parents.into_iter().flat_map(|parents| parents.split('/')),
        last,
    )
}

/// The name of a part on disk.
#[cfg(unix)]
fn on_disk(part: &str) -> Cow<'_, OsStr> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    match zipfdb_storage::restored(part) {
        Cow::Borrowed(bytes) => Cow::Borrowed(OsStr::from_bytes(bytes)),
        Cow::Owned(bytes) => Cow::Owned(OsString::from_vec(bytes)),
    }
}

#[cfg(not(unix))]
fn on_disk(part: &str) -> Cow<'_, OsStr> {
    Cow::Borrowed(OsStr::new(part))
}
