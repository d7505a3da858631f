//! Errors as C sees them: a kind, a message, and for SQL the place and the hint.
//!
//! Invariant: all texts of an error live as long as it does, and its message has no zero byte.

use std::ffi::{CStr, CString, c_char};
use std::ptr;

use zipfdb::Error;
use zipfdb::storage::StorageError;

/// The kinds of errors, for programs that treat some of them differently.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The SQL text is wrong; the error has a place.
    Sql = 1,
    /// An argument is NULL, not UTF-8 or out of range, or a text that the database cannot hold.
    Invalid = 2,
    /// No database, corpus, file or row of this name.
    NotFound = 3,
    /// The call was interrupted.
    Interrupted = 4,
    /// The statement took longer than `statement_timeout`.
    Timeout = 5,
    /// There is no memory, or a setting allows no more.
    Memory = 6,
    /// The files of the database: damaged, locked or not writable.
    Storage = 7,
    /// A file outside of the database.
    Io = 8,
    /// A graphics processor failed.
    Device = 9,
    /// A defect of this library: it has stopped the call. Please report it.
    Panic = 10,
}

/// An error. It is freed by `zipfdb_error_free`.
pub struct ErrorHandle {
    kind: ErrorKind,
    message: CString,
    hint: Option<CString>,
    place: Option<(u64, u64)>,
}

impl ErrorHandle {
    /// An error of the library.
    pub(crate) fn of(error: &Error) -> ErrorHandle {
        let sql = match error {
            Error::Sql(error) => Some(error),
            _ => None,
        };
        let place = sql.map(|error| {
            let position = error.position();
            (position.line, position.column)
        });
        ErrorHandle {
            kind: kind_of(error),
            message: c_text(&error.to_string()),
            hint: sql.and_then(|error| error.hint()).map(c_text),
            place,
        }
    }

    /// An error without a place.
    pub(crate) fn new(kind: ErrorKind, message: &str) -> ErrorHandle {
        ErrorHandle {
            kind,
            message: c_text(message),
            hint: None,
            place: None,
        }
    }
}

/// A text as C reads it; it ends before a zero byte.
pub(crate) fn c_text(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..end]).unwrap_or_default()
}

/// The kind of an error of the library.
pub(crate) fn kind_of(error: &Error) -> ErrorKind {
    match error {
        Error::Sql(_) => ErrorKind::Sql,
        Error::NoSuchFile { .. }
        | Error::NoRows
        | Error::Storage(StorageError::NoSuchCorpus { .. } | StorageError::NoDatabase { .. }) => {
            ErrorKind::NotFound
        }
        Error::Interrupted => ErrorKind::Interrupted,
        Error::Timeout { .. } => ErrorKind::Timeout,
        Error::NoMemory { .. } | Error::TooLarge { .. } => ErrorKind::Memory,
        Error::Unreadable { .. } | Error::Io { .. } | Error::Packed { .. } => ErrorKind::Io,
        Error::Invalid { .. } | Error::FileExists { .. } => ErrorKind::Invalid,
        Error::Gpu(_) => ErrorKind::Device,
        _ => ErrorKind::Storage,
    }
}

/// The kind of an error.
///
/// # Safety
/// `error` is an error that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_error_get_kind(error: *const ErrorHandle) -> ErrorKind {
    // SAFETY: by the contract of the function.
    unsafe { &*error }.kind
}

/// The message of an error: one line that says where, what and what to do. It lives as long as the error.
///
/// # Safety
/// `error` is an error that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_error_message(error: *const ErrorHandle) -> *const c_char {
    // SAFETY: by the contract of the function.
    unsafe { &*error }.message.as_ptr()
}

/// The hint of an error, which its message holds as well; NULL if there is none.
///
/// # Safety
/// `error` is an error that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_error_hint(error: *const ErrorHandle) -> *const c_char {
    // SAFETY: by the contract of the function.
    let hint = unsafe { &*error }.hint.as_deref();
    hint.map_or(ptr::null(), CStr::as_ptr)
}

/// The place of an error in the SQL text, line and column from 1. Returns false, and writes nothing, if it has none.
///
/// # Safety
/// `error` is an error that was not freed; `line` and `column` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_error_place(
    error: *const ErrorHandle,
    line: *mut u64,
    column: *mut u64,
) -> bool {
    // SAFETY: by the contract of the function.
    let Some(place) = unsafe { &*error }.place else {
        return false;
    };
    // SAFETY: by the contract of the function.
    unsafe {
        *line = place.0;
        *column = place.1;
    }
    true
}

/// Frees an error.
///
/// # Safety
/// `error` is NULL or an error that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_error_free(error: *mut ErrorHandle) {
    // SAFETY: by the contract of the function.
    unsafe { crate::pointers::free(error) }
}
