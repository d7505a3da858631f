//! `Session`: the state that a sequence of statements shares, with the transaction that BEGIN has started.
//!
//! Invariant: between BEGIN and COMMIT or ROLLBACK every statement of the session reads and edits in its transaction. A frozen
//! session writes nothing and sees one snapshot of each corpus.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use zipfdb_sql::query::MetadataColumn;
use zipfdb_sql::setting::Setting;
use zipfdb_sql::{Schema, ViewDefinition, quote};
use zipfdb_storage::{CorpusSettings, PathText, Section, ViewRecord};

use crate::answer::CorpusReader;
use crate::handles::corpus::Corpus;
use crate::handles::record::value_kind;
use crate::handles::shared::Shared;
use crate::handles::transaction::WriteTransaction;
use crate::overlay::EditBatch;
use crate::paths::sources::Unreadable;
use crate::runtime::interrupt::Interrupt;
use crate::runtime::memory::ValueMemory;
use crate::runtime::settings::Settings;
use crate::{Error, Result};

/// The state that a database handle shares with its clones only.
pub(crate) struct Session {
    shared: Arc<Shared>,
    /// Set between BEGIN and COMMIT.
    transaction: Mutex<Option<WriteTransaction>>,
    /// Whether its transaction belongs to a [`crate::Transaction`], which alone ends it.
    is_owned: bool,
    /// Views of this session alone.
    temporary_views: Mutex<Vec<ViewRecord>>,
    /// What the last import left out.
    rejects: Mutex<Arc<[Unreadable]>>,
    /// The readers that a frozen session has opened, by corpus; none if it is not frozen.
    frozen: Option<Mutex<HashMap<String, CorpusReader>>>,
}

impl Session {
    pub(crate) fn new(shared: Arc<Shared>) -> Session {
        Session {
            shared,
            transaction: Mutex::default(),
            is_owned: false,
            temporary_views: Mutex::default(),
            rejects: Mutex::default(),
            frozen: None,
        }
    }

    /// A session with the temporary views of this one whose statements see a corpus as the first of them did.
    pub(crate) fn frozen(&self) -> Session {
        Session {
            temporary_views: Mutex::new(self.temporary_views.lock().clone()),
            frozen: Some(Mutex::default()),
            ..Session::new(self.shared.clone())
        }
    }

    /// As [`crate::Database::partition`].
    pub(crate) fn partition(&self, corpus: &str, segments: &[u64]) -> Result<Session> {
        let mut session = self.frozen();
        let corpus = self.corpus(corpus)?;
        let reader = corpus
            .reader(&self.shared.runtime.interrupts.begin(0))?
            .of_segments(corpus.name(), segments)?;
        let read = session.frozen.get_or_insert_default().get_mut();
        read.insert(corpus.name().to_owned(), reader);
        Ok(session)
    }

    /// What the last COPY ... FROM left out.
    pub(crate) fn rejects(&self) -> Arc<[Unreadable]> {
        self.rejects.lock().clone()
    }

    /// Keeps what an import has left out.
    pub(crate) fn set_rejects(&self, rejects: &[Unreadable]) {
        *self.rejects.lock() = rejects.into();
    }

    /// # Errors
    /// If the session is frozen.
    pub(crate) fn check_writable(&self, subject: &str) -> Result<()> {
        match self.frozen {
            None => Ok(()),
            Some(_) => Err(Error::Invalid {
                subject: subject.into(),
                reason:
                    "a reader does not write; hint: write with the database that it was made of"
                        .into(),
            }),
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// As [`crate::Database::path`].
    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.shared.directory()
    }

    /// The names of all corpora, sorted.
    pub(crate) fn corpora(&self) -> Vec<String> {
        // A directory that cannot be read now is an error of the statement that reads it.
        let core = self.shared.fresh().unwrap_or_else(|_| self.shared.core());
        let records = core.store.corpora();
        records.into_iter().map(|record| record.name).collect()
    }

    /// The directory of the database, if no database is in it yet.
    pub(crate) fn missing_directory(&self) -> Option<PathBuf> {
        let core = self.shared.fresh().unwrap_or_else(|_| self.shared.core());
        let is_missing = core.store.is_missing();
        is_missing.then(|| core.store.path().to_path_buf())
    }

    /// As [`crate::Database::views`].
    pub(crate) fn view_names(&self) -> Vec<String> {
        let views = Schema::views(self).into_iter();
        let mut names: Vec<String> = views.map(|view| view.name).collect();
        names.sort();
        // A view of the session may have the name of one of the database.
        names.dedup_by(|a, b| a.eq_ignore_ascii_case(b));
        names
    }

    /// As [`crate::Database::corpus`].
    pub(crate) fn corpus(&self, name: &str) -> Result<Corpus> {
        let record = self.shared.fresh()?.store.corpus(name)?;
        Ok(Corpus::new(self.shared.clone(), record.name))
    }

    /// As [`crate::Database::create_corpus`].
    pub(crate) fn create_corpus_until(
        &self,
        name: &str,
        settings: CorpusSettings,
        interrupt: &Interrupt,
    ) -> Result<Corpus> {
        self.check_writable("CREATE CORPUS")?;
        let writing = self.shared.writing(interrupt)?;
        let _turn = self.shared.runtime.turn(interrupt)?;
        writing.store.create_corpus(name, settings)?;
        Ok(Corpus::new(self.shared.clone(), name.to_owned()))
    }

    /// As [`crate::Database::drop_corpus`].
    pub(crate) fn drop_corpus_until(&self, name: &str, interrupt: &Interrupt) -> Result<()> {
        self.check_writable("DROP CORPUS")?;
        let writing = self.shared.writing(interrupt)?;
        let _turn = self.shared.runtime.turn(interrupt)?;
        let record = writing.store.corpus(name)?;
        writing.store.drop_corpus(name)?;
        self.shared.dropped(&writing, &record);
        Ok(())
    }

    /// Creates a view.
    ///
    /// # Errors
    /// If a view or a corpus has this name by now, the database is open for reading only, and that of `interrupt`.
    pub(crate) fn create_view(
        &self,
        name: &str,
        sql: &str,
        is_temporary: bool,
        if_not_exists: bool,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let is_same = |view: &ViewRecord| view.name.eq_ignore_ascii_case(name);
        let view = ViewRecord {
            name: name.to_owned(),
            sql: sql.to_owned(),
        };
        let exists = || Error::Invalid {
            subject: format!("view {}", quote(name)),
            reason: "there is one of this name already; hint: `DROP VIEW` removes it".into(),
        };
        if self.temporary_views.lock().iter().any(is_same) {
            return if if_not_exists { Ok(()) } else { Err(exists()) };
        }
        if is_temporary {
            self.temporary_views.lock().push(view);
            return Ok(());
        }
        let writing = self.shared.writing(interrupt)?;
        let _turn = self.shared.runtime.turn(interrupt)?;
        let mut is_there = false;
        writing.store.change_views(|views| {
            is_there = views.iter().any(is_same);
            if !is_there {
                views.push(view);
            }
            Ok(())
        })?;
        if is_there && !if_not_exists {
            return Err(exists());
        }
        Ok(())
    }

    /// Drops a view.
    ///
    /// # Errors
    /// If there is none by now, unless `if_exists`, the database is open for reading only, and that of `interrupt`.
    pub(crate) fn drop_view(
        &self,
        name: &str,
        if_exists: bool,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let is_same = |view: &ViewRecord| view.name.eq_ignore_ascii_case(name);
        let mut temporary = self.temporary_views.lock();
        if let Some(index) = temporary.iter().position(is_same) {
            temporary.remove(index);
            return Ok(());
        }
        drop(temporary);
        if if_exists && !self.shared.core().store.views()?.iter().any(is_same) {
            return Ok(());
        }
        let writing = self.shared.writing(interrupt)?;
        let _turn = self.shared.runtime.turn(interrupt)?;
        let mut is_there = false;
        writing.store.change_views(|views| {
            let before = views.len();
            views.retain(|view| !is_same(view));
            is_there = views.len() < before;
            Ok(())
        })?;
        if !is_there && !if_exists {
            return Err(Error::Invalid {
                subject: format!("view {}", quote(name)),
                reason: "there is none of this name any more".into(),
            });
        }
        Ok(())
    }

    /// The settings in force.
    pub(crate) fn settings(&self) -> Settings {
        *self.shared.runtime.settings.lock()
    }

    /// SET, for all handles of the open database.
    ///
    /// # Errors
    /// If the value is out of bounds, or there is no such device.
    pub(crate) fn set(&self, setting: Setting) -> Result<()> {
        let setting = setting.in_bounds().map_err(|bounds| Error::Invalid {
            subject: format!("setting {}", setting.name()),
            reason: format!("the number is not in {}..={}", bounds.start(), bounds.end()),
        })?;
        let mut settings = self.shared.runtime.settings.lock();
        let mut changed = *settings;
        changed.set(setting);
        (self.shared.runtime.devices).want(changed.device, changed.gpu_memory_limit)?;
        self.shared
            .runtime
            .gathered
            .set_window(changed.batch_window);
        *settings = changed;
        drop(settings);
        self.shared.cache.set_limit(changed.memory_limit());
        self.shared.background.set_timers(&self.shared.core());
        Ok(())
    }

    /// Begins edits that are made together. The corpora to be edited are not known, so it waits for all.
    ///
    /// # Errors
    /// If the database is open for reading only, and that of `interrupt`.
    pub(crate) fn transaction(&self, interrupt: &Interrupt) -> Result<WriteTransaction> {
        self.check_writable("BEGIN")?;
        WriteTransaction::begin(&self.shared, None, interrupt)
    }

    /// A session with the temporary views of this one, in a transaction that only `take` ends.
    ///
    /// # Errors
    /// As `transaction`, and if this session is in a transaction, for which it would wait.
    pub(crate) fn begun(&self, interrupt: &Interrupt) -> Result<Session> {
        if self.is_in_transaction() {
            return Err(begun_already());
        }
        let begun = self.transaction(interrupt)?;
        Ok(Session {
            transaction: Mutex::new(Some(begun)),
            is_owned: true,
            temporary_views: Mutex::new(self.temporary_views.lock().clone()),
            ..Session::new(self.shared.clone())
        })
    }

    /// BEGIN.
    pub(crate) fn begin(&self, interrupt: &Interrupt) -> Result<()> {
        if self.is_in_transaction() {
            return Err(begun_already());
        }
        // Other threads of the session continue meanwhile.
        let begun = self.transaction(interrupt)?;
        let mut transaction = self.transaction.lock();
        if transaction.is_some() {
            return Err(begun_already());
        }
        *transaction = Some(begun);
        Ok(())
    }

    /// The transaction of the session, which `statement` ends.
    pub(crate) fn end(&self, statement: &str) -> Result<WriteTransaction> {
        if self.is_owned {
            return Err(Error::Invalid {
                subject: statement.into(),
                reason: "the transaction belongs to a `Transaction`; hint: its methods `commit` and `rollback` end it".into(),
            });
        }
        self.take().ok_or_else(|| Error::Invalid {
            subject: statement.into(),
            reason: "there is no transaction; hint: BEGIN starts one".into(),
        })
    }

    /// The transaction of the session, if there is one, which is over for it.
    pub(crate) fn take(&self) -> Option<WriteTransaction> {
        self.transaction.lock().take()
    }

    /// Works on the transaction of the session.
    ///
    /// # Errors
    /// That of `work`, and if there is no transaction.
    pub(crate) fn with_transaction<T>(
        &self,
        work: impl FnOnce(&mut WriteTransaction) -> Result<T>,
    ) -> Result<T> {
        match &mut *self.transaction.lock() {
            Some(transaction) => work(transaction),
            None => Err(Error::Invalid {
                subject: "transaction".into(),
                reason: "it is over".into(),
            }),
        }
    }

    /// Whether statements are part of a transaction of the session.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.transaction.lock().is_some()
    }

    /// Makes edits in the session's transaction, or in one of their own.
    pub(crate) fn edit(
        &self,
        corpus: &str,
        batches: Vec<EditBatch>,
        interrupt: &Interrupt,
    ) -> Result<()> {
        self.edit_with(corpus, interrupt, |_| Ok(batches))
    }

    /// As `edit`, of batches that depend on the files of the corpus: `make` sees them while no other writer changes them.
    pub(crate) fn edit_with(
        &self,
        corpus: &str,
        interrupt: &Interrupt,
        make: impl FnOnce(&mut WriteTransaction) -> Result<Vec<EditBatch>>,
    ) -> Result<()> {
        if let Some(transaction) = &mut *self.transaction.lock() {
            let batches = make(transaction)?;
            return transaction.edit_all(corpus, batches, interrupt);
        }
        let mut edits = WriteTransaction::begin(&self.shared, Some(corpus), interrupt)?;
        let batches = make(&mut edits)?;
        edits.edit_all(corpus, batches, interrupt)?;
        edits.commit_until(interrupt)
    }

    /// The reader of a corpus for the statements of this session.
    pub(crate) fn reader(&self, corpus: &str, interrupt: &Interrupt) -> Result<CorpusReader> {
        if let Some(frozen) = &self.frozen {
            if let Some(reader) = frozen.lock().get(corpus) {
                return Ok(reader.clone());
            }
            // Opening a reader may run parallel work, which must not happen under a lock. The first of several threads decides.
            let reader = self.corpus(corpus)?.reader(interrupt)?;
            let mut frozen = frozen.lock();
            return Ok(frozen.entry(corpus.to_owned()).or_insert(reader).clone());
        }
        match &mut *self.transaction.lock() {
            Some(transaction) => transaction.reader(corpus, interrupt),
            None => self.corpus(corpus)?.reader(interrupt),
        }
    }
}

fn begun_already() -> Error {
    Error::Invalid {
        subject: "BEGIN".into(),
        reason: "there is a transaction already; hint: COMMIT or ROLLBACK ends it".into(),
    }
}

/// The names that statements are checked against.
impl Schema for Session {
    fn corpora(&self) -> Vec<String> {
        Session::corpora(self)
    }

    fn metadata(&self, corpus: &str) -> Vec<MetadataColumn> {
        let settings = self.corpus(corpus).and_then(|corpus| corpus.settings());
        let metadata = settings
            .map(|settings| settings.metadata)
            .unwrap_or_default();
        let columns = metadata.columns().iter();
        let columns = columns.map(|column| MetadataColumn {
            id: column.id,
            name: column.name.clone(),
            kind: value_kind(column.kind),
        });
        columns.collect()
    }

    fn missing_database(&self) -> Option<String> {
        self.missing_directory()
            .map(|path| PathText(&path).to_string())
    }

    fn views(&self) -> Vec<ViewDefinition> {
        let core = self.shared.core();
        let stored = core.store.views().unwrap_or_else(|error| {
            let warning = format!("views cannot be read: {error}");
            core.runtime.warnings.warn(core.store.path(), warning);
            Vec::new()
        });
        let temporary = self.temporary_views.lock().clone();
        let define = |view: ViewRecord, is_temporary| ViewDefinition {
            name: view.name,
            sql: view.sql,
            is_temporary,
        };
        let temporary = temporary.into_iter().map(|view| define(view, true));
        let stored = stored.into_iter().map(|view| define(view, false));
        temporary.chain(stored).collect()
    }

    fn regexp_memory_limit(&self) -> u64 {
        ValueMemory::new(&self.settings()).row_bytes()
    }

    fn section_columns(&self) -> Vec<String> {
        let sections = Section::ALL.iter();
        sections
            .map(|section| format!("{}_size", section.name()))
            .collect()
    }
}
