//! Tests through the public interface that may share a process.
//!
//! One program, because each is linked with the whole crate. Tests that start processes or replace the allocator have a
//! program of their own; `Cargo.toml` lists them.

#![allow(clippy::unwrap_used)]

mod displaced;
mod faults;
mod following;
mod full_disk;
mod image;
mod log;
mod rebuild;
mod scenario;
mod segment;
mod store;
