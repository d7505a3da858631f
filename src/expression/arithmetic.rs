//! Arithmetic of two values, by SQLite's rules.
//!
//! Invariant: no result is a NaN; a NaN becomes NULL. Integers that overflow become reals.

use zipfdb_sql::query::BinaryOperator;

use super::convert::{to_integer, to_number, to_real};
use super::text::concat;
use crate::runtime::memory::ValueMemory;
use crate::{Result, Value};

/// `left operator right` for all operators except AND and OR, which the evaluator computes.
///
/// # Errors
/// If the result is too long.
pub(crate) fn binary(
    operator: BinaryOperator,
    left: &Value,
    right: &Value,
    memory: &ValueMemory,
) -> Result<Value> {
    let is_null = matches!(left, Value::Null) || matches!(right, Value::Null);
    match operator {
        _ if is_null => Ok(Value::Null),
        BinaryOperator::Concatenate => concat("the result of `||`", b"", &[left, right], memory),
        _ => Ok(calculate(operator, left, right)),
    }
}

fn calculate(operator: BinaryOperator, left: &Value, right: &Value) -> Value {
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
    if real.is_nan() {
        Value::Null
    } else {
        Value::Real(real)
    }
}
