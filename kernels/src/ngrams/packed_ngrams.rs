//! N-grams in few bytes: how a part of an answer is held until it is read.
//!
//! In   sorted n-grams of a part, with counts or with files
//! Out  the same, packed; and back
//! Work O(words and entries) both ways
//!
//! Rows ascend, so a row is stored as how many words it shares with the one before (front coding) and the others, each in
//! as many bytes as the largest word of the part takes. Most counts are small: they share a byte with that number.
//! The invariant: what was packed comes back bit for bit. Parts are small, so they are read whole: there is no place to
//! begin in the middle.

use std::sync::atomic::AtomicBool;

use crate::ngrams::all_ngrams::{
    FileOrder, NgramCounts, NgramFiles, NgramSet, PART_WINDOWS, ngram_count_parts, ngram_file_parts,
};
use crate::ngrams::windows::NGRAM_WORDS_MAX;
use crate::stop::Stopped;
use crate::{CountTable, GrammarView, RuleFiles, SharedRows};

/// Bits of the number of shared words in a row's first byte; the value has the other bits.
const SHARED_BITS: u32 = 3;

/// A value that is not in the row's first byte.
const VALUE_ESCAPE: u32 = (1 << (u8::BITS - SHARED_BITS)) - 1;

/// A count that is not in the byte of its entry.
const COUNT_ESCAPE: u32 = u8::MAX as u32;

/// Integers are read with this many bytes, of which the last may not be theirs.
const PADDING: usize = size_of::<u32>();

/// How many bytes it takes to write the number.
fn bytes_of(number: u32) -> usize {
    (u32::BITS - number.leading_zeros())
        .div_ceil(u8::BITS)
        .max(1) as usize
}

/// Appends the lowest `bytes` bytes of a number.
#[inline(always)]
fn push(target: &mut Vec<u8>, number: u32, bytes: usize) {
    target.extend_from_slice(&number.to_le_bytes()[..bytes]);
}

/// The number at a place, which takes as many bytes as `mask` has; there is padding behind.
#[inline(always)]
fn read(source: &[u8], at: usize, mask: u32) -> u32 {
    let bytes = source[at..].first_chunk().copied();
    u32::from_le_bytes(bytes.unwrap_or_default()) & mask
}

/// The mask of a number of `bytes` bytes, from 1 to 4.
fn mask_of(bytes: usize) -> u32 {
    u32::MAX >> (u32::BITS as usize - u8::BITS as usize * bytes)
}

/// Sorted n-grams, each with a number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PackedRows {
    n: usize,
    rows: usize,
    /// Bytes of a word.
    word_bytes: usize,
    bytes: Box<[u8]>,
    /// Numbers from [`VALUE_ESCAPE`] on, in order of rows.
    large: Box<[u32]>,
}

impl PackedRows {
    /// `words` is `[values * n]`.
    fn new(n: usize, words: &[u32], values: impl ExactSizeIterator<Item = u32>) -> PackedRows {
        debug_assert!((1..=NGRAM_WORDS_MAX).contains(&n));
        let rows = values.len();
        let word_bytes = bytes_of(words.iter().copied().max().unwrap_or(0));
        let mut bytes = Vec::with_capacity(rows * (1 + n * word_bytes) + PADDING);
        let mut large = Vec::new();
        let mut before: &[u32] = &[];
        for (row, value) in words.chunks_exact(n).zip(values) {
            let same = row.iter().zip(before).take_while(|(a, b)| a == b).count();
            // The last word differs, or is written nevertheless.
            let shared = same.min(n - 1);
            let short = value.min(VALUE_ESCAPE);
            // Both fit.
            bytes.push(shared as u8 | (short << SHARED_BITS) as u8);
            if short == VALUE_ESCAPE {
                large.push(value);
            }
            for &word in &row[shared..] {
                push(&mut bytes, word, word_bytes);
            }
            before = row;
        }
        bytes.resize(bytes.len() + PADDING, 0);
        PackedRows {
            n,
            rows,
            word_bytes,
            bytes: bytes.into(),
            large: large.into(),
        }
    }

    /// The first word of the first row, which shares none.
    fn first_word(&self) -> Option<u32> {
        (self.rows > 0).then(|| read(&self.bytes, 1, mask_of(self.word_bytes)))
    }

    /// The words, and the values to `take`.
    fn unpacked(&self, take: impl FnMut(u32)) -> Vec<u32> {
        // To copy as many words as is known is faster.
        match self.n {
            2 => self.unpacked_of(2, take),
            3 => self.unpacked_of(3, take),
            n => self.unpacked_of(n, take),
        }
    }

    #[inline(always)]
    fn unpacked_of(&self, n: usize, mut take: impl FnMut(u32)) -> Vec<u32> {
        let mut words = vec![0; self.rows * n];
        let mask = mask_of(self.word_bytes);
        let mut large = self.large.iter().copied();
        let mut row = [0; NGRAM_WORDS_MAX];
        let mut at = 0;
        for target in words.chunks_exact_mut(n) {
            let first = self.bytes[at];
            at += 1;
            let shared = usize::from(first & ((1 << SHARED_BITS) - 1));
            for (index, word) in row[..n].iter_mut().enumerate() {
                if index >= shared {
                    *word = read(&self.bytes, at, mask);
                    at += self.word_bytes;
                }
            }
            target.copy_from_slice(&row[..n]);
            let short = u32::from(first >> SHARED_BITS);
            take(match short {
                VALUE_ESCAPE => large.next().unwrap_or_default(),
                _ => short,
            });
        }
        words
    }

    fn bytes(&self) -> usize {
        self.bytes.len() + size_of_val(&self.large[..])
    }
}

/// As [`NgramCounts`], in few bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedNgramCounts {
    /// With counts less one: none is 0.
    rows: PackedRows,
}

impl PackedNgramCounts {
    /// Packs sorted n-grams of n words, each of which occurs.
    pub fn new(n: usize, ngrams: &NgramCounts) -> PackedNgramCounts {
        let counts = ngrams.counts.iter().map(|count| count.wrapping_sub(1));
        PackedNgramCounts {
            rows: PackedRows::new(n, &ngrams.words, counts),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rows.rows
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The word that the first one begins with; none if there is none.
    pub fn first_word(&self) -> Option<u32> {
        self.rows.first_word()
    }

    /// The n-grams.
    #[must_use]
    pub fn unpacked(&self) -> NgramCounts {
        let mut counts = Vec::with_capacity(self.len());
        let words = self
            .rows
            .unpacked(|count| counts.push(count.wrapping_add(1)));
        NgramCounts { words, counts }
    }

    /// Size of the arrays.
    pub fn bytes(&self) -> usize {
        self.rows.bytes()
    }
}

/// As [`NgramFiles`], in few bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedNgramFiles {
    /// With how many files an n-gram has, less one: none has none.
    rows: PackedRows,
    /// Bytes of a file.
    file_bytes: usize,
    /// A file and a count less one, at most [`COUNT_ESCAPE`], for each entry.
    entries: Box<[u8]>,
    entry_count: usize,
    /// Counts that the entry has no room for, in order of entries.
    large: Box<[u32]>,
}

impl PackedNgramFiles {
    /// Packs sorted n-grams of n words, each of which occurs in a file.
    pub fn new(n: usize, ngrams: &NgramFiles) -> PackedNgramFiles {
        let rows = 0..ngrams.files.rows();
        // Entries of a row are files, which are u32.
        let lengths =
            (rows.clone()).map(|row| (ngrams.files.row(row).len() as u32).wrapping_sub(1));
        let packed = PackedRows::new(n, &ngrams.words, lengths);
        let (mut entry_count, mut most) = (0, 0);
        for row in rows.clone() {
            let row = ngrams.files.row(row);
            entry_count += row.len();
            most = row.iter().fold(most, |most, entry| most.max(entry.0));
        }
        let file_bytes = bytes_of(most);
        let mut entries = Vec::with_capacity(entry_count * (file_bytes + 1) + PADDING);
        let mut large = Vec::new();
        for &(file, count) in rows.flat_map(|row| ngrams.files.row(row)) {
            let less = count.wrapping_sub(1);
            let short = less.min(COUNT_ESCAPE);
            push(&mut entries, file, file_bytes);
            // At most a byte.
            entries.push(short as u8);
            if short == COUNT_ESCAPE {
                large.push(less);
            }
        }
        entries.resize(entries.len() + PADDING, 0);
        PackedNgramFiles {
            rows: packed,
            file_bytes,
            entries: entries.into(),
            entry_count,
            large: large.into(),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rows.rows
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The word that the first one begins with; none if there is none.
    pub fn first_word(&self) -> Option<u32> {
        self.rows.first_word()
    }

    /// The n-grams.
    #[must_use]
    pub fn unpacked(&self) -> NgramFiles {
        let mut offsets = Vec::with_capacity(self.len() + 1);
        let mut end = 0;
        offsets.push(end);
        let words = self.rows.unpacked(|length| {
            end += length.wrapping_add(1) as usize;
            offsets.push(end);
        });
        let mask = mask_of(self.file_bytes);
        let mut large = self.large.iter().copied();
        let starts = (0..self.entry_count).map(|entry| entry * (self.file_bytes + 1));
        let entries = starts.map(|at| {
            let file = read(&self.entries, at, mask);
            let less = match u32::from(self.entries[at + self.file_bytes]) {
                COUNT_ESCAPE => large.next().unwrap_or_default(),
                short => short,
            };
            (file, less.wrapping_add(1))
        });
        let entries = entries.collect();
        NgramFiles {
            words,
            files: SharedRows::from(CountTable { offsets, entries }),
        }
    }

    /// Size of the arrays.
    pub fn bytes(&self) -> usize {
        self.rows.bytes() + self.entries.len() + size_of_val(&self.large[..])
    }
}

/// As [`crate::ngram_counts`], each part packed as soon as it is made.
pub fn ngram_counts_packed(
    view: GrammarView<'_>,
    weights: &[u32],
    set: impl Into<NgramSet>,
    memory: usize,
    stop: &AtomicBool,
) -> Result<Vec<PackedNgramCounts>, Stopped> {
    let set = set.into();
    let packed = |_, part| PackedNgramCounts::new(set.n, &part);
    ngram_count_parts(view, weights, &set, memory, PART_WINDOWS, stop, packed)
}

/// As [`crate::ngram_file_counts`], each part packed as soon as it is made. A single file needs no `lists`.
///
/// # Panics
///
/// When there are several files, n is above 1 and no `lists` are given.
pub fn ngram_file_counts_packed(
    view: GrammarView<'_>,
    weights: &[u32],
    lists: Option<&RuleFiles>,
    set: impl Into<NgramSet>,
    order: FileOrder,
    memory: usize,
    stop: &AtomicBool,
) -> Result<Vec<PackedNgramFiles>, Stopped> {
    let set = set.into();
    let packed = |_, part| PackedNgramFiles::new(set.n, &part);
    ngram_file_parts(
        view,
        weights,
        lists,
        &set,
        order,
        memory,
        PART_WINDOWS,
        stop,
        packed,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::test_grammars::Numbers;

    /// Distinct n-grams of words below `word_count`, ascending.
    fn ngrams(n: usize, rows: usize, word_count: u64, numbers: &mut Numbers) -> Vec<Vec<u32>> {
        let ngram = |numbers: &mut Numbers| {
            // Words that many n-grams begin with, and others.
            let word = |numbers: &mut Numbers| match numbers.below(3) {
                0 => numbers.below(word_count) as u32,
                _ => numbers.below(word_count.min(3)) as u32,
            };
            (0..n).map(|_| word(numbers)).collect::<Vec<u32>>()
        };
        let mut found: Vec<Vec<u32>> = (0..rows).map(|_| ngram(numbers)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    fn number(numbers: &mut Numbers) -> u32 {
        let limit = [2, 40, 300, 1 << 32][numbers.below(4) as usize];
        numbers.below(limit).max(1) as u32
    }

    #[test]
    fn what_is_packed_comes_back() {
        let mut numbers = Numbers::new(5);
        for n in 1..=NGRAM_WORDS_MAX {
            for (rows, word_count) in [(0, 1), (1, 1), (300, 200), (300, 70_000), (40, 1 << 32)] {
                let found = ngrams(n, rows, word_count, &mut numbers);
                let counts = NgramCounts {
                    words: found.concat(),
                    counts: found.iter().map(|_| number(&mut numbers)).collect(),
                };
                let packed = PackedNgramCounts::new(n, &counts);
                assert_eq!(
                    (packed.len(), packed.is_empty()),
                    (found.len(), found.is_empty())
                );
                assert_eq!(packed.unpacked(), counts);

                let entry = |numbers: &mut Numbers| (number(numbers) - 1, number(numbers));
                let row = |numbers: &mut Numbers| {
                    (0..1 + numbers.below(50))
                        .map(|_| entry(numbers))
                        .collect::<Vec<_>>()
                };
                let table = found.iter().map(|_| row(&mut numbers)).collect();
                let files = NgramFiles {
                    words: found.concat(),
                    files: CountTable::of_rows(table).into(),
                };
                let packed = PackedNgramFiles::new(n, &files);
                assert_eq!(
                    (packed.len(), packed.is_empty()),
                    (found.len(), found.is_empty())
                );
                assert_eq!(packed.unpacked(), files);
            }
        }
    }

    #[test]
    fn packed_rows_take_a_fraction() {
        let mut numbers = Numbers::new(9);
        let found = ngrams(3, 5_000, 200_000, &mut numbers);
        let counts = NgramCounts {
            words: found.concat(),
            counts: vec![1; found.len()],
        };
        let plain = (3 + 1) * size_of::<u32>() * found.len();
        assert!(PackedNgramCounts::new(3, &counts).bytes() < plain * 2 / 3);
    }
}
