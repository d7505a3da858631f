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
//! Windows go into partitions by their first word, and those of a partition into
//! buckets, so that a bucket fits into the cache. The windows of a partition are
//! freed when its n-grams are made. When all windows would take more memory than
//! they may, partitions are processed in several rounds, each of which passes
//! over the grammar again.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::count::file_counts::{RuleFiles, Tally, rank};
use crate::grammar::grammar_view::AHEAD_SYMBOLS;
use crate::ngrams::partitions::{ItemChunk, ItemLayout, Partitions};
use crate::ngrams::windows::{NGRAM_WORDS_MAX, Shape, Windows};
use crate::numbers::offsets::{offsets_of, ranges_up_to, split_mut};
use crate::sort::key_sort::{Scratch, sort_keys};
use crate::sort::window_keys::{Wide, WindowKey};
use crate::stop::{Stopped, check};
use crate::{CountTable, FileCounting, GrammarView, SharedRows, WordUses, word_file_counts};

/// Windows of a bucket, about, and how many buckets there are at most, except for those that cut words force.
const BUCKET_WINDOWS: usize = 1 << 13;
const BUCKETS_MAX: usize = 1 << 14;

/// Most windows of a part, equal ones excepted, unless its owner wants to have all of its first words.
pub(crate) const PART_WINDOWS: usize = 1 << 16;

/// Windows of a partition, about: they are spread over buckets while they stay in cache.
const PARTITION_WINDOWS: usize = 1 << 17;
const PARTITIONS_MAX: usize = 1 << 8;

/// Most high bits of the first word that keys lack, since the words of a bucket share them.
const CUT_BITS: u32 = 12;

/// Weights up to 2 to the power of this are one item, or less if then an item is one 64-bit integer.
const WEIGHT_BITS: u32 = 12;
const WEIGHT_BITS_MIN: u32 = 8;

/// Root or body symbols that one task examines, at least.
const TASK_SYMBOLS_MIN: usize = 1 << 13;

/// Symbols between two checks of the stop flag.
const STOP_SYMBOLS: usize = 1 << 16;

/// The partition of words that no wanted n-gram begins with; there are fewer partitions.
const NO_PARTITION: u16 = u16::MAX;

/// The n-grams of `n` words that begin with some words.
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

    /// The first words in a grammar of `word_count` words.
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
                if words[middle * self.n] < first {
                    below = middle + 1;
                } else {
                    end = middle;
                }
            }
            below
        });
        start..end
    }
}

/// All n-grams of `n` words.
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
    /// The n-grams of this table that a set has.
    #[must_use]
    pub fn of_set(mut self, set: &NgramSet) -> NgramCounts {
        let rows = set.rows_of(&self.words);
        if rows != (0..self.counts.len()) {
            self.words = self.words[rows.start * set.n..rows.end * set.n].to_vec();
            self.counts = self.counts[rows].to_vec();
        }
        self
    }

    /// The same rows for a grammar with one file.
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NgramFiles {
    /// `[n-grams * n]`: the words of each n-gram; ascending.
    pub words: Vec<u32>,
    /// A row for each n-gram: files and counts.
    pub files: SharedRows,
}

impl NgramFiles {
    /// The n-grams of this table that a set has.
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
/// `weights` holds how often each symbol occurs. `memory` bounds the bytes for windows: each takes its words and a value
/// of about ten bits.
/// What one word begins must fit, whatever the bound. The result is not counted.
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
    ngram_count_parts(
        view,
        weights,
        &set,
        memory,
        PART_WINDOWS,
        stop,
        |_, part| part,
    )
}

/// What `make` makes of n-grams: of a part with the range of words that its n-grams begin with. Ranges follow each other
/// and cover all first words; one that begins more than `part_windows` windows comes again for each part.
pub(crate) fn ngram_count_parts<P: Send>(
    view: GrammarView<'_>,
    weights: &[u32],
    set: &NgramSet,
    memory: usize,
    part_windows: usize,
    stop: &AtomicBool,
    make: impl Fn(Range<u32>, NgramCounts) -> P + Sync + Send,
) -> Result<Vec<P>, Stopped> {
    assert!((1..=NGRAM_WORDS_MAX).contains(&set.n));
    if set.n == 1 {
        let words = set.first_words_of(view.terminal_count);
        let found = words.clone().map(|word| (word, weights[word as usize]));
        let (found, counts) = found.filter(|&(_, weight)| weight > 0).unzip();
        let part = NgramCounts {
            words: found,
            counts,
        };
        return Ok(vec![make(words, part)]);
    }
    let shape = Shape::new(view.terminal_count, set.n);
    let room = u64::BITS.saturating_sub(shape.n * shape.bits);
    let value_bits = match room {
        WEIGHT_BITS_MIN..WEIGHT_BITS => room,
        _ => WEIGHT_BITS,
    };
    let search = Search {
        view,
        weights,
        shape,
        first_words: FirstWords::of(set, view),
        value_bits,
        memory,
        part_windows,
        stop,
    };
    match search.shape {
        shape if shape.fits::<u64>(value_bits) => count::<u64, P>(search, make),
        shape if shape.fits::<u128>(value_bits) => count::<u128, P>(search, make),
        _ => count::<Wide, P>(search, make),
    }
}

/// Counts n-grams in each file. The result comes in parts, in order.
///
/// Memory as [`ngram_counts`], and 4 bytes for each rule and file that it occurs in.
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
    let lists = if view.files() > 1 && set.n > 1 {
        Some(RuleFiles::new(view, uses, stop)?)
    } else {
        None
    };
    let lists = lists.as_ref();
    ngram_file_parts(
        view,
        weights,
        lists,
        &set,
        order,
        memory,
        PART_WINDOWS,
        stop,
        |_, part| part,
    )
}

/// What `make` makes of n-grams with their files, as [`ngram_count_parts`].
#[allow(clippy::too_many_arguments)] // What there is to know of a query for n-grams.
pub(crate) fn ngram_file_parts<P: Send>(
    view: GrammarView<'_>,
    weights: &[u32],
    lists: Option<&RuleFiles>,
    set: &NgramSet,
    order: FileOrder,
    memory: usize,
    part_windows: usize,
    stop: &AtomicBool,
    make: impl Fn(Range<u32>, NgramFiles) -> P + Sync + Send,
) -> Result<Vec<P>, Stopped> {
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
        let first_words = set.first_words_of(view.terminal_count);
        return Ok(vec![make(first_words, all.of_set(set))]);
    }
    if view.files() == 1 {
        let make = |words, part: NgramCounts| make(words, part.of_one_file());
        return ngram_count_parts(view, weights, set, memory, part_windows, stop, make);
    }
    let lists = lists.expect("several files come with lists");
    let ranked = (order == FileOrder::Count).then(|| lists.ranked());
    let lists = ranked.as_ref().unwrap_or(lists);
    let holders = view.files() + view.rules();
    let value_bits = (usize::BITS - holders.saturating_sub(1).leading_zeros()).max(1);
    let search = Search {
        view,
        weights,
        shape: Shape::new(view.terminal_count, set.n),
        first_words: FirstWords::of(set, view),
        value_bits,
        memory,
        part_windows,
        stop,
    };
    match search.shape {
        shape if shape.fits::<u64>(value_bits) => count_files::<u64, P>(search, lists, order, make),
        shape if shape.fits::<u128>(value_bits) => {
            count_files::<u128, P>(search, lists, order, make)
        }
        _ => count_files::<Wide, P>(search, lists, order, make),
    }
}

impl Shape {
    /// Whether a window is one integer, and also with a value of `value_bits` bits once the bits that the words
    /// of a bucket share are left out.
    fn fits<K: WindowKey>(self, value_bits: u32) -> bool {
        self.has_room::<K>()
            && self.first_bits::<K>(value_bits) + CUT_BITS.min(self.bits - 1) >= self.bits
    }

    /// Whether windows are one integer.
    fn has_room<K: WindowKey>(self) -> bool {
        self.n * self.bits <= K::BITS
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
    /// Windows of a part at most, about.
    part_windows: usize,
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
        let Shape { n, bits } = self.shape;
        let layout = ItemLayout::<K>::new(n * bits, self.value_bits);
        let plan = BucketPlan::new::<K>(self, layout.bytes());
        let mut windows = Some(Windows::<K>::new(self.view, self.shape));
        let mut parts = Vec::with_capacity(plan.first_words.len());
        for (number, round) in plan.rounds.iter().enumerate() {
            let mut found: Vec<Vec<ItemChunk>> = round.clone().map(|_| Vec::new()).collect();
            if let Some(windows) = &windows {
                let finder = Finder {
                    search: self,
                    windows,
                    layout,
                    plan: &plan,
                    round: round.clone(),
                };
                let (roots, bodies) = (finder.roots(&of_file)?, finder.bodies(&of_rule)?);
                for task in roots.into_iter().chain(bodies) {
                    for (all, chunks) in found.iter_mut().zip(task) {
                        all.extend(chunks);
                    }
                }
            }
            if number + 1 == plan.rounds.len() {
                // What all rules begin and end with is not needed for what is left.
                windows = None;
            }
            let sort = |(sorter, state): &mut (PartitionSorter<K>, S),
                        found: (Vec<ItemChunk>, usize)|
             -> Result<Vec<P>, Stopped> {
                let (chunks, partition) = found;
                let buckets = plan.partitions[partition].clone();
                sorter.spread(
                    chunks,
                    layout,
                    &plan,
                    buckets.clone(),
                    (n - 1) * bits + self.value_bits,
                );
                let mut made = Vec::with_capacity(buckets.len());
                for (index, bucket) in buckets.enumerate() {
                    check(self.stop)?;
                    let mut items = sorter.sorted(index, self.value_bits);
                    loop {
                        let (part, rest) = items.split_at(self.part_end(items));
                        made.push(merge(state, part, plan.words(bucket)));
                        if rest.is_empty() {
                            break;
                        }
                        items = rest;
                    }
                }
                Ok(made)
            };
            let merged = (found.into_par_iter().zip(round.clone()))
                .map_init(|| (PartitionSorter::default(), state()), sort);
            parts.extend(
                merged
                    .collect::<Result<Vec<_>, Stopped>>()?
                    .into_iter()
                    .flatten(),
            );
        }
        Ok(parts)
    }

    /// Where a part of sorted items ends: equal n-grams stay together.
    fn part_end<K: WindowKey>(self, items: &[K]) -> usize {
        let key = |at: usize| items[at].shr(self.value_bits);
        let mut end = items.len().min(self.part_windows);
        while end < items.len() && key(end) == key(end - 1) {
            end += 1;
        }
        end
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

/// Which bucket, and which partition of buckets, takes the windows that begin with a word.
struct BucketPlan {
    /// By word; ascending, and [`NO_PARTITION`] of others than first words.
    partition_of: Vec<u16>,
    /// By word; ascending.
    bucket_of: Vec<u16>,
    /// By bucket.
    first_words: Vec<u32>,
    /// Behind the last one's words.
    end: u32,
    /// The buckets of each partition.
    partitions: Vec<Range<usize>>,
    /// Partitions that are processed together.
    rounds: Vec<Range<usize>>,
}

impl BucketPlan {
    /// Cuts the first words into buckets of about equally many windows, those into partitions, and these into rounds. A window
    /// takes `item_bytes` bytes.
    fn new<K: WindowKey>(search: Search<'_>, item_bytes: usize) -> BucketPlan {
        let (view, shape) = (search.view, search.shape);
        let FirstWords { start, end } = search.first_words;
        let weights = &search.weights[start as usize..end as usize];
        let total: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
        // What can be found is bounded by the words, and by the symbols it crosses to.
        let all = search.weights[..view.terminal_count as usize].iter();
        let all = all.map(|&weight| u64::from(weight)).sum::<u64>().max(1);
        let symbols = (view.symbols.len() + view.root.len()) as u64;
        let crossing = all.min(symbols * u64::from(shape.n - 1));
        // Neither is above 2^64.
        let windows_of =
            |weight: u64| (u128::from(weight) * u128::from(crossing) / u128::from(all)) as usize;
        let memory_windows = (search.memory / item_bytes).max(1);
        let bucket_windows = BUCKET_WINDOWS.min(memory_windows);
        let buckets = (windows_of(total) / bucket_windows).clamp(1, BUCKETS_MAX) as u64;
        let bucket_weight = total / buckets + 1;
        let cut = shape.first_bits::<K>(search.value_bits);
        let mut bucket_of = vec![0; view.terminal_count as usize];
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
            // Two light neighbours together weigh more than `bucket_weight`, and keys lack too few bits for many cuts.
            bucket_of[word as usize] = last as u16;
        }
        let bucket_windows: Vec<usize> = bucket_weights.into_iter().map(windows_of).collect();
        let partition_windows = PARTITION_WINDOWS.max(windows_of(total) / PARTITIONS_MAX);
        let partitions = ranges_up_to(&bucket_windows, partition_windows.min(memory_windows));
        let sizes: Vec<usize> = (partitions.iter())
            .map(|buckets| bucket_windows[buckets.clone()].iter().sum())
            .collect();
        let mut partition_of = vec![NO_PARTITION; view.terminal_count as usize];
        for (number, buckets) in (0..).zip(&partitions) {
            let next = first_words.get(buckets.end).copied().unwrap_or(end);
            partition_of[first_words[buckets.start] as usize..next as usize].fill(number);
        }
        BucketPlan {
            partition_of,
            bucket_of,
            first_words,
            end,
            rounds: ranges_up_to(&sizes, memory_windows),
            partitions,
        }
    }

    /// The words of a bucket.
    fn words(&self, bucket: usize) -> Range<u32> {
        let end = self.first_words.get(bucket + 1).copied();
        self.first_words[bucket]..end.unwrap_or(self.end)
    }
}

/// Spreads the windows of a partition over its buckets, and sorts them.
#[derive(Default)]
struct PartitionSorter<K> {
    /// In the order in which they were found.
    found: Vec<K>,
    /// The bucket of each, from that of the partition on.
    buckets: Vec<u16>,
    /// By bucket.
    spread: Vec<K>,
    /// `[buckets + 1]` into `spread`; empty if `items` are those of the only bucket.
    starts: Vec<usize>,
    /// Keys of the items of a bucket.
    items: Vec<K>,
    scratch: Scratch<K>,
}

impl<K: WindowKey> PartitionSorter<K> {
    /// Takes the windows of some buckets. `shift` is where their first word begins.
    fn spread(
        &mut self,
        chunks: Vec<ItemChunk>,
        layout: ItemLayout<K>,
        plan: &BucketPlan,
        buckets: Range<usize>,
        shift: u32,
    ) {
        self.starts.clear();
        self.found.clear();
        self.buckets.clear();
        if buckets.len() == 1 {
            self.items.clear();
            let items = chunks.iter().map(|chunk| chunk.items(layout)).sum();
            self.items.reserve_exact(items);
            for chunk in chunks {
                // The highest bits of the first word may go.
                chunk.each(layout, |low, _| self.items.push(low));
            }
            return;
        }
        for chunk in chunks {
            chunk.each(layout, |low, high| {
                let first = layout.top((low, high), shift) as usize;
                // Not below: words of a partition are those of its buckets.
                self.buckets
                    .push(plan.bucket_of[first] - buckets.start as u16);
                self.found.push(low);
            });
        }
        let mut counts = vec![0; buckets.len()];
        for &bucket in &self.buckets {
            counts[usize::from(bucket)] += 1;
        }
        self.starts = offsets_of(counts);
        let mut next = self.starts.clone();
        self.spread.resize(self.found.len(), K::default());
        for (&item, &bucket) in self.found.iter().zip(&self.buckets) {
            let at = &mut next[usize::from(bucket)];
            self.spread[*at] = item;
            *at += 1;
        }
    }

    /// The windows of a bucket of the partition, sorted.
    fn sorted(&mut self, bucket: usize, value_bits: u32) -> &[K] {
        if let Some(range) = self.starts.get(bucket..bucket + 2) {
            self.items.clear();
            self.items
                .extend_from_slice(&self.spread[range[0]..range[1]]);
        }
        sort_keys(&mut self.items, value_bits, &mut self.scratch);
        &self.items
    }
}

/// Takes the windows of one task that fall into the partitions of a round.
struct Sink<'a, K> {
    partition_of: &'a [u16],
    /// How far the first word of a key is shifted.
    shift: u32,
    round: Range<usize>,
    partitions: Partitions<K>,
}

impl<K: WindowKey> Sink<'_, K> {
    #[inline(always)]
    fn push(&mut self, key: K, value: u32) {
        let first = key.shr(self.shift).low() as usize;
        let partition = usize::from(self.partition_of[first]).wrapping_sub(self.round.start);
        if partition < self.round.len() {
            self.partitions.push(partition, key, value);
        }
    }
}

/// Finds the windows that fall into the partitions of a round.
struct Finder<'a, K> {
    search: Search<'a>,
    windows: &'a Windows<'a, K>,
    layout: ItemLayout<K>,
    plan: &'a BucketPlan,
    round: Range<usize>,
}

impl<K: WindowKey> Finder<'_, K> {
    /// The windows of all roots: for each task the chunks of each partition.
    fn roots(
        &self,
        of_file: impl Fn(u32) -> u32 + Sync,
    ) -> Result<Vec<Vec<Vec<ItemChunk>>>, Stopped> {
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
    ) -> Result<Vec<Vec<Vec<ItemChunk>>>, Stopped> {
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
    ) -> Result<Vec<Vec<Vec<ItemChunk>>>, Stopped> {
        let Shape { n, bits } = self.windows.shape;
        // More than threads, for they take unequally long.
        let tasks = (items / TASK_SYMBOLS_MIN).clamp(1, rayon::current_num_threads() * 4);
        let part = items.div_ceil(tasks).max(1);
        let task = |task: usize| {
            let range = (task * part).min(items)..((task + 1) * part).min(items);
            let mut sink = Sink {
                partition_of: &self.plan.partition_of,
                shift: (n - 1) * bits,
                round: self.round.clone(),
                partitions: Partitions::new(self.layout, self.round.len()),
            };
            for start in range.clone().step_by(STOP_SYMBOLS) {
                check(self.search.stop)?;
                find(start..(start + STOP_SYMBOLS).min(range.end), &mut sink);
            }
            Ok(sink.partitions.finish())
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
    lists: &RuleFiles,
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
    lists: &'a RuleFiles,
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
    use crate::grammar::test_grammars::{self, TestGrammar, in_pools};
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
                part_windows: 3,
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
