//! What threads wait for. Unit tests take it from where `interleavings` chooses who goes on.

#[cfg(test)]
pub(crate) use zipfdb_test_support::locks::{AtomicBool, Condvar, Mutex, Ordering};

#[cfg(not(test))]
pub(crate) use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(not(test))]
pub(crate) use parking_lot::{Condvar, Mutex};
