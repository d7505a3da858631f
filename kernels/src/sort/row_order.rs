//! Rows in the order of their keys, on all threads.
//!
//! A sample of the keys parts rows into buckets of about as many rows, however
//! keys are spread (sample sort: Frazer and McKellar, 1970); a bucket fits into
//! a core's cache and is sorted there by digits. Rows whose key is one of those
//! that part the buckets have a bucket of their own, which needs no sorting and
//! is filled by all threads: half of all n-grams may occur once. The invariant:
//! rows with equal keys stay in the order in which they came, so keys of several
//! numbers are sorted by the last number first. What keys mean is not known here.

use std::mem::take;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::sort::key_sort::{Bucketed, Buckets, Scratch, sort_keys};
use crate::stop::{Stopped, check};

/// Rows that a bucket has on average: with two copies of a key and a row each, less than a core's cache.
const BUCKET_ROWS: usize = 1 << 12;
const BUCKETS_MAX: usize = 1 << 9;
/// Keys that are examined for each bucket.
const SAMPLES: usize = 16;
/// Least rows that one task puts into buckets.
const TASK_ROWS_MIN: usize = 1 << 16;

/// A bucket, or of one with equal keys what a task put into it.
struct BucketPart<'a> {
    tasks: &'a [Bucketed<u128>],
    bucket: usize,
    are_equal: bool,
    /// Where its rows go.
    place: &'a mut [u32],
}

/// Sorts the row numbers `order` by the keys of rows; rows with equal keys stay as they are.
///
/// `key` is asked once or twice about each row.
/// Work: O(rows log buckets + rows x digits in which keys of a bucket differ);
/// memory: 16 bytes a row beside `order`.
///
/// # Errors
/// [`Stopped`] if `stop` is set; rows are in no order then.
pub fn sort_rows(
    order: &mut [u32],
    key: impl Fn(u32) -> u64 + Sync,
    stop: &AtomicBool,
) -> Result<(), Stopped> {
    check(stop)?;
    let splitters = splitters(order, &key);
    let task_rows = order.len().div_ceil(rayon::current_num_threads() * 4);
    let parted: Result<Vec<Bucketed<u128>>, Stopped> = order
        .par_chunks(task_rows.max(TASK_ROWS_MIN))
        .map(|rows| {
            check(stop)?;
            let mut buckets = Buckets::new(2 * splitters.len() + 1, rows.len());
            for &row in rows {
                let key = key(row);
                let splitter = splitters.partition_point(|&splitter| splitter < key);
                let is_equal = splitters.get(splitter) == Some(&key);
                let bucket = 2 * splitter + usize::from(is_equal);
                buckets.push(bucket, u128::from(key) << u32::BITS | u128::from(row));
            }
            Ok(buckets.finish())
        })
        .collect();
    let parted = parted?;
    let mut rest = order;
    let mut place = |rows| {
        let (place, behind) = take(&mut rest).split_at_mut(rows);
        rest = behind;
        place
    };
    let mut parts = Vec::new();
    for bucket in 0..=2 * splitters.len() {
        let are_equal = bucket % 2 == 1;
        for tasks in parted.chunks(if are_equal { 1 } else { parted.len().max(1) }) {
            let rows = tasks.iter().map(|task| task.items_of(bucket)).sum();
            parts.push(BucketPart {
                tasks,
                bucket,
                are_equal,
                place: place(rows),
            });
        }
    }
    parts.into_par_iter().try_for_each_init(
        <(Vec<u128>, Scratch<u128>)>::default,
        |(items, scratch), part| {
            check(stop)?;
            items.clear();
            (part.tasks.iter()).for_each(|task| task.collect(part.bucket, items));
            if !part.are_equal {
                sort_keys(items, u32::BITS, scratch);
            }
            for (row, item) in part.place.iter_mut().zip(items) {
                // The low half of an item is its row.
                *row = *item as u32;
            }
            Ok(())
        },
    )
}

/// Keys that part the rows into buckets: the greatest of each bucket but the last, ascending.
fn splitters(order: &[u32], key: impl Fn(u32) -> u64) -> Vec<u64> {
    let buckets = (order.len() / BUCKET_ROWS).min(BUCKETS_MAX);
    let samples = buckets * SAMPLES;
    let mut sample: Vec<u64> = (0..samples)
        .map(|index| key(order[index * order.len() / samples]))
        .collect();
    sample.sort_unstable();
    let mut splitters: Vec<u64> = (1..buckets)
        .map(|bucket| sample[bucket * SAMPLES])
        .collect();
    splitters.dedup();
    splitters
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::grammar::test_grammars::Numbers;

    #[test]
    fn rows_are_in_the_order_of_keys_and_equal_ones_as_they_came() {
        for rows in [0usize, 1, 2, 100, 5_000, 300_000] {
            for limit in [1, 2, 1 << 9, 1 << 40, u64::MAX] {
                let mut numbers = Numbers::new(rows as u64 ^ limit);
                let keys: Vec<u64> = (0..rows)
                    // Half of the keys are alike, as counts of words are.
                    .map(|_| numbers.below(limit) * numbers.below(2))
                    .collect();
                let mut order: Vec<u32> = (0..rows as u32).rev().collect();
                let mut expected = order.clone();
                expected.sort_by_key(|&row| keys[row as usize]);
                sort_rows(
                    &mut order,
                    |row| keys[row as usize],
                    &AtomicBool::new(false),
                )
                .unwrap();
                assert!(order == expected, "{rows} rows, keys below {limit}");
            }
        }
    }

    #[test]
    fn sorting_ends_when_it_is_stopped() {
        let stop = AtomicBool::new(true);
        assert_eq!(sort_rows(&mut [0, 1], u64::from, &stop), Err(Stopped));
    }
}
