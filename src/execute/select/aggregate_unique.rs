//! GROUP BY of rows that a scan gives once for each group: every row is a group, whose size is how often the row occurs.
//!
//! Invariant: no two rows have equal keys; the scan promises it. Nothing is kept, and the order of rows stays.

use std::sync::Arc;

use zipfdb_sql::query::{Aggregate, Aggregation};

use super::aggregate::take_arguments;
use super::batch_argument::counts_rows;
use super::groups::{Group, is_distinct};
use super::row::{Input, Operator, RowAtHand, WeightedRow};
use crate::batch::{Batch, BatchColumn, ColumnBuilder};
use crate::expression::{Evaluator, Program, integer_of_count};
use crate::{Result, Value};

pub(super) struct AggregateUnique {
    input: Input,
    program: Arc<Program>,
    evaluator: Evaluator<Arc<Program>>,
    aggregation: Aggregation,
    at_hand: RowAtHand,
}

impl AggregateUnique {
    pub(super) fn new(
        input: Input,
        program: Arc<Program>,
        aggregation: Aggregation,
    ) -> AggregateUnique {
        let aggregates = aggregation.aggregates.iter();
        let used =
            aggregates.flat_map(|aggregate| aggregate.argument.into_iter().chain(aggregate.filter));
        AggregateUnique {
            input,
            at_hand: RowAtHand::new(program.columns(used)),
            evaluator: Evaluator::of(program.clone()),
            program,
            aggregation,
        }
    }

    /// The values of the aggregates of a group, with those of its keys before them.
    fn group(&mut self, row: &WeightedRow, keys: Vec<Value>) -> Result<Vec<Value>> {
        let aggregation = &self.aggregation;
        let mut group = Group::new(aggregation, keys);
        take_arguments(
            &mut self.evaluator,
            aggregation,
            &row.values,
            |index, value| {
                let times = if is_distinct(aggregation, index) {
                    1
                } else {
                    row.times
                };
                group.take(aggregation, index, value, times);
                Ok(())
            },
        )?;
        group.finish(aggregation)
    }

    /// The values of aggregates that are not just sizes of groups, each as a column.
    fn computed(&mut self, batch: &Batch) -> Result<Vec<BatchColumn>> {
        let mut columns: Vec<ColumnBuilder> = Vec::new();
        columns.resize_with(self.aggregation.aggregates.len(), ColumnBuilder::default);
        for row in 0..batch.len() {
            self.evaluator.next_row();
            let row = WeightedRow {
                values: self.at_hand.at(batch, row).to_vec(),
                times: batch.times_of(row),
            };
            for (column, value) in columns.iter_mut().zip(self.group(&row, Vec::new())?) {
                column.push(value);
            }
        }
        Ok(columns.into_iter().map(ColumnBuilder::finish).collect())
    }
}

impl Operator for AggregateUnique {
    fn next(&mut self) -> Result<Option<WeightedRow>> {
        let Some(row) = self.input.next()? else {
            return Ok(None);
        };
        self.evaluator.next_row();
        let keys = self.aggregation.keys.iter();
        let keys = keys.map(|key| self.evaluator.take(&row.values, key.expression));
        let keys = keys.collect::<Result<_>>()?;
        let values = self.group(&row, keys)?;
        Ok(Some(WeightedRow { values, times: 1 }))
    }

    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        let Some(batch) = self.input.next_batch(rows_max)? else {
            return Ok(None);
        };
        let aggregates = self.aggregation.aggregates.iter();
        let sizes: Vec<Option<BatchColumn>> = aggregates
            .map(|aggregate| group_sizes(aggregate, &self.program, &batch))
            .collect();
        let computed = match sizes.iter().all(Option::is_some) {
            true => vec![BatchColumn::Values(Vec::new()); sizes.len()],
            false => self.computed(&batch)?,
        };
        // The scan's columns are the keys, in whatever order.
        let keys = self.aggregation.keys.iter();
        let keys = keys.map(|key| match self.program.column(key.expression) {
            Some(column) => batch.columns()[column].clone(),
            None => unreachable!("only columns are keys of rows that are groups"),
        });
        let aggregates = sizes.into_iter().zip(computed);
        let aggregates = aggregates.map(|(size, computed)| size.unwrap_or(computed));
        let columns = keys.chain(aggregates).collect();
        Ok(Some(Batch::new(columns, batch.len(), None)))
    }

    fn has_columns(&self) -> bool {
        self.input.has_columns()
    }
}

/// How many rows there are of each group, if that is what an aggregate tells.
fn group_sizes(aggregate: &Aggregate, program: &Program, batch: &Batch) -> Option<BatchColumn> {
    let times = (0..batch.len()).map(|row| match aggregate.distinct {
        true => 1,
        false => batch.times_of(row),
    });
    counts_rows(aggregate, program, batch)
        .then(|| BatchColumn::Integers(times.map(integer_of_count).collect()))
}
