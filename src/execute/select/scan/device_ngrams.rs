//! The cursor of n-grams that a device has counted, and keeps until their rows are made.
//!
//! Threads of the pool copy some n-grams at a time to the host before they are asked for, so that copies go on beside what the
//! statement does with rows. Invariant: rows come in the order in which n-grams lie there, those that pass the conditions.

use std::ops::Range;
use std::sync::Arc;

use zipfdb_kernels::gpu::DeviceNgramRows;

use super::question::ScanQuestion;
use super::rows::{NgramRows, NgramRowsAhead, RowCursor, SequenceRows};
use crate::Result;

/// Gives n-grams with counts.
pub(super) struct DeviceNgramCursor {
    question: Arc<ScanQuestion>,
    ngrams: Arc<DeviceNgramRows>,
    /// The first n-gram that is not begun.
    next: usize,
    rows: NgramRowsAhead,
}

impl DeviceNgramCursor {
    pub(super) fn new(question: &Arc<ScanQuestion>, ngrams: DeviceNgramRows) -> DeviceNgramCursor {
        DeviceNgramCursor {
            question: question.clone(),
            ngrams: Arc::new(ngrams),
            next: 0,
            // What is copied at once is large.
            rows: NgramRowsAhead::new(question).of_each_thread(1),
        }
    }
}

impl RowCursor for DeviceNgramCursor {
    fn advance(&mut self, question: &ScanQuestion, rows: &mut SequenceRows) -> Result<bool> {
        while !self.rows.is_full() && self.next < self.ngrams.len() {
            let end = self.next + self.ngrams.shown_at_once();
            let begun = self.next..self.ngrams.len().min(end);
            self.next = begun.end;
            let (ngrams, question) = (self.ngrams.clone(), self.question.clone());
            self.rows.begin(move || rows_of(&ngrams, begun, &question));
        }
        self.rows.give(question.n, rows)
    }
}

/// The rows of some n-grams.
fn rows_of(
    ngrams: &DeviceNgramRows,
    range: Range<usize>,
    question: &ScanQuestion,
) -> Result<NgramRows> {
    let (mut made, mut pushed) = (NgramRows::new(), Ok(()));
    let with_words = question.tells_texts() || !question.has_all_texts();
    ngrams.show(range, with_words, |words, counts| {
        let append = |rows: Range<usize>, times: &mut Vec<u64>| {
            times.extend(counts[rows].iter().copied().map(u64::from));
        };
        pushed = made.push_counted(words, 0..counts.len(), append, question);
    })?;
    pushed.map(|()| made)
}
