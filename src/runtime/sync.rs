//! What threads wait for. `interleavings` compiles who uses them with others.

pub(crate) use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use parking_lot::{Condvar, Mutex};
