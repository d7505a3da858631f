//! ORDER BY keys that are numbers, or texts whose numbers tell their order: columns are kept as they come, and row numbers sorted.
//!
//! A key becomes one or more numbers a row that compare as its values (`number_keys.rs`). Where the first key has long runs of
//! equal values, as n-grams with their files have, runs are sorted and not rows, and then the rows of equal runs by the other
//! keys. Where rows come in order of the first keys already, only rows that are equal in these are sorted. With a limit, rows
//! that cannot be among the first are dropped now and then. Rows that do not fit into memory are sorted and written as a run, with
//! their numbers as its keys. Invariant: the order is that of `key.rs`, and equal rows keep theirs.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::codec::{Encoder, RowCodec};
use super::context::Context;
use super::key::KeyOrder;
use super::number_keys::{RowKey, keys_of, sort_by_keys, sorted_rows, where_rows_are_sorted};
use super::row::BatchRest;
use super::spill::{Merge, SpilledRuns, spill_error_in};
use super::word_order::{TextOrder, text_order};
use crate::Result;
use crate::batch::{BATCH_ROWS, Batch, BatchColumn, TextDictionary};
use crate::runtime::ahead::WorkAhead;
use crate::runtime::interrupt::check;
use crate::segment::cache::Reservation;

/// A column that rows are sorted by.
#[derive(Debug, Clone, Copy)]
pub(super) struct NumberKey {
    pub(super) column: usize,
    pub(super) order: KeyOrder,
}

/// What sorting takes for a row beside its columns: a pair of number and row, and a place.
const ROW_BYTES: usize = size_of::<(u64, u32)>() + size_of::<u32>();

/// Takes batches.
pub(super) struct NumberSort {
    keys: Vec<NumberKey>,
    /// How numbers of texts tell the order of each key, as far as that has been asked, and of which dictionary.
    orders: Vec<Option<(TextDictionary, Option<TextOrder>)>>,
    /// So many of the first keys have rows in order already.
    given: usize,
    /// Columns behind these are keys alone.
    width: usize,
    limit: Option<usize>,
    context: Context,
    reservation: Reservation,
    /// What was taken, and may be among the first.
    kept: Option<Batch>,
    kept_bytes: usize,
    /// Empty columns of what was taken first.
    kinds: Vec<BatchColumn>,
    /// A row with a first number beyond this is not among the first.
    bound: Option<u64>,
    /// What was taken before that and did not fit.
    spilled: Option<SpilledNumbers>,
}

/// Rows in runs, by the numbers of their keys.
struct SpilledNumbers {
    runs: SpilledRuns,
    codec: RowCodec,
}

impl NumberSort {
    /// Sorts rows by `keys`, by the first `given` of which they come in order already, and gives their first `width` columns;
    /// `limit` is how many rows are asked for at most.
    pub(super) fn new(
        keys: Vec<NumberKey>,
        given: usize,
        width: usize,
        limit: Option<u64>,
        context: &Context,
    ) -> NumberSort {
        NumberSort {
            orders: vec![None; keys.len()],
            keys,
            given,
            width,
            // A limit that is larger than memory is as good as none.
            limit: limit.and_then(|limit| usize::try_from(limit).ok()),
            reservation: context.reservation(),
            context: context.clone(),
            kept: None,
            kept_bytes: 0,
            kinds: Vec::new(),
            bound: None,
            spilled: None,
        }
    }

    /// Takes a batch, or gives it back if its keys are no such numbers.
    pub(super) fn take(&mut self, mut batch: Batch) -> Result<Option<Batch>> {
        if !self.can_take(&batch)? {
            return Ok(Some(batch));
        }
        if self.limit == Some(0) {
            return Ok(None);
        }
        if let (Some(bound), false) = (self.bound, self.keys.is_empty()) {
            let first = &self.keys_of(&batch, 0)[0];
            // A batch has fewer rows than 2^32.
            let rows = 0..batch.len() as u32;
            let rows: Vec<u32> = rows.filter(|&row| first.number(row) <= bound).collect();
            if rows.is_empty() {
                return Ok(None);
            }
            if rows.len() < batch.len() {
                batch = batch.select(&rows);
            }
        }
        let bytes = bytes_of(&batch);
        if !self.has_room(&batch, bytes) {
            self.keep_first()?;
            // What is behind the limit has gone; soon there would be no room again if that was little.
            if self.kept_bytes > self.context.memory / 2 || !self.has_room(&batch, bytes) {
                self.spill()?;
            }
        }
        if self.kinds.is_empty() {
            self.kinds = batch.columns().iter().map(BatchColumn::empty).collect();
        }
        self.kept_bytes += bytes;
        self.reservation.cover(self.kept_bytes);
        match &mut self.kept {
            Some(kept) => kept.append(&batch),
            none => *none = Some(batch),
        }
        let rows = self.kept.as_ref().map_or(0, Batch::len);
        if self
            .limit
            .is_some_and(|limit| rows / 2 > limit.max(BATCH_ROWS))
        {
            self.keep_first()?;
        }
        Ok(None)
    }

    /// All rows that were taken, in order; with a limit perhaps more than it. Others may be taken from now on.
    pub(super) fn finish(&mut self) -> Result<SortedNumbers> {
        self.kinds = Vec::new();
        if self.spilled.is_some() {
            self.spill()?;
        }
        if let Some(SpilledNumbers { runs, codec }) = self.spilled.take() {
            self.bound = None;
            return Ok(SortedNumbers::Spilled {
                merge: runs.merge(&mut self.context.pace())?,
                codec,
                width: self.width,
                context: self.context.clone(),
            });
        }
        let batch = (self.kept.take()).unwrap_or_else(|| Batch::new(Vec::new(), 0, None));
        let order = self.order(&batch)?;
        self.kept_bytes = 0;
        self.bound = None;
        let unused = self.context.reservation();
        let Context {
            pool, interrupt, ..
        } = &self.context;
        Ok(SortedNumbers::Kept(KeptNumbers {
            batch: Arc::new(batch.narrowed(self.width)),
            order: Arc::new(order),
            next: 0,
            ahead: WorkAhead::new(pool, interrupt),
            rest: BatchRest::default(),
            _reservation: std::mem::replace(&mut self.reservation, unused),
        }))
    }

    /// Whether a batch that takes so many bytes fits beside what is kept.
    fn has_room(&self, batch: &Batch, bytes: usize) -> bool {
        let rows = self.kept.as_ref().map_or(0, Batch::len) + batch.len();
        self.kept_bytes + bytes <= self.context.memory && u32::try_from(rows).is_ok()
    }

    /// Writes what is kept as a run.
    fn spill(&mut self) -> Result<()> {
        let Some(mut batch) = self.kept.take() else {
            return Ok(());
        };
        let mut order = self.order(&batch)?;
        order.truncate(self.limit.unwrap_or(usize::MAX));
        let mut pace = self.context.pace();
        let mut spilled = self.spilled.take().unwrap_or_else(|| SpilledNumbers {
            runs: SpilledRuns::new(self.context.memory, &self.context.spill),
            codec: RowCodec::default(),
        });
        let SpilledNumbers { runs, codec } = &mut spilled;
        let (mut keys, mut encoder) = (Vec::new(), Encoder::default());
        runs.write(|writer| {
            for rows in order.chunks(BATCH_ROWS) {
                keys.clear();
                let row_keys = self.keys_from(&batch, 0);
                for &row in rows {
                    let numbers = row_keys.iter().map(|key| key.number(row));
                    numbers.for_each(|number| keys.extend_from_slice(&number.to_be_bytes()));
                }
                let key_bytes = keys.len() / rows.len();
                for (index, &row) in rows.iter().enumerate() {
                    pace.step()?;
                    codec.write(&mut batch, row as usize, &mut encoder);
                    let key = &keys[index * key_bytes..(index + 1) * key_bytes];
                    writer.push(&[key], &encoder.bytes)?;
                }
            }
            Ok(())
        })?;
        drop(batch);
        self.kept_bytes = 0;
        self.reservation.set(0);
        if runs.is_full() {
            runs.settle(&mut pace)?;
        }
        self.spilled = Some(spilled);
        Ok(())
    }

    /// Whether the keys of a batch are numbers of the same kind as those before, and its rows can be numbered.
    fn can_take(&mut self, batch: &Batch) -> Result<bool> {
        for index in 0..self.keys.len() {
            let column = &batch.columns()[self.keys[index].column];
            let can_take = match column {
                BatchColumn::Integers(_) | BatchColumn::Reals(_) => true,
                BatchColumn::Words { dictionary, .. } => self.settle(index, dictionary, false)?,
                BatchColumn::Ngrams { dictionary, .. } => self.settle(index, dictionary, true)?,
                BatchColumn::Texts(_) | BatchColumn::Values(_) => false,
            };
            let is_like_others =
                (self.kinds.get(self.keys[index].column)).is_none_or(|kind| kind.is_like(column));
            if !can_take || !is_like_others {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Finds out how numbers of texts tell the order of a key; says whether they do.
    fn settle(&mut self, key: usize, dictionary: &TextDictionary, in_ngrams: bool) -> Result<bool> {
        if let Some((known, order)) = &self.orders[key]
            && known.is_same(dictionary)
        {
            return Ok(order.is_some());
        }
        let collation = self.keys[key].order.collation;
        let on = (&*self.context.pool, &self.context.interrupt);
        let order = text_order(dictionary, in_ngrams, collation, on)?;
        let is_ordered = order.is_some();
        self.orders[key] = Some((dictionary.clone(), order));
        Ok(is_ordered)
    }

    /// The rank of each text of the dictionary of a key; none if numbers are in order.
    fn ranks(&self, key: usize) -> Option<&[u32]> {
        let (dictionary, order) = self.orders[key].as_ref()?;
        order.as_ref()?.ranks(dictionary)
    }

    /// The numbers of a key, of which there is one at least.
    fn keys_of<'a>(&'a self, batch: &'a Batch, key: usize) -> Vec<RowKey<'a>> {
        let NumberKey { column, order } = self.keys[key];
        keys_of(&batch.columns()[column], self.ranks(key), order.descending)
    }

    /// The numbers of all keys from one on.
    fn keys_from<'a>(&'a self, batch: &'a Batch, first: usize) -> Vec<RowKey<'a>> {
        let keys = first..self.keys.len();
        keys.flat_map(|key| self.keys_of(batch, key)).collect()
    }

    /// Drops what cannot be among the first rows.
    fn keep_first(&mut self) -> Result<()> {
        let Some(limit) = self.limit else {
            return Ok(());
        };
        let Some(kept) = self.kept.take() else {
            return Ok(());
        };
        let mut order = self.order(&kept)?;
        order.truncate(limit);
        if let (Some(&last), false, true) =
            (order.last(), self.keys.is_empty(), order.len() == limit)
        {
            self.bound = Some(self.keys_of(&kept, 0)[0].number(last));
        }
        // In order of arrival, so that equal rows keep theirs.
        order.sort_unstable();
        let kept = kept.select(&order);
        self.kept_bytes = bytes_of(&kept);
        self.kept = Some(kept);
        Ok(())
    }

    /// The rows of a batch in order.
    fn order(&self, batch: &Batch) -> Result<Vec<u32>> {
        if self.keys.is_empty() || batch.is_empty() {
            // Rows are numbered by u32: `take` saw to it.
            return Ok((0..batch.len() as u32).collect());
        }
        let Context {
            pool, interrupt, ..
        } = &self.context;
        where_rows_are_sorted(batch.len(), pool, interrupt, |stop| {
            if self.given > 0 {
                let (starts, others) = (self.changes(batch), self.keys_from(batch, self.given));
                return sorted_within_runs(batch.len(), &starts, &others, stop);
            }
            let first = self.keys[0];
            if batch.len() >= RUN_ROWS_MIN
                && let Some(starts) = runs_of(&batch.columns()[first.column])
            {
                let heads = batch.columns()[first.column].select(&starts);
                let heads = keys_of(&heads, self.ranks(0), first.order.descending);
                let others = self.keys_from(batch, 1);
                return sorted_by_runs(batch.len(), &starts, &heads, &others, stop);
            }
            sorted_rows(batch.len(), &self.keys_from(batch, 0), stop)
        })
    }

    /// The rows that differ from those before them in a key by which they are in order already, and the first.
    fn changes(&self, batch: &Batch) -> Vec<u32> {
        let given = self.keys[..self.given].iter();
        let columns: Vec<&BatchColumn> = given.map(|key| &batch.columns()[key.column]).collect();
        let changes = |&row: &u32| {
            let row = row as usize;
            let mut columns = columns.iter();
            row == 0 || columns.any(|column| column.has_equal_numbers(row - 1, row) == Some(false))
        };
        // Rows are numbered by u32: `take` saw to it.
        (0..batch.len() as u32).filter(changes).collect()
    }
}

/// Fewer rows are not looked through for runs.
const RUN_ROWS_MIN: usize = 1 << 12;

/// Runs are sorted if they have so many rows on average.
const RUN_ROWS: usize = 4;

/// Where runs of equal numbers of a column begin, if they are long.
fn runs_of(column: &BatchColumn) -> Option<Vec<u32>> {
    let (indices, n) = match column {
        BatchColumn::Words { indices, .. } => (indices, 1),
        BatchColumn::Ngrams { n, indices, .. } => (indices, *n),
        _ => return None,
    };
    let most = column.len() / RUN_ROWS;
    let mut starts = Vec::new();
    let mut last: &[u32] = &[];
    for (row, words) in (0..).zip(indices.chunks_exact(n)) {
        if words != last {
            if starts.len() == most {
                return None;
            }
            starts.push(row);
            last = words;
        }
    }
    Some(starts)
}

/// The rows in order of the numbers of their runs, and then of `others`. `starts` says where runs begin.
fn sorted_by_runs(
    rows: usize,
    starts: &[u32],
    heads: &[RowKey<'_>],
    others: &[RowKey<'_>],
    stop: &AtomicBool,
) -> Result<Vec<u32>> {
    let runs = sorted_rows(starts.len(), heads, stop)?;
    let head = |run: u32| heads.iter().map(move |key| key.number(run));
    let mut spans = SpanSort::new(rows, others);
    for runs in runs.chunk_by(|&left, &right| head(left).eq(head(right))) {
        let rows = |&run: &u32| starts[run as usize]..end_of(starts, run, rows);
        spans.sort(runs.iter().flat_map(rows), stop)?;
    }
    Ok(spans.order)
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

/// Rows of a span that are sorted with their first numbers beside them; more by digits.
const SPAN_ROWS_MAX: usize = 1 << 12;

/// Sorts one span of rows after the other.
struct SpanSort<'a> {
    keys: &'a [RowKey<'a>],
    order: Vec<u32>,
    /// Of the rows at hand: their first numbers and themselves.
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
    // Rows are numbered by u32: `take` saw to it.
    (starts.get(run as usize + 1).copied()).unwrap_or(rows as u32)
}

/// What a batch takes while it is kept, and sorting it.
pub(super) fn bytes_of(batch: &Batch) -> usize {
    let columns = batch.columns().iter().map(BatchColumn::bytes);
    columns.sum::<usize>() + batch.len() * (size_of::<u64>() + ROW_BYTES)
}

/// Rows in order.
pub(super) enum SortedNumbers {
    Kept(KeptNumbers),
    Spilled {
        merge: Merge,
        codec: RowCodec,
        /// Columns behind these are keys alone.
        width: usize,
        context: Context,
    },
}

impl SortedNumbers {
    pub(super) fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        match self {
            SortedNumbers::Kept(kept) => kept.next_batch(rows_max),
            SortedNumbers::Spilled {
                merge,
                codec,
                width,
                context,
            } => {
                let mut key = Vec::new();
                let next = |payload: &mut Vec<u8>| merge.read_next(&mut key, payload);
                let failed = |error| spill_error_in(&context.spill, error);
                let batch = codec.read_batch(rows_max, next, failed)?;
                Ok(batch.map(|batch| batch.narrowed(*width)))
            }
        }
    }
}

/// Gives rows in order. Those of many are gathered by the threads of the pool, some batches ahead.
pub(super) struct KeptNumbers {
    batch: Arc<Batch>,
    order: Arc<Vec<u32>>,
    /// The first place in `order` that is not begun.
    next: usize,
    ahead: WorkAhead<Batch>,
    /// What was gathered and is not given yet.
    rest: BatchRest,
    _reservation: Reservation,
}

/// Fewer rows are gathered when they are asked for.
const AHEAD_ROWS_MIN: usize = 1 << 16;

impl KeptNumbers {
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
        fn sorting_runs_is_sorting_rows(
            runs in proptest::collection::vec((0u64..5, 1usize..9), 1..60),
            values in proptest::collection::vec((-3i64..3, 0u32..3), 540),
            descending: bool,
        ) {
            let (mut starts, mut heads, mut keys) = (Vec::new(), Vec::new(), Vec::new());
            for (head, length) in runs {
                starts.push(keys.len() as u32);
                heads.push(head);
                keys.extend(std::iter::repeat_n(head, length));
            }
            let rows = keys.len();
            let (integers, texts): (Vec<i64>, Vec<u32>) = values.into_iter().unzip();
            let ranks = [2, 0, 1];
            let others = [
                RowKey { numbers: RowKeyNumbers::Integers(&integers), descending },
                RowKey { numbers: RowKeyNumbers::Texts(&texts, Some(&ranks)), descending: false },
            ];
            let heads = [RowKey { numbers: RowKeyNumbers::Plain(&heads), descending: false }];
            for count in 0..=2 {
                let mut expected: Vec<u32> = (0..rows as u32).collect();
                expected.sort_by_key(|&row| {
                    let others = others[..count].iter().map(|key| key.number(row));
                    (keys[row as usize], others.collect::<Vec<_>>())
                });
                let found = sorted_by_runs(rows, &starts, &heads, &others[..count], &NEVER);
                prop_assert_eq!(found.unwrap(), expected);
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
