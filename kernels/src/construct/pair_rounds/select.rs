//! Which positions a round takes: two passes of local maxima of priority.
//!
//! The invariant: what is taken at a position depends on the priorities of at
//! most three positions to either side, so chunks with what is around them are
//! worked on alone. Nothing is replaced here.
//!
//! A position is a bit. A pass over a word of 64 positions is a few shifts and
//! ands; the priorities of two neighbours are compared only where both are
//! candidates, once for both passes.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use rayon::prelude::*;

use crate::construct::pair_rounds::chunked::{BEFORE, Chunk, Chunked};
use crate::construct::pairs::{mix, pair_at};
use crate::numbers::bits::{Bits, bits_of, count_bits, for_each_bit};

/// Flag in `uses`: the pair was taken more than once.
pub(super) const AGAIN: u32 = 1 << 31;

/// What priorities are made of.
pub(super) struct Priorities<'a> {
    /// By pair number.
    pub(super) counts: &'a [u32],
    /// Numbers of the pairs that reach the threshold.
    pub(super) hot: &'a Bits,
    /// Leave the counts out.
    pub(super) mix_only: bool,
}

/// What was taken in a chunk.
pub(super) struct Taken {
    /// Positions, counted from the chunk's first, 64 a word.
    words: Vec<u64>,
    /// Pair numbers in the order of positions; after [`Taken::name`] ids of rules.
    ids: Vec<u32>,
}

impl Taken {
    /// How many positions were taken.
    pub(super) fn count(&self) -> usize {
        self.ids.len()
    }

    /// Whether a position was taken.
    pub(super) fn contains(&self, position: usize) -> bool {
        let word = self.words.get(position / 64);
        word.is_some_and(|word| word >> (position % 64) & 1 != 0)
    }

    /// Visits what was taken: position, and number or id.
    #[inline(always)]
    pub(super) fn for_each(&self, mut visit: impl FnMut(usize, u32)) {
        let mut ids = self.ids.iter();
        for_each_bit(&self.words, |position| {
            if let Some(&id) = ids.next() {
                visit(position, id);
            }
        });
    }

    /// Turns pair numbers into ids by `ids`, and drops what has id 0 there.
    pub(super) fn name(&mut self, ids: &[AtomicU32]) {
        let mut read = 0;
        let mut kept = 0;
        for word in &mut self.words {
            for bit in bits_of(*word) {
                let id = ids[self.ids[read] as usize].load(Relaxed);
                self.ids[kept] = id;
                read += 1;
                kept += usize::from(id != 0);
                *word &= !(u64::from(id == 0) << bit);
            }
        }
        self.ids.truncate(kept);
    }
}

/// Takes positions in each chunk.
///
/// `uses` must be zeros. Afterwards it holds one place of each pair that was taken,
/// as 1 + an index into the symbols, flagged with [`AGAIN`] if there are more.
pub(super) fn select(chunked: &Chunked, priorities: &Priorities, uses: &[AtomicU32]) -> Vec<Taken> {
    let filter = Filter::of(priorities.hot);
    let select = |masks: &mut Masks, chunk: &Chunk| {
        let around = chunk.with_surroundings();
        let symbols = &chunked.symbols[around.clone()];
        let numbers = &chunked.numbers[around.start..around.end - 1];
        masks.find_candidates(numbers, priorities.hot, &filter);
        masks.compare(symbols, numbers, priorities);
        masks.take_maxima();
        masks.take_maxima();
        let taken = masks.collect(&numbers[BEFORE..BEFORE + chunk.length]);
        taken.for_each(|position, number| {
            note(&uses[number as usize], (chunk.begin + position) as u32);
        });
        taken
    };
    let chunks = chunked.chunks.par_iter();
    chunks.map_init(Masks::default, select).collect()
}

/// Notes that a pair was taken. Writes at most a few times, however often that is.
#[inline]
fn note(uses: &AtomicU32, place: u32) {
    let seen = uses.load(Relaxed);
    if seen & AGAIN != 0 {
        return;
    }
    let first = seen == 0
        && uses
            .compare_exchange(0, place + 1, Relaxed, Relaxed)
            .is_ok();
    if !first {
        uses.fetch_or(AGAIN, Relaxed);
    }
}

/// A superset of a set of numbers, small enough for the nearest cache: numbers modulo its size.
struct Filter {
    words: Box<[u64; FILTER_WORDS]>,
}

const FILTER_WORDS: usize = 1 << 11;

impl Filter {
    fn of(set: &Bits) -> Filter {
        let mut words = Box::new([0; FILTER_WORDS]);
        for (w, word) in set.words().iter().enumerate() {
            words[w % FILTER_WORDS] |= word;
        }
        Filter { words }
    }

    #[inline(always)]
    fn get(&self, number: u32) -> u64 {
        (self.words[(number >> 6) as usize % FILTER_WORDS] >> (number & 63)) & 1
    }
}

/// Sets of positions of one chunk and its surroundings, 64 a word, an empty word before and behind.
#[derive(Default)]
struct Masks {
    /// Free positions with a priority.
    candidates: Vec<u64>,
    /// Candidates, at first, that beat the candidate behind them.
    greater: Vec<u64>,
    taken: Vec<u64>,
}

impl Masks {
    fn find_candidates(&mut self, numbers: &[u32], hot: &Bits, filter: &Filter) {
        self.candidates.clear();
        self.candidates.push(0);
        let (blocks, rest) = numbers.as_chunks::<64>();
        let word = |block: &[u32]| {
            let numbers = block.iter().enumerate();
            let passed = numbers.fold(0, |word, (k, &number)| word | filter.get(number) << k);
            // A number flagged as odd is beyond the end of the set.
            bits_of(passed).fold(0, |word, k| word | hot.get(block[k as usize]) << k)
        };
        self.candidates
            .extend(blocks.iter().map(|block| word(block)));
        self.candidates.extend(rest.chunks(64).map(word));
        self.candidates.push(0);
        self.taken.clear();
        self.taken.resize(self.candidates.len(), 0);
    }

    fn compare(&mut self, symbols: &[u32], numbers: &[u32], priorities: &Priorities) {
        self.greater.clear();
        self.greater.push(0);
        for (w, window) in self.candidates[1..].windows(2).enumerate() {
            let both = window[0] & (window[0] >> 1 | window[1] << 63);
            let mut greater = 0;
            for bit in bits_of(both) {
                let i = w * 64 + bit as usize;
                let count = priorities.counts[numbers[i] as usize];
                let count_behind = priorities.counts[numbers[i + 1] as usize];
                let wins = if count == count_behind || priorities.mix_only {
                    mix(pair_at(symbols, i)) > mix(pair_at(symbols, i + 1))
                } else {
                    count > count_behind
                };
                greater |= u64::from(wins) << bit;
            }
            self.greater.push(greater);
        }
        self.greater.push(0);
    }

    /// Takes each candidate that beats its neighbours; it and they are free no more.
    fn take_maxima(&mut self) {
        let mut maxima_before = 0;
        let mut maxima = self.maxima(0, 1);
        for w in 1..self.candidates.len() - 1 {
            let candidates = self.candidates[w];
            let maxima_behind = if w + 2 < self.candidates.len() {
                self.maxima(candidates, w + 1)
            } else {
                0
            };
            let behind_maxima = maxima << 1 | maxima_before >> 63;
            let before_maxima = maxima >> 1 | maxima_behind << 63;
            self.taken[w] |= maxima;
            self.candidates[w] = candidates & !(maxima | behind_maxima | before_maxima);
            maxima_before = maxima;
            maxima = maxima_behind;
        }
    }

    /// The maxima of a word, given the candidates of the word before.
    fn maxima(&self, candidates_before: u64, w: usize) -> u64 {
        let (candidates, greater) = (self.candidates[w], self.greater[w]);
        let greater_before = self.greater[w - 1] & candidates_before;
        let candidates_behind = candidates >> 1 | self.candidates[w + 1] << 63;
        let lose_to_before = (greater & candidates) << 1 | greater_before >> 63;
        let lose_to_behind = candidates_behind & !greater;
        candidates & !lose_to_before & !lose_to_behind
    }

    /// What was taken in the chunk, which has these numbers.
    fn collect(&self, numbers: &[u32]) -> Taken {
        let windows = self.taken[1..].windows(2);
        let shifted = windows.map(|w| w[0] >> BEFORE | w[1] << (64 - BEFORE));
        let mut words: Vec<u64> = shifted.take(numbers.len().div_ceil(64)).collect();
        if let Some(last) = words.last_mut() {
            *last &= u64::MAX >> (numbers.len().wrapping_neg() % 64);
        }
        let mut ids = Vec::with_capacity(count_bits(&words));
        for_each_bit(&words, |position| ids.push(numbers[position]));
        Taken { words, ids }
    }
}
