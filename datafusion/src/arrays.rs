//! Columns of ZipfDB's batches as arrays of Arrow.
//!
//! Numbers, and texts and BLOBs that lie one behind the other, pass without a copy. Words, names of files and n-grams are
//! numbers with a dictionary there; here they are views, which hold short texts themselves, taken from those of all texts once
//! these are there. Invariant: an array has the type of its
//! field, or there is an error.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Float64Array, Int64Array, LargeBinaryArray, LargeBinaryBuilder, NullArray,
};
use datafusion::arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::exec_err;
use datafusion::error::{DataFusionError, Result};
use zipfdb::Value;
use zipfdb::batch::{BatchColumn, TextColumn};

use crate::text_arrays::TextArrays;
use crate::text_views::{TextFault, TextViews};

/// Words of a batch whose views are kept for rows that follow.
const KNOWN_WORDS: usize = 1 << 10;

/// A column as an array of the type of `field`.
///
/// # Errors
/// If a value is of another type, or a text is not UTF-8.
pub(crate) fn array(column: BatchColumn, field: &Field, known: &TextArrays) -> Result<ArrayRef> {
    match field.data_type() {
        DataType::Int64 => integers(column, field),
        DataType::Float64 => reals(column, field),
        DataType::Utf8View => texts(column, field, known),
        DataType::LargeBinary => blobs(column, field),
        DataType::Null => nulls(column, field),
        other => exec_err!("column \"{}\" cannot be of type {other}", field.name()),
    }
}

fn nulls(column: BatchColumn, field: &Field) -> Result<ArrayRef> {
    let values = (0..column.len()).map(|row| column.value(row));
    match values.into_iter().find(|value| *value != Value::Null) {
        Some(other) => mistyped(field, &other),
        None => Ok(Arc::new(NullArray::new(column.len()))),
    }
}

fn integers(column: BatchColumn, field: &Field) -> Result<ArrayRef> {
    let array = match column {
        BatchColumn::Integers(integers) => Int64Array::from(integers),
        BatchColumn::Values(values) => {
            let integers = values.into_iter().map(|value| match value {
                Value::Null => Ok(None),
                Value::Integer(integer) => Ok(Some(integer)),
                other => mistyped(field, &other),
            });
            integers.collect::<Result<Int64Array>>()?
        }
        _ => return exec_err!("column \"{}\" is no INTEGER", field.name()),
    };
    Ok(Arc::new(array))
}

fn reals(column: BatchColumn, field: &Field) -> Result<ArrayRef> {
    let array = match column {
        BatchColumn::Reals(reals) => Float64Array::from(reals),
        // Columns of views may have both.
        BatchColumn::Integers(integers) => {
            Float64Array::from_iter_values(integers.into_iter().map(|integer| integer as f64))
        }
        BatchColumn::Values(values) => {
            let reals = values.into_iter().map(|value| match value {
                Value::Null => Ok(None),
                Value::Real(real) => Ok(Some(real)),
                Value::Integer(integer) => Ok(Some(integer as f64)),
                other => mistyped(field, &other),
            });
            reals.collect::<Result<Float64Array>>()?
        }
        _ => return exec_err!("column \"{}\" is no REAL", field.name()),
    };
    Ok(Arc::new(array))
}

fn blobs(column: BatchColumn, field: &Field) -> Result<ArrayRef> {
    match column {
        BatchColumn::Texts(TextColumn { offsets, bytes }) => {
            // Offsets are sizes of what is in memory, so they are as large as i64.
            let rows = offsets.len();
            let offsets = ScalarBuffer::<i64>::new(Buffer::from_vec(offsets), 0, rows);
            let offsets = OffsetBuffer::new(offsets);
            let array = LargeBinaryArray::try_new(offsets, Buffer::from_vec(bytes), None)?;
            Ok(Arc::new(array))
        }
        column => {
            let mut blobs = LargeBinaryBuilder::new();
            let mut bytes = Vec::new();
            for row in 0..column.len() {
                bytes.clear();
                if column.write_text(row, &mut bytes) {
                    blobs.append_value(&bytes)
                } else {
                    match column.value(row) {
                        Value::Null => blobs.append_null(),
                        other => return mistyped(field, &other),
                    }
                }
            }
            Ok(Arc::new(blobs.finish()))
        }
    }
}

fn texts(column: BatchColumn, field: &Field, known: &TextArrays) -> Result<ArrayRef> {
    let mut texts = TextViews::default();
    match column {
        BatchColumn::Words {
            indices,
            dictionary,
        } => {
            if let Some(array) = known.take(&dictionary, &indices)? {
                return Ok(array);
            }
            // By the last bits of the index, one more than it: few words are most of a text, and a miss costs little.
            let mut known = vec![(0, 0); KNOWN_WORDS];
            texts.views.reserve(indices.len());
            for index in indices {
                let (key, known) = (
                    u64::from(index) + 1,
                    &mut known[index as usize % KNOWN_WORDS],
                );
                if known.0 != key {
                    *known = (key, texts.view(dictionary.bytes(index)));
                }
                texts.views.push(known.1);
            }
        }
        BatchColumn::Texts(column) => {
            for row in 0..column.len() {
                texts.push(column.get(row));
            }
        }
        BatchColumn::Values(values) => {
            for value in values {
                match value {
                    Value::Null => texts.push_null(),
                    Value::Text(text) => texts.push(text.as_bytes()),
                    Value::Blob(_) => return not_utf8(field),
                    other => return mistyped(field, &other),
                }
            }
        }
        column @ BatchColumn::Ngrams { .. } => {
            let mut text = Vec::new();
            for row in 0..column.len() {
                text.clear();
                column.write_text(row, &mut text);
                texts.push(&text);
            }
        }
        _ => return exec_err!("column \"{}\" is no TEXT", field.name()),
    }
    match texts.array() {
        Ok(array) => Ok(Arc::new(array)),
        Err(TextFault::Long) => {
            exec_err!("column \"{}\" has a text of 4 GiB or more", field.name())
        }
        Err(TextFault::NotUtf8) => not_utf8(field),
    }
}

fn not_utf8<T>(field: &Field) -> Result<T> {
    exec_err!(
        "column \"{}\" has bytes that are not UTF-8, which no text of Arrow can hold; hint: leave the files out in which they \
         are, or read a view of ZipfDB: CREATE VIEW v AS SELECT CAST(word AS BLOB) AS word, ...",
        field.name()
    )
}

fn mistyped<T>(field: &Field, value: &Value) -> Result<T> {
    Err(DataFusionError::Execution(format!(
        "column \"{}\" should be {} and holds {value:?}; hint: CAST it to one type, if it is of a view",
        field.name(),
        field.data_type()
    )))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::arrow::array::{Array, AsArray};
    use datafusion::arrow::datatypes::{Float64Type, Int64Type};

    use super::*;

    fn array(column: BatchColumn, field: &Field) -> Result<ArrayRef> {
        super::array(column, field, &TextArrays::default())
    }

    fn field(data_type: DataType) -> Field {
        Field::new("c", data_type, true)
    }

    #[test]
    fn values_of_any_kind_become_arrays_with_nulls() {
        let texts = BatchColumn::Values(vec![
            Value::Text("a".into()),
            Value::Null,
            Value::Text("a text that is not inlined".into()),
        ]);
        let array_of = |column, data_type| array(column, &field(data_type)).unwrap();
        let texts = array_of(texts, DataType::Utf8View);
        assert_eq!(
            texts.as_string_view().value(2),
            "a text that is not inlined"
        );
        assert!(texts.is_null(1));
        let integers = BatchColumn::Values(vec![Value::Integer(7), Value::Null]);
        let integers = array_of(integers, DataType::Int64);
        assert_eq!(integers.as_primitive::<Int64Type>().value(0), 7);
        assert_eq!(integers.null_count(), 1);
        let reals = array_of(BatchColumn::Reals(vec![0.5]), DataType::Float64);
        assert_eq!(reals.as_primitive::<Float64Type>().value(0), 0.5);
        let blobs = BatchColumn::Values(vec![Value::Blob(vec![255]), Value::Null]);
        let blobs = array_of(blobs, DataType::LargeBinary);
        assert_eq!(blobs.as_binary::<i64>().value(0), [255]);
    }

    #[test]
    fn what_does_not_fit_is_an_error_that_names_the_column() {
        let blob = BatchColumn::Values(vec![Value::Blob(vec![255])]);
        let error = array(blob, &field(DataType::Utf8View)).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("column \"c\" has bytes that are not UTF-8")
        );
        let text = BatchColumn::Texts(TextColumn {
            offsets: vec![0, 1],
            bytes: vec![200],
        });
        assert!(array(text.clone(), &field(DataType::Utf8View)).is_err());
        assert!(array(text.clone(), &field(DataType::Int64)).is_err());
        let blobs = array(text, &field(DataType::LargeBinary)).unwrap();
        assert_eq!(blobs.as_binary::<i64>().value(0), [200]);
    }
}
