//! Spans of files that match a query.
//!
//! Invariant: hits are those of the current texts, in order of file, start and end. First the places are found where spans may
//! begin, by one of three ways: near the occurrences of rare words that every span has; by the automaton on the grammar, over words
//! or with the gaps between them; by the automaton on words, which pending edits, sentences and windows need. Then the words behind
//! each place are read for its ends.

use std::cell::RefCell;
use std::collections::HashMap;
use std::iter;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;
use zipfdb_search::algebra::{Constraint, Span, SpanQuery, Strategy, Unit, WordTest};
use zipfdb_search::automaton::{Anchor, DEAD, Form, LazyDfa, Letter, Nfa, SpanAutomaton};
use zipfdb_search::matcher::MatcherLimits;
use zipfdb_search::naive::{SpanMatcher, TextWindow, UnitPlaces};
use zipfdb_sql::quote;

use super::context::{self, NEAR_WORDS, NearWords};
use super::hit::Hit;
use super::places::{Passage, PassageReader};
use super::query_error;
use super::span_table::span_table;
use super::words::{WordBits, passing};
use crate::answer::access_path::Run;
use crate::answer::{CorpusView, SpanPasses};
use crate::runtime::interrupt::check;
use crate::{Error, Result};

/// Words of a stretch that spans may begin in.
const STRETCH_WORDS: u64 = 1 << 16;

/// States that an automaton may have, as written and made deterministic.
const STATES_MAX: usize = 1 << 14;
const DETERMINISTIC_STATES_MAX: usize = 1 << 16;

/// Kinds of boundaries that a query may ask for.
const BOUNDARIES_MAX: usize = 8;

/// A query that was prepared for a corpus.
pub(crate) struct SpanSearch {
    view: Arc<CorpusView>,
    query: SpanQuery,
    automaton: SpanAutomaton,
    backwards: Nfa,
    /// The sets of tests that words pass.
    letters: Vec<Letter>,
    /// For each word its letter.
    class_of: Vec<u16>,
    /// The most words of a span; none without a bound.
    words_max: Option<u64>,
    /// The units that the query names.
    units: Vec<Unit>,
    /// Decides on what the automaton finds, where that may be more than the query means, and finds captures.
    matcher: SpanMatcher,
    /// Whether gaps or offsets decide.
    reads_gaps: bool,
    /// How often each word occurs, if that decides.
    totals: Vec<u64>,
    way: Way,
    /// Whether hits are the occurrences of words.
    is_of_words: bool,
    /// The words that are the hits, each occurrence one, if that is so and they are few.
    only_words: Option<Vec<u32>>,
}

/// Places of a file where hits may begin.
struct FilePart {
    file: u32,
    places: Range<u64>,
}

/// Hits of some files, in order, found as they are asked for: those that begin in few words at first.
#[derive(Clone)]
pub(crate) struct HitPages {
    search: Arc<SpanSearch>,
    files: Arc<[u32]>,
    /// The number of files that were searched, and the place in the next one.
    searched: usize,
    place: u64,
    /// Words that are searched next.
    words: u64,
}

/// Words that are searched for one page of hits, at first and at most.
const PAGE_WORDS: u64 = 1 << 13;
const PAGE_WORDS_MAX: u64 = 1 << 24;

/// The most words of a part of a file, which one thread searches.
const PART_WORDS: u64 = 1 << 18;

/// A page of this many words makes ready to search all files.
const PREPARED_WORDS: u64 = 1 << 19;

/// A file takes as long as this many words in addition to its own.
const FILE_WORDS: u64 = 64;

impl HitPages {
    /// Nothing is searched yet.
    pub(crate) fn new(search: Arc<SpanSearch>, files: &[u32]) -> HitPages {
        HitPages {
            search,
            files: files.into(),
            searched: 0,
            place: 0,
            words: PAGE_WORDS,
        }
    }

    /// The query.
    pub(crate) fn search(&self) -> &Arc<SpanSearch> {
        &self.search
    }

    /// The next hits, perhaps none; nothing behind the last file.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn next(&mut self, run: Run<'_>) -> Result<Option<Vec<Hit>>> {
        let search = self.search.clone();
        let mut parts = Vec::new();
        let mut left = self.words;
        while left > 0
            && let Some(&file) = self.files.get(self.searched)
        {
            let FilePart { places, .. } = search.all_of(file);
            let mut part = self.place..places.end;
            if search.is_divisible() {
                part.end = part.end.min(part.start + left.min(PART_WORDS));
            }
            left = left.saturating_sub(part.end - part.start + FILE_WORDS);
            if part.end == places.end {
                (self.searched, self.place) = (self.searched + 1, 0);
            } else {
                self.place = part.end;
            }
            parts.push(FilePart { file, places: part });
        }
        if parts.is_empty() {
            return Ok(None);
        }
        if self.words >= PREPARED_WORDS {
            search.prepare_all(run)?;
        }
        self.words = (self.words * 4).min(PAGE_WORDS_MAX);
        let of_parts = (parts.par_iter()).map_init(
            || Machines::new(&search),
            |machines, part| search.hits_in(part, machines, run),
        );
        Ok(Some(of_parts.collect::<Result<Vec<_>>>()?.concat()))
    }
}

/// How the places are found where spans may begin.
enum Way {
    /// Near words that every span has.
    Anchored(AnchorWords),
    /// By the grammar of segments, and by words in files with pending edits.
    Grammar(SpanPasses),
    /// By words.
    Words,
}

/// Rare words of which every span has one.
struct AnchorWords {
    words: Vec<u32>,
    /// Words from the start of a span to one of them, at least and at most.
    from: u64,
    to: u64,
    /// How often the words occur in the corpus.
    count: u64,
    /// The files that have one, ascending.
    files: Vec<u32>,
    /// For each file where, once all files are searched.
    positions: OnceLock<Vec<Vec<u64>>>,
}

impl AnchorWords {
    /// Whether a file has one of the words.
    fn is_in(&self, file: u32) -> bool {
        self.files.binary_search(&file).is_ok()
    }
}

/// Anchors with more words than this are none.
const ANCHOR_WORDS_MAX: usize = 64;

/// Looking an occurrence up and reading around it takes about as long as reading this many words in order.
const ANCHOR_COST: u64 = 64;

/// States of an automaton that reads grammars, times classes.
const TABLE_MAX: usize = 1 << 20;

/// The most words of a file that are held as one window, where a match has no greatest length.
const WINDOW_WORDS_MAX: u64 = 1 << 22;

/// The most matches of parts of a query that are compared at one place.
const WORK_MAX: u64 = 1 << 22;

impl SpanSearch {
    /// Prepares a query: evaluates its tests on the dictionary and makes its automaton.
    ///
    /// # Errors
    /// If the query is wrong or too large, a segment is damaged, or the run must end.
    pub(crate) fn new(
        view: &Arc<CorpusView>,
        query: SpanQuery,
        run: Run<'_>,
    ) -> Result<SpanSearch> {
        let automaton = SpanAutomaton::new(&query, &|_| true, STATES_MAX).map_err(query_error)?;
        if automaton.boundaries.len() > BOUNDARIES_MAX {
            let reason =
                format!("it asks for more than {BOUNDARIES_MAX} kinds of starts and ends of units");
            return Err(query_error(reason));
        }
        let words = WordBits::new(view, &automaton.tests, run)?;
        let word_count = view.vocabulary()?.len();
        let mut sets: Vec<u64> = words.words().iter().map(|(_, bits)| *bits).collect();
        if sets.len() < word_count || sets.is_empty() {
            sets.push(0);
        }
        sets.sort_unstable();
        sets.dedup();
        if sets.len() > usize::from(u16::MAX) {
            return Err(query_error(
                "its tests divide the words into more than 65,535 classes",
            ));
        }
        // Words that pass no test are of the first class.
        let mut class_of = vec![0; word_count];
        for (word, bits) in words.words() {
            class_of[*word as usize] = sets.binary_search(bits).unwrap_or_default() as u16;
        }
        let words_max = query.span.lengths().maximum;
        let (mut units, mut reads_gaps, mut reads_totals) = (Vec::new(), false, false);
        query.span.visit(&mut |span| match span {
            Span::UnitStart(unit) | Span::UnitEnd(unit) | Span::Unit(unit)
                if !units.contains(unit) =>
            {
                units.push(*unit);
            }
            Span::Word(test) => {
                reads_gaps |= test.is_contextual();
                reads_totals |= test.needs_frequency();
            }
            _ => {}
        });
        reads_totals |= (query.constraint.as_ref()).is_some_and(Constraint::needs_frequency);
        let matcher = SpanMatcher::new(&query, MatcherLimits::default()).map_err(query_error)?;
        let letters: Vec<Letter> = sets.iter().copied().map(Letter::Word).collect();
        let backwards = automaton.nfa.reversed();
        let way = match anchor(
            view,
            &query,
            automaton.is_exact,
            (&automaton.tests, &words),
            run,
        )? {
            Some(anchor) => Way::Anchored(anchor),
            None => span_table(&backwards, &automaton.boundaries, &letters, TABLE_MAX)
                .map_or(Way::Words, |table| {
                    Way::Grammar(SpanPasses::new(view, table))
                }),
        };
        let is_word = matches!(query.span, Span::Word(_));
        let is_of_words = is_word && automaton.is_exact && automaton.tests.len() == 1;
        let only_words = (is_of_words.then(|| words.few(0, ANCHOR_WORDS_MAX))).flatten();
        Ok(SpanSearch {
            way,
            is_of_words,
            only_words,
            view: view.clone(),
            units,
            matcher,
            reads_gaps,
            totals: if reads_totals {
                view.totals(run)?
            } else {
                Vec::new()
            },
            backwards,
            query,
            letters,
            automaton,
            class_of,
            words_max,
        })
    }

    /// The corpus that is searched.
    pub(crate) fn view(&self) -> &Arc<CorpusView> {
        &self.view
    }

    /// What EXPLAIN says of the way that spans are found.
    pub(crate) fn describe(&self) -> String {
        match &self.way {
            Way::Anchored(anchor) => {
                let words = anchor.words.iter().take(3);
                let words = words.map(|&word| quote(self.view.word(word)));
                let words: Vec<String> = words.collect();
                format!(
                    "path: around {} occurrences of {}",
                    anchor.count,
                    words.join(", ")
                )
            }
            Way::Grammar(_) => "path: grammar".to_owned(),
            Way::Words => "path: words".to_owned(),
        }
    }

    /// Makes ready to search all files.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn prepare_all(&self, run: Run<'_>) -> Result<()> {
        let Way::Anchored(anchor) = &self.way else {
            return Ok(());
        };
        if anchor.positions.get().is_some() {
            return Ok(());
        }
        let mut positions = vec![Vec::new(); self.view.files().len()];
        for &word in &anchor.words {
            let found = self.view.all_positions(word, run)?;
            for (all, more) in positions.iter_mut().zip(found) {
                if all.is_empty() {
                    *all = more;
                } else {
                    all.extend(more);
                }
            }
        }
        if anchor.words.len() > 1 {
            positions.iter_mut().for_each(|all| all.sort_unstable());
        }
        // Another thread may have been first, with the same.
        let _ = anchor.positions.set(positions);
        Ok(())
    }

    /// The number of hits in each of some files, in the order given.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn counts(&self, files: &[u32], run: Run<'_>) -> Result<Vec<u64>> {
        self.prepare_all(run)?;
        let has_one_end =
            self.query.strategy == Strategy::Shortest || self.query.span.lengths().is_fixed();
        let known = match &self.way {
            Way::Grammar(passes) if self.automaton.is_exact && has_one_end => self
                .view
                .span_counts(passes, &self.class_of, files, run.stop)?,
            _ => vec![None; files.len()],
        };
        let counts = (files.par_iter().zip(known)).map_init(
            || Machines::new(self),
            |machines, (&file, known)| match known {
                Some(known) => Ok(known),
                None => Ok(self.hits_in(&self.all_of(file), machines, run)?.len() as u64),
            },
        );
        counts.collect()
    }

    /// The number of all hits, if the counts of some words are that.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn known_count(&self, run: Run<'_>) -> Result<Option<u64>> {
        let Some(words) = &self.only_words else {
            return Ok(None);
        };
        let counts = words
            .iter()
            .map(|&word| self.view.count(self.view.word(word), run));
        counts.sum::<Result<u64>>().map(Some)
    }

    /// All hits.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn all_hits(&self, run: Run<'_>) -> Result<Vec<Hit>> {
        self.prepare_all(run)?;
        // Files are numbered by u32.
        let files = (0..self.view.files().len() as u32).into_par_iter();
        let of_files = files.map_init(
            || Machines::new(self),
            |machines, file| self.hits_in(&self.all_of(file), machines, run),
        );
        Ok(of_files.collect::<Result<Vec<_>>>()?.concat())
    }

    /// Hits of one file.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn hits_of(&self, file: u32, run: Run<'_>) -> Result<Vec<Hit>> {
        self.hits_in(&self.all_of(file), &mut Machines::new(self), run)
    }

    /// For each word whether its occurrences are hits, if all hits are occurrences of words.
    pub(crate) fn hit_words(&self) -> Option<Vec<bool>> {
        let words = self.is_of_words.then(|| self.class_of.iter());
        words.map(|words| words.map(|&class| self.is_hit(class)).collect())
    }

    /// Whether words of a class are hits, where hits are words.
    fn is_hit(&self, class: u16) -> bool {
        matches!(self.letters[usize::from(class)], Letter::Word(tests) if tests & 1 == 1)
    }

    /// Hits of one file, and the words around them: up to `left` words before one, and up to `right` behind.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn hits_in_context(
        &self,
        file: u32,
        (left, right): (u64, u64),
        run: Run<'_>,
    ) -> Result<(Vec<Hit>, NearWords)> {
        if !self.is_of_words || matches!(self.way, Way::Anchored(_)) {
            let hits = self.hits_of(file, run)?;
            let words = NearWords::around(&self.view, &hits, left, right, run)?;
            return Ok((hits, words));
        }
        // Words that are not rare: all words are near, and are the hits too.
        let FilePart { places, .. } = self.all_of(file);
        let words = context::read(&self.view, file, places, run)?;
        let is_hit: Vec<bool> = (0..self.letters.len() as u16)
            .map(|class| self.is_hit(class))
            .collect();
        let found = (0..)
            .zip(&words)
            .filter(|(_, word)| is_hit[usize::from(self.class_of[**word as usize])]);
        let hits = found.map(|(start, _)| Hit {
            file,
            start,
            end: start + 1,
        });
        Ok((hits.collect(), NearWords::all(words)))
    }

    /// All places of a file.
    fn all_of(&self, file: u32) -> FilePart {
        FilePart {
            file,
            places: 0..self.view.files()[file as usize].words,
        }
    }

    /// Whether the hits that begin in a part of a file can be found alone.
    fn is_divisible(&self) -> bool {
        let is_alone = match &self.way {
            Way::Grammar(_) => self.automaton.boundaries.is_empty(),
            Way::Anchored(_) | Way::Words => true,
        };
        // Of the longest spans one may lie in another that begins far before.
        let is_fixed = self.query.span.lengths().is_fixed();
        is_alone
            && self.words_max.is_some()
            && (is_fixed || self.query.strategy != Strategy::Longest)
    }

    /// Hits that begin at some places, by the automata of a thread.
    fn hits_in(
        &self,
        part: &FilePart,
        machines: &mut Machines<'_>,
        run: Run<'_>,
    ) -> Result<Vec<Hit>> {
        check(run.stop)?;
        let file = part.file;
        if let Way::Anchored(anchor) = &self.way
            && !anchor.is_in(file)
        {
            return Ok(Vec::new());
        }
        let mut text = SearchedFile::new(self, file);
        let starts = self.starts(&mut text, &part.places, machines, run)?;
        let lengths = self.query.span.lengths();
        if self.automaton.is_exact && lengths.is_fixed() {
            let length = lengths.minimum;
            let hits = starts.into_iter().map(|start| Hit {
                file,
                start,
                end: start + length,
            });
            return Ok(hits.collect());
        }
        self.hits_from(&mut text, &starts, machines, run)
    }

    /// The places of a file where spans may begin, ascending.
    fn starts(
        &self,
        text: &mut SearchedFile<'_>,
        places: &Range<u64>,
        machines: &mut Machines<'_>,
        run: Run<'_>,
    ) -> Result<Vec<u64>> {
        let all = iter::once(places.clone()).collect();
        let ranges: Vec<Range<u64>> = match &self.way {
            Way::Grammar(passes) => {
                let behind = self.behind(places.end, text.words);
                let part = (text.file, places.start..behind);
                let found = (self.view).span_starts(passes, &self.class_of, part, run.stop)?;
                if let Some(mut starts) = found {
                    starts.truncate(starts.partition_point(|&start| start < places.end));
                    return Ok(starts);
                }
                all
            }
            Way::Anchored(anchor) => {
                let ranges = self.ranges_near(anchor, text, places, run)?;
                if self.words_max.is_none() {
                    // Boundaries end what begins there.
                    return Ok(ranges.into_iter().flatten().collect());
                }
                ranges
            }
            Way::Words => all,
        };
        let mut starts = Vec::new();
        for range in ranges {
            let stretch = self.words_max.map_or(text.words, |_| STRETCH_WORDS).max(1);
            let mut first = range.start;
            while first < range.end {
                check(run.stop)?;
                let end = (first + stretch).min(range.end);
                let classes = text.classes(first..self.behind(end, text.words), run)?;
                let found = machines.starts(&classes, (end - first) as usize)?;
                starts.extend(found.into_iter().map(|start| first + start as u64));
                first = end;
            }
        }
        Ok(starts)
    }

    /// The places of a file where a span may begin that has one of some words.
    fn ranges_near(
        &self,
        anchor: &AnchorWords,
        text: &SearchedFile<'_>,
        places: &Range<u64>,
        run: Run<'_>,
    ) -> Result<Vec<Range<u64>>> {
        let file = text.file as usize;
        let mut found = Vec::new();
        let positions = if let Some(all) = anchor.positions.get() {
            &all[file]
        } else {
            for &word in &anchor.words {
                found.extend(self.view.positions_of(file, word, run)?);
            }
            found.sort_unstable();
            &found
        };
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for &position in positions {
            let Some(last) = position.checked_sub(anchor.from) else {
                continue;
            };
            let first = position.saturating_sub(anchor.to).max(places.start);
            let end = (last + 1).min(places.end);
            if first >= end {
                continue;
            }
            match ranges.last_mut() {
                Some(range) if first <= range.end => range.end = range.end.max(end),
                _ => ranges.push(first..end),
            }
        }
        Ok(ranges)
    }

    /// The hits that begin at some places.
    fn hits_from(
        &self,
        text: &mut SearchedFile<'_>,
        starts: &[u64],
        machines: &mut Machines<'_>,
        run: Run<'_>,
    ) -> Result<Vec<Hit>> {
        let (file, strategy) = (text.file, self.query.strategy);
        let mut hits = Vec::new();
        let mut longest_end = 0;
        let mut push = |start: u64, length: u64| {
            let end = start + length;
            if strategy != Strategy::Longest || end > longest_end {
                longest_end = end;
                hits.push(Hit { file, start, end });
            }
        };
        if self.automaton.is_exact {
            let mut behind = WordsBehind::new(text, run);
            for &start in starts {
                check(run.stop)?;
                behind.begin(start);
                machines.ends(&mut behind, start, strategy, |length| push(start, length))?;
            }
            return Ok(hits);
        }
        let mut rest = starts;
        while let Some(&first) = rest.first() {
            check(run.stop)?;
            // Places that are near each other are read together.
            let near = |pair: &[u64]| {
                pair[1] - pair[0] <= self.words_max.unwrap_or(text.words) + NEAR_WORDS
            };
            let together = rest.windows(2).take_while(|pair| near(pair));
            let in_stretch =
                |pair: &&[u64]| self.words_max.is_none() || pair[1] - first < STRETCH_WORDS;
            let count = 1 + together.take_while(in_stretch).count();
            let (now, later) = rest.split_at(count);
            rest = later;
            let behind = self.behind(now[count - 1] + 1, text.words);
            let range = self.window_of(first..behind, text.words)?;
            let window = WordWindow::read(text, range)?;
            let window_text = window.text();
            let mut evaluation = self.matcher.on(&window_text, WORK_MAX);
            for &start in now {
                check(run.stop)?;
                let found = evaluation.hits_at((start - window.passage.range.start) as usize);
                for hit in found.map_err(query_error)? {
                    push(start, hit.range.len() as u64);
                }
            }
        }
        Ok(hits)
    }

    /// The place behind the words that a span may have which begins before `end`.
    fn behind(&self, end: u64, words: u64) -> u64 {
        let reach = self.words_max;
        reach.map_or(words, |reach| end.saturating_add(reach).min(words))
    }

    /// The words that decide on the spans of a range.
    fn window_of(&self, range: Range<u64>, words: u64) -> Result<Range<u64>> {
        let context = self.query.span.context();
        let start = (context.before).map_or(0, |before| range.start.saturating_sub(before));
        let end = (context.after).map_or(words, |after| range.end.saturating_add(after).min(words));
        if end - start > WINDOW_WORDS_MAX {
            return Err(query_error(format!(
                "a match has no greatest length, and a file has more than {WINDOW_WORDS_MAX} words; hint: bound its repetitions, \
                 as `[]{{0,50}}`"
            )));
        }
        Ok(start..end)
    }

    /// The captures of a hit, by the names of [`SpanSearch::captures`]: positions in the file.
    ///
    /// # Errors
    /// If a segment is damaged, or the query takes too much work.
    pub(crate) fn captures_of(&self, hit: &Hit, run: Run<'_>) -> Result<Vec<Option<Range<u64>>>> {
        check(run.stop)?;
        let mut file = SearchedFile::new(self, hit.file);
        let range = self.window_of(hit.start..hit.end, file.words)?;
        let window = WordWindow::read(&mut file, range)?;
        let text = window.text();
        let mut evaluation = self.matcher.on(&text, WORK_MAX);
        let base = window.passage.range.start;
        let found = evaluation.hits_at((hit.start - base) as usize);
        let mut found = found.map_err(query_error)?.into_iter();
        let found = found.find(|found| base + found.range.end as u64 == hit.end);
        let captures = found.map(|found| found.captures).unwrap_or_default();
        let captures = captures.into_iter();
        let in_file = |range: Range<usize>| base + range.start as u64..base + range.end as u64;
        Ok(captures.map(|range| range.map(in_file)).collect())
    }

    /// The names of captures.
    pub(crate) fn captures(&self) -> &[String] {
        self.matcher.names()
    }

    /// What is shown of a hit with these captures.
    pub(crate) fn shown(&self, hit: Hit, captures: &[Option<Range<u64>>]) -> Hit {
        let Some((from, to)) = &self.query.show else {
            return hit;
        };
        let capture = |name: &String| {
            let place = self.captures().iter().position(|known| known == name)?;
            captures.get(place)?.clone()
        };
        let start = capture(from).map_or(hit.start, |range| range.start);
        let end = capture(to).map_or(hit.end, |range| range.end);
        Hit {
            start,
            end: end.max(start),
            ..hit
        }
    }

    /// Whether hits are shown by their captures.
    pub(crate) fn shows_captures(&self) -> bool {
        self.query.show.is_some()
    }

    /// The boundaries of a place that the automaton reads, of those of the units there.
    fn boundaries(&self, units: u64, place: u64, words: u64) -> u8 {
        let mut bits = 0;
        for (bit, boundary) in self.automaton.boundaries.iter().enumerate() {
            let unit = self.units.iter().position(|unit| *unit == boundary.unit);
            let is_there = unit.is_some_and(|unit| units >> unit & 1 == 1);
            bits |= u8::from(is_there && is_possible(place, words, boundary.is_end)) << bit;
        }
        bits
    }
}

/// Whether a unit can end or start at a place: nothing ends before the first word, and nothing starts behind the last.
fn is_possible(place: u64, words: u64, is_end: bool) -> bool {
    if is_end { place > 0 } else { place < words }
}

/// How often a word occurs in the corpus.
type Frequency<'a> = dyn Fn(&[u8]) -> u64 + 'a;

/// A file that is searched.
struct SearchedFile<'a> {
    search: &'a SpanSearch,
    file: u32,
    words: u64,
    /// Reads what decides on all spans.
    passages: PassageReader<'a>,
    /// Reads what the automaton decides on.
    letters: PassageReader<'a>,
}

impl<'a> SearchedFile<'a> {
    fn new(search: &'a SpanSearch, file: u32) -> SearchedFile<'a> {
        let reader = |units| PassageReader::new(&search.view, file, units);
        // Units that no boundary of the automaton names need not be read.
        let is_read = !search.automaton.boundaries.is_empty();
        SearchedFile {
            search,
            file,
            words: search.view.files()[file as usize].words,
            passages: reader(&search.units),
            letters: reader(if is_read { &search.units } else { &[] }),
        }
    }

    /// The words of a range as letters.
    fn classes(&mut self, range: Range<u64>, run: Run<'_>) -> Result<Classes> {
        let mut classes = Classes::default();
        let mut at = range.start;
        while at < range.end {
            check(run.stop)?;
            let end = (at + STRETCH_WORDS).min(range.end);
            self.append(&mut classes, at..end, run)?;
            at = end;
        }
        Ok(classes)
    }

    /// Appends the letters of a range, which begins at the last place of the classes.
    fn append(&mut self, to: &mut Classes, range: Range<u64>, run: Run<'_>) -> Result<()> {
        let search = self.search;
        let (words, places) = self.letters.numbers(range.clone(), run)?;
        let classes = words.iter().map(|&word| search.class_of[word as usize]);
        to.words.extend(classes);
        if !search.automaton.boundaries.is_empty() {
            to.places.pop();
            let places = (range.start..).zip(places);
            let bits = places.map(|(place, units)| search.boundaries(units, place, self.words));
            to.places.extend(bits);
        }
        Ok(())
    }
}

/// The words of a file from a place on, read as far as they are asked for.
struct WordsBehind<'r, 'a> {
    text: &'r mut SearchedFile<'a>,
    run: Run<'r>,
    /// What was read, from the place `first` on.
    classes: Classes,
    first: u64,
    /// Words that are read next.
    next: u64,
}

impl<'r, 'a> WordsBehind<'r, 'a> {
    fn new(text: &'r mut SearchedFile<'a>, run: Run<'r>) -> Self {
        WordsBehind {
            text,
            run,
            classes: Classes::default(),
            first: 0,
            next: 0,
        }
    }

    /// Begins at a place behind the one before; words near the last one are read together with it.
    fn begin(&mut self, start: u64) {
        let end = self.first + self.classes.words.len() as u64;
        if start > end + NEAR_WORDS || self.next == 0 {
            self.classes = Classes::default();
            self.first = start;
            let most = self.text.search.words_max.unwrap_or(NEAR_WORDS);
            self.next = most.clamp(1, STRETCH_WORDS);
        } else if start - self.first >= STRETCH_WORDS && start <= end {
            let passed = (start - self.first) as usize;
            self.classes.words.drain(..passed);
            if !self.classes.places.is_empty() {
                self.classes.places.drain(..passed);
            }
            self.first = start;
        }
    }

    /// Reads on until the word at a position is there; whether the file has it.
    fn reach(&mut self, position: u64) -> Result<bool> {
        if position >= self.text.words {
            return Ok(false);
        }
        let mut end = self.first + self.classes.words.len() as u64;
        while end <= position {
            check(self.run.stop)?;
            let to = (end + self.next).min(self.text.words);
            self.text.append(&mut self.classes, end..to, self.run)?;
            self.next = (self.next * 2).min(STRETCH_WORDS);
            end = to;
        }
        Ok(true)
    }
}

/// Consecutive words of a file with what is between them.
struct WordWindow<'a> {
    search: &'a SpanSearch,
    passage: Passage,
    file_words: u64,
    frequency: Box<Frequency<'a>>,
}

impl<'a> WordWindow<'a> {
    fn read(text: &mut SearchedFile<'a>, range: Range<u64>) -> Result<WordWindow<'a>> {
        let search = text.search;
        let view = &search.view;
        Ok(WordWindow {
            search,
            passage: text.passages.read(range, search.reads_gaps)?,
            file_words: text.words,
            frequency: Box::new(|word| {
                let found = view.vocabulary().and_then(|words| words.find(word));
                let total = |word: u32| search.totals.get(word as usize).copied();
                found.ok().flatten().and_then(total).unwrap_or(0)
            }),
        })
    }

    fn text(&self) -> TextWindow<'_> {
        let (view, passage) = (&self.search.view, &self.passage);
        let mut gaps: Vec<&[u8]> = Vec::with_capacity(passage.words.len() + 1);
        let mut at = passage.base;
        let gap = |from: u64, to: u64| {
            let range = (from - passage.base) as usize..(to - passage.base) as usize;
            passage.text.get(range).unwrap_or_default()
        };
        for word in &passage.words {
            gaps.push(gap(at, word.offset));
            at = word.offset + view.word(word.word).len() as u64;
        }
        gaps.push(gap(at, at.max(passage.base + passage.text.len() as u64)));
        let mut units = HashMap::new();
        for (bit, unit) in self.search.units.iter().enumerate() {
            let mut found = UnitPlaces::default();
            for (place, bits) in passage.places.iter().enumerate() {
                let in_file = passage.range.start + place as u64;
                if bits >> bit & 1 == 1 {
                    let is_possible = |is_end| is_possible(in_file, self.file_words, is_end);
                    found.starts.extend(is_possible(false).then_some(place));
                    found.ends.extend(is_possible(true).then_some(place));
                }
            }
            units.insert(*unit, found);
        }
        TextWindow {
            words: (passage.words.iter().map(|word| view.word(word.word))).collect(),
            gaps,
            position: passage.range.start,
            offset: passage.base,
            frequency: &*self.frequency,
            units,
        }
    }
}

/// A few words, and how often they occur together.
type FewWords = (Vec<u32>, u64);

/// Rare words of which every span has one, if looking them up takes less time than reading all words. `known` has the words that
/// pass some tests.
fn anchor(
    view: &CorpusView,
    query: &SpanQuery,
    is_exact: bool,
    known: (&[WordTest], &WordBits),
    run: Run<'_>,
) -> Result<Option<AnchorWords>> {
    if query.span.lengths().maximum.is_none() && !(is_exact && is_in_units(&query.span)) {
        return Ok(None);
    }
    let few: RefCell<HashMap<WordTest, Option<FewWords>>> = RefCell::default();
    let failed = RefCell::new(None);
    let find = |test: &WordTest| -> Result<Option<FewWords>> {
        let (tests, bits) = known;
        let words = match tests.iter().position(|other| other == test) {
            Some(number) => bits.few(number, ANCHOR_WORDS_MAX),
            None => Some(passing(view, test, run)?).filter(|words| words.len() <= ANCHOR_WORDS_MAX),
        };
        let Some(words) = words else { return Ok(None) };
        let counts = words.iter().map(|&word| view.count(view.word(word), run));
        let count = counts.sum::<Result<u64>>()?;
        Ok(Some((words, count)))
    };
    let cost = |test: &WordTest| {
        let mut few = few.borrow_mut();
        let words = few.entry(test.clone()).or_insert_with(|| match find(test) {
            Ok(words) => words,
            Err(error) => {
                *failed.borrow_mut() = Some(error);
                None
            }
        });
        words.as_ref().map_or(u64::MAX >> 1, |(_, count)| *count)
    };
    let found = query.span.anchor(&cost);
    if let Some(error) = failed.take() {
        return Err(error);
    }
    let Some(Anchor {
        tests,
        from,
        to: Some(to),
        cost,
    }) = found
    else {
        return Ok(None);
    };
    if cost.saturating_mul(ANCHOR_COST) > view.total_words() {
        return Ok(None);
    }
    let few = few.into_inner();
    let words = tests.iter().filter_map(|test| few.get(test)?.as_ref());
    let mut words: Vec<u32> = words.flat_map(|(words, _)| words.iter().copied()).collect();
    words.sort_unstable();
    words.dedup();
    let texts: Vec<Vec<u8>> = words.iter().map(|&word| view.word(word).to_vec()).collect();
    let files = if texts.is_empty() {
        Vec::new()
    } else {
        view.files_of_words(&texts, run)?
    };
    Ok(Some(AnchorWords {
        words,
        from,
        to,
        count: cost,
        files: files.into_iter().map(|(file, _)| file).collect(),
        positions: OnceLock::new(),
    }))
}

/// Whether each span is within a unit that is no file, so that it ends soon.
fn is_in_units(span: &Span) -> bool {
    match span {
        Span::Within {
            container,
            is_negated: false,
            ..
        } if let Span::Unit(unit) = **container
            && !matches!(unit, Unit::File | Unit::Record) =>
        {
            true
        }
        Span::Within { span, .. }
        | Span::WithinWords { span, .. }
        | Span::Containing { span, .. }
        | Span::Capture { span, .. } => is_in_units(span),
        _ => false,
    }
}

/// Words of a file as letters.
#[derive(Default)]
struct Classes {
    words: Vec<u16>,
    /// The boundaries of each place, one more than there are words; empty if the automaton reads none.
    places: Vec<u8>,
}

/// The automata of one thread.
struct Machines<'a> {
    backwards: LazyDfa<'a>,
    forwards: LazyDfa<'a>,
}

impl<'a> Machines<'a> {
    fn new(search: &'a SpanSearch) -> Machines<'a> {
        let machine =
            |nfa: &'a Nfa, form| LazyDfa::new(nfa, &search.letters, form, DETERMINISTIC_STATES_MAX);
        Machines {
            backwards: machine(&search.backwards, Form::Searching),
            forwards: machine(&search.automaton.nfa, Form::Anchored),
        }
    }

    /// The places before `end` where spans begin, ascending.
    fn starts(&mut self, text: &Classes, end: usize) -> Result<Vec<usize>> {
        let machine = &mut self.backwards;
        let mut starts = Vec::new();
        let mut state = machine.start();
        for place in (0..=text.words.len()).rev() {
            state = step_place(machine, state, text, place)?;
            if place < end && machine.is_match(state) {
                starts.push(place);
            }
            if let Some(before) = place.checked_sub(1) {
                state = step(machine, state, u32::from(text.words[before]))?;
            }
        }
        starts.reverse();
        Ok(starts)
    }

    /// Calls `push` with the number of words of each span from `start` that the strategy keeps. Reads no further than to where no
    /// span ends any more.
    fn ends(
        &mut self,
        text: &mut WordsBehind<'_, '_>,
        start: u64,
        strategy: Strategy,
        mut push: impl FnMut(u64),
    ) -> Result<()> {
        let machine = &mut self.forwards;
        let mut state = machine.start();
        let mut longest = None;
        let mut position = start;
        while text.reach(position)? {
            let place = (position - text.first) as usize;
            if position == start {
                state = step_place(machine, state, &text.classes, place)?;
            }
            state = step(machine, state, u32::from(text.classes.words[place]))?;
            if state == DEAD {
                break;
            }
            state = step_place(machine, state, &text.classes, place + 1)?;
            position += 1;
            if machine.is_match(state) {
                let length = position - start;
                match strategy {
                    Strategy::Shortest => {
                        push(length);
                        return Ok(());
                    }
                    Strategy::Longest => longest = Some(length),
                    Strategy::All => push(length),
                }
            }
        }
        if let Some(length) = longest {
            push(length);
        }
        Ok(())
    }
}

/// The state behind a word.
fn step(machine: &mut LazyDfa<'_>, state: u32, letter: u32) -> Result<u32> {
    machine.step(state, letter).ok_or_else(too_many_states)
}

/// The state behind the boundaries of a place.
fn step_place(machine: &mut LazyDfa<'_>, state: u32, text: &Classes, place: usize) -> Result<u32> {
    let boundaries = text.places.get(place).copied().unwrap_or(0);
    let next = machine.step_place(state, u64::from(boundaries));
    next.ok_or_else(too_many_states)
}

fn too_many_states() -> Error {
    query_error(format!(
        "it needs more than {DETERMINISTIC_STATES_MAX} states; hint: use smaller numbers in `{{n,m}}`, or fewer alternatives"
    ))
}
