//! Databases that several processes have open at a time: a reader never waits and sees what others have committed, a
//! writer has the lock while it writes.

use std::fs;
use std::path::Path;
use std::time::Duration;

use zipfdb::ingest::{CopyOptions, NoProgress};

use zipfdb::storage::StorageError;

use zipfdb::{CorpusSettings, Database, DatabaseOptions, Error, Result, Value};
use zipfdb_test_support::harness::{Random, child_argument, scratch, start_child};

fn shared() -> DatabaseOptions {
    Database::options().threads(2).shared(true)
}

/// One that gives the lock back at once.
fn brief(path: &Path) -> Database {
    shared().lock_kept(Duration::ZERO).open(path).unwrap()
}

fn is_locked<T>(result: &Result<T>) -> bool {
    let own = Some(std::process::id());
    matches!(result, Err(Error::Storage(StorageError::Locked { holder, .. })) if *holder == own)
}

/// Names and texts of all files.
fn texts(database: &Database, corpus: &str) -> Vec<(String, Vec<u8>)> {
    let rows = database.query(&format!("SELECT file, content FROM files('{corpus}')"), ());
    let texts = rows
        .unwrap()
        .map(|row| match row.unwrap().into_values().as_slice() {
            [Value::Text(name), Value::Blob(text)] => (name.clone(), text.clone()),
            other => panic!("{other:?}"),
        });
    texts.collect()
}

fn small() -> CorpusSettings {
    CorpusSettings {
        segment_size: 4_000,
        recompress_threshold: 6_000,
        ..CorpusSettings::default()
    }
}

#[test]
fn a_reader_locks_no_process_out() {
    let folder = scratch();
    let path = folder.path().join("a.zdb");
    let first = brief(&path);
    first.create_corpus("c", CorpusSettings::default()).unwrap();
    drop(first);
    let readers = [(); 3].map(|()| shared().open(&path).unwrap());
    let writer = Database::open(&path).unwrap();
    let corpus = writer.corpus("c").unwrap();
    corpus.append_many(&[("f", "one two")]).unwrap();
    for reader in &readers {
        assert_eq!(texts(reader, "c"), [("f".into(), b"one two".to_vec())]);
        assert_eq!(
            reader
                .corpus("c")
                .unwrap()
                .snapshot()
                .unwrap()
                .count("two")
                .unwrap(),
            1
        );
    }
    // The writer has the lock from its opening to its end.
    for reader in &readers {
        reader.execute_batch("SET busy_timeout = 0").unwrap();
        let refused = reader.execute_batch("INSERT INTO c (file, content) VALUES ('f', ' three')");
        assert!(is_locked(&refused), "{refused:?}");
    }
    drop((corpus, writer));
    readers[0]
        .execute_batch("INSERT INTO c (file, content) VALUES ('f', ' three')")
        .unwrap();
    assert_eq!(
        texts(&readers[1], "c"),
        [("f".into(), b"one two three".to_vec())]
    );
}

#[test]
fn a_write_waits_for_another_as_long_as_it_may() {
    let folder = scratch();
    let path = folder.path().join("a.zdb");
    let (one, other) = (brief(&path), brief(&path));
    one.create_corpus("c", CorpusSettings::default()).unwrap();
    let insert = "INSERT INTO c (file, content) VALUES ('f', 'x ')";
    one.execute_batch("BEGIN").unwrap();
    one.execute_batch(insert).unwrap();
    other.execute_batch("SET busy_timeout = '30ms'").unwrap();
    assert!(is_locked(&other.execute_batch(insert)));
    assert!(is_locked(&other.execute_batch("BEGIN")));
    assert!(is_locked(&other.execute_batch("CREATE CORPUS d")));
    assert!(is_locked(&other.execute_batch("RECOMPRESS c")));
    other.execute_batch("SET busy_timeout = '1h'").unwrap();
    other
        .execute_batch("SET statement_timeout = '30ms'")
        .unwrap();
    let late = other.execute_batch(insert);
    assert!(matches!(late, Err(Error::Timeout { .. })), "{late:?}");
    other.execute_batch("RESET statement_timeout").unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| other.execute_batch(insert));
        one.execute_batch("COMMIT").unwrap();
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(texts(&one, "c"), [("f".into(), b"x x ".to_vec())]);
}

#[test]
fn two_that_write_in_turn_see_each_others_changes() {
    let seed = Random::seed(11);
    let mut random = Random::new(seed);
    let folder = scratch();
    let path = folder.path().join("a.zdb");
    let text = folder.path().join("copied");
    fs::write(&text, "the cat sat on the mat ").unwrap();
    let databases = [(); 2].map(|()| brief(&path));
    databases[0].create_corpus("c", small()).unwrap();
    let mut expected = std::collections::BTreeMap::<String, Vec<u8>>::new();
    let mut held = Vec::new();
    for step in 0..60 {
        let database = &databases[random.below(2)];
        let corpus = database.corpus("c").unwrap();
        let name = format!("f{}", random.below(6));
        let words = format!("step{step} word ").repeat(1 + random.below(40));
        match random.below(12) {
            0 if expected.remove(&name).is_some() => corpus.delete_many(&[name]).unwrap(),
            1 => drop(corpus.recompress(&NoProgress).unwrap()),
            2 if !expected.contains_key("copied") => {
                corpus.copy_from(&text, &CopyOptions::default()).unwrap();
                expected.insert("copied".into(), fs::read(&text).unwrap());
            }
            3 => {
                database.drop_corpus("c").unwrap();
                database.create_corpus("c", small()).unwrap();
                expected.clear();
            }
            4 => {
                corpus.replace_many(&[(&name, &words)]).unwrap();
                expected.insert(name, words.into_bytes());
            }
            _ => {
                corpus.append_many(&[(&name, &words)]).unwrap();
                expected.entry(name).or_default().extend(words.bytes());
            }
        }
        let now: Vec<(String, Vec<u8>)> = expected.clone().into_iter().collect();
        for database in &databases {
            assert_eq!(texts(database, "c"), now, "step {step}");
            let snapshot = database.corpus("c").unwrap().snapshot().unwrap();
            let words = now.iter().map(|(_, text)| {
                text.split(|byte| *byte == b' ')
                    .filter(|word| *word == b"word")
                    .count() as u64
            });
            assert_eq!(
                snapshot.count("word").unwrap(),
                words.sum::<u64>(),
                "step {step}"
            );
            if step % 7 == 0 {
                held.push((snapshot, now.clone()));
            }
        }
    }
    // Snapshots stay as they were, whatever was removed since.
    for (snapshot, texts) in held {
        for (name, text) in texts {
            assert_eq!(
                snapshot.extract(&name, 0, u64::MAX).unwrap(),
                text,
                "{name}"
            );
        }
    }
    drop(databases);
    let database = Database::open(&path).unwrap();
    assert_eq!(database.warnings(), Vec::<String>::new());
    assert_eq!(
        texts(&database, "c"),
        expected.into_iter().collect::<Vec<_>>()
    );
    database.corpus("c").unwrap().check(&NoProgress).unwrap();
}

#[test]
fn what_is_committed_after_a_corpus_was_dropped_and_the_lock_given_back_is_seen() {
    let folder = scratch();
    let path = folder.path().join("a.zdb");
    let text = folder.path().join("copied");
    fs::write(&text, "the cat ").unwrap();
    let databases = [(); 2].map(|()| brief(&path));
    let [one, other] = &databases;
    one.create_corpus("c", small()).unwrap();
    one.corpus("c").unwrap().append_many(&[("f", "x")]).unwrap();
    one.drop_corpus("c").unwrap();
    let corpus = one.create_corpus("c", small()).unwrap();
    corpus.copy_from(&text, &CopyOptions::default()).unwrap();
    for round in 1..4 {
        // The lock is given back meanwhile, if the machine is not too busy.
        std::thread::sleep(Duration::from_millis(50));
        corpus.append_many(&[("f", "y")]).unwrap();
        for database in [one, other] {
            let now = texts(database, "c");
            assert_eq!(now[1], ("f".into(), vec![b'y'; round]), "round {round}");
        }
    }
}

#[test]
fn a_database_that_has_to_be_mended_is_mended_by_the_first_to_open_it() {
    let folder = scratch();
    let path = folder.path().join("a.zdb");
    let database = brief(&path);
    let corpus = database.create_corpus("c", small()).unwrap();
    corpus.append_many(&[("f", "kept")]).unwrap();
    drop((corpus, database));
    fs::write(path.join("MANIFEST"), "damaged").unwrap();
    let database = brief(&path);
    assert_eq!(database.warnings().len(), 1, "{:?}", database.warnings());
    assert_eq!(texts(&database, "c"), [("f".into(), b"kept".to_vec())]);
    drop(database);
    assert_eq!(brief(&path).warnings(), Vec::<String>::new());
}

#[test]
fn a_shared_database_is_created_by_its_first_change() {
    let folder = scratch();
    let path = folder.path().join("a.zdb");
    let (reader, writer) = (brief(&path), brief(&path));
    for sql in [
        "SELECT 1",
        "SELECT corpus FROM corpora()",
        "SET memory_limit = '64MiB'",
        "DROP CORPUS IF EXISTS c",
        "DROP INDEX IF EXISTS i",
        "DROP VIEW IF EXISTS v",
        "CREATE TEMP VIEW v AS SELECT 1",
    ] {
        reader.execute_batch(sql).unwrap();
    }
    for sql in [
        "SELECT word FROM c",
        "COPY c FROM '.'",
        "INSERT INTO c (file, content) VALUES ('f', 'x')",
        "DELETE FROM c",
        "DROP CORPUS c",
        "DROP INDEX i",
        "CREATE VIEW w AS SELECT word FROM c",
    ] {
        let error = reader.execute_batch(sql).unwrap_err().to_string();
        let is_reported =
            error.contains("there is no database at") || error.contains("no such index");
        assert!(is_reported, "{sql}: {error}");
    }
    let notices = |database: &Database| {
        let rows = database.query("SELECT corpus FROM corpora()", ()).unwrap();
        rows.notices().len()
    };
    assert_eq!((notices(&reader), reader.corpora().len()), (1, 0));
    assert!(!path.exists());

    writer.execute_batch("CREATE CORPUS c").unwrap();
    assert_eq!(reader.corpora(), ["c"]);
    assert_eq!(notices(&reader), 0);
    reader
        .execute_batch("INSERT INTO c (file, content) VALUES ('f', 'x')")
        .unwrap();
    assert_eq!(texts(&writer, "c"), [("f".into(), b"x".to_vec())]);
    drop((reader, writer));
    assert_eq!(Database::open(&path).unwrap().corpora(), ["c"]);

    // One that was there and is removed is not made again.
    let reader = brief(&path);
    fs::remove_dir_all(&path).unwrap();
    assert!(reader.query("SELECT word FROM c", ()).is_err());
    assert!(reader.execute_batch("CREATE CORPUS d").is_err());
    assert!(!path.exists());

    // An empty directory is a place for a database, one with other files is none.
    fs::create_dir(&path).unwrap();
    let database = brief(&path);
    assert_eq!(database.corpora().len(), 0);
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    database.execute_batch("CREATE CORPUS c").unwrap();
    drop(database);
    let stuff = folder.path().join("stuff");
    fs::create_dir(&stuff).unwrap();
    fs::write(stuff.join("notes.txt"), "mine").unwrap();
    let error = shared().open(&stuff).unwrap_err().to_string();
    assert!(error.contains("holds other files"), "{error}");
    let error = shared().open(folder.path().join("none/a.zdb")).unwrap_err();
    assert!(error.to_string().contains("none: cannot open"), "{error}");
}

/// Files that each commit changes together.
const FILES: usize = 3;
const COMMITS: u64 = 60;
const READERS: usize = 8;

/// The text of each file after `commits` commits.
fn text_of(commits: u64) -> Vec<u8> {
    // From time to time the files are replaced and not appended to.
    let first = commits / 16 * 16;
    let line = |commit: u64| format!("commit {commit} tick of many words\n");
    (first..=commits).map(line).collect::<String>().into_bytes()
}

fn acknowledged(folder: &Path) -> u64 {
    let text = fs::read_to_string(folder.join("acknowledged")).unwrap();
    text.parse().unwrap()
}

#[test]
fn eight_processes_read_beside_one_that_writes_recompresses_and_drops() {
    let folder = scratch();
    let path = folder.path().join("a.zdb");
    let acknowledge = |commits: u64| {
        let next = folder.path().join("next");
        fs::write(&next, commits.to_string()).unwrap();
        fs::rename(&next, folder.path().join("acknowledged")).unwrap();
    };
    let database = shared().open(&path).unwrap();
    database.create_corpus("c", small()).unwrap();
    let commit = |commits: u64| {
        let mut edits = database.begin().unwrap();
        for file in 0..FILES {
            let name = format!("f{file}");
            if commits.is_multiple_of(16) {
                edits
                    .replace_many("c", &[(name, text_of(commits))])
                    .unwrap();
            } else {
                let line = format!("commit {commits} tick of many words\n");
                edits.append_many("c", &[(name, line)]).unwrap();
            }
        }
        edits.commit().unwrap();
        acknowledge(commits);
    };
    commit(0);
    let argument = folder.path().to_str().unwrap();
    let children: Vec<_> = (0..READERS)
        .map(|_| start_child("sharing::child_that_reads_until_all_is_committed", argument))
        .collect();
    for commits in 1..=COMMITS {
        commit(commits);
        if commits % 5 == 0 {
            database.execute_batch("RECOMPRESS c").unwrap();
        }
        if commits % 4 == 0 {
            database.execute_batch("DROP CORPUS IF EXISTS d").unwrap();
            let corpus = database.create_corpus("d", small()).unwrap();
            let text = format!("{commits} ").repeat(3_000);
            corpus.append_many(&[("g", text)]).unwrap();
            corpus.recompress(&NoProgress).unwrap();
        }
    }
    for child in children {
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success(), "{said}");
    }
}

#[test]
fn child_that_reads_until_all_is_committed() {
    let Some(folder) = child_argument() else {
        return;
    };
    let folder = Path::new(&folder);
    let database = shared().open(folder.join("a.zdb")).unwrap();
    let mut last = 0;
    let mut last_dropped = 0;
    let mut held = None;
    while last < COMMITS {
        let least = acknowledged(folder);
        let found = texts(&database, "c");
        assert_eq!(found.len(), FILES);
        let text = &found[0].1;
        // The number of the last line.
        let line = text.split(|byte| *byte == b'\n').rev().nth(1).unwrap();
        let number = line.split(|byte| *byte == b' ').nth(1).unwrap();
        let commits: u64 = String::from_utf8_lossy(number).parse().unwrap();
        assert!(
            commits >= least && commits >= last,
            "{commits} of {least} after {last}"
        );
        assert!(
            found.iter().all(|(_, text)| *text == text_of(commits)),
            "{commits}"
        );
        last = commits;

        let snapshot = database.corpus("c").unwrap().snapshot().unwrap();
        let ticks = snapshot.count("tick").unwrap();
        let text = snapshot.extract("f1", 0, u64::MAX).unwrap();
        let lines = text.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(ticks, (FILES * lines) as u64);
        if let Some((snapshot, text)) = held.replace((snapshot, text)) {
            assert_eq!(snapshot.extract("f1", 0, u64::MAX).unwrap(), text);
        }

        // It comes and goes; what is there is one of its states, and no earlier one than before.
        if let Ok(corpus) = database.corpus("d")
            && let Ok(snapshot) = corpus.snapshot()
            && !snapshot.files().is_empty()
        {
            let text = snapshot.extract("g", 0, u64::MAX).unwrap();
            let number = text.split(|byte| *byte == b' ').next().unwrap();
            let number = String::from_utf8_lossy(number).into_owned();
            assert_eq!(text, format!("{number} ").repeat(3_000).into_bytes());
            let number: u64 = number.parse().unwrap();
            assert!(number >= last_dropped);
            last_dropped = number;
        }
    }
}
