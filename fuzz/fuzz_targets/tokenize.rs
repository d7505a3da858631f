//! What libFuzzer calls; what it does is in `src/tokenize.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../src/tokenize.rs"]
mod tokenize;

fuzz_target!(|bytes: &[u8]| tokenize::run(bytes));
