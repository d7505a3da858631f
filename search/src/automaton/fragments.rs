//! `Fragments`: automata with empty transitions under construction.
//!
//! Invariant: a fragment's states are a range of numbers, no edge leads out of the range before the fragment is joined to another,
//! none leads to its entry from outside but what enters it, and a fragment may be copied.

use std::collections::HashSet;
use std::ops::Range;

use super::nfa::{Edge, Nfa, NfaState, minimal};
use crate::compile_error::CompileError;

/// A state under construction.
#[derive(Debug, Clone, Default)]
struct State {
    words: Vec<Edge>,
    places: Vec<Edge>,
    empty: Vec<u32>,
}

/// A part of the automaton that is entered and left at one state each.
#[derive(Debug, Clone)]
pub(super) struct Fragment {
    states: Range<u32>,
    entry: u32,
    exit: u32,
}

/// States under construction.
#[derive(Debug)]
pub(super) struct Fragments {
    states: Vec<State>,
    limit: usize,
}

impl Fragments {
    /// No states yet, and at most `limit` ever.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            states: Vec::new(),
            limit,
        }
    }

    /// The number of the next state.
    fn next(&self) -> u32 {
        self.states.len() as u32
    }

    fn push(&mut self, state: State) -> Result<u32, CompileError> {
        if self.states.len() >= self.limit {
            return Err(CompileError::States { limit: self.limit });
        }
        self.states.push(state);
        Ok(self.next() - 1)
    }

    /// A new state, where places stay.
    fn state(&mut self) -> Result<u32, CompileError> {
        let mut state = State::default();
        state.places.push(any(self.next()));
        self.push(state)
    }

    /// The empty span.
    pub(super) fn empty(&mut self) -> Result<Fragment, CompileError> {
        let entry = self.state()?;
        Ok(Fragment {
            states: entry..entry + 1,
            entry,
            exit: entry,
        })
    }

    /// No span.
    pub(super) fn nothing(&mut self) -> Result<Fragment, CompileError> {
        let entry = self.state()?;
        let exit = self.state()?;
        Ok(Fragment {
            states: entry..exit + 1,
            entry,
            exit,
        })
    }

    /// A word with these bits.
    pub(super) fn word(&mut self, required: u64) -> Result<Fragment, CompileError> {
        let fragment = self.nothing()?;
        self.states[fragment.entry as usize].words.push(Edge {
            required,
            ..any(fragment.exit)
        });
        Ok(fragment)
    }

    /// The empty span at places with these bits.
    pub(super) fn place(&mut self, required: u64) -> Result<Fragment, CompileError> {
        let fragment = self.nothing()?;
        self.states[fragment.entry as usize].places.push(Edge {
            required,
            ..any(fragment.exit)
        });
        Ok(fragment)
    }

    /// What an automaton without empty transitions matches.
    pub(super) fn nfa(&mut self, nfa: &Nfa) -> Result<Fragment, CompileError> {
        let fragment = self.nothing()?;
        let base = self.next();
        let moved = |edges: &[Edge]| {
            let moved = edges.iter().map(|edge| Edge {
                target: edge.target + base,
                ..*edge
            });
            moved.collect()
        };
        for state in &nfa.states {
            self.push(State {
                words: moved(&state.words),
                places: moved(&state.places),
                empty: if state.is_match {
                    vec![fragment.exit]
                } else {
                    Vec::new()
                },
            })?;
        }
        for &start in &nfa.starts {
            self.join(fragment.entry, start + base);
        }
        Ok(Fragment {
            states: fragment.states.start..self.next(),
            ..fragment
        })
    }

    /// A copy of a fragment that is joined to nothing yet.
    fn copy(&mut self, fragment: &Fragment) -> Result<Fragment, CompileError> {
        let offset = self.next() - fragment.states.start;
        for number in fragment.states.clone() {
            let mut state = self.states[number as usize].clone();
            for edge in state.words.iter_mut().chain(&mut state.places) {
                edge.target += offset;
            }
            for target in &mut state.empty {
                *target += offset;
            }
            self.push(state)?;
        }
        Ok(Fragment {
            states: fragment.states.start + offset..fragment.states.end + offset,
            entry: fragment.entry + offset,
            exit: fragment.exit + offset,
        })
    }

    /// An empty transition.
    fn join(&mut self, source: u32, target: u32) {
        self.states[source as usize].empty.push(target);
    }

    /// One after the other; `right` was made last and directly after `left`.
    pub(super) fn then(&mut self, left: Fragment, right: Fragment) -> Fragment {
        self.join(left.exit, right.entry);
        Fragment {
            states: left.states.start..right.states.end,
            entry: left.entry,
            exit: right.exit,
        }
    }

    /// Each of the fragments, which were made last, one directly after the other, from state `first` on.
    pub(super) fn either(
        &mut self,
        first: u32,
        fragments: &[Fragment],
    ) -> Result<Fragment, CompileError> {
        let ends = self.nothing()?;
        for fragment in fragments {
            self.join(ends.entry, fragment.entry);
            self.join(fragment.exit, ends.exit);
        }
        Ok(Fragment {
            states: first..self.next(),
            ..ends
        })
    }

    /// The number of the state that is made next, for `either`.
    pub(super) fn mark(&self) -> u32 {
        self.next()
    }

    /// The fragment made last `minimum` to `maximum` times.
    pub(super) fn repeat(
        &mut self,
        once: Fragment,
        minimum: u32,
        maximum: Option<u32>,
    ) -> Result<Fragment, CompileError> {
        let first = once.states.start;
        if maximum.is_some_and(|maximum| maximum < minimum) {
            let nothing = self.nothing()?;
            return Ok(Fragment {
                states: first..self.next(),
                ..nothing
            });
        }
        // The fragment itself is only copied; trimming drops it.
        let ends = self.nothing()?;
        let mut last = ends.entry;
        for _ in 0..minimum {
            let copy = self.copy(&once)?;
            self.join(last, copy.entry);
            last = copy.exit;
        }
        self.join(last, ends.exit);
        if let Some(maximum) = maximum {
            for _ in minimum..maximum {
                let copy = self.copy(&once)?;
                self.join(last, copy.entry);
                self.join(copy.exit, ends.exit);
                last = copy.exit;
            }
        } else {
            let copy = self.copy(&once)?;
            let between = self.state()?;
            self.join(last, between);
            self.join(between, copy.entry);
            self.join(copy.exit, between);
            self.join(between, ends.exit);
        }
        Ok(Fragment {
            states: first..self.next(),
            ..ends
        })
    }

    /// Parts once each, in the order given or in any, with at most `distance` words between neighbours in all. The parts were made
    /// last, from state `first` on.
    pub(super) fn near(
        &mut self,
        first: u32,
        parts: &[Fragment],
        distance: u32,
        is_ordered: bool,
    ) -> Result<Fragment, CompileError> {
        // A node for each set of parts that were passed, and for each number of words between them.
        let words = distance as usize + 1;
        let sets = if is_ordered {
            parts.len() + 1
        } else {
            1 << parts.len()
        };
        let base = self.next();
        for _ in 0..sets.saturating_mul(words) {
            self.state()?;
        }
        let node = |set: usize, between: usize| base + (set * words + between) as u32;
        let ends = self.nothing()?;
        self.join(ends.entry, node(0, 0));
        for between in 0..words {
            self.join(node(sets - 1, between), ends.exit);
            for set in 0..sets - 1 {
                if set > 0 && between + 1 < words {
                    let edge = any(node(set, between + 1));
                    self.states[node(set, between) as usize].words.push(edge);
                }
                for (number, part) in parts.iter().enumerate() {
                    let next = if !is_ordered {
                        set | 1 << number
                    } else if set == number {
                        set + 1
                    } else {
                        set
                    };
                    // Nothing lies between parts before the first one.
                    if next == set || set == 0 && between > 0 {
                        continue;
                    }
                    let copy = self.copy(part)?;
                    self.join(node(set, between), copy.entry);
                    self.join(copy.exit, node(next, between));
                }
            }
        }
        Ok(Fragment {
            states: first..self.next(),
            ..ends
        })
    }

    /// The automaton of a fragment without empty transitions. Quadratic in its states at worst.
    pub(super) fn finish(&self, fragment: &Fragment) -> Nfa {
        let base = fragment.states.start;
        let moved = |edge: Edge| Edge {
            target: edge.target - base,
            ..edge
        };
        let states = fragment.states.clone().map(|number| {
            let closure = self.closure(number);
            let edges = |edges: Vec<Edge>| minimal(edges.into_iter().map(moved).collect());
            let words = closure
                .iter()
                .flat_map(|&state| &self.states[state as usize].words);
            NfaState {
                words: edges(words.copied().collect()),
                places: edges(self.places(number)),
                is_match: closure.contains(&fragment.exit),
            }
        });
        let states = states.collect();
        Nfa {
            starts: vec![fragment.entry - base],
            states,
        }
        .trimmed()
    }

    /// The states behind empty transitions, the state itself first.
    fn closure(&self, state: u32) -> Vec<u32> {
        let mut closure = vec![state];
        let mut is_in = HashSet::from([state]);
        let mut done = 0;
        while let Some(&state) = closure.get(done) {
            done += 1;
            let empty = &self.states[state as usize].empty;
            closure.extend(empty.iter().filter(|&&target| is_in.insert(target)));
        }
        closure
    }

    /// Whether a state stays at every place.
    fn stays(&self, state: u32) -> bool {
        self.states[state as usize].places.contains(&any(state))
    }

    /// All transitions of a state on a place: chains of one or more edges, with empty transitions before each.
    fn places(&self, state: u32) -> Vec<Edge> {
        let mut edges: Vec<Edge> = Vec::new();
        let mut left = vec![any(state)];
        while let Some(chain) = left.pop() {
            let stays = self.stays(chain.target);
            for source in self.closure(chain.target) {
                // Where the chain may stay, what it reaches by empty transitions need not stay too.
                let skips = stays && source != chain.target;
                for edge in &self.states[source as usize].places {
                    if skips && *edge == any(source) {
                        continue;
                    }
                    let Some(longer) = chain.and(edge, edge.target) else {
                        continue;
                    };
                    if !edges.contains(&longer) {
                        edges.push(longer);
                        left.push(longer);
                    }
                }
            }
        }
        edges
    }
}

/// The edge that every letter takes.
fn any(target: u32) -> Edge {
    Edge {
        required: 0,
        forbidden: 0,
        target,
    }
}
