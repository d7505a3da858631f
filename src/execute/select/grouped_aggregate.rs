//! `GroupedAggregate`: an aggregate of all groups in memory.
//!
//! Rows are taken as a batch, aggregate by aggregate. Invariant: a row adds to its own group; its argument counts once if it is
//! DISTINCT, and where an aggregate needs order, arguments are collected and taken when all of a group are there.

use std::ops::Range;
use std::sync::Arc;

use zipfdb_kernels::reserve_on_huge_pages;
use zipfdb_sql::query::{Aggregate, AggregateFunction};

use super::accumulate::{Accumulator, needs_order};
use super::argument::{extreme_text, may_be_null};
use super::codec::Encoder;
use super::context::Context;
use super::group::collects;
use super::group_index::{GroupIndex, RowKeys};
use super::group_keys::{AggregateKeys, AggregateRows};
use crate::batch::{Batch, BatchColumn, ColumnBuilder};
use crate::expression::{Evaluator, Program};
use crate::{Result, Value};

/// An aggregate of all groups.
pub(super) struct GroupedAggregate {
    aggregate: Aggregate,
    program: Arc<Program>,
    /// Whether a row counts once, with any multiplicity.
    is_once: bool,
    /// The states by group; where order is needed, of the next groups to be returned.
    states: Vec<Accumulator>,
    /// Bytes that states have on the heap.
    kept_bytes: usize,
    pub(super) collected: Option<Collected>,
}

/// Rows of a batch with their groups.
pub(super) struct GroupedRows<'a> {
    pub(super) batch: &'a Batch,
    pub(super) rows: Range<usize>,
    /// By row, from the first.
    pub(super) group_of: &'a [u32],
    /// Whether all are of the first group.
    pub(super) are_together: bool,
    pub(super) evaluator: &'a mut Evaluator<Arc<Program>>,
}

impl GroupedRows<'_> {
    fn group(&self, row: usize) -> u32 {
        self.group_of[row - self.rows.start]
    }

    /// The number of times that a row counts.
    fn times(&self, row: usize, is_once: bool) -> u64 {
        if is_once { 1 } else { self.batch.times_of(row) }
    }
}

impl GroupedAggregate {
    pub(super) fn new(
        aggregate: &Aggregate,
        program: &Arc<Program>,
        is_once: bool,
    ) -> GroupedAggregate {
        GroupedAggregate {
            aggregate: aggregate.clone(),
            program: program.clone(),
            is_once,
            states: Vec::new(),
            kept_bytes: 0,
            collected: collects(aggregate).then(Collected::default),
        }
    }

    /// Whether its states are counts.
    pub(super) fn is_count(&self) -> bool {
        self.aggregate.function == AggregateFunction::Count
    }

    /// Whether arguments are taken once all of a group are there.
    fn waits(&self) -> bool {
        self.collected.is_some() && needs_order(&self.aggregate)
    }

    /// Adds states until there are `groups` of them.
    pub(super) fn grow(&mut self, groups: usize) {
        if !self.waits() {
            let more = groups - self.states.len();
            reserve_on_huge_pages(&mut self.states, more);
            let new = || Accumulator::new(&self.aggregate, &self.program);
            self.states.resize_with(groups, new);
        }
    }

    /// Adds to the count of a group.
    #[inline]
    fn count(&mut self, group: u32, times: u64) {
        if let Accumulator::Count(count) = &mut self.states[group as usize] {
            *count += times;
        }
    }

    /// Takes an argument that is not NULL.
    fn take(&mut self, group: u32, value: &Value, times: u64) {
        let state = &mut self.states[group as usize];
        let before = state.kept_bytes();
        state.take(&self.aggregate, value, times);
        self.kept_bytes = self.kept_bytes + state.kept_bytes() - before;
    }

    /// Collects the arguments of rows. New arguments of a group are taken, if no order is needed; without `keys` they only count.
    pub(super) fn collect(
        &mut self,
        rows: &GroupedRows<'_>,
        mut own: AggregateRows,
        keys: Option<&RowKeys>,
    ) {
        let count = own.passing.as_ref().map_or(rows.rows.len(), Vec::len);
        let waits = self.waits();
        let Some(mut collected) = self.collected.take() else {
            return;
        };
        let equals = keys.and_then(RowKeys::equals);
        let width = own.arguments.len() / count.max(1);
        for (index, numbers) in own.arguments.chunks_exact_mut(width.max(1)).enumerate() {
            let passing = own.passing.as_ref().map(|passing| passing[index]);
            let row = passing.unwrap_or(rows.rows.start + index);
            let group = rows.group(row);
            numbers[0] = u64::from(group);
            let (argument, is_known) = collected.rows.intern(numbers, equals);
            if waits && !self.aggregate.distinct {
                let times = rows.times(row, self.is_once);
                collected.count(argument, is_known, times);
            } else if !waits && !is_known {
                match keys {
                    _ if self.is_count() => self.count(group, 1),
                    Some(keys) => self.take(group, &keys.last(collected.rows.numbers(argument)), 1),
                    None => unreachable!("without keys no values of arguments are asked for"),
                }
            }
        }
        self.collected = Some(collected);
    }

    /// Takes the arguments of rows, or of those `passing`, each with its multiplicity or once.
    ///
    /// # Errors
    /// If one cannot be computed.
    pub(super) fn take_rows(
        &mut self,
        rows: &mut GroupedRows<'_>,
        passing: Option<Vec<usize>>,
    ) -> Result<()> {
        if passing.is_none() && rows.are_together && self.take_together(rows) {
            return Ok(());
        }
        let counts = self.is_count() && !may_be_null(&self.aggregate, &self.program, rows.batch);
        let all = rows.rows.clone();
        let mut take = |row: usize| -> Result<()> {
            let group = rows.group(row);
            let times = rows.times(row, self.is_once);
            match self.aggregate.argument.filter(|_| !counts) {
                None => self.count(group, times),
                Some(argument) => {
                    rows.evaluator.next_row();
                    let value = rows.evaluator.value((rows.batch, row), argument)?;
                    if *value != Value::Null {
                        self.take(group, value, times);
                    }
                }
            }
            Ok(())
        };
        match passing {
            None => all.into_iter().try_for_each(&mut take),
            Some(passing) => passing.into_iter().try_for_each(take),
        }
    }

    /// Takes rows that are all of the first group, if their arguments are columns. Returns whether it did.
    fn take_together(&mut self, rows: &GroupedRows<'_>) -> bool {
        let GroupedRows { batch, rows, .. } = rows;
        let times = batch.times.as_deref().filter(|_| !self.is_once);
        let times = times.map(|times| &times[rows.clone()]);
        if self.is_count() && !may_be_null(&self.aggregate, &self.program, batch) {
            let count = times.map_or(rows.len() as u64, |times| times.iter().sum());
            self.count(0, count);
            return true;
        }
        let column = self.aggregate.argument;
        let column = column.and_then(|argument| self.program.column(argument));
        match column.map(|column| &batch.columns()[column]) {
            Some(BatchColumn::Integers(integers)) => {
                let integers = &integers[rows.clone()];
                self.states[0].take_integers(&self.aggregate, integers, times);
            }
            Some(BatchColumn::Words {
                indices,
                dictionary,
            }) => {
                let indices = &indices[rows.clone()];
                let Some(text) = extreme_text(&self.aggregate, indices, dictionary) else {
                    return false;
                };
                self.take(0, &dictionary.value(text), 1);
            }
            _ => return false,
        }
        true
    }

    /// Sorts the collected arguments of `groups` groups, once all rows are taken.
    ///
    /// # Errors
    /// If the query must end.
    pub(super) fn sort(
        &mut self,
        keys: &AggregateKeys,
        groups: usize,
        context: &Context,
    ) -> Result<()> {
        match &mut self.collected {
            Some(collected) => collected.sort(keys, groups, context),
            None => Ok(()),
        }
    }

    /// Forgets the states of returned groups, where order is needed.
    pub(super) fn forget_given(&mut self) {
        if self.waits() {
            self.states.clear();
            self.kept_bytes = 0;
        }
    }

    /// Lets a group take its collected arguments in order, if needed. Returns the bytes that states have on the heap.
    ///
    /// # Errors
    /// If one exceeds the memory.
    pub(super) fn take_in_order(
        &mut self,
        group: u32,
        keys: &AggregateKeys,
        context: &Context,
    ) -> Result<usize> {
        let (true, Some(collected), Some(keys)) = (self.waits(), &self.collected, &keys.argument)
        else {
            return Ok(0);
        };
        let mut state = Accumulator::new(&self.aggregate, &self.program);
        state.expect(collected.total(group));
        let mut pace = context.pace();
        for &row in collected.of_group(group) {
            pace.step()?;
            let value = keys.last(collected.rows.numbers(row as usize));
            state.take_in_order(&self.aggregate, &value, collected.times_of(row), context)?;
        }
        self.kept_bytes += state.kept_bytes();
        self.states.push(state);
        Ok(self.kept_bytes)
    }

    /// The values of groups, whose states are gone then, up to one that fails.
    pub(super) fn finish(&mut self, groups: Range<usize>) -> (BatchColumn, Result<()>) {
        let groups = if self.waits() {
            0..groups.len()
        } else {
            groups
        };
        let mut column = ColumnBuilder::default();
        for state in &mut self.states[groups] {
            let state = std::mem::replace(state, Accumulator::Count(0));
            match state.finish(self.aggregate.function) {
                Ok(value) => column.push(value),
                Err(error) => return (column.finish(), Err(error)),
            }
        }
        (column.finish(), Ok(()))
    }

    /// Writes the state of a group. Collected arguments, which are sorted, are taken in the merge.
    pub(super) fn encode(&self, group: u32, encoder: &mut Encoder) {
        match &self.collected {
            None => self.states[group as usize].encode(encoder),
            Some(collected) => {
                let mut new = Accumulator::new(&self.aggregate, &self.program);
                new.expect(collected.total(group));
                new.encode(encoder);
            }
        }
    }

    /// Bytes that the state of a group has on the heap.
    pub(super) fn kept_bytes(&self, group: usize) -> usize {
        if self.waits() {
            return 0;
        }
        self.states[group].kept_bytes()
    }

    /// The memory of all of it while it is written, in bytes, about.
    pub(super) fn bytes(&self) -> usize {
        let collected = self.collected.as_ref().map_or(0, Collected::bytes);
        let states = 2 * self.states.len() * Accumulator::size(self.aggregate.function);
        states + self.kept_bytes + collected
    }

    /// Ends taking rows: only arguments collected for their order are needed further.
    pub(super) fn end(&mut self) {
        if self.waits() {
            (self.collected.iter_mut()).for_each(|collected| collected.rows.finish());
        } else {
            self.collected = None;
        }
    }

    /// Forgets all groups.
    pub(super) fn clear(&mut self) {
        *self = GroupedAggregate::new(&self.aggregate, &self.program, self.is_once);
    }
}

/// The collected arguments of an aggregate.
#[derive(Default)]
pub(super) struct Collected {
    /// Each behind its group and the keys of its order.
    pub(super) rows: GroupIndex,
    /// The multiplicity of each, if the aggregate needs order and is not DISTINCT.
    times: Vec<u64>,
    /// Once they are sorted, rows by group and then in order, and where those of each group begin.
    order: Vec<u32>,
    starts: Vec<u32>,
}

impl Collected {
    fn bytes(&self) -> usize {
        2 * size_of_val(&self.times[..]) + self.rows.bytes() + self.rows.sort_bytes()
    }

    /// Counts an interned row.
    fn count(&mut self, row: usize, is_known: bool, times: u64) {
        if is_known {
            self.times[row] += times;
        } else {
            self.times.push(times);
        }
    }

    /// The multiplicity of a row; 1 with DISTINCT.
    pub(super) fn times_of(&self, row: u32) -> u64 {
        self.times.get(row as usize).map_or(1, |&times| times)
    }

    /// Sorts arguments by group, of which there are `groups`, and by their order.
    ///
    /// # Errors
    /// If the query must end.
    fn sort(&mut self, keys: &AggregateKeys, groups: usize, context: &Context) -> Result<()> {
        if let Some(argument) = &keys.argument {
            self.order = argument.sorted(&self.rows, &keys.orders, context)?;
        }
        self.starts = vec![0; groups + 1];
        // There are fewer rows than 2^32.
        for row in 0..self.rows.len() {
            self.starts[self.rows.numbers(row)[0] as usize + 1] += 1;
        }
        for group in 0..groups {
            self.starts[group + 1] += self.starts[group];
        }
        Ok(())
    }

    /// The arguments of a group, in order.
    pub(super) fn of_group(&self, group: u32) -> &[u32] {
        let [start, end] = [0, 1].map(|next| self.starts[group as usize + next] as usize);
        &self.order[start..end]
    }

    /// The number of arguments of a group.
    fn total(&self, group: u32) -> u64 {
        let rows = self.of_group(group).iter();
        rows.map(|&row| self.times_of(row)).sum()
    }
}
