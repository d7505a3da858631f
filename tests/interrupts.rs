//! `statement_timeout` wherever a statement may hang: waits for others, and work on a single large value or segment.
//!
//! The invariant: a wait that would never end is given up, so a statement that does not look hangs here; work that is
//! longer than the time it has ends with the error, however fast the machine is. No test depends on how long something takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use zipfdb::{Corpus, CorpusSettings, Database, Error, Result, Value};
use zipfdb_test_support::on_create::{OnCreate, is_segment};

fn is_timeout<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::Timeout { .. }))
}

#[test]
fn every_statement_that_waits_for_another_writer_gives_up_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("input.txt");
    std::fs::write(&input, "the cat and the dog").unwrap();
    let database = Database::in_memory().unwrap();
    database
        .execute_batch("CREATE CORPUS c; CREATE CORPUS d")
        .unwrap();
    database
        .execute_batch("INSERT INTO c (file, content) VALUES ('a', 'the cat')")
        .unwrap();
    let writer = database.session();
    writer.execute_batch("BEGIN").unwrap();
    database
        .execute_batch("SET statement_timeout = '20ms'")
        .unwrap();
    let copy = format!("COPY c FROM '{}'", input.display());
    for sql in [
        "CREATE CORPUS e",
        "CREATE CORPUS IF NOT EXISTS e",
        "DROP CORPUS d",
        "DROP CORPUS IF EXISTS d",
        "ALTER CORPUS c SET (segment_size = '1MiB')",
        "ALTER CORPUS c SET (recompress_threshold = '1MiB')",
        "INSERT INTO c (file, content) VALUES ('b', 'x')",
        "INSERT INTO c (file, offset, content) VALUES ('a', 0, 'x')",
        "INSERT INTO c (file, content) SELECT file, content FROM files('c')",
        "REPLACE INTO c (file, content) VALUES ('a', 'x')",
        "DELETE FROM c WHERE file = 'a'",
        "BEGIN",
        "BEGIN IMMEDIATE",
        "RECOMPRESS c",
        &copy,
    ] {
        let result = database.execute_batch(sql);
        assert!(is_timeout(&result), "{sql}: {result:?}");
    }
    let sets = [vec![Value::from("b")], vec![Value::from("c")]];
    let many = "INSERT INTO c (file, content) VALUES (?, 'x')";
    assert!(is_timeout(&database.query_many(many, &sets)));
    let corpus = database.corpus("c").unwrap();
    assert!(is_timeout(&database.begin()));
    assert!(is_timeout(
        &database.create_corpus("e", CorpusSettings::default())
    ));
    assert!(is_timeout(&database.drop_corpus("d")));
    assert!(is_timeout(&corpus.set_segment_size(1 << 20)));
    assert!(is_timeout(&corpus.append_many(&[("b", "x")])));
    assert!(is_timeout(&corpus.mixed_many(&[])));

    // Reading waits for no writer, and nothing has happened.
    let rows = database
        .query("SELECT file, content FROM files('c')", ())
        .unwrap();
    let rows: Vec<_> = rows.map(|row| row.unwrap().into_values()).collect();
    assert_eq!(rows, [[Value::from("a"), Value::Blob(b"the cat".to_vec())]]);
    writer.execute_batch("ROLLBACK").unwrap();
    database
        .execute_batch("RESET statement_timeout; DROP CORPUS d")
        .unwrap();
    assert_eq!(database.corpora(), ["c"]);
}

#[test]
fn an_interrupt_ends_a_wait_for_another_writer() {
    let database = Database::in_memory().unwrap();
    database.execute_batch("CREATE CORPUS c").unwrap();
    let writer = database.session();
    writer.execute_batch("BEGIN").unwrap();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // As often as it takes: the statement may not have begun.
            while !is_done.load(Ordering::Relaxed) {
                database.interrupt_handle().interrupt();
                thread::sleep(Duration::from_millis(1));
            }
        });
        let result = database.execute_batch("DROP CORPUS c");
        is_done.store(true, Ordering::Relaxed);
        assert!(matches!(result, Err(Error::Interrupted)), "{result:?}");
    });
}

#[test]
fn work_on_one_large_value_ends_in_time() {
    /// A pass over the text in the processor's cache takes less than the timeout, so the query makes COLUMNS passes.
    const COLUMNS: usize = 8;
    let database = Database::in_memory().unwrap();
    let text = Value::Text("abcdefg ".repeat(1 << 22));
    database
        .execute_batch("SET statement_timeout = '1ms'")
        .unwrap();
    for expression in [
        "?1 LIKE '%x%'",
        "?1 LIKE '%h_x%'",
        "?1 NOT LIKE '%habcdefgh%'",
        "?1 GLOB '*x*'",
        "?1 GLOB '*[x-z]*'",
        "like('%x%', ?1)",
        "instr(?1, 'gh')",
        "length(replace(?1, 'a', 'b'))",
        "length(replace(?1, 'x', 'b'))",
        "length(lower(?1))",
        "length(upper(?1))",
        "length(trim(?1, 'abcdefg '))",
        "length(ltrim(?1, 'abcdefg '))",
        "length(rtrim(?1, 'abcdefg '))",
        "length(?1 || ?1)",
        "length(concat(?1, ?1))",
        "length(concat_ws(' ', ?1, ?1))",
        "length(hex(?1))",
        "length(quote(?1))",
        "length(substr(?1, 2))",
        "length(coalesce(NULL, upper(?1)))",
        "CASE WHEN ?1 LIKE '%x%' THEN 1 END",
    ] {
        let sql = format!("SELECT {}", [expression; COLUMNS].join(", "));
        let result = database
            .query(&sql, std::slice::from_ref(&text))
            .and_then(|rows| rows.collect::<Result<Vec<_>>>());
        assert!(is_timeout(&result), "{expression}: {:?}", result.map(drop));
    }
}

#[test]
fn a_check_of_one_segment_ends_in_time() {
    let database = Database::in_memory().unwrap();
    let corpus = database
        .create_corpus("c", CorpusSettings::default())
        .unwrap();
    let text: String = (0..200_000u32)
        .map(|number| format!("w{} ", number.wrapping_mul(2_654_435_761) >> 18))
        .collect();
    corpus.append_many(&[("a", &text)]).unwrap();
    database
        .execute_batch("RECOMPRESS c; SET statement_timeout = '1ms'")
        .unwrap();
    assert!(is_timeout(&database.execute_batch("CHECK c")));
    database
        .execute_batch("RESET statement_timeout; CHECK c")
        .unwrap();
}

/// The real file system, on which creating a segment blocks until it is released, and reports that it waits.
#[derive(Debug, Default)]
struct Slow {
    is_stuck: AtomicBool,
    is_waiting: AtomicBool,
}

fn slow() -> Arc<OnCreate<Slow>> {
    OnCreate::new(|disk: &Slow, path| {
        while is_segment(path) && disk.is_stuck.load(Ordering::Relaxed) {
            disk.is_waiting.store(true, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    })
}

const THRESHOLD: u64 = 1 << 14;

/// Adds files of a size that is small beside the threshold until a statement ends with an error. All others are done.
fn add_until_refused(database: &Database, corpus: &Corpus) -> Error {
    let text = Value::Text("the cat and the dog ".repeat(100));
    for number in corpus.files().unwrap().len()..1000 {
        let values = [Value::Text(format!("{number:05}")), text.clone()];
        let sql = "INSERT INTO c (file, content) VALUES (?, ?)";
        let result = database.query(sql, &values);
        let files = corpus.files().unwrap().len();
        match result {
            Ok(_) => assert_eq!(files, number + 1),
            Err(error) => {
                assert_eq!(files, number, "nothing has happened: {error}");
                return error;
            }
        }
    }
    panic!("pending edits are bounded")
}

#[test]
fn writers_wait_for_a_slow_recompression_no_longer_than_they_may() {
    let folder = tempfile::tempdir().unwrap();
    let disk = slow();
    let options = Database::options().threads(1).backend(disk.clone());
    let database = options.open(folder.path().join("d.zdb")).unwrap();
    let settings = CorpusSettings {
        recompress_threshold: THRESHOLD,
        ..CorpusSettings::default()
    };
    let corpus = database.create_corpus("c", settings).unwrap();
    disk.state.is_stuck.store(true, Ordering::Relaxed);
    database
        .execute_batch("SET statement_timeout = '30ms'")
        .unwrap();
    // Commits beyond twice the threshold are done when their wait ends; beyond four times writers do not begin.
    let error = add_until_refused(&database, &corpus);
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    let pending = corpus.pending_bytes().unwrap();
    assert!(
        (4 * THRESHOLD..6 * THRESHOLD).contains(&pending),
        "{pending}"
    );
    assert!(is_timeout(&database.execute_batch("BEGIN")));
    assert!(is_timeout(&database.execute_batch("RECOMPRESS c")));
    assert!(is_timeout(&corpus.append_many(&[("x", "y")])));

    disk.state.is_stuck.store(false, Ordering::Relaxed);
    database.execute_batch("RESET statement_timeout").unwrap();
    corpus.append_many(&[("x", "y")]).unwrap();
    assert_eq!(corpus.snapshot().unwrap().extract("x", 0, 9).unwrap(), b"y");
}

#[test]
fn queries_end_in_time_while_others_keep_all_threads_busy() {
    let folder = tempfile::tempdir().unwrap();
    let disk = slow();
    let options = Database::options().threads(1).backend(disk.clone());
    let database = options.open(folder.path().join("d.zdb")).unwrap();
    let text = "the cat and the dog ".repeat(20_000);
    for name in ["c", "d", "e"] {
        let corpus = database
            .create_corpus(name, CorpusSettings::default())
            .unwrap();
        corpus.append_many(&[("a", &text), ("b", &text)]).unwrap();
        database
            .execute_batch(&format!("RECOMPRESS {name}"))
            .unwrap();
    }
    for name in ["d", "e"] {
        let sql = format!("INSERT INTO {name} (file, content) VALUES ('a', ' x')");
        database.execute_batch(&sql).unwrap();
    }
    let reader = database.session();
    disk.state.is_stuck.store(true, Ordering::Relaxed);
    thread::scope(|scope| {
        scope.spawn(|| database.execute_batch("RECOMPRESS e").unwrap());
        while !disk.state.is_waiting.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        reader
            .execute_batch("SET statement_timeout = '20ms'")
            .unwrap();
        let statements = [
            // Edits that no query has read.
            "SELECT COUNT(*) FROM d",
            "SELECT word, COUNT(*) FROM c GROUP BY word",
            "SELECT word, COUNT(*) FROM c GROUP BY word ORDER BY word",
            "SELECT file, word, COUNT(*) FROM c GROUP BY file, word",
            "SELECT word, position FROM c",
            "SELECT COUNT(*) FROM c WHERE word = 'cat'",
            "SELECT file, offset FROM c WHERE word = 'cat'",
            "SELECT * FROM term_vectors('c')",
            "SELECT ngram, COUNT(*) FROM ngrams('c', 2) GROUP BY ngram",
            "SELECT * FROM ngrams('c', 2)",
            "SELECT content FROM files('c')",
            "CHECK c",
        ];
        let results = statements.map(|sql| reader.execute_batch(sql));
        disk.state.is_stuck.store(false, Ordering::Relaxed);
        for (sql, result) in statements.iter().zip(results) {
            assert!(is_timeout(&result), "{sql}: {result:?}");
        }
    });
}

#[test]
fn a_commit_whose_time_is_up_before_it_is_written_has_done_nothing() {
    let database = Database::in_memory().unwrap();
    database.execute_batch("CREATE CORPUS c; BEGIN").unwrap();
    // Encoding it takes some milliseconds.
    let text = Value::Text("abcdefg ".repeat(1 << 23));
    let insert = "INSERT INTO c (file, content) VALUES ('a', ?1)";
    database.query(insert, std::slice::from_ref(&text)).unwrap();
    database
        .execute_batch("SET statement_timeout = '1ms'")
        .unwrap();
    assert!(is_timeout(&database.execute_batch("COMMIT")));
    database.execute_batch("RESET statement_timeout").unwrap();
    assert!(database.execute_batch("COMMIT").is_err(), "it has ended");
    assert_eq!(database.corpus("c").unwrap().files().unwrap().len(), 0);
}
