//! What libFuzzer calls; what it does is in `test-model/src/targets/cql_text.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zipfdb_test_model::targets::cql_text;

fuzz_target!(|bytes: &[u8]| cql_text::run(bytes));
