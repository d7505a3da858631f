//! The stop flag, which ends a long computation early.
//!
//! The invariant: setting the flag ends the call with [`Stopped`] within some ten
//! milliseconds, from whatever kernel function was given the flag. What was
//! computed until then is dropped; nothing is left half changed.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

/// A computation ended because its flag was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stopped")
    }
}

impl std::error::Error for Stopped {}

/// `Err` once the flag is set. Tasks ask at least every million steps.
#[inline]
pub(crate) fn check(stop: &AtomicBool) -> Result<(), Stopped> {
    // The flag guards no other memory.
    if stop.load(Ordering::Relaxed) {
        Err(Stopped)
    } else {
        Ok(())
    }
}
