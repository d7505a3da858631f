//! What libFuzzer calls; what it does is in `test-model/src/targets/packed_text.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zipfdb_test_model::targets::packed_text;

fuzz_target!(|bytes: &[u8]| packed_text::run(bytes));
