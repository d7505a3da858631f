//! Rows of an answer, one by one.
//!
//! Invariant: texts of a row live until the next one is asked for.

use std::ffi::{CString, c_char};
use std::ptr;

use zipfdb::{Row, Rows, Value};

use crate::boundary::guarded;
use crate::error::{ErrorHandle, c_text};
use crate::pointers::{free, handle_mut, write};
use crate::text::Text;

/// The kinds of values.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// No value; of a column: its kind is not known before its values are.
    Null = 0,
    /// A signed integer of 64 bits; BOOLEAN is 0 and 1.
    Integer = 1,
    /// A floating point number of 64 bits.
    Real = 2,
    /// A text in UTF-8; DATE and TIMESTAMP are texts as well.
    Text = 3,
    /// Bytes.
    Blob = 4,
}

/// The rows of an answer. They are freed by `zipfdb_rows_free`.
pub struct RowsHandle {
    rows: Rows,
    row: Option<Row>,
    names: Vec<CString>,
    notices: Vec<CString>,
}

impl RowsHandle {
    pub(crate) fn new(rows: Rows) -> RowsHandle {
        let names = rows.columns().iter().map(|column| c_text(column.name()));
        let notices = rows.notices().iter();
        RowsHandle {
            names: names.collect(),
            notices: notices.map(|notice| c_text(&notice.to_string())).collect(),
            row: None,
            rows,
        }
    }

    fn value(&self, column: usize) -> &Value {
        let row = self.row.as_ref();
        row.and_then(|row| row.values().get(column))
            .unwrap_or(&Value::Null)
    }
}

/// Moves to the next row. Writes false to `has_row` behind the last one.
///
/// # Safety
/// `rows` are rows that were not freed; `has_row` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_rows_next(
    rows: *mut RowsHandle,
    has_row: *mut bool,
) -> *mut ErrorHandle {
    guarded(|| {
        // SAFETY: by the contract of the function.
        let rows = unsafe { handle_mut(rows, "rows") }?;
        rows.row = None;
        rows.row = rows.rows.next().transpose()?;
        // SAFETY: by the contract of the function.
        unsafe { write(has_row, rows.row.is_some(), "has_row") }
    })
}

/// The number of columns; 0 for a statement without an answer.
///
/// # Safety
/// `rows` are rows that were not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_rows_columns(rows: *const RowsHandle) -> usize {
    // SAFETY: by the contract of the function.
    unsafe { rows.as_ref() }.map_or(0, |rows| rows.names.len())
}

/// The name of a column, numbered from 0, which lives as long as the rows; NULL if there is no such column.
///
/// # Safety
/// `rows` are rows that were not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_rows_name(rows: *const RowsHandle, column: usize) -> *const c_char {
    // SAFETY: by the contract of the function.
    let name = unsafe { rows.as_ref() }.and_then(|rows| rows.names.get(column));
    name.map_or(ptr::null(), |name| name.as_ptr())
}

/// The number of rows that the statement has changed.
///
/// # Safety
/// `rows` are rows that were not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_rows_changed(rows: *const RowsHandle) -> u64 {
    // SAFETY: by the contract of the function.
    unsafe { rows.as_ref() }.map_or(0, |rows| rows.rows.changed())
}

/// A notice about the statement, numbered from 0: no error, but worth knowing. It lives as long as the rows; NULL behind the last.
///
/// # Safety
/// `rows` are rows that were not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_rows_notice(
    rows: *const RowsHandle,
    number: usize,
) -> *const c_char {
    // SAFETY: by the contract of the function.
    let notice = unsafe { rows.as_ref() }.and_then(|rows| rows.notices.get(number));
    notice.map_or(ptr::null(), |notice| notice.as_ptr())
}

/// The kind of a value of the current row; NULL also if there is no row or no such column.
///
/// # Safety
/// `rows` are rows that were not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_value_kind(rows: *const RowsHandle, column: usize) -> ValueKind {
    // SAFETY: by the contract of the function.
    let value = unsafe { rows.as_ref() }.map_or(&Value::Null, |rows| rows.value(column));
    match value {
        Value::Null => ValueKind::Null,
        Value::Integer(_) => ValueKind::Integer,
        Value::Real(_) => ValueKind::Real,
        Value::Text(_) => ValueKind::Text,
        Value::Blob(_) => ValueKind::Blob,
    }
}

/// An integer of the current row; a real number is cut to one, anything else is 0.
///
/// # Safety
/// `rows` are rows that were not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_value_integer(rows: *const RowsHandle, column: usize) -> i64 {
    // SAFETY: by the contract of the function.
    let value = unsafe { rows.as_ref() }.map_or(&Value::Null, |rows| rows.value(column));
    match value {
        Value::Integer(value) => *value,
        Value::Real(value) => *value as i64,
        _ => 0,
    }
}

/// A real number of the current row; anything but a number is 0.
///
/// # Safety
/// `rows` are rows that were not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_value_real(rows: *const RowsHandle, column: usize) -> f64 {
    // SAFETY: by the contract of the function.
    let value = unsafe { rows.as_ref() }.map_or(&Value::Null, |rows| rows.value(column));
    match value {
        Value::Integer(value) => *value as f64,
        Value::Real(value) => *value,
        _ => 0.0,
    }
}

/// The bytes of a TEXT or BLOB of the current row; NULL bytes for anything else.
///
/// # Safety
/// `rows` are rows that were not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_value_text(rows: *const RowsHandle, column: usize) -> Text {
    // SAFETY: by the contract of the function.
    let value = unsafe { rows.as_ref() }.map_or(&Value::Null, |rows| rows.value(column));
    match value {
        Value::Text(text) => Text::of(text.as_bytes()),
        Value::Blob(bytes) => Text::of(bytes),
        _ => Text::NONE,
    }
}

/// Frees rows. Those that were not asked for are not made.
///
/// # Safety
/// `rows` is NULL or rows that were not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_rows_free(rows: *mut RowsHandle) {
    // SAFETY: by the contract of the function.
    unsafe { free(rows) }
}
