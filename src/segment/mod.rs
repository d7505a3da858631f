//! One segment: its decoded parts and derived structures, in a cache, and the questions that it answers alone.

mod build_budget;
pub(crate) mod cache;
mod content;
pub(crate) mod cost;
mod data;
mod derived;
mod edge_words;
mod index_blocks;
mod index_building;
mod indexes;
mod kept_blocks;
mod live_segment;
mod ngram_index;
mod occurrence_index;
mod one_file;
mod packed_text;
mod postings;
mod root_chunks;
mod root_scan;
mod segment_view;
mod stored_index;
mod structure;
mod suffix_index;
mod word_blocks;
pub(crate) mod word_order;
mod word_search;
mod words;

pub(crate) use content::SEARCH_SYMBOL_BYTES;
pub(crate) use data::{GAP_BYTES, view_of};
pub(crate) use derived::{
    FileBits, FileWords, Offsets, Positions, TokenForm, TokenForms, TokenLines, TokenWords,
    WordExpansions, WordFiles, WordLengths, WordSignatures,
};
pub(crate) use edge_words::edge_words;
pub(crate) use live_segment::LiveSegment;
pub(crate) use one_file::Phrase;
pub(crate) use packed_text::TextBlocks;
pub(crate) use segment_view::{SegmentStructure, SegmentView, Unit};
pub(crate) use structure::{NgramPlan, NgramStructure, StructureKind};
