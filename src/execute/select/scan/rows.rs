//! Rows of words or n-grams on their way into batches: cursors fill flat arrays, which become columns as they are.
//!
//! Invariant: a cursor gives every row once. Nothing is decoded before the first row is asked for.

use std::mem;
use std::ops::Range;
use std::sync::Arc;

use zipfdb_sql::setting::Strategy;

use super::super::explain::{Answered, Describe, Description};
use super::super::row::Operator;
use super::boundary::{Properties, Scan};
use super::plan::ScanPlan;
use super::question::{MergedOrder, ScanQuestion, SequenceColumn, SequencePlace};
use crate::Result;
use crate::answer::path::Run;
use crate::answer::{CorpusView, Occurrence, Top};
use crate::batch::{BATCH_ROWS, Batch, BatchColumn, TextDictionary};
use crate::expression::integer_of_count;
use crate::runtime::ahead::WorkAhead;

/// Words or n-grams that are made, or looked at between two checks whether the statement has to end.
pub(super) const BUFFER: usize = 1024;

/// Words that are made at a time at most: more do not fit into the caches of a processor.
pub(super) const BUFFER_MAX: usize = 1 << 14;

/// Rows that become a batch, by column. What the batch does not tell may be missing, or anything.
#[derive(Default)]
pub(super) struct SequenceRows {
    /// How many rows there may be.
    rows_max: usize,
    /// Whether the batch may leave though there is room.
    are_enough: bool,
    /// `[rows * n]`
    pub(super) words: Vec<u32>,
    /// `[rows]`
    pub(super) files: Vec<u32>,
    pub(super) positions: Vec<i64>,
    pub(super) offsets: Vec<i64>,
    /// How often each row occurs; empty if each does once.
    pub(super) times: Vec<u64>,
}

/// The words of an n-gram, and its files with counts.
pub(super) type NgramWithFiles<'a> = (&'a [u32], &'a [(u32, u32)]);

/// Gives rows.
pub(super) trait RowCursor: Send {
    /// Appends rows that come next, some or none, for which there is room; `false` if there are no more. There is room for one.
    fn advance(&mut self, question: &ScanQuestion, rows: &mut SequenceRows) -> Result<bool>;
}

impl SequenceRows {
    pub(super) fn new(rows_max: usize) -> SequenceRows {
        SequenceRows {
            rows_max,
            ..SequenceRows::default()
        }
    }

    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// How many more rows there may be.
    pub(super) fn room(&self) -> usize {
        self.rows_max - self.len()
    }

    pub(super) fn push_counted(&mut self, words: &[u32], file: u32, times: u64) {
        self.words.extend_from_slice(words);
        self.files.push(file);
        self.times.push(times);
    }

    /// Appends rows of an n-gram with its first entries, as many as there is room for; returns how many. `read` gives the file and count
    /// of an entry.
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

    /// Appends an occurrence if its place is wanted.
    pub(super) fn push_place(
        &mut self,
        place: &SequencePlace,
        question: &ScanQuestion,
    ) -> Result<()> {
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

    /// Appends some words of the stream if their place is wanted.
    pub(super) fn push_window(
        &mut self,
        window: &[Occurrence],
        question: &ScanQuestion,
    ) -> Result<()> {
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
        if question.has_all_places() || question.passes_place(&place)? {
            self.words.extend(window.iter().map(|word| word.word));
            self.files.push(file);
            self.positions.push(integer_of_count(position));
            self.offsets.push(integer_of_count(offset));
        }
        Ok(())
    }

    /// Appends words of the stream, all of which are wanted.
    pub(super) fn push_words(&mut self, words: &[Occurrence], question: &ScanQuestion) {
        let tells = |column| question.columns.contains(&column);
        self.files.extend(words.iter().map(|word| word.file));
        if question.tells_texts() {
            self.words.extend(words.iter().map(|word| word.word));
        }
        if tells(SequenceColumn::Position) {
            let positions = words.iter().map(|word| integer_of_count(word.position));
            self.positions.extend(positions);
        }
        if tells(SequenceColumn::Offset) {
            let offsets = words.iter().map(|word| integer_of_count(word.offset));
            self.offsets.extend(offsets);
        }
    }

    /// Appends words that follow each other in a file, of which the first has a position; all are wanted.
    pub(super) fn push_run(
        &mut self,
        file: u32,
        position: u64,
        words: &[u32],
        question: &ScanQuestion,
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

    fn into_batch(mut self, question: &ScanQuestion) -> Batch {
        let (view, count) = (question.view(), self.len());
        let tells_lengths = question.columns.contains(&SequenceColumn::Length);
        let columns = question.columns.iter().map(|column| match column {
            SequenceColumn::File => BatchColumn::Words {
                indices: mem::take(&mut self.files),
                dictionary: TextDictionary::files(view),
            },
            SequenceColumn::Word => BatchColumn::Words {
                indices: match tells_lengths {
                    true => self.words.clone(),
                    false => mem::take(&mut self.words),
                },
                dictionary: TextDictionary::words(view),
            },
            SequenceColumn::Ngram => BatchColumn::Ngrams {
                n: question.n,
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

/// Rows of n-grams with their files, as many together as become a batch.
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

    /// Appends all rows of an n-gram if it passes; `read` gives the file and count of an entry. Without texts in rows and conditions on
    /// them it may lack its words.
    #[inline]
    pub(super) fn push<E: Copy>(
        &mut self,
        words: &[u32],
        mut entries: &[E],
        read: impl Fn(E) -> (u32, u32) + Copy,
        question: &ScanQuestion,
    ) -> Result<()> {
        if !question.has_all_texts() && !question.passes_ngram(words)? {
            return Ok(());
        }
        while !entries.is_empty() {
            let pushed = self.with_room().push_files(words, entries, read);
            entries = &entries[pushed..];
        }
        Ok(())
    }

    /// Appends some n-grams of a table that pass. `append` appends the counts of those in a range to others. Without texts in rows
    /// and conditions on them the table may lack its words.
    pub(super) fn push_counted(
        &mut self,
        words: &[u32],
        rows: Range<usize>,
        append: impl Fn(Range<usize>, &mut Vec<u64>),
        question: &ScanQuestion,
    ) -> Result<()> {
        let n = question.n;
        let Range { mut start, end } = rows;
        while start < end {
            let piece = self.with_room();
            let next = match question.has_all_texts() {
                true => end.min(start + piece.room()),
                false => start + 1,
            };
            let passes = question.has_all_texts() || {
                let words = &words[start * n..next * n];
                question.passes_ngram(words)?
            };
            if passes {
                if question.tells_texts() {
                    piece.words.extend_from_slice(&words[start * n..next * n]);
                }
                piece.files.resize(piece.len() + next - start, 0);
                append(start..next, &mut piece.times);
            }
            start = next;
        }
        Ok(())
    }

    /// The rows that come last, with room for one more.
    pub(super) fn with_room(&mut self) -> &mut SequenceRows {
        if self.last.room() == 0 {
            let next = SequenceRows::new(BATCH_ROWS);
            self.full.push(mem::replace(&mut self.last, next));
        }
        &mut self.last
    }
}

/// Rows of n-grams that threads of the pool make before they are asked for.
pub(super) struct NgramRowsAhead {
    ahead: WorkAhead<NgramRows>,
    /// What was made and is not given: first the rows from `next` on of `piece`.
    piece: SequenceRows,
    next: usize,
    made: std::vec::IntoIter<SequenceRows>,
}

impl NgramRowsAhead {
    pub(super) fn new(question: &ScanQuestion) -> NgramRowsAhead {
        NgramRowsAhead {
            ahead: WorkAhead::new(&question.context.pool, question.interrupt()),
            piece: SequenceRows::default(),
            next: 0,
            made: Vec::new().into_iter(),
        }
    }

    /// The same with so much work that is begun for each thread.
    pub(super) fn of_each_thread(mut self, work: usize) -> NgramRowsAhead {
        self.ahead = self.ahead.of_each_thread(work);
        self
    }

    /// Whether rows should be given before more are begun.
    pub(super) fn is_full(&self) -> bool {
        self.ahead.is_full()
    }

    /// Begins to make rows.
    pub(super) fn begin(&mut self, make: impl FnOnce() -> Result<NgramRows> + Send + 'static) {
        self.ahead.begin(make);
    }

    /// Appends some of the rows of `n` words that were begun, or none, or says that there are enough; `false` if all are given.
    /// Rows that would have to be parted wait for the next batch.
    pub(super) fn give(&mut self, n: usize, rows: &mut SequenceRows) -> Result<bool> {
        if self.next == self.piece.len() {
            self.next = 0;
            let Some(piece) = self.made.next() else {
                self.piece = SequenceRows::default();
                let Some(mut made) = self.ahead.next()? else {
                    return Ok(false);
                };
                made.full.push(made.last);
                self.made = made.full.into_iter();
                return Ok(true);
            };
            self.piece = piece;
        }
        let (is_first, left) = (rows.len() == 0, self.piece.len() - self.next);
        if is_first && self.next == 0 && left <= rows.room() {
            *rows = SequenceRows {
                rows_max: rows.rows_max,
                ..mem::take(&mut self.piece)
            };
        } else if is_first || left <= rows.room() {
            let end = self.next + left.min(rows.room());
            rows.push_range(n, &self.piece, self.next..end);
            self.next = end;
        } else {
            rows.are_enough = true;
        }
        Ok(true)
    }
}

/// A question and how it is answered.
pub(super) struct SequenceTask {
    pub(super) question: Arc<ScanQuestion>,
    pub(super) strategy: Strategy,
    /// In which order merged rows come, if not in their own.
    pub(super) order: Option<MergedOrder>,
    /// Which rows are used, if not all.
    pub(super) top: Option<Top>,
    /// Whether rows are made in parts: all may take more than `memory_limit`.
    pub(super) is_large: bool,
    pub(super) properties: Properties,
    pub(super) description: Arc<Answered>,
}

impl SequenceTask {
    /// `describe` says what is asked, `large` how rows are made in parts, if they are.
    pub(super) fn new(
        question: ScanQuestion,
        plan: &ScanPlan,
        order: Option<MergedOrder>,
        describe: impl FnOnce() -> Description,
        large: Option<&str>,
    ) -> SequenceTask {
        let description = || Description {
            lines: plan.lines(large),
            ..describe()
        };
        let properties = question.properties(order);
        SequenceTask {
            strategy: plan.strategy(),
            order,
            top: question.top.filter(|_| properties.is_unique),
            is_large: large.is_some(),
            properties,
            description: Answered::new(question.context.is_explained, description),
            question: Arc::new(question),
        }
    }

    /// Asks the files something, and records what ran.
    pub(super) fn answer<A: Send + 'static>(
        &self,
        work: impl FnOnce(&CorpusView, Run<'_>) -> Result<A> + Send + 'static,
    ) -> Result<A> {
        let description = self.description.clone();
        (self.question).ask(move |view, stop| work(view, description.until(stop)))
    }
}

/// The scan of words or n-grams.
pub(super) struct SequenceScan {
    task: SequenceTask,
    start: fn(&SequenceTask) -> Result<Box<dyn RowCursor>>,
    /// None before the first row is asked for.
    cursor: Option<Box<dyn RowCursor>>,
}

impl SequenceScan {
    pub(super) fn new(
        task: SequenceTask,
        start: fn(&SequenceTask) -> Result<Box<dyn RowCursor>>,
    ) -> SequenceScan {
        SequenceScan {
            task,
            start,
            cursor: None,
        }
    }
}

impl Operator for SequenceScan {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        let question = &self.task.question;
        question.interrupt().check()?;
        let cursor = match &mut self.cursor {
            Some(cursor) => cursor,
            none => none.insert((self.start)(&self.task)?),
        };
        let mut rows = SequenceRows::new(rows_max.max(1));
        while rows.room() > 0 && !rows.are_enough && cursor.advance(question, &mut rows)? {}
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
