//! Errors of ADBC: a status, our message, and for SQL the place and the hint as details.

use adbc_core::error::{Error, Status};
use adbc_core::options::OptionValue;
use arrow_schema::ArrowError;

use crate::error::{ErrorKind, kind_of};

/// The error of a failed call of the library.
pub(crate) fn failed(error: zipfdb::Error) -> Error {
    let status = match kind_of(&error) {
        ErrorKind::Sql | ErrorKind::Invalid => Status::InvalidArguments,
        ErrorKind::NotFound => Status::NotFound,
        ErrorKind::Interrupted => Status::Cancelled,
        ErrorKind::Timeout => Status::Timeout,
        ErrorKind::Storage | ErrorKind::Io => Status::IO,
        ErrorKind::Memory | ErrorKind::Device | ErrorKind::Panic => Status::Internal,
    };
    let mut made = Error::with_message_and_status(error.to_string(), status);
    if let zipfdb::Error::Sql(error) = &error {
        let position = error.position();
        let mut details = vec![
            (
                "zipfdb.line".to_owned(),
                position.line.to_string().into_bytes(),
            ),
            (
                "zipfdb.column".to_owned(),
                position.column.to_string().into_bytes(),
            ),
        ];
        let hint = error
            .hint()
            .map(|hint| ("zipfdb.hint".to_owned(), hint.as_bytes().to_vec()));
        details.extend(hint);
        made.details = Some(details);
    }
    made
}

/// The error of a failed conversion.
pub(crate) fn unconverted(error: zipfdb_arrow::Error) -> Error {
    match error {
        zipfdb_arrow::Error::Database(error) => failed(error),
        error => Error::with_message_and_status(error.to_string(), Status::InvalidArguments),
    }
}

/// The error of a failed stream of batches.
pub(crate) fn unread(error: ArrowError) -> Error {
    Error::with_message_and_status(error.to_string(), Status::InvalidData)
}

/// The error for what there is not.
pub(crate) fn not_implemented(what: &str) -> Error {
    Error::with_message_and_status(
        format!("{what}: ZipfDB does not have it"),
        Status::NotImplemented,
    )
}

/// The error for an option that there is not.
pub(crate) fn no_option(name: &str) -> Error {
    let message = format!("no option `{name}`");
    Error::with_message_and_status(message, Status::NotFound)
}

/// The text of an option.
pub(crate) fn text(name: &str, value: OptionValue) -> Result<String, Error> {
    match value {
        OptionValue::String(text) => Ok(text),
        other => {
            let message = format!("option `{name}`: a text is expected, and {other:?} was given");
            Err(Error::with_message_and_status(
                message,
                Status::InvalidArguments,
            ))
        }
    }
}

/// The switch of an option.
pub(crate) fn switch(name: &str, value: OptionValue) -> Result<bool, Error> {
    match text(name, value)?.as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        other => {
            let message =
                format!("option `{name}`: `true` or `false` is expected, and `{other}` was given");
            Err(Error::with_message_and_status(
                message,
                Status::InvalidArguments,
            ))
        }
    }
}
