//! Grammars are copied to a device while it works with others, and only as far as memory allows.
//!
//! Runs on an emulated device, which notes what it is asked for; nothing else may ask it meanwhile, so this is a process of
//! its own. Without a C++ compiler it says so.

#![allow(clippy::unwrap_used)]

use std::fs;

use zipfdb::ingest::CopyOptions;

use zipfdb::{Database, Result, Value};
use zipfdb_kernels::gpu::{self, Asked};

const TASKS: [&str; 2] = [
    "SELECT ngram, COUNT(*) FROM ngrams('c', 3) GROUP BY ngram ORDER BY ngram",
    "SELECT ngram, file, COUNT(*) FROM ngrams('c', 2) GROUP BY ngram, file ORDER BY ngram, file",
];

fn rows(database: &Database, sql: &str) -> Result<Vec<Vec<Value>>> {
    let rows = database.query(sql, ())?;
    rows.map(|row| Ok(row?.into_values())).collect()
}

/// Where the device was asked for something.
fn places(asked: &[Asked], is_it: impl Fn(&Asked) -> bool) -> Vec<usize> {
    (0..asked.len())
        .filter(|&place| is_it(&asked[place]))
        .collect()
}

/// How many grammars were begun to be copied beside other work, and how many of them were waited for.
fn beside(asked: &[Asked]) -> (Vec<usize>, Vec<usize>) {
    let begun = places(asked, |asked| matches!(asked, Asked::Wait(1)));
    let arrived = places(asked, |asked| matches!(asked, Asked::Wait(0)));
    (begun, arrived)
}

#[test]
fn the_next_grammar_is_copied_while_the_device_works() {
    gpu::emulate(1);
    match gpu::devices() {
        Ok(devices) if devices[0].facts().architecture == "host" => {}
        _ => {
            eprintln!("skipped: no emulated device");
            return;
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let mut state = 1u64;
    for file in 0..5 {
        let words = (0..10_000).map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            format!("w{}", (state >> 33) % 70 * (state >> 50 & 7))
        });
        let text = words.collect::<Vec<_>>().join(" ");
        fs::write(folder.path().join(file.to_string()), text).unwrap();
    }
    let database = Database::in_memory().unwrap();
    let create = "SET device = 'cpu'; CREATE CORPUS c WITH (segment_size = '64KiB')";
    database.execute_batch(create).unwrap();
    let corpus = database.corpus("c").unwrap();
    let options = CopyOptions::default();
    corpus.copy_from(folder.path(), &options).unwrap();
    let segments = rows(&database, "SELECT * FROM segments('c')")
        .unwrap()
        .len();
    assert!(segments > 3);
    // The host has its grammars now.
    let expected = TASKS.map(|sql| rows(&database, sql).unwrap());
    database.execute_batch("SET device = 'cuda:0'").unwrap();

    gpu::record_asked();
    assert_eq!(rows(&database, TASKS[0]).unwrap(), expected[0]);
    let asked = gpu::take_asked();
    let (begun, arrived) = beside(&asked);
    assert_eq!((begun.len(), arrived.len()), (segments - 1, segments - 1));
    for (&begun, &arrived) in begun.iter().zip(&arrived) {
        // Its first copy is under way before kernels run, and all of it before it is waited for.
        assert!(matches!(asked[begun + 1], Asked::Upload(1, _)));
        let between = &asked[begun..arrived];
        let launches = places(between, |asked| matches!(asked, Asked::Launch(0, _)));
        assert!(launches.len() > 10, "{between:?}");
    }
    // What has come stays.
    gpu::record_asked();
    assert_eq!(rows(&database, TASKS[0]).unwrap(), expected[0]);
    let asked = gpu::take_asked();
    assert!(places(&asked, |asked| matches!(asked, Asked::Wait(_))).is_empty());

    // Look-ups need grammars of another kind, which come in the same way.
    let snapshot = corpus.snapshot().unwrap();
    let files = ["0", "1", "2", "3", "4"];
    let questions: Vec<(&str, &str)> = (files.iter())
        .flat_map(|file| ["w0", "w5", "w70"].map(|word| (*file, word)))
        .collect();
    gpu::record_asked();
    let found = snapshot.search_in_many(&questions).unwrap();
    let (begun, arrived) = beside(&gpu::take_asked());
    assert_eq!((begun.len(), arrived.len()), (segments - 1, segments - 1));
    database.execute_batch("SET device = 'cpu'").unwrap();
    assert_eq!(snapshot.search_in_many(&questions).unwrap(), found);
    database.execute_batch("SET device = 'cuda:0'").unwrap();

    // With less memory prefetched structures give way to those in use; too little memory is an error.
    let (mut given_up, mut answered) = (0, 0);
    for limit in [512, 256] {
        let set = format!("SET gpu_memory_limit = '64KiB'; SET gpu_memory_limit = '{limit}KiB'");
        database.execute_batch(&set).unwrap();
        for (sql, expected) in TASKS.iter().zip(&expected) {
            gpu::record_asked();
            let found = rows(&database, sql);
            let (begun, arrived) = beside(&gpu::take_asked());
            match found {
                Ok(found) => {
                    assert_eq!(found, *expected, "{sql}, {limit} KiB");
                    answered += 1;
                    given_up += begun.len() - arrived.len();
                }
                Err(error) => assert!(error.to_string().contains("gpu_memory_limit"), "{error}"),
            }
        }
        let sql = "SELECT MAX(used) <= MAX(memory_limit) FROM devices()";
        assert_eq!(rows(&database, sql).unwrap(), [[Value::Integer(1)]]);
    }
    assert!(
        given_up > 0 && answered >= TASKS.len(),
        "{given_up}, {answered}"
    );
}
