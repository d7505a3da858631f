//! Look-ups: where words, phrases and patterns stand, and what stands in a range.
//!
//! The invariant: places are those in the text, in its order. Counting without places is in `count` and `ngrams`.

pub(crate) mod automaton;
pub(crate) mod extract;
pub(crate) mod locate;
pub(crate) mod lookups_gpu;
pub(crate) mod phrase_pass;
pub(crate) mod phrases;
pub(crate) mod phrases_gpu;
pub(crate) mod structures_gpu;
pub(crate) mod word_places;
