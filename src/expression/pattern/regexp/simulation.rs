//! `Simulation`: a nondeterministic automaton, all of whose threads read a text at once.
//!
//! This is the algorithm of Pike (as in <https://swtch.com/~rsc/regexp/regexp2.html>): threads are kept in order of preference,
//! at most one in each state, so a byte costs at most one step for each state. Invariant: the first match is that of the crate
//! `regex`, and steps are polled, also those that read no byte.

use std::ops::Range;

use regex_automata::Span;
use regex_automata::nfa::thompson::{NFA, State};
use regex_automata::util::prefilter::Prefilter;
use regex_automata::util::primitives::StateID;

use super::built::WHAT;
use crate::Result;
use crate::runtime::interrupt::Pace;
use crate::runtime::memory::{Held, ValueMemory, reserved};

/// The places of groups of a match; none for a group that took no part in it.
pub(crate) type MatchGroups = Vec<Option<Range<usize>>>;

/// The range to search, and the wanted parts of the match.
pub(super) struct RegexpSearch<'a> {
    pub(super) text: &'a [u8],
    pub(super) range: Range<usize>,
    /// Whether a match must begin where the range does.
    pub(super) is_anchored: bool,
    /// The groups whose places are wanted.
    pub(super) groups: &'a [usize],
    /// Whether any match is enough.
    pub(super) is_earliest: bool,
}

/// Threads, and room for more.
#[derive(Debug)]
pub(super) struct Simulation {
    current: Threads,
    next: Threads,
    thread: Thread,
    memory: ValueMemory,
    _held: Held,
}

/// The current thread.
#[derive(Debug, Default)]
struct Thread {
    /// States to be followed, and places to be restored after them.
    pending: Vec<Pending>,
    /// Its places of the wanted groups.
    places: Vec<usize>,
}

/// Threads in order of preference, one in each state at most.
#[derive(Debug)]
struct Threads {
    states: Vec<StateID>,
    /// For each state its index in `states`; any value if it is not there.
    indexes: Vec<u32>,
    /// Places of groups of the thread of each state.
    places: Vec<usize>,
}

#[derive(Debug)]
enum Pending {
    State(StateID),
    Place { slot: usize, place: usize },
}

/// A place that a thread has not reached.
const NOWHERE: usize = usize::MAX;

/// Work of a state, as `Pace` counts bytes.
const STATE_WORK: usize = 16;

/// Bytes that are searched for the beginning of a match between two polls.
const PART: usize = 64 << 10;

impl Threads {
    fn new(count: usize) -> Result<Threads> {
        let mut indexes = reserved(WHAT, count)?;
        indexes.resize(count, 0);
        Ok(Threads {
            states: reserved(WHAT, count)?,
            indexes,
            places: Vec::new(),
        })
    }

    /// Appends a state; false if it is there.
    fn insert(&mut self, state: StateID) -> bool {
        let index = self.indexes[state.as_usize()] as usize;
        if self.states.get(index) == Some(&state) {
            return false;
        }
        // States have numbers of 32 bits.
        self.indexes[state.as_usize()] = self.states.len() as u32;
        self.states.push(state);
        true
    }

    fn places(&self, state: StateID, count: usize) -> &[usize] {
        let at = state.as_usize() * count;
        &self.places[at..at + count]
    }

    fn set_places(&mut self, state: StateID, places: &[usize]) {
        let at = state.as_usize() * places.len();
        self.places[at..at + places.len()].copy_from_slice(places);
    }
}

impl Simulation {
    /// Room for the threads of an automaton.
    pub(super) fn new(nfa: &NFA, memory: &ValueMemory) -> Result<Simulation> {
        let count = nfa.states().len();
        let mut held = memory.hold();
        // In both lists a state and its index, and a pending one.
        let bytes = 2 * (size_of::<StateID>() + size_of::<u32>()) + size_of::<Pending>();
        held.reserve(WHAT, (count as u64).saturating_mul(bytes as u64))?;
        Ok(Simulation {
            current: Threads::new(count)?,
            next: Threads::new(count)?,
            thread: Thread::default(),
            memory: memory.clone(),
            _held: held,
        })
    }

    /// Makes room for places of each thread.
    fn set_groups(&mut self, nfa: &NFA, groups: usize) -> Result<()> {
        let count = nfa.states().len().saturating_mul(2 * groups);
        let bytes = (count as u64).saturating_mul(2 * size_of::<usize>() as u64);
        if count > self.current.places.len() {
            self.memory.check_left("places of groups", bytes)?;
            for threads in [&mut self.current, &mut self.next] {
                threads.places = reserved("places of groups", count)?;
                threads.places.resize(count, NOWHERE);
            }
        }
        self.thread.places.clear();
        self.thread.places.resize(2 * groups, NOWHERE);
        Ok(())
    }

    /// The places of the wanted groups of the first match.
    ///
    /// # Errors
    /// If it takes too much memory, or the statement must end.
    pub(super) fn run(
        &mut self,
        nfa: &NFA,
        prefilter: Option<&Prefilter>,
        search: &RegexpSearch<'_>,
        pace: &mut Pace,
    ) -> Result<Option<MatchGroups>> {
        let Range { start, end } = search.range;
        self.set_groups(nfa, search.groups.len())?;
        self.current.states.clear();
        self.next.states.clear();
        let mut found: Option<Vec<usize>> = None;
        let mut at = start;
        loop {
            let is_idle = self.current.states.is_empty();
            if is_idle && (found.is_some() || search.is_anchored && at > start) {
                break;
            }
            if is_idle
                && !search.is_anchored
                && let Some(prefilter) = prefilter
            {
                match next_candidate(prefilter, search.text, at..end, pace)? {
                    Some(candidate) => at = candidate,
                    None => break,
                }
            }
            if found.is_none() && (!search.is_anchored || at == start) {
                self.thread.places.fill(NOWHERE);
                let first = nfa.start_anchored();
                self.thread
                    .follow(nfa, search, first, at, &mut self.current, pace)?;
            }
            pace.work(STATE_WORK.saturating_mul(1 + self.current.states.len()))?;
            let byte = search.text[..end].get(at).copied();
            for index in 0..self.current.states.len() {
                let state = self.current.states[index];
                let to = match (nfa.state(state), byte) {
                    (State::Match { .. }, _) => {
                        let places = self.current.places(state, 2 * search.groups.len());
                        found = Some(places.to_vec());
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
                    let places = self.current.places(state, 2 * search.groups.len());
                    self.thread.places.copy_from_slice(places);
                    self.thread
                        .follow(nfa, search, to, at + 1, &mut self.next, pace)?;
                }
            }
            if found.is_some() && search.is_earliest {
                break;
            }
            std::mem::swap(&mut self.current, &mut self.next);
            self.next.states.clear();
            if at >= end {
                break;
            }
            at += 1;
        }
        Ok(found.map(|places| {
            let pairs = places.chunks_exact(2);
            let range = |pair: &[usize]| (pair[1] != NOWHERE).then(|| pair[0]..pair[1]);
            pairs.map(range).collect()
        }))
    }
}

impl Thread {
    /// Follows a state to those that read a byte or match, and appends them to the threads.
    fn follow(
        &mut self,
        nfa: &NFA,
        search: &RegexpSearch<'_>,
        state: StateID,
        at: usize,
        threads: &mut Threads,
        pace: &mut Pace,
    ) -> Result<()> {
        self.pending.clear();
        self.pending.push(Pending::State(state));
        while let Some(next) = self.pending.pop() {
            let mut state = match next {
                Pending::State(state) => state,
                Pending::Place { slot, place } => {
                    self.places[slot] = place;
                    continue;
                }
            };
            // Until a state was met before, or none follows it.
            while threads.insert(state) {
                pace.work(STATE_WORK)?;
                state = match nfa.state(state) {
                    State::Look { look, next } => {
                        if !nfa.look_matcher().matches(*look, search.text, at) {
                            break;
                        }
                        *next
                    }
                    State::Union { alternates } => {
                        let Some((first, others)) = alternates.split_first() else {
                            break;
                        };
                        let others = others.iter().rev().map(|other| Pending::State(*other));
                        self.pending.extend(others);
                        *first
                    }
                    State::BinaryUnion { alt1, alt2 } => {
                        self.pending.push(Pending::State(*alt2));
                        *alt1
                    }
                    State::Capture {
                        next,
                        group_index,
                        slot,
                        ..
                    } => {
                        let group = group_index.as_usize();
                        // A group has a slot for its beginning, and the next one for its end.
                        let is_end = slot.as_usize() % 2;
                        let index = search.groups.iter().position(|wanted| *wanted == group);
                        if let Some(index) = index {
                            let slot = 2 * index + is_end;
                            let place = std::mem::replace(&mut self.places[slot], at);
                            self.pending.push(Pending::Place { slot, place });
                        }
                        *next
                    }
                    State::Fail
                    | State::Match { .. }
                    | State::ByteRange { .. }
                    | State::Sparse(_)
                    | State::Dense(_) => {
                        threads.set_places(state, &self.places);
                        break;
                    }
                };
            }
        }
        Ok(())
    }
}

/// The next place where a match may begin.
fn next_candidate(
    prefilter: &Prefilter,
    text: &[u8],
    range: Range<usize>,
    pace: &mut Pace,
) -> Result<Option<usize>> {
    let overlap = prefilter.max_needle_len().saturating_sub(1);
    let mut start = range.start;
    loop {
        let end = range.end.min(start + PART + overlap);
        pace.work(end - start)?;
        if let Some(found) = prefilter.find(text, Span { start, end }) {
            return Ok(Some(found.start));
        }
        if end == range.end {
            return Ok(None);
        }
        start += PART;
    }
}
