//! Tests that use the crate as another crate does.

#![allow(clippy::unwrap_used)]

mod cql;
mod documentation;
mod properties;
mod simple;
mod spans;
