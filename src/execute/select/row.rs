//! What operators pass on: rows with how often they occur.
//!
//! Invariant: `times` is at least 1, and a row with `times` n means exactly n equal rows. After an error or the end an
//! operator is not asked again.

use crate::{Result, Value};

/// A row that occurs `times` times.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WeightedRow {
    pub(crate) values: Vec<Value>,
    pub(crate) times: u64,
}

/// Gives rows one by one.
pub(crate) trait Operator: Send {
    /// The next row; none at the end.
    fn next(&mut self) -> Result<Option<WeightedRow>>;
}

/// Where an operator takes its rows from.
pub(super) type Input = Box<dyn Operator>;

/// Bytes that a value keeps outside of itself.
pub(super) fn value_size(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Blob(bytes) => bytes.len(),
        _ => 0,
    }
}
