//! `ExternalSort`: rows in order of some keys, within a limit of memory.
//!
//! Rows stay columns as they come, and row numbers are sorted. A key becomes one or more numbers a row that compare as its values
//! (`number_keys.rs`): integers, reals and texts whose numbers tell their order are those of the column; the values of an
//! expression that one dictionary column decides are interned, and ranked when rows are sorted; what is none of these is kept as bytes
//! (`key.rs`) and ranked. Where the first key has long runs of equal values, as n-grams with their files have, runs are sorted and not
//! rows, and then the rows of equal runs by the other keys. Where rows come in order of the first keys already, only rows that are
//! equal in these are sorted. With a limit, rows that cannot be among the first are dropped now and then. Rows that do not fit
//! into memory are sorted and written as a run, by numbers that mean the same in all runs and otherwise by bytes. Invariant: the order
//! is that of `key.rs`, and equal rows keep theirs.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use zipfdb_sql::query::{ExpressionId, SortKey};

use super::codec::{Encoder, RowCodec};
use super::context::Context;
use super::key::{KeyOrder, add_key};
use super::key_numbers::{KeyNumbers, KeyUse, Look};
use super::number_keys::{
    RowKey, RowKeyNumbers, keys_of, sort_by_keys, sorted_rows, where_rows_are_sorted,
};
use super::row::{BatchRest, ENTRIES_SHARE};
use super::spill::{Merge, SpilledRuns, spill_error_in};
use super::word_order::{TextOrder, ranks, text_order};
use crate::batch::{BATCH_ROWS, Batch, BatchColumn, ColumnBuilder, TextColumn};
use crate::expression::{Evaluator, Program};
use crate::runtime::ahead::WorkAhead;
use crate::runtime::interrupt::check;
use crate::segment::cache::Reservation;
use crate::{Result, Value};

/// What rows are sorted by.
struct SortColumn {
    expression: ExpressionId,
    /// The column of the rows that it is.
    column: Option<usize>,
    order: KeyOrder,
    form: SortForm,
}

/// How the values of a key are kept.
enum SortForm {
    /// No row was there yet.
    Unknown,
    /// As numbers of a column of the kind of this empty one, and how those of texts tell their order.
    Numbers(BatchColumn, Option<TextOrder>),
    /// Interned, the numbers in a column of their own.
    Interned(KeyNumbers),
    /// As bytes, in a column of their own.
    Bytes,
}

/// What sorting takes for a row beside its columns: a pair of number and row, and a place.
const ROW_BYTES: usize = size_of::<(u64, u32)>() + size_of::<u32>();

/// Takes batches.
pub(super) struct ExternalSort {
    keys: Vec<SortColumn>,
    /// The number of first keys that rows come in order of already.
    given: usize,
    /// Columns behind these are keys alone, in the order of the keys that have columns of their own.
    width: usize,
    limit: Option<usize>,
    evaluator: Evaluator<Arc<Program>>,
    context: Context,
    reservation: Reservation,
    /// What was taken, and may be among the first.
    kept: Option<Batch>,
    kept_bytes: usize,
    /// A row whose first key is beyond this is not among the first.
    bound: Option<SortBound>,
    /// What was taken before that and did not fit.
    spilled: Option<SpilledRows>,
}

/// The first key of a row.
enum SortBound {
    Number(u64),
    Bytes(Vec<u8>),
    Value(Value),
}

/// Rows in runs.
struct SpilledRows {
    runs: SpilledRuns,
    codec: RowCodec,
}

impl ExternalSort {
    /// Sorts rows of `width` columns by `keys`, by the first `given` of which they come in order already; `limit` is how many
    /// rows are asked for at most.
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
        let keys = keys.map(|key| SortColumn {
            expression: key.expression,
            column: program.column(key.expression),
            order: KeyOrder::of(key),
            form: SortForm::Unknown,
        });
        ExternalSort {
            keys: keys.collect(),
            given,
            width,
            // A limit that is larger than memory is as good as none.
            limit: limit.and_then(|limit| usize::try_from(limit).ok()),
            evaluator: Evaluator::of_batches(program.clone(), context.memory / ENTRIES_SHARE),
            reservation: context.reservation(),
            context: context.clone(),
            kept: None,
            kept_bytes: 0,
            bound: None,
            spilled: None,
        }
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
            if !self.begin(index, &batch)? || !self.add_column(index, &batch, &mut columns)? {
                return self.take_as_bytes(index, batch);
            }
        }
        let mut batch = batch.widened(columns);
        if let Some(rows) = self.within_bound(&batch) {
            batch = batch.select(&rows);
        }
        let bytes = bytes_of(&batch);
        if batch.is_empty() {
            return Ok(());
        }
        if !self.has_room(&batch, bytes) && self.make_room(&batch, bytes)? {
            // What was interned for the batch has been forgotten.
            return self.take(batch.narrowed(self.width));
        }
        self.kept_bytes += bytes;
        match &mut self.kept {
            Some(kept) => kept.append(&batch),
            none => *none = Some(batch),
        }
        let rows = self.kept.as_ref().map_or(0, Batch::len);
        let most = self.limit.map(|limit| limit.max(BATCH_ROWS));
        if most.is_some_and(|most| rows / 2 > most) {
            self.keep_first()?;
        }
        self.reservation
            .cover(self.bytes().min(self.context.memory));
        Ok(())
    }

    /// Makes room for a batch that takes `bytes` bytes; says whether what was kept has been written.
    fn make_room(&mut self, batch: &Batch, bytes: usize) -> Result<bool> {
        if self.kept.is_none() {
            return Ok(false);
        }
        self.keep_first()?;
        // What is behind the limit has gone; soon there would be no room again if that was little.
        let is_full = self.kept_bytes > self.context.memory / 2 || !self.has_room(batch, bytes);
        if is_full {
            self.spill()?;
        }
        Ok(is_full)
    }

    /// Takes all rows anew, and a batch behind them, with bytes for the values of a key.
    fn take_as_bytes(&mut self, key: usize, batch: Batch) -> Result<()> {
        let before = self.finish()?;
        self.keys[key].form = SortForm::Bytes;
        // What was taken comes before the batch, and equal rows stay in order.
        if let Some(mut before) = before {
            while let Some(batch) = before.next_batch(BATCH_ROWS)? {
                self.take(batch)?;
            }
        }
        self.take(batch)
    }

    /// Goes on to a batch: decides the form of a key, and says whether it can have that of the batches before.
    fn begin(&mut self, index: usize, batch: &Batch) -> Result<bool> {
        let key = &mut self.keys[index];
        let column = key.column.map(|column| &batch.columns()[column]);
        match (&mut key.form, column) {
            (SortForm::Numbers(kind, _), Some(column)) => return Ok(column.is_like(kind)),
            (SortForm::Interned(numbers), _) => {
                numbers.begin(batch);
            }
            (SortForm::Unknown, Some(column)) => {
                key.form = form_of(column, key.order, &self.context)?;
            }
            (SortForm::Unknown, None) => {
                let program = self.evaluator.program();
                let sole = program.decisive_column(key.expression);
                let sole = sole.map(|column| &batch.columns()[column]);
                if matches!(sole, Some(BatchColumn::Words { .. })) {
                    let share = self.context.memory / ENTRIES_SHARE;
                    let mut numbers =
                        KeyNumbers::new(key.expression, KeyUse::Identity, program, share);
                    numbers.begin(batch);
                    key.form = SortForm::Interned(numbers);
                }
            }
            (SortForm::Numbers(..), None) | (SortForm::Bytes, _) => {}
        }
        Ok(true)
    }

    /// Appends the column of a key, if it has one of its own; says whether its values have the form of those before.
    fn add_column(
        &mut self,
        index: usize,
        batch: &Batch,
        columns: &mut Vec<BatchColumn>,
    ) -> Result<bool> {
        let key = &mut self.keys[index];
        let evaluator = &mut self.evaluator;
        let rows = batch.len();
        match &mut key.form {
            SortForm::Numbers(..) if key.column.is_some() => {}
            SortForm::Interned(numbers) => {
                let mut interned = vec![0; rows];
                let mut look = Look {
                    evaluator: Some(evaluator),
                    memory: &self.context.values,
                    keeps: true,
                };
                numbers.number(batch, 0..rows, &mut look, (0, 1), &mut interned)?;
                let interned = interned.into_iter().map(u64::cast_signed);
                columns.push(BatchColumn::Integers(interned.collect()));
            }
            SortForm::Bytes => {
                let mut keys = TextColumn::default();
                for row in 0..rows {
                    evaluator.next_row();
                    let value = evaluator.value((batch, row), key.expression)?;
                    push_key_bytes(&mut keys, value, key.order, &self.context)?;
                }
                columns.push(BatchColumn::Texts(keys));
            }
            SortForm::Unknown | SortForm::Numbers(..) => {
                let mut values = ColumnBuilder::default();
                for row in 0..rows {
                    evaluator.next_row();
                    values.push_copy(evaluator.value((batch, row), key.expression)?);
                }
                let values = values.finish();
                if let SortForm::Numbers(kind, _) = &key.form {
                    let is_like = values.is_like(kind);
                    columns.push(values);
                    return Ok(is_like);
                }
                key.form = form_of(&values, key.order, &self.context)?;
                columns.push(match key.form {
                    SortForm::Bytes => {
                        let mut keys = TextColumn::default();
                        for row in 0..rows {
                            push_key_bytes(&mut keys, &values.lent(row), key.order, &self.context)?;
                        }
                        BatchColumn::Texts(keys)
                    }
                    _ => values,
                });
            }
        }
        Ok(true)
    }

    /// All rows that were taken, in order; with a limit perhaps more than it. None if there are none. Others may be taken from now on.
    pub(super) fn finish(&mut self) -> Result<Option<SortedRows>> {
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
            ahead: WorkAhead::new(pool, interrupt),
            rest: BatchRest::default(),
            _reservation: std::mem::replace(&mut self.reservation, unused),
        })))
    }

    /// About how many bytes is taken.
    fn bytes(&self) -> usize {
        let interned = self.keys.iter().map(|key| match &key.form {
            SortForm::Interned(numbers) => numbers.bytes(),
            _ => 0,
        });
        self.kept_bytes + self.evaluator.entry_bytes() + interned.sum::<usize>()
    }

    /// Whether a batch that takes `bytes` bytes fits beside what is kept.
    fn has_room(&self, batch: &Batch, bytes: usize) -> bool {
        let rows = self.kept.as_ref().map_or(0, Batch::len) + batch.len();
        self.bytes() + bytes <= self.context.memory && u32::try_from(rows).is_ok()
    }

    /// Writes what is kept as a run.
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

    /// Appends the keys of rows as they stand in a run, and where each ends.
    fn add_run_keys(
        &self,
        batch: &Batch,
        rows: &[u32],
        target: &mut Vec<u8>,
        ends: &mut Vec<usize>,
    ) -> Result<()> {
        let columns = columns_of(&self.keys, self.width, batch);
        let keys: Vec<_> = self.keys.iter().zip(columns).collect();
        let numbers = keys.iter().map(|(key, column)| key.numbers(column));
        let numbers: Vec<Vec<RowKey<'_>>> = numbers.collect();
        for &row in rows {
            for ((key, column), numbers) in keys.iter().zip(&numbers) {
                match (&key.form, column) {
                    (SortForm::Interned(values), column) => {
                        let value = values.value(&[interned(column, row)]);
                        add_key(&value, key.order, target, &self.context.values)?;
                    }
                    (SortForm::Bytes, BatchColumn::Texts(keys)) => {
                        target.extend_from_slice(keys.get(row as usize));
                    }
                    _ => {
                        let numbers = numbers.iter().map(|key| key.number(row));
                        numbers.for_each(|number| target.extend_from_slice(&number.to_be_bytes()));
                    }
                }
            }
            ends.push(target.len());
        }
        Ok(())
    }

    /// Forgets what was interned for rows that are kept no more.
    fn forget(&mut self) {
        self.kept_bytes = 0;
        for key in &mut self.keys {
            if let SortForm::Interned(numbers) = &mut key.form {
                numbers.clear();
            }
        }
    }

    /// The rows of a batch that may be among the first; none if all may.
    fn within_bound(&self, batch: &Batch) -> Option<Vec<u32>> {
        let (bound, key) = (self.bound.as_ref()?, self.keys.first()?);
        let column = columns_of(&self.keys, self.width, batch).next()?;
        let numbers = key.numbers(column);
        let is_within = |&row: &u32| match (bound, &key.form, column) {
            (SortBound::Number(bound), ..) => numbers[0].number(row) <= *bound,
            (SortBound::Bytes(bound), _, BatchColumn::Texts(keys)) => {
                keys.get(row as usize) <= &bound[..]
            }
            (SortBound::Value(bound), SortForm::Interned(values), column) => {
                let value = values.value(&[interned(column, row)]);
                key.order.compare(&value, bound).is_le()
            }
            _ => true,
        };
        // A batch has fewer rows than 2^32.
        let rows: Vec<u32> = (0..batch.len() as u32).filter(is_within).collect();
        (rows.len() < batch.len()).then_some(rows)
    }

    /// The first key of a row.
    fn bound_of(&self, batch: &Batch, row: u32) -> Option<SortBound> {
        let key = self.keys.first()?;
        let column = columns_of(&self.keys, self.width, batch).next()?;
        Some(match (&key.form, column) {
            (SortForm::Interned(values), column) => {
                SortBound::Value(values.value(&[interned(column, row)]).into_owned())
            }
            (SortForm::Bytes, BatchColumn::Texts(keys)) => {
                SortBound::Bytes(keys.get(row as usize).to_vec())
            }
            _ => SortBound::Number(key.numbers(column)[0].number(row)),
        })
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
        if let (Some(&last), true) = (order.last(), order.len() == limit) {
            self.bound = self.bound_of(&kept, last);
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
        let rows = batch.len();
        if self.keys.is_empty() || batch.is_empty() {
            // Rows are numbered by u32: `has_room` saw to it.
            return Ok((0..rows as u32).collect());
        }
        let columns: Vec<&BatchColumn> = columns_of(&self.keys, self.width, batch).collect();
        let ranks = self.keys.iter().zip(&columns);
        let ranks = ranks.map(|(key, column)| key.ranks(column, &self.context));
        let ranks = ranks.collect::<Result<Vec<_>>>()?;
        let keys = &self.keys;
        let keys_from = |first: usize| {
            let keys = keys[first..].iter().zip(&columns[first..]);
            let keys = keys
                .zip(&ranks[first..])
                .flat_map(|((key, column), ranks)| {
                    let ranks = ranks.iter().map(|ranks| RowKey {
                        numbers: RowKeyNumbers::Plain(ranks),
                        descending: false,
                    });
                    key.numbers(column).into_iter().chain(ranks)
                });
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
            if rows >= RUN_ROWS_MIN
                && matches!(keys[0].form, SortForm::Numbers(..))
                && let Some(starts) = runs_of(columns[0])
            {
                let heads = columns[0].select(&starts);
                return sorted_by_runs(
                    rows,
                    &starts,
                    &keys[0].numbers(&heads),
                    &keys_from(1),
                    stop,
                );
            }
            sorted_rows(rows, &keys_from(0), stop)
        })
    }
}

impl SortColumn {
    /// Whether its values are in a column that only it has.
    fn has_own_column(&self) -> bool {
        self.column.is_none() || !matches!(self.form, SortForm::Numbers(..))
    }

    /// The numbers of rows, if they are those of the column.
    fn numbers<'a>(&'a self, column: &'a BatchColumn) -> Vec<RowKey<'a>> {
        let SortForm::Numbers(_, order) = &self.form else {
            return Vec::new();
        };
        let ranks = match column {
            BatchColumn::Words { dictionary, .. } | BatchColumn::Ngrams { dictionary, .. } => {
                order.as_ref().and_then(|order| order.ranks(dictionary))
            }
            _ => None,
        };
        keys_of(column, ranks, self.order.descending)
    }

    /// The places of the values of rows in the order of the key, if these are not numbers of the column.
    fn ranks(&self, column: &BatchColumn, context: &Context) -> Result<Vec<Vec<u64>>> {
        match (&self.form, column) {
            (SortForm::Interned(values), BatchColumn::Integers(numbers)) => {
                let numbers = numbers.iter().map(|number| number.cast_unsigned());
                let numbers: Vec<u64> = numbers.collect();
                values.ordered(numbers.chunks_exact(1), self.order, context)
            }
            (SortForm::Bytes, BatchColumn::Texts(keys)) => {
                let key = |row: u32| keys.get(row as usize);
                let ranks = ranks(keys.len(), |left, right| key(left).cmp(key(right)), context)?;
                Ok(vec![ranks.into_iter().map(u64::from).collect()])
            }
            _ => Ok(Vec::new()),
        }
    }
}

/// The columns of keys in a batch that has `width` columns before those that keys have for themselves.
fn columns_of<'a>(
    keys: &'a [SortColumn],
    width: usize,
    batch: &'a Batch,
) -> impl Iterator<Item = &'a BatchColumn> {
    let mut own = width..;
    keys.iter().filter_map(move |key| {
        let column = key.column.filter(|_| !key.has_own_column());
        let column = column.or_else(|| own.next())?;
        batch.columns().get(column)
    })
}

/// The number of a value that was interned.
fn interned(column: &BatchColumn, row: u32) -> u64 {
    match column {
        BatchColumn::Integers(numbers) => numbers[row as usize].cast_unsigned(),
        _ => unreachable!("numbers of values that are interned are integers"),
    }
}

/// The form of a key whose values are those of a column.
fn form_of(column: &BatchColumn, order: KeyOrder, context: &Context) -> Result<SortForm> {
    let (dictionary, in_ngrams) = match column {
        BatchColumn::Integers(_) | BatchColumn::Reals(_) => {
            return Ok(SortForm::Numbers(column.empty(), None));
        }
        BatchColumn::Words { dictionary, .. } => (dictionary, false),
        BatchColumn::Ngrams { dictionary, .. } => (dictionary, true),
        BatchColumn::Texts(_) | BatchColumn::Values(_) => return Ok(SortForm::Bytes),
    };
    let on = (&*context.pool, &context.interrupt);
    let order = text_order(dictionary, in_ngrams, order.collation, on)?;
    Ok(match order {
        None => SortForm::Bytes,
        order => SortForm::Numbers(column.empty(), order),
    })
}

/// Appends the bytes of a key.
fn push_key_bytes(
    keys: &mut TextColumn,
    value: &Value,
    order: KeyOrder,
    context: &Context,
) -> Result<()> {
    add_key(value, order, &mut keys.bytes, &context.values)?;
    keys.offsets.push(keys.bytes.len() as u64);
    Ok(())
}

/// The rows that differ from those before them in columns of numbers, and the first.
fn changes(columns: &[&BatchColumn], rows: usize) -> Vec<u32> {
    let changes = |&row: &u32| {
        let row = row as usize;
        let mut columns = columns.iter();
        row == 0 || columns.any(|column| column.has_equal_numbers(row - 1, row) == Some(false))
    };
    // Rows are numbered by u32: `has_room` saw to it.
    (0..rows as u32).filter(changes).collect()
}

/// Fewer rows are not looked through for runs.
const RUN_ROWS_MIN: usize = 1 << 12;

/// The average rows of a run from which runs are sorted.
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
    // Rows are numbered by u32: `has_room` saw to it.
    (starts.get(run as usize + 1).copied()).unwrap_or(rows as u32)
}

/// What a batch takes while it is kept, and sorting it.
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
                let failed = |error| spill_error_in(&context.spill, error);
                codec.read_batch(rows_max, next, failed)
            }
        }
    }
}

/// Gives rows in order. Those of many are gathered by the threads of the pool, some batches ahead.
pub(super) struct KeptRows {
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
