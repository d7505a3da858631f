//! All n-grams with their counts, in the whole or file by file.
//!
//! The invariant: tables are those of [`crate::ngram_counts`] and
//! [`crate::ngram_file_counts`], bit for bit. Every window is found once, in
//! the body or root where it crosses from one symbol to the next, and sorted by
//! all of its words. When there is not enough memory for all windows, those
//! that begin with some words are found and sorted at a time.

use std::ops::Range;

use crate::count::file_counts_gpu::{FileUses, word_file_counts};
use crate::count::merge_gpu::{self, Lists, MergePlan};
use crate::count::tables_gpu::DeviceTable;
use crate::gpu::device::{ArgumentStruct, Buffer, Gpu, arguments};
use crate::gpu::driver::{Argument, Launch, Source, THREADS};
use crate::gpu::error::GpuError;
use crate::gpu::levels::{self, STATE_ITEMS};
use crate::gpu::primitives::{self, LookBack};
use crate::grammar::weights_gpu::file_cells;
use crate::grammar::words_gpu::COLUMNS_MAX;
use crate::grammar::words_gpu::DeviceWords;
use crate::ngrams::codes_gpu;
use crate::ngrams::file_windows_gpu::FileWindows;
use crate::{FileOrder, NGRAM_WORDS_MAX, NgramCounts, NgramFiles, NgramSet};

/// Blocks of a multiprocessor.
const RESIDENT: u32 = 4;

/// Windows that a block compares to find where n-grams begin.
const ROWS_TILE: usize = 2048;

/// Bytes of a window with a code: a record, and code and number twice, if it is inexact also of its rest.
const CODED_BYTES: usize = 16 + 4 * 12;

/// Values take no fewer and no more bits of a key.
const VALUE_BITS: Range<u32> = 2..24;

pub(crate) static SOURCE: Source = Source {
    name: "all_ngrams.cu",
    text: include_str!("all_ngrams.cu"),
    headers: &[codes_gpu::HEADER, levels::HEADER],
    constants: &[
        ("WINDOWS_THREADS", THREADS as u64),
        ("ROWS_TILE", ROWS_TILE as u64),
    ],
};

/// Distinct n-grams with counts, on a device.
#[derive(Debug)]
pub struct DeviceNgrams {
    /// `[n-grams * n]`: the words of each n-gram; ascending.
    pub(crate) words: Buffer<u32>,
    /// `[n-grams]`.
    pub(crate) counts: Buffer<u32>,
}

/// Distinct n-grams with the files that they occur in, on a device.
#[derive(Debug)]
pub struct DeviceNgramFiles {
    /// `[n-grams * n]`: the words of each n-gram; ascending.
    pub(crate) words: Buffer<u32>,
    /// A row for each n-gram.
    pub(crate) files: DeviceTable,
}

impl DeviceNgrams {
    /// How many there are.
    pub fn rows(&self) -> usize {
        self.counts.len()
    }

    /// Bytes of the arrays.
    pub fn bytes(&self) -> u64 {
        ((self.words.len() + self.counts.len()) * size_of::<u32>()) as u64
    }

    /// The n-grams on the host.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn download(&self, gpu: &Gpu) -> Result<NgramCounts, GpuError> {
        Ok(NgramCounts {
            words: gpu.download(&self.words)?,
            counts: gpu.download(&self.counts)?,
        })
    }
}

impl DeviceNgramFiles {
    /// How many n-grams there are.
    pub fn rows(&self) -> usize {
        self.files.rows()
    }

    /// Bytes of the arrays.
    pub fn bytes(&self) -> u64 {
        let numbers = (self.words.len() + self.files.offsets.len()) * size_of::<u32>();
        (numbers + self.files.entries() * size_of::<u64>()) as u64
    }

    /// The n-grams on the host.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn download(&self, gpu: &Gpu) -> Result<NgramFiles, GpuError> {
        Ok(NgramFiles {
            words: gpu.download(&self.words)?,
            files: self.files.download(gpu)?.into(),
        })
    }
}

/// Counts n-grams of the files. The result comes in parts, in order; `weights` holds how often each symbol occurs.
///
/// `memory` bounds the bytes for windows: about 16 each for every 64 bits of words. What one word begins must fit,
/// whatever the bound.
///
/// # Errors
///
/// [`GpuError`].
///
/// # Panics
///
/// When `n` is 0 or above [`NGRAM_WORDS_MAX`].
pub fn ngram_counts(
    gpu: &Gpu,
    grammar: &DeviceWords,
    weights: &Buffer<u32>,
    set: impl Into<NgramSet>,
    memory: usize,
) -> Result<Vec<DeviceNgrams>, GpuError> {
    let mut parts = Vec::new();
    let mut take = |part, _| {
        parts.push(part);
        Ok(())
    };
    each_ngram_counts(gpu, grammar, weights, set, memory, &mut take)?;
    Ok(parts)
}

/// As [`ngram_counts`], and has each part taken before the next one is made, so that the device need not hold all. `take` learns
/// whether there is no other part. Of single words all are given.
///
/// # Errors
///
/// [`GpuError`], also of `take`.
///
/// # Panics
///
/// As [`ngram_counts`].
pub fn each_ngram_counts(
    gpu: &Gpu,
    grammar: &DeviceWords,
    weights: &Buffer<u32>,
    set: impl Into<NgramSet>,
    memory: usize,
    take: &mut dyn FnMut(DeviceNgrams, bool) -> Result<(), GpuError>,
) -> Result<(), GpuError> {
    let set = set.into();
    if set.n == 1 {
        let [words, counts, _] = used_words(gpu, grammar, weights, None)?;
        return take(DeviceNgrams { words, counts }, true);
    }
    let search = DeviceSearch::new(gpu, grammar, weights, set.n, false)?;
    let parts = search.parts(gpu, &set, memory)?;
    let is_only = parts.len() == 1;
    (parts.into_iter()).try_for_each(|first_words| take(search.counts(gpu, &first_words)?, is_only))
}

/// Counts n-grams in each file. The result comes in parts, in order.
///
/// Memory as [`ngram_counts`], and 8 bytes for each rule and file that it occurs in.
///
/// # Errors
///
/// [`GpuError`].
///
/// # Panics
///
/// When `n` is 0 or above [`NGRAM_WORDS_MAX`].
pub fn ngram_file_counts(
    gpu: &Gpu,
    grammar: &DeviceWords,
    weights: &Buffer<u32>,
    uses: &FileUses,
    set: impl Into<NgramSet>,
    order: FileOrder,
    memory: usize,
) -> Result<Vec<DeviceNgramFiles>, GpuError> {
    let mut parts = Vec::new();
    let mut take = |part, _| {
        parts.push(part);
        Ok(())
    };
    let shape = (set.into(), order);
    each_ngram_file_counts(gpu, grammar, weights, uses, shape, memory, &mut take)?;
    Ok(parts)
}

/// As [`ngram_file_counts`], and has each part taken before the next one is made; as [`each_ngram_counts`].
///
/// # Errors
///
/// [`GpuError`], also of `take`.
///
/// # Panics
///
/// As [`ngram_file_counts`].
pub fn each_ngram_file_counts(
    gpu: &Gpu,
    grammar: &DeviceWords,
    weights: &Buffer<u32>,
    uses: &FileUses,
    (set, order): (NgramSet, FileOrder),
    memory: usize,
    take: &mut dyn FnMut(DeviceNgramFiles, bool) -> Result<(), GpuError>,
) -> Result<(), GpuError> {
    if set.n == 1 {
        let DeviceTable { offsets, entries } = word_file_counts(gpu, grammar, uses)?;
        let [words, counts, offsets] = used_words(gpu, grammar, weights, Some(&offsets))?;
        let files = DeviceTable { offsets, entries };
        if order == FileOrder::Count {
            rank_rows(gpu, &files, &counts, 0)?;
        }
        return take(DeviceNgramFiles { words, files }, true);
    }
    if grammar.files() == 1 {
        let mut with_file = |DeviceNgrams { words, counts }, is_only| {
            let offsets = gpu.allocate::<u32>(counts.len() + 1)?;
            let entries = gpu.allocate::<u64>(counts.len())?;
            let arguments = arguments! { counts, count: counts.len(), offsets, entries };
            gpu.launch_looping(
                SOURCE.kernel("one_file_kernel").whole(),
                counts.len() + 1,
                arguments,
            )?;
            let files = DeviceTable { offsets, entries };
            take(DeviceNgramFiles { words, files }, is_only)
        };
        return each_ngram_counts(gpu, grammar, weights, set, memory, &mut with_file);
    }
    if set.is_all()
        && let Some(decoded) = uses.words()
        && let Some(found) = FileWindows::new(decoded, gpu, grammar, weights, set.n, memory)?
    {
        let FileWindows {
            words,
            counts,
            files,
            ..
        } = found;
        if order == FileOrder::Count {
            rank_rows(gpu, &files, &counts, 1)?;
        }
        return take(DeviceNgramFiles { words, files }, true);
    }
    let files = match uses.lists(gpu, grammar)? {
        Some(lists) => HolderFiles::Lists(lists),
        None => HolderFiles::Cells(file_cells(gpu, grammar)?),
    };
    let search = DeviceSearch::new(gpu, grammar, weights, set.n, true)?;
    let parts = search.parts(gpu, &set, memory)?;
    let is_only = parts.len() == 1;
    (parts.into_iter())
        .try_for_each(|first_words| take(search.files(gpu, &files, order, &first_words)?, is_only))
}

/// The words that occur, how often, and the offsets of their rows in a table of all words.
fn used_words(
    gpu: &Gpu,
    grammar: &DeviceWords,
    weights: &Buffer<u32>,
    offsets: Option<&Buffer<u32>>,
) -> Result<[Buffer<u32>; 3], GpuError> {
    let words = grammar.terminal_count as usize;
    assert!(weights.len() >= words, "a weight for each word");
    let flags = gpu.allocate::<u32>(words)?;
    // Words are u32.
    let arguments = arguments! { weights, words: words as u32, flags };
    gpu.launch_looping(
        SOURCE.kernel("used_flags_kernel").moving(words * 2 * 4),
        words,
        arguments,
    )?;
    let places = primitives::scan::<u32, u32>(gpu, &flags)?;
    let used = gpu.item(&places, words)? as usize;
    let words_out = gpu.allocate::<u32>(used)?;
    let counts = gpu.allocate::<u32>(used)?;
    // Without words there is no thread to write the last offset.
    let offsets_out = gpu.zeroed::<u32>(used + 1)?;
    let given = offsets.map_or(Argument::NONE, Argument::from);
    let arguments = arguments! {
        weights,
        words: words as u32,
        places,
        offsets: given,
        words_out,
        counts,
        offsets_out,
    };
    gpu.launch_looping(
        SOURCE
            .kernel("used_words_kernel")
            .moving(words * 2 * 4 + used * 2 * 4),
        words,
        arguments,
    )?;
    Ok([words_out, counts, offsets_out])
}

/// Orders the entries of rows with more than `most` occurrences by count, the largest first, then by file, which is their
/// order before.
///
/// # Errors
///
/// [`GpuError`].
pub fn rank_rows(
    gpu: &Gpu,
    table: &DeviceTable,
    weights: &Buffer<u32>,
    most: u32,
) -> Result<(), GpuError> {
    let rows = table.rows();
    let lengths = gpu.allocate::<u32>(rows)?;
    // Rows are u32.
    let arguments = arguments! {
        weights,
        offsets: &table.offsets,
        rows: rows as u32,
        most,
        entries: &table.entries,
        lengths,
    };
    gpu.launch_looping(SOURCE.kernel("short_rows_kernel").whole(), rows, arguments)?;
    let offsets = primitives::scan::<u32, u32>(gpu, &lengths)?;
    let count = gpu.item(&offsets, rows)? as usize;
    let owners = primitives::expand(gpu, &offsets, count)?;
    let (keys, values) = (gpu.allocate::<u64>(count)?, gpu.allocate::<u32>(count)?);
    let arguments = arguments! {
        entries: &table.entries,
        offsets: &table.offsets,
        long_offsets: &offsets,
        owners,
        count,
        keys,
        values,
    };
    gpu.launch_looping(
        SOURCE
            .kernel("long_keys_kernel")
            .moving(count * (8 + 4 + 8 + 4)),
        count,
        arguments,
    )?;
    let row_bits = usize::BITS - rows.saturating_sub(1).leading_zeros();
    let (keys, values) = primitives::sort_pairs(gpu, keys, values, 0..32 + row_bits)?;
    let arguments = arguments! {
        keys,
        values,
        offsets: &table.offsets,
        long_offsets: &offsets,
        count,
        entries: &table.entries,
    };
    gpu.launch_looping(
        SOURCE
            .kernel("long_entries_kernel")
            .moving(count * (8 + 4 + 8)),
        count,
        arguments,
    )
}

/// The first and last n - 1 words of each rule, as all_ngrams.cu has them.
pub(crate) fn rule_ends(gpu: &Gpu, grammar: &DeviceWords, n: u32) -> Result<Buffer<u32>, GpuError> {
    let half = (n - 1).next_power_of_two() as usize;
    // The counters of the walk lie behind.
    let items = grammar.rules() * 2 * half;
    let ends = gpu.allocate::<u32>(items + STATE_ITEMS)?;
    gpu.fill_items(&ends, items, STATE_ITEMS, 0)?;
    let walk = &grammar.rules_walk;
    let mut arguments = arguments! {
        symbols: &grammar.symbols,
        rule_offsets: &grammar.rule_offsets,
        terminals: grammar.terminal_count,
        n,
        ends,
    }
    .to_vec();
    arguments.extend(walk.arguments(ends.at(items)));
    let launch = Launch {
        blocks: walk.blocks(gpu, RESIDENT),
        threads: THREADS,
    };
    let kernel = SOURCE.kernel("ends_kernel").made_for(n);
    gpu.launch(kernel, launch, &arguments)?;
    Ok(ends)
}

/// How words make keys.
#[derive(Clone, Copy, Debug)]
struct DeviceShape {
    n: u32,
    /// Bits of a word.
    bits: u32,
    /// Integers of 64 bits.
    parts: u32,
    /// Words of a part; the last has the rest.
    part_words: u32,
    /// A value lies in the lowest bits; 0 if values lie apart.
    value_bits: u32,
    /// Bits of holders in records, if windows have codes.
    coded: Option<u32>,
}

impl DeviceShape {
    /// With `holder_bits` values are holders of that width.
    fn new(word_count: u32, n: usize, holder_bits: Option<u32>) -> DeviceShape {
        assert!((2..=NGRAM_WORDS_MAX).contains(&n), "n-grams of {n} words");
        let bits = (u32::BITS - word_count.saturating_sub(1).leading_zeros()).max(1);
        // At most `NGRAM_WORDS_MAX`.
        DeviceShape::of_bits(n as u32, bits, holder_bits)
    }

    fn of_bits(n: u32, bits: u32, holder_bits: Option<u32>) -> DeviceShape {
        let parts = n.div_ceil(u64::BITS / bits);
        let free = u64::BITS.saturating_sub(n * bits);
        let value_bits = match holder_bits {
            Some(bits) if bits <= free => bits,
            None if free >= VALUE_BITS.start => free.min(VALUE_BITS.end),
            _ => 0,
        };
        DeviceShape {
            n,
            bits,
            parts,
            part_words: n.div_ceil(parts),
            value_bits,
            coded: None,
        }
    }

    /// The same with codes, if records have room for holders of `holder_bits`
    /// bits.
    fn coded(self, holder_bits: u32) -> Option<DeviceShape> {
        let has_room = self.parts == 2 && self.part_bits(1) + holder_bits <= u64::BITS;
        codes_gpu::rest_bits(self.n, self.bits)?;
        has_room.then_some(DeviceShape {
            value_bits: 0,
            coded: Some(holder_bits),
            ..self
        })
    }

    /// Bits of the words in a part.
    fn part_bits(self, part: u32) -> u32 {
        let words = self.part_words.min(self.n - part * self.part_words);
        words * self.bits
    }
}

/// In which files rules occur.
enum HolderFiles {
    Lists(Lists),
    /// `[symbols * files]`: how often, with few files.
    Cells(Buffer<u32>),
}

/// What is searched for, and in what.
struct DeviceSearch<'a> {
    grammar: &'a DeviceWords,
    weights: &'a Buffer<u32>,
    shape: DeviceShape,
    with_holders: bool,
    /// The first and last words of rules.
    ends: Buffer<u32>,
    /// The parts of words in codes, if windows have some.
    code_parts: Option<Buffer<u64>>,
}

/// Windows, sorted.
struct SortedWindows {
    /// `[parts * stride]`, or codes, or records of two.
    keys: Buffer<u64>,
    /// `[windows]`, if values lie apart, or the numbers of records.
    values: Buffer<u32>,
    /// What did not fit into keys: keys without values, and values.
    over: (Buffer<u64>, Buffer<u32>),
    stride: usize,
    count: usize,
}

/// Distinct n-grams.
struct Rows {
    words: Buffer<u32>,
    counts: Buffer<u32>,
    /// `[rows + 1]`: where their windows begin.
    offsets: Buffer<u32>,
    /// `[windows]`, if keys had them.
    holders: Buffer<u32>,
}

/// Windows, and those whose value does not fit, as the cursor counts them.
fn halves(counted: u64) -> (usize, usize) {
    (counted as u32 as usize, (counted >> 32) as usize)
}

/// Where windows go.
struct WindowTarget<'a> {
    first_words: Option<&'a Buffer<u32>>,
    keys: Option<&'a SortedWindows>,
    cursor: &'a Buffer<u64>,
}

impl<'a> DeviceSearch<'a> {
    fn new(
        gpu: &Gpu,
        grammar: &'a DeviceWords,
        weights: &'a Buffer<u32>,
        n: usize,
        with_holders: bool,
    ) -> Result<DeviceSearch<'a>, GpuError> {
        let holders = grammar.files() + grammar.rules();
        let holder_bits = usize::BITS - holders.saturating_sub(1).leading_zeros();
        let shape = DeviceShape::new(
            grammar.terminal_count,
            n,
            with_holders.then_some(holder_bits),
        );
        let shape = shape.coded(holder_bits).unwrap_or(shape);
        DeviceSearch::of_shape(gpu, grammar, weights, shape, with_holders)
    }

    fn of_shape(
        gpu: &Gpu,
        grammar: &'a DeviceWords,
        weights: &'a Buffer<u32>,
        shape: DeviceShape,
        with_holders: bool,
    ) -> Result<DeviceSearch<'a>, GpuError> {
        assert!(
            weights.len() == grammar.symbol_count(),
            "a weight for each symbol"
        );
        let ends = rule_ends(gpu, grammar, shape.n)?;
        let code_parts = match shape.coded {
            Some(_) => {
                let words = grammar.terminal_count as usize;
                Some(codes_gpu::parts(gpu, weights, words)?)
            }
            None => None,
        };
        Ok(DeviceSearch {
            grammar,
            weights,
            shape,
            with_holders,
            ends,
            code_parts,
        })
    }

    /// How many windows there can be at most, and how many of them with a value that does not fit into keys.
    fn most(&self) -> (usize, usize) {
        let each = self.shape.n as usize - 1;
        let over = if self.shape.value_bits > 0 && !self.with_holders {
            self.grammar.symbols.len()
        } else {
            0
        };
        let all = self.grammar.root.len() + self.grammar.symbols.len();
        (all * each, over * each)
    }

    /// Bytes for windows that find and sort take: keys and values, before and after a pass of a sort.
    fn bytes(&self, (windows, over): (usize, usize)) -> usize {
        // With few files each window may be a row of cells.
        let files = self.grammar.files();
        let cells = if self.with_holders && files <= COLUMNS_MAX {
            files * size_of::<u32>()
        } else {
            0
        };
        let apart = if self.shape.value_bits > 0 { 0 } else { 8 };
        let each = match self.shape.coded {
            Some(_) => CODED_BYTES,
            None => 16 * self.shape.parts as usize + apart,
        };
        windows * (each + cells) + over * 12
    }

    /// Ranges of first words whose windows fit into `memory` bytes.
    fn parts(&self, gpu: &Gpu, set: &NgramSet, memory: usize) -> Result<Vec<Range<u32>>, GpuError> {
        let all = set.first_words_of(self.grammar.terminal_count);
        let most = self.most();
        if self.bytes(most) <= memory && most.0 <= primitives::SORT_MAX {
            return Ok(vec![all]);
        }
        let words = self.grammar.terminal_count;
        let cursor = gpu.zeroed::<u64>(1)?;
        let first_words = gpu.zeroed::<u32>(words as usize)?;
        let target = WindowTarget {
            first_words: Some(&first_words),
            keys: None,
            cursor: &cursor,
        };
        self.windows(gpu, &all, &target)?;
        let counts = gpu.download(&first_words)?;
        // Each may have a value that does not fit.
        let each = self.bytes((1, usize::from(self.most().1 > 0)));
        let most = (memory / each).min(primitives::SORT_MAX);
        let (mut parts, mut start, mut held) = (Vec::new(), all.start, 0usize);
        let counts = &counts[all.start as usize..all.end as usize];
        for (word, &more) in (all.start..).zip(counts) {
            if held > 0 && held + more as usize > most {
                parts.push(start..word);
                (start, held) = (word, 0);
            }
            held += more as usize;
        }
        parts.push(start..all.end);
        Ok(parts)
    }

    /// The n-grams that begin with some words.
    fn counts(&self, gpu: &Gpu, first_words: &Range<u32>) -> Result<DeviceNgrams, GpuError> {
        let found = self.find(gpu, first_words)?;
        let Rows { words, counts, .. } = self.rows(gpu, &found)?;
        Ok(DeviceNgrams { words, counts })
    }

    /// Finds and sorts the windows that begin with some words.
    fn find(&self, gpu: &Gpu, first_words: &Range<u32>) -> Result<SortedWindows, GpuError> {
        let shape = self.shape;
        let cursor = gpu.zeroed::<u64>(1)?;
        // All at once are bounded well enough; some are counted first.
        let mut room = self.most();
        if *first_words != (0..self.grammar.terminal_count) {
            let target = WindowTarget {
                first_words: None,
                keys: None,
                cursor: &cursor,
            };
            self.windows(gpu, first_words, &target)?;
            room = halves(gpu.item(&cursor, 0)?);
            gpu.fill(&cursor, 0)?;
        }
        if let (Some(holder_bits), Some(parts)) = (shape.coded, &self.code_parts) {
            return self.find_coded(gpu, first_words, room.0, (holder_bits, parts), &cursor);
        }
        let values_apart = if shape.value_bits > 0 { 0 } else { room.0 };
        let mut found = SortedWindows {
            keys: gpu.allocate(room.0 * shape.parts as usize)?,
            values: gpu.allocate(values_apart)?,
            over: (gpu.allocate(room.1)?, gpu.allocate(room.1)?),
            stride: room.0,
            count: room.0,
        };
        let target = WindowTarget {
            first_words: None,
            keys: Some(&found),
            cursor: &cursor,
        };
        self.windows(gpu, first_words, &target)?;
        let over;
        (found.count, over) = halves(gpu.item(&cursor, 0)?);
        found.values.truncate(found.count);
        found.over.0.truncate(over);
        found.over.1.truncate(over);
        if shape.parts == 1 {
            found.keys.truncate(found.count);
        }
        self.sort(gpu, found)
    }

    /// Finds and sorts windows with codes, for which there is room.
    fn find_coded(
        &self,
        gpu: &Gpu,
        first_words: &Range<u32>,
        room: usize,
        (holder_bits, parts): (u32, &Buffer<u64>),
        cursor: &Buffer<u64>,
    ) -> Result<SortedWindows, GpuError> {
        let (grammar, shape) = (self.grammar, self.shape);
        let mut codes = gpu.allocate::<u64>(room)?;
        let records = gpu.allocate::<u64>(2 * room)?;
        for sequence in grammar.sequences() {
            // As CodedWindowsNumbers of all_ngrams.cu.
            let numbers = ArgumentStruct::<[u32; 12]>([
                room as u32,
                (room as u64 >> u32::BITS) as u32,
                shape.n,
                grammar.terminal_count,
                // Positions are u32.
                sequence.symbols.len() as u32,
                u32::from(sequence.is_root),
                grammar.files() as u32,
                shape.bits,
                shape.part_words,
                holder_bits,
                first_words.start,
                first_words.end,
            ]);
            let arguments = arguments! {
                numbers,
                end_words: &self.ends,
                sequence: sequence.symbols,
                owners: sequence.owners,
                rule_weights: self.weights.at(grammar.terminal_count as usize),
                parts,
                codes,
                records,
                cursor,
            };
            let kernel = SOURCE.kernel("coded_windows_kernel").made_for(self.shape.n);
            gpu.launch_looping(kernel, sequence.symbols.len(), arguments)?;
        }
        let (exact, inexact) = halves(gpu.item(cursor, 0)?);
        // Inexact windows come in order, and behind exact ones: sorting by code is stable.
        let rest_keys = gpu.allocate::<u64>(inexact)?;
        let rests = gpu.allocate::<u32>(inexact)?;
        let arguments = arguments! {
            records,
            room,
            count: inexact,
            n: shape.n,
            bits: shape.bits,
            part_words: shape.part_words,
            holder_bits,
            parts,
            keys: &rest_keys,
            numbers: &rests,
        };
        let kernel = SOURCE.kernel("record_rests_kernel");
        gpu.launch_looping(kernel.moving(inexact * 28), inexact, arguments)?;
        let rest_bits = codes_gpu::rest_bits(shape.n, shape.bits).expect("windows have codes");
        let (_, rests) = primitives::sort_pairs(gpu, rest_keys, rests, 0..rest_bits)?;
        let count = exact + inexact;
        codes.truncate(count);
        let numbers = gpu.allocate::<u32>(count)?;
        let arguments = arguments! {
            records,
            exact,
            rests,
            count,
            n: shape.n,
            bits: shape.bits,
            part_words: shape.part_words,
            holder_bits,
            parts,
            codes,
            numbers,
        };
        let kernel = SOURCE.kernel("record_codes_kernel");
        gpu.launch_looping(kernel.moving(count * 4 + inexact * 28), count, arguments)?;
        let (_, values) = primitives::sort_pairs(gpu, codes, numbers, 0..u64::BITS)?;
        Ok(SortedWindows {
            keys: records,
            values,
            over: (gpu.allocate(0)?, gpu.allocate(0)?),
            stride: room,
            count,
        })
    }

    /// Passes over all roots and bodies.
    fn windows(
        &self,
        gpu: &Gpu,
        first_words: &Range<u32>,
        target: &WindowTarget<'_>,
    ) -> Result<(), GpuError> {
        let (grammar, shape) = (self.grammar, self.shape);
        for sequence in grammar.sequences() {
            let [keys, values, over_keys, over_values] = match target.keys {
                Some(found) => [
                    Argument::from(&found.keys),
                    Argument::from(&found.values),
                    Argument::from(&found.over.0),
                    Argument::from(&found.over.1),
                ],
                None => [Argument::NONE; 4],
            };
            let stride = target.keys.map_or(0, |found| found.stride as u64);
            // As WindowsNumbers of all_ngrams.cu.
            let numbers = ArgumentStruct::<[u32; 14]>([
                stride as u32,
                (stride >> u32::BITS) as u32,
                shape.n,
                grammar.terminal_count,
                // Positions are u32.
                sequence.symbols.len() as u32,
                u32::from(sequence.is_root),
                u32::from(self.with_holders),
                grammar.files() as u32,
                shape.bits,
                shape.parts,
                shape.part_words,
                shape.value_bits,
                first_words.start,
                first_words.end,
            ]);
            let arguments = arguments! {
                numbers,
                end_words: &self.ends,
                sequence: sequence.symbols,
                owners: sequence.owners,
                rule_weights: self.weights.at(grammar.terminal_count as usize),
                first_words: target.first_words.map_or(Argument::NONE, Argument::from),
                keys,
                value_of: values,
                over_keys,
                over_values,
                cursor: target.cursor,
            };
            let kernel = SOURCE.kernel("windows_kernel").made_for(self.shape.n);
            gpu.launch_looping(kernel, sequence.symbols.len(), arguments)?;
        }
        Ok(())
    }

    fn sort(&self, gpu: &Gpu, found: SortedWindows) -> Result<SortedWindows, GpuError> {
        let shape = self.shape;
        let count = found.count;
        if shape.value_bits > 0 {
            let end = shape.value_bits + shape.part_bits(0);
            let keys = primitives::sort_keys(gpu, found.keys, shape.value_bits..end)?;
            return Ok(SortedWindows { keys, ..found });
        }
        if shape.parts == 1 {
            let bits = 0..shape.part_bits(0);
            let (keys, values) = primitives::sort_pairs(gpu, found.keys, found.values, bits)?;
            return Ok(SortedWindows {
                keys,
                values,
                ..found
            });
        }
        // The last part first, each time moving numbers of windows.
        let mut numbers = gpu.allocate::<u32>(count)?;
        gpu.launch_looping(
            SOURCE.kernel("numbers_kernel").whole(),
            count,
            arguments! { numbers, count },
        )?;
        let gather = SOURCE.kernel("gather_keys_kernel");
        let gather = gather.moving(count * (4 + 2 * 8));
        for part in (0..shape.parts).rev() {
            let keys = gpu.allocate::<u64>(count)?;
            let from = found.keys.at(part as usize * found.stride);
            let arguments = arguments! { keys: from, numbers, out: &keys, count };
            gpu.launch_looping(gather, count, arguments)?;
            let bits = 0..shape.part_bits(part);
            (_, numbers) = primitives::sort_pairs(gpu, keys, numbers, bits)?;
        }
        let keys = gpu.allocate::<u64>(count * shape.parts as usize)?;
        for part in 0..shape.parts as usize {
            let (from, to) = (found.keys.at(part * found.stride), keys.at(part * count));
            let arguments = arguments! { keys: from, numbers, out: to, count };
            gpu.launch_looping(gather, count, arguments)?;
        }
        let values = gpu.allocate::<u32>(count)?;
        let arguments = arguments! { values: &found.values, numbers, out: &values, count };
        gpu.launch_looping(
            SOURCE.kernel("gather_values_kernel").moving(count * 3 * 4),
            count,
            arguments,
        )?;
        Ok(SortedWindows {
            keys,
            values,
            stride: count,
            ..found
        })
    }

    /// The distinct n-grams that begin with some words, with their files.
    fn files(
        &self,
        gpu: &Gpu,
        holder_files: &HolderFiles,
        order: FileOrder,
        first_words: &Range<u32>,
    ) -> Result<DeviceNgramFiles, GpuError> {
        let found = self.find(gpu, first_words)?;
        let Rows {
            words,
            counts,
            offsets,
            holders,
        } = self.rows(gpu, &found)?;
        let rows = counts.len();
        let holders = match self.shape {
            DeviceShape {
                value_bits: 0,
                coded: None,
                ..
            } => found.values,
            _ => holders,
        };
        let by_count = order == FileOrder::Count;
        let lists = match holder_files {
            HolderFiles::Lists(lists) => lists,
            HolderFiles::Cells(cells) => {
                drop(counts);
                let files = self.files_of_cells(gpu, cells, &offsets, &holders, by_count)?;
                return Ok(DeviceNgramFiles { words, files });
            }
        };
        // Rows are fewer than windows, of which a sort takes fewer than 2^30.
        let all = 0..rows as u32;
        let files = self.grammar.files();
        let plan = MergePlan::new(gpu, offsets, holders, counts, files, &[all])?;
        let first = self.grammar.terminal_count as usize;
        let merged = plan.merge_lists(gpu, lists, first, by_count)?;
        let files = merged.table(gpu, rows)?;
        if by_count && plan.heavy_count > 0 {
            rank_rows(gpu, &files, &plan.weights, merge_gpu::WINDOW)?;
        }
        Ok(DeviceNgramFiles { words, files })
    }

    /// The files of rows of windows, with counts, from what a few files have of each symbol.
    fn files_of_cells(
        &self,
        gpu: &Gpu,
        symbol_cells: &Buffer<u32>,
        offsets: &Buffer<u32>,
        holders: &Buffer<u32>,
        by_count: bool,
    ) -> Result<DeviceTable, GpuError> {
        let (rows, files) = (offsets.len() - 1, self.grammar.files());
        let owners = primitives::expand(gpu, offsets, holders.len())?;
        let cells = gpu.zeroed::<u32>(rows * files)?;
        let rule_cells = symbol_cells.at(self.grammar.terminal_count as usize * files);
        // A few files.
        let few = files as u32;
        let arguments = arguments! {
            holders,
            rows: &owners,
            count: holders.len(),
            holder_cells: rule_cells,
            files: few,
            cells,
        };
        let kernel = SOURCE.kernel("row_cells_kernel");
        gpu.launch_looping(kernel.moving(holders.len() * 8), holders.len(), arguments)?;
        drop(owners);
        let lengths = gpu.allocate::<u32>(rows)?;
        let arguments = arguments! { cells, rows, files: few, lengths };
        let kernel = SOURCE.kernel("cell_lengths_kernel");
        gpu.launch_looping(kernel.whole(), rows, arguments)?;
        let offsets = primitives::scan::<u32, u32>(gpu, &lengths)?;
        let entries = gpu.allocate::<u64>(gpu.item(&offsets, rows)? as usize)?;
        let arguments = arguments! {
            cells,
            rows,
            files: few,
            by_count: u32::from(by_count),
            offsets,
            entries,
        };
        let kernel = SOURCE.kernel("ranked_cells_kernel");
        gpu.launch_looping(kernel.whole(), rows, arguments)?;
        Ok(DeviceTable { offsets, entries })
    }

    /// The distinct n-grams of sorted windows, with the sums of their weights.
    fn rows(&self, gpu: &Gpu, found: &SortedWindows) -> Result<Rows, GpuError> {
        let (grammar, shape, count) = (self.grammar, self.shape, found.count);
        let holders_in_keys = self.with_holders && (shape.value_bits > 0 || shape.coded.is_some());
        let mut rows = Rows {
            words: gpu.allocate(count * shape.n as usize)?,
            counts: gpu.zeroed(count)?,
            offsets: gpu.allocate(count + 1)?,
            holders: gpu.allocate(if holders_in_keys { count } else { 0 })?,
        };
        if count == 0 {
            gpu.fill(&rows.offsets, 0)?;
            return Ok(rows);
        }
        let weights = if self.with_holders {
            self.weights.at(grammar.terminal_count as usize)
        } else {
            Argument::NONE
        };
        let row_count = gpu.zeroed::<u64>(1)?;
        // At most the number of tiles of a sort.
        let tiles = count.div_ceil(ROWS_TILE) as u32;
        let look_back = LookBack::<u64>::new(gpu, tiles as usize)?;
        let launched = Launch {
            blocks: tiles,
            threads: THREADS,
        };
        if let Some(holder_bits) = shape.coded {
            let holders = if self.with_holders {
                Argument::from(&rows.holders)
            } else {
                Argument::NONE
            };
            let arguments = arguments! {
                records: &found.keys,
                n: shape.n,
                bits: shape.bits,
                part_words: shape.part_words,
                holder_bits,
                numbers: &found.values,
                rule_weights: self.weights.at(grammar.terminal_count as usize),
                files: grammar.files() as u32,
                count,
                words: &rows.words,
                counts: &rows.counts,
                row_offsets: &rows.offsets,
                holders,
                rows: &row_count,
                look_back: look_back.words(),
                ticket: look_back.ticket(),
            };
            let kernel = SOURCE.kernel("coded_rows_kernel").moving(count * (4 + 16));
            gpu.launch(kernel, launched, arguments)?;
        } else {
            let arguments = arguments! {
                keys: &found.keys,
                stride: found.stride,
                n: shape.n,
                bits: shape.bits,
                parts: shape.parts,
                part_words: shape.part_words,
                value_bits: shape.value_bits,
                values: &found.values,
                rule_weights: weights,
                files: grammar.files() as u32,
                count,
                words: &rows.words,
                counts: &rows.counts,
                row_offsets: &rows.offsets,
                holders: &rows.holders,
                rows: &row_count,
                look_back: look_back.words(),
                ticket: look_back.ticket(),
            };
            gpu.launch(
                SOURCE
                    .kernel("ngram_rows_kernel")
                    .moving(count * 8 * shape.parts as usize),
                launched,
                arguments,
            )?;
        }
        // At most `count`, a usize.
        let row_count = gpu.item(&row_count, 0)? as usize;
        rows.words.truncate(row_count * shape.n as usize);
        rows.counts.truncate(row_count);
        rows.offsets.truncate(row_count + 1);
        let over = found.over.0.len();
        let arguments = arguments! {
            keys: &found.keys,
            value_bits: shape.value_bits,
            row_offsets: &rows.offsets,
            rows: row_count,
            over_keys: &found.over.0,
            over_values: &found.over.1,
            over_count: over,
            counts: &rows.counts,
        };
        gpu.launch_looping(SOURCE.kernel("add_over_kernel"), over, arguments)?;
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::gpu::test_devices::on_devices;
    use crate::grammar::test_grammars::{self, TestGrammar};
    use crate::grammar::weights_gpu::weights;
    use crate::{CountTable, WordGrammar, WordUses};

    static GO: AtomicBool = AtomicBool::new(false);

    fn joined(parts: Vec<NgramCounts>) -> NgramCounts {
        let (words, counts): (Vec<_>, Vec<_>) = parts
            .into_iter()
            .map(|part| (part.words, part.counts))
            .unzip();
        let (words, counts) = (words.concat(), counts.concat());
        NgramCounts { words, counts }
    }

    fn joined_files(parts: Vec<NgramFiles>) -> NgramFiles {
        let words = parts.iter().flat_map(|part| part.words.iter().copied());
        let words = words.collect();
        let rows = parts.iter().flat_map(|part| {
            let files = &part.files;
            (0..files.rows()).map(|row| files.row(row).to_vec())
        });
        let files = CountTable::of_rows(rows.collect());
        NgramFiles {
            words,
            files: files.into(),
        }
    }

    /// What the tasks need of a grammar.
    struct Fixture {
        words: WordGrammar,
        uses: WordUses,
        device: DeviceWords,
        weights: Buffer<u32>,
        device_uses: [FileUses; 2],
    }

    impl Fixture {
        fn new(gpu: &Gpu, grammar: &TestGrammar) -> Result<Fixture, GpuError> {
            let words = grammar.word_grammar();
            let device = DeviceWords::upload(gpu, words.view())?;
            Ok(Fixture {
                weights: weights(gpu, &device)?,
                uses: WordUses::new(words.view()),
                // With few files the second is a way that is not taken else.
                device_uses: [
                    FileUses::new(gpu, &device)?,
                    FileUses::of_lists(gpu, &device)?,
                ],
                words,
                device,
            })
        }

        fn check(&self, gpu: &Gpu, n: usize, memories: &[usize]) -> Result<(), GpuError> {
            let (view, twin_weights) = (self.words.view(), self.words.weights());
            let twin = crate::ngram_counts(view, twin_weights, n, usize::MAX, &GO);
            let twin = joined(twin.expect("not stopped"));
            for &memory in memories {
                let parts = ngram_counts(gpu, &self.device, &self.weights, n, memory)?;
                let parts: Result<_, _> = parts.iter().map(|part| part.download(gpu)).collect();
                assert_eq!(joined(parts?), twin, "n = {n}, memory {memory}");
            }
            let orders = [FileOrder::File, FileOrder::Count];
            let turns = orders
                .into_iter()
                .flat_map(|order| self.device_uses.iter().map(move |uses| (order, uses)));
            for ((order, device_uses), &memory) in turns.zip(memories.iter().cycle()) {
                let (uses, grammar, weights) = (&self.uses, &self.device, &self.weights);
                let twin =
                    crate::ngram_file_counts(view, twin_weights, uses, n, order, 1 << 20, &GO);
                let twin = joined_files(twin.expect("not stopped"));
                let parts =
                    ngram_file_counts(gpu, grammar, weights, device_uses, n, order, memory)?;
                let parts: Result<_, _> = parts.iter().map(|part| part.download(gpu)).collect();
                assert_eq!(joined_files(parts?), twin, "n = {n}, {order:?}, {memory}");
            }
            if n > 1 {
                self.check_some(gpu, n, memories[0])?;
            }
            Ok(())
        }

        /// N-grams that begin with some of the words.
        fn check_some(&self, gpu: &Gpu, n: usize, memory: usize) -> Result<(), GpuError> {
            let (view, twin_weights) = (self.words.view(), self.words.weights());
            let words = view.terminal_count;
            let first_words = words / 3..(words / 3 * 2).max(1);
            let set = NgramSet { n, first_words };
            let twin = crate::ngram_counts(view, twin_weights, set.clone(), usize::MAX, &GO);
            let parts = ngram_counts(gpu, &self.device, &self.weights, set.clone(), memory)?;
            let parts: Result<_, _> = parts.iter().map(|part| part.download(gpu)).collect();
            let twin = joined(twin.expect("not stopped"));
            assert_eq!(joined(parts?), twin, "{set:?}, memory {memory}");
            for device_uses in &self.device_uses {
                let (uses, order) = (&self.uses, FileOrder::Count);
                let some = || set.clone();
                let twin =
                    crate::ngram_file_counts(view, twin_weights, uses, some(), order, 1, &GO);
                let (grammar, weights) = (&self.device, &self.weights);
                let parts =
                    ngram_file_counts(gpu, grammar, weights, device_uses, some(), order, memory)?;
                let parts: Result<_, _> = parts.iter().map(|part| part.download(gpu)).collect();
                let twin = joined_files(twin.expect("not stopped"));
                assert_eq!(joined_files(parts?), twin, "{set:?}, memory {memory}");
            }
            Ok(())
        }
    }

    #[test]
    fn ngrams_of_small_grammars_equal_those_of_the_twin() {
        on_devices(|gpu| {
            for grammar in test_grammars::all_small().step_by(7_001) {
                let fixture = Fixture::new(gpu, &grammar)?;
                for n in 1..=3 {
                    fixture.check(gpu, n, &[usize::MAX])?;
                }
            }
            Ok(())
        });
    }

    #[test]
    fn ngrams_of_random_and_extreme_grammars_equal_those_of_the_twin() {
        on_devices(|gpu| {
            let grammars = [
                (test_grammars::random(1), &[2, NGRAM_WORDS_MAX][..]),
                (test_grammars::deep_chain(60), &[3]),
                (test_grammars::runs(12), &[1, 2]),
                (test_grammars::many_files(40), &[1, 3]),
                (test_grammars::fibonacci(15), &[4, NGRAM_WORDS_MAX]),
            ];
            for (grammar, lengths) in grammars {
                let fixture = Fixture::new(gpu, &grammar)?;
                for &n in lengths {
                    fixture.check(gpu, n, &[usize::MAX])?;
                }
            }
            Ok(())
        });
    }

    #[test]
    fn ngrams_are_the_same_in_parts_and_with_wide_words() {
        on_devices(|gpu| {
            let grammar = test_grammars::many_files(10);
            let fixture = Fixture::new(gpu, &grammar)?;
            fixture.check(gpu, 2, &[1_000, 5_000])?;
            for n in 5..NGRAM_WORDS_MAX {
                let parts = ngram_counts(gpu, &fixture.device, &fixture.weights, n, usize::MAX)?;
                let (view, weights) = (fixture.words.view(), fixture.words.weights());
                let twin = crate::ngram_counts(view, weights, n, usize::MAX, &GO);
                let twin = joined(twin.expect("not stopped"));
                assert_eq!(parts[0].download(gpu)?, twin, "n = {n}");
            }
            let (device, weights) = (&fixture.device, &fixture.weights);
            let counts = |search: DeviceSearch<'_>| {
                let all = 0..device.terminal_count;
                let found = search.find(gpu, &all)?;
                let Rows { words, counts, .. } = search.rows(gpu, &found)?;
                DeviceNgrams { words, counts }.download(gpu)
            };
            let uses = &fixture.device_uses[0];
            // Few files have cells, and lists where these are asked for.
            let lists = fixture.device_uses[1].lists(gpu, device)?;
            let lists = HolderFiles::Lists(lists.expect("were asked for"));
            assert!(uses.lists(gpu, device)?.is_none());
            // Holders that have no room in one key, and in none of two.
            for (n, bits) in [(3, 21), (4, 20)] {
                let order = FileOrder::File;
                let twin =
                    ngram_file_counts(gpu, device, weights, uses, n as usize, order, 1 << 30)?;
                let shape = DeviceShape::of_bits(n, bits, Some(12));
                assert_eq!(shape.value_bits, 0);
                let search = DeviceSearch::of_shape(gpu, device, weights, shape, true)?;
                let found = search.files(gpu, &lists, order, &(0..device.terminal_count))?;
                assert_eq!(found.download(gpu)?, twin[0].download(gpu)?, "{n} {bits}");
            }
            // The longer ones have inexact windows too.
            for (n, bits) in [(3, 22), (5, 17), (6, 15), (7, 12), (8, 10)] {
                let twin = ngram_counts(gpu, device, weights, n as usize, usize::MAX)?;
                let twin = twin[0].download(gpu)?;
                let shape = DeviceShape::of_bits(n, bits, None)
                    .coded(12)
                    .expect("has room");
                let search = DeviceSearch::of_shape(gpu, device, weights, shape, false)?;
                assert_eq!(counts(search)?, twin, "{n} {bits}");
                let order = FileOrder::File;
                let twin =
                    ngram_file_counts(gpu, device, weights, uses, n as usize, order, 1 << 30)?;
                let search = DeviceSearch::of_shape(gpu, device, weights, shape, true)?;
                let found = search.files(gpu, &lists, order, &(0..device.terminal_count))?;
                assert_eq!(found.download(gpu)?, twin[0].download(gpu)?, "{n} {bits}");
            }
            for (n, bits) in [(2, 29), (3, 21), (5, 17), (8, 32)] {
                let twin = ngram_counts(gpu, device, weights, n as usize, usize::MAX)?;
                let twin = twin[0].download(gpu)?;
                let shape = DeviceShape::of_bits(n, bits, None);
                let search = DeviceSearch::of_shape(gpu, device, weights, shape, false)?;
                assert_eq!(counts(search)?, twin, "{n} {bits}");
            }
            Ok(())
        });
    }
}
