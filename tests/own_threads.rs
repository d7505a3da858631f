//! The threads of a database are its own: nothing is done on rayon's global pool, which belongs to the host program.
//!
//! The invariant: this process has a global pool that could not start, so whatever asks for it panics, and the test fails. It
//! is a test of its own because the pool is one for the whole process.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rayon::prelude::*;
use zipfdb::ingest::{CopyOptions, NoProgress};
use zipfdb::mixed::Operation;
use zipfdb::{CorpusSettings, Database, Snapshot, Tokenizer, Value};

/// Makes every use of the global pool panic.
fn forbid_global_pool() {
    let refuse = |_| Err(io::Error::other("it is not for us"));
    let pool = rayon::ThreadPoolBuilder::new().spawn_handler(refuse);
    pool.build_global().unwrap_err();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let used = std::panic::catch_unwind(|| (0..9).into_par_iter().sum::<i32>());
    std::panic::set_hook(hook);
    assert!(used.is_err(), "a use of the global pool must panic");
}

/// Text of about `words` words, much alike or not.
fn text(words: usize, seed: usize) -> String {
    let mut state = seed as u64 + 1;
    let mut text = String::new();
    for word in 0..words {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let number = match word % 3 {
            0 => (state >> 33) % 2_000,
            _ => (state >> 33) % 40,
        };
        text.push_str(&format!("w{number}"));
        text.push_str(["\n", " ", " ", ", "][number as usize % 4]);
    }
    text
}

fn write_files(folder: &Path, files: usize, words: usize) {
    fs::create_dir_all(folder).unwrap();
    for file in 0..files {
        // Every third is long.
        let words = if file % 3 == 0 { words } else { words / 50 + 1 };
        fs::write(folder.join(format!("f{file:03}")), text(words, file)).unwrap();
    }
}

/// Everything that a snapshot can be asked, each question to a new one first and then again.
fn ask(open: impl Fn() -> Snapshot) {
    let kept = open();
    let names: Vec<String> = kept.files().iter().map(|file| file.name.clone()).collect();
    let questions: Vec<(&str, &str)> = (names.iter().take(40))
        .flat_map(|name| ["w1", "w7", "w1234", "none"].map(|word| (name.as_str(), word)))
        .collect();
    let words = ["w1", "w2", "w1999", "none"];
    let (first, last) = (names.first().unwrap(), names.last().unwrap());
    let all: [&dyn Fn(&Snapshot); 18] = [
        &|snapshot| drop(snapshot.files_with(&["w1", "w2"]).unwrap()),
        &|snapshot| assert!(snapshot.count("w1").is_ok()),
        &|snapshot| assert!(snapshot.count_in(first, "w1").is_ok()),
        &|snapshot| assert!(snapshot.count_in(last, "w1").is_ok()),
        &|snapshot| drop(snapshot.search_in(first, "w2").unwrap()),
        &|snapshot| drop(snapshot.search_in(last, "w2").unwrap()),
        &|snapshot| drop(snapshot.extract(first, 5, 50).unwrap()),
        &|snapshot| drop(snapshot.extract(last, 0, u64::MAX).unwrap()),
        &|snapshot| drop(snapshot.search("w3").unwrap()),
        &|snapshot| drop(snapshot.count_many(&words).unwrap()),
        &|snapshot| drop(snapshot.search_many(&words).unwrap()),
        &|snapshot| drop(snapshot.words_in(first).unwrap()),
        &|snapshot| drop(snapshot.words().unwrap().to_vec()),
        &|snapshot| {
            drop(snapshot.word_files().unwrap());
            let vectors = snapshot.term_vectors().unwrap();
            drop(vectors.top(3));
        },
        &|snapshot| {
            drop(snapshot.ngrams(2).unwrap());
            drop(snapshot.ngram_files(2).unwrap());
        },
        &|snapshot| {
            snapshot.phrase_count(&["w1", "w2"]).unwrap();
            snapshot.phrase_search(&["w1", "w2"]).unwrap();
            snapshot.phrase_search(&["w1"]).unwrap();
        },
        &|snapshot| {
            snapshot.count_in_many(&questions).unwrap();
            snapshot.search_in_many(&questions).unwrap();
            let ranges: Vec<_> = (names.iter().map(|name| (name, 3, 40))).collect();
            snapshot.extract_many(&ranges).unwrap();
        },
        &|snapshot| {
            let mut target = Vec::new();
            for name in [first, last] {
                snapshot.write_content(name, &mut target).unwrap();
            }
            assert!(snapshot.file(first).is_some());
            snapshot.count_in("no such file", "w1").unwrap_err();
        },
    ];
    for question in all {
        question(&open());
    }
    // Again on what is decoded and kept, so often that all that is worth it is built.
    for _ in 0..3 {
        for question in all {
            question(&kept);
        }
    }
}

/// Statements on corpora `c` and `d`; what they give does not matter here.
const STATEMENTS: &[&str] = &[
    "SELECT * FROM corpora()",
    "SELECT * FROM settings()",
    "SELECT * FROM devices()",
    "SELECT * FROM segments('c')",
    "SELECT COUNT(*) FROM c",
    "SELECT COUNT(*) FROM c WHERE word = 'w1'",
    "SELECT * FROM c WHERE file = 'f001' AND word = 'w1'",
    "SELECT COUNT(*) FROM c WHERE file = 'f000' AND word = 'w1'",
    "SELECT word, position FROM c WHERE word = 'w1234'",
    "SELECT file, offset FROM c WHERE word IN ('w3', 'w4') ORDER BY offset LIMIT 5",
    "SELECT word, COUNT(*) AS n FROM c GROUP BY word ORDER BY n DESC LIMIT 3",
    "SELECT file, word, COUNT(*) FROM c GROUP BY file, word",
    "SELECT file, COUNT(*) FROM c GROUP BY file",
    "SELECT DISTINCT word FROM c WHERE word LIKE '%99%'",
    "SELECT file, COUNT(*) FROM c WHERE word GLOB 'w1*' GROUP BY file",
    "SELECT * FROM c LIMIT 2000",
    "SELECT word, offset FROM c WHERE position < 5",
    "SELECT file, length(content), bytes, words FROM files('c')",
    "SELECT file FROM files('c') WHERE content LIKE '%w1999 %'",
    "SELECT substr(content, 3, 9) FROM files('c') ORDER BY bytes DESC",
    "SELECT * FROM term_vectors('c', 3)",
    "SELECT * FROM term_vectors('c', 3) WHERE file = 'f001'",
    "SELECT * FROM ngrams('c', 2) LIMIT 2000",
    "SELECT ngram, COUNT(*) AS n FROM ngrams('c', 2) GROUP BY ngram ORDER BY n DESC LIMIT 9",
    "SELECT ngram, file, COUNT(*) FROM ngrams('c', 3) GROUP BY ngram, file LIMIT 9",
    "SELECT COUNT(*) FROM ngrams('c', 2) WHERE ngram = 'w1 w2'",
    "SELECT * FROM ngrams('c', 2) WHERE ngram = 'w1 w2'",
    "SELECT file, position, offset FROM ngrams('c', 2) WHERE ngram LIKE '%w77%'",
    "EXPLAIN SELECT word, COUNT(*) FROM c GROUP BY word",
    "EXPLAIN SELECT COUNT(*) FROM ngrams('c', 2) WHERE ngram = 'w1 w2'",
    "EXPLAIN SELECT file, word, COUNT(*) FROM c GROUP BY file, word",
    "EXPLAIN ANALYZE SELECT ngram, COUNT(*) FROM ngrams('c', 2) GROUP BY ngram",
];

const CHANGES: &[&str] = &[
    "INSERT INTO c (file, content) VALUES ('new', 'w1 w2 w3'), ('f001', ' w1 w2')",
    "INSERT INTO c (file, offset, content) VALUES ('f000', 4, 'w1 w9 ')",
    "REPLACE INTO c (file, content) VALUES ('f002', 'w1 w2 w1 w2')",
    "BEGIN; INSERT INTO c (file, content) SELECT file || '.copy', content FROM files('c') LIMIT 4; COMMIT",
    "BEGIN; DELETE FROM c WHERE file = 'f004'; ROLLBACK",
    "DELETE FROM c WHERE file = 'f005'",
];

fn run(database: &Database, sql: &str) {
    let result = database.execute_batch(sql);
    assert!(result.is_ok(), "{sql}: {}", result.unwrap_err());
}

fn use_all_of(database: &Database, folder: &Path, files: usize, words: usize) {
    let input = folder.join("input");
    write_files(&input, files, words);
    let settings = CorpusSettings {
        tokenizer: Tokenizer::Alnum,
        segment_size: 1 << 19,
        recompress_threshold: 1 << 14,
        ..CorpusSettings::default()
    };
    let corpus = database.create_corpus("c", settings).unwrap();
    corpus.copy_from(&input, &CopyOptions::default()).unwrap();
    ask(|| corpus.snapshot().unwrap());
    for sql in STATEMENTS {
        run(database, sql);
    }
    let sets: Vec<Vec<Value>> = (0..40)
        .map(|number| vec![Value::from(format!("w{number}").as_str())])
        .collect();
    let many = "SELECT COUNT(*) FROM c WHERE file = 'f000' AND word = ?";
    assert_eq!(database.query_many(many, &sets).unwrap().count(), 40);
    for sql in CHANGES {
        run(database, sql);
        for sql in STATEMENTS {
            run(database, sql);
        }
    }
    ask(|| corpus.snapshot().unwrap());
    let operations: Vec<Operation<'_>> = (0..600)
        .map(|number| match number % 4 {
            0 => Operation::Append {
                file: "f000",
                text: b" w1 w2",
            },
            1 => Operation::Count {
                file: "f000",
                word: b"w1",
            },
            2 => Operation::Search {
                file: "f001",
                word: b"w2",
            },
            _ => Operation::Extract {
                file: "f002",
                offset: 3,
                length: 9,
            },
        })
        .collect();
    corpus.mixed_many(&operations[..9]).unwrap();
    corpus.mixed_many(&operations).unwrap();
    let mut edits = database.begin().unwrap();
    edits
        .append_many("c", &[("f000", " w5"), ("other", "w6")])
        .unwrap();
    let snapshot = edits.snapshot("c").unwrap();
    snapshot.count_in("f000", "w5").unwrap();
    edits.commit().unwrap();
    // Enough for recompression in the background.
    for number in 0..6 {
        corpus
            .append_many(&[("large", text(4_000, number))])
            .unwrap();
    }
    while corpus.pending_bytes().unwrap() > 1 << 17 {
        thread::sleep(Duration::from_millis(5));
    }
    let out = folder.join("out");
    corpus.copy_to(&out, &NoProgress).unwrap();
    run(
        database,
        &format!(
            "COPY (SELECT * FROM c LIMIT 99) TO '{}'",
            folder.join("c.csv").display()
        ),
    );
    assert!(
        corpus
            .check(&NoProgress)
            .unwrap()
            .iter()
            .all(|check| check.problem.is_none())
    );
    corpus.recompress(&NoProgress).unwrap();
    run(
        database,
        "CHECK c; ALTER CORPUS c SET (segment_size = '64KiB'); RECOMPRESS c",
    );
    ask(|| corpus.snapshot().unwrap());
    for sql in STATEMENTS {
        run(database, sql);
    }
}

#[test]
fn nothing_is_done_on_the_global_pool() {
    forbid_global_pool();
    for (files, words) in [(3, 40), (9, 20_000)] {
        let folder = tempfile::tempdir().unwrap();
        let memory = Database::options().threads(2).in_memory().unwrap();
        use_all_of(&memory, folder.path(), files, words);
        run(&memory, "DROP CORPUS c");
        drop(memory);

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d.zdb");
        let open = || Database::options().threads(2).open(&path).unwrap();
        use_all_of(&open(), folder.path(), files, words);
        run(
            &open(),
            "INSERT INTO c (file, content) VALUES ('last', 'w1 w2')",
        );
        // Edits are taken from the log, by a writer and by a reader.
        let database = open();
        ask(|| database.corpus("c").unwrap().snapshot().unwrap());
        drop(database);
        let reader = Database::options().threads(2).read_only(true);
        let reader = reader.open(&path).unwrap();
        for sql in STATEMENTS {
            run(&reader, sql);
        }
        ask(|| reader.corpus("c").unwrap().snapshot().unwrap());
        drop(reader);
        let copy = folder.path().join("repaired.zdb");
        zipfdb::repair::repair(&path, &copy, &NoProgress, &zipfdb::InterruptHandle::new()).unwrap();
        let repaired = Database::open(&copy).unwrap();
        ask(|| repaired.corpus("c").unwrap().snapshot().unwrap());
        // A host that has a pool of its own, and asks from its threads.
        let host = rayon::ThreadPoolBuilder::new()
            .num_threads(2)
            .build()
            .unwrap();
        host.install(|| ask(|| repaired.corpus("c").unwrap().snapshot().unwrap()));
        run(&repaired, "DROP CORPUS c");
    }
}

#[test]
fn too_many_threads_are_an_error() {
    let error = Database::options().threads(10_000_000).in_memory();
    let error = error.unwrap_err().to_string();
    assert_eq!(
        error,
        "threads: 10000000 are too many; hint: at most 4096 can be started"
    );
}
