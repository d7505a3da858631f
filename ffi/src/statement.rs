//! Prepared statements and the values of their parameters.

use std::ffi::c_char;

use zipfdb::Value;

use crate::boundary::guarded;
use crate::database::Database;
use crate::error::ErrorHandle;
use crate::pointers::{Failure, bytes, c_str, free, give, handle, handle_mut, write};
use crate::rows::RowsHandle;
use crate::text::Text;

/// A statement with values for its parameters. It is freed by `zipfdb_statement_free`.
pub struct StatementHandle {
    statement: zipfdb::Statement,
    values: Vec<Value>,
}

impl StatementHandle {
    pub(crate) fn new(statement: zipfdb::Statement) -> StatementHandle {
        let values = vec![Value::Null; statement.parameter_count()];
        StatementHandle { statement, values }
    }

    /// Runs the statement with its values.
    pub(crate) fn query(&self) -> zipfdb::Result<zipfdb::Rows> {
        self.statement.query(&self.values)
    }

    /// Runs the statement with each of some sets of values.
    pub(crate) fn query_many(&self, sets: &[Vec<Value>]) -> zipfdb::Result<zipfdb::Rows> {
        self.statement.query_many(sets)
    }

    fn bind(&mut self, number: usize, value: Value) -> Result<(), Failure> {
        let count = self.values.len();
        let place = number
            .checked_sub(1)
            .and_then(|index| self.values.get_mut(index));
        let place = place.ok_or_else(|| {
            Failure::Argument(format!(
                "no parameter {number}: the statement has {count}, numbered from 1"
            ))
        })?;
        *place = value;
        Ok(())
    }
}

/// Parses one statement. All its parameters are NULL at first.
///
/// # Safety
/// `database` is a database that was not closed, `sql` a C string; `statement` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_prepare(
    database: *const Database,
    sql: *const c_char,
    statement: *mut *mut StatementHandle,
) -> *mut ErrorHandle {
    guarded(|| {
        // SAFETY: by the contract of the function.
        let (database, sql) = unsafe { (handle(database, "database")?, c_str(sql, "sql")?) };
        let prepared = StatementHandle::new(database.0.prepare(sql)?);
        // SAFETY: by the contract of the function.
        unsafe { give(statement, prepared, "statement") }
    })
}

/// The number of parameters of a statement.
///
/// # Safety
/// `statement` is a statement that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_parameter_count(statement: *const StatementHandle) -> usize {
    // SAFETY: by the contract of the function.
    unsafe { statement.as_ref() }.map_or(0, |statement| statement.values.len())
}

/// The number of the parameter that is written `:name` in a statement, from 1; 0 if there is none.
///
/// # Safety
/// `statement` is a statement that was not freed, `name` a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_parameter_number(
    statement: *const StatementHandle,
    name: *const c_char,
) -> usize {
    // SAFETY: by the contract of the function.
    let (statement, name) = unsafe { (statement.as_ref(), c_str(name, "name")) };
    let (Some(statement), Ok(name)) = (statement, name) else {
        return 0;
    };
    let mut names = statement.statement.parameter_names().iter();
    let index = names.position(|known| known.as_deref() == Some(name));
    index.map_or(0, |index| index + 1)
}

/// Gives a parameter no value.
///
/// # Safety
/// `statement` is a statement that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_bind_null(
    statement: *mut StatementHandle,
    number: usize,
) -> *mut ErrorHandle {
    // SAFETY: by the contract of the function.
    guarded(|| unsafe { handle_mut(statement, "statement") }?.bind(number, Value::Null))
}

/// Gives a parameter an integer.
///
/// # Safety
/// `statement` is a statement that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_bind_integer(
    statement: *mut StatementHandle,
    number: usize,
    value: i64,
) -> *mut ErrorHandle {
    // SAFETY: by the contract of the function.
    guarded(|| unsafe { handle_mut(statement, "statement") }?.bind(number, Value::Integer(value)))
}

/// Gives a parameter a real number.
///
/// # Safety
/// `statement` is a statement that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_bind_real(
    statement: *mut StatementHandle,
    number: usize,
    value: f64,
) -> *mut ErrorHandle {
    // SAFETY: by the contract of the function.
    guarded(|| unsafe { handle_mut(statement, "statement") }?.bind(number, Value::Real(value)))
}

/// Gives a parameter a text, which must be UTF-8.
///
/// # Safety
/// `statement` is a statement that was not freed; `value` can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_bind_text(
    statement: *mut StatementHandle,
    number: usize,
    value: Text,
) -> *mut ErrorHandle {
    guarded(|| {
        // SAFETY: by the contract of the function.
        let statement = unsafe { handle_mut(statement, "statement") }?;
        // SAFETY: by the contract of the function.
        let value = unsafe { bytes(value, "value") }?;
        let text = str::from_utf8(value).map_err(|error| {
            let byte = error.valid_up_to();
            Failure::Argument(format!(
                "argument `value` is not UTF-8 at byte {byte}; hint: zipfdb_bind_blob takes any bytes"
            ))
        })?;
        statement.bind(number, Value::from(text))
    })
}

/// Gives a parameter bytes, as a BLOB.
///
/// # Safety
/// `statement` is a statement that was not freed; `value` can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_bind_blob(
    statement: *mut StatementHandle,
    number: usize,
    value: Text,
) -> *mut ErrorHandle {
    guarded(|| {
        // SAFETY: by the contract of the function.
        let statement = unsafe { handle_mut(statement, "statement") }?;
        // SAFETY: by the contract of the function.
        let value = unsafe { bytes(value, "value") }?;
        statement.bind(number, Value::Blob(value.to_vec()))
    })
}

/// Runs a statement with its values. Its rows are made as they are asked for; the statement may be run again meanwhile.
///
/// # Safety
/// `statement` is a statement that was not freed; `rows` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_query(
    statement: *const StatementHandle,
    rows: *mut *mut RowsHandle,
) -> *mut ErrorHandle {
    guarded(|| {
        // SAFETY: by the contract of the function.
        let statement = unsafe { handle(statement, "statement") }?;
        let answer = statement.query()?;
        // SAFETY: by the contract of the function.
        unsafe { give(rows, RowsHandle::new(answer), "rows") }
    })
}

/// Runs a statement with its values, to its end, and writes the number of rows that it has changed. `changed` may be NULL.
///
/// # Safety
/// `statement` is a statement that was not freed; `changed` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_run(
    statement: *const StatementHandle,
    changed: *mut u64,
) -> *mut ErrorHandle {
    guarded(|| {
        // SAFETY: by the contract of the function.
        let statement = unsafe { handle(statement, "statement") }?;
        let count = statement.statement.execute(&statement.values)?;
        if changed.is_null() {
            return Ok(());
        }
        // SAFETY: by the contract of the function.
        unsafe { write(changed, count, "changed") }
    })
}

/// Frees a statement. Rows of it stay.
///
/// # Safety
/// `statement` is NULL or a statement that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_statement_free(statement: *mut StatementHandle) {
    // SAFETY: by the contract of the function.
    unsafe { free(statement) }
}
