//! The one error type of this crate.
//!
//! Every message says where, what, and what to do next where there is something to do. Damage is always distinguished from
//! an I/O failure: [`Error::Corrupt`], [`Error::CorruptLog`] and [`Error::Checksum`] mean that bytes were read and are
//! wrong. Paths are shown by [`PathText`] and errors of the operating system by [`IoReason`], also by the crates above.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::path_text::PathText;
use crate::shown::shown;

/// What every fallible function of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of reading, writing or decoding files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation.
    #[error("{path}: cannot {action}: {reason}", path = PathText(path), reason = IoReason(source))]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried, as a verb: `open`, `read`, `sync`, ...
        action: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The disk is full. What adds text is refused; nothing has happened, and nothing is wrong with the database.
    #[error(
        "{path}: no room for more text: {reason}; hint: make room on the disk, or with DELETE, DROP CORPUS or RECOMPRESS",
        path = PathText(path),
        reason = IoReason(source)
    )]
    Full {
        /// The database directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Bytes whose checksum is wrong: they are not what was written.
    #[error("{path}: corrupt {part} at byte {offset}: checksum {found:08x}, expected {expected:08x}", path = PathText(path))]
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
    #[error("{path}: corrupt {part}: {fault}", path = PathText(path))]
    Corrupt {
        /// The damaged file.
        path: PathBuf,
        /// The part of the file: a section's name, `footer`, ...
        part: &'static str,
        /// The fault.
        fault: &'static str,
    },
    /// A part of the record log that was durable once and cannot be read any more.
    #[error(
        "{path}: corrupt record log at byte {offset}: {fault}; hint: `zipf repair` saves what can be read in a new database",
        path = PathText(path)
    )]
    CorruptLog {
        /// The damaged file.
        path: PathBuf,
        /// Where in the file the first record starts that cannot be read.
        offset: u64,
        /// The fault.
        fault: &'static str,
    },
    /// A database that a repair began to write and did not finish.
    #[error(
        "{path}: a repair did not finish writing this database; hint: run `zipf repair {damaged} {path}` again, it starts over",
        path = PathText(path),
        damaged = PathText(damaged)
    )]
    UnfinishedRepair {
        /// The database directory.
        path: PathBuf,
        /// The damaged database, as the repair noted it.
        damaged: PathBuf,
    },
    /// A path at which there is no database, and none may be created.
    #[error("{path}: there is no database", path = PathText(path))]
    NoDatabase {
        /// The path.
        path: PathBuf,
    },
    /// A directory that holds other files and no database.
    #[error(
        "{path}: this directory holds other files and no database; hint: give the directory of a database, or one that does \
         not exist yet",
        path = PathText(path)
    )]
    NotADatabase {
        /// The directory.
        path: PathBuf,
    },
    /// A file of a format version that this build does not know.
    #[error("{path}: format version {found}, this build reads {supported}; hint: use a newer zipfdb", path = PathText(path))]
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
    #[error(
        "no such tokenizer `{}`; hint: one of `unicode`, `alnum`, `whitespace`",
        shown(name)
    )]
    UnknownTokenizer {
        /// The name as given.
        name: String,
    },
    /// Another process, or this one, has the database open for writing.
    #[error("{path}: database is open {by}; hint: {remedy}", path = PathText(path), by = HolderText(*holder), remedy = holder_remedy(*holder))]
    Locked {
        /// The database directory.
        path: PathBuf,
        /// The process id of the writer, if its lock file has it.
        holder: Option<u32>,
    },
    /// A write to a database that is open for reading only.
    #[error("{path}: database is open read-only", path = PathText(path))]
    ReadOnly {
        /// The database directory.
        path: PathBuf,
    },
    /// The directory of an open database, or one of the files that only its writer may change, is not what it was: another program
    /// moved, removed, replaced or changed it. The write that found out is not acknowledged, and none follows it.
    #[error("{path}: {fault} while the database was open; hint: close the database and open it again", path = PathText(path))]
    Displaced {
        /// The file or directory.
        path: PathBuf,
        /// The fault.
        fault: &'static str,
    },
    /// A write after an earlier commit failed: what is on disk is known again only after opening it anew.
    #[error("{path}: an earlier write failed, no more are accepted: {reason}; hint: close the database and open it again", path = PathText(path))]
    Poisoned {
        /// The database directory.
        path: PathBuf,
        /// The failed operation and the reason.
        reason: String,
    },
    /// A corpus that does not exist.
    #[error("no such corpus `{}`{}", shown(corpus), missing_hint(missing.as_deref()))]
    NoSuchCorpus {
        /// The name as given.
        corpus: String,
        /// The directory of the database, if that has not been created yet.
        missing: Option<PathBuf>,
    },
    /// An index that does not exist.
    #[error("no such index `{}`", shown(index))]
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

/// The holder of a lock, in words.
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

fn missing_hint(database: Option<&Path>) -> String {
    database.map_or_else(String::new, |path| {
        format!(
            "; hint: there is no database at {} yet, the first change makes it",
            PathText(path)
        )
    })
}

fn holder_remedy(holder: Option<u32>) -> &'static str {
    if holder == Some(std::process::id()) {
        "share the one that is open, or open read-only"
    } else {
        "wait until it has written, close it there, or open read-only"
    }
}

/// What an I/O error says, in words of the operating system.
///
/// An error that has a kind and nothing else gets the words that the operating system has for it, and of an error of a temporary
/// file the path is left out, which means nothing to users.
#[derive(Clone, Copy, Debug)]
pub struct IoReason<'a>(pub &'a io::Error);

impl fmt::Display for IoReason<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        let is_plain = self.0.raw_os_error().is_none() && self.0.get_ref().is_none();
        let words = words_of_kind(self.0.kind()).filter(|_| is_plain);
        formatter.write_str(words.unwrap_or_else(|| without_temporary_path(&text)))
    }
}

/// What the operating system says of errors of a kind.
fn words_of_kind(kind: io::ErrorKind) -> Option<&'static str> {
    use io::ErrorKind;
    Some(match kind {
        ErrorKind::AlreadyExists => "File exists",
        ErrorKind::BrokenPipe => "Broken pipe",
        ErrorKind::DirectoryNotEmpty => "Directory not empty",
        ErrorKind::FileTooLarge => "File too large",
        ErrorKind::IsADirectory => "Is a directory",
        ErrorKind::NotADirectory => "Not a directory",
        ErrorKind::NotFound => "No such file or directory",
        ErrorKind::OutOfMemory => "Cannot allocate memory",
        ErrorKind::PermissionDenied => "Permission denied",
        ErrorKind::QuotaExceeded => "Disk quota exceeded",
        ErrorKind::ReadOnlyFilesystem => "Read-only file system",
        ErrorKind::StorageFull => "No space left on device",
        ErrorKind::TimedOut => "Connection timed out",
        ErrorKind::UnexpectedEof => "it ends too early",
        ErrorKind::WouldBlock => "Resource temporarily unavailable",
        ErrorKind::WriteZero => "not all bytes could be written",
        _ => return None,
    })
}

/// The text of an error except for ` at path "..."`, which the library for temporary files puts behind that of the system.
fn without_temporary_path(text: &str) -> &str {
    match text.split_once(") at path \"") {
        Some((reason, _)) if reason.contains(" (os error ") => &text[..=reason.len()],
        _ => text,
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
        write!(formatter, "{}: {}", PathText(&self.path), self.fault)
    }
}

impl std::error::Error for Displacement {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_are_reported_in_its_words() {
        let shown = |error: io::Error| IoReason(&error).to_string();
        let missing = io::Error::from_raw_os_error(2).to_string();
        assert_eq!(shown(io::Error::from_raw_os_error(2)), missing);
        assert_eq!(
            shown(io::ErrorKind::NotFound.into()),
            "No such file or directory"
        );
        assert_eq!(shown(io::ErrorKind::AlreadyExists.into()), "File exists");
        let mut bytes = [0; 2];
        let short = io::Read::read_exact(&mut &b"x"[..], &mut bytes).map_err(shown);
        assert_eq!(short, Err("it ends too early".to_owned()));
        assert_eq!(
            shown(io::Error::new(io::ErrorKind::NotFound, "our words")),
            "our words"
        );
        let folder = tempfile::tempdir().map_err(shown).expect("a directory");
        let beside = tempfile::tempdir_in(folder.path().join("none"));
        assert_eq!(beside.map(drop).map_err(shown), Err(missing));
    }
}
