//! Logarithms, powers, roots and rounding to whole numbers, by SQLite's rules.
//!
//! Invariant: an argument that is no number as a whole gives NULL, and so does a call without a real result.

use zipfdb_sql::query::Function;

use super::arithmetic::from_real;
use super::convert::{to_real, whole_number};
use crate::Value;

/// The number that a value is; none for a text that is no number as a whole, a BLOB and NULL.
fn number(value: &Value) -> Option<Value> {
    match value {
        Value::Integer(_) | Value::Real(_) => Some(value.clone()),
        Value::Text(text) => whole_number(text),
        Value::Null | Value::Blob(_) => None,
    }
}

fn real(value: &Value) -> Option<f64> {
    number(value).map(|number| to_real(&number))
}

/// The value of a function of this module; NULL for others.
pub(super) fn call(function: Function, arguments: &[&Value]) -> Value {
    let first = arguments.first().copied().unwrap_or(&Value::Null);
    let answer = match (function, arguments.get(1)) {
        (Function::Ceiling | Function::Floor, _) => {
            return match (number(first), function) {
                (Some(Value::Real(real)), Function::Ceiling) => Value::Real(real.ceil()),
                (Some(Value::Real(real)), _) => Value::Real(real.floor()),
                (integer, _) => integer.unwrap_or(Value::Null),
            };
        }
        (Function::Exponential, _) => real(first).map(f64::exp),
        (Function::SquareRoot, _) => real(first).map(f64::sqrt),
        (Function::Power, Some(exponent)) => real(first)
            .zip(real(exponent))
            .map(|(base, exponent)| base.powf(exponent)),
        (Function::NaturalLogarithm, _) => positive(first).map(f64::ln),
        (Function::Logarithm10, _) | (Function::Logarithm, None) => positive(first).map(f64::log10),
        (Function::Logarithm2, _) => positive(first).map(f64::log2),
        (Function::Logarithm, Some(of)) => positive(first)
            .map(f64::ln)
            .filter(|base| *base > 0.0)
            // As in SQLite, a text counts here as the number that it begins with.
            .zip(Some(to_real(of)).filter(|x| *x > 0.0))
            .map(|(base, x)| x.ln() / base),
        _ => None,
    };
    answer.map_or(Value::Null, from_real)
}

/// A number above 0, which has a logarithm.
fn positive(value: &Value) -> Option<f64> {
    real(value).filter(|real| *real > 0.0)
}
