//! What operators pass on: batches of rows with how often they occur.
//!
//! Invariant: `times` is at least 1, and a row with `times` n means exactly n equal rows. An operator may look at more rows than
//! it gives, but at no more than a batch of them. An error comes after the rows before it. After an error an operator is not
//! asked again; after the end it gives nothing.

use crate::batch::{Batch, BatchColumn, TextDictionary};
use crate::{Result, Value};

pub(super) use crate::batch::{BATCH_BYTES, LateError, RowCollector, value_size};

/// Gives rows.
pub(crate) trait Operator: Send {
    /// The next rows, at least one and at most `rows_max`; none at the end.
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>>;
}

/// Where an operator takes its rows from.
pub(super) type Input = Box<dyn Operator>;

/// What stays allocated of a buffer from one row to the next.
pub(super) const KEPT_BYTES_MAX: usize = 64 << 10;

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

/// The row of a batch that expressions are evaluated on: only the values that they use are made.
#[derive(Debug)]
pub(super) struct RowAtHand {
    /// The columns that are used.
    used: Vec<usize>,
    values: Vec<Value>,
    /// For each used column the number of the text that its value is, if it is one of a dictionary, and which.
    numbers: Vec<Option<(u32, TextDictionary)>>,
}

impl RowAtHand {
    /// For expressions that use these columns.
    pub(super) fn new(used: Vec<usize>) -> RowAtHand {
        RowAtHand {
            numbers: vec![None; used.len()],
            used,
            values: Vec::new(),
        }
    }

    /// Does some work on a row, whose values are NULL where they are not used. Values that the batch holds are lent and not
    /// copied.
    ///
    /// # Errors
    /// Those of `work`.
    pub(super) fn with<A>(
        &mut self,
        batch: &mut Batch,
        row: usize,
        work: impl FnOnce(&[Value]) -> Result<A>,
    ) -> Result<A> {
        self.values.resize(batch.columns().len(), Value::Null);
        for (&used, known) in self.used.iter().zip(&mut self.numbers) {
            let column = &mut batch.columns_mut()[used];
            if let BatchColumn::Words {
                indices,
                dictionary,
            } = column
            {
                match known {
                    Some((number, same)) if same.is_same(dictionary) => {
                        if *number == indices[row] {
                            continue;
                        }
                        *number = indices[row];
                    }
                    known => *known = Some((indices[row], dictionary.clone())),
                }
            } else {
                *known = None;
            }
            self.values[used] = match column {
                BatchColumn::Values(values) => std::mem::replace(&mut values[row], Value::Null),
                column => column.value(row),
            };
        }
        let done = work(&self.values);
        for &used in &self.used {
            if let BatchColumn::Values(values) = &mut batch.columns_mut()[used] {
                values[row] = std::mem::replace(&mut self.values[used], Value::Null);
            }
        }
        done
    }
}
