//! Tests through the public interface that may share a process.
//!
//! One program, because each is linked with the whole database. Tests with a program of their own change or count something
//! of their process, such as its directory, open files, devices or children; `Cargo.toml` lists them.

#![allow(clippy::unwrap_used)]

mod batches;
mod cache;
mod cold;
mod compat;
mod corrupt;
mod database;
mod differential;
mod displaced;
mod follow;
mod formats;
mod full_disk;
mod fuzz_seeds;
mod grep;
mod indexes;
mod interface;
mod interrupts;
mod messages;
mod metadata;
mod model;
mod output;
mod packed_text;
mod record_fields;
mod repair;
mod search;
mod search_ranking;
mod search_statistics;
mod search_units;
mod stress;
mod updates;
