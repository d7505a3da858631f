//! Columns of ZipfDB's batches as arrays of Arrow.
//!
//! Numbers, texts and BLOBs that lie one behind the other, and numbers of words, pass without a copy. Invariant: an array has the type
//! of its field, or there is an error. Which type a column should have is not decided here.

use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, LargeBinaryBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, DictionaryArray, Float64Array, Int32Array, Int64Array,
    LargeBinaryArray, NullArray, StringViewArray, TimestampMicrosecondArray,
};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_schema::{DataType, Field, TimeUnit};
use hashbrown::HashMap;
use zipfdb::Value;
use zipfdb::batch::{BatchColumn, TextColumn, TextDictionary};

use crate::error::{Error, Result};
use crate::moments::{parse_date, parse_timestamp};
use crate::text_arrays::{TextArrays, large_strings, offset_buffer};
use crate::text_views::{TextFault, TextViews};

/// Words of a batch whose views are kept for rows that follow.
const KNOWN_WORDS: usize = 1 << 10;

/// The type of texts that have a dictionary.
pub(crate) fn dictionary_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::LargeUtf8))
}

/// A column as an array of the type of `field`: `Int64`, `Float64`, `Boolean`, `Date32`, `Timestamp` in microseconds, `LargeUtf8`,
/// `Utf8View`, `LargeBinary`, `Dictionary<Int32, LargeUtf8>` or `Null`.
///
/// # Errors
/// If a value is of another type, or a text is not UTF-8.
pub fn array(column: BatchColumn, field: &Field, known: &TextArrays) -> Result<ArrayRef> {
    match field.data_type() {
        DataType::Int64 => integers(column, field),
        DataType::Float64 => reals(column, field),
        DataType::Boolean => booleans(column, field),
        DataType::Date32 => dates(column, field),
        DataType::Timestamp(TimeUnit::Microsecond, None) => moments(column, field),
        DataType::LargeUtf8 => texts(column, field),
        DataType::Utf8View => views(column, field, known),
        DataType::LargeBinary => blobs(column, field),
        DataType::Null => nulls(column, field),
        other if *other == dictionary_type() => dictionary(column, field, known),
        other => Error::column(field.name(), format!("cannot be of type {other}")),
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
        _ => return Error::column(field.name(), "is no INTEGER"),
    };
    Ok(Arc::new(array))
}

fn reals(column: BatchColumn, field: &Field) -> Result<ArrayRef> {
    let array = match column {
        BatchColumn::Reals(reals) => Float64Array::from(reals),
        // Columns of views may have both.
        BatchColumn::Integers(integers) => {
            let reals = integers.into_iter().map(|integer| real(field, integer));
            Float64Array::from(reals.collect::<Result<Vec<f64>>>()?)
        }
        BatchColumn::Values(values) => {
            let reals = values.into_iter().map(|value| match value {
                Value::Null => Ok(None),
                Value::Real(real) => Ok(Some(real)),
                Value::Integer(integer) => Ok(Some(real(field, integer)?)),
                other => mistyped(field, &other),
            });
            reals.collect::<Result<Float64Array>>()?
        }
        _ => return Error::column(field.name(), "is no REAL"),
    };
    Ok(Arc::new(array))
}

/// An INTEGER as the REAL that equals it.
fn real(field: &Field, integer: i64) -> Result<f64> {
    let real = integer as f64;
    // The cast rounds; in i128 both are exact.
    if real as i128 == i128::from(integer) {
        return Ok(real);
    }
    Error::column(
        field.name(),
        format!(
            "holds REALs, and the INTEGER {integer}, which none of them equals; hint: CAST it to one type"
        ),
    )
}

fn booleans(column: BatchColumn, field: &Field) -> Result<ArrayRef> {
    let boolean = |integer| match integer {
        0 => Ok(false),
        1 => Ok(true),
        other => mistyped(field, &Value::Integer(other)),
    };
    let array = match column {
        BatchColumn::Integers(integers) => {
            let booleans = integers.into_iter().map(boolean);
            BooleanArray::from(booleans.collect::<Result<Vec<bool>>>()?)
        }
        BatchColumn::Values(values) => {
            let mut booleans = BooleanBuilder::with_capacity(values.len());
            for value in values {
                match value {
                    Value::Null => booleans.append_null(),
                    Value::Integer(integer) => booleans.append_value(boolean(integer)?),
                    other => return mistyped(field, &other),
                }
            }
            booleans.finish()
        }
        _ => return Error::column(field.name(), "is no BOOLEAN"),
    };
    Ok(Arc::new(array))
}

fn dates(column: BatchColumn, field: &Field) -> Result<ArrayRef> {
    let dates = parsed(&column, field, parse_date).collect::<Result<Date32Array>>()?;
    Ok(Arc::new(dates))
}

fn moments(column: BatchColumn, field: &Field) -> Result<ArrayRef> {
    let moments = parsed(&column, field, parse_timestamp);
    let moments = moments.collect::<Result<TimestampMicrosecondArray>>()?;
    Ok(Arc::new(moments))
}

/// Numbers that texts stand for.
fn parsed<'a, N>(
    column: &'a BatchColumn,
    field: &'a Field,
    parse: impl Fn(&str) -> Option<N> + 'a,
) -> impl Iterator<Item = Result<Option<N>>> + 'a {
    let mut text = Vec::new();
    (0..column.len()).map(move |row| {
        text.clear();
        if column.write_text(row, &mut text)
            && let Some(number) = std::str::from_utf8(&text).ok().and_then(&parse)
        {
            return Ok(Some(number));
        }
        match column.value(row) {
            Value::Null => Ok(None),
            other => mistyped(field, &other),
        }
    })
}

fn blobs(column: BatchColumn, field: &Field) -> Result<ArrayRef> {
    match column {
        BatchColumn::Texts(TextColumn { offsets, bytes }) => {
            let (offsets, bytes) = (offset_buffer(offsets), Buffer::from_vec(bytes));
            Ok(Arc::new(LargeBinaryArray::try_new(offsets, bytes, None)?))
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

fn texts(column: BatchColumn, field: &Field) -> Result<ArrayRef> {
    let (texts, nulls) = match column {
        BatchColumn::Texts(texts) => (texts, None),
        column @ (BatchColumn::Integers(_) | BatchColumn::Reals(_)) => {
            return no_text(field, &column);
        }
        column => {
            let mut texts = TextColumn::default();
            let mut has_null = false;
            let mut is_text = Vec::with_capacity(column.len());
            for row in 0..column.len() {
                let written = column.write_text(row, &mut texts.bytes);
                if !written && column.value(row) != Value::Null {
                    return mistyped(field, &column.value(row));
                }
                has_null |= !written;
                is_text.push(written);
                texts.offsets.push(texts.bytes.len() as u64);
            }
            (texts, has_null.then(|| NullBuffer::from(is_text)))
        }
    };
    match large_strings(texts, nulls) {
        Ok(array) => Ok(Arc::new(array)),
        Err(_) => not_utf8(field),
    }
}

fn dictionary(column: BatchColumn, field: &Field, known: &TextArrays) -> Result<ArrayRef> {
    let mut entries = Entries::default();
    match column {
        BatchColumn::Words {
            indices,
            dictionary,
        } => match known.share(&dictionary, indices) {
            Ok(Ok(array)) => return Ok(array),
            Ok(Err(indices)) => entries.push_words(&indices, 1, &dictionary),
            Err(_) => return not_utf8(field),
        },
        BatchColumn::Ngrams {
            n,
            indices,
            dictionary,
        } => entries.push_words(&indices, n, &dictionary),
        column @ (BatchColumn::Integers(_) | BatchColumn::Reals(_)) => {
            return no_text(field, &column);
        }
        column => entries.push_texts(&column, field)?,
    }
    let keys = Int32Array::from(entries.keys);
    match large_strings(entries.texts, None) {
        Ok(texts) => Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(
            keys,
            Arc::new(texts),
        )?)),
        Err(_) => not_utf8(field),
    }
}

/// The distinct texts of a batch and the rows that have them. A batch has at most 2^20 rows, so keys are i32.
#[derive(Default)]
struct Entries {
    texts: TextColumn,
    keys: Vec<Option<i32>>,
}

impl Entries {
    /// Adds a row for every `n` words.
    fn push_words(&mut self, indices: &[u32], n: usize, dictionary: &TextDictionary) {
        let mut known: HashMap<&[u32], i32> = HashMap::new();
        self.keys.reserve(indices.len() / n);
        for words in indices.chunks_exact(n) {
            let key = *known.entry(words).or_insert_with(|| {
                for (number, &word) in words.iter().enumerate() {
                    if number > 0 {
                        self.texts.bytes.push(b' ');
                    }
                    (self.texts.bytes).extend_from_slice(dictionary.bytes(word));
                }
                self.texts.offsets.push(self.texts.bytes.len() as u64);
                self.texts.len() as i32 - 1
            });
            self.keys.push(Some(key));
        }
    }

    /// Adds the rows of a column.
    ///
    /// # Errors
    /// If a value is neither a text nor NULL.
    fn push_texts(&mut self, column: &BatchColumn, field: &Field) -> Result<()> {
        let mut known: HashMap<Vec<u8>, i32> = HashMap::new();
        let mut text = Vec::new();
        for row in 0..column.len() {
            text.clear();
            if !column.write_text(row, &mut text) {
                match column.value(row) {
                    Value::Null => self.keys.push(None),
                    other => return mistyped(field, &other),
                }
                continue;
            }
            let key = *known.entry_ref(&text).or_insert_with(|| {
                self.texts.bytes.extend_from_slice(&text);
                self.texts.offsets.push(self.texts.bytes.len() as u64);
                self.texts.len() as i32 - 1
            });
            self.keys.push(Some(key));
        }
        Ok(())
    }
}

fn views(column: BatchColumn, field: &Field, known: &TextArrays) -> Result<ArrayRef> {
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
        column => return no_text(field, &column),
    }
    match texts.array() {
        Ok(array) => Ok(Arc::<StringViewArray>::new(array)),
        Err(TextFault::Long) => Error::column(field.name(), "has a text of 4 GiB or more"),
        Err(TextFault::NotUtf8) => not_utf8(field),
    }
}

fn no_text<T>(field: &Field, column: &BatchColumn) -> Result<T> {
    if column.is_empty() {
        Error::column(field.name(), "is no TEXT")
    } else {
        mistyped(field, &column.value(0))
    }
}

fn not_utf8<T>(field: &Field) -> Result<T> {
    Error::column(
        field.name(),
        "has bytes that are not UTF-8, which no text of Arrow can hold; hint: leave the files out in which they are, or read them \
         as BLOB: CAST(word AS BLOB) AS word, perhaps in a view of ZipfDB",
    )
}

pub(crate) fn mistyped<T>(field: &Field, value: &Value) -> Result<T> {
    Error::column(
        field.name(),
        format!(
            "should be {} and holds {value:?}; hint: CAST it to one type in the statement or view",
            field.data_type()
        ),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Date32Type, Float64Type, Int64Type, TimestampMicrosecondType};

    use super::*;

    fn array(column: BatchColumn, field: &Field) -> Result<ArrayRef> {
        super::array(column, field, &TextArrays::default())
    }

    fn field(data_type: DataType) -> Field {
        Field::new("c", data_type, true)
    }

    fn array_of(column: BatchColumn, data_type: DataType) -> ArrayRef {
        array(column, &field(data_type)).unwrap()
    }

    #[test]
    fn values_of_any_kind_become_arrays_with_nulls() {
        let values = || {
            BatchColumn::Values(vec![
                Value::Text("a".into()),
                Value::Null,
                Value::Text("a text that is not inlined".into()),
                Value::Text("a".into()),
            ])
        };
        let texts = array_of(values(), DataType::Utf8View);
        assert_eq!(
            texts.as_string_view().value(2),
            "a text that is not inlined"
        );
        assert!(texts.is_null(1));
        let texts = array_of(values(), DataType::LargeUtf8);
        assert!(texts.is_null(1));
        assert_eq!(texts.as_string::<i64>().value(3), "a");
        let texts = array_of(values(), dictionary_type());
        let texts = texts.as_dictionary::<Int32Type>();
        assert_eq!((texts.values().len(), texts.null_count()), (2, 1));
        assert_eq!(texts.keys().values()[0], texts.keys().values()[3]);
        let integers = BatchColumn::Values(vec![Value::Integer(7), Value::Null]);
        let integers = array_of(integers, DataType::Int64);
        assert_eq!(integers.as_primitive::<Int64Type>().value(0), 7);
        assert_eq!(integers.null_count(), 1);
        let booleans = BatchColumn::Values(vec![Value::Integer(1), Value::Null]);
        let booleans = array_of(booleans, DataType::Boolean);
        assert!(booleans.as_boolean().value(0) && booleans.is_null(1));
        let reals = array_of(BatchColumn::Reals(vec![0.5]), DataType::Float64);
        assert_eq!(reals.as_primitive::<Float64Type>().value(0), 0.5);
        let blobs = BatchColumn::Values(vec![Value::Blob(vec![255]), Value::Null]);
        let blobs = array_of(blobs, DataType::LargeBinary);
        assert_eq!(blobs.as_binary::<i64>().value(0), [255]);
        let nulls = array_of(BatchColumn::Values(vec![Value::Null; 3]), DataType::Null);
        assert_eq!(nulls.len(), 3);
    }

    #[test]
    fn dates_and_moments_become_numbers() {
        let values = |text: &str| BatchColumn::Values(vec![Value::from(text), Value::Null]);
        let dates = array_of(values("1970-01-03"), DataType::Date32);
        assert_eq!(dates.as_primitive::<Date32Type>().value(0), 2);
        assert!(dates.is_null(1));
        let moment = DataType::Timestamp(TimeUnit::Microsecond, None);
        let moments = array_of(values("1970-01-01 00:00:02.5"), moment.clone());
        let moments = moments.as_primitive::<TimestampMicrosecondType>();
        assert_eq!((moments.value(0), moments.null_count()), (2_500_000, 1));
        for data_type in [DataType::Date32, moment] {
            assert!(array(values("soon"), &field(data_type.clone())).is_err());
            assert!(array(BatchColumn::Integers(vec![1]), &field(data_type)).is_err());
        }
    }

    #[test]
    fn what_does_not_fit_is_an_error_that_names_the_column() {
        let blob = || BatchColumn::Values(vec![Value::Blob(vec![255])]);
        let text = BatchColumn::Texts(TextColumn {
            offsets: vec![0, 1],
            bytes: vec![200],
        });
        for data_type in [DataType::Utf8View, DataType::LargeUtf8, dictionary_type()] {
            let error = array(blob(), &field(data_type.clone())).unwrap_err();
            let message = error.to_string();
            assert!(
                message.contains("column \"c\" has bytes that are not UTF-8"),
                "{message}"
            );
            assert!(array(text.clone(), &field(data_type.clone())).is_err());
            let error = array(BatchColumn::Integers(vec![1]), &field(data_type)).unwrap_err();
            assert!(error.to_string().contains("Integer(1)"), "{error}");
        }
        assert!(array(text.clone(), &field(DataType::Int64)).is_err());
        let blobs = array(text, &field(DataType::LargeBinary)).unwrap();
        assert_eq!(blobs.as_binary::<i64>().value(0), [200]);
        assert!(array(BatchColumn::Integers(vec![2]), &field(DataType::Boolean)).is_err());
    }

    #[test]
    fn integers_among_reals_are_exact_or_refused() {
        let reals = |integer| {
            array(
                BatchColumn::Integers(vec![integer]),
                &field(DataType::Float64),
            )
        };
        assert!(reals(1 << 53).is_ok() && reals(i64::MIN).is_ok());
        assert!(reals((1 << 53) + 1).is_err() && reals(i64::MAX).is_err());
    }

    #[test]
    fn numbers_and_texts_are_not_copied() {
        let integers = vec![1, 2, 3];
        let start = integers.as_ptr();
        let array = array_of(BatchColumn::Integers(integers), DataType::Int64);
        assert_eq!(array.as_primitive::<Int64Type>().values().as_ptr(), start);
        let texts = TextColumn {
            offsets: vec![0, 3],
            bytes: b"the".to_vec(),
        };
        let (offsets, bytes) = (texts.offsets.as_ptr().cast(), texts.bytes.as_ptr());
        let array = array_of(BatchColumn::Texts(texts), DataType::LargeUtf8);
        let array = array.as_string::<i64>();
        assert_eq!(array.value_data().as_ptr(), bytes);
        assert_eq!(array.value_offsets().as_ptr(), offsets);
    }
}
