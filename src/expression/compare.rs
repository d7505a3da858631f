//! Comparisons of values: across types, by collation, with NULLs.
//!
//! Invariant: for values that are not NULL the order is total, and equal values have equal keys (`execute/select/key.rs`).

use std::cmp::Ordering;

use zipfdb_sql::query::{Collation, Comparison};

use crate::Value;
use crate::tokenize::fold;

/// Orders two values as ORDER BY does.
pub(crate) fn compare(a: &Value, b: &Value, collation: Collation) -> Ordering {
    match (a, b, collation) {
        (Value::Text(a), Value::Text(b), Collation::NoCase) => compare_folded(a, b),
        _ => a.compare(b),
    }
}

/// The answer of a comparison; none if it is unknown.
pub(crate) fn holds(
    comparison: Comparison,
    a: &Value,
    b: &Value,
    collation: Collation,
) -> Option<bool> {
    let has_null = matches!(a, Value::Null) || matches!(b, Value::Null);
    if has_null && !matches!(comparison, Comparison::Is | Comparison::IsNot) {
        return None;
    }
    let ordering = compare(a, b, collation);
    Some(match comparison {
        Comparison::Equal | Comparison::Is => ordering.is_eq(),
        Comparison::NotEqual | Comparison::IsNot => ordering.is_ne(),
        Comparison::Less => ordering.is_lt(),
        Comparison::LessOrEqual => ordering.is_le(),
        Comparison::Greater => ordering.is_gt(),
        Comparison::GreaterOrEqual => ordering.is_ge(),
    })
}

fn compare_folded(a: &str, b: &str) -> Ordering {
    if a.is_ascii() && b.is_ascii() {
        let lower = |byte: u8| byte.to_ascii_lowercase();
        return a.bytes().map(lower).cmp(b.bytes().map(lower));
    }
    let folded = |text: &str| {
        let mut bytes = Vec::with_capacity(text.len());
        fold(text.as_bytes(), &mut bytes);
        bytes
    };
    folded(a).cmp(&folded(b))
}
