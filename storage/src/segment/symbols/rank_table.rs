//! The ranking of all symbols: within a class and frequency class by id, so that a new symbol is coded as a small number.
//!
//! Invariant: it follows from left classes and frequency classes alone, which are known before any body is. A rank is the
//! place of a symbol in one array of all buckets; what may be used at a level is the beginning of each bucket.

use super::classes::Ends;
use super::model::{FREQUENCIES, Ranking};
use crate::segment::coding::{NoMemory, filled, reserved};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Symbols that one task ranks.
const TASK_SYMBOLS: usize = 1 << 15;

/// The rank of a symbol that is never coded as new.
pub const UNRANKED: u32 = u32::MAX;

/// Ranks after that of the last symbol, which damaged chunks lead to.
pub const RANKS_SPARE: usize = 2;

/// The symbol of a rank without one.
pub const NO_SYMBOL: u32 = u32::MAX;

/// All symbols in order of bucket, then id.
pub struct RankTable {
    /// By symbol its rank.
    pub of: Vec<u32>,
    /// By rank the symbol.
    pub symbols: Vec<AtomicU32>,
    /// By bucket, see [`Ranking::bucket`]: its first rank.
    pub starts: Vec<u32>,
    /// For each level, and for the root: by bucket the end of the ranks that it may use.
    pub ends: Vec<Vec<u32>>,
}

impl RankTable {
    /// Ranks symbols. `levels` are those of the terminals, then of the rules of each level. Parallel on the current pool.
    pub fn new(
        classes: usize,
        frequencies: &[u8],
        ends: &[Ends],
        levels: &[Range<usize>],
    ) -> Result<RankTable, NoMemory> {
        let buckets = classes * FREQUENCIES;
        let bucket = |symbol: usize| match frequencies[symbol] {
            0 => None,
            frequency => Some(Ranking::bucket(ends[symbol].left, frequency)),
        };
        let pieces: Vec<(usize, Range<usize>)> = (0..)
            .zip(levels)
            .flat_map(|(level, symbols)| {
                let starts = symbols.clone().step_by(TASK_SYMBOLS);
                let end = symbols.end;
                starts.map(move |start| (level, start..end.min(start + TASK_SYMBOLS)))
            })
            .collect();
        let mut ranks: Vec<Vec<u32>> = (pieces.par_iter())
            .map(|(_, symbols)| {
                let mut sizes = filled(0, buckets)?;
                for bucket in symbols.clone().filter_map(bucket) {
                    sizes[bucket] += 1;
                }
                Ok(sizes)
            })
            .collect::<Result<_, NoMemory>>()?;
        let mut starts = filled(0u32, buckets)?;
        for sizes in &ranks {
            (starts.iter_mut().zip(sizes)).for_each(|(sum, size)| *sum += size);
        }
        let mut ranked = 0;
        for start in &mut starts {
            // Symbols are below 2^31.
            (*start, ranked) = (ranked, ranked + *start);
        }
        let mut next = copied(&starts)?;
        let mut ends_of_levels = reserved(levels.len())?;
        for ((level, _), ranks) in pieces.iter().zip(&mut ranks) {
            while ends_of_levels.len() < *level {
                ends_of_levels.push(copied(&next)?);
            }
            for (next, rank) in next.iter_mut().zip(ranks) {
                (*rank, *next) = (*next, *next + *rank);
            }
        }
        while ends_of_levels.len() < levels.len() {
            ends_of_levels.push(copied(&next)?);
        }
        let mut of = filled(UNRANKED, frequencies.len())?;
        let mut symbols = reserved(ranked as usize + RANKS_SPARE)?;
        symbols.resize_with(ranked as usize + RANKS_SPARE, || AtomicU32::new(NO_SYMBOL));
        let mut rest = &mut of[..];
        let mut work = reserved(pieces.len())?;
        for ((_, symbols), ranks) in pieces.into_iter().zip(ranks) {
            let (these, after) = rest.split_at_mut(symbols.len());
            rest = after;
            work.push((symbols, these, ranks));
        }
        work.into_par_iter().for_each(|(ids, of, mut ranks)| {
            for (symbol, of) in ids.zip(of) {
                if let Some(bucket) = bucket(symbol) {
                    *of = ranks[bucket];
                    // Below 2^31.
                    symbols[*of as usize].store(symbol as u32, Ordering::Relaxed);
                    ranks[bucket] += 1;
                }
            }
        });
        Ok(RankTable {
            of,
            symbols,
            starts,
            ends: ends_of_levels,
        })
    }
}

fn copied(numbers: &[u32]) -> Result<Vec<u32>, NoMemory> {
    let mut copy = reserved(numbers.len())?;
    copy.extend_from_slice(numbers);
    Ok(copy)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn symbols_are_ranked_by_bucket_then_id_and_levels_see_lower_ones_only() {
        let ends = |left| Ends {
            left,
            ..Ends::default()
        };
        let (frequencies, ends) = ([2, 1, 0, 2, 1, 1], [1, 0, 0, 1, 0, 1].map(ends));
        let table = RankTable::new(2, &frequencies, &ends, &[0..3, 3..4, 4..6]).unwrap();
        assert_eq!(table.of, [3, 0, UNRANKED, 4, 1, 2]);
        let symbols = table
            .symbols
            .iter()
            .map(|symbol| symbol.load(Ordering::Relaxed));
        assert_eq!(
            symbols.collect::<Vec<_>>(),
            [1, 4, 5, 0, 3, NO_SYMBOL, NO_SYMBOL]
        );
        let bucket = |left, frequency| Ranking::bucket(left, frequency);
        let sizes = |level: usize, bucket| table.ends[level][bucket] - table.starts[bucket];
        assert_eq!(
            (0..3)
                .map(|level| sizes(level, bucket(1, 2)))
                .collect::<Vec<_>>(),
            [1, 2, 2]
        );
        assert_eq!(
            (0..3)
                .map(|level| sizes(level, bucket(0, 1)))
                .collect::<Vec<_>>(),
            [1, 1, 2]
        );
        assert_eq!(
            (0..3)
                .map(|level| sizes(level, bucket(1, 1)))
                .collect::<Vec<_>>(),
            [0, 0, 1]
        );
    }
}
