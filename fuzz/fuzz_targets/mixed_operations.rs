//! What libFuzzer calls; what it does is in `test-model/src/targets/mixed_operations.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zipfdb_test_model::targets::mixed_operations;

fuzz_target!(|bytes: &[u8]| mixed_operations::run(bytes));
