//! Answers from all segments of a corpus and the edits that are pending.
//!
//! The invariant: answers are exact, whatever way they were found and however files are cut into parts: counts of parts add up,
//! offsets move by where the part begins, extracts go across the borders. Nothing here writes or knows which statement asks.

mod corpus_view;
pub(crate) mod cost;
mod count;
mod device_parts;
mod edited_text;
mod file_counts;
mod file_index;
pub(crate) mod found;
mod known;
mod merge;
mod ngram_packing;
mod ngram_parts;
mod ngrams;
mod numbering;
mod pending;
mod phrase;
mod search;
mod spread;
mod stored_view;
mod stream;
mod tables;
#[cfg(test)]
mod tests;
mod top;
mod vocabulary;
mod word_numbers;

pub(crate) use corpus_view::CorpusView;
pub(crate) use edited_text::{EditedText, ask_stored, extract_pieces};
pub use file_index::FileSummary;
pub(crate) use found::Found;
pub(crate) use known::Known;
pub(crate) use ngram_packing::NgramFilePart;
pub(crate) use ngram_parts::SegmentNgrams;
pub(crate) use ngrams::{CountedNgrams, NgramsPart};
pub(crate) use stored_view::StoredView;
pub(crate) use stream::{Occurrence, WordStream};
pub use tables::{FileCounts, FileList, Ngram, NgramCounts, TermVectors, WordCounts};
pub(crate) use top::Top;
