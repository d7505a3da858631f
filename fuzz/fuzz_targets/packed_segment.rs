//! What libFuzzer calls; what it does is in `test-model/src/targets/packed_segment.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zipfdb_test_model::targets::packed_segment;

fuzz_target!(|bytes: &[u8]| packed_segment::run(bytes));
