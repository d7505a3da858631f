//! `MatchCounter`: an automaton that counts all matches of an expression while it reads a text once.
//!
//! The automaton of a search ends with the first match, and the next search begins where that match ends. This one goes on by
//! itself: while a match may still become longer, a second state of the automaton reads on from the end that is known, and takes
//! over once the match is decided. Invariant: the number of matches is that of `find_iter` of the crate `regex`, or the
//! counter gives up. It gives up where the second state finds a match before the first is decided, and where the automaton
//! does. Expressions with empty matches have no counter.

use std::collections::HashMap;

use super::step_table::{Report, StepTable, TOGETHER_MAX};

/// The most states.
const STATES_MAX: usize = 1 << 12;

/// The most matches that are decided by one byte.
const DECIDED_MAX: u32 = 1 << 8;

/// The entry of a step at which the counter gives up.
const GIVES_UP: u32 = u32::MAX;

/// States that count, and what each byte does in each of them.
#[derive(Debug)]
pub struct MatchCounter {
    classes: [u8; 256],
    class_count: usize,
    /// `[states * classes]`: the next state, and above 16 bits the matches that are decided; or [`GIVES_UP`].
    steps: Vec<u32>,
    /// For each state the matches that the end of a text decides.
    ends: Vec<u8>,
    /// The state without further matches, if there is one.
    dead: Option<u16>,
}

/// There are no further matches.
const NO_SEARCH: Counting = Counting {
    search: None,
    next: None,
    begin: 0,
};

/// A state while the counter is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Counting {
    /// The state of the search; none if there are no further matches.
    search: Option<u16>,
    /// Where a match was found that may become longer: the state of a search from its end on.
    next: Option<u16>,
    /// The state in which a search begins here.
    begin: u16,
}

/// The steps of a table, as far as they are needed here.
struct TableSteps<'a> {
    table: &'a StepTable,
    /// For each class a byte of it.
    bytes: Vec<u8>,
    /// For each state whether it reports a match that no byte makes longer.
    is_final: Vec<bool>,
    /// For each state whether a match ends in it, whatever follows, and none is longer.
    is_decided: Vec<bool>,
}

impl TableSteps<'_> {
    fn new(table: &StepTable) -> Option<TableSteps<'_>> {
        let classes = table.classes();
        let mut bytes = vec![None; table.class_count()];
        for byte in 0..=u8::MAX {
            let first = bytes[usize::from(classes[usize::from(byte)])].get_or_insert(byte);
            // Bytes of a class are the same to what looks back.
            if table.start(Some(*first)) != table.start(Some(byte)) {
                return None;
            }
        }
        let bytes: Vec<u8> = bytes.into_iter().collect::<Option<_>>()?;
        // Tables have fewer than 2^16 states.
        let states = 0..table.states() as u16;
        let all = |state: u16, holds: &dyn Fn(u16) -> bool| {
            bytes.iter().all(|&byte| holds(table.step(state, byte)))
        };
        let is_dead = |state: u16| table.report(state) == Report::Dead;
        let is_final = states.clone().map(|state| {
            table.report(state) == Report::Match && !table.ends(state) && all(state, &is_dead)
        });
        let is_final: Vec<bool> = is_final.collect();
        let is_decided = states.map(|state| {
            let reports = |state: u16| is_final[usize::from(state)];
            table.is_plain(state) && table.ends(state) && all(state, &reports)
        });
        Some(TableSteps {
            is_decided: is_decided.collect(),
            is_final,
            bytes,
            table,
        })
    }

    /// The state of a search that goes on in `state` behind a byte behind which searches begin in `begin`, and the matches
    /// that are decided.
    fn searching(&self, state: u16, begin: u16) -> (Counting, u32) {
        let is_decided = self.is_decided[usize::from(state)];
        let search = Some(if is_decided { begin } else { state });
        let counting = Counting {
            search,
            next: None,
            begin,
        };
        (counting, u32::from(is_decided))
    }

    /// The state behind a byte, and the matches that it decides; none if the counter gives up.
    fn step(&self, from: Counting, byte: u8) -> Option<(Counting, u32)> {
        let table = self.table;
        let begin = table.start(Some(byte));
        let Counting {
            mut search,
            mut next,
            begin: before,
        } = from;
        let mut decided = 0;
        loop {
            let Some(state) = search else {
                return Some((NO_SEARCH, decided));
            };
            let state = table.step(state, byte);
            match table.report(state) {
                Report::Quit => return None,
                Report::Dead => {
                    // The match is decided, and the search behind it reads this byte.
                    decided += u32::from(next.is_some());
                    search = next.take();
                }
                Report::Match => {
                    // It ended before this byte, which a search from there on reads.
                    let behind = table.step(before, byte);
                    match table.report(behind) {
                        Report::Quit | Report::Match => return None,
                        Report::Dead | Report::Start | Report::Nothing => {}
                    }
                    if self.is_final[usize::from(state)] {
                        let (counting, more) = self.searching(behind, begin);
                        return Some((counting, decided + 1 + more));
                    }
                    let counting = Counting {
                        search: Some(state),
                        next: Some(behind),
                        begin,
                    };
                    return Some((counting, decided));
                }
                Report::Start | Report::Nothing => {
                    let Some(behind) = next else {
                        let (counting, more) = self.searching(state, begin);
                        return Some((counting, decided + more));
                    };
                    let behind = table.step(behind, byte);
                    match table.report(behind) {
                        Report::Quit | Report::Match => return None,
                        Report::Dead | Report::Start | Report::Nothing => {}
                    }
                    let counting = Counting {
                        search: Some(state),
                        next: Some(behind),
                        begin,
                    };
                    return Some((counting, decided));
                }
            }
        }
    }

    /// The matches that the end of a text decides.
    fn end(&self, counting: Counting) -> u8 {
        let ends = |state: Option<u16>| u8::from(state.is_some_and(|state| self.table.ends(state)));
        match (counting.next, ends(counting.search)) {
            (None, ends) => ends,
            (Some(_), 1) => 1,
            (next, _) => 1 + ends(next),
        }
    }
}

impl MatchCounter {
    /// A counter of the matches of an expression without empty matches; none if it has too many states.
    pub(super) fn new(table: &StepTable) -> Option<MatchCounter> {
        let steps_of = TableSteps::new(table)?;
        let begin = table.start(None);
        let first = match table.report(begin) {
            Report::Dead => NO_SEARCH,
            Report::Match | Report::Quit => return None,
            Report::Start | Report::Nothing => Counting {
                search: Some(begin),
                next: None,
                begin,
            },
        };
        let mut states = vec![first];
        let mut numbers = HashMap::from([(first, 0u32)]);
        let (mut steps, mut ends) = (Vec::new(), Vec::new());
        let mut at = 0;
        while let Some(&counting) = states.get(at) {
            for &byte in &steps_of.bytes {
                let Some((next, decided)) = steps_of.step(counting, byte) else {
                    steps.push(GIVES_UP);
                    continue;
                };
                // There are few states.
                let new = states.len() as u32;
                let number = *numbers.entry(next).or_insert(new);
                if number == new {
                    states.push(next);
                }
                if states.len() > STATES_MAX || decided >= DECIDED_MAX {
                    return None;
                }
                steps.push(number | decided << 16);
            }
            ends.push(steps_of.end(counting));
            at += 1;
        }
        Some(MatchCounter {
            classes: *table.classes(),
            class_count: table.class_count(),
            steps,
            ends,
            // There are few states.
            dead: numbers.get(&NO_SEARCH).map(|&number| number as u16),
        })
    }

    /// The state at the beginning of a text.
    pub fn start(&self) -> u16 {
        0
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.steps[..]) + size_of_val(&self.ends[..])
    }

    #[inline(always)]
    fn step(&self, state: u16, byte: u8) -> u32 {
        let class = usize::from(self.classes[usize::from(byte)]);
        self.steps[usize::from(state) * self.class_count + class]
    }

    /// Reads bytes from a state: the state behind them and the matches that they decide; none if it gives up.
    #[inline]
    pub fn read(&self, state: u16, bytes: &[u8]) -> Option<(u16, u32)> {
        let (mut state, mut decided) = (state, 0u32);
        for &byte in bytes {
            let step = self.step(state, byte);
            if step == GIVES_UP {
                return None;
            }
            // The lower half is the state.
            state = step as u16;
            decided = decided.saturating_add(step >> 16);
        }
        Some((state, decided))
    }

    /// Reads bytes from each of some states, at most [`TOGETHER_MAX`]: the one state behind them and the matches that they decide;
    /// none if these depend on the state before, or it gives up.
    #[inline]
    pub fn read_together(&self, states: &[u16], bytes: &[u8]) -> Option<(u16, u32)> {
        let (first, others) = states.split_first()?;
        let mut all = [(*first, 0u32); TOGETHER_MAX];
        for (one, &state) in all[1..].iter_mut().zip(others) {
            one.0 = state;
        }
        let all = &mut all[..states.len()];
        let mut rest = bytes;
        while all.iter().any(|one| one.0 != all[0].0) {
            let (byte, behind) = rest.split_first()?;
            for (state, decided) in &mut *all {
                let step = self.step(*state, *byte);
                if step == GIVES_UP {
                    return None;
                }
                *state = step as u16;
                *decided += step >> 16;
            }
            rest = behind;
        }
        if all.iter().any(|one| one.1 != all[0].1) {
            return None;
        }
        let (state, decided) = self.read(all[0].0, rest)?;
        Some((state, all[0].1.saturating_add(decided)))
    }

    /// Whether no match is decided from a state on.
    #[inline(always)]
    pub fn is_dead(&self, state: u16) -> bool {
        self.dead == Some(state)
    }

    /// The matches that the end of a text decides in a state.
    pub fn end(&self, state: u16) -> u64 {
        u64::from(self.ends[usize::from(state)])
    }
}
