//! Batches of Arrow as texts with metadata, for a corpus.
//!
//! Invariant: each row is one record; a column that is neither the name nor the text is a declared column of the corpus, which checks
//! its values. NULL is no value, and as a name none.

use arrow_array::RecordBatch;
use zipfdb::{Record, Value};

use crate::error::{Error, Result};
use crate::values::{ReadValue, reader};

/// Which columns of a batch hold the names and texts of files. All others are metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordColumns {
    /// The column of names. Without this column, and where it is NULL, files have numbers as names.
    pub file: String,
    /// The column of texts.
    pub content: String,
}

impl Default for RecordColumns {
    fn default() -> RecordColumns {
        RecordColumns {
            file: "file".to_owned(),
            content: "content".to_owned(),
        }
    }
}

/// The rows of a batch as records, for [`zipfdb::Corpus::append_records`] and [`zipfdb::Transaction::append_records`].
///
/// # Errors
/// If there is no column of texts, a text is NULL, or a value is of a type that SQL does not have.
pub fn records(batch: &RecordBatch, columns: &RecordColumns) -> Result<Vec<Record>> {
    let schema = batch.schema_ref();
    let named = |name: &str| {
        let mut fields = schema.fields().iter();
        fields.position(|field| field.name().eq_ignore_ascii_case(name))
    };
    let Some(content) = named(&columns.content) else {
        let names = schema.fields().iter().map(|field| &field.name()[..]);
        return Err(Error::NoColumn {
            column: columns.content.clone(),
            columns: names.collect::<Vec<_>>().join(", "),
        });
    };
    let file = named(&columns.file);
    let read = |index: usize| reader(batch.column(index), schema.field(index).name());
    let (read_content, read_file) = (read(content)?, file.map(read).transpose()?);
    let metadata = (0..batch.num_columns())
        .filter(|index| *index != content && Some(*index) != file)
        .map(|index| Ok((schema.field(index).name(), read(index)?)));
    let metadata: Vec<(&String, ReadValue<'_>)> = metadata.collect::<Result<_>>()?;
    let records = (0..batch.num_rows()).map(|row| {
        let text = match read_content(row)? {
            Value::Text(text) => text.into_bytes(),
            Value::Blob(bytes) => bytes,
            other => return no_text(&columns.content, row, &other),
        };
        let mut record = Record::new(text);
        match read_file.as_ref().map(|read| read(row)).transpose()? {
            None | Some(Value::Null) => {}
            Some(Value::Text(file)) => record = record.named(file),
            Some(other) => return no_text(&columns.file, row, &other),
        }
        for (name, read) in &metadata {
            match read(row)? {
                Value::Null => {}
                value => record = record.with(name.as_str(), value),
            }
        }
        Ok(record)
    });
    records.collect()
}

fn no_text<T>(column: &str, row: usize, value: &Value) -> Result<T> {
    Error::column(
        column,
        format!(
            "has {} in row {} of the batch, where a text is expected",
            value.type_name(),
            row + 1
        ),
    )
}
