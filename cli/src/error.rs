//! The errors that end the program or a statement.
//!
//! Invariant: every error of a run is one of these, and each has its exit code here. Wrong usage is not among them, which
//! clap finds, nor the end by a signal, which has the exit code that the signal gives.

use std::io;
use std::path::{Path, PathBuf};

use rustyline::error::ReadlineError;
use zipfdb::storage::{IoReason, PathText};

/// An error that ends the program or a statement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A statement failed.
    #[error("{source}{}", whence(.origin, *.line))]
    Statement {
        /// The error of the database.
        source: Box<zipfdb::Error>,
        /// The file the statement is from.
        origin: Option<PathBuf>,
        /// The line of that file on which the statement begins, from 1.
        line: u64,
    },
    /// A dot command is wrong.
    #[error("{problem}")]
    Command {
        /// The fault and the remedy.
        problem: String,
    },
    /// A dot command or a parameter of a file is wrong.
    #[error("{problem}{}", whence(.origin, *.line))]
    InFile {
        /// The fault and the remedy.
        problem: String,
        /// The file.
        origin: Option<PathBuf>,
        /// The line, from 1.
        line: u64,
    },
    /// The database could not be opened.
    #[error(
        "cannot open database `{}`: {}",
        PathText(path),
        without_path(source, path)
    )]
    Open {
        /// The error of the database.
        source: Box<zipfdb::Error>,
        /// The database.
        path: PathBuf,
    },
    /// What was pending at the end could not be recompressed.
    #[error("cannot recompress at the end: {source}; hint: all changes are safe in the log")]
    Leave {
        /// The error of the database.
        source: Box<zipfdb::Error>,
    },
    /// A file could not be read or written.
    #[error("{action} `{}`: {}", PathText(path), IoReason(source))]
    File {
        /// The attempted action: `cannot read`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// SQL text has to be UTF-8.
    #[error(
        "{}: line {line}: not UTF-8 at byte {offset}; hint: the statements before it ran; save the text as UTF-8",
        PathText(origin)
    )]
    NotUtf8 {
        /// Where the text is from.
        origin: PathBuf,
        /// The line of the first byte that is wrong, from 1.
        line: u64,
        /// The first byte that is wrong.
        offset: u64,
    },
    /// The prompt could not be shown or read.
    #[error("cannot use the terminal: {}", terminal_reason(source))]
    Terminal {
        /// The error of rustyline.
        source: ReadlineError,
    },
    /// `zipf demo` would overwrite a file or a directory.
    #[error("`{}` exists{}", PathText(path), demo_hint(*.is_database, path))]
    DemoExists {
        /// The directory.
        path: PathBuf,
        /// Whether the path looks like a database.
        is_database: bool,
    },
    /// A database could not be repaired.
    #[error(
        "cannot repair database `{}`: {}",
        PathText(path),
        without_path(source, path)
    )]
    Repair {
        /// The error of the database.
        source: Box<zipfdb::Error>,
        /// The damaged database.
        path: PathBuf,
    },
    /// A database was repaired and not all of it could be saved.
    #[error("{count} losses; the rest is in `{}`", PathText(path))]
    Lost {
        /// How many lines said what is lost.
        count: usize,
        /// The new database.
        path: PathBuf,
    },
    /// A corpus could not be searched.
    #[error("{}", without_place(source))]
    Search {
        /// The error of the database.
        source: Box<zipfdb::Error>,
    },
    /// A query is wrong.
    #[error("{problem}")]
    Query {
        /// The line of the query that is wrong and a caret below it.
        excerpt: String,
        /// The fault.
        problem: String,
        /// The remedy.
        hint: Option<String>,
    },
    /// A file could not be packed or unpacked.
    #[error("cannot {action}: {source}")]
    Pack {
        /// The attempted action.
        action: &'static str,
        /// The fault, which names the file.
        source: Box<zipfdb::Error>,
    },
    /// Standard output could not be written to.
    #[error("cannot write to standard output: {}", reason(.source))]
    Output {
        /// The error of the operating system.
        source: io::Error,
    },
    /// A signal is to end the program.
    #[error("ended by a signal")]
    Signal,
}

impl Error {
    /// A statement failed, or the output that it writes to.
    pub fn of_statement(source: zipfdb::Error, origin: Option<&Path>, line: u64) -> Error {
        match of_standard_output(source) {
            Ok(source) => Error::Output { source },
            Err(source) => Error::Statement {
                source: Box::new(source),
                origin: origin.map(Path::to_path_buf),
                line,
            },
        }
    }

    /// A file could not be packed or unpacked, or the output not be written to.
    pub fn of_packing(action: &'static str, source: zipfdb::Error) -> Error {
        match of_standard_output(source) {
            Ok(source) => Error::Output { source },
            Err(source) => Error::Pack {
                action,
                source: Box::new(source),
            },
        }
    }

    /// The prompt could not be shown or read. Without a terminal it is shown on standard output.
    pub fn of_terminal(source: ReadlineError) -> Error {
        let source = match source {
            #[cfg(unix)]
            ReadlineError::Errno(errno) => ReadlineError::Io(errno.into()),
            source => source,
        };
        match source {
            ReadlineError::Io(source)
                if matches!(
                    source.kind(),
                    io::ErrorKind::BrokenPipe | io::ErrorKind::StorageFull
                ) =>
            {
                Error::Output { source }
            }
            source => Error::Terminal { source },
        }
    }

    /// The exit code of a run that ends with this error.
    pub fn exit_code(&self) -> u8 {
        if self.is_reader_gone() { 0 } else { 1 }
    }

    /// True if the reader of what is written went away, which is no reason to complain.
    pub fn is_reader_gone(&self) -> bool {
        match self {
            Error::Output { source } => source.kind() == io::ErrorKind::BrokenPipe,
            Error::Statement { source, .. } | Error::Pack { source, .. } => matches!(
                &**source,
                zipfdb::Error::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe
            ),
            _ => false,
        }
    }

    /// The line of SQL that is wrong and a caret below it, if the place is known.
    pub fn excerpt(&self) -> Option<String> {
        match self {
            Error::Statement { source, .. } => match &**source {
                zipfdb::Error::Sql(source) => Some(source.excerpt()),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The paths of standard output, as statements name it.
const STANDARD_OUTPUT: [&str; 4] = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// What the system says of a write to standard output, if that is what failed.
fn of_standard_output(error: zipfdb::Error) -> Result<io::Error, zipfdb::Error> {
    match error {
        zipfdb::Error::Io {
            action: "write",
            path,
            source,
        } if STANDARD_OUTPUT
            .iter()
            .any(|output| path.as_os_str() == *output) =>
        {
            Ok(source)
        }
        error => Err(error),
    }
}

/// What the system says, within a sentence: `no space left on device`.
fn reason(error: &io::Error) -> String {
    let text = IoReason(error).to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(characters).collect()
}

/// What the database says, without the path that it begins with if that was said before.
fn without_path(source: &zipfdb::Error, path: &Path) -> String {
    let text = source.to_string();
    let rest = text.strip_prefix(&format!("{}: ", PathText(path)));
    rest.map_or_else(|| text.clone(), str::to_owned)
}

/// What the database says, without the place in a statement that means nothing to the user.
pub fn without_place(error: &zipfdb::Error) -> String {
    let text = error.to_string();
    match error {
        zipfdb::Error::Sql(sql) => {
            let rest = text.strip_prefix(&format!("{}: ", sql.position()));
            rest.map_or_else(|| text.clone(), str::to_owned)
        }
        _ => text,
    }
}

fn terminal_reason(source: &ReadlineError) -> String {
    match source {
        ReadlineError::Io(error) => IoReason(error).to_string(),
        other => other.to_string(),
    }
}

fn whence(origin: &Option<PathBuf>, line: u64) -> String {
    match origin {
        Some(path) => format!(
            " (in the statement that begins on line {line} of {})",
            PathText(path)
        ),
        None => String::new(),
    }
}

fn demo_hint(is_database: bool, path: &Path) -> String {
    let path = PathText(path);
    if is_database {
        format!(
            " and is a database; hint: `zipf {path}` opens it; give another directory, or remove this one first"
        )
    } else {
        "; hint: give a directory that does not exist yet".to_string()
    }
}
