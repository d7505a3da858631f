//! The `LOCK` file: at most one writer has a database open.
//!
//! Invariant: whoever holds the operating system's lock on `LOCK` may write to the directory, nobody else. The lock
//! belongs to the open file, so it ends with the process, however that ends; the file and the process id in it may
//! stay behind and mean nothing without the lock. Opening read-only does not come here.

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
        write_holder(&file).map_err(failed("write"))?;
        Ok(DirectoryLock { file })
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // So that nobody wonders about an old number.
        let _ = self.file.set_len(0);
        // Closing alone would leave the lock to a child process that was just forked, until it runs its program.
        let _ = self.file.unlock();
    }
}

fn write_holder(mut file: &File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

/// The process id in the file. It is written just after the lock is taken, so an empty file gets a second look.
fn holder(mut file: &File) -> Option<u32> {
    for _ in 0..10 {
        let mut text = String::new();
        file.rewind().ok()?;
        Read::by_ref(&mut file)
            .take(32)
            .read_to_string(&mut text)
            .ok()?;
        if let Some(process) = text.strip_suffix('\n') {
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
    fn a_lock_file_left_behind_blocks_nobody() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(LOCK_NAME), "4194304000 garbage").unwrap();
        DirectoryLock::acquire(directory.path()).unwrap();
    }
}
