//! SQLite with the columns of the records in a table and their texts in FTS5, which stores them.
//!
//! The invariant: a row of both tables has the number of its record. FTS5 counts rows with a word, not occurrences.

use rusqlite::Connection;
use zipfdb::Value;

use std::time::Instant;

use super::ours::for_each_record;
use super::{Job, Outcome, Workload};
use crate::Result;
use crate::engines::{directory_size, memory_max};
use crate::search::timed;

/// Size of SQLite's page cache; a negative number counts KiB.
const CACHE_KIBIBYTES: i64 = -262_144;

/// How it is run.
pub fn configuration() -> String {
    format!(
        "SQLite {} FTS5: the columns in a table, the texts in FTS5 with content, `detail=full`, `unicode61`; one transaction, \
         `synchronous=FULL`, 256 MiB page cache; size after `optimize` and `VACUUM`, which the rate leaves out. It counts records, and folds case.",
        rusqlite::version()
    )
}

fn open(job: &Job) -> Result<Connection> {
    let connection = Connection::open(job.directory.join("records.db"))?;
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update(None, "journal_mode", "TRUNCATE")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cache_size", CACHE_KIBIBYTES)?;
    Ok(connection)
}

/// Fills a database.
pub fn import(job: &Job) -> Result<Outcome> {
    let start = Instant::now();
    let mut connection = open(job)?;
    let columns = match job.workload {
        Workload::Log => ["moment", "status", "size"].as_slice(),
        _ => ["author", "day", "lang", "likes"].as_slice(),
    };
    connection.execute_batch(&format!(
        "CREATE TABLE records (id INTEGER PRIMARY KEY, {});
         CREATE VIRTUAL TABLE texts USING fts5(content, detail=full, tokenize='unicode61')",
        columns.join(", ")
    ))?;
    let transaction = connection.transaction()?;
    {
        let marks = vec!["?"; columns.len() + 1].join(", ");
        let mut record = transaction.prepare(&format!("INSERT INTO records VALUES ({marks})"))?;
        let mut text = transaction.prepare("INSERT INTO texts (rowid, content) VALUES (?, ?)")?;
        let mut id: i64 = 0;
        for_each_record(job.workload, &job.source, |content, values| {
            id += 1;
            let values = values.into_iter().map(|(_, value)| match value {
                Value::Integer(number) => rusqlite::types::Value::Integer(number),
                Value::Text(text) => rusqlite::types::Value::Text(text),
                _ => rusqlite::types::Value::Null,
            });
            let row = [rusqlite::types::Value::Integer(id)]
                .into_iter()
                .chain(values);
            record.execute(rusqlite::params_from_iter(row))?;
            text.execute((id, content))?;
            Ok(())
        })?;
    }
    transaction.commit()?;
    let seconds = start.elapsed().as_secs_f64();
    let memory = memory_max()?;
    connection.execute("INSERT INTO texts(texts) VALUES ('optimize')", ())?;
    connection.execute_batch("VACUUM")?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(Outcome {
        seconds,
        memory_max: memory,
        size: directory_size(&job.directory)?,
        parts: Vec::new(),
        asked: Vec::new(),
    })
}

/// Asks what it can answer, under the names of the questions of ZipfDB.
pub fn ask(job: &Job) -> Result<Outcome> {
    let connection = open(job)?;
    let join = format!(
        "FROM texts JOIN records ON records.id = texts.rowid WHERE texts MATCH '\"{}\"'",
        job.word
    );
    let questions: Vec<(&str, String)> = match job.workload {
        Workload::Log => vec![
            (
                "errors by hour",
                "SELECT substr(moment, 1, 13), COUNT(*) FROM records WHERE status >= 500 GROUP BY 1".to_owned(),
            ),
            (
                "bytes by status",
                "SELECT status, SUM(size) FROM records GROUP BY 1".to_owned(),
            ),
        ],
        _ => vec![
            (
                "a word by year",
                format!("SELECT substr(day, 1, 4), COUNT(*) {join} GROUP BY 1"),
            ),
            (
                "a word by author",
                format!("SELECT author, COUNT(*) {join} GROUP BY 1"),
            ),
            (
                "a word of a month",
                format!("SELECT COUNT(*) {join} AND day BETWEEN '2019-05-01' AND '2019-05-31'"),
            ),
            (
                "records by year",
                "SELECT substr(day, 1, 4), COUNT(*) FROM records GROUP BY 1".to_owned(),
            ),
        ],
    };
    let names: Vec<String> = questions
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    let asked = timed::ask_all(&names, job.runs, job.budget, |index| {
        let mut statement = connection.prepare(&questions[index].1)?;
        let last = statement.column_count() - 1;
        let mut rows = statement.query(())?;
        let mut sum = 0;
        while let Some(row) = rows.next()? {
            sum += row.get::<_, i64>(last)?.unsigned_abs();
        }
        Ok((sum, Vec::new()))
    })?;
    Ok(Outcome {
        seconds: 0.0,
        memory_max: memory_max()?,
        size: 0,
        parts: Vec::new(),
        asked,
    })
}
