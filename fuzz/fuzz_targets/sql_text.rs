//! What libFuzzer calls; what it does is in `src/sql_text.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../src/sql_text.rs"]
mod sql_text;

fuzz_target!(|bytes: &[u8]| sql_text::run(bytes));
