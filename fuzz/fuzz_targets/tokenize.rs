//! What libFuzzer calls; what it does is in `test-model/src/targets/tokenize.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zipfdb_test_model::targets::tokenize;

fuzz_target!(|bytes: &[u8]| tokenize::run(bytes));
