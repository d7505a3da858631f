//! Conditions on a text.

use std::borrow::Cow;

use super::candidates::Candidates;
use super::fuzzy::Fuzzy;
use super::limits::MatcherLimits;
use super::regex::Regex;
use super::wildcard::Wildcard;
use crate::algebra::{Pattern, Stemmer, TextTest};
use crate::compile_error::CompileError;
use crate::diacritics::without_diacritics;
use crate::fold::{fold, is_folded};

/// Evaluates a [`TextTest`].
#[derive(Debug, Clone)]
pub struct TextMatcher {
    pattern: CompiledPattern,
    folds_case: bool,
    folds_diacritics: bool,
}

/// A pattern, folded and compiled.
#[derive(Debug, Clone)]
enum CompiledPattern {
    Literal(Vec<u8>),
    Prefix(Vec<u8>),
    Wildcard(Wildcard),
    Regex(Regex),
    Fuzzy(Fuzzy),
    /// Sorted.
    List(Vec<Vec<u8>>),
    /// The stem.
    Stem(Stemmer, Vec<u8>),
}

impl TextMatcher {
    /// Compiles a test. The texts in it are folded as the test folds. The text of a regular expression is only freed of diacritics;
    /// case is ignored by its own rules.
    ///
    /// # Errors
    /// If a regular expression is none or exceeds the limit.
    pub fn new(test: &TextTest, limits: MatcherLimits) -> Result<Self, CompileError> {
        let folded =
            |text: &[u8]| folded(text, test.folds_case, test.folds_diacritics).into_owned();
        let pattern = match &test.pattern {
            Pattern::Literal(text) => CompiledPattern::Literal(folded(text)),
            Pattern::Prefix(text) => CompiledPattern::Prefix(folded(text)),
            Pattern::Wildcard(text) => CompiledPattern::Wildcard(Wildcard::new(&folded(text))),
            Pattern::Regex(text) if test.folds_diacritics => {
                let plain = without_diacritics(text.as_bytes());
                let plain = String::from_utf8_lossy(&plain);
                CompiledPattern::Regex(Regex::new(&plain, test.folds_case, limits)?)
            }
            Pattern::Regex(text) => {
                CompiledPattern::Regex(Regex::new(text, test.folds_case, limits)?)
            }
            Pattern::Fuzzy { text, edits } => {
                CompiledPattern::Fuzzy(Fuzzy::new(&folded(text), *edits))
            }
            Pattern::List(texts) => {
                let mut texts: Vec<Vec<u8>> = texts.iter().map(|text| folded(text)).collect();
                texts.sort_unstable();
                texts.dedup();
                CompiledPattern::List(texts)
            }
            Pattern::Stem(stemmer, text) => {
                CompiledPattern::Stem(*stemmer, stemmer.stem(&folded(text)).into_owned())
            }
        };
        Ok(Self {
            pattern,
            folds_case: test.folds_case,
            folds_diacritics: test.folds_diacritics,
        })
    }

    /// Whether a text passes. Linear in the text, for wildcards times the pattern.
    pub fn matches(&self, text: &[u8]) -> bool {
        let text = folded(text, self.folds_case, self.folds_diacritics);
        match &self.pattern {
            CompiledPattern::Literal(literal) => literal[..] == *text,
            CompiledPattern::Prefix(prefix) => text.starts_with(prefix),
            CompiledPattern::Wildcard(wildcard) => wildcard.matches(&text),
            CompiledPattern::Regex(regex) => regex.matches(&text),
            CompiledPattern::Fuzzy(fuzzy) => fuzzy.matches(&text),
            CompiledPattern::List(texts) => {
                texts.binary_search_by(|other| other[..].cmp(&text)).is_ok()
            }
            CompiledPattern::Stem(stemmer, stem) => *stemmer.stem(&text) == stem[..],
        }
    }

    /// Where the words that pass lie in a dictionary.
    pub fn candidates(&self) -> Candidates {
        if self.folds_diacritics {
            return Candidates::Every;
        }
        let whole = |texts: &[Vec<u8>]| {
            let texts = texts.iter().cloned();
            if self.folds_case {
                Candidates::folded(texts)
            } else {
                Candidates::words(texts)
            }
        };
        match &self.pattern {
            CompiledPattern::Literal(text) => whole(std::slice::from_ref(text)),
            CompiledPattern::List(texts) => whole(texts),
            CompiledPattern::Wildcard(wildcard) if wildcard.is_literal() => {
                whole(&[wildcard.prefix().to_vec()])
            }
            CompiledPattern::Prefix(prefix) => Candidates::prefixes([prefix.clone()].into_iter()),
            CompiledPattern::Wildcard(wildcard) => {
                Candidates::prefixes([wildcard.prefix().to_vec()].into_iter())
            }
            CompiledPattern::Regex(regex) => regex.candidates(self.folds_case),
            CompiledPattern::Fuzzy(_) => Candidates::Every,
            // A stem begins as the word does, but for apostrophes, which the stemmer takes away.
            CompiledPattern::Stem(Stemmer::English, stem) => match stem.utf8_chunks().next() {
                Some(chunk) if !chunk.valid().is_empty() => {
                    let first = chunk.valid().chars().next().map(String::from);
                    let prefixes = first.into_iter().chain(["'".to_owned()]);
                    Candidates::prefixes(prefixes.map(String::into_bytes))
                }
                _ => Candidates::Every,
            },
        }
    }
}

/// The form of a text that patterns are compared with: without diacritics first, as a mark may fold to a letter.
pub fn folded(text: &[u8], folds_case: bool, folds_diacritics: bool) -> Cow<'_, [u8]> {
    let text = if folds_diacritics {
        without_diacritics(text)
    } else {
        Cow::Borrowed(text)
    };
    if !folds_case || is_folded(&text) {
        return text;
    }
    let mut bytes = Vec::with_capacity(text.len());
    fold(&text, &mut bytes);
    Cow::Owned(bytes)
}
