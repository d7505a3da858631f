//! What libFuzzer calls; what it does is in `src/repair.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../src/repair.rs"]
mod repair;
#[path = "../../tests/support/mod.rs"]
mod support;

fuzz_target!(|bytes: &[u8]| repair::run(bytes));
