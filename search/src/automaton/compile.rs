//! Spans to automata: what is regular as it is, the rest as a regular set that contains it.

use std::collections::HashMap;

use super::boundary::{BITS_MAX, Boundary};
use super::fragments::{Fragment, Fragments};
use super::nfa::{Edge, Nfa, NfaState};
use crate::algebra::{Span, Unit, WordTest};
use crate::compile_error::CompileError;

/// Unordered parts of a NEAR whose orders the automaton distinguishes: each set of parts is a state.
const UNORDERED_PARTS_MAX: usize = 6;

/// Words of a sloppy phrase whose orders the automaton distinguishes.
const SLOPPY_WORDS_MAX: usize = 16;

/// The state of a compilation.
pub(super) struct Compiler<'a> {
    pub(super) tests: Vec<WordTest>,
    pub(super) boundaries: Vec<Boundary>,
    /// Whether places have the boundaries of a unit.
    pub(super) has_unit: &'a dyn Fn(Unit) -> bool,
    /// Whether the set is the automaton's so far.
    pub(super) is_exact: bool,
    pub(super) limit: usize,
}

impl Compiler<'_> {
    /// The automaton of the nonempty spans.
    pub(super) fn nonempty(&mut self, span: &Span) -> Result<Nfa, CompileError> {
        let nonempty = monitor(2, |state| (state == 1, Some(1)));
        self.nfa(span)?.intersection(&nonempty, self.limit)
    }

    fn nfa(&mut self, span: &Span) -> Result<Nfa, CompileError> {
        let mut fragments = Fragments::new(self.limit);
        let fragment = self.fragment(span, &mut fragments)?;
        Ok(fragments.finish(&fragment))
    }

    /// Appends the states of a span. Recursion is as deep as the span.
    fn fragment(&mut self, span: &Span, to: &mut Fragments) -> Result<Fragment, CompileError> {
        match span {
            Span::Empty => to.empty(),
            Span::Word(test) => {
                let bit = self.test(test)?;
                to.word(bit)
            }
            Span::Sequence(spans) => {
                let mut sequence = to.empty()?;
                for span in spans {
                    let next = self.fragment(span, to)?;
                    sequence = to.then(sequence, next);
                }
                Ok(sequence)
            }
            Span::Alternation(spans) => self.alternation(spans, to),
            Span::Repeat {
                span,
                minimum,
                maximum,
            } => {
                let once = self.fragment(span, to)?;
                to.repeat(once, *minimum, *maximum)
            }
            Span::Capture { span, .. } => self.fragment(span, to),
            Span::Look { .. } => {
                self.is_exact = false;
                to.empty()
            }
            Span::UnitStart(unit) | Span::UnitEnd(unit) if !(self.has_unit)(*unit) => {
                self.is_exact = false;
                to.empty()
            }
            Span::UnitStart(unit) => to.place(self.boundary(*unit, false)?),
            Span::UnitEnd(unit) => to.place(self.boundary(*unit, true)?),
            Span::Unit(unit) => {
                let words = Span::Repeat {
                    span: Box::new(Span::Word(WordTest::Any)),
                    minimum: 1,
                    maximum: None,
                };
                let ends = [Span::UnitStart(*unit), words, Span::UnitEnd(*unit)];
                self.fragment(&within_unit(Span::Sequence(ends.into()), *unit), to)
            }
            Span::Within {
                span,
                container,
                is_negated: false,
            } if let Span::Unit(unit) = **container
                && (self.has_unit)(unit) =>
            {
                let span = self.nfa(span)?;
                let bit = self.boundary(unit, false)?;
                to.nfa(&span.intersection(&within(bit), self.limit)?)
            }
            Span::Within { span, .. } | Span::Meet { first: span, .. } => {
                self.is_exact = false;
                self.fragment(span, to)
            }
            Span::WithinWords { span, words } => {
                let words = *words;
                if span
                    .lengths()
                    .maximum
                    .is_some_and(|maximum| maximum <= words.into())
                {
                    return self.fragment(span, to);
                }
                if words as usize >= self.limit {
                    return Err(CompileError::States { limit: self.limit });
                }
                let span = self.nfa(span)?;
                let counter = monitor(words + 1, |state| {
                    (true, (state < words).then(|| state + 1))
                });
                to.nfa(&span.intersection(&counter, self.limit)?)
            }
            Span::Containing {
                span,
                is_negated: true,
                ..
            } => {
                self.is_exact = false;
                self.fragment(span, to)
            }
            Span::Containing { span, content, .. } => {
                let any = Span::Repeat {
                    span: Box::new(Span::Word(WordTest::Any)),
                    minimum: 0,
                    maximum: None,
                };
                let around = Span::Sequence(vec![any.clone(), (**content).clone(), any]);
                let span = self.nfa(span)?;
                let around = self.nfa(&around)?;
                to.nfa(&span.intersection(&around, self.limit)?)
            }
            Span::Intersection(spans) => {
                let mut all: Option<Nfa> = None;
                for span in spans {
                    let next = self.nfa(span)?;
                    all = Some(match all {
                        Some(all) => all.intersection(&next, self.limit)?,
                        None => next,
                    });
                }
                to.nfa(&all.unwrap_or_default())
            }
            Span::Complement(span) => {
                let shorter = match &**span {
                    Span::Word(test) => self.test(&negated(test))?,
                    _ => {
                        self.is_exact = false;
                        0
                    }
                };
                let first = to.mark();
                let one = to.word(shorter)?;
                let words = to.word(0)?;
                let more = to.repeat(words, 2, None)?;
                to.either(first, &[one, more])
            }
            Span::Near {
                parts,
                distance,
                is_ordered,
            } => {
                if !is_ordered && parts.len() > UNORDERED_PARTS_MAX {
                    self.is_exact = false;
                    let words = to.word(0)?;
                    return to.repeat(words, 1, None);
                }
                let first = to.mark();
                let mut fragments = Vec::new();
                for part in parts {
                    fragments.push(self.fragment(part, to)?);
                }
                to.near(first, &fragments, *distance, *is_ordered)
            }
            Span::Slop { words, slop } => {
                if words.len() > SLOPPY_WORDS_MAX {
                    self.is_exact = false;
                    let words = to.word(0)?;
                    return to.repeat(words, 1, None);
                }
                let bits = words.iter().map(|test| self.test(test));
                let bits = bits.collect::<Result<Vec<_>, _>>()?;
                to.nfa(&slop_nfa(&bits, *slop as usize, self.limit)?)
            }
        }
    }

    /// Words among the alternatives become one test, so that lists of words take one bit and one state.
    fn alternation(
        &mut self,
        spans: &[Span],
        to: &mut Fragments,
    ) -> Result<Fragment, CompileError> {
        let word = |span: &Span| {
            let mut span = span;
            while let Span::Capture { span: inner, .. } = span {
                span = inner;
            }
            match span {
                Span::Word(test) => Some(test.clone()),
                _ => None,
            }
        };
        let mut words: Vec<WordTest> = spans.iter().filter_map(word).collect();
        let first = to.mark();
        let mut fragments = Vec::new();
        if words.contains(&WordTest::Any) {
            words = vec![WordTest::Any];
        }
        if let Some(test) = words.pop() {
            let test = if words.is_empty() {
                test
            } else {
                words.push(test);
                WordTest::AnyOf(words)
            };
            let bit = self.test(&test)?;
            fragments.push(to.word(bit)?);
        }
        for span in spans.iter().filter(|span| word(span).is_none()) {
            fragments.push(self.fragment(span, to)?);
        }
        to.either(first, &fragments)
    }

    /// The bit of a test; no bit for a test that every word passes.
    fn test(&mut self, test: &WordTest) -> Result<u64, CompileError> {
        if *test == WordTest::Any {
            return Ok(0);
        }
        self.is_exact &= !test.is_contextual();
        bit(&mut self.tests, test.clone(), "tests of words")
    }

    fn boundary(&mut self, unit: Unit, is_end: bool) -> Result<u64, CompileError> {
        let boundary = Boundary { unit, is_end };
        bit(&mut self.boundaries, boundary, "boundaries of units")
    }
}

/// The bit of an item in a list of distinct ones.
fn bit<T: PartialEq>(items: &mut Vec<T>, item: T, what: &'static str) -> Result<u64, CompileError> {
    let number = items.iter().position(|other| *other == item);
    let number = number.unwrap_or_else(|| {
        items.push(item);
        items.len() - 1
    });
    if number < BITS_MAX {
        Ok(1 << number)
    } else {
        let limit = BITS_MAX;
        Err(CompileError::Distinct { what, limit })
    }
}

fn negated(test: &WordTest) -> WordTest {
    match test {
        WordTest::Not(test) => (**test).clone(),
        test => WordTest::Not(Box::new(test.clone())),
    }
}

fn within_unit(span: Span, unit: Unit) -> Span {
    Span::Within {
        span: Box::new(span),
        container: Box::new(Span::Unit(unit)),
        is_negated: false,
    }
}

/// An automaton of `states` states, from the first on, that stays at places; `next` has for each whether it is a match and the state
/// behind a word.
fn monitor(states: u32, next: impl Fn(u32) -> (bool, Option<u32>)) -> Nfa {
    let states = (0..states).map(|state| {
        let (is_match, word) = next(state);
        NfaState {
            words: word.map(always).into_iter().collect(),
            places: vec![always(state)],
            is_match,
        }
    });
    Nfa {
        starts: vec![0],
        states: states.collect(),
    }
}

/// The automaton of spans without this boundary between two of their words: 0 before the first word, 1 behind a word, 2 behind a
/// boundary that follows a word.
fn within(boundary: u64) -> Nfa {
    let mut nfa = monitor(3, |state| (true, (state < 2).then_some(1)));
    nfa.states[1].places = vec![
        Edge {
            forbidden: boundary,
            ..always(1)
        },
        Edge {
            required: boundary,
            ..always(2)
        },
    ];
    nfa
}

/// The automaton of a sloppy phrase of words with these bits.
///
/// A phrase lies in a window in which word `i` of the query stands at `i` to `i + slop`. A state is a place of the window and the set
/// of words that were passed; state 0 is before the window.
fn slop_nfa(bits: &[u64], slop: usize, limit: usize) -> Result<Nfa, CompileError> {
    let all = (1_u32 << bits.len()) - 1;
    let mut known = vec![(0, 0)];
    let mut numbers = HashMap::new();
    let mut number = |state: (usize, u32), known: &mut Vec<(usize, u32)>| {
        *numbers.entry(state).or_insert_with(|| {
            known.push(state);
            known.len() as u32 - 1
        })
    };
    let mut states: Vec<NfaState> = Vec::new();
    while let Some(&(first, passed)) = known.get(states.len()) {
        let current = states.len() as u32;
        let mut words = Vec::new();
        // The first word stands anywhere in the window, the next one at the next place.
        let places = if current == 0 {
            0..bits.len() + slop
        } else {
            first..first + 1
        };
        for place in places {
            for (word, &required) in bits.iter().enumerate() {
                let can_stand = word <= place && place - word <= slop && passed & (1 << word) == 0;
                if can_stand {
                    let target = number((place + 1, passed | 1 << word), &mut known);
                    words.push(Edge {
                        required,
                        ..always(target)
                    });
                }
            }
            // A word that is not passed yet can stand no more if its last place is this one.
            let is_late = (place.checked_sub(slop)).is_some_and(|word| passed & (1 << word) == 0);
            if current > 0 && passed != all && !is_late {
                words.push(always(number((place + 1, passed), &mut known)));
            }
        }
        if known.len() > limit {
            return Err(CompileError::States { limit });
        }
        states.push(NfaState {
            words,
            places: vec![always(current)],
            is_match: current > 0 && passed == all,
        });
    }
    let starts = vec![0];
    Ok(Nfa { starts, states }.trimmed())
}

/// The edge that every letter takes.
fn always(target: u32) -> Edge {
    Edge {
        required: 0,
        forbidden: 0,
        target,
    }
}
