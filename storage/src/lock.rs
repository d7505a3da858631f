//! The `LOCK` file: at most one writer has a database open.
//!
//! Invariant: whoever holds the operating system's lock on `LOCK` may write to the directory, nobody else. The lock
//! belongs to the open file, so it ends with the process, however that ends; the file and the process id in it may
//! stay behind and mean nothing without the lock. Opening read-only does not come here.
//!
//! The process id is for messages only, and failing to write it is no error. It has always as many digits, so that a
//! file which has them takes no space on a full disk.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::time::Duration;

use crate::{Error, Result};

/// The name of the file in a database directory.
pub(crate) const LOCK_NAME: &str = "LOCK";

/// The right to write to a database directory, held until dropped.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    file: File,
}

impl DirectoryLock {
    /// Takes the lock of the database in `directory`, or says who has it.
    pub(crate) fn acquire(directory: &Path) -> Result<DirectoryLock> {
        let path = directory.join(LOCK_NAME);
        let failed = |action| {
            let path = path.clone();
            move |source| Error::Io {
                path,
                action,
                source,
            }
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false) // the content is the holder's
            .open(&path)
            .map_err(failed("open"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Locked {
                    path: directory.to_path_buf(),
                    holder: holder(&file),
                });
            }
            Err(TryLockError::Error(source)) => return Err(failed("lock")(source)),
        }
        let _ = write_holder(&file, std::process::id());
        Ok(DirectoryLock { file })
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // So that nobody wonders about an old number.
        let _ = write_holder(&self.file, NOBODY);
        // Closing alone would leave the lock to a child process that was just forked, until it runs its program.
        let _ = self.file.unlock();
    }
}

/// No process has this number.
const NOBODY: u32 = 0;

fn write_holder(mut file: &File, holder: u32) -> io::Result<()> {
    let text = format!("{holder:010}\n");
    file.rewind()?;
    file.write_all(text.as_bytes())?;
    // What an older release, or somebody else, has left behind it.
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
            && process.parse() != Ok(NOBODY)
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

    #[test]
    fn a_second_lock_names_the_holder_and_a_dropped_one_is_free_again() {
        let directory = tempfile::tempdir().unwrap();
        let lock = DirectoryLock::acquire(directory.path()).unwrap();
        let error = DirectoryLock::acquire(directory.path()).unwrap_err();
        assert!(matches!(
            error,
            Error::Locked { holder: Some(holder), .. } if holder == std::process::id()
        ));
        drop(lock);
        DirectoryLock::acquire(directory.path()).unwrap();
    }

    #[test]
    fn the_holder_takes_no_more_space_than_the_one_before() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(LOCK_NAME);
        drop(DirectoryLock::acquire(directory.path()).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"0000000000\n");
        let _lock = DirectoryLock::acquire(directory.path()).unwrap();
        let expected = format!("{:010}\n", std::process::id());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
    }

    #[test]
    fn a_lock_file_left_behind_blocks_nobody() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(LOCK_NAME), "4194304000 garbage").unwrap();
        DirectoryLock::acquire(directory.path()).unwrap();
    }
}
