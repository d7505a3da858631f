//! DISTINCT: equal rows are given once.
//!
//! Rows that are new are given at once, as long as their keys fit into memory. From then on, rows with unknown keys are
//! sorted, and given at the end. Invariant: of equal rows the first is given, once.

use std::collections::HashSet;

use zipfdb_sql::query::Collation;

use super::codec::{Encoder, RowCodec};
use super::context::Context;
use super::key::{KeyOrder, add_key};
use super::row::{BatchRest, Input, KEPT_BYTES_MAX, LateError, Operator, RowAtHand};
use super::row_numbers::RowNumbers;
use super::sorter::{Sorted, Sorter};
use super::spill::spill_error_in;
use crate::batch::{BATCH_ROWS, Batch};
use crate::runtime::interrupt::Pace;
use crate::segment::cache::Reservation;
use crate::{Result, Value};

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
    codec: RowCodec,
    encoder: Encoder,
    /// Of rows whose keys are known, and the row that is looked at; once there is a batch.
    looking: Option<(RowNumbers, RowAtHand)>,
    /// Rows that are new and not given yet.
    new: BatchRest,
    late: LateError,
    pace: Pace,
    context: Context,
}

/// Rows of which no two are equal: each is given once, however often it occurs.
pub(super) struct Once(pub(super) Input);

impl Operator for Once {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        let mut batch = self.0.next_batch(rows_max)?;
        if let Some(batch) = &mut batch {
            batch.times = None;
        }
        Ok(batch)
    }
}

enum DistinctState {
    Taking(Input),
    Giving { rest: Sorted, last: Option<Vec<u8>> },
    Done,
}

/// What is known of a row when it has been looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Met {
    /// It was met before.
    Before,
    /// It is the first, and its key is kept.
    First,
    /// It may be the first, and was put to the rest.
    Unknown,
}

impl Distinct {
    pub(super) fn new(input: Input, context: &Context) -> Distinct {
        Distinct {
            state: DistinctState::Taking(input),
            known: HashSet::new(),
            memory: context.memory / 2,
            reservation: context.reservation(),
            rest: None,
            codec: RowCodec::default(),
            encoder: Encoder::default(),
            looking: None,
            new: BatchRest::default(),
            late: LateError::default(),
            pace: context.pace(),
            context: context.clone(),
        }
    }

    /// Says whether a row with this key was met before. If its key does not fit into memory, the row is put to the rest.
    fn look(&mut self, key: Vec<u8>, batch: &mut Batch, row: usize) -> Result<Met> {
        if self.known.contains(&key) {
            return Ok(Met::Before);
        }
        let size = key.len() + KEY_BYTES;
        if self.rest.is_none() && size <= self.memory {
            self.memory -= size;
            self.known.insert(key);
            self.reservation
                .cover(self.context.memory / 2 - self.memory);
            return Ok(Met::First);
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
        self.codec.write(batch, row, &mut self.encoder);
        rest.push(&key, &self.encoder.bytes)?;
        self.encoder.bytes.clear();
        self.encoder.bytes.shrink_to(KEPT_BYTES_MAX);
        Ok(Met::Unknown)
    }

    /// Finds the rows of a batch that are new; others go to the rest. A row whose numbers were met before is not looked at.
    fn take(&mut self, batch: &mut Batch, new: &mut Vec<u32>) -> Result<()> {
        let memory = self.context.memory / NUMBERS_SHARE;
        let (mut numbers, mut at_hand) = self.looking.take().unwrap_or_else(|| {
            let columns: Vec<usize> = (0..batch.columns().len()).collect();
            let numbers = RowNumbers::new(columns.clone(), memory);
            (numbers, RowAtHand::new(columns))
        });
        let has_numbers = numbers.takes(batch);
        for row in 0..batch.len() {
            self.pace.step()?;
            if has_numbers && numbers.find(batch, row).is_some() {
                continue;
            }
            let values = &self.context.values;
            let key = at_hand.with(batch, row, |row: &[Value]| {
                let mut key = Vec::new();
                let order = KeyOrder::ascending(Collation::Binary);
                for value in row {
                    add_key(value, order, &mut key, values)?;
                }
                Ok(key)
            })?;
            let met = self.look(key, batch, row)?;
            if has_numbers && met != Met::Unknown {
                numbers.remember(batch, row, 0);
            }
            if met == Met::First {
                // A batch has fewer rows than 2^32.
                new.push(row as u32);
            }
        }
        self.looking = Some((numbers, at_hand));
        Ok(())
    }

    /// The next rows of the rest: of equal ones the first.
    fn read(
        &mut self,
        rest: &mut Sorted,
        last: &mut Option<Vec<u8>>,
        rows_max: usize,
    ) -> Result<Option<Batch>> {
        let mut rows = self.codec.rows();
        while !rows.is_full(rows_max)
            && let Some((key, payload)) = rest.next()?
        {
            self.pace.step()?;
            if last.as_ref() == Some(&key) {
                continue;
            }
            *last = Some(key);
            let error = |error| spill_error_in(&self.context.spill, error);
            self.codec.read(&payload, &mut rows).map_err(error)?;
        }
        Ok(rows.finish())
    }
}

impl Operator for Distinct {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        let mut wanted = rows_max;
        loop {
            if let Some(batch) = self.new.take(rows_max) {
                return Ok(Some(batch));
            }
            self.late.check()?;
            match std::mem::replace(&mut self.state, DistinctState::Done) {
                DistinctState::Taking(mut input) => {
                    let Some(mut batch) = input.next_batch(wanted)? else {
                        self.known = HashSet::new();
                        self.looking = None;
                        self.reservation.set(0);
                        match self.rest.take() {
                            None => return Ok(None),
                            Some(rest) => {
                                self.state = DistinctState::Giving {
                                    rest: rest.finish()?,
                                    last: None,
                                };
                            }
                        }
                        continue;
                    };
                    batch.times = None;
                    let mut new = Vec::new();
                    let ended = self.take(&mut batch, &mut new);
                    self.state = DistinctState::Taking(input);
                    let made = (!new.is_empty()).then(|| batch.select(&new));
                    self.new = BatchRest::of(self.late.after(made, ended)?);
                    // Where few rows are new, as many more are looked at as have been.
                    wanted = wanted.saturating_mul(2).min(BATCH_ROWS.max(rows_max));
                }
                DistinctState::Giving { mut rest, mut last } => {
                    let batch = self.read(&mut rest, &mut last, rows_max)?;
                    if batch.is_some() {
                        self.state = DistinctState::Giving { rest, last };
                    }
                    return Ok(batch);
                }
                DistinctState::Done => return Ok(None),
            }
        }
    }
}
