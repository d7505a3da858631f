//! Rows to Parquet and Arrow IPC.
//!
//! Invariant: the types of columns are known before the first row is written; a value of another type is an error. How values are
//! stored is known to the crate `zipfdb-formats` alone.

use zipfdb_formats::{FieldKind, FieldValue, Format, TableWriter};
use zipfdb_sql::plan::TableFormat;
use zipfdb_sql::{ValueKind, iso};

use super::ExportFile;
use crate::batch::{BATCH_ROWS, Batch};
use crate::handles::rows::Rows;
use crate::notice::Notice;
use crate::{Error, Result, Value};

/// Writes all rows. `kinds` are the types of columns as far as they are known; those of others are the types of their first values.
///
/// # Errors
/// If a row fails, a value is not of the type of its column, or the target cannot be written.
pub(crate) fn export_table(
    mut rows: Rows,
    target: ExportFile,
    format: TableFormat,
    kinds: &[Option<ValueKind>],
) -> Result<Vec<Notice>> {
    let notices = rows.notices().to_vec();
    let first = rows.next_batch(BATCH_ROWS)?;
    let columns = rows.columns().iter().enumerate().map(|(place, column)| {
        let kind = kinds.get(place).copied().flatten();
        let kind = match kind {
            Some(kind) => field_kind(kind),
            None => found_kind(first.as_ref(), place),
        };
        (column.name().to_owned(), kind)
    });
    let columns: Vec<(String, FieldKind)> = columns.collect();
    let format = match format {
        TableFormat::Parquet => Format::Parquet,
        TableFormat::Arrow => Format::Arrow,
    };
    let failed = |error| failed(error, &target);
    let mut writer = TableWriter::new(format, &columns, &target).map_err(failed)?;
    let mut next = first;
    while let Some(batch) = next {
        for row in 0..batch.len() {
            let values = batch.row(row).into_iter().zip(&columns);
            let values = values.map(|(value, (_, kind))| field_value(value, *kind));
            let values: Vec<FieldValue> = values.collect();
            for _ in 0..batch.times_of(row) {
                writer.push(&values).map_err(failed)?;
            }
        }
        next = rows.next_batch(BATCH_ROWS)?;
    }
    writer.finish().map_err(failed)?;
    target.finish()?;
    Ok(notices)
}

fn failed(error: zipfdb_formats::Error, target: &ExportFile) -> Error {
    match error {
        zipfdb_formats::Error::Sink { source } => target.failed(source),
        error => Error::Invalid {
            subject: "COPY ... TO".to_owned(),
            reason: error.to_string(),
        },
    }
}

fn field_kind(kind: ValueKind) -> FieldKind {
    match kind {
        ValueKind::Integer => FieldKind::Integer,
        ValueKind::Real => FieldKind::Real,
        ValueKind::Boolean => FieldKind::Boolean,
        ValueKind::Date => FieldKind::Date,
        ValueKind::Timestamp => FieldKind::Timestamp,
        ValueKind::Text => FieldKind::Text,
        ValueKind::Blob => FieldKind::Bytes,
    }
}

/// The type that the first values of a column have; text, if they have several.
fn found_kind(first: Option<&Batch>, place: usize) -> FieldKind {
    let values = first.into_iter().flat_map(|batch| {
        let column = &batch.columns()[place];
        (0..batch.len()).map(|row| column.value(row))
    });
    let kinds = values.filter_map(|value| match value {
        Value::Null => None,
        Value::Integer(_) => Some(FieldKind::Integer),
        Value::Real(_) => Some(FieldKind::Real),
        Value::Text(_) => Some(FieldKind::Text),
        Value::Blob(_) => Some(FieldKind::Bytes),
    });
    let joined = kinds.reduce(|one, other| match (one, other) {
        (one, other) if one == other => one,
        (FieldKind::Integer, FieldKind::Real) | (FieldKind::Real, FieldKind::Integer) => {
            FieldKind::Real
        }
        (FieldKind::Text | FieldKind::Bytes, FieldKind::Text | FieldKind::Bytes) => {
            FieldKind::Bytes
        }
        _ => FieldKind::Text,
    });
    joined.unwrap_or(FieldKind::Text)
}

fn field_value(value: Value, kind: FieldKind) -> FieldValue {
    match (value, kind) {
        (Value::Null, _) => FieldValue::Null,
        (Value::Text(text), FieldKind::Date) => match iso::parse_date(&text) {
            Some(days) => FieldValue::Date(days),
            None => FieldValue::Text(text),
        },
        (Value::Text(text), FieldKind::Timestamp) => match iso::parse_timestamp(&text) {
            Some(moment) => FieldValue::Timestamp(moment),
            None => FieldValue::Text(text),
        },
        (Value::Integer(value), _) => FieldValue::Integer(value),
        (Value::Real(value), _) => FieldValue::Real(value),
        (Value::Text(text), _) => FieldValue::Text(text),
        (Value::Blob(bytes), _) => FieldValue::Bytes(bytes),
    }
}
