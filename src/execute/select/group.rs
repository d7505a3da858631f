//! A group with its state, and the records of a run that are made of groups.
//!
//! A record of a run is the state of a group, or one argument of an aggregate that is DISTINCT or needs order, with its
//! multiplicity. Its key is the group's key, the number of the aggregate (0 for the state), and the key of the argument behind
//! those of its order. Invariant: in the merge of runs all records of a group are together, states first, arguments in order, and
//! equal arguments are neighbours; a group's arguments never stand without its state.

use std::io;

use zipfdb_sql::query::{Aggregate, AggregateFunction, Aggregation};

use super::accumulate::{Accumulator, needs_order};
use super::codec::{Decoder, damaged};
use super::context::Context;
use super::key::tie;
use super::spill::SpilledRecord;
use crate::expression::Program;
use crate::{Result, Value};

/// A group: the keys that are shown, and a state for each aggregate.
pub(super) struct Group {
    pub(super) keys: Vec<Value>,
    pub(super) states: Vec<Accumulator>,
}

impl Group {
    pub(super) fn new(aggregation: &Aggregation, program: &Program, keys: Vec<Value>) -> Group {
        let aggregates = aggregation.aggregates.iter();
        Group {
            keys,
            states: aggregates
                .map(|aggregate| Accumulator::new(aggregate, program))
                .collect(),
        }
    }

    /// Takes an argument.
    pub(super) fn take(
        &mut self,
        aggregation: &Aggregation,
        index: usize,
        value: &Value,
        times: u64,
    ) {
        self.states[index].take(&aggregation.aggregates[index], value, times);
    }

    /// Takes a collected argument.
    ///
    /// # Errors
    /// If it exceeds the memory.
    pub(super) fn take_collected(
        &mut self,
        aggregation: &Aggregation,
        argument: &CollectedArgument,
        context: &Context,
    ) -> Result<()> {
        let aggregate = &aggregation.aggregates[argument.aggregate];
        let times = if aggregate.distinct {
            1
        } else {
            argument.times
        };
        let state = &mut self.states[argument.aggregate];
        state.take_in_order(aggregate, &argument.value, times, context)
    }

    /// Merges another part of the same group.
    pub(super) fn merge(&mut self, aggregation: &Aggregation, other: Group) {
        self.show_smaller(other.keys);
        let pairs = self.states.iter_mut().zip(&other.states);
        for ((state, other), aggregate) in pairs.zip(&aggregation.aggregates) {
            state.merge(aggregate, other);
        }
    }

    /// Of keys that are equal by collation the smallest by bytes is shown.
    fn show_smaller(&mut self, keys: Vec<Value>) {
        for (shown, key) in self.keys.iter_mut().zip(keys) {
            if tie(&key, shown).is_lt() {
                *shown = key;
            }
        }
    }

    /// The row of the group: its keys and the values of its aggregates.
    pub(super) fn finish(self, aggregation: &Aggregation) -> Result<Vec<Value>> {
        let mut values = self.keys;
        for (state, aggregate) in self.states.into_iter().zip(&aggregation.aggregates) {
            values.push(state.finish(aggregate.function)?);
        }
        Ok(values)
    }

    fn decode(
        aggregation: &Aggregation,
        program: &Program,
        decoder: &mut Decoder<'_>,
    ) -> io::Result<Group> {
        let keys = aggregation.keys.iter().map(|_| decoder.value());
        let keys = keys.collect::<io::Result<_>>()?;
        let aggregates = aggregation.aggregates.iter();
        let states = aggregates
            .map(|aggregate| Accumulator::decode(Accumulator::new(aggregate, program), decoder));
        Ok(Group {
            keys,
            states: states.collect::<io::Result<_>>()?,
        })
    }
}

/// Whether an aggregate collects its arguments: those that count once, and those that are taken in order. MIN and MAX do not
/// change with repetition.
pub(super) fn collects(aggregate: &Aggregate) -> bool {
    let is_extreme = matches!(
        aggregate.function,
        AggregateFunction::Min | AggregateFunction::Max
    );
    aggregate.argument.is_some() && (needs_order(aggregate) || aggregate.distinct && !is_extreme)
}

/// The number of the state, behind the group's key in a record's key.
pub(super) const STATE: [u8; 4] = [0; 4];

/// The number of an aggregate's arguments there.
pub(super) fn number_of(aggregate: u32) -> [u8; 4] {
    (aggregate + 1).to_be_bytes()
}

/// A decoded record of a run.
pub(super) enum GroupRecord {
    State(Group),
    Argument(CollectedArgument),
}

/// A collected argument.
pub(super) struct CollectedArgument {
    /// By index.
    pub(super) aggregate: usize,
    pub(super) value: Value,
    pub(super) times: u64,
}

impl CollectedArgument {
    /// Adds an equal argument of the same aggregate: the smaller of the two values stays.
    pub(super) fn add(&mut self, other: CollectedArgument) {
        self.times += other.times;
        if tie(&other.value, &self.value).is_lt() {
            self.value = other.value;
        }
    }
}

/// Splits a record: the group's key and its part of the group.
pub(super) fn read_part<'a>(
    (aggregation, program): (&Aggregation, &Program),
    record: &'a SpilledRecord,
) -> io::Result<(&'a [u8], GroupRecord)> {
    let mut decoder = Decoder { bytes: &record.1 };
    let length = usize::try_from(decoder.number()?).map_err(|_| damaged())?;
    let (group, rest) = record.0.split_at_checked(length).ok_or_else(damaged)?;
    let number = rest.first_chunk().ok_or_else(damaged)?;
    // 32 bits fit.
    let number = u32::from_be_bytes(*number) as usize;
    let part = match number.checked_sub(1) {
        None => GroupRecord::State(Group::decode(aggregation, program, &mut decoder)?),
        Some(index) if index < aggregation.aggregates.len() => {
            GroupRecord::Argument(CollectedArgument {
                aggregate: index,
                times: decoder.number()?,
                value: decoder.value()?,
            })
        }
        Some(_) => return Err(damaged()),
    };
    Ok((group, part))
}
