//! `DistinctNumbers`: which arguments of DISTINCT aggregates are known, by the numbers of their columns.
//!
//! Invariant: an aggregate is skipped only where its group has the argument already, or FILTER has refused it.

use zipfdb_sql::query::Aggregation;

use super::groups::is_distinct;
use super::row_numbers::RowNumbers;
use crate::batch::Batch;
use crate::expression::Program;

/// The part of memory that numbers of arguments may take together.
const NUMBERS_SHARE: usize = 4;

/// Tells arguments apart as far as columns do.
pub(super) struct DistinctNumbers {
    /// For each aggregate the numbers of keys, argument and FILTER; none if it is not DISTINCT.
    known: Vec<Option<RowNumbers>>,
    /// Whether the batch at hand has such numbers.
    is_told: Vec<bool>,
    /// Whether the row at hand adds nothing to an aggregate.
    pub(super) skipped: Vec<bool>,
}

impl DistinctNumbers {
    /// Within a part of so many bytes.
    pub(super) fn new(
        aggregation: &Aggregation,
        program: &Program,
        memory: usize,
    ) -> DistinctNumbers {
        let aggregates = &aggregation.aggregates;
        let indices = 0..aggregates.len();
        let count = indices
            .clone()
            .filter(|&index| is_distinct(aggregation, index));
        let memory = memory / NUMBERS_SHARE / count.count().max(1);
        let known = indices.map(|index| {
            let aggregate = &aggregates[index];
            let keys = aggregation.keys.iter().map(|key| key.expression);
            let used = keys.chain(aggregate.argument).chain(aggregate.filter);
            is_distinct(aggregation, index).then(|| RowNumbers::new(program.columns(used), memory))
        });
        DistinctNumbers {
            known: known.collect(),
            is_told: vec![false; aggregates.len()],
            skipped: vec![false; aggregates.len()],
        }
    }

    /// Goes on to a batch.
    pub(super) fn begin(&mut self, batch: &Batch) {
        for (known, is_told) in self.known.iter_mut().zip(&mut self.is_told) {
            *is_told = known.as_mut().is_some_and(|known| known.takes(batch));
        }
    }

    /// Goes on to a row: finds out which aggregates it adds nothing to.
    pub(super) fn find(&mut self, batch: &Batch, row: usize) {
        for ((known, &is_told), skipped) in
            (self.known.iter_mut().zip(&self.is_told)).zip(&mut self.skipped)
        {
            let known = known.as_mut().filter(|_| is_told);
            *skipped = known.is_some_and(|known| known.find(batch, row).is_some());
        }
    }

    /// Remembers that the row at hand was taken.
    pub(super) fn remember(&mut self, batch: &Batch, row: usize) {
        for ((known, &is_told), &skipped) in
            (self.known.iter_mut().zip(&self.is_told)).zip(&self.skipped)
        {
            if let (Some(known), true, false) = (known, is_told, skipped) {
                known.remember(batch, row, 0);
            }
        }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.known.iter_mut().flatten().for_each(RowNumbers::clear);
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        self.known.iter().flatten().map(RowNumbers::bytes).sum()
    }
}
