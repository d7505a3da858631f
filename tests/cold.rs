//! First questions of a database that was just opened: they decode no more than they need, and say what later ones say.
//!
//! Every question is asked of a database of its own, so that nothing is there that another one has decoded.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use zipfdb::ingest::CopyOptions;

use zipfdb::{CorpusSettings, Database, Value};

/// A number for a number.
fn mixed(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 17
}

/// Many words of several blocks, with and without a space before, in all kinds of letters.
fn text(file: u64) -> String {
    let mut text = String::new();
    for word in 0..2_000 {
        let number = mixed(file * 2_000 + word);
        let rare = mixed(number % 701);
        text.push_str(&match number % 4 {
            0 => format!("w{rare:x}"),
            1 => format!(" W{rare:X}"),
            2 => format!(
                " {}",
                ["the", "The", "\u{e9}t\u{e9}", "don't"][rare as usize % 4]
            ),
            _ => format!(",\u{308} {:03}\n", number % 101),
        });
    }
    text
}

const FILES: u64 = 12;

fn name(file: u64) -> String {
    format!("f{file:02}.txt")
}

fn make(folder: &Path, settings: CorpusSettings) {
    let texts = folder.join("texts");
    fs::create_dir(&texts).unwrap();
    for file in 0..FILES {
        fs::write(texts.join(name(file)), text(file)).unwrap();
    }
    let database = Database::open(folder.join("x.zdb")).unwrap();
    let corpus = database.create_corpus("c", settings).unwrap();
    corpus.copy_from(&texts, &CopyOptions::default()).unwrap();
    drop(database);
}

fn rows(database: &Database, sql: &str) -> Vec<Vec<Value>> {
    let rows = database.query(sql, ()).unwrap();
    rows.map(|row| row.unwrap().into_values()).collect()
}

fn in_order(database: &Database) -> BTreeMap<Vec<u8>, u64> {
    let snapshot = database.corpus("c").unwrap().snapshot().unwrap();
    snapshot.words().unwrap().to_vec().into_iter().collect()
}

fn kinds(database: &Database) -> Vec<Value> {
    let kinds = rows(
        database,
        "SELECT DISTINCT kind FROM caches('c') ORDER BY kind",
    );
    kinds.into_iter().flatten().collect()
}

#[test]
fn a_word_of_a_cold_database_is_counted_from_blocks_as_from_the_dictionary() {
    for segment_size in [1 << 30, 100_000] {
        let folder = tempfile::tempdir().unwrap();
        let settings = CorpusSettings {
            segment_size,
            ..CorpusSettings::default()
        };
        make(folder.path(), settings);
        let path = folder.path().join("x.zdb");
        let expected = in_order(&Database::open(&path).unwrap());
        assert!(expected.len() > 1_200, "{}", expected.len());
        let mut asked: Vec<(Vec<u8>, u64)> = expected.into_iter().collect();
        asked = asked.into_iter().step_by(97).collect();
        for absent in ["", " ", "a", "the ", "zzz", "\u{308}", "W", "\u{ff}"] {
            if !asked.iter().any(|(word, _)| word == absent.as_bytes()) {
                asked.push((absent.into(), 0));
            }
        }
        for (index, (word, count)) in asked.into_iter().enumerate() {
            let database = Database::open(&path).unwrap();
            let text = String::from_utf8(word.clone()).unwrap();
            let found = match index % 2 {
                0 => database
                    .corpus("c")
                    .unwrap()
                    .snapshot()
                    .unwrap()
                    .count(&word)
                    .unwrap(),
                _ => {
                    let literal = text.replace('\'', "''");
                    let sql = format!("SELECT COUNT(*) FROM c WHERE word = '{literal}'");
                    let [row] = &rows(&database, &sql)[..] else {
                        panic!("{sql}")
                    };
                    let Value::Integer(found) = row[0] else {
                        panic!("{row:?}")
                    };
                    u64::try_from(found).unwrap()
                }
            };
            assert_eq!(found, count, "{text:?}");
            let kinds = kinds(&database);
            assert_eq!(kinds, [Value::from("word blocks")], "{text:?}");
        }
    }
}

/// Texts with too many words for decoding the dictionary to be worth it for a few of
/// them.
fn make_many_words(folder: &Path) {
    let texts = folder.join("texts");
    fs::create_dir(&texts).unwrap();
    for file in 0..4 {
        let words = (0..20_000_u64).map(|word| {
            let common = if word % 500 == 0 { "the The" } else { "a" };
            format!("w{:x} {common} ", mixed(file + word))
        });
        fs::write(texts.join(name(file)), words.collect::<String>()).unwrap();
    }
    let database = Database::open(folder.join("x.zdb")).unwrap();
    let corpus = database.create_corpus("c", CorpusSettings::default());
    corpus
        .unwrap()
        .copy_from(&texts, &CopyOptions::default())
        .unwrap();
}

#[test]
fn places_of_a_word_of_a_cold_database_are_found_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    make_many_words(folder.path());
    let path = folder.path().join("x.zdb");
    let mut asked = Vec::new();
    let rare = format!("w{:x}", mixed(77));
    for word in ["a", "the", "The", "w0", &rare] {
        let condition = format!("FROM c WHERE word = '{word}'");
        asked.extend([
            format!("SELECT offset {condition} AND file = '{}'", name(2)),
            format!("SELECT position {condition} AND file = '{}'", name(0)),
            format!("SELECT file, offset, position {condition} ORDER BY file, offset"),
            format!("SELECT MAX(offset), COUNT(*) {condition}"),
        ]);
    }
    let answers = |sql: &str| {
        let database = Database::options().threads(1).open(&path).unwrap();
        (rows(&database, sql), kinds(&database), database.warnings())
    };
    let expected: Vec<_> = asked.iter().map(|sql| answers(sql).0).collect();
    let create = "CREATE INDEX o ON c USING occurrences";
    Database::open(&path)
        .unwrap()
        .execute_batch(create)
        .unwrap();
    let mut on_disk = 0;
    for (sql, expected) in asked.iter().zip(expected) {
        let (found, kinds, warnings) = answers(sql);
        assert_eq!(found, expected, "{sql}: {kinds:?}");
        assert_eq!(warnings, [""; 0], "{sql}");
        on_disk += usize::from(kinds.contains(&Value::from("directory of occurrences")));
    }
    assert!(on_disk > 4, "{on_disk}");
}

#[test]
fn a_phrase_of_a_cold_database_is_found_on_disk_without_the_dictionary() {
    let folder = tempfile::tempdir().unwrap();
    make_many_words(folder.path());
    let path = folder.path().join("x.zdb");
    let phrases = [
        "the The", "The w0", "w0 the", "The the", "the w0", "the zzz", "zzz the",
    ];
    let questions = |phrase: &str| {
        let condition = format!("ngrams('c', 2) WHERE ngram = '{phrase}'");
        [
            format!("SELECT COUNT(*) FROM {condition}"),
            format!("SELECT file, position, offset FROM {condition} ORDER BY file, offset"),
            format!("SELECT file, COUNT(*) FROM {condition} GROUP BY file ORDER BY file"),
            format!(
                "SELECT ngram, file, COUNT(*) FROM {condition} GROUP BY ngram, file ORDER BY file"
            ),
            format!("SELECT COUNT(*) FROM {condition} AND ngram > 'the'"),
        ]
    };
    let answers = |sql: &str| {
        // With more threads the suffix array of so small a corpus is read back at once.
        let database = Database::options().threads(1).open(&path).unwrap();
        (rows(&database, sql), kinds(&database))
    };
    let asked: Vec<String> = phrases
        .iter()
        .flat_map(|phrase| questions(phrase))
        .collect();
    let expected: Vec<_> = asked.iter().map(|sql| answers(sql).0).collect();
    assert!(expected.iter().any(|rows| rows.len() > 3));

    let database = Database::open(&path).unwrap();
    let create = "CREATE INDEX s ON c USING suffixes; CREATE INDEX o ON c USING occurrences";
    database.execute_batch(create).unwrap();
    drop(database);
    for (sql, expected) in asked.iter().zip(expected) {
        let (found, kinds) = answers(sql);
        assert_eq!(found, expected, "{sql}");
        // Texts of words are those of the dictionary.
        let has_dictionary = kinds.contains(&Value::from("dictionary"));
        assert_eq!(
            has_dictionary,
            sql.contains("SELECT ngram"),
            "{sql}: {kinds:?}"
        );
    }
    let snapshot = || {
        Database::open(&path)
            .unwrap()
            .corpus("c")
            .unwrap()
            .snapshot()
            .unwrap()
    };
    let [Value::Integer(count)] = &answers(&asked[0]).0[0][..] else {
        panic!("it is a count")
    };
    let found = snapshot().phrase_count(&["the", "The"]).unwrap();
    assert_eq!(found, u64::try_from(*count).unwrap());
    let places = snapshot().phrase_search(&["the", "The"]).unwrap();
    let places = places.into_iter().map(|(_, offsets)| offsets.len() as u64);
    assert_eq!(places.sum::<u64>(), found);
}

#[test]
fn few_words_are_counted_together_and_other_conditions_hold() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), CorpusSettings::default());
    let path = folder.path().join("x.zdb");
    let expected = in_order(&Database::open(&path).unwrap());
    let count = |words: &[&str]| {
        let counts = words
            .iter()
            .map(|word| expected.get(word.as_bytes()).unwrap_or(&0));
        Value::Integer(counts.sum::<u64>() as i64)
    };
    let cases = [
        (
            "word IN ('the', 'The', 'nothing', 'the')",
            count(&["the", "The"]),
        ),
        ("word IN ('the', 'don''t') AND length = 3", count(&["the"])),
        ("word = 'the' AND word > 'tho'", count(&[])),
        ("word IN ('the', NULL, 7, 997)", count(&["the"])),
        ("word IN ('the') OR word = 'The'", count(&["the", "The"])),
    ];
    for (condition, expected) in cases {
        let database = Database::open(&path).unwrap();
        let sql = format!("SELECT COUNT(*) FROM c WHERE {condition}");
        assert_eq!(rows(&database, &sql), [[expected]], "{condition}");
    }
}

#[test]
fn many_counts_are_worth_the_dictionary() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), CorpusSettings::default());
    let database = Database::open(folder.path().join("x.zdb")).unwrap();
    let snapshot = database.corpus("c").unwrap().snapshot().unwrap();
    let first = snapshot.count("the").unwrap();
    for _ in 0..1_000 {
        assert_eq!(snapshot.count("the").unwrap(), first);
    }
    assert!(kinds(&database).contains(&Value::from("dictionary")));
}

#[test]
fn conditions_on_content_pass_the_files_that_one_after_the_other_would() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), CorpusSettings::default());
    let path = folder.path().join("x.zdb");
    let texts: Vec<String> = (0..FILES).map(text).collect();
    let needle = &texts[7][1_000..1_012];
    let with = |pass: &dyn Fn(u64, &str) -> bool| -> Vec<Vec<Value>> {
        let files = (0..FILES).filter(|&file| pass(file, &texts[file as usize]));
        files.map(|file| vec![Value::from(name(file))]).collect()
    };
    let like = needle.replace('\'', "''");
    let cases = [
        (
            format!("content GLOB '*{like}*'"),
            with(&|_, text| text.contains(needle)),
        ),
        ("content LIKE '%the%'".to_owned(), with(&|_, _| true)),
        (
            format!("content GLOB '*{like}*' AND file < 'f07'"),
            with(&|file, text| file < 7 && text.contains(needle)),
        ),
    ];
    for (condition, expected) in &cases {
        for edits in [false, true] {
            let database = Database::open(&path).unwrap();
            let mut expected = expected.clone();
            if edits {
                let insert = "BEGIN; INSERT INTO c (file, content) VALUES ('g.txt', 'the last')";
                database.execute_batch(insert).unwrap();
                let passes = condition.contains("'%the%'");
                expected.extend(passes.then(|| vec![Value::from("g.txt")]));
            }
            let sql = format!("SELECT file FROM files('c') WHERE {condition}");
            assert_eq!(rows(&database, &sql), expected, "{sql}");
            let sql = format!("{sql} LIMIT 2");
            expected.truncate(2);
            assert_eq!(rows(&database, &sql), expected, "{sql}");
        }
    }
}

#[test]
fn an_error_on_content_comes_after_the_rows_before_it() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), CorpusSettings::default());
    let database = Database::open(folder.path().join("x.zdb")).unwrap();
    let bytes = text(0).len();
    database
        .execute_batch(&format!("SET value_size_limit = {}", bytes - 1))
        .unwrap();
    // The grammar finds the files with a string; for other patterns content is
    // read.
    let sql = "SELECT file FROM files('c') WHERE content LIKE '%t_e%'";
    let mut small = (0..FILES).take_while(|&file| text(file).len() < bytes);
    for row in database.query(sql, ()).unwrap() {
        match (row, small.next()) {
            (Ok(row), Some(file)) => {
                assert_eq!(row.into_values(), [Value::from(name(file))]);
            }
            (Err(error), None) => {
                assert!(error.to_string().contains("value_size_limit"), "{error}");
                return;
            }
            (row, file) => panic!("{row:?} {file:?}"),
        }
    }
    panic!("a value is too long");
}
