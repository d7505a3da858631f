//! What operators pass on: rows with how often they occur, one by one or as columns.
//!
//! Invariant: `times` is at least 1, and a row with `times` n means exactly n equal rows. Rows come in one order, whichever way
//! they are asked for, and both ways may be mixed. After an error an operator is not asked again; after the end it gives nothing.

use crate::batch::{Batch, BatchColumn, ColumnBuilder};
use crate::{Result, Value};

/// A row that occurs `times` times.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WeightedRow {
    pub(crate) values: Vec<Value>,
    pub(crate) times: u64,
}

/// Gives rows.
pub(crate) trait Operator: Send {
    /// The next row; none at the end.
    fn next(&mut self) -> Result<Option<WeightedRow>>;

    /// The next rows, at least one and at most `rows_max`; none at the end. It looks at no row that as many calls of `next`
    /// would not look at.
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        batch_of_rows(rows_max, || self.next())
    }

    /// Whether it makes columns without making rows first.
    fn has_columns(&self) -> bool {
        false
    }
}

/// Where an operator takes its rows from.
pub(super) type Input = Box<dyn Operator>;

/// Texts of the rows of a batch take at most so many bytes, but for those of the last row.
pub(super) const BATCH_BYTES: usize = 1 << 20;

/// Makes columns of rows.
pub(super) fn batch_of_rows(
    rows_max: usize,
    mut next: impl FnMut() -> Result<Option<WeightedRow>>,
) -> Result<Option<Batch>> {
    let mut columns: Vec<ColumnBuilder> = Vec::new();
    let mut times = Vec::new();
    let mut bytes = 0;
    while times.len() < rows_max.max(1) && bytes < BATCH_BYTES {
        let Some(row) = next()? else { break };
        columns.resize_with(row.values.len(), ColumnBuilder::default);
        for (column, value) in columns.iter_mut().zip(row.values) {
            bytes += value_size(&value);
            column.push(value);
        }
        times.push(row.times);
    }
    if times.is_empty() {
        return Ok(None);
    }
    let columns = columns.into_iter().map(ColumnBuilder::finish).collect();
    Ok(Some(Batch::new(columns, times.len(), Some(times))))
}

/// A row of a batch.
pub(super) fn row_of(batch: &Batch, row: usize) -> WeightedRow {
    WeightedRow {
        values: batch.row(row),
        times: batch.times_of(row),
    }
}

/// The row of a batch that expressions are evaluated on: only the values that they use are made.
#[derive(Debug)]
pub(super) struct RowAtHand {
    /// The columns that are used.
    used: Vec<usize>,
    values: Vec<Value>,
    /// For each used column the number of the text that its value is, if it is one of a dictionary.
    numbers: Vec<Option<u32>>,
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

    /// Goes to a row, whose values are NULL where they are not used.
    pub(super) fn at(&mut self, batch: &Batch, row: usize) -> &[Value] {
        self.values.resize(batch.columns().len(), Value::Null);
        for (&used, known) in self.used.iter().zip(&mut self.numbers) {
            let column = &batch.columns()[used];
            let number = match column {
                // All batches of an operator have the same dictionary.
                BatchColumn::Words { indices, .. } => Some(indices[row]),
                _ => None,
            };
            if number.is_none() || number != *known {
                self.values[used] = column.value(row);
                *known = number;
            }
        }
        &self.values
    }
}

/// Bytes that a value keeps outside of itself.
pub(super) fn value_size(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Blob(bytes) => bytes.len(),
        _ => 0,
    }
}
