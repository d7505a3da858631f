//! What the targets of `fuzz/` do with an input. `tests/fuzz_seeds.rs` runs them on the seeds.

pub mod corpus_ops;
pub mod cql_text;
pub mod mixed_operations;
pub mod open_index;
pub mod open_segment;
pub mod packed_segment;
pub mod packed_text;
pub mod read_records;
pub mod repair;
pub mod replay_log;
pub mod search_text;
pub mod sql_text;
pub mod tokenize;
