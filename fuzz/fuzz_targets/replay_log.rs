//! What libFuzzer calls; what it does is in `test-model/src/targets/replay_log.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zipfdb_test_model::targets::replay_log;

fuzz_target!(|bytes: &[u8]| replay_log::run(bytes));
