//! The segments that each scope of a recompression takes, and the result.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rayon::ThreadPoolBuilder;
use tempfile::TempDir;

use super::*;
use crate::Database;
use crate::ingest::NoProgress;

fn recompress_as(database: &Database, scope: Scope) -> Option<Recompression> {
    let core = database.shared().core();
    let (stop, go_on) = (AtomicBool::new(false), || Ok(()));
    let pool = &core.runtime.pool;
    recompress(&core, pool, "c", scope, &NoProgress, &stop, &go_on).unwrap()
}

fn forms(database: &Database) -> Vec<SegmentForm> {
    let segments = database.corpus("c").unwrap().segments().unwrap();
    segments.iter().map(|segment| segment.form).collect()
}

fn append(database: &Database, files: std::ops::Range<u32>) {
    let text = "the cat and the dog ".repeat(200);
    let rows: Vec<_> = files.map(|file| (format!("f{file}"), &text)).collect();
    let mut edits = database.begin().unwrap();
    edits.append_many("c", &rows).unwrap();
    edits.commit().unwrap();
}

#[test]
fn new_text_is_packed_and_what_few_changes_touch_is_not() {
    let database = Database::in_memory().unwrap();
    let sql = "SET recompress_threads = 0; CREATE CORPUS c WITH (ingest = 'fast')";
    database.execute_batch(sql).unwrap();
    let count = || {
        let snapshot = database.corpus("c").unwrap().snapshot().unwrap();
        snapshot.count("cat").unwrap()
    };
    append(&database, 0..10);
    assert!(recompress_as(&database, Scope::Packed).is_some());
    assert_eq!(forms(&database), [SegmentForm::Text]);
    assert_eq!(database.corpus("c").unwrap().pending_bytes().unwrap(), 0);
    assert_eq!(count(), 2_000);

    // The new text exceeds the text to be written again.
    append(&database, 5..20);
    assert!(recompress_as(&database, Scope::Packed).is_some());
    assert_eq!(forms(&database), [SegmentForm::Text]);
    assert_eq!(count(), 5_000);

    append(&database, 3..4);
    assert!(recompress_as(&database, Scope::Packed).is_none());
    assert!(recompress_as(&database, Scope::Due).is_some());
    assert_eq!(forms(&database), [SegmentForm::Grammar]);
    assert_eq!(count(), 5_200);
    assert!(recompress_as(&database, Scope::Packed).is_none());
}

/// Runs another action at the first report of progress, on a thread of its own, and waits for it.
struct Meanwhile<'a> {
    work: &'a (dyn Fn() + Sync),
    is_done: AtomicBool,
}

impl Progress for Meanwhile<'_> {
    fn begin(&self, _stage: &str, _total: u64) {}

    fn end(&self) {}

    fn advance(&self, _bytes: u64) {
        if !self.is_done.swap(true, Ordering::Relaxed) {
            thread::scope(|scope| {
                scope.spawn(self.work);
            });
        }
    }
}

#[test]
fn files_that_are_imported_while_others_are_recompressed_stay_with_their_edits() {
    let top = TempDir::new().unwrap();
    let source = |name: &str| {
        let path = top.path().join(name);
        fs::write(&path, "the cat and the dog ".repeat(100)).unwrap();
        path.display().to_string()
    };
    let path = top.path().join("c.zdb");
    let count = |database: &Database| {
        let snapshot = database.corpus("c").unwrap().snapshot().unwrap();
        let files = snapshot.files().len();
        let of = |file| snapshot.count_in(file, "cat").unwrap();
        (files, snapshot.count("cat").unwrap(), of("old"), of("new"))
    };
    let expected = (3, 303, 101, 102);
    {
        let database = Database::open(&path).unwrap();
        let run = |sql: &str| database.execute_batch(sql).map(drop).unwrap();
        run("SET recompress_threads = 0; CREATE CORPUS c WITH (ingest = 'fast')");
        for name in ["old", "other", "gone"] {
            run(&format!("COPY c FROM '{}'", source(name)));
        }
        // Committed before and during the recompression; both are in the log.
        run("DELETE FROM c WHERE file = 'gone'");
        let append = |files: &[&str]| {
            let rows: Vec<_> = files.iter().map(|file| (*file, " cat")).collect();
            let mut edits = database.begin().unwrap();
            edits.append_many("c", &rows).unwrap();
            edits.commit().unwrap();
        };
        let work = || {
            run(&format!("COPY c FROM '{}'", source("new")));
            append(&["new", "old"]);
            append(&["new"]);
            assert_eq!(count(&database), expected);
        };
        let meanwhile = Meanwhile {
            work: &work,
            is_done: AtomicBool::new(false),
        };
        let core = database.shared().core();
        let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let (stop, go_on) = (AtomicBool::new(false), || Ok(()));
        let done = recompress(&core, &pool, "c", Scope::Due, &meanwhile, &stop, &go_on);
        assert_eq!(done.unwrap().map(|done| done.replaced), Some(3));
        assert!(meanwhile.is_done.load(Ordering::Relaxed));
        assert_eq!(forms(&database), [SegmentForm::Text, SegmentForm::Grammar]);
        assert_eq!(count(&database), expected);
    }
    let database = Database::open(&path).unwrap();
    assert_eq!(count(&database), expected);
    // A recompression may have been due when the database was opened.
    recompress_as(&database, Scope::All);
    assert_eq!(forms(&database), [SegmentForm::Grammar]);
    assert_eq!(count(&database), expected);
}
