//! Grammars as arrays, on the host and on devices, and what every task needs of one: weights, lengths, expansions.
//!
//! The invariant: a grammar is trusted, since it was checked when it was read. What is asked of it is in the folders of the subjects.

pub(crate) mod chosen_files;
pub(crate) mod expand;
pub(crate) mod fan_in_gpu;
pub(crate) mod grammar_gpu;
pub(crate) mod grammar_view;
pub(crate) mod lengths;
#[cfg(test)]
pub(crate) mod test_grammars;
pub(crate) mod traversal_gpu;
pub(crate) mod weights;
pub(crate) mod weights_gpu;
pub(crate) mod word_grammar;
pub(crate) mod words_gpu;
