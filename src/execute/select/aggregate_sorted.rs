//! GROUP BY with aggregates that need their arguments in order: texts joined, percentiles, deviations.
//!
//! Every argument is a record whose key is the group's key, the number of the aggregate and the key of the argument; number 0 has
//! the keys that are shown. Equal records are counted together while they fit into memory, then sorted, and groups are finished one
//! after the other as they come out. Invariant: whatever the order of rows, the answer is the same, also of sums of reals.

use std::collections::HashMap;
use std::sync::Arc;

use zipfdb_sql::query::{Aggregate, AggregateFunction, Aggregation, Collation};

use super::accumulate::{Accumulator, tie};
use super::codec::{Decoder, Encoder, damaged};
use super::context::Context;
use super::key::{KeyOrder, add_key};
use super::row::{Input, LateError, Operator, RowAtHand, RowCollector};
use super::sorter::{Sorted, Sorter};
use super::spill::{Record, spill_error_in};
use crate::batch::{BATCH_ROWS, Batch};
use crate::expression::{Evaluator, Program, text_or_blob, to_bytes, to_real, whole_number};
use crate::runtime::interrupt::Pace;
use crate::runtime::memory::ValueMemory;
use crate::segment::cache::Reservation;
use crate::{Error, Result, Value};

/// What a record takes in the map beside its bytes.
const RECORD_BYTES: usize = 2 * size_of::<(Vec<u8>, Counted)>() + 32;

/// The number of the keys that are shown; those of aggregates follow.
const KEYS: u32 = 0;

/// Begins the key of the record that counts a percentile's arguments, which comes before them.
const COUNT: u8 = 0;

/// Begins the key of an argument.
const ARGUMENT: u8 = 1;

/// Whether an aggregate needs its arguments in order.
pub(super) fn needs_order(aggregate: &Aggregate) -> bool {
    match aggregate.function {
        AggregateFunction::Avg
        | AggregateFunction::Count
        | AggregateFunction::Max
        | AggregateFunction::Min
        | AggregateFunction::Sum
        | AggregateFunction::Total => false,
        AggregateFunction::GroupConcat
        | AggregateFunction::Median
        | AggregateFunction::PercentileCont
        | AggregateFunction::StddevPop
        | AggregateFunction::StddevSamp
        | AggregateFunction::VarPop
        | AggregateFunction::VarSamp => true,
    }
}

fn is_percentile(aggregate: &Aggregate) -> bool {
    matches!(
        aggregate.function,
        AggregateFunction::Median | AggregateFunction::PercentileCont
    )
}

pub(super) struct AggregateSorted {
    state: SortedState,
    evaluator: Evaluator<Arc<Program>>,
    program: Arc<Program>,
    aggregation: Aggregation,
    /// For each aggregate its second argument.
    parameters: Vec<Parameter>,
    late: LateError,
    pace: Pace,
    context: Context,
}

enum SortedState {
    Taking(Input),
    Giving {
        records: Sorted,
        /// The first record of the next group.
        next: Option<Record>,
        /// No group has been given.
        is_first: bool,
    },
    Done,
}

/// What an aggregate is told beside its arguments.
enum Parameter {
    None,
    Separator(Vec<u8>),
    Fraction(f64),
}

/// How often a record occurs, and its values.
struct Counted {
    times: u64,
    values: Vec<u8>,
}

/// Records that are counted in memory.
struct RecordCounts {
    records: HashMap<Vec<u8>, Counted>,
    size: usize,
    memory: usize,
    reservation: Reservation,
    sorter: Sorter,
}

impl AggregateSorted {
    /// # Errors
    /// If a separator or a fraction is none.
    pub(super) fn new(
        input: Input,
        program: Arc<Program>,
        aggregation: Aggregation,
        context: &Context,
    ) -> Result<AggregateSorted> {
        let aggregates = aggregation.aggregates.iter();
        let parameters = aggregates.map(|aggregate| parameter(aggregate, &program));
        let parameters = parameters.collect::<Result<_>>()?;
        Ok(AggregateSorted {
            state: SortedState::Taking(input),
            evaluator: Evaluator::of(program.clone()),
            program,
            aggregation,
            parameters,
            late: LateError::default(),
            pace: context.pace(),
            context: context.clone(),
        })
    }

    fn take_all(&mut self, mut input: Input) -> Result<Sorted> {
        let memory = self.context.memory / 2;
        let context = &self.context;
        let mut counts = RecordCounts {
            records: HashMap::new(),
            size: 0,
            memory,
            reservation: context.reservation(),
            sorter: Sorter::new(
                memory,
                context.reservation(),
                &context.spill,
                context.pace(),
                None,
            ),
        };
        let aggregates = self.aggregation.aggregates.iter();
        let arguments = aggregates.flat_map(|aggregate| {
            let keys = aggregate.order_by.iter().map(|key| key.expression);
            (aggregate.argument.into_iter())
                .chain(aggregate.filter)
                .chain(keys)
        });
        let keys = self.aggregation.keys.iter().map(|key| key.expression);
        let used = self.program.columns(keys.chain(arguments));
        let mut at_hand = RowAtHand::new(used);
        while let Some(mut batch) = input.next_batch(BATCH_ROWS)? {
            for row in 0..batch.len() {
                self.pace.step()?;
                let times = batch.times_of(row);
                at_hand.with(&mut batch, row, |values| {
                    self.take_row(values, times, &mut counts)
                })?;
            }
        }
        counts.write()?;
        counts.sorter.finish()
    }

    fn take_row(&mut self, row: &[Value], times: u64, counts: &mut RecordCounts) -> Result<()> {
        self.evaluator.next_row();
        let memory = self.context.values.clone();
        let (mut group, mut shown) = (Vec::new(), Vec::new());
        let mut keys = Encoder::default();
        for part in &self.aggregation.keys {
            let value = self.evaluator.value(row, part.expression)?;
            add_key(
                value,
                KeyOrder::ascending(part.collation),
                &mut group,
                &memory,
            )?;
            push_exact_key(value, &mut shown, &memory)?;
            keys.value(value);
        }
        counts.add(&group, KEYS, &shown, 1, keys.bytes)?;
        for (index, aggregate) in self.aggregation.aggregates.iter().enumerate() {
            if let Some(filter) = aggregate.filter
                && !self.evaluator.are_true(row, &[filter])?
            {
                continue;
            }
            let mut order = vec![ARGUMENT];
            for key in &aggregate.order_by {
                let value = self.evaluator.value(row, key.expression)?;
                add_key(value, KeyOrder::of(key), &mut order, &memory)?;
            }
            let one = Value::Integer(1);
            let value = match aggregate.argument {
                None => &one,
                Some(argument) => self.evaluator.value(row, argument)?,
            };
            if matches!(value, Value::Null) {
                continue;
            }
            let number;
            let value = match aggregate.function {
                // DISTINCT looks at what there was before.
                function if is_of_numbers(function) && !aggregate.distinct => {
                    number = as_number(value);
                    &number
                }
                _ => value,
            };
            let mut key = order;
            if aggregate.distinct {
                add_key(
                    value,
                    KeyOrder::ascending(aggregate.collation),
                    &mut key,
                    &memory,
                )?;
            } else {
                push_exact_key(value, &mut key, &memory)?;
            }
            // Far fewer aggregates than 2^32 fit into a statement.
            let number = index as u32 + 1;
            let mut values = Encoder::default();
            values.value(value);
            if is_percentile(aggregate) && !aggregate.distinct {
                counts.add(&group, number, &[COUNT], times, Vec::new())?;
            }
            counts.add(&group, number, &key, times, values.bytes)?;
        }
        Ok(())
    }

    /// Finishes the group that begins with `next`, and leaves the first record of the next group there.
    fn group(&mut self, records: &mut Sorted, next: &mut Option<Record>) -> Result<Vec<Value>> {
        let aggregates = self.aggregation.aggregates.iter();
        let mut states: Vec<OrderedState> = aggregates
            .zip(&self.parameters)
            .map(|(aggregate, parameter)| OrderedState::new(aggregate, parameter))
            .collect();
        let mut group: Option<Vec<u8>> = None;
        let mut keys: Vec<Value> = Vec::new();
        let context = &self.context;
        let damage = |error| spill_error_in(&context.spill, error);
        while let Some((key, payload)) = next {
            self.pace.step()?;
            let part = RecordParts::read(key, payload).map_err(damage)?;
            if group.as_deref().is_some_and(|group| group != part.group) {
                break;
            }
            let is_new = group.is_none();
            group.get_or_insert_with(|| part.group.to_vec());
            let mut values = Decoder { bytes: part.values };
            if part.number == KEYS {
                let shown = self.aggregation.keys.iter().map(|_| values.value());
                let shown: Vec<Value> = shown.collect::<std::io::Result<_>>().map_err(damage)?;
                if is_new {
                    keys = shown;
                } else {
                    // Of keys that are equal by collation the smallest is shown, each for itself.
                    for (key, other) in keys.iter_mut().zip(shown) {
                        if tie(&other, key).is_lt() {
                            *key = other;
                        }
                    }
                }
                *next = records.next()?;
                continue;
            }
            // Read from 32 bits.
            let index = part.number as usize - 1;
            let Some(aggregate) = self.aggregation.aggregates.get(index) else {
                return Err(damage(damaged()));
            };
            let mut times = part.times;
            if part.argument.first() == Some(&COUNT) {
                states[index].count(times);
                *next = records.next()?;
                continue;
            }
            let mut value = values.value().map_err(damage)?;
            let key = std::mem::take(key);
            *next = records.next()?;
            // The same record of another run, or one that is equal by collation.
            while let Some((other, payload)) = next
                && *other == key
            {
                let part = RecordParts::read(other, payload).map_err(damage)?;
                let mut values = Decoder { bytes: part.values };
                let other = values.value().map_err(damage)?;
                if tie(&other, &value).is_lt() {
                    value = other;
                }
                times += part.times;
                *next = records.next()?;
            }
            if aggregate.distinct {
                times = 1;
            }
            states[index].take(aggregate, &value, times, context)?;
        }
        let finished = states.into_iter().zip(&self.aggregation.aggregates);
        for (state, aggregate) in finished {
            keys.push(state.finish(aggregate)?);
        }
        Ok(keys)
    }
}

impl AggregateSorted {
    /// The next group; none at the end.
    fn next_group(&mut self) -> Result<Option<Vec<Value>>> {
        let (mut records, mut next, is_first) =
            match std::mem::replace(&mut self.state, SortedState::Done) {
                SortedState::Taking(input) => {
                    let mut records = self.take_all(input)?;
                    let next = records.next()?;
                    (records, next, true)
                }
                SortedState::Giving {
                    records,
                    next,
                    is_first,
                } => (records, next, is_first),
                SortedState::Done => return Ok(None),
            };
        let is_lone_group = is_first && self.aggregation.keys.is_empty();
        if next.is_none() && !is_lone_group {
            return Ok(None);
        }
        let values = self.group(&mut records, &mut next)?;
        self.state = SortedState::Giving {
            records,
            next,
            is_first: false,
        };
        Ok(Some(values))
    }
}

impl Operator for AggregateSorted {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        self.late.check()?;
        let mut rows = RowCollector::default();
        let mut ended = Ok(());
        while !rows.is_full(rows_max) {
            match self.next_group() {
                Ok(Some(values)) => rows.push(values),
                Ok(None) => break,
                Err(error) => {
                    ended = Err(error);
                    break;
                }
            }
        }
        self.late.after(rows.finish(), ended)
    }
}

impl RecordCounts {
    /// RecordCounts a record.
    fn add(
        &mut self,
        group: &[u8],
        number: u32,
        argument: &[u8],
        times: u64,
        values: Vec<u8>,
    ) -> Result<()> {
        let mut key = Vec::with_capacity(group.len() + 4 + argument.len());
        key.extend_from_slice(group);
        key.extend_from_slice(&number.to_be_bytes());
        key.extend_from_slice(argument);
        if let Some(known) = self.records.get_mut(&key) {
            let mut values = Decoder { bytes: &values };
            let mut kept = Decoder {
                bytes: &known.values[8..],
            };
            // What DISTINCT takes for equal may differ; the same value counts whatever the order of rows.
            if number != KEYS
                && let (Ok(new), Ok(old)) = (values.value(), kept.value())
                && tie(&new, &old).is_lt()
            {
                let mut encoder = Encoder::default();
                encoder.number(group.len() as u64);
                encoder.value(&new);
                self.size = self.size + encoder.bytes.len() - known.values.len();
                known.values = encoder.bytes;
            }
            known.times += times;
            return Ok(());
        }
        let mut encoder = Encoder::default();
        encoder.number(group.len() as u64);
        encoder.bytes.extend_from_slice(&values);
        let counted = Counted {
            times,
            values: encoder.bytes,
        };
        self.size += key.len() + counted.values.len() + RECORD_BYTES;
        self.records.insert(key, counted);
        self.reservation.cover(self.size.min(self.memory));
        if self.size > self.memory {
            self.write()?;
        }
        Ok(())
    }

    /// Hands all records to the sorter.
    fn write(&mut self) -> Result<()> {
        self.size = 0;
        for (key, Counted { times, values }) in std::mem::take(&mut self.records) {
            let mut encoder = Encoder::default();
            encoder.number(times);
            encoder.bytes.extend_from_slice(&values);
            self.sorter.push(&key, &encoder.bytes)?;
        }
        self.reservation.set(0);
        Ok(())
    }
}

/// A record, taken apart.
struct RecordParts<'a> {
    group: &'a [u8],
    number: u32,
    argument: &'a [u8],
    times: u64,
    values: &'a [u8],
}

impl<'a> RecordParts<'a> {
    fn read(key: &'a [u8], payload: &'a [u8]) -> std::io::Result<RecordParts<'a>> {
        let mut decoder = Decoder { bytes: payload };
        let times = decoder.number()?;
        let length = usize::try_from(decoder.number()?).map_err(|_| damaged())?;
        let (group, rest) = key.split_at_checked(length).ok_or_else(damaged)?;
        let (number, argument) = rest.split_first_chunk().ok_or_else(damaged)?;
        Ok(RecordParts {
            group,
            number: u32::from_be_bytes(*number),
            argument,
            times,
            values: decoder.bytes,
        })
    }
}

/// The key of a value that no other value has, not even an equal number of another type.
fn push_exact_key(value: &Value, key: &mut Vec<u8>, memory: &ValueMemory) -> Result<()> {
    add_key(value, KeyOrder::ascending(Collation::Binary), key, memory)?;
    key.push(u8::from(matches!(value, Value::Real(_))));
    Ok(())
}

fn is_of_numbers(function: AggregateFunction) -> bool {
    matches!(
        function,
        AggregateFunction::Median
            | AggregateFunction::PercentileCont
            | AggregateFunction::StddevPop
            | AggregateFunction::StddevSamp
            | AggregateFunction::VarPop
            | AggregateFunction::VarSamp
    )
}

/// A value as SUM takes it: texts and BLOBs as the numbers that they begin with.
fn as_number(value: &Value) -> Value {
    match value {
        Value::Text(text) => whole_number(text).unwrap_or_else(|| Value::Real(to_real(value))),
        Value::Blob(_) => Value::Real(to_real(value)),
        number => number.clone(),
    }
}

fn parameter(aggregate: &Aggregate, program: &Program) -> Result<Parameter> {
    let given = match aggregate.parameter {
        None => None,
        // Binding lets only constants pass; one that fails is an error here.
        Some(id) => Some(program.constant(id).ok_or_else(|| Error::Invalid {
            subject: "the second argument of an aggregate".into(),
            reason: "it cannot be computed".into(),
        })?),
    };
    Ok(match aggregate.function {
        AggregateFunction::GroupConcat => {
            let separator = given.map_or(Some(b",".as_slice().into()), to_bytes);
            Parameter::Separator(separator.unwrap_or_default().into_owned())
        }
        AggregateFunction::Median => Parameter::Fraction(0.5),
        AggregateFunction::PercentileCont => {
            let fraction = match given {
                Some(number @ (Value::Integer(_) | Value::Real(_))) => to_real(number),
                _ => f64::NAN,
            };
            if !(0.0..=1.0).contains(&fraction) {
                return Err(Error::Invalid {
                    subject: "percentile_cont".into(),
                    reason: "the fraction is no number from 0 to 1".into(),
                });
            }
            Parameter::Fraction(fraction)
        }
        _ => Parameter::None,
    })
}

/// The state of an aggregate whose arguments come in order.
enum OrderedState {
    Plain(Accumulator),
    Concat {
        joined: Option<Vec<u8>>,
        separator: Vec<u8>,
    },
    Percentile(Percentile),
    Moments {
        count: u64,
        mean: f64,
        /// The sum of squared distances from the mean.
        squares: f64,
    },
}

/// The value at a fraction of the way through numbers that come in order.
struct Percentile {
    fraction: f64,
    /// How many numbers there are.
    count: u64,
    /// How many have come.
    seen: u64,
    /// The numbers below and above the place.
    below: Option<f64>,
    above: Option<f64>,
    /// With DISTINCT, all numbers: they come in the order of what they were made of.
    distinct: Option<Box<Sorter>>,
}

impl OrderedState {
    fn new(aggregate: &Aggregate, parameter: &Parameter) -> OrderedState {
        match (aggregate.function, parameter) {
            (AggregateFunction::GroupConcat, Parameter::Separator(separator)) => {
                OrderedState::Concat {
                    joined: None,
                    separator: separator.clone(),
                }
            }
            (_, Parameter::Fraction(fraction)) => OrderedState::Percentile(Percentile {
                fraction: *fraction,
                count: 0,
                seen: 0,
                below: None,
                above: None,
                distinct: None,
            }),
            (function, _) if needs_order(aggregate) && is_of_numbers(function) => {
                OrderedState::Moments {
                    count: 0,
                    mean: 0.0,
                    squares: 0.0,
                }
            }
            (function, _) => OrderedState::Plain(Accumulator::new(function)),
        }
    }

    /// So many arguments will come.
    fn count(&mut self, times: u64) {
        if let OrderedState::Percentile(percentile) = self {
            percentile.count += times;
        }
    }

    fn take(
        &mut self,
        aggregate: &Aggregate,
        value: &Value,
        times: u64,
        context: &Context,
    ) -> Result<()> {
        match self {
            OrderedState::Plain(accumulator) => accumulator.take(aggregate, value, times),
            OrderedState::Concat { joined, separator } => {
                let text = to_bytes(value).unwrap_or_default();
                let joint = if joined.is_some() { separator.len() } else { 0 };
                let joined = joined.get_or_insert_default();
                let each = text.len().saturating_add(separator.len()) as u64;
                let more = each.saturating_mul(times.saturating_sub(1));
                let length = (joined.len() + joint + text.len()) as u64;
                let what = "the result of group_concat";
                context.values.check(what, length.saturating_add(more))?;
                for number in 0..times {
                    if number > 0 || joint > 0 {
                        joined.extend_from_slice(separator);
                    }
                    joined.extend_from_slice(&text);
                }
            }
            OrderedState::Percentile(percentile) if aggregate.distinct => {
                let numbers = percentile.distinct.get_or_insert_with(|| {
                    Box::new(Sorter::new(
                        context.memory / 4,
                        context.reservation(),
                        &context.spill,
                        context.pace(),
                        None,
                    ))
                });
                let real = to_real(value);
                let mut key = Vec::new();
                let order = KeyOrder::ascending(Collation::Binary);
                add_key(&Value::Real(real), order, &mut key, &context.values)?;
                numbers.push(&key, &real.to_bits().to_le_bytes())?;
                percentile.count += 1;
            }
            OrderedState::Percentile(percentile) => percentile.take(to_real(value), times),
            OrderedState::Moments {
                count,
                mean,
                squares,
            } => {
                let (real, weight) = (to_real(value), times as f64);
                *count += times;
                let distance = real - *mean;
                // Rounds above 2^53 values, as intended.
                *mean += distance * weight / *count as f64;
                *squares += distance * (real - *mean) * weight;
            }
        }
        Ok(())
    }

    fn finish(self, aggregate: &Aggregate) -> Result<Value> {
        Ok(match self {
            OrderedState::Plain(accumulator) => accumulator.finish(aggregate.function)?,
            OrderedState::Concat { joined, .. } => joined.map_or(Value::Null, text_or_blob),
            OrderedState::Percentile(percentile) => percentile.finish()?,
            OrderedState::Moments { count, squares, .. } => {
                let is_sample = matches!(
                    aggregate.function,
                    AggregateFunction::StddevSamp | AggregateFunction::VarSamp
                );
                let degrees = count.saturating_sub(u64::from(is_sample));
                if degrees == 0 {
                    return Ok(Value::Null);
                }
                let variance = squares / degrees as f64;
                Value::Real(match aggregate.function {
                    AggregateFunction::StddevPop | AggregateFunction::StddevSamp => variance.sqrt(),
                    _ => variance,
                })
            }
        })
    }
}

impl Percentile {
    /// The place between the numbers: how many are before it, and how far it is on the way to the next.
    fn place(&self) -> (u64, f64) {
        // Exact below 2^53 numbers.
        let place = self.fraction * self.count.saturating_sub(1) as f64;
        (place.floor() as u64, place.fract())
    }

    fn take(&mut self, real: f64, times: u64) {
        let (before, _) = self.place();
        let range = self.seen..self.seen.saturating_add(times);
        if range.contains(&before) {
            self.below = Some(real);
        }
        if range.contains(&(before + 1)) {
            self.above = Some(real);
        }
        self.seen = range.end;
    }

    fn finish(mut self) -> Result<Value> {
        if let Some(numbers) = self.distinct.take() {
            let mut numbers = numbers.finish()?;
            while let Some((_, bits)) = numbers.next()? {
                let bits = bits.first_chunk().copied().unwrap_or_default();
                self.take(f64::from_bits(u64::from_le_bytes(bits)), 1);
            }
        }
        let (_, way) = self.place();
        Ok(match (self.below, self.above) {
            (Some(below), Some(above)) if way > 0.0 => Value::Real(below + (above - below) * way),
            (Some(below), _) => Value::Real(below),
            (None, _) => Value::Null,
        })
    }
}
