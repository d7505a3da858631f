//! Tests that start processes, which are killed or share a database.
//!
//! A program apart from `suite.rs`: until it runs its own program a new process holds the locks of all open databases.

#![allow(clippy::unwrap_used)]

mod crash;
mod sharing;
