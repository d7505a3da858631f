//! Fields of records that COPY puts into declared columns: their types, what does not fit, new columns, and what is written and read
//! back with random columns.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;
use zipfdb::{Database, Value};

/// A folder with files, and a database.
struct Import {
    folder: TempDir,
    database: Database,
}

impl Import {
    fn new(columns: &str, files: &[(&str, &str)]) -> Import {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            fs::write(folder.path().join(name), content).unwrap();
        }
        let database = Database::in_memory().unwrap();
        let columns = if columns.is_empty() {
            String::new()
        } else {
            format!("({columns})")
        };
        let create = format!("CREATE CORPUS c {columns}");
        database.execute_batch(&create).unwrap();
        Import { folder, database }
    }

    /// Imports, and returns notices.
    fn copy(&self, name: &str, with: &str) -> Result<Vec<String>, String> {
        let path = self.folder.path().join(name);
        let with = if with.is_empty() {
            String::new()
        } else {
            format!("WITH ({with})")
        };
        let sql = format!("COPY c FROM '{}' {with}", path.display());
        let rows = self.database.query(&sql, ());
        let rows = rows.map_err(|error| self.without_folder(&error.to_string()))?;
        let notices = rows.notices().iter();
        Ok(notices
            .map(|notice| self.without_folder(&notice.to_string()))
            .collect())
    }

    fn without_folder(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.folder.path().display()), "")
    }

    /// The rows of a query, values as SQL writes them.
    fn rows(&self, sql: &str) -> Vec<String> {
        let rows = self.database.query(sql, ()).unwrap();
        rows.map(|row| self.without_folder(&shown(row.unwrap().values())))
            .collect()
    }
}

fn shown(values: &[Value]) -> String {
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    values.join(" ")
}

const TYPED: &str =
    "author TEXT, day DATE, at TIMESTAMP, likes INTEGER, rating REAL, is_new BOOLEAN";
const ALL: &str =
    "SELECT file, author, day, at, likes, rating, is_new FROM files('c') ORDER BY file";

#[test]
fn fields_stand_in_columns_of_their_names() {
    let lines = concat!(
        "{\"file\":\"a\",\"text\":\"x\",\"Author\":\"Ann\",\"day\":\"2024-01-31\",\"at\":\"2024-01-31T10:00:00Z\",",
        "\"likes\":3,\"rating\":0.1,\"is_new\":true,\"other\":1}\n",
        "{\"file\":\"b\",\"text\":\"x\",\"author\":7,\"likes\":\"12\",\"rating\":4,\"is_new\":0}\n",
        "{\"file\":\"c\",\"text\":\"x\",\"author\":null}\n",
    );
    let csv = "file,text,likes,author,is_new,rating,day\nd,x,5,,true,1e999,1999-12-31\n";
    let log = "e 2024-02-03 17 GET\n";
    let import = Import::new(TYPED, &[("x.jsonl", lines), ("x.csv", csv), ("x.log", log)]);
    let notices = import.copy("x.jsonl", "").unwrap();
    let left = "fields of 1 records were left out, as the corpus has no columns for them: other; \
                hint: create_columns = true makes columns for fields of records";
    assert_eq!(notices, [left]);
    import.copy("x.csv", "").unwrap();
    let fields = "(?<file>\\S+) (?<day>\\S+) (?<likes>\\d+) (?<author>\\S+)(?<rating>x)?";
    let with = format!("records = 'line', name = 'file', fields = '{fields}'");
    import.copy("x.log", &with).unwrap();
    assert_eq!(
        import.rows(ALL),
        [
            "'a' 'Ann' '2024-01-31' '2024-01-31 10:00:00' 3 0.1 1",
            "'b' '7' NULL NULL 12 4.0 0",
            "'c' NULL NULL NULL NULL NULL NULL",
            "'d' NULL '1999-12-31' NULL 5 inf 1",
            "'e' 'GET' '2024-02-03' NULL 17 NULL NULL",
        ]
    );
    // Conditions on them, and segments that are made again.
    let likes = "SELECT file FROM files('c') WHERE likes > 4 ORDER BY file";
    assert_eq!(import.rows(likes), ["'b'", "'d'", "'e'"]);
    let before = import.rows(ALL);
    import.database.execute_batch("RECOMPRESS c").unwrap();
    assert_eq!(import.rows(ALL), before);
}

#[test]
fn headers_of_messages_and_web_pages_are_fields() {
    let mail = "From x\nFrom: Ann <a@b.c>\nSubject: Hello\nDate: Tue, 2 Jan 2024 03:04:05 +0100\n\nText.\n";
    let page = "WARC/1.0\r\nWARC-Type: resource\r\nWARC-Target-URI: http://x/\r\nWARC-Date: 2024-01-02T03:04:05Z\r\n\
                Content-Length: 3\r\n\r\nabc\r\n\r\n";
    let columns = "author TEXT, subject TEXT, date TIMESTAMP, uri TEXT";
    let import = Import::new(columns, &[("x.mbox", mail), ("x.warc", page)]);
    import.copy("x.mbox", "").unwrap();
    import.copy("x.warc", "").unwrap();
    assert_eq!(
        import.rows("SELECT author, subject, date, uri FROM files('c') ORDER BY file"),
        [
            "'Ann <a@b.c>' 'Hello' '2024-01-02 02:04:05' NULL",
            "NULL NULL '2024-01-02 03:04:05' 'http://x/'",
        ]
    );
}

#[test]
fn values_that_do_not_fit_are_errors_or_rejects_with_their_place() {
    let lines = concat!(
        "{\"file\":\"a\",\"text\":\"x\",\"likes\":1}\n",
        "{\"file\":\"b\",\"text\":\"y\",\"likes\":\"many\"}\n",
        "{\"file\":\"c\",\"text\":\"z\",\"likes\":2.5}\n",
        "{\"file\":\"d\",\"text\":\"z\",\"likes\":4,\"Likes\":4}\n",
        "{\"file\":\"e\",\"text\":\"z\",\"day\":\"31.1.2024\"}\n",
        "{\"file\":\"f\",\"text\":\"z\",\"likes\":6}\n",
        "{\"file\":\"g\",\"text\":,}\n",
    );
    let import = Import::new("likes INTEGER, day DATE", &[("x.jsonl", lines)]);
    let error = import.copy("x.jsonl", "").unwrap_err();
    let expected = "x.jsonl: line 2: likes: \"many\" cannot stand in a column of INTEGER";
    assert!(error.contains(expected), "{error}");
    assert_eq!(import.rows("SELECT COUNT(*) FROM files('c')"), ["0"]);
    assert_eq!(import.rows("SELECT COUNT(*) FROM rejects()"), ["0"]);
    import.copy("x.jsonl", "on_error = 'skip'").unwrap();
    let rejects = "SELECT file, line, \"column\", error FROM rejects() ORDER BY line";
    let expected = [
        "'x.jsonl' 2 NULL 'likes: \"many\" cannot stand in a column of INTEGER'",
        "'x.jsonl' 3 NULL 'likes: 2.5 cannot stand in a column of INTEGER'",
        "'x.jsonl' 4 NULL 'it has several fields for the column \"Likes\"'",
        "'x.jsonl' 5 NULL 'day: \"31.1.2024\" cannot stand in a column of DATE; hint: a date is written as `YYYY-MM-DD`'",
        "'x.jsonl' 7 20 'it is no JSON object: expected value'",
    ];
    assert_eq!(import.rows(rejects), expected);
    let kept = "SELECT file, likes FROM files('c') ORDER BY file";
    assert_eq!(import.rows(kept), ["'a' 1", "'f' 6"]);
    let found = import.database.rejects();
    assert_eq!((found.len(), found[4].line, found[4].column), (5, 7, 20));
    // Another session has imported nothing; the next import of this one forgets them.
    let other = import.database.session();
    assert!(other.rejects().is_empty());
    fs::write(import.folder.path().join("more.jsonl"), "").unwrap();
    import.copy("more.jsonl", "on_error = 'skip'").unwrap();
    assert_eq!(import.rows(rejects), [""; 0]);
}

#[test]
fn new_columns_have_types_of_their_values() {
    let lines = concat!(
        "{\"file\":\"a\",\"text\":\"x\",\"n\":1,\"r\":1,\"day\":\"2024-01-31\",\"id\":\"007\",\"mixed\":true,\"none\":null,\"words\":2}\n",
        "{\"file\":\"b\",\"text\":\"x\",\"n\":-2,\"r\":0.5,\"day\":\"2024-02-01\",\"is_new\":false,\"mixed\":4}\n",
    );
    let csv = "text,n,r,is_new,day\nx,3,1.50,true,2024-03-01\n";
    let import = Import::new(
        "",
        &[("x.jsonl", lines), ("x.csv", csv), ("bad.jsonl", "{}\n")],
    );
    let notices = import.copy("x.jsonl", "create_columns = true").unwrap();
    // A name that every relation has.
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(
        notices[0].contains("no columns for them: words"),
        "{notices:?}"
    );
    let columns = |import: &Import| {
        let settings = import.database.corpus("c").unwrap().settings().unwrap();
        let columns = settings.metadata.columns().iter();
        let shown = columns.map(|column| format!("{} {}", column.name, column.kind.name()));
        shown.collect::<Vec<String>>().join(", ")
    };
    let made = "n INTEGER, r REAL, day DATE, id TEXT, mixed TEXT, none TEXT, is_new BOOLEAN";
    assert_eq!(columns(&import), made);
    import.copy("x.csv", "create_columns = 'on'").unwrap();
    assert_eq!(columns(&import), made);
    assert_eq!(
        import.rows("SELECT n, r, day, id, mixed, none, is_new FROM files('c') ORDER BY file"),
        [
            "1 1.0 '2024-01-31' '007' 'true' NULL NULL",
            "-2 0.5 '2024-02-01' NULL '4' NULL 0",
            "3 1.5 '2024-03-01' NULL NULL NULL 1",
        ]
    );
    // Nothing is left of an import that fails.
    fs::write(
        import.folder.path().join("y.jsonl"),
        "{\"file\":\"a\",\"text\":\"\",\"new\":1}\n",
    )
    .unwrap();
    import.copy("y.jsonl", "create_columns = true").unwrap_err();
    assert_eq!(columns(&import), made);
    let error = import
        .copy("x.csv", "create_columns = 'maybe'")
        .unwrap_err();
    assert!(error.contains("true or false"), "{error}");
}

#[test]
fn an_import_that_is_resumed_or_replaces_files_sets_what_its_records_have() {
    let first = "{\"file\":\"a\",\"text\":\"one\",\"likes\":1,\"author\":\"Ann\"}\n";
    let second = format!("{first}{{\"file\":\"b\",\"text\":\"two\",\"likes\":2}}\n");
    let third = "{\"file\":\"a\",\"text\":\"new\",\"likes\":10}\n{\"file\":\"b\",\"text\":\"two\",\"author\":null}\n";
    let files = [
        ("1.jsonl", first),
        ("2.jsonl", &*second),
        ("3.jsonl", third),
    ];
    let import = Import::new("likes INTEGER, author TEXT", &files);
    let rows = || {
        import
            .rows("SELECT file, CAST(content AS TEXT), likes, author FROM files('c') ORDER BY file")
    };
    import.copy("1.jsonl", "").unwrap();
    import.copy("2.jsonl", "on_conflict = 'skip'").unwrap();
    assert_eq!(rows(), ["'a' 'one' 1 'Ann'", "'b' 'two' 2 NULL"]);
    let update = "UPDATE c SET author = 'Bob' WHERE file = 'b'";
    import.database.execute_batch(update).unwrap();
    // The same once more: everything is there.
    import.copy("2.jsonl", "on_conflict = 'skip'").unwrap();
    assert_eq!(rows(), ["'a' 'one' 1 'Ann'", "'b' 'two' 2 'Bob'"]);
    import.copy("3.jsonl", "on_conflict = 'replace'").unwrap();
    assert_eq!(rows(), ["'a' 'new' 10 'Ann'", "'b' 'two' 2 NULL"]);
}

/// The forms in which files are written with their metadata.
const TARGETS: [&str; 5] = ["x.jsonl", "x.json.gz", "x.csv", "x.tsv", "x.csv.zst"];

fn check_round_trip(kinds: &[&str], files: &[(String, Vec<Option<Value>>)]) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::in_memory().unwrap();
    let columns = kinds.iter().enumerate();
    let columns: Vec<String> = columns
        .map(|(number, kind)| format!("\"x \"\"{number}\" {kind}"))
        .collect();
    let columns = match &columns[..] {
        [] => String::new(),
        columns => format!("({})", columns.join(", ")),
    };
    let create = |corpus: &str| {
        let sql = format!("CREATE CORPUS {corpus} {columns}");
        database.execute_batch(&sql).unwrap();
    };
    create("c");
    let corpus = database.corpus("c").unwrap();
    let records: Vec<zipfdb::Record> = (files.iter())
        .map(|(name, values)| {
            let record = zipfdb::Record::new(format!("text of {name}")).named(name.clone());
            let values = values.iter().enumerate().take(kinds.len());
            values.fold(record, |record, (number, value)| match value {
                Some(value) => record.with(format!("x \"{number}"), value.clone()),
                None => record,
            })
        })
        .collect();
    corpus.append_records(&records).unwrap();
    let all = |corpus: &str| -> Vec<String> {
        let rows = database.query(
            &format!("SELECT * FROM files('{corpus}') ORDER BY file"),
            (),
        );
        rows.unwrap()
            .map(|row| shown(row.unwrap().values()))
            .collect()
    };
    for (number, target) in TARGETS.into_iter().enumerate() {
        let path = folder.path().join(target);
        let again = format!("again{number}");
        create(&again);
        let copy = |sql: String| database.execute_batch(&sql).unwrap();
        copy(format!("COPY c TO '{}'", path.display()));
        copy(format!(
            "COPY {again} FROM '{}'",
            Path::new(&path).display()
        ));
        assert_eq!(all(&again), all("c"), "{target}");
    }
}

/// A type with values that it holds.
fn values_of(kind: &'static str) -> BoxedStrategy<Value> {
    match kind {
        "TEXT" => "[a-z0-9\"'\\\\,\t\n .N-]{0,6}"
            .prop_map(Value::Text)
            .boxed(),
        "INTEGER" => any::<i64>().prop_map(Value::Integer).boxed(),
        "REAL" => (any::<f64>())
            .prop_filter("a number", |real| !real.is_nan())
            .prop_map(Value::Real)
            .boxed(),
        "BOOLEAN" => (0..2_i64).prop_map(Value::Integer).boxed(),
        "DATE" => (0..=9999_u32, 1..=12_u32, 1..=28_u32)
            .prop_map(|(year, month, day)| Value::Text(format!("{year:04}-{month:02}-{day:02}")))
            .boxed(),
        _ => (1..=28_u32, 0..24_u32, 1..1_000_000_u32)
            .prop_map(|(day, hour, rest)| {
                Value::Text(format!("1969-12-{day:02} {hour:02}:59:01.{rest:06}"))
            })
            .boxed(),
    }
}

/// The name of a file, and a value or none for each column.
type FileValues = (String, Vec<Option<Value>>);

/// Types of columns, and files with a value or none for each.
fn corpora() -> impl Strategy<Value = (Vec<&'static str>, Vec<FileValues>)> {
    let kinds = ["TEXT", "INTEGER", "REAL", "BOOLEAN", "DATE", "TIMESTAMP"];
    let kinds = proptest::collection::vec(proptest::sample::select(kinds.to_vec()), 0..5);
    kinds.prop_flat_map(|kinds| {
        let values: Vec<BoxedStrategy<Option<Value>>> = (kinds.iter())
            .map(|kind| proptest::option::of(values_of(kind)).boxed())
            .collect();
        let files = proptest::collection::btree_map("[a-z\"]{1,3}", values, 0..5);
        (
            Just(kinds),
            files.prop_map(|files| files.into_iter().collect()),
        )
    })
}

#[test]
fn tables_are_refused_without_their_feature_and_else_read_back() {
    let lines = concat!(
        "{\"file\":\"a\",\"text\":\"x\",\"day\":\"2024-01-31\",\"likes\":3,\"is_new\":true,\"at\":\"2024-01-31 10:00:00.5\"}\n",
        "{\"file\":\"b\",\"text\":{\"hex\":\"ff\"},\"author\":\"Ann\",\"rating\":0.1}\n",
    );
    let import = Import::new(TYPED, &[("x.jsonl", lines)]);
    import.copy("x.jsonl", "").unwrap();
    let before = import.rows(ALL);
    for name in ["x.parquet", "x.arrow"] {
        let path = import.folder.path().join(name);
        let sql = format!("COPY c TO '{}'", path.display());
        if let Err(error) = import.database.execute_batch(&sql) {
            assert!(error.to_string().contains("needs the feature `"), "{error}");
            assert!(!path.exists());
            continue;
        }
        import
            .database
            .execute_batch("DELETE FROM c WHERE TRUE")
            .unwrap();
        import.copy(name, "").unwrap();
        assert_eq!(import.rows(ALL), before, "{name}");
        let sql = format!(
            "COPY (SELECT file AS id, likes + 1 AS n, 'text' AS content FROM files('c')) TO '{}'",
            path.display()
        );
        import.database.execute_batch(&sql).unwrap();
        import
            .database
            .execute_batch("DELETE FROM c WHERE TRUE")
            .unwrap();
        import
            .copy(name, "name = 'id', create_columns = true")
            .unwrap();
        let again = "SELECT file, CAST(content AS TEXT), n FROM files('c') ORDER BY file";
        assert_eq!(
            import.rows(again),
            ["'a' 'text' 4", "'b' 'text' NULL"],
            "{name}"
        );
        import
            .database
            .execute_batch("DELETE FROM c WHERE TRUE")
            .unwrap();
        import.copy("x.jsonl", "").unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_corpus_with_metadata_is_written_and_read_back((kinds, files) in corpora()) {
        check_round_trip(&kinds, &files);
    }
}
