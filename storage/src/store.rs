//! One open database directory: corpora, segments, the record log, and how they change.
//!
//! Invariant: a change is visible, in this process and to those that open the directory later, as a whole or not at
//! all, and once a call that makes one returns, it survives a crash and a power cut (a commit of records: as far as its
//! durability says). The order that ensures it is the same for creating, publishing and dropping: files complete and
//! synced under a temporary name; renamed, directory synced (from here on it has happened); manifest; visible. A
//! recompression has happened when the log says so, before the renames: it takes segments away as well.
//! `store/recovery.rs` finishes what a crash interrupts.
//!
//! Changes have one order, that in which they are made: each makes the log before it durable first. Records and
//! publications are replayed apart, segments first, so a publication must not hold a file that records before it speak
//! of: not one that exists, and not one that they have deleted. A publisher recompresses first in that case.
//!
//! It knows segments by their headers only and neither decodes nor merges them.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::backend::{Backend, FileBackend, MemoryBackend};
use crate::catalog::{Corpora, CorpusRecord};
use crate::error::io_error;
use crate::log::{self, Durability, LOG_NAME, LogPosition, LogRecord, LogTail, Scan};
use crate::settings::{CorpusSettings, ID_MAX, IngestMode, check_name, check_settings};
use crate::views::{self, ViewRecord};
use crate::{Error, MetadataSchema, Result};

mod directory;
mod follow;
mod image;
mod indexes;
mod location;
mod missing;
mod open;
mod publication;
mod recovery;
mod registry;
mod salvage;
mod shared;
mod target;
mod unfinished;

pub use follow::Followed;
pub use image::ImageFile;
pub use publication::Publication;
pub use salvage::{Salvage, SalvagedCorpus};
pub use shared::Segment;
use shared::{Shared, store_corpora};
pub use target::RepairTarget;

use directory::{SEGMENTS_NAME, SegmentDirectory};
use location::Location;

/// How to open a database directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Write nothing, take no lock. Works on a read-only file system and beside a writer.
    pub read_only: bool,
    /// Create the database if there is none. With `read_only` nothing is created, and a database that is not there is shown without
    /// corpora, see [`Store::is_missing`].
    pub create: bool,
}

/// An open database directory, or a database in memory.
///
/// At most one store is open for writing; any number may be open for reading beside it. A store that is open for
/// reading shows one published state, that of a moment while it was opened, until [`Store::follow`] takes up what the
/// writer has committed since: what the writer publishes or drops later changes nothing for it.
///
/// All methods may be called from any thread.
#[derive(Debug)]
pub struct Store {
    shared: Arc<Shared>,
}

/// What [`Store::check_log`] found.
#[derive(Debug, Default)]
pub struct LogCheck {
    /// Damage, or a file that is gone.
    pub faults: Vec<Error>,
    /// What was cut short when the store was opened, or before: commits that are not known to have been durable.
    pub dropped: Vec<String>,
}

impl Store {
    /// Opens the database in the directory `path`.
    ///
    /// Costs some milliseconds, whatever the size of the database: segments are opened when they are needed. A
    /// manifest or catalog that is missing or damaged is rebuilt from the other, or from the segment files, see
    /// [`Store::warnings`].
    ///
    /// # Errors
    /// [`Error::Locked`] if it is open for writing already; [`Error::NoDatabase`] if there is none and none may be created;
    /// [`Error::NotADatabase`] if `path` is a directory of something else; [`Error::Corrupt`]; [`Error::CorruptLog`] if the record
    /// log lacks what was durable; [`Error::UnfinishedRepair`]; [`Error::Version`] if a later release wrote it; [`Error::Io`].
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Store> {
        Store::open_with(Arc::new(FileBackend), path.as_ref(), options)
    }

    /// Like [`Store::open`], with every file operation but those of sled and the lock going through `backend`.
    ///
    /// For tests that watch or fail them. `backend` must work on the real directory `path` or say that it has no file
    /// system ([`Backend::is_file_system`]); the parent of `path` must exist there.
    pub fn open_with(
        backend: Arc<dyn Backend>,
        path: &Path,
        options: OpenOptions,
    ) -> Result<Store> {
        unfinished::refuse_unfinished(&*backend, path)?;
        if missing::is_missing(&*backend, path)? {
            if !options.create {
                return Err(directory::no_database(path));
            }
            if options.read_only {
                return Ok(Store {
                    shared: Arc::new(missing::missing(backend, path)),
                });
            }
            open::create_missing(&*backend, path)?;
        }
        Store::open_at(Location::find(backend, path)?, options)
    }

    fn open_at(location: Location, options: OpenOptions) -> Result<Store> {
        let path = location.path.clone();
        unfinished::refuse_unfinished(&*location.backend, &path)?;
        let may_create = options.create && !options.read_only;
        if missing::is_missing(&*location.backend, &path)? && !may_create {
            return Err(directory::no_database(&path));
        }
        let shared = if options.read_only {
            open::open_reader(location)?
        } else {
            open::open_writer(location, options.create)?
        };
        Ok(Store {
            shared: Arc::new(shared),
        })
    }

    /// Opens the directory of this store once more: that one, whatever has its path now, or the path if no directory had it. A writer
    /// is closed before.
    ///
    /// # Errors
    /// [`Error::Displaced`] if the path does not lead to the directory any more, and those of [`Store::open`].
    pub fn reopen(&self, options: OpenOptions) -> Result<Store> {
        let location = &self.shared.location;
        if self.is_missing() {
            return Store::open_with(Arc::clone(&location.outer), &location.path, options);
        }
        self.check_directory()?;
        Store::open_at(location.clone(), options)
    }

    /// Makes sure that the path of the store leads to its directory.
    ///
    /// # Errors
    /// [`Error::Displaced`] if it does not, because the directory was moved or removed; [`Error::Io`].
    pub fn check_directory(&self) -> Result<()> {
        self.shared.location.check()
    }

    /// A database in memory, gone when it is dropped.
    pub fn in_memory() -> Store {
        let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::new());
        let path = PathBuf::from(":memory:");
        let directory = SegmentDirectory::new(path.join(SEGMENTS_NAME));
        for path in [&path, directory.path()] {
            backend
                .create_directory(path)
                .expect("memory refuses no directory");
        }
        let location = Location {
            path,
            backend: Arc::clone(&backend),
            outer: Arc::clone(&backend),
            held: None,
        };
        let shared = Shared::new(
            location,
            backend,
            directory,
            Corpora::new(),
            Scan::default(),
            Box::new(|_| Ok(())),
        );
        Store {
            shared: Arc::new(shared),
        }
    }

    /// All corpora, by name.
    pub fn corpora(&self) -> Vec<CorpusRecord> {
        let mut corpora: Vec<_> = self
            .shared
            .visible
            .lock()
            .corpora
            .values()
            .cloned()
            .collect();
        corpora.sort_by(|a, b| a.name.cmp(&b.name));
        corpora
    }

    /// The corpus called `name`, ASCII letters in either case.
    ///
    /// # Errors
    /// [`Error::NoSuchCorpus`].
    pub fn corpus(&self, name: &str) -> Result<CorpusRecord> {
        let found = self.shared.visible.lock().corpus(name).cloned();
        found.map_err(|error| match error {
            Error::NoSuchCorpus { corpus, .. } if self.is_missing() => Error::NoSuchCorpus {
                corpus,
                missing: Some(self.shared.location.path.clone()),
            },
            other => other,
        })
    }

    /// Creates an empty corpus. Durable when it returns.
    ///
    /// A name has 1 to 255 bytes and no control characters. It is kept as given; looked up, ASCII letters match in
    /// either case, so two names that differ only in that are one name.
    ///
    /// # Errors
    /// [`Error::CorpusExists`]; [`Error::Invalid`] for a name or settings that cannot be; [`Error::ReadOnly`],
    /// [`Error::Poisoned`], [`Error::Full`], [`Error::Io`].
    pub fn create_corpus(&self, name: &str, settings: CorpusSettings) -> Result<CorpusRecord> {
        check_name(name)?;
        check_settings(&settings)?;
        let shared = &self.shared;
        let mut writer = shared.change()?;
        shared.require_space()?;
        let mut corpora = shared.visible.lock().corpora.clone();
        if let Some(existing) = corpora.values().find(|record| record.answers_to(name)) {
            return Err(Error::CorpusExists {
                corpus: existing.name.clone(),
            });
        }
        let record = CorpusRecord {
            id: shared.take_id(),
            name: name.to_owned(),
            settings,
            merged_position: LogPosition::START,
            segments: Vec::new(),
        };
        shared.directory.write_marker(&*shared.backend, &record)?;
        corpora.insert(record.id, record.clone());
        writer.change(|registry| {
            shared.directory.place_marker(&*shared.backend, record.id)?;
            shared.directory.sync(&*shared.backend)?;
            store_corpora(registry, &corpora, &shared.log)
        })?;
        shared.visible.lock().corpora = corpora;
        Ok(record)
    }

    /// Changes how much text the segments of a corpus hold that are made from now on. Durable when it returns.
    ///
    /// # Errors
    /// [`Error::NoSuchCorpus`]; [`Error::Invalid`] for a size that cannot be; [`Error::ReadOnly`], [`Error::Poisoned`],
    /// [`Error::Io`].
    pub fn set_segment_size(&self, name: &str, segment_size: u64) -> Result<()> {
        self.change_settings(name, |settings| settings.segment_size = segment_size)
    }

    /// Changes how many bytes of records a corpus gathers before they are merged. Durable when it returns.
    ///
    /// # Errors
    /// [`Error::NoSuchCorpus`]; [`Error::Invalid`] for 0; [`Error::ReadOnly`], [`Error::Poisoned`], [`Error::Io`].
    pub fn set_recompress_threshold(&self, name: &str, bytes: u64) -> Result<()> {
        self.change_settings(name, |settings| settings.recompress_threshold = bytes)
    }

    /// Changes what files become that are imported from now on. Durable when it returns.
    ///
    /// # Errors
    /// [`Error::NoSuchCorpus`]; [`Error::ReadOnly`], [`Error::Poisoned`], [`Error::Io`].
    pub fn set_ingest(&self, name: &str, mode: IngestMode) -> Result<()> {
        self.change_settings(name, |settings| settings.ingest = mode)
    }

    /// Changes the columns of the files of a corpus. Durable when it returns.
    ///
    /// # Errors
    /// [`Error::NoSuchCorpus`]; that of `change`: nothing has changed then; [`Error::ReadOnly`], [`Error::Poisoned`],
    /// [`Error::Io`].
    pub fn change_metadata(
        &self,
        name: &str,
        change: impl FnOnce(&mut MetadataSchema) -> Result<()>,
    ) -> Result<()> {
        self.try_change_settings(name, |settings| change(&mut settings.metadata))
    }

    fn change_settings(&self, name: &str, set: impl FnOnce(&mut CorpusSettings)) -> Result<()> {
        self.try_change_settings(name, |settings| {
            set(settings);
            Ok(())
        })
    }

    fn try_change_settings(
        &self,
        name: &str,
        set: impl FnOnce(&mut CorpusSettings) -> Result<()>,
    ) -> Result<()> {
        let shared = &self.shared;
        let mut writer = shared.change()?;
        let mut corpora = shared.visible.lock().corpora.clone();
        let id = shared.visible.lock().corpus(name)?.id;
        let record = corpora.get_mut(&id).expect("found under the writer lock");
        set(&mut record.settings)?;
        check_settings(&record.settings)?;
        // A marker holds no segments: they are found by their footers.
        shared.directory.write_marker(&*shared.backend, record)?;
        writer.change(|registry| {
            shared.directory.place_marker(&*shared.backend, id)?;
            shared.directory.sync(&*shared.backend)?;
            store_corpora(registry, &corpora, &shared.log)
        })?;
        shared.visible.lock().corpora = corpora;
        Ok(())
    }

    /// Drops a corpus. Durable when it returns.
    ///
    /// Files of segments that are still open go when the last handle does.
    ///
    /// # Errors
    /// [`Error::NoSuchCorpus`], [`Error::ReadOnly`], [`Error::Poisoned`], [`Error::Io`].
    pub fn drop_corpus(&self, name: &str) -> Result<()> {
        let shared = &self.shared;
        let mut writer = shared.change()?;
        let mut corpora = shared.visible.lock().corpora.clone();
        let id = shared.visible.lock().corpus(name)?.id;
        let record = corpora.remove(&id).expect("found under the writer lock");
        writer.change(|registry| {
            let (marker, tombstone) = (shared.directory.marker(id), shared.directory.tombstone(id));
            shared
                .backend
                .rename(&marker, &tombstone)
                .map_err(io_error(&marker, "rename"))?;
            shared.directory.sync(&*shared.backend)?;
            store_corpora(registry, &corpora, &shared.log)
        })?;

        let mut visible = shared.visible.lock();
        visible.corpora = corpora;
        visible.buried.insert(id);
        let idle = visible.doom(id, &record.segments);
        drop(visible);
        shared.remove_doomed(id, &idle);
        Ok(())
    }

    /// All views, as they are on disk now.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Io`].
    pub fn views(&self) -> Result<Vec<ViewRecord>> {
        views::read(&*self.shared.backend, self.shared.path())
    }

    /// Changes the views. Durable when it returns.
    ///
    /// # Errors
    /// That of `change`; [`Error::Corrupt`], [`Error::ReadOnly`], [`Error::Poisoned`], [`Error::Io`].
    pub fn change_views(
        &self,
        change: impl FnOnce(&mut Vec<ViewRecord>) -> Result<()>,
    ) -> Result<()> {
        let _writer = self.shared.change()?;
        let mut views = self.views()?;
        change(&mut views)?;
        views::write(&*self.shared.backend, self.shared.path(), &views)
    }

    /// Has corpora, publications and segments that are made from now on numbers from `first` on, if they would have lower ones:
    /// so that segments of several databases can become those of one. A corpus that is made next makes that durable.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there are no such numbers.
    pub fn number_from(&self, first: u64) -> Result<()> {
        if first > ID_MAX {
            return Err(Error::Invalid {
                what: "number",
                fault: "it is larger than numbers are",
            });
        }
        self.shared.next_id.fetch_max(first, Ordering::Relaxed);
        Ok(())
    }

    /// Whether anything may be changed.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::Poisoned`] once a change has failed half way.
    pub fn check_writable(&self) -> Result<()> {
        self.shared.check_writable()
    }

    /// Starts publishing segments to a corpus. Nothing is visible before [`Publication::commit`].
    ///
    /// # Errors
    /// [`Error::NoSuchCorpus`], [`Error::ReadOnly`], [`Error::Poisoned`], [`Error::Full`].
    pub fn begin_publication(&self, corpus: &str) -> Result<Publication> {
        let publication = self.new_publication(corpus)?;
        self.shared.require_space()?;
        Ok(publication)
    }

    fn new_publication(&self, corpus: &str) -> Result<Publication> {
        drop(self.shared.writer()?);
        let record = self.corpus(corpus)?;
        Ok(Publication::new(Arc::clone(&self.shared), record))
    }

    /// Starts a publication that takes the place of the live segments `replaced`, all or some of those of a corpus, and
    /// holds besides what they do the edits of the corpus' records up to `merged`.
    ///
    /// It may add no segment at all. Nothing changes before [`Publication::commit`].
    ///
    /// # Errors
    /// [`Error::NoSuchCorpus`]; [`Error::Invalid`] for a position after the end of the log; [`Error::ReadOnly`],
    /// [`Error::Poisoned`].
    pub fn begin_recompression(
        &self,
        corpus: &str,
        replaced: &[u64],
        merged: LogPosition,
    ) -> Result<Publication> {
        if merged > self.shared.log.end() {
            return Err(Error::Invalid {
                what: "recompression",
                fault: "it has merged more than the log holds",
            });
        }
        let publication = self.new_publication(corpus)?;
        Ok(publication.replacing(replaced, merged))
    }

    /// Appends a commit of `records` to the log, behind all others: they count together or not at all. Returns its
    /// position at once; see [`Store::ensure_durable`].
    ///
    /// Costs a checksum and a copy of the bytes, which wait in the process until durability is requested, and now
    /// and then a new log file. Without records it does nothing.
    ///
    /// # Errors
    /// [`Error::NoSuchCorpus`] if the corpus of a record is gone, [`Error::ReadOnly`], [`Error::Full`] unless all that the
    /// records do is to delete: then nothing has happened.
    /// [`Error::Poisoned`], [`Error::Io`].
    pub fn append(&self, records: &[LogRecord<'_>]) -> Result<LogPosition> {
        self.shared.refuse_reader()?;
        if !records.iter().all(LogRecord::only_deletes) {
            self.shared.require_space()?;
        }
        let is_live = |corpus| self.shared.visible.lock().corpora.contains_key(&corpus);
        self.shared.log.append(records, is_live)
    }

    /// Returns once the commit at `position`, and with it all before it, is as durable as asked.
    ///
    /// Threads that wait at the same time share one write and one sync.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Displaced`], and [`Error::Poisoned`] for commits of other threads that waited with it: what is left of
    /// the commits since the last one that was acknowledged shows when the database is opened again.
    pub fn ensure_durable(&self, position: LogPosition, durability: Durability) -> Result<()> {
        self.shared.log.ensure(position, durability)?;
        self.shared.check_ownership(durability)
    }

    /// Appends a commit and returns its position once it is as durable as asked: [`Store::append`], then
    /// [`Store::ensure_durable`].
    ///
    /// # Errors
    /// Those of the two.
    pub fn append_commit(
        &self,
        records: &[LogRecord<'_>],
        durability: Durability,
    ) -> Result<LogPosition> {
        let position = self.append(records)?;
        self.ensure_durable(position, durability)?;
        Ok(position)
    }

    /// Makes all commits durable.
    ///
    /// # Errors
    /// Those of [`Store::ensure_durable`].
    pub fn sync_log(&self) -> Result<()> {
        self.shared.log.sync()
    }

    /// The end of the log: after the last commit, and not before the merged position of any corpus.
    pub fn log_position(&self) -> LogPosition {
        self.shared.log.end()
    }

    /// Bytes of a log file from which on the next commit begins another. The default is 8 MiB.
    pub fn set_log_file_size(&self, bytes: u64) {
        self.shared.log.set_file_size(bytes);
    }

    /// Gives all records that are not merged, of corpora that exist, in the order of the log and from behind `after` on:
    /// the position of the commit, the record. Commits are there as a whole or not at all.
    ///
    /// Reads the log anew each time. What others commit meanwhile may be missing, what they merge be there.
    ///
    /// # Errors
    /// Those of `visit`; [`Error::Io`] if a file cannot be read, or what waits in the process not be written;
    /// [`Error::CorruptLog`] if another program changed a file.
    pub fn replay<E: From<Error>>(
        &self,
        after: LogPosition,
        mut visit: impl FnMut(LogPosition, LogRecord<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let shared = &self.shared;
        match shared.log.ensure(shared.log.end(), Durability::Normal) {
            // What was written before can still be read.
            Ok(()) | Err(Error::Poisoned { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let tidying = shared.tidying.lock();
        let visible = shared.visible.lock();
        let merged: HashMap<u64, LogPosition> = (visible.corpora.values())
            .map(|record| (record.id, record.merged_position))
            .collect();
        drop(visible);
        let files = shared.log.read(after)?;
        drop(tidying);
        for file in files {
            file.read()?
                .replay(|position, record| match merged.get(&record.corpus()) {
                    Some(merged) if position > after.max(*merged) => visit(position, record),
                    _ => Ok(()),
                })?;
        }
        Ok(())
    }

    /// Reads the log again and verifies it, as far as it is part of what this store shows. Asks `proceed` before each
    /// file.
    ///
    /// # Errors
    /// Those of `proceed`. Damage is no error: see [`LogCheck`].
    pub fn check_log<E>(
        &self,
        proceed: impl FnMut() -> std::result::Result<(), E>,
    ) -> std::result::Result<LogCheck, E> {
        let _tidying = self.shared.tidying.lock();
        Ok(LogCheck {
            faults: self.shared.log.check(proceed)?,
            dropped: self.shared.cuts.clone(),
        })
    }

    /// Opens a live segment; all handles of it share what was decoded.
    ///
    /// # Errors
    /// [`Error::Io`] if it is not live (any more) or its file is lost; those of opening it.
    pub fn open_segment(&self, id: u64) -> Result<Arc<Segment>> {
        let mut visible = self.shared.visible.lock();
        let Some(record) =
            (visible.corpora.values()).find(|record| record.segments.binary_search(&id).is_ok())
        else {
            let path = self.shared.directory.segment(id);
            return Err(io_error(&path, "open")(io::ErrorKind::NotFound.into()));
        };
        let corpus = record.name.clone();
        self.shared.open_segment(&mut visible, &corpus, id)
    }

    /// Opens all segments of a corpus as they are at one moment.
    ///
    /// # Errors
    /// [`Error::NoSuchCorpus`] and those of [`Store::open_segment`].
    pub fn open_corpus(&self, name: &str) -> Result<(CorpusRecord, Vec<Arc<Segment>>)> {
        let mut visible = self.shared.visible.lock();
        let record = visible.corpus(name)?.clone();
        let mut segments = Vec::with_capacity(record.segments.len());
        for id in &record.segments {
            // On an error the handles opened so far must go after the lock: their drop takes it.
            match self.shared.open_segment(&mut visible, &record.name, *id) {
                Ok(segment) => segments.push(segment),
                Err(error) => {
                    drop(visible);
                    return Err(error);
                }
            }
        }
        drop(visible);
        Ok((record, segments))
    }

    /// What was not as the last commit left it when the database was opened: a rebuilt manifest or catalog, an interrupted commit
    /// that was finished, lost files.
    pub fn warnings(&self) -> Vec<String> {
        self.shared.warnings.clone()
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.shared.path()
    }

    /// Whether it is open for reading only, or closed.
    pub fn is_read_only(&self) -> bool {
        self.shared.is_reader()
    }

    /// Whether there was no database in the directory when it was opened, for reading. One that is created later is not shown:
    /// [`Store::follow`] says when to open the directory anew.
    pub fn is_missing(&self) -> bool {
        self.shared.missing
    }

    /// Ends writing: all commits become durable, and another process may open the directory for writing. What is open stays
    /// readable as with [`OpenOptions::read_only`], as far as it was opened before. No publication may be under way.
    ///
    /// # Errors
    /// Those of [`Store::sync_log`]; the directory can be opened for writing all the same.
    pub fn close(&self) -> Result<()> {
        let mut writer = self.shared.writer.lock();
        if self.shared.closed.swap(true, Ordering::AcqRel) || self.shared.read_only {
            return Ok(());
        }
        let closed = self.shared.log.close();
        // The catalog with it.
        let registry = writer.registry.take();
        let is_sound = closed.is_ok() && !self.shared.poison.is_set();
        let sequence = registry.map(|registry| registry.sequence());
        *self.shared.sequence.lock() = sequence.filter(|_| is_sound);
        drop(writer);
        *self.shared.lock.lock() = None;
        closed
    }

    /// The number of the manifest that records the state this store shows, or that it began with if it is open for writing;
    /// `None` if that is not known. Of two stores of a directory with the same number the later one has the same corpora and
    /// segments, and at least the commits of records, as the earlier one had when it was closed or read last.
    pub fn sequence(&self) -> Option<u64> {
        match &self.shared.follower {
            Some(follower) => follower.sequence(),
            None => *self.shared.sequence.lock(),
        }
    }

    /// Whether the log of this store, which was opened after `previous` in the same directory, holds all that the log of `previous` held,
    /// and in its place. It does not if an older copy of the directory was restored in between. Reads a file of the log.
    pub fn continues(&self, previous: &Store) -> bool {
        let shared = &previous.shared;
        let tail = match (&shared.follower, &shared.ownership) {
            (Some(follower), _) => Some(follower.tail()),
            (None, Some(ownership)) => ownership.tail(),
            (None, None) => Some(LogTail::default()),
        };
        let Some(tail) = tail else {
            return false;
        };
        if tail.number == 0 {
            return true;
        }
        let path = log::path_of(&self.path().join(LOG_NAME), tail.number);
        let bytes = self.shared.backend.read(&path);
        bytes.is_ok_and(|bytes| tail.is_continued_by(&bytes))
    }

    /// Takes over the segments that `previous`, a store of the same directory, has open, as far as they are the same: both its
    /// holders and those of this store share what was decoded.
    pub fn inherit(&self, previous: &Store) {
        let open = previous.shared.visible.lock().open.clone();
        self.shared.visible.lock().inherited = open;
    }

    /// Looks whether another process has changed what a store that is open for reading shows, which costs a few small reads
    /// if not. Commits of records are taken up, and [`Store::replay`] gives them; for anything else the directory has to be
    /// opened anew.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn follow(&self) -> Result<Followed> {
        match &self.shared.follower {
            Some(follower) => follower.follow(&self.shared.log),
            None if self.is_missing() => {
                if missing::is_missing(&*self.shared.backend, &self.shared.location.path)? {
                    Ok(Followed::Same)
                } else {
                    Ok(Followed::Changed)
                }
            }
            None if self.shared.is_reader() => Ok(Followed::Changed),
            None => Ok(Followed::Same),
        }
    }

    /// Where the files are: what segments of a [`Publication`] are written with.
    pub fn backend(&self) -> &dyn Backend {
        &*self.shared.backend
    }
}
