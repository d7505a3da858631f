//! Answers, parameters and texts as streams of Arrow's C interface.
//!
//! Invariant: a stream that comes in is released, also if the call fails.

use std::ffi::c_char;

use zipfdb_arrow::{
    ArrowArrayStreamReader, FFI_ArrowArrayStream, IntoRecordBatches, RecordColumns, parameter_sets,
    records,
};

use crate::boundary::guarded;
use crate::database::Database;
use crate::error::ErrorHandle;
use crate::pointers::{Failure, c_str, handle, write};
use crate::statement::StatementHandle;

/// Runs a statement with its values, and gives its answer as a stream. Words, names of files and n-grams are dictionaries; rows are
/// made as they are asked for. Another library may read the stream; its `release` ends the statement.
///
/// # Safety
/// `statement` is a statement that was not freed; `stream` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_query_stream(
    statement: *const StatementHandle,
    stream: *mut FFI_ArrowArrayStream,
) -> *mut ErrorHandle {
    guarded(|| {
        // SAFETY: by the contract of the function.
        let statement = unsafe { handle(statement, "statement") }?;
        let batches = statement.query()?.into_record_batches()?;
        // SAFETY: by the contract of the function.
        unsafe { write(stream, batches.into_c_stream(), "stream") }
    })
}

/// Runs a statement once for each row of a stream, whose columns are the values of its parameters in order, and gives all answers as
/// one stream. `binding()` in the statement is the number of the row, from 0.
///
/// # Safety
/// `statement` is a statement that was not freed; `parameters` is a stream; `stream` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_query_many_stream(
    statement: *const StatementHandle,
    parameters: *mut FFI_ArrowArrayStream,
    stream: *mut FFI_ArrowArrayStream,
) -> *mut ErrorHandle {
    guarded(|| {
        // SAFETY: by the contract of the function.
        let parameters = unsafe { reader(parameters, "parameters") }?;
        // SAFETY: by the contract of the function.
        let statement = unsafe { handle(statement, "statement") }?;
        let mut sets = Vec::new();
        for batch in parameters {
            sets.extend(parameter_sets(&batch?)?);
        }
        let batches = statement.query_many(&sets)?.into_record_batches()?;
        // SAFETY: by the contract of the function.
        unsafe { write(stream, batches.into_c_stream(), "stream") }
    })
}

/// Appends a text for each row of a stream: the columns `file` and `content` are names and texts, all others go into declared columns
/// of the same names. Each batch is one transaction. Writes the number of texts; `count` may be NULL.
///
/// # Safety
/// `database` is a database that was not closed, `corpus` a C string; `texts` is a stream; `count` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_append_stream(
    database: *const Database,
    corpus: *const c_char,
    texts: *mut FFI_ArrowArrayStream,
    count: *mut u64,
) -> *mut ErrorHandle {
    guarded(|| {
        // SAFETY: by the contract of the function.
        let texts = unsafe { reader(texts, "texts") }?;
        // SAFETY: by the contract of the function.
        let database = unsafe { handle(database, "database") }?;
        // SAFETY: by the contract of the function.
        let corpus = unsafe { c_str(corpus, "corpus") }?;
        let corpus = database.0.corpus(corpus)?;
        let mut appended = 0;
        for batch in texts {
            let records = records(&batch?, &RecordColumns::default())?;
            corpus.append_records(&records)?;
            appended += records.len() as u64;
        }
        if count.is_null() {
            return Ok(());
        }
        // SAFETY: by the contract of the function.
        unsafe { write(count, appended, "count") }
    })
}

/// The batches of a stream, which is empty afterwards.
///
/// # Safety
/// `stream` is NULL or a stream.
unsafe fn reader(
    stream: *mut FFI_ArrowArrayStream,
    name: &str,
) -> Result<ArrowArrayStreamReader, Failure> {
    if stream.is_null() {
        return Err(Failure::Argument(format!("argument `{name}` is NULL")));
    }
    // SAFETY: by the contract of the function.
    Ok(unsafe { ArrowArrayStreamReader::from_raw(stream) }?)
}
