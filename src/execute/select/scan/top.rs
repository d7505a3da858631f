//! Whether a query uses but the groups that occur most often, or least.

use zipfdb_sql::query::{Aggregate, AggregateFunction, Block, Collation, Expression};

use crate::answer::Top;

/// Whether an aggregate is how many rows a group has.
pub(super) fn is_count(aggregate: &Aggregate) -> bool {
    aggregate.function == AggregateFunction::Count
        && aggregate.argument.is_none()
        && aggregate.filter.is_none()
        && !aggregate.distinct
}

/// What a block uses of rows that have `width` columns and pass all its conditions; none if that may be all of them.
/// `expressions` are those of the block on such rows.
pub(super) fn top_of(block: &Block, expressions: &[Expression], width: usize) -> Option<Top> {
    let aggregation = block.aggregation.as_ref()?;
    let by = block.order_by.first()?;
    let Expression::Aggregate(count) = expressions[by.expression.0 as usize] else {
        return None;
    };
    let keys = aggregation.keys.iter();
    let keys = keys.map(|key| match expressions[key.expression.0 as usize] {
        Expression::Column(column) if key.collation == Collation::Binary => Some(column),
        _ => None,
    });
    let keys: Vec<usize> = keys.collect::<Option<_>>()?;
    let is_whole = (0..width).all(|column| keys.contains(&column));
    let is_top = is_count(&aggregation.aggregates[count])
        && is_whole
        && !block.distinct
        && block.having.is_empty();
    Some(Top {
        limit: block.limit?.saturating_add(block.offset),
        descending: by.descending,
    })
    .filter(|_| is_top)
}
