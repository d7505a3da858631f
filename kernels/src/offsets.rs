//! Flat arrays and the offsets that cut them into parts.
//!
//! The invariant: offsets rise from 0 to the length of what they cut. Nothing
//! here knows what the parts mean.

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
