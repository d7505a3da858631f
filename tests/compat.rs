//! Segments of every released format version: they still open, and the newest is still what is written.
//!
//! `fixtures/vN/` holds what `COPY` left in `segments/` for [`FILES`] in one corpus per tokenizer, imported with one
//! thread, and `word_counts.txt`, the answers of that time. A released fixture never changes. When the format changes,
//! raise [`CURRENT`], add it to [`VERSIONS`] and run
//!
//! ```text
//! ZIPFDB_WRITE_FIXTURES=1 cargo test -p zipfdb --test suite compat
//! ```
//!
//! which writes the fixtures of [`CURRENT`] and of `VIEWS`, and no other. Other bytes under an old version mean that files get written
//! differently than before: grammar, codecs, or the Unicode tables, whose version a segment records. If that is
//! intended and readers of the version still understand it, write the fixture again and say why.
//!
//! The catalog is not part of it: it is rebuilt, which also shows that segments and markers are enough.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Once;

use zipfdb::ingest::{CopyOptions, NoProgress};

use zipfdb::{CorpusSettings, Database, Tokenizer};

/// The version that is written today, and all that are read.
const CURRENT: &str = "v2";
const VERSIONS: [&str; 2] = ["v1", "v2"];

const COUNTS: &str = "word_counts.txt";

const CORPORA: [(&str, Tokenizer); 3] = [
    ("unicode_words", Tokenizer::Unicode),
    ("alnum_words", Tokenizer::Alnum),
    ("whitespace_words", Tokenizer::Whitespace),
];

const SENTENCES: &str = "The cat sat on the mat, and the dog didn't. It's 3.14 o'clock; the cat \
    doesn't mind.\nA word, a gap, and another word: that's all a text is made of.\n\n";

/// Name, a piece of content and how often it is repeated.
const FILES: [(&str, &[u8], usize); 11] = [
    ("cjk.txt", "\u{6771}\u{4eac}\u{306f} \u{4eca}\u{65e5}\u{3082}\u{96e8}\u{3002}\u{30ab}\u{30bf}\u{30ab}\u{30ca} \u{d55c}\u{ad6d}\u{c5b4}\n".as_bytes(), 3),
    ("emoji.txt", "ok \u{1f44d}\u{1f3fd} family \u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467} flag \u{1f1e9}\u{1f1ea} cafe\u{301} na\u{ef}ve\n".as_bytes(), 3),
    ("empty", b"", 1),
    ("english.txt", SENTENCES.as_bytes(), 12),
    ("invalid.bin", b"the cat \xff\xfe sat \xc3 on\xe2\x82 the\x00mat \xf0\x9f\n", 3),
    ("nested/deep/copy.txt", SENTENCES.as_bytes(), 12),
    ("nested/one word.txt", b"word", 1),
    // After a space a vowel sign stands on its own: a word that begins with the space.
    ("nested/sign.txt", "a \u{cca} b \u{cca}  \u{cca}\n".as_bytes(), 3),
    ("spaces.txt", b"  the   cat \t sat\n\n\n \x0b the\xc2\xa0cat ", 4),
    ("unbroken.txt", b"abcabcabc_1234567890-", 40),
    ("windows.txt", b"The cat sat.\r\nThe dog did not.\r\n\r\n", 5),
];

fn content(piece: &[u8], times: usize) -> Vec<u8> {
    piece.repeat(times)
}

/// The database of [`FILES`] as it is written today.
fn import(folder: &Path) -> Database {
    let input = folder.join("in");
    for (name, piece, times) in FILES {
        let path = input.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content(piece, times)).unwrap();
    }
    let database = Database::options()
        .threads(1)
        .open(folder.join("x.zdb"))
        .unwrap();
    for (name, tokenizer) in CORPORA {
        let settings = CorpusSettings {
            tokenizer,
            ..CorpusSettings::default()
        };
        let corpus = database.create_corpus(name, settings).unwrap();
        corpus.copy_from(&input, &CopyOptions::default()).unwrap();
    }
    database
}

/// Segments and markers in a directory by name.
fn segment_files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    let named = entries.map(|entry| {
        let name = entry.file_name().into_string().unwrap();
        (name, fs::read(entry.path()).unwrap())
    });
    named.filter(|(name, _)| name != COUNTS).collect()
}

/// One line per corpus, file and word.
fn word_counts(database: &Database) -> String {
    let mut lines = String::new();
    for (corpus, _) in CORPORA {
        let snapshot = database.corpus(corpus).unwrap().snapshot().unwrap();
        for (file, ..) in FILES {
            for (word, count) in snapshot.words_in(file).unwrap().to_vec() {
                let word = word.escape_ascii();
                writeln!(lines, "{corpus}\t{file}\t{count}\t{word}").unwrap();
            }
        }
    }
    lines
}

/// Words of the corpus are counted as in its files, whether its segments have totals or not.
fn check_totals(database: &Database, corpus: &str) {
    let snapshot = database.corpus(corpus).unwrap().snapshot().unwrap();
    let mut sums: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    for (file, ..) in FILES {
        for (word, count) in snapshot.words_in(file).unwrap().to_vec() {
            *sums.entry(word).or_default() += count;
        }
    }
    let counts: BTreeMap<Vec<u8>, u64> = snapshot.words().unwrap().to_vec().into_iter().collect();
    assert_eq!(counts, sums, "{corpus}");
}

/// Whether to write the fixtures.
fn writes_fixtures() -> bool {
    std::env::var_os("ZIPFDB_WRITE_FIXTURES").is_some_and(|value| value == "1")
}

/// The directory of a version's fixture, written first if that was asked for.
fn fixture(version: &str) -> PathBuf {
    static WRITE: Once = Once::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    WRITE.call_once(|| {
        if !writes_fixtures() {
            return;
        }
        let target = fixtures.join(CURRENT);
        if target.exists() {
            fs::remove_dir_all(&target).unwrap();
        }
        fs::create_dir_all(&target).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let database = import(folder.path());
        fs::write(target.join(COUNTS), word_counts(&database)).unwrap();
        drop(database);
        for (name, bytes) in segment_files(&folder.path().join("x.zdb/segments")) {
            fs::write(target.join(name), bytes).unwrap();
        }
    });
    fixtures.join(version)
}

#[test]
fn every_released_format_still_opens() {
    for version in VERSIONS {
        let fixture = fixture(version);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.zdb");
        fs::create_dir_all(path.join("segments")).unwrap();
        for (name, bytes) in segment_files(&fixture) {
            fs::write(path.join("segments").join(name), bytes).unwrap();
        }

        let database = Database::open(&path).unwrap();
        let warnings = database.warnings();
        assert!(
            matches!(&warnings[..], [only] if only.contains("rebuilt")),
            "{version}: {warnings:?}"
        );
        let mut expected = CORPORA.map(|(name, _)| name);
        expected.sort_unstable();
        let mut corpora = database.corpora();
        corpora.sort_unstable();
        assert_eq!(corpora, expected, "{version}");

        for (name, tokenizer) in CORPORA {
            let corpus = database.corpus(name).unwrap();
            assert_eq!(corpus.settings().unwrap().tokenizer, tokenizer);
            let checks = corpus.check(&NoProgress).unwrap();
            assert_eq!(checks.len(), 1, "{version} {name}");
            assert_eq!(checks[0].problem, None, "{version} {name}");

            let snapshot = corpus.snapshot().unwrap();
            let files = snapshot.files().iter().map(|file| file.name.as_str());
            assert!(files.eq(FILES.map(|(file, ..)| file)), "{version} {name}");
            for (file, piece, times) in FILES {
                let mut found = Vec::new();
                snapshot.write_content(file, &mut found).unwrap();
                let expected = content(piece, times);
                assert_eq!(
                    found.escape_ascii().to_string(),
                    expected.escape_ascii().to_string(),
                    "{version} {name} {file}"
                );
            }
        }

        for (name, _) in CORPORA {
            check_totals(&database, name);
        }
        let expected = fs::read_to_string(fixture.join(COUNTS)).unwrap();
        let found = word_counts(&database);
        assert!(
            found.lines().eq(expected.lines()),
            "{version}: words are counted differently:\n{found}"
        );
    }
}

/// The views of `fixtures/views/v1`.
const VIEWS: [(&str, &str); 2] = [
    (
        "cats",
        "SELECT file, COUNT(*) AS n FROM unicode_words WHERE word = 'cat' GROUP BY file",
    ),
    ("\u{e9}t\u{e9}", "SELECT '\u{e9}t\u{e9}' AS word"),
];

#[test]
fn views_of_the_released_format_are_read_and_written_the_same() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/views/v1");
    let folder = tempfile::tempdir().unwrap();
    let database = import(folder.path());
    for (name, sql) in VIEWS {
        database
            .execute_batch(&format!("CREATE VIEW \"{name}\" AS {sql}"))
            .unwrap();
    }
    drop(database);
    let path = folder.path().join("x.zdb");
    if writes_fixtures() {
        fs::create_dir_all(fixture.parent().unwrap()).unwrap();
        fs::copy(path.join("VIEWS"), &fixture).unwrap();
    }
    let expected = fs::read(&fixture).unwrap();
    let written = fs::read(path.join("VIEWS")).unwrap();
    assert_eq!(
        written.escape_ascii().to_string(),
        expected.escape_ascii().to_string()
    );

    fs::write(path.join("VIEWS"), expected).unwrap();
    let database = Database::open(&path).unwrap();
    for (name, sql) in VIEWS {
        let rows = |sql: &str| -> Vec<String> {
            let rows = database.query(sql, ()).unwrap();
            rows.map(|row| format!("{:?}", row.unwrap().values()))
                .collect()
        };
        let found = rows(&format!("SELECT * FROM \"{name}\""));
        assert!(!found.is_empty());
        assert_eq!(found, rows(sql), "{name}");
    }
}

#[test]
fn the_writer_still_writes_the_same_bytes() {
    let expected = segment_files(&fixture(CURRENT));
    let folder = tempfile::tempdir().unwrap();
    drop(import(folder.path()));
    let written = segment_files(&folder.path().join("x.zdb/segments"));
    assert!(written.keys().eq(expected.keys()), "{:?}", written.keys());
    for (name, bytes) in written {
        let expected = &expected[&name];
        let differs = bytes.iter().zip(expected).position(|(new, old)| new != old);
        assert!(
            bytes == *expected,
            "{name} differs from {CURRENT}: {} bytes, not {}, first different byte: {differs:?}",
            bytes.len(),
            expected.len(),
        );
    }
}

/// Statements that leave a segment with metadata, and a column that was dropped.
const METADATA: &str = "
    CREATE CORPUS posts (gone TEXT, author TEXT, likes INTEGER, rating REAL, is_open BOOLEAN, day DATE, at TIMESTAMP);
    INSERT INTO posts (file, content, author, likes, rating, is_open, day, at) VALUES
        ('a', 'the cat', 'Ann', -3, 0.5, TRUE, '2020-02-29', '1969-12-31 23:59:59.25'),
        ('b', 'the dog', NULL, 9223372036854775807, NULL, FALSE, NULL, '2020-02-29'),
        ('c', 'a cat', 'Bob', NULL, -1, NULL, '1900-01-01', NULL);
    ALTER CORPUS posts DROP COLUMN gone;
    RECOMPRESS posts";

#[test]
fn metadata_of_the_released_format_is_read_and_written_the_same() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v4");
    let rows = |database: &Database| -> Vec<String> {
        let sql = "SELECT * FROM files('posts') WHERE is_open OR likes IS NULL ORDER BY file";
        let rows = database.query(sql, ()).unwrap();
        rows.map(|row| format!("{:?}", row.unwrap())).collect()
    };
    let folder = tempfile::tempdir().unwrap();
    let options = Database::options().threads(1);
    let database = options.open(folder.path().join("x.zdb")).unwrap();
    database.execute_batch(METADATA).unwrap();
    let expected_rows = rows(&database);
    assert_eq!(expected_rows.len(), 2);
    drop(database);
    let written = segment_files(&folder.path().join("x.zdb/segments"));
    if writes_fixtures() {
        fs::create_dir_all(&fixture).unwrap();
        for (name, bytes) in &written {
            fs::write(fixture.join(name), bytes).unwrap();
        }
    }
    let expected = segment_files(&fixture);
    assert!(!expected.is_empty());
    assert!(written == expected, "other bytes than those of version 4");

    let path = folder.path().join("y.zdb");
    fs::create_dir_all(path.join("segments")).unwrap();
    for (name, bytes) in expected {
        fs::write(path.join("segments").join(name), bytes).unwrap();
    }
    let database = Database::open(&path).unwrap();
    assert_eq!(rows(&database), expected_rows);
    let checks = database.corpus("posts").unwrap().check(&NoProgress);
    assert_eq!(checks.unwrap()[0].problem, None);
}
