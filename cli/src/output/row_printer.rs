//! The trait of all formats that print rows.

use std::io::{self, Write};

use zipfdb::batch::Batch;
use zipfdb::output::RowWriter;
use zipfdb::{Notice, Value};

/// Prints the rows of one result.
pub trait RowPrinter {
    /// Prints one row, or keeps it for a moment. `values` has one value for each column.
    fn row(&mut self, values: &[Value]) -> io::Result<()>;

    /// Prints all rows of a batch, or keeps some for a moment.
    fn batch(&mut self, batch: &Batch) -> io::Result<()> {
        (0..batch.len()).try_for_each(|row| self.row(&batch.row(row)))
    }

    /// What is worth a word about how the columns are printed.
    fn notices(&self) -> &[Notice] {
        &[]
    }

    /// Prints what is kept and whatever closes the result. Not called if a row could not be read.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

impl<W: Write> RowPrinter for RowWriter<W> {
    fn row(&mut self, values: &[Value]) -> io::Result<()> {
        self.write_row(values)
    }

    fn batch(&mut self, batch: &Batch) -> io::Result<()> {
        self.write_batch(batch)
    }

    fn notices(&self) -> &[Notice] {
        self.notices()
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        (*self).finish().map(drop)
    }
}
