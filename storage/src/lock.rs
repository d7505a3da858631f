//! The `LOCK` file: at most one writer has a database open.
//!
//! Invariant: only a process that holds the operating system's lock on `LOCK` writes to the directory. The lock
//! belongs to the open file, so it ends with the process, however that ends; the file and the process id in it may
//! stay behind and mean nothing without the lock. Opening read-only does not come here. Whether `LOCK` is still the file that was
//! locked is asked in `ownership.rs`.
//!
//! The process id is for messages only, and failing to write it is no error. It has always as many digits, so that a
//! file which has them takes no space on a full disk.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::sync::Arc;
use std::time::Duration;

use crate::error::io_error;
use crate::held::HeldDirectory;
use crate::{Error, Result};

/// The name of the file in a database directory.
pub(crate) const LOCK_NAME: &str = "LOCK";

/// The right to write to a database directory, held until dropped.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    file: Arc<File>,
    /// A folder of the directory, locked too where the file system locks directories: a second writer finds that lock if `LOCK` was
    /// removed. The directory itself is not locked, since scripts do that around a program that opens the database
    /// (`flock DIRECTORY COMMAND`).
    folder: Option<FolderLock>,
}

/// A folder that is locked until it is dropped.
#[derive(Debug)]
struct FolderLock(File);

impl DirectoryLock {
    /// Takes the lock of the database in `directory` and of the folder `folder` in it, or says which process has it.
    pub(crate) fn acquire(directory: &HeldDirectory, folder: &str) -> Result<DirectoryLock> {
        // First: a second writer that is refused must not create the `LOCK` that the first one misses.
        let folder = lock_folder(directory, folder)?;
        let path = directory.path().join(LOCK_NAME);
        let file = (directory.open_or_create(&path)).map_err(io_error(&path, "open"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(locked(directory, Some(&file))),
            Err(TryLockError::Error(source)) => return Err(io_error(&path, "lock")(source)),
        }
        let _ = write_holder(&file, std::process::id());
        Ok(DirectoryLock {
            file: Arc::new(file),
            folder,
        })
    }

    /// Locks the folder of a database that had none when the lock was taken.
    pub(crate) fn complete(&mut self, directory: &HeldDirectory, folder: &str) -> Result<()> {
        if self.folder.is_none() {
            self.folder = lock_folder(directory, folder)?;
        }
        Ok(())
    }

    /// The file that is locked.
    pub(crate) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }
}

/// Locks a folder. None if there is none yet, or the file system does not lock directories.
fn lock_folder(directory: &HeldDirectory, folder: &str) -> Result<Option<FolderLock>> {
    let Ok(folder) = directory.open_directory(&directory.path().join(folder)) else {
        return Ok(None); // what is wrong with it is said when it is read
    };
    match folder.try_lock() {
        Ok(()) => Ok(Some(FolderLock(folder))),
        Err(TryLockError::WouldBlock) => {
            let file = directory.open_file(&directory.path().join(LOCK_NAME));
            Err(locked(directory, file.ok().as_ref()))
        }
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// Another writer has the lock, and `file` its number, if it is there.
fn locked(directory: &HeldDirectory, file: Option<&File>) -> Error {
    Error::Locked {
        path: directory.path().to_path_buf(),
        holder: file.and_then(holder),
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Removes the number of this process, which may end.
        let _ = write_holder(&self.file, NO_PROCESS);
        // Closing alone would leave the lock to a child process that was just forked, until it runs its program.
        let _ = self.file.unlock();
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        let _ = self.0.unlock(); // as above
    }
}

/// No process has this number.
const NO_PROCESS: u32 = 0;

fn write_holder(mut file: &File, holder: u32) -> io::Result<()> {
    let text = format!("{holder:010}\n");
    file.rewind()?;
    file.write_all(text.as_bytes())?;
    // Remains of what an older release or another program wrote.
    file.set_len(text.len() as u64)
}

/// The process id in the file. It is written just after the lock is taken, so a file without one gets a second look.
fn holder(mut file: &File) -> Option<u32> {
    for _ in 0..10 {
        let mut text = String::new();
        file.rewind().ok()?;
        Read::by_ref(&mut file)
            .take(32)
            .read_to_string(&mut text)
            .ok()?;
        if let Some(process) = text.strip_suffix('\n')
            && process.parse() != Ok(NO_PROCESS)
        {
            return process.parse().ok();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn acquire(directory: &tempfile::TempDir) -> Result<DirectoryLock> {
        DirectoryLock::acquire(&HeldDirectory::open(directory.path()).unwrap(), "folder")
    }

    #[test]
    fn a_second_lock_names_the_holder_and_a_dropped_one_is_free_again() {
        let directory = tempfile::tempdir().unwrap();
        let lock = acquire(&directory).unwrap();
        let error = acquire(&directory).unwrap_err();
        assert!(matches!(
            error,
            Error::Locked { holder: Some(holder), .. } if holder == std::process::id()
        ));
        drop(lock);
        acquire(&directory).unwrap();
    }

    #[test]
    fn the_holder_takes_no_more_space_than_the_one_before() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(LOCK_NAME);
        drop(acquire(&directory).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"0000000000\n");
        let _lock = acquire(&directory).unwrap();
        let expected = format!("{:010}\n", std::process::id());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
    }

    #[test]
    fn a_lock_file_left_behind_blocks_no_writer() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(LOCK_NAME), "4194304000 garbage").unwrap();
        acquire(&directory).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_second_writer_is_refused_without_the_lock_file_and_creates_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(LOCK_NAME);
        let mut lock = acquire(&directory).unwrap();
        std::fs::create_dir(directory.path().join("folder")).unwrap();
        let held = HeldDirectory::open(directory.path()).unwrap();
        lock.complete(&held, "folder").unwrap();
        std::fs::remove_file(&path).unwrap();
        let error = acquire(&directory).unwrap_err();
        assert!(matches!(error, Error::Locked { holder: None, .. }));
        assert!(!path.exists());
        drop(lock);
        acquire(&directory).unwrap();
    }
}
