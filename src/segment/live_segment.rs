//! `LiveSegment`: a segment as long as it is live.
//!
//! Invariant: it holds nothing that grows with the text. What is decoded or derived lies in the database's cache, from
//! which it may be evicted at any time; whoever works with a segment takes a [`super::SegmentView`], which pins what it uses.
//! It knows numbers of files and terminals, no names and no other segments.

use std::sync::{Arc, OnceLock};

#[cfg(test)]
use zipfdb_storage::{Dictionary, Grammar};
use zipfdb_storage::{
    FileEntry, IndexHeader, IndexKind, IndexRecord, Segment, SegmentForm, SegmentHeader,
};

use super::build_budget::BuildBudget;
use super::cache::{Cache, Slots};
use super::indexes::{SegmentIndex, SegmentIndexes};
use super::structure::{NgramPlan, NgramStructure, StructureKind};
use crate::runtime::device::{Kind, Residence};
use crate::{Error, Result};

/// Where a segment's parts come from.
pub(crate) enum Parts {
    /// A segment of the store that has a grammar.
    Stored(Arc<Segment>),
    /// One of packed text.
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

/// What queries took without each of the structures that they can do without.
pub(crate) struct BuildBudgets {
    /// Without the dictionary: counts from blocks of it.
    pub(crate) dictionary: BuildBudget,
    /// Without the roots of all files: answers from the root of one.
    pub(crate) roots: BuildBudget,
    pub(crate) parents: BuildBudget,
    /// Without what tells where words and rules are used: passes for phrases.
    pub(crate) uses: BuildBudget,
    /// Without expansions of rules: scans of words. By [`super::Unit`]: in tokens, in words.
    pub(crate) expansions: [BuildBudget; 2],
    /// By [`super::Unit`].
    pub(crate) places: [BuildBudget; 2],
    pub(crate) ngrams: BuildBudget,
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
    /// How many threads build what is derived.
    pub(crate) threads: usize,
    /// By [`StructureKind`].
    pub(crate) slots: Arc<Slots>,
    /// There once the order of the dictionary has been checked.
    pub(crate) ordered: OnceLock<()>,
    /// There once the weights of words have been checked against the file table.
    pub(crate) counted: OnceLock<()>,
    pub(crate) budgets: BuildBudgets,
    /// What n-grams will come from.
    pub(crate) ngram_plan: OnceLock<NgramPlan>,
    pub(super) indexes: SegmentIndexes,
    residence: Residence,
}

impl LiveSegment {
    /// A stored segment, of which nothing is looked at yet, in a database of so many threads.
    pub(crate) fn new(segment: Arc<Segment>, threads: usize, cache: &Arc<Cache>) -> LiveSegment {
        let parts = match segment.info().form {
            SegmentForm::Grammar => Parts::Stored(segment),
            SegmentForm::Text => Parts::Text(segment),
        };
        LiveSegment::of(parts, threads, cache)
    }

    /// Plain data. The grammar must be a checked one.
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
                parents: BuildBudget::new(),
                uses: BuildBudget::new(),
                expansions: [BuildBudget::new(), BuildBudget::new()],
                places: [BuildBudget::new(), BuildBudget::new()],
                ngrams: BuildBudget::new(),
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

    /// Its place in the memory of devices.
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

    /// Whether there is all that a device is given.
    pub(crate) fn has_grammar_of(&self, kind: Kind) -> bool {
        self.has(match kind {
            Kind::Words => StructureKind::WordGrammar,
            Kind::Lookups => StructureKind::Signatures,
            Kind::Lists => StructureKind::WordFiles,
        })
    }

    /// Has exactly these indexes from now on.
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

    /// What the file of an index says of itself, and its size; none if it is missing or damaged.
    pub(crate) fn index_header(&self, index: &SegmentIndex) -> Option<(IndexHeader, u64)> {
        index.header(self.stored_segment()?)
    }

    /// Whether an index of a kind may be read.
    #[inline]
    pub(crate) fn has_index(&self, kind: IndexKind) -> bool {
        self.indexes.has(kind)
    }

    /// An index has a new file.
    pub(crate) fn reopen_index(&self, record: &IndexRecord) {
        self.indexes.reopen(record);
        self.forget_index(record.kind);
    }

    /// What has been read of an index of a kind is not used any more.
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

    /// What the segment file says of itself; none of plain data.
    pub(crate) fn header(&self) -> Option<&SegmentHeader> {
        match &self.parts {
            Parts::Stored(segment) | Parts::Text(segment) => Some(segment.header()),
            #[cfg(test)]
            Parts::Memory(_) => None,
        }
    }

    /// How many bytes of text it has; nothing is decoded for it.
    pub(crate) fn text_bytes(&self) -> u64 {
        match &self.parts {
            Parts::Stored(segment) | Parts::Text(segment) => segment.info().bytes,
            #[cfg(test)]
            Parts::Memory(parts) => parts.files.iter().map(|file| file.bytes).sum(),
        }
    }

    /// Symbols of bodies and root, and tokens; nothing is decoded for it.
    pub(crate) fn size(&self) -> (u64, u64) {
        match &self.parts {
            Parts::Stored(segment) => {
                let info = segment.info();
                (info.symbols + info.root_symbols, u64::from(info.tokens))
            }
            Parts::Text(segment) => {
                let info = segment.info();
                // Distinct words grow about with the root of all (Heaps' law).
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

    /// Words of the text, and files; nothing is decoded for it.
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

    /// Whether it holds packed text, which is to become a grammar.
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

    pub(crate) fn inconsistent(&self, reason: impl Into<String>) -> Error {
        Error::Inconsistent {
            segment: self.id(),
            reason: reason.into(),
        }
    }
}
