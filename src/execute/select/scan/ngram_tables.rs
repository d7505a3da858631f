//! Cursors of n-grams that stand in tables: with their counts, and with their files.
//!
//! Invariant: rows come as they lie there, n-grams that pass the conditions on n-grams; these are decided once for each, and not
//! at all where there are none.

use zipfdb_kernels::NgramFiles;

use super::counted::CountedNgram;
use super::question::ScanQuestion;
use super::rows::{BUFFER, RowCursor, SequenceRows};
use crate::Result;
use crate::answer::{CountedNgrams, NgramFilePart, NgramsPart, Top};

/// Gives n-grams with counts, part by part.
pub(super) struct NgramCursor {
    /// The part that is read, and its next row.
    part: CountedNgrams,
    next: usize,
    parts: std::vec::IntoIter<NgramsPart>,
}

impl NgramCursor {
    pub(super) fn new(parts: Vec<NgramsPart>) -> NgramCursor {
        NgramCursor {
            part: CountedNgrams::none(),
            next: 0,
            parts: parts.into_iter(),
        }
    }
}

impl RowCursor for NgramCursor {
    fn advance(&mut self, question: &ScanQuestion, rows: &mut SequenceRows) -> Result<bool> {
        let (n, next) = (question.n, self.next);
        if next == self.part.len() {
            let following = self.parts.next().map(NgramsPart::into_counted);
            (self.part, self.next) = (following.unwrap_or_else(CountedNgrams::none), 0);
            return Ok(self.part.len() > 0 || self.parts.len() > 0);
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

/// The next row of n-grams with their files: an n-gram and an entry of its row.
#[derive(Default)]
pub(super) struct NgramFileRow {
    pub(super) ngram: usize,
    entry: usize,
}

impl NgramFileRow {
    /// Appends rows of the n-gram, which has these words and files, and goes on to the next if these are all.
    pub(super) fn advance(
        &mut self,
        question: &ScanQuestion,
        rows: &mut SequenceRows,
        (words, files): NgramWithFiles<'_>,
    ) -> Result<()> {
        // Conditions on the n-gram are decided once, before its first file.
        if self.entry > 0 || question.passes_ngram(words)? {
            self.entry += rows.push_files(words, &files[self.entry..]);
        } else {
            self.entry = files.len();
        }
        if self.entry == files.len() {
            (self.ngram, self.entry) = (self.ngram + 1, 0);
            check_at(self.ngram, question)?;
        }
        Ok(())
    }
}

/// The words of an n-gram, and its files with counts.
pub(super) type NgramWithFiles<'a> = (&'a [u32], &'a [(u32, u32)]);

pub(super) fn ngram_of(part: &NgramFiles, row: usize, n: usize) -> NgramWithFiles<'_> {
    (&part.words[row * n..(row + 1) * n], part.files.row(row))
}

/// Gives n-grams with their files, part by part.
pub(super) struct NgramFileCursor {
    /// The part that is read, and its next row.
    part: NgramFiles,
    next: NgramFileRow,
    parts: std::vec::IntoIter<NgramFilePart>,
}

impl NgramFileCursor {
    pub(super) fn new(parts: Vec<NgramFilePart>) -> NgramFileCursor {
        NgramFileCursor {
            part: NgramFiles::default(),
            next: NgramFileRow::default(),
            parts: parts.into_iter(),
        }
    }
}

impl RowCursor for NgramFileCursor {
    fn advance(&mut self, question: &ScanQuestion, rows: &mut SequenceRows) -> Result<bool> {
        if self.next.ngram == self.part.files.rows() {
            let Some(following) = self.parts.next() else {
                return Ok(false);
            };
            (self.part, self.next) = (following.into_plain(), NgramFileRow::default());
        }
        while rows.room() > 0 && self.next.ngram < self.part.files.rows() {
            let ngram = ngram_of(&self.part, self.next.ngram, question.n);
            self.next.advance(question, rows, ngram)?;
        }
        Ok(true)
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
