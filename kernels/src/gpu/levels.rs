//! Walks over levels in one launch; the rules are in `levels.cuh`.
//!
//! The invariant: pieces of a walk are numbered phase by phase, and a phase of
//! several steps is one piece. It knows neither grammars nor what is done with
//! items.

use std::ops::Range;

use super::device::{Buffer, Gpu};
use super::driver::Argument;
use super::error::GpuError;

/// A walk, for one launch.
#[derive(Debug)]
pub(crate) struct Walk {
    first_pieces: Buffer<u32>,
    first_steps: Buffer<u32>,
    ranges: Buffer<u32>,
    phases: u32,
    pieces: u32,
}

impl Walk {
    /// A walk over ranges of items, in this order. A piece of one of the `alone` first steps is up to `alone_tile` items, and
    /// none shares a phase, even if it has no items; a piece of others is up to `tile` items, or several steps that have together
    /// at most `joined` tiles.
    pub(crate) fn new(
        gpu: &Gpu,
        alone: &[Range<u32>],
        alone_tile: u32,
        steps: &[Range<u32>],
        tile: u32,
        joined: u32,
    ) -> Result<Walk, GpuError> {
        let (mut first_pieces, mut first_steps) = (vec![0u32], vec![0u32]);
        let (mut ranges, mut count, mut pieces) = (Vec::new(), 0u32, 0u32);
        for step in alone {
            ranges.extend([step.start, step.end, alone_tile]);
            count += 1;
            pieces += (step.end - step.start).div_ceil(alone_tile);
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
            // As many as levels, which are u32.
            count += phase as u32;
            first_pieces.push(pieces);
            first_steps.push(count);
            rest = &rest[phase..];
        }
        Ok(Walk {
            // As many as levels, which are u32.
            phases: first_pieces.len() as u32 - 1,
            first_pieces: gpu.upload(&first_pieces)?,
            first_steps: gpu.upload(&first_steps)?,
            ranges: gpu.upload(&ranges)?,
            pieces,
        })
    }

    /// Blocks that keep a device busy, as many as there are pieces at most, `resident` a multiprocessor.
    pub(crate) fn blocks(&self, gpu: &Gpu, resident: u32) -> u32 {
        self.pieces.min(gpu.facts().processors * resident)
    }

    /// What is counted during one launch.
    pub(crate) fn state(&self, gpu: &Gpu) -> Result<Buffer<u32>, GpuError> {
        gpu.zeroed(2)
    }

    /// The arguments of a kernel that make its `Walk`.
    pub(crate) fn arguments(&self, state: &Buffer<u32>) -> [Argument; 5] {
        [
            Argument::from(&self.first_pieces),
            Argument::from(&self.first_steps),
            Argument::from(&self.ranges),
            Argument::from(self.phases),
            Argument::from(state),
        ]
    }
}
