//! Reading sequences of symbols with a machine, and counting events in files.
//!
//! In   a grammar, a machine, what is remembered of both
//! Out  for each file the number of events and the state at its end
//! Work O(root symbols) once the pairs of rule and state that occur are known, which takes O(their bodies). Parallel over parts
//!      of roots
//!
//! A part of a root does not know the state before it. It is read from the usual state, which is the right one after nearly
//! all symbols; where the part before ends in another state, the part is read again from that one. So a wrong guess costs
//! one more reading of a part, and a file takes at most as many rounds as it has parts.
//!
//! Waiting for memory is what costs: a block of symbols is looked up together in the row of the state before the first of
//! them, and used as far as the state stays.
//!
//! Why rows are filled for the usual state only: the first count of a phrase of two words over the words of rfc_txt (1.7 M body
//! symbols, 7.0 M root symbols), one thread, takes 61 ms, later ones 36 ms. A fold of what all three states do at all symbols
//! takes 30 ms, the root then 330 ms, as a symbol takes 24 bytes instead of 8; meeting each rule in the order of the root takes
//! 300 ms. States other than the first meet few symbols, and there may be thousands of them.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::spans::machine::{DEAD, Machine, Total};
use crate::spans::memo::{Direction, Entry, Frame, Row, SpanMemo, Worker};
use crate::spans::samples::{SAMPLES, SampledTerminals};
use crate::stop::{Stopped, check};
use crate::{GrammarView, Lengths};

/// Symbols that are looked up together.
const BLOCK: usize = 16;

/// Symbols between two looks at the stop flag.
const STOP_SYMBOLS: usize = 1 << 16;

/// Root symbols of a part of a file, and of a task at least.
const PART_SYMBOLS: usize = 1 << 15;

/// A count over a share of this of all root symbols meets most rules, and looks at all of them first.
const FILL_SHARE: usize = 8;

/// Terminals, or rules of a level, of a task.
const FILL_SYMBOLS: usize = 1 << 12;

/// Why a pass ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halted {
    /// The stop flag was set.
    Stopped,
    /// The machine gave up, in a state that the text leads to, or a guess at the start of a part of a file.
    GaveUp,
}

impl fmt::Display for Halted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Halted::Stopped => "stopped",
            Halted::GaveUp => "the automaton has too many states",
        })
    }
}

impl std::error::Error for Halted {}

impl From<Stopped> for Halted {
    fn from(_: Stopped) -> Halted {
        Halted::Stopped
    }
}

/// What a machine finds in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileEvents {
    /// Number of events, `u64::MAX` for more.
    pub events: u64,
    /// The state at the end, or [`DEAD`].
    pub state: u32,
}

/// A machine that reads a grammar.
pub struct SpanPass<'a, M: Machine> {
    /// The grammar.
    pub view: GrammarView<'a>,
    /// Its lengths, in a unit in which no terminal has the length 0, unless all walks are of whole files. Offsets of walks are in
    /// this unit; counts do not read them.
    pub lengths: &'a Lengths,
    /// The machine.
    pub machine: &'a M,
    /// What earlier passes of the same machine found in the same grammar.
    pub memo: &'a SpanMemo<M::Cache>,
    /// Ends the pass.
    pub stop: &'a AtomicBool,
}

impl<M: Machine> Clone for SpanPass<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for SpanPass<'_, M> {}

/// A part of the root of a file.
struct Part {
    positions: Range<usize>,
    /// What is known of it: for states before it what it does.
    known: Vec<(u32, Total)>,
}

impl<'a, M: Machine> SpanPass<'a, M> {
    /// Events and last state of each of `files`, read from the state `start`. `usual` is the state behind most symbols: it affects
    /// time only.
    ///
    /// Work: O(root symbols of the files + files) and the pairs that are new to the memo, parallel. Memory: O(files), and the memo.
    ///
    /// # Errors
    ///
    /// [`Halted`].
    pub fn count(self, files: &[u32], start: u32, usual: u32) -> Result<Vec<FileEvents>, Halted> {
        if start == DEAD {
            let nothing = FileEvents {
                events: 0,
                state: DEAD,
            };
            return Ok(vec![nothing; files.len()]);
        }
        if self.memo.common().is_none() && !self.dies_soon(start) {
            self.memo.make_row(usual);
            let symbols = files.iter().map(|&file| self.view.root_range(file).len());
            if symbols.sum::<usize>() >= self.view.root.len() / FILL_SHARE {
                self.fill_row(usual)?;
            }
        }
        let mut parts: Vec<Part> = Vec::new();
        let mut ends = Vec::with_capacity(files.len());
        for &file in files {
            let root = self.view.root_range(file);
            let starts = root.clone().step_by(PART_SYMBOLS);
            let ranges = starts.map(|start| start..root.end.min(start + PART_SYMBOLS));
            parts.extend(ranges.map(|positions| Part {
                positions,
                known: Vec::new(),
            }));
            ends.push(parts.len());
        }
        if self.memo.direction == Direction::Backward {
            // A file is read from its last part to its first.
            let mut from = 0;
            for &to in &ends {
                parts[from..to].reverse();
                from = to;
            }
        }
        let mut wanted: Vec<(usize, u32)> = (0..parts.len()).map(|part| (part, usual)).collect();
        let firsts = std::iter::once(0).chain(ends.iter().copied());
        for (first, &end) in firsts.zip(&ends) {
            if first < end {
                wanted[first].1 = start;
            }
        }
        loop {
            for (&(part, state), total) in wanted.iter().zip(self.read_parts(&parts, &wanted)?) {
                parts[part].known.push((state, total));
            }
            wanted.clear();
            let mut from = 0;
            let mut counts = Vec::with_capacity(files.len());
            for &to in &ends {
                let (mut state, mut events) = (start, 0u64);
                for (index, part) in (from..to).zip(&parts[from..to]) {
                    if state == DEAD {
                        break;
                    }
                    let known = part.known.iter().find(|&&(before, _)| before == state);
                    if known.is_none() {
                        wanted.push((index, state));
                    }
                    // The state behind a part is likely the same from all states.
                    let (_, total) = *known.unwrap_or(&part.known[0]);
                    state = total.state;
                    events = events.saturating_add(total.events);
                }
                from = to;
                counts.push(FileEvents { events, state });
            }
            if wanted.is_empty() {
                return Ok(counts);
            }
        }
    }

    /// Whether the machine dies without an event near all places that are tried, so that it meets few of the symbols.
    pub(super) fn dies_soon(self, start: u32) -> bool {
        if self.memo.direction != Direction::Forward || start == DEAD {
            return false;
        }
        let mut cache = self.machine.cache();
        (0..SAMPLES).all(|place| {
            let mut state = start;
            for terminal in SampledTerminals::at(self.view, place) {
                match self.machine.step(&mut cache, state, terminal) {
                    Some(step) if step.state == DEAD => return step.events == 0,
                    Some(step) => state = step.state,
                    None => return false,
                }
            }
            false
        })
    }

    /// Runs a task with a worker that no other thread uses.
    pub(super) fn with_worker<A>(
        self,
        task: impl FnOnce(&mut Worker<M::Cache>) -> Result<A, Halted>,
    ) -> Result<A, Halted> {
        check(self.stop)?;
        let mut worker = self.memo.worker(|| self.machine.cache());
        let result = task(&mut worker);
        self.memo.keep(worker);
        result
    }

    /// Looks at all symbols from a state that has a row, from below: in their order, and so several times as fast as each when it is
    /// met. A symbol at which the machine gives up is left out, as the files may not have it.
    fn fill_row(self, state: u32) -> Result<(), Halted> {
        let Some(row) = self.memo.row(state) else {
            return Ok(());
        };
        if row.is_filled() {
            return Ok(());
        }
        // Rules are numbered by u32.
        let terminals = self.view.terminal_count;
        let levels = (0..self.view.levels()).map(|level| {
            let rules = self.view.level_rules(level);
            terminals + rules.start as u32..terminals + rules.end as u32
        });
        for symbols in std::iter::once(0..terminals).chain(levels) {
            let tasks = symbols.clone().into_par_iter().step_by(FILL_SYMBOLS);
            tasks.try_for_each(|from| {
                let to = symbols.end.min(from.saturating_add(FILL_SYMBOLS as u32));
                self.with_worker(|worker| {
                    (from..to).try_for_each(|symbol| self.fill(worker, row, state, symbol))
                })
            })?;
        }
        row.set_filled();
        Ok(())
    }

    /// Looks at a symbol from a state with a row, after the symbols below it.
    #[inline]
    fn fill(
        self,
        worker: &mut Worker<M::Cache>,
        row: &Row,
        state: u32,
        symbol: u32,
    ) -> Result<(), Halted> {
        if row.get(symbol) != Entry::UNKNOWN {
            return Ok(());
        }
        check(self.stop)?;
        let filled = match self.view.rule(symbol) {
            None => self.known(worker, state, symbol).map(|_| ()),
            Some(rule) => {
                let total = self.sum_body(worker, row, self.view.body(rule), state);
                total.map(|total| worker.put(self.memo, state, symbol, total, false))
            }
        };
        if filled == Err(Halted::GaveUp) {
            Ok(())
        } else {
            filled
        }
    }

    /// What a body does from a state with a row.
    #[inline]
    fn sum_body(
        self,
        worker: &mut Worker<M::Cache>,
        row: &Row,
        body: &[u32],
        state: u32,
    ) -> Result<Total, Halted> {
        let mut sum = Total { state, events: 0 };
        let mut add = |symbol: u32| -> Result<(), Halted> {
            if sum.state == DEAD {
                return Ok(());
            }
            let entry = if sum.state == state {
                row.get(symbol)
            } else {
                Entry::UNKNOWN
            };
            let total = if entry == Entry::UNKNOWN {
                self.total(worker, sum.state, symbol)?
            } else {
                self.memo.total(state, symbol, entry)
            };
            sum.state = total.state;
            sum.events = sum.events.saturating_add(total.events);
            Ok(())
        };
        match self.memo.direction {
            Direction::Forward => body.iter().try_for_each(|&symbol| add(symbol))?,
            Direction::Backward => body.iter().rev().try_for_each(|&symbol| add(symbol))?,
        }
        Ok(sum)
    }

    /// What each of the parts does from a state.
    fn read_parts(self, parts: &[Part], wanted: &[(usize, u32)]) -> Result<Vec<Total>, Halted> {
        let tasks = in_tasks(wanted, |&(part, _)| parts[part].positions.len());
        let of_task = |task: &[(usize, u32)]| {
            self.with_worker(|worker| {
                let totals = task.iter().map(|&(part, state)| {
                    let symbols = &self.view.root[parts[part].positions.clone()];
                    self.sum(worker, symbols, state)
                });
                totals.collect()
            })
        };
        let totals: Result<Vec<Vec<Total>>, Halted> = tasks.into_par_iter().map(of_task).collect();
        Ok(totals?.concat())
    }

    /// What a sequence of symbols does from a state.
    pub(super) fn sum(
        self,
        worker: &mut Worker<M::Cache>,
        symbols: &[u32],
        state: u32,
    ) -> Result<Total, Halted> {
        let (mut state, mut events, mut rest) = (state, 0u64, symbols);
        while let Some(common) = self.memo.common().filter(|_| !rest.is_empty()) {
            check(self.stop)?;
            let skipped = common.skip::<true>(rest, state);
            events = events.saturating_add(skipped.events);
            (state, rest) = (skipped.state, &rest[skipped.symbols..]);
            let Some((&symbol, behind)) = rest.split_first() else {
                break;
            };
            if state == DEAD {
                return Ok(Total { state, events });
            }
            let total = self.total(worker, state, symbol)?;
            events = events.saturating_add(total.events);
            (state, rest) = (total.state, behind);
        }
        let (_, state) = self.read(worker, rest, state, |_, _, total| {
            events = events.saturating_add(total.events);
            true
        })?;
        Ok(Total { state, events })
    }

    /// Events and last state of symbols that are read forwards from the state `start`.
    ///
    /// Work: O(symbols) and the pairs that are new to the memo.
    ///
    /// # Errors
    ///
    /// [`Halted`].
    pub fn count_symbols(self, symbols: &[u32], start: u32) -> Result<FileEvents, Halted> {
        self.with_worker(|worker| {
            let Total { state, events } = self.sum(worker, symbols, start)?;
            Ok(FileEvents { events, state })
        })
    }

    /// Reads symbols in the direction of the memo from a state on, and calls `visit` for each that has events: with the number of
    /// symbols read before it, the state before it, and what it does. Ends when `visit` returns false or the machine is dead;
    /// returns the number of symbols read and the state behind them.
    #[inline]
    pub(super) fn read(
        self,
        worker: &mut Worker<M::Cache>,
        symbols: &[u32],
        state: u32,
        mut visit: impl FnMut(usize, u32, Total) -> bool,
    ) -> Result<(usize, u32), Halted> {
        let is_forward = self.memo.direction == Direction::Forward;
        let symbol_at = |index: usize| {
            if is_forward {
                symbols[index]
            } else {
                symbols[symbols.len() - 1 - index]
            }
        };
        let (mut index, mut state) = (0, state);
        let mut next_check = 0;
        while index < symbols.len() && state != DEAD {
            if index >= next_check {
                check(self.stop)?;
                next_check = index + STOP_SYMBOLS;
            }
            if let Some(common) = self.memo.common() {
                let skipped = common.skip::<false>(&symbols[index..], state);
                (index, state) = (index + skipped.symbols, skipped.state);
                if index == symbols.len() || state == DEAD {
                    break;
                }
            }
            // What the symbols of a block do from the state before it.
            let unchanged = Entry::new(state, 0);
            let mut entries = [unchanged; BLOCK];
            let block = match self.memo.row(state) {
                None => {
                    entries[0] = Entry::UNKNOWN;
                    1
                }
                Some(row) => {
                    let block = BLOCK.min(symbols.len() - index);
                    for (ahead, entry) in entries[..block].iter_mut().enumerate() {
                        *entry = row.get(symbol_at(index + ahead));
                    }
                    block
                }
            };
            if entries
                .iter()
                .fold(true, |all, &entry| all & (entry == unchanged))
            {
                index += block;
                continue;
            }
            let of_state = state;
            for &entry in &entries[..block] {
                if entry == unchanged && state == of_state {
                    index += 1;
                    continue;
                }
                let (before, symbol) = (state, symbol_at(index));
                let total = if state == of_state && entry != Entry::UNKNOWN {
                    self.memo.total(state, symbol, entry)
                } else {
                    self.total(worker, state, symbol)?
                };
                state = total.state;
                index += 1;
                if total.events > 0 && !visit(index - 1, before, total) {
                    return Ok((index, state));
                }
                if state == DEAD {
                    break;
                }
            }
        }
        Ok((index, state))
    }

    /// What a symbol does from a state.
    #[inline]
    pub(super) fn total(
        self,
        worker: &mut Worker<M::Cache>,
        state: u32,
        symbol: u32,
    ) -> Result<Total, Halted> {
        if let Some(total) = self.known(worker, state, symbol)? {
            return Ok(total);
        }
        self.evaluate(worker, state, symbol)
    }

    /// What a symbol does from a state, if it is remembered or a terminal.
    #[inline]
    fn known(
        self,
        worker: &mut Worker<M::Cache>,
        state: u32,
        symbol: u32,
    ) -> Result<Option<Total>, Halted> {
        if let Some(common) = self.memo.common()
            && let Some(total) = common.total(state, symbol)
        {
            return Ok(Some(total));
        }
        let row = self.memo.row(state);
        if let Some(row) = row {
            let entry = row.get(symbol);
            if entry != Entry::UNKNOWN {
                return Ok(Some(self.memo.total(state, symbol, entry)));
            }
        }
        if symbol < self.view.terminal_count {
            let step = self.machine.step(&mut worker.cache, state, symbol);
            let step = step.ok_or(Halted::GaveUp)?;
            let total = Total {
                state: step.state,
                events: u64::from(step.events),
            };
            if row.is_some() {
                worker.put(self.memo, state, symbol, total, true);
            }
            return Ok(Some(total));
        }
        if row.is_some() {
            return Ok(None);
        }
        Ok(worker.get(self.memo, state, symbol))
    }

    /// What a rule does from a state, from below, and remembers it of all rules on the way.
    #[cold]
    #[inline(never)]
    fn evaluate(
        self,
        worker: &mut Worker<M::Cache>,
        state: u32,
        symbol: u32,
    ) -> Result<Total, Halted> {
        let frame = |symbol: u32, state: u32| {
            let body = self.view.body_range(symbol - self.view.terminal_count);
            Frame {
                symbol,
                before: state,
                state,
                // Offsets of bodies are u32.
                from: body.start as u32,
                to: body.end as u32,
                events: 0,
            }
        };
        let mut frames = std::mem::take(&mut worker.frames);
        frames.clear();
        let mut top = frame(symbol, state);
        let mut steps = 0;
        let total = loop {
            steps += 1;
            if steps % STOP_SYMBOLS == 0 {
                check(self.stop)?;
            }
            if top.from == top.to || top.state == DEAD {
                let total = Total {
                    state: top.state,
                    events: top.events,
                };
                worker.put(self.memo, top.before, top.symbol, total, false);
                let Some(above) = frames.pop() else {
                    break total;
                };
                top = above;
                top.state = total.state;
                top.events = top.events.saturating_add(total.events);
                continue;
            }
            let next = match self.memo.direction {
                Direction::Forward => {
                    top.from += 1;
                    top.from - 1
                }
                Direction::Backward => {
                    top.to -= 1;
                    top.to
                }
            };
            let next = self.view.symbols[next as usize];
            match self.known(worker, top.state, next)? {
                Some(total) => {
                    top.state = total.state;
                    top.events = top.events.saturating_add(total.events);
                }
                None => {
                    let below = frame(next, top.state);
                    frames.push(std::mem::replace(&mut top, below));
                }
            }
        };
        worker.frames = frames;
        Ok(total)
    }
}

/// Cuts items into tasks of about [`PART_SYMBOLS`] symbols, of which each item has `symbols`.
fn in_tasks<T>(items: &[T], symbols: impl Fn(&T) -> usize) -> Vec<&[T]> {
    let mut tasks = Vec::new();
    let (mut from, mut sum) = (0, 0);
    for (index, item) in items.iter().enumerate() {
        sum += symbols(item) + 1;
        if sum >= PART_SYMBOLS || index + 1 == items.len() {
            tasks.push(&items[from..=index]);
            (from, sum) = (index + 1, 0);
        }
    }
    tasks
}
