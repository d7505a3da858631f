//! N-grams that stay on a device until rows are made of them, some at a time.
//!
//! The invariant: pieces follow each other and together have everything once, in the order in which it lies on the device. A piece is
//! copied at once, through memory that was taken before.

use std::ops::Range;

use crate::count::tables_gpu::column_and_count;
use crate::gpu::device::Gpu;
use crate::gpu::driver::{SHOWN_ALIGNMENT, SHOWN_BYTES};
use crate::gpu::error::GpuError;
use crate::ngrams::all_ngrams_gpu::{DeviceNgramFiles, DeviceNgrams};

/// Distinct n-grams with counts that stay on a device until their rows are wanted.
#[derive(Debug)]
pub struct DeviceNgramRows {
    pub(super) gpu: Gpu,
    /// Words of an n-gram.
    pub(super) n: usize,
    pub(super) ngrams: DeviceNgrams,
}

/// Distinct n-grams with their files that stay on a device until their rows are wanted.
#[derive(Debug)]
pub struct DeviceNgramFileRows {
    pub(super) gpu: Gpu,
    /// Words of an n-gram.
    pub(super) n: usize,
    pub(super) ngrams: DeviceNgramFiles,
    /// By piece: the n-gram that has its first entry.
    firsts: Vec<u32>,
}

/// A piece of n-grams with their files; the first and the last n-gram may have others in the pieces beside it.
#[derive(Debug)]
pub struct ShownNgramFiles<'a> {
    n: usize,
    /// `[n-grams * n]`, or none.
    words: &'a [u32],
    /// `[n-grams]`, or one more: where their entries begin, counted from the first of all pieces.
    starts: &'a [u32],
    /// `column << 32 | count`.
    entries: &'a [u64],
    /// The number of the first entry.
    first: usize,
}

impl DeviceNgrams {
    /// These n-grams of `n` words for rows that leave the device later, whatever ends the work of `gpu`.
    pub fn into_rows(self, gpu: &Gpu, n: usize) -> DeviceNgramRows {
        DeviceNgramRows {
            gpu: gpu.to_the_end(),
            n,
            ngrams: self,
        }
    }
}

impl DeviceNgramFiles {
    /// As [`DeviceNgrams::into_rows`].
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn into_rows(self, gpu: &Gpu, n: usize) -> Result<DeviceNgramFileRows, GpuError> {
        Ok(DeviceNgramFileRows {
            firsts: self.files.rows_of(gpu, entries_at_once(n))?,
            gpu: gpu.to_the_end(),
            n,
            ngrams: self,
        })
    }
}

/// Bytes of arrays of which some are shown together.
const fn shown_bytes(arrays: usize) -> usize {
    SHOWN_BYTES - arrays * SHOWN_ALIGNMENT
}

/// Entries of a piece of n-grams with files. At most as many n-grams have them, and one may follow that has none of them.
fn entries_at_once(n: usize) -> usize {
    let row = (n + 1) * size_of::<u32>();
    (shown_bytes(3) - row) / (size_of::<u64>() + row)
}

/// The items of a piece, by number: of `len` items a piece has `at_once`, the last one what is left.
fn range_of(piece: usize, at_once: usize, len: usize) -> Range<usize> {
    piece * at_once..len.min((piece + 1) * at_once)
}

/// The words of some rows of `n` words, or none of them.
fn words_of(rows: &Range<usize>, n: usize, with_words: bool) -> Range<usize> {
    if with_words {
        rows.start * n..rows.end * n
    } else {
        0..0
    }
}

impl DeviceNgramRows {
    /// The device, the words of an n-gram, and the n-grams.
    pub fn into_ngrams(self) -> (Gpu, usize, DeviceNgrams) {
        (self.gpu, self.n, self.ngrams)
    }

    /// How many pieces there are.
    pub fn pieces(&self) -> usize {
        self.ngrams.rows().div_ceil(self.at_once())
    }

    fn at_once(&self) -> usize {
        shown_bytes(2) / ((self.n + 1) * size_of::<u32>())
    }

    /// Shows the words of the rows of a piece, `[rows * n]`, or none unless `with_words`, and their counts, `[rows]`. Several threads may
    /// do so at once.
    ///
    /// # Errors
    ///
    /// [`GpuError::Call`].
    ///
    /// # Panics
    ///
    /// When there is no such piece.
    pub fn show(
        &self,
        piece: usize,
        with_words: bool,
        see: impl FnOnce(&[u32], &[u32]),
    ) -> Result<(), GpuError> {
        let DeviceNgrams { words, counts } = &self.ngrams;
        let rows = range_of(piece, self.at_once(), self.ngrams.rows());
        let of_words = words_of(&rows, self.n, with_words);
        let ranges = [words.range(of_words), counts.range(rows)];
        self.gpu.show(ranges, |[words, counts]| {
            see(bytemuck::cast_slice(words), bytemuck::cast_slice(counts));
        })
    }
}

impl DeviceNgramFileRows {
    /// As [`DeviceNgramRows::into_ngrams`].
    pub fn into_ngrams(self) -> (Gpu, usize, DeviceNgramFiles) {
        (self.gpu, self.n, self.ngrams)
    }

    /// How many pieces there are.
    pub fn pieces(&self) -> usize {
        self.firsts.len()
    }

    /// Shows a piece, its words only `with_words`. Several threads may do so at once.
    ///
    /// # Errors
    ///
    /// [`GpuError::Call`].
    ///
    /// # Panics
    ///
    /// When there is no such piece.
    pub fn show(
        &self,
        piece: usize,
        with_words: bool,
        see: impl FnOnce(&ShownNgramFiles<'_>),
    ) -> Result<(), GpuError> {
        let DeviceNgramFiles { words, files } = &self.ngrams;
        let places = range_of(piece, entries_at_once(self.n), files.entries());
        let (first, n) = (places.start, self.n);
        // The n-gram with the next piece's first entry may have the last one of this piece too.
        let last = self.firsts.get(piece + 1);
        let end = last.map_or(files.rows(), |&last| last as usize + 1);
        let rows = self.firsts[piece] as usize..end;
        let of_words = words_of(&rows, n, with_words);
        let ranges = [
            words.range(of_words),
            files.offsets.range(rows),
            files.entries.range(places),
        ];
        self.gpu.show(ranges, |[words, starts, entries]| {
            see(&ShownNgramFiles {
                n,
                words: bytemuck::cast_slice(words),
                starts: bytemuck::cast_slice(starts),
                entries: bytemuck::cast_slice(entries),
                first,
            });
        })
    }
}

impl ShownNgramFiles<'_> {
    /// How many files there are with n-grams, each once for each of these.
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// The file and count of an entry.
    #[inline]
    pub fn file_and_count(entry: u64) -> (u32, u32) {
        column_and_count(entry)
    }

    /// Calls `visit` with the words of each n-gram, none if they are not shown, and its entries, of which there are some.
    ///
    /// # Errors
    ///
    /// The first of `visit`.
    pub fn try_for_each<E>(
        &self,
        mut visit: impl FnMut(&[u32], &[u64]) -> Result<(), E>,
    ) -> Result<(), E> {
        let all = self.first..self.first + self.entries.len();
        for (row, &start) in self.starts.iter().enumerate() {
            let start = (start as usize).clamp(all.start, all.end);
            let end = self.starts.get(row + 1);
            let end = end.map_or(all.end, |&end| (end as usize).min(all.end));
            if start < end {
                let words = words_of(&(row..row + 1), self.n, !self.words.is_empty());
                let entries = &self.entries[start - self.first..end - self.first];
                visit(&self.words[words], entries)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::NgramCounts;
    use crate::gpu::DeviceTable;
    use crate::gpu::test_devices::{Numbers, on_devices};

    #[test]
    fn pieces_have_every_ngram_once() {
        on_devices(|gpu| {
            for (rows, n) in [(0, 3), (1, 8), (200_000, 1), (90_000, 3)] {
                let mut numbers = Numbers::new(rows as u64);
                let (words, counts) = (numbers.below(rows * n, 1_000), numbers.below(rows, 9));
                let given = DeviceNgrams {
                    words: gpu.upload(&words)?,
                    counts: gpu.upload(&counts)?,
                };
                let stop = Arc::new(AtomicBool::new(false));
                let kept = given.into_rows(&gpu.until(&stop), n);
                stop.store(true, Ordering::Relaxed);
                let expected = NgramCounts { words, counts };
                assert_eq!(kept.ngrams.download(&kept.gpu)?, expected, "{rows} {n}");
                let (words, counts) = (Vec::new(), Vec::new());
                let mut shown = NgramCounts { words, counts };
                for piece in 0..kept.pieces() {
                    let first = shown.counts.len();
                    kept.show(piece, true, |words, counts| {
                        shown.words.extend_from_slice(words);
                        shown.counts.extend_from_slice(counts);
                    })?;
                    kept.show(piece, false, |words, counts| {
                        assert!(words.is_empty());
                        assert_eq!(counts, &shown.counts[first..]);
                    })?;
                }
                assert_eq!(shown, expected, "{rows} {n}");
            }
            Ok(())
        });
    }

    #[test]
    fn pieces_have_every_file_of_an_ngram_once() {
        on_devices(|gpu| {
            // Rows and words of an n-gram, and entries of a row at most: rows of one, and rows that go through several pieces.
            for (rows, n, most) in [
                (0, 3, 1),
                (1, 8, 1),
                (90_000, 3, 1),
                (30_000, 2, 9),
                (9, 8, 90_000),
            ] {
                let mut numbers = Numbers::new(rows as u64);
                let words = numbers.below(rows * n, 1_000);
                let mut offsets = vec![0];
                for length in numbers.below(rows, most) {
                    offsets.push(offsets[offsets.len() - 1] + length + 1);
                }
                let count = offsets[rows] as usize;
                let (files, counts) = (numbers.below(count, 500), numbers.below(count, 1_000));
                let entries: Vec<(u32, u32)> = files.into_iter().zip(counts).collect();
                let packed = entries.iter();
                let packed = packed.map(|&(file, count)| u64::from(file) << 32 | u64::from(count));
                let given = DeviceNgramFiles {
                    words: gpu.upload(&words)?,
                    files: DeviceTable {
                        offsets: gpu.upload(&offsets)?,
                        entries: gpu.upload(&packed.collect::<Vec<u64>>())?,
                    },
                };
                let stop = Arc::new(AtomicBool::new(false));
                let kept = given.into_rows(&gpu.until(&stop), n)?;
                stop.store(true, Ordering::Relaxed);
                let all = kept.ngrams.download(&kept.gpu)?;
                assert_eq!(all.words, words, "{rows} {n} {most}");
                let rows_of_entries = (0..rows).flat_map(|row| {
                    let places = offsets[row] as usize..offsets[row + 1] as usize;
                    assert_eq!(all.files.row(row), &entries[places.clone()]);
                    places.map(move |_| row)
                });
                let of_row = |row: usize| words[row * n..(row + 1) * n].to_vec();
                let expected: Vec<_> = rows_of_entries.map(of_row).zip(entries.clone()).collect();
                let (mut shown, mut without_words) = (Vec::new(), Vec::new());
                for piece in 0..kept.pieces() {
                    kept.show(piece, true, |piece| {
                        let each = piece.try_for_each(|words, entries| {
                            let files = entries.iter().copied().map(column_and_count);
                            shown.extend(files.map(|entry| (words.to_vec(), entry)));
                            Ok::<(), GpuError>(())
                        });
                        assert!(each.is_ok());
                    })?;
                    kept.show(piece, false, |piece| {
                        let each = piece.try_for_each(|words, entries| {
                            assert!(words.is_empty());
                            without_words.extend(entries.iter().copied().map(column_and_count));
                            Ok::<(), GpuError>(())
                        });
                        assert!(each.is_ok());
                    })?;
                }
                assert!(shown == expected, "{rows} {n} {most}");
                assert!(without_words == entries, "{rows} {n} {most}");
            }
            Ok(())
        });
    }
}
