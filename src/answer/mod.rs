//! Answers from all segments of a corpus and the edits that are pending.
//!
//! The invariant: answers are exact, whatever way they were found and however files are cut into parts: counts of parts add up,
//! offsets move by where the part begins, extracts go across the borders. Nothing here writes or knows which statement asks.

mod corpus_view;
mod device_answers;
mod edited_text;
mod file_index;
pub(crate) mod found;
mod known;
mod merge;
mod ngram_parts;
mod ngrams;
mod on_devices;
mod pending;
mod stored_view;
mod stream;
mod tables;
mod tasks;
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
pub(crate) use ngram_parts::SegmentNgrams;
pub(crate) use ngrams::CountedNgrams;
pub(crate) use stored_view::StoredView;
pub(crate) use stream::{Occurrence, WordStream};
pub use tables::{FileCounts, Ngram, NgramCounts, TermVectors, WordCounts};
pub(crate) use top::Top;
