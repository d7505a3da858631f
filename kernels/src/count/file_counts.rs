//! The files in which each word occurs, with counts.
//!
//! In   a grammar over words; how to count
//! Out  a [`CountTable`]: for each word its files with counts, or for each file its words with counts
//! Work by rules: O(root symbols + body symbols * files / 16); by words: O(symbols + words); then O(result), twice for
//!      the files of words
//!
//! By rules, top-down, the counters of a symbol by file stand in one row, and a rule's row is added to those of its
//! body when all higher levels are done: each body is read once for 16 files. By words, each file is expanded and
//! counted: what pays for many files that have little in common. Either gives the words of files, which are turned
//! round in ranges of words that stay in cache.
//! Counts are u32: a segment has fewer words than that.
//!
//! For n-grams there are also lists of files by rule, gathered symbol by symbol from where each is used ([`WordUses`]).

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::cost::{
    FILE_BATCH_SYMBOL_COST, FILE_EXPANDED_SYMBOL_COST, FILE_ROOT_SYMBOL_COST, FILE_WORD_COST,
};
use crate::count::count_table::transposed;
use crate::grammar::grammar_view::AHEAD_SYMBOLS;
use crate::memory::huge_pages::on_huge_pages;
use crate::numbers::bits::bits_of;
use crate::numbers::offsets::{offsets_of, split_mut};
use crate::stop::{Stopped, check};
use crate::{CountTable, Expander, Expansions, GrammarView, Parents, fold_expansions};

/// Files that are counted together: their counters fill a cache line.
const BATCH_FILES_MAX: usize = 16;

/// Files that are counted at a time by all threads; 4 bytes a symbol each.
const BATCHES_FILES_MAX: usize = 32;

/// Root symbols between two checks of the stop flag.
const STOP_SYMBOLS: usize = 1 << 16;

/// Uses of symbols that one task gathers, about.
const TASK_USES: usize = 1 << 13;

/// Cost of sorting one entry, in words of a set of files that are scanned.
const SORT_FACTOR: usize = 8;

/// Lists of at most this many files are ordered as integers.
const FEW_FILES: usize = 32;

/// Where each symbol of a grammar over words is used.
#[derive(Debug, PartialEq, Eq)]
pub struct WordUses {
    /// The places of every symbol.
    pub parents: Parents,
    files: RootFiles,
}

/// Which file a position of the root belongs to.
#[derive(Debug, PartialEq, Eq)]
struct RootFiles {
    /// By file: behind its last position.
    ends: Vec<u32>,
    /// By block of positions: the file of its first one; and one behind.
    firsts: Vec<u32>,
}

/// Positions of a block: few enough that most are of one file or two, and that there are few blocks.
const BLOCK_POSITIONS: usize = 1 << 8;

impl RootFiles {
    fn new(view: GrammarView<'_>) -> RootFiles {
        let ends = view
            .root_offsets
            .iter()
            .skip(1)
            .copied()
            .collect::<Vec<u32>>();
        // Positions are u32, and files too.
        let file_of =
            |position: usize| ends.partition_point(|&end| end as usize <= position) as u32;
        let blocks = view.root.len().div_ceil(BLOCK_POSITIONS);
        let mut firsts: Vec<u32> = (0..blocks)
            .map(|block| file_of(block * BLOCK_POSITIONS))
            .collect();
        firsts.push(file_of(view.root.len().saturating_sub(1)));
        RootFiles { ends, firsts }
    }

    #[inline(always)]
    fn of(&self, position: u32) -> u32 {
        let block = position as usize / BLOCK_POSITIONS;
        let (first, last) = (self.firsts[block], self.firsts[block + 1]);
        if first == last {
            return first;
        }
        let ends = &self.ends[first as usize..last as usize];
        first + ends.partition_point(|&end| end <= position) as u32
    }
}

impl WordUses {
    /// Sorts all places by symbol.
    ///
    /// Work and memory as [`Parents::new`].
    pub fn new(view: GrammarView<'_>) -> WordUses {
        WordUses {
            parents: Parents::new(view),
            files: RootFiles::new(view),
        }
    }

    /// The files of the roots that hold `symbol`, once for each time, ascending.
    #[inline]
    pub fn files(&self, symbol: u32) -> impl ExactSizeIterator<Item = u32> {
        let positions = self.parents.positions(symbol).iter();
        positions.map(|&position| self.files.of(position))
    }

    /// The rules of the bodies that hold `symbol`, once for each time, ascending.
    #[inline]
    pub fn rules(&self, symbol: u32) -> &[u32] {
        &self.parents.rules[self.parents.places(symbol)]
    }

    /// Size of the arrays.
    pub fn bytes(&self) -> usize {
        let RootFiles { ends, firsts } = &self.files;
        self.parents.bytes() + size_of_val(&ends[..]) + size_of_val(&firsts[..])
    }

    /// Cuts `symbols` into parts of about [`TASK_USES`] uses.
    fn parts(&self, symbols: Range<usize>) -> Vec<Range<usize>> {
        let uses = |symbol: usize| {
            self.parents.offsets[symbol] as usize + self.parents.root_offsets[symbol] as usize
        };
        let mut parts = Vec::new();
        let mut start = symbols.start;
        for symbol in symbols.clone() {
            // A symbol costs something even if it is not used.
            let size = uses(symbol + 1) - uses(start) + (symbol - start);
            if size >= TASK_USES || symbol + 1 == symbols.end {
                parts.push(start..symbol + 1);
                start = symbol + 1;
            }
        }
        parts
    }
}

/// How words are counted by file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileCounting {
    /// Top-down: a row of counters, one a file, goes from each rule to the symbols of its body.
    Rules,
    /// Word by word: each file is expanded.
    Words,
}

impl FileCounting {
    /// The counting that takes less time for a grammar and the weights of its words.
    pub fn of(view: GrammarView<'_>, weights: &[u32]) -> FileCounting {
        let words = weights.iter().map(|&weight| u64::from(weight)).sum();
        let symbols = (view.symbols.len() as u64, view.root.len() as u64);
        FileCounting::cheapest(view.files() as u64, symbols.0, symbols.1, words)
    }

    /// The counting with the least estimated time for these numbers of files, symbols of bodies, symbols of roots,
    /// and words.
    pub fn cheapest(files: u64, symbols: u64, root_symbols: u64, words: u64) -> FileCounting {
        let batches = files.div_ceil(BATCH_FILES_MAX as u64) as f64;
        let (symbols, root_symbols) = (symbols as f64, root_symbols as f64);
        let rules =
            root_symbols * FILE_ROOT_SYMBOL_COST + batches * symbols * FILE_BATCH_SYMBOL_COST;
        let words =
            (symbols + root_symbols) * FILE_EXPANDED_SYMBOL_COST + words as f64 * FILE_WORD_COST;
        if rules <= words {
            FileCounting::Rules
        } else {
            FileCounting::Words
        }
    }
}

/// For each word the files that it occurs in, with counts.
///
/// Memory as [`file_word_counts`].
pub fn word_file_counts(
    view: GrammarView<'_>,
    counting: FileCounting,
    stop: &AtomicBool,
) -> Result<CountTable, Stopped> {
    let parts = count_files(view, counting, stop)?;
    check(stop)?;
    let rows: Vec<&[(u32, u32)]> = parts.iter().flat_map(TablePart::rows).collect();
    Ok(transposed(&rows, view.terminal_count as usize))
}

/// For each file the words that occur in it, with counts.
///
/// Memory beside the result: the size of the result; top-down also at most 128 bytes a symbol, word by word that of
/// [`Expansions`] and 8 bytes a word for each thread.
pub fn file_word_counts(
    view: GrammarView<'_>,
    counting: FileCounting,
    stop: &AtomicBool,
) -> Result<CountTable, Stopped> {
    let parts = count_files(view, counting, stop)?;
    check(stop)?;
    Ok(join(parts))
}

/// For each file how often words of a set occur in it.
///
/// Work: O(symbols), bottom-up: for sets of many words.
pub fn word_set_counts(view: GrammarView<'_>, in_set: impl Fn(u32) -> bool + Sync) -> Vec<u64> {
    let weights = set_weights(view, in_set);
    (0..view.files() as u32)
        .into_par_iter()
        .map(|file| {
            let parts = view.file_root(file).par_chunks(TASK_USES);
            parts.map(|symbols| weight_of(&weights, symbols)).sum()
        })
        .collect()
}

/// For each symbol how many terminals of a set its expansion has.
///
/// Work: O(terminals + body symbols), bottom-up; roots are not looked at.
pub fn set_weights(view: GrammarView<'_>, in_set: impl Fn(u32) -> bool + Sync) -> Vec<u32> {
    fold_expansions(
        view,
        |terminal| u32::from(in_set(terminal)),
        0,
        u32::saturating_add,
    )
}

/// What the weights of some symbols add up to.
#[inline]
pub fn weight_of(weights: &[u32], symbols: &[u32]) -> u64 {
    let weights = symbols.iter().map(|&symbol| weights[symbol as usize]);
    weights.map(u64::from).sum()
}

/// Counts the words of all files: parts of files that follow each other.
fn count_files(
    view: GrammarView<'_>,
    counting: FileCounting,
    stop: &AtomicBool,
) -> Result<Vec<TablePart>, Stopped> {
    if counting == FileCounting::Words {
        return count_expansions(view, stop);
    }
    let threads = rayon::current_num_threads();
    let files = view.files().div_ceil(threads);
    match files.min(BATCHES_FILES_MAX / threads).min(BATCH_FILES_MAX) {
        0..=1 => count_batches::<1>(view, stop),
        2..=3 => count_batches::<2>(view, stop),
        4..=7 => count_batches::<4>(view, stop),
        8..BATCH_FILES_MAX => count_batches::<8>(view, stop),
        _ => count_batches::<BATCH_FILES_MAX>(view, stop),
    }
}

/// Counts top-down, `FILES` files at a time.
fn count_batches<const FILES: usize>(
    view: GrammarView<'_>,
    stop: &AtomicBool,
) -> Result<Vec<TablePart>, Stopped> {
    let files: Vec<u32> = (0..view.files() as u32).collect();
    let workers = rayon::current_num_threads().min(BATCHES_FILES_MAX / FILES);
    let share = files.len().div_ceil(workers).max(1);
    let count = |files: &[u32]| {
        let mut rows = vec![[0; FILES]; view.symbol_count()];
        let mut part = TablePart::default();
        for files in files.chunks(FILES) {
            count_batch(view, files, &mut rows, stop)?;
            let rows = &mut rows[..view.terminal_count as usize];
            for column in 0..files.len() {
                part.push(rows.iter().map(|row| row[column]));
            }
            rows.fill([0; FILES]);
        }
        Ok(part)
    };
    files.par_chunks(share).map(count).collect()
}

/// Counts the words of some files, one a column. `rows` are 0 before; those of rules are 0 after.
fn count_batch<const FILES: usize>(
    view: GrammarView<'_>,
    files: &[u32],
    rows: &mut [[u32; FILES]],
    stop: &AtomicBool,
) -> Result<(), Stopped> {
    for (column, &file) in files.iter().enumerate() {
        for &symbol in view.file_root(file) {
            rows[symbol as usize][column] += 1;
        }
    }
    let words = view.terminal_count as usize;
    for level in (0..view.levels()).rev() {
        check(stop)?;
        for rule in view.level_rules(level).rev() {
            let row = std::mem::replace(&mut rows[words + rule], [0; FILES]);
            if row == [0; FILES] {
                continue;
            }
            // Rules are u32.
            for &symbol in view.body(rule as u32) {
                for (sum, count) in rows[symbol as usize].iter_mut().zip(row) {
                    *sum = sum.wrapping_add(count);
                }
            }
        }
    }
    Ok(())
}

/// Counts the words of each file's expansion.
fn count_expansions(view: GrammarView<'_>, stop: &AtomicBool) -> Result<Vec<TablePart>, Stopped> {
    let kept = Expansions::new(view);
    let share = view.root.len() / (rayon::current_num_threads() * 8) + 1;
    let mut tasks = Vec::new();
    let (mut first, mut size) = (0, 0);
    for file in 0..view.files() as u32 {
        size += view.root_range(file).len();
        if size >= share || file as usize + 1 == view.files() {
            tasks.push(first..file + 1);
            (first, size) = (file + 1, 0);
        }
    }
    let count = |(expander, counter): &mut (Expander<'_>, FileWordCounter), files: Range<u32>| {
        let mut part = TablePart::default();
        for file in files {
            let root = view.root_range(file);
            for start in root.clone().step_by(STOP_SYMBOLS) {
                check(stop)?;
                let positions = start..root.end.min(start + STOP_SYMBOLS);
                expander.for_each_piece(positions, |words| counter.count(words));
            }
            counter.take(&mut part);
        }
        Ok(part)
    };
    let state = || {
        let words = view.terminal_count as usize;
        (Expander::new(view, &kept), FileWordCounter::new(words))
    };
    tasks.into_par_iter().map_init(state, count).collect()
}

/// Counts the words of a file.
struct FileWordCounter {
    counts: Vec<u32>,
    /// The different words of the file so far, and room for one more.
    words: Vec<u32>,
    different: usize,
    /// A bit for each word.
    seen: Vec<u64>,
}

impl FileWordCounter {
    fn new(words: usize) -> FileWordCounter {
        FileWordCounter {
            counts: vec![0; words],
            words: vec![0; words + 1],
            different: 0,
            seen: vec![0; words.div_ceil(64)],
        }
    }

    #[inline(always)]
    fn count(&mut self, words: &[u32]) {
        let mut different = self.different;
        for &word in words {
            let count = &mut self.counts[word as usize];
            // Not a branch: which words are new cannot be guessed.
            self.words[different] = word;
            different += usize::from(*count == 0);
            *count = count.wrapping_add(1);
        }
        self.different = different;
    }

    /// Moves the counts to a row of `part`.
    fn take(&mut self, part: &mut TablePart) {
        for &word in &self.words[..self.different] {
            self.seen[word as usize / 64] |= 1 << (word % 64);
        }
        part.entries.reserve(self.different);
        self.different = 0;
        take_counts(&mut self.counts, &mut self.seen, 0, &mut part.entries);
        part.ends.push(part.entries.len());
    }
}

/// Moves the counts of the numbers in `seen` to `target`, ascending. The first bit is that of number `first`.
#[inline(always)]
fn take_counts(counts: &mut [u32], seen: &mut [u64], first: u32, target: &mut Vec<(u32, u32)>) {
    for (base, seen) in (first..).step_by(64).zip(seen) {
        for bit in bits_of(std::mem::take(seen)) {
            let count = &mut counts[(base + bit) as usize];
            target.push((base + bit, std::mem::take(count)));
        }
    }
}

/// Some rows of a table.
#[derive(Default)]
struct TablePart {
    /// Where each row ends in `entries`.
    ends: Vec<usize>,
    entries: Vec<(u32, u32)>,
}

impl TablePart {
    /// Adds a row, of the words whose counts are not 0.
    fn push(&mut self, counts: impl ExactSizeIterator<Item = u32>) {
        let mut end = self.entries.len();
        self.entries.resize(end + counts.len() + 1, (0, 0));
        for (word, count) in (0..).zip(counts) {
            // Not a branch: which words a file has cannot be guessed.
            self.entries[end] = (word, count);
            end += usize::from(count > 0);
        }
        self.entries.truncate(end);
        self.ends.push(end);
    }

    fn rows(&self) -> impl Iterator<Item = &[(u32, u32)]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let ranges = starts.zip(&self.ends);
        ranges.map(|(start, &end)| &self.entries[start..end])
    }
}

fn join(parts: Vec<TablePart>) -> CountTable {
    let cuts = offsets_of(parts.iter().map(|part| part.entries.len()));
    let mut offsets = vec![0];
    for (part, start) in parts.iter().zip(&cuts) {
        offsets.extend(part.ends.iter().map(|end| start + end));
    }
    let mut entries = on_huge_pages(vec![(0, 0); cuts[parts.len()]]);
    (split_mut(&mut entries, &cuts).into_par_iter().zip(parts))
        .for_each(|(target, part)| target.copy_from_slice(&part.entries));
    CountTable { offsets, entries }
}

/// Lists of files with counts, by number.
pub(crate) trait FileLists {
    /// Calls `take` with each file of a list and its count.
    fn each(&self, number: u32, take: impl FnMut((u32, u32)));

    /// How many files a list has.
    fn files(&self, number: u32) -> usize;

    /// The first and the last file of a list.
    fn ends(&self, number: u32) -> Option<(u32, u32)>;

    /// Whether they are ordered by count, not by file.
    fn are_ranked(&self) -> bool {
        false
    }
}

/// The files of each rule of a grammar over words, with counts: what files of n-grams are added up from.
///
/// An entry is one integer: the file, and above it the count, or that it is among the large ones.
#[derive(Debug, PartialEq, Eq)]
pub struct RuleFiles {
    parts: Vec<ListsPart>,
    /// By rule: the index of its part, where in it, how long.
    places: Vec<(u32, u32, u32)>,
    /// Bits of a file.
    file_bits: u32,
    /// By count, not by file.
    ranked: bool,
}

/// The lists of some rules.
#[derive(Debug, PartialEq, Eq)]
struct ListsPart {
    entries: Vec<u32>,
    /// Which entries have counts that they have no room for, and these; ascending.
    large: Vec<(u32, u32)>,
}

impl ListsPart {
    fn new(entries: &[(u32, u32)], file_bits: u32) -> ListsPart {
        let mut large = Vec::new();
        let most = u32::MAX.checked_shr(file_bits).unwrap_or(0);
        // A part has fewer entries than a u32 counts: its uses times the files of a segment.
        let packed = (0..).zip(entries).map(|(index, &(file, count))| {
            let short = count.min(most);
            if short == most {
                large.push((index, count));
            }
            // Both fit.
            (u64::from(short) << file_bits) as u32 | file
        });
        ListsPart {
            entries: packed.collect(),
            large,
        }
    }

    /// The file and the count of the entry at an index.
    #[inline(always)]
    fn entry(&self, index: usize, entry: u32, file_bits: u32) -> (u32, u32) {
        let most = u32::MAX.checked_shr(file_bits).unwrap_or(0);
        // The high half of a u64 shifted by at most 32 bits.
        let short = (u64::from(entry) >> file_bits) as u32;
        let file = (u64::from(entry) & ((1 << file_bits) - 1)) as u32;
        if short < most {
            return (file, short);
        }
        let at = self
            .large
            .partition_point(|&(large, _)| (large as usize) < index);
        (file, self.large.get(at).map_or(short, |&(_, count)| count))
    }
}

impl FileLists for RuleFiles {
    #[inline(always)]
    fn each(&self, rule: u32, mut take: impl FnMut((u32, u32))) {
        let (part, start, length) = self.places[rule as usize];
        let (part, start) = (&self.parts[part as usize], start as usize);
        let entries = &part.entries[start..start + length as usize];
        for (index, &entry) in (start..).zip(entries) {
            take(part.entry(index, entry, self.file_bits));
        }
    }

    fn files(&self, rule: u32) -> usize {
        self.places[rule as usize].2 as usize
    }

    #[inline]
    fn ends(&self, rule: u32) -> Option<(u32, u32)> {
        let (part, start, length) = self.places[rule as usize];
        let (part, start) = (&self.parts[part as usize], start as usize);
        let entries = &part.entries[start..start + length as usize];
        let file = |&entry: &u32| (u64::from(entry) & ((1 << self.file_bits) - 1)) as u32;
        Some((file(entries.first()?), file(entries.last()?)))
    }

    fn are_ranked(&self) -> bool {
        self.ranked
    }
}

impl RuleFiles {
    /// Gathers the lists of all rules, level by level.
    ///
    /// # Errors
    /// If it is stopped.
    pub fn new(
        view: GrammarView<'_>,
        uses: &WordUses,
        stop: &AtomicBool,
    ) -> Result<RuleFiles, Stopped> {
        let words = view.terminal_count as usize;
        // Files are u32.
        let file_max = (view.files() as u32).saturating_sub(1);
        let mut lists = RuleFiles {
            parts: Vec::new(),
            places: vec![(0, 0, 0); view.rules()],
            file_bits: u32::BITS - file_max.leading_zeros(),
            ranked: false,
        };
        for level in (0..view.levels()).rev() {
            let rules = view.level_rules(level);
            let symbols = words + rules.start..words + rules.end;
            let mut rule = rules.start;
            for (ends, part) in gather_parts(view, uses, &lists, symbols, stop)? {
                let mut start = 0;
                for end in ends {
                    // As above.
                    let number = lists.parts.len() as u32;
                    lists.places[rule] = (number, start as u32, (end - start) as u32);
                    (start, rule) = (end, rule + 1);
                }
                lists.parts.push(part);
            }
        }
        Ok(lists)
    }

    /// Size of the arrays.
    pub fn bytes(&self) -> usize {
        let parts = self.parts.iter();
        let parts = parts.map(|part| size_of_val(&part.entries[..]) + size_of_val(&part.large[..]));
        parts.sum::<usize>() + size_of_val(&self.places[..])
    }

    /// Puts the lists of some rules on the way into the cache: memory answers
    /// slowly but many questions at a time.
    pub(crate) fn look_ahead(&self, rules: impl Iterator<Item = u32>) {
        let touched = rules.fold(0, |touched, rule| {
            let (part, start, _) = self.places[rule as usize];
            touched
                ^ self.parts[part as usize]
                    .entries
                    .get(start as usize)
                    .unwrap_or(&0)
        });
        // Reading is all: the value does not matter.
        std::hint::black_box(touched);
    }

    /// The same with the files of every rule ordered by count, the largest first, then by file.
    /// Lists in this order add up as any others do.
    pub(crate) fn ranked(&self) -> RuleFiles {
        let mut ranges = vec![Vec::new(); self.parts.len()];
        for &(part, start, length) in &self.places {
            ranges[part as usize].push(start as usize..(start + length) as usize);
        }
        let rank_part = |(ranges, part): (Vec<Range<usize>>, &ListsPart)| {
            let entries = part.entries.iter().enumerate();
            let entries = entries.map(|(index, &entry)| part.entry(index, entry, self.file_bits));
            let mut entries: Vec<(u32, u32)> = entries.collect();
            for range in ranges {
                rank(&mut entries[range]);
            }
            ListsPart::new(&entries, self.file_bits)
        };
        RuleFiles {
            parts: ranges
                .into_par_iter()
                .zip(&self.parts)
                .map(rank_part)
                .collect(),
            places: self.places.clone(),
            file_bits: self.file_bits,
            ranked: true,
        }
    }
}

/// Orders files by count, the largest first, then by file.
pub(crate) fn rank(files: &mut [(u32, u32)]) {
    if is_ranked(files) {
        return;
    }
    // Few integers are sorted faster than as many pairs.
    let mut few = [0u64; FEW_FILES];
    match few.get_mut(..files.len()) {
        Some(keys) => {
            for (key, &(file, count)) in keys.iter_mut().zip(&*files) {
                *key = u64::from(!count) << u32::BITS | u64::from(file);
            }
            keys.sort_unstable();
            for (entry, &key) in files.iter_mut().zip(&*keys) {
                // The halves of a key.
                *entry = (key as u32, !((key >> u32::BITS) as u32));
            }
        }
        None => files.sort_unstable_by_key(|&(file, count)| (std::cmp::Reverse(count), file)),
    }
}

/// Whether files are ordered so.
fn is_ranked(files: &[(u32, u32)]) -> bool {
    files.is_sorted_by_key(|&(file, count)| (std::cmp::Reverse(count), file))
}

/// Adds lists up: a counter a file, and which of them are not 0.
pub(crate) struct Tally {
    counts: Vec<u32>,
    touched: Vec<u64>,
    few: Vec<(u32, u32)>,
}

impl Tally {
    pub(crate) fn new(files: usize) -> Tally {
        Tally {
            counts: vec![0; files],
            touched: vec![0; files.div_ceil(64)],
            few: Vec::new(),
        }
    }

    #[inline(always)]
    fn add(&mut self, (file, more): (u32, u32)) {
        let count = &mut self.counts[file as usize];
        *count = count.wrapping_add(more);
        self.touched[file as usize >> 6] |= 1 << (file & 63);
    }

    /// Appends the files of a symbol to `target`.
    pub(crate) fn gather(
        &mut self,
        lists: &impl FileLists,
        files: &[u32],
        rules: &[u32],
        target: &mut Vec<(u32, u32)>,
    ) {
        match (files, rules) {
            (&[file], &[]) => target.push((file, 1)),
            (&[], &[rule]) => {
                target.reserve(lists.files(rule));
                lists.each(rule, |entry| target.push(entry));
            }
            _ => {
                let mut total = files.len();
                let mut range = match (files.first(), files.last()) {
                    (Some(&first), Some(&last)) => (first, last),
                    _ => (u32::MAX, 0),
                };
                for &rule in rules {
                    total += lists.files(rule);
                    if let Some((first, last)) = lists.ends(rule) {
                        range.0 = range.0.min(first);
                        range.1 = range.1.max(last);
                    }
                }
                let words = if lists.are_ranked() {
                    0..self.touched.len()
                } else if total == 0 {
                    0..0
                } else {
                    range.0 as usize / 64..range.1 as usize / 64 + 1
                };
                // Fewer than it takes to look at all that may have been touched.
                if total * SORT_FACTOR <= words.len() {
                    self.sort(lists, files, rules, target);
                } else {
                    self.count(lists, files, rules, words, target);
                }
            }
        }
    }

    fn sort(
        &mut self,
        lists: &impl FileLists,
        files: &[u32],
        rules: &[u32],
        target: &mut Vec<(u32, u32)>,
    ) {
        self.few.clear();
        self.few.extend(files.iter().map(|&file| (file, 1)));
        for &rule in rules {
            lists.each(rule, |entry| self.few.push(entry));
        }
        self.few.sort_unstable();
        for equal in self.few.chunk_by(|a, b| a.0 == b.0) {
            let count = equal
                .iter()
                .fold(0, |sum: u32, entry| sum.wrapping_add(entry.1));
            target.push((equal[0].0, count));
        }
    }

    /// Files lie in `words` of `touched`.
    fn count(
        &mut self,
        lists: &impl FileLists,
        files: &[u32],
        rules: &[u32],
        words: Range<usize>,
        target: &mut Vec<(u32, u32)>,
    ) {
        for &file in files {
            self.add((file, 1));
        }
        for &rule in rules {
            lists.each(rule, |entry| self.add(entry));
        }
        // Files are u32.
        let first = words.start as u32 * 64;
        take_counts(&mut self.counts, &mut self.touched[words], first, target);
    }
}

/// Gathers the lists of `symbols`, given those of all rules that use them: for each part where its lists end, and they.
fn gather_parts(
    view: GrammarView<'_>,
    uses: &WordUses,
    lists: &RuleFiles,
    symbols: Range<usize>,
    stop: &AtomicBool,
) -> Result<Vec<(Vec<usize>, ListsPart)>, Stopped> {
    let gather = |(tally, files): &mut (Tally, Vec<u32>), symbols: Range<usize>| {
        check(stop)?;
        let mut part = TablePart {
            ends: Vec::with_capacity(symbols.len()),
            entries: Vec::with_capacity(2 * TASK_USES),
        };
        let last = uses.parents.offsets[symbols.end] as usize;
        let mut looked = uses.parents.offsets[symbols.start] as usize;
        for symbol in symbols {
            let end = uses.parents.offsets[symbol + 1] as usize;
            if end > looked {
                let ahead = last.min(end + AHEAD_SYMBOLS);
                lists.look_ahead(uses.parents.rules[looked..ahead].iter().copied());
                looked = ahead;
            }
            // Symbols are u32.
            let symbol = symbol as u32;
            let target = &mut part.entries;
            files.clear();
            files.extend(uses.files(symbol));
            tally.gather(lists, files, uses.rules(symbol), target);
            part.ends.push(target.len());
        }
        let packed = ListsPart::new(&part.entries, lists.file_bits);
        Ok((part.ends, packed))
    };
    (uses.parts(symbols).into_par_iter())
        .map_init(|| (Tally::new(view.files()), Vec::new()), gather)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::test_grammars::{self, TestGrammar, in_pools};
    use std::collections::BTreeMap;

    static GO: AtomicBool = AtomicBool::new(false);

    const COUNTINGS: [FileCounting; 2] = [FileCounting::Rules, FileCounting::Words];

    fn check_grammar(grammar: &TestGrammar) {
        let words = grammar.word_grammar();
        let view = words.view();
        let mut counts: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        let files = grammar.all_file_words();
        for (file, words) in (0..).zip(&files) {
            for &word in words {
                *counts.entry((word, file)).or_insert(0) += 1;
            }
        }
        let mut swapped: Vec<_> = counts
            .iter()
            .map(|(&(word, file), &n)| (file, word, n))
            .collect();
        swapped.sort_unstable();
        for counting in COUNTINGS {
            let by_word = word_file_counts(view, counting, &GO).expect("not stopped");
            let found = (0..by_word.rows()).flat_map(|word| {
                let row = by_word.row(word).iter();
                row.map(move |&(file, count)| ((word as u32, file), count))
            });
            assert!(found.eq(counts.iter().map(|(&key, &count)| (key, count))));
            assert_eq!(by_word.rows(), view.terminal_count as usize);
            let by_file = file_word_counts(view, counting, &GO).expect("not stopped");
            let found = (0..by_file.rows()).flat_map(|file| {
                let row = by_file.row(file).iter();
                row.map(move |&(word, count)| (file as u32, word, count))
            });
            assert!(found.eq(swapped.iter().copied()));
            assert_eq!(by_file.rows(), view.files());
            assert_eq!(by_file.transposed(by_word.rows()), by_word);
            assert_eq!(by_word.transposed(by_file.rows()), by_file);
        }
        let odd = word_set_counts(view, |word| word % 2 == 1);
        let naive = files
            .iter()
            .map(|words| words.iter().filter(|&w| w % 2 == 1).count() as u64);
        assert!(odd.into_iter().eq(naive));
    }

    #[test]
    fn counts_of_files_equal_counts_on_the_expansion() {
        test_grammars::all_small().for_each(|grammar| check_grammar(&grammar));
        test_grammars::random_many(200).for_each(|grammar| check_grammar(&grammar));
        check_grammar(&test_grammars::deep_chain(500));
        check_grammar(&test_grammars::long_body(20_000));
        check_grammar(&test_grammars::runs(12));
        for files in [5, 12, 30, 60, 300] {
            check_grammar(&test_grammars::many_files(files));
        }
        check_grammar(&test_grammars::copies(100));
    }

    #[test]
    fn counts_are_the_same_for_1_2_and_16_threads() {
        for files in [3, 20, 500] {
            let grammar = test_grammars::many_files(files);
            let words = grammar.word_grammar();
            for counting in COUNTINGS {
                let count = file_word_counts;
                in_pools(|| count(words.view(), counting, &GO).expect("not stopped"));
                let count = word_file_counts;
                in_pools(|| count(words.view(), counting, &GO).expect("not stopped"));
            }
            let uses = in_pools(|| WordUses::new(words.view()));
            let lists = in_pools(|| RuleFiles::new(words.view(), &uses, &GO).expect("not stopped"));
            in_pools(|| lists.ranked());
        }
    }

    #[test]
    fn lists_of_rules_are_the_files_of_their_words() {
        for grammar in [
            test_grammars::many_files(70),
            test_grammars::copies(300),
            test_grammars::random(4),
        ] {
            let words = grammar.word_grammar();
            let view = words.view();
            let uses = WordUses::new(view);
            let lists = RuleFiles::new(view, &uses, &GO).expect("not stopped");
            let ranked = lists.ranked();
            let weights_in = |file| crate::weights(view, view.root_range(file), u64::MAX);
            let files = (0..view.files() as u32).map(weights_in);
            let weights: Vec<Vec<u64>> = files.collect();
            for rule in 0..view.rules() as u32 {
                let symbol = (view.terminal_count + rule) as usize;
                let counts = (0..)
                    .zip(&weights)
                    .map(|(file, of)| (file, of[symbol] as u32));
                let mut expected: Vec<(u32, u32)> = counts.filter(|entry| entry.1 > 0).collect();
                let mut found = Vec::new();
                lists.each(rule, |entry| found.push(entry));
                assert_eq!(found, expected);
                assert_eq!(lists.files(rule), found.len());
                let ends = expected.first().zip(expected.last());
                assert_eq!(
                    lists.ends(rule),
                    ends.map(|(first, last)| (first.0, last.0))
                );
                rank(&mut expected);
                found.clear();
                ranked.each(rule, |entry| found.push(entry));
                assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn large_counts_come_back() {
        let entries: Vec<(u32, u32)> = (0..40).map(|file| (file, 1 << (file % 32))).collect();
        for file_bits in [6, 20, 31, 32] {
            let part = ListsPart::new(&entries, file_bits);
            let found = part.entries.iter().enumerate();
            let found = found.map(|(index, &entry)| part.entry(index, entry, file_bits));
            assert!(found.eq(entries.iter().copied()));
        }
    }

    #[test]
    fn few_large_files_are_counted_by_rules_and_many_that_differ_by_words() {
        let cheapest = FileCounting::cheapest;
        assert_eq!(
            cheapest(2, 800_000, 1_800_000, 30_000_000),
            FileCounting::Rules
        );
        assert_eq!(
            cheapest(15, 650_000, 40_000, 10_000_000),
            FileCounting::Rules
        );
        assert_eq!(
            cheapest(2_000, 1_600_000, 7_000_000, 16_000_000),
            FileCounting::Words
        );
        assert_eq!(cheapest(0, 0, 0, 0), FileCounting::Rules);
    }

    #[test]
    fn a_set_flag_stops() {
        let stop = AtomicBool::new(true);
        for files in [2, 300] {
            let words = test_grammars::many_files(files).word_grammar();
            for counting in COUNTINGS {
                let found = file_word_counts(words.view(), counting, &stop);
                assert_eq!(found, Err(Stopped));
                let found = word_file_counts(words.view(), counting, &stop);
                assert_eq!(found, Err(Stopped));
            }
        }
    }
}
