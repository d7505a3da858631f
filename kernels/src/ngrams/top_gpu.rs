//! The n-grams that occur most often, or least, and the largest counts of each row of a table, chosen where they are.
//!
//! The invariant: the rows that are kept are those with the rank of the last
//! wanted row or a greater one, in their order, so that whatever else orders
//! rows finds all that it may put first. The same holds for the entries of a row of a table. Ranks are found digit by
//! digit, the highest first (radix select), without sorting.

use crate::count::tables_gpu::DeviceTable;
use crate::gpu::device::{Buffer, Gpu, arguments};
use crate::gpu::driver::{Launch, Source, THREADS};
use crate::gpu::error::GpuError;
use crate::gpu::primitives;
use crate::ngrams::all_ngrams_gpu::{DeviceNgramFiles, DeviceNgrams};

/// Bits of a digit of a rank; three digits are all of it.
const DIGIT_BITS: u32 = 11;

/// Where the highest digit begins.
const HIGHEST_SHIFT: u32 = (u32::BITS.div_ceil(DIGIT_BITS) - 1) * DIGIT_BITS;

pub(crate) static SOURCE: Source = Source {
    name: "top.cu",
    text: include_str!("top.cu"),
    headers: &[],
    constants: &[
        ("TOP_THREADS", THREADS as u64),
        ("TOP_DIGIT_BITS", DIGIT_BITS as u64),
        ("TOP_HIGHEST_SHIFT", HIGHEST_SHIFT as u64),
    ],
};

impl DeviceNgrams {
    /// Of the n-grams whose counts are in the range `counts`, both ends included, the `limit` that occur most often, or
    /// least if not `descending`, in order of their words; also others that occur as often as the last of them.
    ///
    /// Waits for the device a few times.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn top(
        self,
        gpu: &Gpu,
        limit: u64,
        descending: bool,
        counts: (u64, u64),
    ) -> Result<DeviceNgrams, GpuError> {
        let rows = self.rows();
        if rows == 0 {
            return Ok(self);
        }
        let n = self.words.len() / rows;
        let ranks = Ranks::new(descending, counts);
        let places = ranks.places(gpu, &self.counts, limit)?;
        let used = gpu.item(&places, rows)? as usize;
        let words = gpu.allocate::<u32>(used * n)?;
        let counts = gpu.allocate::<u32>(used)?;
        let arguments = arguments! {
            places,
            rows,
            words: &self.words,
            // at most 8
            n: n as u32,
            counts: &self.counts,
            words_out: &words,
            counts_out: &counts,
        };
        gpu.launch_looping(
            SOURCE.kernel("top_rows_kernel").moving(rows * 4),
            rows,
            arguments,
        )?;
        Ok(DeviceNgrams { words, counts })
    }
}

impl DeviceNgramFiles {
    /// Of the n-grams with the files where their counts are in the range, as [`DeviceNgrams::top`]; n-grams with no such file are left out.
    ///
    /// Waits for the device a few times.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn top(
        self,
        gpu: &Gpu,
        limit: u64,
        descending: bool,
        counts: (u64, u64),
    ) -> Result<DeviceNgramFiles, GpuError> {
        let (rows, count) = (self.rows(), self.files.entries());
        if count == 0 {
            return Ok(self);
        }
        let n = self.words.len() / rows;
        let DeviceTable { offsets, entries } = &self.files;
        let of_entries = gpu.allocate::<u32>(count)?;
        let kernel = SOURCE.kernel("entry_counts_kernel");
        let arguments = arguments! { entries, count, counts: &of_entries };
        gpu.launch_looping(kernel.moving(count * (8 + 4)), count, arguments)?;
        let places = Ranks::new(descending, counts).places(gpu, &of_entries, limit)?;
        let flags = gpu.allocate::<u32>(rows)?;
        let arguments = arguments! { offsets, places, rows, flags };
        gpu.launch_looping(SOURCE.kernel("used_flags_kernel").whole(), rows, arguments)?;
        let row_places = primitives::scan::<u32, u32>(gpu, &flags)?;
        let used = gpu.item(&row_places, rows)? as usize;
        let kept = gpu.allocate::<u64>(gpu.item(&places, count)? as usize)?;
        let kernel = SOURCE.kernel("used_entries_kernel");
        let arguments = arguments! { places, count, entries, entries_out: &kept };
        gpu.launch_looping(kernel.moving(count * 4), count, arguments)?;
        let words = gpu.allocate::<u32>(used * n)?;
        let starts = gpu.allocate::<u32>(used + 1)?;
        let arguments = arguments! {
            row_places,
            rows,
            words: &self.words,
            // at most 8
            n: n as u32,
            offsets,
            places,
            words_out: &words,
            offsets_out: &starts,
        };
        let kernel = SOURCE.kernel("used_rows_kernel");
        gpu.launch_looping(kernel.moving(rows * 4), rows, arguments)?;
        let files = DeviceTable {
            offsets: starts,
            entries: kept,
        };
        Ok(DeviceNgramFiles { words, files })
    }
}

impl DeviceTable {
    /// As [`CountTable::largest`](crate::CountTable::largest).
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn largest(&self, gpu: &Gpu, limit: u32) -> Result<DeviceTable, GpuError> {
        let rows = self.rows();
        let (lows, lengths) = (gpu.allocate::<u32>(rows)?, gpu.allocate::<u32>(rows)?);
        let launch = Launch {
            // Rows are u32.
            blocks: rows as u32,
            threads: THREADS,
        };
        let (offsets, entries) = (&self.offsets, &self.entries);
        let arguments = arguments! { offsets, entries, limit: limit.max(1), lows, lengths };
        let kernel = SOURCE.kernel("row_lows_kernel");
        gpu.launch(kernel.moving(entries.len() * 3 * 8), launch, arguments)?;
        let places = primitives::scan::<u32, u32>(gpu, &lengths)?;
        let kept = gpu.allocate::<u64>(gpu.item(&places, rows)? as usize)?;
        let arguments = arguments! { offsets, entries, lows, offsets_out: &places, out: &kept };
        let kernel = SOURCE.kernel("row_tops_kernel");
        let bytes = (entries.len() + kept.len()) * 8;
        gpu.launch(kernel.moving(bytes), launch, arguments)?;
        Ok(DeviceTable {
            offsets: places,
            entries: kept,
        })
    }
}

/// Ranks of rows that are wanted, the greatest first.
#[derive(Clone, Copy)]
struct Ranks {
    /// The bits in which a rank is not the count.
    changed: u32,
    low: u32,
    /// Less than `low` if none are wanted.
    high: u32,
}

impl Ranks {
    /// Of rows whose counts are in a range.
    fn new(descending: bool, (least, most): (u64, u64)) -> Ranks {
        let Ok(least) = u32::try_from(least) else {
            return Ranks {
                changed: 0,
                low: 1,
                high: 0,
            };
        };
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        if descending {
            Ranks {
                changed: 0,
                low: least,
                high: most,
            }
        } else {
            Ranks {
                changed: u32::MAX,
                low: !most,
                high: !least,
            }
        }
    }

    /// `[rows + 1]`: how many rows before each are wanted that are among the first `limit`, or occur as often as the last of them.
    fn places(
        mut self,
        gpu: &Gpu,
        counts: &Buffer<u32>,
        limit: u64,
    ) -> Result<Buffer<u32>, GpuError> {
        let rows = counts.len();
        if limit < rows as u64 {
            self.low = self.last(gpu, counts, limit)?;
        }
        let flags = gpu.allocate::<u32>(rows)?;
        let Ranks { changed, low, high } = self;
        let arguments = arguments! { counts, rows, changed, low, high, flags };
        gpu.launch_looping(
            SOURCE.kernel("top_flags_kernel").moving(rows * 2 * 4),
            rows,
            arguments,
        )?;
        primitives::scan::<u32, u32>(gpu, &flags)
    }

    /// The rank of the last of `limit` rows, the greatest first; the least that is wanted if there are fewer.
    fn last(self, gpu: &Gpu, counts: &Buffer<u32>, limit: u64) -> Result<u32, GpuError> {
        let Ranks { changed, low, high } = self;
        // The highest digits of the rank, and how many rows with these are wanted.
        let (mut prefix, mut wanted) = (0u32, limit.max(1));
        let digits = HIGHEST_SHIFT / DIGIT_BITS;
        for shift in (0..=digits).rev().map(|digit| digit * DIGIT_BITS) {
            let digits = gpu.zeroed::<u32>(1 << DIGIT_BITS)?;
            let rows = counts.len();
            let arguments = arguments! { counts, rows, changed, low, high, prefix, shift, digits };
            gpu.launch_looping(
                SOURCE.kernel("count_digits_kernel").moving(rows * 4),
                rows,
                arguments,
            )?;
            let digits = gpu.download(&digits)?;
            let mut digit = digits.len() - 1;
            while digit > 0 && u64::from(digits[digit]) < wanted {
                wanted -= u64::from(digits[digit]);
                digit -= 1;
            }
            // A digit has few bits.
            prefix = prefix << DIGIT_BITS | digit as u32;
        }
        Ok(prefix.max(low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CountTable;
    use crate::gpu::test_devices::{Numbers, on_devices};

    /// Which counts are used, of all.
    fn used(
        counts: &[u32],
        limit: u64,
        descending: bool,
        bounds: (u64, u64),
    ) -> impl Fn(u32) -> bool {
        let is_counted = move |count: u32| (bounds.0..=bounds.1).contains(&u64::from(count));
        let mut sorted = counts.to_vec();
        sorted.retain(|&count| is_counted(count));
        sorted.sort_unstable();
        if descending {
            sorted.reverse();
        }
        let last = sorted.get(limit as usize - 1).copied();
        move |count| {
            let is_before = |last: u32| {
                if descending {
                    count >= last
                } else {
                    count <= last
                }
            };
            is_counted(count) && last.is_none_or(is_before)
        }
    }

    #[test]
    fn the_first_rows_by_count_are_chosen() {
        let all = (0, u64::MAX);
        let tops = [
            (1, true, all),
            (10, true, all),
            (10, false, all),
            (2_999, true, all),
            (5_000, false, all),
            (10, true, (2, 7)),
            (10, false, (2, 7)),
            (u64::MAX, true, (3, u64::MAX)),
            (u64::MAX, false, (1 << 40, u64::MAX)),
            (10, true, (8, 7)),
        ];
        on_devices(|gpu| {
            for (rows, below) in [(1, 5), (70, 2), (3_000, 30), (3_000, u32::MAX)] {
                let mut numbers = Numbers::new(rows as u64);
                let words = numbers.below(rows * 2, 1_000);
                // Few of the counts are large.
                let spread = numbers.below(rows, 6);
                let counts: Vec<u32> = (numbers.below(rows, below).into_iter().zip(spread))
                    .map(|(count, spread)| count >> (spread * 5))
                    .collect();
                for (limit, descending, bounds) in tops {
                    let given = DeviceNgrams {
                        words: gpu.upload(&words)?,
                        counts: gpu.upload(&counts)?,
                    };
                    let top = given.top(gpu, limit, descending, bounds)?;
                    let top = top.download(gpu)?;
                    let is_used = used(&counts, limit, descending, bounds);
                    let used = (0..rows).filter(|&row| is_used(counts[row]));
                    let used: Vec<usize> = used.collect();
                    let expected: Vec<u32> = used.iter().map(|&row| counts[row]).collect();
                    let about = format!("{rows} rows, {limit}, {descending}, {bounds:?}");
                    assert_eq!(top.counts, expected, "{about}");
                    let expected = used.iter().flat_map(|&row| &words[row * 2..row * 2 + 2]);
                    assert!(top.words.iter().eq(expected), "{about}");
                }
            }
            Ok(())
        });
    }

    #[test]
    fn the_first_files_of_ngrams_by_count_are_chosen() {
        let tops = [
            (1, true, (0, u64::MAX)),
            (40, false, (2, 900)),
            (100, true, (0, u64::MAX)),
            (u64::MAX, true, (990, u64::MAX)),
            (10, true, (2_000, u64::MAX)),
        ];
        on_devices(|gpu| {
            for (rows, n) in [(0, 3), (1, 8), (2_000, 2)] {
                let mut numbers = Numbers::new(rows as u64);
                let words = numbers.below(rows * n, 1_000);
                let mut offsets = vec![0];
                for length in numbers.below(rows, 9) {
                    offsets.push(offsets[offsets.len() - 1] + length + 1);
                }
                let count = offsets[rows] as usize;
                let (files, counts) = (numbers.below(count, 500), numbers.below(count, 1_000));
                for (limit, descending, bounds) in tops {
                    let entries = files.iter().zip(&counts);
                    let entries =
                        entries.map(|(&file, &count)| u64::from(file) << 32 | u64::from(count));
                    let given = DeviceNgramFiles {
                        words: gpu.upload(&words)?,
                        files: DeviceTable {
                            offsets: gpu.upload(&offsets)?,
                            entries: gpu.upload(&entries.collect::<Vec<u64>>())?,
                        },
                    };
                    let found = given.top(gpu, limit, descending, bounds)?.download(gpu)?;
                    let is_used = used(&counts, limit, descending, bounds);
                    let (mut of_words, mut of_files) = (Vec::new(), Vec::new());
                    for row in 0..rows {
                        let places = offsets[row] as usize..offsets[row + 1] as usize;
                        let used = places.filter(|&place| is_used(counts[place]));
                        let used: Vec<_> =
                            used.map(|place| (files[place], counts[place])).collect();
                        if !used.is_empty() {
                            of_words.extend_from_slice(&words[row * n..(row + 1) * n]);
                            of_files.push(used);
                        }
                    }
                    let about = format!("{rows} rows, {limit}, {descending}, {bounds:?}");
                    assert_eq!(found.words, of_words, "{about}");
                    let found = (0..found.files.rows()).map(|row| found.files.row(row).to_vec());
                    assert_eq!(found.collect::<Vec<_>>(), of_files, "{about}");
                }
            }
            Ok(())
        });
    }

    #[test]
    fn the_largest_entries_of_rows_are_those_of_the_twin() {
        on_devices(|gpu| {
            for (rows, below) in [(0, 1), (1, 3), (40, 5), (300, 9), (7, 1_000_000_000)] {
                let mut numbers = Numbers::new(rows as u64);
                // Rows of no entries, some, and many.
                let lengths = numbers.below(rows, 900).into_iter();
                let lengths = lengths.map(|length| match length % 3 {
                    0 => 0,
                    1 => length % 40,
                    _ => length,
                });
                let row = |length: u32| {
                    let counts = numbers.below(length as usize, below).into_iter();
                    (0..).zip(counts.map(|count| count + 1)).collect()
                };
                let table = CountTable::of_rows(lengths.map(row).collect());
                let offsets: Vec<u32> = table.offsets.iter().map(|&at| at as u32).collect();
                let entries = table.entries.iter();
                let entries: Vec<u64> = entries
                    .map(|&(column, count)| u64::from(column) << 32 | u64::from(count))
                    .collect();
                let given = DeviceTable {
                    offsets: gpu.upload(&offsets)?,
                    entries: gpu.upload(&entries)?,
                };
                for limit in [0, 1, 2, 10, 300, u32::MAX] {
                    let found = given.largest(gpu, limit)?.download(gpu)?;
                    assert_eq!(found, table.largest(limit), "{limit}");
                }
            }
            Ok(())
        });
    }
}
