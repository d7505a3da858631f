//! What each scope of a recompression takes, and what becomes of it.

#![allow(clippy::unwrap_used)]

use std::sync::atomic::AtomicBool;

use super::*;
use crate::{Database, NoProgress};

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
    database.execute(sql).unwrap();
    let count = || {
        let snapshot = database.corpus("c").unwrap().snapshot().unwrap();
        snapshot.count("cat").unwrap()
    };
    append(&database, 0..10);
    assert!(recompress_as(&database, Scope::Packed).is_some());
    assert_eq!(forms(&database), [SegmentForm::Text]);
    assert_eq!(database.corpus("c").unwrap().pending_bytes().unwrap(), 0);
    assert_eq!(count(), 2_000);

    // More is new than has to be written again.
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
