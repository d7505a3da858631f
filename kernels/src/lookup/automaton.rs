//! Searching the expansions of all symbols at once: what an automaton does while it reads each of them.
//!
//! In   the bodies of a grammar; what the automaton does at each terminal
//! Out  for each symbol, from each state: the state behind it, and whether the automaton finds something on the way
//! Work O(terminals + body symbols), parallel over the rules of a level; a root is then read in O(root symbols)
//!
//! Invariant: a step over a symbol is as the steps over all terminals of its expansion.

use rayon::prelude::*;

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

/// A reading of sixteen states: for strings of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteReading {
    next: u64,
    finds: u16,
}

const WORD_STATE_BITS: usize = 3;
const WORD_FINDS: usize = WORD_STATE_BITS * WordReading::STATES;
const BYTE_STATE_BITS: usize = 4;

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

impl Reading for ByteReading {
    const STATES: usize = 1 << BYTE_STATE_BITS;

    const NOTHING: ByteReading = ByteReading {
        next: 0xfedc_ba98_7654_3210,
        finds: 0,
    };

    fn new(step: impl Fn(usize) -> (usize, bool)) -> ByteReading {
        let mut reading = ByteReading { next: 0, finds: 0 };
        for state in 0..ByteReading::STATES {
            let (next, is_found) = step(state);
            reading.next |= (next as u64) << (BYTE_STATE_BITS * state);
            reading.finds |= u16::from(is_found) << state;
        }
        reading
    }

    #[inline(always)]
    fn step(self, state: usize) -> (usize, bool) {
        let next = self.next >> (BYTE_STATE_BITS * state) & 15;
        (next as usize, self.finds >> state & 1 == 1)
    }

    #[inline]
    fn then(self, next: ByteReading) -> ByteReading {
        // Most texts end with nothing that begins a match.
        if next.next == 0 && next.finds == 0 {
            return ByteReading { next: 0, ..self };
        }
        ByteReading::new(|state| then(self, next, state))
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

/// A string of bytes to find, with or without regard to the case of ASCII letters.
#[derive(Debug)]
pub struct Literal {
    /// By state and byte the next state, and [`FOUND`] if that ends the literal.
    steps: Vec<[u8; 256]>,
    /// For each byte whether all states lead to the same one.
    is_same: Vec<bool>,
}

const FOUND: u8 = 1 << 7;

impl Literal {
    /// Most bytes of a literal.
    pub const BYTES_MAX: usize = ByteReading::STATES;

    /// An automaton that finds a literal.
    ///
    /// # Panics
    /// If it has no bytes, or more than [`Literal::BYTES_MAX`].
    pub fn new(bytes: &[u8], ignores_case: bool) -> Literal {
        assert!(bytes.len() <= Literal::BYTES_MAX, "the literal is too long");
        let folded = |byte: u8| {
            if ignores_case {
                byte.to_ascii_lowercase()
            } else {
                byte
            }
        };
        let pattern = Pattern::new(bytes.iter().copied().map(folded).collect());
        let step = |state: usize, byte: usize| {
            // A byte has 256 values, and an automaton at most 16 states.
            let (next, is_found) = pattern.step(state, &folded(byte as u8));
            next as u8 | if is_found { FOUND } else { 0 }
        };
        let steps = (0..bytes.len()).map(|state| std::array::from_fn(|byte| step(state, byte)));
        let steps: Vec<[u8; 256]> = steps.collect();
        let is_same = |byte: usize| steps.iter().all(|row| row[byte] == steps[0][byte]);
        Literal {
            is_same: (0..256).map(is_same).collect(),
            steps,
        }
    }

    /// What a text does to the automaton.
    pub fn reading(&self, text: &[u8]) -> ByteReading {
        // From a byte on that leads all states to the same one they go together.
        let apart = text
            .iter()
            .position(|&byte| self.is_same[usize::from(byte)]);
        let (apart, together) = text.split_at(apart.unwrap_or(text.len()));
        let (end, is_found) = self.read(0, together);
        let is_same = !together.is_empty();
        if apart.is_empty() && is_same && end == 0 && !is_found {
            return ByteReading { next: 0, finds: 0 };
        }
        ByteReading::new(|state| {
            if state >= self.steps.len() {
                return (0, false);
            }
            let (between, is_found_apart) = self.read(state, apart);
            if is_same {
                (end, is_found || is_found_apart)
            } else {
                (between, is_found_apart)
            }
        })
    }

    /// The state behind a text, and whether the literal ends in it.
    fn read(&self, state: usize, text: &[u8]) -> (usize, bool) {
        let (mut state, mut is_found) = (state, false);
        for &byte in text {
            let step = self.steps[state][usize::from(byte)];
            is_found |= step & FOUND != 0;
            state = usize::from(step & !FOUND);
        }
        (state, is_found)
    }
}

/// The files whose roots `finds` something in, of a grammar that has them. Parallel on the current pool.
pub fn files_found<R: Reading>(view: GrammarView<'_>, readings: &[R]) -> Vec<bool> {
    let files = (0..view.files() as u32).into_par_iter();
    files
        .map(|file| R::finds(readings, view.file_root(file)))
        .collect()
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
                let expected: Vec<bool> = expected.collect();
                assert_eq!(files_found(view, &readings), expected, "{pattern:?}");
            }
        }
    }

    #[test]
    fn literals_are_found_in_the_files_whose_bytes_have_them() {
        let tokens = ["a", "ab", "Ba", "abab", " a", "-"];
        let literals = [
            "a",
            "B",
            "ab",
            "aba",
            "bab",
            "abaab",
            "ababab",
            "b-a",
            "a ab",
            " ",
            "ababababab",
        ];
        for grammar in test_grammars::random_many(20) {
            let view = grammar.view();
            let token = |terminal: u32| tokens[terminal as usize % tokens.len()];
            for literal in literals {
                for ignores_case in [false, true] {
                    let automaton = Literal::new(literal.as_bytes(), ignores_case);
                    let readings = readings(view, |t| automaton.reading(token(t).as_bytes()));
                    let expected = (0..view.files() as u32).map(|file| {
                        let text: String = grammar.expand(file).into_iter().map(token).collect();
                        if ignores_case {
                            text.to_lowercase().contains(&literal.to_lowercase())
                        } else {
                            text.contains(literal)
                        }
                    });
                    let expected: Vec<bool> = expected.collect();
                    assert_eq!(files_found(view, &readings), expected, "{literal:?}");
                }
            }
        }
    }
}
