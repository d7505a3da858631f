//! Spans on plain words, by the definition of each operator: the oracle of tests, and the judge of candidates in a window.
//!
//! A span expression gives for each start the list of its matches: ends with captures, the first one preferred. Alternatives come in
//! their order, the first parts of sequences decide before later ones, and repetitions prefer more rounds, under
//! [`Strategy::Shortest`] fewer. Invariant: the matches of a part at a place are found once and differ in end or captures, so work is
//! polynomial in the window for a given number of captures that vary. Captures within what only decides (look-around, containers,
//! contents, what `meet` looks for, complements) have no span.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::ops::Range;
use std::rc::Rc;

use crate::algebra::{CaptureValue, Constraint, Side, Span, SpanQuery, Strategy, Unit, WordTest};
use crate::compile_error::CompileError;
use crate::matcher::{MatcherLimits, Occurrence, WordMatcher, folded};

/// Places of a window where units start and end, ascending. Place `i` is before word `i`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitPlaces {
    /// Where one starts.
    pub starts: Vec<usize>,
    /// Where one ends.
    pub ends: Vec<usize>,
}

/// Consecutive words of one file.
pub struct TextWindow<'a> {
    /// The words.
    pub words: Vec<&'a [u8]>,
    /// The gap before each word, and the one behind the last.
    pub gaps: Vec<&'a [u8]>,
    /// The number of the first word in the file.
    pub position: u64,
    /// The offset of the first gap in the file.
    pub offset: u64,
    /// The number of occurrences of a word in the corpus.
    pub frequency: &'a dyn Fn(&[u8]) -> u64,
    /// Boundaries of the units that the query names. Units of one kind do not overlap, follow each other directly, and have words.
    pub units: HashMap<Unit, UnitPlaces>,
}

/// A span that is a hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanHit {
    /// Words of the window.
    pub range: Range<usize>,
    /// For each name of [`SpanMatcher::names`] the words that it has, if any: of the preferred match of the hit that passes the
    /// constraint.
    pub captures: Vec<Option<Range<usize>>>,
}

/// The work that was allowed is done, and the answer not found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the query compares more than {limit} matches at one place; hint: bound its repetitions, or name fewer captures in them"
)]
pub struct WorkLimitError {
    /// Matches of parts.
    pub limit: u64,
}

/// A query that is ready for windows.
#[derive(Debug, Clone)]
pub struct SpanMatcher {
    nodes: Vec<Node>,
    root: usize,
    names: Vec<String>,
    constraint: Option<Constraint>,
    strategy: Strategy,
    show: Option<(usize, usize)>,
}

/// A span expression, with parts by number.
#[derive(Debug, Clone)]
struct Node {
    kind: Kind,
    /// Largest number of words, for searches backwards.
    words_max: Option<u64>,
}

#[derive(Debug, Clone)]
enum Kind {
    Empty,
    Word(WordMatcher),
    Sequence(Vec<usize>),
    Alternation(Vec<usize>),
    Repeat(usize, u32, Option<u32>),
    /// The number of the name, and what it names.
    Capture(usize, usize),
    Look(Side, bool, usize),
    UnitStart(Unit),
    UnitEnd(Unit),
    Unit(Unit),
    WithinUnit(usize, Unit, bool),
    Within(usize, usize, bool),
    WithinWords(usize, u32),
    Containing(usize, usize, bool),
    Intersection(Vec<usize>),
    Complement(usize),
    Meet(usize, usize, i32, i32),
    Near(Vec<usize>, u32, bool),
    Slop(Vec<WordMatcher>, u32),
}

impl SpanMatcher {
    /// Compiles a query. Recursion is as deep as the query, here and in evaluation.
    ///
    /// # Errors
    /// If a regular expression is none or exceeds the limit.
    pub fn new(query: &SpanQuery, limits: MatcherLimits) -> Result<Self, CompileError> {
        let mut matcher = Self {
            nodes: Vec::new(),
            root: 0,
            names: Vec::new(),
            constraint: query.constraint.clone(),
            strategy: query.strategy,
            show: None,
        };
        matcher.root = matcher.node(&query.span, limits)?;
        let number = |name| matcher.names.iter().position(|other| other == name);
        if let Some((from, to)) = &query.show {
            matcher.show = number(from).zip(number(to));
        }
        Ok(matcher)
    }

    /// The names of captures, in order of their first appearance.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// What is shown of a hit: its words, or from the start of one capture to the end of another where the query says so. A capture
    /// without a span leaves that end as it is.
    pub fn shown(&self, hit: &SpanHit) -> Range<usize> {
        let Some((from, to)) = self.show else {
            return hit.range.clone();
        };
        let start = (hit.captures[from].as_ref()).map_or(hit.range.start, |range| range.start);
        let end = hit.captures[to]
            .as_ref()
            .map_or(hit.range.end, |range| range.end);
        start..end.max(start)
    }

    /// Prepares the evaluation on a window; it may compare `work_max` matches of parts for each start.
    pub fn on<'a>(&'a self, window: &'a TextWindow<'a>, work_max: u64) -> Evaluation<'a> {
        let mut offset = window.offset;
        let mut offsets = Vec::with_capacity(window.words.len());
        for (word, gap) in window.words.iter().zip(&window.gaps) {
            offset += gap.len() as u64;
            offsets.push(offset);
            offset += word.len() as u64;
        }
        Evaluation {
            matcher: self,
            window,
            offsets,
            found: HashMap::new(),
            work_max,
            work: 0,
        }
    }

    fn node(&mut self, span: &Span, limits: MatcherLimits) -> Result<usize, CompileError> {
        let test = |test: &WordTest| WordMatcher::new(test, limits);
        let kind = match span {
            Span::Empty => Kind::Empty,
            Span::Word(word) => Kind::Word(test(word)?),
            Span::Sequence(spans) => Kind::Sequence(self.all(spans, limits)?),
            Span::Alternation(spans) => Kind::Alternation(self.all(spans, limits)?),
            Span::Repeat {
                span,
                minimum,
                maximum,
            } => Kind::Repeat(self.node(span, limits)?, *minimum, *maximum),
            Span::Capture { name, span } => {
                let number = self.names.iter().position(|other| other == name);
                let number = number.unwrap_or_else(|| {
                    self.names.push(name.clone());
                    self.names.len() - 1
                });
                Kind::Capture(number, self.node(span, limits)?)
            }
            Span::Look {
                side,
                is_negated,
                span,
            } => Kind::Look(*side, *is_negated, self.node(span, limits)?),
            Span::UnitStart(unit) => Kind::UnitStart(*unit),
            Span::UnitEnd(unit) => Kind::UnitEnd(*unit),
            Span::Unit(unit) => Kind::Unit(*unit),
            Span::Within {
                span,
                container,
                is_negated,
            } => {
                let span = self.node(span, limits)?;
                match **container {
                    Span::Unit(unit) => Kind::WithinUnit(span, unit, *is_negated),
                    _ => Kind::Within(span, self.node(container, limits)?, *is_negated),
                }
            }
            Span::WithinWords { span, words } => {
                Kind::WithinWords(self.node(span, limits)?, *words)
            }
            Span::Containing {
                span,
                content,
                is_negated,
            } => Kind::Containing(
                self.node(span, limits)?,
                self.node(content, limits)?,
                *is_negated,
            ),
            Span::Intersection(spans) => Kind::Intersection(self.all(spans, limits)?),
            Span::Complement(span) => Kind::Complement(self.node(span, limits)?),
            Span::Meet {
                first,
                second,
                left,
                right,
            } => Kind::Meet(
                self.node(first, limits)?,
                self.node(second, limits)?,
                *left,
                *right,
            ),
            Span::Near {
                parts,
                distance,
                is_ordered,
            } => Kind::Near(self.all(parts, limits)?, *distance, *is_ordered),
            Span::Slop { words, slop } => {
                let words = words.iter().map(test).collect::<Result<_, _>>()?;
                Kind::Slop(words, *slop)
            }
        };
        self.nodes.push(Node {
            kind,
            words_max: span.lengths().maximum,
        });
        Ok(self.nodes.len() - 1)
    }

    fn all(&mut self, spans: &[Span], limits: MatcherLimits) -> Result<Vec<usize>, CompileError> {
        spans.iter().map(|span| self.node(span, limits)).collect()
    }
}

/// Captured words by the number of the name, ascending.
type Captures = Vec<(usize, Range<usize>)>;

/// A match of a part that starts at a known place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Match {
    end: usize,
    captures: Captures,
}

impl Match {
    fn new(end: usize) -> Self {
        Self {
            end,
            captures: Vec::new(),
        }
    }

    /// This match, with `next` behind it. Of one name the later span counts.
    fn then(&self, next: &Self) -> Self {
        let mut captures = self.captures.clone();
        for (name, range) in &next.captures {
            match captures.binary_search_by_key(name, |(name, _)| *name) {
                Ok(index) => captures[index].1 = range.clone(),
                Err(index) => captures.insert(index, (*name, range.clone())),
            }
        }
        Self {
            end: next.end,
            captures,
        }
    }
}

/// Matches in order of preference.
type Matches = Rc<[Match]>;

/// Distinct items in the order in which they came first.
struct Distinct<T> {
    items: Vec<T>,
    known: HashSet<T>,
}

impl<T: Clone + Eq + Hash> Distinct<T> {
    fn new() -> Self {
        Self {
            items: Vec::new(),
            known: HashSet::new(),
        }
    }

    fn push(&mut self, item: T) {
        if self.known.insert(item.clone()) {
            self.items.push(item);
        }
    }
}

/// A query on a window. Keeps the matches of parts that it found.
pub struct Evaluation<'a> {
    matcher: &'a SpanMatcher,
    window: &'a TextWindow<'a>,
    /// Offsets of the words.
    offsets: Vec<u64>,
    found: HashMap<(usize, usize), Matches>,
    work_max: u64,
    work: u64,
}

impl Evaluation<'_> {
    /// All hits of the window, by start and end.
    ///
    /// # Errors
    /// If a start takes too much work.
    pub fn hits(&mut self) -> Result<Vec<SpanHit>, WorkLimitError> {
        let mut hits = Vec::new();
        let mut last_end = 0;
        for start in 0..self.window.words.len() {
            for hit in self.hits_at(start)? {
                let is_nested =
                    self.matcher.strategy == Strategy::Longest && hit.range.end <= last_end;
                if !is_nested {
                    last_end = last_end.max(hit.range.end);
                    hits.push(hit);
                }
            }
        }
        Ok(hits)
    }

    /// The hits that start at a word: at most one but under [`Strategy::All`], which has one for each end. Under
    /// [`Strategy::Longest`] also a hit that lies in a longer one: the caller, which goes through the starts in order, drops those
    /// that end no later than one before.
    ///
    /// # Errors
    /// If it takes too much work.
    pub fn hits_at(&mut self, start: usize) -> Result<Vec<SpanHit>, WorkLimitError> {
        self.work = 0;
        let matches = self.matches(self.matcher.root, start)?;
        let mut hits: Vec<SpanHit> = Vec::new();
        let mut ends = HashSet::new();
        for found in matches.iter().filter(|found| found.end > start) {
            if ends.contains(&found.end) || !self.passes(&found.captures) {
                continue;
            }
            ends.insert(found.end);
            let mut captures = vec![None; self.matcher.names.len()];
            for (name, range) in &found.captures {
                captures[*name] = Some(range.clone());
            }
            hits.push(SpanHit {
                range: start..found.end,
                captures,
            });
        }
        hits.sort_unstable_by_key(|hit| hit.range.end);
        match self.matcher.strategy {
            Strategy::Shortest => hits.truncate(1),
            Strategy::Longest => hits = hits.pop().into_iter().collect(),
            Strategy::All => {}
        }
        Ok(hits)
    }

    /// Matches of a part that start at a place.
    fn matches(&mut self, node: usize, start: usize) -> Result<Matches, WorkLimitError> {
        if let Some(found) = self.found.get(&(node, start)) {
            return Ok(found.clone());
        }
        let matches: Matches = self.find(node, start)?.into();
        self.work(matches.len())?;
        self.found.insert((node, start), matches.clone());
        Ok(matches)
    }

    fn work(&mut self, matches: usize) -> Result<(), WorkLimitError> {
        self.work += 1 + matches as u64;
        let limit = self.work_max;
        if self.work > limit {
            return Err(WorkLimitError { limit });
        }
        Ok(())
    }

    fn find(&mut self, node: usize, start: usize) -> Result<Vec<Match>, WorkLimitError> {
        let matcher = self.matcher;
        let length = self.window.words.len();
        let empty_if = |holds: bool| {
            if holds {
                vec![Match::new(start)]
            } else {
                Vec::new()
            }
        };
        Ok(match &matcher.nodes[node].kind {
            Kind::Empty => empty_if(true),
            Kind::Word(test) => {
                if start < length && test.matches_at(&self.place(start)) {
                    vec![Match::new(start + 1)]
                } else {
                    Vec::new()
                }
            }
            Kind::Sequence(parts) => {
                let mut matches = vec![Match::new(start)];
                for &part in parts {
                    let mut longer = Distinct::new();
                    for first in &matches {
                        for next in self.matches(part, first.end)?.iter() {
                            longer.push(first.then(next));
                        }
                        self.work(longer.items.len())?;
                    }
                    matches = longer.items;
                }
                matches
            }
            Kind::Alternation(parts) => {
                let mut matches = Distinct::new();
                for &part in parts {
                    for found in self.matches(part, start)?.iter() {
                        matches.push(found.clone());
                    }
                }
                matches.items
            }
            Kind::Repeat(_, minimum, Some(maximum)) if maximum < minimum => Vec::new(),
            Kind::Repeat(part, minimum, maximum) => {
                self.repeat(*part, *minimum, *maximum, start)?
            }
            Kind::Capture(name, part) => {
                let matches = self.matches(*part, start)?;
                let named = matches.iter().map(|found| {
                    found.then(&Match {
                        end: found.end,
                        captures: vec![(*name, start..found.end)],
                    })
                });
                distinct(named)
            }
            Kind::Look(Side::After, is_negated, part) => {
                empty_if(self.matches(*part, start)?.is_empty() == *is_negated)
            }
            Kind::Look(Side::Before, is_negated, part) => {
                let mut is_found = false;
                for before in self.starts_before(*part, start) {
                    is_found = is_found || self.ends(*part, before, |end| end == start)?;
                }
                empty_if(is_found != *is_negated)
            }
            Kind::UnitStart(unit) => {
                empty_if(self.unit_places(*unit).starts.binary_search(&start).is_ok())
            }
            Kind::UnitEnd(unit) => {
                empty_if(self.unit_places(*unit).ends.binary_search(&start).is_ok())
            }
            Kind::Unit(unit) => {
                let places = self.unit_places(*unit);
                let end = places.ends.iter().find(|&&end| end > start);
                let starts = places.starts.binary_search(&start).is_ok();
                end.filter(|_| starts)
                    .map(|&end| Match::new(end))
                    .into_iter()
                    .collect()
            }
            Kind::WithinUnit(part, unit, is_negated) => {
                let matches = self.matches(*part, start)?;
                let places = self.unit_places(*unit);
                let crosses = |end: usize| {
                    places
                        .starts
                        .iter()
                        .any(|&boundary| start < boundary && boundary < end)
                };
                let kept = matches
                    .iter()
                    .filter(|found| crosses(found.end) == *is_negated);
                kept.cloned().collect()
            }
            Kind::Within(part, container, is_negated) => {
                let mut kept = Vec::new();
                for found in self.matches(*part, start)?.iter() {
                    let mut is_within = false;
                    for before in self.starts_before(*container, start) {
                        is_within =
                            is_within || self.ends(*container, before, |end| end >= found.end)?;
                    }
                    if is_within != *is_negated {
                        kept.push(found.clone());
                    }
                }
                kept
            }
            Kind::WithinWords(part, words) => {
                let matches = self.matches(*part, start)?;
                let kept = matches
                    .iter()
                    .filter(|found| found.end - start <= *words as usize);
                kept.cloned().collect()
            }
            Kind::Containing(part, content, is_negated) => {
                let mut kept = Vec::new();
                for found in self.matches(*part, start)?.iter() {
                    let mut contains = false;
                    for inner in start..=found.end {
                        contains =
                            contains || self.ends(*content, inner, |end| end <= found.end)?;
                    }
                    if contains != *is_negated {
                        kept.push(found.clone());
                    }
                }
                kept
            }
            Kind::Intersection(parts) => {
                let mut matches: Option<Vec<Match>> = None;
                for &part in parts {
                    let found = self.matches(part, start)?;
                    let Some(left) = matches else {
                        matches = Some(found.to_vec());
                        continue;
                    };
                    self.work(left.len().saturating_mul(found.len()))?;
                    let pairs = left.iter().flat_map(|left| {
                        let same = found.iter().filter(|right| right.end == left.end);
                        same.map(|right| left.then(right))
                    });
                    matches = Some(distinct(pairs));
                }
                matches.unwrap_or_default()
            }
            Kind::Complement(part) => {
                let matches = self.matches(*part, start)?;
                let ends: HashSet<usize> = matches.iter().map(|found| found.end).collect();
                let others = (start + 1..=length).filter(|end| !ends.contains(end));
                let mut others: Vec<Match> = others.map(Match::new).collect();
                if matcher.strategy != Strategy::Shortest {
                    others.reverse();
                }
                others
            }
            Kind::Meet(first, second, left, right) => {
                let mut is_near = false;
                let place = start as i64;
                let from = (place + i64::from(*left)).max(0);
                let to = (place + i64::from(*right)).min(length as i64);
                for near in from..=to {
                    is_near = is_near || !self.matches(*second, near as usize)?.is_empty();
                }
                if is_near {
                    self.matches(*first, start)?.to_vec()
                } else {
                    Vec::new()
                }
            }
            Kind::Near(parts, distance, is_ordered) => {
                self.near(parts, *distance, *is_ordered, start)?
            }
            Kind::Slop(words, slop) => self.slop(words, *slop, start)?,
        })
    }

    /// Goes through the rounds in order of preference, each state once. A round of no words is as good as all that are missing.
    fn repeat(
        &mut self,
        part: usize,
        minimum: u32,
        maximum: Option<u32>,
        start: usize,
    ) -> Result<Vec<Match>, WorkLimitError> {
        let is_lazy = self.matcher.strategy == Strategy::Shortest;
        let mut matches = Distinct::new();
        let mut visited = HashSet::new();
        // Rounds, what they matched, and whether longer ones were visited.
        let mut left = vec![(0, Match::new(start), false)];
        while let Some((rounds, found, is_visited)) = left.pop() {
            self.work(0)?;
            if is_visited || is_lazy {
                if rounds >= minimum {
                    matches.push(found.clone());
                }
                if is_visited {
                    continue;
                }
            }
            if !visited.insert((rounds, found.clone())) {
                continue;
            }
            if !is_lazy {
                left.push((rounds, found.clone(), true));
            }
            if maximum == Some(rounds) {
                continue;
            }
            for next in self.matches(part, found.end)?.iter().rev() {
                let rounds_next = if next.end > found.end {
                    match maximum {
                        Some(_) => rounds + 1,
                        None => (rounds + 1).min(minimum),
                    }
                } else if rounds < minimum {
                    minimum
                } else {
                    continue;
                };
                left.push((rounds_next, found.then(next), false));
            }
        }
        Ok(matches.items)
    }

    /// Parts in their order, or in any: the sooner in the list first, with the fewest words before it.
    fn near(
        &mut self,
        parts: &[usize],
        distance: u32,
        is_ordered: bool,
        start: usize,
    ) -> Result<Vec<Match>, WorkLimitError> {
        // Words that may still lie between, parts that were not passed, and what was matched.
        let all: Vec<usize> = (0..parts.len()).collect();
        let mut states = vec![(distance as usize, all, Match::new(start))];
        for round in 0..parts.len() {
            let mut longer = Distinct::new();
            for (between, open, found) in &states {
                let room = self.window.words.len() - found.end;
                let gap_max = if round == 0 { 0 } else { (*between).min(room) };
                for (index, &number) in open.iter().enumerate() {
                    if is_ordered && index > 0 {
                        break;
                    }
                    let mut open = open.clone();
                    open.remove(index);
                    for gap in 0..=gap_max {
                        for next in self.matches(parts[number], found.end + gap)?.iter() {
                            longer.push((between - gap, open.clone(), found.then(next)));
                            self.work(0)?;
                        }
                    }
                }
            }
            states = longer.items;
        }
        Ok(distinct(states.into_iter().map(|(_, _, found)| found)))
    }

    /// Gives the words one after the other to a test or, but for the first, to none.
    fn slop(
        &mut self,
        tests: &[WordMatcher],
        slop: u32,
        start: usize,
    ) -> Result<Vec<Match>, WorkLimitError> {
        let mut matches = Vec::new();
        // Tests that no word was given, and the least and largest shift: place less number of the test.
        let all: Vec<usize> = (0..tests.len()).collect();
        let mut states = vec![(all, i64::MAX, i64::MIN)];
        let last = (start + tests.len() + slop as usize).min(self.window.words.len());
        for place in start..last {
            let mut next = Distinct::new();
            let mut is_complete = false;
            for (open, least, largest) in states {
                for (index, &number) in open.iter().enumerate() {
                    let shift = place as i64 - number as i64;
                    let (least, largest) = (least.min(shift), largest.max(shift));
                    if largest - least > slop.into()
                        || !tests[number].matches_at(&self.place(place))
                    {
                        continue;
                    }
                    let mut open = open.clone();
                    open.remove(index);
                    is_complete |= open.is_empty();
                    next.push((open, least, largest));
                    self.work(0)?;
                }
                if place > start {
                    next.push((open, least, largest));
                }
            }
            if is_complete {
                matches.push(Match::new(place + 1));
            }
            states = next.items;
            states.retain(|(open, ..)| !open.is_empty());
        }
        if self.matcher.strategy != Strategy::Shortest {
            matches.reverse();
        }
        Ok(matches)
    }

    /// Whether a part has a match from `start` with such an end.
    fn ends(
        &mut self,
        node: usize,
        start: usize,
        is_such: impl Fn(usize) -> bool,
    ) -> Result<bool, WorkLimitError> {
        let matches = self.matches(node, start)?;
        self.work(0)?;
        Ok(matches.iter().any(|found| is_such(found.end)))
    }

    /// Places up to `place` from which a match of a part may reach it, the nearest first.
    fn starts_before(&self, node: usize, place: usize) -> impl Iterator<Item = usize> + use<> {
        let reach = self.matcher.nodes[node].words_max.unwrap_or(u64::MAX);
        let first = (place as u64).saturating_sub(reach) as usize;
        (first..=place).rev()
    }

    fn unit_places(&self, unit: Unit) -> &UnitPlaces {
        const NONE: &UnitPlaces = &UnitPlaces {
            starts: Vec::new(),
            ends: Vec::new(),
        };
        self.window.units.get(&unit).unwrap_or(NONE)
    }

    fn place(&self, index: usize) -> PlaceInWindow<'_> {
        PlaceInWindow {
            window: self.window,
            index,
            offset: self.offsets[index],
        }
    }

    /// Whether the captures satisfy the constraint.
    fn passes(&self, captures: &Captures) -> bool {
        let constraint = self.matcher.constraint.as_ref();
        constraint.is_none_or(|constraint| self.holds(constraint, captures))
    }

    fn holds(&self, constraint: &Constraint, captures: &Captures) -> bool {
        match constraint {
            Constraint::Not(constraint) => !self.holds(constraint, captures),
            Constraint::All(all) => all.iter().all(|one| self.holds(one, captures)),
            Constraint::AnyOf(all) => all.iter().any(|one| self.holds(one, captures)),
            Constraint::Compare(left, comparison, right) => {
                let (folds_left, folds_right) = (folds(left), folds(right));
                let folds = (folds_left.0 || folds_right.0, folds_left.1 || folds_right.1);
                match (
                    self.value(left, folds, captures),
                    self.value(right, folds, captures),
                ) {
                    (Some(Value::Number(left)), Some(Value::Number(right))) => {
                        comparison.holds(&left, &right)
                    }
                    (Some(Value::Text(left)), Some(Value::Text(right))) => {
                        comparison.holds(&left, &right)
                    }
                    _ => false,
                }
            }
        }
    }

    fn value(
        &self,
        value: &CaptureValue,
        folds: (bool, bool),
        captures: &Captures,
    ) -> Option<Value> {
        let range = |name: &str| {
            let number = self.matcher.names.iter().position(|other| other == name)?;
            let index = captures
                .binary_search_by_key(&number, |(name, _)| *name)
                .ok()?;
            Some(captures[index].1.clone())
        };
        let position = |place: usize| i128::from(self.window.position) + place as i128;
        Some(match value {
            CaptureValue::Text { capture, .. } => {
                let text = self.window.words[range(capture)?].join(&b' ');
                Value::Text(folded(&text, folds.0, folds.1).into_owned())
            }
            CaptureValue::Literal(text) => Value::Text(folded(text, folds.0, folds.1).into_owned()),
            CaptureValue::Frequency(capture) => {
                let first = self.window.words[range(capture)?].first()?;
                Value::Number((self.window.frequency)(first).into())
            }
            CaptureValue::Start(capture) => Value::Number(position(range(capture)?.start)),
            CaptureValue::End(capture) => Value::Number(position(range(capture)?.end)),
            CaptureValue::Distance(from, to) => {
                Value::Number(position(range(to)?.start) - position(range(from)?.start))
            }
            CaptureValue::Number(number) => Value::Number((*number).into()),
        })
    }
}

/// Whether a value asks to ignore case and diacritics.
fn folds(value: &CaptureValue) -> (bool, bool) {
    match value {
        CaptureValue::Text {
            folds_case,
            folds_diacritics,
            ..
        } => (*folds_case, *folds_diacritics),
        _ => (false, false),
    }
}

/// A value of a constraint.
enum Value {
    Number(i128),
    Text(Vec<u8>),
}

/// A word of a window.
struct PlaceInWindow<'a> {
    window: &'a TextWindow<'a>,
    index: usize,
    offset: u64,
}

impl Occurrence for PlaceInWindow<'_> {
    fn word(&self) -> &[u8] {
        self.window.words[self.index]
    }

    fn frequency(&self) -> u64 {
        (self.window.frequency)(self.word())
    }

    fn gap(&self, side: Side) -> &[u8] {
        let gap = match side {
            Side::Before => self.index,
            Side::After => self.index + 1,
        };
        self.window.gaps[gap]
    }

    fn position(&self) -> u64 {
        self.window.position + self.index as u64
    }

    fn offset(&self) -> u64 {
        self.offset
    }
}

fn distinct<T: Clone + Eq + Hash>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut distinct = Distinct::new();
    items.for_each(|item| distinct.push(item));
    distinct.items
}
