//! Opening a database directory: for writing, which finishes what a crash interrupted, or for reading, which changes
//! nothing.
//!
//! Invariant: nothing is removed before the manifest agrees with the files, so opening may itself be cut short at any
//! point and starts over. What is live is decided in `recovery.rs`, for both ways of opening alike. Whether there is a database
//! is known before (`missing.rs`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use crate::backend::{Backend, ReadOnlyBackend};
use crate::catalog::{ContentFault, CorpusRecord, Files};
use crate::error::{IoReason, io_error};
use crate::indexes;
use crate::lock::DirectoryLock;
use crate::log::{self, LOG_NAME, Scan};
use crate::manifest::{self, MANIFEST_NAME, Manifest, ManifestFile};
use crate::ownership::{OwnedBackend, Ownership};
use crate::path_text::PathText;
use crate::reserve::{RESERVE_NAME, Reserve, ReserveBackend};
use crate::segment::{SegmentHeader, SegmentReader};
use crate::store::directory::{
    Listing, SEGMENTS_NAME, SegmentDirectory, no_database, without_segments,
};
use crate::store::follow::{Follower, newest_file};
use crate::store::location::Location;
use crate::store::recovery::{Facts, Recovered, Unfinished, recover};
use crate::store::registry::{CATALOG_NAME, FoundRegistry, later_version};
use crate::store::shared::Shared;
use crate::{Error, Result};

/// Most starts of a read-only open while a writer changes the directory under it.
const READ_ATTEMPTS_MAX: u32 = 50;

/// Most reads of a log that seems damaged.
const LOG_ATTEMPTS_MAX: u32 = 3;

/// How long the end of a log must stay unchanged to count as not being written.
const TORN_REST: Duration = Duration::from_millis(10);

/// Opens for writing: takes the lock, creates what is missing if it may, recovers, cleans up.
pub(super) fn open_writer(location: Location, create: bool) -> Result<Shared> {
    let path = &*location.path;
    let directory = SegmentDirectory::new(path.join(SEGMENTS_NAME));
    let mut backend = Arc::clone(&location.backend);
    let (mut lock, mut ownership, mut reserve) = (None, None, None);
    if let Some(held) = &location.held {
        let taken = DirectoryLock::acquire(held, SEGMENTS_NAME)?;
        let (file, folder) = (taken.file(), SEGMENTS_NAME);
        let owned = Ownership::begin(&*backend, Arc::clone(held), file, folder)?;
        let owned_backend = Arc::new(OwnedBackend {
            inner: backend,
            ownership: Arc::clone(&owned),
        });
        let kept = Reserve::open(owned_backend, path);
        backend = Arc::new(ReserveBackend(Arc::clone(&kept)));
        (lock, ownership, reserve) = (Some(taken), Some(owned), Some(kept));
    }
    create_segment_directory(&*backend, path, &directory, create)?;
    if let (Some(lock), Some(held)) = (&mut lock, &location.held) {
        lock.complete(held, SEGMENTS_NAME)?;
    }

    let registry = FoundRegistry::read(&backend, path)?;
    let sequence = registry.sequence();
    let mut warnings = Vec::new();
    let listing = directory.list(&*backend)?;
    let facts = FileFacts {
        backend: &*backend,
        directory: &directory,
        markers: RefCell::default(),
    };
    let found = Scan::read(&*backend, &path.join(LOG_NAME), registry.log())?;
    sync_log(&*backend, path, &found)?;
    let known = registry.known.as_ref();
    let recovered = recover(known, &listing, &found, Unfinished::Finish, &facts)?;
    for &id in &recovered.unmarked {
        directory.write_marker(&*backend, &recovered.corpora[&id])?;
        directory.place_marker(&*backend, id)?;
    }
    for &id in &recovered.unplaced {
        directory.place_segment(&*backend, id)?;
    }
    if known != Some(&recovered.corpora) || !recovered.unmarked.is_empty() {
        // A process that was killed may have renamed without syncing: the manifest must not know more than the disk.
        directory.sync(&*backend)?;
    }
    let anew = listing == Listing::default() && recovered.corpora.is_empty();
    if known.is_none() {
        // A crash may have left these directories unsynced. With a manifest they are durable.
        sync_directory(&*location.outer, parent(path))?;
        sync_directory(&*backend, path)?;
    }
    let registry = registry.store(&backend, path, &recovered.corpora, anew, &mut warnings)?;
    warnings.extend(recovered.notes.iter().chain(&recovered.warnings).cloned());
    let tidy = clean_up(&*backend, &directory, &recovered, &mut warnings)?;
    if !recovered.left {
        clean_up_indexes(
            &*backend,
            path,
            &directory,
            &listing,
            &recovered,
            &mut warnings,
        )?;
    }
    if let Some(reserve) = &reserve {
        reserve.fit(&recovered.corpora);
    }

    let largest = (recovered.corpora.values())
        .flat_map(|record| record.segments.last())
        .chain(recovered.corpora.keys())
        .chain([&listing.largest, &found.largest])
        .max();
    let largest = largest.copied().unwrap_or(0);
    let torn = found.torn.is_some();
    let cuts: Vec<String> = found.cuts().collect();
    warnings.extend_from_slice(&cuts);
    let shared = Shared::new(
        location,
        backend,
        directory,
        recovered.corpora,
        found,
        registry.keep_extent(),
    );
    shared.log.keep_found()?;
    if torn {
        // Its header says for ever where the commits of the file before end.
        shared.log.begin_file()?;
    }
    shared.writer.lock().registry = Some(registry);
    shared.visible.lock().buried = recovered.tombstones;
    let shared = Shared {
        warnings,
        cuts,
        next_id: AtomicU64::new(largest + 1),
        untidy: !tidy || recovered.left,
        reserve,
        ownership,
        sequence: Mutex::new(sequence),
        lock: Mutex::new(lock),
        ..shared
    };
    shared.tidy();
    Ok(shared)
}

/// Makes the log durable as it was found: a process that was killed may have written without syncing, and what is done
/// now, on the ground of what it wrote, must not outlive it.
fn sync_log(backend: &dyn Backend, path: &Path, found: &Scan) -> Result<()> {
    let Some(newest) = found.files.back() else {
        return Ok(());
    };
    let directory = path.join(LOG_NAME);
    let newest = log::path_of(&directory, newest.number);
    backend
        .sync_file(&newest)
        .map_err(io_error(&newest, "sync"))?;
    sync_directory(backend, &directory)
}

/// Opens for reading: the same decisions as for writing, none of them carried out.
///
/// The manifest is read before the files, so it is never newer than what is listed, and again afterwards. All live
/// segments are opened at once, so that a writer may remove them afterwards; if one was removed before, or anything else
/// changed, it starts over.
pub(super) fn open_reader(location: Location) -> Result<Shared> {
    let path = &*location.path;
    let backend = Arc::new(ReadOnlyBackend::new(Arc::clone(&location.backend)));
    let directory = SegmentDirectory::new(path.join(SEGMENTS_NAME));
    let segments = directory.path();
    let mut last = None;
    let (mut torn, mut rests) = (None, 0);
    for attempt in 1.. {
        backend.unpin();
        let manifest = ManifestFile::read(&*backend, path);
        let sequence = manifest.as_ref().map(|manifest| manifest.sequence).ok();
        let known = manifest.as_ref().ok().cloned();
        let status = newest_file(&location).ok().and_then(|(_, status)| status);
        let state = read_state(&backend, path, &directory, manifest);
        let (listing, mut found, recovered, mut warnings) = match state {
            Err(Error::Io { source, .. })
                if source.kind() == io::ErrorKind::NotFound && attempt < READ_ATTEMPTS_MAX =>
            {
                continue;
            }
            // Two files may have come while the log was listed, and only the second be in the list.
            Err(Error::CorruptLog { .. }) if attempt < LOG_ATTEMPTS_MAX => continue,
            // What the manifest said was there may have been removed since.
            Err(Error::CorruptLog { .. })
                if attempt < READ_ATTEMPTS_MAX && sequence_of(&backend, path) != sequence =>
            {
                continue;
            }
            other => other?,
        };
        let live = recovered
            .corpora
            .values()
            .flat_map(|record| &record.segments);
        let pinned = live
            .filter(|id| listing.segments.contains(id))
            .try_for_each(|id| backend.pin(&directory.segment(*id)));
        let at_rest = pinned.is_ok()
            && directory.list(&*backend)? == listing
            && sequence_of(&backend, path) == sequence;
        // Without a manifest: what is missing may have been replaced, and the log no longer say so.
        let settled = !recovered.incomplete || last.as_ref() == Some(&recovered);
        if !(at_rest && settled) && attempt < READ_ATTEMPTS_MAX {
            last = Some(recovered);
            continue;
        }
        if found.torn != torn && rests < LOG_ATTEMPTS_MAX {
            // Perhaps of a commit that is being written: it then grows, or becomes whole.
            torn = found.torn;
            rests += 1;
            thread::sleep(TORN_REST);
            continue;
        }
        pinned.map_err(io_error(segments, "open the segments in"))?;
        if found.torn != torn {
            found.torn = None;
        }
        let cuts: Vec<String> = found.cuts().collect();
        warnings.extend_from_slice(&cuts);
        let pinned = Arc::clone(&backend);
        let follower = Follower::new(location.clone(), pinned, known, &found, status);
        let shared = Shared::new(
            location.clone(),
            backend,
            directory,
            recovered.corpora,
            found,
            Box::new(|_| Ok(())),
        );
        return Ok(Shared {
            read_only: true,
            follower: Some(follower),
            warnings,
            cuts,
            ..shared
        });
    }
    unreachable!("the last attempt returns")
}

/// The log is read after the files are listed, so it is never older than they are. Its files are pinned.
fn read_state(
    backend: &ReadOnlyBackend,
    path: &Path,
    directory: &SegmentDirectory,
    manifest: std::result::Result<Manifest, ContentFault>,
) -> Result<(Listing, Scan, Recovered, Vec<String>)> {
    let mut extent = None;
    let (known, damage) = match manifest {
        Ok(manifest) => {
            extent = manifest.log;
            (Some(manifest.corpora), None)
        }
        Err(ContentFault::Version(found)) => {
            return Err(later_version(path, MANIFEST_NAME, found, manifest::VERSION));
        }
        // A database of an older release, or one that is being created. The files show everything except the loss of one of them.
        Err(ContentFault::Missing) if !had_manifest(backend, path)? => (None, None),
        Err(fault) => (None, Some(fault)),
    };
    let listing = directory.list_at_rest(backend)?;
    // Before the log: what a marker says of a recompression, the log then says too.
    let markers = listing
        .markers
        .iter()
        .map(
            |id| match directory.read_marker(backend, &directory.marker(*id), *id) {
                Err(error @ Error::Io { .. }) => Err(error),
                marker => Ok((*id, marker)),
            },
        )
        .collect::<Result<BTreeMap<u64, Result<CorpusRecord>>>>()?;
    let log = path.join(LOG_NAME);
    for number in log::list(backend, &log)? {
        let path = log::path_of(&log, number);
        backend.pin(&path).map_err(io_error(&path, "read"))?;
    }
    let found = Scan::read(backend, &log, extent)?;
    let facts = FileFacts {
        backend,
        directory,
        markers: RefCell::new(markers),
    };
    let recovered = recover(known.as_ref(), &listing, &found, Unfinished::Hide, &facts)?;
    let mut warnings = Vec::new();
    if let Some(fault) = damage {
        warnings.push(format!(
            "the manifest cannot be used, the segment files were read instead: {fault}; \
             hint: open the database for writing to rebuild it"
        ));
    }
    warnings.extend(recovered.warnings.iter().cloned());
    Ok((listing, found, recovered, warnings))
}

/// The sequence number that the manifest has now.
fn sequence_of(backend: &ReadOnlyBackend, path: &Path) -> Option<u64> {
    let manifest = ManifestFile::read(backend, path).ok()?;
    Some(manifest.sequence)
}

/// Whether a database without a manifest once had one: the process that writes one also makes the reserve and closes the catalog.
pub(super) fn had_manifest(backend: &dyn Backend, path: &Path) -> Result<bool> {
    let reserve = path.join(RESERVE_NAME);
    if backend
        .exists(&reserve)
        .map_err(io_error(&reserve, "open"))?
    {
        return Ok(true);
    }
    let catalog = path.join(CATALOG_NAME);
    match Files::read(backend, &catalog) {
        Err(ContentFault::Io(error)) => Err(io_error(&catalog, "read")(error)),
        files => Ok(matches!(files, Ok(Files::Closed(_) | Files::Damaged(_)))),
    }
}

pub(super) fn sync_directory(backend: &dyn Backend, path: &Path) -> Result<()> {
    backend.sync_directory(path).map_err(io_error(path, "sync"))
}

pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Creates the directory of a database that does not exist.
pub(super) fn create_missing(backend: &dyn Backend, path: &Path) -> Result<()> {
    if backend.exists(path).map_err(io_error(path, "open"))? {
        return Ok(());
    }
    let created = backend.create_directory(path);
    created.map_err(io_error(path, "create"))
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
    for name in [CATALOG_NAME, MANIFEST_NAME] {
        let path_of_name = path.join(name);
        let exists = backend.exists(&path_of_name);
        if exists.map_err(io_error(&path_of_name, "open"))? {
            return Err(without_segments(path));
        }
    }
    if !create {
        return Err(no_database(path));
    }
    backend
        .create_directory(segments)
        .map_err(io_error(segments, "create"))
}

/// Removes what recovery found to be of no use but tombstones. A file that cannot be removed is a warning: it does no
/// harm, as long as what speaks for it stays. Returns whether all segments are gone that should be.
fn clean_up(
    backend: &dyn Backend,
    directory: &SegmentDirectory,
    recovered: &Recovered,
    warnings: &mut Vec<String>,
) -> Result<bool> {
    let mut attempt = |path: &Path, result: io::Result<()>| match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            warnings.push(cannot_clean_up(path, &error));
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
    if !nothing {
        directory.sync(backend)?;
    }
    Ok(removed)
}

fn cannot_clean_up(path: &Path, error: &io::Error) -> String {
    format!("{}: cannot clean up: {}", PathText(path), IoReason(error))
}

/// Removes index files whose segment or index is gone. A list of indexes that cannot be read is given up with all of them: they
/// can be created again.
fn clean_up_indexes(
    backend: &dyn Backend,
    path: &Path,
    directory: &SegmentDirectory,
    listing: &Listing,
    recovered: &Recovered,
    warnings: &mut Vec<String>,
) -> Result<()> {
    let records = match indexes::read(backend, path) {
        Err(error @ Error::Io { .. }) => return Err(error),
        Err(damage) => {
            warnings.push(format!(
                "all indexes are dropped: {damage}; hint: CREATE INDEX makes them again"
            ));
            indexes::write(backend, path, &[])?;
            Vec::new()
        }
        Ok(records) => records,
    };
    let is_needed = |segment: u64, name: &str| {
        let mut records = records.iter().filter(|record| record.answers_to(name));
        records.any(|record| {
            let corpus = recovered.corpora.get(&record.corpus);
            corpus.is_some_and(|corpus| corpus.segments.contains(&segment))
        })
    };
    for (segment, name) in &listing.indexes {
        let path = directory.index(*segment, name);
        if !is_needed(*segment, name)
            && let Err(error) = backend.remove(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            warnings.push(cannot_clean_up(&path, &error));
        }
    }
    Ok(())
}

/// The contents of files in the `segments` directory, for recovery.
pub(super) struct FileFacts<'a> {
    pub(super) backend: &'a dyn Backend,
    pub(super) directory: &'a SegmentDirectory,
    /// Markers that were read before.
    pub(super) markers: RefCell<BTreeMap<u64, Result<CorpusRecord>>>,
}

impl Facts for FileFacts<'_> {
    fn marker(&self, id: u64) -> Result<CorpusRecord> {
        if let Some(read) = self.markers.borrow_mut().remove(&id) {
            return read;
        }
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
