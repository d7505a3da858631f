//! Data-parallel grammar algorithms on plain slices.
//!
//! Every algorithm takes plain slices and gives plain vectors, works over
//! integers only, and runs on the current rayon pool. Results never depend on
//! the number of threads, so that a device kernel can be the bit-identical twin.
//! What reads a grammar takes a [`GrammarView`]. Nothing here knows files,
//! disks, SQL or text.
//!
//! A folder is a subject: the algorithm on the CPU, the kernels that are its twin, their launches and the tests of both lie side
//! by side. From below: `memory`, `numbers` and `sort`; `gpu`, what devices can do; `grammar`; then `construct`, `count`,
//! `edit`, `postings`, `ngrams`, `lookup` and `spans`; and `gompresso`, which knows no grammar. This file is the public list.

mod construct;
mod cost;
mod count;
mod edit;
pub mod gompresso;
pub mod gpu;
mod grammar;
mod lookup;
mod memory;
mod ngrams;
mod numbers;
pub mod postings;
mod sort;
mod sources;
mod spans;
mod stop;

pub use construct::constructed::{Constructed, Parameters, Round, Stage};
pub use construct::{TOKENS_MAX, construct, construct_observed, token_buffer};
pub use cost::PARENTS_SYMBOL_COST;
pub use count::block_counts::block_word_counts;
pub use count::count_table::{CountTable, SharedRows};
pub use count::file_counts::{
    FileCounting, RuleFiles, WordUses, file_word_counts, set_weights, weight_of, word_file_counts,
    word_set_counts,
};
pub use count::near_words::{NEAR_WORDS_MAX, near_word_counts};
pub use count::occurrences::{Parents, Signatures, cost_without_parents, count_in_file};
pub use edit::splices::{APPEND, Insert, Splice, Splices, place_inserts};
pub use grammar::chosen_files::ChosenFiles;
pub use grammar::expand::{Expander, Expansions};
pub use grammar::grammar_view::GrammarView;
pub use grammar::lengths::{Lengths, SAMPLE_SYMBOLS, fold_expansions};
pub use grammar::weights::{file_set_weights, file_weights, weights};
pub use grammar::word_grammar::{GAP, WordGrammar};
pub use lookup::automaton::{Pattern, Reading, WordReading, readings};
pub use lookup::extract::{Content, SymbolText, expand_file, extract};
pub use lookup::locate::{Structures, WordTerminals, locate, locate_in_file};
pub use lookup::phrase_pass::{ngram_count_by_pass, ngram_positions_by_pass};
pub use lookup::phrases::{RuleEnds, ngram_count, ngram_positions};
pub use lookup::word_places::WordPlaces;
pub use lookup::word_places::stored::{LINK_BYTES_MAX, PlaceSource, stored_places};
pub use memory::free_memory::{give_back_free_memory, give_back_large_blocks};
pub use memory::huge_pages::reserve_on_huge_pages;
pub use ngrams::all_ngrams::{
    FileOrder, NgramCounts, NgramFiles, NgramSet, ngram_counts, ngram_file_counts,
};
pub use ngrams::ngram_table::NgramTable;
pub use ngrams::ngram_table::stored::NgramBlock;
pub use ngrams::packed_ngrams::{
    PackedNgramCounts, PackedNgramFiles, ngram_counts_packed, ngram_file_counts_packed,
};
pub use ngrams::suffixes::WordSuffixes;
pub use ngrams::suffixes::find::{
    SuffixSource, count_places, find_longest, find_next_words, find_ordered, find_places,
};
pub use ngrams::suffixes::long::{LongOrder, LongSuffixes};
pub use ngrams::suffixes::repeats::{Repeat, Repeats};
pub use ngrams::suffixes::stored::SuffixArrays;
pub use ngrams::windows::NGRAM_WORDS_MAX;
pub use numbers::high_bits::high_bits;
pub use numbers::packed_numbers::PackedNumbers;
pub use postings::PostingsCodec;
pub use postings::list_block::{FileCount, MalformedBlock, PackedList, PackedLists, pack_lists};
pub use postings::number_blocks::{NumberBlock, pack_numbers};
pub use postings::row_bits::{CommonColumns, RowBits};
pub use sort::row_order::sort_rows;
pub use spans::common::USUAL_STATES_MAX;
pub use spans::machine::{CommonMachine, DEAD, Machine, MachineStep, StepTable, TableMachine};
pub use spans::memo::{Direction, SpanMemo};
pub use spans::pass::{FileEvents, Halted, SpanPass};
pub use spans::walk::{SpanEvent, SpanWalk};
pub use stop::Stopped;
