//! Everything that is parsed or compiled from a value gets a hostile one, and messages stay short.
//!
//! Invariant: a message has less than 1,000 bytes, also for a text of the user with a million. `scripts/attack` checks the time
//! and memory of statements; the timeout here only ends long ones.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use crate::ingest::{CopyOptions, NoProgress};

use crate::pack::{PackCodec, PackOptions, pack_file, unpack_file};

use crate::{CorpusSettings, Database, Error, InterruptHandle, Value};

/// About a million bytes each.
fn hostile_texts() -> Vec<String> {
    let parts = [r"\w{9}", "(", "$.a[", "%f%J", "9", "\u{1}"];
    let long = |part: &str| part.repeat(1_000_000 / part.len());
    parts.iter().map(|part| long(part)).collect()
}

fn database() -> Database {
    let database = Database::options().threads(1).in_memory().unwrap();
    let corpus = database
        .create_corpus("c", CorpusSettings::default())
        .unwrap();
    corpus
        .append_many(&[("a.txt", "the cat sat on the mat")])
        .unwrap();
    database
        .execute_batch("SET statement_timeout = '1s'")
        .unwrap();
    database
        .execute_batch("SET memory_limit = '64MiB'")
        .unwrap();
    database
}

#[track_caller]
fn assert_short(error: &Error, what: &str) {
    let message = error.to_string();
    assert!(
        message.len() < 1_000,
        "{} bytes of {what}: {message}",
        message.len()
    );
}

/// Runs a statement to its end, and returns whether it fails.
fn fails(database: &Database, sql: &str, parameters: &[Value]) -> bool {
    let rows = database.query(sql, parameters);
    let ended = rows.and_then(|mut rows| rows.try_for_each(|row| row.map(drop)));
    if let Err(error) = &ended {
        assert_short(error, sql);
    }
    ended.is_err()
}

#[test]
fn messages_of_all_functions_are_short() {
    let database = database();
    let names: Vec<&str> = zipfdb_sql::function_names().collect();
    let mut calls: Vec<String> = Vec::new();
    for name in &names {
        let arguments = [
            "?1",
            "?1, ?1",
            "'a', ?1",
            "'a', 'a', ?1",
            "'a', 'a', 'a', ?1",
        ];
        calls.extend(arguments.map(|arguments| format!("{name}({arguments})")));
    }
    for operation in [
        "?1 LIKE ?1",
        "'a' GLOB ?1",
        "'a' REGEXP ?1",
        "'a' LIKE 'b' ESCAPE ?1",
        "?1 -> ?1",
        "'[1]' -> ?1",
        "'[1]' ->> ?1",
        "CAST(?1 AS INTEGER)",
        "CAST(?1 AS NUMERIC)",
        "?1 + 1",
        "-?1",
        "?1 IN (1, ?1)",
        "?1 COLLATE NOCASE = ?1",
    ] {
        calls.push(operation.to_owned());
    }
    let mut failures = 0;
    for text in hostile_texts() {
        let value = Value::Text(text);
        for call in &calls {
            let sql = format!("SELECT length({call})");
            failures += usize::from(fails(&database, &sql, std::slice::from_ref(&value)));
        }
    }
    assert!(failures > 1_000, "{failures}");
}

#[test]
fn messages_about_names_and_options_are_short() {
    let database = database();
    let mut failures = 0;
    let mut count = 0;
    for text in hostile_texts() {
        let value = Value::Text(text.clone());
        for sql in [
            "COPY c FROM ?",
            "COPY c TO ?",
            "COPY (SELECT 1) TO ?",
            "COPY c FROM '/' WITH (encoding = ?)",
            "SET device = ?",
            "SET memory_limit = ?",
            "SET strategy = ?",
            "SET durability = ?",
            "CREATE CORPUS x WITH (tokenizer = ?)",
            "SELECT * FROM ngrams('c', ?)",
            "INSERT INTO c (file, content) VALUES (?1, 'x')",
            "INSERT INTO c (file, offset, content) VALUES (?1, 1, 'x')",
            "INSERT INTO c (file, offset, content) VALUES ('a.txt', ?1, 'x')",
            "REPLACE INTO c (file, content) VALUES (?1, 'x')",
        ] {
            failures += usize::from(fails(&database, sql, std::slice::from_ref(&value)));
            count += 1;
        }
        let corpus = database.corpus("c").unwrap();
        let snapshot = corpus.snapshot().unwrap();
        let path = Path::new(&text);
        let errors = [
            database.corpus(&text).err(),
            database
                .create_corpus(&text, CorpusSettings::default())
                .err(),
            corpus.copy_from(path, &CopyOptions::default()).err(),
            corpus.append_many(&[(&*text, "x")]).err(),
            database.drop_corpus(&text).err(),
            snapshot.extract(&text, 0, 1).err(),
            snapshot.count_in(&text, "cat").err(),
            Database::open(path).err(),
            pack_file(
                path,
                path,
                &PackOptions::new(PackCodec::Byte),
                &NoProgress,
                &InterruptHandle::new(),
            )
            .err(),
            unpack_file(path, path, &NoProgress, &InterruptHandle::new()).err(),
        ];
        for error in errors.iter().flatten() {
            assert_short(error, "the API");
            failures += 1;
        }
        count += errors.len();
    }
    assert!(failures * 10 > count * 8, "{failures} of {count}");
}
