//! What libFuzzer calls; what it does is in `test-model/src/targets/open_index.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zipfdb_test_model::targets::open_index;

fuzz_target!(|bytes: &[u8]| open_index::run(bytes));
