//! An embeddable database for text that stays compressed while it is queried.
#![forbid(unsafe_code)]

mod error;
#[allow(dead_code, reason = "nothing calls it yet")]
mod ingest;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod progress;
#[allow(dead_code, reason = "nothing calls it yet")]
mod sources;
#[allow(dead_code, unused_imports, reason = "nothing calls it yet")]
mod tokenize;

pub use error::{Error, Result};
pub use progress::{NoProgress, Progress};
