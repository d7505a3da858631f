//! Whole segment files through the public interface: round trips, damage, made-up files, allocation, the format.
//!
//! Everything is written to and read from memory; crashes and power cuts are the store's tests.

mod damage;
mod metadata;
mod round_trip;
