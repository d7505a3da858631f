//! What libFuzzer calls; what it does is in `src/open_segment.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../src/open_segment.rs"]
mod open_segment;

fuzz_target!(|bytes: &[u8]| open_segment::run(bytes));
