//! The SELECT list: a row of outputs of each row.
//!
//! Invariant: as many rows, in the same order.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use zipfdb_sql::query::ExpressionId;

use super::row::{BATCH_BYTES, Input, Operator, RowAtHand, WeightedRow, row_of, value_size};
use crate::batch::{Batch, BatchColumn, ColumnBuilder};
use crate::expression::{Evaluator, Program};
use crate::{Result, Value};

pub(super) struct Project {
    input: Input,
    evaluator: Evaluator<Arc<Program>>,
    program: Arc<Program>,
    outputs: Vec<ExpressionId>,
    /// For each output the column of the row that is moved there; each column is moved once, others are copied.
    moved: Vec<Option<usize>>,
    /// Outputs that are neither columns nor constants, by index.
    computed: Vec<usize>,
    at_hand: RowAtHand,
    /// A batch of the input, and its first row that has no outputs yet.
    rest: Option<(Batch, usize)>,
}

impl Project {
    pub(super) fn new(input: Input, program: Arc<Program>, outputs: Vec<ExpressionId>) -> Project {
        let is_computed = |&index: &usize| {
            let output = outputs[index];
            program.column(output).is_none() && program.constant(output).is_none()
        };
        let computed: Vec<usize> = (0..outputs.len()).filter(is_computed).collect();
        let used = program.columns(computed.iter().map(|&index| outputs[index]));
        let mut taken = HashSet::new();
        let moved = outputs.iter().map(|&output| {
            let column = program.column(output);
            column.filter(|&column| taken.insert(column))
        });
        Project {
            moved: moved.collect(),
            input,
            evaluator: Evaluator::of(program.clone()),
            program,
            outputs,
            computed,
            at_hand: RowAtHand::new(used),
            rest: None,
        }
    }

    /// The next row of the input.
    fn take_row(&mut self) -> Result<Option<WeightedRow>> {
        let Some((batch, row)) = self.rest.take() else {
            return self.input.next();
        };
        let taken = row_of(&batch, row);
        self.rest = (row + 1 < batch.len()).then_some((batch, row + 1));
        Ok(Some(taken))
    }

    /// Computes outputs of rows of a batch, as many as their texts take not too much memory; says where it ended.
    fn compute(
        &mut self,
        batch: &Batch,
        rows: Range<usize>,
    ) -> Result<(Vec<ColumnBuilder>, usize)> {
        let mut columns: Vec<ColumnBuilder> = Vec::new();
        if self.computed.is_empty() {
            return Ok((columns, rows.end));
        }
        columns.resize_with(self.computed.len(), ColumnBuilder::default);
        let mut bytes = 0;
        for row in rows.clone() {
            if bytes >= BATCH_BYTES {
                return Ok((columns, row));
            }
            self.evaluator.next_row();
            let values = self.at_hand.at(batch, row);
            for (&index, column) in self.computed.iter().zip(&mut columns) {
                let value = self.evaluator.take(values, self.outputs[index])?;
                bytes += value_size(&value);
                column.push(value);
            }
        }
        Ok((columns, rows.end))
    }
}

impl Operator for Project {
    fn next(&mut self) -> Result<Option<WeightedRow>> {
        let Some(WeightedRow { mut values, times }) = self.take_row()? else {
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

    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        let taken = match self.rest.take() {
            Some(rest) => Some(rest),
            None => self.input.next_batch(rows_max)?.map(|batch| (batch, 0)),
        };
        let Some((mut batch, first)) = taken else {
            return Ok(None);
        };
        let end = batch.len().min(first.saturating_add(rows_max.max(1)));
        let (computed, end) = self.compute(&batch, first..end)?;
        if (first, end) != (0, batch.len()) {
            let part = batch.slice(first..end);
            self.rest = (end < batch.len()).then_some((batch, end));
            batch = part;
        }
        let (rows, times) = (batch.len(), batch.times.take());
        let mut columns = batch.into_columns();
        let mut computed = computed.into_iter();
        let places = || self.outputs.iter().zip(&self.moved);
        let mut outputs = Vec::with_capacity(self.outputs.len());
        for (&output, moved) in places() {
            let (column, constant) = (self.program.column(output), self.program.constant(output));
            outputs.push(match (moved, column, constant) {
                (Some(_), ..) => BatchColumn::Values(Vec::new()),
                (None, Some(column), _) => columns[column].clone(),
                (None, None, Some(value)) => ColumnBuilder::repeated(value, rows),
                (None, None, None) => computed.next().unwrap_or_default().finish(),
            });
        }
        for (output, (_, moved)) in outputs.iter_mut().zip(places()) {
            if let Some(column) = *moved {
                std::mem::swap(output, &mut columns[column]);
            }
        }
        Ok(Some(Batch::new(outputs, rows, times)))
    }

    fn has_columns(&self) -> bool {
        self.input.has_columns()
    }
}
