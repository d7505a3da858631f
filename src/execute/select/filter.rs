//! WHERE and HAVING: rows for which all conditions are true.
//!
//! Invariant: rows pass unchanged and in order.

use std::sync::Arc;

use zipfdb_sql::query::ExpressionId;

use super::row::{Input, Operator, WeightedRow};
use crate::Result;
use crate::expression::{Evaluator, Program};
use crate::runtime::interrupt::Pace;

pub(super) struct Filter {
    input: Input,
    evaluator: Evaluator<Arc<Program>>,
    conditions: Vec<ExpressionId>,
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
}
