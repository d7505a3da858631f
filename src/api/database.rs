//! `Database`: a directory of corpora, opened.
//!
//! Everything a caller holds (corpora, snapshots, rows) shares one store and one pool of threads, so a clone is cheap and the
//! directory stays locked until the last of them is dropped. `execute` makes the rows of statements.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rayon::ThreadPool;
use zipfdb_sql::{StatementText, Value};
use zipfdb_storage::{Backend, CorpusSettings, FileBackend, OpenOptions, Store};

use crate::api::statement::Statement;
use crate::execute::list_files;
use crate::handles::corpus::Corpus;
use crate::handles::memory_share::MemoryShare;
use crate::handles::opened::{LOCK_KEPT, Opened, Sharing, open_shared};
use crate::handles::rows::Rows;
use crate::handles::session::Session;
use crate::handles::shared::Shared;
use crate::handles::transaction::Transaction;
use crate::runtime::interrupt::InterruptHandle;
use crate::runtime::progress::{NoProgress, Progress};
use crate::runtime::{Runtime, start_pool};
use crate::{Error, Result, paths};

/// A database: named corpora of compressed text in one directory.
///
/// One process may write to a database at a time, any number may read it: one
/// that is open has it for itself, unless it was opened with
/// [`DatabaseOptions::shared`] or [`DatabaseOptions::read_only`]. All methods
/// take `&self`; clones share the same open database.
///
/// ```
/// use zipfdb::{CorpusSettings, Database, Value};
///
/// let db = Database::in_memory()?;
/// db.execute("CREATE CORPUS letters WITH (tokenizer = 'unicode')")?;
/// let mut rows = db.query("SELECT COUNT(*) FROM letters WHERE word = 'dear'")?;
/// assert_eq!(rows.next().expect("one row")?[0], Value::Integer(0));
/// # Ok::<(), zipfdb::Error>(())
/// ```
#[derive(Clone)]
pub struct Database {
    session: Arc<Session>,
}

/// How to open a database; made by [`Database::options`].
#[derive(Debug, Clone)]
pub struct DatabaseOptions {
    read_only: bool,
    shared: bool,
    lock_kept: Duration,
    create: bool,
    threads: Option<usize>,
    backend: Option<Arc<dyn Backend>>,
}

impl DatabaseOptions {
    /// Opens without writing anything: no lock is taken, a database that
    /// another process writes to can be read, and so can one on a read-only
    /// file system. Off by default.
    pub fn read_only(mut self, read_only: bool) -> DatabaseOptions {
        self.read_only = read_only;
        self
    }

    /// Shares the database with other processes: it is read until the first
    /// write, which takes the lock that keeps others from writing and waits for
    /// it as long as `SET busy_timeout` says, and the lock is given back once
    /// nothing was written for half a second. Each statement and snapshot sees
    /// what other processes have committed before it. A database that does not
    /// exist has no corpora until the first write creates it. Off by default: the
    /// database is created and locked when it is opened, and stays locked to the
    /// drop of its last handle.
    pub fn shared(mut self, shared: bool) -> DatabaseOptions {
        self.shared = shared;
        self
    }

    /// How long a shared database keeps the lock after a write, for tests.
    #[doc(hidden)]
    pub fn lock_kept(mut self, time: Duration) -> DatabaseOptions {
        self.lock_kept = time;
        self
    }

    /// Whether a database that does not exist is created: when it is opened, or
    /// by the first write if it is [shared](DatabaseOptions::shared). On by
    /// default; a read-only database is never created.
    pub fn create(mut self, create: bool) -> DatabaseOptions {
        self.create = create;
        self
    }

    /// The number of threads that work for this database, 4,096 at most; by default the number of processors.
    pub fn threads(mut self, threads: usize) -> DatabaseOptions {
        self.threads = Some(threads);
        self
    }

    /// The backend of file operations, for tests that watch or fail them.
    #[doc(hidden)]
    pub fn backend(mut self, backend: Arc<dyn Backend>) -> DatabaseOptions {
        self.backend = Some(backend);
        self
    }

    /// Opens the database in directory `path`.
    ///
    /// # Errors
    /// If another process has it open for writing, if it does not exist and may
    /// not be created or would be created inside another database, or if the directory cannot be read. A damaged catalog is
    /// no error: it is rebuilt and a warning is left in [`Database::warnings`].
    pub fn open(self, path: impl AsRef<Path>) -> Result<Database> {
        let options = OpenOptions {
            read_only: self.read_only,
            create: self.create && !self.read_only,
        };
        let backend = self.backend.clone();
        let backend = backend.unwrap_or_else(|| Arc::new(FileBackend));
        let pool = start_pool(self.threads)?;
        let path = path.as_ref();
        // One that exists is opened wherever it is.
        if options.create && backend.is_file_system() && !paths::is_database(path) {
            paths::refuse_database(path, None)?;
        }
        let is_shared = self.shared && !self.read_only && backend.is_file_system();
        let store = pool.install(|| {
            if is_shared {
                open_shared(&backend, path, options.create)
            } else {
                Ok(Store::open_with(backend, path, options)?)
            }
        })?;
        let sharing = is_shared.then(|| Sharing::new(self.lock_kept));
        Database::start(store, pool, false, sharing)
    }

    /// Opens a database that lives in memory; whether it is read-only or created does not matter to it.
    ///
    /// # Errors
    /// If the threads cannot be started.
    pub fn in_memory(self) -> Result<Database> {
        let pool = start_pool(self.threads)?;
        Database::start(Store::in_memory(), pool, true, None)
    }
}

impl Database {
    /// A database of a store that was just opened; `sharing` is there if others may write to it.
    pub(crate) fn start(
        store: Store,
        pool: ThreadPool,
        in_memory: bool,
        sharing: Option<Sharing>,
    ) -> Result<Database> {
        let opened = Opened::new(store, Arc::new(Runtime::new(pool)), sharing)?;
        let shared = Arc::new(Shared::new(opened, in_memory));
        Ok(Database {
            session: Arc::new(Session::new(shared)),
        })
    }

    /// Opens the database in directory `path`, and creates it if there is none.
    ///
    /// # Errors
    /// As [`DatabaseOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Database> {
        Database::options().open(path)
    }

    /// Options to open a database with.
    pub fn options() -> DatabaseOptions {
        DatabaseOptions {
            read_only: false,
            shared: false,
            lock_kept: LOCK_KEPT,
            create: true,
            threads: None,
            backend: None,
        }
    }

    /// A database that lives in memory and is gone when its last handle is dropped.
    ///
    /// # Errors
    /// If the threads cannot be started.
    pub fn in_memory() -> Result<Database> {
        Database::options().in_memory()
    }

    /// The directory of the database; `None` if it lives in memory.
    pub fn path(&self) -> Option<PathBuf> {
        self.session.path()
    }

    /// What was repaired or looked wrong while the database was opened and used, oldest first.
    pub fn warnings(&self) -> Vec<String> {
        self.shared().warnings()
    }

    /// Creates an empty corpus.
    ///
    /// # Errors
    /// If there is a corpus of this name (in any case) or the name is not valid.
    pub fn create_corpus(&self, name: &str, settings: CorpusSettings) -> Result<Corpus> {
        let interrupt = self.shared().runtime.interrupt();
        self.session.create_corpus_until(name, settings, &interrupt)
    }

    /// Drops a corpus. Snapshots and rows that read it stay valid; its space is
    /// given back when the last of them is gone.
    ///
    /// # Errors
    /// If there is no such corpus.
    pub fn drop_corpus(&self, name: &str) -> Result<()> {
        let interrupt = self.shared().runtime.interrupt();
        self.session.drop_corpus_until(name, &interrupt)
    }

    /// Begins edits that are made together, as soon as all other writers are done.
    ///
    /// A thread that has one must not begin another one, nor write otherwise, before the first is over: it would wait for
    /// itself.
    ///
    /// # Errors
    /// If the database is open for reading only, an earlier write has failed, or the wait is interrupted or longer than a
    /// statement may take.
    pub fn begin(&self) -> Result<Transaction> {
        self.session.transaction(&self.shared().runtime.interrupt())
    }

    /// A handle of the same open database with transactions of its own: `BEGIN` in SQL affects it and its clones only.
    pub fn session(&self) -> Database {
        let session = Session::new(self.shared().clone());
        Database {
            session: Arc::new(session),
        }
    }

    /// A handle of the same open database that only reads: all its statements see a corpus as the first of them that reads it
    /// did, whatever is committed meanwhile. It keeps the snapshots that they have read, so drop it when the last statement is
    /// done. Uncommitted edits of a transaction of this handle are not seen, and [`Database::corpus`] of both gives the same.
    ///
    /// ```
    /// use zipfdb::{CorpusSettings, Database, Value};
    ///
    /// let db = Database::in_memory()?;
    /// let corpus = db.create_corpus("pets", CorpusSettings::default())?;
    /// corpus.append_many(&[("a.txt", "the cat")])?;
    /// let frozen = db.frozen();
    /// let count = |db: &Database| db.query("SELECT COUNT(*) FROM pets")?.next().expect("one row");
    /// assert_eq!(count(&frozen)?[0], Value::Integer(2));
    /// corpus.append_many(&[("b.txt", "the dog")])?;
    /// assert_eq!(count(&frozen)?[0], Value::Integer(2));
    /// assert_eq!(count(&db)?[0], Value::Integer(4));
    /// assert!(frozen.execute("DELETE FROM pets").is_err());
    /// # Ok::<(), zipfdb::Error>(())
    /// ```
    pub fn frozen(&self) -> Database {
        Database {
            session: Arc::new(self.session.frozen()),
        }
    }

    /// As [`Database::frozen`], where a corpus has some of its segments only: those of one or more of
    /// [`crate::Snapshot::partitions`]. The results on all partitions, each of them once, add up to that on the corpus: rows of
    /// words, n-grams and files side by side, counts added up.
    ///
    /// ```
    /// use zipfdb::{CorpusSettings, Database, Value};
    ///
    /// let db = Database::in_memory()?;
    /// let corpus = db.create_corpus("pets", CorpusSettings::default())?;
    /// for (file, text) in [("a.txt", "the cat"), ("b.txt", "the dog")] {
    ///     corpus.append_many(&[(file, text)])?;
    ///     db.execute("RECOMPRESS pets")?;
    /// }
    /// let mut words = 0;
    /// for partition in corpus.snapshot()?.partitions().expect("no edits are pending") {
    ///     let partition = db.partition("pets", &partition.segments)?;
    ///     let row = partition.query("SELECT COUNT(*) FROM pets")?.next().expect("one row")?;
    ///     if let Value::Integer(count) = row[0] {
    ///         words += count;
    ///     }
    /// }
    /// assert_eq!(words, 4);
    /// # Ok::<(), zipfdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Corpus::snapshot`]; [`crate::Error::Invalid`] if the corpus lacks one of the segments, they share a file with others,
    /// or edits are pending.
    pub fn partition(&self, corpus: &str, segments: &[u64]) -> Result<Database> {
        Ok(Database {
            session: Arc::new(self.session.partition(corpus, segments)?),
        })
    }

    /// The corpus called `name`, in any case of ASCII letters.
    ///
    /// # Errors
    /// If there is no such corpus.
    pub fn corpus(&self, name: &str) -> Result<Corpus> {
        self.session.corpus(name)
    }

    /// The names of all corpora, sorted.
    pub fn corpora(&self) -> Vec<String> {
        self.session.corpora()
    }

    /// The files that [`Corpus::copy_from`] would import from a path, by name, each with its size; the size is 0 where only
    /// reading the file shows it.
    ///
    /// # Errors
    /// If there is nothing at the path, or something that cannot be read.
    pub fn list_files(&self, path: impl AsRef<Path>) -> Result<Vec<(String, u64)>> {
        list_files(self.shared(), path.as_ref())
    }

    /// The names of all views, sorted: those of the database, and those of this handle and its clones alone.
    ///
    /// ```
    /// let db = zipfdb::Database::in_memory()?;
    /// db.execute("CREATE VIEW one AS SELECT 1 AS n; CREATE TEMP VIEW two AS SELECT 2 AS n")?;
    /// assert_eq!(db.views(), ["one", "two"]);
    /// assert_eq!(db.session().views(), ["one"]);
    /// # Ok::<(), zipfdb::Error>(())
    /// ```
    pub fn views(&self) -> Vec<String> {
        self.session.view_names()
    }

    /// Parses one statement, to be run with [`Statement::query`]. A text without any is a statement that does nothing. The last
    /// short texts are cached with their parsed statements, so repeating one costs a look-up.
    ///
    /// # Errors
    /// If the text is not valid SQL, or has several statements.
    pub fn prepare(&self, sql: &str) -> Result<Statement> {
        let kept = &self.shared().parsed;
        if let Some(parsed) = kept.get(sql) {
            return Ok(Statement::new(&self.session, Some(parsed)));
        }
        let mut statements = zipfdb_sql::parse(sql)?;
        if statements.len() > 1 {
            return Err(too_many(statements.len()));
        }
        let parsed = statements.pop().map(Arc::new);
        if let Some(parsed) = &parsed {
            kept.keep(sql, parsed);
        }
        Ok(Statement::new(&self.session, parsed))
    }

    /// As [`Database::prepare`], of a statement that a [`crate::StatementStream`] has cut out of a longer text; errors say where
    /// in that text.
    ///
    /// # Errors
    /// If the text is not valid SQL.
    pub fn prepare_text(&self, text: StatementText) -> Result<Statement> {
        let parsed = zipfdb_sql::parse_statement(text)?;
        Ok(Statement::new(&self.session, Some(parsed.into())))
    }

    /// Whether `BEGIN` has started a transaction of this handle and its clones that is not over.
    pub fn is_in_transaction(&self) -> bool {
        self.session.is_in_transaction()
    }

    /// Runs one statement and returns its rows.
    ///
    /// # Errors
    /// If the text is not exactly one valid statement, or the statement fails. Rows
    /// can fail later: each one is a `Result`.
    pub fn query(&self, sql: &str) -> Result<Rows> {
        self.query_with(sql, &[])
    }

    /// Runs one statement with values for its parameters (`?`, `?1`, `$1`).
    ///
    /// # Errors
    /// As [`Database::query`], and if the number of parameters is not the number of values. [`Database::prepare`] parses once for
    /// many runs; so does this method while the text is among the last ones.
    pub fn query_with(&self, sql: &str, parameters: &[Value]) -> Result<Rows> {
        self.query_with_progress(sql, parameters, &NoProgress)
    }

    /// Runs one statement with each of many parameter sets, and returns the rows of all of them, in order of the sets.
    ///
    /// `binding()` in the statement is the 0-based number of the set that a row answers. The statement is parsed once. A
    /// query runs for a set when its first row is asked for; other statements run at once.
    ///
    /// ```
    /// use zipfdb::{CorpusSettings, Database, Value};
    ///
    /// let db = Database::in_memory()?;
    /// db.create_corpus("letters", CorpusSettings::default())?;
    /// let sets = [vec![Value::from("dear")], vec![Value::from("yours")]];
    /// let rows = db.query_many("SELECT COUNT(*) FROM letters WHERE word = ?", &sets)?;
    /// assert_eq!(rows.count(), 2);
    /// # Ok::<(), zipfdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the text is not exactly one valid statement, or a set does not fit it; nothing has run then. Rows can fail later,
    /// and end with the first that does.
    pub fn query_many(&self, sql: &str, parameters: &[Vec<Value>]) -> Result<Rows> {
        self.prepare(sql)?.query_many(parameters)
    }

    /// Runs one statement and reports the progress of long work.
    ///
    /// # Errors
    /// As [`Database::query_with`].
    pub fn query_with_progress(
        &self,
        sql: &str,
        parameters: &[Value],
        progress: &dyn Progress,
    ) -> Result<Rows> {
        self.prepare(sql)?.query_with_progress(parameters, progress)
    }

    /// Runs one statement that a [`crate::StatementStream`] has cut out of a longer text;
    /// errors say where in that text.
    ///
    /// # Errors
    /// As [`Database::query_with`].
    pub fn query_statement(
        &self,
        text: StatementText,
        parameters: &[Value],
        progress: &dyn Progress,
    ) -> Result<Rows> {
        self.prepare_text(text)?
            .query_with_progress(parameters, progress)
    }

    /// Runs all statements of a text, in order, and drops their rows.
    ///
    /// # Errors
    /// Those of the first statement that fails; the statements before it have taken effect.
    pub fn execute(&self, sql: &str) -> Result<()> {
        for parsed in zipfdb_sql::parse(sql)? {
            for row in Statement::new(&self.session, Some(parsed.into())).query(&[])? {
                row?;
            }
        }
        Ok(())
    }

    /// A handle that interrupts, from any thread, all queries of this database that run at that moment: statements, and the
    /// tasks and batches that snapshots and transactions are asked for.
    pub fn interrupt_handle(&self) -> InterruptHandle {
        self.shared().runtime.interrupts.handle()
    }

    /// A share of `memory_limit` for what the program itself keeps, such as hash tables that it makes of answers. It takes
    /// nothing yet.
    pub fn memory_share(&self) -> MemoryShare {
        MemoryShare::new(&self.shared().cache)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        self.session.shared()
    }

    /// The session of this handle.
    #[cfg(test)]
    pub(crate) fn inner(&self) -> &Arc<Session> {
        &self.session
    }
}

fn too_many(count: usize) -> Error {
    Error::Invalid {
        subject: "query".into(),
        reason: format!(
            "{count} statements where one is expected; hint: `Database::execute` runs several"
        ),
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Database")
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}
