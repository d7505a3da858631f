//! The tasks as a straight scan over resident uncompressed word ids: the baseline.
//!
//! Arrays, counting and radix sorts only, parallel. It knows nothing of rules. Its answers have the form of the kernels'
//! answers.

pub mod ngrams;

use rayon::prelude::*;
use zipfdb_kernels::CountTable;

/// Word ids of all files, one after the other.
#[derive(Clone, Copy)]
pub struct Scan<'a> {
    pub words: &'a [u32],
    /// `[files + 1]` into `words`.
    pub file_offsets: &'a [u32],
    pub word_count: u32,
}

/// Files of fewer words, as a part of all different words, are counted sparsely.
const SPARSE_FACTOR: usize = 4;

impl Scan<'_> {
    fn files(&self) -> usize {
        self.file_offsets.len() - 1
    }

    fn file(&self, file: usize) -> &[u32] {
        &self.words[self.file_offsets[file] as usize..self.file_offsets[file + 1] as usize]
    }

    /// How often each word occurs.
    pub fn word_counts(&self) -> Vec<u32> {
        self.histogram(self.words)
    }

    fn histogram(&self, words: &[u32]) -> Vec<u32> {
        let part = words.len().div_ceil(rayon::current_num_threads()).max(1);
        let counted: Vec<Vec<u32>> = words
            .par_chunks(part)
            .map(|words| {
                let mut counts = vec![0; self.word_count as usize];
                for &word in words {
                    counts[word as usize] += 1;
                }
                counts
            })
            .collect();
        let sum = |mut left: Vec<u32>, right: Vec<u32>| {
            left.iter_mut().zip(right).for_each(|(sum, n)| *sum += n);
            left
        };
        let none = || vec![0; self.word_count as usize];
        counted.into_iter().reduce(sum).unwrap_or_else(none)
    }

    /// For each file its words, ascending, with counts.
    pub fn file_word_counts(&self) -> CountTable {
        let rows: Vec<Vec<(u32, u32)>> = if self.files() < rayon::current_num_threads() * 2 {
            let row = |file| nonzero(&self.histogram(self.file(file)));
            (0..self.files()).map(row).collect()
        } else {
            (0..self.files())
                .into_par_iter()
                .map_init(
                    || {
                        let words = self.word_count as usize;
                        (vec![0u32; words], vec![0u64; words.div_ceil(64)])
                    },
                    |(counts, seen), file| self.file_row(file, counts, seen),
                )
                .collect()
        };
        let mut offsets = vec![0];
        for row in &rows {
            offsets.push(offsets[offsets.len() - 1] + row.len());
        }
        CountTable {
            offsets,
            entries: rows.concat(),
        }
    }

    /// `counts` and `seen` are 0 before and after.
    fn file_row(&self, file: usize, counts: &mut [u32], seen: &mut [u64]) -> Vec<(u32, u32)> {
        let words = self.file(file);
        if words.len() * SPARSE_FACTOR > counts.len() {
            for &word in words {
                counts[word as usize] += 1;
            }
            let row = nonzero(counts);
            counts.fill(0);
            return row;
        }
        for &word in words {
            let count = &mut counts[word as usize];
            if *count == 0 {
                seen[word as usize / 64] |= 1 << (word % 64);
            }
            *count += 1;
        }
        let mut row = Vec::new();
        for (index, seen) in (0..).zip(seen) {
            while *seen != 0 {
                let word = index * 64 + seen.trailing_zeros();
                *seen &= *seen - 1;
                row.push((word, std::mem::take(&mut counts[word as usize])));
            }
        }
        row
    }

    /// For each word the files that it occurs in, ascending, with counts.
    pub fn word_file_counts(&self) -> CountTable {
        self.file_word_counts().transposed(self.word_count as usize)
    }
}

fn nonzero(counts: &[u32]) -> Vec<(u32, u32)> {
    let words = (0..).zip(counts).filter(|&(_, &count)| count > 0);
    words.map(|(word, &count)| (word, count)).collect()
}
