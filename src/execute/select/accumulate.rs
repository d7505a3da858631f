//! `Accumulator`: the state of one aggregate of one group.
//!
//! Invariant: merging the states of two parts of a group gives the state of the whole; sums of integers are exact in any order.
//! The caller handles DISTINCT and FILTER, and the order of arguments where an aggregate needs one: joined texts, percentiles and
//! deviations take them when all parts are merged.

use std::borrow::Cow;
use std::io;

use zipfdb_sql::query::{Aggregate, AggregateFunction};

use super::codec::{Decoder, Encoder};
use super::context::Context;
use super::external_sort::ExternalSort;
use super::key::tie;
use super::row::value_size;
use crate::batch::BATCH_ROWS;
use crate::batch::text_or_blob;
use crate::expression::{Program, compare, from_count, from_real, to_bytes, to_real, whole_number};
use crate::{Error, Result, Value};

/// The state of one aggregate of one group.
pub(super) enum Accumulator {
    Count(u64),
    Sum(Box<Sum>),
    /// The smallest or greatest value so far.
    Extreme(Option<Box<Value>>),
    Joined(Box<JoinedTexts>),
    Percentile(Box<Percentile>),
    Moments(Box<Moments>),
}

/// For variances and deviations.
#[derive(Default)]
pub(super) struct Moments {
    count: u64,
    mean: f64,
    /// The sum of squared distances from the mean.
    squares: f64,
}

/// The joined texts.
pub(super) struct JoinedTexts {
    text: Option<Vec<u8>>,
    separator: Vec<u8>,
}

/// The value at a fraction of the way through sorted numbers.
#[derive(Default)]
pub(super) struct Percentile {
    fraction: f64,
    /// The number of numbers.
    count: u64,
    /// The number of numbers taken so far.
    seen: u64,
    /// The numbers below and above the place.
    below: Option<f64>,
    above: Option<f64>,
    /// With DISTINCT, all numbers: they come in the order of their arguments, and `count` is not known before.
    distinct: Option<Box<ExternalSort>>,
}

/// For SUM, TOTAL and AVG.
#[derive(Default)]
pub(super) struct Sum {
    count: u64,
    integers: i128,
    has_real: bool,
    reals: f64,
    /// The error of the sum of reals (Neumaier's summation).
    lost: f64,
}

impl Sum {
    fn add_real(&mut self, real: f64) {
        self.has_real = true;
        let sum = self.reals + real;
        if sum.is_finite() {
            self.lost += if self.reals.abs() >= real.abs() {
                (self.reals - sum) + real
            } else {
                (real - sum) + self.reals
            };
        }
        self.reals = sum;
    }

    fn real(&self) -> f64 {
        // Rounds to the nearest real, as intended.
        let integers = self.integers as f64;
        if self.has_real {
            integers + (self.reals + self.lost)
        } else {
            integers
        }
    }
}

impl Percentile {
    /// The place of the percentile: how many numbers are before it, and its fraction of the way to the next.
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

    /// Stores a number until all have come.
    fn keep(&mut self, real: f64, context: &Context) -> Result<()> {
        let numbers = match &mut self.distinct {
            Some(numbers) => numbers,
            none => {
                // Equal numbers of several runs were counted more than once.
                self.count = 0;
                let mut context = context.clone();
                context.memory /= 4;
                none.insert(Box::new(ExternalSort::by_columns(1, 1, &context)?))
            }
        };
        self.count += 1;
        numbers.push([Value::Real(real)])
    }

    fn finish(mut self) -> Result<Value> {
        if let Some(mut numbers) = self.distinct.take() {
            let mut sorted = numbers.finish()?;
            while let Some(sorted) = &mut sorted
                && let Some(batch) = sorted.next_batch(BATCH_ROWS)?
            {
                let reals = batch
                    .columns()
                    .iter()
                    .flat_map(|reals| (0..reals.len()).map(|row| to_real(&reals.lent(row))));
                reals.for_each(|real| self.take(real, 1));
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

impl Accumulator {
    /// The empty state of an aggregate, which has passed [`check_parameter`].
    pub(super) fn new(aggregate: &Aggregate, program: &Program) -> Accumulator {
        let parameter = || aggregate.parameter.and_then(|id| program.constant(id));
        match aggregate.function {
            AggregateFunction::Count => Accumulator::Count(0),
            AggregateFunction::Sum | AggregateFunction::Total | AggregateFunction::Avg => {
                Accumulator::Sum(Box::default())
            }
            AggregateFunction::Max | AggregateFunction::Min => Accumulator::Extreme(None),
            AggregateFunction::GroupConcat => Accumulator::Joined(Box::new(JoinedTexts {
                text: None,
                separator: match parameter() {
                    None => b",".to_vec(),
                    Some(separator) => to_bytes(separator).unwrap_or_default().into_owned(),
                },
            })),
            AggregateFunction::Median | AggregateFunction::PercentileCont => {
                Accumulator::Percentile(Box::new(Percentile {
                    fraction: parameter().map_or(0.5, to_real),
                    ..Percentile::default()
                }))
            }
            AggregateFunction::StddevPop
            | AggregateFunction::StddevSamp
            | AggregateFunction::VarPop
            | AggregateFunction::VarSamp => Accumulator::Moments(Box::default()),
        }
    }

    /// Takes an argument that is not NULL and has multiplicity `times`.
    pub(super) fn take(&mut self, aggregate: &Aggregate, value: &Value, times: u64) {
        match self {
            Accumulator::Count(count) => *count += times,
            Accumulator::Sum(sum) => {
                sum.count += times;
                let whole = match value {
                    Value::Text(text) => whole_number(text),
                    _ => None,
                };
                match *whole.map_or(Cow::Borrowed(value), Cow::Owned) {
                    // Below 2^63 times 2^64; larger sums do not occur.
                    Value::Integer(integer) => {
                        let product = i128::from(integer).saturating_mul(i128::from(times));
                        sum.integers = sum.integers.saturating_add(product);
                    }
                    // Rounds above 2^53 times, as intended.
                    ref other => sum.add_real(to_real(other) * times as f64),
                }
            }
            Accumulator::Extreme(best) => {
                if is_better(aggregate, value, best.as_deref()) {
                    *best = Some(Box::new(value.clone()));
                }
            }
            Accumulator::Percentile(percentile) => percentile.take(to_real(value), times),
            Accumulator::Moments(moments) => {
                let Moments {
                    count,
                    mean,
                    squares,
                } = &mut **moments;
                let (real, weight) = (to_real(value), times as f64);
                *count += times;
                let distance = real - *mean;
                // Rounds above 2^53 values, as intended.
                *mean += distance * weight / *count as f64;
                *squares += distance * (real - *mean) * weight;
            }
            Accumulator::Joined(joined) => {
                let JoinedTexts { text, separator } = &mut **joined;
                let bytes = to_bytes(value).unwrap_or_default();
                for _ in 0..times {
                    match text {
                        None => *text = Some(bytes.to_vec()),
                        Some(text) => {
                            text.extend_from_slice(separator);
                            text.extend_from_slice(&bytes);
                        }
                    }
                }
            }
        }
    }

    /// Takes an argument of an aggregate that needs order, after all smaller ones.
    ///
    /// # Errors
    /// If it exceeds the memory, or cannot be written.
    pub(super) fn take_in_order(
        &mut self,
        aggregate: &Aggregate,
        value: &Value,
        times: u64,
        context: &Context,
    ) -> Result<()> {
        match self {
            Accumulator::Percentile(percentile) if aggregate.distinct => {
                return percentile.keep(to_real(value), context);
            }
            Accumulator::Joined(joined) => {
                let JoinedTexts { text, separator } = &**joined;
                let before = text.as_ref().map_or(0, |text| text.len() + separator.len());
                let each = to_bytes(value).map_or(0, |bytes| bytes.len()) as u64;
                let more = each.saturating_add(separator.len() as u64);
                let more = more.saturating_mul(times.saturating_sub(1));
                let length = (before as u64).saturating_add(each).saturating_add(more);
                let what = "the result of group_concat";
                context.values.check(what, length)?;
            }
            _ => {}
        }
        self.take(aggregate, value, times);
        Ok(())
    }

    /// Announces `more` arguments, before the first of them.
    pub(super) fn expect(&mut self, more: u64) {
        if let Accumulator::Percentile(percentile) = self {
            percentile.count += more;
        }
    }

    /// Takes integers, with their multiplicities or once each.
    pub(super) fn take_integers(
        &mut self,
        aggregate: &Aggregate,
        integers: &[i64],
        times: Option<&[u64]>,
    ) {
        match (&mut *self, times) {
            (Accumulator::Sum(sum), None) => {
                sum.count += integers.len() as u64;
                // Fewer than 2^64 of below 2^63 each.
                let added = integers.iter().map(|&integer| i128::from(integer)).sum();
                sum.integers = sum.integers.saturating_add(added);
            }
            (Accumulator::Extreme(_), _) => {
                let best = match aggregate.function {
                    AggregateFunction::Min => integers.iter().min(),
                    _ => integers.iter().max(),
                };
                if let Some(&best) = best {
                    self.take(aggregate, &Value::Integer(best), 1);
                }
            }
            _ => {
                for (row, &integer) in integers.iter().enumerate() {
                    let times = times.map_or(1, |times| times[row]);
                    self.take(aggregate, &Value::Integer(integer), times);
                }
            }
        }
    }

    /// Merges the state of another part of the group.
    pub(super) fn merge(&mut self, aggregate: &Aggregate, other: &Accumulator) {
        match (self, other) {
            (Accumulator::Count(count), Accumulator::Count(other)) => *count += other,
            (Accumulator::Sum(sum), Accumulator::Sum(other)) => {
                sum.count += other.count;
                sum.integers = sum.integers.saturating_add(other.integers);
                if other.has_real {
                    sum.add_real(other.reals);
                    sum.add_real(other.lost);
                }
            }
            (Accumulator::Extreme(best), Accumulator::Extreme(Some(other)))
                if is_better(aggregate, other, best.as_deref()) =>
            {
                *best = Some(other.clone());
            }
            (Accumulator::Percentile(percentile), Accumulator::Percentile(other)) => {
                percentile.count += other.count;
            }
            _ => {}
        }
    }

    /// The value of the aggregate.
    ///
    /// # Errors
    /// If a sum of integers leaves 64 bits, or numbers cannot be sorted.
    pub(super) fn finish(self, function: AggregateFunction) -> Result<Value> {
        Ok(match (self, function) {
            (Accumulator::Count(count), _) => from_count(count),
            (Accumulator::Extreme(best), _) => best.map_or(Value::Null, |best| *best),
            (Accumulator::Joined(joined), _) => joined.text.map_or(Value::Null, text_or_blob),
            (Accumulator::Percentile(percentile), _) => percentile.finish()?,
            (Accumulator::Moments(moments), _) => {
                let Moments { count, squares, .. } = *moments;
                let is_sample = matches!(
                    function,
                    AggregateFunction::StddevSamp | AggregateFunction::VarSamp
                );
                let degrees = count.saturating_sub(u64::from(is_sample));
                let variance = squares / degrees as f64;
                match function {
                    _ if degrees == 0 => Value::Null,
                    AggregateFunction::StddevPop | AggregateFunction::StddevSamp => {
                        Value::Real(variance.sqrt())
                    }
                    _ => Value::Real(variance),
                }
            }
            (Accumulator::Sum(sum), AggregateFunction::Total) => from_real(sum.real()),
            (Accumulator::Sum(sum), _) if sum.count == 0 => Value::Null,
            // Rounds above 2^53 values, as intended.
            (Accumulator::Sum(sum), AggregateFunction::Avg) => {
                from_real(sum.real() / sum.count as f64)
            }
            (Accumulator::Sum(sum), _) if sum.has_real => from_real(sum.real()),
            (Accumulator::Sum(sum), _) => match i64::try_from(sum.integers) {
                Ok(integer) => Value::Integer(integer),
                Err(_) => {
                    return Err(Error::Invalid {
                        subject: "SUM".into(),
                        reason: "integer overflow; hint: TOTAL sums as REAL".into(),
                    });
                }
            },
        })
    }

    pub(super) fn encode(&self, encoder: &mut Encoder) {
        match self {
            Accumulator::Count(count) => encoder.number(*count),
            Accumulator::Extreme(best) => encoder.value(best.as_deref().unwrap_or(&Value::Null)),
            Accumulator::Sum(sum) => {
                encoder.number(sum.count);
                // Both halves of the 128 bits.
                encoder.number(sum.integers as u64);
                encoder.number((sum.integers >> 64) as u64);
                encoder.number(u64::from(sum.has_real));
                encoder.number(sum.reals.to_bits());
                encoder.number(sum.lost.to_bits());
            }
            Accumulator::Percentile(percentile) => encoder.number(percentile.count),
            // These take their arguments after all parts are merged.
            Accumulator::Joined(_) | Accumulator::Moments(_) => {}
        }
    }

    /// The encoded state; `new` is an empty one of its aggregate.
    pub(super) fn decode(new: Accumulator, decoder: &mut Decoder<'_>) -> io::Result<Accumulator> {
        Ok(match new {
            Accumulator::Percentile(mut percentile) => {
                percentile.count = decoder.number()?;
                Accumulator::Percentile(percentile)
            }
            new @ (Accumulator::Joined(_) | Accumulator::Moments(_)) => new,
            Accumulator::Count(_) => Accumulator::Count(decoder.number()?),
            Accumulator::Extreme(_) => {
                let best = Some(decoder.value()?).filter(|best| *best != Value::Null);
                Accumulator::Extreme(best.map(Box::new))
            }
            Accumulator::Sum(_) => Accumulator::Sum(Box::new(Sum {
                count: decoder.number()?,
                integers: {
                    let low = u128::from(decoder.number()?);
                    (u128::from(decoder.number()?) << 64 | low).cast_signed()
                },
                has_real: decoder.number()? != 0,
                reals: f64::from_bits(decoder.number()?),
                lost: f64::from_bits(decoder.number()?),
            })),
        })
    }

    /// Bytes of a state, without texts.
    pub(super) fn size(function: AggregateFunction) -> usize {
        let boxed = match function {
            AggregateFunction::Sum | AggregateFunction::Total | AggregateFunction::Avg => {
                size_of::<Sum>() + size_of::<usize>()
            }
            AggregateFunction::Min | AggregateFunction::Max => {
                size_of::<Value>() + size_of::<usize>()
            }
            _ => 0,
        };
        size_of::<Accumulator>() + boxed
    }

    /// Bytes that the state has on the heap.
    pub(super) fn kept_bytes(&self) -> usize {
        match self {
            Accumulator::Extreme(Some(value)) => value_size(value),
            Accumulator::Joined(joined) => joined.text.as_ref().map_or(0, Vec::len),
            _ => 0,
        }
    }
}

/// Whether MIN or MAX prefers `value` to `best`. Of texts that are equal by collation the first by bytes wins, so that the answer
/// does not depend on the order of rows.
fn is_better(aggregate: &Aggregate, value: &Value, best: Option<&Value>) -> bool {
    let Some(best) = best else {
        return true;
    };
    let ordering = compare(value, best, aggregate.collation);
    let ordering = match aggregate.function {
        AggregateFunction::Max => ordering.reverse(),
        _ => ordering,
    };
    ordering.then_with(|| tie(value, best)).is_lt()
}

/// Whether an aggregate needs its arguments in order.
pub(super) fn needs_order(aggregate: &Aggregate) -> bool {
    is_of_numbers(aggregate.function) || aggregate.function == AggregateFunction::GroupConcat
}

/// Whether an aggregate takes its arguments as numbers, in order.
pub(super) fn is_of_numbers(function: AggregateFunction) -> bool {
    match function {
        AggregateFunction::Avg
        | AggregateFunction::Count
        | AggregateFunction::GroupConcat
        | AggregateFunction::Max
        | AggregateFunction::Min
        | AggregateFunction::Sum
        | AggregateFunction::Total => false,
        AggregateFunction::Median
        | AggregateFunction::PercentileCont
        | AggregateFunction::StddevPop
        | AggregateFunction::StddevSamp
        | AggregateFunction::VarPop
        | AggregateFunction::VarSamp => true,
    }
}

/// Checks the second argument of an aggregate.
///
/// # Errors
/// If it cannot be computed, or has the wrong kind.
pub(super) fn check_parameter(aggregate: &Aggregate, program: &Program) -> Result<()> {
    let Some(id) = aggregate.parameter else {
        return Ok(());
    };
    // Binding only admits constants; a constant that fails is an error here.
    let given = program.constant(id).ok_or_else(|| Error::Invalid {
        subject: "the second argument of an aggregate".into(),
        reason: "it cannot be computed".into(),
    })?;
    let fraction = match given {
        Value::Integer(_) | Value::Real(_) => to_real(given),
        _ => f64::NAN,
    };
    if aggregate.function == AggregateFunction::PercentileCont && !(0.0..=1.0).contains(&fraction) {
        return Err(Error::Invalid {
            subject: "percentile_cont".into(),
            reason: "the fraction is no number from 0 to 1".into(),
        });
    }
    Ok(())
}
