//! The boundary to C: what fails or panics inside becomes an error.
//!
//! Invariant: `guarded` is around the work of every function that can fail.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::error::{ErrorHandle, ErrorKind};
use crate::pointers::Failure;

/// Does the work of a call, and makes an error of its failure or its panic.
pub(crate) fn guarded(work: impl FnOnce() -> Result<(), Failure>) -> *mut ErrorHandle {
    let error = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return ptr::null_mut(),
        Ok(Err(Failure::Database(error))) => ErrorHandle::of(&error),
        Ok(Err(Failure::Argument(message))) => ErrorHandle::new(ErrorKind::Invalid, &message),
        Err(panic) => ErrorHandle::new(ErrorKind::Panic, &panic_text(&*panic)),
    };
    Box::into_raw(Box::new(error))
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    let text = text.unwrap_or("a panic without a text");
    format!("defect in the library: {text}; hint: report it, and close the database")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::ffi::CStr;

    use super::*;
    use crate::pointers::free;

    #[test]
    fn panics_become_errors() {
        let error = guarded(|| panic!("of {}", "work"));
        // SAFETY: `guarded` gives a handle, which is not freed before the end.
        let (message, kind) = unsafe {
            let message = CStr::from_ptr(crate::zipfdb_error_message(error));
            (
                message.to_str().unwrap(),
                crate::zipfdb_error_get_kind(error),
            )
        };
        assert!(message.contains("of work"), "{message}");
        assert_eq!(kind, ErrorKind::Panic);
        // SAFETY: the handle is not used again.
        unsafe { free(error) };
    }
}
