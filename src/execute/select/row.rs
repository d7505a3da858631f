//! What operators pass on: batches of rows with how often they occur.
//!
//! Invariant: `times` is at least 1, and a row with `times` n means exactly n equal rows. An operator may look at more rows than
//! it gives, but at no more than a batch of them. An error comes after the rows before it. After an error an operator is not
//! asked again; after the end it gives nothing.

use crate::Result;
use crate::batch::Batch;

pub(super) use crate::batch::{BATCH_BYTES, LateError, RowCollector, value_size};

/// Gives rows.
pub(crate) trait Operator: Send {
    /// The next rows, at least one and at most `rows_max`; none at the end.
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>>;
}

/// Where an operator takes its rows from.
pub(super) type Input = Box<dyn Operator>;

/// The part of its memory that an operator gives to values for entries of dictionaries.
pub(super) const ENTRIES_SHARE: usize = 8;

/// A batch that is given in parts.
#[derive(Debug, Default)]
pub(super) struct BatchRest {
    batch: Option<Batch>,
    /// The row that comes next.
    next: usize,
}

impl BatchRest {
    /// All rows of a batch.
    pub(super) fn of(batch: Option<Batch>) -> BatchRest {
        BatchRest { batch, next: 0 }
    }

    /// The rows that come next, at most `rows_max`; none if there are no more.
    pub(super) fn take(&mut self, rows_max: usize) -> Option<Batch> {
        let batch = self.batch.as_ref()?;
        let (first, rows) = (self.next, batch.len());
        let end = rows.min(first.saturating_add(rows_max.max(1)));
        if (first, end) == (0, rows) {
            return self.batch.take();
        }
        let part = batch.slice(first..end);
        self.next = end;
        if end == rows {
            self.batch = None;
        }
        (!part.is_empty()).then_some(part)
    }

    /// Takes back the last rows of what was taken last.
    pub(super) fn put_back(&mut self, rows: Batch) {
        match &self.batch {
            Some(_) => self.next -= rows.len(),
            None => *self = BatchRest::of(Some(rows)),
        }
    }
}
