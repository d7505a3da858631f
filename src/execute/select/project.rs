//! The SELECT list: a row of outputs of each row.
//!
//! Invariant: as many rows, in the same order.

use std::collections::HashSet;
use std::sync::Arc;

use zipfdb_sql::query::ExpressionId;

use super::expression_values::ExpressionValues;
use super::row::{BATCH_BYTES, BatchRest, Input, LateError, Operator, RowAtHand, value_size};
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
    computed: Vec<ExpressionValues>,
    /// For those that texts do not tell.
    at_hand: RowAtHand,
    /// Rows of the input that have no outputs yet.
    rest: BatchRest,
    late: LateError,
}

impl Project {
    /// Makes `outputs` of rows; what is known of texts takes a part of so many bytes.
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
        let computed: Vec<ExpressionId> = computed.collect();
        let used = program.columns(computed.iter().copied());
        Project {
            moved,
            input,
            evaluator: Evaluator::of(program.clone()),
            computed: ExpressionValues::all(&computed, &program, memory),
            program,
            outputs,
            at_hand: RowAtHand::new(used),
            rest: BatchRest::default(),
            late: LateError::default(),
        }
    }

    /// Computes outputs of the first rows of a batch, as many as their texts take not too much memory; says how many.
    fn compute(&mut self, batch: &mut Batch, columns: &mut [ColumnBuilder]) -> (usize, Result<()>) {
        if self.computed.is_empty() {
            return (batch.len(), Ok(()));
        }
        let Project {
            evaluator,
            computed,
            at_hand,
            ..
        } = self;
        let are_by_text = computed.iter_mut().map(|values| values.are_by_text(batch));
        let are_by_text: Vec<bool> = are_by_text.collect();
        let has_others = are_by_text.iter().any(|&is_by_text| !is_by_text);
        let mut bytes = 0;
        let mut values = vec![Value::Null; computed.len()];
        for row in 0..batch.len() {
            if bytes >= BATCH_BYTES {
                return (row, Ok(()));
            }
            let mut compute = || {
                let by_text = computed.iter_mut().zip(&mut values).zip(&are_by_text);
                for ((known, value), _) in by_text.filter(|(_, is_by_text)| **is_by_text) {
                    *value = known.with(batch, row, evaluator, |value| Ok(value.clone()))?;
                }
                if !has_others {
                    return Ok(());
                }
                evaluator.next_row();
                at_hand.with(batch, row, |row| {
                    let others = computed.iter().zip(&mut values).zip(&are_by_text);
                    for ((other, value), _) in others.filter(|(_, is_by_text)| !**is_by_text) {
                        *value = evaluator.take(row, other.expression())?;
                    }
                    Ok(())
                })
            };
            let done = compute();
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
        let (rows, ended) = self.compute(&mut batch, &mut computed);
        if rows < batch.len() {
            self.rest.put_back(batch.slice(rows..batch.len()));
            batch.truncate(rows);
        }
        let made = (rows > 0).then(|| self.outputs(batch, computed));
        self.late.after(made, ended)
    }
}
