//! Tests that use the crate as another crate does.

#![allow(clippy::unwrap_used)]

mod damage;
mod formats;
mod packed;
mod support;
mod tables;
