//! Windows of words that edits make and take away.

use zipfdb_kernels::NGRAM_WORDS_MAX;

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
