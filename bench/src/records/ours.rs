//! ZipfDB with records: how they are imported, what their database has, and what is asked of it.
//!
//! The invariant: records have the columns of their workload, whichever way they come in. Times are taken here; what is made of
//! them is in `records.rs`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Instant;

use serde_json::Value as Json;
use zipfdb::{Database, Record, Row, Value};

use super::{Job, Outcome, Task, Workload};
use crate::Result;
use crate::edited_copies::Random;
use crate::engines::{self, memory_max};
use crate::search::timed::{self, Asked};

/// Records of a transaction.
const BATCH_RECORDS: usize = 20_000;

/// Names that are looked up.
const LOOKUPS: usize = 10_000;

/// The columns of the corpus of a workload.
fn columns(workload: Workload) -> &'static str {
    match workload {
        Workload::Posts | Workload::Short => "(author TEXT, day DATE, lang TEXT, likes INTEGER)",
        Workload::Log => "(moment TIMESTAMP, status INTEGER, size INTEGER)",
        Workload::Files | Workload::Archive => "",
    }
}

/// Imports as the task says, and says what it took.
pub fn import(job: &Job) -> Result<Outcome> {
    let path = engines::ours::path(&job.directory);
    let start = Instant::now();
    let database = Database::options().threads(job.threads).open(&path)?;
    database.execute_batch("SET recompress_threads = 0")?;
    database.execute_batch(&format!("CREATE CORPUS corpus {}", columns(job.workload)))?;
    if job.task == Task::Append {
        append(&database, job)?;
        database.execute_batch("RECOMPRESS corpus")?;
    } else {
        let source = job.source.to_str().ok_or("a path is not UTF-8")?;
        let options = match (job.task, job.workload) {
            (Task::Plain, _) => " WITH (format = 'bytes')",
            (_, Workload::Log) => {
                r" WITH (records = 'line', fields = '\S+ \S+ \S+ \[(?<moment>[^\]]*)\] \x22[^\x22]*\x22 (?<status>\d+) (?<size>\d+)')"
            }
            _ => "",
        };
        database.execute_batch(&format!(
            "COPY corpus FROM '{}'{options}",
            source.replace('\'', "''")
        ))?;
    }
    let sections = ["files", "metadata"];
    let mut parts = Vec::new();
    for section in sections {
        let sql = format!("SELECT coalesce(SUM({section}_size), 0) FROM segments('corpus')");
        parts.push((
            section.to_owned(),
            database.query_row(&sql, (), |row| row.get::<u64>(0))?,
        ));
    }
    let size = database.query_row("SELECT SUM(size) FROM segments('corpus')", (), |row| {
        row.get(0)
    })?;
    drop(database);
    let seconds = start.elapsed().as_secs_f64();
    Ok(Outcome {
        seconds,
        memory_max: memory_max()?,
        size,
        parts,
        asked: Vec::new(),
    })
}

/// Appends the records of a file through the API.
fn append(database: &Database, job: &Job) -> Result<()> {
    let corpus = database.corpus("corpus")?;
    let mut batch = Vec::with_capacity(BATCH_RECORDS);
    for_each_record(job.workload, &job.source, |text, values| {
        let record = values
            .into_iter()
            .fold(Record::new(text), |record, (name, value)| {
                record.with(name, value)
            });
        batch.push(record);
        if batch.len() == BATCH_RECORDS {
            corpus.append_records(&batch)?;
            batch.clear();
        }
        Ok(())
    })?;
    Ok(corpus.append_records(&batch)?)
}

/// Gives each record of a file with its values.
pub fn for_each_record(
    workload: Workload,
    path: &Path,
    mut take: impl FnMut(String, Vec<(&'static str, Value)>) -> Result<()>,
) -> Result<()> {
    for line in BufReader::new(File::open(path)?).lines() {
        let line = line?;
        if workload == Workload::Log {
            let values = log_values(&line).ok_or_else(|| format!("no line of a log: {line}"))?;
            take(line, values)?;
            continue;
        }
        let mut found: serde_json::Map<String, Json> = serde_json::from_str(&line)?;
        let mut text = |name: &str| match found.remove(name) {
            Some(Json::String(text)) => Ok(text),
            _ => Err(format!("no `{name}`: {line}")),
        };
        let (content, author) = (text("content")?, text("author")?);
        let (day, lang) = (text("day")?, text("lang")?);
        let likes = found.get("likes").and_then(Json::as_i64).unwrap_or(0);
        let values = vec![
            ("author", Value::from(author)),
            ("day", Value::from(day)),
            ("lang", Value::from(lang)),
            ("likes", Value::from(likes)),
        ];
        take(content, values)?;
    }
    Ok(())
}

fn log_values(line: &str) -> Option<Vec<(&'static str, Value)>> {
    let (_, rest) = line.split_once('[')?;
    let (moment, rest) = rest.split_once(']')?;
    let mut fields = rest.split('"').nth(2)?.split_ascii_whitespace();
    let mut number = || fields.next()?.parse::<i64>().ok();
    Some(vec![
        ("moment", Value::from(moment)),
        ("status", Value::from(number()?)),
        ("size", Value::from(number()?)),
    ])
}

/// The questions of a workload by name.
fn questions(workload: Workload, word: &str) -> Vec<(&'static str, String)> {
    match workload {
        Workload::Posts | Workload::Short => vec![
            (
                "a word by year",
                format!("SELECT year(day), COUNT(*) FROM corpus WHERE word = '{word}' GROUP BY 1 ORDER BY 1"),
            ),
            (
                "a word by author",
                format!("SELECT author, COUNT(*) FROM corpus WHERE word = '{word}' GROUP BY 1 ORDER BY 1"),
            ),
            (
                "a word of a month",
                format!(
                    "SELECT COUNT(*) FROM corpus WHERE word = '{word}' AND day BETWEEN '2019-05-01' AND '2019-05-31'"
                ),
            ),
            (
                "all words by year",
                "SELECT year(day), COUNT(*) FROM corpus GROUP BY 1 ORDER BY 1".to_owned(),
            ),
            (
                "all words by author",
                "SELECT author, COUNT(*) FROM corpus GROUP BY 1 ORDER BY 1".to_owned(),
            ),
            (
                "records by year",
                "SELECT year(day), COUNT(*) FROM files('corpus') GROUP BY 1 ORDER BY 1".to_owned(),
            ),
        ],
        Workload::Log => vec![
            (
                "errors by hour",
                "SELECT date_trunc('hour', moment), COUNT(*) FROM files('corpus') WHERE status >= 500 GROUP BY 1 ORDER BY 1"
                    .to_owned(),
            ),
            (
                "bytes by status",
                "SELECT status, SUM(size) FROM files('corpus') GROUP BY 1 ORDER BY 1".to_owned(),
            ),
        ],
        Workload::Files | Workload::Archive => vec![(
            "a word",
            format!("SELECT COUNT(*) FROM corpus WHERE word = '{word}'"),
        )],
    }
}

/// Opens a database, looks up names, and asks all questions.
pub fn ask(job: &Job) -> Result<Outcome> {
    let start = Instant::now();
    let database = Database::options()
        .threads(job.threads)
        .read_only(true)
        .open(engines::ours::path(&job.directory))?;
    let opened = start.elapsed().as_secs_f64();
    let corpus = database.corpus("corpus")?;
    let mut asked = vec![once("open", opened, 0)];
    let start = Instant::now();
    let snapshot = corpus.snapshot()?;
    let files = snapshot.files().len();
    asked.push(once(
        "first snapshot",
        start.elapsed().as_secs_f64(),
        files as u64,
    ));
    let mut random = Random::new(job.seed);
    let names: Vec<String> = (0..LOOKUPS)
        .map(|_| {
            snapshot.files()[random.below(files as u64) as usize]
                .name
                .clone()
        })
        .collect();
    asked.extend(timed::ask_all(
        &["look-up by name".to_owned()],
        job.runs,
        job.budget,
        |_| {
            let found = names
                .iter()
                .filter(|name| snapshot.file(name.as_str()).is_some());
            Ok((found.count() as u64, Vec::new()))
        },
    )?);
    drop(snapshot);
    let questions = questions(job.workload, &job.word);
    let named: Vec<String> = questions
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    asked.extend(timed::ask_all(&named, job.runs, job.budget, |index| {
        let mut sum = 0;
        for row in database.query(&questions[index].1, ())? {
            sum += counted(&row?)?;
        }
        Ok((sum, Vec::new()))
    })?);
    Ok(Outcome {
        seconds: opened,
        memory_max: memory_max()?,
        size: 0,
        parts: Vec::new(),
        asked,
    })
}

/// The number in the last column of a row.
fn counted(row: &Row) -> Result<u64> {
    Ok(row.get::<u64>(row.values().len() - 1)?)
}

fn once(name: &str, seconds: f64, answer: u64) -> Asked {
    Asked {
        name: name.to_owned(),
        answer,
        names: Vec::new(),
        first: seconds,
        again: Vec::new(),
    }
}

/// How often a name is looked up in one question.
pub fn lookups() -> usize {
    LOOKUPS
}
