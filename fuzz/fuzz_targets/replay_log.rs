//! What libFuzzer calls; what it does is in `src/replay_log.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../src/replay_log.rs"]
mod replay_log;

fuzz_target!(|bytes: &[u8]| replay_log::run(bytes));
