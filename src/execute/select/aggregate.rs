//! GROUP BY and aggregates.
//!
//! Groups are collected in memory; when they no longer fit they are written as a run sorted by key, and runs are merged at
//! the end. Invariant: a group is given once, as its keys and then its aggregates. Without keys there is exactly one group.

use std::sync::Arc;

use zipfdb_sql::query::Aggregation;

use super::context::Context;
use super::groups::{Group, GroupRecord, Groups, read_part};
use super::key::{KeyOrder, add_key};
use super::row::{Input, Operator, WeightedRow};
use super::spill::{Merge, Record, SpilledRuns, spill_error_in};
use crate::expression::{Evaluator, Program};
use crate::runtime::interrupt::Pace;
use crate::segment::cache::Reservation;
use crate::{Result, Value};

/// What stays allocated of a key from one row to the next.
const KEPT_BYTES_MAX: usize = 64 << 10;

pub(super) struct Aggregate {
    state: AggregateState,
    evaluator: Evaluator<Arc<Program>>,
    aggregation: Aggregation,
    pace: Pace,
    context: Context,
}

enum AggregateState {
    Taking(Input),
    Kept {
        groups: std::vec::IntoIter<Group>,
        _reservation: Reservation,
    },
    Merged {
        merge: Merge,
        /// The first record of the next group.
        next: Option<Record>,
    },
    Done,
}

impl Aggregate {
    pub(super) fn new(
        input: Input,
        program: Arc<Program>,
        aggregation: Aggregation,
        context: &Context,
    ) -> Aggregate {
        Aggregate {
            state: AggregateState::Taking(input),
            evaluator: Evaluator::of(program),
            aggregation,
            pace: context.pace(),
            context: context.clone(),
        }
    }

    fn take_all(&mut self, mut input: Input) -> Result<AggregateState> {
        let mut groups = Groups::default();
        let mut reservation = self.context.reservation();
        let mut runs = SpilledRuns::new(self.context.memory, &self.context.spill);
        let mut key = Vec::new();
        while let Some(row) = input.next()? {
            self.pace.step()?;
            self.evaluator.next_row();
            key.clear();
            key.shrink_to(KEPT_BYTES_MAX);
            for part in &self.aggregation.keys {
                let value = self.evaluator.value(&row.values, part.expression)?;
                let order = KeyOrder::ascending(part.collation);
                add_key(value, order, &mut key, &self.context.values)?;
            }
            let group = self.group(&mut groups, &key, &row)?;
            let values = &self.context.values;
            take_arguments(
                &mut self.evaluator,
                &self.aggregation,
                &row,
                |index, value| {
                    let place = (group, index);
                    groups.take(&self.aggregation, place, value, row.times, values)
                },
            )?;
            reservation.cover(groups.size.min(self.context.memory));
            if groups.size > self.context.memory {
                self.spill(&mut groups, &mut runs)?;
                runs.settle(&mut self.pace)?;
            }
        }
        if runs.is_empty() {
            let mut groups = groups.into_groups();
            if groups.is_empty() && self.aggregation.keys.is_empty() {
                groups.push(Group::new(&self.aggregation, Vec::new()));
            }
            return Ok(AggregateState::Kept {
                groups: groups.into_iter(),
                _reservation: reservation,
            });
        }
        if !groups.is_empty() {
            self.spill(&mut groups, &mut runs)?;
        }
        let mut merge = runs.merge(&mut self.pace)?;
        let next = merge.next()?;
        Ok(AggregateState::Merged { merge, next })
    }

    /// The group of a row, whose key is `key`.
    fn group(&mut self, groups: &mut Groups, key: &[u8], row: &WeightedRow) -> Result<usize> {
        if let Some(group) = groups.find(key) {
            for (index, part) in self.aggregation.keys.iter().enumerate() {
                let value = self.evaluator.value(&row.values, part.expression)?;
                groups.show(group, index, value);
            }
            return Ok(group);
        }
        let parts = self.aggregation.keys.iter();
        let keys = parts.map(|part| {
            let value = self.evaluator.value(&row.values, part.expression)?;
            self.context.values.copy(value)
        });
        let keys = keys.collect::<Result<_>>()?;
        Ok(groups.add(&self.aggregation, key, keys))
    }

    fn spill(&mut self, groups: &mut Groups, runs: &mut SpilledRuns) -> Result<()> {
        let (aggregation, pace) = (&self.aggregation, &mut self.pace);
        runs.write(|writer| groups.write(aggregation, writer, pace))
    }

    /// Merges the records of the group that begins with `record`, and leaves the first of the next group there.
    fn merge_group(&mut self, merge: &mut Merge, record: &mut Option<Record>) -> Result<Group> {
        let mut group: Option<(Vec<u8>, Group)> = None;
        let mut before: Option<Vec<u8>> = None;
        while let Some(found) = record {
            self.pace.step()?;
            let part = read_part(&self.aggregation, found);
            let (key, part) = part.map_err(|error| spill_error_in(&self.context.spill, error))?;
            if group.as_ref().is_some_and(|group| group.0 != key) {
                break;
            }
            match (part, &mut group) {
                (GroupRecord::State(other), Some((_, group))) => {
                    group.merge(&self.aggregation, other)
                }
                (GroupRecord::State(other), none) => *none = Some((key.to_vec(), other)),
                (GroupRecord::Argument(index, value), Some((_, group))) => {
                    if before.as_ref() != Some(&found.0) {
                        group.take(&self.aggregation, index, &value, 1);
                    }
                }
                // A run begins each group with its state.
                (GroupRecord::Argument(..), None) => {}
            }
            before = Some(std::mem::take(&mut found.0));
            *record = merge.next()?;
        }
        let group = group.map(|(_, group)| group);
        Ok(group.unwrap_or_else(|| Group::new(&self.aggregation, Vec::new())))
    }
}

impl Operator for Aggregate {
    fn next(&mut self) -> Result<Option<WeightedRow>> {
        let mut state = match std::mem::replace(&mut self.state, AggregateState::Done) {
            AggregateState::Taking(input) => self.take_all(input)?,
            state => state,
        };
        let group = match &mut state {
            AggregateState::Kept { groups, .. } => {
                self.pace.step()?;
                groups.next()
            }
            AggregateState::Merged { merge, next } => match next {
                Some(_) => Some(self.merge_group(merge, next)?),
                None => None,
            },
            AggregateState::Taking(_) | AggregateState::Done => None,
        };
        let Some(group) = group else {
            return Ok(None);
        };
        self.state = state;
        let values = group.finish(&self.aggregation)?;
        Ok(Some(WeightedRow { values, times: 1 }))
    }
}

/// Hands the arguments of a row to `take`, by index of their aggregates: those that are not NULL and pass their FILTER.
pub(super) fn take_arguments(
    evaluator: &mut Evaluator<Arc<Program>>,
    aggregation: &Aggregation,
    row: &WeightedRow,
    mut take: impl FnMut(usize, &Value) -> Result<()>,
) -> Result<()> {
    for (index, aggregate) in aggregation.aggregates.iter().enumerate() {
        if let Some(filter) = aggregate.filter
            && !evaluator.are_true(&row.values, &[filter])?
        {
            continue;
        }
        match aggregate.argument {
            None => take(index, &Value::Integer(1))?,
            Some(argument) => match evaluator.value(&row.values, argument)? {
                Value::Null => {}
                value => take(index, value)?,
            },
        }
    }
    Ok(())
}
