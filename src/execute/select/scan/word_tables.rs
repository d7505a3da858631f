//! Cursors of words with their files: a table of all files, and files counted a part at a time.
//!
//! Invariant: rows come in order of file, then of word number.

use std::sync::Arc;

use zipfdb_kernels::CountTable;

use super::counted::CountedWord;
use super::rows::{RowCursor, SequenceRows};
use super::scan_spec::ScanSpec;
use super::selection::WantedWords;
use crate::Result;
use crate::answer::access_path::Run;
use crate::segment::SegmentView;

/// The detail of EXPLAIN for rows that are made file by file.
pub(super) const LARGE: &str = "file by file: all rows may take more than memory_limit";

/// The rows of some files take 1/`PART_SHARE` of the memory limit.
const PART_SHARE: u64 = 4;

/// Returns the wanted words of a table of all files.
pub(super) struct TableCursor {
    table: Arc<CountTable>,
    wanted: WantedWords,
    file: usize,
    /// The next entry of the file's row.
    entry: usize,
}

impl TableCursor {
    pub(super) fn new(table: Arc<CountTable>, wanted: WantedWords) -> TableCursor {
        TableCursor {
            table,
            wanted,
            file: 0,
            entry: 0,
        }
    }

    /// All rows.
    pub(super) fn into_rows(self, question: &ScanSpec) -> Result<Vec<CountedWord>> {
        let mut rows = Vec::new();
        for file in 0..self.table.rows() {
            question.interrupt().check()?;
            let row = self.table.row(file).iter();
            let row = row.filter(|entry| self.wanted.has(entry.0));
            // Files are numbered by u32.
            let count = |&(word, times)| CountedWord::new(file as u32, word, u64::from(times));
            rows.extend(row.map(count));
        }
        Ok(rows)
    }
}

impl RowCursor for TableCursor {
    fn advance(&mut self, question: &ScanSpec, rows: &mut SequenceRows) -> Result<bool> {
        if self.file == self.table.rows() {
            return Ok(false);
        }
        let entries = &self.table.row(self.file)[self.entry..];
        // There may be room for more than these, as some are not wanted.
        let entries = &entries[..entries.len().min(rows.room())];
        for &(word, times) in entries {
            if times > 0 && self.wanted.has(word) {
                // Files are numbered by u32.
                rows.push_counted(&[word], self.file as u32, u64::from(times));
            }
        }
        self.entry += entries.len();
        if self.entry == self.table.row(self.file).len() {
            (self.file, self.entry) = (self.file + 1, 0);
            question.interrupt().check()?;
        }
        Ok(true)
    }
}

/// Returns the wanted words of one part of the files after the other.
pub(super) struct FilePartCursor {
    files: std::vec::IntoIter<u32>,
    wanted: WantedWords,
    /// The rows of the current part.
    rows: std::vec::IntoIter<CountedWord>,
    /// The segments of the counted rows, which the next ones need too.
    _pinned: Vec<SegmentView>,
}

impl FilePartCursor {
    pub(super) fn new(question: &ScanSpec) -> Result<FilePartCursor> {
        Ok(FilePartCursor {
            files: question.asked.files.numbers().to_vec().into_iter(),
            wanted: question.wanted_words()?,
            rows: Vec::new().into_iter(),
            _pinned: Vec::new(),
        })
    }

    /// The next files, whose rows take about 1/`PART_SHARE` of the memory limit.
    fn next_files(&mut self, question: &ScanSpec) -> Vec<u32> {
        let bytes = question.context.settings.memory_limit() / PART_SHARE;
        let (mut part, mut held) = (Vec::new(), 0u64);
        while held < bytes
            && let Some(file) = self.files.next()
        {
            let words = question.reader.view().files()[file as usize].words;
            // The counts of a file, and its rows.
            let row = size_of::<(u32, u64)>() + size_of::<CountedWord>();
            held = held.saturating_add(words.saturating_mul(row as u64));
            part.push(file);
        }
        part
    }
}

impl RowCursor for FilePartCursor {
    fn advance(&mut self, question: &ScanSpec, rows: &mut SequenceRows) -> Result<bool> {
        if let Some(row) = self.rows.next() {
            if self.wanted.has(row.word()) {
                rows.push_counted(&row.words, row.file, row.times);
            }
            return Ok(true);
        }
        let part = self.next_files(question);
        if part.is_empty() {
            return Ok(false);
        }
        let (counted, pinned) = question.ask(move |view, stop| {
            let (totals, pinned) = view.totals_of_each(&part, Run::until(stop))?;
            let rows = part.into_iter().zip(totals).flat_map(|(file, words)| {
                let words = words.into_iter();
                words.map(move |(word, times)| CountedWord::new(file, word, times))
            });
            Ok((rows.collect::<Vec<_>>(), pinned))
        })?;
        (self.rows, self._pinned) = (counted.into_iter(), pinned);
        Ok(true)
    }
}
