//! Spans of files that match a query.
//!
//! Invariant: hits are those of the current texts, in order of file, start and end. First the places are found where spans may
//! begin, by one of three ways: near the occurrences of rare words that every span has; by the automaton on the grammar; by the
//! automaton on words, which pending edits and boundaries of units need. Then the words behind each place are read for its ends.

use std::cell::RefCell;
use std::collections::HashMap;
use std::iter;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use rayon::prelude::*;
use zipfdb_kernels::StepTable;
use zipfdb_search::algebra::{Constraint, Span, SpanQuery, Strategy, Unit, WordTest};
use zipfdb_search::automaton::{Anchor, DEAD, Dfa, Form, LazyDfa, Letter, Nfa, SpanAutomaton};
use zipfdb_search::matcher::MatcherLimits;
use zipfdb_search::naive::{SpanMatcher, TextWindow, UnitPlaces};
use zipfdb_sql::quote;

use super::context::{self, NEAR_WORDS};
use super::hit::Hit;
use super::places::Stretch;
use super::query_error;
use super::words::{WordBits, passing};
use crate::answer::access_path::Run;
use crate::answer::{CorpusView, Occurrence, PlaceRanges, SpanPasses, WordStream};
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
    /// The units of the places of the file that was read last: hits of one file are asked for one after another.
    last_places: Mutex<Option<(u32, Arc<Vec<u64>>)>>,
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
    /// For each file how often they occur.
    counts: Vec<u64>,
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
        // Words are numbered by u32.
        let all = 0..view.vocabulary()?.len() as u32;
        let mut sets: Vec<u64> = all.clone().map(|word| words.of(word)).collect();
        sets.sort_unstable();
        sets.dedup();
        if sets.len() > usize::from(u16::MAX) {
            return Err(query_error(
                "its tests divide the words into more than 65,535 classes",
            ));
        }
        let class = |word: u32| sets.binary_search(&words.of(word)).unwrap_or_default() as u16;
        let class_of = all.map(class).collect();
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
        let way = if !units.is_empty() {
            Way::Words
        } else if let Some(anchor) = anchor(view, &query, (&automaton.tests, &words), run)? {
            Way::Anchored(anchor)
        } else {
            match Dfa::new(
                &backwards,
                &letters,
                Form::Searching,
                TABLE_MAX / letters.len().max(1),
            ) {
                None => Way::Words,
                Some(dfa) => {
                    let table =
                        StepTable::new(letters.len(), dfa.table(), |state| dfa.is_match(state));
                    Way::Grammar(SpanPasses::new(view, table, dfa.start()))
                }
            }
        };
        Ok(SpanSearch {
            way,
            last_places: Mutex::default(),
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

    /// Hits of some files, in the order given.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn hits(&self, files: &[u32], run: Run<'_>) -> Result<Vec<Hit>> {
        let of_files = files.par_iter().map(|&file| self.hits_of(file, run));
        Ok(of_files.collect::<Result<Vec<_>>>()?.concat())
    }

    /// The number of hits in each of some files, in the order given.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn counts(&self, files: &[u32], run: Run<'_>) -> Result<Vec<u64>> {
        let has_one_end =
            self.query.strategy == Strategy::Shortest || self.query.span.lengths().is_fixed();
        let known = match &self.way {
            Way::Grammar(passes) if self.automaton.is_exact && has_one_end => self
                .view
                .span_counts(passes, &self.class_of, files, run.stop)?,
            _ => vec![None; files.len()],
        };
        let counts = files
            .par_iter()
            .zip(known)
            .map(|(&file, known)| match known {
                Some(known) => Ok(known),
                None => Ok(self.hits_of(file, run)?.len() as u64),
            });
        counts.collect()
    }

    /// Hits of one file.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn hits_of(&self, file: u32, run: Run<'_>) -> Result<Vec<Hit>> {
        check(run.stop)?;
        let words = self.view.files()[file as usize].words;
        let places = self.unit_places(file, run)?;
        let text = SearchedFile {
            file,
            words,
            boundaries: self.boundaries(&places, words),
            places,
        };
        let mut machines = Machines::new(self);
        let starts = self.starts(&text, &mut machines, run)?;
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
        self.hits_from(&text, &starts, &mut machines, run)
    }

    /// The places of a file where spans may begin, ascending.
    fn starts(
        &self,
        text: &SearchedFile,
        machines: &mut Machines<'_>,
        run: Run<'_>,
    ) -> Result<Vec<u64>> {
        let whole = || iter::once(0..text.words).collect();
        let ranges: Vec<Range<u64>> = match &self.way {
            Way::Grammar(passes) => {
                let found = (self.view).span_starts(passes, &self.class_of, text.file, run.stop)?;
                if let Some(starts) = found {
                    return Ok(starts);
                }
                whole()
            }
            Way::Anchored(anchor) => self.ranges_near(anchor, text, run)?,
            Way::Words => whole(),
        };
        let mut starts = Vec::new();
        for range in ranges {
            let stretch = self.words_max.map_or(text.words, |_| STRETCH_WORDS).max(1);
            let mut first = range.start;
            while first < range.end {
                check(run.stop)?;
                let end = (first + stretch).min(range.end);
                let classes = self.classes(text, first..self.behind(end, text.words), run)?;
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
        text: &SearchedFile,
        run: Run<'_>,
    ) -> Result<Vec<Range<u64>>> {
        if anchor.counts[text.file as usize] == 0 {
            return Ok(Vec::new());
        }
        let mut positions = Vec::new();
        for &word in &anchor.words {
            let found = (self.view).positions_of(text.file as usize, word, run)?;
            positions.extend(found);
        }
        positions.sort_unstable();
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for position in positions {
            let Some(last) = position.checked_sub(anchor.from) else {
                continue;
            };
            let first = position.saturating_sub(anchor.to);
            match ranges.last_mut() {
                Some(range) if first <= range.end => range.end = range.end.max(last + 1),
                _ => ranges.push(first..last + 1),
            }
        }
        Ok(ranges)
    }

    /// The hits that begin at some places.
    fn hits_from(
        &self,
        text: &SearchedFile,
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
            if self.automaton.is_exact {
                let classes = self.classes(text, first..behind, run)?;
                for &start in now {
                    let push = |length: usize| push(start, length as u64);
                    machines.ends(&classes, (start - first) as usize, strategy, push)?;
                }
                continue;
            }
            let range = self.window_of(first..behind, text.words)?;
            let window = WordWindow::read(self, file, range, &text.places)?;
            let window_text = window.text();
            let mut evaluation = self.matcher.on(&window_text, WORK_MAX);
            for &start in now {
                check(run.stop)?;
                let found = evaluation.hits_at((start - window.range.start) as usize);
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

    /// For each place of a file a bit for each unit of the query that has a boundary there; nothing if the query names no unit.
    fn unit_places(&self, file: u32, run: Run<'_>) -> Result<Arc<Vec<u64>>> {
        if self.units.is_empty() {
            return Ok(Arc::default());
        }
        if let Some((last, places)) = &*self.last_places.lock()
            && *last == file
        {
            return Ok(places.clone());
        }
        let places = Arc::new(unit_places(&self.view, file, &self.units, run)?);
        *self.last_places.lock() = Some((file, places.clone()));
        Ok(places)
    }

    /// The captures of a hit, by the names of [`SpanSearch::captures`]: positions in the file.
    ///
    /// # Errors
    /// If a segment is damaged, or the query takes too much work.
    pub(crate) fn captures_of(&self, hit: &Hit, run: Run<'_>) -> Result<Vec<Option<Range<u64>>>> {
        let words = self.view.files()[hit.file as usize].words;
        let places = self.unit_places(hit.file, run)?;
        let range = self.window_of(hit.start..hit.end, words)?;
        let window = WordWindow::read(self, hit.file, range, &places)?;
        let text = window.text();
        let mut evaluation = self.matcher.on(&text, WORK_MAX);
        let base = window.range.start;
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

    /// The words of a file in a range as letters.
    fn classes<'t>(
        &self,
        text: &'t SearchedFile,
        range: Range<u64>,
        run: Run<'_>,
    ) -> Result<Classes<'t>> {
        let words = context::read(&self.view, text.file, range.clone(), run)?;
        let classes = words.into_iter().map(|word| self.class_of[word as usize]);
        let places = text.boundaries.as_ref();
        Ok(Classes {
            words: classes.collect(),
            places: places.map(|places| &places[range.start as usize..=range.end as usize]),
        })
    }

    /// For each place of a file the boundaries there; none if the automaton reads none. `places` has a bit for each unit.
    fn boundaries(&self, places: &[u64], words: u64) -> Option<Vec<u8>> {
        let wanted = &self.automaton.boundaries;
        if wanted.is_empty() {
            return None;
        }
        let marks = (0..).zip(places).map(|(place, units_here): (u64, _)| {
            let mut bits = 0;
            for (bit, boundary) in wanted.iter().enumerate() {
                let unit = self.units.iter().position(|unit| *unit == boundary.unit);
                let is_there = unit.is_some_and(|unit| units_here >> unit & 1 == 1);
                bits |= u8::from(is_there && is_possible(place, words, boundary.is_end)) << bit;
            }
            bits
        });
        Some(marks.collect())
    }
}

/// Whether a unit can end or start at a place: nothing ends before the first word, and nothing starts behind the last.
fn is_possible(place: u64, words: u64, is_end: bool) -> bool {
    if is_end { place > 0 } else { place < words }
}

/// How often a word occurs in the corpus.
type Frequency<'a> = dyn Fn(&[u8]) -> u64 + 'a;

/// Consecutive words of a file with what is between them.
struct WordWindow<'a> {
    search: &'a SpanSearch,
    range: Range<u64>,
    file_words: u64,
    words: Vec<Occurrence>,
    /// The text from the end of the word before the window to the start of the word behind it; empty if gaps do not decide.
    text: Vec<u8>,
    /// The offset of the text.
    base: u64,
    /// The units of each place of the window.
    places: &'a [u64],
    frequency: Box<Frequency<'a>>,
}

impl<'a> WordWindow<'a> {
    fn read(
        search: &'a SpanSearch,
        file: u32,
        range: Range<u64>,
        places: &'a [u64],
    ) -> Result<WordWindow<'a>> {
        let view = &search.view;
        let summary = &view.files()[file as usize];
        // One word more on each side, between which the gaps lie.
        let wide = range.start.saturating_sub(1)..(range.end + 1).min(summary.words);
        let wanted = PlaceRanges {
            positions: wide.start..=wide.end - 1,
            ..PlaceRanges::ALL
        };
        let mut stream = WordStream::within(view.clone(), vec![file], wanted, 0);
        let mut words: Vec<Occurrence> = Vec::new();
        stream.fill(&mut words, (wide.end - wide.start) as usize)?;
        words.retain(|word| wide.contains(&word.position));
        let word_end = |word: &Occurrence| word.offset + view.word(word.word).len() as u64;
        let base = match words.first() {
            Some(first) if first.position < range.start => word_end(first),
            _ => 0,
        };
        let end = match words.last() {
            Some(last) if last.position >= range.end => last.offset,
            _ => summary.bytes,
        };
        words.retain(|word| range.contains(&word.position));
        let text = if search.reads_gaps {
            view.extract(file as usize, base, end - base)?
        } else {
            Vec::new()
        };
        Ok(WordWindow {
            search,
            file_words: summary.words,
            words,
            text,
            base,
            places: places
                .get(range.start as usize..=range.end as usize)
                .unwrap_or_default(),
            range,
            frequency: Box::new(|word| {
                let found = view.vocabulary().and_then(|words| words.find(word));
                let total = |word: u32| search.totals.get(word as usize).copied();
                found.ok().flatten().and_then(total).unwrap_or(0)
            }),
        })
    }

    fn text(&self) -> TextWindow<'_> {
        let view = &self.search.view;
        let mut gaps: Vec<&[u8]> = Vec::with_capacity(self.words.len() + 1);
        let mut at = self.base;
        let gap = |from: u64, to: u64| {
            let range = (from - self.base) as usize..(to - self.base) as usize;
            self.text.get(range).unwrap_or_default()
        };
        for word in &self.words {
            gaps.push(gap(at, word.offset));
            at = word.offset + view.word(word.word).len() as u64;
        }
        gaps.push(gap(at, at.max(self.base + self.text.len() as u64)));
        let mut units = HashMap::new();
        for (bit, unit) in self.search.units.iter().enumerate() {
            let mut found = UnitPlaces::default();
            for (place, bits) in self.places.iter().enumerate() {
                let in_file = self.range.start + place as u64;
                if bits >> bit & 1 == 1 {
                    let is_possible = |is_end| is_possible(in_file, self.file_words, is_end);
                    found.starts.extend(is_possible(false).then_some(place));
                    found.ends.extend(is_possible(true).then_some(place));
                }
            }
            units.insert(*unit, found);
        }
        TextWindow {
            words: (self.words.iter().map(|word| view.word(word.word))).collect(),
            gaps,
            position: self.range.start,
            offset: self.base,
            frequency: &*self.frequency,
            units,
        }
    }
}

/// A file that is searched.
struct SearchedFile {
    file: u32,
    words: u64,
    /// The units of each place, if the query names any.
    places: Arc<Vec<u64>>,
    /// The boundaries of each place that the automaton reads, if it reads any.
    boundaries: Option<Vec<u8>>,
}

/// Rare words of which every span has one, if looking them up takes less time than reading all words. `known` has the words that
/// pass some tests.
fn anchor(
    view: &CorpusView,
    query: &SpanQuery,
    known: (&[WordTest], &WordBits),
    run: Run<'_>,
) -> Result<Option<AnchorWords>> {
    if query.span.lengths().maximum.is_none() {
        return Ok(None);
    }
    let totals = view.totals(run)?;
    let few: RefCell<HashMap<WordTest, Option<Vec<u32>>>> = RefCell::default();
    let failed = RefCell::new(None);
    let cost = |test: &WordTest| {
        let mut few = few.borrow_mut();
        let words = few.entry(test.clone()).or_insert_with(|| {
            let (tests, bits) = known;
            let words = match tests.iter().position(|other| other == test) {
                Some(number) => Ok(bits.passing(number)),
                None => passing(view, test, run),
            };
            match words {
                Ok(words) => (words.len() <= ANCHOR_WORDS_MAX).then_some(words),
                Err(error) => {
                    *failed.borrow_mut() = Some(error);
                    None
                }
            }
        });
        let sum = |words: &Vec<u32>| words.iter().map(|&word| totals[word as usize]).sum();
        words.as_ref().map_or(u64::MAX >> 1, sum)
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
    let words = tests.iter().filter_map(|test| few.get(test)?.clone());
    let mut words: Vec<u32> = words.flatten().collect();
    words.sort_unstable();
    words.dedup();
    let texts: Vec<Vec<u8>> = words.iter().map(|&word| view.word(word).to_vec()).collect();
    let counts = if texts.is_empty() {
        vec![0; view.files().len()]
    } else {
        view.files_of_words(&texts, run)?
    };
    Ok(Some(AnchorWords {
        words,
        from,
        to,
        count: cost,
        counts,
    }))
}

/// A stretch of a file as letters.
struct Classes<'a> {
    words: Vec<u16>,
    /// The boundaries of each place, one more than there are words, if any are asked for.
    places: Option<&'a [u8]>,
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
    fn starts(&mut self, text: &Classes<'_>, end: usize) -> Result<Vec<usize>> {
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

    /// Calls `push` with the number of words of each span from `start` that the strategy keeps.
    fn ends(
        &mut self,
        text: &Classes<'_>,
        start: usize,
        strategy: Strategy,
        mut push: impl FnMut(usize),
    ) -> Result<()> {
        let machine = &mut self.forwards;
        let begin = machine.start();
        let mut state = step_place(machine, begin, text, start)?;
        let mut longest = None;
        for (length, &class) in (1..).zip(&text.words[start..]) {
            state = step(machine, state, u32::from(class))?;
            if state == DEAD {
                break;
            }
            state = step_place(machine, state, text, start + length)?;
            if machine.is_match(state) {
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
fn step_place(
    machine: &mut LazyDfa<'_>,
    state: u32,
    text: &Classes<'_>,
    place: usize,
) -> Result<u32> {
    let boundaries = text.places.map_or(0, |places| places[place]);
    let next = machine.step_place(state, u64::from(boundaries));
    next.ok_or_else(too_many_states)
}

fn too_many_states() -> Error {
    query_error(format!(
        "it needs more than {DETERMINISTIC_STATES_MAX} states; hint: use smaller numbers in `{{n,m}}`, or fewer alternatives"
    ))
}

/// For each place of a file the units that have a boundary there.
fn unit_places(
    view: &Arc<CorpusView>,
    file: u32,
    units: &[Unit],
    run: Run<'_>,
) -> Result<Vec<u64>> {
    let summary = &view.files()[file as usize];
    let mut stream = WordStream::within(view.clone(), vec![file], PlaceRanges::ALL, 0);
    let mut places = vec![0; summary.words as usize + 1];
    let mut buffer: Vec<Occurrence> = Vec::new();
    // The first word and the first byte that no stretch has had.
    let (mut first, mut base) = (0u64, 0u64);
    let mut has_more = true;
    while has_more {
        check(run.stop)?;
        let wanted = buffer.len() + STRETCH_WORDS as usize;
        has_more = stream.fill(&mut buffer, wanted)?;
        let text_end = match buffer.last() {
            Some(last) if has_more => last.offset,
            _ => summary.bytes,
        };
        let text = view.extract(file as usize, base, text_end - base)?;
        let count = if has_more {
            // A sentence begins behind the end of a line, so the first word there begins a stretch that is like the whole text.
            let line = memchr::memrchr(b'\n', &text).map(|at| base + at as u64);
            let Some(line) = line else { continue };
            buffer.partition_point(|word| word.offset < line)
        } else {
            buffer.len()
        };
        if count == 0 && has_more {
            continue;
        }
        let end = if has_more {
            buffer[count].offset
        } else {
            text_end
        };
        let words: Vec<(u64, u32)> = buffer[..count]
            .iter()
            .map(|word| (word.offset, view.word(word.word).len() as u32))
            .collect();
        let stretch = Stretch {
            first,
            file_words: summary.words,
            text: &text[..(end - base) as usize],
            base,
            words: &words,
        };
        for (place, bits) in (first as usize..).zip(stretch.boundaries(units)) {
            places[place] |= bits;
        }
        buffer.drain(..count);
        (first, base) = (first + count as u64, end);
    }
    Ok(places)
}
