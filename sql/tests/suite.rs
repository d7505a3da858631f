//! Tests through the public interface, in one program, because each is linked with the whole crate.
//!
//! No test depends on what another one does.

#![allow(clippy::unwrap_used)]

mod documentation;
mod errors;
mod hostile;
mod plan_text;
mod plans;
mod properties;
