//! The rows that occur most often, or least, where no others are used.
//!
//! Invariant: of rows that are groups, at least those are kept that any order by count, and by whatever else, puts first.

use zipfdb_sql::query::{Aggregate, AggregateFunction, Block, Collation, Expression};

/// What a query with LIMIT uses of groups that it orders by their counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Top {
    /// So many rows are used.
    pub(crate) limit: u64,
    /// Those that occur most often, else least.
    pub(crate) descending: bool,
}

impl Top {
    /// What a block uses of rows that have `width` columns and pass all its conditions; none if that may be all of them.
    /// `expressions` are those of the block on such rows.
    pub(super) fn of(block: &Block, expressions: &[Expression], width: usize) -> Option<Top> {
        let aggregation = block.aggregation.as_ref()?;
        let by = block.order_by.first()?;
        let is_count = |aggregate: &Aggregate| {
            aggregate.function == AggregateFunction::Count
                && aggregate.argument.is_none()
                && aggregate.filter.is_none()
                && !aggregate.distinct
        };
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

    /// Leaves out rows that are not used. Rows with the count of the last one that is used stay: what else orders them is not
    /// known here.
    pub(super) fn retain<T>(self, rows: &mut Vec<T>, count: impl Fn(&T) -> u64) {
        let last = self.last(rows.iter().map(&count));
        rows.retain(|row| self.is_used(count(row), last));
    }

    /// What [`Top::is_used`] needs to know of all counts.
    pub(super) fn last(self, counts: impl Iterator<Item = u64>) -> u64 {
        let Ok(limit) = usize::try_from(self.limit) else {
            return 0;
        };
        if limit == 0 {
            return u64::MAX;
        }
        // The best so far, and some that came since they were last looked through.
        let mut best: Vec<u64> = Vec::new();
        let mut least = 0;
        for rank in counts.map(|count| self.rank(count)) {
            if rank < least {
                continue;
            }
            best.push(rank);
            if best.len() >= limit.saturating_mul(2).max(LOOK_MIN) {
                least = least_of(&mut best, limit);
            }
        }
        match best.len() < limit {
            true => 0,
            false => least_of(&mut best, limit),
        }
    }

    /// Whether a row may be among the first, by its count and what `last` says of all counts.
    pub(super) fn is_used(self, count: u64, last: u64) -> bool {
        self.rank(count) >= last
    }

    /// Larger the earlier rows with this count come.
    fn rank(self, count: u64) -> u64 {
        match self.descending {
            true => count,
            false => !count,
        }
    }
}

/// Fewer ranks are not looked through.
const LOOK_MIN: usize = 1 << 10;

/// Keeps the `limit` greatest ranks and gives the least of them.
fn least_of(best: &mut Vec<u64>, limit: usize) -> u64 {
    let (_, least, _) = best.select_nth_unstable_by(limit - 1, |left, right| right.cmp(left));
    let least = *least;
    best.truncate(limit);
    least
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_rows_by_count_are_there(
            counts in proptest::collection::vec(0..40u64, 0..5_000),
            limit in 0..3_000u64,
            descending: bool,
        ) {
            let top = Top { limit, descending };
            let mut sorted = counts.clone();
            sorted.sort_unstable();
            if descending {
                sorted.reverse();
            }
            let mut kept = counts.clone();
            top.retain(&mut kept, |&count| count);
            let last = (limit as usize).checked_sub(1).and_then(|last| sorted.get(last));
            let expected = counts.into_iter().filter(|&count| match last {
                None => limit > 0,
                Some(&last) if descending => count >= last,
                Some(&last) => count <= last,
            });
            prop_assert_eq!(kept, expected.collect::<Vec<_>>());
        }
    }
}
