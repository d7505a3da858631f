//! All n-grams with their counts, in the whole or file by file.
//!
//! In   a grammar over words, n from 1 to [`NGRAM_WORDS_MAX`], which words come first; memory for windows
//! Out  every distinct n-gram, ordered by its words, with its count ([`NgramCounts`]), or with a count for each
//!      file that it occurs in ([`NgramFiles`])
//! Work O(body and root symbols * n) windows, sorted by their words
//!
//! Each window is found once, in the body or root where it crosses from one
//! symbol to the next. A window of a body occurs as often as its rule; a window
//! of a root once. Nothing is hashed: a window is one integer, its words above
//! and below them a value, a weight or whose files they are.
//!
//! Windows go into buckets by their first word, so that a bucket fits into the
//! cache. When all windows would take more memory than they may, the buckets are
//! processed in several rounds, each of which passes over the grammar again.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::file_counts::{RuleLists, Tally, rank, rule_lists};
use crate::grammar_view::AHEAD_SYMBOLS;
use crate::key_sort::{Bucketed, Buckets, Scratch, sort_keys};
use crate::offsets::split_mut;
use crate::stop::{Stopped, check};
use crate::window_keys::{Wide, WindowKey};
use crate::windows::{NGRAM_WORDS_MAX, Shape, Windows};
use crate::{CountTable, FileCounting, GrammarView, SharedRows, WordUses, word_file_counts};

/// Windows of a bucket, about.
const BUCKET_WINDOWS: usize = 1 << 13;
const BUCKETS_MAX: usize = 1 << 12;

/// The words of a bucket have all but so many of their highest bits in common, which keys then lack.
const CUT_BITS: u32 = 10;

/// Weights up to 2 to the power of this are one item.
const WEIGHT_BITS: u32 = 12;

/// Root or body symbols that one task looks at, at least.
const TASK_SYMBOLS_MIN: usize = 1 << 13;

/// A stop is noticed after so many symbols.
const STOP_SYMBOLS: usize = 1 << 16;

/// The bucket of words that no n-gram is to begin with; there are fewer.
const NO_BUCKET: u16 = u16::MAX;

/// The n-grams of so many words that begin with some words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NgramSet {
    /// From 1 to [`NGRAM_WORDS_MAX`].
    pub n: usize,
    /// The first words: those of the grammar in this range.
    pub first_words: Range<u32>,
}

impl NgramSet {
    /// Whether they may begin with any word.
    pub fn is_all(&self) -> bool {
        self.first_words == (0..u32::MAX)
    }

    /// The first words of a grammar with so many.
    pub(crate) fn first_words_of(&self, word_count: u32) -> Range<u32> {
        let start = self.first_words.start.min(word_count);
        start..self.first_words.end.clamp(start, word_count)
    }

    /// The rows of sorted n-grams that belong to it. `words` is `[n-grams * n]`: the words of each.
    pub fn rows_of(&self, words: &[u32]) -> Range<usize> {
        let rows = words.len() / self.n;
        let [start, end] = [self.first_words.start, self.first_words.end].map(|first| {
            let (mut below, mut end) = (0, rows);
            while below < end {
                let middle = below.midpoint(end);
                match words[middle * self.n] < first {
                    true => below = middle + 1,
                    false => end = middle,
                }
            }
            below
        });
        start..end
    }
}

/// All n-grams of so many words.
impl From<usize> for NgramSet {
    fn from(n: usize) -> NgramSet {
        NgramSet {
            n,
            first_words: 0..u32::MAX,
        }
    }
}

/// Distinct n-grams with counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NgramCounts {
    /// `[n-grams * n]`: the words of each n-gram; ascending.
    pub words: Vec<u32>,
    /// `[n-grams]`.
    pub counts: Vec<u32>,
}

impl NgramCounts {
    /// Those of a set.
    #[must_use]
    pub fn of_set(mut self, set: &NgramSet) -> NgramCounts {
        let rows = set.rows_of(&self.words);
        if rows != (0..self.counts.len()) {
            self.words = self.words[rows.start * set.n..rows.end * set.n].to_vec();
            self.counts = self.counts[rows].to_vec();
        }
        self
    }

    /// Likewise where there is only one file.
    pub(crate) fn of_one_file(self) -> NgramFiles {
        NgramFiles {
            words: self.words,
            files: SharedRows::from(CountTable {
                offsets: (0..=self.counts.len()).collect(),
                entries: self.counts.into_iter().map(|count| (0, count)).collect(),
            }),
        }
    }
}

/// Distinct n-grams with the files that they occur in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NgramFiles {
    /// `[n-grams * n]`: the words of each n-gram; ascending.
    pub words: Vec<u32>,
    /// A row for each n-gram: files and counts.
    pub files: SharedRows,
}

impl NgramFiles {
    /// Those of a set.
    #[must_use]
    pub fn of_set(mut self, set: &NgramSet) -> NgramFiles {
        let rows = set.rows_of(&self.words);
        if rows != (0..self.files.rows()) {
            self.words = self.words[rows.start * set.n..rows.end * set.n].to_vec();
            let rows = rows.map(|row| self.files.row(row).to_vec());
            self.files = CountTable::of_rows(rows.collect()).into();
        }
        self
    }
}

/// How the files of an n-gram are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOrder {
    /// By file.
    File,
    /// By count, the largest first; equal counts by file: a ranked inverted index.
    Count,
}

/// Counts n-grams of the files. The result comes in parts, in order.
///
/// `weights` tells how often each symbol occurs. `memory` bounds the bytes for
/// windows: 8 each as long as the words of an n-gram fit into about 62 bits,
/// twice that up to 126, else four times. What one word begins must fit,
/// whatever the bound. The result is not counted.
///
/// # Panics
///
/// When `n` is 0 or above [`NGRAM_WORDS_MAX`].
pub fn ngram_counts(
    view: GrammarView<'_>,
    weights: &[u32],
    set: impl Into<NgramSet>,
    memory: usize,
    stop: &AtomicBool,
) -> Result<Vec<NgramCounts>, Stopped> {
    let set = set.into();
    assert!((1..=NGRAM_WORDS_MAX).contains(&set.n));
    if set.n == 1 {
        let words = set.first_words_of(view.terminal_count);
        let found = words.map(|word| (word, weights[word as usize]));
        let (words, counts) = found.filter(|&(_, weight)| weight > 0).unzip();
        return Ok(vec![NgramCounts { words, counts }]);
    }
    ngram_count_parts(view, weights, &set, memory, stop, |_, part| part)
}

/// What `make` makes of n-grams of two words or more: of a part with the range of words that its n-grams begin with.
/// Ranges follow each other and are together all first words.
pub(crate) fn ngram_count_parts<P: Send>(
    view: GrammarView<'_>,
    weights: &[u32],
    set: &NgramSet,
    memory: usize,
    stop: &AtomicBool,
    make: impl Fn(Range<u32>, NgramCounts) -> P + Sync + Send,
) -> Result<Vec<P>, Stopped> {
    let search = Search {
        view,
        weights,
        shape: Shape::new(view.terminal_count, set.n),
        first_words: FirstWords::of(set, view),
        value_bits: WEIGHT_BITS,
        memory,
        stop,
    };
    match search.shape {
        shape if shape.fits::<u64>(WEIGHT_BITS) => count::<u64, P>(search, make),
        shape if shape.fits::<u128>(WEIGHT_BITS) => count::<u128, P>(search, make),
        _ => count::<Wide, P>(search, make),
    }
}

/// Counts n-grams in each file. The result comes in parts, in order.
///
/// Memory as [`ngram_counts`], and 8 bytes for each rule and file that it occurs in.
///
/// # Panics
///
/// When `n` is 0 or above [`NGRAM_WORDS_MAX`].
pub fn ngram_file_counts(
    view: GrammarView<'_>,
    weights: &[u32],
    uses: &WordUses,
    set: impl Into<NgramSet>,
    order: FileOrder,
    memory: usize,
    stop: &AtomicBool,
) -> Result<Vec<NgramFiles>, Stopped> {
    let set = set.into();
    assert!((1..=NGRAM_WORDS_MAX).contains(&set.n));
    if set.n == 1 {
        let words = &weights[..view.terminal_count as usize];
        let mut files = word_file_counts(view, FileCounting::of(view, words), stop)?;
        let used = |&word: &u32| !files.row(word as usize).is_empty();
        let words: Vec<u32> = (0..view.terminal_count).filter(used).collect();
        files.offsets.dedup();
        if order == FileOrder::Count {
            let rows: Vec<&mut [(u32, u32)]> = split_mut(&mut files.entries, &files.offsets);
            rows.into_par_iter().for_each(rank);
        }
        let all = NgramFiles {
            words,
            files: files.into(),
        };
        return Ok(vec![all.of_set(&set)]);
    }
    if view.files() == 1 {
        let counted = ngram_counts(view, weights, set, memory, stop)?;
        let counted = counted.into_par_iter();
        return Ok(counted.map(NgramCounts::of_one_file).collect());
    }
    ngram_file_parts(view, weights, uses, &set, order, memory, stop, |_, part| {
        part
    })
}

/// What `make` makes of n-grams of two words or more, as [`ngram_count_parts`].
#[allow(clippy::too_many_arguments)] // What there is to know of a query for n-grams.
pub(crate) fn ngram_file_parts<P: Send>(
    view: GrammarView<'_>,
    weights: &[u32],
    uses: &WordUses,
    set: &NgramSet,
    order: FileOrder,
    memory: usize,
    stop: &AtomicBool,
    make: impl Fn(Range<u32>, NgramFiles) -> P + Sync + Send,
) -> Result<Vec<P>, Stopped> {
    let mut lists = rule_lists(view, uses, stop)?;
    if order == FileOrder::Count {
        lists.rank_all();
    }
    let holders = view.files() + view.rules();
    let value_bits = usize::BITS - holders.saturating_sub(1).leading_zeros();
    let search = Search {
        view,
        weights,
        shape: Shape::new(view.terminal_count, set.n),
        first_words: FirstWords::of(set, view),
        value_bits,
        memory,
        stop,
    };
    match search.shape {
        shape if shape.fits::<u64>(value_bits) => {
            count_files::<u64, P>(search, &lists, order, make)
        }
        shape if shape.fits::<u128>(value_bits) => {
            count_files::<u128, P>(search, &lists, order, make)
        }
        _ => count_files::<Wide, P>(search, &lists, order, make),
    }
}

impl Shape {
    /// Whether windows with values of so many bits are one integer.
    fn fits<K: WindowKey>(self, value_bits: u32) -> bool {
        self.first_bits::<K>(value_bits) + CUT_BITS.min(self.bits - 1) >= self.bits
    }

    /// The bits of a first word that there is room for beside the other words and a value.
    fn first_bits<K: WindowKey>(self, value_bits: u32) -> u32 {
        let taken = (self.n - 1) * self.bits + value_bits;
        K::BITS.saturating_sub(taken).min(self.bits)
    }
}

/// The words that windows begin with.
#[derive(Clone, Copy)]
struct FirstWords {
    start: u32,
    end: u32,
}

impl FirstWords {
    fn of(set: &NgramSet, view: GrammarView<'_>) -> FirstWords {
        let Range { start, end } = set.first_words_of(view.terminal_count);
        FirstWords { start, end }
    }
}

/// What is searched for, and in what.
#[derive(Clone, Copy)]
struct Search<'a> {
    view: GrammarView<'a>,
    weights: &'a [u32],
    shape: Shape,
    first_words: FirstWords,
    /// Bits of the value of an item.
    value_bits: u32,
    /// Bytes for windows.
    memory: usize,
    stop: &'a AtomicBool,
}

impl Search<'_> {
    /// Finds and sorts the windows of every bucket and lets `merge` make a part of them, from the items of the bucket and
    /// the words that they begin with. `of_file` and `of_rule` say which value a window has, `of_rule` also how many items with the
    /// largest value it has in addition; none if the rule is not used.
    fn parts<K: WindowKey, S, P: Send>(
        self,
        of_file: impl Fn(u32) -> u32 + Sync,
        of_rule: impl Fn(u32) -> Option<(u32, u32)> + Sync,
        state: impl Fn() -> S + Sync + Send,
        merge: impl Fn(&mut S, &[K], Range<u32>) -> P + Sync + Send,
    ) -> Result<Vec<P>, Stopped> {
        let windows = Windows::<K>::new(self.view, self.shape);
        let plan = BucketPlan::new::<K>(self);
        let mut parts = Vec::with_capacity(plan.first_words.len());
        for round in &plan.rounds {
            let finder = Finder {
                search: self,
                windows: &windows,
                plan: &plan,
                round: round.clone(),
            };
            let mut found = finder.roots(&of_file)?;
            found.extend(finder.bodies(&of_rule)?);
            let merge = |(items, scratch, state): &mut (Vec<K>, Scratch<K>, S), bucket: usize| {
                check(self.stop)?;
                items.clear();
                for task in &found {
                    task.collect(bucket - round.start, items);
                }
                sort_keys(items, self.value_bits, scratch);
                Ok(merge(state, items, plan.words(bucket)))
            };
            let merged = (round.clone().into_par_iter())
                .map_init(|| (Vec::new(), Scratch::default(), state()), merge);
            parts.extend(merged.collect::<Result<Vec<_>, Stopped>>()?);
        }
        Ok(parts)
    }

    /// The value of an item.
    #[inline(always)]
    fn value<K: WindowKey>(self, item: K) -> u32 {
        // Masked to as many bits as a value has.
        (item.low() & ((1 << self.value_bits) - 1)) as u32
    }

    /// How many different n-grams sorted items have.
    fn distinct<K: WindowKey>(self, items: &[K]) -> usize {
        let key = |item: &K| item.shr(self.value_bits);
        let next = items.iter().skip(1);
        let changes = items
            .iter()
            .zip(next)
            .map(|(a, b)| usize::from(key(a) != key(b)));
        changes.sum::<usize>() + usize::from(!items.is_empty())
    }

    /// Writes the words of an item of the bucket that begins at word `first`.
    #[inline(always)]
    fn unpack<K: WindowKey>(self, item: K, first: u32, words: &mut [u32]) {
        let Shape { n, bits } = self.shape;
        let mask = u32::MAX >> (u32::BITS - bits);
        let key = item.shr(self.value_bits);
        for (word, index) in words.iter_mut().zip((0..n).rev()) {
            // The low bits are enough.
            *word = key.shr(index * bits).low() as u32 & mask;
        }
        // A bucket has no two words that differ in higher bits.
        let cut = self.shape.first_bits::<K>(self.value_bits);
        let low = words[0] & ((1u64 << cut) - 1) as u32;
        words[0] = (u64::from(first) >> cut << cut) as u32 | low;
    }
}

/// Which bucket takes the windows that begin with a word.
struct BucketPlan {
    /// By word; ascending, and [`NO_BUCKET`] of others than first words.
    bucket_of: Vec<u16>,
    /// By bucket.
    first_words: Vec<u32>,
    /// Behind the last one's words.
    end: u32,
    /// Buckets that are processed together.
    rounds: Vec<Range<usize>>,
}

impl BucketPlan {
    /// Cuts the first words into buckets of about equally many windows, and the buckets into rounds.
    fn new<K: WindowKey>(search: Search<'_>) -> BucketPlan {
        let (view, shape) = (search.view, search.shape);
        let FirstWords { start, end } = search.first_words;
        let weights = &search.weights[start as usize..end as usize];
        let total: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
        // What can be found is bounded by the words, and by the symbols it crosses to.
        let symbols = (view.symbols.len() + view.root.len()) as u64;
        let windows = total.min(symbols * u64::from(shape.n - 1)) as usize;
        let buckets = (windows / BUCKET_WINDOWS).clamp(1, BUCKETS_MAX - 1) as u64;
        let bucket_weight = total / buckets + 1;
        let cut = shape.first_bits::<K>(search.value_bits);
        let mut bucket_of = vec![NO_BUCKET; view.terminal_count as usize];
        let (mut first_words, mut bucket_weights) = (vec![start], vec![0u64]);
        for (word, &weight) in (start..).zip(weights) {
            let weight = u64::from(weight);
            let last = bucket_weights.len() - 1;
            let is_cut = u64::from(word) >> cut != u64::from(first_words[last]) >> cut;
            // A heavy word has a bucket of its own.
            let is_full = bucket_weights[last] > 0 && bucket_weights[last] + weight > bucket_weight;
            if is_cut || is_full {
                bucket_weights.push(0);
                first_words.push(word);
            }
            let last = bucket_weights.len() - 1;
            bucket_weights[last] += weight;
            // Two light neighbours together weigh more than `bucket_weight`, and the words of a segment
            // have too few bits for many cuts.
            bucket_of[word as usize] = last as u16;
        }
        let mut rounds = Vec::new();
        let (mut start, mut weight) = (0, 0u64);
        for (bucket, &more) in bucket_weights.iter().enumerate() {
            let bytes = (weight + more).saturating_mul(size_of::<K>() as u64);
            if bytes > search.memory as u64 && bucket > start {
                rounds.push(start..bucket);
                (start, weight) = (bucket, 0);
            }
            weight += more;
        }
        rounds.push(start..bucket_weights.len());
        BucketPlan {
            bucket_of,
            first_words,
            end,
            rounds,
        }
    }

    /// The words of a bucket.
    fn words(&self, bucket: usize) -> Range<u32> {
        let end = self.first_words.get(bucket + 1).copied();
        self.first_words[bucket]..end.unwrap_or(self.end)
    }
}

/// Takes the windows of one task that fall into the buckets of a round.
struct Sink<'a, K> {
    bucket_of: &'a [u16],
    /// How far the first word of a key is shifted.
    shift: u32,
    value_bits: u32,
    round: Range<usize>,
    buckets: Buckets<K>,
}

impl<K: WindowKey> Sink<'_, K> {
    #[inline(always)]
    fn push(&mut self, key: K, value: u32) {
        let first = key.shr(self.shift).low() as usize;
        let bucket = usize::from(self.bucket_of[first]).wrapping_sub(self.round.start);
        if bucket < self.round.len() {
            // The highest bits of the first word may go.
            let item = key.shl(self.value_bits).or(K::from_word(value));
            self.buckets.push(bucket, item);
        }
    }
}

/// Finds the windows that fall into the buckets of a round.
struct Finder<'a, K> {
    search: Search<'a>,
    windows: &'a Windows<'a, K>,
    plan: &'a BucketPlan,
    round: Range<usize>,
}

impl<K: WindowKey> Finder<'_, K> {
    /// The windows of all roots.
    fn roots(&self, of_file: impl Fn(u32) -> u32 + Sync) -> Result<Vec<Bucketed<K>>, Stopped> {
        let view = self.search.view;
        self.each_task(view.root.len(), |range, sink| {
            let mut file = (view.root_offsets).partition_point(|&o| o as usize <= range.start) - 1;
            let mut at = range.start;
            while at < range.end {
                // Files are u32.
                let positions = view.root_range(file as u32);
                let end = positions.end.min(range.end);
                let inside = at - positions.start..end - positions.start;
                let value = of_file(file as u32);
                let root = &view.root[positions];
                (self.windows).each(root, inside, |key| sink.push(key, value));
                at = end;
                file += 1;
            }
        })
    }

    /// The windows of all bodies in use.
    fn bodies(
        &self,
        of_rule: impl Fn(u32) -> Option<(u32, u32)> + Sync,
    ) -> Result<Vec<Bucketed<K>>, Stopped> {
        // Masked to less than 33 bits, of which a value has at most 32.
        let most = ((1u64 << self.search.value_bits) - 1) as u32;
        self.each_task(self.search.view.rules(), |rules, sink| {
            (self.windows).each_in_bodies(rules, |rule, key| {
                if let Some((value, more)) = of_rule(rule) {
                    for _ in 0..more {
                        sink.push(key, most);
                    }
                    sink.push(key, value);
                }
            });
        })
    }

    /// Lets `find` push the windows of `0..items`, root symbols or rules, a range at a time.
    fn each_task(
        &self,
        items: usize,
        find: impl Fn(Range<usize>, &mut Sink<'_, K>) + Sync,
    ) -> Result<Vec<Bucketed<K>>, Stopped> {
        let Shape { n, bits } = self.windows.shape;
        // More than threads, for they take unequally long.
        let tasks = (items / TASK_SYMBOLS_MIN).clamp(1, rayon::current_num_threads() * 4);
        let part = items.div_ceil(tasks).max(1);
        let task = |task: usize| {
            let range = (task * part).min(items)..((task + 1) * part).min(items);
            // In a single round most symbols bring a window or two.
            let room = match self.plan.rounds.len() {
                1 => range.len() * 2,
                _ => 0,
            };
            let mut sink = Sink {
                bucket_of: &self.plan.bucket_of,
                shift: (n - 1) * bits,
                value_bits: self.search.value_bits,
                round: self.round.clone(),
                buckets: Buckets::new(self.round.len(), room),
            };
            for start in range.clone().step_by(STOP_SYMBOLS) {
                check(self.search.stop)?;
                find(start..(start + STOP_SYMBOLS).min(range.end), &mut sink);
            }
            Ok(sink.buckets.finish())
        };
        (0..tasks).into_par_iter().map(task).collect()
    }
}

fn count<K: WindowKey, P: Send>(
    search: Search<'_>,
    make: impl Fn(Range<u32>, NgramCounts) -> P + Sync + Send,
) -> Result<Vec<P>, Stopped> {
    let rules = &search.weights[search.view.terminal_count as usize..];
    let most = (1 << search.value_bits) - 1;
    let of_rule = |rule: u32| {
        let rest = rules[rule as usize].checked_sub(1)?;
        Some((rest & most, rest >> search.value_bits))
    };
    let merge = |_: &mut (), items: &[K], words: Range<u32>| {
        let part = match search.shape.n {
            2 => merge_counts(2, search, items, words.start),
            3 => merge_counts(3, search, items, words.start),
            n => merge_counts(n, search, items, words.start),
        };
        make(words, part)
    };
    search.parts(|_| 0, of_rule, || (), merge)
}

/// Counts of sorted windows, each of which occurs as often as its value and once more.
#[inline(always)]
fn merge_counts<K: WindowKey>(n: u32, search: Search<'_>, items: &[K], first: u32) -> NgramCounts {
    let n = n as usize;
    let distinct = search.distinct(items);
    let (mut words, mut counts) = (vec![0; distinct * n], vec![0u32; distinct]);
    let mut last = items
        .first()
        .copied()
        .unwrap_or_default()
        .shr(search.value_bits);
    let mut row = 0;
    // How long runs are is hard to predict: all words are written, to where they are.
    for &item in items {
        let key = item.shr(search.value_bits);
        row += usize::from(key != last);
        last = key;
        search.unpack(item, first, &mut words[row * n..][..n]);
        counts[row] = counts[row].wrapping_add(search.value(item) + 1);
    }
    NgramCounts { words, counts }
}

fn count_files<K: WindowKey, P: Send>(
    search: Search<'_>,
    lists: &RuleLists,
    order: FileOrder,
    make: impl Fn(Range<u32>, NgramFiles) -> P + Sync + Send,
) -> Result<Vec<P>, Stopped> {
    // Files are u32, and so are files and rules together: there are no more of them than words and symbols.
    let files = search.view.files() as u32;
    let rules = &search.weights[search.view.terminal_count as usize..];
    let of_rule = |rule: u32| (rules[rule as usize] > 0).then_some((files + rule, 0));
    let state = || FileMerger {
        search,
        lists,
        order,
        tally: Tally::new(search.view.files()),
        files: Vec::new(),
        rules: Vec::new(),
    };
    let merge = |state: &mut FileMerger<'_>, items: &[K], words: Range<u32>| {
        let part = match search.shape.n {
            2 => state.merge(2, items, words.start),
            3 => state.merge(3, items, words.start),
            n => state.merge(n, items, words.start),
        };
        make(words, part)
    };
    search.parts(|file| file, of_rule, state, merge)
}

/// Adds up the files of windows.
struct FileMerger<'a> {
    search: Search<'a>,
    lists: &'a RuleLists,
    order: FileOrder,
    tally: Tally,
    files: Vec<u32>,
    rules: Vec<u32>,
}

impl FileMerger<'_> {
    /// The files of sorted windows, whose values are a file or, above the files, a rule, in order.
    #[inline(always)]
    fn merge<K: WindowKey>(&mut self, n: u32, items: &[K], first: u32) -> NgramFiles {
        let (search, n) = (self.search, n as usize);
        let file_count = search.view.files() as u32;
        let distinct = search.distinct(items);
        let mut words = vec![0; distinct * n];
        let mut offsets = Vec::with_capacity(distinct + 1);
        offsets.push(0);
        let mut entries: Vec<(u32, u32)> = Vec::with_capacity(items.len());
        let key = |item: K| item.shr(search.value_bits);
        let (mut at, mut looked) = (0, 0);
        for words in words.chunks_exact_mut(n) {
            let (from, this) = (at, key(items[at]));
            while at < items.len() && key(items[at]) == this {
                at += 1;
            }
            if at > looked {
                let ahead = items.len().min(at + AHEAD_SYMBOLS);
                let values = items[looked..ahead].iter().map(|&item| search.value(item));
                let rules = values.filter_map(|value| value.checked_sub(file_count));
                self.lists.look_ahead(rules);
                looked = ahead;
            }
            search.unpack(items[from], first, words);
            self.gather(&items[from..at], &mut entries);
            offsets.push(entries.len());
        }
        NgramFiles {
            words,
            files: CountTable { offsets, entries }.into(),
        }
    }

    /// Appends the files of equal windows.
    #[inline(always)]
    fn gather<K: WindowKey>(&mut self, items: &[K], entries: &mut Vec<(u32, u32)>) {
        let (search, start) = (self.search, entries.len());
        // Files are u32.
        let file_count = search.view.files() as u32;
        let last = search.value(items[items.len() - 1]);
        if last < file_count {
            // Files come in order.
            for value in items.iter().map(|&item| search.value(item)) {
                match entries[start..].last_mut() {
                    Some(last) if last.0 == value => last.1 += 1,
                    _ => entries.push((value, 1)),
                }
            }
        } else {
            self.files.clear();
            self.rules.clear();
            for value in items.iter().map(|&item| search.value(item)) {
                match value.checked_sub(file_count) {
                    None => self.files.push(value),
                    Some(rule) => self.rules.push(rule),
                }
            }
            let (files, rules) = (&self.files, &self.rules);
            self.tally.gather(self.lists, files, rules, entries);
            if items.len() == 1 {
                // The list of a single rule has the order that is wanted.
                return;
            }
        }
        if self.order == FileOrder::Count {
            rank(&mut entries[start..]);
        }
    }
}

/// Parts joined, for the tests of whatever gives n-grams.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// All n-grams of parts: their words and their counts.
    pub(crate) fn words_and_counts(parts: Vec<NgramCounts>) -> (Vec<u32>, Vec<u32>) {
        let parts = parts.into_iter().map(|part| (part.words, part.counts));
        let (words, counts): (Vec<_>, Vec<_>) = parts.unzip();
        (words.concat(), counts.concat())
    }

    /// The words of an n-gram, and its files with counts.
    pub(crate) type Row = (Vec<u32>, Vec<(u32, u32)>);

    /// All n-grams of parts.
    pub(crate) fn words_and_rows(n: usize, parts: Vec<NgramFiles>) -> Vec<Row> {
        let rows = parts.iter().flat_map(|part| {
            let words = part.words.chunks(n).enumerate();
            words.map(|(row, words)| (words.to_vec(), part.files.row(row).to_vec()))
        });
        rows.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WordGrammar;
    use crate::test_grammars::{self, TestGrammar, in_pools};
    use std::collections::BTreeMap;

    static GO: AtomicBool = AtomicBool::new(false);

    /// What the tasks need of a grammar.
    struct Source {
        files: Vec<Vec<u32>>,
        words: WordGrammar,
        uses: WordUses,
    }

    fn joined(parts: Vec<NgramCounts>) -> NgramCounts {
        let (words, counts): (Vec<_>, Vec<_>) = parts
            .into_iter()
            .map(|part| (part.words, part.counts))
            .unzip();
        let (words, counts) = (words.concat(), counts.concat());
        NgramCounts { words, counts }
    }

    fn joined_files(parts: Vec<NgramFiles>) -> NgramFiles {
        let words = parts
            .iter()
            .flat_map(|part| part.words.iter().copied())
            .collect();
        let (mut offsets, mut entries) = (vec![0], Vec::new());
        for CountTable {
            offsets: ends,
            entries: more,
        } in parts.into_iter().map(|part| part.files.into_table())
        {
            offsets.extend(ends[1..].iter().map(|end| entries.len() + end));
            entries.extend(more);
        }
        let files = CountTable { offsets, entries }.into();
        NgramFiles { words, files }
    }

    impl Source {
        fn new(grammar: &TestGrammar) -> Source {
            let words = grammar.word_grammar();
            Source {
                files: grammar.all_file_words(),
                uses: WordUses::new(words.view()),
                words,
            }
        }

        fn counts(&self, n: usize, memory: usize) -> NgramCounts {
            let (view, weights) = (self.words.view(), self.words.weights());
            joined(ngram_counts(view, weights, n, memory, &GO).expect("not stopped"))
        }

        fn file_counts(&self, n: usize, order: FileOrder, memory: usize) -> NgramFiles {
            let (view, weights) = (self.words.view(), self.words.weights());
            let parts = ngram_file_counts(view, weights, &self.uses, n, order, memory, &GO);
            joined_files(parts.expect("not stopped"))
        }

        fn check(&self, n: usize) {
            let mut naive: BTreeMap<&[u32], BTreeMap<u32, u32>> = BTreeMap::new();
            for (file, words) in (0..).zip(&self.files) {
                for window in words.windows(n) {
                    *naive.entry(window).or_default().entry(file).or_insert(0) += 1;
                }
            }
            for memory in [1, usize::MAX] {
                let found = self.counts(n, memory);
                assert!(found.words.chunks(n).eq(naive.keys().copied()));
                let counts = naive.values().map(|files| files.values().sum::<u32>());
                assert!(found.counts.into_iter().eq(counts));

                for order in [FileOrder::File, FileOrder::Count] {
                    let found = self.file_counts(n, order, memory);
                    assert!(found.words.chunks(n).eq(naive.keys().copied()));
                    assert_eq!(found.files.rows(), naive.len());
                    for (row, files) in naive.values().enumerate() {
                        let mut files: Vec<_> = files.iter().map(|(&f, &c)| (f, c)).collect();
                        if order == FileOrder::Count {
                            files.sort_by_key(|&(file, count)| (std::cmp::Reverse(count), file));
                        }
                        assert_eq!(found.files.row(row), files);
                    }
                }
            }
        }
    }

    #[test]
    fn ngrams_of_small_grammars_equal_those_of_the_expansion() {
        for grammar in test_grammars::all_small().step_by(3) {
            let source = Source::new(&grammar);
            (2..=3).for_each(|n| source.check(n));
        }
    }

    #[test]
    fn ngrams_of_random_and_extreme_grammars_equal_those_of_the_expansion() {
        let random = test_grammars::random_many(12).collect::<Vec<_>>();
        let extreme = [
            test_grammars::deep_chain(200),
            test_grammars::long_body(2_000),
            test_grammars::runs(9),
            test_grammars::many_files(40),
            test_grammars::fibonacci(15),
            test_grammars::thue_morse(9),
        ];
        for grammar in random.iter().chain(&extreme) {
            let source = Source::new(grammar);
            (1..=NGRAM_WORDS_MAX).for_each(|n| source.check(n));
        }
    }

    #[test]
    fn ngrams_that_begin_with_some_words_are_those_of_all() {
        for grammar in test_grammars::random_many(6).chain([test_grammars::many_files(9)]) {
            let source = Source::new(&grammar);
            let (view, weights) = (source.words.view(), source.words.weights());
            let words = view.terminal_count;
            for n in [1, 2, 3, 8] {
                let all = source.counts(n, usize::MAX);
                let all_files = source.file_counts(n, FileOrder::Count, usize::MAX);
                for (start, end) in [
                    (0, 0),
                    (0, 1),
                    (1, words / 2),
                    (words / 2, words),
                    (words - 1, u32::MAX),
                    (words, words + 3),
                ] {
                    let first_words = start..end.max(start);
                    let set = NgramSet { n, first_words };
                    for memory in [1, usize::MAX] {
                        let found = ngram_counts(view, weights, set.clone(), memory, &GO);
                        let found = joined(found.expect("not stopped"));
                        assert_eq!(found, all.clone().of_set(&set));
                        let found = ngram_file_counts(
                            view,
                            weights,
                            &source.uses,
                            set.clone(),
                            FileOrder::Count,
                            memory,
                            &GO,
                        );
                        let found = joined_files(found.expect("not stopped"));
                        assert_eq!(found, all_files.clone().of_set(&set));
                        let begins = |words: &[u32]| set.first_words.contains(&words[0]);
                        assert!(found.words.chunks(n).all(begins));
                        let wanted = all.words.chunks(n).filter(|words| begins(words));
                        assert!(found.words.chunks(n).eq(wanted));
                    }
                }
            }
        }
    }

    #[test]
    fn ngrams_that_need_wide_keys_or_whose_first_words_are_cut_are_counted() {
        let grammar = test_grammars::random(3);
        let source = Source::new(&grammar);
        let view = source.words.view();
        // The second leaves a first word 3 bits in 64, the last values 1.
        for (n, bits, value_bits) in [
            (2, 32, 12),
            (3, 20, 21),
            (3, 30, 4),
            (5, 32, 7),
            (8, 31, 8),
            (4, 14, 1),
        ] {
            let search = Search {
                view,
                weights: source.words.weights(),
                shape: Shape { n, bits },
                first_words: FirstWords::of(&NgramSet::from(n as usize), view),
                value_bits,
                memory: usize::MAX,
                stop: &GO,
            };
            let expected = source.counts(n as usize, usize::MAX);
            if (n - 1) * bits + value_bits < 64 {
                let found = count::<u64, _>(search, |_, part| part).expect("not stopped");
                assert_eq!(joined(found), expected);
            }
            if (n - 1) * bits + value_bits < 128 {
                let found = count::<u128, _>(search, |_, part| part).expect("not stopped");
                assert_eq!(joined(found), expected);
            }
            let found = count::<Wide, _>(search, |_, part| part).expect("not stopped");
            assert_eq!(joined(found), expected);
        }
    }

    #[test]
    fn ngrams_are_the_same_for_1_2_and_16_threads() {
        let source = Source::new(&test_grammars::repeated_text(40));
        for memory in [1 << 16, usize::MAX] {
            in_pools(|| source.counts(3, memory));
            in_pools(|| source.file_counts(3, FileOrder::Count, memory));
        }
    }

    #[test]
    fn a_set_flag_stops() {
        let source = Source::new(&test_grammars::random(5));
        let (view, weights) = (source.words.view(), source.words.weights());
        let stop = AtomicBool::new(true);
        assert_eq!(ngram_counts(view, weights, 2, 1 << 20, &stop), Err(Stopped));
    }
}
