//! Batches of rows with multiplicities, as operators pass them on.
//!
//! Invariant: `times` is at least 1, and a row with `times` n means exactly n equal rows. An operator may read more rows than it
//! returns, but at most a batch more. An error comes after the rows before it. After an error an operator is not called again;
//! after the end it returns nothing.

use crate::Result;
use crate::batch::Batch;

pub(super) use crate::batch::{BATCH_BYTES, LateError, RowCollector, value_size};

/// Returns rows.
pub(crate) trait Operator: Send {
    /// The next rows, at least one and at most `rows_max`; none at the end.
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>>;
}

/// The input of an operator.
pub(super) type Input = Box<dyn Operator>;

/// Values for entries of dictionaries take 1/`ENTRIES_SHARE` of the memory of an operator.
pub(super) const ENTRIES_SHARE: usize = 8;

/// A batch that is returned in parts.
#[derive(Debug, Default)]
pub(super) struct BatchRest {
    batch: Option<Batch>,
    /// The next row.
    next: usize,
}

impl BatchRest {
    /// All rows of a batch.
    pub(super) fn of(batch: Option<Batch>) -> BatchRest {
        BatchRest { batch, next: 0 }
    }

    /// The next rows, at most `rows_max`; none at the end.
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

    /// Puts back the last rows of the last part.
    pub(super) fn put_back(&mut self, rows: Batch) {
        match &self.batch {
            Some(_) => self.next -= rows.len(),
            None => *self = BatchRest::of(Some(rows)),
        }
    }
}
