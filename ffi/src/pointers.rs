//! Pointers that come in and go out.
//!
//! Invariant: a pointer that may not be NULL is checked before it is followed.

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

use arrow_schema::ArrowError;

use crate::text::Text;

/// Why a call did not do its work.
pub(crate) enum Failure {
    /// The library refused.
    Database(zipfdb::Error),
    /// An argument that is not as it must be.
    Argument(String),
}

impl From<zipfdb::Error> for Failure {
    fn from(error: zipfdb::Error) -> Failure {
        Failure::Database(error)
    }
}

impl From<zipfdb_arrow::Error> for Failure {
    fn from(error: zipfdb_arrow::Error) -> Failure {
        match error {
            zipfdb_arrow::Error::Database(error) => Failure::Database(error),
            error => Failure::Argument(error.to_string()),
        }
    }
}

impl From<ArrowError> for Failure {
    fn from(error: ArrowError) -> Failure {
        Failure::Argument(error.to_string())
    }
}

/// The handle behind a pointer.
///
/// # Safety
/// `pointer` is NULL or a handle that was not freed, which nothing changes meanwhile.
pub(crate) unsafe fn handle<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: by the contract of the function.
    unsafe { pointer.as_ref() }.ok_or_else(|| is_null(name))
}

/// The handle behind a pointer, to be changed.
///
/// # Safety
/// `pointer` is NULL or a handle that was not freed, which nothing else uses meanwhile.
pub(crate) unsafe fn handle_mut<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: by the contract of the function.
    unsafe { pointer.as_mut() }.ok_or_else(|| is_null(name))
}

/// A text that ends with a zero byte.
///
/// # Safety
/// `text` is NULL or such a text, which lives as long as the result.
pub(crate) unsafe fn c_str<'a>(text: *const c_char, name: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(is_null(name));
    }
    // SAFETY: by the contract of the function.
    let text = unsafe { CStr::from_ptr(text) }.to_str();
    text.map_err(|error| {
        let byte = error.valid_up_to();
        Failure::Argument(format!("argument `{name}` is not UTF-8 at byte {byte}"))
    })
}

/// The bytes of a text.
///
/// # Safety
/// `text.bytes` is NULL or has `text.length` bytes, which live as long as the result.
pub(crate) unsafe fn bytes<'a>(text: Text, name: &str) -> Result<&'a [u8], Failure> {
    // SAFETY: by the contract of the function.
    unsafe { items(text.bytes, text.length, name) }
}

/// The items of an array.
///
/// # Safety
/// `first` is NULL or has `count` items, which live as long as the result.
pub(crate) unsafe fn items<'a, T>(
    first: *const T,
    count: usize,
    name: &str,
) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() {
        return Err(is_null(name));
    }
    // SAFETY: by the contract of the function.
    Ok(unsafe { slice::from_raw_parts(first, count) })
}

/// The texts of an array.
///
/// # Safety
/// As [`items`], and as [`bytes`] for each of them.
pub(crate) unsafe fn texts<'a>(
    first: *const Text,
    count: usize,
    name: &str,
) -> Result<Vec<&'a [u8]>, Failure> {
    // SAFETY: by the contract of the function.
    let texts = unsafe { items(first, count, name) }?.iter();
    // SAFETY: by the contract of the function.
    texts.map(|&text| unsafe { bytes(text, name) }).collect()
}

/// Writes a result to where a pointer leads.
///
/// # Safety
/// `target` is NULL or can be written.
pub(crate) unsafe fn write<T>(target: *mut T, value: T, name: &str) -> Result<(), Failure> {
    if target.is_null() {
        return Err(is_null(name));
    }
    // SAFETY: by the contract of the function.
    unsafe { target.write(value) };
    Ok(())
}

/// Writes a new handle to where a pointer leads.
///
/// # Safety
/// As [`write`].
pub(crate) unsafe fn give<T>(target: *mut *mut T, value: T, name: &str) -> Result<(), Failure> {
    if target.is_null() {
        return Err(is_null(name));
    }
    // SAFETY: by the contract of the function.
    unsafe { target.write(Box::into_raw(Box::new(value))) };
    Ok(())
}

/// Frees a handle. A panic of its drop ends here, as no error can be returned.
///
/// # Safety
/// `pointer` is NULL or a handle that was not freed.
pub(crate) unsafe fn free<T>(pointer: *mut T) {
    if !pointer.is_null() {
        // SAFETY: by the contract of the function.
        let owned = unsafe { Box::from_raw(pointer) };
        let _ = catch_unwind(AssertUnwindSafe(|| drop(owned)));
    }
}

fn is_null(name: &str) -> Failure {
    Failure::Argument(format!("argument `{name}` is NULL"))
}
