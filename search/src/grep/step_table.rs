//! `StepTable`: all states of a forward automaton, and what each byte does in each of them.
//!
//! Invariant: plain states come first, then those that report something (a match, its end, or that the automaton gives up), so one
//! comparison finds these. A match is reported one byte late: the state behind the byte after it is a match.

use std::collections::HashMap;

use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::NFA;
use regex_automata::util::start;
use regex_automata::{Anchored, MatchKind};

/// The most states.
const STATES_MAX: usize = 1 << 12;

/// The most entries times states of the nondeterministic automaton: some tenths of a second to compute.
const WORK_MAX: usize = 1 << 24;

/// The most states from which bytes are read together.
pub const TOGETHER_MAX: usize = 8;

/// Memory for states while the table is made.
const CACHE_BYTES: usize = 16 << 20;

/// What a state reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Report {
    /// Nothing, and a search begins in it.
    Start,
    Nothing,
    /// A match ended one byte before.
    Match,
    /// There are no further matches from here.
    Dead,
    /// The automaton gives up.
    Quit,
}

/// The states of an automaton and its steps.
#[derive(Debug)]
pub struct StepTable {
    /// For each byte its class.
    classes: [u8; 256],
    class_count: usize,
    /// `[states * classes]`
    next: Vec<u16>,
    /// For each state whether a match ends at the end of a text.
    ends: Vec<bool>,
    report: Vec<Report>,
    /// The number of states that search may begin in; they come first.
    starts: u16,
    /// The number of states that report nothing, with those.
    plain: u16,
    /// The first state by the byte before it; last, at the beginning of the text.
    first: Vec<u16>,
}

/// The automaton while its states are found.
struct Exploration {
    dfa: DFA,
    cache: Cache,
    numbers: HashMap<LazyStateID, u16>,
    states: Vec<LazyStateID>,
}

impl Exploration {
    fn number(&mut self, state: LazyStateID) -> u16 {
        // There are few states.
        let next = self.states.len() as u16;
        let number = *self.numbers.entry(state).or_insert(next);
        if number == next {
            self.states.push(state);
        }
        number
    }
}

impl StepTable {
    /// Finds all states; none if there are too many, or finding them takes long.
    pub(super) fn new(nfa: &NFA) -> Option<StepTable> {
        let config = DFA::config()
            .match_kind(MatchKind::LeftmostFirst)
            .unicode_word_boundary(true)
            .skip_cache_capacity_check(true)
            .cache_capacity(CACHE_BYTES)
            // States keep their names: there is an error instead of a new start.
            .minimum_cache_clear_count(Some(0));
        let mut builder = DFA::builder();
        let builder = builder.configure(config);
        let dfa = builder.build_from_nfa(nfa.clone()).ok()?;
        let mut explored = Exploration {
            cache: dfa.create_cache(),
            dfa,
            numbers: HashMap::new(),
            states: Vec::new(),
        };
        let classes = *explored.dfa.byte_classes();
        // Without the class of the end of a text.
        let class_count = classes.alphabet_len() - 1;
        let entries_max = WORK_MAX / nfa.states().len().max(1);

        let mut first = Vec::with_capacity(257);
        for before in (0..=u8::MAX).map(Some).chain([None]) {
            let config = start::Config::new()
                .anchored(Anchored::No)
                .look_behind(before);
            let state = explored.dfa.start_state(&mut explored.cache, &config).ok();
            first.push(state.map(|state| explored.number(state)));
        }
        let starts = explored.states.len();
        let (mut next, mut ends, mut report) = (Vec::new(), Vec::new(), Vec::new());
        let mut at = 0;
        while let Some(&state) = explored.states.get(at) {
            if explored.states.len() > STATES_MAX || next.len() > entries_max {
                return None;
            }
            report.push(match state {
                _ if state.is_match() => Report::Match,
                _ if state.is_dead() => Report::Dead,
                _ if state.is_quit() => Report::Quit,
                _ if at < starts => Report::Start,
                _ => Report::Nothing,
            });
            let is_last = state.is_dead() || state.is_quit();
            for class in 0..class_count {
                if is_last {
                    // The search has ended.
                    next.push(at as u16);
                    continue;
                }
                // A class has at least one byte, and fewer than 256 classes have a number.
                let byte = classes.elements(regex_automata::util::alphabet::Unit::u8(class as u8));
                let byte = byte.filter_map(|unit| unit.as_u8()).next()?;
                let dfa = &explored.dfa;
                let to = dfa.next_state(&mut explored.cache, state, byte).ok()?;
                next.push(explored.number(to));
            }
            ends.push(if is_last {
                false
            } else {
                let dfa = &explored.dfa;
                dfa.next_eoi_state(&mut explored.cache, state)
                    .ok()?
                    .is_match()
            });
            at += 1;
        }
        // A search that cannot begin has no state: it gives up at once.
        let quit = report.iter().position(|report| *report == Report::Quit);
        let quit = match quit {
            None if first.contains(&None) => {
                let quit = report.len();
                report.push(Report::Quit);
                ends.push(false);
                next.extend(std::iter::repeat_n(quit as u16, class_count));
                quit
            }
            found => found.unwrap_or(0),
        };
        let mut table = StepTable {
            classes: std::array::from_fn(|byte| classes.get(byte as u8)),
            class_count,
            next,
            ends,
            report,
            starts: 0,
            plain: 0,
            first: first
                .into_iter()
                .map(|state| state.unwrap_or(quit as u16))
                .collect(),
        };
        table.find_dead();
        table.sort_states();
        Some(table)
    }

    /// Marks as dead the states from which no match is reached: an expression that begins at the start of a text has many.
    fn find_dead(&mut self) {
        let mut users = vec![Vec::new(); self.report.len()];
        for (place, &to) in self.next.iter().enumerate() {
            // States are u16.
            users[usize::from(to)].push((place / self.class_count) as u16);
        }
        let is_found = |state: &usize| {
            self.ends[*state] || matches!(self.report[*state], Report::Match | Report::Quit)
        };
        let mut pending: Vec<usize> = (0..self.report.len()).filter(is_found).collect();
        let mut is_live = vec![false; self.report.len()];
        while let Some(state) = pending.pop() {
            if !std::mem::replace(&mut is_live[state], true) {
                pending.extend(users[state].iter().map(|&user| usize::from(user)));
            }
        }
        for (report, is_live) in self.report.iter_mut().zip(is_live) {
            if !is_live {
                *report = Report::Dead;
            }
        }
    }

    /// Numbers the states by what they report.
    fn sort_states(&mut self) {
        let count = self.report.len();
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_key(|&state| self.report[state]);
        let mut number = vec![0u16; count];
        for (new, &old) in order.iter().enumerate() {
            // There are few states.
            number[old] = new as u16;
        }
        let width = self.class_count;
        let rows = order
            .iter()
            .flat_map(|&old| &self.next[old * width..(old + 1) * width]);
        let next = rows.map(|&to| number[usize::from(to)]).collect();
        self.ends = order.iter().map(|&old| self.ends[old]).collect();
        self.report = order.iter().map(|&old| self.report[old]).collect();
        self.next = next;
        for state in &mut self.first {
            *state = number[usize::from(*state)];
        }
        self.starts = self
            .report
            .partition_point(|report| *report == Report::Start) as u16;
        self.plain = self
            .report
            .partition_point(|report| *report <= Report::Nothing) as u16;
    }

    /// The number of states.
    pub fn states(&self) -> usize {
        self.report.len()
    }

    /// For each byte its class.
    pub(super) fn classes(&self) -> &[u8; 256] {
        &self.classes
    }

    /// The number of classes.
    pub(super) fn class_count(&self) -> usize {
        self.class_count
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.next[..]) + size_of_val(&self.ends[..]) + size_of_val(&self.report[..])
    }

    /// The state in which a search begins behind a byte, or at the beginning of a text.
    #[inline]
    pub fn start(&self, before: Option<u8>) -> u16 {
        self.first[before.map_or(256, usize::from)]
    }

    /// The state behind a byte.
    #[inline(always)]
    pub fn step(&self, state: u16, byte: u8) -> u16 {
        let class = usize::from(self.classes[usize::from(byte)]);
        self.next[usize::from(state) * self.class_count + class]
    }

    /// Whether a state reports nothing: a text may pass over what leads from plain states to plain states only.
    #[inline(always)]
    pub fn is_plain(&self, state: u16) -> bool {
        state < self.plain
    }

    /// Reads bytes from a plain state; the state behind them, or none if one on the way is not plain.
    #[inline]
    pub fn read(&self, state: u16, bytes: &[u8]) -> Option<u16> {
        let mut state = state;
        for &byte in bytes {
            state = self.step(state, byte);
            if state >= self.plain {
                return None;
            }
        }
        Some(state)
    }

    /// A state from which there are no further matches, if there is one.
    pub fn dead(&self) -> Option<u16> {
        let dead = self
            .report
            .iter()
            .position(|report| *report == Report::Dead);
        // There are few states.
        dead.map(|state| state as u16)
    }

    /// Whether bytes lead from a plain state to one without further matches, and report nothing before.
    pub fn ends_in(&self, state: u16, bytes: &[u8]) -> bool {
        let mut state = state;
        for &byte in bytes {
            state = self.step(state, byte);
            if state >= self.plain {
                return self.report(state) == Report::Dead;
            }
        }
        false
    }

    /// Reads bytes from each of some plain states, at most [`TOGETHER_MAX`]: the one state behind them; none if it depends on the
    /// state before, or one on the way is not plain.
    #[inline]
    pub fn read_together(&self, states: &[u16], bytes: &[u8]) -> Option<u16> {
        let (first, others) = states.split_first()?;
        let mut all = [*first; TOGETHER_MAX];
        all[1..states.len()].copy_from_slice(others);
        let all = &mut all[..states.len()];
        let mut rest = bytes;
        while all.iter().any(|state| *state != all[0]) {
            let (byte, behind) = rest.split_first()?;
            for state in &mut *all {
                *state = self.step(*state, *byte);
                if *state >= self.plain {
                    return None;
                }
            }
            rest = behind;
        }
        self.read(all[0], rest)
    }

    pub(super) fn report(&self, state: u16) -> Report {
        self.report[usize::from(state)]
    }

    pub(super) fn is_start(&self, state: u16) -> bool {
        state < self.starts
    }

    pub(super) fn ends(&self, state: u16) -> bool {
        self.ends[usize::from(state)]
    }
}
