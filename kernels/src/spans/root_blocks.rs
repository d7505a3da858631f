//! Reading long stretches of a root quickly once they were read before.
//!
//! Blocks of 64 root symbols, of 64 such blocks, and further up, are remembered as if they were rules, in the hash table of the
//! thread: for a block and the state before it what the machine does. So the end of a match far behind its start is found in
//! O(log root symbols) from the second start on that has the same state.
//!
//! The invariant: blocks lie where their size divides the position in the root, and a block is used only inside of what is read,
//! so none ever spans two files.

use std::ops::Range;

use crate::spans::machine::{DEAD, Machine};
use crate::spans::memo::{Direction, Total, Worker};
use crate::spans::pass::{Halted, SpanPass};

/// Blocks of the level below in a block, as a power of two; root symbols in one of the first level.
const BLOCK_BITS: u32 = 6;

/// Levels of blocks: the next one would have more symbols than any root.
pub(super) const LEVELS: u32 = 5;

/// Symbols of the root or of a body that stand together, and what they do.
#[derive(Clone)]
pub(super) struct Stretch {
    /// Where they stand in the root or body.
    pub(super) positions: Range<usize>,
    /// The state before them.
    pub(super) before: u32,
    pub(super) total: Total,
}

/// How a read ended.
pub(super) struct StretchRead {
    /// The symbols at which it ended: one, or a block.
    pub(super) stretch: Option<Stretch>,
    /// What is behind them.
    pub(super) rest: Range<usize>,
    /// The state behind them.
    pub(super) state: u32,
}

impl<M: Machine> SpanPass<'_, M> {
    /// Reads `positions` of a sequence from a state on, and calls `passes` for each symbol or block with events. Ends when that
    /// returns false.
    ///
    /// `computed` is `None` for a body. In the root what blocks up to that level do is computed and remembered; what larger ones do
    /// is used if it is known. A block that is all of `positions` is not used, so that it can be read symbol by symbol.
    pub(super) fn read_stretches(
        self,
        worker: &mut Worker<M::Cache>,
        sequence: &[u32],
        positions: Range<usize>,
        state: u32,
        computed: Option<u32>,
        mut passes: impl FnMut(&Stretch) -> bool,
    ) -> Result<StretchRead, Halted> {
        let is_forward = self.memo.direction() == Direction::Forward;
        let levels = (1..=LEVELS).take_while(|&level| size(level) < positions.len());
        let level_max = computed.map_or(0, |_| levels.count() as u32);
        let computed = computed.unwrap_or(0);
        let (mut rest, mut state) = (positions, state);
        while !rest.is_empty() && state != DEAD {
            let mut stretch = None;
            for level in (1..=level_max).rev() {
                let size = size(level);
                let end = if is_forward { rest.start } else { rest.end };
                if rest.len() < size || !end.is_multiple_of(size) {
                    continue;
                }
                let start = if is_forward { end } else { end - size };
                let total = if level <= computed {
                    Some(self.block_total(worker, level, start / size, state)?)
                } else {
                    self.known_block(worker, level, start / size, state)
                };
                if let Some(total) = total {
                    stretch = Some(Stretch {
                        positions: start..start + size,
                        before: state,
                        total,
                    });
                    break;
                }
            }
            let (read, found) = if let Some(stretch) = stretch {
                state = stretch.total.state;
                let is_passed = stretch.total.events == 0 || passes(&stretch);
                (stretch.positions.clone(), (!is_passed).then_some(stretch))
            } else {
                // Up to where a block may begin.
                let step = if level_max == 0 { usize::MAX } else { size(1) };
                let read = if is_forward {
                    let next = (rest.start / step + 1).saturating_mul(step);
                    rest.start..rest.end.min(next)
                } else {
                    rest.start.max((rest.end - 1) / step * step)..rest.end
                };
                let mut found = None;
                let symbols = &sequence[read.clone()];
                let (count, behind) =
                    self.read(worker, symbols, state, |index, before, total| {
                        let at = if is_forward {
                            read.start + index
                        } else {
                            read.end - 1 - index
                        };
                        let stretch = Stretch {
                            positions: at..at + 1,
                            before,
                            total,
                        };
                        let is_passed = passes(&stretch);
                        found = (!is_passed).then_some(stretch);
                        is_passed
                    })?;
                state = behind;
                if is_forward {
                    (read.start..read.start + count, found)
                } else {
                    (read.end - count..read.end, found)
                }
            };
            if is_forward {
                rest.start = read.end;
            } else {
                rest.end = read.start;
            }
            if found.is_some() {
                return Ok(StretchRead {
                    stretch: found,
                    rest,
                    state,
                });
            }
        }
        Ok(StretchRead {
            stretch: None,
            rest,
            state,
        })
    }

    /// The name of a block as a symbol behind those of the grammar, if there are enough numbers.
    fn block_symbol(self, level: u32, index: usize) -> Option<u32> {
        let root = self.view.root.len();
        let below: usize = (1..level).map(|level| root / size(level)).sum();
        u32::try_from(self.view.symbol_count() + below + index).ok()
    }

    fn known_block(
        self,
        worker: &Worker<M::Cache>,
        level: u32,
        index: usize,
        state: u32,
    ) -> Option<Total> {
        worker.get(self.memo, state, self.block_symbol(level, index)?)
    }

    /// What a block does from a state; remembers it and the blocks in it.
    fn block_total(
        self,
        worker: &mut Worker<M::Cache>,
        level: u32,
        index: usize,
        state: u32,
    ) -> Result<Total, Halted> {
        if let Some(total) = self.known_block(worker, level, index, state) {
            return Ok(total);
        }
        let total = if level == 1 {
            let start = index * size(1);
            self.sum(worker, &self.view.root[start..start + size(1)], state)?
        } else {
            let mut total = Total { state, events: 0 };
            let first = index << BLOCK_BITS;
            for child in 0..1 << BLOCK_BITS {
                if total.state == DEAD {
                    break;
                }
                let child = match self.memo.direction() {
                    Direction::Forward => first + child,
                    Direction::Backward => first + (1 << BLOCK_BITS) - 1 - child,
                };
                let then = self.block_total(worker, level - 1, child, total.state)?;
                total.state = then.state;
                total.events = total.events.saturating_add(then.events);
            }
            total
        };
        if let Some(symbol) = self.block_symbol(level, index) {
            worker.put_apart(self.memo, state, symbol, total);
        }
        Ok(total)
    }
}

/// Root symbols of a block.
fn size(level: u32) -> usize {
    1 << (BLOCK_BITS * level)
}
