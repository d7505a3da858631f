//! Rows of counts: merged, cut to the used ones, and returned.
//!
//! Invariant: no returned count is 0. After merging, no two rows are equal in all output columns.

use std::sync::Arc;

use super::super::stable_sort::sort_until;
use super::rows::{RowCursor, SequenceRows};
use super::scan_spec::ScanSpec;
use crate::Result;
use crate::answer::Granularity;
use crate::merge::sum_equal;
use crate::runtime::interrupt::Pace;

/// The count of a word or n-gram, in a file or altogether; columns that rows do not have are empty or 0.
#[derive(Clone, Copy)]
pub(super) struct CountedRow<W> {
    pub(super) words: W,
    pub(super) file: u32,
    pub(super) times: u64,
}

pub(super) type CountedWord = CountedRow<[u32; 1]>;

pub(super) type CountedNgram = CountedRow<Arc<[u32]>>;

impl<W: Default> CountedRow<W> {
    /// The row of a file, without its words.
    pub(super) fn of_file(file: u32, times: u64) -> CountedRow<W> {
        CountedRow {
            words: W::default(),
            file,
            times,
        }
    }
}

impl CountedWord {
    pub(super) fn new(file: u32, word: u32, times: u64) -> CountedWord {
        CountedWord {
            words: [word],
            file,
            times,
        }
    }

    pub(super) fn word(&self) -> u32 {
        self.words[0]
    }
}

/// The totals of files from the file table.
pub(super) fn stored_totals<W: Default>(question: &ScanSpec) -> Vec<CountedRow<W>> {
    let all = question.reader.view().files();
    let files = question.asked.files.numbers().iter();
    let count = |&file: &u32| {
        let ngrams = (all[file as usize].words + 1).saturating_sub(question.asked.n as u64);
        CountedRow::of_file(file, ngrams)
    };
    files.map(count).collect()
}

/// Adds up rows that do not distinguish words, and leaves out counts of 0.
pub(super) fn merge<W: Default>(
    rows: &mut Vec<CountedRow<W>>,
    granularity: Granularity,
    pace: &mut Pace,
) -> Result<()> {
    match granularity {
        Granularity::All => {
            let times = rows.iter().map(|row| row.times).sum();
            *rows = vec![CountedRow::of_file(0, times)];
        }
        Granularity::File => {
            sort_until(rows, pace, |left, right| left.file.cmp(&right.file))?;
            add_up(rows, |left, right| left.file == right.file);
        }
        Granularity::Word | Granularity::FileWord | Granularity::Occurrence => {}
    }
    rows.retain(|row| row.times > 0);
    Ok(())
}

/// Merges equal neighbours to one row.
pub(super) fn add_up<W>(
    rows: &mut Vec<CountedRow<W>>,
    is_same: impl Fn(&CountedRow<W>, &CountedRow<W>) -> bool,
) {
    sum_equal(rows, is_same, |row, next| row.times += next.times);
}

/// Returns counted rows.
pub(super) struct CountedCursor<W>(std::vec::IntoIter<CountedRow<W>>);

impl<W> CountedCursor<W> {
    pub(super) fn boxed(rows: Vec<CountedRow<W>>) -> Box<dyn RowCursor>
    where
        W: AsRef<[u32]> + Send + 'static,
    {
        Box::new(CountedCursor(rows.into_iter()))
    }
}

impl<W: AsRef<[u32]> + Send> RowCursor for CountedCursor<W> {
    fn advance(&mut self, _: &ScanSpec, rows: &mut SequenceRows) -> Result<bool> {
        for row in self.0.by_ref().take(rows.room()) {
            rows.push_counted(row.words.as_ref(), row.file, row.times);
        }
        Ok(self.0.len() > 0)
    }
}
