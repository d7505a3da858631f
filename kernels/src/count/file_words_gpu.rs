//! Counts of words by file from the words themselves, and the words of all files.
//!
//! The invariant: tables are those of lists. Only for grammars of many files
//! whose words are not many times their symbols: others are better not decoded.

use std::sync::OnceLock;

use crate::count::tables_gpu::DeviceTable;
use crate::gpu::device::{Buffer, Gpu, arguments};
use crate::gpu::driver::{Argument, Launch, Source, THREADS};
use crate::gpu::error::GpuError;
use crate::gpu::primitives::{self, LookBack, SORT_MAX};
use crate::grammar::words_gpu::DeviceWords;
use crate::ngrams::codes_gpu;

/// Keys of a tile of runs.
const TILE: usize = 4096;

/// Words of a tile of the root that is decoded.
const ROOT_TILE: usize = 2048;

/// Symbols of a tile of the root whose words are counted, and slots for them.
const COUNT_TILE: usize = 4096;
const SLOT_BITS: usize = 12;

/// Words of a rule that lie in its record.
const RECORD: usize = 8;

/// Windows of a tile of runs.
const WINDOWS_TILE: usize = 2048;

/// Bytes of a key with a count that are kept, and of one while they are sorted and divided into rows.
const KEY_BYTES: usize = 2 * size_of::<u32>();
const SORT_BYTES: usize = 3 * KEY_BYTES + size_of::<u64>();

/// Bytes of a window while they are sorted, and then divided into rows.
const WINDOW_BYTES: usize = 2 * (size_of::<u64>() + size_of::<u32>()) + 24;

/// Bytes of a window with a code, beside its words: code and place twice, and the place again of an inexact one, then runs.
const CODED_BYTES: usize = 2 * 12 + 16 + 24;

/// Words of a vector of 16 bytes.
const VECTOR_WORDS: usize = 4;

/// Where rows begin in a number that has entries below.
const ROWS_SHIFT: u32 = 31;

/// Words are decoded if there are at most so many a symbol.
const WORDS_MAX: usize = 4;

pub(crate) static SOURCE: Source = Source {
    name: "file_words.cu",
    text: include_str!("file_words.cu"),
    headers: &[codes_gpu::HEADER],
    constants: &[
        ("FILE_WORDS_THREADS", THREADS as u64),
        ("FILE_WORDS_TILE", TILE as u64),
        ("FILE_WORDS_ROOT_TILE", ROOT_TILE as u64),
        ("FILE_WORDS_COUNT_TILE", COUNT_TILE as u64),
        ("FILE_WORDS_SLOT_BITS", SLOT_BITS as u64),
        ("FILE_WORDS_RECORD", RECORD as u64),
        ("FILE_WORDS_WINDOWS_TILE", WINDOWS_TILE as u64),
    ],
};

/// How often each word occurs in each file, and once they are asked for the words of all files.
#[derive(Debug)]
pub(crate) struct FileWords {
    /// `word << file_bits | file`, in any order, some more than once; and how often each.
    keys: Buffer<u32>,
    counts: Buffer<u32>,
    shape: KeyShape,
    /// `word << file_bits | file` for each word, in order of files.
    words: OnceLock<Buffer<u32>>,
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

/// The words of rules, each with room for those of all below it.
struct RuleWords {
    /// Records, and behind them words of rules that have more.
    flat: Buffer<u32>,
    /// Words behind records; words of rules in the root; keys with counts.
    totals: Buffer<u64>,
}

impl RuleWords {
    /// `None` where records have no room.
    fn new(gpu: &Gpu, grammar: &DeviceWords) -> Result<Option<RuleWords>, GpuError> {
        let (bodies, roots) = grammar.sizes();
        let size = grammar.rules() * RECORD + bodies + roots;
        let room = gpu.memory_limit().saturating_sub(gpu.memory_used());
        if size > u32::MAX as usize || (size * size_of::<u32>()) as u64 > room {
            return Ok(None);
        }
        let flat = gpu.allocate::<u32>(size)?;
        let totals = gpu.zeroed::<u64>(3)?;
        let root_counts = &grammar.whole.counts;
        for level in 0..grammar.levels() {
            let range = grammar.level_rules(level);
            let arguments = arguments![
                &grammar.symbols,
                &grammar.rule_offsets,
                range.start,
                range.end,
                // Rules are u32.
                grammar.rules() as u32,
                grammar.terminal_count,
                root_counts.at(grammar.terminal_count as usize),
                &flat,
                size,
                &totals
            ];
            let kernel = SOURCE.kernel("level_records_kernel");
            gpu.launch_looping(kernel, range.len(), arguments)?;
        }
        Ok(Some(RuleWords { flat, totals }))
    }
}

impl FileWords {
    /// Counts the words of all files; `None` where that does not pay.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub(crate) fn new(gpu: &Gpu, grammar: &DeviceWords) -> Result<Option<FileWords>, GpuError> {
        let (bodies, roots) = grammar.sizes();
        let shape = KeyShape::new(grammar.terminal_count as usize, grammar.files());
        let Some(shape) = shape else {
            return Ok(None);
        };
        let Some(RuleWords { flat, totals }) = RuleWords::new(gpu, grammar)? else {
            return Ok(None);
        };
        let words_max = (WORDS_MAX * (bodies + roots)).min(SORT_MAX);
        // Mostly a tile has a word twice for each that no other has.
        let mut capacity = roots;
        loop {
            let room = gpu.memory_limit().saturating_sub(gpu.memory_used());
            if (capacity * (KEY_BYTES + SORT_BYTES)) as u64 > room {
                return Ok(None);
            }
            let mut keys = gpu.allocate::<u32>(capacity)?;
            let mut counts = gpu.allocate::<u32>(capacity)?;
            let arguments = arguments![
                &grammar.root,
                &grammar.root_files,
                roots,
                grammar.terminal_count,
                &flat,
                flat.len(),
                // Rules are u32.
                grammar.rules() as u32,
                words_max.saturating_sub(roots),
                shape.file_bits,
                &keys,
                &counts,
                capacity,
                &totals
            ];
            let launch = Launch::tiles(roots, COUNT_TILE);
            let kernel = SOURCE.kernel("count_words_kernel");
            gpu.launch(kernel.moving(roots * 2 * 4), launch, arguments)?;
            let found = gpu.download(&totals)?;
            let [flat_words, rule_words, count] = found[..] else {
                unreachable!("three totals");
            };
            let records = grammar.rules() * RECORD;
            let is_room = flat_words <= (flat.len() - records) as u64;
            if !is_room || rule_words > words_max.saturating_sub(roots) as u64 {
                return Ok(None);
            }
            // At most as many as words, a usize.
            let count = count as usize;
            if count <= capacity {
                keys.truncate(count);
                counts.truncate(count);
                return Ok(Some(FileWords {
                    keys,
                    counts,
                    shape,
                    words: OnceLock::new(),
                }));
            }
            capacity = count;
            gpu.fill_items(&totals, 2, 1, 0)?;
        }
    }

    /// Decodes all files; `None` without room for what that takes.
    fn decode(&self, gpu: &Gpu, grammar: &DeviceWords) -> Result<Option<Buffer<u32>>, GpuError> {
        let (_, roots) = grammar.sizes();
        let Some(RuleWords { flat, .. }) = RuleWords::new(gpu, grammar)? else {
            return Ok(None);
        };
        let sizes = gpu.allocate::<u32>(roots)?;
        let arguments = arguments![&grammar.root, roots, grammar.terminal_count, &flat, &sizes];
        let kernel = SOURCE.kernel("word_sizes_kernel");
        gpu.launch_looping(kernel.moving(roots * 2 * 4), roots, arguments)?;
        let places = primitives::scan::<u32, u32>(gpu, &sizes)?;
        drop(sizes);
        // Fewer than a sort takes.
        let words = gpu.item(&places, roots)? as usize;
        let room = gpu.memory_limit().saturating_sub(gpu.memory_used());
        if (words * size_of::<u32>()) as u64 > room {
            return Ok(None);
        }
        // Words of windows are loaded by whole vectors.
        let mut keys = gpu.allocate::<u32>(words.next_multiple_of(VECTOR_WORDS))?;
        keys.truncate(words);
        let arguments = arguments![
            &grammar.root,
            &grammar.root_files,
            // Places in the root are u32.
            roots as u32,
            &places,
            words,
            &flat,
            grammar.terminal_count,
            self.shape.file_bits,
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
        Ok(Some(keys))
    }

    /// The words of all files, decoded by the first call; `None` without room for what that takes.
    fn words(&self, gpu: &Gpu, grammar: &DeviceWords) -> Result<Option<&Buffer<u32>>, GpuError> {
        if let Some(words) = self.words.get() {
            return Ok(Some(words));
        }
        let decoded = self.decode(gpu, grammar)?;
        Ok(decoded.map(|words| self.words.get_or_init(|| words)))
    }

    /// Bytes on the device.
    pub(crate) fn bytes(&self) -> u64 {
        let words = self.words.get().map_or(0, Buffer::len);
        (self.keys.len() * KEY_BYTES + words * size_of::<u32>()) as u64
    }

    /// For each word the files that it occurs in, with counts; with `by_file` for each file its words.
    pub(crate) fn table(
        &self,
        gpu: &Gpu,
        grammar: &DeviceWords,
        by_file: bool,
    ) -> Result<DeviceTable, GpuError> {
        let KeyShape {
            word_bits,
            file_bits,
        } = self.shape;
        let bits = 0..word_bits + file_bits;
        let (keys, counts) = match by_file {
            false => primitives::sorted_pairs(gpu, &self.keys, &self.counts, bits)?,
            true => {
                let turned = gpu.allocate::<u32>(self.keys.len())?;
                let arguments =
                    arguments![&self.keys, self.keys.len(), file_bits, word_bits, &turned];
                let kernel = SOURCE.kernel("turn_keys_kernel").whole();
                gpu.launch_looping(kernel, self.keys.len(), arguments)?;
                primitives::sorted_pairs(gpu, &turned, &self.counts, bits)?
            }
        };
        let (rows, column_bits) = match by_file {
            true => (grammar.files(), word_bits),
            false => (grammar.terminal_count as usize, file_bits),
        };
        table_of_keys(gpu, &keys, Some(&counts), column_bits, rows)
    }
}

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

impl FileWords {
    /// The n-grams of all files, of which `weights` tells how often each word occurs; `None` if windows do not fit into
    /// `memory` bytes, or neither into 64 bits nor into codes.
    pub(crate) fn windows(
        &self,
        gpu: &Gpu,
        grammar: &DeviceWords,
        weights: &Buffer<u32>,
        n: usize,
        memory: usize,
    ) -> Result<Option<FileWindows>, GpuError> {
        let KeyShape {
            word_bits,
            file_bits,
        } = self.shape;
        // A few words of 32 bits at most.
        let bits = word_bits * n as u32;
        let rest_bits = match bits < u64::BITS {
            true => None,
            false => codes_gpu::rest_bits(n as u32, word_bits),
        };
        let is_coded = rest_bits.is_some();
        // Of the parts that words are compared by.
        let part_bits = word_bits * n.div_ceil(2) as u32;
        if bits >= u64::BITS && (!is_coded || part_bits > u64::BITS) {
            return Ok(None);
        }
        let Some(words) = self.words(gpu, grammar)? else {
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
                shape: self.shape,
                // At most `NGRAM_WORDS_MAX`.
                n: n as u32,
                parts: &parts,
            };
            let places = text.sorted_windows(gpu, rest_bits)?;
            return text.rows(gpu, &places).map(Some);
        }
        // Sorting is stable: files stay in order, in keys where they have room. One bit more tells windows that are none.
        let is_packed = bits + file_bits < u64::BITS;
        let keys = gpu.allocate::<u64>(count)?;
        let files = match is_packed {
            true => None,
            false => Some(gpu.allocate::<u32>(count)?),
        };
        let arguments = arguments![
            words,
            count,
            file_bits,
            n as u32,
            word_bits,
            &keys,
            files.as_ref().map_or(Argument::NONE, Argument::from)
        ];
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
        let arguments = arguments![
            self.words,
            count,
            file_bits,
            self.n,
            word_bits,
            self.parts,
            look_back.words(),
            look_back.ticket(),
            &codes,
            &places,
            &inexact,
            &totals
        ];
        let kernel = SOURCE.kernel("word_codes_kernel");
        gpu.launch(kernel.moving(count * (4 + 12)), launch, arguments)?;
        let totals = gpu.download(&totals)?;
        // At most `count`, a usize.
        let (exact, others) = (totals[0] as usize, totals[1] as usize);
        inexact.truncate(others);
        let rest_keys = gpu.allocate::<u64>(others)?;
        let arguments = arguments![
            self.words, file_bits, self.n, word_bits, self.parts, &inexact, others, &rest_keys
        ];
        gpu.launch_looping(SOURCE.kernel("word_rests_kernel"), others, arguments)?;
        // Inexact windows come in order, and behind exact ones: sorting by code is stable.
        let (_, inexact) = primitives::sort_pairs(gpu, rest_keys, inexact, 0..rest_bits)?;
        let arguments = arguments![
            self.words, file_bits, self.n, word_bits, self.parts, &inexact, others, exact, &codes,
            &places
        ];
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
        let arguments = arguments![
            self.words,
            self.shape.file_bits,
            self.n,
            self.shape.word_bits,
            places,
            count,
            look_back.words(),
            look_back.ticket(),
            &words,
            &runs.row_firsts,
            &runs.row_entries,
            &runs.entry_firsts,
            &runs.entry_files,
            &runs.totals
        ];
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
        // All are at most as many as windows, which are below 2^30.
        let (counted, rows) = (totals[0] as u32, (totals[1] >> ROWS_SHIFT) as usize);
        let entry_count = (totals[1] & ((1 << ROWS_SHIFT) - 1)) as usize;
        let entries = gpu.allocate::<u64>(entry_count)?;
        let arguments = arguments![
            &self.entry_firsts,
            &self.entry_files,
            entry_count,
            counted,
            &entries
        ];
        let kernel = SOURCE.kernel("window_entries_kernel");
        let kernel = kernel.moving(entry_count * (2 * 4 + 8));
        gpu.launch_looping(kernel, entry_count, arguments)?;
        let counts = gpu.allocate::<u32>(rows)?;
        let offsets = gpu.allocate::<u32>(rows + 1)?;
        let arguments = arguments![
            &self.row_firsts,
            &self.row_entries,
            rows,
            counted,
            entry_count as u32,
            &counts,
            &offsets
        ];
        let kernel = SOURCE.kernel("window_rows_kernel");
        gpu.launch_looping(kernel.moving(rows * 4 * 4), rows + 1, arguments)?;
        Ok((counts, DeviceTable { offsets, entries }))
    }
}

/// The rows of sorted keys of windows, with the file of each, which without `files` is in the lowest bits of keys; keys of
/// all ones come last and count for nothing. With `shape` keys have so many words of so many bits, and the words of rows are
/// told, else their keys.
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
    let arguments = arguments![
        &keys,
        files.as_ref().map_or_else(none, Argument::from),
        file_bits,
        // At most `NGRAM_WORDS_MAX`.
        n as u32,
        bits,
        count,
        look_back.words(),
        look_back.ticket(),
        to_keys,
        to_words,
        &runs.row_firsts,
        &runs.row_entries,
        &runs.entry_firsts,
        &runs.entry_files,
        &runs.totals
    ];
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

/// The table of sorted keys, `row << column_bits | column`, with the sums of their counts; without counts each is one.
pub fn table_of_keys(
    gpu: &Gpu,
    keys: &Buffer<u32>,
    counts: Option<&Buffer<u32>>,
    column_bits: u32,
    rows: usize,
) -> Result<DeviceTable, GpuError> {
    let count = keys.len();
    let (run_keys, firsts) = (gpu.allocate::<u32>(count)?, gpu.allocate::<u32>(count)?);
    let totals = gpu.zeroed::<u64>(2)?;
    let launch = Launch::tiles(count, TILE);
    let look_back = LookBack::<u64>::new(gpu, launch.blocks as usize)?;
    let arguments = arguments![
        keys,
        counts.map_or(Argument::NONE, Argument::from),
        count,
        look_back.words(),
        look_back.ticket(),
        &run_keys,
        &firsts,
        &totals
    ];
    gpu.launch(SOURCE.kernel("key_runs_kernel"), launch, arguments)?;
    let offsets = gpu.allocate::<u32>(rows + 1)?;
    // As many as there may be: their number is asked for when they are there.
    let mut entries = gpu.allocate::<u64>(count)?;
    let arguments = arguments![
        &run_keys,
        &firsts,
        &totals,
        column_bits,
        // Words are u32, and files too.
        rows as u32,
        &offsets,
        &entries
    ];
    gpu.launch_looping(SOURCE.kernel("run_entries_kernel"), count + 1, arguments)?;
    // At most `count`, a usize.
    entries.truncate(gpu.item(&totals, 0)? as usize);
    Ok(DeviceTable { offsets, entries })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::gpu::test_devices::on_devices;
    use crate::grammar::test_grammars;
    use crate::grammar::weights_gpu::weights;
    use crate::{FileCounting, FileOrder, WordUses};

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
                let weights = weights(gpu, &device)?;
                if let Some(found) = FileWords::new(gpu, &device)? {
                    let table = found.table(gpu, &device, false)?;
                    let go = AtomicBool::new(false);
                    let twin = crate::word_file_counts(view, FileCounting::Rules, &go);
                    assert_eq!(Ok(table.download(gpu)?), twin, "{grammar:?}");
                    let table = found.table(gpu, &device, true)?;
                    let twin = crate::file_word_counts(view, FileCounting::Rules, &go);
                    assert_eq!(Ok(table.download(gpu)?), twin, "{grammar:?}");
                    let uses = WordUses::new(view);
                    // Those of 8 words of 10 bits have inexact ones.
                    for (n, word_bits) in [(2, None), (3, None), (5, Some(17)), (8, Some(10))] {
                        let windows = match word_bits {
                            None => found.windows(gpu, &device, &weights, n, usize::MAX)?,
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
            let long = test_grammars::runs(16);
            let device = DeviceWords::upload(gpu, long.word_grammar().view())?;
            assert!(FileWords::new(gpu, &device)?.is_none());
            Ok(())
        });
    }

    #[test]
    fn more_words_than_a_tile_has_room_for_and_long_rules_are_counted() {
        on_devices(|gpu| {
            // One rule of 700 words, one of it twice; files of more words than there are slots.
            let (words, long) = (3_000u32, 700u32);
            let symbols: Vec<u32> = (0..long).chain([words, 1, words]).collect();
            let mut root: Vec<u32> = (0..words).collect();
            root.push(words + 1);
            root.extend(0..words);
            root.push(words);
            root.extend(0..words);
            let view = crate::GrammarView {
                terminal_count: words,
                rule_offsets: &[0, long, long + 3],
                symbols: &symbols,
                level_offsets: &[0, 1, 2],
                root_offsets: &[0, words + 1, 2 * words + 2, 3 * words + 2],
                root: &root,
            };
            let device = DeviceWords::upload(gpu, view)?;
            let found = FileWords::new(gpu, &device)?.expect("few words a symbol");
            let expected = |word: u32| {
                let in_long = u32::from(word < long);
                let first = 1 + 2 * in_long + u32::from(word == 1);
                vec![(0, first), (1, 1 + in_long), (2, 1)]
            };
            let rows = (0..words).map(expected).collect();
            let twin = crate::CountTable::of_rows(rows);
            assert_eq!(found.table(gpu, &device, false)?.download(gpu)?, twin);
            let turned = twin.transposed(3);
            assert_eq!(found.table(gpu, &device, true)?.download(gpu)?, turned);
            Ok(())
        });
    }
}
