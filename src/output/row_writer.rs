//! `RowWriter`: writes the rows of an answer to an output.
//!
//! Invariant: after each call all of its rows are written to the output. Nothing is written before the first row or the end, so
//! that an answer that fails at once leaves nothing.

use std::io::{self, Write};
use std::sync::Arc;

use super::column_names::distinct_names;
use super::row_formatter::{ColumnDictionaries, RowFormatter};
use super::text_buffer::{RowSink, TextBuffer};
use crate::Value;
use crate::batch::Batch;
use crate::notice::Notice;
use zipfdb_sql::plan::RowFormat;

/// Writes the rows of one answer in a format.
///
/// Each call writes its rows at once, in several writes if they are many: an output with expensive small writes belongs into a
/// [`std::io::BufWriter`] where rows come one by one. Values are not kept, however long they are. After an error the output has a
/// part of the rows, and the writer must not be used again.
#[derive(Debug)]
pub struct RowWriter<W> {
    formatter: Arc<RowFormatter>,
    dictionaries: ColumnDictionaries,
    notices: Vec<Notice>,
    has_rows: bool,
    unused: Vec<TextBuffer>,
    output: W,
}

impl<W: Write> RowWriter<W> {
    /// A writer of rows with these columns; writes nothing yet.
    ///
    /// Of several columns of one name those behind the first are called `x_2`, `x_3` and so on, in all formats: readers take
    /// columns by their names, and one that finds a name twice may keep the last column alone. A notice says so.
    pub fn new(
        format: RowFormat,
        columns: impl IntoIterator<Item = impl Into<String>>,
        output: W,
    ) -> RowWriter<W> {
        let (names, notices) = distinct_names(columns.into_iter().map(Into::into).collect());
        RowWriter {
            formatter: Arc::new(RowFormatter::new(format, &names)),
            dictionaries: ColumnDictionaries::default(),
            notices,
            has_rows: false,
            unused: Vec::new(),
            output,
        }
    }

    /// Notices about the columns.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// Writes all rows of a batch, in less time than one by one.
    ///
    /// # Errors
    /// Those of the output.
    ///
    /// # Panics
    /// If the number of columns of the batch is not that of the writer.
    pub fn write_batch(&mut self, batch: &Batch) -> io::Result<()> {
        let is_first = self.begin(batch.columns().len(), batch.len());
        self.formatter.know(batch, &mut self.dictionaries);
        self.write(|formatter, dictionaries, sink| {
            formatter.write_batch(batch, dictionaries, is_first, sink)
        })
    }

    /// Writes a row.
    ///
    /// # Errors
    /// Those of the output.
    ///
    /// # Panics
    /// If the number of values is not that of the columns.
    pub fn write_row(&mut self, values: &[Value]) -> io::Result<()> {
        let is_first = self.begin(values.len(), 1);
        self.write(|formatter, _, sink| formatter.write_row(values, is_first, sink))
    }

    /// Takes a batch and returns the work that formats it on any thread. `write_formatted` must get the results in the order in
    /// which the batches were taken.
    pub(crate) fn take(&mut self, batch: Batch) -> Box<dyn FnOnce() -> TextBuffer + Send> {
        let is_first = self.begin(batch.columns().len(), batch.len());
        self.formatter.know(&batch, &mut self.dictionaries);
        let (formatter, dictionaries) = (self.formatter.clone(), self.dictionaries.clone());
        let buffer = self.unused.pop().unwrap_or_default();
        Box::new(move || {
            let output = None;
            let mut sink = RowSink { buffer, output };
            let written = formatter.write_batch(&batch, &dictionaries, is_first, &mut sink);
            written.expect("a buffer takes all");
            sink.buffer
        })
    }

    /// Writes the content of a buffer, and keeps the buffer.
    ///
    /// # Errors
    /// Those of the output.
    pub(crate) fn write_formatted(&mut self, mut buffer: TextBuffer) -> io::Result<()> {
        buffer.empty_into(&mut self.output)?;
        self.unused.push(buffer);
        Ok(())
    }

    /// Writes the text behind the rows, or in place of them if there were none, flushes the output and returns it.
    ///
    /// A writer that is dropped without this leaves an array of JSON open, so that no reader takes it for complete.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.output.write_all(self.formatter.tail(self.has_rows))?;
        self.output.flush()?;
        Ok(self.output)
    }

    /// Writes formatted rows to a sink.
    fn write(
        &mut self,
        format: impl FnOnce(&RowFormatter, &ColumnDictionaries, &mut RowSink<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut sink = RowSink {
            buffer: self.unused.pop().unwrap_or_default(),
            output: Some(&mut self.output),
        };
        format(&self.formatter, &self.dictionaries, &mut sink)?;
        let buffer = sink.buffer;
        self.write_formatted(buffer)
    }

    /// Checks the number of columns. Returns whether these are the first rows.
    fn begin(&mut self, columns: usize, rows: usize) -> bool {
        assert_eq!(columns, self.formatter.columns(), "columns of a row");
        let is_first = !self.has_rows;
        self.has_rows |= rows > 0;
        is_first
    }
}
