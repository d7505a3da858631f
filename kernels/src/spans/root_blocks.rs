//! Reading long stretches of a root quickly once they were read before.
//!
//! Blocks of 64 root symbols are remembered as if they were rules, in the hash table of the thread: for a block and the state before
//! it what the machine does. So the end of a match far behind its start is found in a 64th of the root symbols from the second start
//! on that has the same state.
//!
//! The invariant: blocks lie where their size divides the position in the root, and a block is used only inside of what is read,
//! so none ever spans two files.

use std::ops::Range;

use crate::spans::machine::{DEAD, Machine, Total};
use crate::spans::memo::{Direction, Worker};
use crate::spans::pass::{Halted, SpanPass};

/// Root symbols of a block.
const BLOCK: usize = 64;

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
pub(super) struct RootRead {
    /// The symbols at which it ended: one, or a block.
    pub(super) found: Option<Stretch>,
    /// What is behind them.
    pub(super) rest: Range<usize>,
    /// The state behind them.
    pub(super) state: u32,
}

impl<M: Machine> SpanPass<'_, M> {
    /// Reads `positions` of the root from a state on, up to and with the first symbol or block with events. What blocks do is
    /// remembered. A block that is all of `positions` is not used, so that it can be read symbol by symbol.
    pub(super) fn read_root(
        self,
        worker: &mut Worker<M::Cache>,
        positions: Range<usize>,
        state: u32,
    ) -> Result<RootRead, Halted> {
        let is_forward = self.memo.direction() == Direction::Forward;
        let has_blocks = positions.len() > BLOCK;
        let (mut rest, mut state) = (positions, state);
        let mut found = None;
        while found.is_none() && !rest.is_empty() && state != DEAD {
            let end = if is_forward { rest.start } else { rest.end };
            let read = if has_blocks && rest.len() >= BLOCK && end.is_multiple_of(BLOCK) {
                let start = if is_forward { end } else { end - BLOCK };
                let total = self.block_total(worker, start / BLOCK, state)?;
                found = (total.events > 0).then_some(Stretch {
                    positions: start..start + BLOCK,
                    before: state,
                    total,
                });
                state = total.state;
                start..start + BLOCK
            } else {
                // Up to where a block may begin.
                let step = if has_blocks { BLOCK } else { usize::MAX };
                let read = if is_forward {
                    let next = (rest.start / step + 1).saturating_mul(step);
                    rest.start..rest.end.min(next)
                } else {
                    rest.start.max((rest.end - 1) / step * step)..rest.end
                };
                let symbols = &self.view.root[read.clone()];
                let (count, behind) =
                    self.read(worker, symbols, state, |index, before, total| {
                        let at = if is_forward {
                            read.start + index
                        } else {
                            read.end - 1 - index
                        };
                        found = Some(Stretch {
                            positions: at..at + 1,
                            before,
                            total,
                        });
                        false
                    })?;
                state = behind;
                if is_forward {
                    read.start..read.start + count
                } else {
                    read.end - count..read.end
                }
            };
            if is_forward {
                rest.start = read.end;
            } else {
                rest.end = read.start;
            }
        }
        Ok(RootRead { found, rest, state })
    }

    /// What a block does from a state; remembers it.
    fn block_total(
        self,
        worker: &mut Worker<M::Cache>,
        index: usize,
        state: u32,
    ) -> Result<Total, Halted> {
        // The name of the block as a symbol behind those of the grammar, if there are enough numbers.
        let symbol = u32::try_from(self.view.symbol_count() + index).ok();
        let known = symbol.and_then(|symbol| worker.get(self.memo, state, symbol));
        if let Some(total) = known {
            return Ok(total);
        }
        let start = index * BLOCK;
        let total = self.sum(worker, &self.view.root[start..start + BLOCK], state)?;
        if let Some(symbol) = symbol {
            worker.put_apart(self.memo, state, symbol, total);
        }
        Ok(total)
    }
}
