//! Cursors of n-grams that stand in tables: with their counts, and with their files.
//!
//! Invariant: rows come as they lie there, n-grams that pass the conditions on n-grams. Threads of the pool unpack parts and make
//! rows before they are asked for.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use zipfdb_kernels::NgramFiles;

use super::counted::CountedNgram;
use super::question::ScanQuestion;
use super::rows::{NgramRows, NgramRowsAhead, NgramWithFiles, RowCursor, SequenceRows};
use crate::Result;
use crate::answer::{CountedNgrams, NgramFilePart, NgramsPart, Top};
use crate::batch::BATCH_ROWS;
use crate::runtime::ahead::WorkAhead;
use crate::runtime::interrupt::check;

/// N-grams whose rows with files are made at a time.
pub(super) const NGRAMS_AHEAD: usize = 1 << 10;

/// N-grams whose rows with counts are made at a time.
pub(super) const COUNTED_AHEAD: usize = 4 * BATCH_ROWS;

/// Parts with files that are unpacked one after the other, some of them ahead.
struct Unpacked {
    parts: std::vec::IntoIter<NgramFilePart>,
    ahead: WorkAhead<Arc<NgramFiles>>,
}

impl Unpacked {
    fn new(question: &ScanQuestion, parts: Vec<NgramFilePart>) -> Unpacked {
        Unpacked {
            parts: parts.into_iter(),
            ahead: WorkAhead::new(&question.context.pool, question.interrupt()).of_each_thread(1),
        }
    }

    fn next(&mut self) -> Result<Option<Arc<NgramFiles>>> {
        while !self.ahead.is_full()
            && let Some(part) = self.parts.next()
        {
            self.ahead.begin(move || Ok(Arc::new(part.into_plain())));
        }
        self.ahead.next()
    }
}

/// Gives n-grams with counts, part by part.
pub(super) struct NgramCursor {
    question: Arc<ScanQuestion>,
    parts: std::vec::IntoIter<NgramsPart>,
    /// The table whose rows are begun, and its first row that is not.
    table: Arc<CountedNgrams>,
    next: usize,
    rows: NgramRowsAhead,
}

impl NgramCursor {
    pub(super) fn new(question: &Arc<ScanQuestion>, parts: Vec<NgramsPart>) -> NgramCursor {
        NgramCursor {
            question: question.clone(),
            parts: parts.into_iter(),
            table: Arc::new(CountedNgrams::none()),
            next: 0,
            // A packed part is large.
            rows: NgramRowsAhead::new(question).of_each_thread(1),
        }
    }

    /// Begins to make some rows; `false` if all are begun.
    fn begin(&mut self) -> bool {
        let question = self.question.clone();
        while self.next == self.table.len() {
            match self.parts.next() {
                None => return false,
                Some(NgramsPart::Packed(packed)) => {
                    let part = NgramsPart::Packed(packed);
                    self.rows.begin(move || {
                        let table = part.into_counted();
                        rows_of(&table, 0..table.len(), &question)
                    });
                    return true;
                }
                Some(part) => (self.table, self.next) = (Arc::new(part.into_counted()), 0),
            }
        }
        let rows = self.next..self.table.len().min(self.next + COUNTED_AHEAD);
        self.next = rows.end;
        let table = self.table.clone();
        self.rows.begin(move || rows_of(&table, rows, &question));
        true
    }
}

impl RowCursor for NgramCursor {
    fn advance(&mut self, question: &ScanQuestion, rows: &mut SequenceRows) -> Result<bool> {
        while !self.rows.is_full() && self.begin() {}
        self.rows.give(question.n, rows)
    }
}

/// Some rows of a table, those that pass.
fn rows_of(
    table: &CountedNgrams,
    rows: Range<usize>,
    question: &ScanQuestion,
) -> Result<NgramRows> {
    let mut made = NgramRows::new();
    let append = |rows, times: &mut Vec<u64>| table.counts.append_to(rows, times);
    made.push_counted(&table.words, rows, append, question)?;
    Ok(made)
}

pub(super) fn ngram_of(part: &NgramFiles, row: usize, n: usize) -> NgramWithFiles<'_> {
    (&part.words[row * n..(row + 1) * n], part.files.row(row))
}

/// Gives n-grams with their files, part by part.
pub(super) struct NgramFileCursor {
    question: Arc<ScanQuestion>,
    parts: Unpacked,
    /// The part whose rows are begun, and its first n-gram that is not.
    part: Arc<NgramFiles>,
    next: usize,
    rows: NgramRowsAhead,
}

impl NgramFileCursor {
    pub(super) fn new(question: &Arc<ScanQuestion>, parts: Vec<NgramFilePart>) -> NgramFileCursor {
        NgramFileCursor {
            question: question.clone(),
            parts: Unpacked::new(question, parts),
            part: Arc::default(),
            next: 0,
            rows: NgramRowsAhead::new(question),
        }
    }

    /// Begins to make some rows; `false` if all are begun.
    fn begin(&mut self) -> Result<bool> {
        while self.next == self.part.files.rows() {
            let Some(following) = self.parts.next()? else {
                return Ok(false);
            };
            (self.part, self.next) = (following, 0);
        }
        let ngrams = self.next..self.part.files.rows().min(self.next + NGRAMS_AHEAD);
        self.next = ngrams.end;
        let (part, question) = (self.part.clone(), self.question.clone());
        self.rows.begin(move || {
            let mut rows = NgramRows::new();
            for ngram in ngrams {
                let (words, files) = ngram_of(&part, ngram, question.n);
                rows.push(words, files, |entry| entry, &question)?;
            }
            Ok(rows)
        });
        Ok(true)
    }
}

impl RowCursor for NgramFileCursor {
    fn advance(&mut self, question: &ScanQuestion, rows: &mut SequenceRows) -> Result<bool> {
        while !self.rows.is_full() && self.begin()? {}
        self.rows.give(question.n, rows)
    }
}

/// The n-grams and files of tables that are used. Tables are unpacked one by one, on the threads of the pool that runs this.
pub(super) fn top_of_files(
    top: Top,
    parts: Vec<NgramFilePart>,
    n: usize,
    stop: &AtomicBool,
) -> Result<Vec<CountedNgram>> {
    let of_part = |part: NgramFilePart| {
        check(stop)?;
        let part = part.into_plain();
        let rows = 0..part.files.rows();
        let counts = rows.clone().flat_map(|row| part.files.row(row));
        let last = top.last(counts.map(|&(_, times)| u64::from(times)));
        let mut used = Vec::new();
        for (words, files) in rows.map(|row| ngram_of(&part, row, n)) {
            let files = files.iter().map(|&(file, times)| (file, u64::from(times)));
            used.extend(files.filter(|&(_, times)| top.is_used(times, last)).map(
                |(file, times)| CountedNgram {
                    words: words.into(),
                    file,
                    times,
                },
            ));
        }
        Ok(used)
    };
    let used: Result<Vec<Vec<CountedNgram>>> = parts.into_par_iter().map(of_part).collect();
    let mut used = used?.concat();
    top.retain(&mut used, |row| row.times);
    Ok(used)
}
