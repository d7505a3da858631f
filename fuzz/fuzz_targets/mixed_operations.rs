//! What libFuzzer calls; what it does is in `src/mixed_operations.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../src/mixed_operations.rs"]
mod mixed_operations;

fuzz_target!(|bytes: &[u8]| mixed_operations::run(bytes));
