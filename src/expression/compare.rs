//! Comparisons of values: across types, by collation, with NULLs.
//!
//! Invariant: for values that are not NULL the order is total, and equal values have equal keys (`execute/select/key.rs`).

use std::cmp::Ordering;
use std::convert::Infallible;

use zipfdb_search::fold::fold_character;
use zipfdb_sql::query::{Collation, Comparison};

use crate::runtime::interrupt::Pace;
use crate::{Result, Value};

/// Orders two values as ORDER BY does.
pub(crate) fn compare(a: &Value, b: &Value, collation: Collation) -> Ordering {
    let Ok(ordering) = compare_by(a, b, collation, || Ok::<(), Infallible>(()));
    ordering
}

/// As `compare`, for values that may be large.
///
/// # Errors
/// If the statement must end.
pub(crate) fn compare_until(
    a: &Value,
    b: &Value,
    collation: Collation,
    pace: &mut Pace,
) -> Result<Ordering> {
    compare_by(a, b, collation, || pace.work(PART))
}

fn compare_by<E>(
    a: &Value,
    b: &Value,
    collation: Collation,
    go_on: impl FnMut() -> std::result::Result<(), E>,
) -> std::result::Result<Ordering, E> {
    match (a, b, collation) {
        (Value::Text(a), Value::Text(b), Collation::NoCase) => compare_folded(a, b, go_on),
        _ => Ok(a.compare(b)),
    }
}

/// The result of a comparison; none if it is unknown.
///
/// # Errors
/// If the statement must end.
pub(crate) fn holds(
    comparison: Comparison,
    a: &Value,
    b: &Value,
    collation: Collation,
    pace: &mut Pace,
) -> Result<Option<bool>> {
    let has_null = matches!(a, Value::Null) || matches!(b, Value::Null);
    if has_null && !matches!(comparison, Comparison::Is | Comparison::IsNot) {
        return Ok(None);
    }
    let ordering = compare_until(a, b, collation, pace)?;
    Ok(Some(match comparison {
        Comparison::Equal | Comparison::Is => ordering.is_eq(),
        Comparison::NotEqual | Comparison::IsNot => ordering.is_ne(),
        Comparison::Less => ordering.is_lt(),
        Comparison::LessOrEqual => ordering.is_le(),
        Comparison::Greater => ordering.is_gt(),
        Comparison::GreaterOrEqual => ordering.is_ge(),
    }))
}

/// Characters that are compared between two checks for interruption.
const PART: usize = 1 << 16;

/// Orders texts by their foldings; the bytes of these have the order of their characters. Calls `go_on` at each part.
fn compare_folded<E>(
    a: &str,
    b: &str,
    mut go_on: impl FnMut() -> std::result::Result<(), E>,
) -> std::result::Result<Ordering, E> {
    if a.len().max(b.len()) <= PART && a.is_ascii() && b.is_ascii() {
        let lower = |byte: u8| byte.to_ascii_lowercase();
        return Ok(a.bytes().map(lower).cmp(b.bytes().map(lower)));
    }
    let (mut a, mut b) = (a.chars(), b.chars());
    loop {
        go_on()?;
        let [left, right] = [&mut a, &mut b].map(|rest| rest.take(PART).map(fold_character));
        let order = left.cmp(right);
        let (a_ends, b_ends) = (a.as_str().is_empty(), b.as_str().is_empty());
        if order.is_ne() || a_ends || b_ends {
            return Ok(order.then(b_ends.cmp(&a_ends)));
        }
    }
}
