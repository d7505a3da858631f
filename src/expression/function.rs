//! Scalar functions whose arguments are all evaluated first. The evaluator computes COALESCE, IFNULL and IIF.
//!
//! Invariant: the number of arguments has been checked, so a missing one is optional.

use std::borrow::Cow;
use std::cmp::Ordering;

use zipfdb_sql::query::{Collation, Function};
use zipfdb_sql::substr_range;

use super::compare::compare_until;
use super::convert::{from_count, to_bytes, to_integer, to_real};
use super::number::{number_prefix, real_to_literal, round};
use super::text::{self, Case, PART};
use super::{date, format, json, mathematics};
use crate::batch::text_or_blob;
use crate::runtime::interrupt::Pace;
use crate::runtime::memory::ValueMemory;
use crate::{Error, Result, Value};

/// The value of `function(arguments)`; `binding` is the number of the parameter set.
///
/// # Errors
/// If the result is out of range or too long.
pub(crate) fn call(
    function: Function,
    arguments: &[&Value],
    collation: Collation,
    binding: u64,
    memory: &ValueMemory,
    pace: &mut Pace,
) -> Result<Value> {
    let first = arguments.first().copied().unwrap_or(&Value::Null);
    let second = arguments.get(1).copied();
    let is_null = |value: &&Value| matches!(value, Value::Null);
    let value = match function {
        Function::Binding => from_count(binding),
        Function::Version => Value::from(env!("CARGO_PKG_VERSION")),
        Function::Char => text::from_code_points(arguments),
        Function::Concat => text::concat("the result of concat", b"", arguments, memory)?,
        Function::ConcatWs => match to_bytes(first) {
            None => Value::Null,
            Some(separator) => {
                let what = "the result of concat_ws";
                text::concat(what, &separator, &arguments[1..], memory)?
            }
        },
        Function::Hex => {
            let bytes = to_bytes(first).unwrap_or_default();
            let length = (bytes.len() as u64).saturating_mul(2);
            let mut digits = memory.buffer("the result of hex", length)?;
            push_hex_until(&bytes, &mut digits, pace)?;
            text_or_blob(digits)
        }
        Function::Quote => quote(first, memory, pace)?,
        Function::TypeOf => Value::Text(first.type_name().to_ascii_lowercase()),
        Function::NullIf => {
            let second = second.unwrap_or(&Value::Null);
            if compare_until(first, second, collation, pace)?.is_eq() {
                Value::Null
            } else {
                memory.copy(first)?
            }
        }
        Function::Greatest => {
            let some = without_nulls(arguments);
            memory.copy(extreme(&some, collation, Ordering::is_lt, pace)?)?
        }
        Function::Least => {
            let some = without_nulls(arguments);
            memory.copy(extreme(&some, collation, Ordering::is_ge, pace)?)?
        }
        Function::Format => {
            format::format(first, arguments.get(1..).unwrap_or_default(), memory, pace)?
        }
        Function::Date
        | Function::DateTime
        | Function::DateTrunc
        | Function::Day
        | Function::JulianDay
        | Function::Month
        | Function::Strftime
        | Function::Time
        | Function::UnixEpoch
        | Function::Year => date::call(function, arguments, memory, pace)?,
        // The second argument of replace may decide before the third is read.
        Function::Replace => text::replace(first, second, arguments.get(2).copied(), memory, pace)?,
        // The following functions return NULL if an argument is NULL.
        _ if arguments.iter().any(is_null) => Value::Null,
        Function::Ceiling
        | Function::Exponential
        | Function::Floor
        | Function::Logarithm
        | Function::Logarithm10
        | Function::Logarithm2
        | Function::NaturalLogarithm
        | Function::Power
        | Function::SquareRoot => mathematics::call(function, arguments),
        Function::JsonExtract => json::extract(arguments, memory, pace)?,
        Function::JsonPart | Function::JsonValue => {
            let path = second.unwrap_or(&Value::Null);
            json::arrow(first, path, function == Function::JsonPart, memory, pace)?
        }
        Function::SplitPart => text::split_part(arguments, memory, pace)?,
        Function::Abs => abs(first)?,
        Function::Instr => text::instr(first, second.unwrap_or(&Value::Null), pace)?,
        Function::Length => text::length(first),
        Function::OctetLength => from_count(to_bytes(first).unwrap_or_default().len() as u64),
        Function::Lower => text::change_case(first, Case::Lower, memory, pace)?,
        Function::Upper => text::change_case(first, Case::Upper, memory, pace)?,
        Function::LeftTrim => text::trim(first, second, (true, false), memory, pace)?,
        Function::RightTrim => text::trim(first, second, (false, true), memory, pace)?,
        Function::Trim => text::trim(first, second, (true, true), memory, pace)?,
        // Of equal ones `max` takes the first and `min` the last.
        Function::Max => memory.copy(extreme(arguments, collation, Ordering::is_lt, pace)?)?,
        Function::Min => memory.copy(extreme(arguments, collation, Ordering::is_ge, pace)?)?,
        Function::Round => Value::Real(round(to_real(first), second.map_or(0, to_integer))),
        Function::Sign => sign(first),
        Function::Substr => substr(first, arguments, memory)?,
        Function::Unicode => text::first_code_point(first),
        // The evaluator computes these: it evaluates no more than needed, or has compiled patterns.
        Function::Coalesce
        | Function::IfNull
        | Function::Iif
        | Function::RegexpExtract
        | Function::RegexpReplace
        // These are columns of the scan.
        | Function::Highlight
        | Function::Snippet => memory.copy(first)?,
    };
    Ok(value)
}

fn without_nulls<'a>(arguments: &[&'a Value]) -> Vec<&'a Value> {
    let is_null = |value: &&&Value| matches!(value, Value::Null);
    let arguments = arguments.iter().filter(|value| !is_null(value));
    arguments.copied().collect()
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

/// The best argument: each next one replaces the best if `replaces(best, next)`.
fn extreme<'a>(
    arguments: &[&'a Value],
    collation: Collation,
    replaces: fn(Ordering) -> bool,
    pace: &mut Pace,
) -> Result<&'a Value> {
    let mut arguments = arguments.iter().copied();
    let mut best = arguments.next().unwrap_or(&Value::Null);
    for next in arguments {
        if replaces(compare_until(best, next, collation, pace)?) {
            best = next;
        }
    }
    Ok(best)
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

fn substr(value: &Value, arguments: &[&Value], memory: &ValueMemory) -> Result<Value> {
    let start = to_integer(arguments.get(1).copied().unwrap_or(&Value::Null));
    let length = arguments.get(2).map(|length| to_integer(length));
    match value {
        Value::Blob(bytes) => {
            let range = substr_range(start, length, bytes.len() as u64);
            // Within a slice in memory.
            let part = &bytes[range.start as usize..range.end as usize];
            text::part_of(part, "the result of substr", memory).map(Value::Blob)
        }
        other => text::substr(&to_bytes(other).unwrap_or_default(), start, length, memory),
    }
}

/// Appends bytes as capital hexadecimal digits.
fn push_hex(bytes: &[u8], digits: &mut Vec<u8>) {
    const DIGITS: [u8; 16] = *b"0123456789ABCDEF";
    let pairs = bytes.iter().map(|byte| [byte >> 4, byte & 15]);
    pairs.for_each(|pair| digits.extend(pair.map(|digit| DIGITS[usize::from(digit)])));
}

/// As `push_hex`, in parts.
///
/// # Errors
/// If the statement must end.
fn push_hex_until(bytes: &[u8], digits: &mut Vec<u8>, pace: &mut Pace) -> Result<()> {
    for part in bytes.chunks(PART) {
        pace.work(part.len())?;
        push_hex(part, digits);
    }
    Ok(())
}

fn quote(value: &Value, memory: &ValueMemory, pace: &mut Pace) -> Result<Value> {
    const WHAT: &str = "the result of quote";
    let mut quoted;
    match value {
        Value::Real(real) => return Ok(Value::Text(real_to_literal(*real))),
        Value::Null | Value::Integer(_) => return Ok(Value::Text(value.to_string())),
        Value::Blob(bytes) => {
            let length = (bytes.len() as u64).saturating_mul(2).saturating_add(3);
            quoted = memory.buffer(WHAT, length)?;
            quoted.extend_from_slice(b"X'");
            push_hex_until(bytes, &mut quoted, pace)?;
        }
        Value::Text(text) => {
            let quotes = text.bytes().filter(|&byte| byte == b'\'').count();
            quoted = memory.buffer(WHAT, (text.len() + quotes + 2) as u64)?;
            quoted.push(b'\'');
            for (index, part) in text.split('\'').enumerate() {
                pace.work(part.len() + 1)?;
                if index > 0 {
                    quoted.extend_from_slice(b"''");
                }
                quoted.extend_from_slice(part.as_bytes());
            }
        }
    }
    quoted.push(b'\'');
    Ok(text_or_blob(quoted))
}
