//! One open directory: its store, the decoded parts of its segments, and the pending edits.
//!
//! Invariant: it depends on no handle and no statement; maintenance and handles are built on it.

pub(crate) mod core;
pub(crate) mod failures;
