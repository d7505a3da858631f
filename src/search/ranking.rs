//! Files that match a query, with BM25 scores.
//!
//! Invariant: a file matches if its current text does. A word, phrase or NEAR is one term, whose count in a file is that of its
//! hits and whose rarity is that of the files that have one; a word with several forms (a prefix, a pattern) counts as one word.

use std::sync::Arc;

use rayon::prelude::*;
use zipfdb_search::algebra::{SpanQuery, Strategy, TextTest, WordTest};
use zipfdb_search::matcher::{MatcherLimits, TextMatcher};
use zipfdb_search::measures::{Bm25, CollectionSize};
use zipfdb_search::simple::FileQuery;

use super::query_error;
use super::spans::SpanSearch;
use super::words::passing;
use crate::Result;
use crate::answer::CorpusView;
use crate::answer::access_path::Run;
use crate::runtime::interrupt::check;

/// More words than this are counted together by a pass over all words of the files.
const FEW_WORDS: usize = 256;

/// A file that matches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ranked {
    pub(crate) file: u32,
    pub(crate) score: f64,
    /// Hits of all terms.
    pub(crate) hits: u64,
}

/// What a part of a query says of each file.
struct Matches {
    /// For each file whether it matches, its score and its hits.
    files: Vec<(bool, f64, u64)>,
}

/// Files that match, by score, greatest first, then by name.
///
/// # Errors
/// If a term is wrong, a column is not known, a segment is damaged, or the run must end.
pub(crate) fn rank(
    view: &Arc<CorpusView>,
    query: &FileQuery,
    bm25: Bm25,
    run: Run<'_>,
) -> Result<Vec<Ranked>> {
    let ranking = Ranking {
        view,
        bm25,
        collection: CollectionSize {
            files: view.files().len() as u64,
            words: view.total_words(),
        },
        run,
    };
    let found = ranking.matches(query, 1.0)?;
    let files = (0..).zip(found.files);
    let files = files.filter(|(_, (is_match, ..))| *is_match);
    let mut ranked: Vec<Ranked> = files
        .map(|(file, (_, score, hits))| Ranked { file, score, hits })
        .collect();
    // Files are numbered in order of name.
    ranked.par_sort_by(|left, right| {
        right
            .score
            .total_cmp(&left.score)
            .then(left.file.cmp(&right.file))
    });
    Ok(ranked)
}

/// A query in work.
struct Ranking<'a> {
    view: &'a Arc<CorpusView>,
    bm25: Bm25,
    collection: CollectionSize,
    run: Run<'a>,
}

impl Ranking<'_> {
    /// Recursion is as deep as the query, which its parser limits.
    fn matches(&self, query: &FileQuery, boost: f64) -> Result<Matches> {
        check(self.run.stop)?;
        let files = self.view.files().len();
        Ok(match query {
            FileQuery::All => Matches::constant(files, true),
            FileQuery::None => Matches::constant(files, false),
            FileQuery::Word(test) => self.scored(&self.word_counts(test)?, boost),
            FileQuery::Phrase { .. } | FileQuery::Near { .. } => {
                self.scored(&self.span_counts(query)?, boost)
            }
            FileQuery::Field { name, pattern } => {
                if !name.eq_ignore_ascii_case("file") {
                    let reason =
                        format!("no such column `{name}`; hint: files have the column `file`");
                    return Err(query_error(reason));
                }
                let test = TextTest {
                    pattern: pattern.clone(),
                    folds_case: false,
                    folds_diacritics: false,
                };
                let matcher =
                    TextMatcher::new(&test, MatcherLimits::default()).map_err(query_error)?;
                let names = self.view.files().iter();
                Matches {
                    files: names
                        .map(|file| (matcher.matches(file.name.as_bytes()), 0.0, 0))
                        .collect(),
                }
            }
            FileQuery::And(queries) => {
                let mut all = Matches::constant(files, true);
                for query in queries {
                    let found = self.matches(query, boost)?;
                    all.join(&found, |left, right| left && right);
                }
                all.without_scores_of_others()
            }
            FileQuery::Or { queries, minimum } => {
                let mut met = vec![0u32; files];
                let mut any = Matches::constant(files, false);
                for query in queries {
                    let found = self.matches(query, boost)?;
                    for (met, (is_match, ..)) in met.iter_mut().zip(&found.files) {
                        *met += u32::from(*is_match);
                    }
                    any.join(&found, |left, right| left || right);
                }
                for (file, met) in any.files.iter_mut().zip(met) {
                    file.0 = met >= *minimum;
                }
                any.without_scores_of_others()
            }
            FileQuery::Not(query) => {
                let mut found = self.matches(query, boost)?;
                for file in &mut found.files {
                    *file = (!file.0, 0.0, 0);
                }
                found
            }
            FileQuery::Boost { query, factor } => {
                self.matches(query, boost * f64::from(*factor))?
            }
        })
    }

    /// Scores of a term with its count in each file.
    fn scored(&self, counts: &[u64], boost: f64) -> Matches {
        let with = counts.iter().filter(|&&count| count > 0).count();
        let term = self.bm25.word(self.collection, with as u64, boost);
        let files = counts.iter().zip(self.view.files());
        Matches {
            files: files
                .map(|(&count, file)| (count > 0, term.score(count, file.words), count))
                .collect(),
        }
    }

    /// For each file how often words that pass a test occur.
    fn word_counts(&self, test: &TextTest) -> Result<Vec<u64>> {
        let test = WordTest::Text(test.clone());
        let words = passing(self.view, &test, self.run)?;
        if words.is_empty() {
            return Ok(vec![0; self.view.files().len()]);
        }
        if words.len() > FEW_WORDS {
            let mut in_set = vec![false; self.view.vocabulary()?.len()];
            words.iter().for_each(|&word| in_set[word as usize] = true);
            return self.view.word_set_counts(&in_set, self.run);
        }
        let texts: Vec<Vec<u8>> = words
            .iter()
            .map(|&word| self.view.word(word).to_vec())
            .collect();
        self.view.files_of_words(&texts, self.run)
    }

    /// For each file the hits of a phrase or NEAR.
    fn span_counts(&self, query: &FileQuery) -> Result<Vec<u64>> {
        let Some(span) = query.span() else {
            return Err(query_error("a part of it is no span"));
        };
        let query = SpanQuery {
            span,
            constraint: None,
            strategy: Strategy::Shortest,
            show: None,
        };
        let search = SpanSearch::new(self.view, query, self.run)?;
        let all: Vec<u32> = (0..self.view.files().len() as u32).collect();
        search.counts(&all, self.run)
    }
}

impl Matches {
    fn constant(files: usize, is_match: bool) -> Matches {
        Matches {
            files: vec![(is_match, 0.0, 0); files],
        }
    }

    /// Adds scores and hits, and joins what matches.
    fn join(&mut self, other: &Matches, join: impl Fn(bool, bool) -> bool) {
        for (file, (is_match, score, hits)) in self.files.iter_mut().zip(&other.files) {
            file.0 = join(file.0, *is_match);
            if *is_match {
                file.1 += score;
                file.2 += hits;
            }
        }
    }

    fn without_scores_of_others(mut self) -> Matches {
        for file in &mut self.files {
            if !file.0 {
                *file = (false, 0.0, 0);
            }
        }
        self
    }
}
