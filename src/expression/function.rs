//! Scalar functions whose arguments are all evaluated first. COALESCE, IFNULL and IIF are the evaluator's.
//!
//! Invariant: the number of arguments has been checked, so a missing one is an optional one and counts as not written.

use std::borrow::Cow;
use std::cmp::Ordering;

use zipfdb_sql::query::{Collation, Function};
use zipfdb_sql::substr_range;

use super::compare::compare;
use super::convert::{from_count, to_bytes, to_integer, to_real};
use super::number::{number_prefix, real_to_literal, round};
use super::text;
use crate::{Error, Result, Value};

/// The value of `function(arguments)`; `binding` is the number of the parameter set.
pub(crate) fn call(
    function: Function,
    arguments: &[&Value],
    collation: Collation,
    binding: u64,
) -> Result<Value> {
    let first = arguments.first().copied().unwrap_or(&Value::Null);
    let second = arguments.get(1).copied();
    let is_null = |value: &&Value| matches!(value, Value::Null);
    let value = match function {
        Function::Binding => from_count(binding),
        Function::Version => Value::from(env!("CARGO_PKG_VERSION")),
        Function::Char => text::from_code_points(arguments),
        Function::Concat => text::concat(b"", arguments),
        Function::ConcatWs => match to_bytes(first) {
            None => Value::Null,
            Some(separator) => text::concat(&separator, &arguments[1..]),
        },
        Function::Hex => Value::Text(hex(&to_bytes(first).unwrap_or_default())),
        Function::Quote => quote(first),
        Function::TypeOf => Value::Text(first.type_name().to_ascii_lowercase()),
        Function::NullIf => {
            match second.is_some_and(|second| compare(first, second, collation).is_eq()) {
                true => Value::Null,
                false => first.clone(),
            }
        }
        // The second argument of replace may decide before the third is looked at.
        Function::Replace => text::replace(first, second, arguments.get(2).copied()),
        // All that follow are NULL if an argument is.
        _ if arguments.iter().any(is_null) => Value::Null,
        Function::Abs => abs(first)?,
        Function::Instr => text::instr(first, second.unwrap_or(&Value::Null)),
        Function::Length => text::length(first),
        Function::OctetLength => from_count(to_bytes(first).unwrap_or_default().len() as u64),
        Function::Lower => text::change_case(first, str::to_lowercase),
        Function::Upper => text::change_case(first, str::to_uppercase),
        Function::LeftTrim => text::trim(first, second, true, false),
        Function::RightTrim => text::trim(first, second, false, true),
        Function::Trim => text::trim(first, second, true, true),
        // Of equal ones `max` takes the first and `min` the last.
        Function::Max => extreme(arguments, collation, Ordering::is_lt),
        Function::Min => extreme(arguments, collation, Ordering::is_ge),
        Function::Round => Value::Real(round(to_real(first), second.map_or(0, to_integer))),
        Function::Sign => sign(first),
        Function::Substr => substr(first, arguments),
        Function::Unicode => text::first_code_point(first),
        Function::Coalesce | Function::IfNull | Function::Iif => first.clone(),
    };
    Ok(value)
}

fn abs(value: &Value) -> Result<Value> {
    match value {
        Value::Integer(integer) => match integer.checked_abs() {
            Some(integer) => Ok(Value::Integer(integer)),
            None => Err(Error::Invalid {
                subject: format!("abs({integer})"),
                reason: "integer overflow".into(),
            }),
        },
        other => Ok(Value::Real(to_real(other).abs())),
    }
}

/// The argument that is left when each next one replaces the best if `replaces` says so of (best, next).
fn extreme(arguments: &[&Value], collation: Collation, replaces: fn(Ordering) -> bool) -> Value {
    let best = arguments.iter().copied().reduce(|best, next| {
        match replaces(compare(best, next, collation)) {
            true => next,
            false => best,
        }
    });
    best.cloned().unwrap_or(Value::Null)
}

fn sign(value: &Value) -> Value {
    let number = match value {
        Value::Text(text) => match number_prefix(text.as_bytes()) {
            (number, true) => Cow::Owned(number),
            _ => return Value::Null,
        },
        Value::Blob(_) => return Value::Null,
        number => Cow::Borrowed(number),
    };
    Value::Integer(match number.compare(&Value::Integer(0)) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    })
}

fn substr(value: &Value, arguments: &[&Value]) -> Value {
    let start = to_integer(arguments.get(1).copied().unwrap_or(&Value::Null));
    let length = arguments.get(2).map(|length| to_integer(length));
    match value {
        Value::Blob(bytes) => {
            let range = substr_range(start, length, bytes.len() as u64);
            // Within a slice in memory.
            Value::Blob(bytes[range.start as usize..range.end as usize].to_vec())
        }
        other => text::substr(&to_bytes(other).unwrap_or_default(), start, length),
    }
}

/// Bytes as capital hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: [u8; 16] = *b"0123456789ABCDEF";
    let digits = bytes.iter().flat_map(|byte| {
        [byte >> 4, byte & 15].map(|digit| char::from(DIGITS[usize::from(digit)]))
    });
    digits.collect()
}

fn quote(value: &Value) -> Value {
    Value::Text(match value {
        Value::Real(real) => real_to_literal(*real),
        Value::Blob(bytes) => format!("X'{}'", hex(bytes)),
        other => other.to_string(),
    })
}
