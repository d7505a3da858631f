//! Rows of numbers in flat arrays: bodies, and what files or words have, with counts.
//!
//! Row i is `offsets[i]..offsets[i + 1]`. Nothing here knows what the numbers mean.

/// Rows of numbers.
#[derive(Debug, PartialEq, Eq)]
pub struct Rows {
    /// `[rows + 1]` into `items`.
    offsets: Vec<u32>,
    items: Vec<u32>,
}

impl Rows {
    pub fn new() -> Rows {
        Rows {
            offsets: vec![0],
            items: Vec::new(),
        }
    }

    /// Adds an item to the row that is being filled.
    pub fn push(&mut self, item: u32) {
        self.items.push(item);
    }

    /// Ends the row that is being filled.
    pub fn end_row(&mut self) {
        // A grammar has fewer symbols than a u32 counts.
        self.offsets.push(self.items.len() as u32);
    }

    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    pub fn row(&self, row: usize) -> &[u32] {
        &self.items[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }
}

/// Rows of numbers with counts.
#[derive(Debug, PartialEq, Eq)]
pub struct CountedRows {
    /// `[rows + 1]` into `entries`.
    offsets: Vec<usize>,
    entries: Vec<(u32, u32)>,
}

impl CountedRows {
    /// Makes the table of rows, whose memory is given back one by one.
    pub fn of_rows(rows: Vec<Vec<(u32, u32)>>) -> CountedRows {
        let entries = rows.iter().map(Vec::len).sum();
        let mut counted = CountedRows {
            offsets: Vec::with_capacity(rows.len() + 1),
            entries: Vec::with_capacity(entries),
        };
        counted.offsets.push(0);
        for row in rows {
            counted.entries.extend(row);
            counted.offsets.push(counted.entries.len());
        }
        counted
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers of a row with their counts.
    pub fn row(&self, row: usize) -> &[(u32, u32)] {
        &self.entries[self.offsets[row]..self.offsets[row + 1]]
    }

    /// The rows that each of `columns` numbers is in, ascending, with counts.
    pub fn transposed(&self, columns: usize) -> CountedRows {
        let mut offsets = vec![0; columns + 1];
        for &(column, _) in &self.entries {
            offsets[column as usize + 1] += 1;
        }
        for column in 0..columns {
            offsets[column + 1] += offsets[column];
        }
        let mut ends = offsets.clone();
        let mut entries = vec![(0, 0); self.entries.len()];
        for row in 0..self.len() {
            for &(column, count) in self.row(row) {
                let end = &mut ends[column as usize];
                // Rows are numbered by u32.
                entries[*end] = (row as u32, count);
                *end += 1;
            }
        }
        CountedRows { offsets, entries }
    }

    /// Sorts each row by count, the largest first, and then by number.
    pub fn sort_by_count(&mut self) {
        for row in self.offsets.windows(2) {
            let row = &mut self.entries[row[0]..row[1]];
            if row.len() > 1 {
                row.sort_unstable_by_key(|&(number, count)| (std::cmp::Reverse(count), number));
            }
        }
    }
}
