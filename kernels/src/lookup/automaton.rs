//! Searching the expansions of all symbols at once: what an automaton does while it reads each of them.
//!
//! In   the bodies of a grammar; what the automaton does at each terminal
//! Out  for each symbol, from each state: the state behind it, and whether the automaton finds something on the way
//! Work O(terminals + body symbols), parallel over the rules of a level; a root is then read in O(root symbols)
//!
//! Invariant: a step over a symbol is as the steps over all terminals of its expansion.

use crate::grammar::lengths::fold_expansions;
use crate::{GrammarView, NGRAM_WORDS_MAX};

/// What an automaton of few states does while it reads a text. It begins in state 0.
pub trait Reading: Copy + Send + Sync {
    /// The most states that an automaton may have.
    const STATES: usize;

    /// The reading of a text that changes no state.
    const NOTHING: Self;

    /// The state behind the text, and whether something was found, for each state before it.
    fn new(step: impl Fn(usize) -> (usize, bool)) -> Self;

    /// The state behind the text, and whether something is found in it or at its end.
    fn step(self, state: usize) -> (usize, bool);

    /// The reading of this text followed by that of `next`.
    fn then(self, next: Self) -> Self;

    /// Whether something is found in a text of these symbols.
    fn finds(readings: &[Self], symbols: &[u32]) -> bool {
        let mut state = 0;
        symbols.iter().any(|&symbol| {
            let (next, is_found) = readings[symbol as usize].step(state);
            state = next;
            is_found
        })
    }
}

/// A reading of eight states: for phrases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordReading(u32);

const WORD_STATE_BITS: usize = 3;
const WORD_FINDS: usize = WORD_STATE_BITS * WordReading::STATES;

impl Reading for WordReading {
    const STATES: usize = NGRAM_WORDS_MAX;

    // The states 7 to 0, each from itself.
    const NOTHING: WordReading = WordReading(0o76_543_210);

    fn new(step: impl Fn(usize) -> (usize, bool)) -> WordReading {
        let steps = (0..WordReading::STATES).map(|state| {
            let (next, is_found) = step(state);
            (next as u32) << (WORD_STATE_BITS * state) | u32::from(is_found) << (WORD_FINDS + state)
        });
        WordReading(steps.fold(0, |reading, step| reading | step))
    }

    #[inline(always)]
    fn step(self, state: usize) -> (usize, bool) {
        let next = self.0 >> (WORD_STATE_BITS * state) & 7;
        (next as usize, self.0 >> (WORD_FINDS + state) & 1 == 1)
    }

    #[inline]
    fn then(self, next: WordReading) -> WordReading {
        // Most words are in no phrase, and most that is between them is not read at all.
        if next.0 == 0 {
            return WordReading(self.0 >> WORD_FINDS << WORD_FINDS);
        }
        match (self, next) {
            (_, WordReading::NOTHING) => self,
            (WordReading::NOTHING, _) => next,
            _ => WordReading::new(|state| then(self, next, state)),
        }
    }
}

fn then<R: Reading>(first: R, second: R, state: usize) -> (usize, bool) {
    let (between, is_found) = first.step(state);
    let (behind, is_found_then) = second.step(between);
    (behind, is_found || is_found_then)
}

/// The readings of all symbols, terminals first; `terminal` has those of terminals.
///
/// Work: O(terminals + body symbols), parallel.
pub fn readings<R: Reading>(view: GrammarView<'_>, terminal: impl Fn(u32) -> R + Sync) -> Vec<R> {
    fold_expansions(view, terminal, R::NOTHING, R::then)
}

/// An automaton that finds a pattern: its state is how long a beginning of the pattern ends with what was read (Knuth,
/// Morris and Pratt).
#[derive(Debug)]
pub struct Pattern<T> {
    items: Vec<T>,
    /// For each length of a beginning the longest shorter beginning that it ends with.
    borders: Vec<usize>,
}

impl<T: PartialEq> Pattern<T> {
    /// An automaton with a state for each item.
    ///
    /// # Panics
    /// If the pattern has no items.
    pub fn new(items: Vec<T>) -> Pattern<T> {
        assert!(!items.is_empty(), "an empty pattern is everywhere");
        let mut pattern = Pattern {
            borders: vec![0; items.len() + 1],
            items,
        };
        for length in 2..=pattern.items.len() {
            let mut state = pattern.borders[length - 1];
            let item = &pattern.items[length - 1];
            while state > 0 && pattern.items[state] != *item {
                state = pattern.borders[state];
            }
            pattern.borders[length] = state + usize::from(pattern.items[state] == *item);
        }
        pattern
    }

    /// How many items it has.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether it has none, which [`Pattern::new`] rules out.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The state behind an item, and whether that ends the pattern. There are no states from the length on.
    pub fn step(&self, state: usize, item: &T) -> (usize, bool) {
        if state >= self.items.len() {
            return (0, false);
        }
        let mut state = state;
        while state > 0 && self.items[state] != *item {
            state = self.borders[state];
        }
        if self.items[state] != *item {
            return (0, false);
        }
        match state + 1 {
            all if all == self.items.len() => (self.borders[all], true),
            more => (more, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::test_grammars;

    /// All patterns of up to three of the letters.
    fn patterns(letters: u32) -> Vec<Vec<u32>> {
        let mut patterns: Vec<Vec<u32>> = (0..letters).map(|letter| vec![letter]).collect();
        let mut from = 0;
        while patterns[from].len() < 3 {
            let shorter = patterns[from].clone();
            patterns.extend((0..letters).map(|letter| [&shorter[..], &[letter]].concat()));
            from += 1;
        }
        patterns
    }

    #[test]
    fn phrases_are_found_in_the_files_whose_words_have_them() {
        let grammars = test_grammars::all_small();
        for grammar in grammars.into_iter().chain(test_grammars::random_many(10)) {
            let view = grammar.view();
            // The last terminal is a gap: phrases skip it.
            let gap = view.terminal_count.saturating_sub(1);
            for pattern in patterns(view.terminal_count.min(3)) {
                let automaton = Pattern::new(pattern.clone());
                let readings: Vec<WordReading> = readings(view, |terminal| {
                    if terminal == gap {
                        WordReading::NOTHING
                    } else {
                        WordReading::new(|state| automaton.step(state, &terminal))
                    }
                });
                let expected = (0..view.files() as u32).map(|file| {
                    let mut words = grammar.expand(file);
                    words.retain(|&terminal| terminal != gap);
                    words.windows(pattern.len()).any(|words| words == pattern)
                });
                let found = (0..view.files() as u32)
                    .map(|file| WordReading::finds(&readings, view.file_root(file)));
                let found: Vec<bool> = found.collect();
                assert_eq!(found, expected.collect::<Vec<bool>>(), "{pattern:?}");
            }
        }
    }
}
