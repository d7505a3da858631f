//! New files that get their name when they are complete.
//!
//! Invariant: under the name of a new file stands the old content, or all of the new content. Where the system allows it the file
//! has no name at all until then, so nothing is left of it however the process ends; elsewhere it has a hidden temporary name,
//! which is removed when the file is dropped. The caller syncs the content.

mod directory;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use directory::{Directory, FileIdentity, FileMode};

/// The mode of a file that only its owner can read and write, as far as the system knows owners.
pub(crate) const PRIVATE: FileMode = 0o600;

/// The mode of a plain file, before the system applies the umask.
pub(crate) const PLAIN: FileMode = 0o666;

/// A file that has no name yet.
#[derive(Debug)]
pub(crate) struct NewFile {
    file: File,
    directory: Directory,
    /// The temporary name, if the system needs one.
    temporary: Option<OsString>,
}

impl NewFile {
    /// Creates a file in a directory, for writing.
    ///
    /// # Errors
    /// If the directory takes no files.
    pub(crate) fn create(directory: &Directory, mode: FileMode) -> io::Result<NewFile> {
        match directory.create_unnamed(mode) {
            Some(file) => Ok(NewFile {
                file,
                directory: directory.try_clone()?,
                temporary: None,
            }),
            None => NewFile::create_named(directory, mode),
        }
    }

    /// As `create`, with a temporary name.
    fn create_named(directory: &Directory, mode: FileMode) -> io::Result<NewFile> {
        let directory = directory.try_clone()?;
        let (file, name) = with_temporary_name(|name| directory.create_file(name, mode))?;
        Ok(NewFile {
            file,
            directory,
            temporary: Some(name),
        })
    }

    /// The file to write to.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file a name that is free.
    ///
    /// # Errors
    /// `AlreadyExists` if the name is taken.
    pub(crate) fn publish(mut self, name: &OsStr) -> io::Result<FileIdentity> {
        let identity = FileIdentity::of(&self.file)?;
        let Some(temporary) = &self.temporary else {
            self.directory.link_unnamed(&self.file, name)?;
            return Ok(identity);
        };
        match self.directory.link(temporary, name) {
            // The temporary name is removed when this is dropped.
            Ok(()) => return Ok(identity),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
            Err(_) => {}
        }
        // The file system has no hard links. An empty file takes the name, which fails if it is taken.
        self.directory.create_file(name, PRIVATE)?;
        match self.directory.rename(temporary, name) {
            Ok(()) => {
                self.temporary = None;
                Ok(identity)
            }
            Err(error) => {
                let _ = self.directory.remove_file(name);
                Err(error)
            }
        }
    }

    /// Gives the file a name, replacing the file that has it.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub(crate) fn replace(mut self, name: &OsStr) -> io::Result<()> {
        if self.temporary.is_none() {
            match self.directory.link_unnamed(&self.file, name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                linked => return linked,
            }
            // Only a rename replaces a file, and it needs a name to rename.
            let link = |name: &OsStr| self.directory.link_unnamed(&self.file, name);
            self.temporary = Some(with_temporary_name(link)?.1);
        }
        if let Some(temporary) = &self.temporary {
            self.directory.rename(temporary, name)?;
        }
        self.temporary = None;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // Failing to remove a file from an unwritable directory is not an error.
            let _ = self.directory.remove_file(temporary);
        }
    }
}

/// Calls `make` with hidden names until one is free.
fn with_temporary_name<A>(make: impl Fn(&OsStr) -> io::Result<A>) -> io::Result<(A, OsString)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = OsString::from(format!(".zipfdb-{}-{number}.tmp", process::id()));
        match make(&name) {
            Ok(made) => return Ok((made, name)),
            // Left by a process elsewhere with the same number, or by one that was killed.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;
    use std::io::Write;
    use std::path::Path;

    use super::*;

    fn names(directory: &Path) -> Vec<OsString> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<OsString> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    type Create = fn(&Directory, FileMode) -> io::Result<NewFile>;

    /// Both ways to create a file.
    const WAYS: [Create; 2] = [NewFile::create, NewFile::create_named];

    #[test]
    fn a_file_has_its_name_when_it_is_published() {
        for create in WAYS {
            let folder = tempfile::tempdir().unwrap();
            let directory = Directory::open(folder.path()).unwrap();
            let new = create(&directory, PLAIN).unwrap();
            new.file().write_all(b"text").unwrap();
            assert!(!folder.path().join("name").exists());
            new.publish("name".as_ref()).unwrap();
            assert_eq!(names(folder.path()), ["name"]);
            assert_eq!(fs::read(folder.path().join("name")).unwrap(), b"text");

            let other = create(&directory, PLAIN).unwrap();
            let error = other.publish("name".as_ref()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(names(folder.path()), ["name"]);
            assert_eq!(fs::read(folder.path().join("name")).unwrap(), b"text");

            let other = create(&directory, PLAIN).unwrap();
            other.file().write_all(b"other").unwrap();
            other.replace("name".as_ref()).unwrap();
            create(&directory, PLAIN)
                .unwrap()
                .replace("new".as_ref())
                .unwrap();
            assert_eq!(names(folder.path()), ["name", "new"]);
            assert_eq!(fs::read(folder.path().join("name")).unwrap(), b"other");
        }
    }

    #[test]
    fn nothing_is_left_of_a_file_that_is_dropped() {
        for create in WAYS {
            let folder = tempfile::tempdir().unwrap();
            let directory = Directory::open(folder.path()).unwrap();
            let new = create(&directory, PRIVATE).unwrap();
            new.file().write_all(b"text").unwrap();
            drop(new);
            assert!(names(folder.path()).is_empty());
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_has_no_name_before_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path()).unwrap();
        // Some file systems lack unnamed files.
        let Some(_) = directory.create_unnamed(PLAIN) else {
            return;
        };
        let new = NewFile::create(&directory, PLAIN).unwrap();
        new.file().write_all(b"text").unwrap();
        assert!(names(folder.path()).is_empty());
        new.publish("name".as_ref()).unwrap();
        assert_eq!(names(folder.path()), ["name"]);
    }

    #[test]
    fn a_temporary_name_that_is_taken_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path()).unwrap();
        let first = NewFile::create_named(&directory, PLAIN).unwrap();
        let taken = with_temporary_name(|name| directory.link(&names(folder.path())[0], name));
        let (_, name) = taken.unwrap();
        assert_eq!(names(folder.path()).len(), 2);
        drop(first);
        assert_eq!(names(folder.path()), [name]);
    }
}
