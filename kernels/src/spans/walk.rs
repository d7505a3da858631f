//! Events of a range of a file, one after another.
//!
//! In   a pass; a file, a range of it, the state before the range
//! Out  for each terminal with events where it begins, and the states before and behind it; at the end the last state
//! Work to begin O(depth of the grammar * log); then O(symbols passed over) in the root, and the bodies around each event. What
//!      was passed over once from the same state takes O(log) of it
//!
//! A range is a list of slices of the root and of bodies, whole symbols all: at most two for each level of the grammar. A
//! symbol without events is passed over, a rule with events becomes the next slice. The invariant: what lies before the slices
//! was read, and the state is that behind it. A walk that is dropped is resumed by a new one from the end of its last event.

use std::ops::Range;

use crate::SAMPLE_SYMBOLS;
use crate::spans::machine::{DEAD, Machine, Total};
use crate::spans::memo::{Direction, Worker};
use crate::spans::pass::{Halted, SpanPass};
use crate::spans::root_blocks::Stretch;

/// A terminal with events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanEvent {
    /// Where the terminal begins in its file.
    pub start: u64,
    /// The terminal.
    pub terminal: u32,
    /// The state with which it is read.
    pub before: u32,
    /// The state behind it, or [`DEAD`].
    pub after: u32,
    /// The number of events inside it and at its end.
    pub events: u64,
}

/// Symbols of the root, or of a body.
#[derive(Clone, Debug)]
struct Slice {
    /// The rule, none for the root.
    rule: Option<u32>,
    /// Where they stand in the root or body.
    positions: Range<usize>,
    /// A position in the root or body and where its symbol begins in the segment; always known in a body.
    known: Option<(usize, u64)>,
}

/// The lengths of up to this number of symbols are added up; for more of them samples are used.
const NEAR_SYMBOLS: usize = SAMPLE_SYMBOLS;

impl Slice {
    /// All of the body of a symbol that begins at `start`, `None` for a terminal.
    fn of_body<M: Machine>(pass: SpanPass<'_, M>, symbol: u32, start: u64) -> Option<Slice> {
        let rule = pass.view.rule(symbol)?;
        Some(Slice {
            rule: Some(rule),
            positions: 0..pass.view.body_range(rule).len(),
            known: Some((0, start)),
        })
    }

    /// The symbol at a position, and where it begins in the segment.
    fn symbol<M: Machine>(&mut self, pass: SpanPass<'_, M>, position: usize) -> (u32, u64) {
        let SpanPass { view, lengths, .. } = pass;
        let sequence = self.sequence(pass);
        let length = |symbols: &[u32]| {
            let lengths = symbols
                .iter()
                .map(|&symbol| lengths.symbols[symbol as usize]);
            lengths.sum::<u64>()
        };
        let start = match (self.known, self.rule) {
            (Some((near, start)), _) if near <= position && position - near <= NEAR_SYMBOLS => {
                start + length(&sequence[near..position])
            }
            (Some((near, start)), _) if near > position && near - position <= NEAR_SYMBOLS => {
                start - length(&sequence[position..near])
            }
            (Some((far, start)), Some(rule)) => {
                start - lengths.body_start(view, rule, far)
                    + lengths.body_start(view, rule, position)
            }
            _ => lengths.root_start(view, position),
        };
        self.known = Some((position, start));
        (sequence[position], start)
    }

    /// The root or body that it is of.
    fn sequence<'a, M: Machine>(&self, pass: SpanPass<'a, M>) -> &'a [u32] {
        self.rule
            .map_or(pass.view.root, |rule| pass.view.body(rule))
    }
}

/// A run of a machine over a range of a file that stops at each event. After an error it must begin again.
///
/// With the machine of an anchored expression, which is dead when no match can end any more, a walk from the start of a match finds
/// its shortest end.
pub struct SpanWalk<'a, M: Machine> {
    pass: SpanPass<'a, M>,
    /// Taken when the walk is dropped.
    worker: Option<Worker<M::Cache>>,
    file_start: u64,
    state: u32,
    /// The next slice is the last one.
    slices: Vec<Slice>,
}

impl<'a, M: Machine> SpanWalk<'a, M> {
    /// A walk over the terminals of `file` that begin in `range`, from the state `start` at that end of the range where the
    /// direction of the memo begins. A range may end behind the file.
    pub fn new(pass: SpanPass<'a, M>, file: u32, range: Range<u64>, start: u32) -> Self {
        let mut walk = SpanWalk {
            worker: Some(pass.memo.worker(|| pass.machine.cache())),
            pass,
            file_start: 0,
            state: start,
            slices: Vec::new(),
        };
        walk.begin(file, range, start);
        walk
    }

    /// A walk over all of a file from the state `start`. Terminals of no length are met too.
    pub fn of_file(pass: SpanPass<'a, M>, file: u32, start: u32) -> Self {
        let positions = pass.view.root_range(file);
        let mut walk = SpanWalk {
            worker: Some(pass.memo.worker(|| pass.machine.cache())),
            pass,
            file_start: pass.lengths.file_range(file).start,
            state: start,
            slices: Vec::new(),
        };
        if !positions.is_empty() {
            walk.slices.push(Slice {
                rule: None,
                positions,
                known: None,
            });
        }
        walk
    }

    /// Begins again as a new walk would, with the memory of this one: for many short walks.
    pub(super) fn begin(&mut self, file: u32, range: Range<u64>, start: u32) {
        let file_range = self.pass.lengths.file_range(file);
        let to = range.end.min(file_range.end - file_range.start);
        let from = range.start.min(to);
        self.slices.clear();
        let range = file_range.start + from..file_range.start + to;
        add_slices(self.pass, file, range, &mut self.slices);
        if self.pass.memo.direction() == Direction::Forward {
            self.slices.reverse();
        }
        self.file_start = file_range.start;
        self.state = start;
    }

    /// The state behind what was read: behind the last event, and at the end of the range once there are no more events.
    pub fn state(&self) -> u32 {
        self.state
    }

    /// The next terminal with events, or `None` at the end of the range or when the machine is dead.
    ///
    /// Work: O(symbols passed over), and for each level between the event before and this one a part of a body.
    ///
    /// # Errors
    ///
    /// [`Halted`].
    pub fn next_event(&mut self) -> Result<Option<SpanEvent>, Halted> {
        let pass = self.pass;
        while self.state != DEAD
            && let Some(slice) = self.slices.last()
        {
            let found = match slice.rule {
                Some(rule) => self.find_in_body(rule)?,
                None => self.find_in_root()?,
            };
            let Some(slice) = self.slices.last_mut() else {
                break;
            };
            let Some(found) = found else {
                self.slices.pop();
                continue;
            };
            let inside = if found.positions.len() > 1 {
                Slice {
                    positions: found.positions,
                    ..slice.clone()
                }
            } else {
                let (symbol, start) = slice.symbol(pass, found.positions.start);
                match Slice::of_body(pass, symbol, start) {
                    None => return Ok(Some(self.event(symbol, start, found.before, found.total))),
                    Some(body) => body,
                }
            };
            self.state = found.before;
            if slice.positions.is_empty() {
                *slice = inside;
            } else {
                self.slices.push(inside);
            }
        }
        Ok(None)
    }

    /// Reads the last slice, which is of a body, up to and with the next symbol with events.
    #[inline]
    fn find_in_body(&mut self, rule: u32) -> Result<Option<Stretch>, Halted> {
        let pass = self.pass;
        let (Some(slice), Some(worker)) = (self.slices.last_mut(), self.worker.as_mut()) else {
            return Ok(None);
        };
        let mut found = None;
        let symbols = &pass.view.body(rule)[slice.positions.clone()];
        let (read, state) = pass.read(worker, symbols, self.state, |_, before, total| {
            found = Some((before, total));
            false
        })?;
        self.state = state;
        let last = match pass.memo.direction() {
            Direction::Forward => {
                slice.positions.start += read;
                slice.positions.start.wrapping_sub(1)
            }
            Direction::Backward => {
                slice.positions.end -= read;
                slice.positions.end
            }
        };
        Ok(found.map(|(before, total)| Stretch {
            positions: last..last + 1,
            before,
            total,
        }))
    }

    /// Reads the last slice, which is of the root, up to and with the next symbol or block with events.
    fn find_in_root(&mut self) -> Result<Option<Stretch>, Halted> {
        let (Some(slice), Some(worker)) = (self.slices.last_mut(), self.worker.as_mut()) else {
            return Ok(None);
        };
        let positions = slice.positions.clone();
        let read = self.pass.read_root(worker, positions, self.state)?;
        self.state = read.state;
        slice.positions = read.rest;
        Ok(read.found)
    }

    fn event(&self, terminal: u32, start: u64, before: u32, total: Total) -> SpanEvent {
        SpanEvent {
            start: start - self.file_start,
            terminal,
            before,
            after: total.state,
            events: total.events,
        }
    }
}

impl<M: Machine> Drop for SpanWalk<'_, M> {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            self.pass.memo.keep(worker);
        }
    }
}

/// A way down to a terminal: for each level the rule, where its expansion begins, and the index of the symbol.
type Way = Vec<(Option<(u32, u64)>, usize)>;

/// The way to the first terminal of a file that begins at `offset` of the segment or later. On each level but the last the way
/// leads into the symbol; on the last the terminal is the first of the symbol, or of a later one.
fn way_to<M: Machine>(pass: SpanPass<'_, M>, file: u32, offset: u64) -> Way {
    let SpanPass { view, lengths, .. } = pass;
    if offset >= lengths.file_range(file).end {
        return vec![(None, view.root_range(file).end)];
    }
    let (position, mut inside) = lengths.find_in_root(view, file, offset);
    let mut way = vec![(None, position)];
    let mut symbol = view.root[position];
    while inside > 0 {
        let Some(rule) = view.rule(symbol) else {
            // The terminal begins before.
            way.last_mut().expect("it has the root").1 += 1;
            break;
        };
        let start = offset - inside;
        let (index, within) = lengths.find_in_body(view, rule, inside);
        way.push((Some((rule, start)), index));
        (symbol, inside) = (view.body(rule)[index], within);
    }
    way
}

/// Adds the terminals of a file that begin in a range of the segment, as slices.
fn add_slices<M: Machine>(
    pass: SpanPass<'_, M>,
    file: u32,
    range: Range<u64>,
    slices: &mut Vec<Slice>,
) {
    let from = way_to(pass, file, range.start);
    let to = way_to(pass, file, range.end);
    // The last level that both ways have and where they are in the same body.
    let levels = from.len().min(to.len());
    let same = (0..levels).take_while(|&level| from[level].1 == to[level].1);
    let shared = same.count().min(levels - 1);
    let size =
        |rule: Option<(u32, u64)>| rule.map_or(0, |(rule, _)| pass.view.body_range(rule).len());
    let slice = |rule: Option<(u32, u64)>, from, to| Slice {
        rule: rule.map(|(rule, _)| rule),
        positions: from..to,
        known: rule.map(|(_, start)| (0, start)),
    };
    // Behind the symbol that the way leads into.
    let behind = |level: usize| from[level].1 + usize::from(level + 1 < from.len());
    let first = (shared + 1..from.len()).rev();
    let first = first.map(|level| slice(from[level].0, behind(level), size(from[level].0)));
    let middle = slice(from[shared].0, behind(shared), to[shared].1);
    let last = to[shared + 1..]
        .iter()
        .map(|&(rule, index)| slice(rule, 0, index));
    let all = first.chain([middle]).chain(last);
    slices.extend(all.filter(|slice| !slice.positions.is_empty()));
}
