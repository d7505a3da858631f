//! The cursor of n-grams that a device has counted, in the whole or file by file, and keeps until their rows are made.
//!
//! Threads of the pool copy pieces to the host before they are asked for, so that copies go on beside what the statement does with
//! rows. Invariant: rows come in the order in which n-grams lie there, those that pass the conditions.

use std::ops::Range;
use std::sync::Arc;

use zipfdb_kernels::gpu::{DeviceNgramFileRows, DeviceNgramRows, ShownNgramFiles};

use super::question::ScanQuestion;
use super::rows::{NgramRows, NgramRowsAhead, RowCursor, SequenceRows};
use crate::Result;

/// Makes the rows of a piece.
type MakeRows = dyn Fn(usize, &ScanQuestion) -> Result<NgramRows> + Send + Sync;

/// Gives n-grams with counts, or with files and counts.
pub(super) struct DeviceNgramCursor {
    question: Arc<ScanQuestion>,
    make: Arc<MakeRows>,
    /// The pieces that are not begun.
    pieces: Range<usize>,
    rows: NgramRowsAhead,
}

impl DeviceNgramCursor {
    pub(super) fn new(question: &Arc<ScanQuestion>, ngrams: DeviceNgramRows) -> DeviceNgramCursor {
        let pieces = ngrams.pieces();
        let make = move |piece, question: &ScanQuestion| rows_of(&ngrams, piece, question);
        DeviceNgramCursor::of_pieces(question, pieces, make)
    }

    pub(super) fn with_files(
        question: &Arc<ScanQuestion>,
        ngrams: DeviceNgramFileRows,
    ) -> DeviceNgramCursor {
        let pieces = ngrams.pieces();
        let make = move |piece, question: &ScanQuestion| rows_with_files(&ngrams, piece, question);
        DeviceNgramCursor::of_pieces(question, pieces, make)
    }

    fn of_pieces(
        question: &Arc<ScanQuestion>,
        pieces: usize,
        make: impl Fn(usize, &ScanQuestion) -> Result<NgramRows> + Send + Sync + 'static,
    ) -> DeviceNgramCursor {
        DeviceNgramCursor {
            question: question.clone(),
            make: Arc::new(make),
            pieces: 0..pieces,
            // What is copied at once is large.
            rows: NgramRowsAhead::new(question).of_each_thread(1),
        }
    }
}

impl RowCursor for DeviceNgramCursor {
    fn advance(&mut self, question: &ScanQuestion, rows: &mut SequenceRows) -> Result<bool> {
        while !self.rows.is_full()
            && let Some(piece) = self.pieces.next()
        {
            let (make, question) = (self.make.clone(), self.question.clone());
            self.rows.begin(move || make(piece, &question));
        }
        self.rows.give(question.n, rows)
    }
}

/// Whether rows or conditions need the words of n-grams.
fn needs_words(question: &ScanQuestion) -> bool {
    question.tells_texts() || !question.has_all_texts()
}

/// The rows of some n-grams.
fn rows_of(ngrams: &DeviceNgramRows, piece: usize, question: &ScanQuestion) -> Result<NgramRows> {
    let (mut made, mut pushed) = (NgramRows::new(), Ok(()));
    ngrams.show(piece, needs_words(question), |words, counts| {
        let append = |rows: Range<usize>, times: &mut Vec<u64>| {
            times.extend(counts[rows].iter().copied().map(u64::from));
        };
        pushed = made.push_counted(words, 0..counts.len(), append, question);
    })?;
    pushed.map(|()| made)
}

/// The rows of some n-grams with their files.
fn rows_with_files(
    ngrams: &DeviceNgramFileRows,
    piece: usize,
    question: &ScanQuestion,
) -> Result<NgramRows> {
    let (mut made, mut pushed) = (NgramRows::new(), Ok(()));
    ngrams.show(piece, needs_words(question), |shown| {
        pushed = shown.try_for_each(|words, entries| {
            made.push(words, entries, ShownNgramFiles::file_and_count, question)
        });
    })?;
    pushed.map(|()| made)
}
