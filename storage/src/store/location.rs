//! The location of an open database: the path, the directory that it led to when the database was opened, and the backend of the files in
//! that.
//!
//! Invariant: all that is read and written of a database by way of one location is in one directory. Which changes are made there is
//! not known here.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Result;
use crate::backend::Backend;
use crate::error::io_error;
use crate::held::HeldDirectory;
use crate::ownership::check_directory;

/// The place of a database.
#[derive(Clone, Debug)]
pub(super) struct Location {
    /// As it was given.
    pub(super) path: PathBuf,
    /// For what lies in the directory.
    pub(super) backend: Arc<dyn Backend>,
    /// For what lies around it.
    pub(super) outer: Arc<dyn Backend>,
    /// None where there is no file system.
    pub(super) held: Option<Arc<HeldDirectory>>,
}

impl Location {
    /// Holds the directory that has this path now.
    ///
    /// # Errors
    /// [`crate::Error::Io`] if there is none.
    pub(super) fn find(outer: Arc<dyn Backend>, path: &Path) -> Result<Location> {
        let held = if outer.is_file_system() {
            Some(HeldDirectory::open(path).map_err(io_error(path, "open"))?)
        } else {
            None
        };
        let within = held.as_ref().and_then(|held| outer.within(held));
        Ok(Location {
            path: path.to_path_buf(),
            backend: within.unwrap_or_else(|| Arc::clone(&outer)),
            outer,
            held,
        })
    }

    /// The directory of a database on the file system.
    ///
    /// # Panics
    /// If it is elsewhere.
    pub(super) fn directory(&self) -> &HeldDirectory {
        self.held.as_deref().expect("it is on the file system")
    }

    /// # Errors
    /// [`crate::Error::Displaced`] if the path does not lead to the directory any more, [`crate::Error::Io`] if that cannot be found out.
    pub(super) fn check(&self) -> Result<()> {
        let checked = self.held.as_deref().map_or(Ok(()), check_directory);
        checked.map_err(io_error(&self.path, "look at"))
    }
}
