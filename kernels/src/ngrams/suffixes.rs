//! All words of the files in the order of what follows them: a suffix array over words (Manber, Myers 1990).
//!
//! In   a grammar over words, n from 1 to [`NGRAM_WORDS_MAX`]
//! Out  the n-grams with counts, or with the files that have them; where an n-gram stands
//! Work O(words) for all n-grams, in the order of memory except for one read a distinct n-gram; O(log words) for one
//!
//! What a grammar cannot shorten, prose above all, is faster to answer from a sorted list of all its places. Places are
//! sorted by the words that follow up to the depth that queries ask for, and equal ones by place or, in an array that was read back
//! from an index, by all words, so one list serves
//! n-grams of every length: those of n words are runs of places that share n words, stored as one byte a place. It is
//! made from the grammar, costs 9 bytes a word, and is worth that only where words are not many more than symbols.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::count::file_counts::rank;
use crate::memory::huge_pages::on_huge_pages;
use crate::ngrams::all_ngrams::{FileOrder, NgramCounts, NgramFiles, NgramSet};
use crate::ngrams::windows::NGRAM_WORDS_MAX;
use crate::numbers::bits::{Bits, count_bits, for_each_bit};
use crate::numbers::offsets::{offsets_of, split_mut};
use crate::sort::key_sort::{Bucketed, Buckets, Scratch, sort_keys};
use crate::stop::{Stopped, check};
use crate::{CountTable, Expander, Expansions, GrammarView};

pub(crate) mod find;
pub(crate) mod long;
pub(crate) mod repeats;
pub(crate) mod stored;

use find::{SuffixSource, find_ranks};

/// Words that order places.
const DEPTH: usize = NGRAM_WORDS_MAX;

/// The bits of a place.
const PLACE_BITS: u32 = u32::BITS;

/// Places of a bucket, about, and buckets at most.
const BUCKET_PLACES: usize = 1 << 13;
const BUCKETS_MAX: usize = 1 << 12;

/// Root symbols, words or places of one task.
const TASK_SYMBOLS: usize = 1 << 16;
const TASK_PLACES: usize = 1 << 17;

/// Windows that are looked up together, which overlaps the latency of memory.
const LOOKED_UP: usize = 128;

/// Interval of the words whose file is kept.
const FILE_STEP: usize = 256;

/// The first words from a place on, each plus one; zeros behind the end of its file.
type Window = [u32; DEPTH];

/// All places in the order of the words that follow.
#[derive(Debug, PartialEq, Eq)]
pub struct WordSuffixes {
    /// The words of all files, each plus one, and a zero behind every file.
    text: Vec<u32>,
    /// `[words]` into `text`.
    places: Vec<u32>,
    /// `[words]`: how many words follow in the file, this one included, at most [`DEPTH`], in the high half; how many of
    /// them the place before shares, in the low one.
    shared: Vec<u8>,
    /// `[distinct words + 1]` into `places`: those of each word.
    word_offsets: Vec<u32>,
    /// `[files + 1]` into `text`.
    file_offsets: Vec<u32>,
    /// The file of every [`FILE_STEP`]-th item of `text`.
    files: Vec<u32>,
    /// Whether places that share [`DEPTH`] words are in order of all words, and not only of place.
    is_fully_ordered: bool,
}

impl WordSuffixes {
    /// Size of the arrays.
    pub fn bytes(&self) -> usize {
        let WordSuffixes {
            text,
            places,
            shared,
            word_offsets,
            file_offsets,
            files,
            is_fully_ordered: _,
        } = self;
        let arrays = [text, places, word_offsets, file_offsets, files];
        shared.len()
            + arrays
                .map(|array| size_of_val(&array[..]))
                .iter()
                .sum::<usize>()
    }

    /// Sorts all words of the grammar by what follows. `weights` holds how often each symbol occurs.
    ///
    /// Work: O(words), a few sorts of 16 bytes a word, in rounds that each examine all words. `round_bytes`: the memory for keys
    /// beside the result, about; at least what the most frequent word needs at 16 bytes each.
    ///
    /// # Errors
    /// If it is stopped.
    pub fn new(
        view: GrammarView<'_>,
        weights: &[u32],
        round_bytes: usize,
        stop: &AtomicBool,
    ) -> Result<WordSuffixes, Stopped> {
        let (text, file_offsets) = expand(view, stop)?;
        let counts = &weights[..view.terminal_count as usize];
        WordSuffixes::of_text(text, file_offsets, counts, round_bytes, stop)
    }

    /// Sorts all words of files by what follows. `files` are the words of each, less than `word_count`, of which there are fewer
    /// than 2^32 together with the files.
    ///
    /// Work: as [`WordSuffixes::new`].
    ///
    /// # Errors
    /// If it is stopped.
    pub fn of_files<'f>(
        files: impl Iterator<Item = &'f [u32]>,
        word_count: u32,
        round_bytes: usize,
        stop: &AtomicBool,
    ) -> Result<WordSuffixes, Stopped> {
        let (mut text, mut file_offsets) = (Vec::new(), vec![0]);
        let mut counts = vec![0; word_count as usize];
        for words in files {
            check(stop)?;
            words.iter().for_each(|&word| counts[word as usize] += 1);
            text.extend(words.iter().map(|word| word + 1));
            text.push(0);
            // Words and files together are fewer than a u32 counts.
            file_offsets.push(text.len() as u32);
        }
        WordSuffixes::of_text(text, file_offsets, &counts, round_bytes, stop)
    }

    /// Sorts the words of a text, of each of which the count is known.
    fn of_text(
        text: Vec<u32>,
        file_offsets: Vec<u32>,
        counts: &[u32],
        round_bytes: usize,
        stop: &AtomicBool,
    ) -> Result<WordSuffixes, Stopped> {
        // A segment has fewer words than a u32 counts.
        let word_offsets: Vec<u32> = offsets_of(counts.iter().map(|&count| count as usize))
            .into_iter()
            .map(|offset| offset as u32)
            .collect();
        let words = word_offsets[counts.len()] as usize;
        let files = files_of(&file_offsets, text.len());
        let mut suffixes = WordSuffixes {
            text,
            places: on_huge_pages(vec![0; words]),
            shared: on_huge_pages(vec![0; words]),
            word_offsets,
            file_offsets,
            files,
            is_fully_ordered: false,
        };
        let mut places = std::mem::take(&mut suffixes.places);
        let mut shared = std::mem::take(&mut suffixes.shared);
        suffixes.sort(&mut places, &mut shared, round_bytes, stop)?;
        (suffixes.places, suffixes.shared) = (places, shared);
        Ok(suffixes)
    }

    /// Fills places and what they share, bucket by bucket of first words.
    fn sort(
        &self,
        places: &mut [u32],
        shared: &mut [u8],
        round_bytes: usize,
        stop: &AtomicBool,
    ) -> Result<(), Stopped> {
        let keys = Keys::new(self.word_offsets.len() - 1);
        let cuts = self.cuts();
        let bucket_of = self.buckets_of(&cuts);
        let offsets: Vec<usize> = (cuts.iter())
            .map(|&word| self.word_offsets[word] as usize)
            .collect();
        let short = self.short_places();
        let mut parts: Vec<(&mut [u32], &mut [u8])> = split_mut(places, &offsets)
            .into_iter()
            .zip(split_mut(shared, &offsets))
            .collect();
        let mut start = 0;
        while start < parts.len() {
            let limit = offsets[start] + round_bytes / size_of::<u128>();
            let end = offsets.partition_point(|&offset| offset <= limit) - 1;
            let round = start..end.clamp(start + 1, parts.len());
            let found = self.partition(keys, &short, &bucket_of, round.clone(), stop)?;
            (parts[round.clone()].par_iter_mut().enumerate()).try_for_each_init(
                Default::default,
                |(items, scratch, windows): &mut (Vec<u128>, Scratch<u128>, Vec<_>),
                 (bucket, part)| {
                    check(stop)?;
                    items.clear();
                    for task in &found {
                        task.collect(bucket, items);
                    }
                    sort_keys(items, PLACE_BITS, scratch);
                    self.finish(keys, items, windows, &short, part);
                    Ok(())
                },
            )?;
            start = round.end;
        }
        Ok(())
    }

    /// The first words of buckets of about equally many places, and behind them the number of words.
    fn cuts(&self) -> Vec<usize> {
        let words = self.word_offsets.len() - 1;
        let total = self.word_offsets[words] as usize;
        let size = (total / BUCKETS_MAX * 2).max(BUCKET_PLACES) as u32;
        let mut cuts = vec![0];
        for word in 1..words {
            let start = self.word_offsets[cuts[cuts.len() - 1]];
            // A frequent word has a bucket of its own.
            if self.word_offsets[word + 1] - start > size && self.word_offsets[word] > start {
                cuts.push(word);
            }
        }
        cuts.push(words);
        cuts
    }

    /// The bucket of each word.
    fn buckets_of(&self, cuts: &[usize]) -> Vec<u16> {
        let mut bucket_of = vec![0; self.word_offsets.len() - 1];
        for (bucket, cut) in cuts.windows(2).enumerate() {
            // Two neighbours have more than a bucket's size, so there are at most `BUCKETS_MAX` and one.
            bucket_of[cut[0]..cut[1]].fill(bucket as u16);
        }
        bucket_of
    }

    /// The places that fewer than [`DEPTH`] words follow, and the ends of files.
    fn short_places(&self) -> Bits {
        let mut short = vec![0u64; self.text.len().div_ceil(64)];
        for file in self.file_offsets.windows(2) {
            let end = file[1] as usize - 1;
            for place in end.saturating_sub(DEPTH - 1).max(file[0] as usize)..=end {
                short[place / 64] |= 1 << (place % 64);
            }
        }
        Bits::from_words(short)
    }

    /// The keys of all places whose first words are in some buckets, by task and bucket.
    fn partition(
        &self,
        keys: Keys,
        short: &Bits,
        bucket_of: &[u16],
        round: Range<usize>,
        stop: &AtomicBool,
    ) -> Result<Vec<Bucketed<u128>>, Stopped> {
        let tasks = rayon::current_num_threads() * 4;
        let part = self.text.len().div_ceil(tasks).max(TASK_SYMBOLS);
        let task = |task: usize| {
            let range = task * part..((task + 1) * part).min(self.text.len());
            let mut buckets = Buckets::new(round.len(), 0);
            let mut ahead = self.text[range.start..].iter();
            let mut next = |key| keys.push(key, ahead.next().copied().unwrap_or(0));
            let mut all = (1..keys.words).fold(0, |key, _| next(key));
            for place in range {
                if place % TASK_SYMBOLS == 0 {
                    check(stop)?;
                }
                all = next(all);
                let Some(number) = self.text[place].checked_sub(1) else {
                    continue;
                };
                let bucket = usize::from(bucket_of[number as usize]).wrapping_sub(round.start);
                if bucket < round.len() {
                    // Places are u32.
                    let key = match short.get(place as u32) {
                        0 => all,
                        // Words of the next file do not count.
                        _ => keys.of(&self.window(place as u32)),
                    };
                    buckets.push(bucket, key << PLACE_BITS | place as u128);
                }
            }
            Ok(buckets.finish())
        };
        let tasks = self.text.len().div_ceil(part);
        (0..tasks).into_par_iter().map(task).collect()
    }

    /// Writes the places of sorted keys, in order of all words of their windows, and what neighbours share.
    fn finish(
        &self,
        keys: Keys,
        items: &[u128],
        windows: &mut Vec<(Window, u32)>,
        short: &Bits,
        (places, shared): &mut (&mut [u32], &mut [u8]),
    ) {
        let key = |item: u128| item >> PLACE_BITS;
        // The low bits are the place.
        let place = |item: u128| item as u32;
        let (mut start, mut looked) = (0, 0);
        let mut before = None;
        while start < items.len() {
            if start >= looked {
                let end = items.len().min(start + LOOKED_UP);
                self.look_up(keys, &items[start..end]);
                looked = end;
            }
            let this = key(items[start]);
            let run = items[start..].iter().take_while(|&&item| key(item) == this);
            let end = start + run.count();
            let mut same = before.map_or(0, |before| keys.common(before, this));
            let length = |place: u32| match short.get(place) {
                0 => DEPTH,
                _ => self.window_length(place),
            };
            // Neither is above `DEPTH`.
            let byte = |length: usize, same: usize| (length << 4 | same.min(length)) as u8;
            if end - start == 1 {
                let place = place(items[start]);
                places[start] = place;
                shared[start] = byte(length(place), same);
            } else {
                windows.clear();
                let places_of = items[start..end].iter().map(|&item| place(item));
                windows.extend(places_of.map(|place| (self.window(place), place)));
                windows.sort_unstable();
                for (at, &(window, place)) in (start..).zip(&*windows) {
                    if at > start {
                        same = common(&windows[at - start - 1].0, &window);
                    }
                    places[at] = place;
                    shared[at] = byte(length(place), same);
                }
            }
            (start, before) = (end, Some(this));
        }
    }

    /// Brings the windows of items that have an equal neighbour into the cache.
    #[inline(always)]
    fn look_up(&self, keys: Keys, items: &[u128]) {
        let ahead = keys.words as usize - 1;
        let touched = items.windows(2).fold(0, |touched, pair| {
            let is_same = (pair[0] ^ pair[1]) >> PLACE_BITS == 0;
            let place = |item: u128| {
                if is_same {
                    item as u32 as usize + ahead
                } else {
                    0
                }
            };
            let word = |item| self.text.get(place(item)).copied().unwrap_or(0);
            touched ^ word(pair[0]) ^ word(pair[1])
        });
        // Reading is all: the value does not matter.
        std::hint::black_box(touched);
    }

    /// How many words follow a place in its file, at most [`DEPTH`].
    fn window_length(&self, place: u32) -> usize {
        let words = self.text[place as usize..].iter().take(DEPTH);
        words.take_while(|&&word| word > 0).count()
    }

    fn window(&self, place: u32) -> Window {
        let mut window = Window::default();
        let words = self.text[place as usize..].iter();
        for (target, &word) in window.iter_mut().zip(words.take_while(|&&word| word > 0)) {
            *target = word;
        }
        window
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
        self.each_part(&set, stop, |runs, places| NgramCounts {
            words: self.words_of(set.n, runs, places),
            counts: runs.iter().map(|run| run.count).collect(),
        })
    }

    /// As [`WordSuffixes::ngram_counts`], only those of each part whose counts are wanted. `choose` gets all counts of a
    /// part. No words of others are looked up.
    ///
    /// # Panics
    /// When `n` is 0 or above [`NGRAM_WORDS_MAX`].
    ///
    /// # Errors
    /// If it is stopped.
    pub fn ngram_counts_if<W: Fn(u32) -> bool>(
        &self,
        set: impl Into<NgramSet>,
        choose: impl Fn(&mut dyn Iterator<Item = u32>) -> W + Sync,
        stop: &AtomicBool,
    ) -> Result<Vec<NgramCounts>, Stopped> {
        let set = set.into();
        self.each_part(&set, stop, |runs, places| {
            let is_wanted = choose(&mut runs.iter().map(|run| run.count));
            let wanted = runs.iter().filter(|run| is_wanted(run.count)).copied();
            let wanted: Vec<Run> = wanted.collect();
            NgramCounts {
                words: self.words_of(set.n, &wanted, places),
                counts: wanted.iter().map(|run| run.count).collect(),
            }
        })
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
        self.each_part(&set, stop, |runs, places| {
            let mut offsets = Vec::with_capacity(runs.len() + 1);
            let mut entries: Vec<(u32, u32)> = Vec::with_capacity(places.len());
            // All at once, for memory answers slowly but many questions at a time.
            let files: Vec<u32> = places.iter().map(|&place| self.file_of(place)).collect();
            // How often each file was met, and which were.
            let mut counts = vec![0u32; self.file_offsets.len() - 1];
            let mut met = Vec::new();
            for run in runs {
                offsets.push(entries.len());
                let found = &files[run.start as usize..][..run.count as usize];
                if let &[file] = found {
                    entries.push((file, 1));
                    continue;
                }
                for &file in found {
                    let count = &mut counts[file as usize];
                    if *count == 0 {
                        met.push(file);
                    }
                    *count += 1;
                }
                let start = entries.len();
                if order == FileOrder::File {
                    met.sort_unstable();
                }
                for file in met.drain(..) {
                    entries.push((file, std::mem::take(&mut counts[file as usize])));
                }
                if order == FileOrder::Count {
                    rank(&mut entries[start..]);
                }
            }
            offsets.push(entries.len());
            entries.shrink_to_fit();
            NgramFiles {
                words: self.words_of(set.n, runs, places),
                files: CountTable { offsets, entries }.into(),
            }
        })
    }

    /// How often the n-gram `words` occurs.
    pub fn count(&self, words: &[u32]) -> u64 {
        self.find(words).len() as u64
    }

    /// Where the n-gram `words` occurs: file and number of its first word in it, ascending.
    pub fn positions(&self, words: &[u32]) -> Vec<(u32, u64)> {
        let mut places = self.places[self.find(words)].to_vec();
        places.sort_unstable();
        let position = |place: u32| self.position_of(place);
        places.into_iter().map(position).collect()
    }

    /// The file of a place, and the number of its word in the file.
    pub fn position_of(&self, place: u32) -> (u32, u64) {
        let file = self.file_of(place);
        (file, u64::from(place - self.file_offsets[file as usize]))
    }

    /// Whether all words behind places order them, and not only [`NGRAM_WORDS_MAX`].
    pub fn is_fully_ordered(&self) -> bool {
        self.is_fully_ordered
    }

    /// Whether n-grams of `n` words can be looked up.
    pub fn has(n: usize) -> bool {
        (1..=DEPTH).contains(&n)
    }

    /// The ranks of an n-gram of at most [`DEPTH`] words.
    fn find(&self, words: &[u32]) -> Range<usize> {
        let Ok(ranks) = find_ranks(self, words);
        ranks.start as usize..ranks.end as usize
    }

    /// Cuts the places where n-grams of a set begin and lets `make` make something of each part: of its n-grams and places.
    fn each_part<P: Send>(
        &self,
        set: &NgramSet,
        stop: &AtomicBool,
        make: impl Fn(&[Run], &[u32]) -> P + Sync,
    ) -> Result<Vec<P>, Stopped> {
        assert!(WordSuffixes::has(set.n));
        // At most `DEPTH`.
        let n = set.n as u8;
        // Words are u32.
        let words = set.first_words_of((self.word_offsets.len() - 1) as u32);
        let [start, end] = [words.start, words.end].map(|w| self.word_offsets[w as usize] as usize);
        let cut = |at: usize| {
            let inside = self.shared[at..].iter().take_while(|&&byte| byte & 15 >= n);
            at + inside.count()
        };
        let mut cuts = vec![start];
        for at in (start + TASK_PLACES..end).step_by(TASK_PLACES) {
            if at >= cuts[cuts.len() - 1] {
                cuts.push(cut(at));
            }
        }
        cuts.push(end);
        let part = |range: &[usize]| {
            check(stop)?;
            let range = range[0]..range[1];
            let runs = runs(n, &self.shared[range.clone()]);
            Ok(make(&runs, &self.places[range]))
        };
        cuts.par_windows(2).map(part).collect()
    }

    /// The words of n-grams.
    fn words_of(&self, n: usize, runs: &[Run], places: &[u32]) -> Vec<u32> {
        // To copy as many words as is known is faster.
        match n {
            2 => self.words_of_n(2, runs, places),
            3 => self.words_of_n(3, runs, places),
            n => self.words_of_n(n, runs, places),
        }
    }

    #[inline(always)]
    fn words_of_n(&self, n: usize, runs: &[Run], places: &[u32]) -> Vec<u32> {
        let mut words = vec![0; runs.len() * n];
        let place = |run: &Run| places[run.start as usize] as usize;
        for (targets, runs) in words.chunks_mut(LOOKED_UP * n).zip(runs.chunks(LOOKED_UP)) {
            let touched = (runs.iter()).fold(0, |touched, run| touched ^ self.text[place(run)]);
            // Reading is all: the value does not matter.
            std::hint::black_box(touched);
            for (index, run) in runs.iter().enumerate() {
                let window = &self.text[place(run)..][..n];
                let target = &mut targets[index * n..][..n];
                for at in 0..n {
                    target[at] = window[at] - 1;
                }
            }
        }
        words
    }

    /// The file of a place.
    #[inline(always)]
    fn file_of(&self, place: u32) -> u32 {
        let mut file = self.files[place as usize / FILE_STEP];
        while self.file_offsets[file as usize + 1] <= place {
            file += 1;
        }
        file
    }
}

impl SuffixSource for WordSuffixes {
    type Error = Infallible;

    fn words(&self) -> u32 {
        // Words are u32.
        self.word_offsets.len() as u32 - 1
    }

    #[inline]
    fn item(&self, place: u32) -> Result<u32, Infallible> {
        Ok(self.text[place as usize])
    }

    #[inline]
    fn place(&self, rank: u32) -> Result<u32, Infallible> {
        Ok(self.places[rank as usize])
    }

    fn is_fully_ordered(&self) -> bool {
        self.is_fully_ordered
    }

    #[inline]
    fn first_rank(&self, word: u32) -> Result<u32, Infallible> {
        Ok(self.word_offsets[word as usize])
    }
}

/// The places of one n-gram.
#[derive(Clone, Copy)]
struct Run {
    start: u32,
    count: u32,
}

/// Cuts places into those of the same n words, by what neighbours share, and leaves out where fewer words follow.
fn runs(n: u8, shared: &[u8]) -> Vec<Run> {
    let starts = |bytes: &[u8]| {
        let bits = bytes.iter().enumerate();
        bits.fold(0, |word, (at, &byte)| word | u64::from(byte & 15 < n) << at)
    };
    let starts: Vec<u64> = shared.chunks(64).map(starts).collect();
    let mut runs: Vec<Run> = Vec::with_capacity(count_bits(&starts));
    // A part has fewer places than a u32 counts.
    for_each_bit(&starts, |start| {
        runs.push(Run {
            start: start as u32,
            count: 0,
        });
    });
    let mut end = shared.len() as u32;
    for run in runs.iter_mut().rev() {
        run.count = end - run.start;
        end = run.start;
    }
    runs.retain(|run| shared[run.start as usize] >> 4 >= n);
    runs
}

/// How many words two windows begin with alike, zeros included.
fn common(a: &Window, b: &Window) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The words of a window that fit beside a place, the first one in the highest bits.
#[derive(Clone, Copy)]
struct Keys {
    words: u32,
    bits: u32,
}

impl Keys {
    /// Keys over `word_count` distinct words.
    fn new(word_count: usize) -> Keys {
        // One more stands for the end of a file.
        let bits = (usize::BITS - word_count.leading_zeros()).max(1);
        let words = ((u128::BITS - PLACE_BITS) / bits).min(DEPTH as u32);
        Keys { words, bits }
    }

    /// The key of the next place, given the last word of it.
    #[inline(always)]
    fn push(self, key: u128, word: u32) -> u128 {
        let mask = (1 << (self.words * self.bits)) - 1;
        (key << self.bits | u128::from(word)) & mask
    }

    fn of(self, window: &Window) -> u128 {
        let words = &window[..self.words as usize];
        words.iter().fold(0, |key, &word| self.push(key, word))
    }

    /// How many words two different keys begin with alike.
    fn common(self, a: u128, b: u128) -> usize {
        let differing = u128::BITS - (a ^ b).leading_zeros();
        // At most `DEPTH`.
        (self.words - differing.div_ceil(self.bits)) as usize
    }
}

/// The words of all files, each plus one, with a zero behind every file, and where the files begin.
fn expand(view: GrammarView<'_>, stop: &AtomicBool) -> Result<(Vec<u32>, Vec<u32>), Stopped> {
    let kept = Expansions::new(view);
    // Parts of roots: range, and whether the file ends there.
    let mut tasks = Vec::new();
    for file in 0..view.files() as u32 {
        let range = view.root_range(file);
        let mut start = range.start;
        loop {
            let end = range.end.min(start + TASK_SYMBOLS);
            tasks.push((start..end, end == range.end));
            start = end;
            if start == range.end {
                break;
            }
        }
    }
    let part = |(range, is_end): &(Range<usize>, bool)| {
        check(stop)?;
        let mut words = Vec::with_capacity(range.len() * 2);
        Expander::new(view, &kept).for_each_piece(range.clone(), |piece| {
            words.extend(piece.iter().map(|word| word + 1));
        });
        words.extend(is_end.then_some(0));
        Ok(words)
    };
    let parts = (tasks.par_iter().map(part)).collect::<Result<Vec<Vec<u32>>, Stopped>>()?;
    drop(kept);
    let mut file_offsets = vec![0];
    let mut end = 0;
    for ((_, is_end), part) in tasks.iter().zip(&parts) {
        end += part.len();
        if *is_end {
            // Words and files together are fewer than a u32 counts.
            file_offsets.push(end as u32);
        }
    }
    let mut text = on_huge_pages(Vec::with_capacity(end));
    parts.iter().for_each(|part| text.extend_from_slice(part));
    Ok((text, file_offsets))
}

/// The file of every [`FILE_STEP`]-th item of a text.
fn files_of(file_offsets: &[u32], length: usize) -> Vec<u32> {
    let mut files = Vec::with_capacity(length.div_ceil(FILE_STEP));
    let mut file = 0;
    for place in (0..length).step_by(FILE_STEP) {
        while file_offsets[file + 1] as usize <= place {
            file += 1;
        }
        // Files are u32.
        files.push(file as u32);
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::test_grammars::{self, TestGrammar, in_pools};
    use crate::ngrams::all_ngrams::testing::{words_and_counts, words_and_rows};
    use crate::{Lengths, RuleEnds, WordGrammar, WordUses, ngram_counts, ngram_file_counts};
    use crate::{ngram_count, ngram_positions};

    static GO: AtomicBool = AtomicBool::new(false);

    fn suffixes(words: &WordGrammar, round_bytes: usize) -> WordSuffixes {
        WordSuffixes::new(words.view(), words.weights(), round_bytes, &GO).expect("not stopped")
    }

    /// Compares with the windows of the expansion, sorted, and with the answers of the grammar.
    fn check(grammar: &TestGrammar) {
        let words = grammar.word_grammar();
        let (view, weights) = (words.view(), words.weights());
        let found = suffixes(&words, usize::MAX);
        assert_eq!(suffixes(&words, 1), found);
        let files = grammar.all_file_words();
        let mut expected = Vec::new();
        for (file, words) in (0u32..).zip(&files) {
            let ends = |at: usize| words.len().min(at + DEPTH);
            expected.extend((0..words.len()).map(|at| (&words[at..ends(at)], file, at)));
        }
        expected.sort();
        let place = |&place: &u32| {
            let file = found.file_of(place);
            (file, (place - found.file_offsets[file as usize]) as usize)
        };
        assert!((found.places.iter().map(place)).eq(expected.iter().map(|e| (e.1, e.2))));
        let uses = WordUses::new(view);
        for n in 1..=DEPTH {
            let by_grammar = ngram_counts(view, weights, n, usize::MAX, &GO).expect("not stopped");
            let (keys, counts) = words_and_counts(by_grammar);
            let by_order = found.ngram_counts(n, &GO).expect("not stopped");
            assert_eq!(words_and_counts(by_order), (keys.clone(), counts.clone()));
            let first_words = view.terminal_count / 3..view.terminal_count / 3 * 2;
            let some = NgramSet { n, first_words };
            let by_grammar = ngram_counts(view, weights, some.clone(), usize::MAX, &GO);
            assert_eq!(
                words_and_counts(found.ngram_counts(some.clone(), &GO).expect("not stopped")),
                words_and_counts(by_grammar.expect("not stopped"))
            );
            let by_grammar =
                ngram_file_counts(view, weights, &uses, some.clone(), FileOrder::Count, 1, &GO);
            let by_order = found.ngram_file_counts(some, FileOrder::Count, &GO);
            assert_eq!(
                words_and_rows(n, by_order.expect("not stopped")),
                words_and_rows(n, by_grammar.expect("not stopped"))
            );
            for order in [FileOrder::File, FileOrder::Count] {
                let by_grammar = ngram_file_counts(view, weights, &uses, n, order, usize::MAX, &GO);
                let by_order = found.ngram_file_counts(n, order, &GO);
                assert_eq!(
                    words_and_rows(n, by_order.expect("not stopped")),
                    words_and_rows(n, by_grammar.expect("not stopped"))
                );
            }
            let lengths = Lengths::new(view, |_| 1);
            let ends = RuleEnds::new(view);
            for (key, &count) in keys.chunks(n).zip(&counts).step_by(1 + counts.len() / 40) {
                assert_eq!(found.count(key), u64::from(count));
                let mut other = key.to_vec();
                other[n - 1] = other[n - 1].wrapping_add(1) % (view.terminal_count + 1);
                for key in [key, &other[..]] {
                    let positions = match n {
                        // The grammar's look-up is for two words or more.
                        1 => continue,
                        _ => ngram_positions(view, &uses, &ends, &lengths, key, &GO),
                    };
                    assert_eq!(found.positions(key), positions.expect("not stopped"));
                    let count = ngram_count(view, &uses, &ends, weights, key, &GO);
                    assert_eq!(found.count(key), count.expect("not stopped"));
                }
            }
        }
        assert_eq!(found.count(&[]), 0);
        assert_eq!(found.count(&[view.terminal_count]), 0);
    }

    #[test]
    fn suffixes_of_small_grammars_answer_as_the_grammar_does() {
        (test_grammars::all_small().step_by(7)).for_each(|grammar| check(&grammar));
    }

    #[test]
    fn suffixes_of_random_and_extreme_grammars_answer_as_the_grammar_does() {
        test_grammars::random_many(20).for_each(|grammar| check(&grammar));
        check(&test_grammars::deep_chain(200));
        check(&test_grammars::long_body(2_000));
        check(&test_grammars::runs(9));
        check(&test_grammars::many_files(40));
        check(&test_grammars::fibonacci(15));
        check(&test_grammars::thue_morse(9));
        check(&test_grammars::repeated_text(3));
    }

    #[test]
    fn keys_hold_as_many_words_as_fit() {
        for (words, bits, count) in [(0, 1, 8), (1, 1, 8), (4_095, 12, 8), (4_096, 13, 7)] {
            assert_eq!(
                (Keys::new(words).bits, Keys::new(words).words),
                (bits, count)
            );
        }
        let keys = Keys::new(u32::MAX as usize);
        assert_eq!((keys.bits, keys.words), (32, 3));
        let key = |words: [u32; 3]| words.iter().fold(7, |key, &word| keys.push(key, word));
        assert_eq!(keys.common(key([1, 2, 3]), key([1, 2, 4])), 2);
        assert_eq!(keys.common(key([1, 2, 3]), key([1, 9, 3])), 1);
        assert_eq!(keys.common(key([u32::MAX, 2, 3]), key([1, 2, 3])), 0);
    }

    #[test]
    fn suffixes_are_the_same_for_1_2_and_16_threads() {
        let words = test_grammars::repeated_text(40).word_grammar();
        in_pools(|| suffixes(&words, 1 << 12));
        let found = suffixes(&words, usize::MAX);
        in_pools(|| words_and_counts(found.ngram_counts(3, &GO).expect("not stopped")));
    }

    #[test]
    fn a_set_flag_stops() {
        let words = test_grammars::random(5).word_grammar();
        let stop = AtomicBool::new(true);
        let found = WordSuffixes::new(words.view(), words.weights(), usize::MAX, &stop);
        assert_eq!(found, Err(Stopped));
        let found = suffixes(&words, usize::MAX);
        assert_eq!(found.ngram_counts(2, &stop), Err(Stopped));
    }
}
