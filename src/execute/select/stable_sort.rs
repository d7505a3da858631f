//! A stable sort that can be interrupted.
//!
//! Parts are sorted by the standard library and then merged. Invariant: the same order as that of `sort_by`; between two checks
//! for interruption lies at most the work on one part.

use std::cmp::Ordering;
use std::mem;

use crate::Result;
use crate::merge::{KWayMerge, MergeSource};
use crate::runtime::interrupt::Pace;

/// Items that are sorted at once.
const PART: usize = 1 << 18;

/// Sorts as `sort_by` does.
///
/// # Errors
/// If the statement must end; there are no items then.
pub(super) fn sort_until<T>(
    items: &mut Vec<T>,
    pace: &mut Pace,
    order: impl Fn(&T, &T) -> Ordering,
) -> Result<()> {
    let count = items.len();
    let mut rest = mem::take(items);
    let mut parts = Vec::with_capacity(rest.len() / PART + 1);
    while rest.len() > PART {
        parts.push(rest.split_off((rest.len() - 1) / PART * PART));
    }
    rest.shrink_to_fit();
    parts.push(rest);
    parts.reverse();
    for part in &mut parts {
        // Comparisons of a part read some hundred bytes an item.
        pace.work(part.len() * 256)?;
        part.sort_by(&order);
    }
    if parts.len() == 1 {
        *items = parts.pop().unwrap_or_default();
        return Ok(());
    }
    let parts = parts.into_iter().map(|part| SortedPart {
        rest: part.into_iter(),
        next: None,
        order: &order,
    });
    let mut merge = KWayMerge::new(parts.collect())?;
    let mut merged = Vec::with_capacity(count);
    while let Some(part) = merge.next()? {
        pace.step()?;
        merged.extend(part.next.take());
    }
    *items = merged;
    Ok(())
}

/// A part that has been sorted.
struct SortedPart<'a, T, F> {
    rest: std::vec::IntoIter<T>,
    next: Option<T>,
    order: &'a F,
}

impl<T, F: Fn(&T, &T) -> Ordering> MergeSource for SortedPart<'_, T, F> {
    fn advance(&mut self) -> Result<bool> {
        self.next = self.rest.next();
        Ok(self.next.is_some())
    }

    fn compare(&self, other: &Self) -> Ordering {
        match (&self.next, &other.next) {
            (Some(left), Some(right)) => (self.order)(left, right),
            (left, right) => left.is_none().cmp(&right.is_none()),
        }
    }
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
