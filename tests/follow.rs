//! COPY ... FROM with `follow`: what files get is appended until an interrupt, and later imports go on there.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use tempfile::TempDir;
use zipfdb::ingest::{CopyOptions, OnError, Report};
use zipfdb::{Database, Error};

/// A folder with logs, and a database on disk.
struct Logs {
    folder: TempDir,
}

impl Logs {
    fn new() -> Logs {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("logs")).unwrap();
        Logs { folder }
    }

    fn open(&self) -> Database {
        let database = Database::open(self.folder.path().join("x.zdb")).unwrap();
        (database.execute_batch("CREATE CORPUS IF NOT EXISTS c")).unwrap();
        database
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("logs").join(name)
    }

    fn append(&self, name: &str, text: &str) {
        let file = File::options()
            .create(true)
            .append(true)
            .open(self.path(name));
        file.unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Follows all logs in a thread.
    fn follow(&self, database: &Database, on_error: OnError) -> JoinHandle<zipfdb::Result<Report>> {
        let corpus = database.corpus("c").unwrap();
        let glob = self.path("*.log");
        std::thread::spawn(move || {
            let options = CopyOptions {
                follow: true,
                on_error,
                ..CopyOptions::default()
            };
            corpus.copy_from(glob, &options)
        })
    }
}

/// Waits until a corpus has the texts of files.
fn wait_for(database: &Database, names: &[&str], path: &dyn Fn(&str) -> PathBuf) {
    let has_text = |name: &&str| {
        let expected = fs::read(path(name)).unwrap();
        let snapshot = database.corpus("c").unwrap().snapshot().unwrap();
        snapshot
            .extract(name, 0, u64::MAX)
            .is_ok_and(|text| text == expected)
    };
    while !names.iter().all(has_text) {
        sleep(Duration::from_millis(10));
    }
}

/// Interrupts until a thread has ended: an interrupt before its statement begins does nothing.
fn end(database: &Database, following: JoinHandle<zipfdb::Result<Report>>) -> Report {
    while !following.is_finished() {
        database.interrupt_handle().interrupt();
        sleep(Duration::from_millis(10));
    }
    following.join().unwrap().unwrap()
}

#[test]
fn logs_are_appended_until_an_interrupt_and_from_there_after_a_restart() {
    let logs = Logs::new();
    let path = |name: &str| logs.path(name);
    logs.append("a.log", "one\ntwo\nthr");
    {
        let database = logs.open();
        let following = logs.follow(&database, OnError::Stop);
        wait_for(&database, &["a.log"], &path);
        logs.append("a.log", "ee\nfour\n");
        logs.append("b.log", "other\n");
        wait_for(&database, &["a.log", "b.log"], &path);
        let report = end(&database, following);
        assert_eq!((report.files, report.bytes), (2, 25));
        let three = database
            .corpus("c")
            .unwrap()
            .snapshot()
            .unwrap()
            .count("three");
        assert_eq!(three.unwrap(), 1);
    }
    // More than one batch of a file while nothing follows it.
    logs.append("a.log", &"five\n".repeat(2_000_000));
    let database = logs.open();
    let following = logs.follow(&database, OnError::Stop);
    wait_for(&database, &["a.log", "b.log"], &path);
    assert_eq!(end(&database, following).bytes, 10_000_000);
    assert_eq!(database.corpus("c").unwrap().files().unwrap().len(), 2);
}

#[test]
fn a_file_that_does_not_continue_its_text_is_an_error_or_left_out() {
    for (text, name) in [
        ("short", "cut"),
        ("another beginning and more\n", "rotated"),
    ] {
        let logs = Logs::new();
        let database = logs.open();
        logs.append("a.log", "the beginning\n");
        let following = logs.follow(&database, OnError::Stop);
        wait_for(&database, &["a.log"], &|name| logs.path(name));
        fs::write(logs.path("a.log"), text).unwrap();
        let error = following.join().unwrap().unwrap_err();
        assert!(matches!(error, Error::Unreadable { .. }), "{name}: {error}");
        let message = error.to_string();
        assert!(
            message.contains("it does not continue the text"),
            "{message}"
        );
        // Others are followed.
        logs.append("b.log", "other\n");
        let following = logs.follow(&database, OnError::Skip);
        wait_for(&database, &["b.log"], &|name| logs.path(name));
        let report = end(&database, following);
        assert_eq!(report.unreadable.len(), 1, "{name}");
        let snapshot = database.corpus("c").unwrap().snapshot().unwrap();
        assert_eq!(
            snapshot.extract("a.log", 0, 99).unwrap(),
            b"the beginning\n"
        );
    }
}

#[test]
fn what_is_followed_is_plain_text() {
    let logs = Logs::new();
    let database = logs.open();
    logs.append("a.log", "text\n");
    let path: &Path = &logs.path("a.log");
    for option in [
        "records = 'line'",
        "encoding = 'latin-1'",
        "on_conflict = 'skip'",
    ] {
        let sql = format!(
            "COPY c FROM '{}' WITH (follow = true, {option})",
            path.display()
        );
        let error = database.execute_batch(&sql).unwrap_err().to_string();
        assert!(error.contains("option follow"), "{error}");
    }
}
