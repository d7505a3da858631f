//! `GroupKeys`: the numbers by which an aggregation distinguishes rows.
//!
//! These are the keys of groups and the arguments that aggregates collect, each behind the keys of its order. Invariant:
//! arguments refused by FILTER are not computed, and a row that is no argument has no number.

use std::ops::Range;
use std::sync::Arc;

use zipfdb_sql::query::{AggregateFunction, Aggregation, ExpressionId};

use super::accumulate::{is_of_numbers, needs_order};
use super::group::collects;
use super::group_index::RowKeys;
use super::key::KeyOrder;
use super::key_interner::{KeyInterner, KeyUse, Look};
use crate::Result;
use crate::batch::Batch;
use crate::expression::{Evaluator, Program};
use crate::runtime::memory::ValueMemory;

/// The keys by which rows are distinguished.
pub(super) struct GroupKeys {
    pub(super) keys: RowKeys,
    pub(super) aggregates: Vec<AggregateKeys>,
    /// Whether all aggregates collect arguments without their values.
    only_collects: bool,
    evaluator: Evaluator<Arc<Program>>,
    memory: ValueMemory,
}

/// The keys of an aggregate.
pub(super) struct AggregateKeys {
    filter: Option<ExpressionId>,
    /// The argument behind the number of its group and the keys of its order, if the aggregate collects it.
    pub(super) argument: Option<RowKeys>,
    /// The orders of these keys and of the argument.
    pub(super) orders: Vec<KeyOrder>,
}

/// The rows of a batch as numbers.
pub(super) struct NumberedBatch {
    pub(super) rows: Range<usize>,
    /// The numbers of their keys, row by row.
    pub(super) keys: Vec<u64>,
    pub(super) aggregates: Vec<AggregateRows>,
}

/// The rows of a batch that an aggregate takes.
#[derive(Default)]
pub(super) struct AggregateRows {
    /// Their numbers; none for all.
    pub(super) passing: Option<Vec<usize>>,
    /// For an aggregate that collects, the numbers of their arguments, row by row, each behind room for the number of the group.
    pub(super) arguments: Vec<u64>,
}

impl GroupKeys {
    /// The keys of an aggregation. Values for the entries of a dictionary for an expression may take `share` bytes.
    pub(super) fn new(
        aggregation: &Aggregation,
        program: &Arc<Program>,
        (share, memory): (usize, &ValueMemory),
    ) -> GroupKeys {
        let numbers = |id, what_for| KeyInterner::new(id, what_for, program, share);
        let keys = aggregation.keys.iter();
        let keys = keys.map(|key| numbers(key.expression, KeyUse::Equality(key.collation)));
        let aggregates = aggregation.aggregates.iter().map(|aggregate| {
            let use_by = |collation, otherwise| {
                if aggregate.distinct {
                    KeyUse::Equality(collation)
                } else {
                    otherwise
                }
            };
            let of_argument = if is_of_numbers(aggregate.function) {
                KeyUse::Number
            } else {
                KeyUse::Identity
            };
            let argument = aggregate.argument.filter(|_| collects(aggregate));
            let argument = argument.map(|id| {
                let order = aggregate.order_by.iter();
                let order = order
                    .map(|key| numbers(key.expression, use_by(key.collation, KeyUse::Identity)));
                let argument = numbers(id, use_by(aggregate.collation, of_argument));
                RowKeys::with_given(order.chain([argument]).collect())
            });
            let own = if aggregate.distinct {
                KeyOrder::ascending(aggregate.collation)
            } else {
                KeyOrder::exact()
            };
            AggregateKeys {
                filter: aggregate.filter,
                argument,
                orders: aggregate
                    .order_by
                    .iter()
                    .map(KeyOrder::of)
                    .chain([own])
                    .collect(),
            }
        });
        let mut collecting = aggregation
            .aggregates
            .iter()
            .filter(|aggregate| collects(aggregate));
        GroupKeys {
            keys: RowKeys::new(keys.collect()),
            aggregates: aggregates.collect(),
            only_collects: collecting.all(|aggregate| {
                aggregate.function == AggregateFunction::Count || needs_order(aggregate)
            }),
            evaluator: Evaluator::of_batches(program.clone(), share * aggregation.aggregates.len()),
            memory: memory.clone(),
        }
    }

    /// Begins a batch. Returns whether its numbers mean the same as those of the batches before.
    pub(super) fn begin(&mut self, batch: &Batch) -> bool {
        self.all_mut()
            .fold(true, |all, keys| all & keys.begin(batch))
    }

    /// Numbers rows of the current batch.
    ///
    /// # Errors
    /// Those of the evaluator, and if there is no memory for a value.
    pub(super) fn look(&mut self, batch: &Batch, rows: Range<usize>) -> Result<NumberedBatch> {
        let mut numbered = NumberedBatch {
            rows: rows.clone(),
            keys: Vec::new(),
            aggregates: Vec::with_capacity(self.aggregates.len()),
        };
        let mut with = Look {
            evaluator: &mut self.evaluator,
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

    /// Whether rows can be added to groups without these keys: different numbers are different values, and no value of a number
    /// is needed.
    pub(super) fn are_dispensable(&self) -> bool {
        self.only_collects && self.all().all(|keys| keys.equals().is_none())
    }

    /// The memory of values, in bytes, about.
    pub(super) fn bytes(&self) -> usize {
        let keys = self.all().map(RowKeys::bytes);
        self.evaluator.entry_bytes() + keys.sum::<usize>()
    }

    /// Ends numbering rows. Collected arguments keep their values.
    pub(super) fn finish(&mut self) {
        self.evaluator.forget_entries();
        self.keys.finish();
    }

    /// Forgets all values.
    pub(super) fn clear(&mut self) {
        self.all_mut().for_each(RowKeys::clear);
        self.evaluator.forget_entries();
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

/// The rows for which a condition is true.
///
/// # Errors
/// Those of the evaluator.
pub(super) fn passing(
    evaluator: &mut Evaluator<Arc<Program>>,
    (batch, rows): (&Batch, Range<usize>),
    filter: ExpressionId,
) -> Result<Vec<usize>> {
    let mut passing = Vec::new();
    for row in rows {
        evaluator.next_row();
        if evaluator.are_true((batch, row), &[filter])? {
            passing.push(row);
        }
    }
    Ok(passing)
}

impl AggregateKeys {
    fn look(
        &mut self,
        batch: &Batch,
        rows: Range<usize>,
        with: &mut Look<'_>,
    ) -> Result<AggregateRows> {
        let mut looked = AggregateRows::default();
        if let Some(filter) = self.filter {
            looked.passing = Some(passing(with.evaluator, (batch, rows.clone()), filter)?);
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
