//! Flat arrays and the offsets that cut them into parts.
//!
//! The invariant: offsets rise from 0 to the length of what they cut. Nothing
//! here knows what the parts mean.

use std::ops::Range;

/// Cuts a slice at `offsets`, so that threads can own its parts.
pub(crate) fn split_mut<'a, T>(mut slice: &'a mut [T], offsets: &[usize]) -> Vec<&'a mut [T]> {
    let mut parts = Vec::with_capacity(offsets.len().saturating_sub(1));
    for window in offsets.windows(2) {
        let (part, rest) = slice.split_at_mut(window[1] - window[0]);
        parts.push(part);
        slice = rest;
    }
    parts
}

/// The offsets of parts of these lengths: `[0, a, a + b, ...]`.
pub(crate) fn offsets_of(lengths: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut end = 0;
    let ends = lengths.into_iter().map(|length| {
        end += length;
        end
    });
    std::iter::once(0).chain(ends).collect()
}

/// Cuts sizes into ranges that sum up to at most `most`, or are one.
pub(crate) fn ranges_up_to(sizes: &[usize], most: usize) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let (mut start, mut sum) = (0, 0);
    for (index, &size) in sizes.iter().enumerate() {
        if index > start && sum + size > most {
            ranges.push(start..index);
            (start, sum) = (index, 0);
        }
        sum += size;
    }
    ranges.push(start..sizes.len());
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_as_much_as_they_may_or_one() {
        let sizes = [1, 1, 3, 9, 0, 2, 2];
        assert_eq!(ranges_up_to(&sizes, 4), [0..2, 2..3, 3..4, 4..7]);
        assert_eq!(ranges_up_to(&sizes, usize::MAX).last(), Some(&(0..7)));
        assert_eq!(ranges_up_to(&[], 1).last(), Some(&(0..0)));
    }
}
