//! `Corpus`: one named collection of files in a database.
//!
//! A handle names its corpus and looks it up at each call, so it may outlive the
//! corpus; calls then fail with "no such corpus".

use std::fmt;
use std::sync::Arc;

use zipfdb_storage::{
    CorpusRecord, CorpusSettings, IngestMode, MetadataSchema, Segment, SegmentInfo,
};

use crate::answer::{CorpusReader, CorpusView, FileSummary, StoredView};
use crate::engine::core::Core;
use crate::handles::record::Record;
use crate::handles::shared::Shared;
use crate::handles::snapshot::Snapshot;
use crate::handles::transaction::WriteTransaction;
use crate::mixed::{Answer, Operation};
use crate::overlay::Overlay;
use crate::runtime::interrupt::Interrupt;
use crate::tokenize::word_ranges;
use crate::{Result, Value};

/// A corpus of a database; made by [`crate::Database::corpus`] or
/// [`crate::Database::create_corpus`].
///
/// Files come in by [`Corpus::copy_from`] and by edits, each of which is a transaction of its own (several together:
/// [`crate::Database::begin`]); questions are asked to a [`Snapshot`]. The handle is cheap to clone and holds nothing but the open
/// database: dropping it changes nothing, and the corpus may be dropped while there are handles of it.
///
/// ```
/// use zipfdb::{CorpusSettings, Database};
///
/// let db = Database::in_memory()?;
/// let notes = db.create_corpus("notes", CorpusSettings::default())?;
/// notes.append("a.txt", "the cat")?;
/// notes.insert("a.txt", 4, "black ")?;
/// notes.replace_many(&[("b.txt", "a dog"), ("c.txt", "a bird")])?;
/// notes.delete("c.txt")?;
/// let snapshot = notes.snapshot()?;
/// assert_eq!(snapshot.extract("a.txt", 0, 99)?, b"the black cat");
/// assert_eq!(snapshot.files().len(), 2);
/// assert_eq!(db.execute("DELETE FROM notes WHERE file = 'b.txt'", ())?, 1);
/// // The snapshot stays as it was.
/// assert_eq!(snapshot.count("dog")?, 1);
/// assert_eq!(notes.snapshot()?.count("dog")?, 0);
/// # Ok::<(), zipfdb::Error>(())
/// ```
#[derive(Clone)]
pub struct Corpus {
    shared: Arc<Shared>,
    name: String,
}

impl Corpus {
    pub(crate) fn new(shared: Arc<Shared>, name: String) -> Corpus {
        Corpus { shared, name }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The live segments, opened.
    pub(crate) fn readers(&self) -> Result<Vec<Arc<Segment>>> {
        Ok(self.shared.fresh()?.store.open_corpus(&self.name)?.1)
    }

    /// The name as it was given when the corpus was created.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The settings that were fixed when the corpus was created.
    ///
    /// # Errors
    /// If the corpus has been dropped.
    pub fn settings(&self) -> Result<CorpusSettings> {
        Ok(self.shared.fresh()?.store.corpus(&self.name)?.settings)
    }

    /// The words of a text as the tokenizer of the corpus cuts them, for questions about phrases and texts.
    ///
    /// # Errors
    /// If the corpus has been dropped.
    pub fn words_of<'t, T>(&self, text: &'t T) -> Result<Vec<&'t [u8]>>
    where
        T: AsRef<[u8]> + ?Sized,
    {
        let (tokenizer, text) = (self.settings()?.tokenizer, text.as_ref());
        let ranges = word_ranges(tokenizer, text).into_iter();
        Ok(ranges.map(|range| &text[range]).collect())
    }

    /// Changes the segment size of segments made from now on; existing ones stay.
    ///
    /// # Errors
    /// If the corpus has been dropped, the size is 0, the database is read-only or cannot be written.
    pub fn set_segment_size(&self, bytes: u64) -> Result<()> {
        self.set_segment_size_until(bytes, &self.shared.runtime.interrupt())
    }

    /// As `set_segment_size`, for a statement.
    pub(crate) fn set_segment_size_until(&self, bytes: u64, interrupt: &Interrupt) -> Result<()> {
        let writing = self.shared.writing(interrupt)?;
        let _turn = self.shared.runtime.turn(interrupt)?;
        Ok(writing.store.set_segment_size(&self.name, bytes)?)
    }

    /// Changes how many bytes of edits may be pending before they are merged into segments in the background; a twentieth of the
    /// corpus may be pending in any case.
    ///
    /// # Errors
    /// As [`Corpus::set_segment_size`].
    pub fn set_recompress_threshold(&self, bytes: u64) -> Result<()> {
        self.set_recompress_threshold_until(bytes, &self.shared.runtime.interrupt())
    }

    /// As `set_recompress_threshold`, for a statement.
    pub(crate) fn set_recompress_threshold_until(
        &self,
        bytes: u64,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let writing = self.shared.writing(interrupt)?;
        let _turn = self.shared.runtime.turn(interrupt)?;
        Ok(writing.store.set_recompress_threshold(&self.name, bytes)?)
    }

    /// Changes the form of imported files: grammars, or packed text that becomes grammars in the background.
    ///
    /// # Errors
    /// As [`Corpus::set_segment_size`].
    pub fn set_ingest(&self, mode: IngestMode) -> Result<()> {
        self.set_ingest_until(mode, &self.shared.runtime.interrupt())
    }

    /// As `set_ingest`, for a statement.
    pub(crate) fn set_ingest_until(&self, mode: IngestMode, interrupt: &Interrupt) -> Result<()> {
        let writing = self.shared.writing(interrupt)?;
        let _turn = self.shared.runtime.turn(interrupt)?;
        Ok(writing.store.set_ingest(&self.name, mode)?)
    }

    /// Changes the columns of the files, for a statement.
    pub(crate) fn change_metadata_until(
        &self,
        interrupt: &Interrupt,
        change: impl FnOnce(&mut MetadataSchema) -> zipfdb_storage::Result<()>,
    ) -> Result<()> {
        let writing = self.shared.writing(interrupt)?;
        let _turn = self.shared.runtime.turn(interrupt)?;
        Ok(writing.store.change_metadata(&self.name, change)?)
    }

    /// The facts of each segment: sizes, rules, and where the bytes are. Decodes nothing.
    ///
    /// # Errors
    /// If the corpus has been dropped or a segment file is damaged.
    pub fn segments(&self) -> Result<Vec<SegmentInfo>> {
        let readers = self.readers()?;
        Ok(readers.iter().map(|reader| reader.info().clone()).collect())
    }

    /// The approximate bytes of edits not merged into segments yet: texts inserted and deleted, and the memory of the edits.
    ///
    /// # Errors
    /// If the corpus has been dropped.
    pub fn pending_bytes(&self) -> Result<u64> {
        let core = self.shared.fresh()?;
        let id = core.store.corpus(&self.name)?.id;
        Ok(core.edits.pending_bytes(id))
    }

    /// The share of a recompression of the corpus that is done, in the background or by RECOMPRESS; none if none runs.
    ///
    /// # Errors
    /// If the corpus has been dropped.
    pub fn recompressed_share(&self) -> Result<Option<f64>> {
        let id = self.shared.fresh()?.store.corpus(&self.name)?.id;
        Ok(self.shared.runtime.underway.of_corpus(id))
    }

    /// Why the edits cannot be merged in the background; none if the last attempt succeeded. The database tries again by itself.
    ///
    /// # Errors
    /// If the corpus has been dropped.
    pub fn recompress_error(&self) -> Result<Option<String>> {
        let core = self.shared.fresh()?;
        let id = core.store.corpus(&self.name)?.id;
        Ok(core.failures.reason(id))
    }

    /// An unchanging view of the corpus as it is now. Reads the file tables and decodes nothing else yet.
    ///
    /// # Errors
    /// If the corpus has been dropped, a segment file cannot be opened or its file table is damaged, or it is interrupted while
    /// the words around new edits are found.
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.reader(&self.shared.runtime.interrupts.begin(0))
            .map(Snapshot::new)
    }

    /// As `snapshot`, for a statement.
    pub(crate) fn reader(&self, interrupt: &Interrupt) -> Result<CorpusReader> {
        let (record, stored, overlay) = self.current()?;
        if overlay.is_empty() {
            // No pending edits: drop the cached view of them.
            self.shared.views.lock().remove(&record.name);
            let view = CorpusView::of_stored(stored, overlay);
            return Ok(CorpusReader::new(
                self.shared.runtime.clone(),
                Arc::new(view),
            ));
        }
        let known = self.shared.views.lock().get(&record.name).cloned();
        if let Some(known) = known
            && known.stored().is_same(&stored)
            && known.overlay().is_same(&overlay)
        {
            return Ok(CorpusReader::new(self.shared.runtime.clone(), known));
        }
        let tokenizer = record.settings.tokenizer;
        let view = interrupt.apart(&self.shared.runtime.pool, move |stop| {
            CorpusView::new(stored, overlay, tokenizer, stop)
        })?;
        let view = Arc::new(view);
        self.shared.views.lock().insert(record.name, view.clone());
        Ok(CorpusReader::new(self.shared.runtime.clone(), view))
    }

    /// The segments and edits as they are at one moment.
    fn current(&self) -> Result<(CorpusRecord, Arc<StoredView>, Overlay)> {
        loop {
            let core = self.shared.fresh()?;
            match self.current_of(&core) {
                Ok(Some(found)) => return Ok(found),
                // A publication came in between: read the new state.
                Ok(None) => {}
                // Its files may have been removed since.
                Err(_) if !Arc::ptr_eq(&core, &self.shared.core()) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// As `current`; none if the live segments changed meanwhile.
    fn current_of(&self, core: &Core) -> Result<Option<(CorpusRecord, Arc<StoredView>, Overlay)>> {
        let id = core.store.corpus(&self.name)?.id;
        let (overlay, live) = (core.edits).visible_with(id, || core.store.corpus(&self.name));
        let live = live?;
        let (record, stored) = core.stored_view(&self.name)?;
        let is_same = live.id == id && record.id == id && record.segments == live.segments;
        Ok((is_same && overlay.rests_on(&record.segments)).then_some((record, stored, overlay)))
    }

    /// The names and sizes of all files, in order of name.
    ///
    /// # Errors
    /// As [`Corpus::snapshot`], and if a file table is damaged.
    pub fn files(&self) -> Result<Vec<FileSummary>> {
        Ok(self.snapshot()?.files().to_vec())
    }

    /// Appends a text to a file, which is created if it is missing.
    ///
    /// # Errors
    /// As [`Corpus::append_many`].
    pub fn append(&self, file: &str, text: impl AsRef<[u8]>) -> Result<()> {
        self.append_many(&[(file, text)])
    }

    /// Inserts a text into a file, before the byte `offset`.
    ///
    /// # Errors
    /// As [`Corpus::insert_many`].
    pub fn insert(&self, file: &str, offset: u64, text: impl AsRef<[u8]>) -> Result<()> {
        self.insert_many(&[(file, offset, text)])
    }

    /// Gives a file a new text, and creates it if it is missing.
    ///
    /// # Errors
    /// As [`Corpus::replace_many`].
    pub fn replace(&self, file: &str, text: impl AsRef<[u8]>) -> Result<()> {
        self.replace_many(&[(file, text)])
    }

    /// Deletes a file.
    ///
    /// # Errors
    /// As [`Corpus::delete_many`].
    pub fn delete(&self, file: &str) -> Result<()> {
        self.delete_many(&[file])
    }

    /// Appends texts to files, in one step: pairs of a name and a text. A file that is not there is created.
    ///
    /// # Errors
    /// As [`crate::Transaction::append_many`] and [`crate::Transaction::commit`].
    pub fn append_many<F, T>(&self, rows: &[(F, T)]) -> Result<()>
    where
        F: AsRef<str>,
        T: AsRef<[u8]>,
    {
        self.edit(|edits| edits.append_many(&self.name, rows))
    }

    /// Appends texts to files and sets their metadata, in one step. A file that is not there is created; a record without a name
    /// makes a file whose name is a number.
    ///
    /// # Errors
    /// As [`Corpus::append_many`], and if a column is not declared or cannot hold a value.
    pub fn append_records(&self, records: &[Record]) -> Result<()> {
        self.edit(|edits| edits.append_records(&self.name, records))
    }

    /// Sets values of a file in declared columns: pairs of a name and a value. NULL takes a value back.
    ///
    /// # Errors
    /// If there is no such file or column, a column cannot hold a value, or the database cannot be written.
    pub fn set_metadata(&self, file: &str, values: &[(&str, Value)]) -> Result<()> {
        self.edit(|edits| edits.set_metadata(&self.name, file, values))
    }

    /// The values of a file in all declared columns, with the names of these.
    ///
    /// # Errors
    /// If there is no such file, or as [`Corpus::snapshot`].
    pub fn metadata(&self, file: &str) -> Result<Vec<(String, Value)>> {
        let schema = self.settings()?.metadata;
        self.snapshot()?.metadata(file, &schema)
    }

    /// Inserts texts into files, in one step: a name, the byte before which to insert, and a text. Offsets are those before
    /// the call.
    ///
    /// # Errors
    /// As [`crate::Transaction::insert_many`] and [`crate::Transaction::commit`].
    pub fn insert_many<F, T>(&self, rows: &[(F, u64, T)]) -> Result<()>
    where
        F: AsRef<str>,
        T: AsRef<[u8]>,
    {
        self.edit(|edits| edits.insert_many(&self.name, rows))
    }

    /// Gives files new texts, in one step: pairs of a name and a text.
    ///
    /// # Errors
    /// As [`crate::Transaction::replace_many`] and [`crate::Transaction::commit`].
    pub fn replace_many<F, T>(&self, rows: &[(F, T)]) -> Result<()>
    where
        F: AsRef<str>,
        T: AsRef<[u8]>,
    {
        self.edit(|edits| edits.replace_many(&self.name, rows))
    }

    /// Deletes files, in one step.
    ///
    /// # Errors
    /// As [`crate::Transaction::delete_many`] and [`crate::Transaction::commit`].
    pub fn delete_many<F: AsRef<str>>(&self, files: &[F]) -> Result<()> {
        self.edit(|edits| edits.delete_many(&self.name, files))
    }

    /// Answers questions and makes edits in one step, in order: each operation sees what the edits before it did, and no
    /// others that are made meanwhile.
    ///
    /// # Errors
    /// As [`crate::Transaction::mixed_many`] and [`crate::Transaction::commit`].
    pub fn mixed_many(&self, operations: &[Operation<'_>]) -> Result<Vec<Answer>> {
        let mut edits = self.begin()?;
        let answers = edits.mixed_many(&self.name, operations)?;
        self.commit(edits)?;
        Ok(answers)
    }

    fn edit(&self, edit: impl FnOnce(&mut WriteTransaction) -> Result<()>) -> Result<()> {
        let mut edits = self.begin()?;
        edit(&mut edits)?;
        self.commit(edits)
    }

    fn commit(&self, edits: WriteTransaction) -> Result<()> {
        edits.commit_until(&self.shared.runtime.interrupt())
    }

    /// Begins edits of this corpus.
    fn begin(&self) -> Result<WriteTransaction> {
        let interrupt = self.shared.runtime.interrupt();
        WriteTransaction::begin(&self.shared, Some(&self.name), &interrupt)
    }
}

impl fmt::Debug for Corpus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Corpus")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
