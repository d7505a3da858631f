//! What libFuzzer calls; what it does is in `test-model/src/targets/repair.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zipfdb_test_model::targets::repair;

fuzz_target!(|bytes: &[u8]| repair::run(bytes));
