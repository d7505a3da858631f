//! `RecordBatches`: the rows of an answer as batches of Arrow.
//!
//! Invariant: all batches have the schema that was known before the first; rows that do not fit are an error that ends the stream.
//! Rows are read when they are asked for, but for the first ones, which decide types that the statement does not show.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use zipfdb::batch::Batch;
use zipfdb::{InterruptHandle, Rows};

use crate::arrays::array;
use crate::error::Result;
use crate::schema::{has_types, schema_of};
use crate::text_arrays::TextArrays;

/// Rows of a batch, unless others are asked for.
const BATCH_ROWS: usize = 1 << 16;

/// The most rows that are read for types that the statement does not show, while all of their values are NULL.
const FIRST_ROWS_MAX: usize = 1 << 20;

/// The rows of an answer as batches.
pub trait IntoRecordBatches: Sized {
    /// The rows as batches.
    ///
    /// # Errors
    /// If a row that decides the type of a column fails.
    fn into_record_batches(self) -> Result<RecordBatches> {
        self.into_record_batches_with(&Arc::default())
    }

    /// The rows as batches that share the texts of dictionaries with those of other answers.
    ///
    /// # Errors
    /// As [`IntoRecordBatches::into_record_batches`].
    fn into_record_batches_with(self, texts: &Arc<TextArrays>) -> Result<RecordBatches>;
}

impl IntoRecordBatches for Rows {
    fn into_record_batches_with(mut self, texts: &Arc<TextArrays>) -> Result<RecordBatches> {
        let (mut first, mut first_rows) = (Vec::new(), 0);
        while first_rows < FIRST_ROWS_MAX
            && let Some(batch) = self.next_batch(BATCH_ROWS)?
        {
            first_rows += batch.len();
            first.push(batch);
            if has_types(self.columns(), &first) {
                break;
            }
        }
        Ok(RecordBatches {
            schema: schema_of(self.columns(), &first)?,
            rows: Some(self),
            first: first.into(),
            batch_rows: BATCH_ROWS,
            texts: texts.clone(),
        })
    }
}

/// An answer as batches of Arrow; made by [`IntoRecordBatches`].
///
/// INTEGER is `Int64`, REAL `Float64`, TEXT `LargeUtf8`, BLOB `LargeBinary`; columns that are declared as BOOLEAN, DATE and TIMESTAMP
/// are `Boolean`, `Date32` and `Timestamp` in microseconds. TEXT of columns named `word`, `file` and `ngram` is
/// `Dictionary<Int32, LargeUtf8>`: batches with many rows share one dictionary of all texts, others have one of their own. A column
/// whose kind the statement does not show ([`zipfdb::Column::kind`]) has the type of its first values.
pub struct RecordBatches {
    /// None once the rows are over or one has failed.
    rows: Option<Rows>,
    schema: SchemaRef,
    /// Batches that were read for their types.
    first: VecDeque<Batch>,
    batch_rows: usize,
    texts: Arc<TextArrays>,
}

impl RecordBatches {
    /// The same rows in batches of at most `rows` rows, from the second batch on.
    pub fn with_batch_rows(self, rows: usize) -> RecordBatches {
        RecordBatches {
            batch_rows: rows,
            ..self
        }
    }

    /// A handle that ends the statement from another thread.
    pub fn interrupt_handle(&self) -> Option<InterruptHandle> {
        self.rows.as_ref()?.interrupt_handle()
    }

    fn read(&mut self) -> Result<Option<RecordBatch>> {
        let next = match (self.first.pop_front(), &mut self.rows) {
            (Some(batch), _) => Some(batch),
            (None, Some(rows)) => rows.next_batch(self.batch_rows)?,
            (None, None) => None,
        };
        let Some(batch) = next else {
            return Ok(None);
        };
        let options = RecordBatchOptions::new().with_row_count(Some(batch.len()));
        let columns = (batch.into_columns().into_iter())
            .zip(self.schema.fields())
            .map(|(column, field)| array(column, field, &self.texts));
        let columns = columns.collect::<Result<_>>()?;
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        Ok(Some(batch))
    }
}

impl Iterator for RecordBatches {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.read();
        if !matches!(batch, Ok(Some(_))) {
            self.first.clear();
            self.rows = None;
        }
        batch.map_err(ArrowError::from).transpose()
    }
}

impl RecordBatchReader for RecordBatches {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

impl fmt::Debug for RecordBatches {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RecordBatches")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}
