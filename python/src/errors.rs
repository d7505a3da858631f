//! The exceptions of PEP 249, and the errors of the database as these.
//!
//! Invariant: every exception that the module raises on its own is an `Error` with the attributes `position` (line, column and byte),
//! `hint` and `excerpt`, which are None where there is nothing to say.

use arrow_schema::ArrowError;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(zipfdb, Warning, PyException, "An important warning.");
create_exception!(
    zipfdb,
    Error,
    PyException,
    "The base of all errors of the module."
);
create_exception!(
    zipfdb,
    InterfaceError,
    Error,
    "A fault in the use of the module itself."
);
create_exception!(
    zipfdb,
    DatabaseError,
    Error,
    "A fault of the database, such as damaged files."
);
create_exception!(
    zipfdb,
    DataError,
    DatabaseError,
    "A value that cannot be used."
);
create_exception!(
    zipfdb,
    OperationalError,
    DatabaseError,
    "A failure of the system: files, locks, memory."
);
create_exception!(
    zipfdb,
    Interrupted,
    OperationalError,
    "A statement was interrupted."
);
create_exception!(
    zipfdb,
    Timeout,
    OperationalError,
    "A statement took longer than `statement_timeout`."
);
create_exception!(
    zipfdb,
    IntegrityError,
    DatabaseError,
    "A file of that name is there already."
);
create_exception!(
    zipfdb,
    InternalError,
    DatabaseError,
    "The database has come upon an inner fault."
);
create_exception!(
    zipfdb,
    ProgrammingError,
    DatabaseError,
    "A wrong statement, name or argument."
);
create_exception!(
    zipfdb,
    NotSupportedError,
    DatabaseError,
    "Something that the database does not do."
);

/// Adds the exceptions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let error = py.get_type::<Error>();
    for attribute in ["position", "hint", "excerpt"] {
        error.setattr(attribute, py.None())?;
    }
    module.add("Warning", py.get_type::<Warning>())?;
    module.add("Error", error)?;
    module.add("InterfaceError", py.get_type::<InterfaceError>())?;
    module.add("DatabaseError", py.get_type::<DatabaseError>())?;
    module.add("DataError", py.get_type::<DataError>())?;
    module.add("OperationalError", py.get_type::<OperationalError>())?;
    module.add("Interrupted", py.get_type::<Interrupted>())?;
    module.add("Timeout", py.get_type::<Timeout>())?;
    module.add("IntegrityError", py.get_type::<IntegrityError>())?;
    module.add("InternalError", py.get_type::<InternalError>())?;
    module.add("ProgrammingError", py.get_type::<ProgrammingError>())?;
    module.add("NotSupportedError", py.get_type::<NotSupportedError>())
}

/// An error of the database as an exception.
pub(crate) fn raised(py: Python<'_>, error: zipfdb::Error) -> PyErr {
    use zipfdb::sql::SqlError;
    use zipfdb::storage::StorageError;
    let message = error.to_string();
    let exception = match &error {
        zipfdb::Error::Sql(SqlError::NotSupported { .. }) => NotSupportedError::new_err(message),
        zipfdb::Error::Sql(SqlError::OutOfRange { .. } | SqlError::TooLarge { .. })
        | zipfdb::Error::TooLarge { .. } => DataError::new_err(message),
        zipfdb::Error::Sql(_)
        | zipfdb::Error::Storage(
            StorageError::NoSuchCorpus { .. } | StorageError::CorpusExists { .. },
        )
        | zipfdb::Error::NoSuchFile { .. }
        | zipfdb::Error::Invalid { .. }
        | zipfdb::Error::NoRows => ProgrammingError::new_err(message),
        zipfdb::Error::FileExists { .. } => IntegrityError::new_err(message),
        zipfdb::Error::Interrupted => Interrupted::new_err(message),
        zipfdb::Error::Timeout { .. } => Timeout::new_err(message),
        zipfdb::Error::Inconsistent { .. }
        | zipfdb::Error::Contradiction { .. }
        | zipfdb::Error::Damaged { .. } => DatabaseError::new_err(message),
        _ => OperationalError::new_err(message),
    };
    match describe(py, &exception, &error) {
        Ok(()) => exception,
        Err(failure) => failure,
    }
}

fn describe(py: Python<'_>, exception: &PyErr, error: &zipfdb::Error) -> PyResult<()> {
    let value = exception.value(py);
    let message = error.to_string();
    if let zipfdb::Error::Sql(error) = error {
        let position = error.position();
        value.setattr("position", (position.line, position.column, position.byte))?;
        value.setattr("excerpt", error.excerpt())?;
    }
    let hint = message.split_once("; hint: ").map(|(_, hint)| hint);
    value.setattr("hint", hint)
}

/// An error of a conversion from or to Arrow as an exception.
pub(crate) fn raised_by_arrow(py: Python<'_>, error: zipfdb_arrow::Error) -> PyErr {
    match error {
        zipfdb_arrow::Error::Database(error) => raised(py, error),
        zipfdb_arrow::Error::Arrow(ArrowError::ExternalError(error)) => {
            // An error of this database on its way through Arrow's traits.
            match error.downcast::<zipfdb_arrow::Error>() {
                Ok(error) => raised_by_arrow(py, *error),
                Err(error) => OperationalError::new_err(error.to_string()),
            }
        }
        zipfdb_arrow::Error::Arrow(error) => OperationalError::new_err(error.to_string()),
        error => DataError::new_err(error.to_string()),
    }
}
