//! GROUP BY of rows that a scan returns once for each group: every row is a group, whose size is the row's multiplicity.
//!
//! Invariant: no two rows have equal keys; the scan promises it. No rows are kept, and their order stays.

use std::sync::Arc;

use zipfdb_sql::query::Aggregation;

use super::argument::counts_rows;
use super::group::{Group, collects};
use super::row::{ENTRIES_SHARE, Input, LateError, Operator};
use crate::batch::{Batch, BatchColumn, ColumnBuilder};
use crate::expression::{Evaluator, Program, integer_of_count};
use crate::{Result, Value};

pub(super) struct AggregateUnique {
    input: Input,
    program: Arc<Program>,
    evaluator: Evaluator<Arc<Program>>,
    aggregation: Aggregation,
    /// For each key the column that it is.
    keys: Vec<usize>,
    late: LateError,
}

impl AggregateUnique {
    /// Takes rows whose columns are all keys; those that `aggregation` lacks are left out. Values for entries of dictionaries
    /// take a part of `memory` bytes.
    pub(super) fn new(
        input: Input,
        program: Arc<Program>,
        aggregation: Aggregation,
        memory: usize,
    ) -> AggregateUnique {
        let keys = aggregation.keys.iter();
        AggregateUnique {
            input,
            evaluator: Evaluator::of_batches(program.clone(), memory / ENTRIES_SHARE),
            keys: (keys.filter_map(|key| program.column(key.expression))).collect(),
            program,
            aggregation,
            late: LateError::default(),
        }
    }

    /// The values of aggregates other than sizes of groups, each as a column, and the number of rows that have them.
    fn compute(&mut self, batch: &Batch, columns: &mut [ColumnBuilder]) -> (usize, Result<()>) {
        let AggregateUnique {
            evaluator,
            aggregation,
            program,
            ..
        } = self;
        for row in 0..batch.len() {
            evaluator.next_row();
            let times = batch.times_of(row);
            let mut group = Group::new(aggregation, program, Vec::new());
            let taken = take_arguments(evaluator, aggregation, (batch, row), |index, value| {
                let is_once = collects(&aggregation.aggregates[index]);
                group.take(aggregation, index, value, if is_once { 1 } else { times });
            });
            let values = match taken.and_then(|()| group.finish(aggregation)) {
                Ok(values) => values,
                Err(error) => return (row, Err(error)),
            };
            let pairs = columns.iter_mut().zip(values);
            pairs.for_each(|(column, value)| column.push(value));
        }
        (batch.len(), Ok(()))
    }
}

impl Operator for AggregateUnique {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        self.late.check()?;
        let Some(mut batch) = self.input.next_batch(rows_max)? else {
            return Ok(None);
        };
        let aggregates = self.aggregation.aggregates.iter();
        let sizes: Vec<bool> = aggregates
            .map(|aggregate| counts_rows(aggregate, &self.program, &batch))
            .collect();
        let mut computed = Vec::new();
        let (mut rows, mut ended) = (batch.len(), Ok(()));
        if !sizes.iter().all(|&is_size| is_size) {
            computed.resize_with(sizes.len(), ColumnBuilder::default);
            (rows, ended) = self.compute(&batch, &mut computed);
            batch.truncate(rows);
        }
        computed.resize_with(sizes.len(), ColumnBuilder::default);
        let mut times = batch.times.take();
        let mut sizes_left = sizes.iter().filter(|&&is_size| is_size).count();
        let aggregates = self.aggregation.aggregates.iter();
        let aggregates = aggregates.zip(sizes).zip(computed);
        let aggregates: Vec<BatchColumn> = aggregates
            .map(|((aggregate, is_size), computed)| {
                if !is_size {
                    return computed.finish();
                }
                sizes_left -= 1;
                let times = match sizes_left {
                    _ if aggregate.distinct => None,
                    0 => times.take(),
                    _ => times.clone(),
                };
                group_sizes(times, rows)
            })
            .collect();
        let mut columns: Vec<BatchColumn> = Vec::with_capacity(self.keys.len() + aggregates.len());
        // The scan's columns are the keys, in some order.
        let mut given = batch.into_columns();
        for (index, &column) in self.keys.iter().enumerate() {
            let is_last = !self.keys[index + 1..].contains(&column);
            columns.push(if is_last {
                std::mem::replace(&mut given[column], BatchColumn::Values(Vec::new()))
            } else {
                given[column].clone()
            });
        }
        columns.extend(aggregates);
        let made = (rows > 0).then(|| Batch::new(columns, rows, None));
        self.late.after(made, ended)
    }
}

/// The number of rows of each group: their multiplicities, or one each; the column takes the memory of `times`.
fn group_sizes(times: Option<Vec<u64>>, rows: usize) -> BatchColumn {
    BatchColumn::Integers(match times {
        Some(times) => times.into_iter().map(integer_of_count).collect(),
        None => vec![1; rows],
    })
}

/// Passes the arguments of a row to `take`, by index of their aggregates: those that are not NULL and pass their FILTER.
fn take_arguments(
    evaluator: &mut Evaluator<Arc<Program>>,
    aggregation: &Aggregation,
    row: (&Batch, usize),
    mut take: impl FnMut(usize, &Value),
) -> Result<()> {
    for (index, aggregate) in aggregation.aggregates.iter().enumerate() {
        if let Some(filter) = aggregate.filter
            && !evaluator.are_true(row, &[filter])?
        {
            continue;
        }
        match aggregate.argument {
            None => take(index, &Value::Integer(1)),
            Some(argument) => match evaluator.value(row, argument)? {
                Value::Null => {}
                value => take(index, value),
            },
        }
    }
    Ok(())
}
