//! Numbers for pairs, and how often each pair occurs.
//!
//! A pair that occurs at least twice has a number, the others share 0. Numbers
//! are handed out here and mean nothing outside of the rounds; which pair gets
//! which depends on the number of threads, and nothing else does. The
//! invariant: `counts[number]` is the number of candidates of a pair, exactly.
//! Which pairs are taken is not decided here.
//!
//! Counting is a partition by hash: mixed pairs are written to buckets, each
//! bucket has a table small enough for a core's cache, and the numbers are read
//! back in the order in which the pairs were written. The mix is one to one,
//! so equal mixes are equal pairs. When the whole sequence is counted, most
//! pairs consist of two frequent symbols; those are counted in a [`Square`].

use std::mem;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::construct::pair_rounds::chunked::{Chunked, Parts};
use crate::construct::pair_rounds::square::Square;
use crate::construct::pairs::{ODD, SEPARATOR, mix, pair_at};
use crate::numbers::bits::{Bits, count_bits, for_each_bit};
use crate::stop::{self, Stopped};

/// Pairs a bucket should hold.
const BUCKET_PAIRS: usize = 1 << 14;

/// Buckets at most: as many cache lines are written to at a time.
const BUCKETS_MAX: usize = 1 << 9;

/// Slots of a new table.
const SLOTS_MIN: usize = 1 << 9;

/// Positions of a chunk whose pairs have no number yet, 64 a word.
pub(super) type Fresh = Vec<u64>;

/// Numbers all pairs of a sequence that has no numbers yet; their counts.
pub(super) fn number_all(
    chunked: &mut Chunked,
    symbols_end: u32,
    stop: &AtomicBool,
) -> Result<Vec<u32>, Stopped> {
    let Parts {
        symbols,
        numbers,
        chunks,
    } = chunked.parts();
    let fresh: Vec<Fresh> = symbols
        .into_par_iter()
        .zip(numbers)
        .zip(chunks)
        .map(|((symbols, numbers), chunk)| {
            stop::check(stop)?;
            Ok(find_pairs(symbols, &mut numbers[..chunk.length]))
        })
        .collect::<Result<_, Stopped>>()?;
    let mut counts = vec![0];
    let square = Square::of(chunked, symbols_end);
    number(chunked, &fresh, square, &mut counts, stop)?;
    Ok(counts)
}

/// Finds all pairs of a chunk, and flags odd offsets in runs. No run begins before the chunk.
fn find_pairs(symbols: &[u32], numbers: &mut [u32]) -> Fresh {
    let mut words = vec![0; numbers.len().div_ceil(64)];
    let mut odd = 0;
    for (i, (number, pair)) in numbers.iter_mut().zip(symbols.windows(2)).enumerate() {
        let is_pair = pair[0] != SEPARATOR && pair[1] != SEPARATOR;
        words[i / 64] |= u64::from(is_pair) << (i % 64);
        if is_pair && pair[0] == pair[1] {
            *number = odd;
            odd ^= ODD;
        } else {
            odd = 0;
        }
    }
    words
}

/// Numbers the pairs at `fresh` positions, one item a chunk, and appends their counts.
///
/// All positions of these pairs must be among them; their numbers must be 0, or [`ODD`] at odd
/// offsets in runs.
pub(super) fn number_fresh(
    chunked: &mut Chunked,
    fresh: &[Fresh],
    counts: &mut Vec<u32>,
    stop: &AtomicBool,
) -> Result<(), Stopped> {
    number(chunked, fresh, None, counts, stop)
}

fn number(
    chunked: &mut Chunked,
    fresh: &[Fresh],
    square: Option<Square>,
    counts: &mut Vec<u32>,
    stop: &AtomicBool,
) -> Result<(), Stopped> {
    let total: usize = fresh.iter().map(|words| count_bits(words)).sum();
    if total == 0 {
        return Ok(());
    }
    let buckets = total.div_ceil(BUCKET_PAIRS).next_power_of_two();
    let buckets = buckets.min(BUCKETS_MAX);
    let share = fresh.len().div_ceil(rayon::current_num_threads());
    let mut parts = chunked.parts();
    let tasks = parts
        .symbols
        .par_chunks(share)
        .zip(parts.numbers.par_chunks_mut(share))
        .zip(fresh.par_chunks(share));
    let mut filled: Vec<Filled> = tasks
        .map(|((symbols, numbers), fresh)| {
            let size = fresh.iter().map(|words| count_bits(words)).sum();
            let mut filled = Filled::new(size, buckets, square.as_ref());
            for (i, fresh) in fresh.iter().enumerate() {
                stop::check(stop)?;
                filled.fill(symbols[i], numbers[i], fresh, square.as_ref());
            }
            Ok(filled)
        })
        .collect::<Result<_, Stopped>>()?;
    let square_numbers = square.as_ref().map(|square| {
        let counted = filled.iter_mut().map(|task| mem::take(&mut task.square));
        square.number(counted.collect(), counts)
    });

    let by_bucket: Vec<Vec<Vec<u64>>> = (0..buckets)
        .map(|bucket| {
            let lists = filled.iter_mut().map(|task| &mut task.buckets[bucket]);
            lists.map(mem::take).collect()
        })
        .collect();
    let numbered: Vec<(Vec<Vec<u32>>, Vec<u32>)> = by_bucket
        .into_par_iter()
        .map_init(Table::default, |table, lists| {
            stop::check(stop)?;
            Ok(table.number(lists))
        })
        .collect::<Result<_, Stopped>>()?;
    let mut by_task: Vec<Vec<std::vec::IntoIter<u32>>> = Vec::new();
    by_task.resize_with(filled.len(), || Vec::with_capacity(buckets));
    let mut bases = Vec::with_capacity(buckets);
    counts.reserve_exact(numbered.iter().map(|(_, counts)| counts.len()).sum());
    for (lists, bucket_counts) in numbered {
        // Ranks begin with 1, and there is a count for number 0.
        bases.push(counts.len() as u32 - 1);
        counts.extend_from_slice(&bucket_counts);
        for (task, list) in by_task.iter_mut().zip(lists) {
            task.push(list.into_iter());
        }
    }
    assert!(counts.len() <= ODD as usize, "too many pairs to number");

    let numbers = parts.numbers.par_chunks_mut(share);
    let tasks = numbers.zip(fresh.par_chunks(share)).zip(by_task);
    tasks.try_for_each(|((numbers, fresh), ranks)| {
        let mut reader = Reader {
            ranks,
            bases: &bases,
            square_numbers: square_numbers.as_deref().unwrap_or_default(),
        };
        for (numbers, fresh) in numbers.iter_mut().zip(fresh) {
            stop::check(stop)?;
            reader.read(numbers, fresh);
        }
        Ok(())
    })
}

/// What one task has counted or written to buckets.
struct Filled {
    buckets: Vec<Vec<u64>>,
    square: Vec<u32>,
}

impl Filled {
    /// Room for about `size` pairs.
    fn new(size: usize, buckets: usize, square: Option<&Square>) -> Filled {
        let hashed = square.map_or(size, |square| square.share_outside(size));
        let capacity = hashed / buckets + hashed / buckets / 8 + 8;
        Filled {
            buckets: (0..buckets).map(|_| Vec::with_capacity(capacity)).collect(),
            square: square.map_or(Vec::new(), Square::counts),
        }
    }

    /// Takes up the fresh pairs of a chunk. In place of the numbers stands then where to read
    /// them from: a bucket, or a cell after all buckets.
    fn fill(
        &mut self,
        symbols: &[u32],
        numbers: &mut [u32],
        fresh: &Fresh,
        square: Option<&Square>,
    ) {
        let buckets = self.buckets.len();
        for_each_bit(fresh, |i| {
            if numbers[i] & ODD != 0 {
                return;
            }
            let cell = square.and_then(|square| square.cell(symbols[i], symbols[i + 1]));
            numbers[i] = if let Some(cell) = cell {
                self.square[cell] += 1;
                (buckets + cell) as u32
            } else {
                let mixed = mix(pair_at(symbols, i));
                let bucket = (mixed >> 40) as usize & (buckets - 1);
                self.buckets[bucket].push(mixed);
                bucket as u32
            };
        });
    }
}

/// Writes numbers to the positions of one task.
struct Reader<'a> {
    /// By bucket: of each pair in the order of filling, its rank in the bucket, or 0.
    ranks: Vec<std::vec::IntoIter<u32>>,
    bases: &'a [u32],
    square_numbers: &'a [u32],
}

impl Reader<'_> {
    fn read(&mut self, numbers: &mut [u32], fresh: &Fresh) {
        for_each_bit(fresh, |i| {
            let place = numbers[i] as usize;
            numbers[i] = if let Some(ranks) = self.ranks.get_mut(place) {
                let rank = ranks.next().unwrap_or(0);
                // The rank comes from memory: a branch on it would be mispredicted, and late.
                let counted = u32::from(rank != 0).wrapping_neg();
                self.bases[place].wrapping_add(rank) & counted
            } else if place & ODD as usize == 0 {
                self.square_numbers[place - self.bases.len()]
            } else {
                // The pair before is of the same run.
                numbers[i - 1] | ODD
            };
        });
    }
}

/// A hash table from mixed pairs to indices, open addressing.
#[derive(Default)]
struct Table {
    /// A power of two, at least half of them empty.
    slots: Vec<(u64, u32)>,
}

impl Table {
    /// For each mixed pair 1 + its rank among those that occur twice or more, or 0;
    /// and how often those occur.
    fn number(&mut self, lists: Vec<Vec<u64>>) -> (Vec<Vec<u32>>, Vec<u32>) {
        self.clear(SLOTS_MIN);
        let mut counts: Vec<u32> = Vec::new();
        let mut indices: Vec<Vec<u32>> = Vec::with_capacity(lists.len());
        for list in lists {
            let mut list_indices = Vec::with_capacity(list.len());
            for mixed in list {
                let index = self.index(mixed, counts.len() as u32);
                if index as usize == counts.len() {
                    counts.push(0);
                    if counts.len() * 2 > self.slots.len() {
                        self.grow();
                    }
                }
                counts[index as usize] += 1;
                list_indices.push(index);
            }
            indices.push(list_indices);
        }
        let mut ranks: Vec<u32> = Vec::with_capacity(counts.len());
        let mut kept = 0;
        for i in 0..counts.len() {
            let count = counts[i];
            counts[kept] = count;
            kept += usize::from(count >= 2);
            ranks.push(if count >= 2 { kept as u32 } else { 0 });
        }
        counts.truncate(kept);
        for index in indices.iter_mut().flatten() {
            *index = ranks[*index as usize];
        }
        (indices, counts)
    }

    /// What no mixed pair is: separators make no pair, and the mix is one to one.
    fn empty() -> u64 {
        mix(u64::MAX)
    }

    fn clear(&mut self, size: usize) {
        self.slots.clear();
        self.slots.resize(size, (Table::empty(), 0));
    }

    /// The index of a mixed pair; a new one gets `next`.
    #[inline(always)]
    fn index(&mut self, mixed: u64, next: u32) -> u32 {
        let mask = self.slots.len() - 1;
        let mut slot = mixed as usize & mask;
        loop {
            let (key, index) = &mut self.slots[slot];
            if *key == mixed {
                return *index;
            }
            if *key == Table::empty() {
                *key = mixed;
                *index = next;
                return next;
            }
            slot = (slot + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let old = mem::take(&mut self.slots);
        self.clear(old.len() * 4);
        for (key, index) in old {
            if key != Table::empty() {
                self.index(key, index);
            }
        }
    }
}

/// Hands out the numbers anew, without gaps, to the pairs that still occur twice or more.
pub(super) fn squeeze(chunked: &mut Chunked, counts: &mut Vec<u32>) {
    let live = Bits::of(counts, |count| count >= 2);
    let mut bases = Vec::with_capacity(live.words().len());
    let mut next = 1;
    for word in live.words() {
        bases.push(next);
        next += word.count_ones();
    }
    let renumbered = |number: u32| {
        let old = number & !ODD;
        if live.get(old) == 0 {
            return number & ODD;
        }
        let word = (old >> 6) as usize;
        let below = live.words()[word] & !(u64::MAX << (old & 63));
        (bases[word] + below.count_ones()) | (number & ODD)
    };
    let Parts {
        numbers, chunks, ..
    } = chunked.parts();
    numbers
        .into_par_iter()
        .zip(chunks)
        .for_each(|(numbers, chunk)| {
            for number in &mut numbers[..chunk.length] {
                *number = renumbered(*number);
            }
        });
    let mut kept = 1;
    for number in 1..counts.len() {
        let count = counts[number];
        counts[kept] = count;
        kept += usize::from(count >= 2);
    }
    counts.truncate(kept);
}
