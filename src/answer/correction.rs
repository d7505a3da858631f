//! Changes of counts by edits, and the correction of counts by them.
//!
//! Invariant: a count that becomes 0 is left out; a count below 0 is an error.

use std::ops::Range;

use zipfdb_kernels::NGRAM_WORDS_MAX;

use crate::Result;
use crate::bisect::gallop;
use crate::overlay::changed_count::changed_in_file;

/// Up to eight words; zeros behind the last.
pub(super) type Window = [u32; NGRAM_WORDS_MAX];

/// The window of some words.
pub(super) fn window_of(words: impl Iterator<Item = u32>) -> Window {
    let mut window = Window::default();
    for (place, word) in window.iter_mut().zip(words) {
        *place = word;
    }
    window
}

/// The changes of counts of n-grams between stored and edited files.
pub(super) struct WindowChanges {
    /// N-gram, file, change: ascending, each n-gram and file once, no change is 0.
    pub(super) changes: Vec<(Window, u32, i64)>,
    /// N-gram, file, number of its first word: ascending, for each window that an edit made.
    pub(super) places: Vec<(Window, u32, u64)>,
}

impl WindowChanges {
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.changes[..]) + size_of_val(&self.places[..])
    }
}

/// Ranges of places of a segment whose words are gone, as a suffix array counts places: one behind each file. Ascending and
/// apart; an empty one parts the words before and behind it.
pub(super) type BrokenPlaces = Vec<(u32, u32)>;

/// How many words from a place on no broken place touches.
pub(super) fn whole_words(broken: &[(u32, u32)], place: u64) -> u64 {
    let next = broken.partition_point(|&(_, end)| u64::from(end) <= place);
    let next = broken.get(next);
    next.map_or(u64::MAX, |&(start, _)| {
        u64::from(start).saturating_sub(place)
    })
}

/// The items of an n-gram in a list that ascends by n-gram.
pub(super) fn range_of<T>(list: &[T], window_of: impl Fn(&T) -> &Window, window: Window) -> &[T] {
    let from = list.partition_point(|item| *window_of(item) < window);
    let count = list[from..].partition_point(|item| *window_of(item) == window);
    &list[from..from + count]
}

/// Corrects a row of a table by changes, both ascending; zeros are dropped. `subject` names the counts of a column, for errors.
pub(super) fn corrected(
    row: &[(u32, u32)],
    changes: impl Iterator<Item = (u32, i64)>,
    subject: impl Fn(u32) -> String,
) -> Result<Vec<(u32, u32)>> {
    let mut merged = Vec::with_capacity(row.len());
    let mut rest = row.iter().copied().peekable();
    for (column, change) in changes {
        while let Some(entry) = rest.next_if(|entry| entry.0 < column) {
            merged.push(entry);
        }
        let count = rest
            .next_if(|entry| entry.0 == column)
            .map_or(0, |entry| entry.1);
        let count = changed_in_file(count, change, || subject(column))?;
        if count > 0 {
            merged.push((column, count));
        }
    }
    merged.extend(rest);
    Ok(merged)
}

/// As `corrected`, for few entries, in any order before and afterwards.
pub(super) fn correct_few(
    entries: &mut Vec<(u32, u32)>,
    changes: impl Iterator<Item = (u32, i64)>,
    subject: impl Fn() -> String,
) -> Result<()> {
    for (column, change) in changes {
        let found = entries.iter().position(|entry| entry.0 == column);
        let at = found.unwrap_or(entries.len());
        let before = entries.get(at).map_or(0, |entry| entry.1);
        let count = changed_in_file(before, change, &subject)?;
        match entries.get_mut(at) {
            Some(entry) if count > 0 => entry.1 = count,
            Some(_) => drop(entries.swap_remove(at)),
            None if count > 0 => entries.push((column, count)),
            None => {}
        }
    }
    Ok(())
}

/// A step through stored n-grams and changes, in order.
pub(super) enum MergeStep<'a> {
    /// Stored n-grams without a change, by their rows.
    Same(Range<usize>),
    /// An n-gram, its row if it is stored, and its changes.
    Changed(&'a [u32], Option<usize>, &'a [(Window, u32, i64)]),
}

/// Passes through n-grams and changes in order.
pub(super) fn merge(
    words: &[u32],
    n: usize,
    changes: &[(Window, u32, i64)],
    mut visit: impl FnMut(MergeStep<'_>) -> Result<()>,
) -> Result<()> {
    let (mut row, rows) = (0, words.len() / n);
    for changes in changes.chunk_by(|left, right| left.0 == right.0) {
        let ngram = &changes[0].0[..n];
        let end = row + smaller(&words[row * n..], n, ngram);
        if row < end {
            visit(MergeStep::Same(row..end))?;
        }
        let is_stored = words.get(end * n..(end + 1) * n) == Some(ngram);
        visit(MergeStep::Changed(ngram, is_stored.then_some(end), changes))?;
        row = end + usize::from(is_stored);
    }
    if row < rows {
        visit(MergeStep::Same(row..rows))
    } else {
        Ok(())
    }
}

/// The number of sorted n-grams that are smaller than one. Work: logarithmic in that number.
fn smaller(words: &[u32], n: usize, ngram: &[u32]) -> usize {
    let rows = words.len() / n;
    let is_smaller = |row: usize| words[row * n..][..n] < *ngram;
    gallop(rows, is_smaller)
}
