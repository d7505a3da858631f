//! `GroupTable`: groups by the numbers of their keys, with the states of aggregates.
//!
//! The states of an aggregate are an array: rows of a batch are taken key by key, then aggregate by aggregate. Invariant: a row adds
//! to the group whose keys are equal to its own, and its arguments count once if they are DISTINCT. What numbers of keys mean is not
//! known here, so that rows can be taken on another thread than the one that makes numbers.

use std::ops::Range;
use std::sync::Arc;

use zipfdb_kernels::reserve_on_huge_pages;
use zipfdb_sql::query::{Aggregate, AggregateFunction, Aggregation};

use super::accumulate::Accumulator;
use super::argument::{BatchArgument, extreme_text};
use super::expression_values::ExpressionValues;
use super::group::is_distinct;
use super::group_keys::{AggregateRows, GroupKeys, NumberedBatch};
use super::numbered_rows::{RowKeys, RowTable};
use crate::batch::{Batch, BatchColumn, ColumnBuilder};
use crate::expression::{Evaluator, Program, integer_of_count};
use crate::runtime::memory::ValueMemory;
use crate::{Result, Value};

/// What a group or an argument takes where it is written: its key in a list, and the allocation of that.
const KEY_BYTES: usize = size_of::<(Vec<u8>, u32)>() + 32;

/// The groups in memory, without what their numbers mean.
pub(super) struct GroupTable {
    pub(super) rows: RowTable,
    pub(super) aggregates: Vec<GroupedAggregate>,
    aggregation: Arc<Aggregation>,
    program: Arc<Program>,
    evaluator: Evaluator<Arc<Program>>,
    /// For each aggregate whether a row counts once, however often it occurs.
    once: Vec<bool>,
    /// The groups of the rows at hand.
    group_of: Vec<u32>,
}

/// What is known of an aggregate.
pub(super) struct GroupedAggregate {
    pub(super) states: States,
    argument: Option<ExpressionValues>,
    /// The arguments that were taken, each behind its group, if it is DISTINCT.
    pub(super) taken: Option<RowTable>,
}

/// Rows of a batch whose groups are known.
struct GroupedRows<'a> {
    batch: &'a mut Batch,
    rows: Range<usize>,
    /// By row, from the first.
    group_of: &'a [u32],
    /// Whether all are of the first group.
    are_together: bool,
    evaluator: &'a mut Evaluator<Arc<Program>>,
}

impl GroupedRows<'_> {
    fn group(&self, row: usize) -> u32 {
        self.group_of[row - self.rows.start]
    }
}

/// The states of an aggregate, by group.
pub(super) enum States {
    Counts(Vec<u64>),
    Others {
        states: Vec<Accumulator>,
        /// What they take beside themselves.
        bytes: usize,
    },
}

impl GroupTable {
    /// A table without groups. What is known of the texts of an expression may take `share` bytes.
    pub(super) fn new(
        aggregation: &Arc<Aggregation>,
        program: &Arc<Program>,
        once: Vec<bool>,
        share: usize,
    ) -> GroupTable {
        let aggregates = (0..aggregation.aggregates.len()).map(|index| {
            let aggregate = &aggregation.aggregates[index];
            let values = |id| ExpressionValues::new(id, program, share);
            let is_distinct = is_distinct(aggregation, index);
            GroupedAggregate {
                states: States::new(aggregate.function),
                argument: aggregate.argument.filter(|_| !is_distinct).map(values),
                taken: is_distinct.then(RowTable::default),
            }
        });
        GroupTable {
            rows: RowTable::default(),
            aggregates: aggregates.collect(),
            evaluator: Evaluator::of(program.clone()),
            group_of: Vec::new(),
            aggregation: aggregation.clone(),
            program: program.clone(),
            once,
        }
    }

    /// Adds rows of a batch to their groups. Without `keys` different numbers are different values, and DISTINCT aggregates only count.
    ///
    /// # Errors
    /// If an argument cannot be computed, or there is no memory for it.
    pub(super) fn take(
        &mut self,
        batch: &mut Batch,
        numbered: NumberedBatch,
        keys: Option<&GroupKeys>,
    ) -> Result<()> {
        let rows = numbered.rows;
        self.group_of.clear();
        if self.aggregation.keys.is_empty() {
            self.rows.find_or_add(&[], None);
            self.group_of.resize(rows.len(), 0);
        } else {
            let width = numbered.keys.len() / rows.len();
            let equals = keys.and_then(|keys| keys.keys.equals());
            // There are fewer than 2^32 groups.
            let groups = (numbered.keys.chunks_exact(width))
                .map(|numbers| self.rows.find_or_add(numbers, equals).0 as u32);
            self.group_of.extend(groups);
        }
        let aggregates = self.aggregates.iter_mut().zip(&self.once);
        let aggregates = aggregates.zip(&self.aggregation.aggregates);
        for (index, (((state, &is_once), aggregate), own)) in
            aggregates.zip(numbered.aggregates).enumerate()
        {
            state.states.grow(self.rows.len(), aggregate.function);
            let mut rows = GroupedRows {
                batch,
                rows: rows.clone(),
                group_of: &self.group_of,
                are_together: self.aggregation.keys.is_empty(),
                evaluator: &mut self.evaluator,
            };
            if state.taken.is_some() {
                let keys = keys.and_then(|keys| keys.aggregates[index].argument.as_ref());
                state.take_distinct(aggregate, &rows, own, keys);
            } else {
                let way = BatchArgument::of(aggregate, &self.program, rows.batch);
                state.take(aggregate, &mut rows, own.passing, way, is_once)?;
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
        let arguments = arguments
            .filter_map(|(keys, state)| Some((keys.argument.as_mut()?, state.taken.as_mut()?)));
        for (keys, rows) in arguments.chain([(&mut keys.keys, &mut self.rows)]) {
            if !keys.begin(batch) {
                rows.number_values(keys, memory)?;
            }
        }
        Ok(())
    }

    /// How many groups there are.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// About how many bytes all this takes, while it is written too.
    pub(super) fn bytes(&self) -> usize {
        let aggregates = self.aggregates.iter().map(|aggregate| {
            let values = aggregate.argument.iter().map(ExpressionValues::bytes);
            let taken = aggregate.taken.iter();
            let taken = taken.map(|taken| taken.bytes() + taken.len() * KEY_BYTES);
            aggregate.states.bytes() + values.chain(taken).sum::<usize>()
        });
        let written = match self.aggregation.keys.len() {
            0 => 0,
            _ => self.len() * KEY_BYTES,
        };
        self.rows.bytes() + written + aggregates.sum::<usize>()
    }

    /// Ends taking rows. Without keys there is one group, even if it has no rows.
    pub(super) fn finish(&mut self) {
        if self.aggregation.keys.is_empty() && self.len() == 0 {
            self.rows.find_or_add(&[], None);
            for (state, aggregate) in self.aggregates.iter_mut().zip(&self.aggregation.aggregates) {
                state.states.grow(1, aggregate.function);
            }
        }
        self.rows.finish();
        for state in &mut self.aggregates {
            (state.argument, state.taken) = (None, None);
        }
    }

    /// The values of aggregates of groups as columns, up to the first that fails, and how many rows they have.
    pub(super) fn columns(
        &mut self,
        groups: Range<usize>,
    ) -> (Vec<BatchColumn>, usize, Result<()>) {
        let (mut length, mut ended) = (groups.len(), Ok(()));
        let mut columns = Vec::with_capacity(self.aggregates.len());
        for (state, aggregate) in self.aggregates.iter_mut().zip(&self.aggregation.aggregates) {
            let groups = groups.start..groups.start + length;
            let (column, failed) = state.states.finish(groups, aggregate.function);
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
        self.aggregates
            .iter()
            .all(|aggregate| aggregate.states.is_of_counts())
    }

    /// Bytes that the states of a group keep outside of themselves.
    pub(super) fn kept_bytes(&self, group: usize) -> usize {
        let states = self.aggregates.iter();
        states
            .map(|aggregate| aggregate.states.kept_bytes(group))
            .sum()
    }

    /// The states of a group as they are written. What an aggregate that is DISTINCT has taken is counted again in the merge, once.
    pub(super) fn states(&self, group: usize) -> Vec<Accumulator> {
        let states = self.aggregates.iter().zip(&self.aggregation.aggregates);
        let states = states.map(|(state, aggregate)| match &state.taken {
            Some(_) => Accumulator::new(aggregate.function),
            None => state.states.state(group),
        });
        states.collect()
    }

    /// Forgets all groups.
    pub(super) fn clear(&mut self) {
        self.rows = RowTable::default();
        for (state, aggregate) in self.aggregates.iter_mut().zip(&self.aggregation.aggregates) {
            state.states = States::new(aggregate.function);
            state.argument.iter_mut().for_each(ExpressionValues::clear);
            if let Some(taken) = &mut state.taken {
                *taken = RowTable::default();
            }
        }
    }
}

impl GroupedAggregate {
    /// Takes the arguments of rows that their groups do not have yet.
    fn take_distinct(
        &mut self,
        aggregate: &Aggregate,
        rows: &GroupedRows<'_>,
        AggregateRows {
            passing,
            mut arguments,
        }: AggregateRows,
        keys: Option<&RowKeys>,
    ) {
        let count = passing.as_ref().map_or(rows.rows.len(), Vec::len);
        let Some(taken) = self.taken.as_mut().filter(|_| count > 0) else {
            return;
        };
        let equals = keys.and_then(RowKeys::equals);
        let width = arguments.len() / count;
        for (index, numbers) in arguments.chunks_exact_mut(width).enumerate() {
            let group = match &passing {
                None => rows.group_of[index],
                Some(passing) => rows.group(passing[index]),
            };
            numbers[0] = u64::from(group);
            let (argument, is_known) = taken.find_or_add(numbers, equals);
            match (aggregate.function, keys) {
                _ if is_known => {}
                (AggregateFunction::Count, _) => self.states.count(group, 1),
                (_, Some(keys)) => {
                    let value = keys.value(taken.numbers(argument), 0);
                    self.states.take(group, aggregate, &value, 1);
                }
                (_, None) => unreachable!("without keys DISTINCT aggregates only count"),
            }
        }
    }

    /// Takes the arguments of rows, each as often as it occurs or once.
    fn take(
        &mut self,
        aggregate: &Aggregate,
        rows: &mut GroupedRows<'_>,
        passing: Option<Vec<usize>>,
        way: BatchArgument,
        is_once: bool,
    ) -> Result<()> {
        let states = &mut self.states;
        if rows.are_together && passing.is_none() {
            let times = rows.batch.times.as_deref().filter(|_| !is_once);
            let times = times.map(|times| &times[rows.rows.clone()]);
            if states.take_together(aggregate, way, rows.batch, rows.rows.clone(), times) {
                return Ok(());
            }
        }
        if let (States::Counts(counts), BatchArgument::Rows, None) = (&mut *states, way, &passing) {
            let times = rows.batch.times.as_deref().filter(|_| !is_once);
            match times.map(|times| &times[rows.rows.clone()]) {
                None => (rows.group_of.iter()).for_each(|&group| counts[group as usize] += 1),
                Some(times) => {
                    let rows = rows.group_of.iter().zip(times);
                    rows.for_each(|(&group, times)| counts[group as usize] += times);
                }
            }
            return Ok(());
        }
        let all = rows.rows.clone();
        let mut take = |row: usize| -> Result<()> {
            let group = rows.group(row);
            let times = if is_once { 1 } else { rows.batch.times_of(row) };
            match (way, &mut self.argument) {
                (BatchArgument::Rows, _) => states.count(group, times),
                (BatchArgument::Integers(column) | BatchArgument::Texts(column), _) => {
                    let value = rows.batch.columns()[column].value(row);
                    states.take(group, aggregate, &value, times);
                }
                (BatchArgument::Computed, Some(argument)) => {
                    argument.with(rows.batch, row, rows.evaluator, |value| {
                        if *value != Value::Null {
                            states.take(group, aggregate, value, times);
                        }
                        Ok(())
                    })?;
                }
                (BatchArgument::Computed, None) => {
                    states.take(group, aggregate, &Value::Integer(1), times);
                }
            }
            Ok(())
        };
        match passing {
            None => all.into_iter().try_for_each(&mut take),
            Some(passing) => passing.into_iter().try_for_each(take),
        }
    }
}

impl States {
    fn new(function: AggregateFunction) -> States {
        match function {
            AggregateFunction::Count => States::Counts(Vec::new()),
            _ => States::Others {
                states: Vec::new(),
                bytes: 0,
            },
        }
    }

    /// Adds states until there are `groups` of them.
    fn grow(&mut self, groups: usize, function: AggregateFunction) {
        match self {
            States::Counts(counts) => {
                reserve_on_huge_pages(counts, groups - counts.len());
                counts.resize(groups, 0);
            }
            States::Others { states, .. } => {
                states.resize_with(groups, || Accumulator::new(function));
            }
        }
    }

    /// Adds `times` to the count of a group.
    #[inline]
    fn count(&mut self, group: u32, times: u64) {
        if let States::Counts(counts) = self {
            counts[group as usize] += times;
        }
    }

    /// Takes an argument that is not NULL.
    fn take(&mut self, group: u32, aggregate: &Aggregate, value: &Value, times: u64) {
        match self {
            States::Counts(counts) => counts[group as usize] += times,
            States::Others { states, bytes } => {
                let state = &mut states[group as usize];
                let before = state.kept_bytes();
                state.take(aggregate, value, times);
                *bytes = *bytes + state.kept_bytes() - before;
            }
        }
    }

    /// Takes rows that are all of the first group, if columns tell their arguments; says whether it did.
    fn take_together(
        &mut self,
        aggregate: &Aggregate,
        way: BatchArgument,
        batch: &Batch,
        rows: Range<usize>,
        times: Option<&[u64]>,
    ) -> bool {
        match (way, &mut *self) {
            (BatchArgument::Rows, _) => {
                let count = match times {
                    None => rows.len() as u64,
                    Some(times) => times.iter().sum(),
                };
                self.count(0, count);
            }
            (BatchArgument::Integers(column), States::Others { states, .. }) => {
                if let BatchColumn::Integers(integers) = &batch.columns()[column] {
                    states[0].take_integers(aggregate, &integers[rows], times);
                }
            }
            (BatchArgument::Texts(column), States::Others { .. }) => {
                if let BatchColumn::Words {
                    indices,
                    dictionary,
                } = &batch.columns()[column]
                    && let Some(text) = extreme_text(aggregate.function, &indices[rows], dictionary)
                {
                    self.take(0, aggregate, &dictionary.value(text), 1);
                }
            }
            _ => return false,
        }
        true
    }

    pub(super) fn is_of_counts(&self) -> bool {
        matches!(self, States::Counts(_))
    }

    /// The state of a group.
    fn state(&self, group: usize) -> Accumulator {
        match self {
            States::Counts(counts) => Accumulator::Count(counts[group]),
            States::Others { states, .. } => states[group].clone(),
        }
    }

    /// The values of the aggregate of groups, whose states are gone then, up to one that fails.
    fn finish(
        &mut self,
        groups: Range<usize>,
        function: AggregateFunction,
    ) -> (BatchColumn, Result<()>) {
        match self {
            States::Counts(counts) => {
                let counts = counts[groups].iter();
                let counts = counts.map(|&count| integer_of_count(count));
                (BatchColumn::Integers(counts.collect()), Ok(()))
            }
            States::Others { states, .. } => {
                let mut column = ColumnBuilder::default();
                for state in &mut states[groups] {
                    let state = std::mem::replace(state, Accumulator::Count(0));
                    match state.finish(function) {
                        Ok(value) => column.push(value),
                        Err(error) => return (column.finish(), Err(error)),
                    }
                }
                (column.finish(), Ok(()))
            }
        }
    }

    /// Bytes that the state of a group keeps outside of itself.
    fn kept_bytes(&self, group: usize) -> usize {
        match self {
            States::Counts(_) => 0,
            States::Others { states, .. } => states[group].kept_bytes(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            States::Counts(counts) => 2 * size_of_val(&counts[..]),
            States::Others { states, bytes } => 2 * size_of_val(&states[..]) + bytes,
        }
    }
}
