//! The one error type of this crate.
//!
//! Every message says where, what, and what to do next where there is something to do. Damage is always told apart
//! from an I/O failure: [`Error::Corrupt`] and [`Error::Checksum`] mean that bytes were read and are wrong.

use std::io;
use std::path::PathBuf;

/// What every fallible function of this crate returns.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something on disk could not be read, written or understood.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation.
    #[error("{path}: cannot {action}", path = path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried, as a verb: `open`, `read`, `sync`, ...
        action: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// Bytes whose checksum is wrong: they are not what was written.
    #[error("{path}: corrupt {part} at byte {offset}: checksum {found:08x}, expected {expected:08x}", path = path.display())]
    Checksum {
        /// The damaged file.
        path: PathBuf,
        /// The part of the file: a section's name, `footer`, ...
        part: &'static str,
        /// Where the part starts in the file.
        offset: u64,
        /// The checksum recorded in the file.
        expected: u32,
        /// The checksum of the bytes found.
        found: u32,
    },
    /// Bytes that do not mean anything in this format.
    #[error("{path}: corrupt {part}: {fault}", path = path.display())]
    Corrupt {
        /// The damaged file.
        path: PathBuf,
        /// The part of the file: a section's name, `footer`, ...
        part: &'static str,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// A file of a format version that this build does not know.
    #[error("{path}: format version {found}, this build reads {supported}; hint: use a newer zipfdb", path = path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version it says it has.
        found: u32,
        /// The newest version this build reads.
        supported: u32,
    },
    /// A grammar, dictionary or file table handed in that breaks a rule of its type.
    #[error("invalid {what}: {fault}")]
    Invalid {
        /// What was handed in: `grammar`, `dictionary`, `corpus name`, ...
        what: &'static str,
        /// The rule it breaks.
        fault: &'static str,
    },
    /// A tokenizer name that does not exist.
    #[error("no such tokenizer `{name}`; hint: one of `unicode`, `alnum`, `whitespace`")]
    UnknownTokenizer {
        /// The name as given.
        name: String,
    },
}
