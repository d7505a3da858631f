//! Suite `sql`: large answers of SQL, taken as columns, as rows and as a CSV file; warm, in one process.
//!
//! Every way gives the same rows, which is checked by their number. Statements name no corpus: each database has one, `c`.

use std::fs;
use std::time::Instant;

use zipfdb::ingest::CopyOptions;
use zipfdb::{CorpusSettings, Database};

use crate::corpus::Corpus;
use crate::report::{Cell, MEGABYTE, Report, Table};
use crate::{Options, Result};

/// What is asked.
const STATEMENTS: [(&str, &str); 7] = [
    (
        "words by count",
        "SELECT word, COUNT(*) AS n FROM c GROUP BY word ORDER BY n DESC",
    ),
    (
        "words of files",
        "SELECT word, file, COUNT(*) FROM c GROUP BY word, file",
    ),
    (
        "words of files, ranked",
        "SELECT word, file, COUNT(*) AS n FROM c GROUP BY word, file ORDER BY word, n DESC, file",
    ),
    (
        "3-grams",
        "SELECT ngram, COUNT(*) FROM ngrams('c', 3) GROUP BY ngram",
    ),
    (
        "3-grams, first 100",
        "SELECT ngram, COUNT(*) AS n FROM ngrams('c', 3) GROUP BY ngram ORDER BY n DESC LIMIT 100",
    ),
    (
        "3-grams of files",
        "SELECT ngram, file, COUNT(*) FROM ngrams('c', 3) GROUP BY ngram, file",
    ),
    (
        "3-grams of files, ranked",
        "SELECT ngram, file, COUNT(*) AS n FROM ngrams('c', 3) GROUP BY ngram, file ORDER BY ngram, n DESC, file",
    ),
];

/// Rows of a batch that is asked for.
const BATCH_ROWS: usize = 8192;

/// Seconds of each run of one statement; the first is cold.
#[derive(Default)]
struct Measured {
    rows: u64,
    batches: Vec<f64>,
    one_by_one: Vec<f64>,
    csv: Vec<f64>,
}

/// Measures, prints and writes.
pub fn run(options: &Options) -> Result<()> {
    let mut report = Report::new("sql", &options.output)?;
    for path in &options.corpus {
        let corpus = Corpus::open(path)?;
        let directory = match &options.directory {
            Some(directory) => tempfile::tempdir_in(directory)?,
            None => tempfile::tempdir()?,
        };
        let database = Database::options()
            .threads(options.threads)
            .open(directory.path().join("c.zdb"))?;
        let own = database.create_corpus("c", CorpusSettings::default())?;
        own.copy_from(&corpus.path, &CopyOptions::default())?;
        let titles = [
            "first",
            "columns",
            "one by one",
            "CSV",
            "MB/s of CSV",
            "rows",
        ];
        let mut table = Table::new("ms", titles);
        for (name, sql) in STATEMENTS {
            let csv = directory.path().join("out.csv");
            let copy = format!("COPY ({sql}) TO '{}'", csv.display());
            let mut measured = Measured::default();
            for _ in 0..=options.runs.max(1) {
                let (rows, batches) = timed(|| count_batches(&database, sql))?;
                let (same, one_by_one) = timed(|| count_rows(&database, sql))?;
                if rows != same {
                    return Err(format!("{sql}: {rows} rows as columns, {same} one by one").into());
                }
                let (_, csv) = timed(|| Ok(database.query(&copy, ())?))?;
                measured.batches.push(batches);
                measured.one_by_one.push(one_by_one);
                measured.csv.push(csv);
                measured.rows = rows;
            }
            let megabytes = fs::metadata(&csv)?.len() as f64 / MEGABYTE;
            let warm = |runs: &[f64]| Cell::of_runs(runs[1..].iter().map(|run| run * 1e3));
            let cells = [
                Cell::from(measured.batches[0] * 1e3),
                warm(&measured.batches),
                warm(&measured.one_by_one),
                warm(&measured.csv),
                Cell::of_runs(measured.csv[1..].iter().map(|run| megabytes / run)),
                Cell::from(measured.rows),
            ];
            table.row(name, cells);
        }
        report.add(&corpus, vec![table])?;
    }
    report.finish(vec![format!(
        "Median of {} runs on {} threads after the first one; statements in order, so that a first one reads what those before \
         it left; nothing is compared with.",
        options.runs.max(1),
        options.threads,
    )])
}

/// What some work gives, and how many seconds it takes.
fn timed<A>(work: impl FnOnce() -> Result<A>) -> Result<(A, f64)> {
    let begin = Instant::now();
    let answer = work()?;
    Ok((answer, begin.elapsed().as_secs_f64()))
}

fn count_batches(database: &Database, sql: &str) -> Result<u64> {
    let mut rows = database.query(sql, ())?;
    let mut count = 0;
    while let Some(batch) = rows.next_batch(BATCH_ROWS)? {
        count += batch.len() as u64;
    }
    Ok(count)
}

fn count_rows(database: &Database, sql: &str) -> Result<u64> {
    let mut count = 0;
    for row in database.query(sql, ())? {
        row?;
        count += 1;
    }
    Ok(count)
}
