//! What tests of several crates share: disks that fail, power cuts, made-up segments, and locks whose interleavings are
//! explored.
//!
//! Nothing of this is in a crate that is published. It knows the storage crate and no other of ours.

#![allow(missing_docs, clippy::unwrap_used, clippy::missing_panics_doc)]

pub mod faulty;
pub mod harness;
pub mod locks;
pub mod on_create;
pub mod power_cut;
pub mod samples;
