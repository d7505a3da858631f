//! Copies all that can be read of a damaged database to a new one.
//!
//! The invariant: the damaged database is only read, and what the report does not list as lost is there: texts with the checksum
//! that they were written with, and the edits of the record log on top of them, up to the first edit that needs a lost one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use zipfdb_storage::{
    FileEntry, PathText, RepairTarget, Salvage, SalvagedCorpus, SegmentForm, SegmentReader,
};

use crate::api::database::Database;
use crate::api::transaction::Transaction;
use crate::execute::recompress;
use crate::ingest::Progress;
use crate::overlay::edits::decode;
use crate::overlay::{EditBatch, FileValues, Insertion};
use crate::runtime::interrupt::{Interrupt, InterruptHandle};
use crate::runtime::start_pool;
use crate::segment::TextBlocks;
use crate::{Durability, Error, Result, paths};

/// The result of [`repair`]: what it saved, and what it could not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// The number of corpora in the new database.
    pub corpora: u64,
    /// The number of files in them.
    pub files: u64,
    /// The size of the files.
    pub bytes: u64,
    /// The losses, one line each.
    pub lost: Vec<String>,
    /// Damage that lost nothing.
    pub notes: Vec<String>,
}

/// Copies all that can be read of the database `source`, which may be damaged, to a new one in `target`.
///
/// Nothing is written to `source`; no other process should write to it meanwhile. Costs about what importing all files does. Of a
/// file that spans several segments the parts that are left are saved as files of their own, called `NAME.from-BYTE`; its
/// beginning keeps the name. Until the repair is complete the new database cannot be opened. A repair that an error or interrupt
/// ends leaves nothing at `target`, and what a killed process has left is cleared by the next call. A new directory is open to
/// the users that `source` is open to.
///
/// # Errors
/// [`Error::Interrupted`]. If `target` exists and is no unfinished repair, it lies in `source` or another database or `source` in
/// it, `source` is an unfinished repair or has no segments directory that can be listed, or the new database cannot be written.
/// Damage is no error: see [`RepairReport::lost`].
pub fn repair(
    source: impl AsRef<Path>,
    target: impl AsRef<Path>,
    progress: &dyn Progress,
    interrupt: &InterruptHandle,
) -> Result<RepairReport> {
    let interrupt = interrupt.begin();
    let (source, target) = (source.as_ref(), target.as_ref());
    refuse_overlap(source, target)?;
    if !RepairTarget::is_free(target)? {
        return Err(Error::Invalid {
            subject: PathText(target).to_string(),
            reason: "it exists; hint: name a directory for the repaired database that does not"
                .into(),
        });
    }
    let salvage = Salvage::read(source)?;
    interrupt.check()?;
    let place = RepairTarget::begin(target, source)?;
    match save(&salvage, &place, progress, &interrupt) {
        Ok(report) => {
            place.finish()?;
            Ok(report)
        }
        Err(error) => {
            if let Err(left) = place.abandon() {
                let target = target.display();
                tracing::warn!("{target}: not all that was written could be removed: {left}");
            }
            Err(error)
        }
    }
}

/// Refuses a target in a database, the damaged one or another, and one that the damaged database lies in.
fn refuse_overlap(source: &Path, target: &Path) -> Result<()> {
    let failed = |source| Error::Io {
        action: "open",
        path: target.to_path_buf(),
        source,
    };
    let refused = |reason: String| {
        let subject = target.display().to_string();
        Err(Error::Invalid { subject, reason })
    };
    let database = source.display();
    if paths::leads_into(target, source).map_err(failed)? {
        return refused(format!(
            "it is the damaged database {database} or inside it, where a repair writes nothing; hint: choose a path outside of it"
        ));
    }
    if paths::leads_into(source, target).map_err(failed)? {
        return refused(format!(
            "the damaged database {database} is inside it; hint: choose a path for a directory that does not exist"
        ));
    }
    // An unfinished repair at the target may look like a database itself.
    let around = paths::resolve(target).map_err(failed)?;
    around
        .parent()
        .map_or(Ok(()), |around| paths::refuse_database(around, None))
}

/// Builds the new database and closes it.
fn save(
    salvage: &Salvage,
    target: &RepairTarget,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<RepairReport> {
    let pool = start_pool(None)?;
    let store = pool.install(|| target.open())?;
    let database = Database::start(store, pool, false, None)?;
    let mut report = RepairReport {
        lost: salvage.lost().to_vec(),
        notes: salvage.notes().to_vec(),
        ..RepairReport::default()
    };
    progress.begin("copy", 0);
    let mut rescues = Vec::new();
    for corpus in salvage.corpora() {
        database.create_corpus(&corpus.name, corpus.settings.clone())?;
        let mut rescue = Rescue::new(&database, corpus, interrupt);
        for segment in &corpus.segments {
            match corpus.open_segment(segment) {
                Ok(reader) => rescue.copy_segment(&reader, progress)?,
                Err(error) => rescue.lose_segment(&error),
            }
        }
        rescue.end_parts();
        rescues.push((corpus.id, rescue));
    }
    if !salvage.views().is_empty() {
        let core = database.shared().core();
        core.store.change_views(|views| {
            views.extend_from_slice(salvage.views());
            Ok(())
        })?;
    }
    let mut failed = Ok(());
    salvage.replay(|record| {
        let rescue = rescues.iter_mut().find(|(id, _)| *id == record.corpus());
        if let (Some((_, rescue)), true) = (rescue, failed.is_ok()) {
            let batch = interrupt.check().and_then(|()| decode(&record));
            failed = batch.and_then(|batch| rescue.edit(&batch));
        }
    });
    failed?;
    progress.end();
    for (_, rescue) in rescues {
        let corpus = database.corpus(&rescue.corpus.name)?;
        recompress(&corpus, progress, interrupt)?;
        let files = corpus.files()?;
        report.corpora += 1;
        report.files += files.len() as u64;
        report.bytes += files.iter().map(|file| file.bytes).sum::<u64>();
        report.lost.extend(rescue.lost);
        report.lost.extend(rescue.lost_files.into_values());
    }
    interrupt.check()?;
    Ok(report)
}

/// Bytes that one batch gives to the new database.
const BATCH_BYTES: usize = 16 << 20;

/// A corpus that is copied.
struct Rescue<'a> {
    database: &'a Database,
    corpus: &'a SalvagedCorpus,
    interrupt: &'a Interrupt,
    /// The files of the new database, whole or not.
    present: HashSet<String>,
    /// Files whose parts are being copied, and how many bytes of them have been.
    begun: HashMap<String, u64>,
    /// Files that have later parts under other names.
    parts: HashMap<String, Vec<String>>,
    /// Whether files were lost whose names are lost too.
    has_unknown: bool,
    lost: Vec<String>,
    /// The losses by file, until the file is replaced or deleted.
    lost_files: BTreeMap<String, String>,
}

impl<'a> Rescue<'a> {
    fn new(
        database: &'a Database,
        corpus: &'a SalvagedCorpus,
        interrupt: &'a Interrupt,
    ) -> Rescue<'a> {
        Rescue {
            database,
            corpus,
            interrupt,
            present: HashSet::new(),
            begun: HashMap::new(),
            parts: HashMap::new(),
            has_unknown: false,
            lost: Vec::new(),
            lost_files: BTreeMap::new(),
        }
    }

    fn lose_segment(&mut self, error: &dyn std::error::Error) {
        self.has_unknown = true;
        let name = &self.corpus.name;
        self.lost.push(format!(
            "the files of a segment of corpus \"{name}\", whose names cannot be read: {error}"
        ));
    }

    fn lose_file(&mut self, file: &str, what: &str) {
        let name = &self.corpus.name;
        let lost = format!("file \"{file}\" of corpus \"{name}\": {what}");
        self.lost_files.entry(file.to_owned()).or_insert(lost);
    }

    /// Copies the files of a segment.
    fn copy_segment(&mut self, reader: &SegmentReader, progress: &dyn Progress) -> Result<()> {
        let pool = &self.database.shared().runtime.pool;
        let entries = match pool.install(|| reader.files()) {
            Ok(entries) => entries,
            Err(error) => {
                self.lose_segment(&error);
                return Ok(());
            }
        };
        let blocks = match reader.info().form {
            SegmentForm::Grammar => None,
            SegmentForm::Text => match TextBlocks::read(reader) {
                Ok(blocks) => Some(blocks),
                Err(error) => {
                    self.lose_segment(&error);
                    return Ok(());
                }
            },
        };
        // Decoded once for all files; a failure is met again by each of them.
        let _decoded =
            (blocks.is_none()).then(|| pool.install(|| (reader.dictionary(), reader.grammar())));
        let mut rows: Vec<(String, Vec<u8>)> = Vec::new();
        let mut size = 0;
        for (index, entry) in entries.iter().enumerate() {
            self.interrupt.check()?;
            let file = &entry.name;
            let content = match &blocks {
                Some(blocks) => blocks.content(reader, index),
                None => pool.install(|| reader.content(index)).map_err(Error::from),
            };
            let content = match content {
                Ok(content) => content,
                Err(error) => {
                    let end = entry.first_byte + entry.bytes;
                    let lost = format!("bytes {} to {end}: {error}", entry.first_byte);
                    self.lose_file(file, &lost);
                    continue;
                }
            };
            let end = entry.first_byte + entry.bytes;
            let begun = self.begun.remove(file);
            let target = if begun.unwrap_or(0) == entry.first_byte {
                if !entry.last_part {
                    self.begun.insert(file.clone(), end);
                }
                file.clone()
            } else {
                self.lose_file(file, "bytes before some that are saved under another name");
                let name = format!("{file}.from-{}", entry.first_byte);
                self.parts
                    .entry(file.clone())
                    .or_default()
                    .push(name.clone());
                name
            };
            self.present.insert(target.clone());
            size += content.len();
            progress.advance(entry.bytes);
            rows.push((target, content));
            if size >= BATCH_BYTES {
                self.append(&std::mem::take(&mut rows))?;
                size = 0;
            }
        }
        self.append(&rows)?;
        self.copy_metadata(reader, entries)
    }

    /// Copies the metadata of the files of a segment that are there now.
    fn copy_metadata(&mut self, reader: &SegmentReader, entries: &[FileEntry]) -> Result<()> {
        let columns = match reader.metadata() {
            Ok(columns) => columns,
            Err(error) => {
                self.lost.push(format!(
                    "metadata of files of corpus \"{}\": {error}",
                    self.corpus.name
                ));
                return Ok(());
            }
        };
        let mut rows: Vec<FileValues> = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let values = columns.iter().map(|of| (of.column.id, of.value(index)));
            let values: Vec<_> = values.collect();
            if self.present.contains(&entry.name) && !values.is_empty() {
                rows.push((entry.name.as_str().into(), values));
            }
        }
        let mut edits = self.begin()?;
        edits.edit(&self.corpus.name, EditBatch::Set(rows), self.interrupt)?;
        edits.commit()
    }

    fn append(&self, rows: &[(String, Vec<u8>)]) -> Result<()> {
        let mut edits = self.begin()?;
        edits.append_many(&self.corpus.name, rows)?;
        edits.commit()
    }

    /// Begins edits without durability: the recompression at the end makes all durable.
    fn begin(&self) -> Result<Transaction> {
        let mut edits = self.database.begin()?;
        edits.set_durability(Durability::Off);
        Ok(edits)
    }

    /// Ends the parts, once all segments have been copied.
    fn end_parts(&mut self) {
        for (file, end) in std::mem::take(&mut self.begun) {
            self.lose_file(&file, &format!("what follows byte {end}"));
        }
    }

    /// Applies the edits of a record, file by file, to the files that are whole.
    fn edit(&mut self, batch: &EditBatch) -> Result<()> {
        let mut edits = self.begin()?;
        for (file, batch) in by_file(batch) {
            match batch {
                EditBatch::Insert(_) if self.lost_files.contains_key(&*file) => continue,
                EditBatch::Insert(_) if !self.present.contains(&*file) && self.has_unknown => {
                    self.lost.push(format!(
                        "file \"{file}\" of corpus \"{}\": perhaps what it had before it was appended to",
                        self.corpus.name
                    ));
                }
                EditBatch::Set(_) if !self.present.contains(&*file) => continue, // it was lost
                EditBatch::Insert(_) | EditBatch::Set(_) => {}
                EditBatch::Replace(_) | EditBatch::Delete(_) => {
                    self.lost_files.remove(&*file);
                    let parts = self.parts.remove(&*file).unwrap_or_default();
                    edits.delete_many(&self.corpus.name, &parts)?;
                }
            }
            let is_deleted = matches!(batch, EditBatch::Delete(_));
            if is_deleted && !self.present.remove(&*file) {
                continue; // it was lost
            }
            match edits.edit(&self.corpus.name, batch, self.interrupt) {
                Ok(()) if is_deleted => {}
                Ok(()) => drop(self.present.insert(file.to_string())),
                // The offsets were made for another text than the one that is left.
                Err(error @ (Error::Invalid { .. } | Error::NoSuchFile { .. })) => {
                    self.lose_file(&file, &format!("a change and those after it: {error}"));
                }
                Err(error) => return Err(error),
            }
        }
        edits.commit()
    }
}

/// A batch by file, in order of name. Files do not affect each other.
fn by_file(batch: &EditBatch) -> BTreeMap<Arc<str>, EditBatch> {
    match batch {
        EditBatch::Insert(rows) => {
            let mut files: BTreeMap<Arc<str>, Vec<Insertion>> = BTreeMap::new();
            for row in rows {
                files.entry(row.file.clone()).or_default().push(row.clone());
            }
            let files = files.into_iter();
            files
                .map(|(file, rows)| (file, EditBatch::Insert(rows)))
                .collect()
        }
        EditBatch::Replace(rows) => {
            let mut files: BTreeMap<Arc<str>, Vec<(Arc<str>, Bytes)>> = BTreeMap::new();
            for row in rows {
                files.entry(row.0.clone()).or_default().push(row.clone());
            }
            let files = files.into_iter();
            files
                .map(|(file, rows)| (file, EditBatch::Replace(rows)))
                .collect()
        }
        EditBatch::Delete(files) => {
            let files = files.iter().cloned();
            files
                .map(|file| (file.clone(), EditBatch::Delete(vec![file])))
                .collect()
        }
        EditBatch::Set(rows) => {
            let mut files: BTreeMap<Arc<str>, Vec<FileValues>> = BTreeMap::new();
            for row in rows {
                files.entry(row.0.clone()).or_default().push(row.clone());
            }
            let files = files.into_iter();
            files
                .map(|(file, rows)| (file, EditBatch::Set(rows)))
                .collect()
        }
    }
}
