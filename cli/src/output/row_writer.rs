//! What every way to print rows does.

use std::io;

use zipfdb::Value;

/// Prints the rows of one result.
pub trait RowWriter {
    /// Prints one row, or keeps it for a moment. `values` has one value for each column.
    fn row(&mut self, values: &[Value]) -> io::Result<()>;

    /// Prints what is kept and whatever closes the result. Not called if a row could not be read.
    fn finish(&mut self) -> io::Result<()>;
}
