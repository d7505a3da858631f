//! `LiveSegment`: a segment while it is live.
//!
//! Invariant: its own memory does not grow with the text. Decoded and derived structures are in the database's cache, from which
//! they may be evicted at any time; work on a segment takes a [`super::SegmentView`], which pins what it uses. It knows numbers
//! of files and terminals, no names and no other segments.

use std::sync::{Arc, OnceLock};

#[cfg(test)]
use zipfdb_storage::{Dictionary, Grammar};
use zipfdb_storage::{
    FileEntry, IndexHeader, IndexKind, IndexRecord, Segment, SegmentColumn, SegmentForm,
    SegmentHeader,
};

use super::build_budget::BuildBudget;
use super::cache::{Cache, Slots};
use super::indexes::{SegmentIndex, SegmentIndexes};
use super::structure::{NgramPlan, NgramStructure, StructureKind};
use crate::runtime::device::{Kind, Residence};
use crate::{Error, Result};

/// The source of a segment's parts.
pub(crate) enum Parts {
    /// A segment of the store that has a grammar.
    Stored(Arc<Segment>),
    /// A segment of the store with packed text.
    Text(Arc<Segment>),
    /// Plain data.
    #[cfg(test)]
    Memory(Box<PlainParts>),
}

#[cfg(test)]
pub(crate) struct PlainParts {
    id: u64,
    files: Vec<FileEntry>,
    pub(crate) dictionary: Arc<Dictionary>,
    pub(crate) grammar: Arc<Grammar>,
}

/// The time that queries spent without each of the optional structures.
pub(crate) struct BuildBudgets {
    /// Without the dictionary: counts from blocks of it.
    pub(crate) dictionary: BuildBudget,
    /// Without the roots of all files: answers from the root of one.
    pub(crate) roots: BuildBudget,
    /// Without the places of chunks of roots: extracts from the root of one file.
    pub(crate) chunks: BuildBudget,
    pub(crate) parents: BuildBudget,
    /// Without the users of words and rules: passes for phrases.
    pub(crate) uses: BuildBudget,
    /// Without expansions of rules: scans of words. By [`super::Unit`]: in tokens, in words.
    pub(crate) expansions: [BuildBudget; 2],
    /// By [`super::Unit`].
    pub(crate) places: [BuildBudget; 2],
    pub(crate) ngrams: BuildBudget,
    /// Without a suffix array: matches of any length and the words behind a phrase.
    pub(crate) suffixes: BuildBudget,
    /// Without the order of long suffixes: comparisons of places one by one.
    pub(crate) long_order: BuildBudget,
    /// Without counts of all words in all files.
    pub(crate) counts: BuildBudget,
    /// Without bit sets of the files of frequent words.
    pub(crate) file_bits: BuildBudget,
    /// Without the lists of an index of postings in memory.
    pub(crate) postings: BuildBudget,
}

/// Estimated distinct tokens of text that is not tokenized, as a multiple of the square root of its number of words.
const DISTINCT_FACTOR: f64 = 32.0;

/// A live segment of an open database.
pub(crate) struct LiveSegment {
    pub(crate) parts: Parts,
    /// The number of threads that build derived structures.
    pub(crate) threads: usize,
    /// By [`StructureKind`].
    pub(crate) slots: Arc<Slots>,
    /// Set once the order of the dictionary has been checked.
    pub(crate) ordered: OnceLock<()>,
    /// Set once the weights of words have been checked against the file table.
    pub(crate) counted: OnceLock<()>,
    pub(crate) budgets: BuildBudgets,
    /// The structure that n-grams will come from.
    pub(crate) ngram_plan: OnceLock<NgramPlan>,
    pub(super) indexes: SegmentIndexes,
    residence: Residence,
}

impl LiveSegment {
    /// A stored segment, of which nothing is read yet, in a database of `threads` threads.
    pub(crate) fn new(segment: Arc<Segment>, threads: usize, cache: &Arc<Cache>) -> LiveSegment {
        let parts = match segment.info().form {
            SegmentForm::Grammar => Parts::Stored(segment),
            SegmentForm::Text => Parts::Text(segment),
        };
        LiveSegment::of(parts, threads, cache)
    }

    /// A segment of plain data. The grammar must be a checked one.
    #[cfg(test)]
    pub(crate) fn in_memory(
        id: u64,
        files: Vec<FileEntry>,
        dictionary: Dictionary,
        grammar: Grammar,
    ) -> LiveSegment {
        let parts = PlainParts {
            id,
            files,
            dictionary: Arc::new(dictionary),
            grammar: Arc::new(grammar),
        };
        let cache = Arc::new(Cache::new(u64::MAX));
        LiveSegment::of(Parts::Memory(Box::new(parts)), 1, &cache)
    }

    fn of(parts: Parts, threads: usize, cache: &Arc<Cache>) -> LiveSegment {
        LiveSegment {
            parts,
            threads,
            slots: Slots::new(cache.clone(), StructureKind::ALL.len()),
            ordered: OnceLock::new(),
            counted: OnceLock::new(),
            budgets: BuildBudgets {
                dictionary: BuildBudget::new(),
                roots: BuildBudget::new(),
                chunks: BuildBudget::new(),
                parents: BuildBudget::new(),
                uses: BuildBudget::new(),
                expansions: [BuildBudget::new(), BuildBudget::new()],
                places: [BuildBudget::new(), BuildBudget::new()],
                ngrams: BuildBudget::new(),
                suffixes: BuildBudget::new(),
                long_order: BuildBudget::new(),
                counts: BuildBudget::new(),
                file_bits: BuildBudget::new(),
                postings: BuildBudget::new(),
            },
            ngram_plan: OnceLock::new(),
            indexes: SegmentIndexes::default(),
            residence: Residence::new(),
        }
    }

    /// Whether it is this segment of the store, and not another one that had its number.
    pub(crate) fn is_of(&self, segment: &Arc<Segment>) -> bool {
        match &self.parts {
            Parts::Stored(own) | Parts::Text(own) => Arc::ptr_eq(own, segment),
            #[cfg(test)]
            Parts::Memory(_) => false,
        }
    }

    /// The segment's number in its database.
    pub(crate) fn id(&self) -> u64 {
        match &self.parts {
            Parts::Stored(segment) | Parts::Text(segment) => segment.id(),
            #[cfg(test)]
            Parts::Memory(parts) => parts.id,
        }
    }

    /// Its identity in the memory of devices.
    pub(crate) fn residence(&self) -> &Residence {
        &self.residence
    }

    /// Its structures in the cache.
    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Whether the cache has a structure.
    pub(crate) fn has(&self, kind: StructureKind) -> bool {
        self.slots.has(kind as usize)
    }

    /// Whether the structure that a device copies is in memory.
    pub(crate) fn has_grammar_of(&self, kind: Kind) -> bool {
        self.has(match kind {
            Kind::Words => StructureKind::WordGrammar,
            Kind::Lookups => StructureKind::Signatures,
            Kind::Lists => StructureKind::WordFiles,
        })
    }

    /// Sets the indexes.
    pub(crate) fn set_indexes(&self, records: &[IndexRecord]) {
        self.indexes.set(records);
        for kind in IndexKind::ALL {
            self.forget_index(kind);
        }
    }

    /// Its indexes, in the order of [`LiveSegment::set_indexes`].
    pub(crate) fn indexes(&self) -> Vec<Arc<SegmentIndex>> {
        self.indexes.all()
    }

    /// The header of an index file, and its size; none if it is missing or damaged.
    pub(crate) fn index_header(&self, index: &SegmentIndex) -> Option<(IndexHeader, u64)> {
        index.header(self.stored_segment()?)
    }

    /// Whether an index of a kind may be read.
    #[inline]
    pub(crate) fn has_index(&self, kind: IndexKind) -> bool {
        self.indexes.has(kind)
    }

    /// Opens the new file of an index at its next use.
    pub(crate) fn reopen_index(&self, record: &IndexRecord) {
        self.indexes.reopen(record);
        self.forget_index(record.kind);
    }

    /// Drops what was read of the indexes of a kind.
    pub(super) fn forget_index(&self, kind: IndexKind) {
        self.slots.forget(StructureKind::of_index(kind) as usize);
        if kind == IndexKind::Postings {
            self.slots.forget(StructureKind::PostingsLists as usize);
        }
    }

    /// Whether an index has a file that can be opened; with `is_thorough`, whether all of it can be read.
    pub(crate) fn has_index_file(&self, record: &IndexRecord, is_thorough: bool) -> bool {
        let Some(segment) = self.stored_segment() else {
            return false;
        };
        match segment.index(record) {
            Ok(Some(reader)) => !is_thorough || reader.verify().is_ok(),
            Ok(None) | Err(_) => false,
        }
    }

    pub(super) fn stored_segment(&self) -> Option<&Segment> {
        match &self.parts {
            Parts::Stored(segment) | Parts::Text(segment) => Some(segment),
            #[cfg(test)]
            Parts::Memory(_) => None,
        }
    }

    /// The derived structure that n-grams come from; none if they come from the grammar.
    pub(crate) fn ngram_structure(&self) -> Option<NgramStructure> {
        let structures = [NgramStructure::Suffixes, NgramStructure::Table];
        let mut structures = structures.into_iter();
        structures.find(|structure| self.has(structure.kind()))
    }

    /// The header of the segment file; none for plain data.
    pub(crate) fn header(&self) -> Option<&SegmentHeader> {
        match &self.parts {
            Parts::Stored(segment) | Parts::Text(segment) => Some(segment.header()),
            #[cfg(test)]
            Parts::Memory(_) => None,
        }
    }

    /// The size of its text; decodes nothing.
    pub(crate) fn text_bytes(&self) -> u64 {
        match &self.parts {
            Parts::Stored(segment) | Parts::Text(segment) => segment.info().bytes,
            #[cfg(test)]
            Parts::Memory(parts) => parts.files.iter().map(|file| file.bytes).sum(),
        }
    }

    /// The numbers of symbols in bodies and roots, and of tokens; decodes nothing.
    pub(crate) fn size(&self) -> (u64, u64) {
        match &self.parts {
            Parts::Stored(segment) => {
                let info = segment.info();
                (info.symbols + info.root_symbols, u64::from(info.tokens))
            }
            Parts::Text(segment) => {
                let info = segment.info();
                // The number of distinct words grows about with the square root of the number of words (Heaps' law).
                let tokens = DISTINCT_FACTOR * (info.words as f64).sqrt();
                (info.root_symbols, tokens as u64)
            }
            #[cfg(test)]
            Parts::Memory(parts) => {
                let grammar = &parts.grammar;
                let symbols = grammar.symbols.len() + grammar.root.len();
                (symbols as u64, u64::from(grammar.terminal_count))
            }
        }
    }

    /// The numbers of words and of files; decodes nothing.
    pub(crate) fn text_size(&self) -> (u64, u64) {
        match &self.parts {
            Parts::Stored(segment) | Parts::Text(segment) => {
                let info = segment.info();
                (info.words, u64::from(info.files))
            }
            #[cfg(test)]
            Parts::Memory(parts) => {
                let words = parts.files.iter().map(|file| file.words).sum();
                (words, parts.files.len() as u64)
            }
        }
    }

    /// Whether it holds packed text, which background work makes a grammar.
    pub(crate) fn is_packed(&self) -> bool {
        matches!(self.parts, Parts::Text(_))
    }

    /// The file table.
    pub(crate) fn files(&self) -> Result<&[FileEntry]> {
        match &self.parts {
            Parts::Stored(segment) | Parts::Text(segment) => Ok(segment.files()?),
            #[cfg(test)]
            Parts::Memory(parts) => Ok(&parts.files),
        }
    }

    /// The metadata of the files.
    pub(crate) fn metadata(&self) -> Result<Vec<SegmentColumn>> {
        match &self.parts {
            Parts::Stored(segment) | Parts::Text(segment) => Ok(segment.metadata()?),
            #[cfg(test)]
            Parts::Memory(_) => Ok(Vec::new()),
        }
    }

    pub(crate) fn inconsistent(&self, reason: impl Into<String>) -> Error {
        Error::Inconsistent {
            segment: self.id(),
            reason: reason.into(),
        }
    }
}
