//! Values of arrays as values of fields.
//!
//! Invariant: a value keeps what it is: a type without one of ours becomes text (decimal numbers, lists and structs as JSON) or is
//! refused before a row is read.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, Decimal128Type, Decimal256Type, Float16Type, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};
use serde_json::{Map, Value};

use crate::record::FieldValue;

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;

/// Whether values of a type can be read.
pub(super) fn is_known(kind: &DataType) -> bool {
    match kind {
        DataType::Null
        | DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Float16
        | DataType::Float32
        | DataType::Float64
        | DataType::Date32
        | DataType::Date64
        | DataType::Timestamp(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..)
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => true,
        DataType::Dictionary(_, values) => is_known(values),
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            is_known(field.data_type())
        }
        DataType::Struct(fields) => fields.iter().all(|field| is_known(field.data_type())),
        _ => false,
    }
}

/// A value of an array whose type [`is_known`].
pub(super) fn value(array: &ArrayRef, row: usize) -> FieldValue {
    if array.is_null(row) {
        return FieldValue::Null;
    }
    macro_rules! integer {
        ($kind:ty) => {
            FieldValue::Integer(array.as_primitive::<$kind>().value(row).into())
        };
    }
    macro_rules! moment {
        ($kind:ty, $make:expr) => {{
            let found: Option<i64> = $make(array.as_primitive::<$kind>().value(row));
            found.map_or(FieldValue::Null, FieldValue::Timestamp)
        }};
    }
    let text = |text: &str| FieldValue::Text(text.to_owned());
    let bytes = |bytes: &[u8]| FieldValue::Bytes(bytes.to_vec());
    match array.data_type() {
        DataType::Boolean => FieldValue::Boolean(array.as_boolean().value(row)),
        DataType::Int8 => integer!(Int8Type),
        DataType::Int16 => integer!(Int16Type),
        DataType::Int32 => integer!(Int32Type),
        DataType::Int64 => integer!(Int64Type),
        DataType::UInt8 => integer!(UInt8Type),
        DataType::UInt16 => integer!(UInt16Type),
        DataType::UInt32 => integer!(UInt32Type),
        DataType::UInt64 => {
            let value = array.as_primitive::<UInt64Type>().value(row);
            // As everywhere in the database, whole numbers beyond 64 bits with a sign are numbers with a point.
            i64::try_from(value).map_or(FieldValue::Real(value as f64), FieldValue::Integer)
        }
        DataType::Float16 => {
            FieldValue::Real(array.as_primitive::<Float16Type>().value(row).to_f64())
        }
        DataType::Float32 => {
            FieldValue::Real(array.as_primitive::<Float32Type>().value(row).into())
        }
        DataType::Float64 => FieldValue::Real(array.as_primitive::<Float64Type>().value(row)),
        DataType::Date32 => FieldValue::Date(array.as_primitive::<Date32Type>().value(row).into()),
        DataType::Date64 => {
            let milliseconds = array.as_primitive::<Date64Type>().value(row);
            FieldValue::Date(milliseconds.div_euclid(DAY))
        }
        DataType::Timestamp(TimeUnit::Second, _) => {
            moment!(TimestampSecondType, |value: i64| value
                .checked_mul(1_000_000))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            moment!(TimestampMillisecondType, |value: i64| value
                .checked_mul(1000))
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => moment!(TimestampMicrosecondType, Some),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            moment!(TimestampNanosecondType, |value: i64| Some(
                value.div_euclid(1000)
            ))
        }
        DataType::Decimal128(..) => {
            FieldValue::Untyped(array.as_primitive::<Decimal128Type>().value_as_string(row))
        }
        DataType::Decimal256(..) => {
            FieldValue::Untyped(array.as_primitive::<Decimal256Type>().value_as_string(row))
        }
        DataType::Utf8 => text(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => text(array.as_string::<i64>().value(row)),
        DataType::Utf8View => text(array.as_string_view().value(row)),
        DataType::Binary => bytes(array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => bytes(array.as_binary::<i64>().value(row)),
        DataType::BinaryView => bytes(array.as_binary_view().value(row)),
        DataType::FixedSizeBinary(_) => bytes(array.as_fixed_size_binary().value(row)),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            // A key of a row with a value is in the dictionary.
            let key = dictionary.normalized_keys()[row];
            value(dictionary.values(), key)
        }
        _ => FieldValue::Text(json(array, row).to_string()),
    }
}

/// A value in a list or struct.
fn json(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    let list = |values: ArrayRef| (0..values.len()).map(|row| json(&values, row)).collect();
    match array.data_type() {
        DataType::List(_) => list(array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => list(array.as_list::<i64>().value(row)),
        DataType::FixedSizeList(..) => list(array.as_fixed_size_list().value(row)),
        DataType::Struct(fields) => {
            let members = fields.iter().zip(array.as_struct().columns());
            let members = members.map(|(field, values)| (field.name().clone(), json(values, row)));
            Value::Object(members.collect::<Map<String, Value>>())
        }
        _ => match value(array, row) {
            FieldValue::Null => Value::Null,
            FieldValue::Boolean(value) => value.into(),
            FieldValue::Integer(value) | FieldValue::Date(value) | FieldValue::Timestamp(value) => {
                value.into()
            }
            FieldValue::Real(value) => value.into(),
            FieldValue::Text(text) | FieldValue::Untyped(text) => text.into(),
            FieldValue::Bytes(bytes) => {
                let hex = bytes.iter().map(|byte| format!("{byte:02x}"));
                Value::Object(
                    [("hex".to_owned(), hex.collect::<String>().into())]
                        .into_iter()
                        .collect(),
                )
            }
        },
    }
}
