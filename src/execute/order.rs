//! ORDER BY, LIMIT and OFFSET over the items that rows are made of.
//!
//! Items are sorted before rows are made of them, so what a row costs is paid
//! only for rows that are returned. Equal items keep the order they came in.

use std::cmp::Ordering;

use zipfdb_sql::plan::OrderBy;

/// What to do with the items of a query.
pub(super) struct Order<'a> {
    /// The first key decides, then the next.
    pub(super) order_by: &'a [OrderBy],
    /// How many items at most.
    pub(super) limit: Option<u64>,
    /// How many items to leave out first.
    pub(super) offset: u64,
}

impl Order<'_> {
    /// Sorts and cuts `items`; `compare` orders two of them by a column of the rows.
    ///
    /// With a limit, only the items that can be returned are sorted.
    pub(super) fn apply<T>(
        &self,
        mut items: Vec<T>,
        compare: impl Fn(&T, &T, usize) -> Ordering,
    ) -> Vec<T> {
        let skip = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let take = self.limit.map_or(usize::MAX, |limit| {
            usize::try_from(limit).unwrap_or(usize::MAX)
        });
        let end = skip.saturating_add(take).min(items.len());
        let begin = skip.min(end);
        if !self.order_by.is_empty() {
            // The index makes the order total, so an unstable selection keeps ties in order.
            let mut indexed: Vec<(usize, T)> = items.into_iter().enumerate().collect();
            let total = |a: &(usize, T), b: &(usize, T)| {
                let keys = self.order_by.iter();
                keys.map(|key| {
                    let ordering = compare(&a.1, &b.1, key.column);
                    if key.descending {
                        ordering.reverse()
                    } else {
                        ordering
                    }
                })
                .find(|ordering| ordering.is_ne())
                .unwrap_or_else(|| a.0.cmp(&b.0))
            };
            if end < indexed.len() {
                indexed.select_nth_unstable_by(end, total);
                indexed.truncate(end);
            }
            indexed.sort_unstable_by(total);
            items = indexed.into_iter().map(|(_, item)| item).collect();
        }
        items.truncate(end);
        items.drain(..begin);
        items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(order_by: &[OrderBy], limit: Option<u64>, offset: u64) -> Vec<(u32, char)> {
        let items = vec![(2, 'a'), (1, 'b'), (2, 'c'), (1, 'd'), (3, 'e')];
        let order = Order {
            order_by,
            limit,
            offset,
        };
        order.apply(items, |a, b, column| match column {
            0 => a.0.cmp(&b.0),
            _ => a.1.cmp(&b.1),
        })
    }

    #[test]
    fn ties_keep_the_order_they_came_in() {
        let key = OrderBy {
            column: 0,
            descending: true,
        };
        let all = [(3, 'e'), (2, 'a'), (2, 'c'), (1, 'b'), (1, 'd')];
        for limit in 0..7 {
            for offset in 0..7 {
                let expected: Vec<_> = all.iter().copied().skip(offset).take(limit).collect();
                assert_eq!(ordered(&[key], Some(limit as u64), offset as u64), expected);
            }
        }
        assert_eq!(ordered(&[key], None, u64::MAX), []);
    }

    #[test]
    fn later_keys_decide_ties_and_no_key_keeps_the_order() {
        let keys = [
            OrderBy {
                column: 0,
                descending: false,
            },
            OrderBy {
                column: 1,
                descending: true,
            },
        ];
        assert_eq!(
            ordered(&keys, None, 0),
            [(1, 'd'), (1, 'b'), (2, 'c'), (2, 'a'), (3, 'e')]
        );
        assert_eq!(ordered(&[], Some(2), 1), [(1, 'b'), (2, 'c')]);
    }
}
