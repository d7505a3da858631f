//! The mark of a database that a repair has not finished.

use std::io;
use std::path::Path;

use crate::backend::Backend;
use crate::error::io_error;
use crate::{Error, Result};

/// The name of the file. Its content is the path of the damaged database, for messages.
pub(super) const REPAIR_NAME: &str = "REPAIR";

/// Refuses a database that a repair has not finished.
///
/// # Errors
/// [`Error::UnfinishedRepair`], [`Error::Io`].
pub(super) fn refuse_unfinished(backend: &dyn Backend, path: &Path) -> Result<()> {
    let marker = path.join(REPAIR_NAME);
    match backend.read(&marker) {
        Ok(source) => Err(Error::UnfinishedRepair {
            path: path.to_path_buf(),
            damaged: String::from_utf8_lossy(&source).into_owned(),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            Err(io_error(path, "open")(error))
        }
        Err(error) => Err(io_error(&marker, "read")(error)),
    }
}
