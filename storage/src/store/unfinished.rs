//! The mark of a database that a repair has not finished.

use std::io;
use std::path::{Path, PathBuf};

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
            damaged: noted_path(&source),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // What is wrong with the directory is no fault of the marker.
        Err(error) => Err(match backend.list(path) {
            Err(error) => io_error(path, "open")(error),
            Ok(_) => io_error(&marker, "read")(error),
        }),
    }
}

/// The path that a marker holds.
#[cfg(unix)]
fn noted_path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::OsStr::from_bytes(bytes).into()
}

#[cfg(not(unix))]
fn noted_path(bytes: &[u8]) -> PathBuf {
    String::from_utf8_lossy(bytes).into_owned().into()
}
