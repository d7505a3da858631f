//! A disk without room for segments: recompression in the background fails, and says so, until there is room again.
//!
//! The invariant: what is committed is there, pending edits are bounded, and what makes room stays possible.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use zipfdb::ingest::NoProgress;

use zipfdb::{Corpus, CorpusSettings, Database, Error, Result, Value};
use zipfdb_test_support::on_create::{OnCreate, is_segment};

/// The real file system, on which no segment can be created while it is full.
#[derive(Debug, Default)]
struct Disk {
    is_full: AtomicBool,
    /// How often a segment was refused.
    refused: AtomicU64,
}

fn disk() -> Arc<OnCreate<Disk>> {
    OnCreate::new(|disk: &Disk, path| {
        if is_segment(path) && disk.is_full.load(Ordering::Relaxed) {
            disk.refused.fetch_add(1, Ordering::Relaxed);
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    })
}

const THRESHOLD: u64 = 1 << 14;

fn create(database: &Database, name: &str) -> Corpus {
    let settings = CorpusSettings {
        recompress_threshold: THRESHOLD,
        ..CorpusSettings::default()
    };
    database.create_corpus(name, settings).unwrap()
}

/// Adds files until one is refused, and says with which error.
fn fill(corpus: &Corpus) -> Error {
    let text = "the cat and the dog ".repeat(100);
    let add =
        |number: u32| -> Result<()> { corpus.append_many(&[(format!("{number:05}"), &text)]) };
    let refused = (0..1000).find_map(|number| add(number).err());
    refused.expect("pending edits are bounded")
}

/// Waits until something comes true by itself.
fn wait_until(what: &str, is_true: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_true() {
        assert!(begin.elapsed() < Duration::from_secs(120), "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn shown_error(database: &Database) -> Value {
    let sql = "SELECT recompress_error FROM corpora() WHERE corpus = 'c'";
    let row = database.query(sql, ()).unwrap().next().unwrap().unwrap();
    row[0].clone()
}

#[test]
fn edits_are_held_while_recompression_fails_and_go_on_by_themselves_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let disk = disk();
    let options = Database::options().threads(1).backend(disk.clone());
    let database = options.open(folder.path().join("d.zdb")).unwrap();
    let (corpus, other) = (create(&database, "c"), create(&database, "other"));
    assert_eq!(shown_error(&database), Value::Null);

    disk.state.is_full.store(true, Ordering::Relaxed);
    let error = fill(&corpus);
    let Error::Held {
        pending, reason, ..
    } = &error
    else {
        panic!("{error}")
    };
    assert!(
        (4 * THRESHOLD..6 * THRESHOLD).contains(pending),
        "{pending}"
    );
    assert!(error.to_string().contains("hint: DELETE"), "{error}");
    // The recompression may have failed again since, at another file.
    assert!(matches!(shown_error(&database), Value::Text(_)), "{reason}");
    assert!(corpus.recompress_error().unwrap().is_some());
    let insert = "INSERT INTO c (file, content) VALUES ('x', 'y')";
    assert!(matches!(
        database.execute_batch(insert),
        Err(Error::Held { .. })
    ));

    // Other corpora, deletions and questions go on; what needs room says that there is none.
    other.append_many(&[("a", "b")]).unwrap();
    corpus.delete_many(&["00000"]).unwrap();
    database
        .execute_batch("BEGIN; DELETE FROM c WHERE file = '00001'; COMMIT")
        .unwrap();
    assert!(corpus.recompress(&NoProgress).is_err());
    let files = corpus.files().unwrap().len();
    assert!(files > 20, "{files}");
    assert!(disk.state.refused.load(Ordering::Relaxed) >= 2);

    disk.state.is_full.store(false, Ordering::Relaxed);
    wait_until("it is recompressed without being asked", || {
        corpus.pending_bytes().unwrap() < THRESHOLD
    });
    wait_until("the error goes", || shown_error(&database) == Value::Null);
    database.execute_batch(insert).unwrap();
    assert_eq!(corpus.files().unwrap().len(), files + 1);
    assert_eq!(corpus.snapshot().unwrap().extract("x", 0, 9).unwrap(), b"y");
}

#[test]
fn recompressing_by_hand_and_dropping_end_the_failure() {
    let folder = tempfile::tempdir().unwrap();
    let disk = disk();
    let options = Database::options().threads(1).backend(disk.clone());
    let database = options.open(folder.path().join("d.zdb")).unwrap();
    let corpus = create(&database, "c");
    disk.state.is_full.store(true, Ordering::Relaxed);
    fill(&corpus);
    disk.state.is_full.store(false, Ordering::Relaxed);
    corpus.recompress(&NoProgress).unwrap();
    assert_eq!(corpus.recompress_error().unwrap(), None);
    assert_eq!(corpus.pending_bytes().unwrap(), 0);
    corpus.append_many(&[("x", "y")]).unwrap();

    disk.state.is_full.store(true, Ordering::Relaxed);
    fill(&corpus);
    database.execute_batch("DROP CORPUS c").unwrap();
    create(&database, "c").append_many(&[("x", "y")]).unwrap();
    assert_eq!(shown_error(&database), Value::Null);
    // Closing does not wait for the next attempt.
}

#[test]
fn a_longer_threshold_lets_held_edits_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let disk = disk();
    let options = Database::options().threads(1).backend(disk.clone());
    let database = options.open(folder.path().join("d.zdb")).unwrap();
    let corpus = create(&database, "c");
    disk.state.is_full.store(true, Ordering::Relaxed);
    fill(&corpus);
    database
        .execute_batch("ALTER CORPUS c SET (recompress_threshold = '1MiB')")
        .unwrap();
    corpus.append_many(&[("x", "y")]).unwrap();
}
