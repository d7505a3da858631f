//! Tests that use the crate as another crate does.
