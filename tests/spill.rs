//! Queries that need far more memory than they have: the same rows as with enough, few open files, and none left behind.
//!
//! One test, because it counts the files that the whole process has open.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use zipfdb::ingest::CopyOptions;

use zipfdb::{CorpusSettings, Database, Error, Value};

/// Words that hardly come back.
fn text(words: u64) -> String {
    let word = |number: u64| format!("w{} ", number.wrapping_mul(0x9e37_79b9) % (1 << 20));
    (0..words).map(word).collect()
}

/// Temporary files without a name that are open.
fn open_spill_files() -> usize {
    let Ok(descriptors) = fs::read_dir("/proc/self/fd") else {
        return 0;
    };
    let targets = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    // As they are called where files can be made without a name, and where they cannot.
    let is_gone = |target: &Path| {
        let target = target.to_string_lossy();
        target.ends_with(" (deleted)") && (target.contains("/#") || target.contains("/.tmp"))
    };
    targets.filter(|target| is_gone(target)).count()
}

/// The rows of a query, and the most temporary files that were open meanwhile.
fn watched(database: &Database, sql: &str) -> (Vec<Vec<Value>>, usize) {
    let (is_done, most) = (AtomicBool::new(false), AtomicUsize::new(0));
    let rows = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                most.fetch_max(open_spill_files(), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(2));
            }
        });
        let answer = || -> Result<Vec<Vec<Value>>, Error> {
            let mut rows = database.query(sql, ())?;
            let first = rows.next();
            // Its first row is out and the others are still in files.
            most.fetch_max(open_spill_files(), Ordering::Relaxed);
            let rows = first.into_iter().chain(rows);
            rows.map(|row| row.map(|row| row.into_values())).collect()
        };
        let rows = answer();
        is_done.store(true, Ordering::Relaxed);
        rows
    });
    let rows = rows.unwrap_or_else(|error| panic!("{sql}: {error}"));
    (rows, most.into_inner())
}

#[test]
fn little_memory_gives_the_same_rows_from_few_files() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("text"), text(60_000)).unwrap();
    for (name, bytes) in [
        ("a", 300_000),
        ("b", 1_300_000),
        ("c", 20_000),
        ("d", 700_000),
    ] {
        let words = text(bytes / 7).replace('w', name);
        fs::write(folder.path().join(format!("long-{name}")), words).unwrap();
    }
    let path = folder.path().join("spill.zdb");
    let database = Database::open(&path).unwrap();
    let corpora = [("words", "text"), ("files", "long-*")];
    for (corpus, files) in corpora {
        let corpus = database
            .create_corpus(corpus, CorpusSettings::default())
            .unwrap();
        let files = folder.path().join(files);
        corpus.copy_from(files, &CopyOptions::default()).unwrap();
    }
    let wide = format!("'{}'", "-".repeat(800));
    let queries = [
        // About 60, 30 and 30 runs, of which 32 are merged at a time, and less where two operators share.
        format!("SELECT word || {wide} AS x, position FROM words ORDER BY x, position % 10"),
        format!(
            "SELECT word || position || {wide} AS x, COUNT(*), MAX(position) FROM words GROUP BY x ORDER BY x"
        ),
        format!("SELECT DISTINCT (position % 30000) || {wide} AS x FROM words ORDER BY x DESC"),
        "SELECT COUNT(DISTINCT word || position), SUM(DISTINCT position) FROM words".into(),
        // Arguments in order: of groups in several runs, as numbers and as values.
        "SELECT position % 50, group_concat(DISTINCT word), median(position), var_pop(offset), COUNT(DISTINCT word), \
         MAX(word), percentile_cont(word || position, 0.3), median(DISTINCT position % 40000 || 'x') \
         FROM words GROUP BY 1 ORDER BY 1".into(),
        "SELECT group_concat(substr(word, 1, 3) || position % 3, '' ORDER BY substr(word, 2, 1) COLLATE NOCASE DESC, position % 30000) \
         FROM words GROUP BY position % 2".into(),
        // Rows that are larger than all memory.
        "SELECT content, bytes FROM files('files') ORDER BY content DESC".into(),
        "SELECT content, COUNT(*), MIN(content) FROM files('files') GROUP BY content ORDER BY 1"
            .into(),
        "SELECT DISTINCT content FROM files('files') ORDER BY 1".into(),
        "SELECT COUNT(DISTINCT content), COUNT(DISTINCT substr(content, 1, 9)) FROM files('files')"
            .into(),
        "SELECT file, COUNT(*), SUM(count), MAX(rank), MIN(word) FROM term_vectors('files', 1000000) GROUP BY file ORDER BY file".into(),
    ];
    let mut seen = 0;
    for sql in &queries {
        database.execute_batch("SET memory_limit = '1GiB'").unwrap();
        let (expected, none) = watched(&database, sql);
        assert_eq!(none, 0, "{sql}");
        database.execute_batch("SET memory_limit = '1MiB'").unwrap();
        let (found, files) = watched(&database, sql);
        assert!(found == expected, "{sql}");
        // A file for each level of each of two operators.
        assert!(files <= 12, "{files} files: {sql}");
        seen = seen.max(files);
        assert_eq!(open_spill_files(), 0, "{sql}");
    }
    if cfg!(target_os = "linux") {
        assert!(seen > 0, "no query spilled");
    }
    // Whether its rows are not taken or it is interrupted, what a query has spilled is gone with it.
    let mut rows = database.query(&queries[0], ()).unwrap();
    rows.next().unwrap().unwrap();
    rows.interrupt_handle().unwrap().interrupt();
    let error = rows.find_map(|row| row.err()).unwrap();
    assert!(matches!(error, Error::Interrupted), "{error}");
    assert_eq!(open_spill_files(), 0);
    let mut rows = database.query(&queries[1], ()).unwrap();
    rows.next().unwrap().unwrap();
    drop(rows);
    assert_eq!(open_spill_files(), 0);
    let names = fs::read_dir(folder.path()).unwrap();
    assert_eq!(names.count(), 6);
}
