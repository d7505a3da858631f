//! What edits change of counts, and how counts are corrected by it.
//!
//! Invariant: a count that becomes 0 is left out; one that would become less is an error.

use zipfdb_kernels::NGRAM_WORDS_MAX;

use crate::Result;
use crate::overlay::changed_count::changed_in_file;

/// Up to eight words; zeros behind the last.
pub(super) type Window = [u32; NGRAM_WORDS_MAX];

/// How much more or less often n-grams occur in edited files than in the stored ones.
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

/// A row of a table with changes, both ascending; what becomes 0 goes. `subject` says what a column counts, for errors.
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

/// The same of few entries, in any order before and afterwards.
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
