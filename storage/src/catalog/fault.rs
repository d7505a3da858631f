//! Faults of reading and writing manifest and catalog.

use std::io;

/// Why manifest or catalog could not be read or written.
#[derive(Debug)]
pub(crate) enum ContentFault {
    /// The catalog is missing or empty: nothing was ever stored.
    Missing,
    /// The catalog cannot be trusted, for this reason.
    Damaged(String),
    /// Values of a version of a later release: not damage, and not to be replaced.
    Version(u8),
    /// The operating system refused; the file itself may well be good.
    Io(io::Error),
}
