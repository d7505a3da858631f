//! `Value`: one SQL value, as a literal, a parameter or a field of a result row.
//!
//! Invariant: `compare` is a total order, the one SQLite sorts by, so it may drive any sort. Equality of this type is
//! plain structural equality; it is not the three-valued `=` of SQL.

use std::cmp::Ordering;
use std::fmt;
use std::num::TryFromIntError;

/// One SQL value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// A signed 64-bit integer.
    Integer(i64),
    /// A 64-bit floating point number.
    Real(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

/// The kinds of values other than NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ValueKind {
    /// Signed 64-bit integers.
    Integer,
    /// 64-bit floating point numbers.
    Real,
    /// Text.
    Text,
    /// Bytes.
    Blob,
    /// The INTEGERs 0 and 1.
    Boolean,
    /// TEXT: days as `YYYY-MM-DD`.
    Date,
    /// TEXT: moments as `YYYY-MM-DD HH:MM:SS`, with a fraction of the second where there is one.
    Timestamp,
}

impl ValueKind {
    /// The name as SQL writes it, such as `INTEGER`.
    pub fn name(self) -> &'static str {
        match self {
            ValueKind::Integer => "INTEGER",
            ValueKind::Real => "REAL",
            ValueKind::Text => "TEXT",
            ValueKind::Blob => "BLOB",
            ValueKind::Boolean => "BOOLEAN",
            ValueKind::Date => "DATE",
            ValueKind::Timestamp => "TIMESTAMP",
        }
    }
}

impl Value {
    /// The kind of the value; none of NULL. Truth values are INTEGERs here, dates and moments TEXT.
    pub fn kind(&self) -> Option<ValueKind> {
        match self {
            Value::Null => None,
            Value::Integer(_) => Some(ValueKind::Integer),
            Value::Real(_) => Some(ValueKind::Real),
            Value::Text(_) => Some(ValueKind::Text),
            Value::Blob(_) => Some(ValueKind::Blob),
        }
    }

    /// The name of the value's type as SQL writes it: `NULL`, `INTEGER`, `REAL`, `TEXT` or `BLOB`.
    pub fn type_name(&self) -> &'static str {
        self.kind().map_or("NULL", ValueKind::name)
    }

    /// Orders two values as ORDER BY does: NULL, then numbers, then text by its bytes, then blobs by their bytes.
    ///
    /// Integers and reals compare as numbers, without rounding. A NaN comes before all other numbers.
    pub fn compare(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Integer(a), Value::Integer(b)) => a.cmp(b),
            (Value::Real(a), Value::Real(b)) => compare_reals(*a, *b),
            (Value::Integer(a), Value::Real(b)) => compare_integer_to_real(*a, *b),
            (Value::Real(a), Value::Integer(b)) => compare_integer_to_real(*b, *a).reverse(),
            (Value::Text(a), Value::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Value::Blob(a), Value::Blob(b)) => a.cmp(b),
            (a, b) => a.class().cmp(&b.class()),
        }
    }

    fn class(&self) -> u8 {
        match self {
            Value::Null => 0,
            Value::Integer(_) | Value::Real(_) => 1,
            Value::Text(_) => 2,
            Value::Blob(_) => 3,
        }
    }
}

fn compare_reals(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

/// Compares without converting the integer to `f64`, which would round above 2^53.
fn compare_integer_to_real(a: i64, b: f64) -> Ordering {
    if b.is_nan() {
        return Ordering::Greater;
    }
    if b >= 9_223_372_036_854_775_808.0 {
        return Ordering::Less;
    }
    if b < -9_223_372_036_854_775_808.0 {
        return Ordering::Greater;
    }
    // In range after the two tests above, so the cast only drops the fraction.
    let whole = b.trunc() as i64;
    a.cmp(&whole).then_with(|| compare_reals(0.0, b.fract()))
}

impl fmt::Display for Value {
    /// Writes the value as an SQL literal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("NULL"),
            Value::Integer(value) => write!(f, "{value}"),
            Value::Real(value) => write!(f, "{value:?}"),
            Value::Text(text) => write!(f, "'{}'", text.replace('\'', "''")),
            Value::Blob(bytes) => {
                f.write_str("X'")?;
                for byte in bytes {
                    write!(f, "{byte:02x}")?;
                }
                f.write_str("'")
            }
        }
    }
}

/// Implements `From` for integers of types whose numbers are all in `i64`.
macro_rules! from_integers {
    ($($integer:ty)+) => {$(
        impl From<$integer> for Value {
            fn from(value: $integer) -> Value {
                Value::Integer(value.into())
            }
        }
    )+};
}

from_integers!(bool i8 i16 i32 i64 u8 u16 u32);

/// Implements `TryFrom` for integers of types with numbers that `i64` lacks.
macro_rules! try_from_integers {
    ($($integer:ty)+) => {$(
        impl TryFrom<$integer> for Value {
            type Error = TryFromIntError;

            /// # Errors
            /// If the number is above 2^63 - 1.
            fn try_from(value: $integer) -> Result<Value, TryFromIntError> {
                i64::try_from(value).map(Value::Integer)
            }
        }
    )+};
}

try_from_integers!(u64 usize);

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Real(value)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Value {
        Value::Blob(bytes.to_vec())
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Value {
        Value::Text(text.clone())
    }
}

impl<const N: usize> From<&[u8; N]> for Value {
    fn from(bytes: &[u8; N]) -> Value {
        Value::Blob(bytes.to_vec())
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Value {
        Value::Blob(bytes)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_sort_as_sqlite_sorts_them() {
        let sorted = [
            Value::Null,
            Value::Real(f64::NAN),
            Value::Real(f64::NEG_INFINITY),
            Value::Integer(i64::MIN),
            Value::Real(-0.5),
            Value::Integer(0),
            Value::Real(0.5),
            Value::Integer(9_007_199_254_740_992),
            Value::Integer(9_007_199_254_740_993),
            Value::Integer(i64::MAX),
            Value::Real(9_223_372_036_854_775_808.0),
            Value::Text(String::new()),
            Value::from("B"),
            Value::from("a"),
            Value::Blob(Vec::new()),
            Value::Blob(vec![0]),
        ];
        for (i, a) in sorted.iter().enumerate() {
            for (j, b) in sorted.iter().enumerate() {
                assert_eq!(a.compare(b), i.cmp(&j), "{a} against {b}");
            }
        }
    }

    #[test]
    fn integers_compare_to_reals_without_rounding() {
        let real = Value::Real(9_007_199_254_740_992.0);
        assert_eq!(
            Value::Integer(9_007_199_254_740_993).compare(&real),
            Ordering::Greater
        );
        assert_eq!(
            real.compare(&Value::Integer(9_007_199_254_740_993)),
            Ordering::Less
        );
        assert_eq!(
            Value::Integer(1).compare(&Value::Real(1.0)),
            Ordering::Equal
        );
        assert_eq!(
            Value::Integer(-1).compare(&Value::Real(-1.5)),
            Ordering::Greater
        );
    }

    #[test]
    fn integers_of_all_types_become_values() {
        assert_eq!(Value::from(-1i8), Value::Integer(-1));
        assert_eq!(Value::from(u32::MAX), Value::Integer(4_294_967_295));
        assert_eq!(Value::from(true), Value::Integer(1));
        assert_eq!(Value::try_from(7usize), Ok(Value::Integer(7)));
        assert!(Value::try_from(u64::MAX).is_err());
    }

    #[test]
    fn values_print_as_literals() {
        assert_eq!(Value::from("it's").to_string(), "'it''s'");
        assert_eq!(Value::from(vec![0u8, 255]).to_string(), "X'00ff'");
        assert_eq!(Value::Real(1.0).to_string(), "1.0");
        assert_eq!(Value::from(None::<i64>).to_string(), "NULL");
    }
}
