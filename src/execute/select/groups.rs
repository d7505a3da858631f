//! `Groups`: the groups of an aggregation that are in memory, and how they are written to a run.
//!
//! Groups are told apart by numbers (`numbered_rows.rs`), and the states of an aggregate are an array: rows of a batch are taken
//! key by key, then aggregate by aggregate. Invariant: a row adds to the group whose keys are equal to its own, and its arguments
//! count once if they are DISTINCT.

use std::ops::Range;
use std::sync::Arc;

use zipfdb_sql::query::{Aggregate, AggregateFunction, Aggregation};

use super::accumulate::Accumulator;
use super::argument::{BatchArgument, extreme_text};
use super::codec::Encoder;
use super::expression_values::ExpressionValues;
use super::group::{Group, STATE, is_distinct, number_of};
use super::key::{KeyOrder, add_key};
use super::key_numbers::{KeyNumbers, Look};
use super::numbered_rows::NumberedRows;
use super::ordered::sort_until;
use super::row::BATCH_BYTES;
use super::spill::RunWriter;
use crate::batch::{Batch, BatchColumn, ColumnBuilder};
use crate::expression::{Evaluator, Program, integer_of_count, truth};
use crate::runtime::interrupt::Pace;
use crate::runtime::memory::ValueMemory;
use crate::{Result, Value};

/// The part of memory that what is known of texts may take, of all expressions together.
const TEXTS_SHARE: usize = 4;

/// What a group or an argument takes where it is written: its key in a list, and the allocation of that.
const KEY_BYTES: usize = size_of::<(Vec<u8>, u32)>() + 32;

/// The groups in memory.
pub(super) struct Groups {
    aggregation: Aggregation,
    program: Arc<Program>,
    evaluator: Evaluator<Arc<Program>>,
    /// For each aggregate whether a row counts once, however often it occurs.
    once: Vec<bool>,
    rows: NumberedRows,
    aggregates: Vec<GroupedAggregate>,
    /// The groups of the rows at hand.
    group_of: Vec<u32>,
    memory: ValueMemory,
}

/// What is known of an aggregate.
struct GroupedAggregate {
    states: States,
    filter: Option<ExpressionValues>,
    argument: Option<ExpressionValues>,
    /// The arguments that were taken, each with its group, if it is DISTINCT.
    taken: Option<NumberedRows>,
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
    memory: &'a ValueMemory,
}

impl GroupedRows<'_> {
    fn group(&self, row: usize) -> u32 {
        self.group_of[row - self.rows.start]
    }
}

/// The states of an aggregate, by group.
enum States {
    Counts(Vec<u64>),
    Others {
        states: Vec<Accumulator>,
        /// What they take beside themselves.
        bytes: usize,
    },
}

impl Groups {
    /// An aggregation without groups. A part of `memory`, the bytes that groups may take, is for what is known of texts.
    pub(super) fn new(
        aggregation: Aggregation,
        program: Arc<Program>,
        once: Vec<bool>,
        (memory, values): (usize, &ValueMemory),
    ) -> Groups {
        let expressions = aggregation.keys.len() + 2 * aggregation.aggregates.len();
        let share = memory / TEXTS_SHARE / expressions.max(1);
        let keys = aggregation.keys.iter();
        let keys = keys.map(|key| KeyNumbers::new(key.expression, key.collation, &program, share));
        let aggregates = (0..aggregation.aggregates.len()).map(|index| {
            let aggregate = &aggregation.aggregates[index];
            let values = |id| ExpressionValues::new(id, &program, share);
            let distinct = aggregate
                .argument
                .filter(|_| is_distinct(&aggregation, index));
            GroupedAggregate {
                states: States::new(aggregate.function),
                filter: aggregate.filter.map(values),
                argument: aggregate.argument.map(values),
                taken: distinct.map(|id| {
                    let key = KeyNumbers::new(id, aggregate.collation, &program, share);
                    NumberedRows::with_given(key)
                }),
            }
        });
        Groups {
            rows: NumberedRows::new(keys.collect()),
            aggregates: aggregates.collect(),
            evaluator: Evaluator::of(program.clone()),
            group_of: Vec::new(),
            memory: values.clone(),
            aggregation,
            program,
            once,
        }
    }

    /// Adds rows of a batch to their groups.
    ///
    /// # Errors
    /// If a key or an argument cannot be computed, or there is no memory for it.
    pub(super) fn take(&mut self, batch: &mut Batch, rows: Range<usize>) -> Result<()> {
        let with = Look {
            evaluator: Some(&mut self.evaluator),
            memory: &self.memory,
            keeps: true,
        };
        self.rows.look(batch, rows.clone(), with)?;
        self.group_of.clear();
        if self.aggregation.keys.is_empty() {
            self.rows.find_or_add(0, None);
            self.group_of.resize(rows.len(), 0);
        } else {
            // There are fewer than 2^32 groups.
            let groups = (0..rows.len()).map(|index| self.rows.find_or_add(index, None).0 as u32);
            self.group_of.extend(groups);
        }
        let aggregates = self.aggregates.iter_mut().zip(&self.once);
        for ((state, &is_once), aggregate) in aggregates.zip(&self.aggregation.aggregates) {
            state.states.grow(self.rows.len(), aggregate.function);
            let mut rows = GroupedRows {
                batch,
                rows: rows.clone(),
                group_of: &self.group_of,
                are_together: self.aggregation.keys.is_empty(),
                evaluator: &mut self.evaluator,
                memory: &self.memory,
            };
            let passing = state.passing(&mut rows)?;
            match state.taken {
                Some(_) => state.take_distinct(aggregate, &mut rows, passing)?,
                None => {
                    let way = BatchArgument::of(aggregate, &self.program, rows.batch);
                    state.take(aggregate, &mut rows, passing, way, is_once)?;
                }
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
            let values = [&aggregate.filter, &aggregate.argument];
            let values = values.into_iter().flatten().map(ExpressionValues::bytes);
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
            self.rows.find_or_add(0, None);
            for (state, aggregate) in self.aggregates.iter_mut().zip(&self.aggregation.aggregates) {
                state.states.grow(1, aggregate.function);
            }
        }
        self.rows.finish();
        for state in &mut self.aggregates {
            (state.filter, state.argument, state.taken) = (None, None, None);
        }
    }

    /// The rows of groups from `first` on, at most `rows_max`, up to one whose aggregates fail.
    pub(super) fn batch(&mut self, first: usize, rows_max: usize) -> (Option<Batch>, Result<()>) {
        let most = first.saturating_add(rows_max.max(1)).min(self.len());
        let (mut end, mut ended) = (self.end_of_batch(first, most), Ok(()));
        let mut columns = Vec::with_capacity(self.aggregates.len());
        for (state, aggregate) in self.aggregates.iter_mut().zip(&self.aggregation.aggregates) {
            let (column, failed) = state.states.finish(first..end, aggregate.function);
            if let Err(error) = failed {
                (end, ended) = (first + column.len(), Err(error));
            }
            columns.push(column);
        }
        if end == first {
            return (None, ended);
        }
        let mut given = self.rows.columns(first..end);
        for mut column in columns {
            column.truncate(end - first);
            given.push(column);
        }
        (Some(Batch::new(given, end - first, None)), ended)
    }

    /// The group behind the last one of a batch that begins with `first` and ends with `most` at the latest, sooner where texts take much
    /// memory.
    fn end_of_batch(&self, first: usize, most: usize) -> usize {
        let has_states = (self.aggregates.iter()).any(|aggregate| !aggregate.states.is_of_counts());
        if !has_states && !self.rows.has_texts() {
            return most;
        }
        let mut bytes = 0;
        let fits = |&group: &usize| {
            let is_full = bytes >= BATCH_BYTES;
            let states = self.aggregates.iter();
            let states = states.map(|aggregate| aggregate.states.kept_bytes(group));
            bytes += self.rows.text_bytes(group) + states.sum::<usize>();
            !is_full
        };
        first + (first..most).take_while(fits).count()
    }

    /// Writes all groups as a run and forgets them.
    ///
    /// # Errors
    /// If the run cannot be written, or the query has to end.
    pub(super) fn write(&mut self, writer: &mut RunWriter, pace: &mut Pace) -> Result<()> {
        let mut keys = Vec::with_capacity(self.len());
        for group in 0..self.len() {
            let mut key = Vec::new();
            for (index, part) in self.aggregation.keys.iter().enumerate() {
                let order = KeyOrder::ascending(part.collation);
                add_key(
                    &self.rows.value(group, index),
                    order,
                    &mut key,
                    &self.memory,
                )?;
            }
            pace.work(key.len())?;
            keys.push((key, group as u32));
        }
        sort_until(&mut keys, pace, Ord::cmp)?;
        let mut taken = self.arguments(&keys, pace)?.into_iter().peekable();
        let mut encoder = Encoder::default();
        for (place, (key, group)) in keys.into_iter().enumerate() {
            pace.step()?;
            encoder.bytes.clear();
            encoder.number(key.len() as u64);
            self.group(group as usize).encode(&mut encoder);
            writer.push(&[&key, &STATE], &encoder.bytes)?;
            while let Some(argument) = taken.next_if(|argument| argument.place as usize == place) {
                pace.step()?;
                encoder.bytes.clear();
                encoder.number(key.len() as u64);
                let aggregate = &self.aggregates[argument.aggregate as usize];
                // COUNT does not look at what it counts.
                match (aggregate.states.is_of_counts(), &aggregate.taken) {
                    (false, Some(taken)) => encoder.value(&taken.value(argument.row as usize, 0)),
                    _ => encoder.value(&Value::Integer(1)),
                }
                let number = number_of(argument.aggregate);
                writer.push(&[&key, &number, &argument.key], &encoder.bytes)?;
            }
        }
        self.clear();
        Ok(())
    }

    /// The arguments of DISTINCT aggregates, in the order in which they are written behind groups that come in order of `keys`.
    fn arguments(&self, keys: &[(Vec<u8>, u32)], pace: &mut Pace) -> Result<Vec<Argument>> {
        let mut places = vec![0; keys.len()];
        for (place, (_, group)) in keys.iter().enumerate() {
            places[*group as usize] = place as u32;
        }
        let mut arguments = Vec::new();
        for (index, state) in self.aggregates.iter().enumerate() {
            let Some(taken) = &state.taken else {
                continue;
            };
            let order = KeyOrder::ascending(self.aggregation.aggregates[index].collation);
            for row in 0..taken.len() {
                let mut key = Vec::new();
                add_key(&taken.value(row, 0), order, &mut key, &self.memory)?;
                pace.work(key.len())?;
                arguments.push(Argument {
                    place: places[taken.given(row) as usize],
                    aggregate: index as u32,
                    key,
                    row: row as u32,
                });
            }
        }
        sort_until(&mut arguments, pace, |left, right| {
            let place = |argument: &Argument| (argument.place, argument.aggregate);
            (place(left), &left.key).cmp(&(place(right), &right.key))
        })?;
        Ok(arguments)
    }

    /// A group as it is written.
    fn group(&self, group: usize) -> Group {
        let keys = 0..self.aggregation.keys.len();
        let states = self.aggregates.iter().zip(&self.aggregation.aggregates);
        Group {
            keys: keys
                .map(|key| self.rows.value(group, key).into_owned())
                .collect(),
            states: states
                .map(|(state, aggregate)| match &state.taken {
                    // What it has taken is counted again in the merge, once.
                    Some(_) => Accumulator::new(aggregate.function),
                    None => state.states.state(group),
                })
                .collect(),
        }
    }

    fn clear(&mut self) {
        self.rows.clear();
        for (state, aggregate) in self.aggregates.iter_mut().zip(&self.aggregation.aggregates) {
            state.states = States::new(aggregate.function);
            let values = [&mut state.filter, &mut state.argument];
            values
                .into_iter()
                .flatten()
                .for_each(ExpressionValues::clear);
            state.taken.iter_mut().for_each(NumberedRows::clear);
        }
    }
}

/// An argument of a DISTINCT aggregate where it is written.
struct Argument {
    /// Of its group among the keys.
    place: u32,
    aggregate: u32,
    key: Vec<u8>,
    /// Among those that the aggregate has taken.
    row: u32,
}

impl GroupedAggregate {
    /// The rows that FILTER lets pass; none if there is no FILTER.
    fn passing(&mut self, rows: &mut GroupedRows<'_>) -> Result<Option<Vec<usize>>> {
        let Some(filter) = &mut self.filter else {
            return Ok(None);
        };
        let mut passing = Vec::new();
        for row in rows.rows.clone() {
            let passes = filter.with(rows.batch, row, rows.evaluator, |value| {
                Ok(truth(value) == Some(true))
            })?;
            if passes {
                passing.push(row);
            }
        }
        Ok(Some(passing))
    }

    /// Takes the arguments of rows that their groups do not have yet.
    fn take_distinct(
        &mut self,
        aggregate: &Aggregate,
        rows: &mut GroupedRows<'_>,
        passing: Option<Vec<usize>>,
    ) -> Result<()> {
        let runs = match passing {
            None => vec![rows.rows.clone()],
            // What FILTER refuses is not computed.
            Some(passing) => passing.into_iter().map(|row| row..row + 1).collect(),
        };
        let Some(taken) = &mut self.taken else {
            return Ok(());
        };
        for run in runs {
            let with = Look {
                evaluator: Some(&mut *rows.evaluator),
                memory: rows.memory,
                keeps: true,
            };
            taken.look(rows.batch, run.clone(), with)?;
            for (index, row) in run.enumerate() {
                if taken.ends_with_null(index) {
                    continue;
                }
                let group = rows.group(row);
                let (argument, is_known) = taken.find_or_add(index, Some(u64::from(group)));
                match aggregate.function {
                    _ if is_known => {}
                    AggregateFunction::Count => self.states.count(group, 1),
                    _ => (self.states).take(group, aggregate, &taken.value(argument, 0), 1),
                }
            }
        }
        Ok(())
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
            States::Counts(counts) => counts.resize(groups, 0),
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

    fn is_of_counts(&self) -> bool {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use zipfdb_sql::query::{Collation, Expression, ExpressionId, GroupKey};

    use super::super::group::{GroupRecord, read_part};
    use super::super::spill::{SpillDirectory, SpilledRuns};
    use super::*;
    use crate::expression::Layout;
    use crate::runtime::interrupt::Interrupts;

    /// `GROUP BY x` with `COUNT(DISTINCT x)`, `SUM(DISTINCT x)` and `MAX(x)`.
    fn aggregation() -> Aggregation {
        let aggregate = |function, distinct| Aggregate {
            parameter: None,
            order_by: Vec::new(),
            function,
            distinct,
            argument: Some(ExpressionId(0)),
            filter: None,
            collation: Collation::Binary,
        };
        Aggregation {
            keys: vec![GroupKey {
                expression: ExpressionId(0),
                collation: Collation::Binary,
            }],
            aggregates: vec![
                aggregate(AggregateFunction::Count, true),
                aggregate(AggregateFunction::Sum, true),
                aggregate(AggregateFunction::Max, false),
            ],
        }
    }

    #[test]
    fn large_values_count_as_often_as_they_are_kept_and_are_merged_again() {
        let aggregation = aggregation();
        let interrupt = Interrupts::default().begin(0);
        let layout = Layout::whole(1, 0);
        let program = Program::new(&[Expression::Column(0)], &layout, 0, &interrupt).unwrap();
        let memory = ValueMemory::default();
        let mut pace = interrupt.pace();
        let mut groups = Groups::new(
            aggregation.clone(),
            Arc::new(program),
            vec![false; 3],
            (1 << 20, &memory),
        );
        let mut runs = SpilledRuns::new(1 << 20, &SpillDirectory::beside(None));
        const LENGTH: usize = 50_000;
        // Every group comes in two runs.
        for number in (0..40).chain(0..40) {
            let mut column = ColumnBuilder::default();
            column.push(Value::Text(format!("{number:0LENGTH$}")));
            let mut batch = Batch::new(vec![column.finish()], 1, Some(vec![2]));
            groups.take(&mut batch, 0..1).unwrap();
            // What is shown, two arguments and the greatest.
            let kept = groups.len() * 4 * LENGTH;
            assert!((kept..kept + kept / 10).contains(&groups.bytes()));
            if number == 39 {
                let write = |writer: &mut RunWriter| groups.write(writer, &mut pace);
                runs.write(write).unwrap();
                assert!(groups.len() == 0 && groups.bytes() == 0);
            }
        }
        let mut merge = runs.merge(&mut pace).unwrap();
        let mut records = 0;
        while let Some(record) = merge.next().unwrap() {
            records += 1;
            let (key, part) = read_part(&aggregation, &record).unwrap();
            assert_eq!(key.len(), LENGTH + 3);
            if let GroupRecord::State(group) = part {
                assert!(matches!(&group.keys[0], Value::Text(text) if text.len() == LENGTH));
            }
        }
        assert_eq!(records, 2 * 40 * 3);
    }
}
