//! Merges sorted sources, and adds up equal neighbours.
//!
//! Invariant: items come in order; of equal items those of an earlier source come first, and those of one source in its order.
//! The sources define the order.

use std::cmp::Ordering;

use crate::Result;

/// A sorted source of items.
pub(crate) trait MergeSource {
    /// Advances to the next item, at first to the first; false at the end.
    ///
    /// # Errors
    /// If the item cannot be read.
    fn advance(&mut self) -> Result<bool>;

    /// Compares the item with that of another source.
    fn compare(&self, other: &Self) -> Ordering;
}

/// The items of several sources in order. Each costs about log2 of the number of sources in comparisons.
pub(crate) struct KWayMerge<S> {
    sources: Vec<S>,
    /// The sources that have an item, by number: a heap whose first has the lowest item, of equal ones that of the lowest number.
    heap: Vec<usize>,
    /// Whether the item of the first was returned.
    is_given: bool,
}

impl<S: MergeSource> KWayMerge<S> {
    /// Advances each source to its first item.
    ///
    /// # Errors
    /// As [`MergeSource::advance`].
    pub(crate) fn new(sources: Vec<S>) -> Result<KWayMerge<S>> {
        let mut merge = KWayMerge {
            heap: Vec::with_capacity(sources.len()),
            sources,
            is_given: false,
        };
        for number in 0..merge.sources.len() {
            if merge.sources[number].advance()? {
                merge.heap.push(number);
            }
        }
        for place in (0..merge.heap.len() / 2).rev() {
            merge.sift_down(place);
        }
        Ok(merge)
    }

    /// The source that has the next item; none at the end.
    ///
    /// # Errors
    /// As [`MergeSource::advance`].
    pub(crate) fn next(&mut self) -> Result<Option<&mut S>> {
        if std::mem::take(&mut self.is_given) {
            if !self.sources[self.heap[0]].advance()? {
                self.heap.swap_remove(0);
            }
            self.sift_down(0);
        }
        let Some(&first) = self.heap.first() else {
            return Ok(None);
        };
        self.is_given = true;
        Ok(Some(&mut self.sources[first]))
    }

    fn is_before(&self, left: usize, right: usize) -> bool {
        let (left, right) = (self.heap[left], self.heap[right]);
        let order = self.sources[left].compare(&self.sources[right]);
        order.then(left.cmp(&right)).is_lt()
    }

    /// Moves a source of the heap down to its place.
    fn sift_down(&mut self, mut place: usize) {
        loop {
            let mut lowest = 2 * place + 1;
            if lowest + 1 < self.heap.len() && self.is_before(lowest + 1, lowest) {
                lowest += 1;
            }
            if lowest >= self.heap.len() || !self.is_before(lowest, place) {
                return;
            }
            self.heap.swap(place, lowest);
            place = lowest;
        }
    }
}

/// Merges neighbours that are equal except for their counts: `add` adds that of the latter to the former.
pub(crate) fn sum_equal<T>(
    rows: &mut Vec<T>,
    is_same: impl Fn(&T, &T) -> bool,
    mut add: impl FnMut(&mut T, &T),
) {
    rows.dedup_by(|next, kept| {
        let is_same = is_same(next, kept);
        if is_same {
            add(kept, next);
        }
        is_same
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    /// Numbers, with the source that each is of.
    struct Numbers {
        rest: std::vec::IntoIter<(u8, usize)>,
        next: (u8, usize),
    }

    impl MergeSource for Numbers {
        fn advance(&mut self) -> Result<bool> {
            let next = self.rest.next();
            self.next = next.unwrap_or_default();
            Ok(next.is_some())
        }

        fn compare(&self, other: &Numbers) -> Ordering {
            self.next.0.cmp(&other.next.0)
        }
    }

    proptest! {
        #[test]
        fn merging_is_sorting_and_leaves_equal_items_in_order(
            mut sources in proptest::collection::vec(proptest::collection::vec(0u8..9, 0..9), 0..9),
        ) {
            sources.iter_mut().for_each(|source| source.sort_unstable());
            let numbered = sources.into_iter().enumerate();
            let numbered = numbered.map(|(of, source)| {
                source.into_iter().map(|number| (number, of)).collect::<Vec<_>>()
            });
            let numbered: Vec<Vec<(u8, usize)>> = numbered.collect();
            let mut expected = numbered.concat();
            expected.sort_by_key(|&(number, _)| number);
            let numbers = |source: Vec<(u8, usize)>| Numbers { rest: source.into_iter(), next: (0, 0) };
            let mut merge = KWayMerge::new(numbered.into_iter().map(numbers).collect()).unwrap();
            let mut merged = Vec::new();
            while let Some(source) = merge.next().unwrap() {
                merged.push(source.next);
            }
            prop_assert_eq!(&merged, &expected);
            let mut counts: Vec<(u8, usize)> = merged.iter().map(|&(number, _)| (number, 1)).collect();
            sum_equal(&mut counts, |row, next| row.0 == next.0, |row, next| row.1 += next.1);
            let runs = merged.chunk_by(|left, right| left.0 == right.0);
            prop_assert_eq!(counts, runs.map(|run| (run[0].0, run.len())).collect::<Vec<_>>());
        }
    }
}
