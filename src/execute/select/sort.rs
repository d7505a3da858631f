//! ORDER BY.
//!
//! All rows are taken before the first is given, within the limit of memory; with a LIMIT only those that may be among the
//! first are kept. Invariant: rows with equal keys keep their order.

use std::sync::Arc;

use zipfdb_sql::query::SortKey;

use super::codec::{Decoder, Encoder};
use super::context::Context;
use super::key::{KeyOrder, add_key};
use super::row::{Input, Operator, WeightedRow};
use super::sorter::{Sorted, Sorter};
use super::spill::spill_error_in;
use crate::Result;
use crate::expression::{Evaluator, Program};
use crate::runtime::interrupt::Pace;

/// What stays allocated from one row to the next.
const KEPT_BYTES_MAX: usize = 64 << 10;

pub(super) struct Sort {
    state: SortState,
    evaluator: Evaluator<Arc<Program>>,
    keys: Vec<SortKey>,
    pace: Pace,
    context: Context,
}

enum SortState {
    Taking(Input, Sorter),
    Giving(Sorted),
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
            pace: context.pace(),
            context: context.clone(),
        }
    }

    fn take_all(&mut self, mut input: Input, mut sorter: Sorter) -> Result<Sorted> {
        let mut key = Vec::new();
        let mut encoder = Encoder::default();
        while let Some(row) = input.next()? {
            self.evaluator.next_row();
            for part in &self.keys {
                let order = KeyOrder {
                    collation: part.collation,
                    descending: part.descending,
                    nulls_first: part.nulls_first,
                };
                let value = self.evaluator.value(&row.values, part.expression)?;
                add_key(value, order, &mut key, &self.context.values)?;
            }
            sorter.push(&key, encoder.row(row))?;
            for buffer in [&mut key, &mut encoder.bytes] {
                buffer.clear();
                buffer.shrink_to(KEPT_BYTES_MAX);
            }
        }
        sorter.finish()
    }
}

impl Operator for Sort {
    fn next(&mut self) -> Result<Option<WeightedRow>> {
        let mut sorted = match std::mem::replace(&mut self.state, SortState::Done) {
            SortState::Taking(input, sorter) => self.take_all(input, sorter)?,
            SortState::Giving(sorted) => sorted,
            SortState::Done => return Ok(None),
        };
        self.pace.step()?;
        let Some((_, payload)) = sorted.next()? else {
            return Ok(None);
        };
        self.state = SortState::Giving(sorted);
        let row = Decoder { bytes: &payload }.row();
        Ok(Some(row.map_err(|error| {
            spill_error_in(&self.context.spill, error)
        })?))
    }
}
