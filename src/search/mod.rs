//! Search: spans that match a query, files ranked by words, and the statistics of both.
//!
//! `words` evaluates the tests of a query once on the dictionary, `places` finds the boundaries of units, `spans` finds
//! spans, which are of type `Hit`, `context` reads the words around them. The other files each are a table function:
//! `concordance`, `frequencies`, `collocations`, `keywords`, `dispersion`, `growth`, `ranking`.
//!
//! Invariant: answers are those of the current texts. Totals are exact: nothing is sampled unless the caller asks for it.

pub(crate) mod collocations;
pub(crate) mod concordance;
mod context;
pub(crate) mod dispersion;
pub(crate) mod frequencies;
pub(crate) mod growth;
pub(crate) mod hit;
pub(crate) mod keywords;
mod places;
pub(crate) mod ranking;
pub(crate) mod spans;
mod words;

use std::cmp::Ordering;
use std::fmt::Display;
use std::ops::Range;

use zipfdb_search::simple::Tokenize;
use zipfdb_sql::search_call::SearchFunction;
use zipfdb_storage::Tokenizer;

use crate::Error;
use crate::tokenize::{self, Sink};

/// The error for a query that is wrong.
pub(crate) fn query_error(reason: impl Display) -> Error {
    Error::Invalid {
        subject: "query".into(),
        reason: reason.to_string(),
    }
}

/// The error for an argument of a table function that is wrong.
pub(crate) fn argument_error(
    function: SearchFunction,
    argument: &str,
    reason: impl Display,
) -> Error {
    Error::Invalid {
        subject: format!("{argument} of {}()", function.name()),
        reason: reason.to_string(),
    }
}

/// A word with a value for each measure.
trait MeasuredWord {
    /// The value of the first measure, where it is defined.
    fn value(&self) -> Option<f64>;
    fn count(&self) -> u64;
    fn word(&self) -> u32;
}

/// The order of words with measures: by the first measure, greatest first and undefined last, then by count, greatest first, then in
/// the order of the dictionary.
fn by_measure<W: MeasuredWord>(left: &W, right: &W) -> Ordering {
    let by_value = match (left.value(), right.value()) {
        (Some(left), Some(right)) => right.total_cmp(&left),
        (left, right) => right.is_some().cmp(&left.is_some()),
    };
    by_value
        .then(right.count().cmp(&left.count()))
        .then(left.word().cmp(&right.word()))
}

/// Cuts queries into words as the texts of a corpus are cut.
pub(crate) struct QueryTokenizer(pub(crate) Tokenizer);

impl Tokenize for QueryTokenizer {
    fn words(&self, text: &str) -> Vec<Range<usize>> {
        struct QueryWords(Tokenizer, Vec<Range<usize>>);
        impl Sink for QueryWords {
            fn word(&mut self, text: &[u8], start: usize, end: usize) {
                let is_glued = tokenize::has_glued_space(self.0, &text[start..end]);
                self.1.push(start + usize::from(is_glued)..end);
            }

            fn gap(&mut self, _: &[u8], _: usize, _: usize) {}
        }
        let mut words = QueryWords(self.0, Vec::new());
        tokenize::tokenize(self.0, text.as_bytes(), &mut words);
        words.1
    }
}
