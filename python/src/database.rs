//! `Database` and `Reader`: handles that run statements; `Transaction`: edits that are one.
//!
//! Invariant: work runs without the interpreter's lock. An edit that would wait for a transaction of its own thread is refused.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;

use pyo3::prelude::*;
use zipfdb::ingest::{NoProgress, Progress};
use zipfdb::sql::StatementStream;
use zipfdb::{InterruptHandle, Statement, Value};
use zipfdb_arrow::{RecordColumns, TextArrays, parameter_sets};

use crate::edits::{Edits, append_stream};
use crate::errors::{InterfaceError, ProgrammingError, raised, raised_by_arrow};
use crate::rows::Rows;
use crate::snapshot::Snapshot;
use crate::streams::batches;
use crate::values::parameters;
use crate::work::{Held, watched, work};

/// An open database, with transactions of its own.
#[pyclass(frozen, module = "zipfdb._zipfdb")]
pub(crate) struct Database {
    held: Mutex<Held<zipfdb::Database>>,
    interrupt: InterruptHandle,
    texts: Arc<TextArrays>,
    /// The threads that have a transaction open; shared with these.
    writers: Writers,
}

/// The threads that have a transaction open.
type Writers = Arc<Mutex<Vec<ThreadId>>>;

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Database {
    fn new(database: zipfdb::Database, texts: Arc<TextArrays>, writers: Writers) -> Database {
        Database {
            interrupt: database.interrupt_handle(),
            held: Mutex::new(Held::new(database)),
            texts,
            writers,
        }
    }

    /// A handle of the same session.
    fn get(&self) -> PyResult<zipfdb::Database> {
        locked(&self.held).get().cloned()
    }

    fn prepare(&self, py: Python<'_>, sql: &str) -> PyResult<Statement> {
        self.get()?.prepare(sql).map_err(|error| raised(py, error))
    }

    /// # Errors
    /// If the edit would wait for a transaction of this thread or handle.
    fn check_writable(&self, database: &zipfdb::Database) -> PyResult<()> {
        if database.is_in_transaction() {
            return Err(ProgrammingError::new_err(
                "the connection is in a transaction that BEGIN has started; hint: commit it first, or write by INSERT",
            ));
        }
        self.check_no_transaction()
    }

    /// # Errors
    /// If this thread has a transaction, for which the edit would wait.
    fn check_no_transaction(&self) -> PyResult<()> {
        if locked(&self.writers).contains(&std::thread::current().id()) {
            return Err(ProgrammingError::new_err(
                "this thread has a transaction open, for whose end it would wait; hint: write by the methods of the transaction",
            ));
        }
        Ok(())
    }

    fn answer(
        &self,
        py: Python<'_>,
        rows: PyResult<zipfdb::Result<zipfdb::Rows>>,
    ) -> PyResult<Rows> {
        Ok(Rows::new(
            rows?.map_err(|error| raised(py, error))?,
            &self.texts,
        ))
    }
}

#[pymethods]
impl Database {
    /// Opens the database in a directory, or one in memory without a path.
    #[staticmethod]
    #[pyo3(signature = (path, read_only, shared, create, threads))]
    fn open(
        py: Python<'_>,
        path: Option<std::path::PathBuf>,
        read_only: bool,
        shared: bool,
        create: bool,
        threads: Option<usize>,
    ) -> PyResult<Database> {
        let options = zipfdb::Database::options()
            .read_only(read_only)
            .shared(shared)
            .create(create);
        let options = match threads {
            Some(threads) => options.threads(threads),
            None => options,
        };
        let opened = py.detach(|| match path {
            Some(path) => options.open(path),
            None => options.in_memory(),
        });
        let database = opened.map_err(|error| raised(py, error))?;
        Ok(Database::new(database, Arc::default(), Arc::default()))
    }

    /// Another handle of the same open database, with transactions of its own.
    fn session(&self) -> PyResult<Database> {
        let session = self.get()?.session();
        Ok(Database::new(
            session,
            self.texts.clone(),
            self.writers.clone(),
        ))
    }

    /// Gives the handle back. The database is closed with the last one.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let database = locked(&self.held).take()?;
        py.detach(|| drop(database));
        Ok(())
    }

    /// Ends all statements of the database that run at that moment.
    fn interrupt(&self) {
        self.interrupt.interrupt();
    }

    /// The names of all corpora.
    fn corpora(&self) -> PyResult<Vec<String>> {
        Ok(self.get()?.corpora())
    }

    /// The name of a corpus as it was created.
    fn corpus_name(&self, py: Python<'_>, corpus: &str) -> PyResult<String> {
        let corpus = self
            .get()?
            .corpus(corpus)
            .map_err(|error| raised(py, error))?;
        Ok(corpus.name().to_owned())
    }

    /// Whether BEGIN has started a transaction that is not over.
    #[getter]
    fn in_transaction(&self) -> PyResult<bool> {
        Ok(self.get()?.is_in_transaction())
    }

    /// What was repaired or looked wrong since the database was opened.
    #[getter]
    fn warnings(&self) -> PyResult<Vec<String>> {
        Ok(self.get()?.warnings())
    }

    /// Whether a statement only reads.
    fn is_read_only(&self, py: Python<'_>, sql: &str) -> PyResult<bool> {
        Ok(self.prepare(py, sql)?.is_read_only())
    }

    /// Runs one statement. `progress` is called with a stage, the bytes that are done and their total.
    #[pyo3(signature = (sql, params=None, progress=None))]
    fn run(
        &self,
        py: Python<'_>,
        sql: &str,
        params: Option<&Bound<'_, PyAny>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Rows> {
        let statement = self.prepare(py, sql)?;
        let values = parameters(&statement, params)?;
        if !statement.is_read_only() && !self.get()?.is_in_transaction() {
            self.check_no_transaction()?;
        }
        let Some(progress) = progress else {
            let rows = work(py, &self.interrupt, || statement.query(&values));
            return self.answer(py, rows);
        };
        let meter = Meter::default();
        let run = || statement.query_with_progress(&values, &meter);
        let mut shown = None;
        let rows = watched(py, &self.interrupt, run, |py| {
            meter.show(py, &progress, &mut shown)
        });
        let rows = self.answer(py, rows)?;
        meter.show(py, &progress, &mut shown)?;
        Ok(rows)
    }

    /// Runs one statement with each of many parameter sets.
    fn run_many(&self, py: Python<'_>, sql: &str, sets: &Bound<'_, PyAny>) -> PyResult<Rows> {
        let statement = self.prepare(py, sql)?;
        let sets: Vec<Vec<Value>> = if sets.hasattr("__arrow_c_stream__")? {
            let stream = batches(sets)?;
            let mut all = Vec::new();
            for batch in stream {
                let batch = batch.map_err(|error| raised_by_arrow(py, error.into()))?;
                all.extend(parameter_sets(&batch).map_err(|error| raised_by_arrow(py, error))?);
            }
            all
        } else {
            let sets = sets
                .try_iter()?
                .map(|set| parameters(&statement, Some(&set?)));
            sets.collect::<PyResult<_>>()?
        };
        if !statement.is_read_only() && !self.get()?.is_in_transaction() {
            self.check_no_transaction()?;
        }
        let rows = work(py, &self.interrupt, || statement.query_many(&sets));
        self.answer(py, rows)
    }

    /// Runs all statements of a text.
    fn run_script(&self, py: Python<'_>, sql: &str) -> PyResult<()> {
        let database = self.get()?;
        if !database.is_in_transaction() {
            self.check_no_transaction()?;
        }
        let run = work(py, &self.interrupt, || {
            let mut statements = StatementStream::new();
            statements.feed(sql);
            statements.feed("\n;");
            while let Some(statement) = statements.next_statement() {
                database.prepare_text(statement?)?.execute(())?;
            }
            Ok::<_, zipfdb::Error>(())
        })?;
        run.map_err(|error| raised(py, error))
    }

    /// Makes edits of a corpus.
    fn edit(&self, py: Python<'_>, corpus: &str, edits: &Edits) -> PyResult<()> {
        let database = self.get()?;
        self.check_writable(&database)?;
        let made = work(py, &self.interrupt, || {
            let mut transaction = database.begin()?;
            edits.make(&mut transaction, corpus)?;
            transaction.commit()
        })?;
        made.map_err(|error| raised(py, error))
    }

    /// Appends the rows of a stream of Arrow to files of a corpus, and returns their number.
    fn append_stream(
        &self,
        py: Python<'_>,
        corpus: &str,
        source: &Bound<'_, PyAny>,
        file: String,
        content: String,
    ) -> PyResult<u64> {
        let (stream, columns) = (batches(source)?, RecordColumns { file, content });
        let database = self.get()?;
        self.check_writable(&database)?;
        let appended = work(py, &self.interrupt, || {
            let mut edits = database.begin()?;
            let count = append_stream(&mut edits, corpus, stream, &columns)?;
            edits.commit()?;
            Ok::<_, zipfdb_arrow::Error>(count)
        })?;
        appended.map_err(|error| raised_by_arrow(py, error))
    }

    /// The corpus as it is now.
    fn snapshot(&self, py: Python<'_>, corpus: &str) -> PyResult<Snapshot> {
        let database = self.get()?;
        // Without edits this takes microseconds, so no thread is started for it.
        let taken = py.detach(|| database.corpus(corpus)?.snapshot());
        Ok(Snapshot::new(
            taken.map_err(|error| raised(py, error))?,
            &self.interrupt,
        ))
    }

    /// A handle that only reads, and sees one state of each corpus.
    fn reader(&self) -> PyResult<Reader> {
        Ok(Reader {
            held: Mutex::new(Held::new(self.get()?.reader())),
            interrupt: self.interrupt.clone(),
            texts: self.texts.clone(),
        })
    }

    /// Begins a transaction, as soon as all other writers are done.
    fn begin(&self, py: Python<'_>) -> PyResult<Transaction> {
        let database = self.get()?;
        self.check_writable(&database)?;
        let begun = work(py, &self.interrupt, || database.begin())?;
        let thread = std::thread::current().id();
        locked(&self.writers).push(thread);
        Ok(Transaction {
            edits: Mutex::new(Held::new(Some(begun.map_err(|error| {
                locked(&self.writers).retain(|writer| *writer != thread);
                raised(py, error)
            })?))),
            interrupt: self.interrupt.clone(),
            texts: self.texts.clone(),
            writers: self.writers.clone(),
            thread,
        })
    }
}

/// The progress of a statement, written by threads of the database and read by the one that shows it.
#[derive(Default)]
struct Meter(Mutex<(String, u64, u64)>);

impl Progress for Meter {
    fn begin(&self, stage: &str, total: u64) {
        *locked(&self.0) = (stage.to_owned(), 0, total);
    }

    fn advance(&self, amount: u64) {
        locked(&self.0).1 += amount;
    }

    fn end(&self) {}
}

impl Meter {
    /// Calls `progress` if there is more than was `shown`.
    fn show(
        &self,
        py: Python<'_>,
        progress: &Py<PyAny>,
        shown: &mut Option<(String, u64, u64)>,
    ) -> PyResult<()> {
        let state = locked(&self.0).clone();
        if shown.as_ref() != Some(&state) && !state.0.is_empty() {
            progress.call1(py, state.clone())?;
            *shown = Some(state);
        }
        Ok(())
    }
}

/// A handle that only reads, and sees one state of each corpus.
#[pyclass(frozen, module = "zipfdb._zipfdb")]
pub(crate) struct Reader {
    held: Mutex<Held<zipfdb::Reader>>,
    interrupt: InterruptHandle,
    texts: Arc<TextArrays>,
}

impl Reader {
    fn get(&self) -> PyResult<zipfdb::Reader> {
        locked(&self.held).get().cloned()
    }
}

#[pymethods]
impl Reader {
    /// Runs one statement that reads.
    #[pyo3(signature = (sql, params=None, progress=None))]
    fn run(
        &self,
        py: Python<'_>,
        sql: &str,
        params: Option<&Bound<'_, PyAny>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Rows> {
        if progress.is_some() {
            return Err(InterfaceError::new_err(
                "statements that only read report no progress",
            ));
        }
        let statement = self
            .get()?
            .prepare(sql)
            .map_err(|error| raised(py, error))?;
        let values = parameters(&statement, params)?;
        let rows = work(py, &self.interrupt, || {
            statement.query_with_progress(&values, &NoProgress)
        })?;
        Ok(Rows::new(
            rows.map_err(|error| raised(py, error))?,
            &self.texts,
        ))
    }

    /// The corpus as the statements of this handle see it.
    fn snapshot(&self, py: Python<'_>, corpus: &str) -> PyResult<Snapshot> {
        let reader = self.get()?;
        let snapshot = work(py, &self.interrupt, || reader.snapshot(corpus))?;
        let snapshot = snapshot.map_err(|error| raised(py, error))?;
        Ok(Snapshot::new(snapshot, &self.interrupt))
    }

    /// The names of all corpora.
    fn corpora(&self) -> PyResult<Vec<String>> {
        Ok(self.get()?.corpora())
    }

    /// Gives the handle and what it has seen back.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let reader = locked(&self.held).take()?;
        py.detach(|| drop(reader));
        Ok(())
    }
}

/// Statements and edits that happen together or not at all.
#[pyclass(frozen, module = "zipfdb._zipfdb")]
pub(crate) struct Transaction {
    /// None once it is over.
    edits: Mutex<Held<Option<zipfdb::Transaction>>>,
    interrupt: InterruptHandle,
    texts: Arc<TextArrays>,
    writers: Writers,
    thread: ThreadId,
}

fn over() -> PyErr {
    InterfaceError::new_err("the transaction is over; hint: begin another one")
}

impl Transaction {
    /// Works with the edits.
    fn with<A: Send>(
        &self,
        py: Python<'_>,
        run: impl FnOnce(&mut zipfdb::Transaction) -> A + Send,
    ) -> PyResult<A> {
        work(py, &self.interrupt, || {
            let mut held = locked(&self.edits);
            let edits = held.get_mut()?.as_mut().ok_or_else(over)?;
            Ok::<_, PyErr>(run(edits))
        })?
    }

    /// Takes the edits out, which ends the transaction.
    fn take(&self) -> PyResult<Option<zipfdb::Transaction>> {
        let edits = locked(&self.edits).get_mut()?.take();
        if edits.is_some() {
            let mut writers = locked(&self.writers);
            if let Some(place) = writers.iter().position(|writer| *writer == self.thread) {
                writers.swap_remove(place);
            }
        }
        Ok(edits)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // In a forked process there is nothing to be ended.
        let _ = self.take();
    }
}

#[pymethods]
impl Transaction {
    /// Runs one statement.
    #[pyo3(signature = (sql, params=None, progress=None))]
    fn run(
        &self,
        py: Python<'_>,
        sql: &str,
        params: Option<&Bound<'_, PyAny>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Rows> {
        if progress.is_some() {
            return Err(InterfaceError::new_err(
                "statements of a transaction report no progress",
            ));
        }
        let values = match params.filter(|params| !params.is_none()) {
            None => Vec::new(),
            Some(params) if params.hasattr("keys")? => {
                return Err(InterfaceError::new_err(
                    "parameters of a transaction are a sequence",
                ));
            }
            Some(params) => {
                let values = params.try_iter()?.map(|item| crate::values::value(&item?));
                values.collect::<PyResult<Vec<Value>>>()?
            }
        };
        let rows = self.with(py, |edits| edits.query(sql, &values))?;
        Ok(Rows::new(
            rows.map_err(|error| raised(py, error))?,
            &self.texts,
        ))
    }

    /// Makes edits of a corpus.
    fn edit(&self, py: Python<'_>, corpus: &str, edits: &Edits) -> PyResult<()> {
        let made = self.with(py, |transaction| edits.make(transaction, corpus))?;
        made.map_err(|error| raised(py, error))
    }

    /// Appends the rows of a stream of Arrow to files of a corpus, and returns their number.
    fn append_stream(
        &self,
        py: Python<'_>,
        corpus: &str,
        source: &Bound<'_, PyAny>,
        file: String,
        content: String,
    ) -> PyResult<u64> {
        let (stream, columns) = (batches(source)?, RecordColumns { file, content });
        let appended = self.with(py, |edits| append_stream(edits, corpus, stream, &columns))?;
        appended.map_err(|error| raised_by_arrow(py, error))
    }

    /// The corpus with the edits made so far.
    fn snapshot(&self, py: Python<'_>, corpus: &str) -> PyResult<Snapshot> {
        let snapshot = self.with(py, |edits| edits.snapshot(corpus))?;
        let snapshot = snapshot.map_err(|error| raised(py, error))?;
        Ok(Snapshot::new(snapshot, &self.interrupt))
    }

    /// Whether it is neither committed nor rolled back.
    #[getter]
    fn is_open(&self) -> PyResult<bool> {
        Ok(locked(&self.edits).get()?.is_some())
    }

    /// Makes the edits happen.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let edits = self.take()?.ok_or_else(over)?;
        let committed = work(py, &self.interrupt, || edits.commit())?;
        committed.map_err(|error| raised(py, error))
    }

    /// Discards the edits.
    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        let edits = self.take()?.ok_or_else(over)?;
        py.detach(|| edits.rollback());
        Ok(())
    }
}
