//! What the targets of `fuzz/` and suite `tokenize` of `bench/` reach of the insides of this crate.
//!
//! Hidden from the documentation and no part of the interface; nothing but those and the test that runs the targets' seeds
//! may use it.

pub use crate::tokenize::{Interner, Sink, chunk_end, has_glued_space, tokenize};
pub use zipfdb_kernels::{
    LINK_BYTES_MAX, NgramTable, PackedLists, PlaceSource, WordPlaces, gompresso, stored_places,
};
pub use zipfdb_storage::Tokenizer;
