//! In which files each word occurs, and how often.
//!
//! In   a grammar over words and where each symbol is used ([`WordUses`])
//! Out  a [`CountTable`]: for each word its files with counts, or for each file its words with counts
//! Work O(sum over the places of all symbols of the files that the rule of the place occurs in + root symbols);
//!      with up to 32 files O(body symbols + root symbols) steps over short rows
//!
//! Top-down, symbol by symbol: the files of a symbol are those of the rules whose
//! bodies hold it and those whose roots hold it. A symbol is gathered when all
//! higher levels are done. Beside following every file on its own,
//! this reads every body once, in order, and its
//! counters, one a file, stay in the first-level cache. With few files a symbol
//! has a row of one counter a file; with many, a list in order of file.
//! Counts are u32: a segment has fewer words than that.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::bits::bits_of;
use crate::grammar_view::AHEAD_SYMBOLS;
use crate::huge_pages::on_huge_pages;
use crate::offsets::{offsets_of, split_mut};
use crate::stop::{Stopped, check};
use crate::{GrammarView, Parents, fold_expansions};

/// With at most so many files every symbol has a row of counters.
const ROW_FILES_MAX: usize = 32;

/// Uses of symbols that one task gathers, about.
const TASK_USES: usize = 1 << 13;

/// Sorting an entry costs as much as looking at so many words of a set of files.
const SORT_FACTOR: usize = 8;

/// Where each symbol of a grammar over words is used.
#[derive(Debug, PartialEq, Eq)]
pub struct WordUses {
    /// The places of every symbol.
    pub parents: Parents,
    /// The file of each of `parents.root_positions`.
    pub root_files: Vec<u32>,
}

impl WordUses {
    /// Sorts all places by symbol.
    ///
    /// Work and memory as [`Parents::new`], and 4 bytes a root symbol more.
    pub fn new(view: GrammarView<'_>) -> WordUses {
        let parents = Parents::new(view);
        let mut file_of = on_huge_pages(vec![0u32; view.root.len()]);
        for file in 0..view.files() as u32 {
            file_of[view.root_range(file)].fill(file);
        }
        let root_files = (parents.root_positions.par_iter())
            .map(|&position| file_of[position as usize])
            .collect();
        WordUses {
            parents,
            root_files,
        }
    }

    /// The files of the roots that hold `symbol`, once for each time, ascending.
    #[inline]
    pub fn files(&self, symbol: u32) -> &[u32] {
        let symbol = symbol as usize;
        let offsets = &self.parents.root_offsets;
        &self.root_files[offsets[symbol] as usize..offsets[symbol + 1] as usize]
    }

    /// The rules of the bodies that hold `symbol`, once for each time, ascending.
    #[inline]
    pub fn rules(&self, symbol: u32) -> &[u32] {
        &self.parents.rules[self.parents.places(symbol)]
    }

    /// Size of the arrays.
    pub fn bytes(&self) -> usize {
        let Parents {
            offsets,
            rules,
            indexes,
            root_offsets,
            root_positions,
        } = &self.parents;
        let arrays = [
            offsets,
            rules,
            indexes,
            root_offsets,
            root_positions,
            &self.root_files,
        ];
        arrays.iter().map(|array| size_of_val(&array[..])).sum()
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

/// For each row the columns that it has, ascending, with a count each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountTable {
    /// `[rows + 1]` into `entries`.
    pub offsets: Vec<usize>,
    /// Column and count.
    pub entries: Vec<(u32, u32)>,
}

impl CountTable {
    /// A table of these rows.
    pub fn of_rows(rows: Vec<Vec<(u32, u32)>>) -> CountTable {
        let mut table = CountTable {
            offsets: Vec::with_capacity(rows.len() + 1),
            entries: Vec::with_capacity(rows.iter().map(Vec::len).sum()),
        };
        table.offsets.push(0);
        for row in rows {
            table.entries.extend(row);
            table.offsets.push(table.entries.len());
        }
        table
    }

    /// The columns and counts of a row.
    pub fn row(&self, row: usize) -> &[(u32, u32)] {
        &self.entries[self.offsets[row]..self.offsets[row + 1]]
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// The same counts with rows and columns swapped.
    ///
    /// A counting sort by column: O(entries + columns), parallel over parts of the entries.
    pub fn transposed(&self, columns: usize) -> CountTable {
        // Every task has a counter and a slice a column, which entries must be worth.
        let tasks = rayon::current_num_threads().min(self.entries.len() / columns.max(1) / 8 + 1);
        let part = self.entries.len().div_ceil(tasks).max(1);
        let counts: Vec<Vec<usize>> = (self.entries.par_chunks(part))
            .map(|entries| {
                let mut counts = vec![0; columns];
                for &(column, _) in entries {
                    counts[column as usize] += 1;
                }
                counts
            })
            .collect();
        let mut entries = on_huge_pages(vec![(0, 0); self.entries.len()]);
        let lengths = (0..columns).flat_map(|column| counts.iter().map(move |c| c[column]));
        let cuts = offsets_of(lengths);
        let mut slices: Vec<Vec<&mut [(u32, u32)]>> =
            counts.iter().map(|_| Vec::with_capacity(columns)).collect();
        let mut offsets = vec![0];
        for (index, slice) in split_mut(&mut entries, &cuts).into_iter().enumerate() {
            slices[index % counts.len()].push(slice);
        }
        offsets.extend((1..=columns).map(|column| cuts[column * counts.len()]));
        (slices.into_par_iter().enumerate()).for_each(|(task, mut slices)| {
            let range = task * part..self.entries.len().min((task + 1) * part);
            let mut row = self.offsets.partition_point(|&start| start <= range.start) - 1;
            for at in range {
                while at >= self.offsets[row + 1] {
                    row += 1;
                }
                let (column, count) = self.entries[at];
                let slice = std::mem::take(&mut slices[column as usize]);
                if let Some((first, rest)) = slice.split_first_mut() {
                    // Rows are files or words, which are u32.
                    *first = (row as u32, count);
                    slices[column as usize] = rest;
                }
            }
        });
        CountTable { offsets, entries }
    }

    /// Of each row the `k` entries with the largest counts, the largest first;
    /// of equal counts those with the smaller `rank` of the column first.
    pub fn top(&self, k: usize, rank: impl Fn(u32) -> u32 + Sync) -> Vec<Vec<(u32, u32)>> {
        let top = |row: usize| {
            let mut entries = self.row(row).to_vec();
            let order = |&(column, count): &(u32, u32)| (std::cmp::Reverse(count), rank(column));
            if k < entries.len() && k > 0 {
                entries.select_nth_unstable_by_key(k - 1, order);
            }
            entries.truncate(k);
            entries.sort_unstable_by_key(order);
            entries
        };
        (0..self.rows()).into_par_iter().map(top).collect()
    }
}

/// For each word the files that it occurs in, with counts.
///
/// Memory beside the result: with few files 4 bytes a rule and file; with many
/// 8 bytes for each rule and file that it occurs in.
pub fn word_file_counts(
    view: GrammarView<'_>,
    uses: &WordUses,
    stop: &AtomicBool,
) -> Result<CountTable, Stopped> {
    let (offsets, entries) = match view.files() {
        0..=1 => count_rows::<1>(view, uses, stop),
        2 => count_rows::<2>(view, uses, stop),
        3..=4 => count_rows::<4>(view, uses, stop),
        5..=8 => count_rows::<8>(view, uses, stop),
        9..=16 => count_rows::<16>(view, uses, stop),
        17..=ROW_FILES_MAX => count_rows::<ROW_FILES_MAX>(view, uses, stop),
        _ => gather_lists(view, uses, stop),
    }?;
    Ok(CountTable { offsets, entries })
}

/// For each file the words that occur in it, with counts.
///
/// Memory beside the result: with few files 4 bytes a symbol and file, else as
/// [`word_file_counts`] and its result.
pub fn file_word_counts(
    view: GrammarView<'_>,
    uses: &WordUses,
    stop: &AtomicBool,
) -> Result<CountTable, Stopped> {
    match view.files() {
        0..=1 => file_rows::<1>(view, uses, stop),
        2 => file_rows::<2>(view, uses, stop),
        3..=4 => file_rows::<4>(view, uses, stop),
        5..=8 => file_rows::<8>(view, uses, stop),
        9..=16 => file_rows::<16>(view, uses, stop),
        17..=ROW_FILES_MAX => file_rows::<ROW_FILES_MAX>(view, uses, stop),
        _ => {
            let table = word_file_counts(view, uses, stop)?;
            check(stop)?;
            Ok(table.transposed(view.files()))
        }
    }
}

/// For each file how often words of a set occur in it.
///
/// Work: O(symbols), bottom-up: for sets of many words.
pub fn word_set_counts(view: GrammarView<'_>, in_set: impl Fn(u32) -> bool + Sync) -> Vec<u64> {
    let one = |word| u64::from(in_set(word));
    let counts = fold_expansions(view, one, 0, u64::saturating_add);
    let count = |symbols: &[u32]| symbols.iter().map(|&s| counts[s as usize]).sum::<u64>();
    (0..view.files() as u32)
        .into_par_iter()
        .map(|file| view.file_root(file).par_chunks(TASK_USES).map(count).sum())
        .collect()
}

/// The offsets of rows of a table and what stands in them.
type Flat = (Vec<usize>, Vec<(u32, u32)>);

/// Gathers the rows of all rules, then of all words.
fn count_rows<const FILES: usize>(
    view: GrammarView<'_>,
    uses: &WordUses,
    stop: &AtomicBool,
) -> Result<Flat, Stopped> {
    let rows: Vec<[u32; FILES]> = rule_rows(view, uses, stop)?;
    let parts = (uses.parts(0..view.terminal_count as usize).into_par_iter())
        .map(|symbols| {
            check(stop)?;
            let mut part = Part::default();
            for symbol in symbols {
                let row = (0..).zip(row_of(uses, symbol, &rows, 0));
                part.entries.extend(row.filter(|&(_, count)| count > 0));
                part.ends.push(part.entries.len());
            }
            Ok(part)
        })
        .collect::<Result<Vec<_>, Stopped>>()?;
    Ok(join(parts))
}

/// Gathers the rows of all words, then reads one column a file.
fn file_rows<const FILES: usize>(
    view: GrammarView<'_>,
    uses: &WordUses,
    stop: &AtomicBool,
) -> Result<CountTable, Stopped> {
    let rules: Vec<[u32; FILES]> = rule_rows(view, uses, stop)?;
    let mut rows = vec![[0; FILES]; view.terminal_count as usize];
    let parts = uses.parts(0..rows.len());
    let cuts = offsets_of(parts.iter().map(Range::len));
    (split_mut(&mut rows, &cuts).into_par_iter().zip(parts)).for_each(|(rows, symbols)| {
        for (row, symbol) in rows.iter_mut().zip(symbols) {
            *row = row_of(uses, symbol, &rules, 0);
        }
    });
    check(stop)?;
    let column = |file: usize| -> Vec<(u32, u32)> {
        let counts = (0..).zip(rows.iter().map(|row| row[file]));
        counts.filter(|&(_, count)| count > 0).collect()
    };
    let files: Vec<_> = (0..view.files()).into_par_iter().map(column).collect();
    Ok(CountTable {
        offsets: offsets_of(files.iter().map(Vec::len)),
        entries: files.concat(),
    })
}

/// The counts of a symbol by file, the sum over its uses, given those of the rules from `first` on.
#[inline(always)]
fn row_of<const FILES: usize>(
    uses: &WordUses,
    symbol: usize,
    rows: &[[u32; FILES]],
    first: usize,
) -> [u32; FILES] {
    // Symbols are u32.
    let symbol = symbol as u32;
    let mut row = [0u32; FILES];
    for &file in uses.files(symbol) {
        row[file as usize] += 1;
    }
    for &rule in uses.rules(symbol) {
        for (sum, &count) in row.iter_mut().zip(&rows[rule as usize - first]) {
            *sum = sum.wrapping_add(count);
        }
    }
    row
}

/// Gathers the rows of all rules, level by level.
fn rule_rows<const FILES: usize>(
    view: GrammarView<'_>,
    uses: &WordUses,
    stop: &AtomicBool,
) -> Result<Vec<[u32; FILES]>, Stopped> {
    let words = view.terminal_count as usize;
    let mut rows = vec![[0; FILES]; view.rules()];
    for level in (0..view.levels()).rev() {
        check(stop)?;
        let rules = view.level_rules(level);
        let (open, done) = rows.split_at_mut(rules.end);
        let parts = uses.parts(words + rules.start..words + rules.end);
        if let [symbols] = &parts[..] {
            for (row, symbol) in open[rules.clone()].iter_mut().zip(symbols.clone()) {
                *row = row_of(uses, symbol, done, rules.end);
            }
            continue;
        }
        let cuts = offsets_of(parts.iter().map(Range::len));
        (split_mut(&mut open[rules.clone()], &cuts)
            .into_par_iter()
            .zip(parts))
        .for_each(|(open, symbols)| {
            for (row, symbol) in open.iter_mut().zip(symbols) {
                *row = row_of(uses, symbol, done, rules.end);
            }
        });
    }
    Ok(rows)
}

/// Some rows of a table.
#[derive(Default)]
struct Part {
    /// Where each row ends in `entries`.
    ends: Vec<usize>,
    entries: Vec<(u32, u32)>,
}

fn join(parts: Vec<Part>) -> Flat {
    let cuts = offsets_of(parts.iter().map(|part| part.entries.len()));
    let mut offsets = vec![0];
    for (part, start) in parts.iter().zip(&cuts) {
        offsets.extend(part.ends.iter().map(|end| start + end));
    }
    let mut entries = on_huge_pages(vec![(0, 0); cuts[parts.len()]]);
    (split_mut(&mut entries, &cuts).into_par_iter().zip(parts))
        .for_each(|(target, part)| target.copy_from_slice(&part.entries));
    (offsets, entries)
}

/// The lists of all rules whose level is done.
pub(crate) struct Lists {
    parts: Vec<Vec<(u32, u32)>>,
    /// By rule: the index of its part, where in it, how long.
    places: Vec<(u32, u32, u32)>,
    /// By count, not by file.
    ranked: bool,
}

impl Lists {
    #[inline]
    fn of(&self, rule: u32) -> &[(u32, u32)] {
        let (part, start, length) = self.places[rule as usize];
        &self.parts[part as usize][start as usize..][..length as usize]
    }

    /// Puts the lists of some rules on the way into the cache: memory answers
    /// slowly but many questions at a time.
    pub(crate) fn look_ahead(&self, rules: impl Iterator<Item = u32>) {
        let touched = rules.fold(0, |touched, rule| {
            let (part, start, _) = self.places[rule as usize];
            let first = self.parts[part as usize].get(start as usize);
            touched ^ first.map_or(0, |entry| entry.0)
        });
        // Reading is all: the value does not matter.
        std::hint::black_box(touched);
    }

    /// Orders the files of every rule by count, the largest first, then by file.
    /// Lists in this order add up as any others do.
    pub(crate) fn rank_all(&mut self) {
        self.ranked = true;
        let mut ranges = vec![Vec::new(); self.parts.len()];
        for &(part, start, length) in &self.places {
            ranges[part as usize].push(start as usize..(start + length) as usize);
        }
        (ranges.into_par_iter().zip(&mut self.parts)).for_each(|(ranges, entries)| {
            for range in ranges {
                rank(&mut entries[range]);
            }
        });
    }
}

/// Orders files by count, the largest first, then by file.
pub(crate) fn rank(files: &mut [(u32, u32)]) {
    if files.len() > 1 {
        files.sort_unstable_by_key(|&(file, count)| (std::cmp::Reverse(count), file));
    }
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
        lists: &Lists,
        files: &[u32],
        rules: &[u32],
        target: &mut Vec<(u32, u32)>,
    ) {
        match (files, rules) {
            (&[file], &[]) => target.push((file, 1)),
            (&[], &[rule]) => target.extend_from_slice(lists.of(rule)),
            _ => {
                let mut total = files.len();
                let mut range = match (files.first(), files.last()) {
                    (Some(&first), Some(&last)) => (first, last),
                    _ => (u32::MAX, 0),
                };
                for &rule in rules {
                    let list = lists.of(rule);
                    total += list.len();
                    if let (Some(first), Some(last)) = (list.first(), list.last()) {
                        range.0 = range.0.min(first.0);
                        range.1 = range.1.max(last.0);
                    }
                }
                let words = match lists.ranked {
                    true => 0..self.touched.len(),
                    false if total == 0 => 0..0,
                    false => range.0 as usize / 64..range.1 as usize / 64 + 1,
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

    fn sort(&mut self, lists: &Lists, files: &[u32], rules: &[u32], target: &mut Vec<(u32, u32)>) {
        self.few.clear();
        self.few.extend(files.iter().map(|&file| (file, 1)));
        for &rule in rules {
            self.few.extend_from_slice(lists.of(rule));
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
        lists: &Lists,
        files: &[u32],
        rules: &[u32],
        words: Range<usize>,
        target: &mut Vec<(u32, u32)>,
    ) {
        for &file in files {
            self.add((file, 1));
        }
        for &rule in rules {
            for &entry in lists.of(rule) {
                self.add(entry);
            }
        }
        // Files are u32.
        let first = words.start as u32 * 64;
        for (base, touched) in (first..).step_by(64).zip(&mut self.touched[words]) {
            for bit in bits_of(std::mem::take(touched)) {
                let count = &mut self.counts[(base + bit) as usize];
                target.push((base + bit, std::mem::take(count)));
            }
        }
    }
}

/// Gathers the lists of all words.
fn gather_lists(
    view: GrammarView<'_>,
    uses: &WordUses,
    stop: &AtomicBool,
) -> Result<Flat, Stopped> {
    let lists = rule_lists(view, uses, stop)?;
    let words = 0..view.terminal_count as usize;
    Ok(join(gather_parts(view, uses, &lists, words, stop)?))
}

/// Gathers the lists of all rules, level by level.
pub(crate) fn rule_lists(
    view: GrammarView<'_>,
    uses: &WordUses,
    stop: &AtomicBool,
) -> Result<Lists, Stopped> {
    let words = view.terminal_count as usize;
    let mut lists = Lists {
        parts: Vec::new(),
        places: vec![(0, 0, 0); view.rules()],
        ranked: false,
    };
    for level in (0..view.levels()).rev() {
        let rules = view.level_rules(level);
        let symbols = words + rules.start..words + rules.end;
        let mut rule = rules.start;
        for part in gather_parts(view, uses, &lists, symbols, stop)? {
            let mut start = 0;
            for end in part.ends {
                // A part has fewer entries than a u32 counts: its uses times the files of a segment.
                let number = lists.parts.len() as u32;
                lists.places[rule] = (number, start as u32, (end - start) as u32);
                (start, rule) = (end, rule + 1);
            }
            lists.parts.push(part.entries);
        }
    }
    Ok(lists)
}

/// Gathers the lists of `symbols`, given those of all rules that use them.
fn gather_parts(
    view: GrammarView<'_>,
    uses: &WordUses,
    lists: &Lists,
    symbols: Range<usize>,
    stop: &AtomicBool,
) -> Result<Vec<Part>, Stopped> {
    let gather = |tally: &mut Tally, symbols: Range<usize>| {
        check(stop)?;
        let mut part = Part {
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
            tally.gather(lists, uses.files(symbol), uses.rules(symbol), target);
            part.ends.push(target.len());
        }
        Ok(part)
    };
    (uses.parts(symbols).into_par_iter())
        .map_init(|| Tally::new(view.files()), gather)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_grammars::{self, TestGrammar, in_pools};
    use std::collections::BTreeMap;

    static GO: AtomicBool = AtomicBool::new(false);

    fn check_grammar(grammar: &TestGrammar) {
        let words = grammar.word_grammar();
        let view = words.view();
        let uses = WordUses::new(view);
        let mut counts: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        let files = grammar.all_file_words();
        for (file, words) in (0..).zip(&files) {
            for &word in words {
                *counts.entry((word, file)).or_insert(0) += 1;
            }
        }
        let by_word = word_file_counts(view, &uses, &GO).expect("not stopped");
        let found = (0..by_word.rows()).flat_map(|word| {
            let row = by_word.row(word).iter();
            row.map(move |&(file, count)| ((word as u32, file), count))
        });
        assert!(found.eq(counts.iter().map(|(&key, &count)| (key, count))));
        let lists = gather_lists(view, &uses, &GO);
        assert_eq!(
            (&by_word.offsets, &by_word.entries),
            lists.as_ref().map(|l| (&l.0, &l.1)).expect("not stopped")
        );

        let by_file = file_word_counts(view, &uses, &GO).expect("not stopped");
        let mut swapped: Vec<_> = counts
            .iter()
            .map(|(&(word, file), &n)| (file, word, n))
            .collect();
        swapped.sort_unstable();
        let found = (0..by_file.rows()).flat_map(|file| {
            let row = by_file.row(file).iter();
            row.map(move |&(word, count)| (file as u32, word, count))
        });
        assert!(found.eq(swapped));
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
    }

    #[test]
    fn counts_are_the_same_for_1_2_and_16_threads() {
        for files in [20, 500] {
            let grammar = test_grammars::many_files(files);
            let words = grammar.word_grammar();
            let uses = in_pools(|| WordUses::new(words.view()));
            in_pools(|| file_word_counts(words.view(), &uses, &GO).expect("not stopped"));
        }
    }

    #[test]
    fn the_top_of_a_row_is_ordered_by_count_then_rank() {
        let table = CountTable {
            offsets: vec![0, 4, 4],
            entries: vec![(0, 2), (3, 7), (5, 2), (9, 1)],
        };
        assert_eq!(
            table.top(2, |word| 100 - word),
            [vec![(3, 7), (5, 2)], vec![]]
        );
        assert_eq!(table.top(2, |word| word)[0], [(3, 7), (0, 2)]);
        assert_eq!(table.top(0, |word| word)[0], []);
        assert_eq!(table.top(9, |word| word)[0].len(), 4);
    }

    #[test]
    fn a_set_flag_stops() {
        let stop = AtomicBool::new(true);
        for files in [2, 300] {
            let words = test_grammars::many_files(files).word_grammar();
            let uses = WordUses::new(words.view());
            assert_eq!(file_word_counts(words.view(), &uses, &stop), Err(Stopped));
            assert_eq!(word_file_counts(words.view(), &uses, &stop), Err(Stopped));
        }
    }
}
