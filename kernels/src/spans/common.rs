//! Symbols that lead a machine to the same state, with the same events, from each of the states in which it usually is.
//!
//! In   a grammar and a machine
//! Out  a code of 32 bits for each symbol: the state behind it, its events, and whether these depend on the state before
//! Work O(terminals + body symbols) and the pairs of rule and state that are looked at apart, parallel over the rules of a level.
//!      A root then takes a load for each symbol, none of which waits for another
//!
//! The usual states are those of a sample of the text, as long as their terminals mostly agree: for a literal these are the states
//! after text in which no match has begun, and one word later they are the same again. Invariant: what a code says holds from
//! each usual state; from others, and at symbols without a code, the machine is asked.
//!
//! Why: a first search of rfc_txt for `congestion` (7.6 M root symbols) spent 830 ms of both threads in passes that remembered each pair
//! of rule and state as it was met.

use std::collections::HashMap;
use std::ops::Range;

use rayon::prelude::*;

use crate::spans::common_steps::CommonSteps;
use crate::spans::machine::{CommonMachine, DEAD, MachineStep, Total};
use crate::spans::memo::{Direction, Worker};
use crate::spans::pass::{Halted, SpanPass};
use crate::spans::samples::{SAMPLES, SampledTerminals};
use crate::stop::check;

/// The most usual states.
pub const USUAL_STATES_MAX: usize = 8;

/// States that are tried as usual ones.
const TRIED_STATES: usize = 24;

/// Rules of a level or terminals of a task.
const TASK_SYMBOLS: usize = 1 << 11;

impl<M: CommonMachine> SpanPass<'_, M> {
    /// Finds what symbols do from the states in which the machine usually is: for passes over most of a grammar that begin in the
    /// state `start`. Does nothing where that takes more memory than the memo may, or the machine soon dies.
    ///
    /// Work: O(terminals + body symbols), parallel.
    ///
    /// # Errors
    ///
    /// [`Halted::Stopped`].
    pub fn prepare(self, start: u32) -> Result<(), Halted> {
        let bytes = CommonSteps::bytes_of(self.view.symbol_count());
        if self.memo.direction != Direction::Forward || start == DEAD {
            return Ok(());
        }
        let is_known = self.memo.common().is_some();
        if is_known || self.dies_soon(start) || !self.memo.reserve(bytes) {
            return Ok(());
        }
        let steps = CommonSteps::new(self.usual_states(start), self.view.symbol_count());
        if self.memo.set_common(steps) {
            self.find_common()
        } else {
            self.memo.give_back(bytes);
            Ok(())
        }
    }

    /// Finds the codes of all symbols, from below: those of a rule by those of its body.
    fn find_common(self) -> Result<(), Halted> {
        let (view, Some(common)) = (self.view, self.memo.common()) else {
            return Ok(());
        };
        let terminals = view.terminal_count;
        in_parallel(0..terminals, |symbols| {
            check(self.stop)?;
            for terminal in symbols {
                let step = self.machine.common_step(&common.usual, terminal);
                common.set(terminal, step.map(total));
            }
            Ok(())
        })?;
        for level in 0..view.levels() {
            let rules = view.level_rules(level);
            // Rules are numbered by u32.
            in_parallel(rules.start as u32..rules.end as u32, |rules| {
                self.with_worker(|worker| {
                    for rule in rules {
                        let sum = self.common_sum(worker, common, view.body(rule))?;
                        common.set(terminals + rule, sum);
                    }
                    Ok(())
                })
            })?;
        }
        Ok(())
    }

    /// What a body does from usual states; none if it depends on the state.
    fn common_sum(
        self,
        worker: &mut Worker<M::Cache>,
        common: &CommonSteps,
        body: &[u32],
    ) -> Result<Option<Total>, Halted> {
        let Some((&first, rest)) = body.split_first() else {
            return Ok(None);
        };
        let Some(mut sum) = common.total(common.usual[0], first) else {
            return Ok(None);
        };
        for &symbol in rest {
            if sum.state == DEAD {
                break;
            }
            let next = match self.total(worker, sum.state, symbol) {
                Ok(total) => total,
                Err(Halted::GaveUp) => return Ok(None),
                Err(Halted::Stopped) => return Err(Halted::Stopped),
            };
            sum = Total {
                state: next.state,
                events: sum.events.saturating_add(next.events),
            };
        }
        Ok(Some(sum))
    }

    /// The states in which the machine usually is between terminals, most frequent first.
    fn usual_states(self, start: u32) -> Vec<u32> {
        let (terminals, states) = self.sample(start);
        let mut counts: HashMap<u32, usize> = HashMap::new();
        for &state in &states {
            *counts.entry(state).or_default() += 1;
        }
        let mut tried: Vec<(u32, usize)> = counts.into_iter().collect();
        tried.sort_unstable_by_key(|&(state, count)| (std::cmp::Reverse(count), state));
        tried.truncate(TRIED_STATES);
        let varying = |usual: &[u32]| {
            let varies = |terminal: &&u32| self.machine.common_step(usual, **terminal).is_none();
            terminals.iter().filter(varies).count()
        };
        let mut usual: Vec<u32> = Vec::new();
        let mut varying_now = 0;
        for (state, count) in tried {
            usual.push(state);
            let varying = varying(&usual);
            // A symbol behind an unusual state costs the same as one that varies.
            if usual.len() > 1 && 2 * (varying - varying_now.min(varying)) >= count {
                usual.pop();
                continue;
            }
            varying_now = varying;
            if usual.len() == USUAL_STATES_MAX {
                break;
            }
        }
        if usual.is_empty() {
            usual.push(start);
        }
        usual
    }

    /// Terminals at some places of the root, and the states behind them.
    fn sample(self, start: u32) -> (Vec<u32>, Vec<u32>) {
        let mut cache = self.machine.cache();
        let (mut terminals, mut states) = (Vec::new(), Vec::new());
        for place in 0..SAMPLES {
            let mut state = start;
            for terminal in SampledTerminals::at(self.view, place) {
                state = match self.machine.step(&mut cache, state, terminal) {
                    Some(step) if step.state != DEAD => step.state,
                    _ => start,
                };
                terminals.push(terminal);
                states.push(state);
            }
        }
        (terminals, states)
    }
}

/// Runs a task for each few thousand of some symbols.
fn in_parallel(
    symbols: Range<u32>,
    task: impl Fn(Range<u32>) -> Result<(), Halted> + Sync,
) -> Result<(), Halted> {
    let starts = symbols.clone().into_par_iter().step_by(TASK_SYMBOLS);
    starts
        .try_for_each(|from| task(from..symbols.end.min(from.saturating_add(TASK_SYMBOLS as u32))))
}

fn total(step: MachineStep) -> Total {
    Total {
        state: step.state,
        events: u64::from(step.events),
    }
}
