//! GROUP BY and aggregates.
//!
//! Groups are collected in memory; when they no longer fit they are written as a run sorted by key, and runs are merged at
//! the end. Invariant: a group is given once, as its keys and then its aggregates. Without keys there is exactly one group.

use std::sync::Arc;

use zipfdb_sql::query::Aggregation;

use super::batch_argument::{BatchArgument, extreme_text};
use super::context::Context;
use super::distinct_numbers::DistinctNumbers;
use super::groups::{Group, GroupRecord, Groups, read_part};
use super::key::{KeyOrder, add_key};
use super::row::{Input, KEPT_BYTES_MAX, LateError, Operator, RowAtHand, RowCollector};
use super::row_numbers::RowNumbers;
use super::spill::{Merge, Record, SpilledRuns, spill_error_in};
use crate::batch::{BATCH_ROWS, Batch, BatchColumn};
use crate::expression::{Evaluator, Program};
use crate::runtime::interrupt::Pace;
use crate::segment::cache::Reservation;
use crate::{Result, Value};

/// The part of memory that numbers of rows may take.
const NUMBERS_SHARE: usize = 4;

pub(super) struct Aggregate {
    state: AggregateState,
    evaluator: Evaluator<Arc<Program>>,
    program: Arc<Program>,
    aggregation: Aggregation,
    /// For each aggregate whether a row counts once, however often it occurs.
    once: Vec<bool>,
    late: LateError,
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

/// What has been taken so far.
struct TakenGroups {
    groups: Groups,
    reservation: Reservation,
    runs: SpilledRuns,
    /// The key of the last row.
    key: Vec<u8>,
}

/// What rows are grouped with one by one.
struct ByRow {
    /// Of groups, by the numbers of their keys.
    numbers: RowNumbers,
    arguments: DistinctNumbers,
    for_arguments: RowAtHand,
    /// For keys and arguments.
    for_all: RowAtHand,
}

impl ByRow {
    /// Within a part of so many bytes.
    fn new(aggregation: &Aggregation, program: &Program, memory: usize) -> ByRow {
        let keys = aggregation.keys.iter().map(|key| key.expression);
        let expressions = (aggregation.aggregates.iter())
            .flat_map(|aggregate| aggregate.argument.into_iter().chain(aggregate.filter));
        ByRow {
            numbers: RowNumbers::new(program.columns(keys.clone()), memory / NUMBERS_SHARE),
            arguments: DistinctNumbers::new(aggregation, program, memory),
            for_arguments: RowAtHand::new(program.columns(expressions.clone())),
            for_all: RowAtHand::new(program.columns(keys.chain(expressions))),
        }
    }
}

impl Aggregate {
    /// Groups rows. An aggregate that is `once` takes each row once; that is what DISTINCT asks for where no argument comes
    /// twice in a group.
    pub(super) fn new(
        input: Input,
        program: Arc<Program>,
        aggregation: Aggregation,
        once: Vec<bool>,
        context: &Context,
    ) -> Aggregate {
        Aggregate {
            state: AggregateState::Taking(input),
            evaluator: Evaluator::of(program.clone()),
            program,
            aggregation,
            once,
            late: LateError::default(),
            pace: context.pace(),
            context: context.clone(),
        }
    }

    fn take_all(&mut self, input: Input) -> Result<AggregateState> {
        let mut taking = TakenGroups {
            groups: Groups::default(),
            reservation: self.context.reservation(),
            runs: SpilledRuns::new(self.context.memory, &self.context.spill),
            key: Vec::new(),
        };
        self.take_batches(input, &mut taking)?;
        let TakenGroups {
            mut groups,
            reservation,
            mut runs,
            ..
        } = taking;
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

    /// Adds a row to its group, and says which that is. An aggregate that is skipped has its argument already.
    fn take_row(
        &mut self,
        row: &[Value],
        times: u64,
        skipped: &[bool],
        taking: &mut TakenGroups,
    ) -> Result<usize> {
        self.evaluator.next_row();
        let TakenGroups { groups, key, .. } = taking;
        key.clear();
        key.shrink_to(KEPT_BYTES_MAX);
        for part in &self.aggregation.keys {
            let value = self.evaluator.value(row, part.expression)?;
            let order = KeyOrder::ascending(part.collation);
            add_key(value, order, key, &self.context.values)?;
        }
        let group = self.group(groups, key, row)?;
        self.take_computed(row, times, skipped, group, groups)?;
        Ok(group)
    }

    /// Adds the arguments of a row to its group.
    fn take_computed(
        &mut self,
        row: &[Value],
        times: u64,
        skipped: &[bool],
        group: usize,
        groups: &mut Groups,
    ) -> Result<()> {
        let (aggregation, values, once) = (&self.aggregation, &self.context.values, &self.once);
        take_arguments(&mut self.evaluator, aggregation, row, |index, value| {
            if skipped[index] {
                return Ok(());
            }
            let times = if once[index] { 1 } else { times };
            groups.take(aggregation, (group, index), value, times, values)
        })
    }

    /// Writes groups to a run if they, and so many bytes more, do not fit into memory; says whether it did.
    fn make_room(&mut self, taking: &mut TakenGroups, more: usize) -> Result<bool> {
        let TakenGroups {
            groups,
            reservation,
            runs,
            ..
        } = taking;
        let size = groups.size.saturating_add(more);
        reservation.cover(size.min(self.context.memory));
        if size <= self.context.memory || groups.is_empty() {
            return Ok(false);
        }
        self.spill(groups, runs)?;
        runs.settle(&mut self.pace)?;
        Ok(true)
    }

    /// Takes batches: a row whose numbers were met before is of the same group, and its key is not made again.
    fn take_batches(&mut self, mut input: Input, taking: &mut TakenGroups) -> Result<()> {
        let program = self.program.clone();
        let aggregation = self.aggregation.clone();
        let mut by_row = None;
        while let Some(mut batch) = input.next_batch(BATCH_ROWS)? {
            let ways = aggregation.aggregates.iter();
            let ways = ways.map(|aggregate| BatchArgument::of(aggregate, &program, &batch));
            let ways: Vec<BatchArgument> = ways.collect();
            if aggregation.keys.is_empty() && self.take_whole(&batch, &ways, &mut taking.groups)? {
                continue;
            }
            let memory = self.context.memory;
            let ByRow {
                numbers,
                arguments,
                for_arguments,
                for_all,
            } = by_row.get_or_insert_with(|| ByRow::new(&aggregation, &program, memory));
            let has_numbers = numbers.takes(&batch);
            arguments.begin(&batch);
            for row in 0..batch.len() {
                self.pace.step()?;
                let times = batch.times_of(row);
                let known = match has_numbers {
                    true => numbers.find(&batch, row),
                    false => None,
                };
                arguments.find(&batch, row);
                match known {
                    Some(group) => {
                        let groups = &mut taking.groups;
                        self.take_known(&batch, row, &ways, group, groups)?;
                        // What columns told is not computed too.
                        let told = ways
                            .iter()
                            .map(|way| !matches!(way, BatchArgument::Computed));
                        let pairs = arguments.skipped.iter_mut().zip(told);
                        pairs.for_each(|(skipped, is_told)| *skipped |= is_told);
                        if !arguments.skipped.iter().all(|&skipped| skipped) {
                            for_arguments.with(&mut batch, row, |values| {
                                self.evaluator.next_row();
                                let skipped = &arguments.skipped;
                                self.take_computed(values, times, skipped, group, groups)
                            })?;
                        }
                    }
                    None => {
                        let group = for_all.with(&mut batch, row, |values| {
                            self.take_row(values, times, &arguments.skipped, taking)
                        })?;
                        if has_numbers {
                            numbers.remember(&batch, row, group);
                        }
                    }
                }
                arguments.remember(&batch, row);
                if self.make_room(taking, numbers.bytes() + arguments.bytes())? {
                    numbers.clear();
                    arguments.clear();
                }
            }
        }
        Ok(())
    }

    /// Takes all rows of a batch into the group of no keys, if their columns tell all that it needs; says whether it did.
    fn take_whole(
        &mut self,
        batch: &Batch,
        ways: &[BatchArgument],
        groups: &mut Groups,
    ) -> Result<bool> {
        if ways
            .iter()
            .any(|way| matches!(way, BatchArgument::Computed))
        {
            return Ok(false);
        }
        let group = match groups.find(&[]) {
            Some(group) => group,
            None => groups.add(&self.aggregation, &[], Vec::new()),
        };
        self.pace.work(batch.len() * size_of::<u64>())?;
        for (index, way) in ways.iter().enumerate() {
            let place = (group, index);
            let times = batch.times.as_deref().filter(|_| !self.once[index]);
            match way {
                BatchArgument::Rows => {
                    let rows = match times {
                        None => batch.len() as u64,
                        Some(_) => batch.total(),
                    };
                    let one = Value::Integer(1);
                    groups.take(&self.aggregation, place, &one, rows, &self.context.values)?;
                }
                BatchArgument::Integers(column) => {
                    if let BatchColumn::Integers(integers) = &batch.columns()[*column] {
                        groups.take_integers(&self.aggregation, place, integers, times);
                    }
                }
                BatchArgument::Texts(column) => {
                    if let BatchColumn::Words {
                        indices,
                        dictionary,
                    } = &batch.columns()[*column]
                    {
                        let function = self.aggregation.aggregates[index].function;
                        if let Some(text) = extreme_text(function, indices, dictionary) {
                            let text = dictionary.value(text);
                            let values = &self.context.values;
                            groups.take(&self.aggregation, place, &text, 1, values)?;
                        }
                    }
                }
                BatchArgument::Computed => {}
            }
        }
        Ok(true)
    }

    /// Adds what columns tell of a row of a batch to the group that it is of.
    fn take_known(
        &mut self,
        batch: &Batch,
        row: usize,
        ways: &[BatchArgument],
        group: usize,
        groups: &mut Groups,
    ) -> Result<()> {
        let (aggregation, values) = (&self.aggregation, &self.context.values);
        for (index, way) in ways.iter().enumerate() {
            let value = match way {
                BatchArgument::Integers(column) | BatchArgument::Texts(column) => {
                    batch.columns()[*column].value(row)
                }
                BatchArgument::Rows => Value::Integer(1),
                BatchArgument::Computed => continue,
            };
            let times = if self.once[index] {
                1
            } else {
                batch.times_of(row)
            };
            groups.take(aggregation, (group, index), &value, times, values)?;
        }
        Ok(())
    }

    /// The group of a row, whose key is `key`.
    fn group(&mut self, groups: &mut Groups, key: &[u8], row: &[Value]) -> Result<usize> {
        if let Some(group) = groups.find(key) {
            for (index, part) in self.aggregation.keys.iter().enumerate() {
                let value = self.evaluator.value(row, part.expression)?;
                groups.show(group, index, value);
            }
            return Ok(group);
        }
        let parts = self.aggregation.keys.iter();
        let keys = parts.map(|part| {
            let value = self.evaluator.value(row, part.expression)?;
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

impl Aggregate {
    /// Appends the groups that come next.
    fn give(
        &mut self,
        state: &mut AggregateState,
        rows_max: usize,
        rows: &mut RowCollector,
    ) -> Result<()> {
        while !rows.is_full(rows_max) {
            self.pace.step()?;
            let group = match state {
                AggregateState::Kept { groups, .. } => groups.next(),
                AggregateState::Merged { merge, next } => match next {
                    Some(_) => Some(self.merge_group(merge, next)?),
                    None => None,
                },
                AggregateState::Taking(_) | AggregateState::Done => None,
            };
            let Some(group) = group else {
                return Ok(());
            };
            rows.push(group.finish(&self.aggregation)?);
        }
        Ok(())
    }
}

impl Operator for Aggregate {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        self.late.check()?;
        let mut state = match std::mem::replace(&mut self.state, AggregateState::Done) {
            AggregateState::Taking(input) => self.take_all(input)?,
            state => state,
        };
        let mut rows = RowCollector::default();
        let ended = self.give(&mut state, rows_max, &mut rows);
        let batch = self.late.after(rows.finish(), ended)?;
        if batch.is_some() {
            self.state = state;
        }
        Ok(batch)
    }
}

/// Hands the arguments of a row to `take`, by index of their aggregates: those that are not NULL and pass their FILTER.
pub(super) fn take_arguments(
    evaluator: &mut Evaluator<Arc<Program>>,
    aggregation: &Aggregation,
    row: &[Value],
    mut take: impl FnMut(usize, &Value) -> Result<()>,
) -> Result<()> {
    for (index, aggregate) in aggregation.aggregates.iter().enumerate() {
        if let Some(filter) = aggregate.filter
            && !evaluator.are_true(row, &[filter])?
        {
            continue;
        }
        match aggregate.argument {
            None => take(index, &Value::Integer(1))?,
            Some(argument) => match evaluator.value(row, argument)? {
                Value::Null => {}
                value => take(index, value)?,
            },
        }
    }
    Ok(())
}
