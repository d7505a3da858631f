//! The corpus that a task searches: `zipf grep`, `zipf search` and `zipf kwic`.
//!
//! Invariant: the database is opened for reading only. A signal interrupts a search, and what was printed before is written. What
//! tasks print is not known here.

use std::io::{BufWriter, Write};

use zipfdb::sql::Position;
use zipfdb::{Database, Reader, Row, Value};

use crate::arguments::CorpusArguments;
use crate::caret;
use crate::error::Error;
use crate::interrupt::Signals;
use crate::message;
use crate::screen::standard_output;
use crate::session::terminal_width;

/// Bytes of output that are written at once.
const OUTPUT_BUFFER: usize = 64 * 1024;

/// A corpus as it was when the task began.
pub struct SearchedCorpus {
    pub reader: Reader,
    pub name: String,
}

/// Opens the database, and runs a task on the corpus with standard output. Returns what the task does: whether something was found.
pub fn search(
    arguments: &CorpusArguments,
    signals: &Signals,
    task: impl FnOnce(&SearchedCorpus, &mut dyn Write) -> Result<bool, Error>,
) -> Result<bool, Error> {
    let output = standard_output().map_err(|source| Error::Output { source })?;
    let mut output = BufWriter::with_capacity(OUTPUT_BUFFER, output);
    let database = open(arguments)?;
    let _running = signals.begin(database.interrupt_handle());
    let reader = database.reader();
    let name = choose(arguments, &reader)?;
    let found = task(&SearchedCorpus { reader, name }, &mut output);
    let flushed = output.flush().map_err(|source| Error::Output { source });
    signals.check()?;
    let found = found?;
    flushed?;
    Ok(found)
}

fn open(arguments: &CorpusArguments) -> Result<Database, Error> {
    let mut options = Database::options().read_only(true).shared(true);
    if let Some(threads) = arguments.threads {
        options = options.threads(usize::from(threads));
    }
    let path = &arguments.database;
    options.open(path).map_err(|source| Error::Open {
        source: Box::new(source),
        path: path.clone(),
    })
}

/// The corpus to search: the only one, if none is named.
fn choose(arguments: &CorpusArguments, reader: &Reader) -> Result<String, Error> {
    if let Some(name) = &arguments.name {
        return Ok(name.clone());
    }
    match &reader.corpora()[..] {
        [only] => Ok(only.clone()),
        [] => Err(Error::Command {
            problem: "the database has no corpus".to_owned(),
        }),
        several => Err(Error::Command {
            problem: format!(
                "the database has several corpora; hint: name one of {}",
                several.join(", ")
            ),
        }),
    }
}

/// A search that failed.
pub fn failed(source: zipfdb::Error) -> Error {
    Error::Search {
        source: Box::new(source),
    }
}

/// How many rows are printed.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// None for all.
    rows: Option<u64>,
    is_default: bool,
}

impl Limit {
    /// The given number, where 0 stands for all, or else the default.
    pub fn new(given: Option<u32>, default: u32) -> Limit {
        let rows = u64::from(given.unwrap_or(default));
        Limit {
            rows: (rows > 0).then_some(rows),
            is_default: given.is_none(),
        }
    }
}

/// What came of rows.
#[derive(Debug, Clone, Copy)]
pub struct Listed {
    /// Whether there are rows.
    pub has_rows: bool,
    /// The default limit, if it left rows out.
    cut: Option<u64>,
}

impl Listed {
    /// Writes the output, and says that the default limit left some `things` out. Returns whether there are rows.
    pub fn end(self, things: &str, output: &mut dyn Write) -> Result<bool, Error> {
        output.flush().map_err(|source| Error::Output { source })?;
        if let Some(rows) = self.cut {
            message::notice(&format!(
                "there are more {things} than these {rows}; hint: --limit 0 prints all, --count their number"
            ));
        }
        Ok(self.has_rows)
    }
}

impl SearchedCorpus {
    /// The number that a statement gives, whose parameters are the corpus, the query and `others`.
    pub fn count(&self, sql: &str, query: &str, others: &[Value]) -> Result<i64, Error> {
        let mut count = 0;
        let all = Limit {
            rows: None,
            is_default: false,
        };
        self.list(sql, query, others, all, |row| {
            count = row.get(0).map_err(failed)?;
            Ok(())
        })?;
        Ok(count)
    }

    /// Passes on the rows of a statement, whose parameters are the corpus, the query and `others`, up to a limit.
    pub fn list(
        &self,
        sql: &str,
        query: &str,
        others: &[Value],
        limit: Limit,
        mut take: impl FnMut(Row) -> Result<(), Error>,
    ) -> Result<Listed, Error> {
        let mut parameters = vec![
            Value::Text(self.name.clone()),
            Value::Text(query.to_owned()),
        ];
        parameters.extend_from_slice(others);
        let mut sql = sql.to_owned();
        if let Some(rows) = limit.rows {
            // One more shows whether the limit leaves rows out.
            sql.push_str(&format!(" LIMIT {}", rows + 1));
        }
        let failed = |source| query_failed(source, query);
        let rows = self.reader.query(&sql, &parameters).map_err(failed)?;
        for notice in rows.notices() {
            message::notice(&notice.to_string());
        }
        let mut listed = Listed {
            has_rows: false,
            cut: None,
        };
        for (number, row) in (0..).zip(rows) {
            let row = row.map_err(failed)?;
            if limit.rows.is_some_and(|rows| number >= rows) {
                listed.cut = limit.rows.filter(|_| limit.is_default);
                break;
            }
            take(row)?;
            listed.has_rows = true;
        }
        Ok(listed)
    }
}

/// A search that failed: with the place in the query, if the query is wrong.
fn query_failed(source: zipfdb::Error, query: &str) -> Error {
    let zipfdb::Error::Invalid { subject, reason } = &source else {
        return failed(source);
    };
    let placed = (reason.split_once(": ")).filter(|_| subject.starts_with("query"));
    let placed = placed.and_then(|(place, rest)| Some((position(query, place)?, rest)));
    let Some((position, problem)) = placed else {
        return failed(source);
    };
    let (problem, hint) = match problem.split_once("; hint: ") {
        Some((problem, hint)) => (problem, Some(hint.to_owned())),
        None => (problem, None),
    };
    Error::Query {
        excerpt: caret::excerpt(query, position, terminal_width()),
        problem: problem.to_owned(),
        hint,
    }
}

/// The place that an error of the query names as `LINE:COLUMN`.
fn position(query: &str, place: &str) -> Option<Position> {
    let (line, column) = place.split_once(':')?;
    let (line, column): (u64, u64) = (line.parse().ok()?, column.parse().ok()?);
    let (lines_before, characters_before) = (line.checked_sub(1)?, column.checked_sub(1)?);
    let mut begin = 0;
    for _ in 0..lines_before {
        begin += query[begin..].find('\n')? + 1;
    }
    let mut characters = query[begin..].char_indices();
    let at = characters.nth(usize::try_from(characters_before).ok()?);
    Some(Position {
        line,
        column,
        byte: at.map_or(query.len(), |(at, _)| begin + at) as u64,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn places_of_errors_are_bytes_of_the_query() {
        let byte = |place| position("a\u{e9}b\ncd", place).map(|position| position.byte);
        assert_eq!(byte("1:1"), Some(0));
        assert_eq!(byte("1:3"), Some(3));
        assert_eq!(byte("2:2"), Some(6));
        assert_eq!(byte("2:3"), Some(7));
        for wrong in ["", "1", "0:1", "1:0", "3:1", "no such key"] {
            assert_eq!(byte(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_errors_with_a_place_have_an_excerpt() {
        let shown = |reason: &str| {
            let source = zipfdb::Error::Invalid {
                subject: "query of hits()".into(),
                reason: reason.into(),
            };
            match query_failed(source, "fox AND") {
                Error::Query {
                    excerpt,
                    problem,
                    hint,
                } => format!("{excerpt}{problem}|{}", hint.unwrap_or_default()),
                other => other.to_string(),
            }
        };
        assert_eq!(
            shown("1:5: no term; hint: add: one"),
            "  1 | fox AND\n    |     ^\nno term|add: one"
        );
        assert_eq!(
            shown("no such key `Q1`"),
            "query of hits(): no such key `Q1`"
        );
    }
}
