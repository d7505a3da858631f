//! A stable sort that can be interrupted.
//!
//! Parts are sorted as the standard library does it and then merged, pair by pair. Invariant: the same order as that of
//! `sort_by`; between two looks whether to go on lies the work on one part at most.

use std::cmp::Ordering;

use crate::Result;
use crate::runtime::interrupt::Pace;

/// Items that are sorted at once.
const PART: usize = 1 << 18;

/// Sorts as `sort_by` does.
///
/// # Errors
/// If the statement has to end; the items are in any order then.
pub(super) fn sort_until<T: Copy>(
    items: &mut Vec<T>,
    pace: &mut Pace,
    order: impl Fn(&T, &T) -> Ordering,
) -> Result<()> {
    for part in items.chunks_mut(PART) {
        // Comparisons of a part read some hundred bytes an item.
        pace.work(part.len() * 256)?;
        part.sort_by(&order);
    }
    let mut size = PART;
    let mut merged = Vec::new();
    while size < items.len() {
        merged.clear();
        merged.reserve(items.len());
        for pair in items.chunks(2 * size) {
            let (mut left, mut right) = pair.split_at(size.min(pair.len()));
            while let (Some(first), Some(second)) = (left.first(), right.first()) {
                pace.step()?;
                // Of equal ones that on the left came first.
                let side = match order(first, second).is_le() {
                    true => &mut left,
                    false => &mut right,
                };
                merged.push(side[0]);
                *side = &side[1..];
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        std::mem::swap(items, &mut merged);
        size *= 2;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Error;
    use crate::runtime::interrupt::Interrupt;

    #[test]
    fn parts_are_merged_to_the_order_of_a_stable_sort() {
        for count in [0, 1, PART, PART + 1, 5 * PART + 7] {
            let key = |index: usize| index.wrapping_mul(7919) % 1000;
            let mut items: Vec<(usize, usize)> =
                (0..count).map(|index| (key(index), index)).collect();
            let mut expected = items.clone();
            expected.sort_by_key(|item| item.0);
            let mut pace = Interrupt::never().pace();
            sort_until(&mut items, &mut pace, |a, b| a.0.cmp(&b.0)).unwrap();
            assert!(items == expected, "{count}");
        }
    }

    #[test]
    fn an_interrupt_ends_it() {
        let interrupt = Interrupt::never();
        interrupt.handle().interrupt();
        let mut items: Vec<usize> = (0..2 * PART).collect();
        let sorted = sort_until(&mut items, &mut interrupt.pace(), Ord::cmp);
        assert!(matches!(sorted, Err(Error::Interrupted)));
    }
}
