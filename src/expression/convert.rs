//! Values to values of another type: text, numbers, truth, affinity and CAST, by SQLite's rules.
//!
//! Invariant: a text is UTF-8. Bytes that should become a text and are not UTF-8 stay a BLOB, so none are lost.

use std::borrow::Cow;

use zipfdb_sql::query::Affinity;

use super::number::{integer_prefix, number_prefix, real_prefix, real_to_text};
use crate::batch::text_or_blob;
use crate::runtime::memory::ValueMemory;
use crate::{Result, Value};

/// The bytes of a value's text; none of NULL.
pub(crate) fn to_bytes(value: &Value) -> Option<Cow<'_, [u8]>> {
    Some(match value {
        Value::Null => return None,
        Value::Integer(integer) => Cow::Owned(integer.to_string().into_bytes()),
        Value::Real(real) => Cow::Owned(real_to_text(*real).into_bytes()),
        Value::Text(text) => Cow::Borrowed(text.as_bytes()),
        Value::Blob(bytes) => Cow::Borrowed(bytes),
    })
}

/// The value as an operand of arithmetic: a number, or NULL.
pub(crate) fn to_number(value: &Value) -> Cow<'_, Value> {
    match value {
        Value::Null | Value::Integer(_) | Value::Real(_) => Cow::Borrowed(value),
        Value::Text(text) => Cow::Owned(number_prefix(text.as_bytes()).0),
        Value::Blob(bytes) => Cow::Owned(number_prefix(bytes).0),
    }
}

/// The value as a real; 0 of NULL.
pub(crate) fn to_real(value: &Value) -> f64 {
    match value {
        Value::Null => 0.0,
        // Rounds to the nearest real, as intended.
        Value::Integer(integer) => *integer as f64,
        Value::Real(real) => *real,
        Value::Text(text) => real_prefix(text.as_bytes()),
        Value::Blob(bytes) => real_prefix(bytes),
    }
}

/// The value as an integer; 0 of NULL, the nearest one of a number out of range.
pub(crate) fn to_integer(value: &Value) -> i64 {
    match value {
        Value::Null => 0,
        Value::Integer(integer) => *integer,
        // Drops the fraction and saturates, as intended.
        Value::Real(real) => *real as i64,
        Value::Text(text) => integer_prefix(text.as_bytes()),
        Value::Blob(bytes) => integer_prefix(bytes),
    }
}

/// Whether the value is true; none if that is unknown.
pub(crate) fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Null => None,
        Value::Integer(integer) => Some(*integer != 0),
        other => Some(to_real(other) != 0.0),
    }
}

/// Three-valued truth as a value.
pub(crate) fn from_truth(truth: Option<bool>) -> Value {
    truth.map_or(Value::Null, |truth| Value::Integer(i64::from(truth)))
}

/// A count or an offset. They are far below 2^63: a database of that size does not exist.
pub(crate) fn from_count(count: u64) -> Value {
    Value::Integer(integer_of_count(count))
}

/// As `from_count`, the integer alone.
#[inline]
pub(crate) fn integer_of_count(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The value with an affinity applied, as before a comparison.
///
/// # Errors
/// If it is too long.
pub(crate) fn apply_affinity(
    value: &Value,
    affinity: Affinity,
    memory: &ValueMemory,
) -> Result<Value> {
    let number = match (affinity, value) {
        (Affinity::Text, Value::Integer(_) | Value::Real(_)) => {
            return cast_to_text(value, memory);
        }
        (Affinity::Integer | Affinity::Real | Affinity::Numeric, Value::Text(text)) => {
            whole_number(text)
        }
        _ => None,
    };
    number.map_or_else(|| memory.copy(value), Ok)
}

/// The number that the whole text is; none for other texts.
pub(crate) fn whole_number(text: &str) -> Option<Value> {
    match number_prefix(text.as_bytes()) {
        (number, true) => Some(number),
        _ => None,
    }
}

/// `CAST(value AS affinity)`.
///
/// # Errors
/// If the result is too long.
pub(crate) fn cast(value: &Value, affinity: Affinity, memory: &ValueMemory) -> Result<Value> {
    Ok(match (affinity, value) {
        (_, Value::Null) => Value::Null,
        (Affinity::None, _) | (Affinity::Blob, Value::Blob(_)) => memory.copy(value)?,
        (Affinity::Integer, _) => Value::Integer(to_integer(value)),
        (Affinity::Real, _) => Value::Real(to_real(value)),
        (Affinity::Text, _) => cast_to_text(value, memory)?,
        (Affinity::Numeric, Value::Text(text)) => cast_to_number(text.as_bytes()),
        (Affinity::Numeric, Value::Blob(bytes)) => cast_to_number(bytes),
        (Affinity::Numeric, _) => value.clone(),
        (Affinity::Blob, _) => Value::Blob(text_bytes(value, memory)?),
    })
}

/// The number that a text begins with; an integer if it is whole and not too large.
fn cast_to_number(text: &[u8]) -> Value {
    /// Reals below this that are whole become integers, as in SQLite.
    const WHOLE: f64 = 2_251_799_813_685_248.0;
    match number_prefix(text).0 {
        Value::Real(real) if real.fract() == 0.0 && (-WHOLE..WHOLE).contains(&real) => {
            // In range by the test above.
            Value::Integer(real as i64)
        }
        number => number,
    }
}

fn cast_to_text(value: &Value, memory: &ValueMemory) -> Result<Value> {
    match value {
        Value::Text(_) => memory.copy(value),
        other => text_bytes(other, memory).map(text_or_blob),
    }
}

/// The bytes of a value's text, copied; none of NULL.
fn text_bytes(value: &Value, memory: &ValueMemory) -> Result<Vec<u8>> {
    let text = to_bytes(value).unwrap_or_default();
    let mut bytes = memory.buffer("the result of CAST", text.len() as u64)?;
    bytes.extend_from_slice(&text);
    Ok(bytes)
}
