//! N-grams in order of their counts, and of their texts.
//!
//! The invariant: the order is that of a stable sort on the host. Texts compare as the ranks of words one after the other, of which
//! those that fit make a key of 64 bits; rows are sorted by the last key first, and by their counts at the end.

use crate::count::tables_gpu::DeviceTable;
use crate::gpu::device::{Buffer, Gpu, arguments};
use crate::gpu::driver::{Argument, Source, THREADS};
use crate::gpu::error::GpuError;
use crate::gpu::primitives;
use crate::ngrams::all_ngrams_gpu::{DeviceNgramFiles, DeviceNgrams};

pub(crate) static SOURCE: Source = Source {
    name: "ngram_order.cu",
    text: include_str!("ngram_order.cu"),
    headers: &[],
    constants: &[("NGRAM_ORDER_THREADS", THREADS as u64)],
};

impl DeviceNgrams {
    /// The n-grams in order of their counts, the greatest first if these are `descending`, or without this whatever their counts
    /// are; of n-grams that occur as often first the one whose words have smaller `ranks`, or without ranks the one that was first.
    ///
    /// Memory: twice what the n-grams take, and 24 bytes for each.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    ///
    /// # Panics
    ///
    /// When there are more ranks than a u32 counts.
    pub fn in_order(
        self,
        gpu: &Gpu,
        descending: Option<bool>,
        ranks: Option<&[u32]>,
    ) -> Result<DeviceNgrams, GpuError> {
        let rows = self.rows();
        if rows == 0 || (descending.is_none() && ranks.is_none()) {
            return Ok(self);
        }
        let n = self.words.len() / rows;
        let mut order = match ranks {
            Some(ranks) => order_by_words(gpu, &self.words, n, ranks.len(), Some(ranks))?,
            None => as_they_lie(gpu, rows)?,
        };
        if let Some(descending) = descending {
            let keys = gpu.allocate::<u32>(rows)?;
            let changed = if descending { u32::MAX } else { 0 };
            let arguments = arguments! { counts: &self.counts, changed, order, rows, keys };
            let kernel = SOURCE.kernel("count_keys_kernel");
            gpu.launch_looping(kernel.moving(rows * 3 * 4), rows, arguments)?;
            (_, order) = primitives::sort_pairs(gpu, keys, order, 0..u32::BITS)?;
        }
        let (words, counts) = moved(gpu, &self.words, &self.counts, &order)?;
        Ok(DeviceNgrams { words, counts })
    }
}

impl DeviceNgramFiles {
    /// The n-grams in order of the ranks of their words; the files of each as they were.
    ///
    /// Memory: twice what the n-grams take, 24 bytes for each and 4 for each of its files.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    ///
    /// # Panics
    ///
    /// When there are more ranks than a u32 counts.
    pub fn by_text(self, gpu: &Gpu, ranks: &[u32]) -> Result<DeviceNgramFiles, GpuError> {
        let (rows, count) = (self.rows(), self.files.entries());
        if rows == 0 {
            return Ok(self);
        }
        let n = self.words.len() / rows;
        let order = order_by_words(gpu, &self.words, n, ranks.len(), Some(ranks))?;
        let (words, lengths) = moved(gpu, &self.words, &self.files.lengths(gpu)?, &order)?;
        let offsets = primitives::scan::<u32, u32>(gpu, &lengths)?;
        let owners = primitives::expand(gpu, &offsets, count)?;
        let entries = gpu.allocate::<u64>(count)?;
        let DeviceTable {
            offsets: from,
            entries: given,
        } = &self.files;
        let arguments = arguments! {
            order,
            offsets: from,
            entries: given,
            offsets_out: &offsets,
            owners,
            count,
            entries_out: &entries,
        };
        let kernel = SOURCE.kernel("ordered_entries_kernel");
        gpu.launch_looping(kernel.moving(count * (4 + 2 * 8)), count, arguments)?;
        let files = DeviceTable { offsets, entries };
        Ok(DeviceNgramFiles { words, files })
    }
}

/// The order in which rows lie.
fn as_they_lie(gpu: &Gpu, rows: usize) -> Result<Buffer<u32>, GpuError> {
    let order = gpu.allocate::<u32>(rows)?;
    let kernel = SOURCE.kernel("rows_as_they_lie_kernel");
    gpu.launch_looping(kernel.moving(rows * 4), rows, arguments! { rows, order })?;
    Ok(order)
}

/// The order of n-grams of n words, `[rows * n]`, by the ranks of these, or else by their numbers; equal ones as they lie. Numbers and
/// ranks are below `word_count`.
///
/// # Panics
///
/// When there are more words than a u32 counts.
pub(super) fn order_by_words(
    gpu: &Gpu,
    words: &Buffer<u32>,
    n: usize,
    word_count: usize,
    ranks: Option<&[u32]>,
) -> Result<Buffer<u32>, GpuError> {
    let rows = words.len() / n;
    let mut order = as_they_lie(gpu, rows)?;
    let bits = (usize::BITS - word_count.saturating_sub(1).leading_zeros()).max(1);
    assert!(bits <= u32::BITS, "words are u32");
    let together = (u64::BITS / bits) as usize;
    let ranks = ranks.map(|ranks| gpu.upload(ranks)).transpose()?;
    for first in (0..n).step_by(together).rev() {
        let keys = gpu.allocate::<u64>(rows)?;
        // N-grams have few words.
        let count = together.min(n - first) as u32;
        let given = ranks.as_ref().map_or(Argument::NONE, Argument::from);
        let (first, n) = (first as u32, n as u32);
        let arguments = arguments! {
            words,
            n,
            first,
            count,
            ranks: given,
            bits,
            order,
            rows,
            keys,
        };
        let kernel = SOURCE.kernel("rank_keys_kernel");
        let bytes = rows * (count as usize * 4 + 4 + 8);
        gpu.launch_looping(kernel.moving(bytes), rows, arguments)?;
        (_, order) = primitives::sort_pairs(gpu, keys, order, 0..count * bits)?;
    }
    Ok(order)
}

/// The words and counts of rows in an order. There are some rows.
fn moved(
    gpu: &Gpu,
    words: &Buffer<u32>,
    counts: &Buffer<u32>,
    order: &Buffer<u32>,
) -> Result<(Buffer<u32>, Buffer<u32>), GpuError> {
    let (rows, len) = (counts.len(), words.len());
    let (to_words, to_counts) = (gpu.allocate::<u32>(len)?, gpu.allocate::<u32>(rows)?);
    // N-grams have few words.
    let n = (len / rows) as u32;
    let arguments = arguments! {
        order,
        rows,
        words,
        n,
        counts,
        words_out: &to_words,
        counts_out: &to_counts,
    };
    let kernel = SOURCE.kernel("ordered_rows_kernel");
    let bytes = (len + rows) * 2 * 4 + rows * 4;
    gpu.launch_looping(kernel.moving(bytes), len, arguments)?;
    Ok((to_words, to_counts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::test_devices::{Numbers, on_devices};

    #[test]
    fn ngrams_come_in_the_order_of_a_stable_sort() {
        on_devices(|gpu| {
            // Rows, words of an n-gram, and distinct words. One key has all ranks, except for the last shape: three of eight.
            let shapes = [
                (0, 2, 9),
                (1, 3, 5),
                (700, 3, 40),
                (3_000, 2, 7),
                (900, 8, 300_000),
            ];
            for (rows, n, words_below) in shapes {
                let mut numbers = Numbers::new(rows as u64);
                let words = numbers.below(rows * n, words_below);
                let counts = numbers.below(rows, 9);
                let mut ranks: Vec<u32> = (0..words_below).collect();
                ranks.sort_by_key(|rank| rank.wrapping_mul(0x9e37_79b9));
                for ranks in [None, Some(&ranks[..])] {
                    for descending in [None, Some(false), Some(true)] {
                        let given = DeviceNgrams {
                            words: gpu.upload(&words)?,
                            counts: gpu.upload(&counts)?,
                        };
                        let found = given.in_order(gpu, descending, ranks)?.download(gpu)?;
                        let of_row = |row: usize| &words[row * n..(row + 1) * n];
                        let mut order: Vec<usize> = (0..rows).collect();
                        order.sort_by_key(|&row| {
                            let count = match descending {
                                None => 0,
                                Some(false) => counts[row],
                                Some(true) => !counts[row],
                            };
                            let rank = |&word: &u32| ranks.map_or(0, |ranks| ranks[word as usize]);
                            (count, of_row(row).iter().map(rank).collect::<Vec<_>>())
                        });
                        let about = format!("{rows} {n} {descending:?} {}", ranks.is_some());
                        let expected = order.iter().map(|&row| counts[row]);
                        assert!(found.counts.iter().copied().eq(expected), "{about}");
                        let expected = order.iter().flat_map(|&row| of_row(row));
                        assert!(found.words.iter().eq(expected), "{about}");
                    }
                }
            }
            Ok(())
        });
    }

    #[test]
    fn ngrams_with_files_come_in_the_order_of_their_texts() {
        on_devices(|gpu| {
            for (rows, n, words_below) in [(0, 2, 9), (1, 3, 5), (3_000, 2, 7), (900, 8, 300_000)] {
                let mut numbers = Numbers::new(rows as u64);
                let words = numbers.below(rows * n, words_below);
                let mut offsets = vec![0];
                for length in numbers.below(rows, 9) {
                    offsets.push(offsets[offsets.len() - 1] + length);
                }
                let entries: Vec<u64> = (0..u64::from(offsets[rows])).collect();
                let mut ranks: Vec<u32> = (0..words_below).collect();
                ranks.sort_by_key(|rank| rank.wrapping_mul(0x9e37_79b9));
                let given = DeviceNgramFiles {
                    words: gpu.upload(&words)?,
                    files: DeviceTable {
                        offsets: gpu.upload(&offsets)?,
                        entries: gpu.upload(&entries)?,
                    },
                };
                let found = given.by_text(gpu, &ranks)?.download(gpu)?;
                let of_row = |row: usize| &words[row * n..(row + 1) * n];
                let mut order: Vec<usize> = (0..rows).collect();
                order.sort_by_key(|&row| {
                    let of_words = of_row(row).iter().map(|&word| ranks[word as usize]);
                    of_words.collect::<Vec<u32>>()
                });
                let expected = order.iter().flat_map(|&row| of_row(row));
                assert!(found.words.iter().eq(expected), "{rows} {n}");
                for (place, row) in order.into_iter().enumerate() {
                    // An entry is its place.
                    let expected = (offsets[row]..offsets[row + 1]).map(|entry| (0, entry));
                    let files = found.files.row(place).iter().copied();
                    assert!(files.eq(expected), "{rows} {n} {row}");
                }
            }
            Ok(())
        });
    }
}
