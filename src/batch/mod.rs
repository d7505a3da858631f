//! Batches: some thousand rows as columns, in the memory layout of Apache Arrow.
//!
//! Operators pass them on, and `Rows::next_batch` returns them to the host. Words, files, n-grams and the texts of groups are
//! numbers; a dictionary, which all batches of an answer share, has their texts. Invariant: all columns of a batch have the same
//! number of rows. The meaning of a batch in SQL is not known here.

mod builder;
mod column;
mod dictionary;
mod late_error;
mod row_collector;
mod texts;

pub(crate) use builder::ColumnBuilder;
pub use column::BatchColumn;
pub(crate) use dictionary::text_or_blob;
pub use dictionary::{TextDictionary, WeakTextDictionary};
pub(crate) use late_error::LateError;
pub(crate) use row_collector::{BATCH_BYTES, RowCollector, value_size};
pub use texts::TextColumn;

use std::ops::Range;

use crate::Value;

/// Rows that operators ask for at a time.
pub(crate) const BATCH_ROWS: usize = 4096;

/// Some rows of an answer, as columns; made by [`crate::Rows::next_batch`].
///
/// ```
/// use zipfdb::batch::BatchColumn;
/// use zipfdb::{CorpusSettings, Database, Value};
///
/// let db = Database::in_memory()?;
/// let corpus = db.create_corpus("pets", CorpusSettings::default())?;
/// corpus.append_many(&[("a.txt", "the cat and the dog")])?;
/// let mut rows = db.query("SELECT word, COUNT(*) FROM pets GROUP BY word ORDER BY 2 DESC, 1", ())?;
/// let batch = rows.next_batch(1000)?.expect("there are rows");
/// assert_eq!(batch.len(), 4);
/// let BatchColumn::Words { indices, dictionary } = &batch.columns()[0] else {
///     panic!("words are numbers");
/// };
/// assert_eq!(dictionary.bytes(indices[0]), b"the");
/// assert_eq!(batch.columns()[1].value(0), Value::Integer(2));
/// # Ok::<(), zipfdb::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Batch {
    columns: Vec<BatchColumn>,
    rows: usize,
    /// The multiplicity of each row; none if it is one for all, as in all returned batches.
    pub(crate) times: Option<Vec<u64>>,
}

impl Batch {
    /// Columns of `rows` rows each, with their multiplicities.
    pub(crate) fn new(columns: Vec<BatchColumn>, rows: usize, times: Option<Vec<u64>>) -> Batch {
        debug_assert!(columns.iter().all(|column| column.len() == rows));
        Batch {
            columns,
            rows,
            times,
        }
    }

    /// The number of rows; never 0 in a batch of an answer.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The columns, in order of those of the answer.
    pub fn columns(&self) -> &[BatchColumn] {
        &self.columns
    }

    /// The columns, taken out.
    pub fn into_columns(self) -> Vec<BatchColumn> {
        self.columns
    }

    /// The columns, to be changed; they keep their length.
    pub(crate) fn columns_mut(&mut self) -> &mut [BatchColumn] {
        &mut self.columns
    }

    /// The same rows with more columns behind the others.
    pub(crate) fn widened(mut self, columns: Vec<BatchColumn>) -> Batch {
        self.columns.extend(columns);
        Batch::new(self.columns, self.rows, self.times)
    }

    /// The same rows with the first columns only.
    pub(crate) fn narrowed(mut self, width: usize) -> Batch {
        self.columns.truncate(width);
        self
    }

    /// The values of a row.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, row: usize) -> Vec<Value> {
        let columns = self.columns.iter();
        columns.map(|column| column.value(row)).collect()
    }

    /// The multiplicity of a row.
    pub(crate) fn times_of(&self, row: usize) -> u64 {
        self.times.as_ref().map_or(1, |times| times[row])
    }

    /// The number of rows, counted with their multiplicities.
    pub(crate) fn total(&self) -> u64 {
        match &self.times {
            None => self.rows as u64,
            Some(times) => times.iter().sum(),
        }
    }

    /// These rows, in this order.
    pub(crate) fn select(&self, rows: &[u32]) -> Batch {
        let columns = self.columns.iter().map(|column| column.select(rows));
        let times = self.times.as_ref();
        let times = times.map(|times| rows.iter().map(|&row| times[row as usize]).collect());
        Batch::new(columns.collect(), rows.len(), times)
    }

    /// Appends rows of the same columns.
    pub(crate) fn append(&mut self, other: &Batch) {
        for (column, other) in self.columns.iter_mut().zip(&other.columns) {
            column.append(other);
        }
        if self.times.is_some() || other.times.is_some() {
            let times = self.times.get_or_insert_with(|| vec![1; self.rows]);
            times.extend((0..other.rows).map(|row| other.times_of(row)));
        }
        self.rows += other.rows;
    }

    /// A range of rows.
    pub(crate) fn slice(&self, rows: Range<usize>) -> Batch {
        let columns = self.columns.iter();
        let columns = columns.map(|column| column.slice(rows.clone())).collect();
        let times = self
            .times
            .as_ref()
            .map(|times| times[rows.clone()].to_vec());
        Batch::new(columns, rows.len(), times)
    }

    /// The first rows only.
    pub(crate) fn truncate(&mut self, rows: usize) {
        if rows < self.rows {
            self.columns
                .iter_mut()
                .for_each(|column| column.truncate(rows));
            if let Some(times) = &mut self.times {
                times.truncate(rows);
            }
            self.rows = rows;
        }
    }
}
