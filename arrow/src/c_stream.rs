//! Batches as a stream of Arrow's C interface, for other libraries of this process.
//!
//! Invariant: no panic crosses the interface. The other direction is [`arrow_array::ffi_stream::ArrowArrayStreamReader`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};

use crate::record_batches::RecordBatches;

impl RecordBatches {
    /// The rows as a stream of Arrow's C interface, for other libraries of this process. A panic becomes an error of the stream.
    pub fn into_c_stream(self) -> FFI_ArrowArrayStream {
        c_stream(self)
    }
}

/// Batches as a stream of Arrow's C interface. A panic of `batches` becomes an error of the stream, as none may cross the interface.
pub fn c_stream(batches: impl RecordBatchReader + Send + 'static) -> FFI_ArrowArrayStream {
    FFI_ArrowArrayStream::new(Box::new(WithoutPanics(Some(batches))))
}

/// None once the batches are over or have panicked.
struct WithoutPanics<B>(Option<B>);

impl<B: RecordBatchReader> Iterator for WithoutPanics<B> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batches = self.0.as_mut()?;
        // They are not used again after a panic.
        match catch_unwind(AssertUnwindSafe(|| batches.next())) {
            Ok(batch) => batch,
            Err(panic) => {
                let reason = panic.downcast_ref::<String>().map(String::as_str);
                let reason = reason.or_else(|| panic.downcast_ref::<&str>().copied());
                let reason = format!("internal error: {}", reason.unwrap_or("a panic"));
                // The rows may be in any state, and dropping them may panic again.
                std::mem::forget(self.0.take());
                Some(Err(ArrowError::ComputeError(reason)))
            }
        }
    }
}

impl<B: RecordBatchReader> RecordBatchReader for WithoutPanics<B> {
    fn schema(&self) -> SchemaRef {
        match &self.0 {
            Some(batches) => batches.schema(),
            None => Arc::new(arrow_schema::Schema::empty()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    struct Panicking;

    impl Iterator for Panicking {
        type Item = Result<RecordBatch, ArrowError>;

        fn next(&mut self) -> Option<Self::Item> {
            panic!("of a reader");
        }
    }

    impl RecordBatchReader for Panicking {
        fn schema(&self) -> SchemaRef {
            Arc::new(arrow_schema::Schema::empty())
        }
    }

    #[test]
    fn a_panic_is_an_error_of_the_stream() {
        use arrow_array::ffi_stream::ArrowArrayStreamReader;
        let mut batches = ArrowArrayStreamReader::try_new(c_stream(Panicking)).unwrap();
        let error = batches.next().unwrap().unwrap_err();
        assert!(error.to_string().contains("of a reader"), "{error}");
        assert!(batches.next().is_none());
    }
}
