//! What libFuzzer calls; what it does is in `test-model/src/targets/read_records.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zipfdb_test_model::targets::read_records;

fuzz_target!(|bytes: &[u8]| read_records::run(bytes));
