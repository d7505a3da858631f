//! DISTINCT: equal rows are given once.
//!
//! Rows that are new are given at once, as long as their keys fit into memory. From then on, rows with unknown keys are
//! sorted, and given at the end. Invariant: of equal rows the first is given, once.

use std::collections::HashSet;

use zipfdb_sql::query::Collation;

use super::codec::{Decoder, Encoder};
use super::context::Context;
use super::key::{KeyOrder, add_key};
use super::row::{Input, Operator, WeightedRow};
use super::sorter::{Sorted, Sorter};
use super::spill::spill_error_in;
use crate::Result;
use crate::runtime::interrupt::Pace;
use crate::segment::cache::Reservation;

/// What a key in the set takes besides its bytes.
const KEY_BYTES: usize = 80;

pub(super) struct Distinct {
    state: DistinctState,
    known: HashSet<Vec<u8>>,
    /// Bytes that the set may still take.
    memory: usize,
    /// Takes what the set does.
    reservation: Reservation,
    /// Rows whose keys did not fit into the set.
    rest: Option<Sorter>,
    pace: Pace,
    context: Context,
}

/// Rows of which no two are equal: each is given once, however often it occurs.
pub(super) struct Once(pub(super) Input);

impl Operator for Once {
    fn next(&mut self) -> Result<Option<WeightedRow>> {
        let row = self.0.next()?;
        Ok(row.map(|row| WeightedRow { times: 1, ..row }))
    }
}

enum DistinctState {
    Taking(Input),
    Giving { rest: Sorted, last: Option<Vec<u8>> },
    Done,
}

impl Distinct {
    pub(super) fn new(input: Input, context: &Context) -> Distinct {
        Distinct {
            state: DistinctState::Taking(input),
            known: HashSet::new(),
            memory: context.memory / 2,
            reservation: context.reservation(),
            rest: None,
            pace: context.pace(),
            context: context.clone(),
        }
    }

    /// The next row that is new; others with unknown keys go to the rest.
    fn take(&mut self, input: &mut Input) -> Result<Option<WeightedRow>> {
        while let Some(row) = input.next()? {
            self.pace.step()?;
            let mut key = Vec::new();
            for value in &row.values {
                let order = KeyOrder::ascending(Collation::Binary);
                add_key(value, order, &mut key, &self.context.values)?;
            }
            if self.known.contains(&key) {
                continue;
            }
            let row = WeightedRow { times: 1, ..row };
            let size = key.len() + KEY_BYTES;
            if self.rest.is_none() && size <= self.memory {
                self.memory -= size;
                self.known.insert(key);
                self.reservation
                    .cover(self.context.memory / 2 - self.memory);
                return Ok(Some(row));
            }
            let context = &self.context;
            let rest = self.rest.get_or_insert_with(|| {
                let memory = context.memory / 2;
                Sorter::new(
                    memory,
                    context.reservation(),
                    &context.spill,
                    context.pace(),
                    None,
                )
            });
            rest.push(&key, Encoder::default().row(row))?;
        }
        Ok(None)
    }
}

impl Operator for Distinct {
    fn next(&mut self) -> Result<Option<WeightedRow>> {
        let (mut rest, mut last) = match std::mem::replace(&mut self.state, DistinctState::Done) {
            DistinctState::Taking(mut input) => {
                if let Some(row) = self.take(&mut input)? {
                    self.state = DistinctState::Taking(input);
                    return Ok(Some(row));
                }
                self.known = HashSet::new();
                self.reservation.set(0);
                match self.rest.take() {
                    None => return Ok(None),
                    Some(rest) => (rest.finish()?, None),
                }
            }
            DistinctState::Giving { rest, last } => (rest, last),
            DistinctState::Done => return Ok(None),
        };
        while let Some((key, payload)) = rest.next()? {
            self.pace.step()?;
            if last.as_ref() == Some(&key) {
                continue;
            }
            last = Some(key);
            self.state = DistinctState::Giving { rest, last };
            let row = Decoder { bytes: &payload }.row();
            let error = |error| spill_error_in(&self.context.spill, error);
            return row.map(Some).map_err(error);
        }
        Ok(None)
    }
}
