//! Spans by their definition, against `naive` and automata, on random texts.
//!
//! `denotes` decides on one span and does nothing else; it takes exponential time and shares no code with what it tests.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::ops::Range;

use proptest::prelude::*;
use zipfdb_search::algebra::{
    CaptureValue, Comparison, Constraint, Pattern, Side, Span, SpanQuery, Strategy as Hits,
    TextTest, Unit, WordTest,
};
use zipfdb_search::automaton::{
    Alphabet, Boundary, DEAD, Dfa, Form, LazyDfa, Letter, Nfa, SpanAutomaton,
};
use zipfdb_search::matcher::{MatcherLimits, WordMatcher};
use zipfdb_search::naive::{SpanHit, SpanMatcher, TextWindow, UnitPlaces};

const STATES_MAX: usize = 1 << 14;
const DFA_STATES_MAX: usize = 1 << 8;
const WORK_MAX: u64 = 1 << 22;

/// Words of one letter, and whether a line starts before each but the first.
#[derive(Debug, Clone)]
struct Text {
    words: String,
    breaks: Vec<bool>,
}

impl Text {
    fn new(words: &str) -> Self {
        Self {
            words: words.to_owned(),
            breaks: Vec::new(),
        }
    }

    fn len(&self) -> usize {
        self.words.len()
    }

    fn has_break(&self, place: usize) -> bool {
        place > 0 && place < self.len() && self.breaks.get(place) == Some(&true)
    }

    /// The words of each unit.
    fn units(&self, unit: Unit) -> Vec<Range<usize>> {
        let inner = (1..self.len()).filter(|&place| unit == Unit::Line && self.has_break(place));
        let mut places: Vec<usize> = std::iter::once(0).chain(inner).collect();
        places.push(self.len());
        let pairs = places.windows(2).map(|pair| pair[0]..pair[1]);
        pairs.filter(|range| !range.is_empty()).collect()
    }

    fn has_boundary(&self, boundary: Boundary, place: usize) -> bool {
        let mut units = self.units(boundary.unit).into_iter();
        units.any(|range| if boundary.is_end { range.end } else { range.start } == place)
    }

    fn gap(&self, place: usize) -> &'static [u8] {
        if self.has_break(place) { b"\n" } else { b" " }
    }

    /// The window of some words; boundaries at its ends are those of the text.
    fn window<'a>(
        &'a self,
        range: Range<usize>,
        frequency: &'a dyn Fn(&[u8]) -> u64,
    ) -> TextWindow<'a> {
        let places = |unit| {
            let units = self.units(unit).into_iter();
            let inside = |place: &usize| (range.start..=range.end).contains(place);
            let (starts, ends): (Vec<_>, Vec<_>) = units.map(|unit| (unit.start, unit.end)).unzip();
            let moved = |places: Vec<usize>| {
                let inside = places.into_iter().filter(inside);
                inside.map(|place| place - range.start).collect()
            };
            let places = UnitPlaces {
                starts: moved(starts),
                ends: moved(ends),
            };
            (unit, places)
        };
        TextWindow {
            words: self.words.as_bytes()[range.clone()].chunks(1).collect(),
            gaps: (range.start..=range.end)
                .map(|place| self.gap(place))
                .collect(),
            position: range.start as u64,
            offset: 2 * range.start as u64,
            frequency,
            units: HashMap::from([places(Unit::File), places(Unit::Line)]),
        }
    }
}

fn passes(test: &WordTest, text: &Text, place: usize) -> bool {
    let word = &text.words[place..place + 1];
    match test {
        WordTest::Any => true,
        WordTest::Text(TextTest {
            pattern: Pattern::Literal(literal),
            ..
        }) => *literal == word.as_bytes(),
        WordTest::Gap(Side::Before, _) => text.has_break(place),
        WordTest::Position(Comparison::GreaterOrEqual, number) => place as u64 >= *number,
        WordTest::Offset(Comparison::Less, number) => ((2 * place + 1) as u64) < *number,
        WordTest::Not(test) => !passes(test, text, place),
        WordTest::AnyOf(tests) => tests.iter().any(|test| passes(test, text, place)),
        other => panic!("{other:?}"),
    }
}

/// Whether a span is in the set.
fn denotes(span: &Span, text: &Text, start: usize, end: usize) -> bool {
    let is = |span: &Span, start, end| denotes(span, text, start, end);
    let places = || 0..=text.len();
    match span {
        Span::Empty => start == end,
        Span::Word(test) => end == start + 1 && passes(test, text, start),
        Span::Sequence(spans) => match &spans[..] {
            [] => start == end,
            [first, rest @ ..] => (start..=end).any(|middle| {
                is(first, start, middle) && is(&Span::Sequence(rest.to_vec()), middle, end)
            }),
        },
        Span::Alternation(spans) => spans.iter().any(|span| is(span, start, end)),
        Span::Repeat {
            maximum: Some(maximum),
            minimum,
            ..
        } if maximum < minimum => false,
        Span::Repeat { minimum: 0, .. } if start == end => true,
        Span::Repeat {
            maximum: Some(0), ..
        } => false,
        Span::Repeat {
            span,
            minimum,
            maximum,
        } => {
            let rest = Span::Repeat {
                span: span.clone(),
                minimum: minimum.saturating_sub(1),
                maximum: maximum.map(|maximum| maximum - 1),
            };
            let first = if *minimum > 0 { start } else { start + 1 };
            (first..=end).any(|middle| is(span, start, middle) && is(&rest, middle, end))
        }
        Span::Capture { span, .. } => is(span, start, end),
        Span::Look {
            side,
            is_negated,
            span,
        } => {
            let found = match side {
                Side::Before => (0..=start).any(|from| is(span, from, start)),
                Side::After => (start..=text.len()).any(|to| is(span, start, to)),
            };
            start == end && found != *is_negated
        }
        Span::UnitStart(unit) => {
            start == end && text.units(*unit).iter().any(|range| range.start == start)
        }
        Span::UnitEnd(unit) => {
            start == end && text.units(*unit).iter().any(|range| range.end == start)
        }
        Span::Unit(unit) => text.units(*unit).contains(&(start..end)),
        Span::Within {
            span,
            container,
            is_negated,
        } => {
            let within =
                (0..=start).any(|from| (end..=text.len()).any(|to| is(container, from, to)));
            is(span, start, end) && within != *is_negated
        }
        Span::WithinWords { span, words } => end - start <= *words as usize && is(span, start, end),
        Span::Containing {
            span,
            content,
            is_negated,
        } => {
            let contains = (start..=end).any(|from| (from..=end).any(|to| is(content, from, to)));
            is(span, start, end) && contains != *is_negated
        }
        Span::Intersection(spans) => spans.iter().all(|span| is(span, start, end)),
        Span::Complement(span) => start < end && !is(span, start, end),
        Span::Meet {
            first,
            second,
            left,
            right,
        } => {
            let is_near = places().any(|place| {
                let distance = place as i32 - start as i32;
                (*left..=*right).contains(&distance)
                    && (place..=text.len()).any(|to| is(second, place, to))
            });
            is(first, start, end) && is_near
        }
        Span::Near {
            parts,
            distance,
            is_ordered,
        } => is_near(parts, *distance, *is_ordered, true, text, start, end),
        Span::Slop { words, slop } => {
            let mut numbers: Vec<usize> = Vec::new();
            start < end && is_sloppy(words, i64::from(*slop), text, start..end, &mut numbers)
        }
    }
}

fn is_near(
    parts: &[Span],
    distance: u32,
    is_ordered: bool,
    is_first: bool,
    text: &Text,
    start: usize,
    end: usize,
) -> bool {
    if parts.is_empty() {
        return start == end;
    }
    let gap_max = if is_first { 0 } else { distance };
    (0..parts.len()).any(|number| {
        let mut rest = parts.to_vec();
        let part = rest.remove(number);
        (number == 0 || !is_ordered)
            && (0..=gap_max).any(|gap| {
                let from = start + gap as usize;
                (from..=end).any(|to| {
                    denotes(&part, text, from, to)
                        && is_near(&rest, distance - gap, is_ordered, false, text, to, end)
                })
            })
    })
}

/// Whether the words after those that have places can be placed.
fn is_sloppy(
    words: &[WordTest],
    slop: i64,
    text: &Text,
    range: Range<usize>,
    chosen: &mut Vec<usize>,
) -> bool {
    if chosen.len() == words.len() {
        let shifts = || {
            chosen
                .iter()
                .zip(0..)
                .map(|(&place, number)| place as i64 - number)
        };
        return chosen.iter().min() == Some(&range.start)
            && chosen.iter().max() == Some(&(range.end - 1))
            && shifts().max().unwrap() - shifts().min().unwrap() <= slop;
    }
    range.clone().any(|place| {
        if chosen.contains(&place) || !passes(&words[chosen.len()], text, place) {
            return false;
        }
        chosen.push(place);
        let found = is_sloppy(words, slop, text, range.clone(), chosen);
        chosen.pop();
        found
    })
}

/// The nonempty spans of the set.
fn set(span: &Span, text: &Text) -> Vec<(usize, usize)> {
    let pairs =
        (0..text.len()).flat_map(|start| (start + 1..=text.len()).map(move |end| (start, end)));
    pairs
        .filter(|&(start, end)| denotes(span, text, start, end))
        .collect()
}

/// The hits among the spans of a set.
fn chosen(set: &[(usize, usize)], strategy: Hits) -> Vec<(usize, usize)> {
    let is_hit = |&&(start, end): &&(usize, usize)| match strategy {
        Hits::All => true,
        Hits::Shortest => !set.iter().any(|other| other.0 == start && other.1 < end),
        Hits::Longest => !set
            .iter()
            .any(|other| *other != (start, end) && other.0 <= start && end <= other.1),
    };
    set.iter().filter(is_hit).copied().collect()
}

fn query(span: Span, strategy: Hits) -> SpanQuery {
    SpanQuery {
        span,
        constraint: None,
        strategy,
        show: None,
    }
}

fn hits(query: &SpanQuery, text: &Text) -> Vec<SpanHit> {
    let matcher = SpanMatcher::new(query, MatcherLimits::default()).unwrap();
    let frequency = |word: &[u8]| text.words.matches(char::from(word[0])).count() as u64;
    let window = text.window(0..text.len(), &frequency);
    matcher.on(&window, WORK_MAX).hits().unwrap()
}

fn pairs(hits: &[SpanHit]) -> Vec<(usize, usize)> {
    hits.iter()
        .map(|hit| (hit.range.start, hit.range.end))
        .collect()
}

/// What automata read of a text: letters of places and words in turn.
fn letters(automaton: &SpanAutomaton, text: &Text) -> Vec<Letter> {
    let matchers: Vec<WordMatcher> = (automaton.tests.iter())
        .map(|test| WordMatcher::new(test, MatcherLimits::default()).unwrap())
        .collect();
    let mut letters = Vec::new();
    for place in 0..=text.len() {
        let has = automaton
            .boundaries
            .iter()
            .map(|&boundary| text.has_boundary(boundary, place));
        letters.push(Letter::Place(bits(has)));
        if place < text.len() {
            let word = &text.words.as_bytes()[place..place + 1];
            let passes = matchers.iter().map(|matcher| matcher.matches(word, || 0));
            letters.push(Letter::Word(bits(passes)));
        }
    }
    letters
}

fn bits(holds: impl Iterator<Item = bool>) -> u64 {
    holds
        .zip(0..)
        .map(|(holds, bit)| u64::from(holds) << bit)
        .sum()
}

/// The spans that an automaton matches, from sets of its states.
fn matched(nfa: &Nfa, letters: &[Letter], is_reversed: bool) -> Vec<(usize, usize)> {
    let mut letters = letters.to_vec();
    if is_reversed {
        letters.reverse();
    }
    let words = letters.len() / 2;
    let mut found = Vec::new();
    for start in 0..words {
        let mut states = nfa.starts.clone();
        for (index, &letter) in letters.iter().enumerate().skip(2 * start) {
            states = nfa.step(&states, letter);
            if nfa.has_match(&states) {
                let end = index.div_ceil(2);
                found.push(if is_reversed {
                    (words - end, words - start)
                } else {
                    (start, end)
                });
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The spans that a lazy DFA matches, and whether each start has one end if a complete one, which agrees with it, is small.
fn matched_by_dfa(nfa: &Nfa, letters: &[Letter]) -> (Vec<(usize, usize)>, bool) {
    let mut alphabet = Alphabet::default();
    let classes: Vec<u32> = (letters.iter())
        .map(|&letter| alphabet.class(letter))
        .collect();
    let dfa = Dfa::new(nfa, alphabet.letters(), Form::Anchored, DFA_STATES_MAX);
    let mut lazy = LazyDfa::new(nfa, alphabet.letters(), Form::Anchored, STATES_MAX);
    let mut found = Vec::new();
    for start in 0..letters.len() / 2 {
        let mut state = lazy.start();
        let mut complete = dfa.as_ref().map(Dfa::start);
        for (index, &class) in classes.iter().enumerate().skip(2 * start) {
            state = match letters[index] {
                Letter::Place(bits) => lazy.step_place(state, bits).unwrap(),
                Letter::Word(_) => lazy.step(state, class).unwrap(),
            };
            if let (Some(dfa), Some(complete)) = (&dfa, &mut complete) {
                *complete = dfa.step(*complete, class);
                assert_eq!(dfa.is_match(*complete), lazy.is_match(state));
                assert_eq!(*complete == DEAD, state == DEAD);
            }
            if lazy.is_match(state) {
                found.push((start, index.div_ceil(2)));
            }
        }
    }
    found.dedup();
    let has_one_end = dfa.is_some_and(|dfa| dfa.has_one_end(alphabet.letters()));
    (found, has_one_end)
}

/// The places where a searching automaton says that a match ends.
fn ends_of_search(nfa: &Nfa, letters: &[Letter]) -> Vec<usize> {
    let mut alphabet = Alphabet::default();
    let classes: Vec<u32> = (letters.iter())
        .map(|&letter| alphabet.class(letter))
        .collect();
    let mut dfa = LazyDfa::new(nfa, alphabet.letters(), Form::Searching, STATES_MAX);
    let mut state = dfa.start();
    let mut ends = Vec::new();
    for (index, &class) in classes.iter().enumerate() {
        state = dfa.step(state, class).unwrap();
        if dfa.is_match(state) {
            ends.push(index.div_ceil(2));
        }
    }
    ends.dedup();
    ends
}

fn literal(word: &str) -> WordTest {
    WordTest::Text(TextTest {
        pattern: Pattern::Literal(word.into()),
        folds_case: false,
        folds_diacritics: false,
    })
}

fn word(text: &str) -> Span {
    Span::Word(literal(text))
}

fn repeat(span: Span, minimum: u32, maximum: Option<u32>) -> Span {
    Span::Repeat {
        span: Box::new(span),
        minimum,
        maximum,
    }
}

fn capture(name: &str, span: Span) -> Span {
    Span::Capture {
        name: name.to_owned(),
        span: Box::new(span),
    }
}

fn any_word_test() -> impl Strategy<Value = WordTest> {
    let line_break = WordTest::Gap(
        Side::Before,
        TextTest {
            pattern: Pattern::Literal(b"\n".to_vec()),
            folds_case: false,
            folds_diacritics: false,
        },
    );
    let plain = prop_oneof![
        8 => "[abc]".prop_map(|word| literal(&word)),
        1 => Just(WordTest::Any),
        1 => Just(line_break),
        1 => (0..5_u64).prop_map(|number| WordTest::Position(Comparison::GreaterOrEqual, number)),
        1 => (0..9_u64).prop_map(|number| WordTest::Offset(Comparison::Less, number)),
    ];
    plain.prop_recursive(1, 3, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|test| WordTest::Not(Box::new(test))),
            prop::collection::vec(inner, 1..3).prop_map(WordTest::AnyOf),
        ]
    })
}

fn any_unit() -> impl Strategy<Value = Unit> {
    prop_oneof![Just(Unit::File), Just(Unit::Line)]
}

fn any_span() -> impl Strategy<Value = Span> {
    let leaf = prop_oneof![
        8 => any_word_test().prop_map(Span::Word),
        1 => Just(Span::Empty),
        1 => any_unit().prop_map(Span::UnitStart),
        1 => any_unit().prop_map(Span::UnitEnd),
        1 => any_unit().prop_map(Span::Unit),
        1 => (prop::collection::vec(any_word_test(), 2..4), 0..4_u32)
            .prop_map(|(words, slop)| Span::Slop { words, slop }),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        let list = || prop::collection::vec(inner.clone(), 1..4);
        let side = prop_oneof![Just(Side::Before), Just(Side::After)];
        prop_oneof![
            6 => list().prop_map(Span::Sequence),
            3 => list().prop_map(Span::Alternation),
            3 => (inner.clone(), 0..3_u32, prop::option::of(0..4_u32)).prop_map(|(span, from, to)| repeat(span, from, to)),
            1 => (inner.clone(), "[AB]").prop_map(|(span, name)| capture(&name, span)),
            1 => (side, any::<bool>(), boxed()).prop_map(|(side, is_negated, span)| Span::Look { side, is_negated, span }),
            2 => (boxed(), boxed(), any::<bool>())
                .prop_map(|(span, container, is_negated)| Span::Within { span, container, is_negated }),
            2 => (boxed(), any_unit(), any::<bool>()).prop_map(|(span, unit, is_negated)| {
                let container = Box::new(Span::Unit(unit));
                Span::Within { span, container, is_negated }
            }),
            1 => (boxed(), 0..4_u32).prop_map(|(span, words)| Span::WithinWords { span, words }),
            2 => (boxed(), boxed(), any::<bool>())
                .prop_map(|(span, content, is_negated)| Span::Containing { span, content, is_negated }),
            1 => list().prop_map(Span::Intersection),
            1 => boxed().prop_map(Span::Complement),
            1 => (boxed(), boxed(), -3..3_i32, 0..3_i32).prop_map(|(first, second, left, more)| Span::Meet {
                first,
                second,
                left,
                right: left + more,
            }),
            1 => (prop::collection::vec(inner.clone(), 2..4), 0..3_u32, any::<bool>())
                .prop_map(|(parts, distance, is_ordered)| Span::Near { parts, distance, is_ordered }),
        ]
    })
}

fn any_text() -> impl Strategy<Value = Text> {
    (
        "[abc]{0,7}",
        prop::collection::vec(prop::bool::weighted(0.3), 8),
    )
        .prop_map(|(words, breaks)| Text { words, breaks })
}

const STRATEGIES: [Hits; 3] = [Hits::Shortest, Hits::Longest, Hits::All];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn hits_are_those_of_the_definition(span in any_span(), text in any_text()) {
        let set = set(&span, &text);
        for strategy in STRATEGIES {
            let found = hits(&query(span.clone(), strategy), &text);
            prop_assert_eq!(pairs(&found), chosen(&set, strategy), "{:?}", strategy);
        }
    }

    #[test]
    fn automata_match_the_set_or_more(span in any_span(), text in any_text(), has_units in any::<bool>()) {
        let set = set(&span, &text);
        let query = query(span, Hits::All);
        let automaton = SpanAutomaton::new(&query, &|_| has_units, STATES_MAX).unwrap();
        let letters = letters(&automaton, &text);
        let found = matched(&automaton.nfa, &letters, false);
        if automaton.is_exact {
            prop_assert_eq!(&found, &set);
        } else {
            prop_assert!(set.iter().all(|span| found.contains(span)), "{:?} {:?}", found, set);
        }
        prop_assert_eq!(&matched(&automaton.nfa.reversed(), &letters, true), &found);
        let (by_dfa, has_one_end) = matched_by_dfa(&automaton.nfa, &letters);
        prop_assert_eq!(&by_dfa, &found);
        if has_one_end {
            prop_assert!(found.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
        let mut ends: Vec<usize> = found.iter().map(|&(_, end)| end).collect();
        ends.sort_unstable();
        ends.dedup();
        prop_assert_eq!(ends_of_search(&automaton.nfa, &letters), ends);
    }

    #[test]
    fn lengths_and_anchors_hold_for_all_spans(span in any_span(), text in any_text()) {
        let lengths = span.lengths();
        let cost = |test: &WordTest| (0..text.len()).filter(|&place| passes(test, &text, place)).count() as u64;
        let anchor = span.anchor(&cost);
        for (start, end) in set(&span, &text) {
            let words = (end - start) as u64;
            prop_assert!(lengths.minimum <= words && lengths.maximum.is_none_or(|maximum| words <= maximum));
            if let Some(anchor) = &anchor {
                prop_assert!((start..end).any(|place| {
                    let distance = (place - start) as u64;
                    anchor.from <= distance
                        && anchor.to.is_none_or(|to| distance <= to)
                        && anchor.tests.iter().any(|test| passes(test, &text, place))
                }), "{:?} at {}", anchor, start);
            }
        }
    }

    #[test]
    fn a_span_is_decided_within_its_context(span in any_span(), text in any_text()) {
        let context = span.context();
        let set = set(&span, &text);
        let matcher = SpanMatcher::new(&query(span, Hits::All), MatcherLimits::default()).unwrap();
        let reach = |words: Option<u64>| words.map_or(usize::MAX, |words| words as usize);
        for start in 0..text.len() {
            for end in start + 1..=text.len() {
                let first = start.saturating_sub(reach(context.before));
                let last = end.saturating_add(reach(context.after)).min(text.len());
                let window = text.window(first..last, &|_| 0);
                let hits = matcher.on(&window, WORK_MAX).hits_at(start - first).unwrap();
                let is_hit = hits.iter().any(|hit| hit.range.end == end - first);
                prop_assert_eq!(is_hit, set.contains(&(start, end)), "{}..{} in {}..{}", start, end, first, last);
            }
        }
    }

    #[test]
    fn constraints_choose_among_all_ways_to_match(text in any_text(), strategy in prop::sample::select(&STRATEGIES[..])) {
        // A: any word, B: any word behind it, with one text.
        let any = || Span::Word(WordTest::Any);
        let span = Span::Sequence(vec![
            repeat(any(), 0, Some(1)),
            capture("A", any()),
            repeat(any(), 0, None),
            capture("B", any()),
        ]);
        let same = Constraint::Compare(value("A"), Comparison::Equal, value("B"));
        let query = SpanQuery { constraint: Some(same), ..query(span, strategy) };
        let word = |place: usize| &text.words[place..place + 1];
        let mut set = Vec::new();
        for start in 0..text.len() {
            for end in start + 1..=text.len() {
                let mut firsts = start..(start + 2).min(end - 1);
                if firsts.any(|first| word(first) == word(end - 1)) {
                    set.push((start, end));
                }
            }
        }
        let found = hits(&query, &text);
        prop_assert_eq!(pairs(&found), chosen(&set, strategy));
        for hit in found {
            let [Some(first), Some(last)] = &hit.captures[..] else { panic!("{hit:?}") };
            prop_assert_eq!(word(first.start), word(last.start));
            prop_assert_eq!(last.end, hit.range.end);
        }
    }
}

fn value(capture: &str) -> CaptureValue {
    CaptureValue::Text {
        capture: capture.to_owned(),
        folds_case: false,
        folds_diacritics: false,
    }
}

#[test]
fn captures_are_of_the_preferred_match() {
    let captures = |span: Span, strategy, words: &str| {
        let hits = hits(&query(span, strategy), &Text::new(words));
        hits.into_iter().map(|hit| hit.captures).collect::<Vec<_>>()
    };
    let any = || repeat(Span::Word(WordTest::Any), 0, None);
    // Greedy parts take what they can, lazy ones what they must.
    let split = Span::Sequence(vec![capture("A", any()), capture("B", any()), word("c")]);
    assert_eq!(
        captures(split.clone(), Hits::Longest, "abc"),
        [[Some(0..2), Some(2..2)]]
    );
    assert_eq!(
        captures(split, Hits::Shortest, "abc")[0],
        [Some(0..0), Some(0..2)]
    );
    // The first alternative wins, and the last round names.
    let either = Span::Alternation(vec![capture("A", word("a")), capture("B", word("a"))]);
    assert_eq!(captures(either, Hits::All, "a"), [[Some(0..1), None]]);
    let rounds = repeat(capture("A", word("a")), 1, None);
    assert_eq!(captures(rounds, Hits::Longest, "aaa"), [[Some(2..3)]]);
}

#[test]
fn constraints_compare_numbers_and_texts() {
    let span = Span::Sequence(vec![
        capture("A", word("a")),
        repeat(Span::Word(WordTest::Any), 0, Some(3)),
        capture("B", Span::Alternation(vec![word("b"), word("c")])),
    ]);
    let found = |left: CaptureValue, comparison, right: CaptureValue| {
        let constraint = Some(Constraint::Compare(left, comparison, right));
        let query = SpanQuery {
            constraint,
            ..query(span.clone(), Hits::All)
        };
        pairs(&hits(&query, &Text::new("abcc")))
    };
    let name = |name: &str| name.to_owned();
    let number = CaptureValue::Number;
    assert_eq!(
        found(
            CaptureValue::Frequency(name("B")),
            Comparison::Equal,
            number(2)
        ),
        [(0, 3), (0, 4)]
    );
    assert_eq!(
        found(
            CaptureValue::Distance(name("A"), name("B")),
            Comparison::Less,
            number(3)
        ),
        [(0, 2), (0, 3)]
    );
    assert_eq!(
        found(
            CaptureValue::Distance(name("B"), name("A")),
            Comparison::Equal,
            number(-1)
        ),
        [(0, 2)]
    );
    assert_eq!(
        found(
            CaptureValue::End(name("B")),
            Comparison::GreaterOrEqual,
            number(4)
        ),
        [(0, 4)]
    );
    assert_eq!(
        found(
            value("B"),
            Comparison::Equal,
            CaptureValue::Literal(b"b".to_vec())
        ),
        [(0, 2)]
    );
    assert!(found(value("C"), Comparison::NotEqual, value("A")).is_empty());
}

#[test]
fn what_is_too_large_is_an_error() {
    let many = repeat(repeat(word("a"), 0, Some(1000)), 0, Some(1000));
    let error = SpanAutomaton::new(&query(many, Hits::All), &|_| true, STATES_MAX).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the query needs an automaton of more than 16384 states; hint: ")
    );
    let phrase = |number: usize| Span::Sequence(vec![word(&format!("w{number}")), word("a")]);
    let phrases = Span::Alternation((0..100).map(phrase).collect());
    let error = SpanAutomaton::new(&query(phrases, Hits::All), &|_| true, STATES_MAX).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the query has more than 64 different tests of words; hint: ")
    );
    // Alternatives of one word are one test.
    let words = Span::Alternation(
        (0..1000)
            .map(|number| word(&format!("w{number}")))
            .collect(),
    );
    let automaton = SpanAutomaton::new(&query(words, Hits::All), &|_| true, STATES_MAX).unwrap();
    assert_eq!((automaton.tests.len(), automaton.nfa.states.len()), (1, 2));
    // Determinising may take too many states; reading as it goes takes those that are met.
    let far = Span::Sequence(vec![
        word("a"),
        repeat(Span::Word(WordTest::Any), 20, Some(20)),
        word("b"),
    ]);
    let automaton = SpanAutomaton::new(&query(far, Hits::All), &|_| true, STATES_MAX).unwrap();
    let letters = [Letter::Word(0), Letter::Word(1), Letter::Word(2)];
    assert!(Dfa::new(&automaton.nfa, &letters, Form::Searching, 1000).is_none());
    let mut lazy = LazyDfa::new(&automaton.nfa, &letters, Form::Searching, 1000);
    let start = lazy.start();
    let state = (0..100).fold(start, |state, _| lazy.step(state, 0).unwrap());
    assert_eq!(lazy.step(state, 0), Some(state));
    // Rounds with captures that vary are found in bounded work.
    let named = |name: &str| capture(name, repeat(Span::Word(WordTest::Any), 0, None));
    let names = ["A", "B", "C", "D", "E"].map(named);
    let query = query(Span::Sequence(names.into()), Hits::All);
    let matcher = SpanMatcher::new(&query, MatcherLimits::default()).unwrap();
    let text = Text::new(&"a".repeat(100));
    let window = text.window(0..100, &|_| 0);
    let error = matcher.on(&window, 100_000).hits().unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the query compares more than 100000 matches at one place")
    );
}
