//! `Accumulator`: the state of one aggregate of one group.
//!
//! Invariant: merging the states of two parts of a group gives the state of the whole; sums of integers are exact whatever
//! the order. DISTINCT and FILTER are the caller's business.

use std::borrow::Cow;
use std::io;

use zipfdb_sql::query::{Aggregate, AggregateFunction, Collation};

use super::codec::{Decoder, Encoder};
use super::row::value_size;
use crate::expression::{compare, from_count, from_real, to_real, whole_number};
use crate::{Error, Result, Value};

/// The state of one aggregate of one group.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Accumulator {
    Count(u64),
    Sum(Sum),
    /// The smallest or greatest so far.
    Extreme(Value),
}

/// For SUM, TOTAL and AVG.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Sum {
    count: u64,
    integers: i128,
    has_real: bool,
    reals: f64,
    /// What adding the reals has lost (Neumaier's summation).
    lost: f64,
}

impl Sum {
    fn add_real(&mut self, real: f64) {
        self.has_real = true;
        let sum = self.reals + real;
        if sum.is_finite() {
            self.lost += match self.reals.abs() >= real.abs() {
                true => (self.reals - sum) + real,
                false => (real - sum) + self.reals,
            };
        }
        self.reals = sum;
    }

    fn real(&self) -> f64 {
        // Rounds to the nearest real, as intended.
        let integers = self.integers as f64;
        match self.has_real {
            true => integers + (self.reals + self.lost),
            false => integers,
        }
    }
}

impl Accumulator {
    pub(super) fn new(function: AggregateFunction) -> Accumulator {
        match function {
            AggregateFunction::Count => Accumulator::Count(0),
            AggregateFunction::Sum | AggregateFunction::Total | AggregateFunction::Avg => {
                Accumulator::Sum(Sum::default())
            }
            // Those that need order have states of their own.
            AggregateFunction::GroupConcat
            | AggregateFunction::Max
            | AggregateFunction::Median
            | AggregateFunction::Min
            | AggregateFunction::PercentileCont
            | AggregateFunction::StddevPop
            | AggregateFunction::StddevSamp
            | AggregateFunction::VarPop
            | AggregateFunction::VarSamp => Accumulator::Extreme(Value::Null),
        }
    }

    /// Takes an argument that is not NULL and occurs `times` times.
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
                    // Below 2^63 times 2^64, and sums of that size do not come about by adding.
                    Value::Integer(integer) => {
                        let product = i128::from(integer).saturating_mul(i128::from(times));
                        sum.integers = sum.integers.saturating_add(product);
                    }
                    // Rounds above 2^53 times, as intended.
                    ref other => sum.add_real(to_real(other) * times as f64),
                }
            }
            Accumulator::Extreme(best) => {
                if is_better(aggregate, value, best) {
                    *best = value.clone();
                }
            }
        }
    }

    /// Takes integers, each as often as `times` says or else once.
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
            (Accumulator::Count(_) | Accumulator::Sum(_), _) => {
                for (row, &integer) in integers.iter().enumerate() {
                    let times = times.map_or(1, |times| times[row]);
                    self.take(aggregate, &Value::Integer(integer), times);
                }
            }
        }
    }

    /// Takes the state of another part of the group.
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
            (Accumulator::Extreme(best), Accumulator::Extreme(other))
                if is_better(aggregate, other, best) =>
            {
                *best = other.clone();
            }
            _ => {}
        }
    }

    /// The value of the aggregate.
    ///
    /// # Errors
    /// If a sum of integers leaves 64 bits.
    pub(super) fn finish(self, function: AggregateFunction) -> Result<Value> {
        Ok(match (self, function) {
            (Accumulator::Count(count), _) => from_count(count),
            (Accumulator::Extreme(best), _) => best,
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
            Accumulator::Extreme(best) => encoder.value(best),
            Accumulator::Sum(sum) => {
                encoder.number(sum.count);
                // Both halves of the 128 bits.
                encoder.number(sum.integers as u64);
                encoder.number((sum.integers >> 64) as u64);
                encoder.number(u64::from(sum.has_real));
                encoder.number(sum.reals.to_bits());
                encoder.number(sum.lost.to_bits());
            }
        }
    }

    pub(super) fn decode(
        function: AggregateFunction,
        decoder: &mut Decoder<'_>,
    ) -> io::Result<Accumulator> {
        Ok(match Accumulator::new(function) {
            Accumulator::Count(_) => Accumulator::Count(decoder.number()?),
            Accumulator::Extreme(_) => Accumulator::Extreme(decoder.value()?),
            Accumulator::Sum(_) => Accumulator::Sum(Sum {
                count: decoder.number()?,
                integers: {
                    let low = u128::from(decoder.number()?);
                    (u128::from(decoder.number()?) << 64 | low).cast_signed()
                },
                has_real: decoder.number()? != 0,
                reals: f64::from_bits(decoder.number()?),
                lost: f64::from_bits(decoder.number()?),
            }),
        })
    }

    /// Bytes that the state keeps outside of itself.
    pub(super) fn kept_bytes(&self) -> usize {
        match self {
            Accumulator::Extreme(value) => value_size(value),
            _ => 0,
        }
    }
}

/// Whether MIN or MAX takes `value` instead of `best`. Of texts that are equal by collation it is the first by bytes, so that
/// the answer does not depend on the order of rows.
fn is_better(aggregate: &Aggregate, value: &Value, best: &Value) -> bool {
    match (value, best) {
        (Value::Null, _) => return false,
        (_, Value::Null) => return true,
        _ => {}
    }
    let ordering = compare(value, best, aggregate.collation);
    let ordering = match aggregate.function {
        AggregateFunction::Max => ordering.reverse(),
        _ => ordering,
    };
    ordering.then_with(|| tie(value, best)).is_lt()
}

/// Orders values that are equal to a collation or as numbers: by bytes, INTEGER before REAL.
pub(super) fn tie(a: &Value, b: &Value) -> std::cmp::Ordering {
    let is_real = |value: &Value| matches!(value, Value::Real(_));
    compare(a, b, Collation::Binary).then_with(|| is_real(a).cmp(&is_real(b)))
}
