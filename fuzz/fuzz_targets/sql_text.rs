//! What libFuzzer calls; what it does is in `test-model/src/targets/sql_text.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zipfdb_test_model::targets::sql_text;

fuzz_target!(|bytes: &[u8]| sql_text::run(bytes));
