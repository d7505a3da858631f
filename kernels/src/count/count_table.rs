//! Tables of counts by row and column, most of them 0.
//!
//! The invariant: a row lists its columns ascending. Whether rows are words or files, a table does not know.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use crate::memory::huge_pages::on_huge_pages;
use crate::numbers::offsets::{offsets_of, split_mut};

/// Entries of a range of columns, about: half a megabyte stays in cache while it is written.
const RANGE_ENTRIES: usize = 1 << 16;

/// Rows that a thread cuts at least.
const ROWS_MIN: usize = 16;

/// Entries of a row in a range, at least, on average.
const ROW_ENTRIES_MIN: usize = 4;

/// For each row the columns that it has, ascending, with a count each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountTable {
    /// `[rows + 1]` into `entries`.
    pub offsets: Vec<usize>,
    /// Column and count.
    pub entries: Vec<(u32, u32)>,
}

impl CountTable {
    /// Size of the arrays.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.offsets[..]) + size_of_val(&self.entries[..])
    }

    /// A table of these rows.
    pub fn of_rows(rows: Vec<Vec<(u32, u32)>>) -> CountTable {
        let mut table = CountTable {
            offsets: Vec::with_capacity(rows.len() + 1),
            entries: Vec::with_capacity(rows.iter().map(Vec::len).sum()),
        };
        table.offsets.push(0);
        for row in rows {
            table.entries.extend(row);
            table.offsets.push(table.entries.len());
        }
        table
    }

    /// The columns and counts of a row.
    pub fn row(&self, row: usize) -> &[(u32, u32)] {
        &self.entries[self.offsets[row]..self.offsets[row + 1]]
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// The same counts with rows and columns swapped. All columns are below `columns`.
    ///
    /// A counting sort by column: O(entries + rows + columns), parallel on the current rayon pool.
    pub fn transposed(&self, columns: usize) -> CountTable {
        if columns < self.rows() {
            return self.transposed_by_parts(columns);
        }
        let rows: Vec<&[(u32, u32)]> = (0..self.rows()).map(|row| self.row(row)).collect();
        transposed(&rows, columns)
    }

    /// Parallel over parts of the entries: each has a place in every column.
    fn transposed_by_parts(&self, columns: usize) -> CountTable {
        // Every task has a counter and a slice a column, which entries must be worth.
        let tasks = rayon::current_num_threads().min(self.entries.len() / columns.max(1) / 8 + 1);
        let part = self.entries.len().div_ceil(tasks).max(1);
        let counts: Vec<Vec<usize>> = (self.entries.par_chunks(part))
            .map(|entries| {
                let mut counts = vec![0; columns];
                for &(column, _) in entries {
                    counts[column as usize] += 1;
                }
                counts
            })
            .collect();
        let mut entries = on_huge_pages(vec![(0, 0); self.entries.len()]);
        let lengths = (0..columns).flat_map(|column| counts.iter().map(move |c| c[column]));
        let cuts = offsets_of(lengths);
        let mut slices: Vec<Vec<&mut [(u32, u32)]>> =
            counts.iter().map(|_| Vec::with_capacity(columns)).collect();
        let mut offsets = vec![0];
        for (index, slice) in split_mut(&mut entries, &cuts).into_iter().enumerate() {
            slices[index % counts.len()].push(slice);
        }
        offsets.extend((1..=columns).map(|column| cuts[column * counts.len()]));
        (slices.into_par_iter().enumerate()).for_each(|(task, mut slices)| {
            let range = task * part..self.entries.len().min((task + 1) * part);
            let mut row = self.offsets.partition_point(|&start| start <= range.start) - 1;
            for at in range {
                while at >= self.offsets[row + 1] {
                    row += 1;
                }
                let (column, count) = self.entries[at];
                let slice = std::mem::take(&mut slices[column as usize]);
                if let Some((first, rest)) = slice.split_first_mut() {
                    // Rows are files or words, which are u32.
                    *first = (row as u32, count);
                    slices[column as usize] = rest;
                }
            }
        });
        CountTable { offsets, entries }
    }

    /// Of each row the `limit` entries with the largest counts, at least one, in order of their columns; also others with the count
    /// of the last of them, so that whatever else orders entries finds all that it may put first.
    pub fn largest(&self, limit: u32) -> CountTable {
        let limit = limit.max(1) as usize;
        let largest = |row: usize| {
            let entries = self.row(row);
            if entries.len() <= limit {
                return entries.to_vec();
            }
            let mut counts: Vec<u32> = entries.iter().map(|&(_, count)| count).collect();
            let last = counts.len() - limit;
            let low = *counts.select_nth_unstable(last).1;
            let kept = entries.iter().filter(|(_, count)| *count >= low);
            kept.copied().collect()
        };
        let rows = (0..self.rows()).into_par_iter().map(largest);
        CountTable::of_rows(rows.collect())
    }

    /// Of each row the `k` entries with the largest counts, the largest first;
    /// of equal counts those with the smaller `rank` of the column first.
    pub fn top(&self, k: usize, rank: impl Fn(u32) -> u32 + Sync) -> Vec<Vec<(u32, u32)>> {
        let top = |row: usize| {
            let mut entries = self.row(row).to_vec();
            let order = |&(column, count): &(u32, u32)| (std::cmp::Reverse(count), rank(column));
            if k < entries.len() && k > 0 {
                entries.select_nth_unstable_by_key(k - 1, order);
            }
            entries.truncate(k);
            entries.sort_unstable_by_key(order);
            entries
        };
        (0..self.rows()).into_par_iter().map(top).collect()
    }
}

/// Rows of which many are the same ones of a table that is kept elsewhere.
#[derive(Clone, Debug, Default)]
pub struct SharedRows {
    shared: Arc<CountTable>,
    /// Rows that are not shared: their numbers begin behind those that are.
    own: CountTable,
    /// The number of each row; none: rows are numbered in their order.
    numbers: Option<Vec<u32>>,
}

impl SharedRows {
    /// For each number the row of `shared` or, behind those, of `own`.
    pub fn new(shared: Arc<CountTable>, own: CountTable, numbers: Vec<u32>) -> SharedRows {
        SharedRows {
            shared,
            own,
            numbers: Some(numbers),
        }
    }

    /// The number of a row.
    #[inline]
    pub fn number(&self, row: usize) -> usize {
        self.numbers.as_ref().map_or(row, |n| n[row] as usize)
    }

    /// The number behind all.
    pub fn end(&self) -> usize {
        self.shared.rows() + self.own.rows()
    }

    /// For each number the row that has it here or, behind those, the one of `more`.
    pub fn chosen(mut self, more: CountTable, numbers: Vec<u32>) -> SharedRows {
        let before = self.own.entries.len();
        if self.own.offsets.is_empty() {
            self.own.offsets.push(0);
        }
        let ends = more.offsets.iter().skip(1);
        self.own.offsets.extend(ends.map(|end| before + end));
        self.own.entries.extend(more.entries);
        self.numbers = Some(numbers);
        self
    }

    /// The columns and counts of a row.
    #[inline]
    pub fn row(&self, row: usize) -> &[(u32, u32)] {
        let number = self.number(row);
        match number.checked_sub(self.shared.rows()) {
            None => self.shared.row(number),
            Some(own) => self.own.row(own),
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        let numbers = self.numbers.as_ref();
        numbers.map_or_else(|| self.end(), Vec::len)
    }

    /// A table of the rows.
    pub fn into_table(self) -> CountTable {
        if self.shared.rows() == 0 && self.numbers.is_none() {
            return self.own;
        }
        CountTable::of_rows((0..self.rows()).map(|row| self.row(row).to_vec()).collect())
    }
}

impl From<CountTable> for SharedRows {
    fn from(own: CountTable) -> SharedRows {
        SharedRows {
            own,
            ..SharedRows::default()
        }
    }
}

impl From<Arc<CountTable>> for SharedRows {
    fn from(shared: Arc<CountTable>) -> SharedRows {
        SharedRows {
            shared,
            ..SharedRows::default()
        }
    }
}

impl PartialEq for SharedRows {
    fn eq(&self, other: &SharedRows) -> bool {
        let same = |row| self.row(row) == other.row(row);
        self.rows() == other.rows() && (0..self.rows()).all(same)
    }
}

impl Eq for SharedRows {}

/// Turns rows round: for each column the rows that have it, ascending.
///
/// Parallel over ranges of columns. Of each row a range has a part, as columns ascend, and what it makes of them lies
/// together: no thread writes where another does, and none far away.
pub(crate) fn transposed(rows: &[&[(u32, u32)]], columns: usize) -> CountTable {
    let size: usize = rows.iter().map(|row| row.len()).sum();
    let ranges = (size / RANGE_ENTRIES).min(size / ROW_ENTRIES_MIN / rows.len().max(1));
    let ranges = ranges.clamp(1, columns.max(1));
    let width = columns.div_ceil(ranges);
    let columns_of =
        |range: usize| (range * width).min(columns)..((range + 1) * width).min(columns);

    // By row: where its part for each range begins.
    let mut cuts = vec![0u32; rows.len() * (ranges + 1)];
    (cuts.par_chunks_mut(ranges + 1).zip(rows))
        .with_min_len(ROWS_MIN)
        .for_each(|(cuts, row)| {
            let mut start = 0;
            for (range, cut) in cuts.iter_mut().enumerate() {
                let first = columns_of(range).start;
                start += row[start..].partition_point(|&(column, _)| (column as usize) < first);
                // A row has no more entries than columns, which are u32.
                *cut = start as u32;
            }
        });
    let parts = |range: usize| {
        let cuts = cuts.chunks_exact(ranges + 1);
        rows.iter()
            .zip(cuts)
            .map(move |(row, cuts)| &row[cuts[range] as usize..cuts[range + 1] as usize])
    };

    let count = |range: usize| {
        let columns: Range<usize> = columns_of(range);
        let mut counts = vec![0u32; columns.len()];
        for &(column, _) in parts(range).flatten() {
            counts[column as usize - columns.start] += 1;
        }
        counts
    };
    let counts: Vec<Vec<u32>> = (0..ranges).into_par_iter().map(count).collect();
    let offsets = offsets_of(counts.iter().flatten().map(|&count| count as usize));
    let mut entries = on_huge_pages(vec![(0, 0); size]);
    let ends = (0..ranges).map(|range| offsets[columns_of(range).end]);
    let range_offsets: Vec<usize> = std::iter::once(0).chain(ends).collect();
    let tasks = split_mut(&mut entries, &range_offsets)
        .into_par_iter()
        .zip(counts);
    tasks.enumerate().for_each(|(range, (target, mut places))| {
        let first = columns_of(range).start;
        let mut start = 0;
        for place in &mut places {
            (*place, start) = (start, start + *place);
        }
        // Rows are files or words, which are u32.
        for (row, part) in (0u32..).zip(parts(range)) {
            for &(column, count) in part {
                let place = &mut places[column as usize - first];
                target[*place as usize] = (row, count);
                *place += 1;
            }
        }
    });
    CountTable { offsets, entries }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::test_grammars::{Numbers, in_pools};

    /// A table whose columns occur more often the lower they are, as words do.
    fn random_table(rows: u32, columns: u64, entries: u64) -> CountTable {
        let mut numbers = Numbers::new(u64::from(rows));
        let row = |numbers: &mut Numbers| {
            let mut row: Vec<(u32, u32)> = (0..numbers.below(entries + 1))
                .map(|_| {
                    let end = numbers.below(columns) + 1;
                    (numbers.below(end) as u32, 1 + numbers.below(9) as u32)
                })
                .collect();
            row.sort_unstable();
            row.dedup_by_key(|entry| entry.0);
            row
        };
        CountTable::of_rows((0..rows).map(|_| row(&mut numbers)).collect())
    }

    #[test]
    fn tables_turned_round_list_the_rows_of_each_column() {
        for (rows, columns, entries) in [
            (0, 3, 0),
            (1, 1, 1),
            (5, 1_000, 0),
            (3, 50, 40),
            (300, 7, 7),
            (200, 3_000, 2_000),
        ] {
            let table = random_table(rows, columns, entries);
            let mut naive = vec![Vec::new(); columns as usize];
            for row in 0..table.rows() {
                for &(column, count) in table.row(row) {
                    naive[column as usize].push((row as u32, count));
                }
            }
            let found = in_pools(|| table.transposed(columns as usize));
            assert_eq!(found, CountTable::of_rows(naive));
            assert_eq!(found.transposed(rows as usize), table);
        }
    }

    #[test]
    fn the_largest_entries_of_a_row_are_those_that_a_sort_puts_first() {
        for (rows, columns, entries) in [(0, 1, 0), (30, 9, 9), (200, 3_000, 400)] {
            let table = random_table(rows, columns, entries);
            for limit in [0, 1, 2, 7, 100, u32::MAX] {
                let found = in_pools(|| table.largest(limit));
                for row in 0..table.rows() {
                    let mut counts: Vec<u32> = table.row(row).iter().map(|entry| entry.1).collect();
                    counts.sort_unstable_by(|left, right| right.cmp(left));
                    let last = limit.max(1) as usize - 1;
                    let low = counts.get(last).copied().unwrap_or(0);
                    let kept = table.row(row).iter().filter(|entry| entry.1 >= low);
                    assert!(found.row(row).iter().eq(kept), "{limit} of row {row}");
                }
            }
        }
    }

    #[test]
    fn shared_rows_are_those_of_both_tables() {
        let table = |rows: &[&[(u32, u32)]]| {
            CountTable::of_rows(rows.iter().map(|row| row.to_vec()).collect())
        };
        let shared = Arc::new(table(&[&[(0, 2), (3, 1)], &[]]));
        let own = table(&[&[(7, 7)]]);
        let rows = SharedRows::new(shared.clone(), own.clone(), vec![2, 0, 0, 1]);
        let expected = table(&[&[(7, 7)], &[(0, 2), (3, 1)], &[(0, 2), (3, 1)], &[]]);
        assert_eq!(rows.rows(), 4);
        assert_eq!(rows, SharedRows::from(expected.clone()));
        assert_eq!(rows.clone().into_table(), expected);
        assert_eq!(SharedRows::from(shared.clone()).into_table(), *shared);
        assert_eq!(SharedRows::from(own.clone()).into_table(), own);
        assert_ne!(SharedRows::from(own.clone()), SharedRows::from(shared));
        assert_eq!(SharedRows::default().rows(), 0);
        for rows in [rows.clone(), SharedRows::from(expected.clone())] {
            let (first, end) = (rows.number(0) as u32, rows.end() as u32);
            let more = table(&[&[], &[(1, 1)]]);
            let chosen = rows.chosen(more, vec![end + 1, first, end]);
            let expected = table(&[&[(1, 1)], &[(7, 7)], &[]]);
            assert_eq!(chosen.into_table(), expected);
        }
        let more = SharedRows::default().chosen(own.clone(), vec![0, 0]);
        assert_eq!(more.into_table(), table(&[&[(7, 7)], &[(7, 7)]]));
    }

    #[test]
    fn the_top_of_a_row_is_ordered_by_count_then_rank() {
        let table = CountTable {
            offsets: vec![0, 4, 4],
            entries: vec![(0, 2), (3, 7), (5, 2), (9, 1)],
        };
        assert_eq!(
            table.top(2, |word| 100 - word),
            [vec![(3, 7), (5, 2)], vec![]]
        );
        assert_eq!(table.top(2, |word| word)[0], [(3, 7), (0, 2)]);
        assert_eq!(table.top(0, |word| word)[0], []);
        assert_eq!(table.top(9, |word| word)[0].len(), 4);
    }
}
