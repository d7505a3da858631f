//! Texts without events, known by their terminals alone.
//!
//! In   the terminals of a grammar; a machine
//! Out  the states that any text over the terminals leads to, if no terminal has an event in any of them
//! Work O(terminals) for each state, parallel; it ends at the first event
//!
//! A string that no terminal has, and that does not begin or end in one, is in no text: neither bodies nor roots are looked at.

use std::ops::Range;

use rayon::prelude::*;

use crate::spans::machine::{DEAD, Machine};
use crate::spans::pass::{Halted, SpanPass};
use crate::stop::check;

/// The most states: reading all terminals in each of more takes as long as a pass over the grammar.
const STATES_MAX: usize = 4;

/// Terminals of a task.
const TASK_TERMINALS: usize = 1 << 12;

impl<M: Machine> SpanPass<'_, M> {
    /// The states between terminals and at the ends of all texts over the terminals that begin in the state `start`, [`DEAD`] excepted, if
    /// no such text has an event; none if one may have some, or there are more than a few states.
    ///
    /// # Errors
    ///
    /// [`Halted::Stopped`].
    pub fn silent_states(self, start: u32) -> Result<Option<Vec<u32>>, Halted> {
        let mut states = vec![start];
        let mut read = 0;
        while let Some(&state) = states.get(read) {
            if states.len() > STATES_MAX {
                return Ok(None);
            }
            check(self.stop)?;
            let all = 0..self.view.terminal_count;
            let tasks = all.clone().into_par_iter().step_by(TASK_TERMINALS);
            // A task that finds an event ends the others.
            let found: Option<Vec<Vec<u32>>> = tasks
                .map(|from| {
                    let end = all.end.min(from.saturating_add(TASK_TERMINALS as u32));
                    self.states_behind(state, from..end)
                })
                .collect();
            let Some(found) = found else { return Ok(None) };
            for next in found.into_iter().flatten() {
                if !states.contains(&next) {
                    states.push(next);
                }
            }
            read += 1;
        }
        Ok(Some(states))
    }

    /// The states to which some terminals lead from a state; none if one has an event, or there are many.
    fn states_behind(self, state: u32, terminals: Range<u32>) -> Option<Vec<u32>> {
        let mut cache = self.machine.cache();
        let mut states = Vec::new();
        for terminal in terminals {
            let step = self.machine.step(&mut cache, state, terminal)?;
            if step.events > 0 {
                return None;
            }
            if step.state != DEAD && !states.contains(&step.state) {
                if states.len() == STATES_MAX {
                    return None;
                }
                states.push(step.state);
            }
        }
        Some(states)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::grammar::test_grammars;
    use crate::{Direction, SpanMemo, StepTable, TableMachine};

    static GO: AtomicBool = AtomicBool::new(false);

    #[test]
    fn texts_without_events_are_known_by_their_terminals() {
        // Three terminals of the class 1 in a row are an event; `classes` of other terminals are 0, or 2, which kills.
        let next = [0, 1, DEAD, 0, 2, DEAD, 0, 2, DEAD];
        let table = StepTable::new(3, &next, |step| step == 7);
        let (mut silent, mut sounding) = (0, 0);
        for grammar in test_grammars::random_many(40) {
            let view = grammar.view();
            let lengths = grammar.lengths();
            for kind in 0..3u16 {
                // Of terminals of the class 1 there is none, one, or some.
                let class = |terminal: u32| match kind {
                    0 => [0, 2][usize::from(terminal % 5 == 4)],
                    1 => u16::from(terminal == 1),
                    _ => (terminal % 3) as u16,
                };
                let classes: Vec<u16> = (0..view.terminal_count).map(class).collect();
                let machine = TableMachine {
                    classes: &classes,
                    table: &table,
                };
                let memo = SpanMemo::new(view.symbol_count(), Direction::Forward, 1 << 20);
                let pass = SpanPass {
                    view,
                    lengths: &lengths,
                    machine: &machine,
                    memo: &memo,
                    stop: &GO,
                };
                let found = pass.silent_states(0).expect("not stopped");
                assert_eq!(found.is_some(), kind == 0 || view.terminal_count < 2);
                let Some(states) = found else {
                    sounding += 1;
                    continue;
                };
                silent += 1;
                let files: Vec<u32> = (0..view.files() as u32).collect();
                for file in pass.count(&files, 0, 0).expect("not stopped") {
                    assert_eq!(file.events, 0);
                    assert!(file.state == DEAD || states.contains(&file.state));
                }
            }
        }
        assert!(silent > 0 && sounding > 0);
        let stop = AtomicBool::new(true);
        let grammar = test_grammars::random(1);
        let classes = vec![0; grammar.view().terminal_count as usize];
        let pass = SpanPass {
            view: grammar.view(),
            lengths: &grammar.lengths(),
            machine: &TableMachine {
                classes: &classes,
                table: &table,
            },
            memo: &SpanMemo::new(0, Direction::Forward, 0),
            stop: &stop,
        };
        assert_eq!(pass.silent_states(0), Err(Halted::Stopped));
    }
}
