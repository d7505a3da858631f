//! The extension module `zipfdb._zipfdb`: handles of ZipfDB for the package `zipfdb`, whose Python code makes its interface of them.
//!
//! Invariant: nothing here waits for the database while it has the interpreter's lock. Names, defaults and documentation for users
//! are in `python/zipfdb/`.

#![deny(unsafe_code)]

mod database;
mod edits;
mod errors;
mod rows;
mod snapshot;
#[allow(unsafe_code)]
mod streams;
mod values;
mod work;

use std::sync::OnceLock;

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

/// The address of the `sys` of the interpreter that has imported the module, which each interpreter has its own of.
static INTERPRETER: OnceLock<usize> = OnceLock::new();

/// Handles of ZipfDB.
#[pymodule]
fn _zipfdb(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let own = module.py().import("sys")?.as_ptr() as usize;
    if *INTERPRETER.get_or_init(|| own) != own {
        return Err(PyImportError::new_err(
            "zipfdb is imported by another interpreter of this process, and its exceptions belong to that one; hint: use threads \
             or processes",
        ));
    }
    errors::register(module)?;
    module.add_class::<database::Database>()?;
    module.add_class::<database::Reader>()?;
    module.add_class::<database::Transaction>()?;
    module.add_class::<edits::Edits>()?;
    module.add_class::<rows::Rows>()?;
    module.add_class::<snapshot::Snapshot>()?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
