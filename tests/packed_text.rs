//! Files that are stored as packed text first: answers are those of a grammar, from the text, with edits, after it has become a
//! grammar, and with bytes that are damaged.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use zipfdb::repair::repair;
use zipfdb::storage::SegmentForm;
use zipfdb::{Database, IngestMode, InterruptHandle};

/// Numbers that look random, always the same.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

const WORDS: [&str; 12] = [
    "the",
    "The",
    "cat",
    "dog's",
    "na\u{ef}ve",
    "\u{c9}T\u{c9}",
    "\u{4e2d}\u{6587}",
    "x1",
    "3.14",
    "a_b",
    "\u{301}e",
    "don't",
];

const GAPS: [&str; 7] = [" ", " ", " ", "\n", ", ", "  ", " \u{2014} "];

/// Text of some words, of which some bytes are not UTF-8.
fn text(numbers: &mut Numbers, words: u64) -> Vec<u8> {
    let mut text = Vec::new();
    for _ in 0..words {
        let skew = numbers.below(WORDS.len() as u64) + 1;
        text.extend(WORDS[numbers.below(skew) as usize].as_bytes());
        if numbers.below(40) == 0 {
            text.extend(format!("only{}", numbers.below(1_000)).bytes());
        }
        text.extend(GAPS[numbers.below(GAPS.len() as u64) as usize].as_bytes());
        if numbers.below(200) == 0 {
            text.push(0xff);
        }
    }
    text
}

/// A folder of small files, an empty one, one without a place to cut, and one of several segments.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut numbers = Numbers(11);
    for file in 0..40 {
        let words = numbers.below(400);
        let content = text(&mut numbers, words);
        fs::write(folder.path().join(format!("f{file:02}.txt")), content).unwrap();
    }
    fs::write(folder.path().join("empty"), "").unwrap();
    fs::write(folder.path().join("uncut"), "x".repeat(90_000)).unwrap();
    fs::write(folder.path().join("large"), text(&mut numbers, 30_000)).unwrap();
    folder
}

/// Questions whose answers do not depend on the form of files.
const QUESTIONS: &[&str] = &[
    "SELECT file, bytes, words FROM files('c') ORDER BY file",
    "SELECT COUNT(*) FROM c",
    "SELECT COUNT(*) FROM c WHERE word = 'the'",
    "SELECT COUNT(*) FROM c WHERE word = 'nowhere'",
    "SELECT COUNT(*) FROM c WHERE word = 'cat' AND file = 'large'",
    "SELECT word, COUNT(*) AS n FROM c GROUP BY word ORDER BY n DESC, word",
    "SELECT file, COUNT(*) FROM c WHERE word = 'na\u{ef}ve' GROUP BY file ORDER BY file",
    "SELECT word, file, COUNT(*) FROM c GROUP BY word, file ORDER BY word, file",
    "SELECT file, offset, position FROM c WHERE word = '3.14' ORDER BY file, offset",
    "SELECT offset FROM c WHERE word = 'x1' AND file = 'f03.txt' ORDER BY offset",
    "SELECT word, offset FROM c WHERE file = 'f07.txt' ORDER BY offset",
    "SELECT ngram, COUNT(*) AS n FROM ngrams('c', 3) GROUP BY ngram ORDER BY n DESC, ngram LIMIT 300",
    "SELECT file, offset FROM ngrams('c', 2) WHERE ngram = 'the cat' ORDER BY file, offset",
    "SELECT file FROM files('c') WHERE content LIKE '%cat, the%' ORDER BY file",
    "SELECT file, substr(content, 1000, 300) FROM files('c') ORDER BY file",
    "SELECT content FROM files('c') WHERE file = 'f11.txt'",
    "SELECT file FROM files_with('c', 'the', '\u{4e2d}\u{6587}') ORDER BY file",
];

fn answers(database: &Database) -> Vec<String> {
    let ask = |sql: &&str| {
        let rows = database.query(sql, ()).unwrap();
        let rows: Vec<String> = rows.map(|row| format!("{:?}", row.unwrap())).collect();
        format!("{sql}\n{}", rows.join("\n"))
    };
    QUESTIONS.iter().map(ask).collect()
}

fn forms(database: &Database) -> Vec<SegmentForm> {
    let segments = database.corpus("c").unwrap().segments().unwrap();
    segments.iter().map(|segment| segment.form).collect()
}

fn is_text(database: &Database) -> bool {
    forms(database)
        .iter()
        .all(|form| *form == SegmentForm::Text)
}

/// A corpus of the folder with tokenizer and options of COPY; nothing is recompressed in the background.
fn open(path: &Path, tokenizer: &str, folder: &TempDir, options: &str) -> Database {
    let database = Database::open(path).unwrap();
    let copy = folder.path().display();
    database
        .execute_batch(&format!(
            "SET recompress_threads = 0;
             CREATE CORPUS c WITH (segment_size = '64KiB', tokenizer = '{tokenizer}');
             COPY c FROM '{copy}' {options}"
        ))
        .unwrap();
    database
}

#[test]
fn answers_are_those_of_a_grammar_with_each_tokenizer() {
    let folder = folder();
    let top = tempfile::tempdir().unwrap();
    for tokenizer in ["unicode", "alnum", "whitespace"] {
        let path = |name: &str| top.path().join(format!("{tokenizer}-{name}.zdb"));
        let grammar = open(&path("grammar"), tokenizer, &folder, "");
        let options = "WITH (compression = 'fast')";
        let text = open(&path("text"), tokenizer, &folder, options);
        assert!(forms(&text).len() > 4 && is_text(&text), "{tokenizer}");
        assert_eq!(answers(&text), answers(&grammar), "{tokenizer}");

        let edits = "INSERT INTO c (file, content) VALUES ('f05.txt', ' the cat'), ('new', 'x1 the cat'), ('large', 'end');
                     INSERT INTO c (file, offset, content) VALUES ('f07.txt', 3, ' \u{4e2d}\u{6587} the '), ('large', 70000, 'cat the');
                     DELETE FROM c WHERE file = 'f09.txt'";
        for database in [&text, &grammar] {
            database.execute_batch(edits).unwrap();
        }
        assert!(is_text(&text));
        assert_eq!(answers(&text), answers(&grammar), "{tokenizer}, edited");

        // The segments that one COPY of the same files makes.
        for database in [&text, &grammar] {
            database.execute_batch("RECOMPRESS c").unwrap();
        }
        let facts = |database: &Database| {
            let segments = database.corpus("c").unwrap().segments().unwrap();
            let facts = segments.into_iter().map(|mut segment| {
                segment.segment_id = 0;
                segment
            });
            facts.collect::<Vec<_>>()
        };
        assert_eq!(facts(&text), facts(&grammar), "{tokenizer}");
        assert_eq!(answers(&text), answers(&grammar), "{tokenizer}, merged");
    }
}

#[test]
fn text_becomes_a_grammar_in_the_background_and_when_the_database_is_opened() {
    let folder = folder();
    let top = tempfile::tempdir().unwrap();
    let grammar = open(&top.path().join("grammar.zdb"), "unicode", &folder, "");
    let expected = answers(&grammar);
    let path = top.path().join("text.zdb");
    drop(open(
        &path,
        "unicode",
        &folder,
        "WITH (compression = 'fast')",
    ));

    let reader = Database::options().read_only(true).open(&path).unwrap();
    assert!(is_text(&reader));
    assert_eq!(answers(&reader), expected);
    drop(reader);

    let database = Database::open(&path).unwrap();
    let begin = Instant::now();
    while forms(&database).contains(&SegmentForm::Text) {
        assert_eq!(answers(&database), expected);
        assert!(begin.elapsed() < Duration::from_secs(120), "it is not done");
    }
    assert_eq!(answers(&database), expected);

    // The same holds with files that are imported beside it.
    let more = tempfile::tempdir().unwrap();
    fs::write(more.path().join("more"), "the cat and the dog").unwrap();
    let copy = format!(
        "ALTER CORPUS c SET (ingest = 'fast'); COPY c FROM '{}'",
        more.path().display()
    );
    database.execute_batch(&copy).unwrap();
    let corpus = database.corpus("c").unwrap();
    assert_eq!(corpus.settings().unwrap().ingest, IngestMode::Fast);
    let begin = Instant::now();
    while forms(&database).contains(&SegmentForm::Text) {
        assert!(begin.elapsed() < Duration::from_secs(120), "it is not done");
        std::thread::sleep(Duration::from_millis(1));
    }
    let more = corpus.snapshot().unwrap().extract("more", 4, 3).unwrap();
    assert_eq!(more, b"cat");
    drop((corpus, database));
    let settings = Database::open(&path)
        .unwrap()
        .corpus("c")
        .unwrap()
        .settings();
    assert_eq!(settings.unwrap().ingest, IngestMode::Fast);
}

#[test]
fn only_much_text_is_packed_if_the_corpus_leaves_it_open() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("small"), "the cat").unwrap();
    let database = Database::in_memory().unwrap();
    let copy = |file: &str| {
        let path = folder.path().join(file).display().to_string();
        database
            .execute_batch(&format!("COPY c FROM '{path}'"))
            .unwrap();
    };
    database
        .execute_batch("SET recompress_threads = 0; CREATE CORPUS c WITH (ingest = 'auto')")
        .unwrap();
    copy("small");
    assert_eq!(forms(&database), [SegmentForm::Grammar]);
    let large = "lorem ipsum dolor sit amet, ".repeat(2_500_000);
    fs::write(folder.path().join("large"), &large).unwrap();
    copy("large");
    assert_eq!(forms(&database), [SegmentForm::Grammar, SegmentForm::Text]);
    let snapshot = database.corpus("c").unwrap().snapshot().unwrap();
    let end = snapshot
        .extract("large", large.len() as u64 - 6, 99)
        .unwrap();
    assert_eq!(end, b"amet, ");
}

#[test]
fn files_that_are_replaced_are_packed_too() {
    let (folder, top, other) = (
        folder(),
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
    );
    let mut numbers = Numbers(17);
    for name in ["f03.txt", "large", "new"] {
        fs::write(other.path().join(name), text(&mut numbers, 700)).unwrap();
    }
    let grammar = open(&top.path().join("grammar.zdb"), "unicode", &folder, "");
    let packed = open(&top.path().join("text.zdb"), "unicode", &folder, "");
    for (database, compression) in [(&grammar, "grammar"), (&packed, "fast")] {
        let path = other.path().display();
        let options = format!("on_conflict = 'replace', compression = '{compression}'");
        let copy = format!("COPY c FROM '{path}' WITH ({options})");
        database.execute_batch(&copy).unwrap();
    }
    assert!(!forms(&grammar).contains(&SegmentForm::Text));
    assert!(forms(&packed).contains(&SegmentForm::Text));
    assert_eq!(answers(&packed), answers(&grammar));
}

#[test]
fn large_changes_become_a_grammar_by_way_of_packed_text_while_they_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.zdb");
    let database = Database::open(&path).unwrap();
    let create = "CREATE CORPUS c WITH (ingest = 'fast', recompress_threshold = '64KiB')";
    database.execute_batch(create).unwrap();
    let content = "the cat and the dog ".repeat(500);
    for round in 0..20_u64 {
        let mut edits = database.begin().unwrap();
        let rows: Vec<_> = (0..4)
            .map(|file| (format!("f{round}-{file}"), &content))
            .collect();
        edits.append_many("c", &rows).unwrap();
        edits.commit().unwrap();
        let snapshot = database.corpus("c").unwrap().snapshot().unwrap();
        assert_eq!(snapshot.count("cat").unwrap(), (round + 1) * 2_000);
    }
    database.execute_batch("RECOMPRESS c").unwrap();
    assert_eq!(forms(&database), [SegmentForm::Grammar]);
    drop(database);
    let snapshot = Database::open(&path).unwrap().corpus("c").unwrap();
    assert_eq!(snapshot.snapshot().unwrap().count("cat").unwrap(), 40_000);
}

#[test]
fn a_few_changes_are_merged_when_they_are_as_old_as_wanted() {
    let database = Database::in_memory().unwrap();
    let merged = |segments: usize| {
        let begin = Instant::now();
        let corpus = database.corpus("c").unwrap();
        while corpus.pending_bytes().unwrap() > 0 || corpus.segments().unwrap().len() < segments {
            assert!(begin.elapsed() < Duration::from_secs(120), "it is not done");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let insert = |file: &str| {
        let sql = format!("INSERT INTO c (file, content) VALUES ('{file}', 'the cat')");
        database.execute_batch(&sql).unwrap();
    };
    database.execute_batch("CREATE CORPUS c").unwrap();
    insert("a");
    database
        .execute_batch("SET recompress_rate = '1MiB'; SET recompress_interval = 5")
        .unwrap();
    merged(1);
    insert("b");
    merged(2);
    database
        .execute_batch("SET recompress_interval = '1h'")
        .unwrap();
    insert("c");
    database
        .execute_batch("SET recompress_interval = 5")
        .unwrap();
    merged(3);
    insert("d");
    // Closing the database does not wait for a scheduled recompression.
    database
        .execute_batch("SET recompress_interval = '1h'")
        .unwrap();
    insert("e");
}

#[test]
fn indexes_are_built_once_text_has_become_a_grammar() {
    let (folder, top) = (folder(), tempfile::tempdir().unwrap());
    let path = top.path().join("text.zdb");
    let database = open(&path, "unicode", &folder, "WITH (compression = 'fast')");
    database
        .execute_batch("CREATE INDEX w ON c USING postings")
        .unwrap();
    let built = |path: &Path| {
        let names = fs::read_dir(path.join("segments")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".idx")).count()
    };
    assert_eq!(built(&path), 0);
    let before = answers(&database);
    database.execute_batch("RECOMPRESS c").unwrap();
    assert_eq!(built(&path), forms(&database).len());
    assert_eq!(answers(&database), before);
}

fn segment_files(path: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(path.join("segments")).unwrap();
    let paths = names.map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "seg"))
        .collect();
    files.sort();
    files
}

#[test]
fn damage_gives_an_error_or_the_right_answer_and_repair_saves_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let mut numbers = Numbers(5);
    for file in 0..6 {
        let content = text(&mut numbers, 300);
        fs::write(folder.path().join(format!("f{file:02}.txt")), content).unwrap();
    }
    let top = tempfile::tempdir().unwrap();
    let path = top.path().join("text.zdb");
    let database = open(&path, "unicode", &folder, "WITH (compression = 'fast')");
    let questions = [
        "SELECT COUNT(*) FROM c WHERE word = 'the'",
        "SELECT file, content FROM files('c') ORDER BY file",
    ];
    let ask = |database: &Database| -> Vec<Result<String, String>> {
        let ask = |sql: &&str| {
            let rows = database.query(sql, ()).map_err(|error| error.to_string())?;
            let rows: Result<Vec<_>, _> = rows.collect();
            rows.map(|rows| format!("{rows:?}"))
                .map_err(|error| error.to_string())
        };
        questions.iter().map(ask).collect()
    };
    let expected = ask(&database);
    drop(database);
    let [file] = &segment_files(&path)[..] else {
        panic!("one segment");
    };
    let bytes = fs::read(file).unwrap();
    let readers = Database::options().read_only(true);
    let mut refused = 0;
    for place in (0..bytes.len()).step_by(37) {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        fs::write(file, &damaged).unwrap();
        let Ok(database) = readers.clone().open(&path) else {
            refused += 1;
            continue;
        };
        for (found, expected) in ask(&database).into_iter().zip(&expected) {
            refused += u32::from(found.is_err());
            assert!(found.is_err() || found == *expected, "byte {place}");
        }
        let check = database.query("CHECK c", ());
        let is_whole = check.is_ok_and(|rows| rows.into_iter().all(|row| row.is_ok()));
        assert!(!is_whole, "byte {place} is not missed");
    }
    assert!(refused > 10, "{refused}");

    // A text in the middle is lost, and nothing else.
    let mut damaged = bytes.clone();
    let middle = bytes.len() / 2;
    damaged[middle] ^= 0x10;
    fs::write(file, &damaged).unwrap();
    let saved = top.path().join("saved.zdb");
    let report = repair(
        &path,
        &saved,
        &zipfdb::ingest::NoProgress,
        &InterruptHandle::new(),
    )
    .unwrap();
    assert!(!report.lost.is_empty());
    fs::write(file, &bytes).unwrap();
    let saved = top.path().join("whole.zdb");
    let report = repair(
        &path,
        &saved,
        &zipfdb::ingest::NoProgress,
        &InterruptHandle::new(),
    )
    .unwrap();
    assert!(report.lost.is_empty(), "{report:?}");
    assert_eq!(ask(&Database::open(&saved).unwrap()), expected);
}
