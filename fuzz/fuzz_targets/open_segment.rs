//! What libFuzzer calls; what it does is in `test-model/src/targets/open_segment.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zipfdb_test_model::targets::open_segment;

fuzz_target!(|bytes: &[u8]| open_segment::run(bytes));
