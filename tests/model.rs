//! Random changes of every kind against a map of texts, reopened now and then.

use std::path::Path;

use zipfdb::{Database, Durability};
use zipfdb_test_model::{Change, Edit, State, check};
use zipfdb_test_support::harness::{Random, scratch};

fn open(path: &Path, random: &mut Random) -> Database {
    // Recompression in the background works beside the test where there are several threads.
    let database = Database::options().threads(1 + random.below(3)).open(path);
    let database = database.unwrap();
    assert_eq!(database.warnings(), Vec::<String>::new());
    database
}

fn run(seed: u64, changes: usize) {
    let mut random = Random::new(seed);
    let folder = scratch();
    let path = folder.path().join("d.zdb");
    let mut state = State::new();
    let mut database = open(&path, &mut random);
    for _ in 0..changes {
        let change = Change::random(&mut random, &state);
        change
            .perform(&database, folder.path())
            .unwrap_or_else(|error| panic!("seed {seed}: {change:?}: {error}"));
        change.apply(&mut state);
        match random.below(12) {
            0 => {
                drop(database);
                database = open(&path, &mut random);
                check(&database, &state);
            }
            1 => check(&database, &state),
            2 if state.contains_key("plain") => {
                // A reader knows what was written, and this is behind all that waits in the process.
                let edit = Edit::Append(vec![("f0".into(), b"cat ".to_vec())]);
                let change = Change::Commit(Durability::Normal, vec![("plain", edit)]);
                change.perform(&database, folder.path()).unwrap();
                change.apply(&mut state);
                let reader = Database::options().read_only(true).open(&path).unwrap();
                check(&reader, &state);
            }
            _ => {}
        }
    }
    check(&database, &state);
    drop(database);
    check(&open(&path, &mut random), &state);
}

/// `ZIPFDB_MODEL_ROUNDS` runs more seeds, `ZIPFDB_SEED` other ones.
#[test]
fn any_changes_leave_the_texts_and_answers_of_a_map() {
    let rounds = std::env::var("ZIPFDB_MODEL_ROUNDS");
    let rounds: u64 = rounds.map_or(8, |rounds| rounds.parse().unwrap());
    let first = Random::seed(1);
    for seed in first..first + rounds {
        run(seed, 120);
    }
}
