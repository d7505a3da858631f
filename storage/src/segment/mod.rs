//! The segment file: an immutable stored part of a corpus with its files, and their dictionary and grammar or packed text.
//!
//! Byte layout: `storage/FORMAT.md`. This module holds the plain data that goes in and comes out.

mod coding;
mod content;
mod dictionary;
mod files;
mod frame;
mod metadata;
mod reader;
mod symbols;
mod tokens;
mod totals;
mod word_blocks;
mod writer;

pub(crate) use coding::{Fault, reserved, varint};

pub use dictionary::Dictionary;
pub use metadata::{ColumnValues, SegmentColumn};
pub use reader::SegmentReader;
pub use symbols::{Bodies, EncodedGrammar};
pub use word_blocks::{TokenRun, WordBlocks};
pub use writer::{SegmentParts, SegmentWriter, TextParts};

/// Counting and coding the symbols of grammars elsewhere than on the CPU.
pub mod symbol_coder {
    pub use super::coding::rans::Share;
    pub use super::symbols::{
        ChunkOffsets, Contexts, Ends, EventCounts, NeighbourCount, SymbolCoder, SymbolLimits,
    };
}

use crate::CorpusSettings;
use std::fmt;

/// What a segment says about itself: enough to put it back into a lost catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The corpus the segment belongs to.
    pub corpus: String,
    /// The settings of that corpus, of which a segment file has all but the recompress threshold.
    pub settings: CorpusSettings,
    /// The segment's own number, unique in its database.
    pub segment_id: u64,
    /// The version of Unicode whose rules cut the text into words.
    pub unicode_version: (u8, u8, u8),
    /// Shared by all segments published in one transaction.
    pub publication: u64,
    /// The place of this segment among them, from 0.
    pub publication_index: u32,
    /// Whether it is the last of them. A publication without its last segment, or with a gap, never happened.
    pub publication_last: bool,
}

/// One file of a segment, or the part of a file that this segment holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// The name in the corpus, with `/` between directories.
    pub name: String,
    /// Size of this part.
    pub bytes: u64,
    /// Words in this part.
    pub words: u64,
    /// CRC32 of this part's content.
    pub crc32: u32,
    /// Where this part starts in its file; 0 for a whole file.
    pub first_byte: u64,
    /// How many words of the file lie before this part; 0 for a whole file.
    pub first_word: u64,
    /// Whether the file ends with this part; true for a whole file.
    pub last_part: bool,
}

/// The facts of a segment that need no decoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// The segment's number.
    pub segment_id: u64,
    /// Size of the segment file.
    pub size: u64,
    /// Files, or parts of files.
    pub files: u32,
    /// Bytes of text.
    pub bytes: u64,
    /// Words of text.
    pub words: u64,
    /// Entries of the dictionary; 0 of packed text.
    pub tokens: u32,
    /// Rules of the grammar.
    pub rules: u32,
    /// Levels of the grammar.
    pub levels: u32,
    /// Symbols of all bodies.
    pub symbols: u64,
    /// Symbols of all roots; of packed text about how many tokens it has, which is the same without rules.
    pub root_symbols: u64,
    /// What the text is stored as.
    pub form: SegmentForm,
    /// Size of each section, in the order of [`Section::ALL`]; together they are `size`.
    pub sections: Vec<(Section, u64)>,
}

/// What a segment's text is stored as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SegmentForm {
    /// A dictionary and a grammar.
    #[default]
    Grammar,
    /// Packed text, until it is made a grammar.
    Text,
}

impl SegmentForm {
    /// The name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            SegmentForm::Grammar => "grammar",
            SegmentForm::Text => "text",
        }
    }
}

/// The parts that a segment file's bytes are accounted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Section {
    /// Magic, version, header, section table and footer.
    Frame,
    /// The file table.
    Files,
    /// Word tokens.
    Words,
    /// Gap tokens.
    Gaps,
    /// Sizes of the levels, lengths of the bodies and their first symbols.
    Rules,
    /// Frequencies, classes, contexts and code tables of the symbols.
    Model,
    /// Symbols of the bodies after the first.
    Bodies,
    /// The roots of the files.
    Root,
    /// How often each word occurs; empty in files of version 1.
    Totals,
    /// Packed text, of a segment that has no grammar.
    Text,
    /// Metadata of the files, of a segment whose corpus has columns.
    Metadata,
}

impl Section {
    /// All sections, in the order of [`SegmentInfo::sections`].
    pub const ALL: [Section; 11] = [
        Section::Frame,
        Section::Files,
        Section::Words,
        Section::Gaps,
        Section::Rules,
        Section::Model,
        Section::Bodies,
        Section::Root,
        Section::Totals,
        Section::Text,
        Section::Metadata,
    ];

    /// The name in messages and as a column of `segments('c')`.
    pub fn name(self) -> &'static str {
        match self {
            Section::Frame => "frame",
            Section::Files => "files",
            Section::Words => "words",
            Section::Gaps => "gaps",
            Section::Rules => "rules",
            Section::Model => "model",
            Section::Bodies => "bodies",
            Section::Root => "root",
            Section::Totals => "totals",
            Section::Text => "text",
            Section::Metadata => "metadata",
        }
    }
}

impl fmt::Display for Section {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
