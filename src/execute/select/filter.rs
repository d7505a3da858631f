//! WHERE and HAVING: rows for which all conditions are true.
//!
//! Invariant: rows pass unchanged and in order.

use std::sync::Arc;

use zipfdb_sql::query::ExpressionId;

use super::row::{Input, Operator, RowAtHand, WeightedRow};
use crate::Result;
use crate::batch::Batch;
use crate::expression::{Evaluator, Program};
use crate::runtime::interrupt::Pace;

pub(super) struct Filter {
    input: Input,
    evaluator: Evaluator<Arc<Program>>,
    conditions: Vec<ExpressionId>,
    at_hand: RowAtHand,
    pace: Pace,
}

impl Filter {
    pub(super) fn new(
        input: Input,
        program: Arc<Program>,
        conditions: Vec<ExpressionId>,
        pace: Pace,
    ) -> Filter {
        Filter {
            input,
            at_hand: RowAtHand::new(program.columns(conditions.iter().copied())),
            evaluator: Evaluator::of(program),
            conditions,
            pace,
        }
    }
}

impl Operator for Filter {
    fn next(&mut self) -> Result<Option<WeightedRow>> {
        while let Some(row) = self.input.next()? {
            self.pace.step()?;
            self.evaluator.next_row();
            if self.evaluator.are_true(&row.values, &self.conditions)? {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        while let Some(batch) = self.input.next_batch(rows_max)? {
            let mut passing = Vec::new();
            for row in 0..batch.len() {
                self.pace.step()?;
                self.evaluator.next_row();
                let values = self.at_hand.at(&batch, row);
                if self.evaluator.are_true(values, &self.conditions)? {
                    // A batch has fewer rows than 2^32.
                    passing.push(row as u32);
                }
            }
            if passing.len() == batch.len() {
                return Ok(Some(batch));
            }
            if !passing.is_empty() {
                return Ok(Some(batch.select(&passing)));
            }
        }
        Ok(None)
    }

    fn has_columns(&self) -> bool {
        self.input.has_columns()
    }
}
