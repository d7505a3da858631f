//! The sequence of symbols, in chunks that shrink in place.
//!
//! A round rewrites each chunk over itself, so the sequence needs no second
//! buffer and a chunk stays in a core's cache. The invariants, at the start of
//! each round: around each chunk stand copies of what is before and behind it,
//! so that it can be worked on alone; and no stretch of period one or two goes
//! on across a cut, so a run never does, neither a run that is there nor one
//! that the round makes. Where the cuts are changes nothing in the result.
//! What symbols and numbers mean is not known here.
//!
//! Why a cut between positions `c - 1` and `c` whose symbol `c - 1` is neither
//! symbol `c` nor symbol `c + 1` is safe: symbols `c - 1` and `c` differ, so no
//! run crosses. Equal new symbols on both sides would stand for equal pairs,
//! either at `c - 2` and `c`, or at `c - 1` and `c + 1`; in both cases symbols
//! `c - 1` and `c + 1` were equal.

use std::mem;
use std::ops::Range;

use rayon::prelude::*;

use crate::construct::pairs::SEPARATOR;
use crate::memory::huge_pages::on_huge_pages;
use crate::numbers::offsets::split_mut;

/// Positions before a chunk that can influence what is taken inside.
pub(super) const BEFORE: usize = 3;

/// Positions behind a chunk that can influence what is taken inside, and one more symbol.
pub(super) const BEHIND: usize = 4;

/// Positions a chunk has at least, except for the only one. A new one has four times as many.
pub(super) const CHUNK_MIN: usize = 1 << 14;

/// One chunk: `length` positions from `begin`.
#[derive(Clone, Copy)]
pub(super) struct Chunk {
    pub(super) begin: usize,
    pub(super) length: usize,
}

impl Chunk {
    fn end(&self) -> usize {
        self.begin + self.length
    }

    /// The chunk and the copies around it.
    pub(super) fn with_surroundings(&self) -> Range<usize> {
        self.begin - BEFORE..self.end() + BEHIND
    }
}

/// How much longer a sequence becomes at most where it is cut.
pub(super) fn room_for_cuts(length: usize) -> usize {
    (length / (4 * CHUNK_MIN) + 1) * (BEFORE + BEHIND)
}

/// A sequence of symbols, each with a number, in chunks.
pub(super) struct Chunked {
    pub(super) symbols: Vec<u32>,
    pub(super) numbers: Vec<u32>,
    /// Ascending, with room for the copies around each.
    pub(super) chunks: Vec<Chunk>,
    chunk_min: usize,
}

/// The parts of a [`Chunked`] that threads work on, one item a chunk.
pub(super) struct Parts<'a> {
    /// The symbols of each chunk, and of what is behind.
    pub(super) symbols: Vec<&'a mut [u32]>,
    /// The numbers of each chunk, and of what is behind.
    pub(super) numbers: Vec<&'a mut [u32]>,
    pub(super) chunks: &'a mut [Chunk],
}

/// Whether a stretch of period one or two may go on from `before` to `behind`.
fn may_repeat(before: u32, behind: &[u32]) -> bool {
    behind[..2].contains(&before)
}

impl Chunked {
    /// Cuts a sequence into chunks of at least `chunk_min` positions, at least 16; all numbers are 0. The sequence stays in its
    /// memory, which must have room for what is around chunks if it is not to be copied.
    pub(super) fn new(mut sequence: Vec<u32>, chunk_min: usize) -> Chunked {
        let mut cuts = vec![0];
        let mut cut = 4 * chunk_min;
        while cut + chunk_min <= sequence.len() {
            if may_repeat(sequence[cut - 1], &sequence[cut..]) {
                cut += 1;
            } else {
                cuts.push(cut);
                cut += 4 * chunk_min;
            }
        }
        cuts.push(sequence.len());
        let around = BEFORE + BEHIND;
        let chunk = |(k, cut): (usize, &[usize])| Chunk {
            begin: cut[0] + k * around + BEFORE,
            length: cut[1] - cut[0],
        };
        let chunks: Vec<Chunk> = cuts.windows(2).enumerate().map(chunk).collect();
        let size = sequence.len() + chunks.len() * around;
        sequence.resize(size, 0);
        // The last chunk first: none is moved over one that has not been moved.
        for (chunk, cut) in chunks.iter().zip(cuts.windows(2)).rev() {
            sequence.copy_within(cut[0]..cut[1], chunk.begin);
        }
        let mut chunked = Chunked {
            symbols: sequence,
            numbers: on_huge_pages(vec![0; size]),
            chunks,
            chunk_min,
        };
        chunked.refresh();
        chunked
    }

    /// Positions in all.
    pub(super) fn length(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.length).sum()
    }

    /// Takes the sequence apart, for threads.
    pub(super) fn parts(&mut self) -> Parts<'_> {
        let begins = self.chunks.iter().map(|chunk| chunk.begin - BEFORE);
        let offsets: Vec<usize> = begins.chain([self.symbols.len()]).collect();
        fn own<'a>(all: &'a mut [u32], offsets: &[usize]) -> Vec<&'a mut [u32]> {
            let parts = split_mut(all, offsets).into_iter();
            parts.map(|part| &mut part[BEFORE..]).collect()
        }
        Parts {
            symbols: own(&mut self.symbols, &offsets),
            numbers: own(&mut self.numbers, &offsets),
            chunks: &mut self.chunks,
        }
    }

    /// Makes the copies around each chunk anew. Chunks are longer than what is copied.
    pub(super) fn refresh(&mut self) {
        for (array, nothing) in [(&mut self.symbols, SEPARATOR), (&mut self.numbers, 0)] {
            for chunks in self.chunks.windows(2) {
                let (left, right) = (chunks[0], chunks[1]);
                let first = right.begin..right.begin + BEHIND;
                array.copy_within(first, left.end());
                let last = left.end() - BEFORE..left.end();
                array.copy_within(last, right.begin - BEFORE);
            }
            if let (Some(first), Some(last)) = (self.chunks.first(), self.chunks.last()) {
                array[first.begin - BEFORE..first.begin].fill(nothing);
                array[last.end()..last.end() + BEHIND].fill(nothing);
            }
        }
    }

    /// Merges chunks that have become short, or between which a stretch may repeat; then makes
    /// the copies around each anew. The copies of symbols must be right before, too.
    pub(super) fn merge(&mut self) {
        let mut groups: Vec<Range<usize>> = Vec::new();
        let mut group = 0..0;
        let mut length = 0;
        for (k, chunk) in self.chunks.iter().enumerate() {
            group.end = k + 1;
            length += chunk.length;
            let end = chunk.end();
            let cuttable = group.end == self.chunks.len()
                || !may_repeat(self.symbols[end - 1], &self.symbols[end..]);
            if length >= self.chunk_min && cuttable {
                groups.push(group);
                group = k + 1..k + 1;
                length = 0;
            }
        }
        match groups.last_mut() {
            _ if group.is_empty() => {}
            Some(last) => last.end = group.end,
            None => groups.push(group),
        }
        if groups.len() < self.chunks.len() {
            self.merge_groups(&groups);
        }
        self.refresh();
    }

    fn merge_groups(&mut self, groups: &[Range<usize>]) {
        let merged = |group: &Range<usize>| Chunk {
            begin: self.chunks[group.start].begin,
            length: self.chunks[group.clone()].iter().map(|c| c.length).sum(),
        };
        let merged = groups.iter().map(merged).collect();
        let old = mem::replace(&mut self.chunks, merged);
        let parts = self.parts();
        parts
            .symbols
            .into_par_iter()
            .zip(parts.numbers)
            .zip(groups)
            .for_each(|((symbols, numbers), group)| {
                let old = &old[group.clone()];
                let mut filled = 0;
                for chunk in old {
                    let begin = chunk.begin - old[0].begin;
                    let range = begin..begin + chunk.length;
                    symbols.copy_within(range.clone(), filled);
                    numbers.copy_within(range, filled);
                    filled += chunk.length;
                }
            });
    }

    /// The symbols alone, in one piece.
    pub(super) fn into_sequence(mut self) -> Vec<u32> {
        let mut filled = 0;
        for chunk in &self.chunks {
            self.symbols.copy_within(chunk.begin..chunk.end(), filled);
            filled += chunk.length;
        }
        self.symbols.truncate(filled);
        self.symbols
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_hold_the_sequence_between_copies_of_what_is_around() {
        let sequence: Vec<u32> = (0..1000).map(|i| i * i % 97).collect();
        let chunked = Chunked::new(sequence.clone(), 16);
        assert!(chunked.chunks.len() > 5);
        let mut padded = vec![SEPARATOR; BEFORE];
        padded.extend(&sequence);
        padded.extend([SEPARATOR; BEHIND]);
        let mut first = 0;
        for chunk in &chunked.chunks {
            let expected = &padded[first..first + BEFORE + chunk.length + BEHIND];
            assert_eq!(&chunked.symbols[chunk.with_surroundings()], expected);
            first += chunk.length;
        }
        assert_eq!(first, 1000);
        assert_eq!(chunked.into_sequence(), sequence);
    }

    #[test]
    fn short_chunks_are_merged_without_loss() {
        let sequence: Vec<u32> = (0..1000).map(|i| i * i % 97).collect();
        let mut chunked = Chunked::new(sequence.clone(), 16);
        let chunks = chunked.chunks.len();
        let mut expected = Vec::new();
        for k in 0..chunks {
            let Chunk { begin, length } = chunked.chunks[k];
            let kept = if k % 3 == 0 { length } else { 8 };
            expected.extend_from_slice(&chunked.symbols[begin..begin + kept]);
            chunked.chunks[k].length = kept;
        }
        chunked.refresh();
        chunked.merge();
        assert!(chunked.chunks.len() < chunks);
        assert!(chunked.chunks.iter().all(|chunk| chunk.length >= 16));
        assert_eq!(chunked.length(), expected.len());
        assert_eq!(chunked.into_sequence(), expected);
    }

    #[test]
    fn a_stretch_of_period_two_is_not_cut() {
        let mut sequence: Vec<u32> = (0..1000).map(|i| i % 2).collect();
        assert_eq!(Chunked::new(sequence.clone(), 16).chunks.len(), 1);
        sequence.extend(5..1000);
        assert!(Chunked::new(sequence, 16).chunks.len() > 5);
    }
}
