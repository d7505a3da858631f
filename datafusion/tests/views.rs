//! Views of ZipfDB through DataFusion, and words that are not UTF-8, which a view makes readable.
#![allow(clippy::unwrap_used)]

use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::prelude::SessionContext;
use zipfdb::{Database, Value};

fn pets() -> Database {
    let database = Database::in_memory().unwrap();
    database
        .execute_batch("CREATE CORPUS pets; CREATE CORPUS raw WITH (tokenizer = 'whitespace')")
        .unwrap();
    let pets = database.corpus("pets").unwrap();
    pets.append_many(&[("a.txt", "the cat and the dog"), ("b.txt", "a dog")])
        .unwrap();
    let raw = database.corpus("raw").unwrap();
    raw.append_many(&[
        ("a.txt", &b"plain \xff\xfe words \xff\xfe"[..]),
        ("b.txt", &b"plain text"[..]),
    ])
    .unwrap();
    database
}

async fn through(context: &SessionContext, sql: &str) -> Vec<Vec<String>> {
    let frame = context
        .sql(sql)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    let batches = frame
        .collect()
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in &batches {
        let columns = batch.columns().iter();
        let columns: Vec<_> = columns
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        rows.extend((0..batch.num_rows()).map(|row| {
            let cells = columns.iter().map(|column| column.value(row).to_string());
            cells.collect::<Vec<_>>()
        }));
    }
    rows.sort();
    rows
}

/// As `through`, of ZipfDB itself.
fn own(database: &Database, sql: &str) -> Vec<Vec<String>> {
    let rows = database
        .query(sql, ())
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    let shown = |value: Value| match value {
        Value::Null => "NULL".to_owned(),
        Value::Integer(integer) => integer.to_string(),
        Value::Real(real) => format!("{real:?}"),
        Value::Text(text) => text,
        Value::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    let rows = rows.map(|row| row.unwrap().into_values().into_iter().map(shown).collect());
    let mut rows: Vec<Vec<String>> = rows.collect();
    rows.sort();
    rows
}

async fn failure(context: &SessionContext, sql: &str) -> String {
    let answer = async { context.sql(sql).await?.collect().await };
    answer.await.unwrap_err().to_string()
}

#[tokio::test]
async fn views_are_tables_with_the_rows_of_the_own_dialect() {
    let database = pets();
    database
        .execute_batch(
            "CREATE VIEW Counts AS SELECT word, COUNT(*) AS n FROM pets GROUP BY word; \
             CREATE VIEW frequent AS SELECT word FROM counts WHERE n > 1; \
             CREATE VIEW shares AS SELECT word, n, n / 2.0 AS half, NULL AS nothing FROM counts; \
             CREATE VIEW steps AS SELECT word, CASE WHEN n > 1 THEN n ELSE 0.5 END AS step, nullif(n, 2) AS odd FROM counts; \
             CREATE TEMP VIEW mine AS SELECT file, bytes FROM files('pets')",
        )
        .unwrap();
    let context = zipfdb_datafusion::context(&database);
    for sql in [
        "SELECT * FROM counts",
        "SELECT COUNT(*) FROM counts",
        "SELECT word, COUNT(*) FROM counts GROUP BY word",
        "SELECT COUNT(*) FROM counts WHERE n > 1",
        "SELECT n, COUNT(*) FROM counts WHERE word <> 'dog' GROUP BY n",
        "SELECT word FROM counts WHERE word LIKE '%o%' AND n BETWEEN 1 AND 3",
        "SELECT half, nothing FROM shares WHERE half >= 1.0",
        "SELECT word, odd FROM steps",
        "SELECT word FROM steps WHERE odd IS NULL",
        "SELECT file, bytes FROM mine WHERE bytes > 5",
        "SELECT file, position FROM pets WHERE word IN (SELECT word FROM frequent)",
    ] {
        assert_eq!(through(&context, sql).await, own(&database, sql), "{sql}");
    }
    // A column of integers and reals is one of reals.
    let steps = "SELECT word, CAST(step AS REAL) FROM steps";
    let found = through(&context, "SELECT word, step FROM steps").await;
    assert_eq!(found, own(&database, steps));
    let joined = "SELECT p.file, f.word FROM pets AS p JOIN frequent AS f ON p.word = f.word";
    let expected = "SELECT file, word FROM pets WHERE word IN ('the', 'dog')";
    assert_eq!(through(&context, joined).await, own(&database, expected));
    let types = async |sql: &str| {
        let frame = context.sql(sql).await.unwrap();
        let fields = frame.schema().fields().iter();
        fields
            .map(|field| field.data_type().clone())
            .collect::<Vec<_>>()
    };
    let found = types("SELECT word, n, half, nothing FROM shares").await;
    let expected = [
        DataType::Utf8View,
        DataType::Int64,
        DataType::Float64,
        DataType::Null,
    ];
    assert_eq!(found, expected);
    assert_eq!(types("SELECT step FROM steps").await, [DataType::Float64]);
    let tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'";
    let names = [
        "Counts", "frequent", "mine", "pets", "raw", "shares", "steps",
    ];
    assert_eq!(
        through(&context, tables).await,
        names.map(|name| vec![name.to_owned()])
    );
    // Others have no names of views, and see no view of this session alone.
    for (sql, reason) in [
        ("CREATE TABLE counts AS VALUES (1)", "counts"),
        ("DROP TABLE counts", "counts"),
        ("DROP VIEW counts", "counts"),
    ] {
        let error = failure(&context, sql).await;
        assert!(error.contains(reason), "{sql}: {error}");
    }
    let error = context
        .deregister_table("counts")
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("`DROP VIEW counts` in ZipfDB's own dialect"),
        "{error}"
    );
    assert_eq!(
        through(&context, "SELECT COUNT(*) FROM counts").await,
        [["5"]]
    );
    let other = zipfdb_datafusion::context(&database.session());
    assert!(failure(&other, "SELECT * FROM mine").await.contains("mine"));
    database.execute_batch("DROP VIEW shares").unwrap();
    assert!(
        failure(&context, "SELECT * FROM shares")
            .await
            .contains("shares")
    );
}

/// ZipfDB sees through a view: it would cut the text beside an n-gram into words, and ignore case where the view says so.
#[tokio::test]
async fn conditions_on_views_mean_what_datafusion_says() {
    let database = pets();
    database
        .execute_batch(
            "CREATE VIEW pairs AS SELECT ngram AS x FROM ngrams('pets', 2); \
             CREATE VIEW any_case AS SELECT word COLLATE NOCASE AS x FROM pets",
        )
        .unwrap();
    let context = zipfdb_datafusion::context(&database);
    for view in ["pairs", "any_case"] {
        let frame = context.sql(&format!("SELECT * FROM {view}")).await.unwrap();
        let cached = frame.cache().await.unwrap().into_view();
        context
            .register_table(format!("plain_{view}"), cached)
            .unwrap();
        for condition in [
            "x = 'the cat'",
            "x = 'the-cat'",
            "x <> 'the-cat'",
            "x IN ('the-cat', 'THE', 'dog')",
            "x NOT IN ('the-cat', 'THE', 'dog')",
            "x = 'THE'",
            "x <> 'THE'",
            "x < 'CAT'",
            "x >= 'D'",
            "x BETWEEN 'CAT' AND 'DOG'",
            "x NOT BETWEEN 'a' AND 'the-a'",
            "x LIKE 'THE%'",
            "x LIKE 'the%'",
        ] {
            let sql = format!("SELECT x FROM {view} WHERE {condition}");
            let plain = format!("SELECT x FROM plain_{view} WHERE {condition}");
            assert_eq!(
                through(&context, &sql).await,
                through(&context, &plain).await,
                "{sql}"
            );
        }
        // None was asked of ZipfDB.
        let sql = format!("EXPLAIN SELECT x FROM {view} WHERE x = 'the-cat' AND x > 'A'");
        let plan = through(&context, &sql).await.concat().join("\n");
        assert!(
            plan.contains("FilterExec") && !plan.contains("WHERE"),
            "{plan}"
        );
    }
}

#[tokio::test]
async fn a_view_that_cannot_be_a_table_says_why() {
    let database = pets();
    database
        .execute_batch(
            "CREATE VIEW mixed AS SELECT CASE WHEN word = 'cat' THEN word ELSE length END AS x FROM pets; \
             CREATE VIEW late AS SELECT CASE WHEN position < 2000 THEN position ELSE word END AS x FROM pets; \
             CREATE CORPUS gone; CREATE VIEW lost AS SELECT word FROM gone; DROP CORPUS gone",
        )
        .unwrap();
    let context = zipfdb_datafusion::context(&database);
    let error = failure(&context, "SELECT x FROM mixed").await;
    assert!(
        error.contains("view \"mixed\": column \"x\" has texts beside numbers"),
        "{error}"
    );
    let error = failure(&context, "SELECT word FROM lost").await;
    assert!(error.contains("gone"), "{error}");
    // A value that does not fit the type of the first rows is an error where it is read.
    let corpus = database.corpus("pets").unwrap();
    corpus.append_many(&[("c.txt", "w ".repeat(2001))]).unwrap();
    for sql in [
        "SELECT x FROM late",
        "SELECT COUNT(*) FROM late WHERE x > 1",
    ] {
        let error = failure(&context, sql).await;
        assert!(
            error.contains("column \"x\" should be Int64") && error.contains("CAST"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn words_that_are_not_utf8_are_read_through_a_view() {
    let database = pets();
    let context = zipfdb_datafusion::context(&database);
    // Such words are counted, filtered and joined by other columns; only reading one is an error.
    for sql in [
        "SELECT COUNT(*) FROM raw",
        "SELECT file, COUNT(*) FROM raw GROUP BY file",
        "SELECT COUNT(DISTINCT word) FROM raw",
        "SELECT word, file FROM raw WHERE word = 'plain'",
        "SELECT word, COUNT(*) FROM raw WHERE word IN ('plain', 'text') GROUP BY word",
        "SELECT position, length FROM raw",
    ] {
        assert_eq!(through(&context, sql).await, own(&database, sql), "{sql}");
    }
    for sql in [
        "SELECT word FROM raw",
        "SELECT word, COUNT(*) FROM raw GROUP BY word",
    ] {
        let error = failure(&context, sql).await;
        assert!(
            error.contains("column \"word\" has bytes that are not UTF-8"),
            "{sql}: {error}"
        );
        assert!(
            error.contains("CAST(word AS BLOB) AS word, perhaps in a view"),
            "{sql}: {error}"
        );
    }
    database
        .execute_batch(
            "CREATE VIEW bytes AS SELECT CAST(word AS BLOB) AS word, file FROM raw; \
             CREATE VIEW digits AS SELECT hex(word) AS word, COUNT(*) AS n FROM raw GROUP BY word; \
             CREATE VIEW words AS SELECT word FROM raw",
        )
        .unwrap();
    for sql in [
        "SELECT word, file FROM bytes",
        "SELECT word, n FROM digits",
        "SELECT n FROM digits WHERE word = 'FFFE'",
    ] {
        assert_eq!(through(&context, sql).await, own(&database, sql), "{sql}");
    }
    let counted = through(&context, "SELECT word, COUNT(*) FROM bytes GROUP BY word").await;
    assert!(
        counted.contains(&vec!["fffe".into(), "2".into()]),
        "{counted:?}"
    );
    // Texts and BLOBs in one column are bytes.
    let all = through(&context, "SELECT word FROM words").await;
    assert_eq!(all, own(&database, "SELECT CAST(word AS BLOB) FROM raw"));
}
