//! The tasks on plain words instead of a grammar: what traversal is measured against.
//!
//! The invariant: results equal those of the grammar. Written with the same
//! primitives and as one would without a grammar: histograms with frequent
//! words in shared memory, counters for few files, radix sorts of packed keys
//! for the rest. Nothing of the database uses it; only benchmarks have it.

use zipfdb_kernels::GrammarView;
use zipfdb_kernels::gpu::building_blocks::{
    COLUMNS_MAX, Source, THREADS, arguments, hot_in_root, of_cells, rank_rows, root_counts,
    table_of_keys, window_rows,
};
use zipfdb_kernels::gpu::{Buffer, DeviceTable, DeviceWords, Gpu, GpuError, primitives};

pub(crate) static SOURCE: Source = Source {
    name: "baseline.cu",
    text: include_str!("baseline.cu"),
    headers: &[],
    constants: &[("BASELINE_THREADS", THREADS as u64)],
};

/// Bits of the words of a key; one more marks positions without a window.
const KEY_BITS: u32 = u64::BITS - 1;

/// The words of some files on a device, one after the other: a grammar without rules.
#[derive(Debug)]
pub struct PlainWords {
    all: DeviceWords,
    /// Words that are frequent.
    hot: Buffer<u32>,
}

impl PlainWords {
    /// Copies words to a device. `file_offsets` is `[files + 1]`.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn upload(
        gpu: &Gpu,
        words: &[u32],
        file_offsets: &[u32],
        word_count: u32,
    ) -> Result<PlainWords, GpuError> {
        let view = GrammarView {
            terminal_count: word_count,
            rule_offsets: &[0],
            symbols: &[],
            level_offsets: &[0],
            root_offsets: file_offsets,
            root: words,
        };
        let all = DeviceWords::upload(gpu, view)?;
        let hot = hot_in_root(gpu, &all)?;
        Ok(PlainWords { all, hot })
    }

    /// How many words there are.
    pub fn len(&self) -> usize {
        self.all.root.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.root.is_empty()
    }

    fn word_bits(&self) -> u32 {
        u32::BITS - self.all.terminal_count.saturating_sub(1).leading_zeros()
    }
}

/// How often each word occurs, by one atomic a word.
///
/// # Errors
///
/// [`GpuError`].
pub fn plain_histogram(gpu: &Gpu, words: &PlainWords) -> Result<Buffer<u32>, GpuError> {
    let counts = gpu.zeroed::<u32>(words.all.terminal_count as usize)?;
    let arguments = arguments! { words: &words.all.root, count: words.len(), counts };
    gpu.launch_looping(
        SOURCE.kernel("plain_histogram_kernel"),
        words.len(),
        arguments,
    )?;
    Ok(counts)
}

/// How often each word occurs, with frequent ones counted in shared memory.
///
/// # Errors
///
/// [`GpuError`].
pub fn histogram(gpu: &Gpu, words: &PlainWords) -> Result<Buffer<u32>, GpuError> {
    root_counts(gpu, &words.all, &words.hot, 1)
}

/// For each word the files that it occurs in, with counts; with `by_file` for each file its words.
///
/// # Errors
///
/// [`GpuError::Limit`] when a word and a file together take more than 32 bits.
pub fn counts_by_file(
    gpu: &Gpu,
    words: &PlainWords,
    by_file: bool,
) -> Result<DeviceTable, GpuError> {
    let (files, terminals) = (words.all.files(), words.all.terminal_count as usize);
    if files <= COLUMNS_MAX {
        let cells = root_counts(gpu, &words.all, &words.hot, files)?;
        return if by_file {
            of_cells(gpu, &cells, files, terminals, (1, files))
        } else {
            of_cells(gpu, &cells, terminals, files, (files, 1))
        };
    }
    let bits = |count: usize| usize::BITS - count.saturating_sub(1).leading_zeros();
    let (word_bits, file_bits) = (bits(terminals), bits(files));
    // Shifts by 32 bits are not defined.
    if word_bits + file_bits > u32::BITS || file_bits == u32::BITS {
        return Err(GpuError::Limit {
            what: "words times files",
            items: (terminals * files) as u64,
            limit: 1 << 32,
        });
    }
    let keys = gpu.allocate::<u32>(words.len())?;
    let arguments = arguments! {
        words: &words.all.root,
        files: &words.all.root_files,
        count: words.len(),
        file_bits,
        keys,
    };
    gpu.launch_looping(
        SOURCE.kernel("word_file_keys_kernel"),
        words.len(),
        arguments,
    )?;
    // Sorting is stable: files stay in order.
    let keys = primitives::sort_keys(gpu, keys, file_bits..file_bits + word_bits)?;
    let table = table_of_keys(gpu, &keys, None, file_bits, terminals)?;
    if by_file {
        table.transposed(gpu, files)
    } else {
        Ok(table)
    }
}

/// The distinct n-grams as keys, ascending, with counts; where a file ends, a last key of all ones may have some.
///
/// A key has the words of its n-gram, or, where they do not fit, only its place in their order.
///
/// # Errors
///
/// [`GpuError`].
pub fn ngram_counts(
    gpu: &Gpu,
    words: &PlainWords,
    n: usize,
) -> Result<(Buffer<u64>, Buffer<u64>), GpuError> {
    let keys = if words.word_bits() * n as u32 <= KEY_BITS {
        let (keys, bits) = window_keys(gpu, words, n)?;
        primitives::sort_keys(gpu, keys, 0..bits)?
    } else {
        sorted_windows(gpu, words, n, KEY_BITS)?.0
    };
    primitives::sums_by_key(gpu, &keys, None)
}

/// As [`ngram_counts`], and for each its files, by count.
///
/// # Errors
///
/// [`GpuError`].
pub fn ngram_file_counts(
    gpu: &Gpu,
    words: &PlainWords,
    n: usize,
) -> Result<(Buffer<u64>, DeviceTable), GpuError> {
    let files = gpu.allocate::<u32>(words.len())?;
    // Words are in order of files, and sorting is stable.
    if words.word_bits() * n as u32 <= KEY_BITS {
        let (keys, bits) = window_keys(gpu, words, n)?;
        gpu.copy(&files, 0, &words.all.root_files, words.len())?;
        let (keys, files) = primitives::sort_pairs(gpu, keys, files, 0..bits)?;
        return rows_of(gpu, keys, files);
    }
    let (keys, numbers) = sorted_windows(gpu, words, n, KEY_BITS)?;
    let arguments = arguments! {
        root_files: &words.all.root_files,
        numbers,
        count: words.len(),
        files,
    };
    gpu.launch_looping(SOURCE.kernel("window_files_kernel"), words.len(), arguments)?;
    drop(numbers);
    rows_of(gpu, keys, files)
}

/// Windows in order, which are sorted by some words at a time, the last first: the number of the n-gram of each, and where
/// it is. Keys take `key_bits` bits and one for windows that are none.
fn sorted_windows(
    gpu: &Gpu,
    words: &PlainWords,
    n: usize,
    key_bits: u32,
) -> Result<(Buffer<u64>, Buffer<u32>), GpuError> {
    let count = words.len();
    let part = (key_bits / words.word_bits().max(1)) as usize;
    let mut numbers = gpu.allocate::<u32>(count)?;
    let mut keys = gpu.allocate::<u64>(count)?;
    let firsts: Vec<usize> = (0..n).step_by(part).collect();
    for (turn, &first) in firsts.iter().rev().enumerate() {
        let length = part.min(n - first) as u32;
        let arguments = arguments! {
            words: &words.all.root,
            files: &words.all.root_files,
            file_offsets: &words.all.root_offsets,
            is_first: u32::from(turn == 0),
            numbers,
            count,
            n: n as u32,
            first: first as u32,
            length,
            bits: words.word_bits(),
            keys,
        };
        gpu.launch_looping(SOURCE.kernel("window_part_keys_kernel"), count, arguments)?;
        let bits = 0..length * words.word_bits() + 1;
        (keys, numbers) = primitives::sort_pairs(gpu, keys, numbers, bits)?;
    }
    let differs = gpu.allocate::<u32>(count)?;
    let arguments = arguments! {
        words: &words.all.root,
        keys,
        numbers,
        count,
        n: n as u32,
        length: part.min(n) as u32,
        differs,
    };
    gpu.launch_looping(SOURCE.kernel("window_differs_kernel"), count, arguments)?;
    let differ_before = primitives::scan::<u32, u32>(gpu, &differs)?;
    let arguments = arguments! { differ_before, count, keys };
    gpu.launch_looping(SOURCE.kernel("number_windows_kernel"), count, arguments)?;
    Ok((keys, numbers))
}

/// Sorted keys of windows with their files: the distinct keys, and for each its files, by count.
fn rows_of(
    gpu: &Gpu,
    keys: Buffer<u64>,
    files: Buffer<u32>,
) -> Result<(Buffer<u64>, DeviceTable), GpuError> {
    let found = window_rows(gpu, keys, Some(files), 0, None)?;
    rank_rows(gpu, &found.files, &found.counts, 1)?;
    Ok((found.keys, found.files))
}

/// The keys of all windows, and their bits.
fn window_keys(gpu: &Gpu, words: &PlainWords, n: usize) -> Result<(Buffer<u64>, u32), GpuError> {
    // A few words of 32 bits at most.
    let bits = words.word_bits() * n as u32;
    let keys = gpu.allocate::<u64>(words.len())?;
    let arguments = arguments! {
        words: &words.all.root,
        files: &words.all.root_files,
        file_offsets: &words.all.root_offsets,
        count: words.len(),
        n: n as u32,
        bits: words.word_bits(),
        keys,
    };
    gpu.launch_looping(SOURCE.kernel("window_keys_kernel"), words.len(), arguments)?;
    Ok((keys, bits + 1))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use zipfdb_kernels::gpu::test_devices::{Numbers, on_devices};
    use zipfdb_kernels::{
        CountTable, FileCounting, FileOrder, Parameters, WordUses, construct, weights,
    };

    use super::*;

    static GO: AtomicBool = AtomicBool::new(false);

    #[test]
    fn tasks_on_plain_words_equal_those_on_a_grammar() {
        on_devices(|gpu| {
            for files in [7, 50] {
                let word_count = 30;
                let all_words = Numbers::new(files).below(files as usize * 40, word_count);
                let offsets: Vec<u32> = (0..=files as u32).map(|file| file * 40).collect();
                let parameters = Parameters::default();
                let words = all_words.clone();
                let made = construct(words, &offsets, word_count, &parameters, &mut |_| {});
                let view = GrammarView {
                    terminal_count: word_count,
                    rule_offsets: &made.rule_offsets,
                    symbols: &made.symbols,
                    level_offsets: &made.level_offsets,
                    root_offsets: &made.root_offsets,
                    root: &made.root,
                };
                let weights = weights(view, 0..view.root.len(), all_words.len() as u64);
                let weights: Vec<u32> = weights.into_iter().map(|weight| weight as u32).collect();
                let plain = PlainWords::upload(gpu, &all_words, &offsets, word_count)?;
                let expected = &weights[..word_count as usize];
                assert_eq!(gpu.download(&plain_histogram(gpu, &plain)?)?, expected);
                assert_eq!(gpu.download(&histogram(gpu, &plain)?)?, expected);
                let uses = WordUses::new(view);
                let table = counts_by_file(gpu, &plain, false)?.download(gpu)?;
                let counting = FileCounting::Words;
                let twin =
                    zipfdb_kernels::word_file_counts(view, counting, &GO).expect("not stopped");
                assert_eq!(table, twin);
                let table = counts_by_file(gpu, &plain, true)?.download(gpu)?;
                assert_eq!(table, twin.transposed(files as usize));
                let twin = zipfdb_kernels::ngram_file_counts(
                    view,
                    &weights,
                    &uses,
                    3,
                    FileOrder::Count,
                    usize::MAX,
                    &GO,
                );
                let rows: Vec<Vec<(u32, u32)>> = (twin.expect("not stopped").iter())
                    .flat_map(|part| (0..part.files.rows()).map(|row| part.files.row(row).to_vec()))
                    .collect();
                let (keys, table) = ngram_file_counts(gpu, &plain, 3)?;
                assert_eq!(table.download(gpu)?, CountTable::of_rows(rows));
                let (all, counts) = ngram_counts(gpu, &plain, 3)?;
                let (all, counts) = (gpu.download(&all)?, gpu.download(&counts)?);
                assert_eq!(gpu.download(&keys)?, all[..keys.len()]);
                // By two words, and then by one.
                let bits = plain.word_bits() * 2;
                let (numbered, places) = sorted_windows(gpu, &plain, 3, bits)?;
                let again = primitives::sums_by_key(gpu, &numbered, None)?.1;
                assert_eq!(gpu.download(&again)?, counts);
                let bits = plain.word_bits();
                let (numbered, places) = (gpu.download(&numbered)?, gpu.download(&places)?);
                for (&number, &place) in numbered.iter().zip(&places) {
                    if number != u64::MAX {
                        let window = &all_words[place as usize..][..3];
                        let key = window.iter().fold(0, |key, &w| key << bits | u64::from(w));
                        assert_eq!(all[number as usize], key);
                    }
                }
                let table = table.download(gpu)?;
                for (row, &count) in counts[..keys.len()].iter().enumerate() {
                    let sum: u64 = table.row(row).iter().map(|&(_, n)| u64::from(n)).sum();
                    assert_eq!(sum, count);
                }
            }
            Ok(())
        });
    }
}
