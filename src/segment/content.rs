//! Bytes of a segment's files, and answers from the root of a single file.

use std::io;

use zipfdb_kernels::{Content, SymbolText, expand_file, extract};
use zipfdb_storage::Bodies;

use super::data::GAP_BYTES;
use super::live_segment::{LiveSegment, Parts};
use super::one_file::{Mismatch, OneFile};
use super::segment_view::SegmentView;
use super::structure::StructureKind;
use crate::Result;

/// Nanoseconds that a file takes whose root alone is decoded, about: two chunks of the root at least, and its tokens.
const ALONE_COST: u64 = 1_000_000;
const ALONE_TOKEN_COST: u64 = 40;

/// Nanoseconds that decoding all roots and building what look-ups need takes for each symbol, about.
const ALL_SYMBOL_COST: u64 = 50;

impl SegmentView {
    /// Some bytes of a file.
    pub(crate) fn extract(&self, file: u32, offset: u64, length: u64) -> Result<Vec<u8>> {
        let extract_alone = |alone: OneFile<'_>| alone.extract(offset, length);
        if let Some(bytes) = self.ask_alone(file, StructureKind::Grammar, extract_alone)? {
            return Ok(bytes);
        }
        Ok(extract(self.content()?, file, offset, length))
    }

    /// Writes a file; the inner error is the target's.
    pub(crate) fn write_content(
        &self,
        file: u32,
        target: &mut dyn io::Write,
    ) -> Result<io::Result<()>> {
        let extract_alone = |alone: OneFile<'_>| alone.extract(0, u64::MAX);
        if let Some(bytes) = self.ask_alone(file, StructureKind::Grammar, extract_alone)? {
            return Ok(target.write_all(&bytes));
        }
        Ok(expand_file(self.content()?, file, target))
    }

    /// What extracts read; built if it is not there.
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

    /// The answer of a file whose root alone is decoded; none if the cache has a grammar of all files that answers it as
    /// well, or it is time to decode the roots of all.
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
        let (info, entry) = (segment.info(), &self.files()?[file as usize]);
        let tokens = entry.words.max(entry.bytes / GAP_BYTES);
        let cost = tokens
            .saturating_mul(ALONE_TOKEN_COST)
            .saturating_add(ALONE_COST);
        // Below 2^39.
        let price = (info.symbols + info.root_symbols) * ALL_SYMBOL_COST;
        let budget = &self.budgets.roots;
        budget.add(cost.min(price));
        if budget.is_due(price) {
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
    /// Whether bytes are extracted without building anything first.
    pub(crate) fn can_extract_now(&self) -> bool {
        self.has(StructureKind::Text)
    }
}
