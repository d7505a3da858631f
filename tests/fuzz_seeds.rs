//! Every seed of `fuzz/seeds` through its target, so that what fuzzing has found once stays found.
//!
//! The targets' code is that of `test-model/src/targets`; nothing is mutated here.

use std::fs;
use std::path::Path;

use zipfdb_test_model::targets::{
    corpus_ops, cql_text, mixed_operations, open_index, open_segment, packed_segment, packed_text,
    read_records, repair, replay_log, search_text, sql_text, tokenize,
};

/// A target and what it does with an input.
type Target = (&'static str, fn(&[u8]));

const TARGETS: [Target; 13] = [
    ("corpus_ops", corpus_ops::run),
    ("cql_text", cql_text::run),
    ("mixed_operations", mixed_operations::run),
    ("open_index", open_index::run),
    ("open_segment", open_segment::run),
    ("packed_segment", packed_segment::run),
    ("packed_text", packed_text::run),
    ("read_records", read_records::run),
    ("repair", repair::run),
    ("replay_log", replay_log::run),
    ("search_text", search_text::run),
    ("sql_text", sql_text::run),
    ("tokenize", tokenize::run),
];

/// Where the seeds of a target lie.
fn seeds() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds"))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("it is in the tree");
    let names = entries.map(|entry| entry.expect("it can be listed").file_name());
    let mut names: Vec<String> = names
        .map(|name| name.into_string().expect("names are ASCII"))
        .collect();
    names.sort();
    names
}

#[test]
fn every_target_has_seeds_that_are_run() {
    let known = TARGETS.map(|(name, _)| name);
    assert_eq!(names(seeds()), known);
    for (target, run) in TARGETS {
        for seed in names(&seeds().join(target)) {
            println!("{target}/{seed}");
            run(&fs::read(seeds().join(target).join(seed)).expect("it can be read"));
        }
    }
}
