//! One open directory: its store, what is decoded of its segments, and the edits that are pending.
//!
//! Invariant: it knows no handle and no statement; maintenance and handles rest on it.

pub(crate) mod core;
pub(crate) mod failures;
