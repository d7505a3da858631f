//! `Database`: a directory of corpora, opened.
//!
//! Everything a caller holds (corpora, snapshots, rows) shares one store and one
//! pool of threads, so a clone is cheap and the directory stays locked until the
//! last of them is dropped. Which rows a statement gives is `execute`'s business.

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rayon::{ThreadPool, ThreadPoolBuilder};
use zipfdb_sql::{Schema, StatementText, Value};
use zipfdb_storage::{
    Backend, CorpusRecord, CorpusSettings, FileBackend, OpenOptions, Section, Store,
};

use crate::background::{Background, Failures};
use crate::corpus::Corpus;
use crate::device::Devices;
use crate::edits::Edits;
use crate::error::no_threads;
use crate::gather::Gathered;
use crate::interrupt::{Interrupt, InterruptHandle, Interrupts};
use crate::overlay::{Batch, Overlay};
use crate::progress::{NoProgress, Progress};
use crate::rows::Rows;
use crate::settings::Settings;
use crate::snapshot::{CorpusView, SegmentView, Snapshot, StoredView};
use crate::statement::Statement;
use crate::transaction::Transaction;
use crate::turns::{Turn, Turns};
use crate::underway::Underway;
use crate::{Error, Result};

/// A database: named corpora of compressed text in one directory.
///
/// One process may write to a database at a time, any number may read it. All
/// methods take `&self`; clones share the same open database.
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
    shared: Arc<Shared>,
    session: Arc<Session>,
}

/// What a database handle shares with its clones only.
#[derive(Default)]
struct Session {
    /// Between BEGIN and COMMIT.
    transaction: Mutex<Option<Transaction>>,
}

/// What the handles of one open database share. When the last of them goes, recompression in the background ends.
pub(crate) struct Shared {
    core: Arc<Core>,
    in_memory: bool,
    /// The newest view of each corpus, by name, so that what was derived for one query serves the next.
    pub(crate) views: Mutex<HashMap<String, Arc<CorpusView>>>,
    /// What SET has changed.
    pub(crate) settings: Mutex<Settings>,
    pub(crate) interrupts: Interrupts,
    /// Single look-ups that wait for others.
    pub(crate) gathered: Gathered,
    background: Background,
}

/// What recompression in the background needs too.
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) pool: Arc<ThreadPool>,
    /// Whose turn it is to change the database.
    pub(crate) writing: Turns,
    /// Whose turn it is to recompress. Of the two this comes first.
    pub(crate) recompressing: Turns,
    pub(crate) underway: Underway,
    /// What cannot be recompressed in the background.
    pub(crate) failures: Failures,
    /// The segments of each corpus, by name, with what was decoded of them.
    stored: Mutex<HashMap<String, Arc<StoredView>>>,
    pub(crate) edits: Edits,
    pub(crate) devices: Arc<Devices>,
}

impl Deref for Shared {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl Core {
    /// A corpus and its segments as they are at one moment, without edits. Reads file tables.
    pub(crate) fn stored_view(&self, name: &str) -> Result<(CorpusRecord, Arc<StoredView>)> {
        let (record, segments) = self.store.open_corpus(name)?;
        let known = self.stored.lock().get(&record.name).cloned();
        let mut kept: HashMap<u64, Arc<SegmentView>> = HashMap::new();
        if let Some(known) = known {
            let ids = known.segments().iter().map(|segment| segment.id());
            if ids.eq(record.segments.iter().copied()) {
                return Ok((record, known));
            }
            let views = known.segments().iter();
            kept.extend(views.map(|view| (view.id(), view.clone())));
        }
        let views = segments.into_iter().map(|segment| {
            let known = kept.remove(&segment.id());
            known.unwrap_or_else(|| Arc::new(SegmentView::new(segment, self.devices.threads())))
        });
        let (name, views) = (record.name.clone(), views.collect());
        let devices = self.devices.clone();
        let stored = (self.pool).install(|| StoredView::new(name, views, devices))?;
        let stored = Arc::new(stored);
        let mut newest = self.stored.lock();
        if let Some(other) = newest.get(&record.name) {
            let ids = other.segments().iter().map(|segment| segment.id());
            if ids.eq(record.segments.iter().copied()) {
                // Another thread was first; what is derived serves all.
                return Ok((record, other.clone()));
            }
        }
        newest.insert(record.name.clone(), stored.clone());
        drop(newest);
        Ok((record, stored))
    }

    /// Takes up the edits that the log has.
    fn replay(&self) -> Result<()> {
        let names = self.store.corpora().into_iter();
        let names: HashMap<u64, String> = names.map(|record| (record.id, record.name)).collect();
        self.edits.replay(&self.store, |corpus| {
            // The log gives records of live corpora only, and nobody writes yet.
            let (record, stored) = self.stored_view(&names[&corpus])?;
            Ok((stored, record.segments.into()))
        })
    }
}

impl Shared {
    /// As [`Database::begin`], for edits of these corpora, until `interrupt` ends the wait.
    pub(crate) fn begin(
        self: &Arc<Self>,
        corpora: impl IntoIterator<Item = CorpusRecord>,
        interrupt: &Interrupt,
    ) -> Result<Transaction> {
        if self.store.is_read_only() {
            return Err(Error::Storage(zipfdb_storage::Error::ReadOnly {
                path: self.store.path().to_path_buf(),
            }));
        }
        for record in corpora {
            self.background.hold(&self.core, &record, interrupt)?;
        }
        Ok(Transaction::new(self.clone(), self.turn(interrupt)?))
    }

    /// Waits for a turn to write, until `interrupt` ends it.
    ///
    /// # Errors
    /// That of `interrupt`.
    pub(crate) fn turn(&self, interrupt: &Interrupt) -> Result<Turn> {
        self.writing.wait_while(|| interrupt.check())
    }

    /// Has the edits of a corpus recompressed if there are many, and waits if there are too many.
    pub(crate) fn recompress_if_due(&self, corpus: u64, interrupt: &Interrupt) {
        (self.background).recompress_if_due(&self.core, corpus, interrupt);
    }

    /// As `Background::refuse_if_held`.
    pub(crate) fn refuse_if_held(&self, record: &CorpusRecord, overlay: &Overlay) -> Result<()> {
        (self.background).refuse_if_held(&self.core, record, overlay)
    }

    /// As `Background::recompressed`.
    pub(crate) fn recompressed(&self, corpus: u64) {
        self.background.recompressed(&self.core, corpus);
    }

    /// Forgets what is in memory of a corpus.
    fn forget(&self, record: &CorpusRecord) {
        self.views.lock().remove(&record.name);
        self.stored.lock().remove(&record.name);
        self.edits.forget(record.id);
        self.failures.clear(record.id);
    }

    /// For a statement that begins now.
    pub(crate) fn interrupt(&self) -> Interrupt {
        let timeout = self.settings.lock().statement_timeout;
        self.interrupts.begin(timeout)
    }

    /// The directory of the database; none if it lives in memory.
    pub(crate) fn directory(&self) -> Option<&Path> {
        (!self.in_memory).then(|| self.store.path())
    }
}

/// Most threads of a database: many more than processors are of no use, and the system may fall over them.
const THREADS_MAX: usize = 4096;

/// How to open a database; made by [`Database::options`].
#[derive(Debug, Clone)]
pub struct DatabaseOptions {
    read_only: bool,
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

    /// Whether a database that does not exist is created. On by default; a
    /// read-only database is never created.
    pub fn create(mut self, create: bool) -> DatabaseOptions {
        self.create = create;
        self
    }

    /// How many threads work for this database, 4,096 at most; the number of processors by default.
    pub fn threads(mut self, threads: usize) -> DatabaseOptions {
        self.threads = Some(threads);
        self
    }

    /// What file operations go through, for tests that watch or fail them.
    #[doc(hidden)]
    pub fn backend(mut self, backend: Arc<dyn Backend>) -> DatabaseOptions {
        self.backend = Some(backend);
        self
    }

    /// Opens the database in directory `path`.
    ///
    /// # Errors
    /// If another process has it open for writing, if it does not exist and may
    /// not be created, or if the directory cannot be read. A damaged catalog is
    /// no error: it is rebuilt and a warning is left in [`Database::warnings`].
    pub fn open(self, path: impl AsRef<Path>) -> Result<Database> {
        let options = OpenOptions {
            read_only: self.read_only,
            create: self.create && !self.read_only,
        };
        let backend = self.backend.clone();
        let backend = backend.unwrap_or_else(|| Arc::new(FileBackend));
        let pool = self.pool()?;
        let path = path.as_ref();
        let store = pool.install(|| Store::open_with(backend, path, options))?;
        Database::start(store, pool, false)
    }

    /// Opens a database that lives in memory; whether it is read-only or created does not matter to it.
    ///
    /// # Errors
    /// If the threads cannot be started.
    pub fn in_memory(self) -> Result<Database> {
        let pool = self.pool()?;
        Database::start(Store::in_memory(), pool, true)
    }

    /// The threads that work for the database: nothing parallel is done on others.
    pub(crate) fn pool(&self) -> Result<ThreadPool> {
        // 0 lets rayon take the number of processors.
        let threads = self.threads.unwrap_or(0);
        if threads > THREADS_MAX {
            return Err(Error::Invalid {
                subject: "threads".into(),
                reason: format!(
                    "{threads} are too many; hint: at most {THREADS_MAX} can be started"
                ),
            });
        }
        let pool = ThreadPoolBuilder::new().num_threads(threads);
        let pool = pool.thread_name(|index| format!("zipfdb-{index}"));
        pool.build().map_err(no_threads)
    }
}

impl Database {
    pub(crate) fn start(store: Store, pool: ThreadPool, in_memory: bool) -> Result<Database> {
        let pool = Arc::new(pool);
        let devices = Arc::new(Devices::new(pool.clone()));
        let core = Core {
            store,
            pool,
            writing: Turns::default(),
            recompressing: Turns::default(),
            underway: Underway::default(),
            failures: Failures::default(),
            stored: Mutex::default(),
            edits: Edits::default(),
            devices,
        };
        core.pool.install(|| core.replay())?;
        Ok(Database {
            shared: Arc::new(Shared {
                core: Arc::new(core),
                in_memory,
                views: Mutex::default(),
                settings: Mutex::default(),
                interrupts: Interrupts::default(),
                gathered: Gathered::default(),
                background: Background::default(),
            }),
            session: Arc::default(),
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
        self.shared.directory().map(Path::to_path_buf)
    }

    /// What was repaired or looked wrong while the database was opened and used, oldest first.
    pub fn warnings(&self) -> Vec<String> {
        self.shared.store.warnings()
    }

    /// Creates an empty corpus.
    ///
    /// # Errors
    /// If there is a corpus of this name (in any case) or the name is not valid.
    pub fn create_corpus(&self, name: &str, settings: CorpusSettings) -> Result<Corpus> {
        self.create_corpus_until(name, settings, &self.shared.interrupt())
    }

    /// As `create_corpus`, for a statement.
    pub(crate) fn create_corpus_until(
        &self,
        name: &str,
        settings: CorpusSettings,
        interrupt: &Interrupt,
    ) -> Result<Corpus> {
        let _writing = self.shared.turn(interrupt)?;
        self.shared.store.create_corpus(name, settings)?;
        Ok(Corpus::new(self.shared.clone(), name.to_owned()))
    }

    /// Drops a corpus. Snapshots and rows that read it stay valid; its space is
    /// given back when the last of them is gone.
    ///
    /// # Errors
    /// If there is no such corpus.
    pub fn drop_corpus(&self, name: &str) -> Result<()> {
        self.drop_corpus_until(name, &self.shared.interrupt())
    }

    /// As `drop_corpus`, for a statement.
    pub(crate) fn drop_corpus_until(&self, name: &str, interrupt: &Interrupt) -> Result<()> {
        let _writing = self.shared.turn(interrupt)?;
        let record = self.shared.store.corpus(name)?;
        self.shared.store.drop_corpus(name)?;
        self.shared.forget(&record);
        self.shared.background.cancel(record.id);
        Ok(())
    }

    /// Begins edits that are made together, as soon as all other writers are done.
    ///
    /// A thread that has one must not begin another one, nor write otherwise, before the first is over: it would wait for
    /// itself.
    ///
    /// # Errors
    /// If the database is open for reading only, or the wait is interrupted or longer than a statement may take.
    pub fn begin(&self) -> Result<Transaction> {
        self.begin_until(&self.shared.interrupt())
    }

    /// As `begin`, for a statement. What it is to edit is not known, so it waits for all corpora.
    fn begin_until(&self, interrupt: &Interrupt) -> Result<Transaction> {
        let corpora = self.shared.store.corpora();
        self.shared.begin(corpora, interrupt)
    }

    /// A handle of the same open database with transactions of its own: `BEGIN` in SQL affects it and its clones only.
    pub fn session(&self) -> Database {
        Database {
            shared: self.shared.clone(),
            session: Arc::default(),
        }
    }

    /// BEGIN.
    pub(crate) fn begin_session(&self, interrupt: &Interrupt) -> Result<()> {
        let refused = || Error::Invalid {
            subject: "BEGIN".into(),
            reason: "there is a transaction already; hint: COMMIT or ROLLBACK ends it".into(),
        };
        if self.is_in_transaction() {
            return Err(refused());
        }
        // Other threads of the session go on meanwhile.
        let begun = self.begin_until(interrupt)?;
        let mut transaction = self.session.transaction.lock();
        if transaction.is_some() {
            return Err(refused());
        }
        *transaction = Some(begun);
        Ok(())
    }

    /// The transaction of the session, which `statement` ends.
    pub(crate) fn end_session(&self, statement: &str) -> Result<Transaction> {
        let transaction = self.session.transaction.lock().take();
        transaction.ok_or_else(|| Error::Invalid {
            subject: statement.into(),
            reason: "there is no transaction; hint: BEGIN starts one".into(),
        })
    }

    /// Whether statements are part of a transaction of the session.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.session.transaction.lock().is_some()
    }

    /// Makes edits in the session's transaction, or in one of their own.
    pub(crate) fn edit(&self, corpus: &str, batch: Batch, interrupt: &Interrupt) -> Result<()> {
        if let Some(transaction) = &mut *self.session.transaction.lock() {
            return transaction.edit(corpus, batch);
        }
        let record = self.shared.store.corpus(corpus)?;
        let mut edits = self.shared.begin([record], interrupt)?;
        edits.edit(corpus, batch)?;
        edits.commit_until(interrupt)
    }

    /// What statements see of a corpus.
    pub(crate) fn snapshot(&self, corpus: &str) -> Result<Snapshot> {
        match &mut *self.session.transaction.lock() {
            Some(transaction) => transaction.snapshot(corpus),
            None => self.corpus(corpus)?.snapshot(),
        }
    }

    /// The corpus called `name`, in any case of ASCII letters.
    ///
    /// # Errors
    /// If there is no such corpus.
    pub fn corpus(&self, name: &str) -> Result<Corpus> {
        let record = self.shared.store.corpus(name)?;
        Ok(Corpus::new(self.shared.clone(), record.name))
    }

    /// The names of all corpora, sorted.
    pub fn corpora(&self) -> Vec<String> {
        let records = self.shared.store.corpora();
        records.into_iter().map(|record| record.name).collect()
    }

    /// Parses one statement, to be run with [`Statement::query`]. A text without any is a statement that does nothing.
    ///
    /// # Errors
    /// If the text is not valid SQL, or has several statements.
    pub fn prepare(&self, sql: &str) -> Result<Statement> {
        let mut statements = zipfdb_sql::parse(sql)?;
        match statements.len() {
            0 | 1 => Ok(Statement::new(self, statements.pop())),
            count => Err(too_many(count)),
        }
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
    /// As [`Database::query`], and if the number of parameters is not the
    /// number of values. [`Database::prepare`] parses once for many runs.
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
        let parsed = zipfdb_sql::parse_statement(text)?;
        Statement::new(self, Some(parsed)).query_with_progress(parameters, progress)
    }

    /// Runs all statements of a text, in order, and drops their rows.
    ///
    /// # Errors
    /// Of the first statement that fails; those before it have taken effect.
    pub fn execute(&self, sql: &str) -> Result<()> {
        for parsed in zipfdb_sql::parse(sql)? {
            for row in Statement::new(self, Some(parsed)).query(&[])? {
                row?;
            }
        }
        Ok(())
    }

    /// A handle that interrupts, from any thread, all queries of this database that run at that moment: statements, and the
    /// tasks and batches that snapshots and transactions are asked for.
    pub fn interrupt_handle(&self) -> InterruptHandle {
        self.shared.interrupts.handle()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
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

/// The names that statements are checked against.
pub(crate) struct Names<'a>(pub(crate) &'a Database);

impl Schema for Names<'_> {
    fn corpora(&self) -> Vec<String> {
        self.0.corpora()
    }

    fn section_columns(&self) -> Vec<String> {
        let sections = Section::ALL.iter();
        sections
            .map(|section| format!("{}_size", section.name()))
            .collect()
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
