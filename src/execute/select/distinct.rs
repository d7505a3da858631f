//! DISTINCT: equal rows are given once.
//!
//! Rows that are new are given at once, as long as their numbers fit into memory. From then on, rows that are not known are
//! sorted, and given at the end. Invariant: of equal rows the first is given, once.

use zipfdb_sql::query::Collation;

use super::codec::{Encoder, RowCodec};
use super::context::Context;
use super::group_index::{GroupIndex, RowKeys, RowSteps};
use super::key::{KeyOrder, add_key};
use super::key_numbers::{KeyNumbers, Look};
use super::row::{BatchRest, Input, KEPT_BYTES_MAX, LateError, Operator};
use super::sorter::{Sorted, Sorter};
use super::spill::spill_error_in;
use crate::Result;
use crate::batch::{BATCH_ROWS, Batch};
use crate::runtime::interrupt::Pace;
use crate::segment::cache::Reservation;

/// The part of memory that numbers for the texts of a dictionary may take.
const TEXTS_SHARE: usize = 8;

pub(super) struct Distinct {
    state: DistinctState,
    /// Rows that were given, once there is a batch.
    known: Option<(RowKeys, GroupIndex)>,
    /// Takes what they do.
    reservation: Reservation,
    steps: RowSteps,
    /// Rows for which there was no room.
    rest: Option<Sorter>,
    codec: RowCodec,
    encoder: Encoder,
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

impl Distinct {
    pub(super) fn new(input: Input, context: &Context) -> Distinct {
        Distinct {
            state: DistinctState::Taking(input),
            known: None,
            reservation: context.reservation(),
            steps: RowSteps::default(),
            rest: None,
            codec: RowCodec::default(),
            encoder: Encoder::default(),
            new: BatchRest::default(),
            late: LateError::default(),
            pace: context.pace(),
            context: context.clone(),
        }
    }

    /// Finds the rows of a batch that are new; where there is no room for more, they go to the rest.
    fn take(&mut self, batch: &mut Batch, new: &mut Vec<u32>) -> Result<()> {
        let memory = self.context.memory / 2;
        let (mut keys, mut known) = self.known.take().unwrap_or_else(|| {
            let columns = 0..batch.columns().len();
            let share = memory / TEXTS_SHARE / columns.len().max(1);
            let keys = columns.map(|column| KeyNumbers::of_column(column, share));
            (RowKeys::new(keys.collect()), GroupIndex::default())
        });
        if !keys.begin(batch) {
            known.number_values(&mut keys, &self.context.values)?;
        }
        let (mut first, mut numbers) = (0, Vec::new());
        while first < batch.len() {
            let rows = self.steps.next(first, batch.len());
            first = rows.end;
            self.pace.work(rows.len() * size_of::<u64>())?;
            let before = keys.bytes() + known.bytes();
            let mut with = Look {
                evaluator: None,
                memory: &self.context.values,
                keeps: self.rest.is_none(),
            };
            numbers.clear();
            keys.look(batch, rows.clone(), &mut with, &mut numbers)?;
            for (row, wanted) in rows.zip(numbers.chunks_exact(keys.width())) {
                if known.contains(wanted, keys.equals()) {
                    continue;
                }
                if self.rest.is_none() && keys.bytes() + known.bytes() <= memory {
                    known.intern(wanted, keys.equals());
                    // A batch has fewer rows than 2^32.
                    new.push(row as u32);
                } else {
                    self.push(batch, row)?;
                }
            }
            let bytes = keys.bytes() + known.bytes();
            self.steps.grow(bytes.saturating_sub(before));
            self.reservation.cover(bytes.min(memory));
        }
        self.known = Some((keys, known));
        Ok(())
    }

    /// Puts a row to the rest.
    fn push(&mut self, batch: &mut Batch, row: usize) -> Result<()> {
        let context = &self.context;
        let mut key = Vec::new();
        let order = KeyOrder::ascending(Collation::Binary);
        for column in batch.columns() {
            add_key(&column.lent(row), order, &mut key, &context.values)?;
        }
        let rest = self.rest.get_or_insert_with(|| {
            let memory = context.memory / 2;
            Sorter::new(
                memory,
                context.reservation(),
                &context.spill,
                context.pace(),
            )
        });
        self.codec.write(batch, row, &mut self.encoder);
        rest.push(&key, &self.encoder.bytes)?;
        self.encoder.bytes.clear();
        self.encoder.bytes.shrink_to(KEPT_BYTES_MAX);
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
                        self.known = None;
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
