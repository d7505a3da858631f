//! The SELECT list: computes a row of outputs for each row.
//!
//! Invariant: every row has one row of outputs, in the same order.

use std::collections::HashSet;
use std::sync::Arc;

use zipfdb_sql::query::ExpressionId;

use super::row::{BATCH_BYTES, BatchRest, ENTRIES_SHARE, Input, LateError, Operator, value_size};
use crate::batch::{Batch, BatchColumn, ColumnBuilder};
use crate::expression::{Evaluator, Program};
use crate::{Result, Value};

pub(super) struct Project {
    input: Input,
    evaluator: Evaluator<Arc<Program>>,
    program: Arc<Program>,
    outputs: Vec<ExpressionId>,
    /// For each output the column of the row that is moved there; each column is moved once.
    moved: Vec<Option<usize>>,
    /// Outputs that are neither moved nor constants: a second copy of a value counts as its first.
    computed: Vec<ExpressionId>,
    /// Rows of the input that have no outputs yet.
    rest: BatchRest,
    late: LateError,
}

impl Project {
    /// Makes `outputs` of rows; values for entries of dictionaries take a part of `memory` bytes.
    pub(super) fn new(
        input: Input,
        program: Arc<Program>,
        outputs: Vec<ExpressionId>,
        memory: usize,
    ) -> Project {
        let mut taken = HashSet::new();
        let moved = outputs.iter().map(|&output| {
            let column = program.column(output);
            column.filter(|&column| taken.insert(column))
        });
        let moved: Vec<Option<usize>> = moved.collect();
        let is_computed =
            |&index: &usize| moved[index].is_none() && program.constant(outputs[index]).is_none();
        let computed = (0..outputs.len())
            .filter(is_computed)
            .map(|index| outputs[index]);
        let computed = computed.collect();
        Project {
            moved,
            input,
            evaluator: Evaluator::of_batches(program.clone(), memory / ENTRIES_SHARE),
            computed,
            program,
            outputs,
            rest: BatchRest::default(),
            late: LateError::default(),
        }
    }

    /// Computes outputs of the first rows of a batch, up to the limit of texts in a batch. Returns the number of rows.
    fn compute(&mut self, batch: &Batch, columns: &mut [ColumnBuilder]) -> (usize, Result<()>) {
        if self.computed.is_empty() {
            return (batch.len(), Ok(()));
        }
        let Project {
            evaluator,
            computed,
            ..
        } = self;
        let mut bytes = 0;
        let mut values = vec![Value::Null; computed.len()];
        for row in 0..batch.len() {
            if bytes >= BATCH_BYTES {
                return (row, Ok(()));
            }
            evaluator.next_row();
            let mut computed = computed.iter().zip(&mut values);
            let done = computed.try_for_each(|(&output, value)| {
                *value = evaluator.take((batch, row), output)?;
                Ok(())
            });
            if done.is_err() {
                return (row, done);
            }
            for (value, column) in values.iter_mut().zip(&mut *columns) {
                bytes += value_size(value);
                column.push(std::mem::replace(value, Value::Null));
            }
        }
        (batch.len(), Ok(()))
    }

    /// The outputs of a batch, given those that were computed.
    fn outputs(&self, mut batch: Batch, computed: Vec<ColumnBuilder>) -> Batch {
        let (rows, times) = (batch.len(), batch.times.take());
        let mut columns = batch.into_columns();
        let mut computed = computed.into_iter();
        let places = || self.outputs.iter().zip(&self.moved);
        let mut outputs = Vec::with_capacity(self.outputs.len());
        for (&output, moved) in places() {
            outputs.push(match (moved, self.program.constant(output)) {
                (Some(_), _) => BatchColumn::Values(Vec::new()),
                (None, Some(value)) => ColumnBuilder::repeated(value, rows),
                (None, None) => computed.next().unwrap_or_default().finish(),
            });
        }
        for (output, (_, moved)) in outputs.iter_mut().zip(places()) {
            if let Some(column) = *moved {
                std::mem::swap(output, &mut columns[column]);
            }
        }
        Batch::new(outputs, rows, times)
    }
}

impl Operator for Project {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        self.late.check()?;
        let batch = match self.rest.take(rows_max) {
            None => self.input.next_batch(rows_max)?,
            rest => rest,
        };
        let Some(mut batch) = batch else {
            return Ok(None);
        };
        let mut computed = Vec::new();
        computed.resize_with(self.computed.len(), ColumnBuilder::default);
        let (rows, ended) = self.compute(&batch, &mut computed);
        if rows < batch.len() {
            self.rest.put_back(batch.slice(rows..batch.len()));
            batch.truncate(rows);
        }
        let made = (rows > 0).then(|| self.outputs(batch, computed));
        self.late.after(made, ended)
    }
}
