//! `GroupKeys`: what an aggregation tells rows apart by, as numbers.
//!
//! These are the keys of groups and the arguments of DISTINCT aggregates. Invariant: what FILTER refuses is not computed, and a row
//! that is no argument has no number.

use std::ops::Range;
use std::sync::Arc;

use zipfdb_sql::query::{AggregateFunction, Aggregation};

use super::expression_values::ExpressionValues;
use super::group::is_distinct;
use super::key_numbers::{KeyNumbers, Look};
use super::numbered_rows::RowKeys;
use crate::Result;
use crate::batch::Batch;
use crate::expression::{Evaluator, Program, truth};
use crate::runtime::memory::ValueMemory;

/// What rows are told apart by.
pub(super) struct GroupKeys {
    pub(super) keys: RowKeys,
    pub(super) aggregates: Vec<AggregateKeys>,
    /// Whether all DISTINCT aggregates count.
    only_counts: bool,
    evaluator: Evaluator<Arc<Program>>,
    memory: ValueMemory,
}

/// What is looked at for an aggregate.
pub(super) struct AggregateKeys {
    filter: Option<ExpressionValues>,
    /// The argument, behind the number of its group, if the aggregate is DISTINCT.
    pub(super) argument: Option<RowKeys>,
}

/// Rows of a batch as numbers.
pub(super) struct NumberedBatch {
    pub(super) rows: Range<usize>,
    /// The numbers of their keys, row by row.
    pub(super) keys: Vec<u64>,
    pub(super) aggregates: Vec<AggregateRows>,
}

/// The rows of a batch that an aggregate takes.
#[derive(Default)]
pub(super) struct AggregateRows {
    /// Which they are; none if all.
    pub(super) passing: Option<Vec<usize>>,
    /// Of a DISTINCT aggregate the numbers of their arguments, row by row, each behind room for the number of the group.
    pub(super) arguments: Vec<u64>,
}

impl GroupKeys {
    /// What an aggregation tells rows apart by. What is known of the texts of an expression may take `share` bytes.
    pub(super) fn new(
        aggregation: &Aggregation,
        program: &Arc<Program>,
        (share, memory): (usize, &ValueMemory),
    ) -> GroupKeys {
        let keys = aggregation.keys.iter();
        let keys = keys.map(|key| KeyNumbers::new(key.expression, key.collation, program, share));
        let distinct = |index: &usize| is_distinct(aggregation, *index);
        let all = || 0..aggregation.aggregates.len();
        let aggregates = all().map(|index| {
            let aggregate = &aggregation.aggregates[index];
            let argument = aggregate.argument.filter(|_| distinct(&index));
            AggregateKeys {
                filter: (aggregate.filter).map(|id| ExpressionValues::new(id, program, share)),
                argument: argument.map(|id| {
                    RowKeys::with_given(KeyNumbers::new(id, aggregate.collation, program, share))
                }),
            }
        });
        let mut functions =
            (all().filter(distinct)).map(|index| aggregation.aggregates[index].function);
        GroupKeys {
            keys: RowKeys::new(keys.collect()),
            aggregates: aggregates.collect(),
            only_counts: functions.all(|function| function == AggregateFunction::Count),
            evaluator: Evaluator::of(program.clone()),
            memory: memory.clone(),
        }
    }

    /// Goes on to a batch; says whether its numbers mean what those of the batches before do.
    pub(super) fn begin(&mut self, batch: &Batch) -> bool {
        self.all_mut()
            .fold(true, |all, keys| all & keys.begin(batch))
    }

    /// Makes numbers of rows of a batch that was begun.
    ///
    /// # Errors
    /// Those of the evaluator, and if there is no memory for a value.
    pub(super) fn look(&mut self, batch: &mut Batch, rows: Range<usize>) -> Result<NumberedBatch> {
        let mut numbered = NumberedBatch {
            rows: rows.clone(),
            keys: Vec::new(),
            aggregates: Vec::with_capacity(self.aggregates.len()),
        };
        let mut with = Look {
            evaluator: Some(&mut self.evaluator),
            memory: &self.memory,
            keeps: true,
        };
        self.keys
            .look(batch, rows.clone(), &mut with, &mut numbered.keys)?;
        for aggregate in &mut self.aggregates {
            let looked = aggregate.look(batch, rows.clone(), &mut with)?;
            numbered.aggregates.push(looked);
        }
        Ok(numbered)
    }

    /// Whether rows can be added to groups without these keys: different numbers are different values, and no value of a number is asked
    /// for.
    pub(super) fn are_dispensable(&self) -> bool {
        self.only_counts && self.all().all(|keys| keys.equals().is_none())
    }

    /// About how many bytes values take.
    pub(super) fn bytes(&self) -> usize {
        let filters = self.aggregates.iter().flat_map(|keys| &keys.filter);
        let keys = self.all().map(RowKeys::bytes);
        keys.chain(filters.map(ExpressionValues::bytes)).sum()
    }

    /// Ends looking at rows.
    pub(super) fn finish(&mut self) {
        self.aggregates = Vec::new();
        self.keys.finish();
    }

    /// Forgets all values.
    pub(super) fn clear(&mut self) {
        self.all_mut().for_each(RowKeys::clear);
        let filters = self.aggregates.iter_mut();
        let filters = filters.flat_map(|keys| &mut keys.filter);
        filters.for_each(ExpressionValues::clear);
    }

    fn all(&self) -> impl Iterator<Item = &RowKeys> {
        let arguments = self.aggregates.iter().flat_map(|keys| &keys.argument);
        arguments.chain([&self.keys])
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut RowKeys> {
        let arguments = self.aggregates.iter_mut();
        let arguments = arguments.flat_map(|keys| &mut keys.argument);
        arguments.chain([&mut self.keys])
    }
}

impl AggregateKeys {
    fn look(
        &mut self,
        batch: &mut Batch,
        rows: Range<usize>,
        with: &mut Look<'_>,
    ) -> Result<AggregateRows> {
        let mut looked = AggregateRows::default();
        if let (Some(filter), Some(evaluator)) = (&mut self.filter, &mut with.evaluator) {
            let mut passing = Vec::new();
            for row in rows.clone() {
                let is_true = |value: &_| Ok(truth(value) == Some(true));
                if filter.with(batch, row, evaluator, is_true)? {
                    passing.push(row);
                }
            }
            looked.passing = Some(passing);
        }
        let Some(argument) = &mut self.argument else {
            return Ok(looked);
        };
        match &looked.passing {
            None => argument.look(batch, rows.clone(), with, &mut looked.arguments)?,
            Some(passing) => {
                for &row in passing {
                    argument.look(batch, row..row + 1, with, &mut looked.arguments)?;
                }
            }
        }
        argument.drop_nulls(rows, &mut looked);
        Ok(looked)
    }
}

impl RowKeys {
    /// Leaves out rows whose only key is NULL.
    fn drop_nulls(&self, rows: Range<usize>, looked: &mut AggregateRows) {
        let width = self.width();
        if !self.has_null() {
            return;
        }
        let before = looked.passing.take();
        let before = before.unwrap_or_else(|| rows.collect());
        let mut passing = Vec::with_capacity(before.len());
        for (index, row) in before.into_iter().enumerate() {
            let own = index * width..(index + 1) * width;
            if !self.ends_with_null(&looked.arguments[own.clone()]) {
                let first = passing.len() * width;
                looked.arguments.copy_within(own, first);
                passing.push(row);
            }
        }
        looked.arguments.truncate(passing.len() * width);
        looked.passing = Some(passing);
    }
}
