//! Cursors of n-grams that stand in tables: with their counts, and with their files.
//!
//! Invariant: rows come as they lie there, n-grams that pass the conditions on n-grams. Threads of the pool unpack parts and make
//! rows with files before they are asked for.

use std::sync::Arc;

use zipfdb_kernels::NgramFiles;

use super::counted::CountedNgram;
use super::question::ScanQuestion;
use super::rows::{BUFFER, NgramRows, NgramRowsAhead, NgramWithFiles, RowCursor, SequenceRows};
use crate::Result;
use crate::answer::{CountedNgrams, NgramFilePart, NgramsPart, Top};
use crate::runtime::ahead::WorkAhead;

/// N-grams whose rows are made at a time.
pub(super) const NGRAMS_AHEAD: usize = 1 << 10;

/// Parts that are unpacked one after the other, some of them ahead.
struct Unpacked<P, T> {
    parts: std::vec::IntoIter<P>,
    unpack: fn(P) -> T,
    ahead: WorkAhead<T>,
}

impl<P: Send + 'static, T: Send + 'static> Unpacked<P, T> {
    fn new(question: &ScanQuestion, parts: Vec<P>, unpack: fn(P) -> T) -> Unpacked<P, T> {
        Unpacked {
            parts: parts.into_iter(),
            unpack,
            ahead: WorkAhead::new(&question.context.pool, question.interrupt()).of_each_thread(1),
        }
    }

    fn next(&mut self) -> Result<Option<T>> {
        while !self.ahead.is_full()
            && let Some(part) = self.parts.next()
        {
            let unpack = self.unpack;
            self.ahead.begin(move || Ok(unpack(part)));
        }
        self.ahead.next()
    }
}

/// Gives n-grams with counts, part by part.
pub(super) struct NgramCursor {
    /// The part that is read, and its next row.
    part: CountedNgrams,
    next: usize,
    parts: Unpacked<NgramsPart, CountedNgrams>,
}

impl NgramCursor {
    pub(super) fn new(question: &ScanQuestion, parts: Vec<NgramsPart>) -> NgramCursor {
        NgramCursor {
            part: CountedNgrams::none(),
            next: 0,
            parts: Unpacked::new(question, parts, NgramsPart::into_counted),
        }
    }
}

impl RowCursor for NgramCursor {
    fn advance(&mut self, question: &ScanQuestion, rows: &mut SequenceRows) -> Result<bool> {
        let (n, next) = (question.n, self.next);
        if next == self.part.len() {
            let Some(following) = self.parts.next()? else {
                return Ok(false);
            };
            (self.part, self.next) = (following, 0);
            return Ok(true);
        }
        if question.has_all_texts() {
            self.next = self.part.len().min(next.saturating_add(rows.room()));
            rows.words
                .extend_from_slice(&self.part.words[next * n..self.next * n]);
            rows.files.resize(rows.len() + self.next - next, 0);
            self.part.counts.append_to(next..self.next, &mut rows.times);
            return Ok(true);
        }
        let words = &self.part.words[next * n..(next + 1) * n];
        if question.passes_ngram(words)? {
            rows.push_counted(words, 0, self.part.counts.get(next));
        }
        self.next += 1;
        check_at(next, question)?;
        Ok(true)
    }
}

/// Checks now and then whether the statement has to end.
fn check_at(row: usize, question: &ScanQuestion) -> Result<()> {
    if row.is_multiple_of(BUFFER) {
        question.interrupt().check()?;
    }
    Ok(())
}

pub(super) fn ngram_of(part: &NgramFiles, row: usize, n: usize) -> NgramWithFiles<'_> {
    (&part.words[row * n..(row + 1) * n], part.files.row(row))
}

/// Gives n-grams with their files, part by part.
pub(super) struct NgramFileCursor {
    question: Arc<ScanQuestion>,
    parts: Unpacked<NgramFilePart, Arc<NgramFiles>>,
    /// The part whose rows are begun, and its first n-gram that is not.
    part: Arc<NgramFiles>,
    next: usize,
    rows: NgramRowsAhead,
}

impl NgramFileCursor {
    pub(super) fn new(question: &Arc<ScanQuestion>, parts: Vec<NgramFilePart>) -> NgramFileCursor {
        NgramFileCursor {
            question: question.clone(),
            parts: Unpacked::new(question, parts, |part| Arc::new(part.into_plain())),
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
                rows.push(ngram_of(&part, ngram, question.n), &question)?;
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

/// The n-grams and files of tables that are used.
pub(super) fn top_of_files(top: Top, parts: &[NgramFiles], n: usize) -> Vec<CountedNgram> {
    let entries = || {
        parts.iter().flat_map(|part| {
            (0..part.files.rows()).flat_map(move |row| {
                let (words, files) = ngram_of(part, row, n);
                files
                    .iter()
                    .map(move |&(file, times)| (words, file, u64::from(times)))
            })
        })
    };
    let last = top.last(entries().map(|(_, _, times)| times));
    let used = entries().filter(|&(_, _, times)| top.is_used(times, last));
    let used = used.map(|(words, file, times)| CountedNgram {
        words: words.into(),
        file,
        times,
    });
    used.collect()
}
