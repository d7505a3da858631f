//! Rows of n-grams that together do not fit into memory.
//!
//! Parts of a segment are answered one after the other. With one segment and no edits these are the rows. Otherwise each
//! segment's rows are a run in a temporary file, and runs are merged on the way out, with the changes by edits and by the cuts of
//! files. Invariant: rows ascend by their words, then by file; each is returned once, and none with a count of 0.

use std::sync::Arc;

use zipfdb_kernels::{NGRAM_WORDS_MAX, give_back_free_memory};

use super::super::explain::Answered;
use super::super::spill::{Merge, RunWriter, SpilledRecord, SpilledRuns};
use super::ngram_matcher::NgramMatcher;
use super::ngram_rows::{NgramRowPayload, rows_of_tables};
use super::rows::{RowCursor, SequenceRows, SequenceTask};
use super::scan_spec::ScanSpec;
use crate::Result;
use crate::answer::CorpusReader;
use crate::answer::access_path::Run;
use crate::answer::{NgramPayload, NgramsPart, SegmentNgrams, WithCounts, WithFiles};
use crate::runtime::interrupt::{Interrupt, Pace};
use crate::segment::SegmentView;
use crate::segment::cache::Reservation;

/// A part takes 1/`PART_SHARE` of the memory limit: the others go to windows, to structures derived of the segment, and to rows.
const PART_SHARE: u64 = 4;

/// An n-gram with its count, in a file or altogether.
#[derive(Clone, Copy)]
struct LargeRow {
    words: [u32; NGRAM_WORDS_MAX],
    /// 0 if rows do not distinguish files.
    file: u32,
    times: u64,
}

/// Tables of n-grams, one after the other.
struct Tables<P: NgramPayload> {
    reader: CorpusReader,
    n: usize,
    interrupt: Interrupt,
    log: Arc<Answered>,
    parts: std::vec::IntoIter<SegmentNgrams>,
    /// The structures for the parts of a segment, and its place.
    pinned: Option<(usize, SegmentView)>,
    /// The unread n-grams of the current part.
    found: std::vec::IntoIter<NgramsPart<P>>,
    /// The memory of the work, for which the cache makes room.
    _reservation: Reservation,
}

/// Returns the rows of merged runs.
struct LargeNgrams {
    /// Whether rows distinguish files.
    by_file: bool,
    /// For each file, by number, whether it is wanted where rows distinguish files; none for all.
    wanted: Option<Vec<bool>>,
    source: MergedRows,
    /// The first row of the next n-gram.
    ahead: Option<LargeRow>,
    pace: Pace,
}

/// All rows of the wanted files.
///
/// # Errors
/// If a segment is damaged, a run cannot be written, or the query must end.
pub(super) fn rows(task: &SequenceTask) -> Result<Box<dyn RowCursor>> {
    let question = &task.question;
    let by_file = question.asked.granularity.is_by_file();
    // Files that are gone are left out where rows distinguish files.
    if by_file || (question.asked.files.is_all() && question.view().has_gone_files()) {
        rows_of::<WithFiles>(task, by_file)
    } else {
        rows_of::<WithCounts>(task, by_file)
    }
}

fn rows_of<P: NgramRowPayload>(task: &SequenceTask, by_file: bool) -> Result<Box<dyn RowCursor>> {
    let (question, context) = (&task.question, &task.question.context);
    let (n, reader, interrupt) = (question.asked.n, &question.reader, question.interrupt());
    // Rows without files are counted in the wanted ones alone; otherwise the lists of files of rules would be made for each part.
    let is_chosen = !question.asked.files.is_all() && !by_file;
    let chosen = is_chosen.then(|| question.asked.files.numbers().to_vec());
    let bytes = context.settings.memory_limit() / PART_SHARE;
    // A part, and the structures it is made of.
    let mut reservation = context.reservation();
    reservation.set(2 * bytes);
    let parts = question.ask(move |view, stop| {
        view.ngram_parts(n, chosen.as_deref(), P::HAS_FILES, bytes, Run::until(stop))
    })?;
    let mut tables = Tables::<P> {
        reader: reader.clone(),
        n,
        interrupt: interrupt.clone(),
        log: task.description.clone(),
        parts: Vec::new().into_iter(),
        pinned: None,
        found: Vec::new().into_iter(),
        _reservation: reservation,
    };
    let view = reader.view();
    if view.segments().len() == 1 && view.pending().is_none() {
        tables.parts = parts.into_iter();
        return Ok(rows_of_tables::<P>(question, move || tables.next()));
    }
    let wanted = question.asked.files.marks(reader.view().files().len());
    let mut changes = question.ask(move |view, stop| view.ngram_changes(n, stop))?;
    let is_wanted = |file: u32| wanted.as_ref().is_none_or(|wanted| wanted[file as usize]);
    changes.retain(|&(_, file, _)| is_wanted(file));
    let mut pace = interrupt.pace();
    let mut runs = SpilledRuns::new(context.memory, &context.spill);
    let mut parts = parts.into_iter().peekable();
    while let Some(first) = parts.next() {
        let mut of_segment = vec![first];
        while let Some(next) = parts.next_if(|next| next.is_of_segment(&of_segment[0])) {
            of_segment.push(next);
        }
        tables.parts = of_segment.into_iter();
        runs.write(|writer| {
            while let Some(table) = tables.next()? {
                P::each_row(&table, n, |words, file, times| {
                    pace.step()?;
                    let file = if P::HAS_FILES {
                        view.file_now(file)
                    } else {
                        Some(0)
                    };
                    match file {
                        Some(file) => write::<P>(words, file, times as i64, writer),
                        None => Ok(()),
                    }
                })?;
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
            write::<P>(&words, file, change, writer)?;
        }
        Ok(())
    })?;
    Ok(Box::new(LargeNgrams {
        by_file,
        wanted: wanted.filter(|_| by_file),
        source: MergedRows::new(runs.merge(&mut pace)?, n)?,
        ahead: None,
        pace,
    }))
}

impl LargeNgrams {
    /// The next row; none at the end.
    fn next(&mut self) -> Result<Option<LargeRow>> {
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

    /// The next row of a wanted file.
    fn wanted_row(&mut self) -> Result<Option<LargeRow>> {
        loop {
            self.pace.step()?;
            let row = self.source.next()?;
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

impl<P: NgramPayload> Tables<P> {
    /// The next table of the remaining parts.
    fn next(&mut self) -> Result<Option<P::Table>> {
        loop {
            // A table that was read is freed before the next one is unpacked.
            if let Some(found) = self.found.next() {
                return Ok(Some(found.into_plain()));
            }
            let Some(part) = self.parts.next() else {
                return Ok(None);
            };
            let (segment, n) = (part.segment(), self.n);
            if self.pinned.as_ref().is_none_or(|(of, _)| *of != segment) {
                self.pinned = None;
                let pinned = self.reader.ask(&self.interrupt, move |view, stop| {
                    view.prepare_ngram_parts(segment, n, P::HAS_FILES, stop)
                })?;
                self.pinned = Some((segment, pinned));
            }
            let answered = self.log.clone();
            let found = self.reader.ask(&self.interrupt, move |view, stop| {
                view.ngrams_of(&part, answered.until(stop))
            })?;
            self.found = found.into_iter();
        }
    }
}

impl RowCursor for LargeNgrams {
    fn advance(&mut self, question: &ScanSpec, rows: &mut SequenceRows) -> Result<bool> {
        let (n, mut matcher) = (question.asked.n, NgramMatcher::new(question));
        while rows.room() > 0 {
            let Some(row) = self.next()? else {
                return Ok(false);
            };
            let words = &row.words[..n];
            if matcher.passes(words)? {
                rows.push_counted(words, row.file, row.times);
            }
        }
        Ok(true)
    }
}

/// Writes a row as a record of a run: its key is the words, and the file if rows have files; its payload is the amount that it
/// adds.
fn write<P: NgramPayload>(
    words: &[u32],
    file: u32,
    change: i64,
    writer: &mut RunWriter,
) -> Result<()> {
    let mut key = [0; (NGRAM_WORDS_MAX + 1) * size_of::<u32>()];
    let file = P::HAS_FILES.then_some(&file);
    let numbers = words.iter().chain(file);
    for (bytes, number) in key.chunks_exact_mut(size_of::<u32>()).zip(numbers) {
        bytes.copy_from_slice(&number.to_be_bytes());
    }
    let key = &key[..(words.len() + usize::from(P::HAS_FILES)) * size_of::<u32>()];
    // Most counts are small: bytes that only repeat the sign are left out.
    let bytes = change.to_le_bytes();
    let end = (1..bytes.len()).find(|&end| change_of(&bytes[..end]) == change);
    writer.push(&[key], &bytes[..end.unwrap_or(bytes.len())])
}

/// The rows of merged runs.
struct MergedRows {
    merge: Merge,
    n: usize,
    /// The key of the rows that are being added up.
    key: Vec<u8>,
    /// The next record, if there is one.
    next: SpilledRecord,
    has_next: bool,
}

impl MergedRows {
    fn new(mut merge: Merge, n: usize) -> Result<MergedRows> {
        let mut next = SpilledRecord::default();
        let has_next = merge.read_next(&mut next.0, &mut next.1)?;
        Ok(MergedRows {
            merge,
            n,
            key: Vec::new(),
            next,
            has_next,
        })
    }

    /// The next row with a count above 0.
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
                let mut words = [0; NGRAM_WORDS_MAX];
                for (word, number) in words[..self.n].iter_mut().zip(&mut numbers) {
                    *word = number;
                }
                return Ok(Some(LargeRow {
                    words,
                    file: numbers.next().unwrap_or_default(),
                    times: sum.unsigned_abs(),
                }));
            }
        }
        Ok(None)
    }
}

/// The amount that a record adds.
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
