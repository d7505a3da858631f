//! Search: spans that match a query, files ranked by words, and the statistics of both.
//!
//! `words` evaluates the tests of a query once on the dictionary, `places` finds the boundaries of units, `span_table` makes an
//! automaton ready for grammars, `spans` finds spans, which are of type `Hit`, `context` reads the words around them. `subcorpus` has
//! the files that statistics are of. `terms` finds those of a query for files: of words, which `known_terms` keeps as `file_postings`,
//! of `phrases`, or of other spans; `ranking` counts and scores files and units by a `formula` of terms, `excerpt` shows them. The
//! other files each are a table function:
//! `concordance`, `frequencies`, `collocations`, `keywords`, `dispersion`, `growth`.
//!
//! Invariant: answers are those of the current texts. Totals are exact: nothing is sampled unless the caller asks for it.

pub(crate) mod collocations;
pub(crate) mod concordance;
mod context;
pub(crate) mod dispersion;
pub(crate) mod excerpt;
mod file_postings;
mod formula;
pub(crate) mod frequencies;
pub(crate) mod growth;
pub(crate) mod hit;
pub(crate) mod keywords;
mod known_terms;
mod phrases;
mod places;
pub(crate) mod ranking;
mod span_table;
pub(crate) mod spans;
pub(crate) mod subcorpus;
mod terms;
mod words;

use std::fmt::Display;
use std::ops::Range;

use rayon::prelude::*;
use zipfdb_search::algebra::Stemmer;
use zipfdb_search::simple::{self, FileQuery, Operator, QueryOptions, Tokenize};
use zipfdb_sql::search_call::SearchFunction;
use zipfdb_storage::Tokenizer;

use crate::Error;
use crate::notice::Notice;
use crate::tokenize;

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

/// How a query in the simple language is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryMode {
    /// Terms are joined by OR.
    Any,
    /// Terms are joined by AND.
    All,
    /// What is no query is ignored, with a notice.
    Lenient,
}

/// A query in the simple language, and notices on what of it was ignored.
///
/// # Errors
/// If it is no query, unless the mode is lenient.
pub(crate) fn read_query(
    text: &str,
    mode: QueryMode,
    stemmer: Option<Stemmer>,
    tokenizer: Tokenizer,
) -> zipfdb_search::Result<(FileQuery, Vec<Notice>)> {
    let options = QueryOptions {
        operator: if mode == QueryMode::All {
            Operator::And
        } else {
            Operator::Or
        },
        stemmer,
        ..QueryOptions::default()
    };
    let tokenizer = QueryTokenizer(tokenizer);
    if mode != QueryMode::Lenient {
        return Ok((simple::parse(text, &options, &tokenizer)?, Vec::new()));
    }
    let read = simple::parse_lenient(text, &options, &tokenizer);
    let notices = read.notices.iter().map(|error| {
        let text = format!(
            "the query is read leniently: {}: {}",
            error.place(),
            error.fault()
        );
        Notice::new(text, error.hint().map(str::to_owned))
    });
    Ok((read.query, notices.collect()))
}

/// A word with a value for each measure.
pub(crate) struct MeasuredWord {
    pub(crate) word: u32,
    pub(crate) count: u64,
    /// How often it occurs in what it is compared with: the corpus of collocates, the reference of keywords.
    pub(crate) other_count: u64,
    /// A value a measure, where it is defined.
    pub(crate) values: Vec<Option<f64>>,
}

/// Sorts words by the first measure, greatest first and undefined last, then by count, greatest first, then in the order of the
/// dictionary.
fn sort_by_measure(words: &mut [MeasuredWord]) {
    let first = |word: &MeasuredWord| word.values.first().copied().flatten();
    words.par_sort_by(|left, right| {
        let by_value = match (first(left), first(right)) {
            (Some(left), Some(right)) => right.total_cmp(&left),
            (left, right) => right.is_some().cmp(&left.is_some()),
        };
        by_value
            .then(right.count.cmp(&left.count))
            .then(left.word.cmp(&right.word))
    });
}

/// Cuts queries into words as the texts of a corpus are cut.
struct QueryTokenizer(Tokenizer);

impl Tokenize for QueryTokenizer {
    fn words(&self, text: &str) -> Vec<Range<usize>> {
        tokenize::word_ranges(self.0, text.as_bytes())
    }
}
