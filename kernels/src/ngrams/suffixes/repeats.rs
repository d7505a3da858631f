//! Repeated passages: every maximal repeat of at least some words, once.
//!
//! In   a suffix array with the order of all words
//! Out  length, count and places of each passage that occurs at least twice and cannot be made longer, on either side, without
//!      losing an occurrence
//! Work O(words): what neighbours in the order share (Kasai et al. 2001, by place; Karkkainen et al. 2009), then one pass that
//!      closes the ranges of ranks with a common beginning. Memory: 4 bytes a word
//!
//! Occurrences may overlap: `a a a` has `a a` twice.

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::long::LongSuffixes;
use super::{DEPTH, WordSuffixes};
use crate::stop::{Stopped, check};

/// Places or ranks of one task.
const TASK_PLACES: usize = 1 << 16;

/// A passage that occurs at least twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// Its length.
    pub words: u32,
    /// How often it occurs.
    pub count: u32,
    /// The rank of its first place.
    rank: u32,
}

/// The repeated passages of some files.
#[derive(Debug)]
pub struct Repeats {
    /// The largest product of words and count first, then by the order of their words.
    pub found: Vec<Repeat>,
}

impl Repeats {
    /// Finds the maximal repeats of at least `words_min` words, of which there must be one. All words must order places.
    ///
    /// # Errors
    /// If it is stopped.
    pub fn new(
        all: LongSuffixes<'_>,
        words_min: u32,
        stop: &AtomicBool,
    ) -> Result<Repeats, Stopped> {
        let suffixes = all.suffixes;
        let shared_at = shared_by_place(suffixes, all, stop)?;
        let words_min = words_min.max(1);
        // Passages that may still go on: words, and the first rank.
        let mut open: Vec<(u32, u32)> = Vec::new();
        let mut found = Vec::new();
        // The last rank whose word in front differs from that of the rank before.
        let mut last_differing = 0;
        let mut front_before = 0;
        let ranks = suffixes.places.len();
        for rank in 0..=ranks {
            if rank % TASK_PLACES == 0 {
                check(stop)?;
            }
            let place = (rank < ranks).then(|| all.place(rank));
            let shared = match (place, suffixes.shared.get(rank)) {
                (Some(place), Some(&byte)) if usize::from(byte & 15) == DEPTH => {
                    shared_at[place as usize]
                }
                (Some(_), Some(&byte)) => u32::from(byte & 15),
                _ => 0,
            };
            let shared = if shared < words_min { 0 } else { shared };
            // Ranks are u32.
            let rank = rank as u32;
            let mut first = rank.saturating_sub(1);
            while let Some(&(words, start)) = open.last()
                && words > shared
            {
                open.pop();
                first = start;
                if last_differing > start {
                    found.push(Repeat {
                        words,
                        count: rank - start,
                        rank: start,
                    });
                }
            }
            if shared > 0 && open.last().is_none_or(|&(words, _)| words < shared) {
                open.push((shared, first));
            }
            if let Some(place) = place {
                let before = (place as usize).checked_sub(1);
                let front = before.map_or(0, |before| suffixes.text[before]);
                // Nothing stands in front of the start of a file, so no two starts can be made longer.
                if front == 0 || front != front_before {
                    last_differing = rank;
                }
                front_before = front;
            }
        }
        found.par_sort_unstable_by_key(|repeat| {
            let weight = u64::from(repeat.words) * u64::from(repeat.count);
            (u64::MAX - weight, repeat.rank, repeat.words)
        });
        Ok(Repeats { found })
    }
}

impl Repeat {
    /// Its places, ascending: file and number of the first word in it.
    pub fn positions(&self, all: LongSuffixes<'_>) -> Vec<(u32, u64)> {
        let ranks = self.rank as usize..(self.rank + self.count) as usize;
        let mut places: Vec<u32> = ranks.map(|rank| all.place(rank)).collect();
        places.sort_unstable();
        let positions = places.into_iter();
        positions
            .map(|place| all.suffixes.position_of(place))
            .collect()
    }
}

/// For each place that shares eight words with the one before in the order how many it shares; others have any number.
fn shared_by_place(
    suffixes: &WordSuffixes,
    all: LongSuffixes<'_>,
    stop: &AtomicBool,
) -> Result<Vec<u32>, Stopped> {
    const NONE: u32 = u32::MAX;
    // First the place before in the order.
    let mut shared = vec![NONE; suffixes.text.len()];
    for (rank, &byte) in suffixes.shared.iter().enumerate() {
        if usize::from(byte & 15) == DEPTH {
            shared[all.place(rank) as usize] = all.place(rank - 1);
        }
    }
    let text = &suffixes.text[..];
    let parts = shared.par_chunks_mut(TASK_PLACES).enumerate();
    parts.try_for_each(|(part, shared)| {
        check(stop)?;
        // A place shares at least one word less than the one in front of it.
        let mut words = 0;
        for (place, shared) in (part * TASK_PLACES..).zip(shared) {
            if *shared == NONE {
                words = 0;
                continue;
            }
            let other = *shared as usize;
            words = words.max(DEPTH);
            while text[place + words] == text[other + words] && text[place + words] > 0 {
                words += 1;
            }
            // A text has fewer items than a u32 counts.
            *shared = words as u32;
            words -= 1;
        }
        Ok(())
    })?;
    Ok(shared)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::LongOrder;
    use crate::grammar::test_grammars;

    static GO: AtomicBool = AtomicBool::new(false);

    /// The repeats by looking at all passages: with their places.
    fn naive(files: &[Vec<u32>], words_min: usize) -> BTreeMap<Vec<u32>, Vec<(u32, u64)>> {
        let mut passages: BTreeMap<&[u32], Vec<(u32, u64)>> = BTreeMap::new();
        for (file, words) in (0..).zip(files) {
            for start in 0..words.len() {
                for end in start + words_min..=words.len() {
                    let places = passages.entry(&words[start..end]).or_default();
                    places.push((file, start as u64));
                }
            }
        }
        let is_maximal = |passage: &[u32], places: &[(u32, u64)]| {
            let beside = |shift: i64| -> Option<BTreeSet<u32>> {
                let words = places.iter().map(|&(file, start)| {
                    let at = usize::try_from(start as i64 + shift).ok()?;
                    files[file as usize].get(at).copied()
                });
                words.collect()
            };
            let differs = |words: Option<BTreeSet<u32>>| words.is_none_or(|words| words.len() > 1);
            places.len() > 1 && differs(beside(-1)) && differs(beside(passage.len() as i64))
        };
        let maximal = passages
            .into_iter()
            .filter(|(passage, places)| is_maximal(passage, places));
        maximal
            .map(|(passage, places)| (passage.to_vec(), places))
            .collect()
    }

    fn check(files: &[Vec<u32>], words: u32) {
        let of_files = files.iter().map(|words| &words[..]);
        let suffixes = WordSuffixes::of_files(of_files, words, 1 << 20, &GO).expect("not stopped");
        let order = LongOrder::new(&suffixes, &GO).expect("not stopped");
        let all = LongSuffixes::new(&suffixes, Some(&order), &[]);
        for words_min in [1, 2, 7, 8, 9, 20] {
            let repeats = Repeats::new(all, words_min, &GO).expect("not stopped");
            let mut found = BTreeMap::new();
            let mut last = u64::MAX;
            for repeat in &repeats.found {
                let places = repeat.positions(all);
                assert_eq!(places.len(), repeat.count as usize);
                let (file, start) = places[0];
                let passage = &files[file as usize][start as usize..][..repeat.words as usize];
                assert_eq!(found.insert(passage.to_vec(), places), None);
                let weight = u64::from(repeat.words) * u64::from(repeat.count);
                assert!(weight <= last);
                last = weight;
            }
            assert_eq!(
                found,
                naive(files, words_min as usize),
                "{files:?} {words_min}"
            );
        }
    }

    #[test]
    fn repeats_are_those_of_all_passages() {
        for grammar in test_grammars::all_small().step_by(17) {
            check(
                &grammar.all_file_words(),
                grammar.word_grammar().view().terminal_count,
            );
        }
        check(&[], 0);
        check(&[vec![0; 40], vec![], vec![0; 30], vec![0; 40]], 1);
        let period: Vec<u32> = (0..60).map(|at| at % 9).collect();
        check(&[period.clone(), period[4..50].to_vec(), period], 9);
        let alike: Vec<Vec<u32>> = (0..4)
            .map(|file| {
                (0..50)
                    .map(|at| if at == 20 + file { 7 } else { at % 6 })
                    .collect()
            })
            .collect();
        check(&alike, 8);
    }

    #[test]
    fn a_set_flag_stops() {
        let files = [vec![0; 20]];
        let files = files.iter().map(|words| &words[..]);
        let suffixes = WordSuffixes::of_files(files, 1, 1 << 20, &GO).expect("not stopped");
        let order = LongOrder::new(&suffixes, &GO).expect("not stopped");
        let all = LongSuffixes::new(&suffixes, Some(&order), &[]);
        let stopped = Repeats::new(all, 1, &AtomicBool::new(true));
        assert_eq!(stopped.err(), Some(Stopped));
    }
}
