//! What the targets of `fuzz/` reach of the insides of this crate.
//!
//! Hidden from the documentation and no part of the interface; nothing but those targets and the test that runs their
//! seeds may use it.

pub use crate::tokenize::{Sink, chunk_end, has_glued_space, tokenize};
pub use zipfdb_storage::Tokenizer;
