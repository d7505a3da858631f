//! `Groups`: the groups of an aggregation that are in memory, and how they are written to a run.
//!
//! A record of a run is the state of a group, or one argument of a DISTINCT aggregate. Its key is the group's key, the
//! number of the aggregate (0 for the state), and the key of the argument. Invariant: in the merge of runs all records of a
//! group are together, states first, and equal arguments are neighbours; a group's arguments never stand without its state.

use std::collections::HashMap;
use std::io;

use zipfdb_sql::query::{AggregateFunction, Aggregation};

use super::accumulate::{Accumulator, tie};
use super::codec::{Decoder, Encoder, damaged};
use super::key::{KeyOrder, add_key};
use super::ordered::sort_until;
use super::row::value_size;
use super::spill::{Record, RunWriter};
use crate::runtime::interrupt::Pace;
use crate::runtime::memory::ValueMemory;
use crate::{Result, Value};

/// What an allocation takes beside its bytes.
const ALLOCATION_BYTES: usize = 16;

/// Times of its entries that a map takes at most: when it grows, the old one is 7/8 full and the new one twice as large. Writing
/// the entries takes less: the map, and a list of them.
const MAP_FACTOR: usize = 4;

/// What a group takes beside its bytes: its place in the map and in the list, which may be half empty after it has grown, and
/// the allocations of its key, keys and states.
const GROUP_BYTES: usize =
    MAP_FACTOR * size_of::<(Vec<u8>, usize)>() + 2 * size_of::<Group>() + 3 * ALLOCATION_BYTES;

/// What an argument of a DISTINCT aggregate takes beside its bytes: its place in the map, and the allocations of key and value.
const ARGUMENT_BYTES: usize = MAP_FACTOR * size_of::<(Argument, Value)>() + 2 * ALLOCATION_BYTES;

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

/// An argument of a DISTINCT aggregate: group, aggregate, key of the argument. Of neither are there 2^32 in memory.
type Argument = (u32, u32, Box<[u8]>);

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
    /// The number of the group with a key.
    pub(super) fn find(&self, key: &[u8]) -> Option<usize> {
        self.by_key.get(key).copied()
    }

    /// Shows `value` as a key of a group if what is shown is not smaller.
    pub(super) fn show(&mut self, group: usize, key: usize, value: &Value) {
        let shown = &mut self.groups[group].keys[key];
        if tie(value, shown).is_lt() {
            self.size = self.size + value_size(value) - value_size(shown);
            *shown = value.clone();
        }
    }

    /// Adds the group of a key that is not there.
    pub(super) fn add(&mut self, aggregation: &Aggregation, key: &[u8], keys: Vec<Value>) -> usize {
        let group = Group::new(aggregation, keys);
        self.size += group.size() + key.len() + GROUP_BYTES;
        self.by_key.insert(key.to_vec(), self.groups.len());
        self.groups.push(group);
        self.groups.len() - 1
    }

    /// Takes an argument that is not NULL.
    ///
    /// # Errors
    /// If it is too long.
    pub(super) fn take(
        &mut self,
        aggregation: &Aggregation,
        (group, index): (usize, usize),
        value: &Value,
        times: u64,
        memory: &ValueMemory,
    ) -> Result<()> {
        let state = &self.groups[group].states[index];
        let before = state.size();
        let mut times = times;
        if is_distinct(aggregation, index) {
            times = 1;
            let mut key = Vec::new();
            let aggregate = &aggregation.aggregates[index];
            let order = KeyOrder::ascending(aggregate.collation);
            add_key(value, order, &mut key, memory)?;
            let argument = (group as u32, index as u32, key.into_boxed_slice());
            if self.taken.contains_key(&argument) {
                return Ok(());
            }
            // COUNT does not look at what it counts.
            let kept = match aggregate.function {
                AggregateFunction::Count => Value::Integer(1),
                _ => value.clone(),
            };
            self.size += argument.2.len() + value_size(&kept) + ARGUMENT_BYTES;
            self.taken.insert(argument, kept);
        }
        let group = &mut self.groups[group];
        group.take(aggregation, index, value, times);
        self.size = self.size + group.states[index].size() - before;
        Ok(())
    }

    /// Takes integers, each as often as `times` says or else once, for an aggregate that is not DISTINCT.
    pub(super) fn take_integers(
        &mut self,
        aggregation: &Aggregation,
        (group, index): (usize, usize),
        integers: &[i64],
        times: Option<&[u64]>,
    ) {
        let state = &mut self.groups[group].states[index];
        let before = state.size();
        state.take_integers(&aggregation.aggregates[index], integers, times);
        self.size = self.size + state.size() - before;
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
        writer: &mut RunWriter,
        pace: &mut Pace,
    ) -> Result<()> {
        let Groups {
            by_key,
            mut groups,
            taken,
            ..
        } = std::mem::take(self);
        let mut keys: Vec<(Vec<u8>, usize)> = by_key.into_iter().collect();
        sort_until(&mut keys, pace, Ord::cmp)?;
        let mut taken: Vec<(Argument, Value)> = taken.into_iter().collect();
        let mut places = vec![0; keys.len()];
        for (place, (_, group)) in keys.iter().enumerate() {
            places[*group] = place;
        }
        sort_until(&mut taken, pace, |(a, _), (b, _)| {
            let place = |argument: &Argument| places[argument.0 as usize];
            (place(a), a.1, &a.2).cmp(&(place(b), b.1, &b.2))
        })?;
        let mut taken = taken.into_iter().peekable();
        let mut encoder = Encoder::default();
        for (key, number) in keys {
            pace.step()?;
            let group = &mut groups[number];
            for (index, state) in group.states.iter_mut().enumerate() {
                // What it has taken is counted again in the merge, once.
                if is_distinct(aggregation, index) {
                    *state = Accumulator::new(aggregation.aggregates[index].function);
                }
            }
            encoder.bytes.clear();
            encoder.number(key.len() as u64);
            group.encode(&mut encoder);
            writer.push(&[&key, &STATE], &encoder.bytes)?;
            while let Some(((_, index, argument), value)) =
                taken.next_if(|((group, ..), _)| *group as usize == number)
            {
                pace.step()?;
                encoder.bytes.clear();
                encoder.number(key.len() as u64);
                encoder.value(&value);
                writer.push(&[&key, &number_of(index), &argument], &encoder.bytes)?;
            }
        }
        Ok(())
    }
}

/// The number of the state, behind the group's key in a record's key.
const STATE: [u8; 4] = [0; 4];

/// The number of an aggregate's arguments there.
fn number_of(aggregate: u32) -> [u8; 4] {
    (aggregate + 1).to_be_bytes()
}

/// A record of a run, read.
pub(super) enum GroupRecord {
    State(Group),
    /// The argument of an aggregate, by index.
    Argument(usize, Value),
}

/// Takes a record apart: the group's key and what it says of the group.
pub(super) fn read_part<'a>(
    aggregation: &Aggregation,
    record: &'a Record,
) -> io::Result<(&'a [u8], GroupRecord)> {
    let mut decoder = Decoder { bytes: &record.1 };
    let length = usize::try_from(decoder.number()?).map_err(|_| damaged())?;
    let (group, rest) = record.0.split_at_checked(length).ok_or_else(damaged)?;
    let number = rest.first_chunk().ok_or_else(damaged)?;
    // 32 bits fit.
    let number = u32::from_be_bytes(*number) as usize;
    let part = match number.checked_sub(1) {
        None => GroupRecord::State(Group::decode(aggregation, &mut decoder)?),
        Some(index) if index < aggregation.aggregates.len() => {
            GroupRecord::Argument(index, decoder.value()?)
        }
        Some(_) => return Err(damaged()),
    };
    Ok((group, part))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use zipfdb_sql::query::{Aggregate, Collation, ExpressionId, GroupKey};

    use super::super::spill::{SpillDirectory, SpilledRuns};
    use super::*;
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
        let memory = ValueMemory::default();
        let mut pace = Interrupts::default().begin(0).pace();
        let mut groups = Groups::default();
        let mut runs = SpilledRuns::new(1 << 20, &SpillDirectory::beside(None));
        const LENGTH: usize = 50_000;
        // Every group comes in two runs.
        for number in (0..40).chain(0..40) {
            let value = Value::Text(format!("{number:0LENGTH$}"));
            let key = format!("{number:0LENGTH$}").into_bytes();
            let group = match groups.find(&key) {
                Some(group) => group,
                None => groups.add(&aggregation, &key, vec![value.clone()]),
            };
            for index in 0..3 {
                let place = (group, index);
                groups
                    .take(&aggregation, place, &value, 2, &memory)
                    .unwrap();
            }
            // The key, what is shown, two keys of arguments, one argument and the greatest.
            let kept = groups.groups.len() * 6 * LENGTH;
            assert!((kept..kept + kept / 10).contains(&groups.size));
            if number == 39 {
                let write = |writer: &mut RunWriter| groups.write(&aggregation, writer, &mut pace);
                runs.write(write).unwrap();
                assert!(groups.is_empty() && groups.size == 0 && groups.taken.is_empty());
            }
        }
        let mut merge = runs.merge(&mut pace).unwrap();
        let mut records = 0;
        while let Some(record) = merge.next().unwrap() {
            records += 1;
            let (key, part) = read_part(&aggregation, &record).unwrap();
            assert_eq!(key.len(), LENGTH);
            if let GroupRecord::State(group) = part {
                assert!(matches!(&group.keys[0], Value::Text(text) if text.len() == LENGTH));
            }
        }
        assert_eq!(records, 2 * 40 * 3);
    }
}
