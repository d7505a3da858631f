//! `Reader`: a handle that only reads, and sees each corpus as it was when it first read it.
//!
//! Invariant: it has a frozen session of its own; it has no method that writes, and a statement that would is refused.

use std::fmt;
use std::sync::Arc;

use crate::api::params::Params;
use crate::api::statement::Statement;
use crate::handles::row::Row;
use crate::handles::rows::Rows;
use crate::handles::session::Session;
use crate::handles::snapshot::Snapshot;
use crate::{Result, Value};

/// A handle of an open database that only reads; from [`crate::Database::reader`] and [`crate::Database::partition`].
///
/// All its statements and snapshots see a corpus as the first of them that reads it did, whatever is committed meanwhile. It sees no
/// uncommitted edits. Clones share what they see, and that it keeps: drop the last of them when the last statement is done, so that
/// memory and files of replaced segments are given back.
///
/// ```
/// use zipfdb::{CorpusSettings, Database};
///
/// let db = Database::in_memory()?;
/// let corpus = db.create_corpus("pets", CorpusSettings::default())?;
/// corpus.append("a.txt", "the cat")?;
/// let reader = db.reader();
/// let words = "SELECT COUNT(*) FROM pets";
/// assert_eq!(reader.query_row(words, (), |row| row.get::<u64>(0))?, 2);
/// corpus.append("b.txt", "the dog")?;
/// assert_eq!(reader.query_row(words, (), |row| row.get::<u64>(0))?, 2);
/// assert_eq!(reader.snapshot("pets")?.count("the")?, 1);
/// assert_eq!(db.query_row(words, (), |row| row.get::<u64>(0))?, 4);
/// assert!(reader.query("DELETE FROM pets", ()).is_err());
/// # Ok::<(), zipfdb::Error>(())
/// ```
#[derive(Clone)]
pub struct Reader {
    session: Arc<Session>,
}

impl Reader {
    pub(crate) fn new(session: Session) -> Reader {
        Reader {
            session: Arc::new(session),
        }
    }

    /// Parses one statement, as [`crate::Database::prepare`].
    ///
    /// # Errors
    /// If the text is not valid SQL, or has several statements.
    pub fn prepare(&self, sql: &str) -> Result<Statement> {
        Statement::prepare(&self.session, sql)
    }

    /// Runs one statement with values for its parameters, and returns its rows.
    ///
    /// # Errors
    /// As [`crate::Database::query`], and if the statement would write.
    pub fn query(&self, sql: &str, params: impl Params) -> Result<Rows> {
        self.prepare(sql)?.query(params)
    }

    /// Runs one statement and calls `read` with the first row of its answer.
    ///
    /// # Errors
    /// As [`Reader::query`], [`crate::Error::NoRows`] if there is no row, and that of `read`.
    pub fn query_row<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row) -> Result<T>,
    ) -> Result<T> {
        self.prepare(sql)?.query_row(params, read)
    }

    /// Runs one statement with each of many parameter sets: as [`crate::Database::query_many`].
    ///
    /// # Errors
    /// As [`crate::Database::query_many`], and if the statement would write.
    pub fn query_many(&self, sql: &str, parameters: &[Vec<Value>]) -> Result<Rows> {
        self.prepare(sql)?.query_many(parameters)
    }

    /// The corpus as the statements of this handle see it.
    ///
    /// # Errors
    /// As [`crate::Corpus::snapshot`], and if there is no such corpus.
    pub fn snapshot(&self, corpus: &str) -> Result<Snapshot> {
        let corpus = self.session.corpus(corpus)?;
        let interrupt = self.session.shared().runtime.interrupts.begin(0);
        let reader = self.session.reader(corpus.name(), &interrupt)?;
        Ok(Snapshot::new(reader))
    }

    /// The names of all corpora, sorted.
    pub fn corpora(&self) -> Vec<String> {
        self.session.corpora()
    }

    /// The names of all views, sorted: those of the database, and those that the handle had that this one was made of.
    pub fn views(&self) -> Vec<String> {
        self.session.view_names()
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Reader")
            .field("path", &self.session.path())
            .finish_non_exhaustive()
    }
}
