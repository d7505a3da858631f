//! GROUP BY and aggregates.
//!
//! Groups are collected in memory, with the arguments that are DISTINCT or that an aggregate needs in order; when they no longer
//! fit they are written as a run sorted by key, and runs are merged at the end. Invariants: a group is returned once, as its keys
//! and then its aggregates; without keys there is exactly one group. Aggregates that need their arguments in order do not depend
//! on the order of rows.

use std::sync::Arc;

use zipfdb_sql::query::Aggregation;

use super::accumulate::check_parameter;
use super::context::Context;
use super::group::{CollectedArgument, Group, GroupRecord, read_part};
use super::group_index::RowSteps;
use super::groups::{BATCHES_APART, Groups};
use super::row::{Input, LateError, Operator, RowCollector};
use super::spill::{Merge, SpilledRecord, SpilledRuns};
use crate::Result;
use crate::batch::{BATCH_ROWS, Batch};
use crate::expression::Program;
use crate::runtime::interrupt::Pace;
use crate::segment::cache::Reservation;

pub(super) struct Aggregate {
    state: AggregateState,
    aggregation: Aggregation,
    program: Arc<Program>,
    late: LateError,
    pace: Pace,
    context: Context,
}

enum AggregateState {
    Taking(Input, Box<Groups>),
    Kept {
        groups: Box<Groups>,
        /// The next group.
        next: usize,
        _reservation: Reservation,
    },
    Merged {
        merge: Merge,
        /// The first record of the next group.
        next: Option<SpilledRecord>,
    },
    Done,
}

impl Aggregate {
    /// Groups rows. An aggregate marked in `once` takes each row once; DISTINCT means that where no argument comes twice in a
    /// group.
    ///
    /// # Errors
    /// If a second argument of an aggregate has the wrong kind.
    pub(super) fn new(
        input: Input,
        program: Arc<Program>,
        aggregation: Aggregation,
        once: Vec<bool>,
        context: &Context,
    ) -> Result<Aggregate> {
        for aggregate in &aggregation.aggregates {
            check_parameter(aggregate, &program)?;
        }
        let groups = Groups::new(&aggregation, &program, once, context);
        Ok(Aggregate {
            state: AggregateState::Taking(input, Box::new(groups)),
            aggregation,
            program,
            late: LateError::default(),
            pace: context.pace(),
            context: context.clone(),
        })
    }

    fn take_all(&mut self, mut input: Input, mut groups: Box<Groups>) -> Result<AggregateState> {
        let mut reservation = self.context.reservation();
        let mut runs = SpilledRuns::new(self.context.memory, &self.context.spill);
        let mut steps = RowSteps::default();
        while let Some(batch) = input.next_batch(BATCH_ROWS)? {
            if steps.are_whole() && groups.pays_apart(&batch) {
                self.pace.work(batch.len() * size_of::<u64>())?;
                let before = groups.bytes();
                groups.take_apart(batch)?;
                // The table is measured once for all batches that are added together.
                steps.grow(groups.bytes().saturating_sub(before) / BATCHES_APART);
                self.make_room(&mut groups, &mut reservation, &mut runs)?;
                continue;
            }
            let mut first = 0;
            while first < batch.len() {
                let rows = steps.next(first, batch.len());
                first = rows.end;
                self.pace.work(rows.len() * size_of::<u64>())?;
                let before = groups.bytes();
                groups.take(&batch, rows)?;
                steps.grow(groups.bytes().saturating_sub(before));
                self.make_room(&mut groups, &mut reservation, &mut runs)?;
            }
        }
        if runs.is_empty() {
            groups.finish()?;
            return Ok(AggregateState::Kept {
                groups,
                next: 0,
                _reservation: reservation,
            });
        }
        if groups.len()? > 0 {
            runs.write(|writer| groups.write(writer, &mut self.pace))?;
        }
        let mut merge = runs.merge(&mut self.pace)?;
        let next = merge.next()?;
        Ok(AggregateState::Merged { merge, next })
    }

    /// Writes groups to a run if they do not fit into memory.
    fn make_room(
        &mut self,
        groups: &mut Groups,
        reservation: &mut Reservation,
        runs: &mut SpilledRuns,
    ) -> Result<()> {
        let bytes = groups.bytes();
        reservation.cover(bytes.min(self.context.memory));
        if bytes <= self.context.memory || groups.len()? == 0 {
            return Ok(());
        }
        runs.write(|writer| groups.write(writer, &mut self.pace))?;
        runs.settle(&mut self.pace)
    }

    /// Merges the records of the group that begins with `record`, which becomes the first record of the next group.
    fn merge_group(
        &mut self,
        merge: &mut Merge,
        record: &mut Option<SpilledRecord>,
    ) -> Result<Group> {
        let of = (&self.aggregation, &*self.program);
        let mut group: Option<(Vec<u8>, Group)> = None;
        // The argument that is taken once all equal ones have come, with its key.
        let mut argument: Option<(Vec<u8>, CollectedArgument)> = None;
        while let Some(found) = record {
            self.pace.step()?;
            let part = read_part(of, found);
            let (key, part) = part.map_err(|error| self.context.spill.failed(error))?;
            if group.as_ref().is_some_and(|group| group.0 != key) {
                break;
            }
            match (part, &mut group) {
                (GroupRecord::State(other), Some((_, group))) => {
                    group.merge(&self.aggregation, other)
                }
                (GroupRecord::State(other), none) => *none = Some((key.to_vec(), other)),
                (GroupRecord::Argument(other), Some((_, group))) => match &mut argument {
                    Some((key, same)) if *key == found.0 => same.add(other),
                    argument => {
                        let key = std::mem::take(&mut found.0);
                        if let Some((_, before)) = argument.replace((key, other)) {
                            group.take_collected(&self.aggregation, &before, &self.context)?;
                        }
                    }
                },
                // A run begins each group with its state.
                (GroupRecord::Argument(_), None) => {}
            }
            *record = merge.next()?;
        }
        let group = group.map(|(_, group)| group);
        let mut group =
            group.unwrap_or_else(|| Group::new(&self.aggregation, &self.program, Vec::new()));
        if let Some((_, last)) = argument {
            group.take_collected(&self.aggregation, &last, &self.context)?;
        }
        Ok(group)
    }

    /// Appends the next groups of a merge.
    fn merge_groups(
        &mut self,
        merge: &mut Merge,
        next: &mut Option<SpilledRecord>,
        rows_max: usize,
        rows: &mut RowCollector,
    ) -> Result<()> {
        while !rows.is_full(rows_max) && next.is_some() {
            self.pace.step()?;
            let group = self.merge_group(merge, next)?;
            rows.push(group.finish(&self.aggregation)?);
        }
        Ok(())
    }
}

impl Operator for Aggregate {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        self.late.check()?;
        let mut state = match std::mem::replace(&mut self.state, AggregateState::Done) {
            AggregateState::Taking(input, groups) => self.take_all(input, groups)?,
            state => state,
        };
        let (made, ended) = match &mut state {
            AggregateState::Kept { groups, next, .. } => {
                let (made, ended) = groups.batch(*next, rows_max);
                *next += made.as_ref().map_or(0, Batch::len);
                (made, ended)
            }
            AggregateState::Merged { merge, next } => {
                let mut rows = RowCollector::default();
                let ended = self.merge_groups(merge, next, rows_max, &mut rows);
                (rows.finish(), ended)
            }
            AggregateState::Taking(..) | AggregateState::Done => (None, Ok(())),
        };
        let batch = self.late.after(made, ended)?;
        if batch.is_some() {
            self.state = state;
        }
        Ok(batch)
    }
}
