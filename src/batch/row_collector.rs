//! Rows of values as a batch.
//!
//! Invariant: the columns of a batch that is finished have as many values as rows were pushed.

use super::{Batch, ColumnBuilder};
use crate::Value;

/// Texts of the rows of a batch take at most so many bytes, but for those of the last row.
pub(crate) const BATCH_BYTES: usize = 1 << 20;

/// Makes a batch of rows of values.
#[derive(Debug, Default)]
pub(crate) struct RowCollector {
    columns: Vec<ColumnBuilder>,
    rows: usize,
    /// What texts of the rows take.
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

    /// Whether there are so many rows, or their texts take as much as those of a batch may.
    pub(crate) fn is_full(&self, rows_max: usize) -> bool {
        self.rows >= rows_max.max(1) || self.bytes >= BATCH_BYTES
    }

    /// The rows; none if there are none.
    pub(crate) fn finish(self) -> Option<Batch> {
        let columns = self.columns.into_iter().map(ColumnBuilder::finish);
        (self.rows > 0).then(|| Batch::new(columns.collect(), self.rows, None))
    }
}

/// Bytes that a value keeps outside of itself.
pub(crate) fn value_size(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Blob(bytes) => bytes.len(),
        _ => 0,
    }
}
