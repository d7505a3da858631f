//! Numbers of rows that compare as the values of a sort key do, and rows in their order.
//!
//! A key is one or more numbers a row, of which the first decide first. They are computed from the columns, without an array of
//! them; neighbouring ones that fit into 64 bits together are sorted as one. Invariant: the order is that of `key.rs`, and equal
//! rows keep theirs.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use zipfdb_kernels::sort_rows;

use super::key::real_number;
use crate::Result;
use crate::batch::BatchColumn;
use crate::runtime::interrupt::{Interrupt, NEVER};

/// The least number of rows that are sorted by digits; fewer are sorted by comparing, on the calling thread.
pub(super) const RADIX_ROWS_MIN: usize = 1 << 12;

/// The least number of rows of a task.
const TASK_ROWS_MIN: usize = 1 << 14;

/// The highest bit: with it changed, integers compare as unsigned numbers.
const SIGN: u64 = 1 << 63;

/// A number that compares as an integer does.
#[inline]
fn integer_number(integer: i64) -> u64 {
    integer.cast_unsigned() ^ SIGN
}

/// One number a row.
pub(super) struct RowKey<'a> {
    pub(super) numbers: RowKeyNumbers<'a>,
    pub(super) descending: bool,
}

/// The source of the numbers of rows.
pub(super) enum RowKeyNumbers<'a> {
    Integers(&'a [i64]),
    Reals(&'a [f64]),
    /// Texts, and the rank of each in order of bytes if that is not its number.
    Texts(&'a [u32], Option<&'a [u32]>),
    /// Numbers of values, and the rank of each value.
    Ranked(&'a [i64], &'a [u32]),
    /// Some words of n-grams, packed.
    Ngrams(NgramPart<'a>),
    /// A number by row.
    Plain(&'a [u64]),
}

/// Neighbouring words of n-grams, whose ranks fit into a number together.
pub(super) struct NgramPart<'a> {
    words: &'a [u32],
    n: usize,
    part: Range<usize>,
    ranks: &'a [u32],
    /// Bits of each rank.
    bits: u32,
}

impl RowKey<'_> {
    #[inline]
    pub(super) fn number(&self, row: u32) -> u64 {
        let row = row as usize;
        let number = match &self.numbers {
            RowKeyNumbers::Integers(integers) => integer_number(integers[row]),
            RowKeyNumbers::Reals(reals) => real_number(reals[row]),
            RowKeyNumbers::Texts(texts, None) => u64::from(texts[row]),
            RowKeyNumbers::Texts(texts, Some(ranks)) => u64::from(ranks[texts[row] as usize]),
            RowKeyNumbers::Ranked(numbers, ranks) => u64::from(ranks[numbers[row] as usize]),
            RowKeyNumbers::Ngrams(part) => part.number(row),
            RowKeyNumbers::Plain(numbers) => numbers[row],
        };
        if self.descending { !number } else { number }
    }
}

impl NgramPart<'_> {
    #[inline]
    fn number(&self, row: usize) -> u64 {
        let words = &self.words[row * self.n..(row + 1) * self.n];
        let words = words[self.part.clone()].iter();
        words.fold(0, |packed, &word| {
            packed << self.bits | u64::from(self.ranks[word as usize])
        })
    }
}

/// The keys of a column of numbers or numbered texts.
pub(super) fn keys_of<'a>(
    column: &'a BatchColumn,
    ranks: Option<&'a [u32]>,
    descending: bool,
) -> Vec<RowKey<'a>> {
    let numbers = match column {
        BatchColumn::Integers(integers) => RowKeyNumbers::Integers(integers),
        BatchColumn::Reals(reals) => RowKeyNumbers::Reals(reals),
        BatchColumn::Words { indices, .. } => RowKeyNumbers::Texts(indices, ranks),
        BatchColumn::Ngrams { n, indices, .. } => {
            // N-grams are of words, which have ranks.
            return ngram_keys(indices, *n, ranks.unwrap_or_default(), descending);
        }
        BatchColumn::Texts(_) | BatchColumn::Values(_) => unreachable!("they are not taken"),
    };
    vec![RowKey {
        numbers,
        descending,
    }]
}

/// Keys of n-grams that compare as the ranks of their words one after the other.
fn ngram_keys<'a>(
    words: &'a [u32],
    n: usize,
    ranks: &'a [u32],
    descending: bool,
) -> Vec<RowKey<'a>> {
    let bits = (usize::BITS - ranks.len().leading_zeros()).max(1);
    // Ranks are u32, so at least one fits.
    let together = (u64::BITS / bits) as usize;
    let parts = (0..n).step_by(together).map(|first| RowKey {
        numbers: RowKeyNumbers::Ngrams(NgramPart {
            words,
            n,
            part: first..(first + together).min(n),
            ranks,
            bits,
        }),
        descending,
    });
    parts.collect()
}

/// N-grams of `n` words, fewer than 2^32, in order of the ranks of their words, by number.
pub(super) fn sorted_ngrams(
    words: &[u32],
    n: usize,
    ranks: &[u32],
    stop: &AtomicBool,
) -> Result<Vec<u32>> {
    sorted_rows(words.len() / n, &ngram_keys(words, n, ranks, false), stop)
}

/// The numbers of n-grams of `n` words, sorted by count, the greatest first if the flag is set. N-grams with equal counts are
/// sorted by the ranks of their words; without ranks they keep their order. There are fewer than 2^32 n-grams.
pub(super) fn sorted_by_counts(
    words: &[u32],
    n: usize,
    counts: &[u64],
    (descending, ranks): (bool, Option<&[u32]>),
    stop: &AtomicBool,
) -> Result<Vec<u32>> {
    let mut keys = vec![RowKey {
        numbers: RowKeyNumbers::Plain(counts),
        descending,
    }];
    if let Some(ranks) = ranks {
        keys.extend(ngram_keys(words, n, ranks, false));
    }
    sorted_rows(counts.len(), &keys, stop)
}

/// Runs work that sorts `rows` rows where [`sorted_rows`] may be called: on the pool, if there are many. The work gets a flag
/// that is set when the query must end.
///
/// # Errors
/// Those of the work, and of `Interrupt::check`.
pub(super) fn where_rows_are_sorted<A: Send>(
    rows: usize,
    pool: &rayon::ThreadPool,
    interrupt: &Interrupt,
    work: impl FnOnce(&AtomicBool) -> Result<A> + Send,
) -> Result<A> {
    // A thread of the pool would wait for itself, for example a host that queries from its progress callback.
    let is_here = rows < RADIX_ROWS_MIN || pool.current_thread_index().is_some();
    if is_here {
        work(&NEVER)
    } else {
        interrupt.watch(pool, |stop| work(stop))
    }
}

/// The rows, fewer than 2^32, in order of their numbers, equal ones in their own order.
///
/// # Errors
/// `Interrupted` if `stop` is set.
pub(super) fn sorted_rows(rows: usize, keys: &[RowKey<'_>], stop: &AtomicBool) -> Result<Vec<u32>> {
    let mut order: Vec<u32> = (0..rows as u32).collect();
    sort_by_keys(&mut order, keys, stop)?;
    Ok(order)
}

/// Sorts rows by their numbers, and leaves equal ones as they are.
///
/// # Errors
/// As [`sorted_rows`].
pub(super) fn sort_by_keys(rows: &mut [u32], keys: &[RowKey<'_>], stop: &AtomicBool) -> Result<()> {
    if rows.len() < RADIX_ROWS_MIN {
        rows.sort_by(|&left, &right| compare(keys, left, right));
        return Ok(());
    }
    for group in groups(rows, keys).iter().rev() {
        sort_rows(rows, |row| group.number(row), stop)?;
    }
    Ok(())
}

/// How two rows compare by some keys.
fn compare(keys: &[RowKey<'_>], left: u32, right: u32) -> Ordering {
    let mut orders = keys
        .iter()
        .map(|key| key.number(left).cmp(&key.number(right)));
    orders
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Keys one after the other whose numbers fit into 64 bits together.
#[derive(Default)]
struct KeyGroup<'a> {
    /// Each with its least number, and the number of bits above that.
    keys: Vec<(&'a RowKey<'a>, u64, u32)>,
}

impl KeyGroup<'_> {
    #[inline]
    fn number(&self, row: u32) -> u64 {
        let keys = self.keys.iter();
        keys.fold(0, |packed, &(key, least, bits)| {
            // A shift by all bits is of the first key, before which there is nothing.
            packed.unbounded_shl(bits) | (key.number(row) - least)
        })
    }

    fn bits(&self) -> u32 {
        self.keys.iter().map(|&(_, _, bits)| bits).sum()
    }
}

/// The keys in which rows differ, in groups.
fn groups<'a>(rows: &[u32], keys: &'a [RowKey<'a>]) -> Vec<KeyGroup<'a>> {
    let mut groups: Vec<KeyGroup<'a>> = Vec::new();
    for key in keys {
        let numbers = rows.par_iter().with_min_len(TASK_ROWS_MIN);
        let bounds = numbers.map(|&row| {
            let number = key.number(row);
            (number, number)
        });
        let (least, most) = bounds.reduce(
            || (u64::MAX, 0),
            |left, right| (left.0.min(right.0), left.1.max(right.1)),
        );
        let bits = u64::BITS - most.saturating_sub(least).leading_zeros();
        if bits == 0 {
            continue;
        }
        match groups.last_mut() {
            Some(group) if group.bits() + bits <= u64::BITS => {
                group.keys.push((key, least, bits));
            }
            _ => groups.push(KeyGroup {
                keys: vec![(key, least, bits)],
            }),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_are_sorted_by_their_numbers_and_stay_in_order_where_they_are_equal(
            rows in 0usize..3 * RADIX_ROWS_MIN,
            shifts in proptest::collection::vec((0u32..64, any::<bool>()), 1..4),
            seed: u64,
        ) {
            let number = |row: usize, shift: u32| {
                (row as u64 + 1).wrapping_mul(seed | 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift
            };
            let numbers: Vec<Vec<u64>> = (shifts.iter())
                .map(|&(shift, _)| (0..rows).map(|row| number(row, shift)).collect())
                .collect();
            let keys: Vec<RowKey<'_>> = (numbers.iter().zip(&shifts))
                .map(|(numbers, &(_, descending))| RowKey {
                    numbers: RowKeyNumbers::Plain(numbers),
                    descending,
                })
                .collect();
            let mut expected: Vec<u32> = (0..rows as u32).collect();
            expected.sort_by(|&left, &right| compare(&keys, left, right));
            prop_assert_eq!(sorted_rows(rows, &keys, &NEVER).unwrap(), expected);
        }
    }
}
