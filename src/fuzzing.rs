//! The internals that the targets of `fuzz/` and suite `tokenize` of `bench/` use.
//!
//! Hidden from the documentation and not part of the interface; only those targets and the test that runs their seeds may use it.

pub use crate::tokenize::{Interner, Sink, chunk_end, has_glued_space, tokenize};
pub use zipfdb_kernels::{
    LINK_BYTES_MAX, NgramTable, PackedLists, PlaceSource, WordPlaces, gompresso, stored_places,
};
pub use zipfdb_storage::Tokenizer;
