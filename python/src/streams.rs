//! Streams of Arrow's C interface in capsules of Python: answers on their way out, batches on their way in.
//!
//! Invariant: a capsule that is dropped releases its stream unless a consumer has taken it. This is the only file with `unsafe`.

use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use zipfdb_arrow::{ArrowArrayStreamReader, FFI_ArrowArrayStream};

use crate::errors::{DataError, InterfaceError};

/// The name that the PyCapsule interface gives a stream.
const NAME: &std::ffi::CStr = c"arrow_array_stream";

/// A stream in a capsule.
///
/// # Errors
/// If Python has no memory.
pub(crate) fn capsule(
    py: Python<'_>,
    stream: FFI_ArrowArrayStream,
) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, stream, NAME)
}

/// The batches of an object that has `__arrow_c_stream__`: a table or reader of pyarrow, a DataFrame of polars or pandas, a relation.
///
/// # Errors
/// If it has no stream, or not one of batches.
pub(crate) fn batches(source: &Bound<'_, PyAny>) -> PyResult<ArrowArrayStreamReader> {
    if !source.hasattr("__arrow_c_stream__")? {
        let name = source.get_type().name()?;
        return Err(InterfaceError::new_err(format!(
            "`{name}` is no source of Arrow's batches: it has no `__arrow_c_stream__`"
        )));
    }
    let capsule = source.call_method0("__arrow_c_stream__")?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let stream = capsule.pointer_checked(Some(NAME))?;
    // SAFETY: a capsule of this name holds a stream, which stays where it is while `capsule` lives; taking it leaves a released one
    // there, as the interface demands.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(stream.cast().as_ptr()) };
    ArrowArrayStreamReader::try_new(stream).map_err(|error| DataError::new_err(error.to_string()))
}
