//! Small files of a database directory that are replaced as a whole.
//!
//! Invariant: the file has the content before or the new one, whenever a crash comes. What the content means is not known here.

use std::io::{self, Write};
use std::path::Path;

use crate::Result;
use crate::backend::Backend;
use crate::error::io_error;

/// Replaces a small file of a database directory as a whole. Durable when it returns; an error leaves the content before or
/// this one.
pub(crate) fn replace_file(
    backend: &dyn Backend,
    database: &Path,
    name: &str,
    bytes: &[u8],
) -> Result<()> {
    let source = database.join(format!("{name}.tmp"));
    let target = database.join(name);
    let _ = backend.remove(&source); // left by a crash
    if let Err(error) = write_file(backend, &source, bytes) {
        let _ = backend.remove(&source);
        return Err(io_error(&source, "write")(error));
    }
    backend
        .rename(&source, &target)
        .map_err(io_error(&target, "replace"))?;
    backend
        .sync_directory(database)
        .map_err(io_error(database, "sync"))
}

fn write_file(backend: &dyn Backend, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = backend.create(path)?;
    file.write_all(bytes)?;
    file.sync()
}
