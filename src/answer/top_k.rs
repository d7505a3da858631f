//! Rows by count, of which only some are used.
//!
//! Invariant: the kept rows include those that any order by count, and by further keys, puts first.

/// The used rows of groups that HAVING chooses by their counts, or that ORDER BY orders by their counts and LIMIT cuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Top {
    /// The number of rows that are used.
    pub(crate) limit: u64,
    /// Whether the largest counts come first.
    pub(crate) descending: bool,
    /// The least and the greatest count of used rows.
    pub(crate) counts: (u64, u64),
}

impl Top {
    /// The first `limit` rows, with any counts.
    #[cfg(test)]
    pub(crate) fn of_all(limit: u64, descending: bool) -> Top {
        Top {
            limit,
            descending,
            counts: (0, u64::MAX),
        }
    }

    /// The same with `rows` more rows.
    pub(crate) fn with_more(self, rows: u64) -> Top {
        Top {
            limit: self.limit.saturating_add(rows),
            ..self
        }
    }

    /// Drops unused rows. Rows with the count of the last used one stay: their further order is not known here.
    pub(crate) fn retain<T>(self, rows: &mut Vec<T>, count: impl Fn(&T) -> u64) {
        let last = self.last(rows.iter().map(&count));
        rows.retain(|row| self.is_used(count(row), last));
    }

    /// The rank of the last used row, for [`Top::is_used`]; 0 if no row is cut off.
    pub(crate) fn last(self, counts: impl Iterator<Item = u64>) -> u64 {
        if self.limit == 0 || self.limit == u64::MAX {
            return 0;
        }
        let Ok(limit) = usize::try_from(self.limit) else {
            return 0;
        };
        // The best so far, and some that came since the last selection.
        let mut best: Vec<u64> = Vec::new();
        let mut least = 0;
        for count in counts {
            let rank = self.rank(count);
            if rank < least || !self.is_counted(count) {
                continue;
            }
            best.push(rank);
            if best.len() >= limit.saturating_mul(2).max(LOOK_MIN) {
                least = least_of(&mut best, limit);
            }
        }
        if best.len() < limit {
            0
        } else {
            least_of(&mut best, limit)
        }
    }

    /// Whether a row may be among the first, by its count and the value of `last`.
    pub(crate) fn is_used(self, count: u64, last: u64) -> bool {
        self.limit > 0 && self.is_counted(count) && self.rank(count) >= last
    }

    fn is_counted(self, count: u64) -> bool {
        (self.counts.0..=self.counts.1).contains(&count)
    }

    /// A rank that is larger for counts of earlier rows.
    fn rank(self, count: u64) -> u64 {
        if self.descending { count } else { !count }
    }
}

/// The least number of ranks before a selection.
const LOOK_MIN: usize = 1 << 10;

/// Keeps the `limit` greatest ranks and returns the least of them.
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
            limit in prop_oneof![0..3u64, 0..3_000u64, Just(u64::MAX)],
            descending: bool,
            bounds in prop_oneof![Just((0, u64::MAX)), (0..40u64, 0..40u64)],
        ) {
            let top = Top { limit, descending, counts: bounds };
            let mut sorted = counts.clone();
            sorted.retain(|count| (bounds.0..=bounds.1).contains(count));
            sorted.sort_unstable();
            if descending {
                sorted.reverse();
            }
            let mut kept = counts.clone();
            top.retain(&mut kept, |&count| count);
            let last = (limit as usize).checked_sub(1).and_then(|last| sorted.get(last));
            let counts = counts.into_iter().filter(|count| (bounds.0..=bounds.1).contains(count));
            let expected = counts.filter(|&count| match last {
                None => limit > 0,
                Some(&last) if descending => count >= last,
                Some(&last) => count <= last,
            });
            prop_assert_eq!(kept, expected.collect::<Vec<_>>());
        }
    }
}
