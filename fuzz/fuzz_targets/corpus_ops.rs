//! What libFuzzer calls; what it does is in `test-model/src/targets/corpus_ops.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zipfdb_test_model::targets::corpus_ops;

fuzz_target!(|bytes: &[u8]| corpus_ops::run(bytes));
