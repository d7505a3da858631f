//! Data-parallel grammar algorithms on plain slices.
//!
//! Every algorithm takes plain slices and gives plain vectors, works over
//! integers only, and runs on the current rayon pool. Results never depend on
//! the number of threads, so that a device kernel can be the bit-identical twin.
//! What reads a grammar takes a [`GrammarView`]. Nothing here knows files,
//! disks, SQL or text.

mod automaton;
mod bits;
mod block_counts;
mod chosen_files;
mod construct;
mod constructed;
mod cost;
mod count_table;
mod expand;
mod extract;
mod file_counts;
mod free_memory;
pub mod gompresso;
pub mod gpu;
mod grammar_view;
mod high_bits;
mod huge_pages;
mod key_sort;
mod lengths;
mod list_block;
mod locate;
mod ngram_table;
mod ngrams;
mod number_blocks;
mod occurrences;
mod offsets;
mod packed_ngrams;
mod packed_numbers;
mod pair_rounds;
mod pairs;
mod partitions;
mod phrase_pass;
mod phrases;
pub mod postings;
mod prune;
mod renumber;
mod row_bits;
mod row_order;
mod splices;
mod stop;
mod suffixes;
mod symbol_slots;
#[cfg(test)]
mod test_grammars;
mod varints;
mod weights;
mod window_keys;
mod windows;
mod word_grammar;
mod word_places;

pub use automaton::{ByteReading, Literal, Pattern, Reading, WordReading, files_found, readings};
pub use block_counts::block_word_counts;
pub use chosen_files::ChosenFiles;
pub use construct::{TOKENS_MAX, construct, construct_observed, token_buffer};
pub use constructed::{Constructed, Parameters, Round, Stage};
pub use cost::PARENTS_SYMBOL_COST;
pub use count_table::{CountTable, SharedRows};
pub use expand::{Expander, Expansions};
pub use extract::{Content, SymbolText, expand_file, extract};
pub use file_counts::{
    FileCounting, RuleFiles, WordUses, file_word_counts, set_weights, weight_of, word_file_counts,
    word_set_counts,
};
pub use free_memory::{give_back_free_memory, give_back_large_blocks};
pub use grammar_view::GrammarView;
pub use high_bits::high_bits;
pub use huge_pages::reserve_on_huge_pages;
pub use lengths::{Lengths, SAMPLE_SYMBOLS, fold_expansions};
pub use list_block::{FileCount, MalformedBlock, PackedList, PackedLists, pack_lists};
pub use locate::{Structures, WordTerminals, locate, locate_in_file};
pub use ngram_table::NgramTable;
pub use ngram_table::stored::NgramBlock;
pub use ngrams::{FileOrder, NgramCounts, NgramFiles, NgramSet, ngram_counts, ngram_file_counts};
pub use number_blocks::{NumberBlock, pack_numbers};
pub use occurrences::{Parents, Signatures, cost_without_parents, count_in_file};
pub use packed_ngrams::{
    PackedNgramCounts, PackedNgramFiles, ngram_counts_packed, ngram_file_counts_packed,
};
pub use packed_numbers::PackedNumbers;
pub use phrase_pass::{ngram_count_by_pass, ngram_positions_by_pass};
pub use phrases::{RuleEnds, ngram_count, ngram_positions};
pub use postings::PostingsCodec;
pub use row_bits::{CommonColumns, RowBits};
pub use row_order::sort_rows;
pub use splices::{APPEND, Insert, InsertOrder, Splice, Splices, place_inserts};
pub use stop::Stopped;
pub use suffixes::WordSuffixes;
pub use suffixes::find::{SuffixSource, find_ranks};
pub use suffixes::stored::SuffixArrays;
pub use weights::{file_set_weights, file_weights, weights};
pub use windows::NGRAM_WORDS_MAX;
pub use word_grammar::{GAP, WordGrammar};
pub use word_places::WordPlaces;
pub use word_places::stored::{LINK_BYTES_MAX, PlaceSource, stored_places};
