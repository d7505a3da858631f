//! The one error type of this crate.
//!
//! Every message says where, what, and what to do next where there is something to do. Damage is always told apart
//! from an I/O failure: [`Error::Corrupt`], [`Error::CorruptLog`] and [`Error::Checksum`] mean that bytes were read and are wrong.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What every fallible function of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something on disk could not be read, written or understood.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation.
    #[error("{path}: cannot {action}: {source}", path = path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried, as a verb: `open`, `read`, `sync`, ...
        action: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// The disk is full. What adds text is refused; nothing has happened, and nothing is wrong with the database.
    #[error(
        "{path}: no room for more text: {source}; hint: make room on the disk, or with DELETE, DROP CORPUS or RECOMPRESS",
        path = path.display()
    )]
    Full {
        /// The database directory.
        path: PathBuf,
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
    /// A part of the record log that was durable once and cannot be read any more.
    #[error(
        "{path}: corrupt record log at byte {offset}: {fault}; hint: `zipf repair` saves what can be read in a new database",
        path = path.display()
    )]
    CorruptLog {
        /// The damaged file.
        path: PathBuf,
        /// Where in the file the first record starts that cannot be read.
        offset: u64,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// A database that a repair began to write and did not finish.
    #[error(
        "{path}: a repair did not finish writing this database; hint: run `zipf repair {damaged} {path}` again, it starts over",
        path = path.display()
    )]
    UnfinishedRepair {
        /// The database directory.
        path: PathBuf,
        /// The damaged database, as the repair noted it.
        damaged: String,
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
    /// The system has no memory for what was read or handed in. Nothing has happened.
    #[error(
        "cannot allocate {bytes} bytes for {what}; hint: the system gives this process no more memory"
    )]
    NoMemory {
        /// What they were for.
        what: String,
        /// How many.
        bytes: u64,
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
    /// Another process, or this one, has the database open for writing.
    #[error("{path}: database is open {by}; hint: {remedy}", path = path.display(), by = HolderText(*holder), remedy = holder_remedy(*holder))]
    Locked {
        /// The database directory.
        path: PathBuf,
        /// The process id of the writer, if its lock file tells.
        holder: Option<u32>,
    },
    /// A write to a database that is open for reading only.
    #[error("{path}: database is open read-only", path = path.display())]
    ReadOnly {
        /// The database directory.
        path: PathBuf,
    },
    /// The directory of an open database, or one of the files that only its writer may change, is not what it was: another program
    /// moved, removed, replaced or changed it. The write that found out is not acknowledged, and none follows it.
    #[error("{path}: {fault} while the database was open; hint: close the database and open it again", path = path.display())]
    Displaced {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// A write after an earlier commit failed: what is on disk is known again only after opening it anew.
    #[error("{path}: an earlier write failed, no more are accepted: {reason}; hint: close the database and open it again", path = path.display())]
    Poisoned {
        /// The database directory.
        path: PathBuf,
        /// What failed, and why.
        reason: String,
    },
    /// A corpus that does not exist.
    #[error("no such corpus `{corpus}`")]
    NoSuchCorpus {
        /// The name as given.
        corpus: String,
    },
    /// An index that does not exist.
    #[error("no such index `{index}`")]
    NoSuchIndex {
        /// The name as given.
        index: String,
    },
    /// An index that exists already, perhaps in other letter case.
    #[error("index `{index}` exists already")]
    IndexExists {
        /// The name as stored.
        index: String,
    },
    /// A corpus that exists already, perhaps in other letter case.
    #[error("corpus `{corpus}` exists already")]
    CorpusExists {
        /// The name as stored.
        corpus: String,
    },
}

/// Who holds a lock, in words.
struct HolderText(Option<u32>);

impl fmt::Display for HolderText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(holder) if holder == std::process::id() => {
                formatter.write_str("for writing in this process already")
            }
            Some(holder) => write!(formatter, "for writing in process {holder}"),
            None => formatter.write_str("for writing in another process"),
        }
    }
}

fn holder_remedy(holder: Option<u32>) -> &'static str {
    if holder == Some(std::process::id()) {
        "share the one that is open, or open read-only"
    } else {
        "wait until it has written, close it there, or open read-only"
    }
}

/// Makes an error of one of the operating system: the path, and what was done with it. A [`Displacement`] becomes
/// [`Error::Displaced`].
pub(crate) fn io_error(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| match source.downcast::<Displacement>() {
        Ok(displacement) => displacement.into_error(),
        Err(source) => Error::Io {
            path,
            action,
            source,
        },
    }
}

/// [`Error::Displaced`] on its way through operations that give errors of the operating system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Displacement {
    pub(crate) path: PathBuf,
    pub(crate) fault: &'static str,
}

impl Displacement {
    pub(crate) fn into_error(self) -> Error {
        let Displacement { path, fault } = self;
        Error::Displaced { path, fault }
    }
}

impl From<Displacement> for io::Error {
    fn from(displacement: Displacement) -> io::Error {
        io::Error::other(displacement)
    }
}

impl fmt::Display for Displacement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.path.display(), self.fault)
    }
}

impl std::error::Error for Displacement {}
