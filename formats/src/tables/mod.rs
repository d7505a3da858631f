//! Parquet and Arrow IPC: tables with types, read and written in batches.
//!
//! Invariant: a batch of rows is in memory at a time. Without the features `parquet` and `arrow` every use is refused with the name of
//! the feature.

#[cfg(feature = "arrow")]
mod arrays;
#[cfg(feature = "arrow")]
mod messages;
#[cfg(feature = "arrow")]
mod reader;
#[cfg(feature = "arrow")]
mod writer;

use std::io::Write;

use crate::error::{Error, Result};
use crate::format::Format;
use crate::record::{FieldKind, FieldValue};

#[cfg(feature = "arrow")]
pub(crate) use reader::read;

/// Writes rows as Parquet or Arrow IPC.
///
/// Rows are written in groups: one is in memory at most, compressed but for its last batch.
pub struct TableWriter<W: Write + Send> {
    #[cfg(feature = "arrow")]
    writer: writer::Writer<W>,
    /// No value of this type can be made.
    #[cfg(not(feature = "arrow"))]
    none: std::convert::Infallible,
    #[cfg(not(feature = "arrow"))]
    target: std::marker::PhantomData<W>,
}

impl<W: Write + Send> std::fmt::Debug for TableWriter<W> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("TableWriter")
            .finish_non_exhaustive()
    }
}

/// Whether this crate reads and writes a format.
///
/// # Errors
/// The feature that it needs.
pub fn check_built_in(format: Format) -> Result<()> {
    let feature = match format {
        Format::Parquet if !cfg!(feature = "parquet") => "parquet",
        Format::Arrow if !cfg!(feature = "arrow") => "arrow",
        _ => return Ok(()),
    };
    Err(Error::NotBuiltIn {
        format: format.name(),
        feature,
    })
}

#[cfg_attr(not(feature = "arrow"), allow(unused_variables))]
impl<W: Write + Send> TableWriter<W> {
    /// Begins a table with these columns.
    ///
    /// # Errors
    /// [`Error::NotBuiltIn`], and [`Error::Sink`] if the target cannot be written.
    pub fn new(
        format: Format,
        columns: &[(String, FieldKind)],
        target: W,
    ) -> Result<TableWriter<W>> {
        check_built_in(format)?;
        #[cfg(feature = "arrow")]
        {
            let writer = writer::Writer::new(format, columns, target)?;
            Ok(TableWriter { writer })
        }
        #[cfg(not(feature = "arrow"))]
        {
            Err(Error::NotBuiltIn {
                format: format.name(),
                feature: "arrow",
            })
        }
    }

    /// Appends a row with a value for each column: of its type, or NULL. Of a column of bytes text is bytes too, and of reals whole
    /// numbers are reals too.
    ///
    /// # Errors
    /// [`Error::Misfit`] for a value of another type, and [`Error::Sink`] if the target cannot be written.
    pub fn push(&mut self, row: &[FieldValue]) -> Result<()> {
        #[cfg(feature = "arrow")]
        {
            self.writer.push(row)
        }
        #[cfg(not(feature = "arrow"))]
        match self.none {}
    }

    /// Writes the end, and returns the target.
    ///
    /// # Errors
    /// [`Error::Sink`] if the target cannot be written.
    pub fn finish(self) -> Result<W> {
        #[cfg(feature = "arrow")]
        {
            self.writer.finish()
        }
        #[cfg(not(feature = "arrow"))]
        match self.none {}
    }
}
