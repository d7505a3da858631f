//! Arithmetic of two values, by SQLite's rules.
//!
//! Invariant: no result is a NaN; what would be one is NULL. Integers that overflow become reals.

use zipfdb_sql::query::BinaryOperator;

use super::convert::{text_or_blob, to_bytes, to_integer, to_number, to_real};
use crate::Value;

/// `left operator right` for all operators but AND and OR, which are the evaluator's.
pub(crate) fn binary(operator: BinaryOperator, left: &Value, right: &Value) -> Value {
    if matches!(left, Value::Null) || matches!(right, Value::Null) {
        return Value::Null;
    }
    if operator == BinaryOperator::Concatenate {
        return concatenate(left, right);
    }
    if let (Value::Integer(a), Value::Integer(b)) = (&*to_number(left), &*to_number(right)) {
        let exact = match operator {
            BinaryOperator::Add => a.checked_add(*b),
            BinaryOperator::Subtract => a.checked_sub(*b),
            BinaryOperator::Multiply => a.checked_mul(*b),
            BinaryOperator::Divide | BinaryOperator::Remainder if *b == 0 => return Value::Null,
            BinaryOperator::Divide => a.checked_div(*b),
            // The remainder by -1 is 0 and overflows for the smallest integer.
            _ => Some(a.wrapping_rem(*b)),
        };
        if let Some(exact) = exact {
            return Value::Integer(exact);
        }
    }
    let (a, b) = (to_real(left), to_real(right));
    let real = match operator {
        BinaryOperator::Add => a + b,
        BinaryOperator::Subtract => a - b,
        BinaryOperator::Multiply => a * b,
        BinaryOperator::Divide if b == 0.0 => return Value::Null,
        BinaryOperator::Divide => a / b,
        _ => match (to_integer(left), to_integer(right)) {
            (_, 0) => return Value::Null,
            (a, b) => a.wrapping_rem(b) as f64,
        },
    };
    from_real(real)
}

/// A real as a value: NULL for a NaN.
pub(crate) fn from_real(real: f64) -> Value {
    match real.is_nan() {
        true => Value::Null,
        false => Value::Real(real),
    }
}

fn concatenate(left: &Value, right: &Value) -> Value {
    if let (Value::Text(left), Value::Text(right)) = (left, right) {
        return Value::Text([left.as_str(), right].concat());
    }
    let left = to_bytes(left).unwrap_or_default();
    let right = to_bytes(right).unwrap_or_default();
    text_or_blob([left, right].concat())
}
