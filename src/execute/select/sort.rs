//! ORDER BY.
//!
//! All rows are taken before the first is given, within the limit of memory; with a LIMIT only those that may be among the
//! first are kept. Invariant: rows with equal keys keep their order.

use std::sync::Arc;

use zipfdb_sql::query::SortKey;

use super::codec::{Decoder, Encoder};
use super::context::Context;
use super::key::{KeyOrder, add_key};
use super::row::{Input, Operator, WeightedRow, batch_of_rows, row_of};
use super::sort_numbers::{NumberKey, NumberSort, SortedNumbers};
use super::sorter::{Sorted, Sorter};
use super::spill::spill_error_in;
use crate::Result;
use crate::batch::{BATCH_ROWS, Batch};
use crate::expression::{Evaluator, Program};
use crate::runtime::interrupt::Pace;

/// What stays allocated from one row to the next.
const KEPT_BYTES_MAX: usize = 64 << 10;

pub(super) struct Sort {
    state: SortState,
    evaluator: Evaluator<Arc<Program>>,
    keys: Vec<SortKey>,
    /// How many rows are asked for at most.
    limit: Option<u64>,
    pace: Pace,
    context: Context,
}

enum SortState {
    Taking(Input, Sorter),
    Giving(Sorted),
    GivingColumns(SortedNumbers),
    Done,
}

impl Sort {
    /// Sorts by `keys`; `limit` is how many rows are asked for at most.
    pub(super) fn new(
        input: Input,
        program: Arc<Program>,
        keys: Vec<SortKey>,
        limit: Option<u64>,
        context: &Context,
    ) -> Sort {
        let sorter = Sorter::new(
            context.memory,
            context.reservation(),
            &context.spill,
            context.pace(),
            limit,
        );
        Sort {
            state: SortState::Taking(input, sorter),
            evaluator: Evaluator::of(program),
            keys,
            limit,
            pace: context.pace(),
            context: context.clone(),
        }
    }

    fn take_all(&mut self, input: Input, sorter: Sorter) -> Result<SortState> {
        match input.has_columns() {
            true => self.take_columns(input, sorter),
            false => self.take_rows(input, sorter).map(SortState::Giving),
        }
    }

    fn take_rows(&mut self, mut input: Input, mut sorter: Sorter) -> Result<Sorted> {
        let mut buffers = Buffers::default();
        while let Some(row) = input.next()? {
            self.push(row, &mut buffers, &mut sorter)?;
        }
        sorter.finish()
    }

    /// Takes columns as long as their numbers tell the order and fit into memory, and from then on rows.
    fn take_columns(&mut self, mut input: Input, mut sorter: Sorter) -> Result<SortState> {
        let keys = self.number_keys();
        let mut numbers = keys.map(|keys| NumberSort::new(keys, self.limit, &self.context));
        let mut buffers = Buffers::default();
        while let Some(batch) = input.next_batch(BATCH_ROWS)? {
            self.pace.step()?;
            let mut batches = vec![batch];
            if let Some(taking) = &mut numbers {
                if taking.take(&batches[0])? {
                    continue;
                }
                // What was taken comes before the batch that it does not take.
                batches.splice(0..0, taking.give_back());
                numbers = None;
            }
            for batch in &batches {
                for row in 0..batch.len() {
                    self.push(row_of(batch, row), &mut buffers, &mut sorter)?;
                }
            }
        }
        match numbers {
            Some(numbers) => Ok(SortState::GivingColumns(numbers.finish()?)),
            None => sorter.finish().map(SortState::Giving),
        }
    }

    /// The keys, if all are columns.
    fn number_keys(&self) -> Option<Vec<NumberKey>> {
        let keys = self.keys.iter().map(|key| {
            Some(NumberKey {
                column: self.evaluator.program().column(key.expression)?,
                order: order_of(key),
            })
        });
        keys.collect()
    }

    fn push(&mut self, row: WeightedRow, buffers: &mut Buffers, sorter: &mut Sorter) -> Result<()> {
        let Buffers { key, encoder } = buffers;
        self.evaluator.next_row();
        for part in &self.keys {
            let value = self.evaluator.value(&row.values, part.expression)?;
            add_key(value, order_of(part), key, &self.context.values)?;
        }
        sorter.push(key, encoder.row(row))?;
        for buffer in [key, &mut encoder.bytes] {
            buffer.clear();
            buffer.shrink_to(KEPT_BYTES_MAX);
        }
        Ok(())
    }

    /// Sorts, if that is not done yet.
    fn settle(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.state, SortState::Done) {
            SortState::Taking(input, sorter) => self.state = self.take_all(input, sorter)?,
            state => self.state = state,
        }
        Ok(())
    }
}

/// What is reused from one row to the next.
#[derive(Default)]
struct Buffers {
    key: Vec<u8>,
    encoder: Encoder,
}

fn order_of(key: &SortKey) -> KeyOrder {
    KeyOrder {
        collation: key.collation,
        descending: key.descending,
        nulls_first: key.nulls_first,
    }
}

impl Operator for Sort {
    fn next(&mut self) -> Result<Option<WeightedRow>> {
        self.settle()?;
        self.pace.step()?;
        let sorted = match &mut self.state {
            SortState::GivingColumns(sorted) => return Ok(sorted.next()),
            SortState::Giving(sorted) => sorted,
            SortState::Taking(..) | SortState::Done => return Ok(None),
        };
        let Some((_, payload)) = sorted.next()? else {
            self.state = SortState::Done;
            return Ok(None);
        };
        let row = Decoder { bytes: &payload }.row();
        Ok(Some(row.map_err(|error| {
            spill_error_in(&self.context.spill, error)
        })?))
    }

    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        self.settle()?;
        self.pace.step()?;
        match &mut self.state {
            SortState::GivingColumns(sorted) => Ok(sorted.next_batch(rows_max)),
            _ => batch_of_rows(rows_max, || self.next()),
        }
    }

    fn has_columns(&self) -> bool {
        match &self.state {
            SortState::Taking(input, _) => input.has_columns(),
            SortState::GivingColumns(_) => true,
            SortState::Giving(_) | SortState::Done => false,
        }
    }
}
