//! Edits of files, as Python gives them, for a database or for a transaction.
//!
//! Invariant: one call is one step: all of its rows or none. Rows are converted before the first is written.

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyDict;
use zipfdb::{Record, Transaction, Value};
use zipfdb_arrow::{ArrowArrayStreamReader, RecordColumns, records};

use crate::values::{Text, value};

/// Rows of a batch that become records at a time, so that a large batch is not in memory twice.
const ROWS: usize = 1 << 16;

/// Edits to be made in one step, by a database or a transaction.
#[pyclass(frozen, module = "zipfdb._zipfdb")]
pub(crate) struct Edits(EditRows);

enum EditRows {
    Append(Vec<Record>),
    Insert(Vec<(PyBackedStr, u64, Text)>),
    Replace(Vec<(PyBackedStr, Text)>),
    Delete(Vec<PyBackedStr>),
    Metadata(String, Vec<(String, Value)>),
}

#[pymethods]
impl Edits {
    /// Appends texts: tuples of a name or None, a text, and perhaps a mapping of metadata.
    ///
    /// # Errors
    /// If a row has another form.
    #[staticmethod]
    fn append(rows: &Bound<'_, PyAny>) -> PyResult<Edits> {
        let records = rows.try_iter()?.map(|row| record(&row?));
        Ok(Edits(EditRows::Append(records.collect::<PyResult<_>>()?)))
    }

    /// Inserts texts.
    #[staticmethod]
    fn insert(rows: Vec<(PyBackedStr, u64, Text)>) -> Edits {
        Edits(EditRows::Insert(rows))
    }

    /// Gives files new texts.
    #[staticmethod]
    fn replace(rows: Vec<(PyBackedStr, Text)>) -> Edits {
        Edits(EditRows::Replace(rows))
    }

    /// Deletes files.
    #[staticmethod]
    fn delete(files: Vec<PyBackedStr>) -> Edits {
        Edits(EditRows::Delete(files))
    }

    /// Sets values of a file in declared columns.
    ///
    /// # Errors
    /// If SQL has no such value.
    #[staticmethod]
    fn set_metadata(file: String, values: &Bound<'_, PyDict>) -> PyResult<Edits> {
        let values = values
            .iter()
            .map(|(name, item)| Ok((name.extract()?, value(&item)?)));
        Ok(Edits(EditRows::Metadata(
            file,
            values.collect::<PyResult<_>>()?,
        )))
    }
}

impl Edits {
    /// Makes the edits.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) fn make(&self, edits: &mut Transaction, corpus: &str) -> zipfdb::Result<()> {
        match &self.0 {
            EditRows::Append(records) => edits.append_records(corpus, records),
            EditRows::Insert(rows) => {
                let rows = rows
                    .iter()
                    .map(|(file, offset, text)| (&**file, *offset, text));
                edits.insert_many(corpus, &rows.collect::<Vec<_>>())
            }
            EditRows::Replace(rows) => {
                let rows = rows.iter().map(|(file, text)| (&**file, text));
                edits.replace_many(corpus, &rows.collect::<Vec<_>>())
            }
            EditRows::Delete(files) => {
                let files: Vec<&str> = files.iter().map(|file| &**file).collect();
                edits.delete_many(corpus, &files)
            }
            EditRows::Metadata(file, values) => {
                let values = values
                    .iter()
                    .map(|(name, value)| (&name[..], value.clone()));
                edits.set_metadata(corpus, file, &values.collect::<Vec<_>>())
            }
        }
    }
}

fn record(row: &Bound<'_, PyAny>) -> PyResult<Record> {
    let (file, text): (Option<String>, Text) =
        (row.get_item(0)?.extract()?, row.get_item(1)?.extract()?);
    let mut record = Record::new(text.as_ref());
    if let Some(file) = file {
        record = record.named(file);
    }
    if row.len()? > 2 {
        let metadata = row.get_item(2)?;
        if !metadata.is_none() {
            for item in metadata.call_method0("items")?.try_iter()? {
                let (name, item): (String, Bound<'_, PyAny>) = item?.extract()?;
                if !item.is_none() {
                    record = record.with(name, value(&item)?);
                }
            }
        }
    }
    Ok(record)
}

/// Appends the rows of a stream, and returns their number.
///
/// # Errors
/// If the stream fails, a row is no record, or those of the database.
pub(crate) fn append_stream(
    edits: &mut Transaction,
    corpus: &str,
    stream: ArrowArrayStreamReader,
    columns: &RecordColumns,
) -> zipfdb_arrow::Result<u64> {
    let mut count = 0;
    for batch in stream {
        let batch = batch?;
        for start in (0..batch.num_rows()).step_by(ROWS) {
            let rows = batch.slice(start, ROWS.min(batch.num_rows() - start));
            edits.append_records(corpus, &records(&rows, columns)?)?;
            count += rows.num_rows() as u64;
        }
    }
    Ok(count)
}
