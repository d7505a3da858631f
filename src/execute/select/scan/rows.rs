//! Rows of words or n-grams on their way into batches: cursors fill flat arrays, which become columns as they are.
//!
//! Invariant: a cursor returns every row once. Nothing is decoded before the first row is asked for.

use std::mem;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::super::explain::{Answered, Describe, Description};
use super::super::row::Operator;
use super::boundary::{Properties, Scan};
use super::ngram_matcher::NgramMatcher;
use super::scan_spec::{ScanSpec, SequenceColumn, SequencePlace};
use crate::Result;
use crate::answer::access_path::Run;
use crate::answer::{CorpusView, MergedOrder, Occurrence, Top};
use crate::batch::{BATCH_ROWS, Batch, BatchColumn, TextDictionary};
use crate::expression::integer_of_count;

/// Words or n-grams between two checks for interruption.
pub(super) const BUFFER: usize = 1024;

/// The most words that are made at a time: more do not fit into the caches of a processor.
pub(super) const BUFFER_MAX: usize = 1 << 14;

/// The rows of a batch in the making, by column. Columns that the batch lacks may be empty or have any values.
#[derive(Default)]
pub(super) struct SequenceRows {
    /// The most rows.
    rows_max: usize,
    /// Whether the batch may leave although there is room.
    are_enough: bool,
    /// `[rows * n]`
    pub(super) words: Vec<u32>,
    /// `[rows]`
    pub(super) files: Vec<u32>,
    pub(super) positions: Vec<i64>,
    pub(super) offsets: Vec<i64>,
    /// The multiplicity of each row; empty if each is 1.
    pub(super) times: Vec<u64>,
}

/// Concatenates parts on all threads of the pool that runs this.
pub(super) fn concatenated<T: Copy + Default + Send + Sync>(parts: Vec<&[T]>) -> Vec<T> {
    let mut all = vec![T::default(); parts.iter().map(|part| part.len()).sum()];
    let mut left = &mut all[..];
    let tasks = parts.into_iter().map(|part| {
        let (place, behind) = mem::take(&mut left).split_at_mut(part.len());
        left = behind;
        (place, part)
    });
    let tasks: Vec<(&mut [T], &[T])> = tasks.collect();
    (tasks.into_par_iter()).for_each(|(place, part)| place.copy_from_slice(part));
    all
}

/// Returns rows.
pub(super) trait RowCursor: Send {
    /// Appends the next rows, some or none, as far as there is room; `false` at the end. There is room for one.
    fn advance(&mut self, question: &ScanSpec, rows: &mut SequenceRows) -> Result<bool>;

    /// Appends rows until they are enough for a batch; `false` at the end.
    fn fill(&mut self, question: &ScanSpec, rows: &mut SequenceRows) -> Result<bool> {
        let mut has_more = true;
        while has_more && rows.room() > 0 && !rows.are_enough {
            has_more = self.advance(question, rows)?;
        }
        Ok(has_more)
    }
}

impl SequenceRows {
    pub(super) fn new(rows_max: usize) -> SequenceRows {
        SequenceRows {
            rows_max,
            ..SequenceRows::default()
        }
    }

    pub(super) fn rows_max(&self) -> usize {
        self.rows_max
    }

    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// The number of rows that still fit.
    pub(super) fn room(&self) -> usize {
        self.rows_max - self.len()
    }

    pub(super) fn push_counted(&mut self, words: &[u32], file: u32, times: u64) {
        self.words.extend_from_slice(words);
        self.files.push(file);
        self.times.push(times);
    }

    /// Appends rows of an n-gram with its first entries, as far as there is room; returns their number. `read` returns the file
    /// and count of an entry.
    #[inline]
    fn push_files<E: Copy>(
        &mut self,
        words: &[u32],
        entries: &[E],
        read: impl Fn(E) -> (u32, u32),
    ) -> usize {
        let entries = &entries[..entries.len().min(self.room())];
        self.words.reserve(entries.len() * words.len());
        for _ in entries {
            self.words.extend_from_slice(words);
        }
        self.files
            .extend(entries.iter().map(|&entry| read(entry).0));
        let times = entries.iter().map(|&entry| u64::from(read(entry).1));
        self.times.extend(times);
        entries.len()
    }

    /// Appends counted n-grams of `n` words, a range of others, which may lack their words.
    fn push_range(&mut self, n: usize, others: &SequenceRows, rows: Range<usize>) {
        let n = if others.words.is_empty() { 0 } else { n };
        let words = rows.start * n..rows.end * n;
        self.words.extend_from_slice(&others.words[words]);
        self.files.extend_from_slice(&others.files[rows.clone()]);
        self.times.extend_from_slice(&others.times[rows]);
    }

    /// Drops unwanted n-grams of `n` words.
    pub(super) fn retain(&mut self, n: usize, is_wanted: impl Fn(&[u32]) -> bool) {
        if self.words.chunks_exact(n).all(&is_wanted) {
            return;
        }
        let all = mem::replace(self, SequenceRows::new(self.rows_max));
        for (row, words) in all.words.chunks_exact(n).enumerate() {
            if is_wanted(words) {
                self.push_counted(words, all.files[row], all.times[row]);
            }
        }
    }

    /// Appends an occurrence if its place is wanted.
    pub(super) fn push_place(&mut self, place: &SequencePlace, question: &ScanSpec) -> Result<()> {
        if question.passes_place(place)? {
            let asks_offset = question.columns.contains(&SequenceColumn::Offset);
            let offset = if asks_offset {
                question.offset(place)?
            } else {
                0
            };
            self.words.extend_from_slice(place.words);
            self.files.push(place.file);
            self.positions.push(integer_of_count(place.position));
            self.offsets.push(integer_of_count(offset));
        }
        Ok(())
    }

    /// Appends words of the stream whose places are wanted.
    pub(super) fn push_window(&mut self, window: &[Occurrence], question: &ScanSpec) -> Result<()> {
        let Occurrence {
            file,
            position,
            offset,
            ..
        } = window[0];
        let place = SequencePlace {
            words: &[],
            file,
            position,
            offset: Some(offset),
        };
        if question.asked.has_all_places() || question.passes_place(&place)? {
            self.words.extend(window.iter().map(|word| word.word));
            self.files.push(file);
            self.positions.push(integer_of_count(position));
            self.offsets.push(integer_of_count(offset));
        }
        Ok(())
    }

    /// Appends words of the stream, all of which are wanted.
    pub(super) fn push_words(&mut self, words: &[Occurrence], question: &ScanSpec) {
        let has = |column| question.columns.contains(&column);
        self.files.extend(words.iter().map(|word| word.file));
        if question.asked.shown.texts {
            self.words.extend(words.iter().map(|word| word.word));
        }
        if has(SequenceColumn::Position) {
            let positions = words.iter().map(|word| integer_of_count(word.position));
            self.positions.extend(positions);
        }
        if has(SequenceColumn::Offset) {
            let offsets = words.iter().map(|word| integer_of_count(word.offset));
            self.offsets.extend(offsets);
        }
    }

    /// Appends consecutive words of a file from `position` on; all are wanted.
    pub(super) fn push_run(
        &mut self,
        file: u32,
        position: u64,
        words: &[u32],
        question: &ScanSpec,
    ) {
        let count = words.len();
        self.files.resize(self.files.len() + count, file);
        self.words.extend_from_slice(words);
        if question.columns.contains(&SequenceColumn::Position) {
            let first = integer_of_count(position);
            // A file has fewer than 2^63 words.
            self.positions.extend(first..first + count as i64);
        }
    }

    fn into_batch(mut self, question: &ScanSpec) -> Batch {
        let (view, count) = (question.view(), self.len());
        let has_lengths = question.columns.contains(&SequenceColumn::Length);
        let columns = question.columns.iter().map(|column| match column {
            SequenceColumn::File => BatchColumn::Words {
                indices: mem::take(&mut self.files),
                dictionary: TextDictionary::files(view),
            },
            SequenceColumn::Word => BatchColumn::Words {
                indices: if has_lengths {
                    self.words.clone()
                } else {
                    mem::take(&mut self.words)
                },
                dictionary: TextDictionary::words(view),
            },
            SequenceColumn::Ngram => BatchColumn::Ngrams {
                n: question.asked.n,
                indices: mem::take(&mut self.words),
                dictionary: TextDictionary::words(view),
            },
            SequenceColumn::Length => {
                let lengths = self.words.iter().map(|&word| view.word(word).len() as u64);
                BatchColumn::Integers(lengths.map(integer_of_count).collect())
            }
            SequenceColumn::Position => BatchColumn::Integers(mem::take(&mut self.positions)),
            SequenceColumn::Offset => BatchColumn::Integers(mem::take(&mut self.offsets)),
        });
        let columns = columns.collect();
        let times = (!self.times.is_empty()).then_some(self.times);
        Batch::new(columns, count, times)
    }
}

/// Rows of n-grams that were made together, some of which were returned.
#[derive(Default)]
pub(super) struct RowPiece {
    rows: SequenceRows,
    /// The first row that was not returned.
    next: usize,
}

impl RowPiece {
    pub(super) fn new(rows: SequenceRows) -> RowPiece {
        RowPiece { rows, next: 0 }
    }

    /// The words, `n` of them, file and count of a row.
    pub(super) fn row(&self, n: usize, row: usize) -> (&[u32], u32, u64) {
        let words = &self.rows.words[row * n..(row + 1) * n];
        (words, self.rows.files[row], self.rows.times[row])
    }

    /// The rows that were not returned.
    pub(super) fn left(&self) -> Range<usize> {
        self.next..self.rows.len()
    }

    /// Appends rows of `n` words up to `end`, as far as there is room, or marks the batch as full enough: rows that would have to
    /// be divided wait for the next batch.
    pub(super) fn give(&mut self, n: usize, end: usize, rows: &mut SequenceRows) {
        let (is_first, count) = (rows.len() == 0, end - self.next);
        if is_first && count == self.rows.len() && count <= rows.room() {
            *rows = SequenceRows {
                rows_max: rows.rows_max,
                are_enough: false,
                ..mem::take(&mut self.rows)
            };
        } else if is_first || count <= rows.room() {
            let end = self.next + count.min(rows.room());
            rows.push_range(n, &self.rows, self.next..end);
            self.next = end;
        } else {
            rows.are_enough = true;
        }
    }
}

/// Rows of n-grams with their files, in pieces of the size of a batch.
pub(super) struct NgramRows {
    full: Vec<SequenceRows>,
    last: SequenceRows,
}

impl NgramRows {
    pub(super) fn new() -> NgramRows {
        NgramRows {
            full: Vec::new(),
            last: SequenceRows::new(BATCH_ROWS),
        }
    }

    /// Appends all rows of an n-gram if it passes; `read` returns the file and count of an entry. Without texts in rows and
    /// conditions on them it may lack its words.
    #[inline]
    pub(super) fn push<E: Copy>(
        &mut self,
        words: &[u32],
        entries: &[E],
        read: impl Fn(E) -> (u32, u32) + Copy,
        matcher: &mut NgramMatcher<'_>,
    ) -> Result<()> {
        let (files, passes_all) = (&matcher.question().asked.files, matcher.passes_all());
        if files.is_all() && passes_all {
            self.push_entries(words, entries, read);
            return Ok(());
        }
        let wanted = entries.iter().filter(|entry| files.has(read(**entry).0));
        let wanted: Vec<E> = wanted.copied().collect();
        if !wanted.is_empty() && matcher.passes(words)? {
            self.push_entries(words, &wanted, read);
        }
        Ok(())
    }

    /// Appends all rows of an n-gram.
    #[inline]
    fn push_entries<E: Copy>(
        &mut self,
        words: &[u32],
        mut entries: &[E],
        read: impl Fn(E) -> (u32, u32) + Copy,
    ) {
        while !entries.is_empty() {
            let pushed = self.with_room().push_files(words, entries, read);
            entries = &entries[pushed..];
        }
    }

    /// Appends n-grams of a table that pass. `append` appends the counts of those in a range to others. Without texts in rows and
    /// conditions on them the table may lack its words.
    pub(super) fn push_counted(
        &mut self,
        words: &[u32],
        rows: Range<usize>,
        append: impl Fn(Range<usize>, &mut Vec<u64>),
        matcher: &mut NgramMatcher<'_>,
    ) -> Result<()> {
        let question = matcher.question();
        let n = question.asked.n;
        let Range { mut start, end } = rows;
        while start < end {
            let piece = self.with_room();
            let next = if question.asked.texts.is_all() {
                end.min(start + piece.room())
            } else {
                start + 1
            };
            if question.asked.texts.is_all() || matcher.passes(&words[start * n..next * n])? {
                if question.asked.shown.texts {
                    piece.words.extend_from_slice(&words[start * n..next * n]);
                }
                piece.files.resize(piece.len() + next - start, 0);
                append(start..next, &mut piece.times);
            }
            start = next;
        }
        Ok(())
    }

    /// The rows, in pieces of the size of a batch.
    pub(super) fn into_batches(mut self) -> std::vec::IntoIter<SequenceRows> {
        self.full.push(self.last);
        self.full.into_iter()
    }

    /// The last rows, with room for one more.
    pub(super) fn with_room(&mut self) -> &mut SequenceRows {
        if self.last.room() == 0 {
            let next = SequenceRows::new(BATCH_ROWS);
            self.full.push(mem::replace(&mut self.last, next));
        }
        &mut self.last
    }
}

/// A question, and the order and use of its rows.
pub(super) struct SequenceTask {
    pub(super) question: Arc<ScanSpec>,
    /// The order of merged rows, if not their own.
    pub(super) order: Option<MergedOrder>,
    /// The used rows, if not all.
    pub(super) top: Option<Top>,
    pub(super) properties: Properties,
    pub(super) description: Arc<Answered>,
}

impl SequenceTask {
    /// `describe` describes the question and its plan.
    pub(super) fn new(
        question: ScanSpec,
        order: Option<MergedOrder>,
        describe: impl FnOnce(&ScanSpec) -> Description,
    ) -> SequenceTask {
        let properties = question.properties(order);
        let is_explained = question.context.is_explained;
        SequenceTask {
            order,
            top: question.asked.top.filter(|_| properties.is_unique),
            properties,
            description: Answered::new(is_explained, || describe(&question)),
            question: Arc::new(question),
        }
    }

    /// Asks the corpus, and records the work.
    pub(super) fn answer<A: Send + 'static>(
        &self,
        work: impl FnOnce(&CorpusView, Run<'_>) -> Result<A> + Send + 'static,
    ) -> Result<A> {
        let description = self.description.clone();
        (self.question).ask(move |view, stop| work(view, description.until(stop)))
    }
}

/// Makes the rows of a task.
type StartRows = Box<dyn FnOnce(&SequenceTask) -> Result<Box<dyn RowCursor>> + Send>;

/// The scan of words or n-grams.
pub(super) struct SequenceScan {
    task: SequenceTask,
    /// None once rows are made.
    start: Option<StartRows>,
    /// None before the first row is asked for, and if that failed.
    cursor: Option<Box<dyn RowCursor>>,
}

impl SequenceScan {
    pub(super) fn new(
        task: SequenceTask,
        start: impl FnOnce(&SequenceTask) -> Result<Box<dyn RowCursor>> + Send + 'static,
    ) -> SequenceScan {
        SequenceScan {
            task,
            start: Some(Box::new(start)),
            cursor: None,
        }
    }
}

impl Operator for SequenceScan {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        let question = &self.task.question;
        question.interrupt().check()?;
        if let Some(start) = self.start.take() {
            self.cursor = Some(start(&self.task)?);
        }
        let Some(cursor) = &mut self.cursor else {
            return Ok(None);
        };
        let mut rows = SequenceRows::new(rows_max.max(1));
        cursor.fill(question, &mut rows)?;
        Ok((rows.len() > 0).then(|| rows.into_batch(question)))
    }
}

impl Scan for SequenceScan {
    fn properties(&self) -> Properties {
        self.task.properties.clone()
    }

    fn description(&self) -> Arc<dyn Describe> {
        self.task.description.clone()
    }

    fn into_operator(self: Box<Self>) -> Box<dyn Operator> {
        self
    }
}
