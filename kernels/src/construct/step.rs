//! Steps of construction, for timing and interruption.

use std::sync::atomic::AtomicBool;

use crate::gpu::error::GpuError;
use crate::stop;

/// The parts of construction that are timed apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// All pairs are counted for the first time.
    Count,
    /// Positions are taken.
    Select,
    /// Pairs that were taken again become rules.
    Name,
    /// The next sequence is written and new pairs are counted.
    Replace,
    /// New pairs are numbered.
    Number,
    /// Rules that do not pay are inlined.
    Prune,
    /// Rules are sorted.
    Renumber,
    /// Roots are written.
    Root,
}

/// `Err` once the flag is set.
pub(super) fn check_stop(stop: &AtomicBool) -> Result<(), GpuError> {
    stop::check(stop).map_err(GpuError::Stopped)
}
