//! The SELECT list: a row of outputs of each row.
//!
//! Invariant: as many rows, in the same order.

use std::collections::HashSet;
use std::sync::Arc;

use zipfdb_sql::query::ExpressionId;

use super::row::{Input, Operator, WeightedRow};
use crate::expression::{Evaluator, Program};
use crate::{Result, Value};

pub(super) struct Project {
    input: Input,
    evaluator: Evaluator<Arc<Program>>,
    outputs: Vec<ExpressionId>,
    /// For each output the column of the row that is moved there; each column is moved once, others are copied.
    moved: Vec<Option<usize>>,
}

impl Project {
    pub(super) fn new(input: Input, program: Arc<Program>, outputs: Vec<ExpressionId>) -> Project {
        let mut taken = HashSet::new();
        let moved = outputs.iter().map(|&output| {
            let column = program.column(output);
            column.filter(|&column| taken.insert(column))
        });
        Project {
            moved: moved.collect(),
            input,
            evaluator: Evaluator::of(program),
            outputs,
        }
    }
}

impl Operator for Project {
    fn next(&mut self) -> Result<Option<WeightedRow>> {
        let Some(WeightedRow { mut values, times }) = self.input.next()? else {
            return Ok(None);
        };
        self.evaluator.next_row();
        let mut outputs = vec![Value::Null; self.outputs.len()];
        let places = || self.outputs.iter().zip(&self.moved).enumerate();
        for (index, (&output, _)) in places().filter(|(_, (_, moved))| moved.is_none()) {
            outputs[index] = self.evaluator.take(&values, output)?;
        }
        // Nothing reads the row any more.
        for (index, (_, moved)) in places() {
            if let Some(column) = *moved {
                outputs[index] = std::mem::replace(&mut values[column], Value::Null);
            }
        }
        Ok(Some(WeightedRow {
            values: outputs,
            times,
        }))
    }
}
