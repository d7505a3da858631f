//! `Transaction`: statements and edits that happen together or not at all.
//!
//! Invariant: it has a session of its own, whose transaction is begun, and which is over when the `Transaction` is. What edits do
//! is below.

use std::fmt;
use std::sync::Arc;

use crate::api::params::Params;
use crate::api::statement::Statement;
use crate::handles::record::Record;
use crate::handles::row::Row;
use crate::handles::rows::Rows;
use crate::handles::session::Session;
use crate::handles::snapshot::Snapshot;
use crate::mixed::{Answer, Operation};
use crate::overlay::EditBatch;
use crate::runtime::interrupt::Interrupt;
use crate::{Durability, Result, Value};

/// Statements and edits that are made together; from [`crate::Database::begin`].
///
/// Its statements and snapshots see its own edits, others see them once it is committed. Other writers of the database wait until
/// it is over, readers do not. Dropped without [`Transaction::commit`], it rolls back: nothing has happened. The rows of one call of a
/// method `.._many`, and of one statement, see the texts as they were before it ("in batch"); calls see what those before them did
/// ("in sequence").
///
/// A thread that has one must neither begin another nor write by the database before it is over: it would wait for itself.
///
/// ```
/// use zipfdb::{CorpusSettings, Database};
///
/// let db = Database::in_memory()?;
/// db.create_corpus("notes", CorpusSettings::default())?;
/// let mut edits = db.begin()?;
/// edits.append_many("notes", &[("a.txt", "the cat"), ("b.txt", "a dog")])?;
/// edits.insert("notes", "a.txt", 4, "black ")?;
/// edits.execute("INSERT INTO notes (file, content) VALUES (?, ?)", ("a.txt", " sat"))?;
/// let files = "SELECT file FROM notes WHERE word = ?";
/// assert_eq!(edits.query_row(files, ["sat"], |row| row.get::<String>(0))?, "a.txt");
/// assert_eq!(edits.snapshot("notes")?.extract("a.txt", 0, 99)?, b"the black cat sat");
/// assert_eq!(db.query(files, ["sat"])?.count(), 0);
/// edits.commit()?;
/// assert_eq!(db.query(files, ["sat"])?.count(), 1);
///
/// let mut edits = db.begin()?;
/// assert_eq!(edits.execute("DELETE FROM notes", ())?, 2);
/// drop(edits);
/// assert_eq!(db.corpus("notes")?.files()?.len(), 2);
/// # Ok::<(), zipfdb::Error>(())
/// ```
pub struct Transaction {
    session: Arc<Session>,
    /// None for that of the session's transaction.
    durability: Option<Durability>,
}

impl Transaction {
    pub(crate) fn new(session: Session) -> Transaction {
        Transaction {
            session: Arc::new(session),
            durability: None,
        }
    }

    /// Runs one statement with values for its parameters, and returns its rows.
    ///
    /// # Errors
    /// As [`crate::Database::query`], and if the statement cannot be part of a transaction, or would begin or end one.
    pub fn query(&mut self, sql: &str, params: impl Params) -> Result<Rows> {
        Statement::prepare(&self.session, sql)?.query(params)
    }

    /// Runs one statement and calls `read` with the first row of its answer.
    ///
    /// # Errors
    /// As [`Transaction::query`], [`crate::Error::NoRows`] if there is no row, and that of `read`.
    pub fn query_row<T>(
        &mut self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row) -> Result<T>,
    ) -> Result<T> {
        Statement::prepare(&self.session, sql)?.query_row(params, read)
    }

    /// Runs one statement with each of many parameter sets: as [`crate::Database::query_many`].
    ///
    /// # Errors
    /// As [`crate::Database::query_many`], and as [`Transaction::query`].
    pub fn query_many(&mut self, sql: &str, parameters: &[Vec<Value>]) -> Result<Rows> {
        Statement::prepare(&self.session, sql)?.query_many(parameters)
    }

    /// Runs one statement, to its end, and returns the number of rows that it has changed, as [`crate::Database::execute`].
    ///
    /// # Errors
    /// As [`Transaction::query`], and those of its rows. What the transaction did before stays part of it.
    pub fn execute(&mut self, sql: &str, params: impl Params) -> Result<u64> {
        Statement::prepare(&self.session, sql)?.execute(params)
    }

    /// Sets what committed edits outlive: a killed process, a power cut, or neither. The default is that of `SET durability`.
    /// A commit also waits until earlier commits to the same corpora are as durable as they asked.
    pub fn set_durability(&mut self, durability: Durability) {
        self.durability = Some(durability);
    }

    /// Appends a text to a file, which is created if it is missing.
    ///
    /// # Errors
    /// As [`Transaction::append_many`].
    pub fn append(&mut self, corpus: &str, file: &str, text: impl AsRef<[u8]>) -> Result<()> {
        self.append_many(corpus, &[(file, text)])
    }

    /// Inserts a text into a file, before the byte `offset`.
    ///
    /// # Errors
    /// As [`Transaction::insert_many`].
    pub fn insert(
        &mut self,
        corpus: &str,
        file: &str,
        offset: u64,
        text: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.insert_many(corpus, &[(file, offset, text)])
    }

    /// Gives a file a new text, and creates it if it is missing.
    ///
    /// # Errors
    /// As [`Transaction::replace_many`].
    pub fn replace(&mut self, corpus: &str, file: &str, text: impl AsRef<[u8]>) -> Result<()> {
        self.replace_many(corpus, &[(file, text)])
    }

    /// Deletes a file.
    ///
    /// # Errors
    /// As [`Transaction::delete_many`].
    pub fn delete(&mut self, corpus: &str, file: &str) -> Result<()> {
        self.delete_many(corpus, &[file])
    }

    /// Appends texts to files: pairs of a name and a text. A file that is not there is created.
    ///
    /// # Errors
    /// If there is no such corpus, a name cannot be, the database cannot be written, or it is interrupted or out of time as a
    /// statement; nothing is appended then.
    pub fn append_many<F, T>(&mut self, corpus: &str, rows: &[(F, T)]) -> Result<()>
    where
        F: AsRef<str>,
        T: AsRef<[u8]>,
    {
        (self.session).with_transaction(|edits| edits.append_many(corpus, rows))
    }

    /// Appends texts to files and sets their metadata. A file that is not there is created; a record without a name makes a file
    /// whose name is a number.
    ///
    /// # Errors
    /// As [`Transaction::append_many`], and if a column is not declared or cannot hold a value.
    pub fn append_records(&mut self, corpus: &str, records: &[Record]) -> Result<()> {
        (self.session).with_transaction(|edits| edits.append_records(corpus, records))
    }

    /// Sets values of a file in declared columns: pairs of a name and a value. NULL takes a value back.
    ///
    /// # Errors
    /// If there is no such corpus, file or column, a column cannot hold a value, or the database cannot be written.
    pub fn set_metadata(
        &mut self,
        corpus: &str,
        file: &str,
        values: &[(&str, Value)],
    ) -> Result<()> {
        (self.session).with_transaction(|edits| edits.set_metadata(corpus, file, values))
    }

    /// Inserts texts into files: a name, the byte of the file before which to insert, and a text. Offsets are those before
    /// the call; texts for one offset keep their order.
    ///
    /// # Errors
    /// As [`Transaction::append_many`], and if there is no such file or an offset lies behind its end.
    pub fn insert_many<F, T>(&mut self, corpus: &str, rows: &[(F, u64, T)]) -> Result<()>
    where
        F: AsRef<str>,
        T: AsRef<[u8]>,
    {
        (self.session).with_transaction(|edits| edits.insert_many(corpus, rows))
    }

    /// Gives files new texts: pairs of a name and a text. A file that is not there is created; of several texts for one file
    /// the last one counts.
    ///
    /// # Errors
    /// As [`Transaction::append_many`].
    pub fn replace_many<F, T>(&mut self, corpus: &str, rows: &[(F, T)]) -> Result<()>
    where
        F: AsRef<str>,
        T: AsRef<[u8]>,
    {
        (self.session).with_transaction(|edits| edits.replace_many(corpus, rows))
    }

    /// Deletes files.
    ///
    /// # Errors
    /// If there is no such corpus, one of the files is not there, or the database cannot be written; nothing is deleted then.
    pub fn delete_many<F: AsRef<str>>(&mut self, corpus: &str, files: &[F]) -> Result<()> {
        (self.session).with_transaction(|edits| edits.delete_many(corpus, files))
    }

    /// Applies edits after those before.
    pub(crate) fn edit(
        &mut self,
        corpus: &str,
        batch: EditBatch,
        interrupt: &Interrupt,
    ) -> Result<()> {
        (self.session).with_transaction(|edits| edits.edit(corpus, batch, interrupt))
    }

    /// Answers questions and makes edits in order: each sees what the edits before it did.
    ///
    /// # Errors
    /// If an operation names a file that is not there or an offset behind its end, a name cannot be, a segment is damaged, or
    /// it is interrupted or out of time as a statement; nothing has happened then.
    pub fn mixed_many(
        &mut self,
        corpus: &str,
        operations: &[Operation<'_>],
    ) -> Result<Vec<Answer>> {
        (self.session).with_transaction(|edits| edits.mixed_many(corpus, operations))
    }

    /// The corpus with the edits made so far.
    ///
    /// # Errors
    /// If there is no such corpus, a segment is damaged, or it is interrupted.
    pub fn snapshot(&mut self, corpus: &str) -> Result<Snapshot> {
        (self.session).with_transaction(|edits| edits.snapshot(corpus))
    }

    /// Makes the edits happen: readers see them when it returns, and they are as durable as asked.
    ///
    /// # Errors
    /// If it is interrupted or out of time before the log is written: then nothing has happened. If the log cannot be written:
    /// what of the edits reached the disk is seen when the database is opened again; until then nothing can be written.
    pub fn commit(self) -> Result<()> {
        let interrupt = self.session.shared().runtime.interrupt();
        let edits = self.session.take();
        let mut edits = edits.expect("only `commit` and `drop` take it, and each ends `self`");
        if let Some(durability) = self.durability {
            edits.set_durability(durability);
        }
        edits.commit_until(&interrupt)
    }

    /// Discards the edits, as dropping the transaction does.
    pub fn rollback(self) {}
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // Rows may hold the session for longer.
        drop(self.session.take());
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Transaction")
            .finish_non_exhaustive()
    }
}
