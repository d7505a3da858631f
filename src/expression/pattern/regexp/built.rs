//! `Built`: a value that is built when it is first needed.
//!
//! Invariant: one thread builds at a time, so large memory is taken once; the built value is counted until it is dropped. A
//! failure is not stored.

use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::Result;
use crate::runtime::memory::Held;

/// The name of built values in errors.
pub(super) const WHAT: &str = "a compiled regular expression";

/// A value that is built by the first thread that needs it, with its memory.
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
    /// Those of `build`; the next call builds again.
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
