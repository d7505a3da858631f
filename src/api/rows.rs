//! What a statement answers: named columns and a stream of rows.
//!
//! Rows are produced as they are asked for; an error ends the stream. A
//! statement without an answer has neither columns nor rows.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::Index;

use crate::runtime::interrupt::InterruptHandle;
use crate::{Result, Value};

/// A column of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    name: String,
}

impl Column {
    pub(crate) fn new(name: impl Into<String>) -> Column {
        Column { name: name.into() }
    }

    /// The column's alias, or its expression as it was written.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// One row of an answer: a value for each column.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    values: Vec<Value>,
}

impl Row {
    pub(crate) fn new(values: Vec<Value>) -> Row {
        Row { values }
    }

    /// The values in order of the columns.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// The values, taken out.
    pub fn into_values(self) -> Vec<Value> {
        self.values
    }
}

impl Index<usize> for Row {
    type Output = Value;

    /// The value of column `index`, from 0.
    ///
    /// # Panics
    /// If there is no such column.
    fn index(&self, index: usize) -> &Value {
        &self.values[index]
    }
}

/// The answer of a statement: an iterator over its rows.
///
/// It holds the snapshot it reads from, so later changes do not show in it.
pub struct Rows {
    columns: Vec<Column>,
    rows: Option<RowIterator>,
    interrupt: Option<InterruptHandle>,
}

pub(crate) type RowIterator = Box<dyn Iterator<Item = Result<Row>> + Send>;

impl Rows {
    /// The answer of a statement that has none.
    pub(crate) fn none() -> Rows {
        Rows {
            columns: Vec::new(),
            rows: None,
            interrupt: None,
        }
    }

    pub(crate) fn new(
        columns: Vec<Column>,
        rows: impl Iterator<Item = Result<Row>> + Send + 'static,
    ) -> Rows {
        Rows {
            columns,
            rows: Some(Box::new(rows)),
            interrupt: None,
        }
    }

    /// The same rows, which `interrupt` can end.
    pub(crate) fn with_interrupt(self, interrupt: InterruptHandle) -> Rows {
        Rows {
            interrupt: Some(interrupt),
            ..self
        }
    }

    /// A handle that ends this answer from another thread with [`crate::Error::Interrupted`]; none if its rows are
    /// there already.
    pub fn interrupt_handle(&self) -> Option<InterruptHandle> {
        self.interrupt.clone()
    }

    /// The columns; empty if the statement has no answer.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }
}

impl Iterator for Rows {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        let row = self.rows.as_mut()?.next();
        if !matches!(row, Some(Ok(_))) {
            self.rows = None;
        }
        row
    }
}

impl FusedIterator for Rows {}

impl fmt::Debug for Rows {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Rows")
            .field("columns", &self.columns)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Error;

    #[test]
    fn an_error_ends_the_stream() {
        let failure = Error::Invalid {
            subject: "x".into(),
            reason: "y".into(),
        };
        let items = vec![
            Ok(Row::new(vec![Value::Integer(1)])),
            Err(failure),
            Ok(Row::new(vec![Value::Integer(2)])),
        ];
        let mut rows = Rows::new(vec![Column::new("n")], items.into_iter());
        assert_eq!(rows.next().unwrap().unwrap()[0], Value::Integer(1));
        assert!(rows.next().unwrap().is_err());
        assert!(rows.next().is_none());
    }
}
