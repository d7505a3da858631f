//! Content of files, read for the rows that are left after sorting and LIMIT.
//!
//! Invariant: only deferred columns change; order and number of rows stay.

use super::row::{BATCH_BYTES, BatchRest, Input, LateError, Operator};
use super::scan::Fetch;
use crate::batch::{Batch, ColumnBuilder};
use crate::{Result, Value};

pub(super) struct FetchDeferred {
    input: Input,
    fetch: Box<dyn Fetch>,
    /// Rows of the input without their content.
    rest: BatchRest,
    late: LateError,
}

impl FetchDeferred {
    pub(super) fn new(input: Input, fetch: Box<dyn Fetch>) -> FetchDeferred {
        FetchDeferred {
            input,
            fetch,
            rest: BatchRest::default(),
            late: LateError::default(),
        }
    }

    /// Reads the content of the first rows of a batch, up to the limit of a batch.
    fn read(&mut self, batch: &Batch, fetched: &mut [ColumnBuilder]) -> (usize, Result<()>) {
        self.fetch.forget();
        let deferred = self.fetch.columns().to_vec();
        let mut held = 0u64;
        for row in 0..batch.len() {
            let stand_ins = deferred.iter().map(|&column| {
                let stand_in = batch.columns()[column].value(row);
                (column, stand_in)
            });
            let stand_ins: Vec<(usize, Value)> = stand_ins.collect();
            let bytes = stand_ins
                .iter()
                .map(|(column, stand_in)| self.fetch.bytes(*column, stand_in));
            held = bytes.fold(held, u64::saturating_add);
            if row > 0 && held > BATCH_BYTES as u64 {
                return (row, Ok(()));
            }
            let mut values = Vec::with_capacity(stand_ins.len());
            for (column, stand_in) in stand_ins {
                match self.fetch.value(column, &stand_in) {
                    Ok(value) => values.push(value),
                    Err(error) => return (row, Err(error)),
                }
            }
            let pairs = fetched.iter_mut().zip(values);
            pairs.for_each(|(column, value)| column.push(value));
        }
        (batch.len(), Ok(()))
    }
}

impl Operator for FetchDeferred {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        self.late.check()?;
        let batch = match self.rest.take(rows_max) {
            None => self.input.next_batch(rows_max)?,
            rest => rest,
        };
        let Some(mut batch) = batch else {
            return Ok(None);
        };
        let mut fetched = Vec::new();
        fetched.resize_with(self.fetch.columns().len(), ColumnBuilder::default);
        let (read, ended) = self.read(&batch, &mut fetched);
        if read < batch.len() {
            self.rest.put_back(batch.slice(read..batch.len()));
            batch.truncate(read);
        }
        for (&column, fetched) in self.fetch.columns().iter().zip(fetched) {
            batch.columns_mut()[column] = fetched.finish();
        }
        self.late.after((read > 0).then_some(batch), ended)
    }
}
