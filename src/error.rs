//! The one error type of the database.
//!
//! Every message says where, what, and what to do next if there is something. Invariant: of a text of the user it shows the
//! beginning (`quote`), of a path the ends (`PathText`), so no message is longer than some hundred bytes. Errors of the SQL front
//! end and of the store pass through unchanged, with `source()` set, so no cause is printed twice. Errors of the operating system
//! are shown by `IoReason`.

use std::io;
use std::path::{Path, PathBuf};

use zipfdb_storage::{IoReason, PathText};

use zipfdb_sql::quote;

/// The errors of database operations.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The SQL text is wrong: line, column and hint are in the message.
    #[error(transparent)]
    Sql(#[from] zipfdb_sql::Error),

    /// The files of the database: damaged, locked, or not writable.
    #[error(transparent)]
    Storage(#[from] zipfdb_storage::Error),

    /// No file of this name in the corpus.
    #[error("no such file {} in corpus {}{}", quote(.file), quote(.corpus), hint(.nearest))]
    NoSuchFile {
        /// The corpus that was asked.
        corpus: String,
        /// The name that was asked for.
        file: String,
        /// The most similar name that exists.
        nearest: Option<String>,
    },

    /// Files of these names are already in the corpus; nothing was copied.
    #[error(
        "corpus {} already has a file {} ({}){}; hint: nothing was copied, \
         WITH (on_conflict = 'skip') leaves files that are there as they are, 'replace' replaces them",
        quote(.corpus),
        quote(.file),
        PathText(.path),
        and_others(.others, *.more)
    )]
    FileExists {
        /// The corpus that was written to.
        corpus: String,
        /// The first name that both have.
        file: String,
        /// The path of the second file of that name.
        path: PathBuf,
        /// The next few.
        others: Vec<String>,
        /// The number of such names, beside the first.
        more: usize,
    },

    /// Input paths that cannot be read; nothing was copied.
    #[error(
        "{path}: {reason}{}; hint: nothing was copied, WITH (on_error = 'skip') leaves unreadable files out",
        and_more(*.more),
        path = PathText(.path)
    )]
    Unreadable {
        /// The first of them.
        path: PathBuf,
        /// Why it cannot be read.
        reason: String,
        /// The number of further paths that cannot be read.
        more: usize,
    },

    /// An operating system call on a path outside the database failed.
    #[error("cannot {action} {path}: {reason}", path = PathText(.path), reason = IoReason(.source))]
    Io {
        /// The operation, as a verb.
        action: &'static str,
        /// Its path.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },

    /// A file that cannot be packed or unpacked.
    #[error("{path}: {source}", path = PathText(.path))]
    Packed {
        /// The file that was read.
        path: PathBuf,
        /// The fault of the file, or of how it should be packed.
        source: zipfdb_kernels::gompresso::PackedError,
    },

    /// Text that the database cannot hold, or an argument out of range.
    #[error("{subject}: {reason}")]
    Invalid {
        /// The subject: a path, an option, a parameter.
        subject: String,
        /// The reason, and what would be valid.
        reason: String,
    },

    /// The statement returned no row where one was read.
    #[error(
        "the statement returned no row; hint: `query` returns the rows of any answer, `COUNT(*)` is always one row"
    )]
    NoRows,

    /// Stored data contradicts itself although its checksums hold.
    #[error("segment {segment}: {reason}; hint: CHECK says which segments of a corpus are damaged")]
    Inconsistent {
        /// The segment it was found in.
        segment: u64,
        /// The contradiction.
        reason: String,
    },

    /// Edits take more occurrences away than are stored, although all checksums hold.
    #[error(
        "{subject}: edits take away {taken} occurrences and there are {stored}; hint: CHECK says which segments of a \
         corpus are damaged"
    )]
    Contradiction {
        /// The subject: a word or an n-gram.
        subject: String,
        /// The stored count.
        stored: u64,
        /// The occurrences that the edits take away.
        taken: u64,
    },

    /// The query was interrupted through an [`crate::InterruptHandle`].
    #[error("interrupted")]
    Interrupted,

    /// The statement took longer than `statement_timeout`.
    #[error(
        "the statement took longer than {milliseconds} ms; hint: SET statement_timeout allows more time, 0 any"
    )]
    Timeout {
        /// The time it was allowed.
        milliseconds: u64,
    },

    /// A value of a query is longer than a setting allows.
    #[error(
        "{what} takes {bytes} bytes, and {setting} allows {left}; hint: `substr` takes a part of a text, \
         SET {setting} allows more"
    )]
    TooLarge {
        /// The value.
        what: String,
        /// How long it would be.
        bytes: u64,
        /// The setting that forbids it.
        setting: &'static str,
        /// The limit of the setting, beside the other values of the row.
        left: u64,
    },

    /// The system has no memory for a value or a text.
    #[error(
        "cannot allocate {bytes} bytes for {what}; hint: the system gives this process no more memory, \
         shorter texts need less"
    )]
    NoMemory {
        /// Their purpose.
        what: String,
        /// The number of bytes.
        bytes: u64,
    },

    /// A query needed more memory than it may keep, and a temporary file for the rest failed.
    #[error(
        "cannot spill to a temporary file in {directory}: {reason}; hint: {}",
        spill_hint(.source),
        directory = PathText(.directory),
        reason = IoReason(.source)
    )]
    Spill {
        /// The directory of temporary files of queries.
        directory: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },

    /// A corpus takes no more text: much of it is pending, and recompressing it fails.
    #[error(
        "corpus {corpus} takes no more text: {pending} bytes of edits are pending in memory, and recompressing them \
         fails: {reason}; hint: DELETE and DROP CORPUS make room on the disk, RECOMPRESS tries again at once, ALTER CORPUS \
         {corpus} SET (recompress_threshold = ...) allows more",
        corpus = quote(.corpus)
    )]
    Held {
        /// The corpus that was written to.
        corpus: String,
        /// The bytes of pending edits.
        pending: u64,
        /// Why the last recompression failed.
        reason: String,
    },

    /// A GPU failed: the message names the call.
    #[error(transparent)]
    Gpu(zipfdb_kernels::gpu::GpuError),

    /// CHECK found damage; its rows say where.
    #[error("{damaged} of {segments} segments{} are damaged", and_log(*log))]
    Damaged {
        /// The number of segments with a problem.
        damaged: usize,
        /// The number of segments checked.
        segments: usize,
        /// Whether the record log is damaged.
        log: bool,
    },
}

/// A result of a database operation.
pub type Result<T> = std::result::Result<T, Error>;

/// An error with its causes, in one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = match cause.downcast_ref::<io::Error>() {
            Some(error) => IoReason(error).to_string(),
            None => cause.to_string(),
        };
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// The error for what only a build with the feature `formats` does.
#[cfg(not(feature = "formats"))]
pub(crate) fn needs_formats(subject: &str) -> Error {
    Error::Invalid {
        subject: subject.to_owned(),
        reason: "this program was built without it; hint: build it with the feature `formats` of the crate `zipfdb`".to_owned(),
    }
}

/// A function that makes an [`Error::Io`] of an error of the system.
pub(crate) fn io_error(
    action: &'static str,
    path: &Path,
) -> impl Fn(io::Error) -> Error + Send + use<> {
    let path = path.to_path_buf();
    move |source| Error::Io {
        action,
        path: path.clone(),
        source,
    }
}

/// The system starts no more threads.
pub(crate) fn no_threads(reason: impl std::error::Error) -> Error {
    Error::Invalid {
        subject: "threads".into(),
        reason: format!("{reason}; hint: open the database with fewer threads"),
    }
}

fn hint(nearest: &Option<String>) -> String {
    match nearest {
        Some(name) => format!("; hint: did you mean {}?", quote(name)),
        None => String::new(),
    }
}

fn and_log(log: bool) -> &'static str {
    if log { " and the record log" } else { "" }
}

/// The hint against a failure of a temporary file.
fn spill_hint(source: &io::Error) -> &'static str {
    /// EMFILE and ENFILE, of all Unix systems.
    const TOO_MANY_FILES: [Option<i32>; 2] = [Some(24), Some(23)];
    use io::ErrorKind::{
        FileTooLarge, InvalidData, NotADirectory, NotFound, PermissionDenied, QuotaExceeded,
        ReadOnlyFilesystem, StorageFull,
    };
    match source.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => {
            "free space there, or SET memory_limit to more than the query needs"
        }
        NotFound | NotADirectory | PermissionDenied | ReadOnlyFilesystem => {
            "make that directory writable or set TMPDIR to one that is, or SET memory_limit to more than the query needs"
        }
        InvalidData => "run the query again; if it fails again, the disk or the memory is damaged",
        _ if cfg!(unix) && TOO_MANY_FILES.contains(&source.raw_os_error()) => {
            "the process has too many files open: a query needs a few; close some or raise `ulimit -n`"
        }
        _ => "SET memory_limit to more than the query needs",
    }
}

fn and_others(others: &[String], more: usize) -> String {
    /// Bytes of names that are listed.
    const LISTED_BYTES_MAX: usize = 200;
    if more == 0 {
        return String::new();
    }
    let mut listed = String::new();
    let mut count = 0;
    for name in others.iter().map(quote) {
        if listed.len() + name.len() > LISTED_BYTES_MAX {
            break;
        }
        listed.push_str(if count == 0 { ": " } else { ", " });
        listed.push_str(&name);
        count += 1;
    }
    let rest = if 0 < count && count < more {
        ", ..."
    } else {
        ""
    };
    format!(" and {more} more of these{listed}{rest}")
}

fn and_more(more: usize) -> String {
    match more {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_short_however_long_names_and_paths_are() {
        let name = "n\u{e4}me/".repeat(200_000);
        let path = PathBuf::from(&name);
        let source = || io::Error::from(io::ErrorKind::NotFound);
        let errors = [
            Error::NoSuchFile {
                corpus: name.clone(),
                file: name.clone(),
                nearest: Some(name.clone()),
            },
            Error::FileExists {
                corpus: name.clone(),
                file: name.clone(),
                path: path.clone(),
                others: vec![name.clone(); 3],
                more: 9,
            },
            Error::Unreadable {
                path: path.clone(),
                reason: "it is a directory".into(),
                more: 9,
            },
            Error::Io {
                action: "open",
                path: path.clone(),
                source: source(),
            },
            Error::Spill {
                directory: path,
                source: source(),
            },
            Error::Held {
                corpus: name,
                pending: 1,
                reason: "the disk is full".into(),
            },
        ];
        for error in errors {
            let message = error.to_string();
            assert!(message.len() < 1_000, "{} bytes: {message}", message.len());
        }
    }

    #[test]
    fn other_files_are_named_as_far_as_there_is_room() {
        let others = ["a".to_owned(), "b".to_owned()];
        assert_eq!(and_others(&[], 0), "");
        assert_eq!(and_others(&others, 2), " and 2 more of these: \"a\", \"b\"");
        assert_eq!(
            and_others(&others, 5),
            " and 5 more of these: \"a\", \"b\", ..."
        );
        assert_eq!(and_others(&["x".repeat(300)], 5), " and 5 more of these");
    }
}
