//! Walks over levels in one launch; the rules are in `levels.cuh`.
//!
//! The invariant: pieces of a walk are numbered phase by phase, and a phase of
//! several steps is one piece. It knows neither grammars nor what is done with
//! items.

use std::ops::Range;

use super::device::{Buffer, Gpu, arguments};
use super::driver::{Argument, Header, NamedArgument};
use super::error::GpuError;

/// What kernels that walk include.
pub(crate) const HEADER: Header = ("levels.cuh", include_str!("levels.cuh"));

/// A walk, which any number of launches may take.
#[derive(Debug)]
pub(crate) struct Walk {
    /// First pieces, first steps and ranges, one after the other.
    arrays: Buffer<u32>,
    phases: usize,
    pieces: u32,
    /// The pieces of the phase that has most.
    pieces_max: u32,
}

/// Counters of a launch: the next piece, and how many are done; 0 at first.
pub(crate) const STATE_ITEMS: usize = 2;

/// Most blocks for each piece of a phase: some work, the others have read what they will work with. All waiting blocks
/// poll the same counter: with 528 blocks a phase takes 1.8 us, with 132 it takes 0.8 (H200).
const AHEAD: u32 = 2;

impl Walk {
    /// A walk over ranges of items, in this order. A piece of one of the `alone` first steps is an item, and none
    /// shares a phase, even if it has no items; a piece of others is up to `tile` items, or several steps that have together at
    /// most `joined` tiles.
    pub(crate) fn new(
        gpu: &Gpu,
        alone: &[Range<u32>],
        steps: &[Range<u32>],
        tile: u32,
        joined: u32,
    ) -> Result<Walk, GpuError> {
        let (mut first_pieces, mut first_steps) = (vec![0u32], vec![0u32]);
        let (mut ranges, mut count, mut pieces) = (Vec::new(), 0u32, 0u32);
        for step in alone {
            ranges.extend([step.start, step.end, 1]);
            count += 1;
            pieces += step.end - step.start;
            first_pieces.push(pieces);
            first_steps.push(count);
        }
        let steps: Vec<&Range<u32>> = steps.iter().filter(|step| !step.is_empty()).collect();
        let mut rest = &steps[..];
        while let Some(first) = rest.first() {
            let mut items = 0u64;
            let small = rest.iter().take_while(|step| {
                items += u64::from(step.end - step.start);
                items <= u64::from(tile) * u64::from(joined)
            });
            let phase = small.count().max(1);
            pieces += match phase {
                1 => (first.end - first.start).div_ceil(tile),
                _ => 1,
            };
            for step in &rest[..phase] {
                ranges.extend([step.start, step.end, tile]);
            }
            // The number of levels at most, a u32.
            count += phase as u32;
            first_pieces.push(pieces);
            first_steps.push(count);
            rest = &rest[phase..];
        }
        let phases = first_pieces.len() - 1;
        let pieces_of = first_pieces.windows(2).map(|ends| ends[1] - ends[0]);
        let pieces_max = pieces_of.max().unwrap_or(0);
        first_pieces.extend(first_steps);
        first_pieces.extend(ranges);
        Ok(Walk {
            arrays: gpu.upload(&first_pieces)?,
            phases,
            pieces,
            pieces_max,
        })
    }

    /// Blocks that keep a device busy, at most one a piece; `resident` fit on a multiprocessor.
    pub(crate) fn blocks(&self, gpu: &Gpu, resident: u32) -> u32 {
        let busy = gpu.facts().processors * resident;
        self.pieces.min(busy).min(self.pieces_max * AHEAD)
    }

    /// The arguments of a kernel that make its `Walk`; `state` are [`STATE_ITEMS`] numbers.
    pub(crate) fn arguments<'a>(&'a self, state: Argument<'a>) -> [NamedArgument<'a>; 5] {
        *arguments! {
            first_pieces: self.arrays.at(0),
            first_steps: self.arrays.at(self.phases + 1),
            ranges: self.arrays.at(2 * (self.phases + 1)),
            // The number of levels at most, a u32.
            phases: self.phases as u32,
            state,
        }
    }
}
