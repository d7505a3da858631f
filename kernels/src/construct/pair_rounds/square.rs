//! Counts of pairs of frequent symbols, in a square array.
//!
//! In text a thousand symbols make half of all pairs or more; their counts are
//! found without hashing. The invariant: a pair has a cell if and only if both
//! its symbols are frequent, so no pair is counted here and elsewhere. Which
//! symbols count as frequent is a guess from a sample, and changes only speed.

use rayon::prelude::*;

use crate::construct::pair_rounds::chunked::Chunked;
use crate::memory::huge_pages::on_huge_pages;

/// Frequent symbols at most: the cells in use should fit into a core's cache.
const SIDE_MAX: usize = 1 << 10;

/// Fewest frequent symbols for which the square pays.
const SIDE_MIN: usize = 16;

/// Fewest pairs of frequent symbols, of 1024 pairs, for which the square pays.
const SHARE_MIN: usize = 64;

/// Positions examined to find the frequent symbols.
const SAMPLE: usize = 1 << 19;

/// Positions that a frequent symbol has at least in the sample.
const SAMPLE_COUNT_MIN: u32 = 16;

/// In place of the rank of a symbol that is not frequent.
const NONE: u16 = u16::MAX;

/// The frequent symbols of a sequence.
pub(super) struct Square {
    /// By symbol: rank among the frequent ones, or [`NONE`].
    ranks: Vec<u16>,
    side: usize,
    /// Pairs of frequent symbols, in 1024 pairs, by the sample.
    share: usize,
}

impl Square {
    /// The frequent symbols of a sequence of symbols below `symbols_end` and separators.
    ///
    /// All threads' squares together have at most half as many cells as there are positions.
    /// None if that is too few to be of use, or no symbols are frequent.
    pub(super) fn of(chunked: &Chunked, symbols_end: u32) -> Option<Square> {
        let cells_max = chunked.length() / 2 / rayon::current_num_threads();
        let side_max = cells_max.isqrt().min(SIDE_MAX);
        if side_max < SIDE_MIN {
            return None;
        }
        let step = (chunked.symbols.len() / SAMPLE).max(1);
        let sample = || chunked.symbols.windows(2).step_by(step);
        let mut sampled: Vec<u32> = vec![0; symbols_end as usize];
        for pair in sample() {
            if let Some(count) = sampled.get_mut(pair[0] as usize) {
                *count += 1;
            }
        }
        let symbols = sampled.iter().enumerate();
        let mut frequent: Vec<(u32, usize)> = symbols
            .filter(|&(_, &count)| count >= SAMPLE_COUNT_MIN)
            .map(|(symbol, &count)| (count, symbol))
            .collect();
        drop(sampled);
        frequent.sort_unstable_by(|a, b| b.cmp(a));
        frequent.truncate(side_max);
        let mut square = Square {
            ranks: on_huge_pages(vec![NONE; symbols_end as usize]),
            side: frequent.len(),
            share: 0,
        };
        for (rank, &(_, symbol)) in frequent.iter().enumerate() {
            square.ranks[symbol] = rank as u16;
        }
        let is_frequent = |&symbol: &u32| {
            let rank = square.ranks.get(symbol as usize);
            rank.is_some_and(|&rank| rank != NONE)
        };
        let inside = sample().filter(|pair| pair.iter().all(is_frequent)).count();
        square.share = inside * 1024 / sample().len();
        (square.share >= SHARE_MIN).then_some(square)
    }

    /// How many of `pairs` pairs have no cell, as far as is known.
    pub(super) fn share_outside(&self, pairs: usize) -> usize {
        (pairs as u64 * (1024 - self.share as u64) / 1024) as usize
    }

    /// Zeros, one for each cell.
    pub(super) fn counts(&self) -> Vec<u32> {
        on_huge_pages(vec![0; self.side * self.side])
    }

    /// The cell of a pair, if both its symbols are frequent.
    #[inline(always)]
    pub(super) fn cell(&self, left: u32, right: u32) -> Option<usize> {
        let (left, right) = (self.ranks[left as usize], self.ranks[right as usize]);
        (left != NONE && right != NONE).then(|| left as usize * self.side + right as usize)
    }

    /// The number of each cell, 0 if its pair occurs less than twice; appends their counts.
    pub(super) fn number(&self, counted: Vec<Vec<u32>>, counts: &mut Vec<u32>) -> Vec<u32> {
        let mut counted = counted.into_iter();
        let mut cells = counted.next().unwrap_or_default();
        for other in counted {
            cells
                .par_iter_mut()
                .zip(other)
                .for_each(|(cell, other)| *cell += other);
        }
        for cell in &mut cells {
            let count = *cell;
            *cell = 0;
            if count >= 2 {
                *cell = counts.len() as u32;
                counts.push(count);
            }
        }
        cells
    }
}
