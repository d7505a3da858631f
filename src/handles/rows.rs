//! `Rows`: the answer of a statement, named columns and a stream of rows.
//!
//! Rows are produced as they are asked for; an error ends the stream. A
//! statement without an answer has neither columns nor rows.

use std::fmt;
use std::iter::FusedIterator;
use std::sync::Arc;

use crate::batch::{Batch, LateError, RowCollector};
use crate::handles::row::{Column, Row};
use crate::notice::Notice;
use crate::runtime::interrupt::InterruptHandle;
use crate::{Result, Value};

/// The answer of a statement: an iterator over its rows.
///
/// It holds the snapshot it reads from, so later changes do not show in it. Rows are made as they are asked for: a row that fails
/// is the last one. Dropped before its end, it ends the work for the rows that were not asked for and gives its memory back.
///
/// ```
/// use zipfdb::{CorpusSettings, Database};
///
/// let db = Database::in_memory()?;
/// let pets = db.create_corpus("pets", CorpusSettings::default())?;
/// pets.append("a.txt", "the cat and the dog")?;
/// let mut rows = db.query("SELECT word, COUNT(*) AS n FROM pets GROUP BY word ORDER BY n DESC, word", ())?;
/// assert_eq!(rows.columns()[1].name(), "n");
/// let first = rows.next().expect("there are words")?;
/// assert_eq!((first.get::<String>("word")?, first.get::<u64>("n")?), ("the".to_owned(), 2));
/// let others = rows.map(|row| row?.get(0)).collect::<zipfdb::Result<Vec<String>>>()?;
/// assert_eq!(others, ["and", "cat", "dog"]);
/// # Ok::<(), zipfdb::Error>(())
/// ```
pub struct Rows {
    columns: Arc<[Column]>,
    rows: Option<Box<dyn RowSource>>,
    interrupt: Option<InterruptHandle>,
    notices: Vec<Notice>,
    changed: u64,
}

/// The most rows of a batch: rows are numbered by u32, and in memory together.
const BATCH_ROWS_MAX: usize = 1 << 20;

/// Gives the rows of an answer, one by one or as columns; both ways may be mixed.
pub(crate) trait RowSource: Iterator<Item = Result<Vec<Value>>> + Send {
    /// The next rows, at least one and at most `rows_max`; none at the end.
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>>;
}

/// The rows of an iterator.
struct RowsOf<I> {
    rows: I,
    late: LateError,
}

impl<I: Iterator<Item = Result<Vec<Value>>>> Iterator for RowsOf<I> {
    type Item = Result<Vec<Value>>;

    fn next(&mut self) -> Option<Result<Vec<Value>>> {
        let late = self.late.check().err().map(Err);
        late.or_else(|| self.rows.next())
    }
}

impl<I: Iterator<Item = Result<Vec<Value>>> + Send> RowSource for RowsOf<I> {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        self.late.check()?;
        let mut made = RowCollector::default();
        let mut ended = Ok(());
        while !made.is_full(rows_max)
            && let Some(row) = self.rows.next()
        {
            match row {
                Ok(row) => made.push(row),
                Err(error) => {
                    ended = Err(error);
                    break;
                }
            }
        }
        self.late.after(made.finish(), ended)
    }
}

impl Rows {
    /// The answer of a statement that returns no rows.
    pub(crate) fn none() -> Rows {
        Rows {
            columns: Arc::default(),
            rows: None,
            interrupt: None,
            notices: Vec::new(),
            changed: 0,
        }
    }

    pub(crate) fn new(
        columns: Vec<Column>,
        rows: impl Iterator<Item = Result<Vec<Value>>> + Send + 'static,
    ) -> Rows {
        let late = LateError::default();
        Rows::of(columns, RowsOf { rows, late })
    }

    pub(crate) fn of(columns: Vec<Column>, rows: impl RowSource + 'static) -> Rows {
        Rows {
            columns: columns.into(),
            rows: Some(Box::new(rows)),
            interrupt: None,
            notices: Vec::new(),
            changed: 0,
        }
    }

    /// The same rows, which `interrupt` can end.
    pub(crate) fn with_interrupt(self, interrupt: InterruptHandle) -> Rows {
        Rows {
            interrupt: Some(interrupt),
            ..self
        }
    }

    /// The same rows with more notices.
    pub(crate) fn with_notices(mut self, notices: impl IntoIterator<Item = Notice>) -> Rows {
        self.notices.extend(notices);
        self
    }

    /// The same rows of a statement that has changed some.
    pub(crate) fn with_changed(self, changed: u64) -> Rows {
        Rows { changed, ..self }
    }

    /// The number of rows that the statement has changed: inserted, replaced, deleted, or files copied; 0 for a statement that
    /// changes no rows.
    pub fn changed(&self) -> u64 {
        self.changed
    }

    /// Notices about the statement: no errors, but worth knowing.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
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

    /// The next rows as columns: at least one and at most `rows_max` (and one, if that is 0), or none at the end. Words, names of
    /// files and n-grams come as numbers with a dictionary, which costs a small part of what their texts cost as [`Row`]s. Some
    /// thousand rows a batch are enough. Batches and rows may be taken in turn.
    ///
    /// # Errors
    /// If a row fails, once those before it are out; there are no more then.
    pub fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        let Some(rows) = &mut self.rows else {
            return Ok(None);
        };
        let batch = rows.next_batch(rows_max.clamp(1, BATCH_ROWS_MAX));
        if !matches!(batch, Ok(Some(_))) {
            self.rows = None;
        }
        batch
    }
}

impl Iterator for Rows {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        let row = self.rows.as_mut()?.next();
        if !matches!(row, Some(Ok(_))) {
            self.rows = None;
        }
        Some(row?.map(|values| Row::new(self.columns.clone(), values)))
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

    /// A row, an error and a row.
    fn failing() -> Rows {
        let failure = Error::Invalid {
            subject: "x".into(),
            reason: "y".into(),
        };
        let items = vec![
            Ok(vec![Value::Integer(1)]),
            Err(failure),
            Ok(vec![Value::Integer(2)]),
        ];
        Rows::new(vec![Column::new("n", None)], items.into_iter())
    }

    #[test]
    fn rows_before_an_error_come_before_it_in_a_batch_too() {
        let mut rows = failing();
        let batch = rows.next_batch(10).unwrap().unwrap();
        assert_eq!((batch.len(), batch.row(0)), (1, vec![Value::Integer(1)]));
        assert!(rows.next_batch(10).is_err());
        assert!(rows.next_batch(10).unwrap().is_none());
    }

    #[test]
    fn an_error_ends_the_stream() {
        let mut rows = failing();
        assert_eq!(rows.next().unwrap().unwrap()[0], Value::Integer(1));
        assert!(rows.next().unwrap().is_err());
        assert!(rows.next().is_none());
    }
}
