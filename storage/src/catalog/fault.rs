//! Why manifest or catalog could not be read or written.

use std::io;

/// Why manifest or catalog could not be read or written.
#[derive(Debug)]
pub(crate) enum ContentFault {
    /// There is none, or an empty one: nothing was ever stored.
    Missing,
    /// There is one and it cannot be trusted. What is wrong, in words.
    Damaged(String),
    /// Values of a version of a later release: not damage, and not to be replaced.
    Version(u8),
    /// The operating system refused; the file itself may well be good.
    Io(io::Error),
}
