//! All n-grams of eight words in order, each once, with its count or its files: what n-grams of any length are read from.
//!
//! In   a grammar over words, n from 1 to [`NGRAM_WORDS_MAX`]
//! Out  the n-grams with counts, or with the files that have them; how often one occurs
//! Work O(distinct n-grams of eight words) for all n-grams, in the order of memory; O(log of them) and those that begin
//!      with it for one
//!
//! Text that repeats itself has far fewer distinct n-grams than words, however long they are, and those of n words are
//! runs of the longest ones that begin alike. Rows are sorted, so a row is stored as how many words it shares with the one
//! before (front coding) and the others. At the ends of files there are rows of fewer words. Most n-grams of similar files
//! are in the same files equally often: such lists of files are stored once a part.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::count::file_counts::{FileLists, RuleFiles, Tally, rank};
use crate::ngrams::all_ngrams::{
    FileOrder, NgramCounts, NgramFiles, NgramSet, ngram_count_parts, ngram_file_parts,
};
use crate::ngrams::windows::NGRAM_WORDS_MAX;
use crate::stop::{Stopped, check};
use crate::{CountTable, GrammarView, SharedRows, WordUses};

pub(crate) mod stored;

/// Words of a row, but at the ends of files.
const DEPTH: usize = NGRAM_WORDS_MAX;

/// Interval of rows whose words are kept whole.
const SAMPLE_ROWS: usize = 64;

/// The distinct n-grams of eight words.
#[derive(Debug, PartialEq, Eq)]
pub struct NgramTable {
    files: usize,
    /// By the words that their rows begin with.
    parts: Vec<RowRange>,
}

/// The rows that begin with some words.
#[derive(Debug, Default, PartialEq, Eq)]
struct RowRange {
    /// The first of those words.
    first: u32,
    /// `[rows]`: how many words a row has, in the high half, and how many it shares with the row before, in the low one.
    lengths: Vec<u8>,
    /// The words of each row that it does not share, and [`DEPTH`] zeros.
    words: Vec<u32>,
    /// `[rows]`: how often a row occurs in the only file, else which of `lists` it has.
    values: Vec<u32>,
    lists: RowLists,
    samples: Vec<Sample>,
}

/// Where a row is.
#[derive(Debug, PartialEq, Eq)]
struct Sample {
    row: [u32; DEPTH],
    /// Where its words begin that it does not share.
    words_start: u32,
}

/// Lists of files with counts.
#[derive(Debug, Default, PartialEq, Eq)]
struct RowLists {
    /// Ascending by file.
    table: Arc<CountTable>,
    /// The same lists by count, the largest first; the same table where that is the same order.
    ranked: Arc<CountTable>,
    /// `[lists]`: the sum of its counts.
    totals: Vec<u32>,
}

impl FileLists for RowLists {
    #[inline(always)]
    fn each(&self, number: u32, take: impl FnMut((u32, u32))) {
        self.table
            .row(number as usize)
            .iter()
            .copied()
            .for_each(take);
    }

    fn files(&self, number: u32) -> usize {
        self.table.row(number as usize).len()
    }

    fn ends(&self, number: u32) -> Option<(u32, u32)> {
        let row = self.table.row(number as usize);
        Some((row.first()?.0, row.last()?.0))
    }
}

/// The rows of fewer than [`DEPTH`] words, with their files.
type Tails = BTreeMap<Vec<u32>, Vec<(u32, u32)>>;

impl NgramTable {
    /// Size of the arrays.
    pub fn bytes(&self) -> usize {
        let of_part = |part: &RowRange| {
            let arrays = [&part.words, &part.values, &part.lists.totals];
            let arrays = arrays.map(|array| size_of_val(&array[..]));
            let lists = &part.lists;
            let ranked = if Arc::ptr_eq(&lists.table, &lists.ranked) {
                0
            } else {
                lists.ranked.bytes()
            };
            part.lengths.len()
                + size_of_val(&part.samples[..])
                + arrays.iter().sum::<usize>()
                + lists.table.bytes()
                + ranked
        };
        self.parts.iter().map(of_part).sum()
    }

    /// Sorts all n-grams of the grammar. `weights` holds how often each symbol occurs.
    ///
    /// Work and memory: as [`crate::ngram_file_counts`] of eight words; of a single file as [`crate::ngram_counts`].
    ///
    /// # Errors
    /// If it is stopped.
    pub fn new(
        view: GrammarView<'_>,
        weights: &[u32],
        uses: &WordUses,
        memory: usize,
        stop: &AtomicBool,
    ) -> Result<NgramTable, Stopped> {
        let tails = tails(view);
        let tails_of = |words: &Range<u32>| tails.range(vec![words.start]..vec![words.end]);
        let parts = if view.files() == 1 {
            let part = |words: Range<u32>, ngrams: NgramCounts| {
                let rows = ngrams.words.chunks_exact(DEPTH).zip(&ngrams.counts);
                let rows = rows.map(|(words, &count)| (words, [(0, count)]));
                let mut part = PartWriter::new(words.start, rows.len(), false);
                part.push_all(rows, tails_of(&words));
                part.finish()
            };
            ngram_count_parts(view, weights, &DEPTH.into(), memory, usize::MAX, stop, part)?
        } else {
            let part = |words: Range<u32>, ngrams: NgramFiles| {
                let rows = ngrams.words.chunks_exact(DEPTH).enumerate();
                let rows = rows.map(|(row, words)| (words, ngrams.files.row(row)));
                let mut part = PartWriter::new(words.start, rows.len(), true);
                part.push_all(rows, tails_of(&words));
                part.finish()
            };
            let (set, order) = (DEPTH.into(), FileOrder::File);
            let lists = RuleFiles::new(view, uses, stop)?;
            ngram_file_parts(
                view,
                weights,
                Some(&lists),
                &set,
                order,
                memory,
                usize::MAX,
                stop,
                part,
            )?
        };
        Ok(NgramTable {
            files: view.files(),
            parts,
        })
    }

    /// N-grams with their counts, in parts, in order.
    ///
    /// # Panics
    /// When `n` is 0 or above [`NGRAM_WORDS_MAX`].
    ///
    /// # Errors
    /// If it is stopped.
    pub fn ngram_counts(
        &self,
        set: impl Into<NgramSet>,
        stop: &AtomicBool,
    ) -> Result<Vec<NgramCounts>, Stopped> {
        let set = set.into();
        assert!((1..=DEPTH).contains(&set.n));
        let part = |part: &RowRange| {
            check(stop)?;
            // To copy as many words as is known is faster.
            let found = match set.n {
                2 => part.ngram_counts(2, self.files),
                3 => part.ngram_counts(3, self.files),
                n => part.ngram_counts(n, self.files),
            };
            Ok(found.of_set(&set))
        };
        self.parts_of(&set).par_iter().map(part).collect()
    }

    /// The parts that have rows of a set.
    fn parts_of(&self, set: &NgramSet) -> &[RowRange] {
        let Range { start, end } = set.first_words;
        let first = self.parts.partition_point(|part| part.first <= start);
        let end = self.parts.partition_point(|part| part.first < end);
        let first = first.saturating_sub(1);
        &self.parts[first..end.max(first)]
    }

    /// N-grams with the files that have them, in parts, in order.
    ///
    /// # Panics
    /// When `n` is 0 or above [`NGRAM_WORDS_MAX`].
    ///
    /// # Errors
    /// If it is stopped.
    pub fn ngram_file_counts(
        &self,
        set: impl Into<NgramSet>,
        order: FileOrder,
        stop: &AtomicBool,
    ) -> Result<Vec<NgramFiles>, Stopped> {
        let set = set.into();
        assert!((1..=DEPTH).contains(&set.n));
        let part = |tally: &mut Tally, part: &RowRange| {
            check(stop)?;
            let found = match (self.files, set.n) {
                (1, n) => part.ngram_counts(n, 1).of_one_file(),
                (_, 2) => part.ngram_files(2, order, tally),
                (_, 3) => part.ngram_files(3, order, tally),
                (_, n) => part.ngram_files(n, order, tally),
            };
            Ok(found.of_set(&set))
        };
        (self.parts_of(&set).par_iter())
            .map_init(|| Tally::new(self.files), part)
            .collect()
    }

    /// How often the n-gram `words` occurs.
    pub fn count(&self, words: &[u32]) -> u64 {
        let Some(&first) = words.first().filter(|_| words.len() <= DEPTH) else {
            return 0;
        };
        let part = self.parts.partition_point(|part| part.first <= first);
        let part = part.checked_sub(1).map(|part| &self.parts[part]);
        part.map_or(0, |part| part.count(words, self.files))
    }
}

impl RowRange {
    fn length(&self, row: usize) -> usize {
        usize::from(self.lengths[row] >> 4)
    }

    /// How many words a row shares with the one before.
    fn shared(&self, row: usize) -> usize {
        usize::from(self.lengths[row] & 15)
    }

    /// How often rows with these values occur together.
    #[inline(always)]
    fn total(&self, values: &[u32], files: usize) -> u32 {
        let counts = values.iter().map(|&value| match files {
            1 => value,
            _ => self.lists.totals[value as usize],
        });
        counts.fold(0, u32::wrapping_add)
    }

    /// Calls `take` with the words of each n-gram, and what follows them in their row, and the values of its rows.
    #[inline(always)]
    fn each(&self, n: usize, mut take: impl FnMut(&[u32; 2 * DEPTH], &[u32])) {
        let mut words = [0; 2 * DEPTH];
        let (mut row, mut at) = (0, 0);
        while row < self.lengths.len() {
            let (start, length, shared) = (row, self.length(row), self.shared(row));
            // All words that a row can have: a copy of fixed size is faster, and the next row overwrites the
            // excess.
            words[shared..][..DEPTH].copy_from_slice(&self.words[at..][..DEPTH]);
            at += length - shared;
            row += 1;
            while row < self.lengths.len() && self.shared(row) >= n {
                at += self.length(row) - self.shared(row);
                row += 1;
            }
            if length >= n {
                take(&words, &self.values[start..row]);
            }
        }
    }

    /// How many n-grams there are.
    fn ngrams(&self, n: usize) -> usize {
        // At most `DEPTH`.
        let n = n as u8;
        let begins = |&&byte: &&u8| byte & 15 < n && byte >> 4 >= n;
        self.lengths.iter().filter(begins).count()
    }

    #[inline(always)]
    fn ngram_counts(&self, n: usize, files: usize) -> NgramCounts {
        let ngrams = self.ngrams(n);
        let mut words = Vec::with_capacity(ngrams * n);
        let mut counts = Vec::with_capacity(ngrams);
        self.each(n, |ngram, values| {
            words.extend_from_slice(&ngram[..n]);
            counts.push(self.total(values, files));
        });
        NgramCounts { words, counts }
    }

    #[inline(always)]
    fn ngram_files(&self, n: usize, order: FileOrder, tally: &mut Tally) -> NgramFiles {
        let ngrams = self.ngrams(n);
        let mut words = Vec::with_capacity(ngrams * n);
        let mut numbers = Vec::with_capacity(ngrams);
        // Lists that are not those of a row.
        let mut own = CountTable::default();
        own.offsets.push(0);
        let shared = match order {
            FileOrder::File => &self.lists.table,
            FileOrder::Count => &self.lists.ranked,
        };
        self.each(n, |ngram, values| {
            words.extend_from_slice(&ngram[..n]);
            match values {
                &[list] => numbers.push(list),
                lists => {
                    let start = own.entries.len();
                    tally.gather(&self.lists, &[], lists, &mut own.entries);
                    if order == FileOrder::Count {
                        rank(&mut own.entries[start..]);
                    }
                    // The lists are fewer than the n-grams.
                    numbers.push((shared.rows() + own.rows()) as u32);
                    own.offsets.push(own.entries.len());
                }
            }
        });
        NgramFiles {
            words,
            files: SharedRows::new(shared.clone(), own, numbers),
        }
    }

    fn count(&self, words: &[u32], files: usize) -> u64 {
        let n = words.len();
        let before = |sample: &Sample| sample.row[..n].cmp(words) == Ordering::Less;
        let sample = self.samples.partition_point(before).saturating_sub(1);
        let Some(start) = self.samples.get(sample) else {
            return 0;
        };
        let (mut row, mut at) = (sample * SAMPLE_ROWS, start.words_start as usize);
        let mut found = start.row;
        // Rows that are too short are smaller than what they begin.
        while row < self.lengths.len() {
            let (length, shared) = (self.length(row), self.shared(row));
            found[shared..length].copy_from_slice(&self.words[at..][..length - shared]);
            at += length - shared;
            match found[..length.min(n)].cmp(words) {
                Ordering::Less => row += 1,
                Ordering::Equal => break,
                Ordering::Greater => return 0,
            }
        }
        let same = self.lengths.get(row + 1..).unwrap_or_default().iter();
        let same = same.take_while(|&&byte| usize::from(byte & 15) >= n);
        let end = (row + 1 + same.count()).min(self.lengths.len());
        u64::from(self.total(&self.values[row.min(end)..end], files))
    }
}

/// A part while its rows are written.
struct PartWriter {
    part: RowRange,
    lists: CountTable,
    /// The row before.
    last: Vec<u32>,
    /// By the list, where it is stored; none of a single file.
    numbers: Option<HashMap<Vec<(u32, u32)>, u32>>,
}

impl PartWriter {
    fn new(first: u32, rows: usize, has_lists: bool) -> PartWriter {
        let mut part = RowRange {
            first,
            ..RowRange::default()
        };
        part.lengths.reserve(rows);
        part.values.reserve(rows);
        PartWriter {
            part,
            lists: CountTable::of_rows(Vec::new()),
            last: Vec::new(),
            numbers: has_lists.then(HashMap::new),
        }
    }

    /// Writes rows, both sorted, in order.
    fn push_all<'a>(
        &mut self,
        rows: impl Iterator<Item = (&'a [u32], impl AsRef<[(u32, u32)]>)>,
        tails: impl Iterator<Item = (&'a Vec<u32>, &'a Vec<(u32, u32)>)>,
    ) {
        let mut tails = tails.peekable();
        for (words, list) in rows {
            while let Some((tail, list)) = tails.next_if(|(tail, _)| &tail[..] < words) {
                self.push(tail, list);
            }
            self.push(words, list.as_ref());
        }
        tails.for_each(|(tail, list)| self.push(tail, list));
    }

    fn push(&mut self, words: &[u32], list: &[(u32, u32)]) {
        let shared = words.iter().zip(&self.last).take_while(|(a, b)| a == b);
        let shared = shared.count();
        let part = &mut self.part;
        if part.lengths.len().is_multiple_of(SAMPLE_ROWS) {
            let mut row = [0; DEPTH];
            row[..words.len()].copy_from_slice(words);
            part.samples.push(Sample {
                row,
                // The words are fewer than the places in the text.
                words_start: part.words.len() as u32,
            });
        }
        // Neither is above `DEPTH`.
        part.lengths.push((words.len() << 4 | shared) as u8);
        part.words.extend_from_slice(&words[shared..]);
        let counts = list.iter().map(|&(_, count)| count);
        let total = counts.fold(0, u32::wrapping_add);
        let value = match &mut self.numbers {
            None => total,
            Some(numbers) => match numbers.get(list) {
                Some(&number) => number,
                None => {
                    let number = part.lists.totals.len() as u32;
                    numbers.insert(list.to_vec(), number);
                    part.lists.totals.push(total);
                    self.lists.entries.extend_from_slice(list);
                    self.lists.offsets.push(self.lists.entries.len());
                    number
                }
            },
        };
        part.values.push(value);
        self.last.clear();
        self.last.extend_from_slice(words);
    }

    fn finish(self) -> RowRange {
        let mut part = self.part;
        part.words.extend([0; DEPTH]);
        part.words.shrink_to_fit();
        let mut ranked = self.lists.clone();
        let offsets = self.lists.offsets.windows(2);
        offsets.for_each(|ends| rank(&mut ranked.entries[ends[0]..ends[1]]));
        part.lists.table = Arc::new(self.lists);
        part.lists.ranked = if ranked == *part.lists.table {
            part.lists.table.clone()
        } else {
            Arc::new(ranked)
        };
        part
    }
}

/// What fewer than [`DEPTH`] words are left of, in every file.
fn tails(view: GrammarView<'_>) -> Tails {
    let mut tails = Tails::new();
    for file in 0..view.files() as u32 {
        let words = last_words(view, file);
        // All of a file of so few words.
        let start = words.len().saturating_sub(DEPTH - 1);
        for at in start..words.len() {
            let files = tails.entry(words[at..].to_vec()).or_default();
            match files.last_mut() {
                Some(last) if last.0 == file => last.1 += 1,
                _ => files.push((file, 1)),
            }
        }
    }
    tails
}

/// The last [`DEPTH`] - 1 words of a file, or all of a shorter file.
fn last_words(view: GrammarView<'_>, file: u32) -> Vec<u32> {
    let mut words = Vec::with_capacity(DEPTH);
    let mut left = vec![view.file_root(file)];
    while let Some(symbols) = left.pop() {
        let Some((&last, rest)) = symbols.split_last() else {
            continue;
        };
        left.push(rest);
        match last.checked_sub(view.terminal_count) {
            Some(rule) => left.push(view.body(rule)),
            None => words.push(last),
        }
        if words.len() == DEPTH - 1 {
            break;
        }
    }
    words.reverse();
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::test_grammars::{self, TestGrammar, in_pools};
    use crate::ngrams::all_ngrams::testing::{words_and_counts, words_and_rows};
    use crate::{WordGrammar, ngram_counts, ngram_file_counts};

    static GO: AtomicBool = AtomicBool::new(false);

    fn table(words: &WordGrammar, memory: usize) -> NgramTable {
        let (view, weights) = (words.view(), words.weights());
        NgramTable::new(view, weights, &WordUses::new(view), memory, &GO).expect("not stopped")
    }

    /// Compares with the answers of the grammar, which have been compared with the expansion.
    fn check(grammar: &TestGrammar) {
        let words = grammar.word_grammar();
        let (view, weights) = (words.view(), words.weights());
        let uses = WordUses::new(view);
        for memory in [1, usize::MAX] {
            let found = table(&words, memory);
            for n in 1..=DEPTH {
                let first_words = view.terminal_count / 3..view.terminal_count / 3 * 2;
                let some = NgramSet { n, first_words };
                let by_grammar = ngram_counts(view, weights, some.clone(), usize::MAX, &GO);
                assert_eq!(
                    words_and_counts(found.ngram_counts(some.clone(), &GO).expect("not stopped")),
                    words_and_counts(by_grammar.expect("not stopped"))
                );
                let order = FileOrder::Count;
                let by_grammar =
                    ngram_file_counts(view, weights, &uses, some.clone(), order, 1, &GO);
                let by_table = found.ngram_file_counts(some, order, &GO);
                assert_eq!(
                    words_and_rows(n, by_table.expect("not stopped")),
                    words_and_rows(n, by_grammar.expect("not stopped"))
                );
                let all = ngram_counts(view, weights, n, usize::MAX, &GO).expect("not stopped");
                let (keys, counts) = words_and_counts(all);
                let read = found.ngram_counts(n, &GO).expect("not stopped");
                assert_eq!(words_and_counts(read), (keys.clone(), counts.clone()));
                for order in [FileOrder::File, FileOrder::Count] {
                    let all = ngram_file_counts(view, weights, &uses, n, order, usize::MAX, &GO);
                    let read = found.ngram_file_counts(n, order, &GO);
                    assert_eq!(
                        words_and_rows(n, read.expect("not stopped")),
                        words_and_rows(n, all.expect("not stopped"))
                    );
                }
                let step = 1 + counts.len() / 300;
                for (key, &count) in keys.chunks(n).zip(&counts).step_by(step) {
                    assert_eq!(found.count(key), u64::from(count));
                    for change in 0..n {
                        let mut other = key.to_vec();
                        other[change] = (other[change] + 1) % (view.terminal_count + 1);
                        let place = keys.chunks(n).position(|key| key == other);
                        let expected = place.map_or(0, |place| u64::from(counts[place]));
                        assert_eq!(found.count(&other), expected);
                    }
                }
            }
            assert_eq!(found.count(&[]), 0);
            assert_eq!(found.count(&[0; DEPTH + 1]), 0);
            assert_eq!(found.count(&[view.terminal_count]), 0);
        }
    }

    #[test]
    fn tables_of_small_grammars_answer_as_the_grammar_does() {
        (test_grammars::all_small().step_by(7)).for_each(|grammar| check(&grammar));
    }

    #[test]
    fn tables_of_random_and_extreme_grammars_answer_as_the_grammar_does() {
        test_grammars::random_many(12).for_each(|grammar| check(&grammar));
        check(&test_grammars::deep_chain(200));
        check(&test_grammars::long_body(2_000));
        check(&test_grammars::runs(9));
        check(&test_grammars::many_files(40));
        check(&test_grammars::fibonacci(15));
        check(&test_grammars::thue_morse(9));
        check(&test_grammars::repeated_text(3));
    }

    #[test]
    fn tables_are_the_same_for_1_2_and_16_threads() {
        let words = test_grammars::repeated_text(40).word_grammar();
        in_pools(|| table(&words, 1 << 14));
        let found = table(&words, usize::MAX);
        in_pools(|| words_and_counts(found.ngram_counts(3, &GO).expect("not stopped")));
    }

    #[test]
    fn a_set_flag_stops() {
        let words = test_grammars::random(5).word_grammar();
        let stop = AtomicBool::new(true);
        let (view, weights) = (words.view(), words.weights());
        let found = NgramTable::new(view, weights, &WordUses::new(view), 1 << 20, &stop);
        assert_eq!(found, Err(Stopped));
        let found = table(&words, usize::MAX);
        assert_eq!(found.ngram_counts(2, &stop), Err(Stopped));
        let files = found.ngram_file_counts(2, FileOrder::File, &stop);
        assert!(files.is_err());
    }
}
