//! `ExternalSort`: rows in order of some keys, within a limit of memory.
//!
//! Rows stay columns as they come, and row numbers are sorted. A key becomes one or more numbers a row that compare as its values
//! (`sort_column.rs`, `number_keys.rs`). Where rows come in order of the first keys already, only rows that are equal in these
//! are sorted. With a limit, rows that cannot be among the first are dropped from time to time. Rows that do not fit into memory
//! are sorted and written as a run, by numbers that mean the same in all runs and otherwise by bytes. Invariant: the order is
//! that of `key.rs`, and equal rows keep theirs.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use zipfdb_sql::query::{Collation, ExpressionId, SortKey};

use super::codec::{Encoder, RowCodec};
use super::context::Context;
use super::number_keys::{RowKey, sort_by_keys, sorted_rows, where_rows_are_sorted};
use super::row::{BatchRest, ENTRIES_SHARE};
use super::sort_column::{SortBound, SortColumn};
use super::spill::{Merge, SpilledRuns};
use crate::batch::{BATCH_ROWS, Batch, BatchColumn, RowCollector};
use crate::expression::{Evaluator, Program};
use crate::runtime::interrupt::check;
use crate::runtime::prefetch::Prefetch;
use crate::segment::cache::Reservation;
use crate::{Result, Value};

/// Bytes of a row while it is sorted, beside its columns: a pair of number and row, and a place.
const ROW_BYTES: usize = size_of::<(u64, u32)>() + size_of::<u32>();

/// The most bytes of the keys of dropped rows, about.
const DROPPED_KEY_BYTES_MAX: usize = 4 << 20;

/// The keys of dropped rows take at most this part of memory: 1/`DROPPED_KEYS_SHARE`.
const DROPPED_KEYS_SHARE: usize = 8;

/// Sorts batches.
pub(super) struct ExternalSort {
    keys: Vec<SortColumn>,
    /// The number of first keys by which rows come in order already.
    given: usize,
    /// Columns behind these are keys alone, in the order of the keys that have columns of their own.
    width: usize,
    limit: Option<usize>,
    evaluator: Evaluator<Arc<Program>>,
    context: Context,
    reservation: Reservation,
    /// Rows that were pushed and not taken yet.
    pushed: RowCollector,
    /// The taken rows that may be among the first.
    kept: Option<Batch>,
    kept_bytes: usize,
    /// Bytes of keys beside columns after rows were last dropped.
    first_key_bytes: usize,
    /// A row whose first key is beyond this is not among the first.
    bound: Option<SortBound>,
    /// Earlier rows that did not fit.
    spilled: Option<SpilledRows>,
}

/// Rows in runs.
struct SpilledRows {
    runs: SpilledRuns,
    codec: RowCodec,
}

impl ExternalSort {
    /// Sorts rows of `width` columns by `keys`, given that they come in order of the first `given` of them; `limit` is the most
    /// rows that are used.
    pub(super) fn new(
        (program, width): (&Arc<Program>, usize),
        keys: &[SortKey],
        given: usize,
        limit: Option<u64>,
        context: &Context,
    ) -> ExternalSort {
        // Constants order nothing.
        let keys = keys
            .iter()
            .filter(|key| program.constant(key.expression).is_none());
        let keys = keys.map(|key| SortColumn::new(key, program, context));
        ExternalSort {
            keys: keys.collect(),
            given,
            width,
            // A limit that is larger than memory is none.
            limit: limit.and_then(|limit| usize::try_from(limit).ok()),
            evaluator: Evaluator::of_batches(program.clone(), context.memory / ENTRIES_SHARE),
            reservation: context.reservation(),
            context: context.clone(),
            pushed: RowCollector::default(),
            kept: None,
            kept_bytes: 0,
            first_key_bytes: 0,
            bound: None,
            spilled: None,
        }
    }

    /// Sorts rows of `width` columns by the first `keys` of them, as grouping does.
    ///
    /// # Errors
    /// If the query must end.
    pub(super) fn by_columns(keys: usize, width: usize, context: &Context) -> Result<ExternalSort> {
        let program = context.columns(width)?;
        // Far fewer columns than 2^32 fit into a statement.
        let keys = (0..keys as u32).map(|column| SortKey {
            expression: ExpressionId(column),
            descending: false,
            nulls_first: true,
            collation: Collation::Binary,
        });
        let keys: Vec<SortKey> = keys.collect();
        Ok(ExternalSort::new(
            (&program, width),
            &keys,
            0,
            None,
            context,
        ))
    }

    /// Takes a row of values.
    ///
    /// # Errors
    /// Those of `take`.
    pub(super) fn push(&mut self, values: impl IntoIterator<Item = Value>) -> Result<()> {
        self.pushed.push(values);
        if self.pushed.is_full(BATCH_ROWS) {
            self.take_pushed()?;
        }
        Ok(())
    }

    fn take_pushed(&mut self) -> Result<()> {
        let pushed = std::mem::take(&mut self.pushed);
        pushed.finish().map_or(Ok(()), |batch| self.take(batch))
    }

    /// Takes a batch.
    ///
    /// # Errors
    /// Those of the evaluator; if there is no memory for a key, or a run cannot be written.
    pub(super) fn take(&mut self, batch: Batch) -> Result<()> {
        if self.limit == Some(0) || batch.is_empty() {
            return Ok(());
        }
        if batch.len() > 1 && bytes_of(&batch) > self.context.memory / 2 {
            let half = batch.len() / 2;
            self.take(batch.slice(0..half))?;
            return self.take(batch.slice(half..batch.len()));
        }
        let mut columns = Vec::new();
        for index in 0..self.keys.len() {
            let (key, evaluator) = (&mut self.keys[index], &mut self.evaluator);
            if !key.take(&batch, evaluator, &self.context, &mut columns)? {
                return self.take_as_bytes(index, batch);
            }
        }
        let mut batch = batch.widened(columns);
        if let Some(rows) = self.within_bound(&batch) {
            batch = batch.select(&rows);
        }
        if !batch.is_empty() {
            let bytes = bytes_of(&batch);
            if !self.has_room(&batch, bytes) && self.make_room(&batch, bytes)? {
                return self.take(batch.narrowed(self.width));
            }
            self.kept_bytes += bytes;
            match &mut self.kept {
                Some(kept) => kept.append(&batch),
                none => *none = Some(batch),
            }
        }
        let rows = self.kept.as_ref().map_or(0, Batch::len);
        // Ranking keys takes as long as sorting the same number of rows.
        let keys = self.keys.iter().map(SortColumn::key_count).max();
        let least = keys.unwrap_or_default().max(BATCH_ROWS);
        let most = self.limit.map(|limit| limit.max(least));
        let has_many_keys = self.has_many_keys();
        if most.is_some_and(|most| rows / 2 > most || has_many_keys) {
            self.keep_first(has_many_keys)?;
        }
        self.reservation
            .cover(self.bytes().min(self.context.memory));
        Ok(())
    }

    /// Makes room for a batch of `bytes` bytes. Returns whether keys of its rows have been forgotten.
    fn make_room(&mut self, batch: &Batch, bytes: usize) -> Result<bool> {
        let Some(before) = self.kept.as_ref().map(Batch::len) else {
            return Ok(false);
        };
        self.keep_first(true)?;
        // Rows behind the limit were dropped; if they were few there would soon be no room again.
        let is_cut = self.kept.as_ref().is_some_and(|kept| kept.len() < before);
        let is_large = self.kept_bytes > self.context.memory / 2;
        if !is_cut || is_large || !self.has_room(batch, bytes) {
            self.spill()?;
        }
        Ok(true)
    }

    /// Takes all rows again, and a batch behind them, with bytes for the values of a key.
    fn take_as_bytes(&mut self, key: usize, batch: Batch) -> Result<()> {
        let before = self.finish()?;
        self.keys[key].keep_keys();
        // Earlier rows come before the batch, and equal rows stay in order.
        if let Some(mut before) = before {
            while let Some(batch) = before.next_batch(BATCH_ROWS)? {
                self.take(batch)?;
            }
        }
        self.take(batch)
    }

    /// All taken rows, in order; with a limit there may be more. None if there are none. Further rows may be taken from now on.
    pub(super) fn finish(&mut self) -> Result<Option<SortedRows>> {
        self.take_pushed()?;
        if self.spilled.is_some() {
            self.spill()?;
        }
        self.bound = None;
        if let Some(SpilledRows { runs, codec }) = self.spilled.take() {
            return Ok(Some(SortedRows::Spilled {
                merge: runs.merge(&mut self.context.pace())?,
                codec,
                context: self.context.clone(),
            }));
        }
        let Some(batch) = self.kept.take() else {
            return Ok(None);
        };
        let order = self.order(&batch)?;
        self.forget();
        let unused = self.context.reservation();
        let Context {
            pool, interrupt, ..
        } = &self.context;
        Ok(Some(SortedRows::Kept(KeptRows {
            batch: Arc::new(batch.narrowed(self.width)),
            order: Arc::new(order),
            next: 0,
            ahead: Prefetch::new(pool, interrupt),
            rest: BatchRest::default(),
            _reservation: std::mem::replace(&mut self.reservation, unused),
        })))
    }

    /// The memory of taken rows, in bytes, about.
    fn bytes(&self) -> usize {
        let keys = self.keys.iter().map(SortColumn::bytes);
        self.kept_bytes + self.evaluator.entry_bytes() + keys.sum::<usize>()
    }

    /// The memory of keys that are not in columns, in bytes, about.
    fn key_bytes(&self) -> usize {
        self.keys.iter().map(SortColumn::key_bytes).sum()
    }

    /// Whether keys of dropped rows take much memory.
    fn has_many_keys(&self) -> bool {
        let dropped_max = DROPPED_KEY_BYTES_MAX.min(self.context.memory / DROPPED_KEYS_SHARE);
        self.key_bytes() > 2 * self.first_key_bytes + dropped_max
    }

    /// Whether a batch of `bytes` bytes fits beside the kept rows.
    fn has_room(&self, batch: &Batch, bytes: usize) -> bool {
        let rows = self.kept.as_ref().map_or(0, Batch::len) + batch.len();
        let numbers = self.keys.iter().map(SortColumn::key_count).chain([rows]);
        let are_numbered = numbers
            .max()
            .is_none_or(|most| most + BATCH_ROWS < u32::MAX as usize);
        self.bytes() + bytes <= self.context.memory && are_numbered
    }

    /// Writes the kept rows as a run.
    fn spill(&mut self) -> Result<()> {
        let Some(mut batch) = self.kept.take() else {
            return Ok(());
        };
        let mut order = self.order(&batch)?;
        order.truncate(self.limit.unwrap_or(usize::MAX));
        let mut pace = self.context.pace();
        let mut spilled = self.spilled.take().unwrap_or_else(|| SpilledRows {
            runs: SpilledRuns::new(self.context.memory, &self.context.spill),
            codec: RowCodec::of(&batch.columns()[..self.width]),
        });
        let SpilledRows { runs, codec } = &mut spilled;
        let (mut keys, mut ends, mut encoder) = (Vec::new(), Vec::new(), Encoder::default());
        runs.write(|writer| {
            for rows in order.chunks(BATCH_ROWS) {
                keys.clear();
                ends.clear();
                self.add_run_keys(&batch, rows, &mut keys, &mut ends)?;
                let mut start = 0;
                for (&row, &end) in rows.iter().zip(&ends) {
                    pace.step()?;
                    codec.write(&mut batch, row as usize, &mut encoder);
                    writer.push(&[&keys[start..end]], &encoder.bytes)?;
                    start = end;
                }
            }
            Ok(())
        })?;
        drop(batch);
        self.forget();
        self.reservation.set(0);
        if runs.is_full() {
            runs.settle(&mut pace)?;
        }
        self.spilled = Some(spilled);
        Ok(())
    }

    /// Appends the keys of rows in the form of a run, and the end of each.
    fn add_run_keys(
        &self,
        batch: &Batch,
        rows: &[u32],
        target: &mut Vec<u8>,
        ends: &mut Vec<usize>,
    ) -> Result<()> {
        let columns = columns_of(&self.keys, self.width, batch);
        let keys = self.keys.iter().zip(columns);
        let keys = keys.map(|(key, column)| (key, column, key.numbers(column, &[])));
        let keys: Vec<_> = keys.collect();
        for &row in rows {
            for (key, column, numbers) in &keys {
                if let Some(bytes) = key.bytes_of(column, row) {
                    target.extend_from_slice(bytes);
                    continue;
                }
                let numbers = numbers.iter().map(|key| key.number(row));
                numbers.for_each(|number| target.extend_from_slice(&number.to_be_bytes()));
            }
            ends.push(target.len());
        }
        Ok(())
    }

    /// Forgets the keys of dropped rows.
    fn forget(&mut self) {
        (self.kept_bytes, self.first_key_bytes) = (0, 0);
        (self.keys.iter_mut()).for_each(|key| key.forget_others(None));
    }

    /// The rows of a batch that may be among the first; none for all.
    fn within_bound(&mut self, batch: &Batch) -> Option<Vec<u32>> {
        let (bound, key) = (self.bound.as_mut()?, self.keys.first()?);
        let column = columns_of(&self.keys, self.width, batch).next()?;
        let rows = key.within(bound, column);
        (rows.len() < batch.len()).then_some(rows)
    }

    /// Drops rows that cannot be among the first, and if `forget` the keys of dropped rows. Later rows may have the same values,
    /// whose keys are known until then.
    fn keep_first(&mut self, forget: bool) -> Result<()> {
        let Some(limit) = self.limit else {
            return Ok(());
        };
        let Some(kept) = self.kept.take() else {
            self.forget();
            return Ok(());
        };
        let mut order = self.order(&kept)?;
        order.truncate(limit);
        if let (Some(&last), true) = (order.last(), order.len() == limit) {
            let column = columns_of(&self.keys, self.width, &kept).next();
            let first = self.keys.first().zip(column);
            self.bound = first.and_then(|(key, column)| key.bound(column, last));
        }
        // In order of arrival, so that equal rows keep theirs.
        order.sort_unstable();
        let mut kept = kept.select(&order);
        if forget {
            let (mut own, columns) = (self.width.., kept.columns_mut());
            for key in &mut self.keys {
                let own = if key.shared_column().is_none() {
                    own.next()
                } else {
                    None
                };
                key.forget_others(own.map(|own| &mut columns[own]));
            }
            // Keys have other numbers now.
            if let Some(bound) = &mut self.bound {
                bound.forget();
            }
            self.first_key_bytes = self.key_bytes();
        }
        self.kept_bytes = bytes_of(&kept);
        self.kept = Some(kept);
        Ok(())
    }

    /// The rows of a batch in order.
    fn order(&self, batch: &Batch) -> Result<Vec<u32>> {
        let rows = batch.len();
        if self.keys.is_empty() || batch.is_empty() {
            // Rows are numbered by u32: `has_room` ensures it.
            return Ok((0..rows as u32).collect());
        }
        let columns: Vec<&BatchColumn> = columns_of(&self.keys, self.width, batch).collect();
        let ranks = self.keys.iter().map(|key| key.ranks(&self.context));
        let ranks = ranks.collect::<Result<Vec<Vec<u32>>>>()?;
        let keys = &self.keys;
        let keys_from = |first: usize| {
            let keys = keys[first..].iter().zip(&columns[first..]);
            let keys = keys.zip(&ranks[first..]);
            let keys = keys.flat_map(|((key, column), ranks)| key.numbers(column, ranks));
            keys.collect::<Vec<RowKey<'_>>>()
        };
        let given = &columns[..self.given.min(keys.len())];
        let have_numbers = given
            .iter()
            .all(|column| column.has_equal_numbers(0, 0).is_some());
        let Context {
            pool, interrupt, ..
        } = &self.context;
        where_rows_are_sorted(rows, pool, interrupt, |stop| {
            if !given.is_empty() && have_numbers {
                let (starts, others) = (changes(given, rows), keys_from(given.len()));
                return sorted_within_runs(rows, &starts, &others, stop);
            }
            sorted_rows(rows, &keys_from(0), stop)
        })
    }
}

/// The columns of keys in a batch that has `width` columns before the keys' own ones.
fn columns_of<'a>(
    keys: &'a [SortColumn],
    width: usize,
    batch: &'a Batch,
) -> impl Iterator<Item = &'a BatchColumn> {
    let mut own = width..;
    keys.iter().filter_map(move |key| {
        let column = key.shared_column().or_else(|| own.next())?;
        batch.columns().get(column)
    })
}

/// The first row, and the rows that differ from the row before in columns of numbers.
fn changes(columns: &[&BatchColumn], rows: usize) -> Vec<u32> {
    let changes = |&row: &u32| {
        let row = row as usize;
        let mut columns = columns.iter();
        row == 0 || columns.any(|column| column.has_equal_numbers(row - 1, row) == Some(false))
    };
    // Rows are numbered by u32: `has_room` ensures it.
    (0..rows as u32).filter(changes).collect()
}

/// The rows of each run in order of `others`, one run after the other.
fn sorted_within_runs(
    rows: usize,
    starts: &[u32],
    others: &[RowKey<'_>],
    stop: &AtomicBool,
) -> Result<Vec<u32>> {
    let mut spans = SpanSort::new(rows, others);
    for (run, &start) in (0..).zip(starts) {
        spans.sort(start..end_of(starts, run, rows), stop)?;
    }
    Ok(spans.order)
}

/// The most rows of a span that are sorted with their first numbers beside them; larger ones are sorted by digits.
const SPAN_ROWS_MAX: usize = 1 << 12;

/// Sorts one span of rows after the other.
struct SpanSort<'a> {
    keys: &'a [RowKey<'a>],
    order: Vec<u32>,
    /// The rows of the span with their first numbers.
    span: Vec<(u64, u32)>,
}

impl<'a> SpanSort<'a> {
    fn new(rows: usize, keys: &'a [RowKey<'a>]) -> SpanSort<'a> {
        SpanSort {
            keys,
            order: Vec::with_capacity(rows),
            span: Vec::new(),
        }
    }

    /// Appends these rows in order of the keys.
    fn sort(&mut self, rows: impl Iterator<Item = u32>, stop: &AtomicBool) -> Result<()> {
        let start = self.order.len();
        self.order.extend(rows);
        let rows = &mut self.order[start..];
        let (true, Some((first, rest))) = (rows.len() > 1, self.keys.split_first()) else {
            return Ok(());
        };
        if rows.len() > SPAN_ROWS_MAX {
            return sort_by_keys(rows, self.keys, stop);
        }
        check(stop)?;
        self.span.clear();
        (self.span).extend(rows.iter().map(|&row| (first.number(row), row)));
        let further = |row: u32| rest.iter().map(move |key| key.number(row));
        // Rows with equal keys came in order of their numbers.
        self.span.sort_unstable_by(|left, right| {
            (left.0.cmp(&right.0))
                .then_with(|| further(left.1).cmp(further(right.1)))
                .then_with(|| left.1.cmp(&right.1))
        });
        for (place, &(_, row)) in rows.iter_mut().zip(&self.span) {
            *place = row;
        }
        Ok(())
    }
}

/// The first row behind a run.
fn end_of(starts: &[u32], run: u32, rows: usize) -> u32 {
    // Rows are numbered by u32: `has_room` ensures it.
    (starts.get(run as usize + 1).copied()).unwrap_or(rows as u32)
}

/// The memory of a batch while it is kept and sorted, in bytes.
fn bytes_of(batch: &Batch) -> usize {
    let columns = batch.columns().iter().map(BatchColumn::bytes);
    columns.sum::<usize>() + batch.len() * (size_of::<u64>() + ROW_BYTES)
}

/// Rows in order.
pub(super) enum SortedRows {
    Kept(KeptRows),
    Spilled {
        merge: Merge,
        codec: RowCodec,
        context: Context,
    },
}

impl SortedRows {
    pub(super) fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        match self {
            SortedRows::Kept(kept) => kept.next_batch(rows_max),
            SortedRows::Spilled {
                merge,
                codec,
                context,
            } => {
                let mut key = Vec::new();
                let next = |payload: &mut Vec<u8>| merge.read_next(&mut key, payload);
                let failed = |error| context.spill.failed(error);
                codec.read_batch(rows_max, next, failed)
            }
        }
    }
}

/// Returns rows in order. Many rows are gathered by the threads of the pool, some batches ahead.
pub(super) struct KeptRows {
    batch: Arc<Batch>,
    order: Arc<Vec<u32>>,
    /// The first place in `order` that is not begun.
    next: usize,
    ahead: Prefetch<Batch>,
    /// Rows that were gathered and not returned yet.
    rest: BatchRest,
    _reservation: Reservation,
}

/// The least number of rows that is gathered ahead.
const AHEAD_ROWS_MIN: usize = 1 << 16;

impl KeptRows {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        let rows = self.order.len();
        if rows < AHEAD_ROWS_MIN {
            let order = &self.order[self.next..rows.min(self.next.saturating_add(rows_max.max(1)))];
            self.next += order.len();
            return Ok((!order.is_empty()).then(|| self.batch.select(order)));
        }
        if let Some(batch) = self.rest.take(rows_max) {
            return Ok(Some(batch));
        }
        while self.next < rows && !self.ahead.is_full() {
            let places = self.next..rows.min(self.next.saturating_add(rows_max.max(BATCH_ROWS)));
            self.next = places.end;
            let (batch, order) = (self.batch.clone(), self.order.clone());
            self.ahead.begin(move || Ok(batch.select(&order[places])));
        }
        self.rest = BatchRest::of(self.ahead.next()?);
        Ok(self.rest.take(rows_max))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::super::number_keys::RowKeyNumbers;
    use super::*;
    use crate::runtime::interrupt::NEVER;

    proptest! {
        #[test]
        fn rows_are_sorted_within_runs(
            lengths in proptest::collection::vec(1usize..9, 1..60),
            values in proptest::collection::vec((-3i64..3, 0u32..3), 540),
            descending: bool,
        ) {
            let (mut starts, mut rows) = (Vec::new(), 0);
            for length in lengths {
                starts.push(rows as u32);
                rows += length;
            }
            let (integers, texts): (Vec<i64>, Vec<u32>) = values.into_iter().unzip();
            let ranks = [2, 0, 1];
            let others = [
                RowKey { numbers: RowKeyNumbers::Integers(&integers), descending },
                RowKey { numbers: RowKeyNumbers::Texts(&texts, Some(&ranks)), descending: false },
            ];
            for count in 0..=2 {
                let mut expected: Vec<u32> = (0..rows as u32).collect();
                expected.sort_by_key(|&row| {
                    let run = starts.partition_point(|&start| start <= row);
                    let others = others[..count].iter().map(|key| key.number(row));
                    (run, others.collect::<Vec<_>>())
                });
                let found = sorted_within_runs(rows, &starts, &others[..count], &NEVER);
                prop_assert_eq!(found.unwrap(), expected);
            }
        }
    }
}
