//! What libFuzzer calls; what it does is in `test-model/src/targets/search_text.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zipfdb_test_model::targets::search_text;

fuzz_target!(|bytes: &[u8]| search_text::run(bytes));
