//! `Simulation`: a nondeterministic automaton, all of whose threads read a text at once.
//!
//! This is the algorithm of Pike (as in <https://swtch.com/~rsc/regexp/regexp2.html>): threads are kept in order of preference,
//! at most one in each state. Invariant: the first match is that of the crate `regex`. A search ends early where no thread is
//! left, so that a deterministic automaton can go on.

use std::ops::Range;

use regex_automata::nfa::thompson::{NFA, State};
use regex_automata::util::primitives::StateID;

use super::window::{GrepText, Window};

/// Bytes around a place that assertions look at: a character on either side.
const LOOK_BYTES: u64 = 4;

/// Steps between two looks whether to go on.
const STEPS: usize = 1 << 14;

/// Threads, and room for more.
#[derive(Debug)]
pub(super) struct Simulation {
    current: Threads,
    next: Threads,
    pending: Vec<StateID>,
}

/// Threads in order of preference, one in each state at most.
#[derive(Debug)]
struct Threads {
    /// States with the places where their matches begin.
    states: Vec<(StateID, u64)>,
    /// For each state its index in `states`; any value if it is not there.
    indexes: Vec<u32>,
}

impl Threads {
    fn new(count: usize) -> Threads {
        Threads {
            states: Vec::new(),
            indexes: vec![0; count],
        }
    }

    /// Appends a state; false if it is there.
    fn insert(&mut self, state: StateID, begin: u64) -> bool {
        let index = self.indexes[state.as_usize()] as usize;
        if (self.states.get(index)).is_some_and(|(known, _)| *known == state) {
            return false;
        }
        // States have numbers of 32 bits.
        self.indexes[state.as_usize()] = self.states.len() as u32;
        self.states.push((state, begin));
        true
    }
}

/// The result of a simulation.
pub(super) enum Simulated {
    Match(Range<u64>),
    None,
    /// No match begins before this place.
    From(u64),
}

/// The range of a simulation.
pub(super) struct SimulatedRange {
    /// Where a match may begin.
    pub(super) from: u64,
    /// The place from which on it may end without a match; none if it must not.
    pub(super) until: Option<u64>,
}

impl Simulation {
    pub(super) fn new(nfa: &NFA) -> Simulation {
        let count = nfa.states().len();
        Simulation {
            current: Threads::new(count),
            next: Threads::new(count),
            pending: Vec::new(),
        }
    }

    /// The first match from a place on.
    pub(super) fn run<T: GrepText>(
        &mut self,
        nfa: &NFA,
        window: &mut Window<'_, T>,
        range: &SimulatedRange,
    ) -> Result<Simulated, T::Error> {
        self.current.states.clear();
        self.next.states.clear();
        let mut found: Option<Range<u64>> = None;
        let mut at = range.from;
        let mut steps = 0;
        loop {
            if self.current.states.is_empty() {
                if let Some(found) = found {
                    return Ok(Simulated::Match(found));
                }
                // A deterministic automaton begins behind ASCII.
                if range.until.is_some_and(|until| at >= until)
                    && window.byte_before(at)?.is_none_or(|byte| byte.is_ascii())
                {
                    return Ok(Simulated::From(at));
                }
            }
            steps += 1 + self.current.states.len();
            if steps > STEPS {
                window.text.check()?;
                steps = 0;
            }
            if found.is_none() {
                let first = nfa.start_anchored();
                follow(
                    nfa,
                    window,
                    (first, at),
                    at,
                    &mut self.pending,
                    &mut self.current,
                )?;
            }
            let byte = window.byte(at)?;
            for index in 0..self.current.states.len() {
                let (state, begin) = self.current.states[index];
                let to = match (nfa.state(state), byte) {
                    (State::Match { .. }, _) => {
                        found = Some(begin..at);
                        // The following threads are less preferred.
                        break;
                    }
                    (State::ByteRange { trans }, Some(byte)) => {
                        trans.matches_byte(byte).then_some(trans.next)
                    }
                    (State::Sparse(sparse), Some(byte)) => sparse.matches_byte(byte),
                    (State::Dense(dense), Some(byte)) => dense.matches_byte(byte),
                    _ => None,
                };
                if let Some(to) = to {
                    follow(
                        nfa,
                        window,
                        (to, begin),
                        at + 1,
                        &mut self.pending,
                        &mut self.next,
                    )?;
                }
            }
            std::mem::swap(&mut self.current, &mut self.next);
            self.next.states.clear();
            if byte.is_none() {
                return Ok(found.map_or(Simulated::None, Simulated::Match));
            }
            at += 1;
        }
    }
}

/// Follows a state to those that read a byte or match, and appends them to the threads.
fn follow<T: GrepText>(
    nfa: &NFA,
    window: &mut Window<'_, T>,
    (state, begin): (StateID, u64),
    at: u64,
    pending: &mut Vec<StateID>,
    threads: &mut Threads,
) -> Result<(), T::Error> {
    pending.clear();
    pending.push(state);
    while let Some(mut state) = pending.pop() {
        // Until a state was met before, or none follows it.
        while threads.insert(state, begin) {
            state = match nfa.state(state) {
                State::Look { look, next } => {
                    let (bytes, place) = window.around(at, LOOK_BYTES)?;
                    if !nfa.look_matcher().matches(*look, bytes, place) {
                        break;
                    }
                    *next
                }
                State::Union { alternates } => {
                    let Some((first, others)) = alternates.split_first() else {
                        break;
                    };
                    pending.extend(others.iter().rev());
                    *first
                }
                State::BinaryUnion { alt1, alt2 } => {
                    pending.push(*alt2);
                    *alt1
                }
                State::Capture { next, .. } => *next,
                _ => break,
            };
        }
    }
    Ok(())
}
