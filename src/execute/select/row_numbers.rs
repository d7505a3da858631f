//! `RowNumbers`: what was made of rows, found again by the numbers of their columns.
//!
//! Equal numbers mean equal values, so what is known of a row holds for all that have its numbers. Values that are equal may have
//! different numbers, or none: then the values have to be looked at. Invariant: what is found is what was remembered for equal
//! numbers.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::batch::{Batch, BatchColumn};

/// For rows with the same numbers in some columns a number of their own.
#[derive(Default)]
pub(super) struct RowNumbers {
    /// The columns that tell rows apart.
    columns: Vec<usize>,
    /// Empty columns of the first batch: others may have other kinds of numbers.
    kinds: Option<Vec<BatchColumn>>,
    known: HashMap<Box<[u64]>, usize, BuildHasherDefault<NumberHasher>>,
    /// How many texts there are, if one column of a dictionary tells rows apart and there is room for a place for each.
    texts: Option<usize>,
    /// By number of such a text, one more than what was remembered.
    by_text: Vec<u32>,
    numbers: Vec<u64>,
    bytes: usize,
    /// It forgets all before it takes more.
    bytes_max: usize,
}

/// What an entry takes beside its numbers.
const ENTRY_BYTES: usize = 2 * size_of::<(Box<[u64]>, usize)>() + 16;

impl RowNumbers {
    /// Tells rows apart by these columns, within so many bytes.
    pub(super) fn new(columns: Vec<usize>, bytes_max: usize) -> RowNumbers {
        RowNumbers {
            columns,
            bytes_max,
            ..RowNumbers::default()
        }
    }

    /// Whether rows of a batch have such numbers.
    pub(super) fn takes(&mut self, batch: &Batch) -> bool {
        let columns = || self.columns.iter().map(|&column| &batch.columns()[column]);
        let kinds = match &self.kinds {
            Some(kinds) => kinds,
            None => {
                if let &[column] = &self.columns[..]
                    && let BatchColumn::Words { dictionary, .. } = &batch.columns()[column]
                {
                    let texts = dictionary.len();
                    self.texts = (texts <= self.bytes_max / size_of::<u32>()).then_some(texts);
                }
                let kinds = columns().map(BatchColumn::empty).collect();
                self.kinds.insert(kinds)
            }
        };
        let is_number = |column: &BatchColumn| {
            !matches!(
                column,
                BatchColumn::Values(_) | BatchColumn::Texts(_) | BatchColumn::Reals(_)
            )
        };
        columns()
            .zip(kinds)
            .all(|(column, kind)| is_number(column) && column.is_like(kind))
    }

    /// The numbers of the texts of a batch, if they alone tell rows apart.
    #[inline]
    fn texts<'a>(&self, batch: &'a Batch) -> Option<&'a [u32]> {
        match (self.texts, &self.columns[..]) {
            (Some(_), &[column]) => match &batch.columns()[column] {
                BatchColumn::Words { indices, .. } => Some(indices),
                _ => None,
            },
            _ => None,
        }
    }

    /// What was remembered for the numbers of a row of a batch that `takes`.
    #[inline]
    pub(super) fn find(&mut self, batch: &Batch, row: usize) -> Option<usize> {
        if let Some(texts) = self.texts(batch) {
            let known = self.by_text.get(texts[row] as usize)?;
            return (*known as usize).checked_sub(1);
        }
        self.numbers.clear();
        for &column in &self.columns {
            match &batch.columns()[column] {
                BatchColumn::Integers(integers) => self.numbers.push(integers[row].cast_unsigned()),
                BatchColumn::Words { indices, .. } => self.numbers.push(u64::from(indices[row])),
                BatchColumn::Ngrams { n, indices, .. } => {
                    let words = &indices[row * n..(row + 1) * n];
                    self.numbers.extend(words.chunks(2).map(|pair| {
                        pair.iter()
                            .fold(0, |pair, &word| pair << u32::BITS | u64::from(word))
                    }));
                }
                _ => return None,
            }
        }
        self.known.get(&self.numbers[..]).copied()
    }

    /// Remembers something for the numbers of the row that was not found last, which `row` of `batch` is.
    pub(super) fn remember(&mut self, batch: &Batch, row: usize, known: usize) {
        if let Some(texts) = self.texts(batch) {
            if self.by_text.is_empty() {
                self.by_text = vec![0; self.texts.unwrap_or_default()];
                self.bytes += size_of_val(&self.by_text[..]);
            }
            // More would not be kept in memory.
            if let Ok(known) = u32::try_from(known + 1) {
                self.by_text[texts[row] as usize] = known;
            }
            return;
        }
        if self.bytes > self.bytes_max {
            self.clear();
        }
        self.bytes += size_of_val(&self.numbers[..]) + ENTRY_BYTES;
        self.known.insert(self.numbers[..].into(), known);
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.known = HashMap::default();
        self.by_text = Vec::new();
        self.bytes = 0;
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Mixes numbers that are no attack: who could choose them has chosen the text, and may as well ask for all of it.
#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(size_of::<u64>()) {
            let mut number = [0; size_of::<u64>()];
            number[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_ne_bytes(number));
        }
    }

    fn write_u64(&mut self, number: u64) {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        self.0 = (self.0.rotate_left(23) ^ number).wrapping_mul(FACTOR);
    }

    fn write_usize(&mut self, _: usize) {
        // Lengths are equal.
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}
