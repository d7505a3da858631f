//! Suffixes in the order of all words that follow, and questions of any length to them.
//!
//! In   a suffix array eight words deep
//! Out  the places that share eight words with a neighbour, in order of all their words; where a phrase of any length stands, the
//!      words behind it, the longest match of a text
//! Work O(places that share eight words) a round, in as many rounds as the longest repeat has binary digits (prefix doubling:
//!      Manber, Myers 1990; Larsson, Sadakane 1999); a question reads O(log places) of them
//!
//! The order holds only the places that eight words do not tell apart: in prose few, so it costs a bit a word and 4 bytes for each
//! of these. The invariant: a group of equal eight words has the same ranks here and in the suffix array. Places that are equal to
//! the end of their files are in order of place. Without the order the same questions compare all places of a group,
//! unless the suffix array was read back from an index, which has its places in the order of all words.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use rayon::prelude::*;

use super::find::find_ranks;
use super::{DEPTH, WordSuffixes, runs};
use crate::stop::{Stopped, check};

/// Places that one task sorts, about.
const TASK_PLACES: usize = 1 << 16;

/// Groups from this size on are sorted by all threads.
const PARALLEL_PLACES: usize = 1 << 16;

/// The order of the places that share eight words with a neighbour.
#[derive(Debug, PartialEq, Eq)]
pub struct LongOrder {
    /// The ranks of these places.
    grouped: RankedBits,
    /// For each of them its place, in order of all words.
    places: Vec<u32>,
}

/// A set of numbers, with how many of them are below one.
#[derive(Debug, PartialEq, Eq)]
struct RankedBits {
    /// 64 numbers a word, the lowest in bit 0 of the first.
    words: Vec<u64>,
    /// `[words]`: the numbers in all words before.
    before: Vec<u32>,
}

impl RankedBits {
    fn new(words: Vec<u64>) -> RankedBits {
        let mut count = 0;
        let before = words.iter().map(|word| {
            let before = count;
            count += word.count_ones();
            before
        });
        RankedBits {
            before: before.collect(),
            words,
        }
    }

    fn has(&self, number: u32) -> bool {
        self.words[(number >> 6) as usize] >> (number & 63) & 1 == 1
    }

    /// How many numbers are below one.
    fn below(&self, number: u32) -> usize {
        let (word, bit) = ((number >> 6) as usize, number & 63);
        let inside = (self.words[word] & ((1 << bit) - 1)).count_ones();
        (self.before[word] + inside) as usize
    }
}

/// Places that are equal as far as they were compared.
#[derive(Clone, Copy)]
struct Group {
    /// The rank of the first.
    rank: u32,
    /// Its number among the places of the order.
    at: u32,
    count: u32,
}

impl LongOrder {
    /// Sorts the places that share eight words.
    ///
    /// Memory: beside the result 4 bytes a word, and 4 for each place of the result.
    ///
    /// # Errors
    /// If it is stopped.
    pub fn new(suffixes: &WordSuffixes, stop: &AtomicBool) -> Result<LongOrder, Stopped> {
        let shared = &suffixes.shared[..];
        let is_equal = |rank: usize| {
            shared
                .get(rank)
                .is_some_and(|&byte| usize::from(byte & 15) == DEPTH)
        };
        let word = |first: usize| {
            let ranks = (first..shared.len()).take(64).enumerate();
            ranks.fold(0, |word, (bit, rank)| {
                word | u64::from(is_equal(rank) || is_equal(rank + 1)) << bit
            })
        };
        let firsts = (0..shared.len()).into_par_iter().step_by(64);
        let grouped = RankedBits::new(firsts.map(word).collect());
        let mut groups: Vec<Group> = Vec::new();
        let mut places: Vec<u32> = Vec::new();
        crate::numbers::bits::for_each_bit(&grouped.words, |rank| {
            match groups.last_mut() {
                Some(group) if is_equal(rank) => group.count += 1,
                // Ranks are u32.
                _ => groups.push(Group {
                    rank: rank as u32,
                    at: places.len() as u32,
                    count: 1,
                }),
            }
            places.push(suffixes.places[rank]);
        });
        let mut order = LongOrder { grouped, places };
        if groups.is_empty() {
            return Ok(order);
        }
        let ranks = first_ranks(suffixes, stop)?;
        let mut found = vec![0; order.places.len()];
        let mut depth = DEPTH;
        while !groups.is_empty() {
            groups = order.split(suffixes, &ranks, &mut found, (&groups, depth), stop)?;
            depth *= 2;
        }
        Ok(order)
    }

    /// Size of the arrays.
    pub fn bytes(&self) -> usize {
        let RankedBits { words, before } = &self.grouped;
        size_of_val(&words[..]) + size_of_val(&before[..]) + size_of_val(&self.places[..])
    }

    /// Sorts groups that are equal in `depth` words by the ranks of the suffixes behind these, and returns the groups that are
    /// equal in twice as many and go on. `found` has room for a rank of each place of the order.
    fn split(
        &mut self,
        suffixes: &WordSuffixes,
        ranks: &[AtomicU32],
        found: &mut [u32],
        (groups, depth): (&[Group], usize),
        stop: &AtomicBool,
    ) -> Result<Vec<Group>, Stopped> {
        let mut tasks = Vec::new();
        let (mut rest, mut taken) = ((&mut self.places[..], &mut *found), 0);
        for groups in cut(groups) {
            let (first, last) = (groups[0], groups[groups.len() - 1]);
            let (start, end) = (first.at as usize, (last.at + last.count) as usize);
            let (places, found) = rest;
            let (places, behind) = places[start - taken..].split_at_mut(end - start);
            let (found, found_behind) = found[start - taken..].split_at_mut(end - start);
            tasks.push((groups, places, found));
            (rest, taken) = ((behind, found_behind), end);
        }
        let task =
            |keys: &mut Vec<u64>, (groups, places, found): (&[Group], &mut [u32], &mut [u32])| {
                check(stop)?;
                let mut next = Vec::new();
                for group in groups {
                    let start = (group.at - groups[0].at) as usize;
                    let range = start..start + group.count as usize;
                    let places = &mut places[range.clone()];
                    keys.clear();
                    keys.extend(places.iter().map(|&place| {
                        let behind = ranks[place as usize + depth].load(Relaxed);
                        u64::from(behind) << 32 | u64::from(place)
                    }));
                    if keys.len() >= PARALLEL_PLACES {
                        keys.par_sort_unstable();
                    } else {
                        keys.sort_unstable();
                    }
                    let (found, mut first) = (&mut found[range], 0);
                    for run in keys.chunk_by(|left, right| left >> 32 == right >> 32) {
                        for (at, &key) in (first..).zip(run) {
                            // The low half is the place.
                            places[at] = key as u32;
                            found[at] = group.rank + first as u32 + 1;
                        }
                        let place = places[first] as usize;
                        // Otherwise the files of all of them end before twice the depth, in the same words.
                        if run.len() > 1 && place + 2 * depth <= suffixes.end_of(place as u32) {
                            next.push(Group {
                                rank: group.rank + first as u32,
                                at: group.at + first as u32,
                                count: run.len() as u32,
                            });
                        }
                        first += run.len();
                    }
                }
                Ok(next)
            };
        let next = tasks.into_par_iter().map_init(Vec::new, task);
        let next = next.collect::<Result<Vec<Vec<Group>>, Stopped>>()?;
        groups.par_iter().with_min_len(64).for_each(|group| {
            let range = group.at as usize..(group.at + group.count) as usize;
            for (&place, &rank) in self.places[range.clone()].iter().zip(&found[range]) {
                ranks[place as usize].store(rank, Relaxed);
            }
        });
        Ok(next.concat())
    }
}

/// For each item of the text one more than the rank of the first place that is equal in eight words; 0 behind the ends of files.
fn first_ranks(suffixes: &WordSuffixes, stop: &AtomicBool) -> Result<Vec<AtomicU32>, Stopped> {
    let ranks: Vec<AtomicU32> = (0..suffixes.text.len())
        .into_par_iter()
        .map(|_| AtomicU32::new(0))
        .collect();
    let is_same = |rank: usize| suffixes.shared[rank] >> 4 == suffixes.shared[rank] & 15;
    let tasks = (0..suffixes.places.len())
        .into_par_iter()
        .step_by(TASK_PLACES);
    tasks.try_for_each(|start| {
        check(stop)?;
        let mut first = start;
        while first > 0 && is_same(first) {
            first -= 1;
        }
        let end = suffixes.places.len().min(start + TASK_PLACES);
        for rank in start..end {
            if !is_same(rank) {
                first = rank;
            }
            // Ranks are u32.
            ranks[suffixes.places[rank] as usize].store(first as u32 + 1, Relaxed);
        }
        Ok(())
    })?;
    Ok(ranks)
}

/// Cuts groups into tasks.
fn cut(mut groups: &[Group]) -> impl Iterator<Item = &[Group]> {
    std::iter::from_fn(move || {
        let mut places = 0;
        let count = groups.iter().take_while(|group| {
            let fits = places < TASK_PLACES;
            places += group.count as usize;
            fits
        });
        let count = count.count();
        let (task, rest) = groups.split_at(count);
        groups = rest;
        (!task.is_empty()).then_some(task)
    })
}

/// A suffix array that answers for any number of words.
#[derive(Clone, Copy)]
pub struct LongSuffixes<'a> {
    pub(super) suffixes: &'a WordSuffixes,
    /// Without it, the places of a group are compared one by one, unless the suffix array has them in the order of all words.
    order: Option<&'a LongOrder>,
    /// Ranges of places, ascending and apart: words from `start` to before `end` are an occurrence of theirs only if `end` is at
    /// most the start of each of these ranges or `start` at least its end. No occurrence crosses an empty range.
    broken: &'a [(u32, u32)],
}

impl<'a> LongSuffixes<'a> {
    /// All places but those that `broken` rules out.
    pub fn new(
        suffixes: &'a WordSuffixes,
        order: Option<&'a LongOrder>,
        broken: &'a [(u32, u32)],
    ) -> LongSuffixes<'a> {
        LongSuffixes {
            suffixes,
            order,
            broken,
        }
    }

    /// How often a phrase occurs.
    pub fn count(&self, words: &[u32]) -> u64 {
        self.with_places(words, |places| match self.broken {
            [] => places.len() as u64,
            _ => {
                let valid = places.iter();
                valid
                    .filter(|&&place| self.is_whole(place, words.len()))
                    .count() as u64
            }
        })
    }

    /// Where a phrase occurs: file and number of its first word in it, ascending.
    pub fn positions(&self, words: &[u32]) -> Vec<(u32, u64)> {
        let mut places = self.with_places(words, <[u32]>::to_vec);
        places.retain(|&place| self.is_whole(place, words.len()));
        places.sort_unstable();
        let positions = places.into_iter();
        positions
            .map(|place| self.suffixes.position_of(place))
            .collect()
    }

    /// The first of [`LongSuffixes::positions`].
    ///
    /// Work: reads all places of the phrase, one after the other.
    pub fn first_position(&self, words: &[u32]) -> Option<(u32, u64)> {
        let first = self.with_places(words, |places| match self.broken {
            [] => places.iter().copied().min(),
            _ => {
                let places = places.iter().copied();
                places
                    .filter(|&place| self.is_whole(place, words.len()))
                    .min()
            }
        });
        first.map(|place| self.suffixes.position_of(place))
    }

    /// The words that stand behind a phrase of at least one word, ascending, with how often.
    pub fn next_words(&self, words: &[u32]) -> Vec<(u32, u64)> {
        let distance = words.len();
        let is_sorted = distance < DEPTH || self.is_fully_ordered();
        if self.broken.is_empty() && distance < DEPTH {
            let ranks = self.suffixes.find(words);
            // Below `DEPTH`.
            let runs = runs(distance as u8 + 1, &self.suffixes.shared[ranks.clone()]);
            let places = &self.suffixes.places[ranks];
            let next = runs.iter().map(|run| {
                let place = places[run.start as usize] as usize;
                (
                    self.suffixes.text[place + distance] - 1,
                    u64::from(run.count),
                )
            });
            return next.collect();
        }
        self.with_places(words, |places| {
            let whole = places
                .iter()
                .filter(|&&place| self.is_whole(place, distance + 1));
            let next = whole.map(|&place| self.suffixes.text[place as usize + distance]);
            let mut next: Vec<u32> = next.filter(|&word| word > 0).collect();
            if !is_sorted {
                next.sort_unstable();
            }
            let runs = next.chunk_by(|left, right| left == right);
            runs.map(|run| (run[0] - 1, run.len() as u64)).collect()
        })
    }

    /// The longest beginning of some words that occurs, by its length, and a place of it; none if the first word does not occur.
    pub fn longest(&self, words: &[u32]) -> Option<(usize, u32)> {
        let known = words.iter().take_while(|&&word| self.is_word(word));
        let words = &words[..known.count()];
        let (&first, _) = words.split_first()?;
        let suffixes = self.suffixes;
        let offsets = &suffixes.word_offsets[first as usize..];
        let ranks = offsets[0] as usize..offsets[1] as usize;
        let head = &words[..words.len().min(DEPTH)];
        let of_word = &suffixes.places[ranks.clone()];
        let compare = |place: u32| self.compare(place, head, 1);
        let start = ranks.start + of_word.partition_point(|&place| compare(place).1.is_lt());
        let mut best = (0, 0);
        let mut consider = |place: u32| {
            let (shared, _) = self.compare(place, words, 1);
            let whole = shared.min(self.whole_words(place));
            if whole > best.0 {
                best = (whole, place);
            }
            // Places further away in the order share no more.
            shared > best.0
        };
        let (mut before, mut behind) = (start, start);
        if words.len() > DEPTH {
            let rest = &suffixes.places[start..ranks.end];
            let count = rest.partition_point(|&place| compare(place).1.is_eq());
            match self.group_in_order(start..start + count) {
                _ if count == 0 => {}
                Some(group) => {
                    let is_less = |&place: &u32| self.compare(place, words, DEPTH).1.is_lt();
                    before = start + group.partition_point(is_less);
                    behind = before;
                }
                None => {
                    rest[..count].iter().for_each(|&place| {
                        consider(place);
                    });
                    behind = start + count;
                }
            }
        }
        let place = |rank: usize| self.place(rank);
        let _ = (ranks.start..before)
            .rev()
            .all(|rank| consider(place(rank)));
        let _ = (behind..ranks.end).all(|rank| consider(place(rank)));
        (best.0 > 0).then_some(best)
    }

    fn is_word(&self, word: u32) -> bool {
        (word as usize) < self.suffixes.word_offsets.len() - 1
    }

    /// Whether all words order places.
    pub fn is_fully_ordered(&self) -> bool {
        self.suffixes.is_fully_ordered || self.order.is_some()
    }

    /// The places of a group of equal eight words, if they are in order of all words.
    fn group_in_order(&self, ranks: Range<usize>) -> Option<&'a [u32]> {
        match self.order {
            // One place alone is in no group.
            Some(order) if !self.suffixes.is_fully_ordered && ranks.len() > 1 => {
                // Ranks are u32.
                let at = order.grouped.below(ranks.start as u32);
                Some(&order.places[at..at + ranks.len()])
            }
            _ if self.is_fully_ordered() => Some(&self.suffixes.places[ranks]),
            _ => None,
        }
    }

    /// The places in the order of ranks.
    pub fn ranked_places(&self) -> impl Iterator<Item = u32> + Clone + use<'a> {
        let all = *self;
        (0..all.suffixes.places.len()).map(move |rank| all.place(rank))
    }

    /// The place of a rank.
    pub(super) fn place(&self, rank: usize) -> u32 {
        match self.order {
            // Ranks are u32.
            Some(order) if !self.suffixes.is_fully_ordered && order.grouped.has(rank as u32) => {
                order.places[order.grouped.below(rank as u32)]
            }
            _ => self.suffixes.places[rank],
        }
    }

    /// How many of some words stand at a place, of which the first `from` do, and how what stands there compares.
    fn compare(&self, place: u32, words: &[u32], from: usize) -> (usize, Ordering) {
        let text = &self.suffixes.text[place as usize + from..];
        for (distance, (item, &word)) in (from..).zip(text.iter().zip(&words[from..])) {
            // A zero is below any word, so what is behind the end of a file is never examined.
            let order = item.cmp(&(word + 1));
            if order.is_ne() {
                return (distance, order);
            }
        }
        (words.len(), Ordering::Equal)
    }

    /// Calls `ask` with the places of a phrase, broken ones included.
    fn with_places<A>(&self, words: &[u32], ask: impl FnOnce(&[u32]) -> A) -> A {
        if !words.iter().all(|&word| self.is_word(word)) {
            return ask(&[]);
        }
        let head = &words[..words.len().min(DEPTH)];
        let Ok(ranks) = find_ranks(self.suffixes, head);
        let ranks = ranks.start as usize..ranks.end as usize;
        let group = &self.suffixes.places[ranks.clone()];
        if words.len() < DEPTH {
            return ask(group);
        }
        match self.group_in_order(ranks) {
            Some(group) => ask(&group[self.range_of(group, words)]),
            None if words.len() == DEPTH => ask(group),
            None => {
                let same = |&&place: &&u32| self.compare(place, words, DEPTH).1.is_eq();
                ask(&group
                    .iter()
                    .copied()
                    .filter(|place| same(&place))
                    .collect::<Vec<u32>>())
            }
        }
    }

    /// The places of a phrase in a group in order.
    fn range_of(&self, group: &[u32], words: &[u32]) -> Range<usize> {
        let order = |place: u32| self.compare(place, words, DEPTH).1;
        let start = group.partition_point(|&place| order(place).is_lt());
        let count = group[start..].partition_point(|&place| order(place).is_eq());
        start..start + count
    }

    /// How many words from a place on no broken range touches.
    fn whole_words(&self, place: u32) -> usize {
        let next = self.broken.partition_point(|&(_, end)| end <= place);
        match self.broken.get(next) {
            None => usize::MAX,
            Some(&(start, _)) => start.saturating_sub(place) as usize,
        }
    }

    fn is_whole(&self, place: u32, words: usize) -> bool {
        self.broken.is_empty() || self.whole_words(place) >= words
    }
}

impl WordSuffixes {
    /// The end of the file of a place.
    pub(super) fn end_of(&self, place: u32) -> usize {
        self.file_offsets[self.file_of(place) as usize + 1] as usize - 1
    }
}

#[cfg(test)]
mod tests {
    use super::super::find::{count_places, find_longest, find_next_words, find_places};
    use super::*;
    use crate::grammar::test_grammars::{self, TestGrammar, in_pools};

    static GO: AtomicBool = AtomicBool::new(false);

    fn of_files(files: &[Vec<u32>], words: u32) -> (WordSuffixes, LongOrder) {
        let files = files.iter().map(|words| &words[..]);
        let suffixes = WordSuffixes::of_files(files, words, 1 << 20, &GO).expect("not stopped");
        let order = LongOrder::new(&suffixes, &GO).expect("not stopped");
        (suffixes, order)
    }

    /// The same suffix array with its places in the order of all words.
    fn fully_ordered(suffixes: &WordSuffixes, order: &LongOrder) -> WordSuffixes {
        let all = LongSuffixes::new(suffixes, Some(order), &[]);
        let arrays = suffixes.arrays();
        let low = arrays.shared.iter().map(|byte| byte & 15);
        let ordered = WordSuffixes::of_arrays(
            suffixes.file_offsets.len() - 1,
            arrays.text.to_vec(),
            all.ranked_places().collect(),
            arrays.word_offsets.to_vec(),
            low.collect(),
            true,
        );
        ordered.expect("arrays of a suffix array")
    }

    /// What [`find`](super::super::find) answers, which knows no broken places.
    fn check_found(suffixes: &WordSuffixes, words: &[u32]) {
        let Ok(count) = count_places(suffixes, words);
        let expected = places(suffixes, &[], words);
        assert_eq!(count, expected.len() as u64);
        let Ok(mut found) = find_places(suffixes, words);
        found.sort_unstable();
        assert_eq!(found, expected);
        let all = LongSuffixes::new(suffixes, None, &[]);
        assert_eq!(find_next_words(suffixes, words), Ok(all.next_words(words)));
        if suffixes.is_fully_ordered {
            let Ok(longest) = find_longest(suffixes, words);
            let length = longest.map(|(length, place)| {
                assert!(places(suffixes, &[], &words[..length]).contains(&place));
                length
            });
            assert_eq!(length, all.longest(words).map(|(length, _)| length));
        }
    }

    /// All whole occurrences of a phrase.
    fn places(suffixes: &WordSuffixes, broken: &[(u32, u32)], words: &[u32]) -> Vec<u32> {
        let items: Vec<u32> = words.iter().map(|word| word.wrapping_add(1)).collect();
        let windows = suffixes.text.windows(items.len());
        let same = (0..).zip(windows).filter(|(_, window)| *window == items);
        let is_whole = |&place: &u32| {
            let end = place + words.len() as u32;
            (broken.iter()).all(|&(from, to)| end <= from || place >= to)
        };
        same.map(|(place, _)| place).filter(is_whole).collect()
    }

    fn check_questions(found: LongSuffixes<'_>, words: &[u32]) {
        let (suffixes, broken) = (found.suffixes, found.broken);
        if broken.is_empty() && found.order.is_none() {
            check_found(suffixes, words);
        }
        let expected = places(suffixes, broken, words);
        assert_eq!(found.count(words), expected.len() as u64);
        let positions = expected.iter().map(|&place| suffixes.position_of(place));
        assert!(positions.clone().eq(found.positions(words)));
        assert_eq!(found.first_position(words), positions.clone().next());
        let mut next: Vec<(u32, u64)> = Vec::new();
        for word in 0..suffixes.word_offsets.len() as u32 - 1 {
            let count = places(suffixes, broken, &[words, &[word]].concat()).len();
            next.extend((count > 0).then_some((word, count as u64)));
        }
        assert_eq!(found.next_words(words), next);
        let longest = (1..=words.len())
            .rev()
            .map(|length| (length, places(suffixes, broken, &words[..length])))
            .find(|(_, places)| !places.is_empty());
        match (longest, found.longest(words)) {
            (None, None) => {}
            (Some((length, places)), Some((found, place))) => {
                assert_eq!(found, length);
                assert!(places.contains(&place));
            }
            other => panic!("{words:?}: {other:?}"),
        }
    }

    fn check(files: &[Vec<u32>], words: u32) {
        let (suffixes, order) = of_files(files, words);
        let all = LongSuffixes::new(&suffixes, Some(&order), &[]);
        // The order is that of all words, then of places.
        let rank = |rank: usize| {
            let place = all.place(rank);
            (
                &suffixes.text[place as usize..suffixes.end_of(place)],
                place,
            )
        };
        for at in 1..suffixes.places.len() {
            let (left, right) = (rank(at - 1), rank(at));
            let is_short = left.0.len() < DEPTH || right.0.len() < DEPTH;
            assert!(
                left < right || (is_short && left.0 == right.0),
                "{left:?} {right:?}"
            );
        }
        let ordered = fully_ordered(&suffixes, &order);
        assert!(
            all.ranked_places()
                .eq(LongSuffixes::new(&ordered, None, &[]).ranked_places())
        );
        let length = suffixes.text.len() as u32;
        let broken = [
            Vec::new(),
            vec![(length / 2, length / 2)],
            vec![
                (0, 2),
                (length / 3, length / 2),
                (length - length / 4, length),
            ],
        ];
        for broken in &broken {
            for (suffixes, order) in [
                (&suffixes, Some(&order)),
                (&suffixes, None),
                (&ordered, None),
                (&ordered, Some(&order)),
            ] {
                let found = LongSuffixes::new(suffixes, order, broken);
                for (number, file) in files.iter().enumerate() {
                    for length in [1, 2, 7, 8, 9, 10, 17, 40] {
                        let step = 1 + file.len() / 5;
                        for window in file.windows(length).skip(number % 3).step_by(step) {
                            check_questions(found, window);
                            let mut other = window.to_vec();
                            other[length / 2] = (other[length / 2] + 1) % (words + 2);
                            check_questions(found, &other);
                        }
                    }
                }
                assert_eq!(found.longest(&[]), None);
                assert_eq!(found.longest(&[u32::MAX, 0]), None);
                assert_eq!(found.count(&[0, u32::MAX]), 0);
            }
        }
    }

    fn check_grammar(grammar: &TestGrammar) {
        let words = grammar.word_grammar();
        check(&grammar.all_file_words(), words.view().terminal_count);
    }

    #[test]
    fn questions_of_any_length_are_answered_as_by_a_scan() {
        (test_grammars::all_small().step_by(31)).for_each(|grammar| check_grammar(&grammar));
        test_grammars::random_many(6).for_each(|grammar| check_grammar(&grammar));
        check_grammar(&test_grammars::runs(6));
        check_grammar(&test_grammars::many_files(10));
        check_grammar(&test_grammars::fibonacci(10));
        check_grammar(&test_grammars::thue_morse(6));
        check(&[], 0);
        check(
            &[vec![0; 100], vec![0; 60], vec![], vec![0; 100], vec![0; 3]],
            1,
        );
        let period: Vec<u32> = (0..180).map(|at| at % 9).collect();
        check(
            &[period.clone(), period[4..].to_vec(), period[..100].to_vec()],
            9,
        );
    }

    #[test]
    fn the_order_is_the_same_for_1_2_and_16_threads() {
        let words = test_grammars::repeated_text(40).word_grammar();
        let suffixes = WordSuffixes::new(words.view(), words.weights(), 1 << 20, &GO);
        let suffixes = suffixes.expect("not stopped");
        in_pools(|| LongOrder::new(&suffixes, &GO).expect("not stopped"));
    }

    #[test]
    fn a_set_flag_stops() {
        let (suffixes, _) = of_files(&[vec![0; 100]], 1);
        assert_eq!(
            LongOrder::new(&suffixes, &AtomicBool::new(true)),
            Err(Stopped)
        );
    }
}
