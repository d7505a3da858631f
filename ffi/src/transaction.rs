//! Transactions: edits that happen together or not at all.

use std::ffi::c_char;

use crate::boundary::guarded;
use crate::database::Database;
use crate::error::ErrorHandle;
use crate::pointers::{Failure, bytes, c_str, free, give, handle, handle_mut};
use crate::text::Text;

/// Edits that are not committed. It is the only writer while it lives.
///
/// It is freed by `zipfdb_commit` or `zipfdb_rollback`.
pub struct TransactionHandle(zipfdb::Transaction);

/// Begins a transaction. Other writers wait until it ends; the thread that has it must not write by the database meanwhile.
///
/// # Safety
/// `database` is a database that was not closed; `transaction` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_begin(
    database: *const Database,
    transaction: *mut *mut TransactionHandle,
) -> *mut ErrorHandle {
    guarded(|| {
        // SAFETY: by the contract of the function.
        let database = unsafe { handle(database, "database") }?;
        let begun = TransactionHandle(database.0.begin()?);
        // SAFETY: by the contract of the function.
        unsafe { give(transaction, begun, "transaction") }
    })
}

/// Runs one statement without parameters in a transaction, to its end. `changed` may be NULL.
///
/// # Safety
/// `transaction` is a transaction that did not end, `sql` a C string, `changed` NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_transaction_execute(
    transaction: *mut TransactionHandle,
    sql: *const c_char,
    changed: *mut u64,
) -> *mut ErrorHandle {
    guarded(|| {
        // SAFETY: by the contract of the function.
        let transaction = unsafe { handle_mut(transaction, "transaction") }?;
        // SAFETY: by the contract of the function.
        let sql = unsafe { c_str(sql, "sql") }?;
        let count = transaction.0.execute(sql, ())?;
        if !changed.is_null() {
            // SAFETY: by the contract of the function.
            unsafe { changed.write(count) };
        }
        Ok(())
    })
}

/// Appends a text to a file, which is created if it is missing.
///
/// # Safety
/// `transaction` is a transaction that did not end, `corpus` and `file` are C strings, `text` can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_transaction_append(
    transaction: *mut TransactionHandle,
    corpus: *const c_char,
    file: *const c_char,
    text: Text,
) -> *mut ErrorHandle {
    // SAFETY: by the contract of the function.
    unsafe {
        edit_text(transaction, corpus, file, text, |edit, text| {
            edit.transaction.append(edit.corpus, edit.file, text)
        })
    }
}

/// Inserts a text into a file, before the byte `offset`.
///
/// # Safety
/// As `zipfdb_transaction_append`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_transaction_insert(
    transaction: *mut TransactionHandle,
    corpus: *const c_char,
    file: *const c_char,
    offset: u64,
    text: Text,
) -> *mut ErrorHandle {
    // SAFETY: by the contract of the function.
    unsafe {
        edit_text(transaction, corpus, file, text, |edit, text| {
            edit.transaction
                .insert(edit.corpus, edit.file, offset, text)
        })
    }
}

/// Gives a file another text; it is created if it is missing.
///
/// # Safety
/// As `zipfdb_transaction_append`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_transaction_replace(
    transaction: *mut TransactionHandle,
    corpus: *const c_char,
    file: *const c_char,
    text: Text,
) -> *mut ErrorHandle {
    // SAFETY: by the contract of the function.
    unsafe {
        edit_text(transaction, corpus, file, text, |edit, text| {
            edit.transaction.replace(edit.corpus, edit.file, text)
        })
    }
}

/// Deletes a file.
///
/// # Safety
/// `transaction` is a transaction that did not end, `corpus` and `file` are C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_transaction_delete(
    transaction: *mut TransactionHandle,
    corpus: *const c_char,
    file: *const c_char,
) -> *mut ErrorHandle {
    guarded(|| {
        // SAFETY: by the contract of the function.
        let edit = unsafe { edit(transaction, corpus, file) }?;
        Ok(edit.transaction.delete(edit.corpus, edit.file)?)
    })
}

/// Commits a transaction and frees it, also if that fails: nothing has changed then.
///
/// # Safety
/// `transaction` is a transaction that did not end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_commit(transaction: *mut TransactionHandle) -> *mut ErrorHandle {
    guarded(|| {
        // SAFETY: by the contract of the function; the pointer is not used again.
        let transaction = unsafe {
            handle(transaction, "transaction")?;
            Box::from_raw(transaction)
        };
        Ok(transaction.0.commit()?)
    })
}

/// Undoes a transaction and frees it.
///
/// # Safety
/// `transaction` is NULL or a transaction that did not end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_rollback(transaction: *mut TransactionHandle) {
    // SAFETY: by the contract of the function.
    unsafe { free(transaction) }
}

/// The subject of an edit.
struct Edit<'a> {
    transaction: &'a mut zipfdb::Transaction,
    corpus: &'a str,
    file: &'a str,
}

/// # Safety
/// As `zipfdb_transaction_append`.
unsafe fn edit<'a>(
    transaction: *mut TransactionHandle,
    corpus: *const c_char,
    file: *const c_char,
) -> Result<Edit<'a>, Failure> {
    // SAFETY: by the contract of the function.
    unsafe {
        Ok(Edit {
            transaction: &mut handle_mut(transaction, "transaction")?.0,
            corpus: c_str(corpus, "corpus")?,
            file: c_str(file, "file")?,
        })
    }
}

/// Makes an edit with a text.
///
/// # Safety
/// As `zipfdb_transaction_append`.
unsafe fn edit_text(
    transaction: *mut TransactionHandle,
    corpus: *const c_char,
    file: *const c_char,
    text: Text,
    make: impl FnOnce(Edit<'_>, &[u8]) -> zipfdb::Result<()>,
) -> *mut ErrorHandle {
    guarded(|| {
        // SAFETY: by the contract of the function.
        let (edit, text) = unsafe { (edit(transaction, corpus, file)?, bytes(text, "text")?) };
        Ok(make(edit, text)?)
    })
}
