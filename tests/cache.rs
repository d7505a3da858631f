//! The cache keeps to `memory_limit`, and answers are the same however often what they are made of was evicted.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use zipfdb::{Corpus, CorpusSettings, Database, Value};

/// Bytes that the cache may hold: less than some work on one segment needs.
const LIMIT: i64 = 1 << 20;

/// Bytes that any work on one segment needs at most. What the last one used may stay.
const WORK: i64 = 2 << 20;

/// Questions of all kinds, about any of the files.
const QUESTIONS: &[&str] = &[
    "SELECT COUNT(*), COUNT(DISTINCT word) FROM c",
    "SELECT word, COUNT(*) FROM c GROUP BY word ORDER BY COUNT(*) DESC, word LIMIT 20",
    "SELECT COUNT(*) FROM c WHERE file = 'f3' AND word = 'w77'",
    "SELECT file, COUNT(*) FROM c WHERE word = 'w5' GROUP BY file ORDER BY file",
    "SELECT file, offset, position FROM c WHERE word = 'w900' ORDER BY file, offset",
    "SELECT substr(content, 100, 300) FROM files('c') WHERE file = 'f2'",
    "SELECT file, bytes, words FROM files('c') WHERE content LIKE '%w11 w%' ORDER BY file",
    "SELECT ngram, COUNT(*) FROM ngrams('c', 2) GROUP BY ngram ORDER BY COUNT(*) DESC, ngram LIMIT 9",
    "SELECT file, offset FROM ngrams('c', 3) WHERE ngram = 'w3 w4 w5' ORDER BY file, offset",
    "SELECT file, word, count FROM term_vectors('c', 3) ORDER BY file, rank",
];

/// Text whose words come back three at a time now and then.
fn text(seed: u64, words: u64) -> String {
    let mut state = seed;
    let mut text = String::new();
    for _ in 0..words {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let first = (state >> 33) % 2000;
        text.push_str(&format!("w{first} w{} w{} ", first + 1, first + 2));
    }
    text
}

fn rows(database: &Database, sql: &str) -> Vec<Vec<Value>> {
    let rows = database
        .query(sql, ())
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.map(|row| row.unwrap().into_values()).collect()
}

fn cached(database: &Database) -> i64 {
    match rows(database, "SELECT COALESCE(SUM(bytes), 0) FROM caches('c')")[0][0] {
        Value::Integer(bytes) => bytes,
        ref other => panic!("{other:?}"),
    }
}

/// Several segments, each of which needs more than the limit.
fn corpus(database: &Database) -> Corpus {
    let settings = CorpusSettings {
        segment_size: 256 << 10,
        ..CorpusSettings::default()
    };
    let corpus = database.create_corpus("c", settings).unwrap();
    let texts: Vec<(String, String)> = (0..5).map(|f| (format!("f{f}"), text(f, 20_000))).collect();
    corpus.append_many(&texts).unwrap();
    database.execute_batch("RECOMPRESS c").unwrap();
    assert!(corpus.segments().unwrap().len() > 3);
    corpus
}

#[test]
fn answers_are_the_same_with_hardly_any_memory() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(folder.path().join("x.zdb")).unwrap();
    let corpus = corpus(&database);
    database.execute_batch("SET memory_limit = '4GiB'").unwrap();
    let wanted: Vec<_> = QUESTIONS.iter().map(|sql| rows(&database, sql)).collect();
    assert!(wanted.iter().all(|rows| !rows.is_empty()));
    assert!(cached(&database) > 2 * WORK, "{}", cached(&database));

    database.execute_batch("SET memory_limit = '1MiB'").unwrap();
    assert!(cached(&database) <= LIMIT, "a new limit holds at once");
    for round in 0..2 {
        for (sql, wanted) in QUESTIONS.iter().zip(&wanted) {
            assert_eq!(&rows(&database, sql), wanted, "round {round}: {sql}");
            assert!(
                cached(&database) <= WORK,
                "{} after {sql}",
                cached(&database)
            );
        }
    }
    // Edits on top, and merged.
    let edits = [("f1", "w3 w4 w5 "), ("f6", "w77 w900 ")];
    corpus.append_many(&edits).unwrap();
    let limited: Vec<_> = QUESTIONS.iter().map(|sql| rows(&database, sql)).collect();
    database.execute_batch("RECOMPRESS c").unwrap();
    for (sql, limited) in QUESTIONS.iter().zip(&limited) {
        assert_eq!(&rows(&database, sql), limited, "{sql}");
        assert!(cached(&database) <= WORK);
    }
}

#[test]
fn threads_that_evict_each_others_structures_get_their_answers() {
    let database = Database::in_memory().unwrap();
    corpus(&database);
    let wanted: Vec<_> = QUESTIONS.iter().map(|sql| rows(&database, sql)).collect();
    database.execute_batch("SET memory_limit = '1MiB'").unwrap();
    let running = AtomicUsize::new(3);
    thread::scope(|scope| {
        for thread in 0..3 {
            let (database, wanted, running) = (&database, &wanted, &running);
            scope.spawn(move || {
                for question in 0..QUESTIONS.len() {
                    let number = (question + 3 * thread) % QUESTIONS.len();
                    let sql = QUESTIONS[number];
                    assert_eq!(rows(database, sql), wanted[number], "{sql}");
                }
                running.fetch_sub(1, Ordering::Relaxed);
            });
        }
        scope.spawn(|| {
            // The limit moves meanwhile.
            for limit in ["64MiB", "1MiB"].iter().cycle() {
                database
                    .execute_batch(&format!("SET memory_limit = '{limit}'"))
                    .unwrap();
                if running.load(Ordering::Relaxed) == 0 {
                    break;
                }
                thread::yield_now();
            }
        });
    });
}

#[test]
fn caches_list_what_is_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.zdb");
    let database = Database::open(&path).unwrap();
    corpus(&database);
    drop(database);
    let database = Database::open(&path).unwrap();
    let kinds = "SELECT DISTINCT kind FROM caches('c') ORDER BY kind";
    assert!(rows(&database, kinds).is_empty());
    rows(&database, "SELECT word, COUNT(*) FROM c GROUP BY word");
    let found: Vec<Value> = rows(&database, kinds).concat();
    assert!(found.contains(&Value::from("dictionary")) && found.contains(&Value::from("totals")));
    assert!(found.contains(&Value::from("vocabulary")));
    let facts = "SELECT MAX(bytes) > 0, MIN(price) >= 0.0, MIN(uses) > 0 FROM caches('c')";
    assert_eq!(rows(&database, facts), [vec![Value::Integer(1); 3]]);
    // Counts of all words are kept, and taken again.
    let uses = "SELECT uses FROM caches('c') WHERE kind = 'word_totals'";
    assert_eq!(rows(&database, uses), [[Value::Integer(1)]]);
    let words = "SELECT word, COUNT(*) FROM c GROUP BY word ORDER BY word";
    let kept = rows(&database, words);
    assert_eq!(rows(&database, uses), [[Value::Integer(2)]]);
    database
        .execute_batch("SET strategy = 'file_weights'")
        .unwrap();
    assert_eq!(rows(&database, words), kept);
}
