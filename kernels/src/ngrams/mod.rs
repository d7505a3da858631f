//! All n-grams of a grammar, with counts or files; on the host also as tables that answer for any length.
//!
//! The invariant: keys are exact, and n-grams come in order of their words. Where one n-gram stands is in `lookup`.

pub(crate) mod all_ngrams;
pub(crate) mod all_ngrams_gpu;
pub(crate) mod codes_gpu;
pub(crate) mod file_windows_gpu;
pub(crate) mod ngram_merge_gpu;
pub(crate) mod ngram_order_gpu;
pub(crate) mod ngram_rows_gpu;
pub(crate) mod ngram_table;
pub(crate) mod packed_ngrams;
pub(crate) mod partitions;
pub(crate) mod suffixes;
pub(crate) mod top_gpu;
pub(crate) mod windows;
