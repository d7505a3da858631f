//! Comparisons with other engines and compressors.

fn main() {}
