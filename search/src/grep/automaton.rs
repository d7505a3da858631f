//! `GrepAutomaton`: a compiled expression, which threads share.
//!
//! Invariant: the forward automaton finds where matches end, the backward one where they begin, and `nfa` decides both where these
//! give up. It holds no state of a search.

use regex_automata::MatchKind;
use regex_automata::hybrid::dfa::DFA;
use regex_automata::nfa::thompson::{self, NFA, State, WhichCaptures};
use regex_automata::util::prefilter::Prefilter;
use regex_automata::util::primitives::StateID;
use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, Hir};

use super::counter::MatchCounter;
use super::step_table::StepTable;

/// The most states of an expression for which a deterministic automaton has room.
const DFA_STATES_MAX: usize = 1 << 15;

/// A compiled expression.
#[derive(Debug)]
pub struct GrepAutomaton {
    pub(super) nfa: NFA,
    /// All states of the forward automaton; none if there are too many.
    pub(super) table: Option<StepTable>,
    /// The forward automaton, whose states are made as texts need them; none if there is a table, or no room.
    pub(super) forwards: Option<DFA>,
    /// The backward automaton; none if there is no room.
    pub(super) backwards: Option<DFA>,
    pub(super) prefilter: Option<Prefilter>,
    /// Whether no state that has read a byte is one in which a match begins.
    pub(super) leaves_start: bool,
    /// Whether a match may have no bytes.
    may_be_empty: bool,
}

impl GrepAutomaton {
    /// Compiles an expression; each search takes about `cache_bytes` of memory for states of either direction.
    ///
    /// # Errors
    /// If it is too large, as text.
    pub fn new(hir: &Hir, cache_bytes: usize) -> Result<GrepAutomaton, String> {
        let compile = |is_reverse| {
            let config = thompson::Config::new()
                .utf8(false)
                .reverse(is_reverse)
                .which_captures(WhichCaptures::None);
            let mut compiler = thompson::Compiler::new();
            let compiled = compiler.configure(config).build_from_hir(hir);
            compiled.map_err(|error| error.to_string())
        };
        let nfa = compile(false)?;
        let backwards = lazy(&compile(true)?, MatchKind::All, cache_bytes, false);
        let prefilter = Prefilter::from_hir_prefix(MatchKind::LeftmostFirst, hir);
        let table = StepTable::new(&nfa);
        let forwards = match table {
            Some(_) => None,
            None => lazy(
                &nfa,
                MatchKind::LeftmostFirst,
                cache_bytes,
                prefilter.is_some(),
            ),
        };
        Ok(GrepAutomaton {
            leaves_start: leaves_start(&nfa),
            may_be_empty: hir.properties().minimum_len() == Some(0),
            prefilter: prefilter.filter(Prefilter::is_fast),
            nfa,
            table,
            forwards,
            backwards,
        })
    }

    /// The automaton of a string of bytes, with or without regard to the case of ASCII letters.
    ///
    /// # Errors
    /// If it is too long, as text.
    pub fn of_literal(
        bytes: &[u8],
        ignores_case: bool,
        cache_bytes: usize,
    ) -> Result<GrepAutomaton, String> {
        let byte = |&byte: &u8| {
            if ignores_case && byte.is_ascii_alphabetic() {
                let cases = [byte.to_ascii_lowercase(), byte.to_ascii_uppercase()];
                let cases = cases.map(|byte| ClassBytesRange::new(byte, byte));
                Hir::class(Class::Bytes(ClassBytes::new(cases)))
            } else {
                Hir::literal([byte])
            }
        };
        let hir = Hir::concat(bytes.iter().map(byte).collect());
        GrepAutomaton::new(&hir, cache_bytes)
    }

    /// The forward automaton as a table; none if it has too many states.
    pub fn table(&self) -> Option<&StepTable> {
        self.table.as_ref()
    }

    /// An automaton that counts matches; none if it has too many states, or matches may be empty.
    pub fn counter(&self) -> Option<MatchCounter> {
        let table = self.table.as_ref().filter(|_| !self.may_be_empty);
        table.and_then(MatchCounter::new)
    }
}

#[cfg(test)]
impl GrepAutomaton {
    /// Makes its states as texts need them.
    pub(super) fn drop_table(&mut self) {
        self.table = None;
        self.forwards = lazy(&self.nfa, MatchKind::LeftmostFirst, 1 << 16, true);
    }

    /// Leaves the simulation alone.
    pub(super) fn drop_automata(&mut self) {
        self.forwards = None;
        self.backwards = None;
    }
}

/// A lazy deterministic automaton; none if there are too many states.
fn lazy(nfa: &NFA, kind: MatchKind, cache_bytes: usize, has_starts: bool) -> Option<DFA> {
    if nfa.states().len() > DFA_STATES_MAX {
        return None;
    }
    let config = DFA::config()
        .match_kind(kind)
        .unicode_word_boundary(true)
        .specialize_start_states(has_starts)
        .cache_capacity(cache_bytes);
    let mut builder = DFA::builder();
    let builder = builder.configure(config);
    builder.build_from_nfa(nfa.clone()).ok()
}

/// Whether no state that a byte leads to reads the first byte of a match: then an automaton in its first state has begun no match.
fn leaves_start(nfa: &NFA) -> bool {
    let mut is_first = vec![false; nfa.states().len()];
    visit(nfa, vec![nfa.start_anchored()], false, |state| {
        is_first[state.as_usize()] = true;
    });
    let mut targets = Vec::new();
    for state in (0..nfa.states().len()).filter(|&state| is_first[state]) {
        push_targets(nfa, StateID::must(state), &mut targets);
    }
    let mut is_left = true;
    visit(nfa, targets, true, |state| {
        is_left &= !is_first[state.as_usize()];
    });
    is_left
}

/// Visits the states that read bytes or match, and are reached from some states without reading, or `reading` any bytes.
fn visit(nfa: &NFA, mut pending: Vec<StateID>, reading: bool, mut visit: impl FnMut(StateID)) {
    let mut is_known = vec![false; nfa.states().len()];
    while let Some(state) = pending.pop() {
        if std::mem::replace(&mut is_known[state.as_usize()], true) {
            continue;
        }
        match nfa.state(state) {
            State::Look { next, .. } | State::Capture { next, .. } => pending.push(*next),
            State::Union { alternates } => pending.extend(alternates.iter().copied()),
            State::BinaryUnion { alt1, alt2 } => pending.extend([*alt1, *alt2]),
            _ => {
                visit(state);
                if reading {
                    push_targets(nfa, state, &mut pending);
                }
            }
        }
    }
}

/// Appends the states that a byte leads to.
fn push_targets(nfa: &NFA, state: StateID, targets: &mut Vec<StateID>) {
    match nfa.state(state) {
        State::ByteRange { trans } => targets.push(trans.next),
        State::Sparse(sparse) => targets.extend(sparse.transitions.iter().map(|trans| trans.next)),
        State::Dense(dense) => {
            targets.extend((0..=u8::MAX).filter_map(|byte| dense.matches_byte(byte)));
        }
        _ => {}
    }
}
