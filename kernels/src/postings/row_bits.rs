//! Long rows of a table of counts as bit sets, and the columns that rows have in common.
//!
//! The invariant: a bit is set where the table has the column, whatever the count. A row has a bit set if that takes at most half
//! the memory of its columns and counts, so all bit sets together take at most half the memory of the table. Source: Culpepper and
//! Moffat, "Efficient Set Intersection for Inverted Indexing", ACM TOIS 29(1), 2010: bit sets for dense lists, and the ids of other
//! lists looked up in them.

use crate::count::count_table::CountTable;
use crate::numbers::bits::{count_bits, for_each_bit};
use crate::postings::keep_common_pairs;

/// Entries of a row for each 64-bit word of its bit set, at least. Both take 8 bytes, so the set takes at most half as much.
const ENTRIES_A_WORD: usize = 2;

/// Bit sets of the long rows of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowBits {
    /// Words of each bit set.
    words: usize,
    /// Rows that have one, ascending.
    rows: Vec<u32>,
    /// `[rows * words]`.
    bits: Vec<u64>,
}

/// Columns that some rows have in common, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommonColumns {
    /// One after the other.
    Columns(Vec<u32>),
    /// A bit for each column.
    Bits(Vec<u64>),
}

impl CommonColumns {
    /// How many there are.
    pub fn count(&self) -> usize {
        match self {
            CommonColumns::Columns(columns) => columns.len(),
            CommonColumns::Bits(bits) => count_bits(bits),
        }
    }

    /// All of them.
    pub fn into_columns(self) -> Vec<u32> {
        let count = self.count();
        match self {
            CommonColumns::Columns(columns) => columns,
            CommonColumns::Bits(bits) => {
                let mut columns = Vec::with_capacity(count);
                for_each_bit(&bits, |column| columns.push(column as u32)); // columns are u32
                columns
            }
        }
    }
}

impl RowBits {
    /// The bit sets of a table whose columns are below `columns`. Works on this thread: O(rows), and the entries of long rows.
    pub fn new(table: &CountTable, columns: u32) -> RowBits {
        let words = (columns as usize).div_ceil(u64::BITS as usize);
        let is_long = |row: &usize| {
            let entries = table.offsets[row + 1] - table.offsets[*row];
            entries >= ENTRIES_A_WORD * words.max(1)
        };
        // Rows are u32.
        let rows: Vec<u32> = (0..table.rows())
            .filter(is_long)
            .map(|row| row as u32)
            .collect();
        let mut bits = vec![0u64; rows.len() * words];
        for (&row, bits) in rows.iter().zip(bits.chunks_exact_mut(words.max(1))) {
            for &(column, _) in table.row(row as usize) {
                bits[column as usize / 64] |= 1 << (column % 64);
            }
        }
        RowBits { words, rows, bits }
    }

    /// Size of the arrays.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.rows[..]) + size_of_val(&self.bits[..])
    }

    /// The bit set of a row; none if it is not long.
    fn row(&self, row: u32) -> Option<&[u64]> {
        let at = self.rows.binary_search(&row).ok()?;
        Some(&self.bits[at * self.words..(at + 1) * self.words])
    }

    /// The columns that all of some rows of `table`, which these bit sets are of, have; none if there are no rows.
    pub fn common(&self, table: &CountTable, rows: &[u32]) -> CommonColumns {
        let of_row = |&row: &u32| (table.row(row as usize), self.row(row));
        let mut lists: Vec<_> = rows.iter().map(of_row).collect();
        lists.sort_unstable_by_key(|(entries, _)| entries.len());
        let Some(((shortest, bits), others)) = lists.split_first() else {
            return CommonColumns::Columns(Vec::new());
        };
        // A row that is at least as long as one with a bit set has one.
        if let Some(bits) = bits {
            let mut common = bits.to_vec();
            for other in others.iter().filter_map(|(_, bits)| *bits) {
                common
                    .iter_mut()
                    .zip(other)
                    .for_each(|(word, other)| *word &= other);
            }
            return CommonColumns::Bits(common);
        }
        let mut columns: Vec<u32> = shortest.iter().map(|&(column, _)| column).collect();
        for (entries, bits) in others {
            let kept = match bits {
                Some(bits) => keep_set(&mut columns, bits),
                None => keep_common_pairs(&mut columns, entries),
            };
            columns.truncate(kept);
        }
        CommonColumns::Columns(columns)
    }
}

/// Moves the columns whose bits are set to the front; how many there are. No branch depends on them.
fn keep_set(columns: &mut [u32], bits: &[u64]) -> usize {
    let mut kept = 0;
    for k in 0..columns.len() {
        let column = columns[k];
        columns[kept] = column;
        kept += (bits[column as usize / 64] >> (column % 64) & 1) as usize; // 0 or 1
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Rows with all, most, some and few of the columns.
    fn tables() -> impl Strategy<Value = (u32, Vec<Vec<(u32, u32)>>)> {
        (1u32..700).prop_flat_map(|columns| {
            let share = prop_oneof![Just(1u32), 2u32..5, 20u32..40, 100u32..400];
            let row = (share, any::<u32>()).prop_map(move |(share, seed)| {
                let hash = |column: u32| (column ^ seed).wrapping_mul(0x9e37_79b1) >> 8;
                let has = |column: &u32| hash(*column).is_multiple_of(share);
                (0..columns)
                    .filter(has)
                    .map(|column| (column, 1 + column % 3))
                    .collect()
            });
            (Just(columns), prop::collection::vec(row, 1..8))
        })
    }

    proptest! {
        #[test]
        fn rows_have_the_columns_in_common_that_sets_have((columns, rows) in tables(), chosen in prop::collection::vec(any::<prop::sample::Index>(), 0..5)) {
            let table = CountTable::of_rows(rows.clone());
            let bits = RowBits::new(&table, columns);
            prop_assert!(size_of_val(&bits.bits[..]) * 2 <= size_of_val(&table.entries[..]));
            prop_assert!(bits.bytes() <= table.bytes() + 8 * rows.len());
            let chosen: Vec<u32> = chosen.iter().map(|index| index.index(rows.len()) as u32).collect();
            let sets = chosen.iter().map(|&row| {
                rows[row as usize].iter().map(|&(column, _)| column).collect::<BTreeSet<u32>>()
            });
            let expected = sets.reduce(|left, right| &left & &right).unwrap_or_default();
            let found = bits.common(&table, &chosen);
            prop_assert_eq!(found.count(), expected.len());
            prop_assert_eq!(found.into_columns(), expected.into_iter().collect::<Vec<u32>>());
            // Without bit sets answers are the same.
            let found = RowBits::default().common(&table, &chosen);
            prop_assert!(matches!(found, CommonColumns::Columns(_)));
            prop_assert_eq!(found, CommonColumns::Columns(bits.common(&table, &chosen).into_columns()));
        }
    }

    #[test]
    fn a_row_is_long_from_one_column_in_thirty_two_on() {
        let row = |count: u32| (0..count).map(|column| (column, 1)).collect();
        let table = CountTable::of_rows(vec![row(31), row(32), row(0), row(1024)]);
        let bits = RowBits::new(&table, 1024);
        assert_eq!(bits.rows, [1, 3]);
        assert_eq!(bits.bits.len(), 2 * 16);
        assert_eq!(RowBits::new(&CountTable::default(), 0), RowBits::default());
    }
}
