//! Rows as text: CSV, TSV, JSON and JSON lines, the same wherever they are written.
//!
//! [`RowWriter`] writes the rows of an answer to any [`std::io::Write`]; `COPY (SELECT ...) TO` and the program `zipf` use it.
//! `docs/SQL.md` has a table of the form of each type of value in each [`RowFormat`], and how it is read back.
//!
//! ```
//! use zipfdb::output::{RowFormat, RowWriter};
//! use zipfdb::{Column, Database};
//!
//! let db = Database::in_memory()?;
//! let mut rows = db.query("SELECT 'one' AS name, 1 AS n, X'ff' AS data UNION ALL SELECT 'two', 2.0, NULL ORDER BY 2", ())?;
//! let names = rows.columns().iter().map(Column::name);
//! let mut writer = RowWriter::new(RowFormat::JsonLines, names, Vec::new());
//! while let Some(batch) = rows.next_batch(1000)? {
//!     writer.write_batch(&batch).expect("a vector takes all");
//! }
//! let text = writer.finish().expect("a vector takes all");
//! assert_eq!(
//!     String::from_utf8_lossy(&text),
//!     "{\"name\":\"one\",\"n\":1,\"data\":{\"hex\":\"ff\"}}\n{\"name\":\"two\",\"n\":2.0,\"data\":null}\n"
//! );
//! # Ok::<(), zipfdb::Error>(())
//! ```
//!
//! Invariant: the output depends on the rows alone, not on their division into batches, nor on threads. Files are not known here.

mod column_names;
mod dictionary_fields;
mod field;
mod row_formatter;
mod row_writer;
#[cfg(test)]
mod tests;
mod text_buffer;

pub use field::value_text;
pub use row_writer::RowWriter;
pub use zipfdb_sql::plan::RowFormat;
