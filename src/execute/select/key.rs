//! Values as bytes that compare as the values do, for sorting, grouping and DISTINCT.
//!
//! Invariant: of two values of one column, under one collation and direction, the keys compare as the values, are equal exactly
//! if the values are, and neither is a proper prefix of the other. So keys of several columns may be concatenated. Values cannot
//! be read back.

use std::cmp::Ordering;

use zipfdb_search::fold::fold;
use zipfdb_sql::query::{Collation, SortKey};

use crate::expression::compare;
use crate::runtime::memory::{self, ValueMemory};
use crate::{Error, Result, Value};

const NULL_FIRST: u8 = 0x00;
const NUMBER: u8 = 0x10;
const TEXT: u8 = 0x20;
const BLOB: u8 = 0x30;
const NULL_LAST: u8 = 0xff;

/// The order of one column.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyOrder {
    pub(super) collation: Collation,
    pub(super) descending: bool,
    pub(super) nulls_first: bool,
    /// Whether a REAL comes behind the INTEGER that it is equal to, so that no two different values are equal.
    pub(super) is_exact: bool,
}

impl KeyOrder {
    /// The order of a key of ORDER BY.
    pub(super) fn of(key: &SortKey) -> KeyOrder {
        KeyOrder {
            collation: key.collation,
            descending: key.descending,
            nulls_first: key.nulls_first,
            is_exact: false,
        }
    }

    /// The order of grouping and DISTINCT.
    pub(super) fn ascending(collation: Collation) -> KeyOrder {
        KeyOrder {
            collation,
            descending: false,
            nulls_first: true,
            is_exact: false,
        }
    }

    /// An order in which only identical values are equal.
    pub(super) fn exact() -> KeyOrder {
        KeyOrder {
            is_exact: true,
            ..KeyOrder::ascending(Collation::Binary)
        }
    }
}

/// Orders values that are equal to a collation or as numbers: by bytes, INTEGER before REAL.
pub(super) fn tie(a: &Value, b: &Value) -> Ordering {
    let is_real = |value: &Value| matches!(value, Value::Real(_));
    compare(a, b, Collation::Binary).then_with(|| is_real(a).cmp(&is_real(b)))
}

/// Appends the key of a value, after a check of its memory.
///
/// # Errors
/// If the key is longer than the limit for all values of a row.
pub(super) fn add_key(
    value: &Value,
    order: KeyOrder,
    key: &mut Vec<u8>,
    memory: &ValueMemory,
) -> Result<()> {
    if memory::is_counted(value) {
        let what = "the key that rows are compared by";
        let bytes = key_bytes(value, order.collation);
        memory.check_alone(what, (key.len() as u64).saturating_add(bytes))?;
        let reserved = usize::try_from(bytes)
            .ok()
            .and_then(|bytes| key.try_reserve_exact(bytes).ok());
        reserved.ok_or_else(|| Error::NoMemory {
            what: what.to_owned(),
            bytes,
        })?;
    }
    push_key(value, order, key);
    Ok(())
}

/// The most bytes of the key of a TEXT or BLOB.
fn key_bytes(value: &Value, collation: Collation) -> u64 {
    /// A letter of two bytes is folded to at most three bytes, or to several letters.
    const FOLDED: u64 = 3;
    let zeros = |bytes: &[u8]| bytes.iter().filter(|&&byte| byte == 0).count() as u64;
    let ends = 3;
    ends + match (value, collation) {
        (Value::Text(text), Collation::Binary) => text.len() as u64 + zeros(text.as_bytes()),
        (Value::Text(text), Collation::NoCase) => FOLDED.saturating_mul(text.len() as u64),
        (Value::Blob(bytes), _) => bytes.len() as u64 + zeros(bytes),
        _ => 0,
    }
}

/// Appends the key of a value.
pub(super) fn push_key(value: &Value, order: KeyOrder, key: &mut Vec<u8>) {
    let start = key.len();
    match value {
        Value::Null => {
            key.push(if order.nulls_first {
                NULL_FIRST
            } else {
                NULL_LAST
            });
            return;
        }
        // Rounded to a real; the rounding error decides between numbers that round to the same real.
        Value::Integer(integer) => {
            let real = *integer as f64;
            // At most 512 apart.
            let lost = (i128::from(*integer) - real as i128) as i16;
            push_number(real, lost, key);
        }
        Value::Real(real) => push_number(*real, 0, key),
        Value::Text(text) => {
            key.push(TEXT);
            match order.collation {
                Collation::Binary => push_bytes(text.as_bytes(), key),
                Collation::NoCase => {
                    let mut folded = Vec::with_capacity(text.len());
                    fold(text.as_bytes(), &mut folded);
                    push_bytes(&folded, key);
                }
            }
        }
        Value::Blob(bytes) => {
            key.push(BLOB);
            push_bytes(bytes, key);
        }
    }
    if order.is_exact {
        key.push(u8::from(matches!(value, Value::Real(_))));
    }
    if order.descending {
        key[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// A number that compares as a real does.
pub(super) fn real_number(real: f64) -> u64 {
    const SIGN: u64 = 1 << 63;
    // Adding 0 makes the negative zero positive.
    let bits = (real + 0.0).to_bits();
    match () {
        () if real.is_nan() => 0,
        () if bits & SIGN == 0 => bits | SIGN,
        () => !bits,
    }
}

fn push_number(real: f64, lost: i16, key: &mut Vec<u8>) {
    key.push(NUMBER);
    key.extend_from_slice(&real_number(real).to_be_bytes());
    key.extend_from_slice(&(lost ^ i16::MIN).to_be_bytes());
}

/// A zero byte is followed by 0xff, the end is two zero bytes.
fn push_bytes(bytes: &[u8], key: &mut Vec<u8>) {
    let mut parts = bytes.split(|&byte| byte == 0);
    key.extend_from_slice(parts.next().unwrap_or_default());
    for part in parts {
        key.extend_from_slice(&[0, 0xff]);
        key.extend_from_slice(part);
    }
    key.extend_from_slice(&[0, 0]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::Integer),
            (-3i64..3).prop_map(Value::Integer),
            (-3i64..3).prop_map(|n| Value::Integer(i64::MAX - 512 + n)),
            (-3i64..3).prop_map(|n| Value::Integer((1 << 53) + n)),
            (-3i64..3).prop_map(|n| Value::Real(((1i64 << 53) + n) as f64)),
            any::<f64>().prop_map(Value::Real),
            (-3i32..3).prop_map(|n| Value::Real(f64::from(n) / 2.0)),
            "[aAbB\0\u{e9}\u{c9}]{0,3}".prop_map(Value::Text),
            proptest::collection::vec(prop_oneof![Just(0u8), Just(255), any::<u8>()], 0..3)
                .prop_map(Value::Blob),
        ]
    }

    proptest! {
        #[test]
        fn keys_compare_as_values(
            a in values(),
            b in values(),
            descending: bool,
            nulls_first: bool,
            nocase: bool,
            is_exact: bool,
        ) {
            let collation = if nocase { Collation::NoCase } else { Collation::Binary };
            let is_exact = is_exact && !nocase;
            let order = KeyOrder { collation, descending, nulls_first, is_exact };
            let key = |value: &Value| {
                let mut key = Vec::new();
                push_key(value, order, &mut key);
                key
            };
            let is_null = |value: &Value| matches!(value, Value::Null);
            let nulls = is_null(&a).cmp(&is_null(&b));
            let expected = match nulls {
                Ordering::Equal => {
                    let values = if is_exact { tie(&a, &b) } else { compare(&a, &b, collation) };
                    if descending { values.reverse() } else { values }
                }
                nulls if nulls_first => nulls.reverse(),
                nulls => nulls,
            };
            prop_assert_eq!(key(&a).cmp(&key(&b)), expected);
            prop_assert!(key(&a) == key(&b) || !key(&a).starts_with(&key(&b)));
        }
    }
}
