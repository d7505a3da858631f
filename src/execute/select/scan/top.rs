//! Whether a query only uses the groups that occur most often, or least, or as often as its HAVING requires.
//!
//! Invariant: HAVING is evaluated again above, and would drop the groups that are left out here.

use zipfdb_sql::query::{
    Aggregate, AggregateFunction, Block, Collation, Comparison, Expression, ExpressionId,
};

use crate::Value;
use crate::answer::Top;
use crate::expression::mirrored;

/// Whether an aggregate is the number of rows of a group.
pub(super) fn is_count(aggregate: &Aggregate) -> bool {
    aggregate.function == AggregateFunction::Count
        && aggregate.argument.is_none()
        && aggregate.filter.is_none()
        && !aggregate.distinct
}

/// The groups that a block uses, of rows with `width` columns that pass all its conditions; none if that may be all of them.
/// `expressions` are those of the block on such rows.
pub(super) fn top_of(block: &Block, expressions: &[Expression], width: usize) -> Option<Top> {
    let aggregation = block.aggregation.as_ref()?;
    let keys = aggregation.keys.iter();
    let keys = keys.map(|key| match expressions[key.expression.0 as usize] {
        Expression::Column(column) if key.collation == Collation::Binary => Some(column),
        _ => None,
    });
    let keys: Vec<usize> = keys.collect::<Option<_>>()?;
    let is_whole = (0..width).all(|column| keys.contains(&column));
    // Without keys there is a group even where there is no row.
    if keys.is_empty() || !is_whole || block.distinct {
        return None;
    }
    let is_count = |id: ExpressionId| match expressions[id.0 as usize] {
        Expression::Aggregate(aggregate) => is_count(&aggregation.aggregates[aggregate]),
        _ => false,
    };
    let mut counts = (0, u64::MAX);
    let mut is_having_known = true;
    // Other aggregates may fail, and must do so in groups that HAVING drops too.
    let are_counts = aggregation.aggregates.iter().all(self::is_count);
    for &condition in &block.having {
        let condition = &expressions[condition.0 as usize];
        let passes = counts_of(condition, expressions, is_count).filter(|_| are_counts);
        match passes {
            Some((least, most)) => counts = (counts.0.max(least), counts.1.min(most)),
            None => is_having_known = false,
        }
    }
    let by = (block.order_by.first()).filter(|by| is_having_known && is_count(by.expression));
    let limit = block.limit.map(|limit| limit.saturating_add(block.offset));
    let (limit, descending) = match (by, limit) {
        (Some(by), Some(limit)) => (limit, by.descending),
        _ => (u64::MAX, true),
    };
    (limit < u64::MAX || counts != (0, u64::MAX)).then_some(Top {
        limit,
        descending,
        counts,
    })
}

/// The least and the greatest count for which a condition is true, if it compares a count with an integer.
fn counts_of(
    condition: &Expression,
    expressions: &[Expression],
    is_count: impl Fn(ExpressionId) -> bool,
) -> Option<(u64, u64)> {
    let Expression::Compare {
        comparison,
        left,
        right,
        ..
    } = *condition
    else {
        return None;
    };
    let integer = |id: ExpressionId| match &expressions[id.0 as usize] {
        Expression::Value(value) => match **value {
            Value::Integer(integer) => Some(integer),
            _ => None,
        },
        _ => None,
    };
    let (comparison, bound) = if is_count(left) {
        (comparison, integer(right)?)
    } else if is_count(right) {
        (mirrored(comparison), integer(left)?)
    } else {
        return None;
    };
    let none = (1, 0);
    // A count is not negative.
    let from = |least: i64| (u64::try_from(least).unwrap_or(0), u64::MAX);
    let to = |most: i64| u64::try_from(most).map_or(none, |most| (0, most));
    Some(match comparison {
        Comparison::Equal | Comparison::Is => (from(bound).0, to(bound).1),
        Comparison::Less => bound.checked_sub(1).map_or(none, to),
        Comparison::LessOrEqual => to(bound),
        Comparison::Greater => bound.checked_add(1).map_or(none, from),
        Comparison::GreaterOrEqual => from(bound),
        Comparison::NotEqual | Comparison::IsNot => return None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::{CorpusSettings, Database};

    #[test]
    fn conditions_on_counts_and_limits_leave_out_no_group_that_they_pass() {
        let database = Database::in_memory().unwrap();
        let corpus = database
            .create_corpus("c", CorpusSettings::default())
            .unwrap();
        let text = (1..=9).map(|word| format!("w{word} x ").repeat(word / 2 + 1));
        let text: String = text.collect();
        corpus
            .append_many(&[("a", &text[..]), ("b", "x w8 x w9")])
            .unwrap();
        let rows = |sql: &str| -> Vec<String> {
            let rows = database.query(sql, ()).unwrap();
            rows.map(|row| format!("{:?}", row.unwrap().into_values()))
                .collect()
        };
        let sources = [
            ("c", "word"),
            ("c", "word, file"),
            ("ngrams('c', 2)", "ngram"),
            ("ngrams('c', 2)", "ngram, file"),
        ];
        let conditions = [
            "n >= 3",
            "n > 1 AND 5 > n",
            "n = 3",
            "n = 3.0",
            "n < 2.5",
            "n <> 3",
            "n < -1",
            "n >= -9223372036854775807",
            "n > 9223372036854775807",
            "n BETWEEN 2 AND 4",
            "n IN (1, 4)",
            "n > 2 AND MIN(position) >= 0",
            "NULL < n",
        ];
        for recompressed in [false, true] {
            if recompressed {
                database.execute_batch("RECOMPRESS c").unwrap();
            }
            for (source, keys) in sources {
                for condition in conditions {
                    for order in ["n DESC", "n"] {
                        // COUNT(position) is no count of rows to the planner.
                        let ask = |count: &str, end: &str| {
                            rows(&format!(
                                "SELECT {keys}, {count} AS n FROM {source} GROUP BY {keys} HAVING {condition} \
                                 ORDER BY {order}, {keys} {end}"
                            ))
                        };
                        for end in ["", "LIMIT 2", "LIMIT 3 OFFSET 1"] {
                            let about =
                                format!("{keys} of {source} with {condition} by {order} {end}");
                            assert_eq!(
                                ask("COUNT(*)", end),
                                ask("COUNT(position)", end),
                                "{about}"
                            );
                        }
                    }
                }
            }
            assert_eq!(rows("SELECT COUNT(*) FROM c HAVING COUNT(*) < 5"), [""; 0]);
        }
    }
}
