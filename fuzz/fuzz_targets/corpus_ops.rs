//! What libFuzzer calls; what it does is in `src/corpus_ops.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../src/corpus_ops.rs"]
mod corpus_ops;
#[path = "../../tests/support/mod.rs"]
mod support;

fuzz_target!(|bytes: &[u8]| corpus_ops::run(bytes));
