//! The SELECT list: a row of outputs of each row.
//!
//! Invariant: as many rows, in the same order.

use std::sync::Arc;

use zipfdb_sql::query::ExpressionId;

use super::row::{Input, Operator, WeightedRow};
use crate::Result;
use crate::expression::{Evaluator, Program};

pub(super) struct Project {
    input: Input,
    evaluator: Evaluator<Arc<Program>>,
    outputs: Vec<ExpressionId>,
}

impl Project {
    pub(super) fn new(input: Input, program: Arc<Program>, outputs: Vec<ExpressionId>) -> Project {
        Project {
            input,
            evaluator: Evaluator::of(program),
            outputs,
        }
    }
}

impl Operator for Project {
    fn next(&mut self) -> Result<Option<WeightedRow>> {
        let Some(WeightedRow { values, times }) = self.input.next()? else {
            return Ok(None);
        };
        self.evaluator.next_row();
        let outputs = self.outputs.iter();
        let outputs = outputs.map(|&output| self.evaluator.take(&values, output));
        let values = outputs.collect::<Result<_>>()?;
        Ok(Some(WeightedRow { values, times }))
    }
}
