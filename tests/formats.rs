//! Imports of compressed files, archives and files of records, and files that are written for them.

use std::fs;
use std::io::Write;
use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;
use zipfdb::{Database, Value};
use zipfdb_formats::{Compression, Compressor, TarWriter};

/// The names and contents of a corpus, in order of name.
fn contents(database: &Database, corpus: &str) -> Vec<(String, Vec<u8>)> {
    let sql = format!("SELECT file, content FROM files('{corpus}') ORDER BY file");
    let rows = database.query(&sql, ()).unwrap();
    rows.map(|row| match row.unwrap().values() {
        [Value::Text(file), Value::Text(content)] => {
            (file.to_string(), content.as_bytes().to_vec())
        }
        [Value::Text(file), Value::Blob(content)] => (file.to_string(), content.to_vec()),
        other => panic!("{other:?}"),
    })
    .collect()
}

fn named(names: &[(&str, &str)]) -> Vec<(String, Vec<u8>)> {
    let names = names.iter();
    names
        .map(|(name, text)| (name.to_string(), text.as_bytes().to_vec()))
        .collect()
}

/// Imports into a corpus of its own. Returns the notices.
fn copy(database: &Database, corpus: &str, path: &Path, with: &str) -> Result<Vec<String>, String> {
    let create = format!("CREATE CORPUS IF NOT EXISTS {corpus}");
    database.execute_batch(&create).unwrap();
    let with = match with {
        "" => String::new(),
        with => format!("WITH ({with})"),
    };
    let sql = format!("COPY {corpus} FROM '{}' {with}", path.display());
    let rows = database.query(&sql, ());
    let rows = rows.map_err(|error| error.to_string())?;
    let top = format!("{}/", path.parent().unwrap().display());
    let notices = rows.notices().iter();
    Ok(notices
        .map(|notice| notice.to_string().replace(&top, ""))
        .collect())
}

fn compressed(compression: Compression, bytes: &[u8]) -> Vec<u8> {
    let mut writer = Compressor::new(compression, Vec::new()).unwrap().unwrap();
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = TarWriter::new(Vec::new()).unwrap();
    for (name, content) in files {
        writer
            .begin_file(name.as_bytes(), content.len() as u64)
            .unwrap();
        writer.target().write_all(content).unwrap();
        writer.end_file(content.len() as u64).unwrap();
    }
    writer.finish().unwrap()
}

struct Fixture {
    folder: TempDir,
    database: Database,
}

impl Fixture {
    fn new(files: &[(&str, &[u8])]) -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        Fixture {
            folder,
            database: Database::in_memory().unwrap(),
        }
    }

    fn copy(&self, corpus: &str, path: &str, with: &str) -> Result<Vec<String>, String> {
        copy(&self.database, corpus, &self.folder.path().join(path), with)
    }

    fn contents(&self, corpus: &str) -> Vec<(String, Vec<u8>)> {
        contents(&self.database, corpus)
    }
}

const POSTS: &[u8] = b"{\"file\":\"b\",\"text\":\"the dog\",\"likes\":3}\n{\"file\":\"a/x\",\"text\":\"the cat\",\"day\":\"2024-01-01\"}\n";

#[test]
fn a_path_that_names_a_format_is_unpacked_and_cut_into_records() {
    let lines = compressed(Compression::Zstd, POSTS);
    let csv = compressed(Compression::Gzip, b"id,body\n7,one\n8,\"two, three\"\n");
    let fixture = Fixture::new(&[
        ("posts.jsonl.zst", &lines),
        ("rows.csv.gz", &csv),
        ("dir/1.txt.gz", &compressed(Compression::Gzip, b"first")),
        ("dir/2.txt.gz", &compressed(Compression::Gzip, b"second")),
        ("dir/3.json", b"{\"a\":1}"),
    ]);
    let notices = fixture.copy("posts", "posts.jsonl.zst", "").unwrap();
    assert_eq!(
        fixture.contents("posts"),
        named(&[("a/x", "the cat"), ("b", "the dog")])
    );
    assert_eq!(
        notices,
        [
            "fields of 1 records were left out, as the corpus has no columns for them: day, likes; \
             hint: create_columns = true makes columns for fields of records"
        ]
    );
    let counts = fixture
        .database
        .query("SELECT COUNT(*) FROM posts WHERE word = 'the'", ());
    let row = counts.unwrap().next().unwrap().unwrap();
    assert_eq!(row.values(), [Value::Integer(2)]);
    fixture
        .copy("rows", "rows.csv.gz", "text = 'body', name = 'id'")
        .unwrap();
    assert_eq!(
        fixture.contents("rows"),
        named(&[("7", "one"), ("8", "two, three")])
    );
    fixture.copy("globbed", "dir/*.gz", "").unwrap();
    assert_eq!(
        fixture.contents("globbed"),
        named(&[("1.txt", "first"), ("2.txt", "second")])
    );
    // A directory is copied as it is, unless a format is given.
    let notices = fixture.copy("plain", "dir", "").unwrap();
    assert_eq!(fixture.contents("plain").len(), 3);
    assert!(
        notices[0].ends_with("hint: COPY ... WITH (format = 'auto') unpacks them"),
        "{notices:?}"
    );
    fixture.copy("unpacked", "dir", "format = 'text'").unwrap();
    let expected = [
        ("1.txt", "first"),
        ("2.txt", "second"),
        ("3.json", "{\"a\":1}"),
    ];
    assert_eq!(fixture.contents("unpacked"), named(&expected));
    fixture
        .copy("bytes", "dir/1.txt.gz", "format = 'bytes'")
        .unwrap();
    assert_eq!(fixture.contents("bytes")[0].0, "1.txt.gz");
    let error = fixture.copy("plain", "dir", "text = 'body'").unwrap_err();
    assert!(error.contains("hint: format = 'auto'"), "{error}");
}

#[test]
fn nothing_is_copied_if_a_record_cannot_be_read_and_all_others_if_it_is_skipped() {
    let lines = b"{\"text\":\"one\"}\n{\"text\":}\n{\"text\":\"three\"}\n{\"file\":\"../x\",\"text\":\"\"}\n";
    let cut = compressed(Compression::Gzip, POSTS);
    let fixture = Fixture::new(&[
        ("x.jsonl", lines),
        ("in/a.txt", b"plain"),
        ("in/cut.jsonl.gz", &cut[..cut.len() - 4]),
        ("in/x.tar", &tar(&[("y.jsonl", lines), ("z.txt", b"z")])),
    ]);
    let error = fixture.copy("c", "x.jsonl", "").unwrap_err();
    assert!(
        error.contains("x.jsonl: line 2, column 9: it is no JSON object"),
        "{error}"
    );
    assert_eq!(fixture.contents("c"), []);
    fixture.copy("c", "x.jsonl", "on_error = 'skip'").unwrap();
    let expected = [("x.jsonl/000000001", "one"), ("x.jsonl/000000003", "three")];
    assert_eq!(fixture.contents("c"), named(&expected));
    let corpus = fixture
        .database
        .create_corpus("report", Default::default())
        .unwrap();
    let records = zipfdb::ingest::RecordOptions {
        format: Some("auto".to_owned()),
        ..zipfdb::ingest::RecordOptions::NONE
    };
    let options = zipfdb::ingest::CopyOptions {
        on_error: zipfdb::ingest::OnError::Skip,
        records: &records,
        ..Default::default()
    };
    let report = corpus
        .copy_from(fixture.folder.path().join("in"), &options)
        .unwrap();
    let unreadable: Vec<String> = (report.unreadable.iter())
        .map(|left| {
            let path = left
                .path
                .strip_prefix(fixture.folder.path().join("in"))
                .unwrap();
            let reason = left.reason.split("; hint").next().unwrap();
            let (line, column) = (left.line, left.column);
            format!("{} {line} {column}: {reason}", path.display())
        })
        .collect();
    let fault = "it is no JSON object: expected value";
    assert_eq!(
        unreadable,
        [
            "cut.jsonl.gz 3 0: it ends too early".to_owned(),
            format!("x.tar/y.jsonl 2 9: {fault}"),
            "x.tar/y.jsonl 4 0: file name \"../x\": it is no relative path".to_owned(),
        ]
    );
    let names: Vec<String> = fixture
        .contents("report")
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(
        names,
        [
            "a.txt",
            "a/x",
            "b",
            "y.jsonl/000000001",
            "y.jsonl/000000003",
            "z.txt"
        ]
    );
}

#[test]
fn records_of_names_that_exist_are_conflicts_and_an_import_goes_on_where_it_ended() {
    let more = [POSTS, b"{\"file\":\"c\",\"text\":\"new\"}\n"].concat();
    let other = b"{\"file\":\"b\",\"text\":\"other\"}\n";
    let fixture = Fixture::new(&[
        ("1.jsonl", POSTS),
        ("2.jsonl", &more),
        ("3.jsonl", other),
        ("4.jsonl", &[other, POSTS].concat()),
    ]);
    fixture.copy("c", "1.jsonl", "").unwrap();
    let error = fixture.copy("c", "2.jsonl", "").unwrap_err();
    assert!(error.contains("a/x"), "{error}");
    fixture
        .copy("c", "2.jsonl", "on_conflict = 'skip'")
        .unwrap();
    assert_eq!(fixture.contents("c").len(), 3);
    assert_eq!(fixture.contents("c")[1].1, b"the dog");
    fixture
        .copy("c", "3.jsonl", "on_conflict = 'replace'")
        .unwrap();
    assert_eq!(fixture.contents("c")[1].1, b"other");
    // A name that stands twice in the records.
    let error = fixture.copy("d", "4.jsonl", "").unwrap_err();
    assert!(error.contains("it has the name \"b\""), "{error}");
    assert_eq!(fixture.contents("d"), []);
}

#[test]
fn logs_encodings_and_tags_are_read_by_options() {
    let latin = b"text\ncaf\xe9\n";
    let fixture = Fixture::new(&[
        ("access.log", b"h1 GET\nh2 PUT\n"),
        ("latin.csv", latin),
        ("page.html", b"<p>a <b>b</b></p>"),
        ("two.txt", b"one\ntwo\n\nthree\n"),
    ]);
    let notices = fixture
        .copy(
            "log",
            "access.log",
            "records = 'line', fields = '(?<host>\\S+) (?<verb>\\S+)', name = 'host'",
        )
        .unwrap();
    assert_eq!(
        fixture.contents("log"),
        named(&[("h1", "h1 GET"), ("h2", "h2 PUT")])
    );
    assert_eq!(notices.len(), 1);
    fixture
        .copy("latin", "latin.csv", "encoding = 'latin-1'")
        .unwrap();
    assert_eq!(
        fixture.contents("latin"),
        named(&[("latin.csv/000000001", "caf\u{e9}")])
    );
    fixture.copy("page", "page.html", "strip = 'tags'").unwrap();
    assert_eq!(
        fixture.contents("page"),
        named(&[("page.html", "   a    b        ")])
    );
    fixture
        .copy("parts", "two.txt", "records = 'paragraph'")
        .unwrap();
    assert_eq!(fixture.contents("parts").len(), 2);
    let error = fixture
        .copy("e", "access.log", "records = 'line', fields = '(?<a>'")
        .unwrap_err();
    assert!(error.contains("option fields: "), "{error}");
    let small = "format = 'auto', unpack_limit = '1KiB'";
    fs::write(
        fixture.folder.path().join("big.gz"),
        compressed(Compression::Gzip, &[b'x'; 2000]),
    )
    .unwrap();
    let error = fixture.copy("e", "big.gz", small).unwrap_err();
    assert!(
        error.contains("it unpacks to more than 1024 bytes"),
        "{error}"
    );
}

#[test]
fn large_texts_are_unpacked_without_a_change() {
    let text = "some words and then some more of them\n".repeat(100_000);
    let other = "another text of other words\n".repeat(50_000);
    let archive = tar(&[("a", text.as_bytes()), ("b", b""), ("c", other.as_bytes())]);
    let fixture = Fixture::new(&[("x.tar.gz", &compressed(Compression::Gzip, &archive))]);
    fixture.copy("c", "x.tar.gz", "").unwrap();
    assert_eq!(
        fixture.contents("c"),
        named(&[("a", &text), ("b", ""), ("c", &other)])
    );
}

#[test]
fn rows_are_written_compressed_and_read_back() {
    let fixture = Fixture::new(&[("posts.jsonl", POSTS)]);
    fixture.copy("c", "posts.jsonl", "").unwrap();
    for (number, name) in ["x.csv.gz", "x.jsonl.zst", "x.tsv", "x.json.GZ"]
        .into_iter()
        .enumerate()
    {
        let path = fixture.folder.path().join(name);
        let sql = format!(
            "COPY (SELECT file, content FROM files('c')) TO '{}'",
            path.display()
        );
        fixture.database.execute_batch(&sql).unwrap();
        let corpus = format!("again{number}");
        assert_eq!(fixture.copy(&corpus, name, ""), Ok(vec![]), "{name}");
        assert_eq!(fixture.contents(&corpus), fixture.contents("c"), "{name}");
    }
    let plain = fs::read(fixture.folder.path().join("x.tsv")).unwrap();
    assert_eq!(plain, b"file\tcontent\na/x\tthe cat\nb\tthe dog\n");
}

/// The forms in which all files of a corpus are written.
const TARGETS: [&str; 9] = [
    "dir",
    "x.tar",
    "x.tar.zst",
    "x.tgz",
    "x.jsonl",
    "x.json.gz",
    "x.csv",
    "x.tsv.zst",
    "x.csv.gz",
];

fn check_round_trip(files: &[(String, Vec<u8>)]) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::in_memory().unwrap();
    let corpus = database.create_corpus("c", Default::default()).unwrap();
    for (name, content) in files {
        corpus.replace(name, content).unwrap();
    }
    let expected = contents(&database, "c");
    for (number, target) in TARGETS.into_iter().enumerate() {
        let path = folder.path().join(target);
        database
            .execute_batch(&format!("COPY c TO '{}'", path.display()))
            .unwrap();
        let again = format!("again{number}");
        copy(&database, &again, &path, "").unwrap();
        assert_eq!(contents(&database, &again), expected, "{target}");
    }
}

#[test]
fn a_corpus_is_written_in_each_form_and_read_back() {
    let long = format!("{}end", "deep/".repeat(60));
    let files: Vec<(String, Vec<u8>)> = [
        ("a.csv", &b"x,y\n1,2\n"[..]),
        ("b.gz", b"\x1f\x8b\x08\0no gzip"),
        ("c\nd \\x41 \u{e4}\"'", b"caf\xe9\0"),
        ("d\\xe9/n\\x41\\x5cxff", b"escaped"),
        ("empty", b""),
        ("file,content", b"\\N\t\"quoted\", X'00'\r\n\r"),
        ("hex", b"X'00ff'"),
        (&long, b"<p>a</p>\n\n"),
    ]
    .map(|(name, content)| (name.to_owned(), content.to_vec()))
    .into();
    check_round_trip(&files);
    check_round_trip(&[]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn any_corpus_is_written_in_each_form_and_read_back(
        files in proptest::collection::btree_map("[a-z\"\\\\\t]{1,3}", proptest::collection::vec(any::<u8>(), 0..40), 0..6)
    ) {
        let files: Vec<(String, Vec<u8>)> = files.into_iter().collect();
        check_round_trip(&files);
    }
}
