//! `Database`: a directory of corpora, opened.
//!
//! Everything a caller holds (corpora, snapshots, rows) shares one store and one pool of threads, so a clone is cheap and the
//! directory stays locked until the last of them is dropped. `execute` makes the rows of statements.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rayon::ThreadPool;
use zipfdb_sql::StatementText;
use zipfdb_sql::setting::Setting;
use zipfdb_storage::{Backend, CorpusSettings, FileBackend, OpenOptions, Store};

use crate::api::params::Params;
use crate::api::reader::Reader;
use crate::api::statement::Statement;
use crate::api::transaction::Transaction;
use crate::execute::list_files;
use crate::handles::corpus::Corpus;
use crate::handles::memory_share::MemoryShare;
use crate::handles::opened::{LOCK_KEPT, Opened, Sharing, open_shared};
use crate::handles::row::Row;
use crate::handles::rows::Rows;
use crate::handles::session::Session;
use crate::handles::shared::Shared;
use crate::paths::sources::Unreadable;
use crate::runtime::interrupt::InterruptHandle;
use crate::runtime::progress::Progress;
use crate::runtime::{Runtime, start_pool};
use crate::{Result, Value, paths};

/// A database: named corpora of compressed text in one directory.
///
/// One process may write to a database at a time, any number may read it: one
/// that is open has it for itself, unless it was opened with
/// [`DatabaseOptions::shared`] or [`DatabaseOptions::read_only`]. All methods
/// take `&self`; clones share the same open database, and its transaction that `BEGIN` starts; [`Database::session`] gives a handle
/// with transactions of its own, [`Database::begin`] a [`Transaction`].
///
/// It is closed when the last handle of it is dropped, snapshots and rows included: recompression in the background ends, a
/// transaction that is not committed is rolled back, and the lock is given back. What was committed stays, also if the process is
/// killed.
///
/// ```
/// use zipfdb::{Database, params};
///
/// let db = Database::in_memory()?;
/// db.execute_batch("CREATE CORPUS letters; INSERT INTO letters (file, content) VALUES ('a', 'Dear Ann')")?;
/// let insert = "INSERT INTO letters (file, content) VALUES (?, ?)";
/// assert_eq!(db.execute(insert, params!["b", "Dear Bob"])?, 1);
/// let count = db.query_row("SELECT COUNT(*) FROM letters WHERE word = ?", ["Dear"], |row| row.get::<u64>(0))?;
/// assert_eq!(count, 2);
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

    /// Begins statements and edits that are made together, as soon as all other writers are done. The temporary views of this
    /// handle are seen in it.
    ///
    /// A thread that has one must neither begin another nor write otherwise before the first is over: it would wait for
    /// itself, if need be until `statement_timeout`.
    ///
    /// # Errors
    /// If the database is open for reading only, this handle is in a transaction that `BEGIN` has started, an earlier write has
    /// failed, or the wait is interrupted or longer than a statement may take.
    pub fn begin(&self) -> Result<Transaction> {
        let interrupt = self.shared().runtime.interrupt();
        Ok(Transaction::new(self.session.begun(&interrupt)?))
    }

    /// A handle of the same open database with transactions of its own: `BEGIN` in SQL affects it and its clones only.
    pub fn session(&self) -> Database {
        let session = Session::new(self.shared().clone());
        Database {
            session: Arc::new(session),
        }
    }

    /// A handle of the same open database that only reads, and sees one state of each corpus.
    pub fn reader(&self) -> Reader {
        Reader::new(self.session.frozen())
    }

    /// As [`Database::reader`], where a corpus has some of its segments only: those of one or more of
    /// [`crate::Snapshot::partitions`]. The results on all partitions, each of them once, add up to that on the corpus: rows of
    /// words, n-grams and files side by side, counts added up.
    ///
    /// ```
    /// use zipfdb::{CorpusSettings, Database};
    ///
    /// let db = Database::in_memory()?;
    /// let corpus = db.create_corpus("pets", CorpusSettings::default())?;
    /// for (file, text) in [("a.txt", "the cat"), ("b.txt", "the dog")] {
    ///     corpus.append(file, text)?;
    ///     db.execute("RECOMPRESS pets", ())?;
    /// }
    /// let mut words = 0;
    /// for partition in corpus.snapshot()?.partitions().expect("no edits are pending") {
    ///     let partition = db.partition("pets", &partition.segments)?;
    ///     words += partition.query_row("SELECT COUNT(*) FROM pets", (), |row| row.get::<u64>(0))?;
    /// }
    /// assert_eq!(words, 4);
    /// # Ok::<(), zipfdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Corpus::snapshot`]; [`crate::Error::Invalid`] if the corpus lacks one of the segments, they share a file with others,
    /// or edits are pending.
    pub fn partition(&self, corpus: &str, segments: &[u64]) -> Result<Reader> {
        Ok(Reader::new(self.session.partition(corpus, segments)?))
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
    /// db.execute_batch("CREATE VIEW one AS SELECT 1 AS n; CREATE TEMP VIEW two AS SELECT 2 AS n")?;
    /// assert_eq!(db.views(), ["one", "two"]);
    /// assert_eq!(db.session().views(), ["one"]);
    /// # Ok::<(), zipfdb::Error>(())
    /// ```
    pub fn views(&self) -> Vec<String> {
        self.session.view_names()
    }

    /// Parses one statement, to be run as often as its caller likes. A text without any is a statement that does nothing. The
    /// last short texts are cached with their parsed statements, so repeating one costs a look-up.
    ///
    /// # Errors
    /// If the text is not valid SQL, or has several statements.
    pub fn prepare(&self, sql: &str) -> Result<Statement> {
        Statement::prepare(&self.session, sql)
    }

    /// Parses a statement that a [`crate::sql::StatementStream`] has cut out of a longer text; errors say where in that text.
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

    /// Runs one statement with values for its parameters (`?`, `?1`, `$1`, `:name`), and returns its rows.
    ///
    /// ```
    /// use zipfdb::{Database, params};
    ///
    /// let db = Database::in_memory()?;
    /// db.execute_batch("CREATE CORPUS pets; INSERT INTO pets (file, content) VALUES ('a.txt', 'the cat and the dog')")?;
    /// let sql = "SELECT word, COUNT(*) AS n FROM pets WHERE length >= ? GROUP BY word ORDER BY n DESC, word";
    /// for row in db.query(sql, params![3])? {
    ///     let row = row?;
    ///     println!("{} {}", row[0], row[1]);
    /// }
    /// # Ok::<(), zipfdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the text is not exactly one valid statement, the number of values is not that of its parameters, or the statement
    /// fails. Rows can fail later: each one is a `Result`.
    pub fn query(&self, sql: &str, params: impl Params) -> Result<Rows> {
        self.prepare(sql)?.query(params)
    }

    /// Runs one statement and calls `read` with the first row of its answer.
    ///
    /// ```
    /// use zipfdb::{Database, Value};
    ///
    /// let db = Database::in_memory()?;
    /// let sum = db.query_row("SELECT ? + ?", [1, 2], |row| Ok(row[0].clone()))?;
    /// assert_eq!(sum, Value::Integer(3));
    /// # Ok::<(), zipfdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::query`], [`crate::Error::NoRows`] if there is no row, and that of `read`.
    pub fn query_row<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row) -> Result<T>,
    ) -> Result<T> {
        self.prepare(sql)?.query_row(params, read)
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

    /// As [`Database::query`], and reports the progress of long work.
    ///
    /// # Errors
    /// As [`Database::query`].
    pub fn query_with_progress(
        &self,
        sql: &str,
        params: impl Params,
        progress: &dyn Progress,
    ) -> Result<Rows> {
        self.prepare(sql)?.query_with_progress(params, progress)
    }

    /// Runs one statement, to its end, and returns the number of rows that it has changed: inserted, replaced, deleted, or files
    /// copied; 0 for other statements. Rows of its answer are dropped.
    ///
    /// ```
    /// use zipfdb::{CorpusSettings, Database};
    ///
    /// let db = Database::in_memory()?;
    /// db.create_corpus("notes", CorpusSettings::default())?;
    /// let insert = "INSERT INTO notes (file, content) VALUES (?, ?)";
    /// assert_eq!(db.execute(insert, ("a.txt", "to be read"))?, 1);
    /// assert_eq!(db.execute("DELETE FROM notes", ())?, 1);
    /// # Ok::<(), zipfdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::query`], and those of its rows.
    pub fn execute(&self, sql: &str, params: impl Params) -> Result<u64> {
        self.prepare(sql)?.execute(params)
    }

    /// Runs all statements of a text, in order, and drops their rows. They have no parameters.
    ///
    /// # Errors
    /// Those of the first statement that fails; the statements before it have taken effect.
    pub fn execute_batch(&self, sql: &str) -> Result<()> {
        for parsed in zipfdb_sql::parse(sql)? {
            Statement::new(&self.session, Some(parsed.into())).execute(())?;
        }
        Ok(())
    }

    /// The files and records that the last `COPY ... FROM` of this handle and its clones left out, as `rejects()` lists them.
    ///
    /// ```
    /// let folder = tempfile::tempdir().expect("a folder");
    /// std::fs::write(folder.path().join("one"), "text").expect("a file");
    /// let db = zipfdb::Database::in_memory()?;
    /// db.execute_batch("CREATE CORPUS c")?;
    /// let path = folder.path().join("one");
    /// db.execute_batch(&format!("COPY c FROM '{}' WITH (on_error = 'skip')", path.display()))?;
    /// assert!(db.rejects().is_empty());
    /// # Ok::<(), zipfdb::Error>(())
    /// ```
    pub fn rejects(&self) -> Vec<Unreadable> {
        self.session.rejects().to_vec()
    }

    /// The settings in force, sorted by name, for all handles of the open database.
    pub fn settings(&self) -> Vec<Setting> {
        let settings = self.session.settings().list().into_iter();
        settings.map(|(setting, _)| setting).collect()
    }

    /// Changes a setting, as `SET` does: for all handles of the open database, from the next statement on.
    ///
    /// ```
    /// use zipfdb::Database;
    /// use zipfdb::sql::{Device, Setting};
    ///
    /// let db = Database::in_memory()?;
    /// db.set(Setting::Device(Device::Cpu))?;
    /// db.set(Setting::MemoryLimit(Some(64 << 20)))?;
    /// assert!(db.settings().contains(&Setting::Device(Device::Cpu)));
    /// assert!(db.set(Setting::MemoryLimit(Some(0))).is_err());
    /// # Ok::<(), zipfdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// If its number is out of the bounds that `docs/SQL.md` has, or there is no such device.
    pub fn set(&self, setting: Setting) -> Result<()> {
        self.session.set(setting)
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

impl fmt::Debug for Database {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Database")
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}
