//! Files, or units of them, that match a query, with BM25 scores.
//!
//! Invariant: a file matches if its current text does. A word, phrase or NEAR is one term, whose count in a file is that of its
//! hits and whose rarity is that of the files that have one; a word with several forms (a prefix, a pattern) counts as one word.
//! Files are counted without scores, by blocks of 64; of the best ones those blocks and files are passed over whose bound is not
//! above the score of the least of the best so far (Turtle and Flood, Information Processing & Management 31(6), 1995; Ding and
//! Suel, SIGIR 2011). By unit all of this is of units: a hit counts in the unit that it lies in, and in none if it lies in no
//! single one. Boundaries of units are found file by file, twice: for the rarity of terms, then for scores; what is held is the
//! best units so far.

use std::sync::Arc;

use rayon::prelude::*;
use zipfdb_search::algebra::{TextTest, Unit};
use zipfdb_search::matcher::{MatcherLimits, TextMatcher};
use zipfdb_search::measures::{Bm25, Bm25Word, CollectionSize};
use zipfdb_search::simple::FileQuery;

use super::file_postings::{BlockCursors, block_of, files_of};
use super::formula::{FileSets, Formula};
use super::known_terms::{KnownTerms, PostingScores, TermSource};
use super::places::PassageReader;
use super::query_error;
use super::terms::TermSearch;
use crate::answer::CorpusView;
use crate::answer::access_path::Run;
use crate::runtime::interrupt::check;
use crate::{Error, Result};

/// Files whose units are scored at a time.
const FILES_AT_ONCE: usize = 256;

/// Blocks of files between two looks whether the run must end: a power of two.
const CHECKED_BLOCKS: u32 = 1 << 10;

/// More files than this are not searched while a caller waits for no thread.
const FILES_AT_HAND_MAX: usize = 1 << 20;

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
    /// For each condition on names the files that it holds for, in blocks.
    names: Vec<Vec<u64>>,
    known: Arc<KnownTerms>,
}

/// A term of the formula.
pub(super) struct Term {
    pub(super) search: TermSearch,
    boost: f64,
    /// The files that have it are excluded.
    pub(super) is_excluded: bool,
}

/// A file or unit with the count of each term in it.
struct Counted<'a> {
    file: u32,
    words: u64,
    count: &'a dyn Fn(usize) -> u64,
}

impl Ranking {
    /// Prepares a query: finds the words of the corpus that it asks for, and the files that have them.
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
        let ranking = Ranking::made(view, query, bm25, unit, Some(run))?;
        ranking.ok_or_else(|| query_error("a part of it was not found"))
    }

    /// The same for files, if what is kept of earlier queries answers in little time: on this thread, which waits for no other.
    ///
    /// # Errors
    /// As [`Ranking::new`].
    pub(crate) fn at_hand(
        view: &Arc<CorpusView>,
        query: &FileQuery,
        bm25: Bm25,
        unit: Unit,
    ) -> Result<Option<Ranking>> {
        if !matches!(unit, Unit::File | Unit::Record) || view.files().len() > FILES_AT_HAND_MAX {
            return Ok(None);
        }
        Ranking::made(view, query, bm25, unit, None)
    }

    fn made(
        view: &Arc<CorpusView>,
        query: &FileQuery,
        bm25: Bm25,
        unit: Unit,
        run: Option<Run<'_>>,
    ) -> Result<Option<Ranking>> {
        let mut ranking = Ranking {
            view: view.clone(),
            unit,
            bm25,
            formula: Formula::Constant(false),
            terms: Vec::new(),
            names: Vec::new(),
            known: KnownTerms::of(view),
        };
        Ok(ranking.compile(query, (1.0, false), run)?.map(|formula| {
            ranking.formula = formula;
            ranking
        }))
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

    /// None if what is kept does not answer, and nothing else may be asked. Recursion is as deep as the query, which its parser
    /// limits.
    fn compile(
        &mut self,
        query: &FileQuery,
        (boost, is_excluded): (f64, bool),
        run: Option<Run<'_>>,
    ) -> Result<Option<Formula>> {
        if let Some(run) = run {
            check(run.stop)?;
        }
        let mut all = |queries: &[FileQuery]| {
            let parts = queries.iter();
            let parts = parts.map(|query| self.compile(query, (boost, is_excluded), run));
            parts.collect::<Result<Option<Vec<Formula>>>>()
        };
        Ok(match query {
            FileQuery::All => Some(Formula::Constant(true)),
            FileQuery::None => Some(Formula::Constant(false)),
            FileQuery::Word(_) | FileQuery::Phrase { .. } | FileQuery::Near { .. } => {
                let source = TermSource {
                    view: &self.view,
                    known: &self.known,
                    run,
                };
                let Some(search) = TermSearch::new(source, query)? else {
                    return Ok(None);
                };
                self.terms.push(Term {
                    search,
                    boost,
                    is_excluded,
                });
                Some(Formula::Term(self.terms.len() - 1))
            }
            FileQuery::Field { name, pattern } => {
                if !name.eq_ignore_ascii_case("file") {
                    let reason =
                        format!("no such column `{name}`; hint: files have the column `file`");
                    return Err(query_error(reason));
                }
                if run.is_none() {
                    return Ok(None);
                }
                let test = TextTest {
                    pattern: pattern.clone(),
                    folds_case: false,
                    folds_diacritics: false,
                };
                let matcher =
                    TextMatcher::new(&test, MatcherLimits::default()).map_err(query_error)?;
                let names = (0..).zip(self.view.files());
                let names = names.filter(|(_, file)| matcher.matches(file.name.as_bytes()));
                let mut blocks = vec![0; block_of(self.view.files().len() as u32).0 as usize + 1];
                for (file, _) in names {
                    let (block, bit) = block_of(file);
                    blocks[block as usize] |= bit;
                }
                self.names.push(blocks);
                Some(Formula::Name(self.names.len() - 1))
            }
            FileQuery::And(queries) => all(queries)?.map(Formula::All),
            FileQuery::Or { queries, minimum } => {
                all(queries)?.map(|parts| Formula::AtLeast(*minimum, parts))
            }
            FileQuery::Not(query) => {
                let part = self.compile(query, (boost, true), run)?;
                part.map(|part| Formula::Not(Box::new(part)))
            }
            FileQuery::Boost { query, factor } => {
                self.compile(query, (boost * f64::from(*factor), is_excluded), run)?
            }
        })
    }

    /// The number of files that match.
    ///
    /// # Errors
    /// If the run must end.
    pub(crate) fn count_files(&self, run: Run<'_>) -> Result<u64> {
        if let Formula::Term(term) = self.formula {
            return Ok(self.terms[term].search.postings().len() as u64);
        }
        let (mut sets, mut count, mut from) = (self.sets(), 0, 0);
        while let Some((block, files)) = self.formula.next_files(from, &mut sets) {
            if block % CHECKED_BLOCKS == 0 {
                check(run.stop)?;
            }
            count += u64::from(files.count_ones());
            from = block + 1;
        }
        Ok(count)
    }

    /// The files of terms and conditions.
    fn sets(&self) -> FileSets<'_> {
        let terms = self.terms.iter().map(|term| term.search.postings());
        FileSets {
            terms: BlockCursors::new(terms),
            names: &self.names,
            // Files are numbered by u32.
            files: self.view.files().len() as u32,
        }
    }

    /// The best files or units, by score, greatest first, then by name and place; all that match without a limit.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn best(&self, limit: Option<usize>, run: Run<'_>) -> Result<Vec<Ranked>> {
        let mut best = Best::new(limit);
        if self.is_of_files() {
            self.files(&mut best, run)?;
        } else {
            self.units(&mut best, run)?;
        }
        Ok(best.finish())
    }

    /// What a query says of a file or unit, if it matches.
    fn ranked(&self, counted: &Counted<'_>, start: u64, scores: &[Bm25Word]) -> Option<Ranked> {
        let mut term = |term: usize| {
            let hits = (counted.count)(term);
            (hits, scores[term].score(hits, counted.words))
        };
        let (block, bit) = block_of(counted.file);
        let name = |name: usize| self.names[name][block as usize] & bit != 0;
        let verdict = self.formula.verdict(&mut term, &name);
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

    /// Adds the files that match.
    fn files(&self, best: &mut Best, run: Run<'_>) -> Result<()> {
        check(run.stop)?;
        let files = self.view.files();
        let with = self.terms.iter();
        let with = with.map(|term| term.search.postings().len() as u64);
        let words = self.scores(files.len() as u64, with);
        let source = TermSource {
            view: &self.view,
            known: &self.known,
            run: Some(run),
        };
        // Terms that exclude files give no score.
        let scores = self.terms.iter().zip(words);
        let scores = scores
            .map(|(term, word)| (!term.is_excluded).then(|| term.search.scores(source, word)));
        let scores: Vec<Option<Arc<PostingScores>>> = scores.collect();
        let mut sets = self.sets();
        let mut bounds = vec![0.0; self.terms.len()];
        let mut from = 0;
        while let Some((block, mut matching)) = self.formula.next_files(from, &mut sets) {
            if block % CHECKED_BLOCKS == 0 {
                check(run.stop)?;
            }
            from = block + 1;
            if let Some(least) = best.least() {
                for (term, (bound, scores)) in bounds.iter_mut().zip(&scores).enumerate() {
                    let scores = scores.as_ref();
                    let found = scores.zip(sets.terms.index(term, block));
                    *bound = found.map_or(0.0, |(scores, index)| scores.maxima[index]);
                }
                matching &= self.above(least, block, &mut bounds, &mut sets);
            }
            for file in files_of(block, matching) {
                let place = |sets: &mut FileSets<'_>, term| sets.terms.place(term, file);
                let mut term = |term: usize| match place(&mut sets, term) {
                    Some(place) => {
                        let count = self.terms[term].search.postings().counts()[place];
                        let scores = scores[term].as_ref();
                        (count, scores.map_or(0.0, |scores| scores.of_files[place]))
                    }
                    None => (0, 0.0),
                };
                let bit = block_of(file).1;
                let name = |name: usize| self.names[name][block as usize] & bit != 0;
                let verdict = self.formula.verdict(&mut term, &name);
                // Files of equal score come in their order.
                if best.least().is_some_and(|least| verdict.score <= least) {
                    continue;
                }
                best.push(Ranked {
                    file,
                    start: 0,
                    words: files[file as usize].words,
                    score: verdict.score,
                    hits: verdict.hits,
                });
            }
        }
        Ok(())
    }

    /// Files of a block outside of which no score is above `least`, by the bounds of the terms there: those with one of the terms
    /// without which the bound is not above it. Leaves bounds of the other terms behind.
    fn above(&self, least: f64, block: u32, bounds: &mut [f64], sets: &mut FileSets<'_>) -> u64 {
        let mut files = 0;
        loop {
            let bound = self.formula.bound(&|term| bounds[term]);
            if bound <= least {
                return files;
            }
            let greatest =
                (0..bounds.len()).max_by(|&left, &right| bounds[left].total_cmp(&bounds[right]));
            let Some(greatest) = greatest.filter(|&term| bounds[term] > 0.0) else {
                return u64::MAX;
            };
            bounds[greatest] = 0.0;
            files |= sets.terms.bits(greatest, block);
        }
    }

    /// Adds the units that match.
    fn units(&self, best: &mut Best, run: Run<'_>) -> Result<()> {
        // Words of terms that were kept were found without it.
        self.view.vocabulary()?;
        // Files are numbered by u32.
        let all = 0..self.view.files().len() as u32;
        let has_hits = |file: u32| {
            let mut terms = self.terms.iter();
            terms.any(|term| term.search.postings().place_of(file).is_some())
        };
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
        let limit = best.limit;
        for files in asked.chunks(FILES_AT_ONCE) {
            let of_files = files.par_iter().map(|&file| {
                let mut of_file = Best::new(limit);
                self.units_of(file, has_others(file), &scores, &mut of_file, run)?;
                Ok(of_file.ranked)
            });
            for ranked in of_files.collect::<Result<Vec<_>>>()? {
                ranked.into_iter().for_each(|unit| best.push(unit));
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
            if let Some(ranked) = self.ranked(&counted, bounds[unit], scores) {
                best.push(ranked);
            }
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
    /// With a limit a heap whose first is the least, once there are as many as that.
    ranked: Vec<Ranked>,
}

impl Best {
    fn new(limit: Option<usize>) -> Best {
        Best {
            limit,
            ranked: Vec::new(),
        }
    }

    /// The score of the least of the best, if one that is added displaces it.
    fn least(&self) -> Option<f64> {
        match self.limit {
            Some(limit) if self.ranked.len() >= limit => Some(
                self.ranked
                    .first()
                    .map_or(f64::INFINITY, |least| least.score),
            ),
            _ => None,
        }
    }

    fn push(&mut self, one: Ranked) {
        match self.limit {
            Some(limit) if self.ranked.len() >= limit => {
                let is_better = |least: &Ranked| Ranked::order(&one, least).is_lt();
                if self.ranked.first().is_some_and(is_better) {
                    self.ranked[0] = one;
                    self.sink(0);
                }
            }
            Some(limit) => {
                self.ranked.push(one);
                if self.ranked.len() == limit {
                    (0..limit / 2).rev().for_each(|place| self.sink(place));
                }
            }
            None => self.ranked.push(one),
        }
    }

    /// Moves one below those that are less than it.
    fn sink(&mut self, mut place: usize) {
        let is_less = |ranked: &[Ranked], left: usize, right: usize| {
            Ranked::order(&ranked[left], &ranked[right]).is_gt()
        };
        loop {
            let mut least = place;
            for child in 2 * place + 1..(2 * place + 3).min(self.ranked.len()) {
                if is_less(&self.ranked, child, least) {
                    least = child;
                }
            }
            if least == place {
                return;
            }
            self.ranked.swap(place, least);
            place = least;
        }
    }

    fn finish(mut self) -> Vec<Ranked> {
        self.ranked.sort_unstable_by(Ranked::order);
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
