//! Errors and rejects: what of a source cannot be read, and where it stands.
//!
//! Invariant: a reject names its place as exactly as it is known. Whether a reject ends the work is up to the sink.

use std::fmt;
use std::io;
use std::sync::Arc;

/// A place in a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The path of the member below the source, with archives in archives; empty for the source itself. Bytes that are not UTF-8
    /// are replaced.
    pub member: Arc<str>,
    /// The line, from 1; 0 if there are no lines or the place is the whole member.
    pub line: u64,
    /// The byte of the line, from 1; 0 if it is unknown.
    pub column: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.member.is_empty() || self.line == 0 {
            ""
        } else {
            ": "
        };
        write!(formatter, "{}{separator}", self.member)?;
        match (self.line, self.column) {
            (0, _) => Ok(()),
            (line, 0) => write!(formatter, "line {line}"),
            (line, column) => write!(formatter, "line {line}, column {column}"),
        }
    }
}

/// A part of a source that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    /// Where it begins, or where the fault stands.
    pub place: Place,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for Reject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place.to_string();
        let separator = if place.is_empty() { "" } else { ": " };
        write!(formatter, "{place}{separator}{}", self.reason)
    }
}

/// The reason why reading a source ended before its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A part that cannot be read, where the sink does not go on.
    #[error("{reject}")]
    Rejected {
        /// The part.
        reject: Reject,
    },
    /// A failure of the sink.
    #[error("cannot store a record: {source}")]
    Sink {
        /// The failure.
        #[from]
        source: io::Error,
    },
    /// A format that is in no program without a feature.
    #[error(
        "{format} needs the feature `{feature}` of the crate zipfdb-formats; hint: `cargo install zipfdb-cli --features {feature}` makes a program with it, and `duckdb` converts from and to JSON lines"
    )]
    NotBuiltIn {
        /// The name of the format.
        format: &'static str,
        /// The feature.
        feature: &'static str,
    },
    /// A value that is not of the type of its column in a table.
    #[error(
        "row {row}: {column}: the value is not of the type of its column; hint: CAST makes all values of a column the same type"
    )]
    Misfit {
        /// The number of the row, from 1.
        row: u64,
        /// The name of the column.
        column: String,
    },
    /// An option that cannot be used.
    #[error("the option {option}: {reason}")]
    Option {
        /// The name of the option.
        option: &'static str,
        /// The reason.
        reason: String,
    },
}

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a reader of one member ended.
pub(crate) enum Failure {
    /// The member cannot be read from here on.
    Damage(Damage),
    /// The whole source ends.
    Stop(Error),
}

/// A fault in a member.
#[derive(Debug)]
pub(crate) struct Damage {
    pub(crate) line: u64,
    pub(crate) column: u64,
    pub(crate) reason: String,
}

impl Damage {
    pub(crate) fn at(line: u64, column: u64, reason: impl Into<String>) -> Damage {
        Damage {
            line,
            column,
            reason: reason.into(),
        }
    }

    /// A fault of a whole member.
    pub(crate) fn whole(reason: impl Into<String>) -> Damage {
        Damage::at(0, 0, reason)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Stop(error)
    }
}

impl From<Damage> for Failure {
    fn from(damage: Damage) -> Failure {
        Failure::Damage(damage)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Damage(Damage::from(error))
    }
}

impl From<io::Error> for Damage {
    fn from(error: io::Error) -> Damage {
        let reason = match error.kind() {
            io::ErrorKind::UnexpectedEof => "it ends too early".to_owned(),
            _ => error.to_string(),
        };
        Damage::whole(reason)
    }
}
