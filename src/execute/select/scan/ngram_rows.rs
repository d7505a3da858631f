//! Rows of n-grams from tables or a device.
//!
//! Invariant: n-grams that do not pass the conditions have no rows.

use std::ops::Range;
use std::sync::Arc;

use zipfdb_kernels::NgramFiles;
use zipfdb_kernels::gpu::{DeviceNgramFileRows, DeviceNgramRows, ShownNgramFiles};

use super::ngram_cursor::{MakeRows, NgramCursor};
use super::ngram_matcher::NgramMatcher;
use super::rows::{NgramRows, RowCursor};
use super::scan_spec::ScanSpec;
use crate::Result;
use crate::answer::{CountedNgrams, NgramPayload, NgramsPart, WithCounts, WithFiles};
use crate::batch::BATCH_ROWS;

/// The rows of n-grams that a device keeps in their order.
pub(super) fn rows_on_device<P: NgramRowPayload>(
    question: &Arc<ScanSpec>,
    rows: P::DeviceRows,
) -> Box<dyn RowCursor> {
    let (mut pieces, rows) = (0..P::pieces(&rows), Arc::new(rows));
    let ahead = question.work_ahead().of_each_thread(1);
    NgramCursor::boxed(question, ahead, move || {
        let rows = rows.clone();
        Ok(pieces.next().map(|piece| -> MakeRows {
            Box::new(move |matcher, made| P::push_piece(&rows, piece, matcher, made))
        }))
    })
}

/// The rows of n-grams in the order of parts, which are unpacked ahead.
pub(super) fn rows_of_parts<P: NgramRowPayload>(
    question: &Arc<ScanSpec>,
    parts: Vec<NgramsPart<P>>,
) -> Box<dyn RowCursor> {
    let (mut parts, ahead) = (parts.into_iter(), question.work_ahead());
    let mut ahead = ahead.of_each_thread(1);
    rows_of_tables::<P>(question, move || {
        while !ahead.is_full()
            && let Some(part) = parts.next()
        {
            match part {
                NgramsPart::Plain(table) => ahead.put(table),
                packed => ahead.begin(move || Ok(packed.into_plain())),
            }
        }
        ahead.next()
    })
}

/// The rows of consecutive tables.
pub(super) fn rows_of_tables<P: NgramRowPayload>(
    question: &Arc<ScanSpec>,
    mut tables: impl FnMut() -> Result<Option<P::Table>> + Send + 'static,
) -> Box<dyn RowCursor> {
    // The table that is cut, and its first n-gram that is in no piece yet.
    let (mut table, mut next) = (Arc::<P::Table>::default(), 0);
    NgramCursor::boxed(question, question.work_ahead(), move || {
        while next == P::len(&table) {
            let Some(other) = tables()? else {
                return Ok(None);
            };
            (table, next) = (Arc::new(other), 0);
        }
        let rows = next..P::len(&table).min(next + P::AHEAD);
        next = rows.end;
        let table = table.clone();
        let make: MakeRows =
            Box::new(move |matcher, made| P::push_rows(&table, rows, matcher, made));
        Ok(Some(make))
    })
}

/// Makes the rows of a payload.
pub(super) trait NgramRowPayload: NgramPayload {
    /// N-grams whose rows are made at a time.
    const AHEAD: usize;

    /// Appends the rows of some n-grams of a table.
    fn push_rows(
        table: &Self::Table,
        rows: Range<usize>,
        matcher: &mut NgramMatcher<'_>,
        made: &mut NgramRows,
    ) -> Result<()>;

    /// Calls `visit` with the words of each n-gram of n words, each file that has it, or 0, and its count there.
    fn each_row(
        table: &Self::Table,
        n: usize,
        visit: impl FnMut(&[u32], u32, u64) -> Result<()>,
    ) -> Result<()>;

    /// The number of pieces in which n-grams of a device are copied.
    fn pieces(rows: &Self::DeviceRows) -> usize;

    /// Appends the rows of one of the pieces.
    fn push_piece(
        rows: &Self::DeviceRows,
        piece: usize,
        matcher: &mut NgramMatcher<'_>,
        made: &mut NgramRows,
    ) -> Result<()>;
}

impl NgramRowPayload for WithCounts {
    const AHEAD: usize = 4 * BATCH_ROWS;

    fn push_rows(
        table: &CountedNgrams,
        rows: Range<usize>,
        matcher: &mut NgramMatcher<'_>,
        made: &mut NgramRows,
    ) -> Result<()> {
        let append = |rows, times: &mut Vec<u64>| table.counts.append_to(times, rows);
        made.push_counted(&table.words, rows, append, matcher)
    }

    fn each_row(
        table: &CountedNgrams,
        n: usize,
        mut visit: impl FnMut(&[u32], u32, u64) -> Result<()>,
    ) -> Result<()> {
        (table.iter(n)).try_for_each(|(words, times)| visit(words, 0, times))
    }

    fn pieces(rows: &DeviceNgramRows) -> usize {
        rows.pieces()
    }

    fn push_piece(
        rows: &DeviceNgramRows,
        piece: usize,
        matcher: &mut NgramMatcher<'_>,
        made: &mut NgramRows,
    ) -> Result<()> {
        let mut pushed = Ok(());
        rows.show(piece, needs_words(matcher.question()), |words, counts| {
            let append = |rows: Range<usize>, times: &mut Vec<u64>| {
                times.extend(counts[rows].iter().copied().map(u64::from));
            };
            pushed = made.push_counted(words, 0..counts.len(), append, matcher);
        })?;
        pushed
    }
}

impl NgramRowPayload for WithFiles {
    // More rows than a batch, so that most batches leave without a copy.
    const AHEAD: usize = 2 * BATCH_ROWS;

    fn push_rows(
        table: &NgramFiles,
        mut rows: Range<usize>,
        matcher: &mut NgramMatcher<'_>,
        made: &mut NgramRows,
    ) -> Result<()> {
        rows.try_for_each(|row| push_row(table, row, matcher, made))
    }

    fn each_row(
        table: &NgramFiles,
        n: usize,
        mut visit: impl FnMut(&[u32], u32, u64) -> Result<()>,
    ) -> Result<()> {
        for (row, words) in table.words.chunks_exact(n).enumerate() {
            for &(file, times) in table.files.row(row) {
                visit(words, file, times.into())?;
            }
        }
        Ok(())
    }

    fn pieces(rows: &DeviceNgramFileRows) -> usize {
        rows.pieces()
    }

    fn push_piece(
        rows: &DeviceNgramFileRows,
        piece: usize,
        matcher: &mut NgramMatcher<'_>,
        made: &mut NgramRows,
    ) -> Result<()> {
        let mut pushed = Ok(());
        rows.show(piece, needs_words(matcher.question()), |shown| {
            pushed = shown.try_for_each(|words, entries| {
                made.push(words, entries, ShownNgramFiles::file_and_count, matcher)
            });
        })?;
        pushed
    }
}

/// Appends the rows of one n-gram of a table.
pub(super) fn push_row(
    table: &NgramFiles,
    row: usize,
    matcher: &mut NgramMatcher<'_>,
    made: &mut NgramRows,
) -> Result<()> {
    let n = matcher.question().asked.n;
    let words = &table.words[row * n..(row + 1) * n];
    made.push(words, table.files.row(row), |entry| entry, matcher)
}

/// Whether rows or conditions need the words of n-grams.
fn needs_words(question: &ScanSpec) -> bool {
    question.asked.shown.texts || !question.asked.texts.is_all()
}
