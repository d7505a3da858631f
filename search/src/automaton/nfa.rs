//! `Nfa`: nondeterministic automata over the letters of a file, without empty transitions.
//!
//! A file is read as letters: one for each word, and at any place between words, before the first and behind the last, letters for
//! the boundaries of units there. Invariant: a letter of a place without boundaries changes nothing, and letters of one place may
//! come together, apart, or twice.

use std::collections::HashMap;

use crate::compile_error::CompileError;

/// What is read of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Letter {
    /// A word: bit i is set if it passes test i.
    Word(u64),
    /// A place between words: bit i is set if boundary i is there.
    Place(u64),
}

/// A transition, for words or for places by the list that it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Edge {
    /// Bits that the letter must have.
    pub required: u64,
    /// Bits that it must not have.
    pub forbidden: u64,
    /// The state behind the letter.
    pub target: u32,
}

impl Edge {
    /// Whether a letter of these bits takes it.
    pub fn accepts(&self, bits: u64) -> bool {
        bits & self.required == self.required && bits & self.forbidden == 0
    }

    /// The edge that takes what both take, if there is such a letter.
    pub(super) fn and(&self, other: &Self, target: u32) -> Option<Self> {
        let required = self.required | other.required;
        let forbidden = self.forbidden | other.forbidden;
        (required & forbidden == 0).then_some(Self {
            required,
            forbidden,
            target,
        })
    }
}

/// A state.
#[derive(Debug, Clone, Default)]
pub struct NfaState {
    /// Transitions on words.
    pub words: Vec<Edge>,
    /// Transitions on places, that to the state itself included.
    pub places: Vec<Edge>,
    /// Whether what was read is a match.
    pub is_match: bool,
}

/// An automaton. A span from word `start` to before word `end` is in the set if a path reads the letters between from a start to a
/// match; letters of the places at `start` and `end` may be read or not.
#[derive(Debug, Clone, Default)]
pub struct Nfa {
    /// Where reading starts; sorted.
    pub starts: Vec<u32>,
    /// The states, by number. Each lies on a path from a start to a match.
    pub states: Vec<NfaState>,
}

impl Nfa {
    /// States behind `letter`, read in any of `states`; sorted and distinct. Linear in the edges.
    pub fn step(&self, states: &[u32], letter: Letter) -> Vec<u32> {
        let mut next = Vec::new();
        for &state in states {
            let state = &self.states[state as usize];
            let (edges, bits) = match letter {
                Letter::Word(bits) => (&state.words, bits),
                Letter::Place(bits) => (&state.places, bits),
            };
            let taken = edges.iter().filter(|edge| edge.accepts(bits));
            next.extend(taken.map(|edge| edge.target));
        }
        next.sort_unstable();
        next.dedup();
        next
    }

    /// Whether one of the states is a match.
    pub fn has_match(&self, states: &[u32]) -> bool {
        let mut states = states.iter();
        states.any(|&state| self.states[state as usize].is_match)
    }

    /// The automaton that reads the letters of each match from its end.
    pub fn reversed(&self) -> Self {
        let mut states = vec![NfaState::default(); self.states.len()];
        for (source, state) in (0..).zip(&self.states) {
            for edge in &state.words {
                let target = source;
                states[edge.target as usize]
                    .words
                    .push(Edge { target, ..*edge });
            }
            for edge in &state.places {
                let target = source;
                states[edge.target as usize]
                    .places
                    .push(Edge { target, ..*edge });
            }
        }
        for &start in &self.starts {
            states[start as usize].is_match = true;
        }
        let starts = (0..).zip(&self.states).filter(|(_, state)| state.is_match);
        Self {
            starts: starts.map(|(number, _)| number).collect(),
            states,
        }
    }

    /// The automaton of the spans that both have.
    ///
    /// # Errors
    /// If it has more states than `limit`.
    pub(super) fn intersection(&self, other: &Self, limit: usize) -> Result<Self, CompileError> {
        let mut pairs = Pairs::default();
        let mut starts = Vec::new();
        for &left in &self.starts {
            starts.extend(other.starts.iter().map(|&right| pairs.number(left, right)));
        }
        let mut states = Vec::new();
        while let Some(&(left, right)) = pairs.states.get(states.len()) {
            if pairs.states.len() > limit {
                return Err(CompileError::States { limit });
            }
            let (left, right) = (&self.states[left as usize], &other.states[right as usize]);
            states.push(NfaState {
                words: pairs.edges(&left.words, &right.words),
                places: pairs.edges(&left.places, &right.places),
                is_match: left.is_match && right.is_match,
            });
        }
        Ok(Self { starts, states }.trimmed())
    }

    /// The automaton without the states that are on no path from a start to a match.
    pub(super) fn trimmed(self) -> Self {
        let is_reached = self.reached();
        let reaches = self.reversed().reached();
        let mut kept = 0;
        let numbers: Vec<Option<u32>> = (is_reached.iter().zip(&reaches))
            .map(|(&forward, &backward)| {
                (forward && backward).then(|| {
                    kept += 1;
                    kept - 1
                })
            })
            .collect();
        let number = |state: u32| numbers[state as usize];
        let renumbered = |edges: Vec<Edge>| {
            let kept = edges
                .into_iter()
                .filter_map(|edge| number(edge.target).map(|target| Edge { target, ..edge }));
            minimal(kept.collect())
        };
        let starts = self.starts.into_iter().filter_map(number).collect();
        let states = (self.states.into_iter().zip(&numbers))
            .filter(|(_, number)| number.is_some())
            .map(|(state, _)| NfaState {
                words: renumbered(state.words),
                places: renumbered(state.places),
                is_match: state.is_match,
            })
            .collect();
        Self { starts, states }
    }

    /// For each state, whether a path from a start leads to it.
    fn reached(&self) -> Vec<bool> {
        let mut is_reached = vec![false; self.states.len()];
        let mut left = self.starts.clone();
        while let Some(state) = left.pop() {
            if !std::mem::replace(&mut is_reached[state as usize], true) {
                let state = &self.states[state as usize];
                left.extend(
                    state
                        .words
                        .iter()
                        .chain(&state.places)
                        .map(|edge| edge.target),
                );
            }
        }
        is_reached
    }
}

/// Edges without those that take fewer letters to the same state as another.
pub(super) fn minimal(mut edges: Vec<Edge>) -> Vec<Edge> {
    edges.sort_unstable_by_key(|edge| {
        (
            edge.target,
            edge.required.count_ones() + edge.forbidden.count_ones(),
            *edge,
        )
    });
    let mut kept: Vec<Edge> = Vec::with_capacity(edges.len());
    for edge in edges {
        let wider = |other: &&Edge| other.target == edge.target;
        let mut wider = kept.iter().rev().take_while(wider);
        if !wider.any(|other| {
            other.required & !edge.required == 0 && other.forbidden & !edge.forbidden == 0
        }) {
            kept.push(edge);
        }
    }
    kept
}

/// Pairs of states, numbered as they are found.
#[derive(Default)]
struct Pairs {
    states: Vec<(u32, u32)>,
    numbers: HashMap<(u32, u32), u32>,
}

impl Pairs {
    fn number(&mut self, left: u32, right: u32) -> u32 {
        *self.numbers.entry((left, right)).or_insert_with(|| {
            self.states.push((left, right));
            self.states.len() as u32 - 1
        })
    }

    fn edges(&mut self, left: &[Edge], right: &[Edge]) -> Vec<Edge> {
        let mut edges = Vec::new();
        for left in left {
            for right in right {
                if let Some(edge) = left.and(right, 0) {
                    let target = self.number(left.target, right.target);
                    edges.push(Edge { target, ..edge });
                }
            }
        }
        edges
    }
}
