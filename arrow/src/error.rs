//! The error of this crate, which becomes one of Arrow where Arrow's traits ask for it.

use arrow_schema::ArrowError;

/// Why columns or batches cannot be converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A column has a value that its type cannot hold, or is of a type that the database cannot hold.
    #[error("column \"{column}\" {reason}")]
    Column {
        /// The name of the column.
        column: String,
        /// The fault, as a verb and what follows.
        reason: String,
    },
    /// A batch lacks a column.
    #[error("the batch has no column \"{column}\"; hint: it has {columns}")]
    NoColumn {
        /// The name that is missing.
        column: String,
        /// The names of the columns that are there.
        columns: String,
    },
    /// The database reports an error.
    #[error(transparent)]
    Database(#[from] zipfdb::Error),
    /// Arrow reports an error.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

/// A result of a conversion.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn column<T>(name: &str, reason: impl Into<String>) -> Result<T> {
        Err(Error::Column {
            column: name.to_owned(),
            reason: reason.into(),
        })
    }
}

impl From<Error> for ArrowError {
    fn from(error: Error) -> ArrowError {
        match error {
            Error::Arrow(error) => error,
            error => ArrowError::ExternalError(Box::new(error)),
        }
    }
}
