//! `SpillDirectory`: where temporary files are made.
//!
//! Invariant: a file has no name where the system allows it, and is removed when it is dropped. What files hold is not known here.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Error;

/// The directory of temporary files.
#[derive(Debug, Clone)]
pub(crate) struct SpillDirectory {
    /// The first in which a file can be made is used.
    directories: Arc<[PathBuf]>,
}

impl SpillDirectory {
    /// The directory beside the database; or the system's directory if it cannot be written or there is no database on disk.
    pub(crate) fn beside(database: Option<&Path>) -> SpillDirectory {
        let beside = database.and_then(Path::parent).map(|parent| {
            // The parent of a relative path may be empty.
            if parent.as_os_str().is_empty() {
                PathBuf::from(".")
            } else {
                parent.to_path_buf()
            }
        });
        SpillDirectory {
            directories: beside.into_iter().chain([std::env::temp_dir()]).collect(),
        }
    }

    #[cfg(test)]
    pub(crate) fn only(directory: &Path) -> SpillDirectory {
        SpillDirectory {
            directories: [directory.to_path_buf()].into(),
        }
    }

    /// Creates a file.
    pub(crate) fn temporary_file(&self) -> io::Result<File> {
        let mut failure = None;
        for directory in self.directories.iter() {
            match tempfile::tempfile_in(directory) {
                Ok(file) => return Ok(file),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Err(failure.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
    }

    /// The directory that errors name.
    pub(crate) fn first(&self) -> &Path {
        self.directories
            .first()
            .map_or(Path::new(""), PathBuf::as_path)
    }

    /// The error of a temporary file.
    pub(crate) fn failed(&self, source: io::Error) -> Error {
        spill_error(self.first())(source)
    }
}

/// The error of a file in a directory of temporary files.
pub(crate) fn spill_error(directory: &Path) -> impl Fn(io::Error) -> Error + '_ {
    move |source| Error::Spill {
        directory: directory.to_path_buf(),
        source,
    }
}
