//! Files, or units of them, that match a query, with BM25 scores.
//!
//! Invariant: a file matches if its current text does. A word, phrase or NEAR is one term, whose count in a file is that of its
//! hits and whose rarity is that of the files that have one; a word with several forms (a prefix, a pattern) counts as one word. By
//! unit all of this is of units: a hit counts in the unit that it lies in, and in none if it lies in no single one. Boundaries of
//! units are found file by file, twice: for the rarity of terms, then for scores; what is held is the best units so far.

use std::sync::Arc;

use rayon::prelude::*;
use zipfdb_search::algebra::{TextTest, Unit};
use zipfdb_search::matcher::{MatcherLimits, TextMatcher};
use zipfdb_search::measures::{Bm25, Bm25Word, CollectionSize};
use zipfdb_search::simple::FileQuery;

use super::places::PassageReader;
use super::query_error;
use super::terms::TermSearch;
use crate::answer::CorpusView;
use crate::answer::access_path::Run;
use crate::runtime::interrupt::check;
use crate::{Error, Result};

/// Files whose units are scored at a time.
const FILES_AT_ONCE: usize = 256;

/// Words that are read at a time to find the boundaries of units.
const STRETCH_WORDS: u64 = 1 << 15;

/// A file or unit that matches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ranked {
    pub(crate) file: u32,
    /// The number of its first word in the file, and of its words.
    pub(crate) start: u64,
    pub(crate) words: u64,
    pub(crate) score: f64,
    /// Hits of all terms.
    pub(crate) hits: u64,
}

/// A query that was prepared for a corpus.
pub(crate) struct Ranking {
    view: Arc<CorpusView>,
    unit: Unit,
    bm25: Bm25,
    formula: Formula,
    terms: Vec<Term>,
    /// For each condition on names the files that it holds for.
    names: Vec<Vec<bool>>,
}

/// A term of the formula.
pub(super) struct Term {
    pub(super) search: TermSearch,
    boost: f64,
    /// The files that have it are excluded.
    pub(super) is_excluded: bool,
}

/// What a query asks of a file or unit.
enum Formula {
    Constant(bool),
    /// It has this term.
    Term(usize),
    /// This condition holds for the name of the file.
    Name(usize),
    All(Vec<Formula>),
    AtLeast(u32, Vec<Formula>),
    Not(Box<Formula>),
}

/// What a part of a query says of a file or unit.
#[derive(Clone, Copy)]
struct Verdict {
    is_match: bool,
    score: f64,
    hits: u64,
}

impl Verdict {
    fn of(is_match: bool) -> Verdict {
        Verdict {
            is_match,
            score: 0.0,
            hits: 0,
        }
    }

    /// Adds what another part says.
    fn add(&mut self, other: Verdict) {
        if other.is_match {
            self.score += other.score;
            self.hits += other.hits;
        }
    }

    /// The same, without a score if it does not match.
    fn if_match(self, is_match: bool) -> Verdict {
        if is_match {
            Verdict { is_match, ..self }
        } else {
            Verdict::of(false)
        }
    }
}

/// A file or unit with the count of each term in it.
struct Counted<'a> {
    file: u32,
    words: u64,
    count: &'a dyn Fn(usize) -> u64,
}

impl Ranking {
    /// Prepares a query: finds the words of the corpus that it asks for.
    ///
    /// # Errors
    /// If a term is wrong, a column is not known, a segment is damaged, or the run must end.
    pub(crate) fn new(
        view: &Arc<CorpusView>,
        query: &FileQuery,
        bm25: Bm25,
        unit: Unit,
        run: Run<'_>,
    ) -> Result<Ranking> {
        let mut ranking = Ranking {
            view: view.clone(),
            unit,
            bm25,
            formula: Formula::Constant(false),
            terms: Vec::new(),
            names: Vec::new(),
        };
        ranking.formula = ranking.compile(query, (1.0, false), run)?;
        Ok(ranking)
    }

    pub(crate) fn view(&self) -> &Arc<CorpusView> {
        &self.view
    }

    pub(super) fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Whether rows are files.
    pub(crate) fn is_of_files(&self) -> bool {
        matches!(self.unit, Unit::File | Unit::Record)
    }

    /// Recursion is as deep as the query, which its parser limits.
    fn compile(
        &mut self,
        query: &FileQuery,
        (boost, is_excluded): (f64, bool),
        run: Run<'_>,
    ) -> Result<Formula> {
        check(run.stop)?;
        let mut all = |queries: &[FileQuery]| {
            let parts = queries.iter();
            let parts = parts.map(|query| self.compile(query, (boost, is_excluded), run));
            parts.collect::<Result<Vec<Formula>>>()
        };
        Ok(match query {
            FileQuery::All => Formula::Constant(true),
            FileQuery::None => Formula::Constant(false),
            FileQuery::Word(_) | FileQuery::Phrase { .. } | FileQuery::Near { .. } => {
                self.terms.push(Term {
                    search: TermSearch::new(&self.view, query, run)?,
                    boost,
                    is_excluded,
                });
                Formula::Term(self.terms.len() - 1)
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
                let names = names.map(|file| matcher.matches(file.name.as_bytes()));
                self.names.push(names.collect());
                Formula::Name(self.names.len() - 1)
            }
            FileQuery::And(queries) => Formula::All(all(queries)?),
            FileQuery::Or { queries, minimum } => Formula::AtLeast(*minimum, all(queries)?),
            FileQuery::Not(query) => {
                Formula::Not(Box::new(self.compile(query, (boost, true), run)?))
            }
            FileQuery::Boost { query, factor } => {
                self.compile(query, (boost * f64::from(*factor), is_excluded), run)?
            }
        })
    }

    /// The best files or units, by score, greatest first, then by name and place; all that match without a limit.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn best(&self, limit: Option<usize>, run: Run<'_>) -> Result<Vec<Ranked>> {
        let counts = self.terms.iter().map(|term| term.search.counts(run));
        let counts: Vec<Vec<u64>> = counts.collect::<Result<_>>()?;
        let mut best = Best {
            limit,
            ranked: Vec::new(),
        };
        if self.is_of_files() {
            best.add(self.files(&counts, run)?);
        } else {
            self.units(&counts, &mut best, run)?;
        }
        Ok(best.finish())
    }

    /// What a query says of a file or unit. Recursion is as deep as the query.
    fn verdict(&self, formula: &Formula, counted: &Counted<'_>, terms: &[Bm25Word]) -> Verdict {
        let each = |formulas: &[Formula]| {
            let (mut sum, mut met) = (Verdict::of(true), 0);
            for formula in formulas {
                let found = self.verdict(formula, counted, terms);
                met += u32::from(found.is_match);
                sum.add(found);
            }
            (sum, met)
        };
        match formula {
            Formula::Constant(is_match) => Verdict::of(*is_match),
            Formula::Term(term) => {
                let hits = (counted.count)(*term);
                Verdict {
                    is_match: hits > 0,
                    score: terms[*term].score(hits, counted.words),
                    hits,
                }
            }
            Formula::Name(name) => Verdict::of(self.names[*name][counted.file as usize]),
            Formula::All(formulas) => {
                let (sum, met) = each(formulas);
                sum.if_match(met as usize == formulas.len())
            }
            Formula::AtLeast(minimum, formulas) => {
                let (sum, met) = each(formulas);
                sum.if_match(met >= *minimum)
            }
            Formula::Not(formula) => Verdict::of(!self.verdict(formula, counted, terms).is_match),
        }
    }

    fn ranked(&self, counted: &Counted<'_>, start: u64, terms: &[Bm25Word]) -> Option<Ranked> {
        let verdict = self.verdict(&self.formula, counted, terms);
        verdict.is_match.then_some(Ranked {
            file: counted.file,
            start,
            words: counted.words,
            score: verdict.score,
            hits: verdict.hits,
        })
    }

    /// Scores of terms in a collection of `files` files or units; `with` is how many have each term.
    fn scores(&self, files: u64, with: impl IntoIterator<Item = u64>) -> Vec<Bm25Word> {
        let size = CollectionSize {
            files,
            words: self.view.total_words(),
        };
        let terms = self.terms.iter().zip(with);
        let scores = terms.map(|(term, with)| self.bm25.word(size, with, term.boost));
        scores.collect()
    }

    /// The files that match.
    fn files(&self, counts: &[Vec<u64>], run: Run<'_>) -> Result<Vec<Ranked>> {
        check(run.stop)?;
        let files = self.view.files();
        let with = counts.iter().map(|counts| {
            let with = counts.iter().filter(|&&count| count > 0);
            with.count() as u64
        });
        let scores = self.scores(files.len() as u64, with);
        let ranked = files.par_iter().enumerate().filter_map(|(file, summary)| {
            let counted = Counted {
                // Files are numbered by u32.
                file: file as u32,
                words: summary.words,
                count: &|term| counts[term][file],
            };
            self.ranked(&counted, 0, &scores)
        });
        Ok(ranked.collect())
    }

    /// Adds the units that match.
    fn units(&self, counts: &[Vec<u64>], best: &mut Best, run: Run<'_>) -> Result<()> {
        // Files are numbered by u32.
        let all = 0..self.view.files().len() as u32;
        let has_hits = |file: u32| counts.iter().any(|counts| counts[file as usize] > 0);
        let found = all.clone().into_par_iter().map(|file| {
            let bounds = self.bounds(file, run)?;
            let mut with = vec![0; self.terms.len()];
            if has_hits(file) {
                for (_, counts) in self.unit_counts(file, &bounds, run)? {
                    for (with, count) in with.iter_mut().zip(counts) {
                        *with += u64::from(count > 0);
                    }
                }
            }
            Ok::<(u64, Vec<u64>), Error>((bounds.len() as u64 - 1, with))
        });
        let sum = |(units, mut with): (u64, Vec<u64>), (more, others): (u64, Vec<u64>)| {
            with.iter_mut()
                .zip(others)
                .for_each(|(sum, more)| *sum += more);
            Ok((units + more, with))
        };
        let none = || (0, vec![0; self.terms.len()]);
        let (units, with): (u64, Vec<u64>) = found.try_reduce(none, sum)?;
        let scores = self.scores(units, with);
        let has_others = |file: u32| {
            let without = Counted {
                file,
                words: 0,
                count: &|_| 0,
            };
            self.ranked(&without, 0, &scores).is_some()
        };
        let asked: Vec<u32> = all
            .filter(|&file| has_hits(file) || has_others(file))
            .collect();
        for files in asked.chunks(FILES_AT_ONCE) {
            let of_files = files.par_iter().map(|&file| {
                let mut of_file = Best {
                    limit: best.limit,
                    ranked: Vec::new(),
                };
                self.units_of(file, has_others(file), &scores, &mut of_file, run)?;
                Ok(of_file.ranked)
            });
            for ranked in of_files.collect::<Result<Vec<_>>>()? {
                best.add(ranked);
            }
        }
        Ok(())
    }

    /// Adds the units of a file that match; with `has_others` those without hits do.
    fn units_of(
        &self,
        file: u32,
        has_others: bool,
        scores: &[Bm25Word],
        best: &mut Best,
        run: Run<'_>,
    ) -> Result<()> {
        let bounds = self.bounds(file, run)?;
        let mut with_hits = self.unit_counts(file, &bounds, run)?.into_iter().peekable();
        let none = vec![0; self.terms.len()];
        let mut unit = 0;
        while unit + 1 < bounds.len() {
            let counts = match with_hits.peek() {
                Some((next, _)) if has_others && *next > unit => none.clone(),
                Some(_) => {
                    let (next, counts) = with_hits.next().unwrap_or_default();
                    unit = next;
                    counts
                }
                None if has_others => none.clone(),
                None => break,
            };
            let counted = Counted {
                file,
                words: bounds[unit + 1] - bounds[unit],
                count: &|term| counts[term],
            };
            best.add(self.ranked(&counted, bounds[unit], scores));
            unit += 1;
        }
        Ok(())
    }

    /// The places where units of a file begin, and that behind the last word: ascending.
    fn bounds(&self, file: u32, run: Run<'_>) -> Result<Vec<u64>> {
        check(run.stop)?;
        let words = self.view.files()[file as usize].words;
        if let Unit::Window(size) = self.unit {
            let starts = (0..words).step_by(size.max(1) as usize);
            return Ok(starts.chain([words]).collect());
        }
        let units = [self.unit];
        let mut passages = PassageReader::new(&self.view, file, &units);
        let mut bounds = Vec::new();
        let mut start = 0;
        while start < words {
            check(run.stop)?;
            let end = words.min(start + STRETCH_WORDS);
            let (_, places) = passages.numbers(start..end, run)?;
            let places = (start..end).zip(places);
            let starts = places.filter(|(_, units)| *units > 0);
            bounds.extend(starts.map(|(place, _)| place));
            start = end;
        }
        bounds.push(words);
        Ok(bounds)
    }

    /// The units of a file with hits, ascending, with the hits of each term in them.
    fn unit_counts(
        &self,
        file: u32,
        bounds: &[u64],
        run: Run<'_>,
    ) -> Result<Vec<(usize, Vec<u64>)>> {
        let mut found: Vec<(usize, usize)> = Vec::new();
        for (number, term) in self.terms.iter().enumerate() {
            let mut unit = 0;
            for hit in term.search.hits(file, run)? {
                while bounds[unit + 1] <= hit.start {
                    unit += 1;
                }
                if hit.end <= bounds[unit + 1] {
                    found.push((unit, number));
                }
            }
        }
        found.sort_unstable();
        let of_units = found.chunk_by(|left, right| left.0 == right.0);
        let counted = of_units.map(|hits| {
            let mut counts = vec![0; self.terms.len()];
            hits.iter().for_each(|(_, term)| counts[*term] += 1);
            (hits[0].0, counts)
        });
        Ok(counted.collect())
    }
}

/// The best files or units of those that were added.
struct Best {
    limit: Option<usize>,
    ranked: Vec<Ranked>,
}

impl Best {
    fn add(&mut self, ranked: impl IntoIterator<Item = Ranked>) {
        for one in ranked {
            self.ranked.push(one);
            if let Some(limit) = self.limit
                && self.ranked.len() >= limit.max(512).saturating_mul(2)
            {
                self.cut(limit);
            }
        }
    }

    fn cut(&mut self, limit: usize) {
        if limit < self.ranked.len() {
            self.ranked.select_nth_unstable_by(limit, Ranked::order);
            self.ranked.truncate(limit);
        }
    }

    fn finish(mut self) -> Vec<Ranked> {
        if let Some(limit) = self.limit {
            self.cut(limit);
        }
        self.ranked.par_sort_unstable_by(Ranked::order);
        self.ranked
    }
}

impl Ranked {
    /// Files are numbered in order of name.
    fn order(left: &Ranked, right: &Ranked) -> std::cmp::Ordering {
        (right.score.total_cmp(&left.score))
            .then(left.file.cmp(&right.file))
            .then(left.start.cmp(&right.start))
    }
}
