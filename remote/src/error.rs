//! Errors of databases on object stores.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// An error of a remote database: where, what, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A URL that names no object store.
    #[error(
        "`{url}`: {reason}; hint: s3://BUCKET/PATH, gs://BUCKET/PATH, az://CONTAINER/PATH or file:///PATH"
    )]
    Url {
        /// As it was given.
        url: String,
        /// The fault.
        reason: String,
    },
    /// The object store refused or failed, after retries.
    #[error("{url}/{object}: cannot {action}: {source}")]
    Store {
        /// The database.
        url: String,
        /// The object in it.
        object: String,
        /// The attempted action.
        action: &'static str,
        /// What the store says.
        source: Box<object_store::Error>,
    },
    /// The object store did not answer.
    #[error(
        "{url}/{object}: cannot {action}: no answer within {waited:?}; hint: try again, or allow more time"
    )]
    TimedOut {
        /// The database.
        url: String,
        /// The object in it.
        object: String,
        /// The attempted action.
        action: &'static str,
        /// How long it was waited for.
        waited: Duration,
    },
    /// An object does not hold what was stored there.
    #[error("{url}/{object}: {fault}")]
    Corrupt {
        /// The database.
        url: String,
        /// The object in it.
        object: String,
        /// The fault.
        fault: String,
    },
    /// The version does not exist.
    #[error("{url}: {}; hint: `versions` lists what there is", match version {
        Some(version) => format!("there is no version {version}, or it was collected"),
        None => "there is no database".into(),
    })]
    NoSuchVersion {
        /// The database.
        url: String,
        /// The one that was asked for; none for the newest.
        version: Option<u64>,
    },
    /// Another publication has made a version that the local database was not made from.
    #[error("{url}: it is at version {found}, and this database was made from {}; hint: pull it and make the changes there, or push with `replace`", match expected {
        0 => "none of its versions".into(),
        expected => format!("version {expected}"),
    })]
    Conflict {
        /// The database.
        url: String,
        /// The version that was to be replaced; 0 for none.
        expected: u64,
        /// The newest version.
        found: u64,
    },
    /// Files that cannot be imported.
    #[error("{url}: {reason}")]
    Import {
        /// The database.
        url: String,
        /// Why, and what to do.
        reason: String,
    },
    /// A local file or directory.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// The attempted action.
        action: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The local database that is copied.
    #[error(transparent)]
    Local(#[from] zipfdb_storage::Error),
    /// Opening the database.
    #[error(transparent)]
    Database(#[from] zipfdb::Error),
}

/// The result of what this crate does.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// As an error of a file that is read.
    pub(crate) fn into_io(self) -> io::Error {
        let kind = match &self {
            Error::TimedOut { .. } => io::ErrorKind::TimedOut,
            Error::Corrupt { .. } => io::ErrorKind::InvalidData,
            // Not NotFound: a missing file of a version means that the version was collected.
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, self)
    }
}

/// An [`Error::Io`] of a path.
pub(crate) fn io_error<'a>(
    path: &'a std::path::Path,
    action: &'static str,
) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| Error::Io {
        path: path.to_path_buf(),
        action,
        source,
    }
}
