//! DISTINCT: returns equal rows once.
//!
//! New rows are returned at once, as long as their numbers fit into memory. From then on, unknown rows are sorted, and returned
//! at the end. Invariant: of equal rows the first is returned, once.

use std::sync::Arc;

use zipfdb_sql::query::{Collation, ExpressionId};

use super::context::Context;
use super::external_sort::{ExternalSort, SortedRows};
use super::group_index::{GroupIndex, RowKeys, RowSteps};
use super::key_interner::{KeyInterner, KeyUse, Look};
use super::row::{BatchRest, Input, LateError, Operator};
use crate::Result;
use crate::batch::{BATCH_ROWS, Batch};
use crate::expression::{Evaluator, Program, compare};
use crate::runtime::interrupt::Pace;
use crate::segment::cache::Reservation;

/// Numbers for the texts of a dictionary may take 1/`TEXTS_SHARE` of memory.
const TEXTS_SHARE: usize = 8;

pub(super) struct Distinct {
    state: DistinctState,
    /// The returned rows.
    keys: RowKeys,
    known: GroupIndex,
    evaluator: Evaluator<Arc<Program>>,
    /// The memory of `keys` and `known`.
    reservation: Reservation,
    steps: RowSteps,
    /// Rows for which there was no room.
    rest: Option<ExternalSort>,
    /// New rows that are not returned yet.
    new: BatchRest,
    late: LateError,
    pace: Pace,
    context: Context,
}

/// Rows of which no two are equal: each is returned once, with any multiplicity.
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
    Giving {
        rest: Box<SortedRows>,
        /// The row before, in a batch.
        last: Option<Batch>,
    },
    Done,
}

impl Distinct {
    /// Takes rows of `width` columns. It lies on the heap, since blocks are built as deep as they read one another.
    ///
    /// # Errors
    /// If the query must end.
    pub(super) fn new(input: Input, width: usize, context: &Context) -> Result<Box<Distinct>> {
        let program = context.columns(width)?;
        let share = context.memory / 2 / TEXTS_SHARE / width.max(1);
        // Far fewer columns than 2^32 fit into a statement.
        let keys = (0..width as u32).map(|column| {
            let equality = KeyUse::Equality(Collation::Binary);
            KeyInterner::new(ExpressionId(column), equality, &program, share)
        });
        Ok(Box::new(Distinct {
            state: DistinctState::Taking(input),
            keys: RowKeys::new(keys.collect()),
            known: GroupIndex::default(),
            evaluator: Evaluator::of(program),
            reservation: context.reservation(),
            steps: RowSteps::default(),
            rest: None,
            new: BatchRest::default(),
            late: LateError::default(),
            pace: context.pace(),
            context: context.clone(),
        }))
    }

    /// Finds the new rows of a batch; without room for more, unknown rows go to the rest.
    fn take(&mut self, batch: &Batch, new: &mut Vec<u32>) -> Result<()> {
        let memory = self.context.memory / 2;
        let Distinct { keys, known, .. } = self;
        if !keys.begin(batch) {
            known.number_values(keys, &self.context.values)?;
        }
        let (mut first, mut numbers, mut rest) = (0, Vec::new(), Vec::new());
        let mut is_full = self.rest.is_some();
        while first < batch.len() {
            let rows = self.steps.next(first, batch.len());
            first = rows.end;
            self.pace.work(rows.len() * size_of::<u64>())?;
            let before = keys.bytes() + known.bytes();
            let mut with = Look {
                evaluator: &mut self.evaluator,
                memory: &self.context.values,
                keeps: !is_full,
            };
            numbers.clear();
            keys.look(batch, rows.clone(), &mut with, &mut numbers)?;
            for (row, wanted) in rows.zip(numbers.chunks_exact(keys.width())) {
                if known.contains(wanted, keys.equals()) {
                    continue;
                }
                is_full |= keys.bytes() + known.bytes() > memory;
                // A batch has fewer rows than 2^32.
                if is_full {
                    rest.push(row as u32);
                } else {
                    known.intern(wanted, keys.equals());
                    new.push(row as u32);
                }
            }
            let bytes = keys.bytes() + known.bytes();
            self.steps.grow(bytes.saturating_sub(before));
            self.reservation.cover(bytes.min(memory));
        }
        if rest.is_empty() {
            return Ok(());
        }
        let sort = match &mut self.rest {
            Some(sort) => sort,
            none => {
                let (columns, mut context) = (batch.columns().len(), self.context.clone());
                context.memory = memory;
                none.insert(ExternalSort::by_columns(columns, columns, &context)?)
            }
        };
        sort.take(batch.select(&rest))
    }

    /// The next rows of the rest: of equal ones the first.
    fn read(
        &mut self,
        rest: &mut SortedRows,
        last: &mut Option<Batch>,
        rows_max: usize,
    ) -> Result<Option<Batch>> {
        while let Some(batch) = rest.next_batch(rows_max)? {
            self.pace.work(batch.len() * size_of::<u64>())?;
            let is_first = |&row: &u32| match (row as usize, &*last) {
                (0, last) => (last.iter()).all(|last| !are_equal((last, 0), (&batch, 0))),
                (row, _) => !are_equal((&batch, row - 1), (&batch, row)),
            };
            // A batch has fewer rows than 2^32.
            let rows: Vec<u32> = (0..batch.len() as u32).filter(is_first).collect();
            *last = Some(batch.slice(batch.len() - 1..batch.len()));
            if !rows.is_empty() {
                return Ok(Some(batch.select(&rows)));
            }
        }
        Ok(None)
    }
}

/// Whether two rows have equal values.
fn are_equal((left, row): (&Batch, usize), (right, other): (&Batch, usize)) -> bool {
    let mut columns = left.columns().iter().zip(right.columns());
    columns.all(|(left, right)| {
        compare(&left.lent(row), &right.lent(other), Collation::Binary).is_eq()
    })
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
                        self.keys.clear();
                        self.known = GroupIndex::default();
                        self.reservation.set(0);
                        let rest = self.rest.take();
                        let Some(rest) = rest.map_or(Ok(None), |mut rest| rest.finish())? else {
                            return Ok(None);
                        };
                        let rest = Box::new(rest);
                        self.state = DistinctState::Giving { rest, last: None };
                        continue;
                    };
                    batch.times = None;
                    let mut new = Vec::new();
                    let ended = self.take(&batch, &mut new);
                    self.state = DistinctState::Taking(input);
                    let made = (!new.is_empty()).then(|| batch.select(&new));
                    self.new = BatchRest::of(self.late.after(made, ended)?);
                    // Where few rows are new, the number of rows to read doubles.
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
