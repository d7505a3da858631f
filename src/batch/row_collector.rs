//! Collects rows of values to a batch.
//!
//! Invariant: every column of a finished batch has one value for each row that was pushed.

use super::{Batch, ColumnBuilder};
use crate::Value;

/// The most bytes of texts in a batch, except for those of its last row.
pub(crate) const BATCH_BYTES: usize = 1 << 20;

/// A batch in the making, from rows of values.
#[derive(Debug, Default)]
pub(crate) struct RowCollector {
    columns: Vec<ColumnBuilder>,
    rows: usize,
    /// The size of the texts of the rows.
    bytes: usize,
}

impl RowCollector {
    /// Appends a row that occurs once.
    pub(crate) fn push(&mut self, values: impl IntoIterator<Item = Value>) {
        for (index, value) in values.into_iter().enumerate() {
            if index == self.columns.len() {
                self.columns.push(ColumnBuilder::default());
            }
            self.bytes += value_size(&value);
            self.columns[index].push(value);
        }
        self.rows += 1;
    }

    /// Whether there are `rows_max` rows, or their texts reach `BATCH_BYTES`.
    pub(crate) fn is_full(&self, rows_max: usize) -> bool {
        self.rows >= rows_max.max(1) || self.bytes >= BATCH_BYTES
    }

    /// The rows; none if there are none.
    pub(crate) fn finish(self) -> Option<Batch> {
        let columns = self.columns.into_iter().map(ColumnBuilder::finish);
        (self.rows > 0).then(|| Batch::new(columns.collect(), self.rows, None))
    }
}

/// Bytes that a value keeps on the heap.
pub(crate) fn value_size(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Blob(bytes) => bytes.len(),
        _ => 0,
    }
}
