//! Conditions on words: `WordMatcher` for dictionaries and for places in files.
//!
//! Invariant: patterns are compared with the folded form of a word where the test folds, by the folding that orders dictionaries.
//! Nothing is known of numbers of words: a dictionary's owner asks once for each word, or for the [`Candidates`] alone.

mod candidates;
mod characters;
mod fuzzy;
mod limits;
mod regex;
mod text;
mod wildcard;

pub use candidates::Candidates;
pub use limits::MatcherLimits;
pub use text::{TextMatcher, folded};

use std::cell::LazyCell;

use crate::algebra::{Comparison, Side, WordTest};
use crate::compile_error::CompileError;

/// A word at a place of a file.
pub trait Occurrence {
    /// Its text.
    fn word(&self) -> &[u8];
    /// The number of occurrences of the word in the corpus.
    fn frequency(&self) -> u64;
    /// The gap at that side of it; empty if there is none.
    fn gap(&self, side: Side) -> &[u8];
    /// Its 0-based number in the file.
    fn position(&self) -> u64;
    /// The offset of its first byte in the file.
    fn offset(&self) -> u64;
}

/// Evaluates a [`WordTest`]. `Sync`; a clone for each thread avoids contention.
///
/// ```
/// use zipfdb_search::algebra::{Pattern, TextTest, WordTest};
/// use zipfdb_search::matcher::{Candidates, WordMatcher};
///
/// let test = WordTest::Text(TextTest {
///     pattern: Pattern::Regex("Colou?r(s|ed)*".to_owned()),
///     folds_case: true,
///     folds_diacritics: false,
/// });
/// let matcher = WordMatcher::new(&test, Default::default())?;
/// assert!(matcher.matches(b"COLOURED", || unreachable!("it compares no frequency")));
/// assert_eq!(matcher.candidates(), Candidates::Prefixes(vec![b"color".to_vec(), b"colour".to_vec()]));
/// # Ok::<(), zipfdb_search::CompileError>(())
/// ```
#[derive(Debug, Clone)]
pub struct WordMatcher {
    test: CompiledTest,
}

/// A test with compiled patterns.
#[derive(Debug, Clone)]
enum CompiledTest {
    Any,
    Text(TextMatcher),
    Frequency(Comparison, u64),
    Gap(Side, TextMatcher),
    Position(Comparison, u64),
    Offset(Comparison, u64),
    Not(Box<CompiledTest>),
    All(Vec<CompiledTest>),
    AnyOf(Vec<CompiledTest>),
}

impl WordMatcher {
    /// Compiles a test. Recursion is as deep as the test.
    ///
    /// # Errors
    /// If a regular expression is none or exceeds the limit.
    pub fn new(test: &WordTest, limits: MatcherLimits) -> Result<Self, CompileError> {
        let test = CompiledTest::new(test, limits)?;
        Ok(Self { test })
    }

    /// Whether a word of the dictionary may pass: exact unless the test is contextual, else whether it passes at some place perhaps.
    /// `frequency` gives the number of its occurrences in the corpus and is called at most once, if at all.
    pub fn matches(&self, word: &[u8], frequency: impl FnOnce() -> u64) -> bool {
        let frequency = LazyCell::new(frequency);
        let facts = Facts {
            word,
            frequency: &|| *frequency,
            occurrence: None,
        };
        self.test.can_be(true, &facts)
    }

    /// Whether a word passes at a place.
    pub fn matches_at(&self, occurrence: &dyn Occurrence) -> bool {
        let facts = Facts {
            word: occurrence.word(),
            frequency: &|| occurrence.frequency(),
            occurrence: Some(occurrence),
        };
        self.test.can_be(true, &facts)
    }

    /// Where the words that may pass lie in a dictionary. `matches` decides on each of them.
    pub fn candidates(&self) -> Candidates {
        self.test.candidates()
    }
}

/// What a test is asked about.
struct Facts<'a> {
    word: &'a [u8],
    frequency: &'a dyn Fn() -> u64,
    /// Unknown for words of a dictionary.
    occurrence: Option<&'a dyn Occurrence>,
}

impl CompiledTest {
    fn new(test: &WordTest, limits: MatcherLimits) -> Result<Self, CompileError> {
        let all = |tests: &[WordTest]| {
            tests
                .iter()
                .map(|test| Self::new(test, limits))
                .collect::<Result<_, _>>()
        };
        Ok(match test {
            WordTest::Any => Self::Any,
            WordTest::Text(test) => Self::Text(TextMatcher::new(test, limits)?),
            WordTest::Frequency(comparison, number) => Self::Frequency(*comparison, *number),
            WordTest::Gap(side, test) => Self::Gap(*side, TextMatcher::new(test, limits)?),
            WordTest::Position(comparison, number) => Self::Position(*comparison, *number),
            WordTest::Offset(comparison, number) => Self::Offset(*comparison, *number),
            WordTest::Not(test) => Self::Not(Box::new(Self::new(test, limits)?)),
            WordTest::All(tests) => Self::All(all(tests)?),
            WordTest::AnyOf(tests) => Self::AnyOf(all(tests)?),
        })
    }

    /// Whether the test can have this result. What depends on an unknown place can have both.
    fn can_be(&self, passes: bool, facts: &Facts<'_>) -> bool {
        let at = |decide: &dyn Fn(&dyn Occurrence) -> bool| {
            facts
                .occurrence
                .is_none_or(|occurrence| decide(occurrence) == passes)
        };
        match self {
            Self::Any => passes,
            Self::Text(test) => test.matches(facts.word) == passes,
            Self::Frequency(comparison, number) => {
                comparison.holds(&(facts.frequency)(), number) == passes
            }
            Self::Gap(side, test) => at(&|occurrence| test.matches(occurrence.gap(*side))),
            Self::Position(comparison, number) => {
                at(&|occurrence| comparison.holds(&occurrence.position(), number))
            }
            Self::Offset(comparison, number) => {
                at(&|occurrence| comparison.holds(&occurrence.offset(), number))
            }
            Self::Not(test) => test.can_be(!passes, facts),
            Self::All(tests) if passes => tests.iter().all(|test| test.can_be(true, facts)),
            Self::All(tests) => tests.iter().any(|test| test.can_be(false, facts)),
            Self::AnyOf(tests) if passes => tests.iter().any(|test| test.can_be(true, facts)),
            Self::AnyOf(tests) => tests.iter().all(|test| test.can_be(false, facts)),
        }
    }

    fn candidates(&self) -> Candidates {
        match self {
            Self::Text(test) => test.candidates(),
            Self::All(tests) => tests
                .iter()
                .map(Self::candidates)
                .reduce(Candidates::narrower)
                .unwrap_or(Candidates::Every),
            Self::AnyOf(tests) => tests
                .iter()
                .map(Self::candidates)
                .reduce(Candidates::union)
                .unwrap_or(Candidates::Words(Vec::new())),
            _ => Candidates::Every,
        }
    }
}

#[cfg(test)]
mod tests;
