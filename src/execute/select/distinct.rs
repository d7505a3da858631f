//! DISTINCT: equal rows are given once.
//!
//! Rows that are new are given at once, as long as their keys fit into memory. From then on, rows with unknown keys are
//! sorted, and given at the end. Invariant: of equal rows the first is given, once.

use std::collections::HashSet;

use zipfdb_sql::query::Collation;

use super::codec::{Decoder, Encoder};
use super::context::Context;
use super::key::{KeyOrder, add_key};
use super::row::{Input, Operator, WeightedRow, batch_of_rows, row_of};
use super::row_numbers::RowNumbers;
use super::sorter::{Sorted, Sorter};
use super::spill::spill_error_in;
use crate::Result;
use crate::batch::Batch;
use crate::runtime::interrupt::Pace;
use crate::segment::cache::Reservation;

/// What a key in the set takes besides its bytes.
const KEY_BYTES: usize = 80;

/// The part of memory that numbers of rows may take.
const NUMBERS_SHARE: usize = 8;

pub(super) struct Distinct {
    state: DistinctState,
    known: HashSet<Vec<u8>>,
    /// Bytes that the set may still take.
    memory: usize,
    /// Takes what the set does.
    reservation: Reservation,
    /// Rows whose keys did not fit into the set.
    rest: Option<Sorter>,
    /// Of rows whose keys are known, as far as they were met as columns.
    numbers: Option<RowNumbers>,
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

    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        let mut batch = self.0.next_batch(rows_max)?;
        if let Some(batch) = &mut batch {
            batch.times = None;
        }
        Ok(batch)
    }

    fn has_columns(&self) -> bool {
        self.0.has_columns()
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
            numbers: None,
            pace: context.pace(),
            context: context.clone(),
        }
    }

    /// The next row that is new; others with unknown keys go to the rest.
    fn take(&mut self, input: &mut Input) -> Result<Option<WeightedRow>> {
        while let Some(row) = input.next()? {
            if let Some(row) = self.look(row)?.0 {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// Gives a row back if it is new and its key fits into memory; else puts it to the rest if it may be new. Says whether its
    /// key is known now.
    fn look(&mut self, row: WeightedRow) -> Result<(Option<WeightedRow>, bool)> {
        self.pace.step()?;
        let mut key = Vec::new();
        for value in &row.values {
            let order = KeyOrder::ascending(Collation::Binary);
            add_key(value, order, &mut key, &self.context.values)?;
        }
        if self.known.contains(&key) {
            return Ok((None, true));
        }
        let row = WeightedRow { times: 1, ..row };
        let size = key.len() + KEY_BYTES;
        if self.rest.is_none() && size <= self.memory {
            self.memory -= size;
            self.known.insert(key);
            self.reservation
                .cover(self.context.memory / 2 - self.memory);
            return Ok((Some(row), true));
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
        Ok((None, false))
    }

    /// The next rows that are new; others go to the rest. A row whose numbers were met before is not looked at.
    fn take_batch(&mut self, input: &mut Input, rows_max: usize) -> Result<Option<Batch>> {
        while let Some(mut batch) = input.next_batch(rows_max)? {
            batch.times = None;
            let memory = self.context.memory / NUMBERS_SHARE;
            let mut numbers = self
                .numbers
                .take()
                .unwrap_or_else(|| RowNumbers::new((0..batch.columns().len()).collect(), memory));
            let has_numbers = numbers.takes(&batch);
            let mut new = Vec::new();
            for row in 0..batch.len() {
                self.pace.step()?;
                if has_numbers && numbers.find(&batch, row).is_some() {
                    continue;
                }
                let (found, is_known) = self.look(row_of(&batch, row))?;
                if has_numbers && is_known {
                    numbers.remember(&batch, row, 0);
                }
                if found.is_some() {
                    // A batch has fewer rows than 2^32.
                    new.push(row as u32);
                }
            }
            self.numbers = Some(numbers);
            if !new.is_empty() {
                return Ok(Some(batch.select(&new)));
            }
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
                self.numbers = None;
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

    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        if self.has_columns()
            && let DistinctState::Taking(mut input) =
                std::mem::replace(&mut self.state, DistinctState::Done)
        {
            let batch = self.take_batch(&mut input, rows_max)?;
            self.state = DistinctState::Taking(input);
            if batch.is_some() {
                return Ok(batch);
            }
        }
        batch_of_rows(rows_max, || self.next())
    }

    fn has_columns(&self) -> bool {
        matches!(&self.state, DistinctState::Taking(input) if input.has_columns())
    }
}
