//! An embeddable database for text that stays compressed while it is queried.
#![forbid(unsafe_code)]

mod error;
mod progress;

pub use error::{Error, Result};
pub use progress::{NoProgress, Progress};
