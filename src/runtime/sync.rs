//! Locks and condition variables. Unit tests replace them with those of `interleavings`, which choose the thread that runs next.

#[cfg(test)]
pub(crate) use zipfdb_test_support::locks::{AtomicBool, Condvar, Mutex, Ordering};

#[cfg(not(test))]
pub(crate) use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(not(test))]
pub(crate) use parking_lot::{Condvar, Mutex};
