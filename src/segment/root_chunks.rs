//! Bytes of files from single chunks of the roots, which are decoded when they are needed: for segments whose grammar the cache has
//! no room for.
//!
//! Invariant: bytes are those of the whole grammar. The length of each symbol and the place of each chunk in the text are known, and
//! files have the sizes of the file table. An extract decodes the chunks that hold it, unless they are among those used last, and
//! nothing else.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use zipfdb_kernels::fold_expansions;
use zipfdb_sql::quote;
use zipfdb_storage::{Bodies, Segment};

use super::kept_blocks::KeptBlocks;
use super::live_segment::Parts;
use super::segment_view::{SegmentStructure, SegmentView};
use super::structure::StructureKind;
use crate::Result;
use crate::runtime::interrupt::check;
use crate::segment::cost::{ROOT_CHUNK_COST, SCAN_SYMBOL_COST};

/// Decoded chunks take at most 1/`KEPT_SHARE` of the cache.
const KEPT_SHARE: u64 = 16;

/// The places of the chunks of all roots.
pub(crate) struct RootChunks {
    /// For each symbol the bytes of its expansion, terminals first.
    lengths: Vec<u64>,
    /// `[chunks + 1]`: where each chunk begins in the text of the segment.
    starts: Vec<u64>,
    /// `[files + 1]`: where each file begins there.
    file_starts: Vec<u64>,
    kept: KeptBlocks<u32>,
}

/// The lengths of a piece of the roots.
struct RootPiece {
    /// The text of the piece before each of its chunks.
    chunks: Vec<u64>,
    /// The text of the piece before each file that begins in it.
    files: Vec<u64>,
    length: u64,
}

impl SegmentStructure for RootChunks {
    const KIND: StructureKind = StructureKind::RootChunks;

    fn bytes(&self) -> usize {
        size_of_val(&self.lengths[..])
            + size_of_val(&self.starts[..])
            + size_of_val(&self.file_starts[..])
            + self.kept.count_max() * Bodies::ROOT_CHUNK * size_of::<u32>()
    }

    fn make(segment: &SegmentView, stop: &AtomicBool) -> Result<Arc<RootChunks>> {
        let stored = segment.coded()?;
        let dictionary = segment.dictionary()?;
        let length = |token: u32| dictionary.token(token).len() as u64;
        let lengths = fold_expansions(segment.bodies_view()?, length, 0, u64::saturating_add);
        let bodies = segment.pin::<Bodies>()?;
        let offsets = bodies.root_offsets();
        segment.check_files(offsets)?;
        let pieces = stored.scan_roots(bodies, stop, |start, symbols| {
            measure(start, symbols, &lengths, offsets)
        })?;
        check(stop)?;
        let (mut starts, mut file_starts, mut end) = (Vec::new(), Vec::new(), 0u64);
        for piece in pieces {
            starts.extend(
                piece
                    .chunks
                    .iter()
                    .map(|before| end.saturating_add(*before)),
            );
            file_starts.extend(piece.files.iter().map(|before| end.saturating_add(*before)));
            end = end.saturating_add(piece.length);
        }
        starts.push(end);
        // Empty files at the end, and the end itself.
        file_starts.resize(offsets.len(), end);
        for (file, range) in segment.files()?.iter().zip(file_starts.windows(2)) {
            // Saturated sums are the end of a range, and no file's length.
            if range[1] == u64::MAX || range[1] - range[0] != file.bytes {
                let (name, bytes) = (quote(&file.name), file.bytes);
                return Err(segment.inconsistent(format!("file {name} has not {bytes} bytes")));
            }
        }
        let limit = segment.slots().cache().limit() / KEPT_SHARE;
        let count = limit / (Bodies::ROOT_CHUNK * size_of::<u32>()) as u64;
        Ok(Arc::new(RootChunks {
            kept: KeptBlocks::new(
                starts
                    .len()
                    .min(usize::try_from(count).unwrap_or(usize::MAX)),
            ),
            lengths,
            starts,
            file_starts,
        }))
    }
}

/// Measures a piece of the roots, which begins at symbol `start`; the roots of files begin at `offsets`.
fn measure(start: usize, symbols: &[u32], lengths: &[u64], offsets: &[u32]) -> RootPiece {
    let (mut chunks, mut files, mut at) = (Vec::new(), Vec::new(), 0u64);
    let mut next = offsets.partition_point(|&offset| (offset as usize) < start);
    for (position, &symbol) in (start..).zip(symbols) {
        if position % Bodies::ROOT_CHUNK == 0 {
            chunks.push(at);
        }
        while offsets
            .get(next)
            .is_some_and(|&offset| offset as usize == position)
        {
            files.push(at);
            next += 1;
        }
        at = at.saturating_add(lengths[symbol as usize]);
    }
    RootPiece {
        chunks,
        files,
        length: at,
    }
}

impl RootChunks {
    /// The bytes `offset..offset + length` of a file, as far as it goes.
    fn extract(
        &self,
        segment: &SegmentView,
        file: u32,
        offset: u64,
        length: u64,
    ) -> Result<Vec<u8>> {
        let (stored, bodies) = (segment.coded()?, segment.pin::<Bodies>()?);
        let (first, end) = (
            self.file_starts[file as usize],
            self.file_starts[file as usize + 1],
        );
        let start = first.saturating_add(offset).min(end);
        let wanted = start..start.saturating_add(length).min(end);
        let mut bytes = Vec::new();
        if wanted.is_empty() {
            return Ok(bytes);
        }
        // No symbol is empty, so chunks ascend.
        let mut chunk = self.starts.partition_point(|&begin| begin <= start) - 1;
        while self.starts[chunk] < wanted.end {
            let symbols = self.kept.get(chunk, || {
                let first = chunk * Bodies::ROOT_CHUNK;
                let all = bodies.root_offsets().last().map_or(0, |&end| end as usize);
                let positions = first..all.min(first + Bodies::ROOT_CHUNK);
                Ok(stored.root_symbols(bodies, positions)?)
            })?;
            self.append(segment, &symbols, self.starts[chunk], &wanted, &mut bytes)?;
            chunk += 1;
        }
        Ok(bytes)
    }

    /// Appends the part of the expansion of some symbols, which begins at `at`, that is wanted.
    fn append(
        &self,
        segment: &SegmentView,
        symbols: &[u32],
        mut at: u64,
        wanted: &Range<u64>,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        let (dictionary, rules) = (segment.dictionary()?, segment.pin::<Bodies>()?.rules());
        let mut stack = vec![symbols];
        while let Some(symbols) = stack.last_mut() {
            let Some((&symbol, rest)) = symbols.split_first() else {
                stack.pop();
                continue;
            };
            if at >= wanted.end {
                break;
            }
            *symbols = rest;
            let end = at + self.lengths[symbol as usize];
            if end > wanted.start {
                if let Some(rule) = symbol.checked_sub(rules.terminal_count) {
                    stack.push(rules.body(rule));
                    continue;
                }
                // Within a token.
                let from = wanted.start.saturating_sub(at) as usize;
                let to = (wanted.end.min(end) - at) as usize;
                bytes.extend_from_slice(&dictionary.token(symbol)[from..to]);
            }
            at = end;
        }
        Ok(())
    }
}

impl SegmentView {
    /// The coded grammar.
    fn coded(&self) -> Result<&Segment> {
        match &self.parts {
            Parts::Stored(stored) => Ok(stored),
            Parts::Text(_) => Err(self.inconsistent("packed text has no roots")),
            #[cfg(test)]
            Parts::Memory(_) => Err(self.inconsistent("plain data is not coded")),
        }
    }

    /// Whether extracts read chunks of roots: the cache has neither the grammar nor room for it.
    pub(super) fn is_read_by_chunks(&self) -> bool {
        matches!(self.parts, Parts::Stored(_))
            && !self.has(StructureKind::Text)
            && !self.has_room(self.lookup_bytes())
    }

    /// The cost of an extract from chunks, in nanoseconds; infinite where the grammar is read or their places are not due, none
    /// without chunks.
    pub(crate) fn root_chunks_cost(&self) -> Option<f64> {
        let Parts::Stored(_) = &self.parts else {
            return None;
        };
        let is_there = || {
            self.pinned::<RootChunks>().is_some() || self.budgets.chunks.is_due(self.chunks_price())
        };
        if self.is_read_by_chunks() && is_there() {
            Some(ROOT_CHUNK_COST)
        } else {
            Some(f64::INFINITY)
        }
    }

    /// The price of the places of all chunks, in nanoseconds.
    fn chunks_price(&self) -> u64 {
        // Below 2^39.
        (self.size().0 as f64 * SCAN_SYMBOL_COST / self.threads.max(1) as f64) as u64
    }

    /// Adds the time of an extract since `begin` to the budget of the places of chunks, where extracts read these.
    pub(crate) fn spend_on_chunks(&self, begin: Instant) {
        if self.is_read_by_chunks() {
            self.budgets.chunks.add_since(begin);
        }
    }

    /// Bytes of a file from chunks of roots, as far as it goes.
    ///
    /// # Errors
    /// If the segment is damaged, or `stop` is set.
    pub(crate) fn extract_from_chunks(
        &self,
        file: u32,
        offset: u64,
        length: u64,
        stop: &AtomicBool,
    ) -> Result<Vec<u8>> {
        let chunks = self.pin_until::<RootChunks>(stop)?;
        self.budgets.chunks.clear();
        chunks.extract(self, file, offset, length)
    }

    /// The number of chunks of roots.
    #[cfg(test)]
    pub(crate) fn chunk_count(&self, stop: &AtomicBool) -> Result<u64> {
        Ok(self.pin_until::<RootChunks>(stop)?.starts.len() as u64 - 1)
    }

    /// How many chunks of roots extracts have decoded.
    #[cfg(test)]
    pub(crate) fn decoded_chunks(&self) -> u64 {
        (self.pinned::<RootChunks>()).map_or(0, |chunks| chunks.kept.decoded())
    }
}
