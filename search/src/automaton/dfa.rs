//! `Dfa` and `LazyDfa`: automata of one state at a time, over the letters that occur.
//!
//! Invariant: states are numbered as they are found from the start, in the order of classes, so equal automata and letters give equal
//! numbers. State 0 is dead.

use std::collections::HashMap;

use super::nfa::{Letter, Nfa};

/// Letters by their numbers, the *classes*, in the order in which they were met.
#[derive(Debug, Clone, Default)]
pub struct Alphabet {
    letters: Vec<Letter>,
    classes: HashMap<Letter, u32>,
}

impl Alphabet {
    /// The class of a letter; a new one if it was not met yet.
    pub fn class(&mut self, letter: Letter) -> u32 {
        *self.classes.entry(letter).or_insert_with(|| {
            self.letters.push(letter);
            self.letters.len() as u32 - 1
        })
    }

    /// The letters by class.
    pub fn letters(&self) -> &[Letter] {
        &self.letters
    }
}

/// Where matches may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Where reading starts.
    Anchored,
    /// Anywhere.
    Searching,
}

/// The state from which nothing matches.
pub const DEAD: u32 = 0;

/// A step that was not taken yet.
const UNKNOWN: u32 = u32::MAX;

/// An automaton that finds its states as it goes. For one thread; a clone for another thread numbers its new states on its own.
#[derive(Debug, Clone)]
pub struct LazyDfa<'a> {
    nfa: &'a Nfa,
    letters: &'a [Letter],
    form: Form,
    states_max: usize,
    /// States of the NFA, by state.
    sets: Vec<Vec<u32>>,
    numbers: HashMap<Vec<u32>, u32>,
    /// States by state and class.
    table: Vec<u32>,
    /// States by state and boundaries.
    places: HashMap<(u32, u64), u32>,
    is_match: Vec<bool>,
}

impl<'a> LazyDfa<'a> {
    /// An automaton of at most `states_max` states, and no fewer than its start and the dead state.
    pub fn new(nfa: &'a Nfa, letters: &'a [Letter], form: Form, states_max: usize) -> Self {
        let mut dfa = Self {
            nfa,
            letters,
            form,
            states_max: states_max.min(UNKNOWN as usize),
            sets: Vec::new(),
            numbers: HashMap::new(),
            table: Vec::new(),
            places: HashMap::new(),
            is_match: Vec::new(),
        };
        dfa.push(Vec::new());
        if !nfa.starts.is_empty() {
            dfa.push(nfa.starts.clone());
        }
        dfa.table[..letters.len()].fill(DEAD);
        dfa
    }

    fn push(&mut self, set: Vec<u32>) -> u32 {
        let number = self.sets.len() as u32;
        self.is_match.push(self.nfa.has_match(&set));
        self.table
            .resize(self.table.len() + self.letters.len(), UNKNOWN);
        self.numbers.insert(set.clone(), number);
        self.sets.push(set);
        number
    }

    /// The state where reading starts, dead if nothing matches.
    pub fn start(&self) -> u32 {
        u32::from(!self.nfa.starts.is_empty())
    }

    /// The state behind a letter of `class`; none if there are too many states.
    pub fn step(&mut self, state: u32, class: u32) -> Option<u32> {
        let index = state as usize * self.letters.len() + class as usize;
        let next = self.table[index];
        if next != UNKNOWN {
            return Some(next);
        }
        let next = self.find(state, self.letters[class as usize])?;
        self.table[index] = next;
        Some(next)
    }

    fn find(&mut self, state: u32, letter: Letter) -> Option<u32> {
        let mut set = self.nfa.step(&self.sets[state as usize], letter);
        if self.form == Form::Searching {
            set.extend(&self.nfa.starts);
            set.sort_unstable();
            set.dedup();
        }
        match self.numbers.get(&set) {
            Some(&next) => Some(next),
            None if self.sets.len() >= self.states_max => None,
            None => Some(self.push(set)),
        }
    }

    /// The state behind a place with these boundaries, which need no class; none if there are too many states. Without boundaries the
    /// state stays.
    pub fn step_place(&mut self, state: u32, boundaries: u64) -> Option<u32> {
        if boundaries == 0 {
            return Some(state);
        }
        if let Some(&next) = self.places.get(&(state, boundaries)) {
            return Some(next);
        }
        let next = self.find(state, Letter::Place(boundaries))?;
        self.places.insert((state, boundaries), next);
        Some(next)
    }

    /// Whether a match ends at the place that was reached.
    pub fn is_match(&self, state: u32) -> bool {
        self.is_match[state as usize]
    }

    /// The number of states found.
    pub fn states(&self) -> usize {
        self.sets.len()
    }
}

/// A complete automaton: immutable, for any number of threads.
#[derive(Debug, Clone)]
pub struct Dfa {
    classes: usize,
    /// States by state and class.
    table: Vec<u32>,
    is_match: Vec<bool>,
}

impl Dfa {
    /// Determinises; none if there are more than `states_max` states. States times letters times the size of a state.
    pub fn new(nfa: &Nfa, letters: &[Letter], form: Form, states_max: usize) -> Option<Self> {
        let mut lazy = LazyDfa::new(nfa, letters, form, states_max);
        let mut state = DEAD + 1;
        while (state as usize) < lazy.states() {
            for class in 0..letters.len() as u32 {
                lazy.step(state, class)?;
            }
            state += 1;
        }
        Some(Self {
            classes: letters.len(),
            table: lazy.table,
            is_match: lazy.is_match,
        })
    }

    /// The state where reading starts, dead if nothing matches.
    pub fn start(&self) -> u32 {
        u32::from(self.states() > 1)
    }

    /// The state behind a letter of `class`.
    #[inline]
    pub fn step(&self, state: u32, class: u32) -> u32 {
        self.table[state as usize * self.classes + class as usize]
    }

    /// Whether a match ends at the place that was reached.
    #[inline]
    pub fn is_match(&self, state: u32) -> bool {
        self.is_match[state as usize]
    }

    /// The number of states.
    pub fn states(&self) -> usize {
        self.is_match.len()
    }

    /// The steps of all states: state times the number of classes, plus class.
    pub fn table(&self) -> &[u32] {
        &self.table
    }

    /// Whether no two matches with one start end at different words; of an anchored automaton over `letters`. Linear in the table
    /// for each round of a search backwards.
    pub fn has_one_end(&self, letters: &[Letter]) -> bool {
        let steps = |state: usize, is_word: bool| {
            let row = &self.table[state * self.classes..][..self.classes];
            let of_kind = move |letter: &Letter| matches!(letter, Letter::Word(_)) == is_word;
            let pairs = row.iter().zip(letters);
            pairs
                .filter(move |(_, letter)| of_kind(letter))
                .map(|(&next, _)| next as usize)
        };
        let states = self.states();
        let mut reaches = self.is_match.clone();
        let mut ended = self.is_match.clone();
        loop {
            let mut has_changed = false;
            for state in 0..states {
                if !reaches[state]
                    && (steps(state, true).chain(steps(state, false))).any(|next| reaches[next])
                {
                    reaches[state] = true;
                    has_changed = true;
                }
                if ended[state] {
                    for next in steps(state, false) {
                        has_changed |= !std::mem::replace(&mut ended[next], true);
                    }
                }
            }
            if !has_changed {
                break;
            }
        }
        (0..states).all(|state| !ended[state] || steps(state, true).all(|next| !reaches[next]))
    }
}
