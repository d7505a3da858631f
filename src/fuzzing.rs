//! What the targets of `fuzz/` reach of the insides of this crate.
//!
//! Exists under `--cfg fuzzing` only, which cargo-fuzz sets; nothing else may use it.

pub use crate::tokenize::{Sink, chunk_end, tokenize};
pub use zipfdb_storage::Tokenizer;
