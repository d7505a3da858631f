//! `WriteTransaction`: edits of files that happen together or not at all.
//!
//! The invariant: a transaction is the only writer while it lives; it sees its own edits, and readers see them once it commits.
//! Every edit of the database goes through a transaction.

use std::fmt;
use std::sync::Arc;

use zipfdb_storage::{CorpusRecord, Durability as StoredDurability};

use crate::answer::access_path::Run;
use crate::answer::{CorpusReader, CorpusView, StoredView};
use crate::handles::opened::Writing;
use crate::handles::record::{Record, stored_at};
use crate::handles::shared::Shared;
use crate::handles::snapshot::Snapshot;
use crate::mixed::{Answer, Operation, Target};
use crate::overlay::edits::{CorpusCommit, Names, appends_by_file, encode, shared_texts};
use crate::overlay::{EditBatch, Insertion, Overlay, at_row, check_name};
use crate::runtime::fair_mutex::FairMutexGuard;
use crate::runtime::interrupt::Interrupt;
use crate::{Durability, Result, Value};

/// Batches up to this size do not check for interruption: they finish sooner than a check would matter.
const OPERATIONS_UNWATCHED: usize = 256;

/// Edits that are made together; other writers of the database wait until it is committed or dropped.
pub(crate) struct WriteTransaction {
    shared: Arc<Shared>,
    /// Declared before `writing`, so it is released first.
    turn: FairMutexGuard,
    writing: Writing,
    corpora: Vec<EditedCorpus>,
    /// In the order in which they were made, each with the place of its corpus in `corpora`.
    batches: Vec<(usize, Arc<EditBatch>)>,
    durability: Durability,
}

/// A corpus with edits of a transaction.
struct EditedCorpus {
    record: CorpusRecord,
    stored: Arc<StoredView>,
    overlay: Overlay,
    /// The newest view, possibly of a state before the last edits.
    view: Option<Arc<CorpusView>>,
}

impl WriteTransaction {
    /// As [`crate::Database::begin`], for edits of a corpus, or of any, until `interrupt` ends the wait.
    ///
    /// # Errors
    /// If the database is open for reading only, and that of `interrupt`.
    pub(crate) fn begin(
        shared: &Arc<Shared>,
        corpus: Option<&str>,
        interrupt: &Interrupt,
    ) -> Result<WriteTransaction> {
        let writing = shared.writing(interrupt)?;
        let corpora = match corpus {
            Some(corpus) => vec![writing.store.corpus(corpus)?],
            None => writing.store.corpora(),
        };
        shared.hold(&writing, corpora, interrupt)?;
        let turn = shared.runtime.turn(interrupt)?;
        let durability = shared.runtime.settings.lock().durability;
        Ok(WriteTransaction {
            shared: shared.clone(),
            turn,
            writing,
            corpora: Vec::new(),
            batches: Vec::new(),
            durability,
        })
    }

    /// As [`crate::Transaction::set_durability`].
    pub(crate) fn set_durability(&mut self, durability: Durability) {
        self.durability = durability;
    }

    /// As [`crate::Transaction::append_many`].
    pub(crate) fn append_many<F, T>(&mut self, corpus: &str, rows: &[(F, T)]) -> Result<()>
    where
        F: AsRef<str>,
        T: AsRef<[u8]>,
    {
        let interrupt = self.shared.runtime.interrupt();
        let rows = appends_by_file(rows)?;
        for (append, row) in &rows {
            if check_name(&append.file).is_err() {
                // An append that cannot succeed is an error unless the file exists.
                self.check_append(corpus, &append.file, *row)?;
            }
        }
        let rows = rows.into_iter().map(|(append, _)| append).collect();
        self.edit(corpus, EditBatch::Insert(rows), &interrupt)
    }

    /// As [`crate::Transaction::append_records`].
    pub(crate) fn append_records(&mut self, corpus: &str, records: &[Record]) -> Result<()> {
        let interrupt = self.shared.runtime.interrupt();
        let at = self.corpus(corpus)?;
        let schema = self.corpora[at].record.settings.metadata.clone();
        let unnamed = records
            .iter()
            .filter(|record| record.file.is_none())
            .count();
        let mut new_names = self.new_names(corpus, unnamed)?.into_iter();
        let texts = shared_texts(records.iter().map(|record| &record.text[..]))?;
        let (mut rows, mut set) = (Vec::new(), Vec::new());
        for (row, (record, text)) in records.iter().zip(texts).enumerate() {
            let file: Arc<str> = match &record.file {
                Some(name) => name.as_str().into(),
                None => new_names
                    .next()
                    .expect("a name for each record without one"),
            };
            let values = record.stored(row, &schema)?;
            if !values.is_empty() {
                set.push((file.clone(), values));
            }
            rows.push(Insertion {
                file,
                offset: None,
                text,
            });
        }
        let batches = vec![EditBatch::Insert(rows), EditBatch::Set(set)];
        self.edit_all(corpus, batches, &interrupt)
    }

    /// As [`crate::Transaction::set_metadata`].
    pub(crate) fn set_metadata(
        &mut self,
        corpus: &str,
        file: &str,
        values: &[(&str, Value)],
    ) -> Result<()> {
        let interrupt = self.shared.runtime.interrupt();
        let at = self.corpus(corpus)?;
        let schema = &self.corpora[at].record.settings.metadata;
        let values = values
            .iter()
            .map(|(name, value)| stored_at(0, schema, name, value));
        let values = values.collect::<Result<_>>()?;
        self.edit(
            corpus,
            EditBatch::Set(vec![(file.into(), values)]),
            &interrupt,
        )
    }

    /// As [`crate::Transaction::insert_many`].
    pub(crate) fn insert_many<F, T>(&mut self, corpus: &str, rows: &[(F, u64, T)]) -> Result<()>
    where
        F: AsRef<str>,
        T: AsRef<[u8]>,
    {
        let interrupt = self.shared.runtime.interrupt();
        let mut names = Names::default();
        let texts = shared_texts(rows.iter().map(|(_, _, text)| text.as_ref()))?;
        let rows = (rows.iter().zip(texts)).map(|((file, offset, _), text)| Insertion {
            file: names.shared(file.as_ref()),
            offset: Some(*offset),
            text,
        });
        let rows = rows.collect();
        self.edit(corpus, EditBatch::Insert(rows), &interrupt)
    }

    /// As [`crate::Transaction::replace_many`].
    pub(crate) fn replace_many<F, T>(&mut self, corpus: &str, rows: &[(F, T)]) -> Result<()>
    where
        F: AsRef<str>,
        T: AsRef<[u8]>,
    {
        let interrupt = self.shared.runtime.interrupt();
        let texts = shared_texts(rows.iter().map(|(_, text)| text.as_ref()))?;
        let rows = (rows.iter().zip(texts)).map(|((file, _), text)| (file.as_ref().into(), text));
        let rows = rows.collect();
        self.edit(corpus, EditBatch::Replace(rows), &interrupt)
    }

    /// As [`crate::Transaction::delete_many`].
    pub(crate) fn delete_many<F: AsRef<str>>(&mut self, corpus: &str, files: &[F]) -> Result<()> {
        let files = files.iter().map(|file| file.as_ref().into());
        let interrupt = self.shared.runtime.interrupt();
        self.edit(corpus, EditBatch::Delete(files.collect()), &interrupt)
    }

    /// As [`crate::Transaction::mixed_many`].
    pub(crate) fn mixed_many(
        &mut self,
        corpus: &str,
        operations: &[Operation<'_>],
    ) -> Result<Vec<Answer>> {
        let at = self.corpus(corpus)?;
        let edited = &mut self.corpora[at];
        let adds = |operation: &Operation<'_>| {
            matches!(
                operation,
                Operation::Insert { .. } | Operation::Append { .. }
            )
        };
        if operations.iter().any(adds) {
            self.shared
                .refuse_if_held(&self.writing, &edited.record, &edited.overlay)?;
        }
        let target = Target {
            stored: &edited.stored,
            overlay: &mut edited.overlay,
            tokenizer: edited.record.settings.tokenizer,
            run: Run::to_the_end(),
        };
        let pool = &self.shared.runtime.pool;
        // A small batch finishes before another thread could check for interruption.
        let (answers, batches) = if operations.len() <= OPERATIONS_UNWATCHED {
            pool.install(|| target.run(operations))?
        } else {
            self.shared.runtime.interrupt().attend(|stop| {
                let run = Run::until(stop);
                pool.install(|| Target { run, ..target }.run(operations))
            })?
        };
        let batches = batches.into_iter();
        (self.batches).extend(batches.map(|batch| (at, Arc::new(batch))));
        Ok(answers)
    }

    /// As [`crate::Transaction::snapshot`].
    pub(crate) fn snapshot(&mut self, corpus: &str) -> Result<Snapshot> {
        let interrupt = self.shared.runtime.interrupts.begin(0);
        self.reader(corpus, &interrupt).map(Snapshot::new)
    }

    /// As `snapshot`, for a statement.
    pub(crate) fn reader(&mut self, corpus: &str, interrupt: &Interrupt) -> Result<CorpusReader> {
        let at = self.corpus(corpus)?;
        let edited = &mut self.corpora[at];
        let known = edited.view.take();
        let known = known.filter(|view| view.overlay().is_same(&edited.overlay));
        let view = match known {
            Some(view) => view,
            None => {
                let tokenizer = edited.record.settings.tokenizer;
                let (stored, overlay) = (edited.stored.clone(), edited.overlay.clone());
                let view = interrupt.apart(&self.shared.runtime.pool, move |stop| {
                    CorpusView::new(stored, overlay, tokenizer, stop)
                });
                Arc::new(view?)
            }
        };
        edited.view = Some(view.clone());
        Ok(CorpusReader::new(self.shared.runtime.clone(), view))
    }

    /// As [`crate::Transaction::commit`]; the waits for other writers end with `interrupt`.
    pub(crate) fn commit_until(mut self, interrupt: &Interrupt) -> Result<()> {
        if self.batches.is_empty() {
            return Ok(());
        }
        let records = (self.batches.iter())
            .map(|(corpus, batch)| encode(self.corpora[*corpus].record.id, batch, interrupt))
            .collect::<Result<Vec<_>>>()?;
        let mut commits: Vec<CorpusCommit> = (self.corpora.drain(..))
            .map(|edited| CorpusCommit {
                corpus: edited.record.id,
                overlay: edited.overlay,
                batches: Vec::new(),
            })
            .collect();
        for (corpus, batch) in self.batches.drain(..) {
            commits[corpus].batches.push(batch);
        }
        commits.retain(|commit| !commit.batches.is_empty());
        let core = &self.writing;
        let corpora: Vec<u64> = commits.iter().map(|commit| commit.corpus).collect();
        let append = || Ok(core.store.append(&records)?);
        let durability = stored_durability(self.durability);
        let ensure = |position, durability| Ok(core.store.ensure_durable(position, durability)?);
        (core.edits).commit(self.turn, commits, durability, append, ensure)?;
        for corpus in corpora {
            (self.shared.background).recompress_if_due(core, corpus, interrupt);
        }
        Ok(())
    }

    /// Applies edits after those before.
    pub(crate) fn edit(
        &mut self,
        corpus: &str,
        batch: EditBatch,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let at = self.corpus(corpus)?;
        if batch.is_empty() {
            return Ok(());
        }
        let edited = &mut self.corpora[at];
        if !matches!(batch, EditBatch::Delete(_)) {
            self.shared
                .refuse_if_held(&self.writing, &edited.record, &edited.overlay)?;
        }
        let mut pace = interrupt.pace();
        (edited.overlay).apply(&batch, &*edited.stored, &mut || pace.step())?;
        self.batches.push((at, Arc::new(batch)));
        Ok(())
    }

    /// Applies edits one after the other; with an error none of them is made.
    pub(crate) fn edit_all(
        &mut self,
        corpus: &str,
        batches: Vec<EditBatch>,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let at = self.corpus(corpus)?;
        let (overlay, made) = (self.corpora[at].overlay.clone(), self.batches.len());
        let mut batches = batches.into_iter();
        let edited = batches.try_for_each(|batch| self.edit(corpus, batch, interrupt));
        if edited.is_err() {
            self.corpora[at].overlay = overlay;
            self.batches.truncate(made);
        }
        edited
    }

    /// Numbers as names of new files, in order of the rows that need one.
    pub(crate) fn new_names(&mut self, corpus: &str, count: usize) -> Result<Vec<Arc<str>>> {
        let at = self.corpus(corpus)?;
        let EditedCorpus {
            stored, overlay, ..
        } = &self.corpora[at];
        let first = stored.files().len() + overlay.edited_files() + 1;
        let names = (first..).map(|number| number.to_string());
        let names = names.filter(|name| !overlay.has(name, &**stored));
        Ok(names.take(count).map(Arc::from).collect())
    }

    /// Checks that text can be appended to a file, which is created if it is missing.
    fn check_append(&mut self, corpus: &str, file: &str, row: usize) -> Result<()> {
        let at = self.corpus(corpus)?;
        let edited = &self.corpora[at];
        if edited.overlay.has(file, &*edited.stored) {
            Ok(())
        } else {
            check_name(file).map_err(|error| at_row(row, error))
        }
    }

    /// The place of a corpus in `corpora`.
    ///
    /// # Errors
    /// If there is no such corpus, or a commit has failed: the tip holds it, and readers do not see it.
    fn corpus(&mut self, name: &str) -> Result<usize> {
        self.writing.store.check_writable()?;
        let id = self.writing.store.corpus(name)?.id;
        if let Some(at) = (self.corpora.iter()).position(|edited| edited.record.id == id) {
            return Ok(at);
        }
        let (record, stored) = self.writing.stored_view(name)?;
        let overlay = self.writing.edits.tip(record.id);
        self.corpora.push(EditedCorpus {
            overlay: overlay.unwrap_or_else(|| Overlay::new(record.segments.as_slice().into())),
            record,
            stored,
            view: None,
        });
        Ok(self.corpora.len() - 1)
    }
}

fn stored_durability(durability: Durability) -> StoredDurability {
    match durability {
        Durability::Full => StoredDurability::Full,
        Durability::Normal => StoredDurability::Normal,
        Durability::Off => StoredDurability::Off,
    }
}

impl fmt::Debug for WriteTransaction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (formatter.debug_struct("WriteTransaction"))
            .field("batches", &self.batches.len())
            .finish_non_exhaustive()
    }
}
