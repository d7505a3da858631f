//! One open database directory: corpora, segments, and how they change.
//!
//! Invariant: a change is visible, in this process and to those that open the directory later, as a whole or not at
//! all, and once a call that makes one returns, it survives a crash and a power cut. The order that ensures it is the
//! same for creating, publishing and dropping: files complete and synced under a temporary name; renamed, directory
//! synced (from here on it has happened); catalog; visible. `store/recovery.rs` finishes what a crash interrupts.
//!
//! It knows segments by their headers only and neither decodes nor merges them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};

use crate::backend::{Backend, FileBackend, MemoryBackend};
use crate::catalog::{Catalog, Corpora, CorpusRecord};
use crate::lock::DirectoryLock;
use crate::segment::SegmentReader;
use crate::settings::{CorpusSettings, check_name, check_settings};
use crate::{Error, Result};

mod directory;
mod open;
mod publication;
mod recovery;

pub use publication::Publication;

use directory::SegmentDirectory;

const SEGMENTS_NAME: &str = "segments";

/// How to open a database directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Write nothing, take no lock. Works on a read-only file system and beside a writer.
    pub read_only: bool,
    /// Create the database if there is none. Ignored with `read_only`.
    pub create: bool,
}

/// An open database directory, or a database in memory.
///
/// At most one store is open for writing; any number may be open for reading beside it. A store that is open for
/// reading shows one published state, that of a moment while it was opened, for as long as it lives: what the writer
/// publishes or drops later changes nothing for it.
///
/// All methods may be called from any thread.
#[derive(Debug)]
pub struct Store {
    shared: Arc<Shared>,
}

/// A live segment, opened.
///
/// If its corpus is dropped meanwhile, its file is removed when the last handle goes.
#[derive(Debug)]
pub struct Segment {
    id: u64,
    reader: SegmentReader,
    /// Weak: handles may outlive the store, which then leaves the file to the next open.
    shared: Weak<Shared>,
}

#[derive(Debug)]
struct Shared {
    backend: Arc<dyn Backend>,
    path: PathBuf,
    directory: SegmentDirectory,
    read_only: bool,
    warnings: Vec<String>,
    /// The next number for a corpus, publication or segment.
    next_id: AtomicU64,
    /// Held while anything is changed. Taken before `visible`, never after it.
    writer: Mutex<Writer>,
    visible: Mutex<Visible>,
    /// Last, so that the catalog is closed before the lock is released.
    _lock: Option<DirectoryLock>,
}

#[derive(Debug)]
struct Writer {
    /// `None` in memory and read-only.
    catalog: Option<Catalog>,
    /// An earlier change failed half way.
    poisoned: bool,
}

/// What queries see. Held for moments only, never during I/O other than opening a segment.
#[derive(Debug)]
struct Visible {
    corpora: Corpora,
    open: HashMap<u64, Weak<Segment>>,
    /// Dropped corpora and those of their segments that still have a file.
    doomed: BTreeMap<u64, BTreeSet<u64>>,
}

impl Store {
    /// Opens the database in the directory `path`.
    ///
    /// Costs some milliseconds, whatever the size of the database: segments are opened when they are needed. A
    /// catalog that is missing or damaged is rebuilt from the segment files, see [`Store::warnings`].
    ///
    /// # Errors
    /// [`Error::Locked`] if it is open for writing already; [`Error::Corrupt`] if `path` is something else than a
    /// database; [`Error::Version`] if a later release wrote it; [`Error::Io`].
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Store> {
        Store::open_with(Arc::new(FileBackend), path.as_ref(), options)
    }

    /// Like [`Store::open`], with every file operation but those of the catalog and the lock going through `backend`.
    ///
    /// For tests that watch or fail them: `backend` must work on the real directory `path`.
    pub fn open_with(
        backend: Arc<dyn Backend>,
        path: &Path,
        options: OpenOptions,
    ) -> Result<Store> {
        let shared = if options.read_only {
            open::open_reader(backend, path)?
        } else {
            open::open_writer(backend, path, options.create)?
        };
        for warning in &shared.warnings {
            tracing::warn!(database = %path.display(), "{warning}");
        }
        Ok(Store {
            shared: Arc::new(shared),
        })
    }

    /// A database in memory, gone when it is dropped.
    pub fn in_memory() -> Store {
        let backend = Arc::new(MemoryBackend::new());
        let path = PathBuf::from(":memory:");
        let directory = SegmentDirectory::new(path.join(SEGMENTS_NAME));
        backend
            .create_directory(directory.path())
            .expect("memory refuses no directory");
        let shared = Shared::new(backend, path, directory, Corpora::new());
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
        self.shared.visible.lock().corpus(name).cloned()
    }

    /// Creates an empty corpus. Durable when it returns.
    ///
    /// A name has 1 to 255 bytes and no control characters. It is kept as given; looked up, ASCII letters match in
    /// either case, so two names that differ only in that are one name.
    ///
    /// # Errors
    /// [`Error::CorpusExists`]; [`Error::Invalid`] for a name or settings that cannot be; [`Error::ReadOnly`],
    /// [`Error::Poisoned`], [`Error::Io`].
    pub fn create_corpus(&self, name: &str, settings: CorpusSettings) -> Result<CorpusRecord> {
        check_name(name)?;
        check_settings(&settings)?;
        let shared = &self.shared;
        let mut writer = shared.writer()?;
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
            segments: Vec::new(),
        };
        shared.directory.write_marker(&*shared.backend, &record)?;
        corpora.insert(record.id, record.clone());
        writer.change(|catalog| {
            shared.directory.place_marker(&*shared.backend, record.id)?;
            shared.directory.sync(&*shared.backend)?;
            store_catalog(catalog, &corpora)
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
        let shared = &self.shared;
        let mut writer = shared.writer()?;
        let mut corpora = shared.visible.lock().corpora.clone();
        let id = shared.visible.lock().corpus(name)?.id;
        let record = corpora.get_mut(&id).expect("found under the writer lock");
        record.settings.segment_size = segment_size;
        check_settings(&record.settings)?;
        // A marker holds no segments: they are found by their footers.
        shared.directory.write_marker(&*shared.backend, record)?;
        writer.change(|catalog| {
            shared.directory.place_marker(&*shared.backend, id)?;
            shared.directory.sync(&*shared.backend)?;
            store_catalog(catalog, &corpora)
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
        let mut writer = shared.writer()?;
        let mut corpora = shared.visible.lock().corpora.clone();
        let id = shared.visible.lock().corpus(name)?.id;
        let record = corpora.remove(&id).expect("found under the writer lock");
        writer.change(|catalog| {
            let (marker, tombstone) = (shared.directory.marker(id), shared.directory.tombstone(id));
            shared
                .backend
                .rename(&marker, &tombstone)
                .map_err(io_error(&marker, "rename"))?;
            shared.directory.sync(&*shared.backend)?;
            store_catalog(catalog, &corpora)
        })?;

        let mut visible = shared.visible.lock();
        visible.corpora = corpora;
        visible
            .doomed
            .insert(id, record.segments.iter().copied().collect());
        let idle: Vec<u64> = (record.segments.iter().copied())
            .filter(|segment| !visible.is_open(*segment))
            .collect();
        drop(visible);
        shared.remove_doomed(id, &idle);
        Ok(())
    }

    /// Starts publishing segments to a corpus. Nothing is visible before [`Publication::commit`].
    ///
    /// # Errors
    /// [`Error::NoSuchCorpus`], [`Error::ReadOnly`], [`Error::Poisoned`].
    pub fn begin_publication(&self, corpus: &str) -> Result<Publication> {
        drop(self.shared.writer()?);
        let record = self.corpus(corpus)?;
        Ok(Publication::new(Arc::clone(&self.shared), record))
    }

    /// Opens a live segment; all handles of it share what was decoded.
    ///
    /// # Errors
    /// [`Error::Io`] if it is not live (any more) or its file is lost; those of [`SegmentReader::open`].
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

    /// What was not as the last commit left it when the database was opened: a rebuilt catalog, an interrupted commit
    /// that was finished, lost files. Also given to `tracing`.
    pub fn warnings(&self) -> Vec<String> {
        self.shared.warnings.clone()
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Whether it is open for reading only.
    pub fn is_read_only(&self) -> bool {
        self.shared.read_only
    }

    /// Where the files are: what segments of a [`Publication`] are written with.
    pub fn backend(&self) -> &dyn Backend {
        &*self.shared.backend
    }
}

impl Shared {
    fn new(
        backend: Arc<dyn Backend>,
        path: PathBuf,
        directory: SegmentDirectory,
        corpora: Corpora,
    ) -> Shared {
        Shared {
            backend,
            path,
            directory,
            read_only: false,
            warnings: Vec::new(),
            next_id: AtomicU64::new(1),
            writer: Mutex::new(Writer {
                catalog: None,
                poisoned: false,
            }),
            visible: Mutex::new(Visible {
                corpora,
                open: HashMap::new(),
                doomed: BTreeMap::new(),
            }),
            _lock: None,
        }
    }

    fn take_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// The right to change something.
    fn writer(&self) -> Result<MutexGuard<'_, Writer>> {
        if self.read_only {
            return Err(Error::ReadOnly {
                path: self.path.clone(),
            });
        }
        let writer = self.writer.lock();
        if writer.poisoned {
            return Err(Error::Poisoned {
                path: self.path.clone(),
            });
        }
        Ok(writer)
    }

    fn open_segment(
        self: &Arc<Self>,
        visible: &mut Visible,
        corpus: &str,
        id: u64,
    ) -> Result<Arc<Segment>> {
        if let Some(segment) = visible.open.get(&id).and_then(Weak::upgrade) {
            return Ok(segment);
        }
        let path = self.directory.segment(id);
        let reader = SegmentReader::open(&*self.backend, &path)?;
        if reader.header().segment_id != id || reader.header().corpus != corpus {
            return Err(Error::Corrupt {
                path,
                part: "header",
                fault: "it is the header of another segment",
            });
        }
        let segment = Arc::new(Segment {
            id,
            reader,
            shared: Arc::downgrade(self),
        });
        visible.open.insert(id, Arc::downgrade(&segment));
        Ok(segment)
    }

    /// The last handle of a segment is gone.
    fn release(&self, segment: u64) {
        let mut visible = self.visible.lock();
        if visible.is_open(segment) {
            return; // opened anew between the last drop and here
        }
        visible.open.remove(&segment);
        let corpus = (visible.doomed.iter())
            .find_map(|(corpus, segments)| segments.contains(&segment).then_some(*corpus));
        drop(visible);
        if let Some(corpus) = corpus {
            self.remove_doomed(corpus, &[segment]);
        }
    }

    /// Removes segments of a dropped corpus, and with the last of them its tombstone. What fails is left to the next
    /// open.
    fn remove_doomed(&self, corpus: u64, segments: &[u64]) {
        for &segment in segments {
            let path = self.directory.segment(segment);
            match self.backend.remove(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!("{}: cannot remove: {error}", path.display());
                    return;
                }
                _ => {}
            }
        }
        let mut visible = self.visible.lock();
        let Some(left) = visible.doomed.get_mut(&corpus) else {
            return;
        };
        for segment in segments {
            left.remove(segment);
        }
        if !left.is_empty() {
            return;
        }
        visible.doomed.remove(&corpus);
        drop(visible);
        // The tombstone speaks for the segments until they are gone for good.
        if self.directory.sync(&*self.backend).is_ok() {
            let _ = self.backend.remove(&self.directory.tombstone(corpus));
        }
    }
}

impl Writer {
    /// Runs the part of a change that must not be left half done. If it fails nothing more is written: what is on
    /// disk is decided by the next open.
    fn change(&mut self, run: impl FnOnce(Option<&mut Catalog>) -> Result<()>) -> Result<()> {
        let changed = run(self.catalog.as_mut());
        self.poisoned |= changed.is_err();
        changed
    }
}

impl Visible {
    fn corpus(&self, name: &str) -> Result<&CorpusRecord> {
        let mut matches = self
            .corpora
            .values()
            .filter(|record| record.answers_to(name));
        matches.next().ok_or_else(|| Error::NoSuchCorpus {
            corpus: name.to_owned(),
        })
    }

    /// Whether somebody holds a handle of a segment.
    fn is_open(&self, segment: u64) -> bool {
        // Counting and not upgrading: a handle dropped here would take the lock again.
        self.open
            .get(&segment)
            .is_some_and(|handle| handle.strong_count() > 0)
    }
}

impl Segment {
    /// Its number, unique in the database.
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl Deref for Segment {
    type Target = SegmentReader;

    fn deref(&self) -> &SegmentReader {
        &self.reader
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.release(self.id);
        }
    }
}

fn store_catalog(catalog: Option<&mut Catalog>, corpora: &Corpora) -> Result<()> {
    catalog.map_or(Ok(()), |catalog| catalog.store(corpora))
}

fn io_error(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::Io {
        path,
        action,
        source,
    }
}
