//! ZipfDB as a C library.
//!
//! Invariant: nothing unwinds across the boundary; a panic inside becomes an error of the kind `Panic`. Pointers that may not be
//! NULL are checked. Every function says in its `Safety` section what the pointers must be.
//!
//! The header `zipfdb.h` is made of these files by cbindgen, so their documentation is that of C.
#![deny(unsafe_op_in_unsafe_fn)]

mod adbc;
mod boundary;
mod database;
mod error;
mod pointers;
mod rows;
mod snapshot;
mod statement;
mod stream;
mod text;
mod texts;
mod transaction;

pub use database::*;
pub use error::*;
pub use rows::*;
pub use snapshot::*;
pub use statement::*;
pub use stream::*;
pub use text::*;
pub use texts::*;
pub use transaction::*;
