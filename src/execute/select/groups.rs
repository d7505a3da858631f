//! `Groups`: the groups of an aggregation that are in memory, and how they are written to a run.
//!
//! A record of a run is the state of a group, or one argument of a DISTINCT aggregate. Its key is the group's key, the
//! number of the aggregate (0 for the state), and the key of the argument. Invariant: in the merge of runs all records of a
//! group are together, states first, and equal arguments are neighbours; a group's arguments never stand without its state.

use std::collections::HashMap;
use std::io;

use zipfdb_sql::query::{AggregateFunction, Aggregation};

use super::accumulate::{Accumulator, tie, value_size};
use super::codec::{Decoder, Encoder, damaged};
use super::key::{KeyOrder, push_key};
use super::spill::{Record, Run, RunWriter, SpillDirectory};
use crate::interrupt::Pace;
use crate::{Result, Value};

/// What a map's entry takes besides its bytes.
const ENTRY_BYTES: usize = 96;

/// A group: the keys that are shown, and a state for each aggregate.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Group {
    pub(super) keys: Vec<Value>,
    pub(super) states: Vec<Accumulator>,
}

impl Group {
    pub(super) fn new(aggregation: &Aggregation, keys: Vec<Value>) -> Group {
        let aggregates = aggregation.aggregates.iter();
        Group {
            keys,
            states: aggregates
                .map(|aggregate| Accumulator::new(aggregate.function))
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

    /// Takes another part of the same group.
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

    fn size(&self) -> usize {
        let keys = self
            .keys
            .iter()
            .map(|key| size_of::<Value>() + value_size(key));
        keys.chain(self.states.iter().map(Accumulator::size)).sum()
    }

    fn encode(&self, encoder: &mut Encoder) {
        self.keys.iter().for_each(|key| encoder.value(key));
        self.states.iter().for_each(|state| state.encode(encoder));
    }

    fn decode(aggregation: &Aggregation, decoder: &mut Decoder<'_>) -> io::Result<Group> {
        let keys = aggregation.keys.iter().map(|_| decoder.value());
        let keys = keys.collect::<io::Result<_>>()?;
        let aggregates = aggregation.aggregates.iter();
        let states = aggregates.map(|aggregate| Accumulator::decode(aggregate.function, decoder));
        Ok(Group {
            keys,
            states: states.collect::<io::Result<_>>()?,
        })
    }
}

/// Whether an aggregate has to know the arguments it has taken. The smallest and greatest do not change with repetition.
pub(super) fn is_distinct(aggregation: &Aggregation, index: usize) -> bool {
    let aggregate = &aggregation.aggregates[index];
    let is_extreme = matches!(
        aggregate.function,
        AggregateFunction::Min | AggregateFunction::Max
    );
    aggregate.distinct && !is_extreme
}

/// An argument of a DISTINCT aggregate: group, aggregate, key of the argument.
type Argument = (usize, usize, Vec<u8>);

/// The groups in memory.
#[derive(Debug, Default)]
pub(super) struct Groups {
    by_key: HashMap<Vec<u8>, usize>,
    /// In the order they were first seen.
    groups: Vec<Group>,
    /// The arguments that DISTINCT aggregates have taken.
    taken: HashMap<Argument, Value>,
    /// About how many bytes all this takes.
    pub(super) size: usize,
}

impl Groups {
    /// The number of the group with a key; `keys` are shown if none is smaller.
    pub(super) fn find(
        &mut self,
        aggregation: &Aggregation,
        key: &[u8],
        keys: Vec<Value>,
    ) -> usize {
        if let Some(&group) = self.by_key.get(key) {
            self.groups[group].show_smaller(keys);
            return group;
        }
        let group = Group::new(aggregation, keys);
        self.size += group.size() + key.len() + ENTRY_BYTES;
        self.by_key.insert(key.to_vec(), self.groups.len());
        self.groups.push(group);
        self.groups.len() - 1
    }

    /// Takes an argument that is not NULL.
    pub(super) fn take(
        &mut self,
        aggregation: &Aggregation,
        group: usize,
        index: usize,
        value: &Value,
        times: u64,
    ) {
        let state = &self.groups[group].states[index];
        let before = state.size();
        let mut times = times;
        if is_distinct(aggregation, index) {
            times = 1;
            let mut key = Vec::new();
            let collation = aggregation.aggregates[index].collation;
            push_key(value, KeyOrder::ascending(collation), &mut key);
            let size = key.len() + value_size(value) + ENTRY_BYTES;
            if self
                .taken
                .insert((group, index, key), value.clone())
                .is_some()
            {
                return;
            }
            self.size += size;
        }
        let group = &mut self.groups[group];
        group.take(aggregation, index, value, times);
        self.size = self.size + group.states[index].size() - before;
    }

    pub(super) fn into_groups(self) -> Vec<Group> {
        self.groups
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Writes all groups as a run and forgets them.
    pub(super) fn write(
        &mut self,
        aggregation: &Aggregation,
        directory: &SpillDirectory,
        pace: &mut Pace,
    ) -> Result<Run> {
        let mut groups = std::mem::take(self);
        let mut keys: Vec<(Vec<u8>, usize)> = groups.by_key.drain().collect();
        keys.sort_unstable();
        let mut taken: Vec<(Argument, Value)> = groups.taken.drain().collect();
        let mut places = vec![0; keys.len()];
        for (place, (_, group)) in keys.iter().enumerate() {
            places[*group] = place;
        }
        taken.sort_unstable_by(|(a, _), (b, _)| {
            (places[a.0], a.1, &a.2).cmp(&(places[b.0], b.1, &b.2))
        });
        let mut taken = taken.into_iter().peekable();
        let mut writer = RunWriter::new(directory)?;
        for (key, number) in keys {
            pace.step()?;
            let mut group = groups.groups[number].clone();
            for (index, state) in group.states.iter_mut().enumerate() {
                // What it has taken is counted again in the merge, once.
                if is_distinct(aggregation, index) {
                    *state = Accumulator::new(aggregation.aggregates[index].function);
                }
            }
            let mut encoder = Encoder::default();
            encoder.number(key.len() as u64);
            group.encode(&mut encoder);
            writer.push(&record_key(&key, 0, &[]), &encoder.bytes)?;
            while let Some(((_, index, argument), value)) =
                taken.next_if(|((group, ..), _)| *group == number)
            {
                pace.step()?;
                let mut encoder = Encoder::default();
                encoder.number(key.len() as u64);
                encoder.value(&value);
                let record_key = record_key(&key, index + 1, &argument);
                writer.push(&record_key, &encoder.bytes)?;
            }
        }
        writer.finish()
    }
}

fn record_key(group: &[u8], number: usize, argument: &[u8]) -> Vec<u8> {
    // Far fewer aggregates than 2^32 fit into a statement.
    let number = (number as u32).to_be_bytes();
    [group, &number, argument].concat()
}

/// A record of a run, read.
pub(super) enum Part {
    State(Group),
    /// The argument of an aggregate, by index.
    Argument(usize, Value),
}

/// Takes a record apart: the group's key and what it says of the group.
pub(super) fn read_part<'a>(
    aggregation: &Aggregation,
    record: &'a Record,
) -> io::Result<(&'a [u8], Part)> {
    let mut decoder = Decoder { bytes: &record.1 };
    let length = usize::try_from(decoder.number()?).map_err(|_| damaged())?;
    let (group, rest) = record.0.split_at_checked(length).ok_or_else(damaged)?;
    let number = rest.first_chunk().ok_or_else(damaged)?;
    // 32 bits fit.
    let number = u32::from_be_bytes(*number) as usize;
    let part = match number.checked_sub(1) {
        None => Part::State(Group::decode(aggregation, &mut decoder)?),
        Some(index) if index < aggregation.aggregates.len() => {
            Part::Argument(index, decoder.value()?)
        }
        Some(_) => return Err(damaged()),
    };
    Ok((group, part))
}
