//! `Built`: something that is built when it is first needed.
//!
//! Invariant: one thread builds at a time, so what takes much memory takes it once; what was built is counted until it is dropped.
//! A failure is not kept.

use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::Result;
use crate::runtime::memory::Held;

/// What errors call what is built of a pattern.
pub(super) const WHAT: &str = "a compiled regular expression";

/// A value that is built by the first thread that needs it, and what it takes.
#[derive(Debug)]
pub(super) struct Built<T> {
    value: OnceLock<(T, Held)>,
    building: Mutex<()>,
}

impl<T> Built<T> {
    pub(super) fn new() -> Built<T> {
        Built {
            value: OnceLock::new(),
            building: Mutex::new(()),
        }
    }

    /// The value, which the first call builds.
    ///
    /// # Errors
    /// As `build`; the next call builds again.
    pub(super) fn get_or_build(&self, build: impl FnOnce() -> Result<(T, Held)>) -> Result<&T> {
        if self.value.get().is_none() {
            let _one = self.building.lock();
            if self.value.get().is_none() {
                let built = build()?;
                return Ok(&self.value.get_or_init(|| built).0);
            }
        }
        let (value, _) = self.value.get().expect("it was built above, or before");
        Ok(value)
    }
}
