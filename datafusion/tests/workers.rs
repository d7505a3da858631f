//! Workers: they answer as one process does, and what becomes of a query when they fail.
//!
//! Workers run in this process; those that are killed and stopped are processes of their own.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::Ticket;
use arrow_flight::flight_service_client::FlightServiceClient;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tonic::transport::Endpoint;
use zipfdb::ingest::CopyOptions;
use zipfdb::{CorpusSettings, Database};
use zipfdb_datafusion::{Worker, WorkerLimits, WorkerOptions, WorkerPool};
use zipfdb_remote::{CacheOptions, RemoteStore};

/// A published database with the corpora `pets`, of several segments, and `birds`, of one.
struct Published {
    directory: TempDir,
    store: RemoteStore,
    database: Database,
}

const WORDS: &[&str] = &["the", "The", "cat", "dog", "can't", "na\u{ef}ve", "c3po"];

fn text(seed: usize, words: usize) -> String {
    let mut text = String::new();
    for word in 0..words {
        let number = (seed * 7919 + word * word * 31 + word / 3) % (WORDS.len() + 40);
        match WORDS.get(number) {
            Some(known) => text.push_str(known),
            None => write!(text, "w{}", number * (seed + 1)).unwrap(),
        }
        text.push_str(if word % 9 == 8 { ".\n" } else { " " });
    }
    text
}

fn publish(words: usize) -> Published {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pets.zdb");
    let local = Database::open(&path).unwrap();
    let pets = local
        .create_corpus("pets", CorpusSettings::default())
        .unwrap();
    for folder in 0..7 {
        let source = tempfile::tempdir().unwrap();
        for file in 0..3 {
            let name = format!("{}{folder}.txt", ["a", "m", "z"][file]);
            std::fs::write(source.path().join(name), text(folder * 3 + file, words)).unwrap();
        }
        pets.copy_from(source.path(), &CopyOptions::default())
            .unwrap();
    }
    assert!(pets.segments().unwrap().len() >= 5);
    let birds = local
        .create_corpus("birds", CorpusSettings::default())
        .unwrap();
    birds
        .append_many(&[("b.txt", "the bird and the cat")])
        .unwrap();
    local.execute_batch("RECOMPRESS birds").unwrap();
    drop((pets, birds, local));
    let store = RemoteStore::new(&format!("file://{}/pets", directory.path().display())).unwrap();
    store.push(&path, false).unwrap();
    let database = store
        .open(None, Database::options(), &CacheOptions::default())
        .unwrap();
    Published {
        directory,
        store,
        database,
    }
}

impl Published {
    async fn worker(&self, token: Option<&str>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut limits = WorkerLimits::default();
        limits.threads = Some(2);
        let worker = Worker::new(self.store.clone(), limits, token).unwrap();
        tokio::spawn(worker.serve(listener, None, std::future::pending()));
        address
    }

    fn context(&self, addresses: &[String], options: WorkerOptions) -> SessionContext {
        let version = self.store.published(None).unwrap();
        let pool = WorkerPool::new(version, addresses, options).unwrap();
        zipfdb_datafusion::context_with_workers(&self.database, Arc::new(pool))
    }
}

fn options(silence: Duration) -> WorkerOptions {
    let mut options = WorkerOptions::default();
    options.silence = silence;
    options
}

/// Rows as lines, sorted unless the statement sorts them.
async fn rows(context: &SessionContext, sql: &str) -> Vec<String> {
    let batches = context.sql(sql).await.unwrap().collect().await;
    let batches = batches.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let table = pretty_format_batches(&batches).unwrap().to_string();
    let mut lines: Vec<String> = table.lines().map(str::to_owned).collect();
    let end = sql.rsplit(')').next().unwrap();
    if !end.contains("ORDER BY") {
        lines.sort();
    }
    lines
}

async fn error(context: &SessionContext, sql: &str) -> String {
    let asked = context.sql(sql).await.unwrap().collect().await;
    asked.unwrap_err().strip_backtrace()
}

async fn plan(context: &SessionContext, sql: &str) -> String {
    rows(context, &format!("EXPLAIN {sql}")).await.join("\n")
}

/// Statements that workers answer.
const SHARED: &[&str] = &[
    "SELECT * FROM pets",
    "SELECT LENGTH(word) FROM (SELECT word FROM pets WHERE word = 'cat' LIMIT 5)",
    "SELECT word, \"offset\" FROM pets WHERE file >= 'b' AND word LIKE 'w1%'",
    "SELECT COUNT(*) FROM pets",
    "SELECT COUNT(*) FROM pets WHERE word = 'the'",
    "SELECT COUNT(*), COUNT(word) FROM pets WHERE word = 'nothing'",
    "SELECT word, COUNT(*) FROM pets GROUP BY word",
    "SELECT word, COUNT(*) AS n FROM pets GROUP BY word ORDER BY n DESC, word LIMIT 5",
    "SELECT word, COUNT(*) AS n FROM pets WHERE file < 'm3' GROUP BY word HAVING COUNT(*) > 2",
    "SELECT file, COUNT(*) FROM pets WHERE word = 'cat' GROUP BY file",
    "SELECT file, word, COUNT(*) FROM pets GROUP BY file, word",
    "SELECT file, COUNT(DISTINCT word) FROM pets GROUP BY file",
    "SELECT COUNT(DISTINCT file) FROM pets WHERE word = 'c3po'",
    "SELECT word, COUNT(DISTINCT file) FROM pets GROUP BY word",
    "SELECT COUNT(DISTINCT word) FROM pets",
    "SELECT ngram, COUNT(*) FROM ngrams('pets', 2) GROUP BY ngram",
    "SELECT ngram, COUNT(*) AS n FROM ngrams('pets', 3) GROUP BY ngram ORDER BY n DESC, ngram LIMIT 7",
    "SELECT file, position FROM ngrams('pets', 2) WHERE ngram = 'the cat'",
    "SELECT * FROM term_vectors('pets', 3)",
    "SELECT file FROM files_with('pets', 'the', 'c3po')",
    "SELECT file, content FROM files('pets') WHERE file LIKE 'm%'",
    "SELECT a.file, COUNT(*) FROM pets a JOIN birds b ON a.word = b.word GROUP BY a.file",
    "SELECT word FROM pets INTERSECT SELECT word FROM birds",
    "SELECT file, word, n, RANK() OVER (PARTITION BY file ORDER BY n DESC) FROM \
     (SELECT file, word, COUNT(*) AS n FROM pets GROUP BY file, word)",
];

/// Statements that the coordinator answers.
const OWN: &[&str] = &[
    "SELECT file, words FROM files('pets')",
    "SELECT * FROM corpora()",
    "SELECT COUNT(*) FROM (SELECT word FROM pets LIMIT 17)",
];

#[tokio::test(flavor = "multi_thread")]
async fn workers_answer_as_one_process_does() {
    let published = publish(300);
    let mut addresses = Vec::new();
    for _ in 0..3 {
        addresses.push(published.worker(None).await);
    }
    let alone = zipfdb_datafusion::context(&published.database);
    for count in [1, 2, 3] {
        let context = published.context(&addresses[..count], WorkerOptions::default());
        for sql in SHARED.iter().chain(OWN) {
            assert_eq!(rows(&context, sql).await, rows(&alone, sql).await, "{sql}");
        }
    }
    let context = published.context(&addresses, WorkerOptions::default());
    for sql in SHARED {
        assert!(plan(&context, sql).await.contains(", workers="), "{sql}");
    }
    for sql in OWN {
        assert!(!plan(&context, sql).await.contains(", workers="), "{sql}");
    }
    let shown = error(&context, "SELECT LENGTH(CAST(file AS BIGINT)) FROM pets").await;
    assert!(shown.contains("Cannot cast"), "{shown}");
}

/// A proxy in front of a worker. It cuts each connection once the worker has sent a given number of bytes.
async fn cut_after(address: String, bytes: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let far = TcpStream::connect(&address).await.unwrap();
            tokio::spawn(async move {
                let (mut near_in, mut near_out) = near.into_split();
                let (mut far_in, mut far_out) = far.into_split();
                let asked = tokio::spawn(async move {
                    let _ = tokio::io::copy(&mut near_in, &mut far_out).await;
                });
                let (mut left, mut buffer) = (bytes, vec![0; 4096]);
                while left > 0 {
                    let Ok(count @ 1..) = far_in.read(&mut buffer).await else {
                        break;
                    };
                    if near_out
                        .write_all(&buffer[..count.min(left)])
                        .await
                        .is_err()
                    {
                        break;
                    }
                    left = left.saturating_sub(count);
                }
                asked.abort();
            });
        }
    });
    own
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_within_its_answer_is_replaced() {
    let published = publish(6_000);
    let healthy = published.worker(None).await;
    let other = published.worker(None).await;
    let alone = zipfdb_datafusion::context(&published.database);
    for bytes in [0, 100, 20_000, 700_000] {
        let dying = cut_after(other.clone(), bytes).await;
        let addresses = [dying, healthy.clone()];
        for sql in [
            "SELECT file, word, position FROM pets",
            "SELECT word, COUNT(*) FROM pets GROUP BY word",
        ] {
            // A pool that knows of no failure.
            let context = published.context(&addresses, WorkerOptions::default());
            assert_eq!(
                rows(&context, sql).await,
                rows(&alone, sql).await,
                "{bytes} {sql}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_silent_or_slow_is_replaced() {
    let published = publish(300);
    let healthy = published.worker(None).await;
    // This worker takes connections and answers nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addresses = [silent.local_addr().unwrap().to_string(), healthy.clone()];
    tokio::spawn(async move {
        let mut taken = Vec::new();
        while let Ok((connection, _)) = silent.accept().await {
            taken.push(connection);
        }
    });
    let alone = zipfdb_datafusion::context(&published.database);
    let sql = "SELECT word, COUNT(*) FROM pets GROUP BY word";
    let expected = rows(&alone, sql).await;
    let given_up = published.context(&addresses, options(Duration::from_millis(400)));
    assert_eq!(rows(&given_up, sql).await, expected);
    // Long before it would be given up.
    let mut patient = options(Duration::from_secs(3600));
    patient.patience = Duration::from_millis(50);
    assert_eq!(
        rows(&published.context(&addresses, patient), sql).await,
        expected
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_worker_there_is_an_error_that_says_why() {
    let published = publish(100);
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = closed.local_addr().unwrap().to_string();
    drop(closed);
    let sql = "SELECT word FROM pets";
    let context = published.context(std::slice::from_ref(&address), WorkerOptions::default());
    let shown = error(&context, sql).await;
    assert!(
        shown.contains(&address) && shown.contains("hint: "),
        "{shown}"
    );

    let guarded = [published.worker(Some("secret")).await];
    for token in [None, Some("secre"), Some("secreT")] {
        let mut options = WorkerOptions::default();
        options.token = token.map(str::to_owned);
        let shown = error(&published.context(&guarded, options), sql).await;
        assert!(shown.contains("token"), "{shown}");
    }
    let mut options = WorkerOptions::default();
    options.token = Some("secret".into());
    assert_eq!(
        rows(&published.context(&guarded, options), sql).await.len(),
        2104
    );

    // Version 1 of another database.
    let other = publish(100);
    let foreign = [other.worker(None).await];
    let context = published.context(&foreign, WorkerOptions::default());
    let shown = error(&context, sql).await;
    assert!(shown.contains("another database"), "{shown}");
    let version = published.store.published(None).unwrap();
    assert!(WorkerPool::new(version, &[], WorkerOptions::default()).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_refuses_what_no_coordinator_of_its_release_asks() {
    let published = publish(10);
    let address = published.worker(None).await;
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let mut client = FlightServiceClient::new(endpoint.connect().await.unwrap());
    let publication = published.store.published(None).unwrap().publication;
    let target = published.directory.path().join("written");
    let mut refused = async |release: &str, sql: &str| {
        let task = format!(
            r#"{{"release": "{release}", "version": 1, "publication": "{publication}", "corpus": "birds",
                "segments": [], "sql": "{sql}", "columns": [], "limit": null, "batch_rows": 9}}"#
        );
        client
            .do_get(Ticket::new(task))
            .await
            .err()
            .map(|status| status.message().to_owned())
    };
    let own = env!("CARGO_PKG_VERSION");
    assert_eq!(refused(own, "SELECT COUNT(*) FROM birds").await, None);
    let copy = format!("COPY birds TO '{}'", target.display());
    assert!(refused(own, &copy).await.unwrap().contains("SELECT"));
    assert!(!target.exists());
    let other = refused("9.9.9", "SELECT 1").await.unwrap();
    assert!(other.contains("9.9.9") && other.contains(own), "{other}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_encrypted_if_that_is_wanted() {
    let published = publish(100);
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let (certificate, key) = (
        made.cert.pem().into_bytes(),
        made.signing_key.serialize_pem(),
    );
    let listener = TcpListener::bind("localhost:0").await.unwrap();
    let address = format!("localhost:{}", listener.local_addr().unwrap().port());
    let worker = Worker::new(published.store.clone(), WorkerLimits::default(), None).unwrap();
    let identity = Some((certificate.clone(), key.into_bytes()));
    tokio::spawn(worker.serve(listener, identity, std::future::pending()));
    let addresses = [address];
    let mut trusting = WorkerOptions::default();
    trusting.certificates = Some(certificate);
    let sql = "SELECT COUNT(*) FROM pets";
    let context = published.context(&addresses, trusting);
    assert!(rows(&context, sql).await.join("").contains("2100"));
    // Neither without encryption nor with another authority.
    let other = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let mut wrong = WorkerOptions::default();
    wrong.certificates = Some(other.cert.pem().into_bytes());
    for options in [WorkerOptions::default(), wrong] {
        let shown = error(&published.context(&addresses, options), sql).await;
        assert!(shown.contains("no worker gave an answer"), "{shown}");
    }
}

/// A worker that is a process.
struct Process {
    child: Child,
    address: String,
}

impl Process {
    fn start(url: &str, listen: &str) -> Process {
        let mut program = Command::new(env!("CARGO_BIN_EXE_zipf-full"));
        program.args([
            "worker",
            "--listen",
            listen,
            "--database",
            url,
            "--threads",
            "1",
        ]);
        let mut child = program.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let address = line.strip_prefix("listening on ").unwrap();
        let address = address.split(',').next().unwrap().to_owned();
        Process { child, address }
    }

    fn signal(&self, name: &str) {
        let mut kill = Command::new("kill");
        kill.args([name, &self.child.id().to_string()]);
        assert!(kill.status().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask(url: &str, workers: &str, sql: &str) -> (String, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_zipf-full"));
    program.args([url, "-c", sql]);
    if !workers.is_empty() {
        program.args(["--workers", workers, "--worker-silence", "1s"]);
    }
    let output = program.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

#[cfg(unix)]
#[test]
fn processes_that_are_killed_or_stopped_do_not_change_answers() {
    let published = publish(2_000);
    let url = format!("file://{}/pets", published.directory.path().display());
    let mut workers: Vec<Process> = (0..3)
        .map(|_| Process::start(&url, "127.0.0.1:0"))
        .collect();
    let addresses: Vec<&str> = workers.iter().map(|worker| &worker.address[..]).collect();
    let list = addresses.join(",");
    let queries = [
        "SELECT word, COUNT(*) AS n FROM pets GROUP BY word ORDER BY n DESC, word",
        "SELECT file, MAX(\"offset\"), SUM(position) FROM pets GROUP BY file ORDER BY file",
    ];
    let expected = queries.map(|sql| ask(&url, "", sql));
    assert!(
        expected
            .iter()
            .all(|(table, errors)| !table.is_empty() && errors.is_empty())
    );
    for (round, signal) in ["-KILL", "-STOP", "-KILL"].into_iter().enumerate() {
        let asked: Vec<_> = (queries.iter().chain(&queries))
            .map(|&sql| {
                let (url, list) = (url.clone(), list.clone());
                std::thread::spawn(move || ask(&url, &list, sql))
            })
            .collect();
        // In the middle of them, about.
        std::thread::sleep(Duration::from_millis(60 * round as u64));
        workers[round].signal(signal);
        for (asked, expected) in asked.into_iter().zip(expected.iter().cycle()) {
            assert_eq!(asked.join().unwrap(), *expected, "{signal}");
        }
        // The worker comes back where it was.
        let address = workers[round].address.clone();
        workers[round].signal("-KILL");
        workers[round].child.wait().unwrap();
        workers[round] = Process::start(&url, &address);
    }
    workers[0].signal("-TERM");
    assert!(workers[0].child.wait().unwrap().success());
}

#[test]
fn workers_need_a_database_that_all_can_reach() {
    let published = publish(10);
    let local = published.directory.path().join("pets.zdb");
    let (_, errors) = ask(local.to_str().unwrap(), "localhost:1", "SELECT 1");
    assert!(
        errors.contains("object stores; hint: zipf-full push"),
        "{errors}"
    );
    assert!(Path::new(&local).exists());
}
