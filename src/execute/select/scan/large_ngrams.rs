//! Rows of n-grams that together take more than memory.
//!
//! Parts of a segment are answered one after the other. With one segment and no edits these are the rows. Else each segment's
//! are a run in a temporary file, and runs are merged on the way out, with what edits and the cuts of files change.
//! Invariant: rows ascend by their words, then by file; each is given once, and none that does not occur.

use std::sync::Arc;

use zipfdb_kernels::{NGRAM_WORDS_MAX, NgramFiles, give_back_free_memory};

use super::super::explain::Answered;
use super::super::sorter::{Sorted, Sorter};
use super::super::spill::{Merge, Record, RunWriter, SpilledRuns};
use super::question::{Grain, ScanQuestion};
use super::rows::{RowCursor, SequenceRows, SequenceTask};
use crate::Result;
use crate::answer::path::Run;
use crate::answer::{CountedNgrams, Ngram, NgramFilePart, NgramsPart, SegmentNgrams};
use crate::api::snapshot::Snapshot;
use crate::runtime::interrupt::{Interrupt, Pace};
use crate::segment::SegmentView;
use crate::segment::cache::Reservation;

/// A part takes this part of the limit of memory: others go to windows, to what is derived of the segment, and to rows.
const PART_SHARE: u64 = 4;

/// An n-gram with how often it occurs, in a file or altogether.
#[derive(Clone, Copy)]
pub(super) struct LargeRow {
    words: [u32; NGRAM_WORDS_MAX],
    /// 0 if rows do not tell files apart.
    pub(super) file: u32,
    pub(super) times: u64,
}

impl LargeRow {
    pub(super) fn words(&self, n: usize) -> &[u32] {
        &self.words[..n]
    }
}

/// Gives rows.
pub(super) struct LargeNgrams {
    n: usize,
    /// Whether rows tell files apart.
    by_file: bool,
    /// Which files are wanted of those that rows tell apart, by number; all if there is none.
    wanted: Option<Vec<bool>>,
    source: LargeSource,
    /// The first row of the next n-gram.
    ahead: Option<LargeRow>,
    pace: Pace,
}

/// Where rows come from.
enum LargeSource {
    Tables(Box<Tables>),
    Merged(MergedRows),
}

/// Tables of n-grams, one after the other.
struct Tables {
    snapshot: Snapshot,
    n: usize,
    interrupt: Interrupt,
    log: Arc<Answered>,
    parts: std::vec::IntoIter<SegmentNgrams>,
    /// What the parts of a segment are made of, and its place.
    pinned: Option<(usize, SegmentView)>,
    with_files: bool,
    /// The tables of the part that is answered, of one kind: those that are read, and those behind them.
    counts: CountedNgrams,
    next_counts: std::vec::IntoIter<NgramsPart>,
    files: NgramFiles,
    next_files: std::vec::IntoIter<NgramFilePart>,
    /// In the table that is read.
    ngram: usize,
    entry: usize,
    /// Memory that the work takes, for which the cache makes room.
    _reservation: Reservation,
}

impl LargeNgrams {
    /// All rows of the files that are asked for.
    ///
    /// # Errors
    /// If a segment is damaged, a run cannot be written, or the query has to end.
    pub(super) fn new(task: &SequenceTask) -> Result<LargeNgrams> {
        let (question, context) = (&task.question, &task.question.context);
        let (n, snapshot, interrupt) = (question.n, &question.snapshot, question.interrupt());
        let by_file = matches!(question.grain, Grain::File | Grain::FileWord);
        let wanted = question.files.marks(snapshot.files().len());
        // Rows without files come of the wanted ones alone; else the lists of files of rules would be gathered for each part.
        let chosen = (wanted.is_some() && !by_file).then(|| question.files.numbers().to_vec());
        let bytes = context.settings.memory_limit() / PART_SHARE;
        let with_files = by_file || (chosen.is_none() && snapshot.view().has_gone_files());
        // A part, and what it is made of.
        let mut reservation = context.reservation();
        reservation.set(2 * bytes);
        let parts = question.ask(move |view, stop| {
            view.ngram_parts(n, chosen.as_deref(), with_files, bytes, Run::until(stop))
        })?;
        let mut changes = question.ask(move |view, stop| view.ngram_changes(n, stop))?;
        let is_wanted = |file: u32| wanted.as_ref().is_none_or(|wanted| wanted[file as usize]);
        changes.retain(|&(_, file, _)| is_wanted(file));
        let mut tables = Tables {
            snapshot: snapshot.clone(),
            n,
            interrupt: interrupt.clone(),
            log: task.description.clone(),
            parts: Vec::new().into_iter(),
            pinned: None,
            with_files,
            counts: CountedNgrams::none(),
            next_counts: Vec::new().into_iter(),
            files: NgramFiles::default(),
            next_files: Vec::new().into_iter(),
            ngram: 0,
            entry: 0,
            _reservation: reservation,
        };
        let mut pace = interrupt.pace();
        let source = if changes.is_empty() && snapshot.view().segments().len() == 1 {
            tables.parts = parts.into_iter();
            LargeSource::Tables(Box::new(tables))
        } else {
            let mut runs = SpilledRuns::new(context.memory, &context.spill);
            let mut parts = parts.into_iter().peekable();
            while let Some(first) = parts.next() {
                let mut of_segment = vec![first];
                while let Some(next) = parts.next_if(|next| next.is_of_segment(&of_segment[0])) {
                    of_segment.push(next);
                }
                tables.parts = of_segment.into_iter();
                runs.write(|writer| {
                    while let Some(row) = tables.next()? {
                        pace.step()?;
                        write(&row, row.times as i64, n, with_files, writer)?;
                    }
                    Ok(())
                })?;
                runs.settle(&mut pace)?;
                give_back_free_memory();
            }
            drop(tables);
            give_back_free_memory();
            runs.write(|writer| {
                for (words, file, change) in changes {
                    pace.step()?;
                    write(
                        &LargeRow::new(&words, file, 0),
                        change,
                        n,
                        with_files,
                        writer,
                    )?;
                }
                Ok(())
            })?;
            LargeSource::Merged(MergedRows::new(runs.merge(&mut pace)?, n)?)
        };
        Ok(LargeNgrams {
            n,
            by_file,
            wanted: wanted.filter(|_| by_file),
            source,
            ahead: None,
            pace,
        })
    }

    /// The next row; none at the end.
    ///
    /// # Errors
    /// As `new`.
    pub(super) fn next(&mut self) -> Result<Option<LargeRow>> {
        let row = match self.ahead.take() {
            None => self.wanted_row()?,
            ahead => ahead,
        };
        if self.by_file {
            return Ok(row);
        }
        let Some(mut row) = row else {
            return Ok(None);
        };
        row.file = 0;
        while let Some(more) = self.wanted_row()? {
            if more.words != row.words {
                self.ahead = Some(more);
                break;
            }
            row.times += more.times;
        }
        Ok(Some(row))
    }

    /// The next row of a file that is wanted.
    fn wanted_row(&mut self) -> Result<Option<LargeRow>> {
        loop {
            self.pace.step()?;
            let row = match &mut self.source {
                LargeSource::Tables(tables) => tables.next()?,
                LargeSource::Merged(rows) => rows.next()?,
            };
            let is_wanted = |row: &LargeRow| match &self.wanted {
                None => true,
                Some(wanted) => wanted[row.file as usize],
            };
            if row.as_ref().is_none_or(is_wanted) {
                return Ok(row);
            }
        }
    }
}

impl LargeRow {
    fn new(words: &[u32], file: u32, times: u64) -> LargeRow {
        let mut row = LargeRow {
            words: [0; NGRAM_WORDS_MAX],
            file,
            times,
        };
        row.words[..words.len()].copy_from_slice(words);
        row
    }
}

impl Tables {
    /// The next row of the parts that are left.
    fn next(&mut self) -> Result<Option<LargeRow>> {
        loop {
            if let Some(row) = self.next_of_tables() {
                return Ok(Some(row));
            }
            let Some(part) = self.parts.next() else {
                return Ok(None);
            };
            let (segment, n, with_files) = (part.segment(), self.n, self.with_files);
            if self.pinned.as_ref().is_none_or(|(of, _)| *of != segment) {
                self.pinned = None;
                let pinned = self.snapshot.ask(&self.interrupt, move |view, stop| {
                    view.prepare_ngram_parts(segment, n, with_files, stop)
                })?;
                self.pinned = Some((segment, pinned));
            }
            let answered = self.log.clone();
            if self.with_files {
                let found = self.snapshot.ask(&self.interrupt, move |view, stop| {
                    view.ngram_files_of(&part, answered.until(stop))
                })?;
                self.next_files = found.into_iter();
            } else {
                let found = self.snapshot.ask(&self.interrupt, move |view, stop| {
                    view.ngrams_of(&part, answered.until(stop))
                })?;
                self.next_counts = found.into_iter();
            }
        }
    }

    /// The next row of the tables that are there.
    fn next_of_tables(&mut self) -> Option<LargeRow> {
        let n = self.n;
        loop {
            let (table, row) = (&self.counts, self.ngram);
            if row < table.len() {
                self.ngram += 1;
                let words = &table.words[row * n..(row + 1) * n];
                return Some(LargeRow::new(words, 0, table.counts.get(row)));
            }
            let table = &self.files;
            while self.ngram < table.files.rows() {
                let entries = table.files.row(self.ngram);
                let words = &table.words[self.ngram * n..(self.ngram + 1) * n];
                while let Some(&(file, times)) = entries.get(self.entry) {
                    self.entry += 1;
                    if let Some(file) = self.snapshot.view().file_now(file) {
                        return Some(LargeRow::new(words, file, u64::from(times)));
                    }
                }
                (self.ngram, self.entry) = (self.ngram + 1, 0);
            }
            // What was read is freed before the next one is unpacked.
            self.ngram = 0;
            self.counts = CountedNgrams::none();
            self.files = NgramFiles::default();
            match self.next_counts.next() {
                Some(next) => self.counts = next.into_counted(),
                None => self.files = self.next_files.next()?.into_plain(),
            }
        }
    }
}

impl RowCursor for LargeNgrams {
    fn advance(&mut self, question: &ScanQuestion, rows: &mut SequenceRows) -> Result<bool> {
        let Some(row) = self.next()? else {
            return Ok(false);
        };
        let words = row.words(question.n);
        if question.passes_ngram(words)? {
            rows.push_counted(words, row.file, row.times);
        }
        Ok(true)
    }
}

/// Rows with equal texts put together: a word may hold a space, so different words can make the same text.
pub(super) struct RowsByText {
    n: usize,
    sorted: Sorted,
    /// The first record that has not been read.
    next: Option<Record>,
}

impl RowsByText {
    /// Of the rows whose n-grams pass.
    ///
    /// # Errors
    /// As [`LargeNgrams::next`].
    pub(super) fn new(mut rows: LargeNgrams, question: &ScanQuestion) -> Result<RowsByText> {
        let (n, context) = (rows.n, &question.context);
        let (memory, pace) = (context.memory, context.pace());
        let reservation = context.reservation();
        let mut sorter = Sorter::new(memory, reservation, &context.spill, pace);
        while let Some(row) = rows.next()? {
            let words = row.words(n);
            if question.passes_ngram(words)? {
                let text = Ngram::new(question.view(), words).text();
                let key = [&row.file.to_be_bytes()[..], &text].concat();
                sorter.push(&key, &payload_of(&row, n))?;
            }
        }
        let mut sorted = sorter.finish()?;
        let next = sorted.next()?;
        Ok(RowsByText { n, sorted, next })
    }

    /// The next row; none at the end.
    ///
    /// # Errors
    /// If a run cannot be read.
    fn next(&mut self) -> Result<Option<LargeRow>> {
        let Some((key, payload)) = self.next.take() else {
            return Ok(None);
        };
        let mut row = row_of(&payload, self.n);
        self.next = self.sorted.next()?;
        while let Some((_, payload)) = self.next.take_if(|(next, _)| *next == key) {
            row.times += row_of(&payload, self.n).times;
            self.next = self.sorted.next()?;
        }
        Ok(Some(row))
    }
}

impl RowCursor for RowsByText {
    fn advance(&mut self, question: &ScanQuestion, rows: &mut SequenceRows) -> Result<bool> {
        let row = self.next()?;
        if let Some(row) = &row {
            rows.push_counted(row.words(question.n), row.file, row.times);
        }
        Ok(row.is_some())
    }
}

/// A row as a payload: its count, its file and its words.
fn payload_of(row: &LargeRow, n: usize) -> Vec<u8> {
    let mut payload = row.times.to_le_bytes().to_vec();
    let numbers = [&row.file].into_iter().chain(row.words(n));
    payload.extend(numbers.flat_map(|number| number.to_le_bytes()));
    payload
}

/// The row of a payload. Its checksum has been compared, so it is as long as it was written.
fn row_of(payload: &[u8], n: usize) -> LargeRow {
    let (times, numbers) = payload.split_at(size_of::<u64>());
    let times = u64::from_le_bytes(times.first_chunk().copied().unwrap_or_default());
    let mut numbers = numbers.chunks_exact(size_of::<u32>()).map(|bytes| {
        let bytes = bytes.first_chunk().copied();
        u32::from_le_bytes(bytes.unwrap_or_default())
    });
    let mut row = LargeRow::new(&[], numbers.next().unwrap_or_default(), times);
    for (word, number) in row.words[..n].iter_mut().zip(numbers) {
        *word = number;
    }
    row
}

/// Writes a row as the record of a run: its key are words, and its file if rows have files; its payload how much it adds.
fn write(
    row: &LargeRow,
    change: i64,
    n: usize,
    with_files: bool,
    writer: &mut RunWriter,
) -> Result<()> {
    let mut key = [0; (NGRAM_WORDS_MAX + 1) * size_of::<u32>()];
    let file = with_files.then_some(&row.file);
    let numbers = row.words(n).iter().chain(file);
    for (bytes, number) in key.chunks_exact_mut(size_of::<u32>()).zip(numbers) {
        bytes.copy_from_slice(&number.to_be_bytes());
    }
    let key = &key[..(n + usize::from(with_files)) * size_of::<u32>()];
    // Most counts are small: bytes that only repeat the sign are left out.
    let bytes = change.to_le_bytes();
    let end = (1..bytes.len()).find(|&end| change_of(&bytes[..end]) == change);
    writer.push(&[key], &bytes[..end.unwrap_or(bytes.len())])
}

/// Rows of merged runs.
struct MergedRows {
    merge: Merge,
    n: usize,
    /// The key of the rows that are added up.
    key: Vec<u8>,
    /// The first record that has not been added up, if there is one.
    next: Record,
    has_next: bool,
}

impl MergedRows {
    fn new(mut merge: Merge, n: usize) -> Result<MergedRows> {
        let mut next = Record::default();
        let has_next = merge.read_next(&mut next.0, &mut next.1)?;
        Ok(MergedRows {
            merge,
            n,
            key: Vec::new(),
            next,
            has_next,
        })
    }

    /// The next row that occurs.
    fn next(&mut self) -> Result<Option<LargeRow>> {
        while self.has_next {
            std::mem::swap(&mut self.key, &mut self.next.0);
            let mut sum = change_of(&self.next.1);
            loop {
                let (key, payload) = &mut self.next;
                self.has_next = self.merge.read_next(key, payload)?;
                if !self.has_next || *key != self.key {
                    break;
                }
                sum += change_of(payload);
            }
            if sum > 0 {
                let mut numbers = self.key.chunks_exact(size_of::<u32>()).map(|bytes| {
                    let bytes = bytes.first_chunk().copied();
                    u32::from_be_bytes(bytes.unwrap_or_default())
                });
                let mut row = LargeRow::new(&[], 0, sum.unsigned_abs());
                for (word, number) in row.words[..self.n].iter_mut().zip(&mut numbers) {
                    *word = number;
                }
                row.file = numbers.next().unwrap_or_default();
                return Ok(Some(row));
            }
        }
        Ok(None)
    }
}

/// What a record adds.
fn change_of(payload: &[u8]) -> i64 {
    let sign = match payload.last() {
        Some(&last) if last >= 0x80 => u8::MAX,
        _ => 0,
    };
    let mut bytes = [sign; size_of::<i64>()];
    for (byte, &stored) in bytes.iter_mut().zip(payload) {
        *byte = stored;
    }
    i64::from_le_bytes(bytes)
}
