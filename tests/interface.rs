//! The interface as a program uses it: parameters, rows read by type, rows changed, transactions, readers and settings.

use zipfdb::sql::{Device, Setting};
use zipfdb::{CorpusSettings, Database, Error, Result, Value, ValueKind, params};

const INSERT: &str = "INSERT INTO notes (file, content) VALUES (?, ?)";

fn notes() -> Database {
    let database = Database::in_memory().unwrap();
    let corpus = database.create_corpus("notes", CorpusSettings::default());
    let texts = [("a.txt", "the cat and the dog"), ("b.txt", "a bird")];
    corpus.unwrap().append_many(&texts).unwrap();
    database
}

fn words(database: &Database) -> u64 {
    let sql = "SELECT COUNT(*) FROM notes";
    database.query_row(sql, (), |row| row.get(0)).unwrap()
}

#[test]
fn statements_return_the_number_of_rows_that_they_change() {
    let folder = tempfile::tempdir().unwrap();
    for file in ["x.txt", "y.txt", "z.txt"] {
        std::fs::write(folder.path().join(file), "a text").unwrap();
    }
    let database = notes();
    let path = folder.path().to_str().unwrap();
    let copy = |sql: String| database.execute(&sql, ()).unwrap();
    assert_eq!(copy(format!("COPY notes FROM '{path}'")), 3);
    assert_eq!(copy(format!("COPY notes TO '{path}/out'")), 5);
    assert_eq!(database.execute(INSERT, ("a.txt", " and more")).unwrap(), 1);
    let two = "INSERT INTO notes (file, content) VALUES ('m', ?1), ('n', ?1)";
    assert_eq!(database.execute(two, ["x"]).unwrap(), 2);
    let sets = [params!["m", "y"].to_vec(), params!["o", "z"].to_vec()];
    let inserted = database.query_many(INSERT, &sets).unwrap();
    assert_eq!(inserted.changed(), 2);
    let delete = database
        .prepare("DELETE FROM notes WHERE file = ?")
        .unwrap();
    assert_eq!(delete.execute(["m"]).unwrap(), 1);
    assert_eq!(delete.execute(["m"]).unwrap(), 0);
    assert_eq!(database.execute("CREATE CORPUS other", ()).unwrap(), 0);
    assert_eq!(
        database
            .execute("SELECT file FROM files('notes')", ())
            .unwrap(),
        0
    );
    assert!(database.execute("SELECT 1; SELECT 2", ()).is_err());
    assert!(database.execute(INSERT, ["a.txt"]).is_err());
}

#[test]
fn a_row_that_is_asked_for_is_the_first_or_an_error() {
    let database = notes();
    let sql = "SELECT word FROM notes WHERE file = ? ORDER BY offset";
    let first = |file: &str| database.query_row(sql, [file], |row| row.get::<String>(0));
    assert_eq!(first("a.txt").unwrap(), "the");
    assert!(matches!(first("none"), Err(Error::NoRows)));
    let failed: Result<()> = database.query_row("SELECT 1", (), |_| Err(Error::Interrupted));
    assert!(matches!(failed, Err(Error::Interrupted)));
}

#[test]
fn columns_have_kinds_and_rows_know_their_columns() {
    let database = notes();
    let sql = "SELECT file, COUNT(*) AS n, MAX(offset) + 1 FROM notes GROUP BY file ORDER BY file";
    let statement = database.prepare(sql).unwrap();
    let kinds = [Some(ValueKind::Text), Some(ValueKind::Integer), None];
    let rows = statement.query(()).unwrap();
    for columns in [&statement.columns().unwrap(), rows.columns()] {
        assert!(columns.iter().map(|column| column.kind()).eq(kinds));
    }
    let rows = rows.collect::<Result<Vec<_>>>().unwrap();
    assert_eq!(rows[0].get::<Small>("N").unwrap().0, 5);
    assert_eq!(rows[1].columns()[0].name(), "file");
    assert_eq!(rows[1].get::<String>("FILE").unwrap(), "b.txt");
    assert!(rows[1].get::<String>("m").is_err());
    let shown = format!("{:?}", rows[1]);
    assert!(
        shown.starts_with(r#"{"file": Text("b.txt"), "n": Integer(2)"#),
        "{shown}"
    );
}

/// A type of the program.
struct Small(u8);

impl zipfdb::FromValue for Small {
    const WANTED: &'static str = "a small count";

    fn from_value(value: &Value) -> Option<Small> {
        let count = <i64 as zipfdb::FromValue>::from_value(value)?;
        u8::try_from(count).ok().map(Small)
    }
}

#[test]
fn a_transaction_runs_statements_and_edits_or_nothing() {
    let database = notes();
    database
        .execute(
            "CREATE TEMP VIEW often AS SELECT word FROM notes WHERE length > 3",
            (),
        )
        .unwrap();
    let mut edits = database.begin().unwrap();
    edits.append("notes", "c.txt", "rarely").unwrap();
    assert_eq!(edits.execute(INSERT, ("c.txt", " seen")).unwrap(), 1);
    edits.insert("notes", "c.txt", 0, "very ").unwrap();
    edits.replace("notes", "b.txt", "two birds").unwrap();
    edits.delete("notes", "a.txt").unwrap();
    let found = edits
        .query("SELECT word FROM often ORDER BY word", ())
        .unwrap();
    let found = found
        .map(|row| row?.get(0))
        .collect::<Result<Vec<String>>>()
        .unwrap();
    assert_eq!(found, ["birds", "rarely", "seen", "very"]);
    assert_eq!(edits.snapshot("notes").unwrap().count("birds").unwrap(), 1);
    assert_eq!(words(&database), 7);
    edits.commit().unwrap();
    assert_eq!(words(&database), 5);

    for end in [false, true] {
        let mut edits = database.begin().unwrap();
        assert_eq!(edits.execute("DELETE FROM notes", ()).unwrap(), 2);
        let held = edits.query("SELECT file FROM files('notes')", ()).unwrap();
        if end {
            edits.rollback();
        } else {
            drop(edits);
        }
        // Rows that are alive do not keep the transaction.
        assert_eq!(held.count(), 0);
        assert_eq!(words(&database), 5);
    }
    database.execute(INSERT, ("d.txt", "one more")).unwrap();
    assert_eq!(words(&database), 7);
}

#[test]
fn statements_neither_begin_nor_end_the_transaction_they_are_part_of() {
    let database = notes();
    let mut edits = database.begin().unwrap();
    for sql in ["BEGIN", "COMMIT", "ROLLBACK", "RECOMPRESS notes"] {
        assert!(edits.execute(sql, ()).is_err(), "{sql}");
    }
    let message = edits.execute("COMMIT", ()).unwrap_err().to_string();
    assert!(message.contains("`commit`"), "{message}");
    edits.append("notes", "c.txt", "here").unwrap();
    edits.commit().unwrap();
    assert_eq!(words(&database), 8);
    // A handle in a transaction would wait for itself.
    database.execute("BEGIN", ()).unwrap();
    assert!(database.begin().is_err());
    database.execute("ROLLBACK", ()).unwrap();
    database.begin().unwrap().rollback();
}

#[test]
fn a_reader_sees_one_state_and_refuses_to_write() {
    let database = notes();
    let corpus = database.corpus("notes").unwrap();
    let reader = database.reader();
    let sql = "SELECT COUNT(*) FROM notes";
    let count = || reader.query_row(sql, (), |row| row.get::<u64>(0)).unwrap();
    assert_eq!(count(), 7);
    corpus.append("c.txt", "later").unwrap();
    corpus.insert("c.txt", 0, "much ").unwrap();
    corpus.replace("b.txt", "birds").unwrap();
    corpus.delete("a.txt").unwrap();
    assert_eq!((count(), words(&database)), (7, 3));
    assert_eq!(reader.snapshot("NOTES").unwrap().count("later").unwrap(), 0);
    assert_eq!(
        reader
            .clone()
            .query_many(sql, &[vec![], vec![]])
            .unwrap()
            .count(),
        2
    );
    let message = reader
        .query("DELETE FROM notes", ())
        .unwrap_err()
        .to_string();
    assert!(message.contains("hint"), "{message}");
    assert!(
        reader
            .prepare("DROP CORPUS notes")
            .unwrap()
            .execute(())
            .is_err()
    );
    assert_eq!(reader.corpora(), ["notes"]);
    assert_eq!(
        database
            .reader()
            .query_row(sql, (), |row| row.get::<u64>(0))
            .unwrap(),
        3
    );
}

#[test]
fn settings_are_typed_and_those_of_set() {
    let database = notes();
    database.set(Setting::Device(Device::Cpu)).unwrap();
    database
        .execute("SET statement_timeout = '2s'", ())
        .unwrap();
    database.set(Setting::RecompressThreads(Some(0))).unwrap();
    let settings = database.session().settings();
    assert!(settings.contains(&Setting::Device(Device::Cpu)));
    assert!(settings.contains(&Setting::StatementTimeout(2000)));
    assert!(settings.is_sorted_by_key(|setting| setting.name()));
    let sql = "SELECT value FROM settings() WHERE setting = 'recompress_threads'";
    assert_eq!(
        database
            .query_row(sql, (), |row| row.get::<String>(0))
            .unwrap(),
        "0"
    );
    let refused = database
        .set(Setting::ValueSizeLimit(1))
        .unwrap_err()
        .to_string();
    assert_eq!(
        refused,
        "setting value_size_limit: the number is not in 1024..=1099511627776"
    );
    assert!(
        database
            .set(Setting::Device(Device::Cuda(Some(999))))
            .is_err()
    );
    assert_eq!(database.settings(), settings);
}

#[test]
fn n_grams_of_no_words_are_an_error() {
    let snapshot = notes().corpus("notes").unwrap().snapshot().unwrap();
    for n in [0, 9] {
        assert!(snapshot.ngrams(n).is_err());
        assert!(snapshot.ngram_files(n).is_err());
    }
    assert_eq!(snapshot.ngrams(2).unwrap().len(), 5);
    assert_eq!(snapshot.words_in("b.txt").unwrap().to_vec().len(), 2);
}
