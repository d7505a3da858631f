//! Streams of rows that are dropped half way: the work behind them ends.
//!
//! Four things show it: tasks of the runtime, bytes in the memory pool, rows that scans gave, and the lock of a database, which the
//! last handle gives back; a statement that still runs has one. No test depends on how long something takes: what is waited for comes, or the
//! test fails after a time that no machine needs.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;
use tokio::runtime::Runtime;
use zipfdb::{CorpusSettings, Database};

/// Waits for what ends by itself.
fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

const FILES: usize = 30;
const ROWS: usize = FILES * 90;

fn write_corpus(path: &Path) {
    let database = Database::open(path).unwrap();
    let corpus = database.create_corpus("c", CorpusSettings::default());
    let files: Vec<(String, String)> = (0..FILES)
        .map(|file| {
            (
                format!("{file:02}.txt"),
                format!("w{file} and more ").repeat(30),
            )
        })
        .collect();
    corpus.unwrap().append_many(&files).unwrap();
}

/// The measures of all scans of a plan.
fn scan_metrics(plan: &Arc<dyn ExecutionPlan>) -> Vec<MetricsSet> {
    let own = plan.metrics().filter(|_| plan.name() == "ZipfScan");
    let below = plan.children().into_iter().flat_map(scan_metrics);
    own.into_iter().chain(below).collect()
}

/// A query, and what there is of it when its first rows have come.
struct Case {
    sql: &'static str,
    partitions: usize,
    has_tasks: bool,
    has_memory: bool,
    /// Statements still run; their scans have not given all rows.
    is_reading: bool,
}

const CASES: [Case; 4] = [
    Case {
        sql: "SELECT file, word FROM c",
        partitions: 1,
        has_tasks: false,
        has_memory: false,
        is_reading: true,
    },
    Case {
        sql: "SELECT file, word FROM c WHERE position % 2 = 0",
        partitions: 3,
        has_tasks: true,
        has_memory: false,
        is_reading: true,
    },
    Case {
        sql: "SELECT a.word FROM c AS a JOIN c AS b ON a.position = b.position % 7",
        partitions: 3,
        has_tasks: true,
        has_memory: true,
        is_reading: true,
    },
    // A sort has read all before it gives a row.
    Case {
        sql: "SELECT word, position FROM c ORDER BY position, word, file",
        partitions: 3,
        has_tasks: true,
        has_memory: true,
        is_reading: false,
    },
];

#[test]
fn a_stream_that_is_dropped_half_way_leaves_no_task_no_memory_and_no_statement() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("c.zdb");
    write_corpus(&path);
    let runtime = Runtime::new().unwrap();
    let tasks = runtime.metrics();
    for case in CASES {
        let sql = case.sql;
        let database = Database::open(&path).unwrap();
        let context = zipfdb_datafusion::context(&database);
        let pool = context.runtime_env().memory_pool.clone();
        let (mut stream, scans) = runtime.block_on(async {
            let partitions = format!("target_partitions = {}", case.partitions);
            for setting in ["batch_size = 2", &partitions] {
                let set = format!("SET datafusion.execution.{setting}");
                context.sql(&set).await.unwrap();
            }
            let plan = context.sql(sql).await.unwrap();
            let plan = plan.create_physical_plan().await.unwrap();
            let mut stream = execute_stream(plan.clone(), context.task_ctx()).unwrap();
            let first = stream.next().await.unwrap().unwrap();
            assert!(first.num_rows() > 0, "{sql}");
            (stream, scan_metrics(&plan))
        });
        assert!(!scans.is_empty(), "{sql}");
        drop((context, database));
        if case.has_tasks {
            assert!(tasks.num_alive_tasks() > 0, "{sql}");
        }
        assert_eq!(pool.reserved() > 0, case.has_memory, "{sql}");
        if case.is_reading {
            // The stream alone holds what the statement reads.
            assert!(Database::open(&path).is_err(), "{sql}");
            let next = runtime.block_on(stream.next()).unwrap().unwrap();
            assert!(next.num_rows() > 0, "{sql}");
        }
        drop(stream);
        eventually(&format!("{sql}: tasks"), || tasks.num_alive_tasks() == 0);
        eventually(&format!("{sql}: memory"), || pool.reserved() == 0);
        eventually(&format!("{sql}: lock"), || Database::open(&path).is_ok());
        let rows = scans.iter().filter_map(MetricsSet::output_rows);
        let rows: usize = rows.sum();
        assert_eq!(rows < ROWS * scans.len(), case.is_reading, "{sql}: {rows}");
    }
}
