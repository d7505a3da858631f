//! `Statement`: one statement, parsed once and run as often as its caller likes.
//!
//! Invariant: a statement holds no names of corpora and no values; both are looked up and put in each time it runs, so it
//! stays right while corpora come and go. Every statement of the database runs through here.

use std::fmt;
use std::sync::Arc;

use crate::api::params::Params;
use crate::handles::row::{Column, Row};
use crate::handles::rows::Rows;
use crate::handles::session::Session;
use crate::runtime::memory;
use crate::runtime::progress::{NoProgress, Progress};
use crate::{Error, Result, Value, execute};

/// A prepared statement; made by [`crate::Database::prepare`].
///
/// A statement can be run from several threads at once, and a clone is cheap.
///
/// ```
/// use zipfdb::{CorpusSettings, Database, Value};
///
/// let db = Database::in_memory()?;
/// db.create_corpus("letters", CorpusSettings::default())?;
/// let count = db.prepare("SELECT COUNT(*) AS n FROM letters WHERE word = ?")?;
/// assert_eq!(count.parameter_count(), 1);
/// assert_eq!(count.columns()?[0].name(), "n");
/// assert_eq!(count.query_row(["dear"], |row| row.get::<u64>("n"))?, 0);
/// let sets = [vec![Value::from("dear")], vec![Value::from("yours")]];
/// assert_eq!(count.query_many(&sets)?.count(), 2);
/// # Ok::<(), zipfdb::Error>(())
/// ```
#[derive(Clone)]
pub struct Statement {
    session: Arc<Session>,
    /// None for a text without any statement, which does nothing.
    parsed: Option<Arc<zipfdb_sql::Statement>>,
}

impl Statement {
    pub(crate) fn new(
        session: &Arc<Session>,
        parsed: Option<Arc<zipfdb_sql::Statement>>,
    ) -> Statement {
        Statement {
            session: session.clone(),
            parsed,
        }
    }

    /// The statement of a text.
    ///
    /// # Errors
    /// As [`crate::Database::prepare`].
    pub(crate) fn prepare(session: &Arc<Session>, sql: &str) -> Result<Statement> {
        let kept = &session.shared().parsed;
        if let Some(parsed) = kept.get(sql) {
            return Ok(Statement::new(session, Some(parsed)));
        }
        let mut statements = zipfdb_sql::parse(sql)?;
        if statements.len() > 1 {
            return Err(too_many(statements.len()));
        }
        let parsed = statements.pop().map(Arc::new);
        if let Some(parsed) = &parsed {
            kept.keep(sql, parsed);
        }
        Ok(Statement::new(session, parsed))
    }

    /// The number of values that it needs.
    pub fn parameter_count(&self) -> usize {
        self.parsed
            .as_ref()
            .map_or(0, |parsed| parsed.parameter_count())
    }

    /// The names of its parameters, in order of their numbers from 1; none for one that is written as a number or `?`.
    pub fn parameter_names(&self) -> &[Option<String>] {
        self.parsed
            .as_ref()
            .map_or(&[][..], |parsed| parsed.parameter_names())
    }

    /// Whether it only reads from the database.
    pub fn is_read_only(&self) -> bool {
        self.parsed
            .as_ref()
            .is_none_or(|parsed| parsed.is_read_only())
    }

    /// The columns of its answer if it is a SELECT, else none. Needs no values.
    ///
    /// # Errors
    /// If names in it do not exist, or parts of it do not fit together.
    pub fn columns(&self) -> Result<Vec<Column>> {
        let Some(parsed) = &self.parsed else {
            return Ok(Vec::new());
        };
        let columns = zipfdb_sql::columns(parsed, &*self.session)?.into_iter();
        Ok(columns
            .map(|(name, kind)| Column::new(name, kind))
            .collect())
    }

    /// Runs it with values for its parameters (`?`, `?1`, `$1`, `:name`), in order of their numbers.
    ///
    /// # Errors
    /// If names in it do not exist, values do not fit, or it fails. Rows can fail later: each one is a `Result`.
    pub fn query(&self, params: impl Params) -> Result<Rows> {
        self.query_with_progress(params, &NoProgress)
    }

    /// Runs it and calls `read` with the first row of its answer.
    ///
    /// # Errors
    /// As [`Statement::query`], [`Error::NoRows`] if there is no row, and that of `read`.
    pub fn query_row<T>(
        &self,
        params: impl Params,
        read: impl FnOnce(&Row) -> Result<T>,
    ) -> Result<T> {
        let row = self.query(params)?.next().ok_or(Error::NoRows)??;
        read(&row)
    }

    /// Runs it, to its end, and returns the number of rows that it has changed. Rows of its answer are dropped.
    ///
    /// # Errors
    /// As [`Statement::query`], and those of its rows.
    pub fn execute(&self, params: impl Params) -> Result<u64> {
        let mut rows = self.query(params)?;
        let changed = rows.changed();
        rows.try_for_each(|row| row.map(drop))?;
        Ok(changed)
    }

    /// As [`Statement::query`], and reports the progress of long work.
    ///
    /// # Errors
    /// As [`Statement::query`].
    pub fn query_with_progress(
        &self,
        params: impl Params,
        progress: &dyn Progress,
    ) -> Result<Rows> {
        let Some(parsed) = &self.parsed else {
            return Ok(Rows::none());
        };
        self.check_allowed(parsed)?;
        let values = params.with_values(shared)?;
        let plan = zipfdb_sql::bind(parsed, &*self.session, &values)?;
        execute::execute(&self.session, plan, progress)
    }

    /// Runs it with each of many parameter sets, and returns the rows of all of them, in order of the sets.
    ///
    /// `binding()` in the statement is the 0-based number of the set that a row answers. A query runs for a set when its
    /// first row is asked for; other statements run at once.
    ///
    /// # Errors
    /// If names in it do not exist or a set does not fit it; nothing has run then. Rows can fail later, and end with the
    /// first that does.
    pub fn query_many(&self, parameters: &[Vec<Value>]) -> Result<Rows> {
        let Some(parsed) = &self.parsed else {
            return Ok(Rows::none());
        };
        self.check_allowed(parsed)?;
        let plans = (parameters.iter())
            .map(|set| Ok(zipfdb_sql::bind(parsed, &*self.session, &shared(set)?)?));
        let interrupt = self.session.shared().runtime.interrupt();
        execute::execute_many(&self.session, plans.collect::<Result<_>>()?, &interrupt)
    }

    /// # Errors
    /// If it changes something and its handle only reads.
    fn check_allowed(&self, parsed: &zipfdb_sql::Statement) -> Result<()> {
        if parsed.is_read_only() {
            return Ok(());
        }
        self.session.check_writable("statement")
    }
}

/// Copies of values, the only ones until a row has them.
fn shared(values: &[Value]) -> Result<Vec<Arc<Value>>> {
    let copy = |value| Ok(Arc::new(memory::copy("a parameter", value)?));
    values.iter().map(copy).collect()
}

fn too_many(count: usize) -> Error {
    Error::Invalid {
        subject: "query".into(),
        reason: format!(
            "{count} statements where one is expected; hint: `Database::execute_batch` runs several"
        ),
    }
}

impl fmt::Debug for Statement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.parsed.as_ref().map_or("", |parsed| parsed.text());
        formatter
            .debug_struct("Statement")
            .field("text", &text)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{CorpusSettings, Database};

    #[test]
    fn names_are_looked_up_each_time_it_runs() {
        let database = Database::in_memory().unwrap();
        let statement = database
            .prepare("SELECT *, 1 AS one FROM files(?) LIMIT ?")
            .unwrap();
        let values = [Value::from("pets"), Value::from(3)];
        assert!(statement.query(&values).is_err());
        database
            .create_corpus("pets", CorpusSettings::default())
            .unwrap();
        assert_eq!(statement.query(&values).unwrap().count(), 0);
        let columns = statement.columns().unwrap();
        let names: Vec<&str> = columns.iter().map(Column::name).collect();
        assert_eq!(names, ["file", "content", "bytes", "words", "one"]);
        assert_eq!(statement.parameter_count(), 2);
        assert!(statement.query(&values[..1]).is_err());
        database.drop_corpus("pets").unwrap();
        assert!(statement.query(&values).is_err());
    }

    #[test]
    fn what_is_no_query_has_no_columns_and_runs_as_often_as_asked() {
        let database = Database::in_memory().unwrap();
        let create = database.prepare("CREATE CORPUS pets").unwrap();
        assert!(!create.is_read_only());
        assert!(create.columns().unwrap().is_empty());
        create.query(&[]).unwrap();
        assert!(create.query(&[]).is_err());
        let nothing = database.prepare(" -- nothing").unwrap();
        assert_eq!(nothing.query(&[]).unwrap().count(), 0);
        assert!(database.prepare("CHECK pets; CHECK pets").is_err());
    }
}
