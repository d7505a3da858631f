//! Conditions on n-grams, decided n-gram by n-gram.
//!
//! Invariant: where words do not decide, the conditions on the text do, as for any value.

use super::ngram_marks::{NgramVerdict, NgramWordMarks};
use super::scan_spec::ScanSpec;
use crate::answer::Ngram;
use crate::batch::text_or_blob;
use crate::expression::{ColumnFilter, ColumnMatcher};
use crate::{Result, Value};

/// Decides n-grams on one thread.
pub(super) struct NgramMatcher<'a> {
    question: &'a ScanSpec,
    marks: Option<&'a NgramWordMarks>,
    matchers: Vec<ColumnMatcher<'a>>,
    /// The last decided text, whose memory the next one reuses.
    text: Value,
}

impl<'a> NgramMatcher<'a> {
    pub(super) fn new(question: &'a ScanSpec) -> NgramMatcher<'a> {
        let filters = question.text_filters.iter();
        NgramMatcher {
            question,
            marks: question.ngram_marks(),
            matchers: filters.map(ColumnFilter::matcher).collect(),
            text: Value::Null,
        }
    }

    pub(super) fn question(&self) -> &'a ScanSpec {
        self.question
    }

    /// Whether there are no conditions.
    #[inline]
    pub(super) fn passes_all(&self) -> bool {
        self.matchers.is_empty()
    }

    /// Whether an n-gram passes. Without conditions it may lack its words.
    ///
    /// # Errors
    /// If a function fails on the text.
    pub(super) fn passes(&mut self, words: &[u32]) -> Result<bool> {
        if self.passes_all() {
            return Ok(true);
        }
        match self
            .marks
            .map_or(NgramVerdict::Unknown, |marks| marks.verdict(words))
        {
            NgramVerdict::Matches => return Ok(true),
            NgramVerdict::Fails => return Ok(false),
            NgramVerdict::Unknown => {}
        }
        let mut text = match std::mem::replace(&mut self.text, Value::Null) {
            Value::Text(text) => text.into_bytes(),
            Value::Blob(bytes) => bytes,
            _ => Vec::new(),
        };
        text.clear();
        Ngram::new(self.question.view(), words).push_text(&mut text);
        self.text = text_or_blob(text);
        for matcher in &mut self.matchers {
            if !matcher.matches(&self.text)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::{CorpusSettings, Database};

    #[test]
    fn words_leave_out_no_ngram_whose_text_matches() {
        let database = Database::in_memory().unwrap();
        let corpus = database
            .create_corpus("c", CorpusSettings::default())
            .unwrap();
        // A vowel sign behind a space is a word that begins with the space.
        let text = "of the cat Of The Dog  \u{93e} the of the  \u{93e}of the. Proof the theme of them of \u{c9}t\u{e9} often the ";
        corpus
            .append_many(&[("a", text), ("b", "of the cat")])
            .unwrap();
        database.execute_batch("RECOMPRESS c").unwrap();
        let rows = |sql: &str| -> Vec<String> {
            let rows = database.query(sql, ()).unwrap();
            let rows = rows.map(|row| format!("{:?}", row.unwrap().into_values()));
            let mut rows: Vec<String> = rows.collect();
            rows.sort();
            rows
        };
        let mut found = 0;
        for n in [1, 2, 3, 8] {
            for condition in [
                "ngram LIKE 'of the %'",
                "ngram LIKE '%of the%'",
                "ngram LIKE '%the'",
                "ngram LIKE '%f th%'",
                "ngram LIKE '% \u{93e}%'",
                "ngram LIKE '%a % b % c % d % e %'",
                "ngram LIKE '%  %'",
                "ngram LIKE '%of%' AND ngram > 'Of'",
                "ngram GLOB 'of the *'",
                "ngram GLOB '*The*'",
                "ngram GLOB '*f the*' AND ngram GLOB 'P*'",
                "ngram > 'of' AND ngram < 'of the d'",
                "ngram >= 'of the ' AND ngram <= 'the'",
                "ngram < 'Of'",
                "ngram > 'theme'",
                "ngram REGEXP '^(of|the) '",
                "ngram NOT LIKE '%of%'",
                "lower(ngram) = 'of the'",
                "length(ngram) < 9",
            ] {
                // CASE hides the column from the marks of words.
                let hidden = condition.replace("ngram", "CASE WHEN position >= 0 THEN ngram END");
                let ask = |condition: &str, keys: &str| {
                    rows(&format!(
                        "SELECT {keys}, COUNT(*) FROM ngrams('c', {n}) WHERE {condition} GROUP BY {keys}"
                    ))
                };
                for keys in ["ngram", "ngram, file", "file"] {
                    let expected = ask(&hidden, keys);
                    assert_eq!(ask(condition, keys), expected, "{n}: {condition} by {keys}");
                    found += expected.len();
                }
            }
        }
        assert!(found > 500, "{found}");
    }
}
