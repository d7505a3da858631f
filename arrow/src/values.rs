//! Values of Arrow's arrays as values of SQL.
//!
//! Invariant: a value means the same in both, or there is an error: nothing is rounded or cut. NULL is NULL.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, ArrowPrimitiveType, Date32Type, Date64Type, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, TimeUnit};
use zipfdb::Value;

use crate::error::{Error, Result};
use crate::moments::{date_text, timestamp_text};

/// Milliseconds of a day.
const DAY_MILLISECONDS: i64 = 86_400_000;

/// Reads the value of a row.
pub(crate) type ReadValue<'a> = Box<dyn Fn(usize) -> Result<Value> + 'a>;

/// The rows of a batch as parameter sets of a statement, for [`zipfdb::Database::query_many`]: the first column has the values of the
/// first parameter.
///
/// # Errors
/// If a column is of a type that SQL has no values for, or a value is out of range.
pub fn parameter_sets(batch: &RecordBatch) -> Result<Vec<Vec<Value>>> {
    let columns = batch.columns().iter().zip(batch.schema_ref().fields());
    let columns = columns.map(|(array, field)| reader(array, field.name()));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let set = |row| columns.iter().map(|read| read(row)).collect();
    (0..batch.num_rows()).map(set).collect()
}

/// What reads the values of a column.
///
/// # Errors
/// If SQL has no values for those of the type.
pub(crate) fn reader<'a>(array: &'a dyn Array, column: &'a str) -> Result<ReadValue<'a>> {
    let read: ReadValue<'a> = match array.data_type() {
        DataType::Null => Box::new(|_| Ok(Value::Null)),
        DataType::Boolean => {
            let array = array.as_boolean();
            Box::new(|row| Ok(Value::Integer(array.value(row).into())))
        }
        DataType::Int8 => integers::<Int8Type>(array, column),
        DataType::Int16 => integers::<Int16Type>(array, column),
        DataType::Int32 => integers::<Int32Type>(array, column),
        DataType::Int64 => integers::<Int64Type>(array, column),
        DataType::UInt8 => integers::<UInt8Type>(array, column),
        DataType::UInt16 => integers::<UInt16Type>(array, column),
        DataType::UInt32 => integers::<UInt32Type>(array, column),
        DataType::UInt64 => integers::<UInt64Type>(array, column),
        DataType::Float32 => {
            let array = array.as_primitive::<Float32Type>();
            Box::new(|row| Ok(Value::Real(array.value(row).into())))
        }
        DataType::Float64 => {
            let array = array.as_primitive::<Float64Type>();
            Box::new(|row| Ok(Value::Real(array.value(row))))
        }
        DataType::Utf8 => {
            let array = array.as_string::<i32>();
            Box::new(|row| Ok(Value::from(array.value(row))))
        }
        DataType::LargeUtf8 => {
            let array = array.as_string::<i64>();
            Box::new(|row| Ok(Value::from(array.value(row))))
        }
        DataType::Utf8View => {
            let array = array.as_string_view();
            Box::new(|row| Ok(Value::from(array.value(row))))
        }
        DataType::Binary => {
            let array = array.as_binary::<i32>();
            Box::new(|row| Ok(Value::Blob(array.value(row).to_vec())))
        }
        DataType::LargeBinary => {
            let array = array.as_binary::<i64>();
            Box::new(|row| Ok(Value::Blob(array.value(row).to_vec())))
        }
        DataType::BinaryView => {
            let array = array.as_binary_view();
            Box::new(|row| Ok(Value::Blob(array.value(row).to_vec())))
        }
        DataType::FixedSizeBinary(_) => {
            let array = array.as_fixed_size_binary();
            Box::new(|row| Ok(Value::Blob(array.value(row).to_vec())))
        }
        DataType::Date32 => {
            let array = array.as_primitive::<Date32Type>();
            Box::new(move |row| text_of(date_text(array.value(row).into()), column))
        }
        DataType::Date64 => {
            let array = array.as_primitive::<Date64Type>();
            Box::new(move |row| {
                text_of(
                    date_text(array.value(row).div_euclid(DAY_MILLISECONDS)),
                    column,
                )
            })
        }
        // Moments with a zone are stored in UTC.
        DataType::Timestamp(TimeUnit::Second, _) => {
            moments::<TimestampSecondType>(array, column, 1_000_000_000)
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            moments::<TimestampMillisecondType>(array, column, 1_000_000)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            moments::<TimestampMicrosecondType>(array, column, 1_000)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            moments::<TimestampNanosecondType>(array, column, 1)
        }
        DataType::Dictionary(key, _) => match **key {
            DataType::Int8 => dictionary::<Int8Type>(array, column)?,
            DataType::Int16 => dictionary::<Int16Type>(array, column)?,
            DataType::Int32 => dictionary::<Int32Type>(array, column)?,
            DataType::Int64 => dictionary::<Int64Type>(array, column)?,
            DataType::UInt8 => dictionary::<UInt8Type>(array, column)?,
            DataType::UInt16 => dictionary::<UInt16Type>(array, column)?,
            DataType::UInt32 => dictionary::<UInt32Type>(array, column)?,
            DataType::UInt64 => dictionary::<UInt64Type>(array, column)?,
            _ => return unknown_type(array, column),
        },
        _ => return unknown_type(array, column),
    };
    if array.null_count() == 0 {
        return Ok(read);
    }
    Ok(Box::new(move |row| {
        if array.is_null(row) {
            Ok(Value::Null)
        } else {
            read(row)
        }
    }))
}

fn unknown_type<T>(array: &dyn Array, column: &str) -> Result<T> {
    Error::column(
        column,
        format!(
            "is of type {}, which SQL has no values for; hint: cast it to numbers, texts, binary, dates or timestamps, or leave it out",
            array.data_type()
        ),
    )
}

fn integers<'a, T>(array: &'a dyn Array, column: &'a str) -> ReadValue<'a>
where
    T: ArrowPrimitiveType,
    T::Native: TryInto<i64>,
{
    let array = array.as_primitive::<T>();
    Box::new(move |row| match array.value(row).try_into() {
        Ok(integer) => Ok(Value::Integer(integer)),
        Err(_) => Error::column(
            column,
            format!(
                "holds {:?}, more than the largest INTEGER",
                array.value(row)
            ),
        ),
    })
}

fn moments<'a, T>(array: &'a dyn Array, column: &'a str, nanoseconds: i128) -> ReadValue<'a>
where
    T: ArrowPrimitiveType<Native = i64>,
{
    let array = array.as_primitive::<T>();
    Box::new(move |row| {
        text_of(
            timestamp_text(i128::from(array.value(row)) * nanoseconds),
            column,
        )
    })
}

fn text_of(text: Option<String>, column: &str) -> Result<Value> {
    match text {
        Some(text) => Ok(Value::Text(text)),
        None => Error::column(
            column,
            "holds a date or moment outside of the years 0000 to 9999, or of less than a microsecond",
        ),
    }
}

fn dictionary<'a, K: ArrowDictionaryKeyType>(
    array: &'a dyn Array,
    column: &'a str,
) -> Result<ReadValue<'a>> {
    let array = array.as_dictionary::<K>();
    let read = reader(array.values(), column)?;
    Ok(Box::new(move |row| match array.key(row) {
        Some(key) => read(key),
        None => Ok(Value::Null),
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use arrow_array::{
        ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Date64Array, DictionaryArray,
        Float32Array, Int8Array, NullArray, StringArray, StringViewArray, Time32SecondArray,
        TimestampMillisecondArray, TimestampNanosecondArray, UInt64Array,
    };

    use super::*;

    fn values(array: &dyn Array) -> Result<Vec<Value>> {
        let read = reader(array, "c")?;
        (0..array.len()).map(read).collect()
    }

    #[test]
    fn values_of_all_types_are_read() {
        let dictionary: DictionaryArray<Int8Type> =
            [Some("a"), None, Some("a")].into_iter().collect();
        let arrays: [(ArrayRef, Value); 13] = [
            (Arc::new(NullArray::new(1)), Value::Null),
            (Arc::new(BooleanArray::from(vec![true])), Value::Integer(1)),
            (Arc::new(Int8Array::from(vec![-3])), Value::Integer(-3)),
            (Arc::new(Int8Array::from(vec![None])), Value::Null),
            (Arc::new(UInt64Array::from(vec![7])), Value::Integer(7)),
            (Arc::new(Float32Array::from(vec![0.5])), Value::Real(0.5)),
            (Arc::new(StringArray::from(vec!["a"])), Value::from("a")),
            (Arc::new(StringViewArray::from(vec!["a"])), Value::from("a")),
            (
                Arc::new(BinaryViewArray::from(vec![&[255u8][..]])),
                Value::Blob(vec![255]),
            ),
            (
                Arc::new(Date32Array::from(vec![1])),
                Value::from("1970-01-02"),
            ),
            (
                Arc::new(Date64Array::from(vec![DAY_MILLISECONDS])),
                Value::from("1970-01-02"),
            ),
            (
                Arc::new(TimestampMillisecondArray::from(vec![1_500]).with_timezone("+02:00")),
                Value::from("1970-01-01 00:00:01.5"),
            ),
            (Arc::new(dictionary.slice(2, 1)), Value::from("a")),
        ];
        for (array, value) in arrays {
            assert_eq!(values(&array).unwrap()[..1], [value], "{array:?}");
        }
        assert_eq!(values(&dictionary).unwrap()[1], Value::Null);
    }

    #[test]
    fn what_sql_cannot_hold_is_an_error() {
        let arrays: [ArrayRef; 4] = [
            Arc::new(UInt64Array::from(vec![u64::MAX])),
            Arc::new(TimestampNanosecondArray::from(vec![1])),
            Arc::new(Date32Array::from(vec![i32::MAX])),
            Arc::new(Time32SecondArray::from(vec![1])),
        ];
        for array in arrays {
            let error = values(&array).unwrap_err().to_string();
            assert!(error.starts_with("column \"c\" "), "{error}");
        }
    }
}
