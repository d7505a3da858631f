//! Imports that workers share: they become one version with what one process would import, or nothing.
//!
//! Workers run in this process; those that are killed and stopped are processes of their own.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use datafusion::error::Result;
use tempfile::TempDir;
use tokio::net::TcpListener;
use zipfdb::ingest::CopyOptions;
use zipfdb::{CorpusSettings, Database, Value};
use zipfdb_datafusion::{Imported, Worker, WorkerLimits, WorkerOptions, WorkerPool, import};
use zipfdb_remote::{CacheOptions, RemoteStore};

/// A published database whose corpus `books` has one file, and texts to import.
struct Setup {
    directory: TempDir,
    store: RemoteStore,
}

fn set_up() -> Setup {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("books.zdb");
    let local = Database::open(&path).unwrap();
    let books = local
        .create_corpus("books", CorpusSettings::default())
        .unwrap();
    books
        .append_many(&[("first.txt", "the first text of all")])
        .unwrap();
    local.execute_batch("RECOMPRESS books").unwrap();
    for index in [
        "CREATE INDEX lists ON books USING postings WITH (unit = 'block:64')",
        "CREATE INDEX Places ON books USING occurrences",
    ] {
        local.execute_batch(index).unwrap();
    }
    drop((books, local));
    let store = RemoteStore::new(&format!("file://{}/books", directory.path().display())).unwrap();
    store.push(&path, false).unwrap();
    let setup = Setup { directory, store };
    for folder in ["a", "b"] {
        let folder = setup.texts().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        for file in 0..15 {
            let words = (0..200 + 40 * file).map(|word| format!("w{}", word * word % (7 + file)));
            let text = words
                .collect::<Vec<_>>()
                .join(if file % 3 == 0 { "\n" } else { " " });
            std::fs::write(folder.join(format!("{file:02}.txt")), text).unwrap();
        }
    }
    setup
}

impl Setup {
    fn texts(&self) -> PathBuf {
        self.directory.path().join("texts")
    }

    fn limits(&self) -> WorkerLimits {
        let mut limits = WorkerLimits::default();
        limits.threads = Some(1);
        limits.import_from = Some(self.texts());
        limits
    }

    async fn worker(&self, limits: WorkerLimits) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let worker = Worker::new(self.store.clone(), limits, None).unwrap();
        tokio::spawn(worker.serve(listener, None, std::future::pending()));
        address
    }

    async fn import(&self, addresses: &[String], path: &Path) -> Result<Imported> {
        let mut options = WorkerOptions::default();
        options.silence = Duration::from_secs(1);
        // Several files, and many parts.
        options.part_bytes = Some(3_000);
        let version = self.store.published(None).unwrap();
        let pool = Arc::new(WorkerPool::new(version, addresses, options).unwrap());
        import(&self.store, &pool, "Books", path, |_, _| {}).await
    }

    async fn refused(&self, addresses: &[String], path: &Path) -> String {
        let versions = self.store.versions().unwrap();
        let error = self.import(addresses, path).await.unwrap_err();
        assert_eq!(self.store.versions().unwrap(), versions);
        error.strip_backtrace()
    }

    /// What a version has, as one process would have imported it.
    fn check(&self, segments: usize) {
        let remote = self
            .store
            .open(None, Database::options(), &CacheOptions::default());
        let remote = remote.unwrap();
        let alone = Database::in_memory().unwrap();
        let books = alone
            .create_corpus("books", CorpusSettings::default())
            .unwrap();
        books
            .append_many(&[("first.txt", "the first text of all")])
            .unwrap();
        books
            .copy_from(self.texts(), &CopyOptions::default())
            .unwrap();
        for sql in [
            "SELECT file, bytes, words, content FROM files('books') ORDER BY file",
            "SELECT word, COUNT(*) FROM books GROUP BY word ORDER BY word",
            "SELECT file, position, word FROM books ORDER BY file, position",
        ] {
            assert_eq!(all(&remote, sql), all(&alone, sql), "{sql}");
        }
        let indexes = all(&remote, "SELECT segment, bytes FROM indexes('books')");
        assert!(
            indexes
                .iter()
                .all(|row| matches!(row[1], Value::Integer(1..))),
            "{indexes:?}"
        );
        let found = remote.corpus("books").unwrap().segments().unwrap().len();
        assert_eq!(indexes.len(), 2 * found);
        assert!(found >= segments, "{found} segments");
        // A copy is a database that is written on, even if all that says which segments it has is lost.
        let directory = tempfile::tempdir().unwrap();
        let pulled = directory.path().join("pulled.zdb");
        self.store.pull(None, &pulled).unwrap();
        std::fs::remove_file(pulled.join("MANIFEST")).unwrap();
        let local = Database::open(&pulled).unwrap();
        let checked = all(&local, "CHECK books");
        assert!(checked.len() >= found);
        assert!(
            checked.iter().all(|row| row[3] == Value::Text("ok".into())),
            "{checked:?}"
        );
        local
            .execute_batch("INSERT INTO books (file, content) VALUES ('new', 'a text')")
            .unwrap();
        local.execute_batch("RECOMPRESS books").unwrap();
        let count = "SELECT COUNT(*) FROM books";
        let more = all(&alone, count)[0][0].clone();
        let Value::Integer(more) = more else {
            panic!("{more:?}")
        };
        assert_eq!(all(&local, count), [[Value::Integer(more + 2)]]);
    }
}

fn all(database: &Database, sql: &str) -> Vec<Vec<Value>> {
    let rows = database.query(sql, ()).unwrap();
    rows.map(|row| row.unwrap().into_values()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_import_what_one_process_would() {
    let setup = set_up();
    let mut addresses = Vec::new();
    for _ in 0..3 {
        addresses.push(setup.worker(setup.limits()).await);
    }
    let imported = setup.import(&addresses, &setup.texts()).await.unwrap();
    assert_eq!(imported.pushed.version, 2);
    assert!(imported.notices.is_empty());
    setup.check(10);
    // Its files are there now.
    let shown = setup.refused(&addresses, &setup.texts()).await;
    assert!(
        shown.contains("a/00.txt") && shown.contains("hint: "),
        "{shown}"
    );
    // The manifest before; nothing else is left, and everything that the version needs is.
    let collected = setup.store.collect(Duration::ZERO).unwrap();
    assert_eq!((collected.versions, collected.objects), (1, 1));
    setup.check(10);
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_that_fail_are_replaced() {
    let setup = set_up();
    let good = setup.worker(setup.limits()).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_address = silent.local_addr().unwrap().to_string();
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed_address = closed.local_addr().unwrap().to_string();
    drop(closed);
    let mut full = setup.limits();
    full.scratch = Some(setup.directory.path().join("missing"));
    let full = setup.worker(full).await;
    let bad = [silent_address, closed_address, full];
    let shown = setup.refused(&bad, &setup.texts()).await;
    for address in &bad {
        assert!(shown.contains(address), "{shown}");
    }
    let [first, second, third] = bad;
    let imported = setup
        .import(&[first, second, good, third], &setup.texts())
        .await;
    assert_eq!(imported.unwrap().pushed.version, 2);
    setup.check(10);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_worker_must_not_or_cannot_read_is_an_error() {
    let setup = set_up();
    let mut none = setup.limits();
    none.import_from = None;
    let none = [setup.worker(none).await];
    let shown = setup.refused(&none, &setup.texts()).await;
    assert!(shown.contains("--import-from"), "{shown}");
    let mut part = setup.limits();
    part.import_from = Some(setup.texts().join("a"));
    let part = [setup.worker(part).await];
    for path in [setup.texts(), setup.texts().join("b")] {
        let shown = setup.refused(&part, &path).await;
        assert!(shown.contains("--import-from"), "{shown}");
    }
    let shown = setup.refused(&part, &setup.texts().join("c")).await;
    assert!(shown.contains("texts/c"), "{shown}");
    std::fs::write(setup.texts().join("a/99.txt"), b"caf\xe9").unwrap();
    let imported = setup.import(&part, &setup.texts().join("a")).await.unwrap();
    let [notice] = &imported.notices[..] else {
        panic!("one file is not UTF-8: {:?}", imported.notices);
    };
    assert!(notice.starts_with("files `"), "{notice}");
    assert!(
        notice.contains("a/99.txt") && notice.contains("hint: "),
        "{notice}"
    );
    // Another publisher is faster.
    let local = setup.directory.path().join("books.zdb");
    setup.store.push(&local, true).unwrap();
    let mut options = WorkerOptions::default();
    options.part_bytes = Some(3_000);
    let before = setup.store.published(Some(2)).unwrap();
    let pool = Arc::new(WorkerPool::new(before, &part, options).unwrap());
    let late = import(
        &setup.store,
        &pool,
        "books",
        &setup.texts().join("a"),
        |_, _| {},
    )
    .await;
    let shown = late.unwrap_err().strip_backtrace();
    assert!(shown.contains("published meanwhile"), "{shown}");
    // Changes that are no segments yet.
    let writer = Database::open(&local).unwrap();
    writer
        .execute_batch("INSERT INTO books (file, content) VALUES ('x', 'y')")
        .unwrap();
    drop(writer);
    setup.store.push(&local, false).unwrap();
    let shown = setup.refused(&part, &setup.texts().join("a")).await;
    assert!(shown.contains("RECOMPRESS"), "{shown}");
}

/// A worker that is a process; it is killed when it is dropped.
struct Process {
    child: Child,
    address: String,
}

impl Process {
    fn start(setup: &Setup) -> Process {
        let mut child = Command::new(env!("CARGO_BIN_EXE_zipf-full"))
            .args(["worker", "--listen", "127.0.0.1:0", "--threads", "1"])
            .args(["--database", setup.store.url()])
            .arg("--import-from")
            .arg(setup.texts())
            .arg("--scratch")
            .arg(setup.directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        let address = line.split_whitespace().nth(2).unwrap();
        Process {
            address: address.trim_end_matches(',').to_owned(),
            child,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn workers_that_are_killed_or_stopped_during_an_import_are_replaced() {
    let setup = set_up();
    let (mut killed, stopped) = (Process::start(&setup), Process::start(&setup));
    let good = Process::start(&setup);
    let addresses = [&killed, &stopped, &good].map(|process| process.address.clone());
    let texts = setup.texts();
    let imported = setup.import(&addresses, &texts);
    let stop = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        killed.child.kill().unwrap();
        let stop = Command::new("kill")
            .args(["-STOP", &stopped.child.id().to_string()])
            .status();
        assert!(stop.unwrap().success());
    };
    let (imported, ()) = tokio::join!(imported, stop);
    assert_eq!(imported.unwrap().pushed.version, 2);
    setup.check(10);
}

#[test]
fn the_program_imports_and_says_what_it_did() {
    let setup = set_up();
    let worker = Process::start(&setup);
    let run = |path: &Path| {
        Command::new(env!("CARGO_BIN_EXE_zipf-full"))
            .args(["import", setup.store.url(), "books"])
            .arg(path)
            .args(["--workers", &worker.address])
            .output()
            .unwrap()
    };
    let output = run(&setup.texts());
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.starts_with("version 2: "), "{shown}");
    assert!(output.status.success());
    setup.check(1);
    let output = run(&setup.texts().join("missing"));
    let shown = String::from_utf8(output.stderr).unwrap();
    assert!(
        shown.contains("missing") && !output.status.success(),
        "{shown}"
    );
}
