//! Indexes through the public API: answers are the same with an index, without one, and with one that is damaged, cut off or lost;
//! files are there for each segment, and gone with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use zipfdb::ingest::{CopyOptions, NoProgress};

use zipfdb::{Database, Snapshot, Value};

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

type Texts = BTreeMap<String, String>;

/// Files of words of which some are in all, some in one.
fn texts(seed: u64, files: usize) -> Texts {
    let mut numbers = Numbers(seed);
    let text = |file: usize| {
        let words = numbers.below(2_000);
        let text: Vec<String> = (0..words)
            .map(|_| {
                let skew = numbers.below(60) + 1;
                format!("w{}", numbers.below(skew))
            })
            .chain([format!("only{file}")])
            .collect();
        (format!("f{file:03}"), text.join(" "))
    };
    (0..files).map(text).collect()
}

fn copy(database: &Database, texts: &Texts) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in texts {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let corpus = database.corpus("c").unwrap();
    corpus
        .copy_from(folder.path(), &CopyOptions::default())
        .unwrap();
}

fn create(path: &Path, texts: &Texts) -> Database {
    let database = Database::open(path).unwrap();
    database
        .execute_batch("CREATE CORPUS c WITH (segment_size = '64KiB')")
        .unwrap();
    copy(&database, texts);
    database
}

/// Indexes of all kinds.
const INDEXES: [(&str, &str); 4] = [
    ("w", "postings"),
    ("o", "occurrences"),
    ("s", "suffixes"),
    ("n", "ngrams"),
];

/// As [`create`], with indexes of all kinds.
fn create_indexed(path: &Path, texts: &Texts) -> Database {
    let database = create(path, texts);
    create_all(&database);
    database
}

/// Creates the indexes that are not there, and builds what is missing or damaged of the others.
fn create_all(database: &Database) {
    for (name, kind) in INDEXES {
        let sql = format!("CREATE INDEX IF NOT EXISTS {name} ON c USING {kind}");
        database.execute_batch(&sql).unwrap();
    }
}

fn files_of<'t>(texts: &'t Texts, words: &[&str]) -> Vec<&'t str> {
    let has = |text: &str| {
        let found: BTreeSet<&str> = text.split(' ').collect();
        words.iter().all(|word| found.contains(word))
    };
    let files = texts.iter().filter(|(_, text)| has(text));
    files.map(|(name, _)| &name[..]).collect()
}

/// Compares answers that indexes give with the texts.
fn check(snapshot: &Snapshot, texts: &Texts) {
    let mut numbers = Numbers(7);
    let words: Vec<String> = (0..62).map(|word| format!("w{word}")).collect();
    for count in 1..5 {
        let all: Vec<&str> = (0..count)
            .map(|_| &words[numbers.below(words.len() as u64) as usize][..])
            .collect();
        assert_eq!(
            snapshot.files_with(&all).unwrap(),
            files_of(texts, &all),
            "{all:?}"
        );
    }
    assert_eq!(
        snapshot.files_with(&["only3"]).unwrap(),
        files_of(texts, &["only3"])
    );
    assert_eq!(snapshot.files_with(&["nowhere"]).unwrap(), [""; 0]);
    assert_eq!(snapshot.files_with(&[""; 0]).unwrap().len(), texts.len());
    for (name, text) in texts.iter().take(5) {
        let expected = text.split(' ').filter(|word| *word == "w1").count() as u64;
        assert_eq!(snapshot.count_in(name, b"w1").unwrap(), expected);
    }
    let expected: u64 = texts.values().map(|text| pairs(text, "w0", "w1")).sum();
    assert_eq!(snapshot.phrase_count(&["w0", "w1"]).unwrap(), expected);
    for word in ["w2", "only7"] {
        let found = snapshot.search(word.as_bytes()).unwrap();
        let found = found.into_iter().collect::<BTreeMap<String, Vec<u64>>>();
        assert_eq!(found, offsets(texts, &[word]), "{word}");
    }
    let found = snapshot.phrase_search(&["w1", "w0"]).unwrap();
    let found = found.into_iter().collect::<BTreeMap<String, Vec<u64>>>();
    assert_eq!(found, offsets(texts, &["w1", "w0"]));
    for name in texts.keys().take(3) {
        let expected = offsets(texts, &["w0"]).remove(name).unwrap_or_default();
        assert_eq!(snapshot.search_in(name, b"w0").unwrap(), expected);
    }
}

/// Compares answers for words of any length with those of `plain`, a database without indexes.
fn check_any_length(snapshot: &Snapshot, plain: &Snapshot, texts: &Texts) {
    let mut numbers = Numbers(9);
    let files: Vec<Vec<&str>> = texts
        .values()
        .map(|text| text.split(' ').collect())
        .collect();
    let mut mixed: Vec<&str> = Vec::new();
    for length in [1, 2, 7, 8, 9, 10, 17, 60] {
        for _ in 0..6 {
            let words = &files[numbers.below(files.len() as u64) as usize];
            let start = numbers.below(words.len() as u64) as usize;
            let mut phrase = words[start..words.len().min(start + length)].to_vec();
            if numbers.below(3) == 0 {
                let at = numbers.below(phrase.len() as u64) as usize;
                phrase[at] = ["w0", "w1", "nowhere"][numbers.below(3) as usize];
            }
            mixed.extend(&phrase);
            let found = snapshot.phrase_search(&phrase).unwrap();
            let found = found.into_iter().collect::<BTreeMap<String, Vec<u64>>>();
            let expected = offsets(texts, &phrase);
            let count: usize = expected.values().map(Vec::len).sum();
            assert_eq!(found, expected, "{phrase:?}");
            assert_eq!(snapshot.phrase_count(&phrase).unwrap(), count as u64);
            let next = |snapshot: &Snapshot| snapshot.next_words(&phrase, false).unwrap();
            assert_eq!(next(snapshot), next(plain), "{phrase:?}");
        }
    }
    let matches = |snapshot: &Snapshot| snapshot.longest_matches(&mixed, 1).unwrap();
    assert_eq!(matches(snapshot), matches(plain));
    let repeats = |snapshot: &Snapshot| {
        let repeats = snapshot.duplicates(5).unwrap();
        repeats.collect::<zipfdb::Result<Vec<_>>>().unwrap()
    };
    assert_eq!(repeats(snapshot), repeats(plain));
}

/// Where some words follow each other, by file.
fn offsets(texts: &Texts, phrase: &[&str]) -> BTreeMap<String, Vec<u64>> {
    let of_text = |text: &str| {
        let words: Vec<&str> = text.split(' ').collect();
        let start = |word: &str| word.as_ptr() as u64 - text.as_ptr() as u64;
        let found = words
            .windows(phrase.len())
            .filter(|window| *window == phrase);
        found.map(|window| start(window[0])).collect::<Vec<u64>>()
    };
    let files = texts
        .iter()
        .map(|(name, text)| (name.clone(), of_text(text)));
    files.filter(|(_, offsets)| !offsets.is_empty()).collect()
}

fn pairs(text: &str, first: &str, second: &str) -> u64 {
    let words: Vec<&str> = text.split(' ').collect();
    words
        .windows(2)
        .filter(|pair| pair == &[first, second])
        .count() as u64
}

fn index_files(path: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(path.join("segments")).unwrap();
    let paths = names.map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "idx"))
        .collect();
    paths.sort();
    paths
}

fn snapshot(database: &Database) -> Snapshot {
    database.corpus("c").unwrap().snapshot().unwrap()
}

/// A database that was just opened for reading, which has nothing in memory.
fn reopened(path: &Path) -> Database {
    Database::options().read_only(true).open(path).unwrap()
}

#[test]
fn files_come_and_go_with_segments_and_answers_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zdb");
    let mut all = texts(1, 120);
    let database = create(&path, &all);
    let segments = || database.corpus("c").unwrap().segments().unwrap().len();
    assert!(segments() > 1);
    database
        .execute_batch("CREATE INDEX By_Word ON c USING postings")
        .unwrap();
    assert_eq!(index_files(&path).len(), segments());
    create_all(&database);
    assert_eq!(index_files(&path).len(), 5 * segments());
    check(&snapshot(&database), &all);
    check(&snapshot(&reopened(&path)), &all);
    let plain = create(&folder.path().join("plain.zdb"), &all);
    check_any_length(&snapshot(&reopened(&path)), &snapshot(&plain), &all);

    let more: Texts = (texts(2, 60).into_iter())
        .map(|(name, text)| (format!("g{name}"), text))
        .collect();
    copy(&database, &more);
    all.extend(more);
    assert_eq!(index_files(&path).len(), 5 * segments());
    let corpus = database.corpus("c").unwrap();
    corpus.append_many(&[("f003", " w1 w2 w3 fresh")]).unwrap();
    all.get_mut("f003").unwrap().push_str(" w1 w2 w3 fresh");
    corpus.delete_many(&["f005"]).unwrap();
    all.remove("f005");
    check(&snapshot(&database), &all);
    check(&snapshot(&reopened(&path)), &all);

    corpus.recompress(&NoProgress).unwrap();
    check(&snapshot(&database), &all);
    // Nothing holds the segments that went.
    assert_eq!(index_files(&path).len(), 5 * segments());
    check(&snapshot(&reopened(&path)), &all);

    database.execute_batch("DROP INDEX by_word").unwrap();
    for (name, _) in INDEXES {
        let sql = format!("DROP INDEX {name}");
        database.execute_batch(&sql).unwrap();
    }
    assert!(index_files(&path).is_empty());
    check(&snapshot(&database), &all);
}

#[test]
fn an_index_that_is_damaged_or_lost_is_done_without_and_built_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zdb");
    let all = texts(3, 90);
    drop(create_indexed(&path, &all));
    let files = index_files(&path);
    let whole: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    let mut numbers = Numbers(11);
    for turn in 0..24 {
        for (file, whole) in files.iter().zip(&whole) {
            let mut bytes = whole.clone();
            let at = numbers.below(bytes.len() as u64) as usize;
            match turn % 3 {
                0 => bytes[at] ^= 1 << numbers.below(8),
                1 => bytes.truncate(at),
                _ => bytes[at..].fill(0),
            }
            fs::write(file, bytes).unwrap();
        }
        let database = reopened(&path);
        check(&snapshot(&database), &all);
        // Changes of bytes that are zero may change nothing.
        if turn % 3 < 2 {
            let checks = database.corpus("c").unwrap().check(&NoProgress).unwrap();
            for check in checks {
                assert_eq!(check.problem, None);
                let note = check.note.unwrap();
                assert_eq!(note.matches("missing or damaged").count(), INDEXES.len());
            }
        }
    }
    // An index of another segment.
    fs::write(&files[0], &whole[1]).unwrap();
    fs::remove_file(&files[1]).unwrap();
    check(&snapshot(&reopened(&path)), &all);

    let database = Database::open(&path).unwrap();
    create_all(&database);
    check(&snapshot(&database), &all);
    let checks = database.corpus("c").unwrap().check(&NoProgress).unwrap();
    assert!(checks.iter().all(|check| check.note.is_none()));
    drop(database);
    for (file, whole) in files.iter().zip(&whole) {
        // All but how long building took is the same.
        assert_eq!(fs::read(file).unwrap().len(), whole.len());
    }
    let rows = reopened(&path)
        .query("SELECT COUNT(bytes), COUNT(*) FROM indexes('c')", ())
        .unwrap();
    let row = rows.into_iter().next().unwrap().unwrap();
    assert_eq!(row[0], row[1]);
}

/// `fixtures/index_v2/postings.idx` is what `CREATE INDEX` left for these files when lists were not packed.
#[test]
fn postings_of_the_second_version_are_read() {
    check_old(&texts(14, 12), "postings", "index_v2/postings.idx");
}

/// `fixtures/index_v3/suffixes.idx` is what `CREATE INDEX` left for these files when eight words ordered places.
#[test]
fn suffixes_in_the_order_of_eight_words_are_read() {
    check_old(&texts(15, 3), "suffixes", "index_v3/suffixes.idx");
}

/// Answers by an index that an earlier build wrote, which differs from what this one writes.
fn check_old(texts: &Texts, kind: &str, fixture: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db.zdb");
    let plain = create(&folder.path().join("plain.zdb"), texts);
    let database = create(&path, texts);
    let index = INDEXES.iter().find(|index| index.1 == kind);
    let (name, kind) = index.unwrap();
    database
        .execute_batch(&format!("CREATE INDEX {name} ON c USING {kind}"))
        .unwrap();
    drop(database);
    let files = index_files(&path);
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let old = fs::read(fixtures.join(fixture)).unwrap();
    assert_ne!(fs::read(&files[0]).unwrap().len(), old.len());
    fs::write(&files[0], &old).unwrap();
    let database = reopened(&path);
    check(&snapshot(&database), texts);
    check_any_length(&snapshot(&database), &snapshot(&plain), texts);
    let uses = database.query("SELECT uses FROM indexes('c')", ()).unwrap();
    let uses: Vec<Vec<Value>> = uses.map(|row| row.unwrap().into_values()).collect();
    assert_ne!(uses, [[Value::Integer(0)]]);
    // The index was read, and not built again.
    assert_eq!(fs::read(&files[0]).unwrap(), old);
}

#[test]
fn a_list_of_indexes_that_is_damaged_costs_the_indexes_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zdb");
    let all = texts(5, 40);
    drop(create_indexed(&path, &all));
    let list = path.join("INDEXES");
    let mut bytes = fs::read(&list).unwrap();
    bytes[10] ^= 4;
    fs::write(&list, bytes).unwrap();
    check(&snapshot(&reopened(&path)), &all);
    let database = Database::open(&path).unwrap();
    let warnings = database.warnings().join("\n");
    assert!(warnings.contains("all indexes are dropped"), "{warnings}");
    assert!(index_files(&path).is_empty());
    check(&snapshot(&database), &all);
    database
        .execute_batch("CREATE INDEX w ON c USING postings")
        .unwrap();
    check(&snapshot(&reopened(&path)), &all);
}

#[test]
fn every_codec_gives_the_same_answers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zdb");
    let all = texts(9, 150);
    let database = create(&path, &all);
    for codec in zipfdb_sql::plan::POSTINGS_CODECS {
        let sql = format!("CREATE INDEX w ON c USING postings WITH (codec = '{codec}')");
        database.execute_batch(&sql).unwrap();
        let rows = database
            .query("SELECT codec FROM indexes('c')", ())
            .unwrap();
        for row in rows {
            assert_eq!(row.unwrap()[0], Value::from(codec));
        }
        check(&snapshot(&reopened(&path)), &all);
        database.execute_batch("DROP INDEX w").unwrap();
    }
}

#[test]
fn lists_of_blocks_and_of_files_in_another_order_give_the_same_answers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zdb");
    let all = texts(10, 110);
    let database = create(&path, &all);
    for (options, unit, reorder) in [
        ("unit = 'block:64'", "block:64", "off"),
        (
            "unit = 'block:1000', codec = 'hs128_lrc'",
            "block:1000",
            "off",
        ),
        ("unit = 'block:1048576'", "block:1048576", "off"),
        ("reorder = 'on'", "file", "on"),
        ("reorder = 'on', codec = 'bp128'", "file", "on"),
    ] {
        let sql = format!("CREATE INDEX w ON c USING postings WITH ({options})");
        database.execute_batch(&sql).unwrap();
        let rows = database.query("SELECT unit, reorder FROM indexes('c')", ());
        for row in rows.unwrap() {
            let row = row.unwrap();
            assert_eq!((&row[0], &row[1]), (&unit.into(), &reorder.into()));
        }
        check(&snapshot(&reopened(&path)), &all);
        let files = index_files(&path);
        let whole = fs::read(&files[0]).unwrap();
        for at in (0..whole.len()).step_by(whole.len() / 11) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x20;
            fs::write(&files[0], bytes).unwrap();
            check(&snapshot(&reopened(&path)), &all);
        }
        database.execute_batch("DROP INDEX w").unwrap();
    }
}

#[test]
fn a_writer_builds_what_a_crash_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zdb");
    let all = texts(13, 90);
    drop(create_indexed(&path, &all));
    let files = index_files(&path);
    fs::remove_file(&files[1]).unwrap();
    fs::write(path.join("segments/00000099.w.idx.tmp"), b"begun").unwrap();
    let database = Database::open(&path).unwrap();
    // In the background; closing would end it.
    while index_files(&path) != files {
        std::thread::yield_now();
    }
    check(&snapshot(&database), &all);
    assert!(!path.join("segments/00000099.w.idx.tmp").exists());
}
