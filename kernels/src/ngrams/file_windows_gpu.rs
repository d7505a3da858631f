//! The n-grams of files whose words were decoded, with the files of each, on a device.
//!
//! The invariant: rows are those of [`crate::ngram_file_counts`], by file. Windows that take more than 64 bits have codes.

use crate::count::file_words_gpu::{FileWords, KeyShape};
use crate::count::tables_gpu::DeviceTable;
use crate::gpu::GpuError;
use crate::gpu::device::{Buffer, Gpu, arguments};
use crate::gpu::driver::{Argument, Launch, Source, THREADS};
use crate::gpu::primitives::{self, LookBack, SORT_MAX};
use crate::grammar::words_gpu::DeviceWords;
use crate::ngrams::codes_gpu;

/// Windows of a tile of runs.
const WINDOWS_TILE: usize = 2048;

/// Bytes of a window while they are sorted, and then divided into rows.
const WINDOW_BYTES: usize = 2 * (size_of::<u64>() + size_of::<u32>()) + 24;

/// Bytes of a window with a code, beside its words: code and place twice, and the place again of an inexact one, then runs.
const CODED_BYTES: usize = 2 * 12 + 16 + 24;

/// Where rows begin in a number that has entries below.
const ROWS_SHIFT: u32 = 31;

pub(crate) static SOURCE: Source = Source {
    name: "file_windows.cu",
    text: include_str!("file_windows.cu"),
    headers: &[codes_gpu::HEADER],
    constants: &[
        ("FILE_WINDOWS_THREADS", THREADS as u64),
        ("FILE_WINDOWS_TILE", WINDOWS_TILE as u64),
    ],
};

/// N-grams in order, how often each occurs, and its files in order.
pub struct FileWindows {
    /// `[rows]`
    pub keys: Buffer<u64>,
    /// `[rows * n]`; empty where they are not asked for.
    pub words: Buffer<u32>,
    /// `[rows]`
    pub counts: Buffer<u32>,
    pub files: DeviceTable,
}

impl FileWindows {
    /// The n-grams of all files, where `weights` holds how often each word occurs; `None` if windows do not fit into
    /// `memory` bytes, or neither into 64 bits nor into codes.
    pub(crate) fn new(
        decoded: &FileWords,
        gpu: &Gpu,
        grammar: &DeviceWords,
        weights: &Buffer<u32>,
        n: usize,
        memory: usize,
    ) -> Result<Option<FileWindows>, GpuError> {
        let KeyShape {
            word_bits,
            file_bits,
        } = decoded.shape;
        // A few words of 32 bits at most.
        let bits = word_bits * n as u32;
        let rest_bits = if bits < u64::BITS {
            None
        } else {
            codes_gpu::rest_bits(n as u32, word_bits)
        };
        let is_coded = rest_bits.is_some();
        // Bits of the parts that words are compared by.
        let part_bits = word_bits * n.div_ceil(2) as u32;
        if bits >= u64::BITS && (!is_coded || part_bits > u64::BITS) {
            return Ok(None);
        }
        let Some(words) = decoded.words(gpu, grammar)? else {
            return Ok(None);
        };
        let count = words.len();
        let each = if is_coded { CODED_BYTES } else { WINDOW_BYTES };
        if count.saturating_mul(each + n * size_of::<u32>()) > memory {
            return Ok(None);
        }
        if let Some(rest_bits) = rest_bits {
            let parts = codes_gpu::parts(gpu, weights, grammar.terminal_count as usize)?;
            let text = Text {
                words,
                shape: decoded.shape,
                // At most `NGRAM_WORDS_MAX`.
                n: n as u32,
                parts: &parts,
            };
            let places = text.sorted_windows(gpu, rest_bits)?;
            return text.rows(gpu, &places).map(Some);
        }
        // Sorting is stable: files stay in order, in keys where they have room. One more bit marks positions without a window.
        let is_packed = bits + file_bits < u64::BITS;
        let keys = gpu.allocate::<u64>(count)?;
        let files = if is_packed {
            None
        } else {
            Some(gpu.allocate::<u32>(count)?)
        };
        let arguments = arguments! {
            words,
            count,
            file_bits,
            n: n as u32,
            bits: word_bits,
            keys,
            files: files.as_ref().map_or(Argument::NONE, Argument::from),
        };
        let kernel = SOURCE.kernel("word_windows_kernel").whole();
        gpu.launch_looping(kernel, count, arguments)?;
        let (keys, files) = match files {
            None => {
                let bits = file_bits..file_bits + bits + 1;
                (primitives::sort_keys(gpu, keys, bits)?, None)
            }
            Some(files) => {
                let (keys, files) = primitives::sort_pairs(gpu, keys, files, 0..bits + 1)?;
                (keys, Some(files))
            }
        };
        window_rows(gpu, keys, files, file_bits, Some((n, word_bits))).map(Some)
    }
}

/// The words of all files as windows with codes.
struct Text<'a> {
    words: &'a Buffer<u32>,
    shape: KeyShape,
    n: u32,
    parts: &'a Buffer<u64>,
}

impl Text<'_> {
    /// The places of all windows, in order of their words and then of files.
    fn sorted_windows(&self, gpu: &Gpu, rest_bits: u32) -> Result<Buffer<u32>, GpuError> {
        let KeyShape {
            word_bits,
            file_bits,
        } = self.shape;
        let count = self.words.len();
        let mut codes = gpu.allocate::<u64>(count)?;
        let mut places = gpu.allocate::<u32>(count)?;
        let mut inexact = gpu.allocate::<u32>(count)?;
        let totals = gpu.zeroed::<u64>(2)?;
        let launch = Launch::tiles(count, WINDOWS_TILE);
        let look_back = LookBack::<u64>::new(gpu, launch.blocks as usize)?;
        let arguments = arguments! {
            words: self.words,
            count,
            file_bits,
            n: self.n,
            bits: word_bits,
            parts: self.parts,
            look_back: look_back.words(),
            ticket: look_back.ticket(),
            codes,
            places,
            inexact,
            totals,
        };
        let kernel = SOURCE.kernel("word_codes_kernel");
        gpu.launch(kernel.moving(count * (4 + 12)), launch, arguments)?;
        let totals = gpu.download(&totals)?;
        // At most `count`, a usize.
        let (exact, others) = (totals[0] as usize, totals[1] as usize);
        inexact.truncate(others);
        let rest_keys = gpu.allocate::<u64>(others)?;
        let arguments = arguments! {
            words: self.words,
            file_bits,
            n: self.n,
            bits: word_bits,
            parts: self.parts,
            places: &inexact,
            count: others,
            keys: &rest_keys,
        };
        gpu.launch_looping(SOURCE.kernel("word_rests_kernel"), others, arguments)?;
        // Inexact windows come in order, and behind exact ones: sorting by code is stable.
        let (_, inexact) = primitives::sort_pairs(gpu, rest_keys, inexact, 0..rest_bits)?;
        let arguments = arguments! {
            words: self.words,
            file_bits,
            n: self.n,
            bits: word_bits,
            parts: self.parts,
            inexact,
            count: others,
            exact,
            codes,
            places,
        };
        gpu.launch_looping(SOURCE.kernel("rest_codes_kernel"), others, arguments)?;
        drop(inexact);
        codes.truncate(exact + others);
        places.truncate(exact + others);
        let (_, places) = primitives::sort_pairs(gpu, codes, places, 0..u64::BITS)?;
        Ok(places)
    }

    /// The rows of windows in order.
    fn rows(&self, gpu: &Gpu, places: &Buffer<u32>) -> Result<FileWindows, GpuError> {
        let count = places.len();
        let runs = WindowRuns::new(gpu, count)?;
        let mut words = gpu.allocate::<u32>(count * self.n as usize)?;
        let launch = Launch::tiles(count, WINDOWS_TILE);
        let look_back = LookBack::<u64>::new(gpu, launch.blocks as usize)?;
        let arguments = arguments! {
            all_words: self.words,
            file_bits: self.shape.file_bits,
            n: self.n,
            bits: self.shape.word_bits,
            places,
            count,
            words: look_back.words(),
            ticket: look_back.ticket(),
            row_words: &words,
            row_firsts: &runs.row_firsts,
            row_entries: &runs.row_entries,
            entry_firsts: &runs.entry_firsts,
            entry_files: &runs.entry_files,
            totals: &runs.totals,
        };
        gpu.launch(SOURCE.kernel("coded_runs_kernel"), launch, arguments)?;
        let (counts, files) = runs.rows(gpu)?;
        words.truncate(counts.len() * self.n as usize);
        Ok(FileWindows {
            keys: gpu.allocate(0)?,
            words,
            counts,
            files,
        })
    }
}

/// Runs of sorted windows: where rows begin among windows and entries, and where entries do.
struct WindowRuns {
    row_firsts: Buffer<u32>,
    row_entries: Buffer<u32>,
    entry_firsts: Buffer<u32>,
    entry_files: Buffer<u32>,
    /// Windows that count, and rows above entries.
    totals: Buffer<u64>,
}

impl WindowRuns {
    /// Room for those of some windows, which all count unless a kernel says otherwise.
    fn new(gpu: &Gpu, count: usize) -> Result<WindowRuns, GpuError> {
        assert!(count <= SORT_MAX, "{count} windows");
        Ok(WindowRuns {
            row_firsts: gpu.allocate(count)?,
            row_entries: gpu.allocate(count)?,
            entry_firsts: gpu.allocate(count)?,
            entry_files: gpu.allocate(count)?,
            totals: gpu.upload(&[count as u64, 0])?,
        })
    }

    /// The windows of each row, and its files.
    fn rows(self, gpu: &Gpu) -> Result<(Buffer<u32>, DeviceTable), GpuError> {
        let totals = gpu.download(&self.totals)?;
        // All are at most the number of windows, which is below 2^30.
        let (counted, rows) = (totals[0] as u32, (totals[1] >> ROWS_SHIFT) as usize);
        let entry_count = (totals[1] & ((1 << ROWS_SHIFT) - 1)) as usize;
        let entries = gpu.allocate::<u64>(entry_count)?;
        let arguments = arguments! {
            firsts: &self.entry_firsts,
            files: &self.entry_files,
            count: entry_count,
            windows: counted,
            entries,
        };
        let kernel = SOURCE.kernel("window_entries_kernel");
        let kernel = kernel.moving(entry_count * (2 * 4 + 8));
        gpu.launch_looping(kernel, entry_count, arguments)?;
        let counts = gpu.allocate::<u32>(rows)?;
        let offsets = gpu.allocate::<u32>(rows + 1)?;
        let arguments = arguments! {
            row_firsts: &self.row_firsts,
            row_entries: &self.row_entries,
            count: rows,
            windows: counted,
            entries: entry_count as u32,
            counts,
            offsets,
        };
        let kernel = SOURCE.kernel("window_rows_kernel");
        gpu.launch_looping(kernel.moving(rows * 4 * 4), rows + 1, arguments)?;
        Ok((counts, DeviceTable { offsets, entries }))
    }
}

/// The rows of sorted keys of windows, with the file of each, which without `files` is in the lowest bits of keys; keys of
/// all ones come last and count for nothing. With `shape`, the number of words and their bits, rows are given by their words,
/// else by their keys.
///
/// # Errors
///
/// [`GpuError`].
pub fn window_rows(
    gpu: &Gpu,
    keys: Buffer<u64>,
    files: Option<Buffer<u32>>,
    file_bits: u32,
    shape: Option<(usize, u32)>,
) -> Result<FileWindows, GpuError> {
    let count = keys.len();
    let runs = WindowRuns::new(gpu, count)?;
    let (n, bits) = shape.unwrap_or((0, 0));
    // As many rows as there may be.
    let mut row_keys = gpu.allocate::<u64>(if n == 0 { count } else { 0 })?;
    let mut words = gpu.allocate::<u32>(count * n)?;
    let none = || Argument::NONE;
    let (to_keys, to_words) = match shape {
        None => (Argument::from(&row_keys), none()),
        Some(_) => (none(), Argument::from(&words)),
    };
    let launch = Launch::tiles(count, WINDOWS_TILE);
    let look_back = LookBack::<u64>::new(gpu, launch.blocks as usize)?;
    let arguments = arguments! {
        keys,
        files: files.as_ref().map_or_else(none, Argument::from),
        file_bits,
        // At most `NGRAM_WORDS_MAX`.
        n: n as u32,
        bits,
        count,
        words: look_back.words(),
        ticket: look_back.ticket(),
        row_keys: to_keys,
        row_words: to_words,
        row_firsts: &runs.row_firsts,
        row_entries: &runs.row_entries,
        entry_firsts: &runs.entry_firsts,
        entry_files: &runs.entry_files,
        totals: &runs.totals,
    };
    let kernel = SOURCE.kernel("window_runs_kernel");
    let file_bytes = if files.is_some() { 4 } else { 0 };
    gpu.launch(kernel.moving(count * (8 + file_bytes)), launch, arguments)?;
    drop((keys, files));
    let (counts, files) = runs.rows(gpu)?;
    row_keys.truncate(counts.len().min(row_keys.len()));
    words.truncate(counts.len() * n);
    Ok(FileWindows {
        keys: row_keys,
        words,
        counts,
        files,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::gpu::test_devices::on_devices;
    use crate::grammar::test_grammars;
    use crate::grammar::weights_gpu::weights;
    use crate::{FileOrder, WordUses};

    #[test]
    fn windows_of_decoded_words_are_those_of_the_twin() {
        on_devices(|gpu| {
            let mut decoded = 0;
            let few = [test_grammars::many_files(3), test_grammars::many_files(300)];
            for grammar in test_grammars::random_many(5).chain(few) {
                let words = grammar.word_grammar();
                let view = words.view();
                let device = DeviceWords::upload(gpu, view)?;
                let weights = weights(gpu, &device)?;
                let go = AtomicBool::new(false);
                if let Some(found) = FileWords::new(gpu, &device)? {
                    let uses = WordUses::new(view);
                    // Windows of 8 words of 10 bits have inexact codes.
                    for (n, word_bits) in [(2, None), (3, None), (5, Some(17)), (8, Some(10))] {
                        let windows = match word_bits {
                            None => {
                                FileWindows::new(&found, gpu, &device, &weights, n, usize::MAX)?
                            }
                            Some(word_bits) => {
                                let text = Text {
                                    words: found.words(gpu, &device)?.expect("there is room"),
                                    shape: KeyShape {
                                        word_bits,
                                        ..found.shape
                                    },
                                    n: n as u32,
                                    parts: &codes_gpu::parts(
                                        gpu,
                                        &weights,
                                        view.terminal_count as usize,
                                    )?,
                                };
                                let rest_bits = codes_gpu::rest_bits(n as u32, word_bits);
                                let places = text.sorted_windows(gpu, rest_bits.expect("few"))?;
                                Some(text.rows(gpu, &places)?)
                            }
                        };
                        let Some(windows) = windows else {
                            continue;
                        };
                        let parts = crate::ngram_file_counts(
                            view,
                            words.weights(),
                            &uses,
                            n,
                            FileOrder::File,
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
            Ok(())
        });
    }
}
