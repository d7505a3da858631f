//! Grouping rows of counts whose distributions are alike, so that each group can share one table.
//!
//! K-means in bits: a row costs, under a group, what coding it with the group's table would cost; each row goes to
//! the group where it costs least, tables follow, a few times over. Rows are handled independently and all sums are
//! of integers, so threads do not change the outcome.

use super::logarithm::log2;
use multiversion::multiversion;
use rayon::prelude::*;
use std::ops::Range;

/// Rows of counts, sparse: the columns of a row and how often each occurs.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// `[rows + 1]` into `columns` and `counts`.
    offsets: Vec<u32>,
    columns: Vec<u32>,
    counts: Vec<u32>,
}

impl Rows {
    /// Takes distinct rows and columns with their counts, which are sorted; rows are `0..rows`.
    pub fn from_sorted_counts<T: Sync>(
        rows: usize,
        counted: &[T],
        count_of: impl Fn(&T) -> (u32, u32, u32) + Sync,
    ) -> Rows {
        // Columns fit u32, as do counted pairs.
        let start = |row| counted.partition_point(|one| (count_of(one).0 as usize) < row) as u32;
        let counts = counted.par_iter().map(|one| {
            let (_, column, count) = count_of(one);
            (column, count)
        });
        let (columns, counts) = counts.unzip();
        Rows {
            offsets: (0..=rows).into_par_iter().map(start).collect(),
            columns,
            counts,
        }
    }

    /// Takes the counts of rows of `columns` each.
    pub fn from_dense(columns: usize, counts: &[u32]) -> Rows {
        let mut sparse = Rows {
            offsets: vec![0],
            ..Rows::default()
        };
        for row in counts.chunks_exact(columns) {
            for (column, &count) in row.iter().enumerate().filter(|(_, count)| **count > 0) {
                sparse.columns.push(column as u32); // columns fit u32, as do counted pairs
                sparse.counts.push(count);
            }
            sparse.offsets.push(sparse.columns.len() as u32);
        }
        sparse
    }

    /// The same counts with rows and columns exchanged; columns are `0..columns`.
    pub fn transposed(&self, columns: usize) -> Rows {
        let mut offsets = vec![0u32; columns + 1];
        for &column in &self.columns {
            offsets[column as usize + 1] += 1;
        }
        for index in 0..columns {
            offsets[index + 1] += offsets[index];
        }
        let mut turned = Rows {
            columns: vec![0; self.columns.len()],
            counts: vec![0; self.counts.len()],
            offsets,
        };
        // Each task goes through all rows and takes the columns that are its own, which lie together.
        let mut parts = Vec::new();
        let (mut to_columns, mut to_counts) = (&mut turned.columns[..], &mut turned.counts[..]);
        for own in even_parts(&turned.offsets, rayon::current_num_threads()) {
            let offsets = &turned.offsets[own.start..=own.end];
            let size = (offsets[own.len()] - offsets[0]) as usize;
            let (part_columns, part_counts);
            (part_columns, to_columns) = to_columns.split_at_mut(size);
            (part_counts, to_counts) = to_counts.split_at_mut(size);
            parts.push((own.start as u32, offsets, part_columns, part_counts)); // columns fit u32
        }
        let parts = parts.into_par_iter();
        parts.for_each(|(first, offsets, to_columns, to_counts)| {
            let mut next: Vec<u32> = offsets.iter().map(|offset| offset - offsets[0]).collect();
            let end = first + (offsets.len() - 1) as u32;
            for row in 0..self.len() {
                let (columns, counts) = self.entries(row);
                let from = columns.partition_point(|&column| column < first);
                let entries = columns[from..].iter().zip(&counts[from..]);
                for (column, count) in entries.take_while(|(column, _)| **column < end) {
                    let place = &mut next[(column - first) as usize];
                    to_columns[*place as usize] = row as u32;
                    to_counts[*place as usize] = *count;
                    *place += 1;
                }
            }
        });
        turned
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The columns of a row, which are sorted, and their counts.
    fn entries(&self, row: usize) -> (&[u32], &[u32]) {
        let range = self.offsets[row] as usize..self.offsets[row + 1] as usize;
        (&self.columns[range.clone()], &self.counts[range])
    }

    /// The columns of a row and their counts.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (u32, u32)> {
        let (columns, counts) = self.entries(row);
        columns.iter().copied().zip(counts.iter().copied())
    }

    /// How often a row occurs.
    pub fn total(&self, row: usize) -> u64 {
        self.row(row).map(|(_, count)| u64::from(count)).sum()
    }
}

/// Cuts rows with these offsets into `parts` ranges with about equal numbers of entries.
fn even_parts(offsets: &[u32], parts: usize) -> impl Iterator<Item = Range<usize>> {
    let rows = offsets.len() - 1;
    let entries = u64::from(offsets[rows]);
    let mut start = 0;
    (1..=parts).map(move |part| {
        let wanted = entries * part as u64 / parts as u64;
        let end = if part == parts {
            rows
        } else {
            offsets.partition_point(|&offset| u64::from(offset) < wanted)
        };
        let range = start..end.clamp(start, rows);
        start = range.end;
        range
    })
}

/// A row and a column as one number, by which pairs are sorted.
pub fn pair_key(row: u32, column: u32) -> u64 {
    u64::from(row) << 32 | u64::from(column)
}

/// Counts equal pairs of `pairs`, which are sorted: rows, columns, and how often they occur together.
pub fn count_pairs(pairs: &[u64]) -> Vec<(u32, u32, u32)> {
    let groups = pairs.par_chunk_by(|left, right| left == right);
    let counted = groups.map(|group| {
        let pair = group[0];
        // As many of a pair as pairs at most, and those fit u32.
        ((pair >> 32) as u32, pair as u32, group.len() as u32)
    });
    counted.collect()
}

/// The group of each row, from 0; groups are below `groups`.
///
/// The heaviest rows are the first centres. `column_class[column]`, below `classes`, is what a column counts as.
pub struct Groups {
    groups: usize,
    /// Class of each row.
    pub of: Vec<u8>,
}

impl Groups {
    /// Puts the `groups` heaviest rows into a group each and the others anywhere.
    pub fn seeded(rows: &Rows, groups: usize) -> Groups {
        debug_assert!(groups > 0 && groups <= 256);
        let mut order: Vec<(u64, u32)> = (0..rows.len())
            .into_par_iter()
            .map(|row| (rows.total(row), row as u32))
            .collect();
        order.par_sort_unstable_by(|left, right| right.0.cmp(&left.0).then(left.1.cmp(&right.1)));
        let mut of = vec![0; rows.len()];
        for (rank, &(_, row)) in order.iter().enumerate() {
            of[row as usize] = (rank % groups) as u8; // groups <= 256
        }
        Groups { groups, of }
    }

    /// Moves every row to the group where it costs least.
    pub fn improve(
        &mut self,
        rows: &Rows,
        column_class: impl Fn(u32) -> u8 + Sync,
        classes: usize,
    ) {
        let costs = self.costs(rows, &column_class, classes);
        let groups = self.groups;
        let mut rest = &mut self.of[..];
        let parts = even_parts(&rows.offsets, PARTS_A_THREAD * rayon::current_num_threads());
        let parts = parts.map(|part| {
            let (of, after) = std::mem::take(&mut rest).split_at_mut(part.len());
            rest = after;
            (part, of)
        });
        let parts: Vec<(Range<usize>, &mut [u8])> = parts.collect();
        parts.into_par_iter().for_each(|(part, of)| {
            let (mut occurring, mut sums) = (OccurringClasses::new(classes), vec![0; groups]);
            for (row, own) in part.zip(of) {
                let occurring = occurring.of_row(rows, row, &column_class);
                let (best, least) = cheapest(occurring, &costs, &mut sums);
                if least < sums[usize::from(*own)] {
                    *own = best as u8; // groups <= 256
                }
            }
        });
    }

    /// `[classes * groups]`: what one occurrence of a class costs under the table of a group.
    fn costs(
        &self,
        rows: &Rows,
        column_class: &(impl Fn(u32) -> u8 + Sync),
        classes: usize,
    ) -> Vec<u16> {
        // Sums that stay at the most they can be do not depend on their order.
        let parts = (rows.columns.len() / TASK_ENTRIES).clamp(1, rayon::current_num_threads());
        let parts: Vec<Range<usize>> = even_parts(&rows.offsets, parts).collect();
        let counts = parts
            .into_par_iter()
            .map(|part| {
                let mut counts = vec![0u32; classes * self.groups];
                for row in part {
                    let group = usize::from(self.of[row]);
                    for (column, count) in rows.row(row) {
                        let class = usize::from(column_class(column));
                        let count_of = &mut counts[class * self.groups + group];
                        *count_of = count_of.saturating_add(count.saturating_mul(COUNT_SCALE));
                    }
                }
                counts
            })
            .reduce_with(|mut left, right| {
                for (left, right) in left.iter_mut().zip(right) {
                    *left = left.saturating_add(right);
                }
                left
            })
            .unwrap_or_else(|| vec![0; classes * self.groups]);
        let mut totals = vec![0u32; self.groups];
        for counts in counts.chunks_exact(self.groups) {
            for (total, count) in totals.iter_mut().zip(counts) {
                *total = total.saturating_add(count + 1);
            }
        }
        counts
            .chunks_exact(self.groups)
            .flat_map(|counts| {
                totals
                    .iter()
                    .zip(counts)
                    .map(|(&total, &count)| (log2(total) - log2(count + 1)) as u16)
            })
            .collect()
    }
}

/// The classes that occur in a row.
struct OccurringClasses {
    /// By class; 0 between rows.
    counts: Vec<u32>,
    /// Each with how often it occurs, those that occur more often several times.
    occurring: Vec<(u8, u16)>,
}

impl OccurringClasses {
    /// For rows with `classes` classes.
    fn new(classes: usize) -> OccurringClasses {
        OccurringClasses {
            counts: vec![0; classes],
            occurring: Vec::new(),
        }
    }

    /// The classes of a row's columns, ascending, with their scaled counts.
    fn of_row(
        &mut self,
        rows: &Rows,
        row: usize,
        column_class: &impl Fn(u32) -> u8,
    ) -> &[(u8, u16)] {
        const BITS: usize = u64::BITS as usize;
        let mut met = [0u64; CLASSES_MAX / BITS];
        for (column, count) in rows.row(row) {
            let class = usize::from(column_class(column));
            self.counts[class] += count;
            met[class / BITS] |= 1 << (class % BITS);
        }
        // Keeps sums of costs below 2^32: a cost is below 2^10.
        let shift = (u64::BITS - rows.total(row).leading_zeros()).saturating_sub(21);
        self.occurring.clear();
        for (index, mut bits) in met.into_iter().enumerate() {
            while bits > 0 {
                let class = index * BITS + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let mut left = (std::mem::take(&mut self.counts[class]) >> shift).max(1);
                while left > 0 {
                    let times = left.min(u32::from(u16::MAX)) as u16;
                    left -= u32::from(times);
                    self.occurring.push((class as u8, times)); // classes <= 256
                }
            }
        }
        &self.occurring
    }
}

/// The first of the groups where a row costs least, and how much: `occurring` are the classes that occur in it and how often,
/// `costs` what one of each class costs in each group. `sums` has the cost in each group then.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2"))]
fn cheapest(occurring: &[(u8, u16)], costs: &[u16], sums: &mut [u32]) -> (usize, u32) {
    sums.fill(0);
    for &(class, times) in occurring {
        let costs = &costs[usize::from(class) * sums.len()..][..sums.len()];
        for (sum, &cost) in sums.iter_mut().zip(costs) {
            *sum += u32::from(times) * u32::from(cost);
        }
    }
    let least = sums.iter().fold(u32::MAX, |least, &sum| least.min(sum));
    let has_least = |sums: &[u32]| sums.iter().fold(false, |has, &sum| has | (sum == least));
    let block = sums.chunks(BLOCK).position(has_least).unwrap_or(0) * BLOCK;
    let best = sums[block..].iter().position(|&sum| sum == least);
    (block + best.unwrap_or(0), least)
}

/// Groups that are examined together.
const BLOCK: usize = 32;

/// Numbers of classes are below this.
const CLASSES_MAX: usize = 256;

/// Entries of rows that one task counts at least.
const TASK_ENTRIES: usize = 1 << 13;

/// Parts that rows are moved in, for each thread: some take longer than others.
const PARTS_A_THREAD: usize = 4;

/// What was never seen counts as one part in this many of something seen once.
const COUNT_SCALE: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of pairs, which are sorted.
    fn rows_of(rows: usize, pairs: &[(u32, u32)]) -> Rows {
        let keys: Vec<u64> = (pairs.iter())
            .map(|&(row, column)| pair_key(row, column))
            .collect();
        Rows::from_sorted_counts(rows, &count_pairs(&keys), |&pair| pair)
    }

    #[test]
    fn rows_turned_over_twice_are_the_same() {
        for columns in [1, 2, 7, 300] {
            let pairs: Vec<(u32, u32)> = (0..900u32)
                .map(|i| (i / 30, i.wrapping_mul(2_654_435_761) >> 16))
                .map(|(row, number)| (row, number % columns))
                .collect();
            let mut sorted = pairs.clone();
            sorted.sort_unstable();
            let rows = rows_of(31, &sorted);
            let mut turned: Vec<(u32, u32)> =
                pairs.iter().map(|&(row, column)| (column, row)).collect();
            turned.sort_unstable();
            let expected = rows_of(columns as usize + 1, &turned);
            let found = rows.transposed(columns as usize + 1);
            for column in 0..expected.len() {
                assert!(found.row(column).eq(expected.row(column)), "{columns}");
            }
            let again = found.transposed(31);
            assert!(
                (0..31).all(|row| again.row(row).eq(rows.row(row))),
                "{columns}"
            );
        }
    }

    #[test]
    fn rows_count_pairs_and_turn_over() {
        let rows = rows_of(4, &[(0, 1), (0, 1), (0, 2), (2, 0), (2, 2)]);
        assert_eq!(rows.row(0).collect::<Vec<_>>(), [(1, 2), (2, 1)]);
        assert_eq!(rows.row(1).count(), 0);
        assert_eq!(rows.total(2), 2);
        assert_eq!(rows.row(3).count(), 0);
        let turned = rows.transposed(3);
        assert_eq!(turned.row(2).collect::<Vec<_>>(), [(0, 1), (2, 1)]);
        assert_eq!(turned.row(1).collect::<Vec<_>>(), [(0, 2)]);
    }

    #[test]
    fn rows_of_one_kind_end_up_in_one_group() {
        let mut pairs = Vec::new();
        for row in 0..60u32 {
            for column in 0..10u32 {
                for _ in 0..(if column % 3 == row % 3 {
                    40
                } else {
                    1 + (row + column) % 2
                }) + 60
                    - row
                {
                    pairs.push((row, column));
                }
            }
        }
        let rows = rows_of(60, &pairs);
        let mut groups = Groups::seeded(&rows, 3);
        for _ in 0..5 {
            groups.improve(&rows, |column| column as u8, 10);
        }
        for row in 0..60 {
            assert_eq!(groups.of[row], groups.of[row % 3], "row {row}");
        }
    }
}
