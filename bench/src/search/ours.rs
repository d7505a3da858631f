//! ZipfDB as it is asked by SQL: prepared statements with parameters.
//!
//! It knows the statements and not what is compared.

use zipfdb::{Database, Statement, Value};

use super::Job;
use super::files::{KINDS, TOP, names};
use super::query;
use super::timed::Outcome;
use crate::Result;
use crate::engines;

/// Matches of a regular expression, within lines.
const GREP: &str = "SELECT COUNT(*) FROM grep('corpus', ?, 'ml')";

/// Opens the database of a job.
pub fn open(job: &Job) -> Result<Database> {
    Ok(engines::ours::open(&job.directory, job.threads)?.0)
}

/// Asks for the number of files of each query, and for the ten best.
pub fn files(job: &Job) -> Result<Outcome> {
    let queries = query::read(job.question()?.as_ref())?;
    let database = open(job)?;
    let count = database.prepare("SELECT COUNT(*) FROM search('corpus', ?)")?;
    let top = database.prepare(&format!("SELECT file FROM search('corpus', ?) LIMIT {TOP}"))?;
    let mut asked = job.ask(&names(&queries, KINDS[0]), |index| {
        Ok((number(&count, [&*queries[index].text])?, Vec::new()))
    })?;
    asked.extend(job.ask(&names(&queries, KINDS[1]), |index| {
        let rows = top.query([&*queries[index].text])?;
        let files = rows.map(|row| Ok(row?.get::<String>(0)?));
        let files = files.collect::<Result<Vec<String>>>()?;
        Ok((files.len() as u64, files))
    })?);
    Ok(Outcome::of(asked))
}

/// Counts the matches of each pattern.
pub fn grep(job: &Job, patterns: &[&str]) -> Result<Outcome> {
    let database = open(job)?;
    let count = database.prepare(GREP)?;
    let names: Vec<String> = patterns.iter().map(|&text| text.to_owned()).collect();
    let asked = job.ask(&names, |index| {
        Ok((number(&count, [patterns[index]])?, Vec::new()))
    })?;
    Ok(Outcome::of(asked))
}

/// The number that a statement gives.
fn number<V: Into<Value>, const N: usize>(
    statement: &Statement,
    parameters: [V; N],
) -> Result<u64> {
    Ok(statement.query_row(parameters, |row| row.get(0))?)
}

/// How many rows a statement gives, all of which are read.
pub fn rows(database: &Database, sql: &str) -> Result<u64> {
    let mut count = 0;
    for row in database.query(sql, ())? {
        row?;
        count += 1;
    }
    Ok(count)
}
