//! One open database directory: corpora, segments, and how they change.
//!
//! Invariant: a change is visible, in this process and to those that open the directory later, as a whole or not at
//! all, and once a call that makes one returns, it survives a crash and a power cut. The order that ensures it is the
//! same for creating, publishing and dropping: files complete and synced under a temporary name; renamed, directory
//! synced (from here on it has happened); catalog; visible. `store/recovery.rs` finishes what a crash interrupts.
//!
//! It knows segments by their headers only and neither decodes nor merges them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};

use crate::backend::{Backend, FileBackend, MemoryBackend, ReadOnlyBackend};
use crate::catalog::record::{check_name, check_settings};
use crate::catalog::{self, Catalog, Corpora, CorpusRecord, Fault};
use crate::lock::{DirectoryLock, LOCK_NAME};
use crate::segment::{SegmentHeader, SegmentReader};
use crate::settings::CorpusSettings;
use crate::{Error, Result};

mod directory;
mod publication;
mod recovery;

pub use publication::Publication;

use directory::{Listing, SegmentDirectory};
use recovery::{Facts, Recovered, recover};

const CATALOG_NAME: &str = "catalog";
const SEGMENTS_NAME: &str = "segments";

/// How often a read-only open starts over because a writer changed the directory under it.
const READ_ATTEMPTS_MAX: u32 = 50;

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
            open_reader(backend, path)?
        } else {
            open_writer(backend, path, options.create)?
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
        Store {
            shared: Arc::new(Shared {
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
                visible: Mutex::new(Visible::new(Corpora::new())),
                _lock: None,
            }),
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
    fn new(corpora: Corpora) -> Visible {
        Visible {
            corpora,
            open: HashMap::new(),
            doomed: BTreeMap::new(),
        }
    }

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

fn not_a_database(path: &Path, fault: &'static str) -> Error {
    Error::Corrupt {
        path: path.to_path_buf(),
        part: "database directory",
        fault,
    }
}

/// The contents of files in the `segments` directory, for recovery.
struct FileFacts<'a> {
    backend: &'a dyn Backend,
    directory: &'a SegmentDirectory,
}

impl Facts for FileFacts<'_> {
    fn marker(&self, id: u64) -> Result<CorpusRecord> {
        let path = self.directory.marker(id);
        self.directory.read_marker(self.backend, &path, id)
    }

    fn tombstone(&self, id: u64) -> Result<CorpusRecord> {
        let path = self.directory.tombstone(id);
        self.directory.read_marker(self.backend, &path, id)
    }

    fn header(&self, id: u64) -> Result<SegmentHeader> {
        let path = self.directory.segment(id);
        let reader = SegmentReader::open(self.backend, &path)?;
        if reader.header().segment_id != id {
            return Err(Error::Corrupt {
                path,
                part: "header",
                fault: "it is the header of another segment",
            });
        }
        Ok(reader.header().clone())
    }
}

fn open_writer(backend: Arc<dyn Backend>, path: &Path, create: bool) -> Result<Shared> {
    let directory = SegmentDirectory::new(path.join(SEGMENTS_NAME));
    prepare_directory(&*backend, path, create)?;
    let lock = DirectoryLock::acquire(path)?;
    create_segment_directory(&*backend, path, &directory, create)?;

    let catalog_path = path.join(CATALOG_NAME);
    let mut warnings = Vec::new();
    let (stored, known, damage) = match Catalog::open(Arc::clone(&backend), &catalog_path) {
        Ok((catalog, corpora)) => (Some(catalog), Some(corpora), None),
        Err(fault @ (Fault::Missing | Fault::Damaged(_))) => (None, None, Some(fault)),
        Err(Fault::Version(found)) => return Err(later_version(&catalog_path, found)),
        Err(Fault::Io(error) | Fault::NoCopy(error)) => {
            return Err(io_error(&catalog_path, "open")(error));
        }
    };
    let listing = directory.list(&*backend)?;
    let facts = FileFacts {
        backend: &*backend,
        directory: &directory,
    };
    let recovered = recover(known.as_ref(), &listing, &facts)?;
    if let Some(fault) = damage
        && (listing != Listing::default() || !matches!(fault, Fault::Missing))
    {
        warnings.push(format!(
            "the catalog was rebuilt from the segment files: {fault}"
        ));
    }
    for &id in &recovered.unmarked {
        directory.write_marker(&*backend, &recovered.corpora[&id])?;
        directory.place_marker(&*backend, id)?;
    }
    let mut catalog = match stored {
        Some(catalog) => catalog,
        None => {
            clear_catalog(&*backend, path, &mut warnings)?;
            let catalog = Catalog::create(Arc::clone(&backend), &catalog_path, &recovered.corpora)?;
            backend
                .sync_directory(path)
                .map_err(io_error(path, "sync"))?;
            catalog
        }
    };
    catalog.store(&recovered.corpora)?;
    warnings.extend(recovered.notes.iter().chain(&recovered.warnings).cloned());
    clean_up(&*backend, &directory, &recovered, &mut warnings)?;

    let largest = (recovered.corpora.values())
        .flat_map(|record| record.segments.last())
        .chain(recovered.corpora.keys())
        .max();
    let largest = listing.largest.max(largest.copied().unwrap_or(0));
    Ok(Shared {
        backend,
        path: path.to_path_buf(),
        directory,
        read_only: false,
        warnings,
        next_id: AtomicU64::new(largest + 1),
        writer: Mutex::new(Writer {
            catalog: Some(catalog),
            poisoned: false,
        }),
        visible: Mutex::new(Visible::new(recovered.corpora)),
        _lock: Some(lock),
    })
}

fn later_version(path: &Path, found: u8) -> Error {
    Error::Version {
        path: path.to_path_buf(),
        found: found.into(),
        supported: catalog::VERSION.into(),
    }
}

/// Creates the database directory, or makes sure that the one there is a database or empty.
fn prepare_directory(backend: &dyn Backend, path: &Path, create: bool) -> Result<()> {
    if !backend.exists(path).map_err(io_error(path, "open"))? {
        if !create {
            return Err(io_error(path, "open")(io::ErrorKind::NotFound.into()));
        }
        backend
            .create_directory(path)
            .map_err(io_error(path, "create"))?;
        let parent = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        return backend
            .sync_directory(parent)
            .map_err(io_error(parent, "sync"));
    }
    let names = backend.list(path).map_err(io_error(path, "open"))?;
    let ours = [SEGMENTS_NAME, CATALOG_NAME, LOCK_NAME];
    if names.iter().any(|name| ours.iter().any(|our| name == our)) || names.is_empty() && create {
        return Ok(());
    }
    Err(not_a_database(path, "this directory is not a database"))
}

fn create_segment_directory(
    backend: &dyn Backend,
    path: &Path,
    directory: &SegmentDirectory,
    create: bool,
) -> Result<()> {
    let segments = directory.path();
    if backend
        .exists(segments)
        .map_err(io_error(segments, "open"))?
    {
        return Ok(());
    }
    let catalog = path.join(CATALOG_NAME);
    if backend
        .exists(&catalog)
        .map_err(io_error(&catalog, "open"))?
    {
        return Err(not_a_database(path, "its `segments` directory is missing"));
    }
    if !create {
        return Err(not_a_database(path, "this directory is not a database"));
    }
    backend
        .create_directory(segments)
        .map_err(io_error(segments, "create"))?;
    backend.sync_directory(path).map_err(io_error(path, "sync"))
}

/// Makes room for a new catalog: an empty one goes, a damaged one is kept as `catalog.aside`, `catalog.aside-2`, ...
fn clear_catalog(backend: &dyn Backend, path: &Path, warnings: &mut Vec<String>) -> Result<()> {
    let catalog = path.join(CATALOG_NAME);
    if !backend
        .exists(&catalog)
        .map_err(io_error(&catalog, "open"))?
    {
        return Ok(());
    }
    if warnings.is_empty() {
        // Its creation was interrupted: sled's own files with nothing in them.
        return fs::remove_dir_all(&catalog).map_err(io_error(&catalog, "remove"));
    }
    for number in 1.. {
        let name = match number {
            1 => "catalog.aside".to_owned(),
            _ => format!("catalog.aside-{number}"),
        };
        let aside = path.join(&name);
        if backend.exists(&aside).map_err(io_error(&aside, "open"))? {
            continue;
        }
        backend
            .rename(&catalog, &aside)
            .map_err(io_error(&catalog, "rename"))?;
        warnings.push(format!("the old catalog was kept as `{name}`"));
        break;
    }
    Ok(())
}

/// Removes what recovery found to be of no use. A file that cannot be removed is a warning: it does no harm.
fn clean_up(
    backend: &dyn Backend,
    directory: &SegmentDirectory,
    recovered: &Recovered,
    warnings: &mut Vec<String>,
) -> Result<()> {
    let mut attempt = |path: &Path, result: io::Result<()>| match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            warnings.push(format!("{}: cannot clean up: {error}", path.display()));
            false
        }
        _ => true,
    };
    let mut removed = true;
    for &id in &recovered.garbage {
        let path = directory.segment(id);
        removed &= attempt(&path, backend.remove(&path));
    }
    for name in &recovered.temporary {
        let path = directory.file(name);
        attempt(&path, backend.remove(&path));
    }
    for &id in &recovered.aside {
        directory.set_aside(backend, id)?;
    }
    let nothing = recovered.garbage.is_empty()
        && recovered.temporary.is_empty()
        && recovered.aside.is_empty()
        && recovered.unmarked.is_empty()
        && recovered.tombstones.is_empty();
    if nothing {
        return Ok(());
    }
    directory.sync(backend)?;
    if removed {
        for &id in &recovered.tombstones {
            let path = directory.tombstone(id);
            attempt(&path, backend.remove(&path));
        }
    }
    Ok(())
}

/// Opens for reading: the same decisions as for writing, none of them carried out.
///
/// The catalog is read before the files, so it is never newer than what is listed. All live segments are opened at
/// once, so that a writer may remove them afterwards; if one was removed before, or anything else changed, it starts
/// over.
fn open_reader(backend: Arc<dyn Backend>, path: &Path) -> Result<Shared> {
    let backend = Arc::new(ReadOnlyBackend::new(backend));
    let directory = SegmentDirectory::new(path.join(SEGMENTS_NAME));
    if !backend.exists(path).map_err(io_error(path, "open"))? {
        return Err(io_error(path, "open")(io::ErrorKind::NotFound.into()));
    }
    let segments = directory.path();
    if !backend
        .exists(segments)
        .map_err(io_error(segments, "open"))?
    {
        return Err(not_a_database(path, "this directory is not a database"));
    }
    for attempt in 1.. {
        let (listing, recovered, warnings) = match read_state(&*backend, path, &directory) {
            Err(Error::Io { source, .. })
                if source.kind() == io::ErrorKind::NotFound && attempt < READ_ATTEMPTS_MAX =>
            {
                continue;
            }
            other => other?,
        };
        backend.unpin();
        let live = recovered
            .corpora
            .values()
            .flat_map(|record| &record.segments);
        let pinned = live
            .filter(|id| listing.segments.contains(id))
            .try_for_each(|id| backend.pin(&directory.segment(*id)));
        let at_rest = pinned.is_ok() && directory.list(&*backend)? == listing;
        if !at_rest && attempt < READ_ATTEMPTS_MAX {
            continue;
        }
        pinned.map_err(io_error(segments, "open the segments in"))?;
        return Ok(Shared {
            backend,
            path: path.to_path_buf(),
            directory,
            read_only: true,
            warnings,
            next_id: AtomicU64::new(0),
            writer: Mutex::new(Writer {
                catalog: None,
                poisoned: false,
            }),
            visible: Mutex::new(Visible::new(recovered.corpora)),
            _lock: None,
        });
    }
    unreachable!("the last attempt returns")
}

fn read_state(
    backend: &dyn Backend,
    path: &Path,
    directory: &SegmentDirectory,
) -> Result<(Listing, Recovered, Vec<String>)> {
    let catalog_path = path.join(CATALOG_NAME);
    let (known, damage) = match catalog::read_only(&catalog_path) {
        Ok(corpora) => (Some(corpora), None),
        Err(Fault::Version(found)) => return Err(later_version(&catalog_path, found)),
        Err(Fault::NoCopy(error)) => {
            // Usual where nothing can be written. The files tell all but that one of them was lost.
            tracing::debug!("no place for a copy of the catalog: {error}");
            (None, None)
        }
        Err(fault) => (None, Some(fault)),
    };
    let listing = directory.list_at_rest(backend)?;
    let recovered = recover(known.as_ref(), &listing, &FileFacts { backend, directory })?;
    let mut warnings = Vec::new();
    if let Some(fault) = damage {
        warnings.push(format!(
            "the catalog cannot be used, the segment files were read instead: {fault}; \
             hint: open the database for writing to rebuild it"
        ));
    }
    warnings.extend(recovered.warnings.iter().cloned());
    Ok((listing, recovered, warnings))
}
