//! The words of all files, decoded, and counts of words by file from them.
//!
//! The invariant: tables are those of lists. Only for grammars of many files
//! whose words are not many times their symbols: others are better not decoded.

use super::device::{Buffer, Gpu, arguments};
use super::driver::{Argument, Launch, Source, THREADS};
use super::error::GpuError;
use super::local_tables;
use super::primitives::{self, LookBack, SORT_MAX};
use super::tables::DeviceTable;
use super::traversal::DeviceWords;
use super::weights::weights;

/// Keys of a tile of runs.
const TILE: usize = 4096;

/// Words of a tile of the root.
const ROOT_TILE: usize = 2048;

/// Windows of a tile of runs.
const WINDOWS_TILE: usize = 2048;

/// Bytes of a word while they are counted by file: keys that stay, two places of a sort, and runs.
const WORD_BYTES: usize = 5 * size_of::<u32>() + size_of::<u64>();

/// Bytes of a window while they are sorted, and then divided into rows.
const WINDOW_BYTES: usize = 2 * (size_of::<u64>() + size_of::<u32>()) + 24;

/// Where rows begin in a number that has entries below.
const ROWS_SHIFT: u32 = 31;

/// Words are decoded if there are at most so many a symbol.
const WORDS_MAX: usize = 4;

pub(crate) static SOURCE: Source = Source {
    name: "file_words.cu",
    text: include_str!("file_words.cu"),
    constants: &[
        ("FILE_WORDS_THREADS", THREADS as u64),
        ("FILE_WORDS_TILE", TILE as u64),
        ("FILE_WORDS_ROOT_TILE", ROOT_TILE as u64),
        ("FILE_WORDS_WINDOWS_TILE", WINDOWS_TILE as u64),
    ],
};

/// The words of all files, each with its file.
#[derive(Debug)]
pub(crate) struct FileWords {
    /// `word << file_bits | file`, in order of files.
    keys: Buffer<u32>,
    shape: KeyShape,
}

/// Bits of words and files in a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyShape {
    word_bits: u32,
    pub(crate) file_bits: u32,
}

impl KeyShape {
    /// `None` if both do not fit into a key.
    pub(crate) fn new(words: usize, files: usize) -> Option<KeyShape> {
        let bits = |count: usize| usize::BITS - count.saturating_sub(1).leading_zeros();
        let (word_bits, file_bits) = (bits(words), bits(files));
        // Shifts by 32 bits are not defined.
        let fits = word_bits + file_bits <= u32::BITS && file_bits < u32::BITS;
        fits.then_some(KeyShape {
            word_bits,
            file_bits,
        })
    }
}

impl FileWords {
    /// Decodes all files; `None` where that does not pay.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub(crate) fn new(gpu: &Gpu, grammar: &DeviceWords) -> Result<Option<FileWords>, GpuError> {
        let terminals = grammar.terminal_count;
        let (bodies, roots) = grammar.sizes();
        let Some(shape) = KeyShape::new(terminals as usize, grammar.files()) else {
            return Ok(None);
        };
        let weights = weights(gpu, grammar)?;
        let rule_weights = weights.at(terminals as usize);
        let lengths = local_tables::lengths(gpu, grammar)?;
        let sizes_of = |symbols: &Buffer<u32>, owners: Argument| {
            let sizes = gpu.allocate::<u32>(symbols.len())?;
            let arguments = arguments![
                symbols,
                owners,
                symbols.len(),
                terminals,
                &lengths,
                rule_weights,
                &sizes
            ];
            gpu.launch_looping(
                SOURCE.kernel("word_sizes_kernel").whole(),
                symbols.len(),
                arguments,
            )?;
            Ok(sizes)
        };
        let body_sizes = sizes_of(&grammar.symbols, (&grammar.owners).into())?;
        let root_sizes = sizes_of(&grammar.root, Argument::U64(0))?;
        // Words of rules may be more than u32 counts.
        let body_sums = primitives::scan::<u32, u64>(gpu, &body_sizes)?;
        let root_places = primitives::scan::<u32, u32>(gpu, &root_sizes)?;
        let body_words = gpu.item(&body_sums, bodies)?;
        let words = gpu.item(&root_places, roots)? as usize;
        let most = WORDS_MAX * (bodies + roots);
        let room = gpu.memory_limit().saturating_sub(gpu.memory_used());
        let is_room = (words * WORD_BYTES) as u64 <= room;
        if words > most || body_words > most as u64 || words > SORT_MAX || !is_room {
            return Ok(None);
        }
        drop((body_sums, root_sizes));

        let body_places = primitives::scan::<u32, u32>(gpu, &body_sizes)?;
        drop(body_sizes);
        // At most `most`, a usize.
        let flat = gpu.allocate::<u32>(body_words as usize)?;
        let owners = primitives::expand(gpu, &body_places, flat.len())?;
        for level in 0..grammar.levels() {
            let range = grammar.level_bodies(level);
            let arguments = arguments![
                &grammar.symbols,
                &grammar.rule_offsets,
                &body_places,
                &owners,
                range.start,
                range.end,
                terminals,
                &flat
            ];
            gpu.launch_looping(SOURCE.kernel("level_words_kernel"), flat.len(), arguments)?;
        }
        let keys = gpu.allocate::<u32>(words)?;
        let arguments = arguments![
            &grammar.root,
            &grammar.root_files,
            // Places in the root are u32.
            roots as u32,
            &root_places,
            words,
            &grammar.rule_offsets,
            &body_places,
            &flat,
            terminals,
            shape.file_bits,
            &keys
        ];
        let launch = Launch::tiles(words, ROOT_TILE);
        gpu.launch(
            SOURCE
                .kernel("root_words_kernel")
                .moving(roots * 3 * 4 + words * 4),
            launch,
            arguments,
        )?;
        Ok(Some(FileWords { keys, shape }))
    }

    /// Bytes on the device.
    pub(crate) fn bytes(&self) -> u64 {
        (self.keys.len() * size_of::<u32>()) as u64
    }

    /// For each word the files that it occurs in, with counts.
    pub(crate) fn table(&self, gpu: &Gpu, words: usize) -> Result<DeviceTable, GpuError> {
        let keys = gpu.allocate::<u32>(self.keys.len())?;
        gpu.copy(&keys, 0, &self.keys, keys.len())?;
        table(gpu, keys, self.shape, words)
    }
}

/// N-grams in order, how often each occurs, and its files in order.
pub(crate) struct FileWindows {
    /// `[rows]`
    #[cfg_attr(not(any(test, feature = "measure")), expect(dead_code))]
    pub(crate) keys: Buffer<u64>,
    /// `[rows * n]`; empty where they are not asked for.
    pub(crate) words: Buffer<u32>,
    /// `[rows]`
    pub(crate) counts: Buffer<u32>,
    pub(crate) files: DeviceTable,
}

impl FileWords {
    /// The n-grams of all files; `None` if they do not fit into 64 bits, or windows not into `memory` bytes.
    pub(crate) fn windows(
        &self,
        gpu: &Gpu,
        n: usize,
        memory: usize,
    ) -> Result<Option<FileWindows>, GpuError> {
        let KeyShape {
            word_bits,
            file_bits,
        } = self.shape;
        let count = self.keys.len();
        // A few words of 32 bits at most.
        let bits = word_bits * n as u32;
        if bits >= u64::BITS || count.saturating_mul(WINDOW_BYTES) > memory {
            return Ok(None);
        }
        let (keys, files) = (gpu.allocate::<u64>(count)?, gpu.allocate::<u32>(count)?);
        let arguments = arguments![
            &self.keys, count, file_bits, n as u32, word_bits, &keys, &files
        ];
        gpu.launch_looping(
            SOURCE.kernel("word_windows_kernel").whole(),
            count,
            arguments,
        )?;
        // One bit more tells windows that are none. Sorting is stable: files stay in order.
        let (keys, files) = primitives::sort_pairs(gpu, keys, files, 0..bits + 1)?;
        windows(gpu, keys, files, Some((n, word_bits))).map(Some)
    }
}

/// The rows of sorted keys of windows, with the file of each; keys of all ones come last and count for nothing. With `shape`
/// keys have so many words of so many bits, and the words of rows are told.
pub(crate) fn windows(
    gpu: &Gpu,
    keys: Buffer<u64>,
    files: Buffer<u32>,
    shape: Option<(usize, u32)>,
) -> Result<FileWindows, GpuError> {
    let count = keys.len();
    assert!(count <= SORT_MAX, "{count} windows");
    let mut row_keys = gpu.allocate::<u64>(count)?;
    let row_firsts = gpu.allocate::<u32>(count)?;
    let row_entries = gpu.allocate::<u32>(count)?;
    let entry_firsts = gpu.allocate::<u32>(count)?;
    let entry_files = gpu.allocate::<u32>(count)?;
    let totals = gpu.upload(&[count as u64, 0])?;
    let launch = Launch::tiles(count, WINDOWS_TILE);
    let look_back = LookBack::<u64>::new(gpu, launch.blocks as usize)?;
    let arguments = arguments![
        &keys,
        &files,
        count,
        look_back.words(),
        look_back.ticket(),
        &row_keys,
        &row_firsts,
        &row_entries,
        &entry_firsts,
        &entry_files,
        &totals
    ];
    gpu.launch(
        SOURCE.kernel("window_runs_kernel").moving(count * (8 + 4)),
        launch,
        arguments,
    )?;
    let totals = gpu.download(&totals)?;
    drop((keys, files));
    // All are at most `count`, which is below 2^30.
    let (counted, rows) = (totals[0] as u32, (totals[1] >> ROWS_SHIFT) as usize);
    let entry_count = (totals[1] & ((1 << ROWS_SHIFT) - 1)) as usize;
    let entries = gpu.allocate::<u64>(entry_count)?;
    let arguments = arguments![&entry_firsts, &entry_files, entry_count, counted, &entries];
    gpu.launch_looping(
        SOURCE
            .kernel("window_entries_kernel")
            .moving(entry_count * (2 * 4 + 8)),
        entry_count,
        arguments,
    )?;
    drop((entry_firsts, entry_files));
    let (n, bits) = shape.unwrap_or((0, 0));
    let words = gpu.allocate::<u32>(rows * n)?;
    let counts = gpu.allocate::<u32>(rows)?;
    let offsets = gpu.allocate::<u32>(rows + 1)?;
    let arguments = arguments![
        &row_keys,
        &row_firsts,
        &row_entries,
        rows,
        counted,
        entry_count as u32,
        n as u32,
        bits,
        &words,
        &counts,
        &offsets
    ];
    gpu.launch_looping(SOURCE.kernel("window_rows_kernel"), rows + 1, arguments)?;
    row_keys.truncate(rows);
    Ok(FileWindows {
        keys: row_keys,
        words,
        counts,
        files: DeviceTable { offsets, entries },
    })
}

/// The table of keys in order of files: for each word the files that it occurs in, with counts.
pub(crate) fn table(
    gpu: &Gpu,
    keys: Buffer<u32>,
    shape: KeyShape,
    words: usize,
) -> Result<DeviceTable, GpuError> {
    let count = keys.len();
    // Sorting is stable: files stay in order.
    let bits = shape.file_bits..shape.file_bits + shape.word_bits;
    let keys = primitives::sort_keys(gpu, keys, bits)?;
    let (run_keys, firsts) = (gpu.allocate::<u32>(count)?, gpu.allocate::<u32>(count)?);
    let runs = gpu.zeroed::<u64>(1)?;
    let launch = Launch::tiles(count, TILE);
    let look_back = LookBack::<u64>::new(gpu, launch.blocks as usize)?;
    let arguments = arguments![
        &keys,
        count,
        look_back.words(),
        look_back.ticket(),
        &run_keys,
        &firsts,
        &runs
    ];
    gpu.launch(SOURCE.kernel("run_firsts_kernel"), launch, arguments)?;
    // At most `count`, a usize.
    let runs = gpu.item(&runs, 0)? as usize;
    drop(keys);
    let offsets = gpu.allocate::<u32>(words + 1)?;
    let entries = gpu.allocate::<u64>(runs)?;
    // Words are u32, and places of a grammar's words too.
    let arguments = arguments![
        &run_keys,
        &firsts,
        runs,
        count as u32,
        shape.file_bits,
        words as u32,
        &offsets,
        &entries
    ];
    gpu.launch_looping(SOURCE.kernel("run_entries_kernel"), runs + 1, arguments)?;
    Ok(DeviceTable { offsets, entries })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::gpu::test_devices::on_devices;
    use crate::{FileCounting, FileOrder, WordUses, test_grammars};

    #[test]
    fn words_that_are_few_are_decoded_and_counted_as_by_the_twin() {
        on_devices(|gpu| {
            let mut decoded = 0;
            let few = [
                test_grammars::many_files(3),
                test_grammars::many_files(300),
                test_grammars::long_body(9_000),
                // Rules that no file uses have up to 2^70 words.
                test_grammars::doubling(70),
            ];
            for grammar in test_grammars::random_many(5).chain(few) {
                let words = grammar.word_grammar();
                let view = words.view();
                let device = DeviceWords::upload(gpu, view)?;
                if let Some(found) = FileWords::new(gpu, &device)? {
                    let table = found.table(gpu, view.terminal_count as usize)?;
                    let go = AtomicBool::new(false);
                    let uses = WordUses::new(view);
                    let twin = crate::word_file_counts(view, FileCounting::Rules, &go);
                    assert_eq!(Ok(table.download(gpu)?), twin, "{grammar:?}");
                    for n in [2, 3] {
                        let Some(windows) = found.windows(gpu, n, usize::MAX)? else {
                            continue;
                        };
                        let order = FileOrder::File;
                        let parts = crate::ngram_file_counts(
                            view,
                            words.weights(),
                            &uses,
                            n,
                            order,
                            usize::MAX,
                            &go,
                        );
                        // None where no file has n words.
                        let twin = parts.expect("not stopped").pop();
                        let files = windows.files.download(gpu)?;
                        let rows = twin.as_ref().map_or(0, |twin| twin.files.rows());
                        assert_eq!(files.rows(), rows, "{grammar:?}");
                        if let Some(twin) = twin {
                            assert_eq!(gpu.download(&windows.words)?, twin.words);
                            assert_eq!(files, twin.files.into_table(), "{grammar:?}");
                        }
                    }
                    decoded += 1;
                }
            }
            assert!(decoded > 3, "{decoded} were decoded");
            let long = test_grammars::runs(16);
            let device = DeviceWords::upload(gpu, long.word_grammar().view())?;
            assert!(FileWords::new(gpu, &device)?.is_none());
            Ok(())
        });
    }
}
