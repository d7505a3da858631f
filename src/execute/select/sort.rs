//! ORDER BY.
//!
//! Rows are taken before the first is given, within the limit of memory; with a LIMIT only those that may be among the first are
//! kept. Of rows that come in the order of the first keys already, only as many are taken at a time as lie between two
//! changes of these keys. Invariant: rows with equal keys keep their order.

use std::sync::Arc;

use zipfdb_sql::query::{ExpressionId, SortKey};

use super::codec::{Encoder, RowCodec};
use super::context::Context;
use super::expression_values::ExpressionValues;
use super::key::{KeyOrder, add_key};
use super::ranked_texts::RankedTexts;
use super::row::{Input, KEPT_BYTES_MAX, Operator, RowAtHand};
use super::sort_numbers::{NumberKey, NumberSort, SortedNumbers, bytes_of};
use super::sorter::{Sorted, Sorter};
use super::spill::spill_error_in;
use crate::batch::{BATCH_ROWS, Batch, BatchColumn, ColumnBuilder};
use crate::expression::{Evaluator, Program};
use crate::runtime::interrupt::Pace;
use crate::{Result, Value};

pub(super) struct Sort {
    /// None once all rows are taken.
    input: Option<Input>,
    /// Rows that were taken and are not sorted yet.
    ahead: Option<Batch>,
    sorted: SortedRows,
    numbers: NumberSort,
    evaluator: Evaluator<Arc<Program>>,
    keys: Vec<SortKey>,
    /// Keys that are neither columns nor constants.
    computed: Vec<ComputedKey>,
    /// The columns by which rows come in order already: the first keys.
    given: Vec<usize>,
    /// How many rows are asked for at most.
    limit: Option<u64>,
    for_keys: RowAtHand,
    codec: RowCodec,
    key: Vec<u8>,
    encoder: Encoder,
    pace: Pace,
    context: Context,
}

/// A key that has to be computed: as places of texts, or as values.
struct ComputedKey {
    places: RankedTexts,
    values: ExpressionValues,
    /// Whether rows that are sorted together have places, if the first of them are there: they do not compare with values.
    has_places: Option<bool>,
}

/// Rows in order.
enum SortedRows {
    None,
    Numbers(Box<SortedNumbers>),
    Records(Sorted),
}

/// The part of memory that rows may take while it is not known whether places of texts pay.
const WAITING_SHARE: usize = 8;

/// Rows that are sorted at a time at least, if they come in order of the first keys.
const PART_ROWS: usize = if cfg!(test) { 16 } else { 1 << 15 };

impl Sort {
    /// Sorts rows of `width` columns by `keys`, by the first `given` of which they come in order already; `limit` is how many
    /// rows are asked for at most.
    pub(super) fn new(
        input: Input,
        (program, width): (Arc<Program>, usize),
        keys: Vec<SortKey>,
        given: usize,
        limit: Option<u64>,
        context: &Context,
    ) -> Sort {
        let numbers = number_keys(&keys, &program, width);
        let ids = keys.iter().map(|key| key.expression);
        let is_computed =
            |id: ExpressionId| program.column(id).is_none() && program.constant(id).is_none();
        let computed = keys.iter().filter(|key| is_computed(key.expression));
        let places = computed.clone().map(|key| RankedTexts::new(key, &program));
        let computed: Vec<ExpressionId> = computed.map(|key| key.expression).collect();
        let values = ExpressionValues::all(&computed, &program, context.memory);
        Sort {
            input: Some(input),
            ahead: None,
            sorted: SortedRows::None,
            numbers: NumberSort::new(numbers, given, width, limit, context),
            given: ids
                .clone()
                .take(given)
                .map_while(|id| program.column(id))
                .collect(),
            for_keys: RowAtHand::new(program.columns(ids)),
            computed: places
                .zip(values)
                .map(|(places, values)| ComputedKey {
                    places,
                    values,
                    has_places: None,
                })
                .collect(),
            evaluator: Evaluator::of(program),
            keys,
            limit,
            codec: RowCodec::default(),
            key: Vec::new(),
            encoder: Encoder::default(),
            pace: context.pace(),
            context: context.clone(),
        }
    }

    /// The next rows of the part that has `taken` rows so far, and whether they are its last.
    fn next_of_part(&mut self, taken: usize) -> Result<Option<(Batch, bool)>> {
        self.pace.step()?;
        let next = match (self.ahead.take(), &mut self.input) {
            (Some(batch), _) => Some(batch),
            (None, Some(input)) => input.next_batch(BATCH_ROWS)?,
            (None, None) => None,
        };
        let Some(batch) = next else {
            self.input = None;
            return Ok(None);
        };
        if self.given.is_empty() || taken + batch.len() < PART_ROWS {
            return Ok(Some((batch, false)));
        }
        let change = (1..batch.len())
            .rev()
            .find(|&row| self.changes(&batch, row));
        let Some(change) = change else {
            return Ok(Some((batch, false)));
        };
        self.ahead = Some(batch.slice(change..batch.len()));
        Ok(Some((batch.slice(0..change), true)))
    }

    /// Whether a row differs from the one before it in a column by which rows come in order.
    fn changes(&self, batch: &Batch, row: usize) -> bool {
        let mut columns = self.given.iter().map(|&column| &batch.columns()[column]);
        columns.any(|column| column.has_equal_numbers(row - 1, row) == Some(false))
    }

    /// Takes and sorts the rows that come before all that follow.
    fn sort_part(&mut self) -> Result<SortedRows> {
        let (mut sorter, mut waiting) = (None, Vec::new());
        let (mut taken, mut bytes, mut is_settled) = (0, 0, false);
        self.computed
            .iter_mut()
            .for_each(|key| key.has_places = None);
        while let Some((batch, is_last)) = self.next_of_part(taken)? {
            taken += batch.len();
            bytes += bytes_of(&batch);
            waiting.push(batch);
            if is_last {
                break;
            }
            // Once for all rows of the part: places of another dictionary would compare with those of the first.
            if is_settled || self.settles_places(&waiting, taken, bytes)? {
                is_settled = true;
                for batch in waiting.drain(..) {
                    self.take(batch, &mut sorter)?;
                }
            }
        }
        for batch in waiting {
            self.take(batch, &mut sorter)?;
        }
        Ok(match sorter {
            Some(sorter) => SortedRows::Records(sorter.finish()?),
            None => SortedRows::Numbers(Box::new(self.numbers.finish()?)),
        })
    }

    /// Says whether the batches that are `waiting` can be taken. Places of texts are made before, once there are enough `rows`, or they take
    /// too many `bytes` to wait for more.
    fn settles_places(&mut self, waiting: &[Batch], rows: usize, bytes: usize) -> Result<bool> {
        let [first, ..] = waiting else {
            return Ok(true);
        };
        for key in &mut self.computed {
            let wanted = key.places.rows_wanted(first);
            if wanted.is_some_and(|wanted| rows < wanted)
                && bytes < self.context.memory / WAITING_SHARE
            {
                return Ok(false);
            }
            if wanted.is_some() {
                key.places.make(first, &self.context)?;
            }
        }
        Ok(true)
    }

    /// Takes a batch, by numbers or else to a sorter of records.
    fn take(&mut self, batch: Batch, sorter: &mut Option<Sorter>) -> Result<()> {
        if sorter.is_some() {
            return self.push(batch, sorter);
        }
        let width = batch.columns().len();
        let batch = self.with_keys(batch)?;
        let Some(batch) = self.numbers.take(batch)? else {
            return Ok(());
        };
        // What was taken comes before the batch that it does not take, and equal rows stay in order.
        let mut before = self.numbers.finish()?;
        while let Some(batch) = before.next_batch(BATCH_ROWS)? {
            self.push(batch, sorter)?;
        }
        self.push(batch.narrowed(width), sorter)
    }

    /// A batch with its computed keys behind its columns.
    fn with_keys(&mut self, mut batch: Batch) -> Result<Batch> {
        let mut columns = Vec::with_capacity(self.computed.len());
        for key in &mut self.computed {
            let places = key.places.column(&batch);
            if *key.has_places.get_or_insert(places.is_some()) {
                // What is no number is not sorted by numbers, and then all rows are sorted by their values.
                let none = || BatchColumn::Values(vec![Value::Null; batch.len()]);
                columns.push(places.unwrap_or_else(none));
                continue;
            }
            let values = &mut key.values;
            let mut column = ColumnBuilder::default();
            for row in 0..batch.len() {
                self.pace.step()?;
                values.with(&mut batch, row, &mut self.evaluator, |value| {
                    column.push_copy(value);
                    Ok(())
                })?;
            }
            columns.push(column.finish());
        }
        Ok(match columns.is_empty() {
            true => batch,
            false => batch.widened(columns),
        })
    }

    /// Hands the rows of a batch to a sorter of records.
    fn push(&mut self, mut batch: Batch, sorter: &mut Option<Sorter>) -> Result<()> {
        let context = &self.context;
        let sorter = sorter.get_or_insert_with(|| {
            let (memory, reservation) = (context.memory, context.reservation());
            Sorter::new(
                memory,
                reservation,
                &context.spill,
                context.pace(),
                self.limit,
            )
        });
        for row in 0..batch.len() {
            self.evaluator.next_row();
            let (evaluator, keys, key) = (&mut self.evaluator, &self.keys, &mut self.key);
            self.for_keys.with(&mut batch, row, |row| {
                for part in keys {
                    let value = evaluator.value(row, part.expression)?;
                    add_key(value, KeyOrder::of(part), key, &context.values)?;
                }
                Ok(())
            })?;
            self.codec.write(&mut batch, row, &mut self.encoder);
            sorter.push(&self.key, &self.encoder.bytes)?;
            for buffer in [&mut self.key, &mut self.encoder.bytes] {
                buffer.clear();
                buffer.shrink_to(KEPT_BYTES_MAX);
            }
        }
        Ok(())
    }

    /// The next rows of records that are sorted.
    fn read(&self, sorted: &mut Sorted, rows_max: usize) -> Result<Option<Batch>> {
        let next = |payload: &mut Vec<u8>| {
            let record = sorted.next()?;
            let is_there = record.is_some();
            *payload = record.map_or_else(Vec::new, |(_, payload)| payload);
            Ok(is_there)
        };
        let failed = |error| spill_error_in(&self.context.spill, error);
        self.codec.read_batch(rows_max, next, failed)
    }
}

/// The keys as columns of rows that have `width`, computed ones behind them; constants order nothing.
fn number_keys(keys: &[SortKey], program: &Program, width: usize) -> Vec<NumberKey> {
    let mut computed = width..;
    let keys = keys.iter().filter_map(|key| {
        let column = match (
            program.column(key.expression),
            program.constant(key.expression),
        ) {
            (Some(column), _) => Some(column),
            (None, Some(_)) => None,
            (None, None) => computed.next(),
        };
        Some(NumberKey {
            column: column?,
            order: KeyOrder::of(key),
        })
    });
    keys.collect()
}

impl Operator for Sort {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        loop {
            self.pace.step()?;
            let mut sorted = std::mem::replace(&mut self.sorted, SortedRows::None);
            let batch = match &mut sorted {
                SortedRows::Numbers(sorted) => sorted.next_batch(rows_max)?,
                SortedRows::Records(sorted) => self.read(sorted, rows_max)?,
                SortedRows::None => None,
            };
            if batch.is_some() {
                self.sorted = sorted;
                return Ok(batch);
            }
            drop(sorted);
            if self.input.is_none() && self.ahead.is_none() {
                return Ok(None);
            }
            self.sorted = self.sort_part()?;
        }
    }
}
