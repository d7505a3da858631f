//! `GroupTable`: groups by the numbers of their keys, with the states of aggregates.
//!
//! The states of an aggregate are an array: rows of a batch are taken key by key, then aggregate by aggregate. Invariant: a row
//! adds to the group whose keys are equal to its own, and its arguments count once if they are DISTINCT. The meaning of the
//! numbers of keys is not known here, so that rows can be taken on another thread than the one that numbers them.

use std::ops::Range;
use std::sync::Arc;

use zipfdb_sql::query::Aggregation;

use super::context::Context;
use super::group_index::GroupIndex;
use super::group_keys::{GroupKeys, NumberedBatch};
use super::grouped_aggregate::{GroupedAggregate, GroupedRows};
use super::row::BATCH_BYTES;
use crate::Result;
use crate::batch::{Batch, BatchColumn};
use crate::expression::{Evaluator, Program};
use crate::runtime::memory::ValueMemory;

/// The groups in memory, without the meaning of their numbers.
pub(super) struct GroupTable {
    pub(super) rows: GroupIndex,
    pub(super) aggregates: Vec<GroupedAggregate>,
    aggregation: Arc<Aggregation>,
    evaluator: Evaluator<Arc<Program>>,
    /// The groups of the current rows.
    group_of: Vec<u32>,
}

impl GroupTable {
    /// A table without groups. Values for entries of dictionaries may take `share` bytes for each aggregate.
    pub(super) fn new(
        aggregation: &Arc<Aggregation>,
        program: &Arc<Program>,
        once: Vec<bool>,
        share: usize,
    ) -> GroupTable {
        let aggregates = aggregation.aggregates.iter().zip(once);
        let aggregates = aggregates
            .map(|(aggregate, is_once)| GroupedAggregate::new(aggregate, program, is_once));
        GroupTable {
            rows: GroupIndex::default(),
            aggregates: aggregates.collect(),
            evaluator: Evaluator::of_batches(program.clone(), share * aggregation.aggregates.len()),
            group_of: Vec::new(),
            aggregation: aggregation.clone(),
        }
    }

    /// Adds rows of a batch to their groups. Without `keys` different numbers are different values, and no value is needed.
    ///
    /// # Errors
    /// If an argument cannot be computed, or there is no memory for it.
    pub(super) fn take(
        &mut self,
        batch: &Batch,
        numbered: NumberedBatch,
        keys: Option<&GroupKeys>,
    ) -> Result<()> {
        let rows = numbered.rows;
        self.group_of.clear();
        if self.aggregation.keys.is_empty() {
            self.rows.intern(&[], None);
            self.group_of.resize(rows.len(), 0);
        } else {
            let width = numbered.keys.len() / rows.len();
            let equals = keys.and_then(|keys| keys.keys.equals());
            // There are fewer than 2^32 groups.
            let groups = (numbered.keys.chunks_exact(width))
                .map(|numbers| self.rows.intern(numbers, equals).0 as u32);
            self.group_of.extend(groups);
        }
        for (index, (aggregate, own)) in
            (self.aggregates.iter_mut().zip(numbered.aggregates)).enumerate()
        {
            aggregate.grow(self.rows.len());
            let mut rows = GroupedRows {
                batch,
                rows: rows.clone(),
                group_of: &self.group_of,
                are_together: self.aggregation.keys.is_empty(),
                evaluator: &mut self.evaluator,
            };
            if aggregate.collected.is_some() {
                let keys = keys.and_then(|keys| keys.aggregates[index].argument.as_ref());
                aggregate.collect(&rows, own, keys);
            } else {
                aggregate.take_rows(&mut rows, own.passing)?;
            }
        }
        Ok(())
    }

    /// Gives numbers to values of keys instead of columns, where numbers of a batch mean something else than before.
    ///
    /// # Errors
    /// If there is no memory for a value.
    pub(super) fn number_values(
        &mut self,
        keys: &mut GroupKeys,
        batch: &Batch,
        memory: &ValueMemory,
    ) -> Result<()> {
        let arguments = keys.aggregates.iter_mut().zip(&mut self.aggregates);
        let arguments = arguments.filter_map(|(keys, state)| {
            Some((keys.argument.as_mut()?, &mut state.collected.as_mut()?.rows))
        });
        for (keys, rows) in arguments.chain([(&mut keys.keys, &mut self.rows)]) {
            if !keys.begin(batch) {
                rows.number_values(keys, memory)?;
            }
        }
        Ok(())
    }

    /// The number of groups.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The memory of all of it while it is written, in bytes, about.
    pub(super) fn bytes(&self) -> usize {
        let aggregates = self.aggregates.iter().map(GroupedAggregate::bytes);
        let rows = self.rows.bytes() + self.rows.sort_bytes();
        rows + self.evaluator.entry_bytes() + aggregates.sum::<usize>()
    }

    /// Ends taking rows. Without keys there is one group, even if it has no rows.
    pub(super) fn finish(&mut self) {
        if self.aggregation.keys.is_empty() && self.len() == 0 {
            self.rows.intern(&[], None);
            self.aggregates
                .iter_mut()
                .for_each(|aggregate| aggregate.grow(1));
        }
        self.rows.finish();
        self.evaluator.forget_entries();
        self.aggregates.iter_mut().for_each(GroupedAggregate::end);
    }

    /// Sorts the collected arguments of aggregates, once all rows are taken.
    ///
    /// # Errors
    /// If the query must end.
    pub(super) fn sort(&mut self, keys: &GroupKeys, context: &Context) -> Result<()> {
        let groups = self.rows.len();
        let mut aggregates = self.aggregates.iter_mut().zip(&keys.aggregates);
        aggregates.try_for_each(|(aggregate, keys)| aggregate.sort(keys, groups, context))
    }

    /// Lets the next groups take their arguments in order, up to one that fails, or until their texts reach the limit of a batch.
    /// Returns the number of groups that have.
    pub(super) fn take_in_order(
        &mut self,
        groups: Range<usize>,
        keys: &GroupKeys,
        context: &Context,
    ) -> (usize, Result<()>) {
        self.aggregates
            .iter_mut()
            .for_each(GroupedAggregate::forget_given);
        let first = groups.start;
        for group in groups.clone() {
            let mut bytes = 0;
            for (aggregate, keys) in self.aggregates.iter_mut().zip(&keys.aggregates) {
                // There are fewer than 2^32 groups.
                match aggregate.take_in_order(group as u32, keys, context) {
                    Ok(kept) => bytes += kept,
                    Err(error) => return (group - first, Err(error)),
                }
            }
            if bytes >= BATCH_BYTES {
                return (group + 1 - first, Ok(()));
            }
        }
        (groups.len(), Ok(()))
    }

    /// The values of aggregates of groups, of which those in order have taken their arguments last, as columns, up to the first
    /// that fails, and the number of rows.
    pub(super) fn columns(
        &mut self,
        groups: Range<usize>,
    ) -> (Vec<BatchColumn>, usize, Result<()>) {
        let (mut length, mut ended) = (groups.len(), Ok(()));
        let mut columns = Vec::with_capacity(self.aggregates.len());
        for aggregate in &mut self.aggregates {
            let (column, failed) = aggregate.finish(groups.start..groups.start + length);
            if let Err(error) = failed {
                (length, ended) = (column.len(), Err(error));
            }
            columns.push(column);
        }
        columns
            .iter_mut()
            .for_each(|column| column.truncate(length));
        (columns, length, ended)
    }

    /// Whether states are numbers alone.
    pub(super) fn is_of_counts(&self) -> bool {
        self.aggregates.iter().all(GroupedAggregate::is_count)
    }

    /// Bytes that the states of a group have on the heap.
    pub(super) fn kept_bytes(&self, group: usize) -> usize {
        let aggregates = self.aggregates.iter();
        aggregates
            .map(|aggregate| aggregate.kept_bytes(group))
            .sum()
    }

    /// Forgets all groups.
    pub(super) fn clear(&mut self) {
        self.rows = GroupIndex::default();
        self.evaluator.forget_entries();
        self.aggregates.iter_mut().for_each(GroupedAggregate::clear);
    }
}
