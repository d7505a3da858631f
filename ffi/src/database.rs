//! Databases: open, run statements, imports, interrupts.

use std::ffi::{CStr, c_char};
use std::path::Path;

use zipfdb::InterruptHandle;

use crate::boundary::guarded;
use crate::error::ErrorHandle;
use crate::pointers::{bytes, c_str, free, give, handle};
use crate::text::Text;
use crate::texts::Texts;

/// A database, or a session of one. It is freed by `zipfdb_close`.
pub struct Database(pub(crate) zipfdb::Database);

/// Ends calls from another thread. It is freed by `zipfdb_interrupt_handle_free`.
pub struct Interrupt(InterruptHandle);

/// How to open a database. All zero is the usual way: it is created if there is none, for writing by this process alone.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct OpenOptions {
    /// Whether nothing is written: no lock is taken.
    pub read_only: bool,
    /// Whether other processes may write to it as well.
    pub shared: bool,
    /// Whether it must exist.
    pub must_exist: bool,
    /// The number of threads that work for it; 0 for the number of processors.
    pub threads: usize,
}

/// The version of this library, such as `0.1.0`.
#[unsafe(no_mangle)]
pub extern "C" fn zipfdb_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

/// Opens the database in a directory, or with the path `:memory:` one that lives in memory. `options` may be NULL.
///
/// # Safety
/// `path` is a C string, `options` NULL or one that can be read; `database` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_open(
    path: *const c_char,
    options: *const OpenOptions,
    database: *mut *mut Database,
) -> *mut ErrorHandle {
    guarded(|| {
        // SAFETY: by the contract of the function.
        let path = unsafe { c_str(path, "path") }?;
        let mut wanted = zipfdb::Database::options();
        // SAFETY: by the contract of the function.
        if let Some(options) = unsafe { options.as_ref() } {
            wanted = wanted
                .read_only(options.read_only)
                .shared(options.shared)
                .create(!options.must_exist);
            if options.threads > 0 {
                wanted = wanted.threads(options.threads);
            }
        }
        let opened = if path == ":memory:" {
            wanted.in_memory()?
        } else {
            wanted.open(Path::new(path))?
        };
        // SAFETY: by the contract of the function.
        unsafe { give(database, Database(opened), "database") }
    })
}

/// A handle of the same database with transactions and settings of its own.
///
/// # Safety
/// `database` is a database that was not closed; `session` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_session(
    database: *const Database,
    session: *mut *mut Database,
) -> *mut ErrorHandle {
    guarded(|| {
        // SAFETY: by the contract of the function.
        let database = unsafe { handle(database, "database") }?;
        // SAFETY: by the contract of the function.
        unsafe { give(session, Database(database.0.session()), "session") }
    })
}

/// Frees a database. It is closed when the last handle of it is freed, those of statements, rows and snapshots included.
///
/// # Safety
/// `database` is NULL or a database that was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_close(database: *mut Database) {
    // SAFETY: by the contract of the function.
    unsafe { free(database) }
}

/// Runs all statements of a text, each to its end, without values for parameters. Rows of answers are dropped.
///
/// # Safety
/// `database` is a database that was not closed, `sql` a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_execute(
    database: *const Database,
    sql: *const c_char,
) -> *mut ErrorHandle {
    guarded(|| {
        // SAFETY: by the contract of the function.
        let (database, sql) = unsafe { (handle(database, "database")?, c_str(sql, "sql")?) };
        Ok(database.0.execute_batch(sql)?)
    })
}

/// Appends a text to a file of a corpus, which is created if it is missing.
///
/// # Safety
/// `database` is a database that was not closed, `corpus` and `file` are C strings, `text` can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_append(
    database: *const Database,
    corpus: *const c_char,
    file: *const c_char,
    text: Text,
) -> *mut ErrorHandle {
    guarded(|| {
        // SAFETY: by the contract of the function.
        let (database, corpus, file, text) = unsafe {
            (
                handle(database, "database")?,
                c_str(corpus, "corpus")?,
                c_str(file, "file")?,
                bytes(text, "text")?,
            )
        };
        Ok(database.0.corpus(corpus)?.append(file, text)?)
    })
}

/// A handle that interrupts what runs on a database.
///
/// # Safety
/// `database` is a database that was not closed; `interrupt` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_interrupt_handle_new(
    database: *const Database,
    interrupt: *mut *mut Interrupt,
) -> *mut ErrorHandle {
    guarded(|| {
        // SAFETY: by the contract of the function.
        let database = unsafe { handle(database, "database") }?;
        // SAFETY: by the contract of the function.
        unsafe {
            give(
                interrupt,
                Interrupt(database.0.interrupt_handle()),
                "interrupt",
            )
        }
    })
}

/// Ends all calls that run on the database now; they fail with the kind `INTERRUPTED`. It may be called by any thread and by
/// handlers of signals.
///
/// # Safety
/// `interrupt` is a handle that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_interrupt(interrupt: *const Interrupt) {
    // SAFETY: by the contract of the function.
    if let Some(interrupt) = unsafe { interrupt.as_ref() } {
        interrupt.0.interrupt();
    }
}

/// Frees a handle for interrupts.
///
/// # Safety
/// `interrupt` is NULL or a handle that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_interrupt_handle_free(interrupt: *mut Interrupt) {
    // SAFETY: by the contract of the function.
    unsafe { free(interrupt) }
}

/// The names of all corpora, sorted; freed by `zipfdb_texts_free`.
///
/// # Safety
/// `database` is a database that was not closed; `names` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zipfdb_corpora(
    database: *const Database,
    names: *mut *mut Texts,
) -> *mut ErrorHandle {
    guarded(|| {
        // SAFETY: by the contract of the function.
        let database = unsafe { handle(database, "database") }?;
        let corpora = database.0.corpora().into_iter().map(String::into_bytes);
        let texts = Texts::of(corpora.collect());
        // SAFETY: by the contract of the function.
        unsafe { give(names, texts, "names") }
    })
}
