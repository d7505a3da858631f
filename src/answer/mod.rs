//! Answers from all segments of a corpus and the edits that are pending: an operation is one file.
//!
//! `word_counts`, `file_counts`, `frequent_words`, `word_files`, `all_words`, `match_counts`, `near_words`, `ngrams`, `first_ngrams`,
//! `ngrams_of_files`, `phrase`, `count`, `search` and `extract` each have the access paths of their operation on a segment, the
//! merging of the answers of segments, and their correction by edits. `access_path` chooses among paths, `placement` among devices, `cost`
//! has the estimates for both, `merge` and `correction` are shared by operations. The views are data.
//!
//! The invariant: answers are exact, by any path and for any cutting of files into parts: counts of parts add up, offsets move by
//! where the part begins, extracts go across the borders. This module writes nothing and knows no statement.

pub(crate) mod access_path;
mod all_words;
mod any_length;
#[cfg(test)]
mod any_length_tests;
pub(crate) mod batch_results;
mod corpus_view;
mod correction;
mod count;
mod counted_ngrams;
mod device_ngrams;
mod device_partitions;
#[cfg(test)]
mod edit_tests;
mod edited_text;
mod extract;
mod file_column;
mod file_counts;
mod file_index;
mod file_plan;
mod first_ngrams;
mod frequent_words;
mod gap_classes;
mod grep;
mod long_suffixes;
mod longest_matches;
mod lookup_cache;
mod match_counts;
mod merge;
mod metadata;
mod near_words;
mod next_words;
mod ngram_files;
mod ngram_merge;
mod ngram_partitions;
mod ngram_payload;
mod ngram_plan;
mod ngrams;
mod ngrams_of_files;
mod numbering;
#[cfg(test)]
mod path_tests;
mod pending_view;
mod phrase;
mod placement;
mod plan;
mod question;
mod reader;
mod repeats;
mod seams;
mod search;
#[cfg(test)]
mod small_memory_tests;
mod spans;
mod stored_view;
mod tables;
mod terminals;
#[cfg(test)]
mod tests;
mod text_pass;
mod top_k;
mod vocabulary;
mod word_counts;
mod word_cursor;
mod word_files;
mod word_number_cursor;
mod word_numbers;
mod word_plan;

pub use any_length::{
    LongestMatch, NextWord, NextWords, RepeatedPassage, RepeatedPassages, TextOverlap,
};
pub(crate) use batch_results::Found;
pub(crate) use corpus_view::CorpusView;
pub(crate) use counted_ngrams::{CountedNgrams, WithCounts};
pub(crate) use edited_text::{EditedText, ask_stored, extract_pieces};
pub(crate) use file_column::{FileColumn, FileColumnValues, stored_value};
pub use file_index::FileSummary;
pub(crate) use file_plan::{FileMethod, plan_files_with, plan_string};
pub(crate) use gap_classes::{GapClasses, NO_BREAK};
pub(crate) use grep::{FileSpans, SpanPlace, SpanQuestion, SpansOf, TextSpan};
pub(crate) use lookup_cache::{LookupCache, Lookups};
pub(crate) use near_words::NearCounts;
pub(crate) use ngram_files::WithFiles;
pub(crate) use ngram_partitions::SegmentNgrams;
pub(crate) use ngram_payload::{NgramAnswer, NgramOrder, NgramPayload, NgramRequest, NgramsPart};
pub(crate) use ngram_plan::{NgramMethod, plan_ngrams};
pub(crate) use phrase::PhrasePlace;
pub(crate) use placement::lookups_cost;
pub(crate) use question::{
    FileSet, Granularity, MergedOrder, PlaceConditions, PlaceSet, Question, ShownParts, TextSet,
};
pub(crate) use reader::CorpusReader;
pub(crate) use spans::{SpanPasses, SpanTable};
pub(crate) use stored_view::{StoredCorpus, StoredView};
pub use tables::{FileCounts, FileList, Ngram, NgramCounts, TermVectors, WordCounts};
pub(crate) use text_pass::SymbolSteps;
pub(crate) use top_k::Top;
pub(crate) use word_cursor::{Occurrence, PlaceRanges, WordStream};
pub(crate) use word_number_cursor::{NumberRun, NumberStream};
pub(crate) use word_plan::{
    FEW_WORDS, PlanSettings, TermVectorMethod, WordMethod, plan_term_vectors, plan_words,
};
