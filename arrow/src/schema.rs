//! The types that the columns of an answer have in Arrow.
//!
//! Invariant: the type of a column whose kind the statement shows depends on no row. TEXT has a dictionary if its column is named
//! `word`, `file` or `ngram`. Types of other columns are those of their first values.

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use zipfdb::batch::{Batch, BatchColumn};
use zipfdb::{Column, Value, ValueKind};

use crate::arrays::{dictionary_type, mistyped};
use crate::error::Result;

/// Names of columns whose texts repeat.
const REPEATED: [&str; 3] = ["word", "file", "ngram"];

/// The columns of an answer before its rows are known: a column whose kind the statement does not show is of the type `Null`.
///
/// # Errors
/// If two types do not go together, which only rows could cause.
pub fn schema(columns: &[Column]) -> Result<SchemaRef> {
    schema_of(columns, &[])
}

/// The columns of an answer that begins with some batches.
///
/// # Errors
/// If the first values of a column are of types that no type of Arrow holds together.
pub(crate) fn schema_of(columns: &[Column], first: &[Batch]) -> Result<SchemaRef> {
    let fields = columns.iter().enumerate().map(|(index, column)| {
        let data_type = match column.kind() {
            Some(ValueKind::Integer) => DataType::Int64,
            Some(ValueKind::Real) => DataType::Float64,
            Some(ValueKind::Blob) => DataType::LargeBinary,
            Some(ValueKind::Boolean) => DataType::Boolean,
            Some(ValueKind::Date) => DataType::Date32,
            Some(ValueKind::Timestamp) => DataType::Timestamp(TimeUnit::Microsecond, None),
            Some(ValueKind::Text) if is_repeated(column.name()) => dictionary_type(),
            Some(ValueKind::Text) => DataType::LargeUtf8,
            None => type_of_values(column.name(), first, index)?,
        };
        Ok(Field::new(column.name(), data_type, true))
    });
    Ok(Schema::new(fields.collect::<Result<Vec<_>>>()?).into())
}

/// Whether the first batches have a value of each column that the type of the column depends on.
pub(crate) fn has_types(columns: &[Column], first: &[Batch]) -> bool {
    let has_value = |index: usize| {
        first.iter().any(|batch| match &batch.columns()[index] {
            BatchColumn::Values(values) => values.iter().any(|value| *value != Value::Null),
            _ => true,
        })
    };
    let mut unknown = (columns.iter().enumerate()).filter(|(_, column)| column.kind().is_none());
    unknown.all(|(index, _)| has_value(index))
}

fn is_repeated(name: &str) -> bool {
    REPEATED
        .iter()
        .any(|repeated| name.eq_ignore_ascii_case(repeated))
}

/// The type of a column whose values are of one kind.
fn own_type(column: &BatchColumn) -> Option<DataType> {
    match column {
        BatchColumn::Integers(_) => Some(DataType::Int64),
        BatchColumn::Reals(_) => Some(DataType::Float64),
        BatchColumn::Texts(_) | BatchColumn::Words { .. } | BatchColumn::Ngrams { .. } => {
            Some(DataType::LargeUtf8)
        }
        _ => None,
    }
}

fn type_of_values(name: &str, first: &[Batch], index: usize) -> Result<DataType> {
    let mut own = DataType::Null;
    for batch in first {
        match &batch.columns()[index] {
            BatchColumn::Values(values) => {
                for value in values {
                    own = widened(name, own, value_type(value), || value.clone())?;
                }
            }
            column => {
                let data_type = own_type(column).unwrap_or(DataType::Null);
                own = widened(name, own, data_type, || column.value(0))?;
            }
        }
    }
    Ok(own)
}

fn value_type(value: &Value) -> DataType {
    match value {
        Value::Null => DataType::Null,
        Value::Integer(_) => DataType::Int64,
        Value::Real(_) => DataType::Float64,
        Value::Text(_) => DataType::LargeUtf8,
        Value::Blob(_) => DataType::LargeBinary,
    }
}

/// A type that holds the values of two.
fn widened(
    name: &str,
    own: DataType,
    other: DataType,
    value: impl FnOnce() -> Value,
) -> Result<DataType> {
    use DataType::{Float64, Int64, LargeBinary, LargeUtf8, Null};
    match (own, other) {
        (own, other) if own == other => Ok(own),
        (own, Null) => Ok(own),
        (Null, other) => Ok(other),
        (Int64 | Float64, Int64 | Float64) => Ok(Float64),
        // A text is its bytes.
        (LargeUtf8 | LargeBinary, LargeUtf8 | LargeBinary) => Ok(LargeBinary),
        (own, _) => mistyped(&Field::new(name, own, true), &value()),
    }
}
