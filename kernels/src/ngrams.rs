//! All n-grams with their counts, in the whole or file by file.
//!
//! In   a grammar over words, n from 1 to [`NGRAM_WORDS_MAX`]; memory for windows
//! Out  every distinct n-gram, ordered by its words, with its count ([`NgramCounts`]), or with a count for each
//!      file that it occurs in ([`NgramFiles`])
//! Work O(body and root symbols * n) windows, sorted by their words
//!
//! A window of n words lies inside one symbol or crosses from a symbol of a body
//! or root to the next. So each is found once: in the one body or root where it
//! crosses. What crosses is known from the first and last n - 1 words of every
//! rule. A window of a body occurs as often as its rule; a window of a root once.
//! Keys are the words themselves, packed; nothing is hashed.
//!
//! Windows go into buckets by their first word, so that a bucket fits into the
//! cache. When all windows would take more memory than they may, the buckets are
//! processed in several rounds, each of which passes over the grammar again.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::file_counts::{Lists, Tally, rank, rule_lists};
use crate::grammar_view::AHEAD_SYMBOLS;
use crate::key_sort::{Bucketed, Buckets, Keyed, Scratch, sort_by_key};
use crate::offsets::split_mut;
use crate::stop::{Stopped, check};
use crate::window_keys::{Key, Wide};
use crate::{CountTable, GrammarView, WordUses, word_file_counts};

/// The longest n-gram.
pub const NGRAM_WORDS_MAX: usize = 8;

/// Windows of a bucket, about.
const BUCKET_WINDOWS: usize = 1 << 13;
const BUCKETS_MAX: usize = 1 << 12;

/// Root or body symbols that one task looks at, at least.
const TASK_SYMBOLS_MIN: usize = 1 << 13;

/// A stop is noticed after so many symbols.
const STOP_SYMBOLS: usize = 1 << 16;

/// Distinct n-grams with counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NgramCounts {
    /// `[n-grams * n]`: the words of each n-gram; ascending.
    pub words: Vec<u32>,
    /// `[n-grams]`.
    pub counts: Vec<u32>,
}

/// Distinct n-grams with the files that they occur in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NgramFiles {
    /// `[n-grams * n]`: the words of each n-gram; ascending.
    pub words: Vec<u32>,
    /// A row for each n-gram: files and counts.
    pub files: CountTable,
}

/// How the files of an n-gram are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOrder {
    /// By file.
    File,
    /// By count, the largest first; equal counts by file: a ranked inverted index.
    Count,
}

/// Counts all n-grams of the files. The result comes in parts, in order.
///
/// `weights` tells how often each symbol occurs. `memory` bounds
/// the bytes for windows: 8 each, and 12 to 16 each for those of bodies, as long
/// as the words of an n-gram fit into 64 bits, twice that up to 128, else four
/// times. What one word begins must fit, whatever the bound. The result is not counted.
///
/// # Panics
///
/// When `n` is 0 or above [`NGRAM_WORDS_MAX`].
pub fn ngram_counts(
    view: GrammarView<'_>,
    weights: &[u32],
    n: usize,
    memory: usize,
    stop: &AtomicBool,
) -> Result<Vec<NgramCounts>, Stopped> {
    if n == 1 {
        let words = &weights[..view.terminal_count as usize];
        let found = (0..).zip(words).filter(|&(_, &weight)| weight > 0);
        let (words, counts) = found.map(|(word, &weight)| (word, weight)).unzip();
        return Ok(vec![NgramCounts { words, counts }]);
    }
    match Shape::new(view, n) {
        shape if shape.fits::<u64>() => count::<u64>(view, weights, shape, memory, stop),
        shape if shape.fits::<u128>() => count::<u128>(view, weights, shape, memory, stop),
        shape => count::<Wide>(view, weights, shape, memory, stop),
    }
}

/// Counts all n-grams in each file. The result comes in parts, in order.
///
/// Memory as [`ngram_counts`], but 16 bytes a window, and 8 bytes for each rule
/// and file that it occurs in.
///
/// # Panics
///
/// When `n` is 0 or above [`NGRAM_WORDS_MAX`].
pub fn ngram_file_counts(
    view: GrammarView<'_>,
    weights: &[u32],
    uses: &WordUses,
    n: usize,
    order: FileOrder,
    memory: usize,
    stop: &AtomicBool,
) -> Result<Vec<NgramFiles>, Stopped> {
    if n == 1 {
        let mut files = word_file_counts(view, uses, stop)?;
        let used = |&word: &u32| !files.row(word as usize).is_empty();
        let words: Vec<u32> = (0..view.terminal_count).filter(used).collect();
        files.offsets.dedup();
        if order == FileOrder::Count {
            let rows: Vec<&mut [(u32, u32)]> = split_mut(&mut files.entries, &files.offsets);
            rows.into_par_iter().for_each(rank);
        }
        return Ok(vec![NgramFiles { words, files }]);
    }
    if view.files() == 1 {
        let counted = ngram_counts(view, weights, n, memory, stop)?;
        let with_file = |NgramCounts { words, counts }| NgramFiles {
            words,
            files: CountTable {
                offsets: (0..=counts.len()).collect(),
                entries: counts.into_iter().map(|count| (0, count)).collect(),
            },
        };
        return Ok(counted.into_par_iter().map(with_file).collect());
    }
    let mut lists = rule_lists(view, uses, stop)?;
    if order == FileOrder::Count {
        lists.rank_all();
    }
    match Shape::new(view, n) {
        shape if shape.fits::<u64>() => {
            count_files::<u64>(view, weights, &lists, shape, order, memory, stop)
        }
        shape if shape.fits::<u128>() => {
            count_files::<u128>(view, weights, &lists, shape, order, memory, stop)
        }
        shape => count_files::<Wide>(view, weights, &lists, shape, order, memory, stop),
    }
}

/// How words make keys.
#[derive(Clone, Copy)]
struct Shape {
    n: u32,
    /// Bits of a word.
    bits: u32,
}

/// The number of words of an [`Ends`] takes so many bits.
const LENGTH_BITS: u32 = 4;

impl Shape {
    fn new(view: GrammarView<'_>, n: usize) -> Shape {
        assert!(n > 0);
        assert!(n <= NGRAM_WORDS_MAX);
        let bits = u32::BITS - view.terminal_count.saturating_sub(1).leading_zeros();
        Shape {
            // At most the constant above.
            n: n as u32,
            bits: bits.max(LENGTH_BITS),
        }
    }

    /// Whether n words fit, and n - 1 words with their number.
    fn fits<K: Key>(self) -> bool {
        self.n * self.bits <= K::BITS
    }

    /// Writes the words of a key.
    fn unpack<K: Key>(self, key: K, target: &mut [u32]) {
        let mask = u64::ones(self.bits);
        let shifts = (0..self.n).rev().map(|index| index * self.bits);
        for (word, shift) in target.iter_mut().zip(shifts) {
            // Masked to at most 32 bits.
            *word = (key.shr(shift).low() & mask) as u32;
        }
    }
}

/// The first and last words of a rule.
#[derive(Clone, Copy, Default)]
struct Ends<K> {
    /// The first n - 1 words, or all if there are fewer; in the highest bits
    /// the number of words, n if there are n or more.
    head: K,
    /// The last n - 1 words, if there are as many.
    tail: K,
}

/// What is needed to find windows.
struct Windows<'a, K> {
    view: GrammarView<'a>,
    shape: Shape,
    /// By rule.
    ends: Vec<Ends<K>>,
    /// In the highest bits of a head: one word.
    one: K,
    /// The bits of n - 1 words and of n words.
    head_mask: K,
    mask: K,
}

/// The words before a symbol.
#[derive(Clone, Copy, Default)]
struct Last<K> {
    /// The last words, as many as there are.
    key: K,
    /// How many there are, or more than n - 1.
    words: u32,
}

impl<'a, K: Key> Windows<'a, K> {
    fn new(view: GrammarView<'a>, shape: Shape) -> Windows<'a, K> {
        let mut windows = Windows {
            view,
            shape,
            ends: Vec::new(),
            one: K::from_word(1).shl(K::BITS - LENGTH_BITS),
            head_mask: K::ones((shape.n - 1) * shape.bits),
            mask: K::ones(shape.n * shape.bits),
        };
        let mut ends = vec![Ends::default(); view.rules()];
        for level in 0..view.levels() {
            let rules = view.level_rules(level);
            let (done, open) = ends.split_at_mut(rules.start);
            (open[..rules.len()]
                .par_iter_mut()
                .zip(rules.start as u32..rules.end as u32))
            .with_min_len(TASK_SYMBOLS_MIN / 16)
            .for_each(|(ends, rule)| *ends = windows.join(view.body(rule), done));
        }
        windows.ends = ends;
        windows
    }

    /// The ends of a body, given those of the rules in it.
    fn join(&self, body: &[u32], ends: &[Ends<K>]) -> Ends<K> {
        let Shape { n, bits } = self.shape;
        let (mut head, mut head_words) = (K::default(), 0);
        let mut last = Last::default();
        for &symbol in body {
            if head_words < n - 1 {
                let (words, length) = match self.view.rule(symbol) {
                    None => (K::from_word(symbol), 1),
                    Some(rule) => self.head(ends[rule as usize]),
                };
                let length = length.min(n - 1);
                let taken = length.min(n - 1 - head_words);
                let words = words.shr(bits * (length - taken));
                head = head.shl(bits * taken).or(words);
                head_words += taken;
            }
            self.step(self.symbol_ends(symbol, ends), &mut last, |_| {});
        }
        Ends {
            head: head.or(K::from_word(last.words.min(n)).shl(K::BITS - LENGTH_BITS)),
            tail: last.key.and(self.head_mask),
        }
    }

    /// The words at the beginning of a rule, and how many the rule has, at most n.
    #[inline(always)]
    fn head(&self, ends: Ends<K>) -> (K, u32) {
        let words = ends.head.and(self.head_mask);
        // A few bits.
        (words, ends.head.shr(K::BITS - LENGTH_BITS).low() as u32)
    }

    /// The ends of a symbol. Without a branch: which symbols are rules is hard to predict.
    #[inline(always)]
    fn symbol_ends(&self, symbol: u32, ends: &[Ends<K>]) -> Ends<K> {
        let rule = symbol.checked_sub(self.view.terminal_count);
        let terminal = Ends {
            head: K::from_word(symbol).or(self.one),
            tail: K::default(),
        };
        let ends = ends.get(rule.unwrap_or(0) as usize).copied();
        let ends = ends.unwrap_or_default();
        Ends {
            head: if rule.is_some() {
                ends.head
            } else {
                terminal.head
            },
            tail: ends.tail,
        }
    }

    /// Goes on by a symbol, and calls `emit` with every window that ends in it
    /// and begins before it.
    #[inline(always)]
    fn step(&self, symbol: Ends<K>, last: &mut Last<K>, mut emit: impl FnMut(K)) {
        let Shape { n, bits } = self.shape;
        let (words, length) = self.head(symbol);
        let first = length.min(n - 1);
        for index in 1..=first {
            let before = last.key.shl(bits * index);
            let key = before.or(words.shr(bits * (first - index)));
            if last.words + index >= n {
                emit(key.and(self.mask));
            }
        }
        *last = match length >= n {
            true => Last {
                key: symbol.tail,
                words: n,
            },
            false => Last {
                key: last.key.shl(bits * first).or(words).and(self.mask),
                words: (last.words + first).min(n),
            },
        };
    }

    /// All windows that cross symbols of `sequence` and end in its symbols at `range`.
    #[inline(always)]
    fn each(&self, sequence: &[u32], range: Range<usize>, mut emit: impl FnMut(K)) {
        let mut last = Last::default();
        let before = range.start.saturating_sub(self.shape.n as usize);
        for &symbol in &sequence[before..range.start] {
            self.step(self.symbol_ends(symbol, &self.ends), &mut last, |_| {});
        }
        if self.ends.is_empty() {
            return self.each_terminal(&sequence[range], last, emit);
        }
        match self.shape.n {
            2 => self.each_of_few::<2>(&sequence[range], last, emit),
            3 => self.each_of_few::<3>(&sequence[range], last, emit),
            4 => self.each_of_few::<4>(&sequence[range], last, emit),
            _ => {
                for &symbol in &sequence[range] {
                    self.step(self.symbol_ends(symbol, &self.ends), &mut last, &mut emit);
                }
            }
        }
    }

    /// [`Self::each`] for few words. What a symbol brings is hard to predict, so
    /// all that it can bring is written, and what it does not is written over.
    #[inline(always)]
    fn each_of_few<const N: usize>(
        &self,
        symbols: &[u32],
        mut last: Last<K>,
        mut emit: impl FnMut(K),
    ) {
        let (n, bits) = (N as u32, self.shape.bits);
        // Memory answers slowly but many questions at a time.
        let mut ends = [Ends::default(); AHEAD_SYMBOLS];
        let mut keys = [K::default(); AHEAD_SYMBOLS * 4];
        for symbols in symbols.chunks(AHEAD_SYMBOLS) {
            let ends = &mut ends[..symbols.len()];
            for (ends, &symbol) in ends.iter_mut().zip(symbols) {
                *ends = self.symbol_ends(symbol, &self.ends);
            }
            let mut found = 0;
            for &ends in &*ends {
                let (words, length) = self.head(ends);
                let first = length.min(n - 1);
                for index in 1..n {
                    let before = last.key.shl(bits * index);
                    let key = before.or(words.shr(bits * first.saturating_sub(index)));
                    keys[found] = key.and(self.mask);
                    found += usize::from((index <= first) & (last.words + index >= n));
                }
                let key = last.key.shl(bits * first).or(words).and(self.mask);
                let long = length >= n;
                last.key = if long { ends.tail } else { key };
                last.words = if long { n } else { (last.words + first).min(n) };
            }
            for &key in &keys[..found] {
                emit(key);
            }
        }
    }

    /// [`Self::each`] where there are no rules.
    #[inline(always)]
    fn each_terminal(&self, words: &[u32], mut last: Last<K>, mut emit: impl FnMut(K)) {
        let Shape { n, bits } = self.shape;
        for &word in words {
            last.key = last.key.shl(bits).and(self.mask).or(K::from_word(word));
            last.words += 1;
            if last.words >= n {
                emit(last.key);
            }
        }
    }
}

/// Which bucket takes the windows that begin with a word.
struct Plan {
    /// By word; ascending.
    bucket_of: Vec<u16>,
    buckets: usize,
    /// Buckets that are processed together.
    rounds: Vec<Range<usize>>,
}

impl Plan {
    /// Cuts the words into buckets of about equally many windows, and the buckets into rounds.
    fn new(view: GrammarView<'_>, weights: &[u32], n: u32, size: usize, memory: usize) -> Plan {
        let weights = &weights[..view.terminal_count as usize];
        let total: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
        // What can be found is bounded by the words, and by the symbols it crosses to.
        let symbols = (view.symbols.len() + view.root.len()) as u64;
        let windows = total.min(symbols * u64::from(n - 1)) as usize;
        let buckets = (windows / BUCKET_WINDOWS).clamp(1, BUCKETS_MAX - 1) as u64;
        let bucket_weight = total / buckets + 1;
        let mut bucket_of = Vec::with_capacity(weights.len());
        let mut bucket_weights = vec![0u64];
        for weight in weights.iter().map(|&weight| u64::from(weight)) {
            let last = bucket_weights.len() - 1;
            // A heavy word has a bucket of its own.
            if bucket_weights[last] > 0 && bucket_weights[last] + weight > bucket_weight {
                bucket_weights.push(0);
            }
            let last = bucket_weights.len() - 1;
            bucket_weights[last] += weight;
            // Two light neighbours together weigh more than `bucket_weight`.
            bucket_of.push(last as u16);
        }
        let mut rounds = Vec::new();
        let (mut start, mut weight) = (0, 0u64);
        for (bucket, &more) in bucket_weights.iter().enumerate() {
            let bytes = (weight + more).saturating_mul(size as u64);
            if bytes > memory as u64 && bucket > start {
                rounds.push(start..bucket);
                (start, weight) = (bucket, 0);
            }
            weight += more;
        }
        rounds.push(start..bucket_weights.len());
        Plan {
            bucket_of,
            buckets: bucket_weights.len(),
            rounds,
        }
    }
}

/// Takes the windows of one task that fall into the buckets of a round.
struct Sink<'a, T> {
    bucket_of: &'a [u16],
    /// How far the first word of a key is shifted.
    shift: u32,
    round: Range<usize>,
    buckets: Buckets<T>,
}

impl<T: Keyed> Sink<'_, T> {
    #[inline(always)]
    fn push(&mut self, item: T) {
        let first = item.key().shr(self.shift).low() as usize;
        let bucket = usize::from(self.bucket_of[first]).wrapping_sub(self.round.start);
        if bucket < self.round.len() {
            self.buckets.push(bucket, item);
        }
    }
}

/// The windows of a round, one item a task.
type Found<T> = Vec<Bucketed<T>>;

/// Collects and sorts the windows of a bucket.
fn sorted<T: Keyed>(found: &Found<T>, bucket: usize, items: &mut Vec<T>, scratch: &mut Scratch<T>) {
    items.clear();
    for task in found {
        task.collect(bucket, items);
    }
    sort_by_key(items, scratch);
}

/// Finds the windows that fall into the buckets of a round.
struct Finder<'a, K> {
    windows: &'a Windows<'a, K>,
    plan: &'a Plan,
    round: Range<usize>,
    weights: &'a [u32],
    stop: &'a AtomicBool,
}

impl<K: Key> Finder<'_, K> {
    /// The windows of all roots, with what `value` makes of a file.
    fn roots<V>(&self, value: impl Fn(u32) -> V + Sync) -> Result<Found<(K, V)>, Stopped>
    where
        V: Copy,
        (K, V): Keyed<Key = K>,
    {
        let view = self.windows.view;
        self.each_task(view.root.len(), |range, sink| {
            let mut file = (view.root_offsets).partition_point(|&o| o as usize <= range.start) - 1;
            let mut at = range.start;
            while at < range.end {
                // Files are u32.
                let positions = view.root_range(file as u32);
                let end = positions.end.min(range.end);
                let inside = at - positions.start..end - positions.start;
                let value = value(file as u32);
                let root = &view.root[positions];
                (self.windows).each(root, inside, |key| sink.push((key, value)));
                at = end;
                file += 1;
            }
        })
    }

    /// The windows of all bodies in use, with what `value` makes of a rule.
    fn bodies(&self, value: impl Fn(u32) -> u32 + Sync) -> Result<Found<(K, u32)>, Stopped> {
        let view = self.windows.view;
        let terminals = view.terminal_count as usize;
        self.each_task(view.rules(), |rules, sink| {
            for rule in rules {
                if self.weights[terminals + rule] > 0 {
                    // Rules are u32.
                    let (body, value) = (view.body(rule as u32), value(rule as u32));
                    (self.windows).each(body, 0..body.len(), |key| sink.push((key, value)));
                }
            }
        })
    }

    /// Lets `find` push the windows of `0..items`, root symbols or rules, a range at a time.
    fn each_task<T: Keyed>(
        &self,
        items: usize,
        find: impl Fn(Range<usize>, &mut Sink<'_, T>) + Sync,
    ) -> Result<Found<T>, Stopped> {
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
                round: self.round.clone(),
                buckets: Buckets::new(self.round.len(), room),
            };
            for start in range.clone().step_by(STOP_SYMBOLS) {
                check(self.stop)?;
                find(start..(start + STOP_SYMBOLS).min(range.end), &mut sink);
            }
            Ok(sink.buckets.finish())
        };
        (0..tasks).into_par_iter().map(task).collect()
    }
}

/// The length of the run of equal keys at the start of sorted items.
#[inline(always)]
fn run<T: Keyed>(items: &[T], key: T::Key) -> usize {
    items.iter().take_while(|item| item.key() == key).count()
}

fn count<K: Key>(
    view: GrammarView<'_>,
    weights: &[u32],
    shape: Shape,
    memory: usize,
    stop: &AtomicBool,
) -> Result<Vec<NgramCounts>, Stopped>
where
    (K, ()): Keyed<Key = K>,
    (K, u32): Keyed<Key = K>,
{
    let windows = Windows::<K>::new(view, shape);
    let plan = Plan::new(view, weights, shape.n, size_of::<(K, u32)>(), memory);
    let rules = &weights[view.terminal_count as usize..];
    let mut parts = Vec::with_capacity(plan.buckets);
    for round in &plan.rounds {
        let finder = Finder {
            windows: &windows,
            plan: &plan,
            round: round.clone(),
            weights,
            stop,
        };
        let roots: Found<(K, ())> = finder.roots(|_| ())?;
        let bodies = finder.bodies(|rule| rules[rule as usize])?;
        let merge = |(root, body, root_scratch, body_scratch): &mut (Vec<_>, Vec<_>, _, _),
                     bucket| {
            check(stop)?;
            sorted(&roots, bucket, root, root_scratch);
            sorted(&bodies, bucket, body, body_scratch);
            Ok(merge_counts(root, body, shape))
        };
        let merged = (0..round.len()).into_par_iter();
        let merged = merged.map_init(Default::default, merge);
        parts.extend(merged.collect::<Result<Vec<_>, Stopped>>()?);
    }
    Ok(parts)
}

/// Counts of sorted windows: each of `roots` once, each of `bodies` as often as it says.
fn merge_counts<K: Key>(
    mut roots: &[(K, ())],
    mut bodies: &[(K, u32)],
    shape: Shape,
) -> NgramCounts {
    let n = shape.n as usize;
    let room = roots.len() + bodies.len();
    let mut words = vec![0; room * n];
    let mut counts = Vec::with_capacity(room);
    while let Some(key) = least(roots, bodies) {
        let mut count = 0u32;
        while let Some((&(root, ()), rest)) = roots.split_first()
            && root == key
        {
            count += 1;
            roots = rest;
        }
        while let Some((&(body, weight), rest)) = bodies.split_first()
            && body == key
        {
            count = count.wrapping_add(weight);
            bodies = rest;
        }
        let at = counts.len() * n;
        shape.unpack(key, &mut words[at..at + n]);
        counts.push(count);
    }
    words.truncate(counts.len() * n);
    NgramCounts { words, counts }
}

/// The least key at the start of two sorted slices.
#[inline(always)]
fn least<K: Key, V, W>(left: &[(K, V)], right: &[(K, W)]) -> Option<K> {
    match (left.first(), right.first()) {
        (Some(left), Some(right)) => Some(left.0.min(right.0)),
        (Some(left), None) => Some(left.0),
        (None, right) => right.map(|item| item.0),
    }
}

fn count_files<K: Key>(
    view: GrammarView<'_>,
    weights: &[u32],
    lists: &Lists<(u32, u32)>,
    shape: Shape,
    order: FileOrder,
    memory: usize,
    stop: &AtomicBool,
) -> Result<Vec<NgramFiles>, Stopped>
where
    (K, u32): Keyed<Key = K>,
{
    let windows = Windows::<K>::new(view, shape);
    let plan = Plan::new(view, weights, shape.n, size_of::<(K, u32)>(), memory);
    let mut parts = Vec::with_capacity(plan.buckets);
    for round in &plan.rounds {
        let finder = Finder {
            windows: &windows,
            plan: &plan,
            round: round.clone(),
            weights,
            stop,
        };
        let roots: Found<(K, u32)> = finder.roots(|file| file)?;
        let bodies = finder.bodies(|rule| rule)?;
        let merge = |state: &mut (Vec<_>, Vec<_>, _, Tally<(u32, u32)>), bucket| {
            check(stop)?;
            let (root, body, scratch, tally) = state;
            sorted(&roots, bucket, root, scratch);
            sorted(&bodies, bucket, body, scratch);
            Ok(merge_files(root, body, shape, lists, tally, order))
        };
        let state = || {
            (
                Vec::new(),
                Vec::new(),
                Scratch::default(),
                Tally::new(view.files()),
            )
        };
        let merged = (0..round.len()).into_par_iter().map_init(state, merge);
        parts.extend(merged.collect::<Result<Vec<_>, Stopped>>()?);
    }
    Ok(parts)
}

/// The files of sorted windows: of each of `roots` its file, of each of `bodies` those of its rule.
fn merge_files<K: Key>(
    mut roots: &[(K, u32)],
    mut bodies: &[(K, u32)],
    shape: Shape,
    lists: &Lists<(u32, u32)>,
    tally: &mut Tally<(u32, u32)>,
    order: FileOrder,
) -> NgramFiles {
    let n = shape.n as usize;
    let room = roots.len() + bodies.len();
    let mut words = vec![0; room * n];
    let mut offsets = Vec::with_capacity(room + 1);
    offsets.push(0);
    let mut entries: Vec<(u32, u32)> = Vec::with_capacity(room);
    let (mut files, mut rules) = (Vec::new(), Vec::new());
    let all_bodies = bodies;
    let mut looked = 0;
    while let Some(key) = least(roots, bodies) {
        let (root, root_rest) = roots.split_at(run(roots, key));
        let (body, body_rest) = bodies.split_at(run(bodies, key));
        (roots, bodies) = (root_rest, body_rest);
        let passed = all_bodies.len() - bodies.len();
        if passed > looked {
            let ahead = all_bodies.len().min(passed + AHEAD_SYMBOLS);
            lists.look_ahead(all_bodies[looked..ahead].iter().map(|item| item.1));
            looked = ahead;
        }
        let start = entries.len();
        if body.is_empty() {
            // Files come in order.
            for &(_, file) in root {
                match entries[start..].last_mut() {
                    Some(last) if last.0 == file => last.1 += 1,
                    _ => entries.push((file, 1)),
                }
            }
        } else {
            files.clear();
            files.extend(root.iter().map(|item| item.1));
            rules.clear();
            rules.extend(body.iter().map(|item| item.1));
            tally.gather(lists, &files, &rules, &mut entries);
        }
        // The list of a single rule has that order.
        if order == FileOrder::Count && !(root.is_empty() && body.len() == 1) {
            rank(&mut entries[start..]);
        }
        let at = (offsets.len() - 1) * n;
        shape.unpack(key, &mut words[at..at + n]);
        offsets.push(entries.len());
    }
    words.truncate((offsets.len() - 1) * n);
    NgramFiles {
        words,
        files: CountTable { offsets, entries },
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
        } in parts.into_iter().map(|p| p.files)
        {
            offsets.extend(ends[1..].iter().map(|end| entries.len() + end));
            entries.extend(more);
        }
        let files = CountTable { offsets, entries };
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
    fn ngrams_that_need_wide_keys_are_counted() {
        // Words of 32 bits: 2 fit into 64, 4 into 128.
        for n in 2..=NGRAM_WORDS_MAX {
            let grammar = test_grammars::random(3);
            let source = Source::new(&grammar);
            let view = source.words.view();
            let weights = source.words.weights();
            let shape = Shape {
                n: n as u32,
                bits: 32,
            };
            let found = match n {
                2 => count::<u64>(view, weights, shape, usize::MAX, &GO),
                3 | 4 => count::<u128>(view, weights, shape, usize::MAX, &GO),
                _ => count::<Wide>(view, weights, shape, usize::MAX, &GO),
            };
            assert_eq!(
                joined(found.expect("not stopped")),
                source.counts(n, usize::MAX)
            );
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
