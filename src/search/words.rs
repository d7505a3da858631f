//! Which words of a corpus pass the tests of a query.
//!
//! Invariant: bit `i` of a word is set if the word may pass test `i`: exactly, unless the test depends on the place of the word. The
//! work depends on the words that may pass, not on the dictionary, if the tests name texts or prefixes.

use std::borrow::Cow;
use std::{iter, mem};

use rayon::prelude::*;
use zipfdb_search::algebra::WordTest;
use zipfdb_search::matcher::{self, Candidates, MatcherLimits, WordMatcher};

use super::query_error;
use crate::Result;
use crate::answer::CorpusView;
use crate::answer::access_path::Run;
use crate::runtime::interrupt::check;

/// Words of one task.
const TASK_WORDS: usize = 1 << 12;

/// The words of a corpus that pass tests.
pub(crate) struct WordBits {
    /// Words that pass a test, ascending, with the tests that they pass.
    passing: Vec<(u32, u64)>,
}

impl WordBits {
    /// Evaluates the tests, at most 64, once for each word that may pass.
    ///
    /// # Errors
    /// If a test is wrong, a segment is damaged, or the run must end.
    pub(crate) fn new(view: &CorpusView, tests: &[WordTest], run: Run<'_>) -> Result<WordBits> {
        let mut bits = WordBits {
            passing: Vec::new(),
        };
        for (index, test) in tests.iter().enumerate() {
            check(run.stop)?;
            bits.add(&passing(view, test, run)?, 1 << index);
        }
        Ok(bits)
    }

    /// Sets a bit of some words, which ascend.
    fn add(&mut self, words: &[u32], bit: u64) {
        let mut merged = Vec::with_capacity(self.passing.len() + words.len());
        let mut known = mem::take(&mut self.passing).into_iter().peekable();
        for &word in words {
            merged.extend(iter::from_fn(|| known.next_if(|(other, _)| *other < word)));
            let same = known.next_if(|(other, _)| *other == word);
            merged.push((word, same.map_or(0, |(_, bits)| bits) | bit));
        }
        merged.extend(known);
        self.passing = merged;
    }

    /// The words that pass a test, ascending, with the tests that they pass; all others pass none.
    pub(crate) fn words(&self) -> &[(u32, u64)] {
        &self.passing
    }

    /// The words that pass a test, ascending, if there are at most `words_max`.
    pub(crate) fn few(&self, test: usize, words_max: usize) -> Option<Vec<u32>> {
        let passing = self
            .passing
            .iter()
            .filter(|(_, bits)| bits >> test & 1 == 1);
        let few: Vec<u32> = passing.map(|(word, _)| *word).take(words_max + 1).collect();
        (few.len() <= words_max).then_some(few)
    }
}

/// The words that may pass, ascending.
///
/// # Errors
/// If a segment is damaged, or the run must end.
pub(crate) fn passing(view: &CorpusView, test: &WordTest, run: Run<'_>) -> Result<Vec<u32>> {
    let matcher = WordMatcher::new(test, MatcherLimits::default()).map_err(query_error)?;
    let words = view.vocabulary()?;
    let totals = if test.needs_frequency() {
        view.totals(run)?
    } else {
        Vec::new()
    };
    let frequency = |word: u32| totals.get(word as usize).copied().unwrap_or(0);
    let mut candidates: Vec<u32> = Vec::new();
    match matcher.candidates() {
        Candidates::Words(named) => {
            for word in named {
                candidates.extend(words.find(&word)?);
            }
        }
        Candidates::Folded(texts) => {
            for wanted in texts {
                let first = partition(words.len(), |word| *folded(words.word(word)) < *wanted);
                let end = partition(words.len(), |word| *folded(words.word(word)) <= *wanted);
                candidates.extend(first..end);
            }
        }
        Candidates::Prefixes(prefixes) => {
            for prefix in prefixes {
                let first = partition(words.len(), |word| *folded(words.word(word)) < *prefix);
                let end = partition(words.len(), |word| {
                    let folded = folded(words.word(word));
                    *folded < *prefix || folded.starts_with(&prefix)
                });
                candidates.extend(first..end);
            }
        }
        // Words are numbered by u32.
        Candidates::Every => candidates.extend(0..words.len() as u32),
    }
    candidates.sort_unstable();
    candidates.dedup();
    let text = view.words();
    let tasks = candidates.par_chunks(TASK_WORDS).map(|task| {
        check(run.stop)?;
        let matcher = matcher.clone();
        let passes = |&word: &u32| matcher.matches(text(word), || frequency(word));
        Ok(task.iter().copied().filter(passes).collect::<Vec<u32>>())
    });
    Ok(tasks.collect::<Result<Vec<_>>>()?.concat())
}

/// The first of the words `0..len` for which `is_before` does not hold.
fn partition(len: usize, is_before: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, len as u32);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// A word as the order of the dictionary compares it.
pub(super) fn folded(word: &[u8]) -> Cow<'_, [u8]> {
    matcher::folded(word, true, false)
}
