//! The structure that extracts of a segment read, and answers from the root of a single file.

use zipfdb_kernels::{Content, SymbolText};
use zipfdb_storage::Bodies;

use super::data::GAP_BYTES;
use super::live_segment::{LiveSegment, Parts};
use super::one_file::{Mismatch, OneFile};
use super::segment_view::SegmentView;
use super::structure::StructureKind;
use crate::Result;
use crate::segment::cost::{ALL_SYMBOL_COST, ALONE_COST, ALONE_TOKEN_COST};

/// Bytes for each symbol of a grammar with lengths and signatures, about.
pub(crate) const SEARCH_SYMBOL_BYTES: u64 = 12;

/// Bytes of a dictionary for each token, about.
const DICTIONARY_TOKEN_BYTES: u64 = 24;

/// The price of decoding the roots of all files, in nanoseconds, for `symbols` symbols in bodies and roots.
pub(super) fn whole_price(symbols: u64) -> u64 {
    // Below 2^39.
    (symbols as f64 * ALL_SYMBOL_COST) as u64
}

impl SegmentView {
    /// The structure that extracts read; built if it is missing.
    pub(crate) fn content(&self) -> Result<Content<'_>> {
        let view = self.view()?;
        let lengths = self.lengths()?;
        let text = self.pin::<SymbolText>()?;
        Ok(Content {
            view,
            lengths,
            text,
        })
    }

    /// Whether files are asked by their roots alone: the cache has no grammar of all files that answers as well, and the roots of
    /// all are not due.
    pub(crate) fn is_alone_worth_asking(&self, grammar: StructureKind) -> bool {
        match &self.parts {
            Parts::Stored(_) if !self.has(grammar) => !self.are_roots_due(),
            _ => false,
        }
    }

    /// Whether the roots of all files are due: the time that queries have spent without them equals the price of decoding, and
    /// the cache has room for what look-ups need then.
    fn are_roots_due(&self) -> bool {
        let price = whole_price(self.size().0);
        self.budgets.roots.is_due(price) && self.has_room(self.lookup_bytes())
    }

    /// The answer of a file whose root alone is decoded; none if the cache has a grammar of all files that answers it as well, or
    /// it is time to decode the roots of all.
    pub(crate) fn ask_alone<A>(
        &self,
        file: u32,
        grammar: StructureKind,
        answer: impl FnOnce(OneFile<'_>) -> std::result::Result<A, Mismatch>,
    ) -> Result<Option<A>> {
        let segment = match &self.parts {
            Parts::Stored(segment) if !self.has(grammar) => segment,
            _ => return Ok(None),
        };
        let entry = &self.files()?[file as usize];
        let tokens = entry.words.max(entry.bytes / GAP_BYTES);
        // Saturates.
        let cost = (tokens as f64 * ALONE_TOKEN_COST + ALONE_COST) as u64;
        self.budgets.roots.add(cost.min(whole_price(self.size().0)));
        if self.are_roots_due() {
            return Ok(None);
        }
        let dictionary = self.dictionary()?;
        let bodies = self.pin::<Bodies>()?;
        let alone = OneFile {
            dictionary,
            entry,
            root: segment.root_of(bodies, file)?,
            bodies,
        };
        answer(alone)
            .map(Some)
            .map_err(|misfit| self.inconsistent(misfit))
    }
}

impl LiveSegment {
    /// The bytes that look-ups in files pin, about: dictionary, grammar and the structures derived of it.
    pub(crate) fn lookup_bytes(&self) -> u64 {
        self.size().0 * SEARCH_SYMBOL_BYTES + self.dictionary_bytes()
    }

    /// The bytes of its dictionary with counts, about.
    pub(crate) fn dictionary_bytes(&self) -> u64 {
        self.size().1 * DICTIONARY_TOKEN_BYTES
    }
}
