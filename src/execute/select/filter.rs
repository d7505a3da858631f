//! WHERE and HAVING: rows for which all conditions are true.
//!
//! Invariant: rows pass unchanged and in order.

use std::sync::Arc;

use zipfdb_sql::query::ExpressionId;

use super::context::Context;
use super::row::{BatchRest, ENTRIES_SHARE, Input, LateError, Operator};
use crate::Result;
use crate::batch::{BATCH_ROWS, Batch};
use crate::expression::{Evaluator, Program};
use crate::runtime::interrupt::Pace;

pub(super) struct Filter {
    input: Input,
    evaluator: Evaluator<Arc<Program>>,
    conditions: Vec<ExpressionId>,
    /// Rows that passed and are not returned yet.
    rest: BatchRest,
    late: LateError,
    pace: Pace,
}

impl Filter {
    pub(super) fn new(
        input: Input,
        program: Arc<Program>,
        conditions: Vec<ExpressionId>,
        context: &Context,
    ) -> Filter {
        Filter {
            input,
            evaluator: Evaluator::of_batches(program, context.memory / ENTRIES_SHARE),
            conditions,
            rest: BatchRest::default(),
            late: LateError::default(),
            pace: context.pace(),
        }
    }

    /// Appends the rows of a batch that pass.
    fn decide(&mut self, batch: &Batch, passing: &mut Vec<u32>) -> Result<()> {
        for row in 0..batch.len() {
            self.pace.step()?;
            self.evaluator.next_row();
            if self.evaluator.are_true((batch, row), &self.conditions)? {
                // A batch has fewer rows than 2^32.
                passing.push(row as u32);
            }
        }
        Ok(())
    }
}

impl Operator for Filter {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        let mut wanted = rows_max;
        loop {
            if let Some(batch) = self.rest.take(rows_max) {
                return Ok(Some(batch));
            }
            self.late.check()?;
            let Some(batch) = self.input.next_batch(wanted)? else {
                return Ok(None);
            };
            let mut passing = Vec::new();
            let ended = self.decide(&batch, &mut passing);
            let passed = match passing.len() {
                0 => None,
                all if all == batch.len() => Some(batch),
                _ => Some(batch.select(&passing)),
            };
            self.rest = BatchRest::of(self.late.after(passed, ended)?);
            // Where few rows pass, the number of rows to read doubles.
            wanted = wanted.saturating_mul(2).min(BATCH_ROWS.max(rows_max));
        }
    }
}
