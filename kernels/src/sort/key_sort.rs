//! Sorting many keys in parallel: first into buckets, then inside each.
//!
//! The invariant: items of one bucket come back in the order in which they were
//! pushed, and sorting is stable, so results do not depend on threads as long
//! as tasks are taken in order. Buckets should fit into a core's cache. What a
//! bucket means is its owner's business.

use crate::memory::huge_pages::on_huge_pages;
use crate::sort::window_keys::WindowKey;

/// Items of a bucket that lie together.
const BLOCK_ITEMS: usize = 64;

/// Most bits of a digit of a large and of a small bucket.
const DIGIT_BITS: u32 = 11;
const DIGIT_BITS_SMALL: u32 = 8;
const SMALL_ITEMS: usize = 1 << 11;

/// Fewer items are not worth counting digits.
const COMPARED_ITEMS: usize = 96;

/// Items of one task, by bucket, in blocks.
pub(crate) struct Buckets<T> {
    items: Vec<T>,
    /// By bucket: where the next item goes; at a block's start there is no block yet.
    next: Vec<usize>,
    /// The bucket of each block.
    block_buckets: Vec<u32>,
}

impl<T: Copy + Default> Buckets<T> {
    /// `items` is about how many there will be.
    pub(crate) fn new(buckets: usize, items: usize) -> Buckets<T> {
        Buckets {
            items: on_huge_pages(Vec::with_capacity(items)),
            next: vec![0; buckets],
            block_buckets: Vec::with_capacity(items / BLOCK_ITEMS),
        }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, bucket: usize, item: T) {
        let mut at = self.next[bucket];
        if at.is_multiple_of(BLOCK_ITEMS) {
            at = self.items.len();
            self.items.resize(at + BLOCK_ITEMS, T::default());
            // Buckets are far fewer than a u32 counts.
            self.block_buckets.push(bucket as u32);
        }
        self.items[at] = item;
        self.next[bucket] = at + 1;
    }

    /// Ends pushing.
    pub(crate) fn finish(self) -> Bucketed<T> {
        let mut starts = vec![0u32; self.next.len() + 1];
        for &bucket in &self.block_buckets {
            starts[bucket as usize + 1] += 1;
        }
        for bucket in 0..self.next.len() {
            starts[bucket + 1] += starts[bucket];
        }
        let mut filled = starts.clone();
        let mut blocks = vec![0u32; self.block_buckets.len()];
        for (block, &bucket) in (0..).zip(&self.block_buckets) {
            let at = &mut filled[bucket as usize];
            blocks[*at as usize] = block;
            *at += 1;
        }
        Bucketed {
            items: self.items,
            ends: self.next,
            starts,
            blocks,
        }
    }
}

/// Items of one task, ready to be collected.
pub(crate) struct Bucketed<T> {
    items: Vec<T>,
    /// By bucket: where the items of its last block end.
    ends: Vec<usize>,
    /// `[buckets + 1]` into `blocks`.
    starts: Vec<u32>,
    blocks: Vec<u32>,
}

impl<T: Copy> Bucketed<T> {
    /// How many items a bucket has.
    pub(crate) fn items_of(&self, bucket: usize) -> usize {
        let blocks = (self.starts[bucket + 1] - self.starts[bucket]) as usize;
        // A last block that is not full is counted as far as it is filled.
        let unused = self.ends[bucket].next_multiple_of(BLOCK_ITEMS) - self.ends[bucket];
        blocks * BLOCK_ITEMS - unused
    }

    /// Appends the items of a bucket to `target`.
    pub(crate) fn collect(&self, bucket: usize, target: &mut Vec<T>) {
        let blocks = self.starts[bucket] as usize..self.starts[bucket + 1] as usize;
        if let Some((&last, full)) = self.blocks[blocks].split_last() {
            for &block in full {
                let start = block as usize * BLOCK_ITEMS;
                target.extend_from_slice(&self.items[start..start + BLOCK_ITEMS]);
            }
            target.extend_from_slice(&self.items[last as usize * BLOCK_ITEMS..self.ends[bucket]]);
        }
    }
}

/// Memory of a sort, used again for the next.
#[derive(Default)]
pub(crate) struct Scratch<T> {
    items: Vec<T>,
    counts: Vec<u32>,
}

/// Sorts by all bits but the lowest `value_bits`, stably: by digits of the bits in which items differ, the lowest first.
pub(crate) fn sort_keys<K: WindowKey>(
    items: &mut Vec<K>,
    value_bits: u32,
    scratch: &mut Scratch<K>,
) {
    if items.len() < COMPARED_ITEMS {
        items.sort_by_key(|item| item.shr(value_bits));
        return;
    }
    let first = items[0];
    let differing = (items.iter()).fold(K::default(), |all, item| all.or(item.xor(first)));
    let bits = differing.shr(value_bits).used_bits();
    if bits == 0 {
        return;
    }
    let digit_bits = match items.len() {
        ..SMALL_ITEMS => DIGIT_BITS_SMALL,
        _ => DIGIT_BITS,
    };
    let passes = bits.div_ceil(digit_bits);
    let digit_bits = bits.div_ceil(passes);
    let mask = (1usize << digit_bits) - 1;
    let digit =
        |item: &K, pass: u32| item.shr(value_bits + pass * digit_bits).low() as usize & mask;
    let counts = &mut scratch.counts;
    counts.clear();
    counts.resize((passes as usize) << digit_bits, 0);
    for item in items.iter() {
        for pass in 0..passes {
            counts[(pass as usize) << digit_bits | digit(item, pass)] += 1;
        }
    }
    scratch.items.resize(items.len(), K::default());
    for (pass, counts) in (0..passes).zip(counts.chunks_mut(mask + 1)) {
        if counts[digit(&items[0], pass)] as usize == items.len() {
            continue;
        }
        let mut before = 0;
        for count in counts.iter_mut() {
            (*count, before) = (before, before + *count);
        }
        let target = &mut scratch.items[..items.len()];
        for item in items.iter() {
            let at = &mut counts[digit(item, pass)];
            target[*at as usize] = *item;
            *at += 1;
        }
        std::mem::swap(items, &mut scratch.items);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::test_grammars::Numbers;
    use crate::sort::window_keys::Wide;

    fn check<K: WindowKey>(make: impl Fn(u64) -> K) {
        let mut scratch = Scratch::default();
        for count in [0, 1, 2, 95, 96, 500, 3_000, 20_000] {
            for limit in [1, 3, 1 << 9, 1 << 24, u64::MAX] {
                let mut numbers = Numbers::new(count ^ limit);
                for value_bits in [0, 3, 15] {
                    let mut items: Vec<K> = (0..count as u32)
                        .map(|index| (make(numbers.below(limit)).shl(15), index & 0x7fff))
                        .map(|(key, index)| key.or(K::from_word(index)))
                        .collect();
                    let mut expected = items.clone();
                    expected.sort_by_key(|item| item.shr(value_bits));
                    sort_keys(&mut items, value_bits, &mut scratch);
                    assert_eq!(items, expected);
                }
            }
        }
    }

    #[test]
    fn sorting_equals_a_stable_sort() {
        check(|number| number);
        check(|number| u128::from(number) << 40);
        check(|number| Wide::from_word(number as u32).shl(150));
    }

    #[test]
    fn buckets_give_items_back_in_the_order_of_pushing() {
        let mut buckets = Buckets::new(5, 10);
        let mut expected = vec![Vec::new(); 5];
        let mut numbers = Numbers::new(1);
        for item in 0..1_000u32 {
            // Bucket 3 stays empty, bucket 1 fills its blocks.
            let bucket = [0, 1, 1, 4, 2][numbers.below(5) as usize];
            if bucket != 1 || expected[1].len() < 2 * BLOCK_ITEMS {
                buckets.push(bucket, item);
                expected[bucket].push(item);
            }
        }
        let bucketed = buckets.finish();
        for (bucket, expected) in expected.iter().enumerate() {
            let mut items = Vec::new();
            bucketed.collect(bucket, &mut items);
            assert_eq!(&items, expected);
        }
    }
}
