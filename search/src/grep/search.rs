//! `GrepSearch`: the matches of an expression in a text, one after the other.
//!
//! The forward automaton reads from where a match may begin to where the first one ends, the backward one from there to its
//! beginning. Invariant: matches are leftmost-first and do not overlap; empty ones are those of `find_iter` of the crate `regex`.
//! A search can be resumed behind any match by a few numbers.

use std::ops::Range;

use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::util::prefilter::Prefilter;
use regex_automata::util::start;
use regex_automata::{Anchored, Span};

use super::automaton::GrepAutomaton;
use super::simulation::{Simulated, SimulatedRange, Simulation};
use super::step_table::{Report, StepTable};
use super::window::{GrepText, Window};

/// The place from which a search goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resumption {
    /// Where the next match may begin.
    at: u64,
    /// Where the last one ended.
    last_end: Option<u64>,
}

/// The search of a text.
pub struct GrepSearch<'a, T> {
    automaton: &'a GrepAutomaton,
    window: Window<'a, T>,
    forwards: Option<LazySteps<'a>>,
    backwards: Option<LazySteps<'a>>,
    simulation: Option<Box<Simulation>>,
    place: Resumption,
}

/// The forward automaton of one search.
trait Steps {
    type State: Copy;

    /// The state in which a search begins behind a byte; none if the automaton gives up.
    fn start(&mut self, before: Option<u8>) -> Option<Self::State>;

    /// The state behind a byte.
    fn step(&mut self, state: Self::State, byte: u8) -> Option<Self::State>;

    fn report(&self, state: Self::State) -> Report;

    /// Whether a state may be other than `Report::Nothing`; a first state only `with_starts`.
    fn is_reported(&self, state: Self::State, with_starts: bool) -> bool;

    /// Whether a match ends at the end of the text; none if the automaton gives up.
    fn ends(&mut self, state: Self::State) -> Option<bool>;

    /// Passes over text, if it can.
    fn pass<T: GrepText>(
        &self,
        text: &mut T,
        state: Self::State,
        at: u64,
    ) -> Result<(Self::State, u64), T::Error>;
}

/// A lazy automaton with its states.
struct LazySteps<'a> {
    dfa: &'a DFA,
    cache: Cache,
}

impl<'a> LazySteps<'a> {
    fn new(dfa: &'a DFA) -> LazySteps<'a> {
        LazySteps {
            cache: dfa.create_cache(),
            dfa,
        }
    }

    fn begin(&mut self, anchored: Anchored, beside: Option<u8>) -> Option<LazyStateID> {
        let config = start::Config::new().anchored(anchored).look_behind(beside);
        self.dfa.start_state(&mut self.cache, &config).ok()
    }
}

impl Steps for LazySteps<'_> {
    type State = LazyStateID;

    fn start(&mut self, before: Option<u8>) -> Option<LazyStateID> {
        self.begin(Anchored::No, before)
    }

    #[inline(always)]
    fn step(&mut self, state: LazyStateID, byte: u8) -> Option<LazyStateID> {
        self.dfa.next_state(&mut self.cache, state, byte).ok()
    }

    fn report(&self, state: LazyStateID) -> Report {
        match state {
            _ if state.is_match() => Report::Match,
            _ if state.is_dead() => Report::Dead,
            _ if state.is_quit() => Report::Quit,
            _ if state.is_start() => Report::Start,
            _ => Report::Nothing,
        }
    }

    #[inline(always)]
    fn is_reported(&self, state: LazyStateID, with_starts: bool) -> bool {
        state.is_tagged() && (with_starts || !state.is_start())
    }

    fn ends(&mut self, state: LazyStateID) -> Option<bool> {
        let last = self.dfa.next_eoi_state(&mut self.cache, state);
        last.ok().map(|last| last.is_match())
    }

    fn pass<T: GrepText>(
        &self,
        _: &mut T,
        state: LazyStateID,
        at: u64,
    ) -> Result<(LazyStateID, u64), T::Error> {
        Ok((state, at))
    }
}

impl Steps for &StepTable {
    type State = u16;

    fn start(&mut self, before: Option<u8>) -> Option<u16> {
        let state = StepTable::start(self, before);
        (StepTable::report(self, state) != Report::Quit).then_some(state)
    }

    #[inline(always)]
    fn step(&mut self, state: u16, byte: u8) -> Option<u16> {
        Some(StepTable::step(self, state, byte))
    }

    fn report(&self, state: u16) -> Report {
        StepTable::report(self, state)
    }

    #[inline(always)]
    fn is_reported(&self, state: u16, with_starts: bool) -> bool {
        !self.is_plain(state) || with_starts && self.is_start(state)
    }

    fn ends(&mut self, state: u16) -> Option<bool> {
        Some(StepTable::ends(self, state))
    }

    fn pass<T: GrepText>(&self, text: &mut T, state: u16, at: u64) -> Result<(u16, u64), T::Error> {
        if self.is_plain(state) {
            text.pass(self, state, at)
        } else {
            Ok((state, at))
        }
    }
}

/// The result of the forward automaton.
enum Walked {
    /// A match ends there.
    End(u64),
    None,
    /// The automaton gave up at `at`.
    GaveUp {
        at: u64,
        /// Whether it was in a first state.
        is_start: bool,
    },
}

impl<'a, T: GrepText> GrepSearch<'a, T> {
    /// A search of a text from a place on, which is the beginning by default.
    pub fn new(
        automaton: &'a GrepAutomaton,
        text: &'a mut T,
        place: Resumption,
    ) -> GrepSearch<'a, T> {
        GrepSearch {
            window: Window::new(text),
            forwards: automaton.forwards.as_ref().map(LazySteps::new),
            backwards: None,
            simulation: None,
            automaton,
            place,
        }
    }

    /// The place from which to go on.
    pub fn place(&self) -> Resumption {
        self.place
    }

    /// The text.
    pub fn text(&mut self) -> &mut T {
        self.window.text
    }

    /// Replaces `bytes` by a range of the text.
    ///
    /// # Errors
    /// Those of reading it.
    pub fn copy(&mut self, range: Range<u64>, bytes: &mut Vec<u8>) -> Result<(), T::Error> {
        self.window.copy(range, bytes)
    }

    /// The next match.
    ///
    /// # Errors
    /// Those of reading the text.
    pub fn next_match(&mut self) -> Result<Option<Range<u64>>, T::Error> {
        let Resumption { at, last_end } = self.place;
        let mut found = self.find(at)?;
        if let Some(empty) = &found
            && empty.is_empty()
            && Some(empty.end) == last_end
        {
            found = self.find(at + 1)?;
        }
        self.place = match &found {
            Some(found) => Resumption {
                at: found.end,
                last_end: Some(found.end),
            },
            // There are no more.
            None => Resumption {
                at: self.window.length() + 1,
                last_end,
            },
        };
        Ok(found)
    }

    /// The first match from a place on.
    fn find(&mut self, from: u64) -> Result<Option<Range<u64>>, T::Error> {
        let mut from = from;
        loop {
            if from > self.window.length() {
                return Ok(None);
            }
            let walked = match (&self.automaton.table, &mut self.forwards) {
                (Some(table), _) => walk(&mut &*table, &mut self.window, from, None)?,
                (None, Some(lazy)) => {
                    let prefilter = self.automaton.prefilter.as_ref();
                    walk(lazy, &mut self.window, from, prefilter)?
                }
                (None, None) => Walked::GaveUp {
                    at: u64::MAX,
                    is_start: false,
                },
            };
            let range = match walked {
                Walked::None => return Ok(None),
                Walked::End(end) => match self.begin(from, end)? {
                    Some(begin) => return Ok(Some(begin..end)),
                    None => SimulatedRange { from, until: None },
                },
                Walked::GaveUp { at, is_start } => SimulatedRange {
                    // In its first state it has begun no match.
                    from: if is_start && self.automaton.leaves_start {
                        at
                    } else {
                        from
                    },
                    until: at.checked_add(1),
                },
            };
            let nfa = &self.automaton.nfa;
            let simulation = self
                .simulation
                .get_or_insert_with(|| Box::new(Simulation::new(nfa)));
            match simulation.run(nfa, &mut self.window, &range)? {
                Simulated::Match(found) => return Ok(Some(found)),
                Simulated::None => return Ok(None),
                Simulated::From(at) => from = at,
            }
        }
    }

    /// The beginning of the match that ends at `end`; none if the automaton gives up.
    fn begin(&mut self, from: u64, end: u64) -> Result<Option<u64>, T::Error> {
        let Some(dfa) = &self.automaton.backwards else {
            return Ok(None);
        };
        let steps = self.backwards.get_or_insert_with(|| LazySteps::new(dfa));
        let behind = self.window.byte(end)?;
        let Some(mut state) = steps.begin(Anchored::Yes, behind) else {
            return Ok(None);
        };
        let (mut begin, mut at) = (None, end);
        while at > from {
            let bytes = self.window.before(from, at)?;
            for &byte in bytes.iter().rev() {
                let Some(next) = steps.step(state, byte) else {
                    return Ok(None);
                };
                if next.is_tagged() {
                    if next.is_match() {
                        begin = Some(at);
                    } else if next.is_dead() {
                        return Ok(begin);
                    } else if next.is_quit() {
                        return Ok(None);
                    }
                }
                state = next;
                at -= 1;
            }
        }
        let last = match self.window.byte_before(from)? {
            Some(before) => steps.step(state, before),
            None => steps.dfa.next_eoi_state(&mut steps.cache, state).ok(),
        };
        Ok(match last {
            Some(last) if last.is_match() => Some(from),
            Some(last) if !last.is_quit() => begin,
            _ => None,
        })
    }
}

/// Reads from a place to the end of the first match behind it.
fn walk<S: Steps, T: GrepText>(
    steps: &mut S,
    window: &mut Window<'_, T>,
    from: u64,
    prefilter: Option<&Prefilter>,
) -> Result<Walked, T::Error> {
    let gave_up = |at, is_start| Ok(Walked::GaveUp { at, is_start });
    let before = window.byte_before(from)?;
    let Some(mut state) = steps.start(before) else {
        return gave_up(from, true);
    };
    let with_starts = prefilter.is_some();
    let (mut at, mut end) = (from, None);
    'windows: loop {
        if !window.has(at) {
            (state, at) = steps.pass(window.text, state, at)?;
        }
        let before = window.byte_before(at)?;
        let bytes = window.after(at)?;
        if bytes.is_empty() {
            break;
        }
        let mut next = 0;
        // Where the search for a candidate goes on; less than the end only where there are first states.
        let mut candidates = 0;
        while next < bytes.len() {
            if let Some(prefilter) = prefilter
                && end.is_none()
                && candidates <= next
                && steps.report(state) == Report::Start
            {
                let (start, last) = (next, bytes.len());
                let found = prefilter.find(bytes, Span { start, end: last });
                let overlap = prefilter.max_needle_len().saturating_sub(1);
                let place = match found {
                    Some(found) => found.start,
                    // A candidate may begin there and end in the next window.
                    None => start.max(last.saturating_sub(overlap)),
                };
                candidates = if found.is_some() { place + 1 } else { last };
                if place > next {
                    let before = bytes.get(place - 1).copied().or(before);
                    match steps.start(before) {
                        Some(first) => state = first,
                        None => return gave_up(at + place as u64, true),
                    }
                    next = place;
                    if next >= last {
                        break;
                    }
                }
            }
            let previous = state;
            let Some(to) = steps.step(state, bytes[next]) else {
                return gave_up(at + next as u64, false);
            };
            state = to;
            if steps.is_reported(state, with_starts) {
                match steps.report(state) {
                    Report::Match => end = Some(at + next as u64),
                    Report::Dead => break 'windows,
                    Report::Quit => {
                        let is_start = end.is_none() && steps.report(previous) == Report::Start;
                        return gave_up(at + next as u64, is_start);
                    }
                    Report::Start | Report::Nothing => {}
                }
            }
            next += 1;
        }
        at += bytes.len() as u64;
        if at >= window.length() {
            break;
        }
    }
    let is_dead = at < window.length() || steps.report(state) == Report::Dead;
    if !is_dead {
        match steps.ends(state) {
            Some(true) => end = Some(window.length()),
            Some(false) => {}
            None => return gave_up(window.length(), false),
        }
    }
    Ok(end.map_or(Walked::None, Walked::End))
}
