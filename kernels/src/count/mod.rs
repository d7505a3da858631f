//! Counts of words: of all, by file, of some words, and tables of them.
//!
//! The invariant: counts are exact, whichever way they are taken. What a symbol of the grammar counts is in `grammar`.

pub(crate) mod block_counts;
pub(crate) mod count_table;
pub(crate) mod file_counts;
pub(crate) mod file_counts_gpu;
pub(crate) mod file_words_gpu;
pub(crate) mod key_tables_gpu;
pub(crate) mod local_tables_gpu;
pub(crate) mod merge_gpu;
pub(crate) mod near_words;
pub(crate) mod occurrences;
pub(crate) mod root_words_gpu;
pub(crate) mod rule_words_gpu;
pub(crate) mod tables_gpu;
