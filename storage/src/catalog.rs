//! The catalog: the content of the manifest once more, in sled. The only module that knows sled.
//!
//! Invariant: what [`Catalog::open`] returns is a state that [`Catalog::store`] was given once, whole and unchanged;
//! anything else is a [`ContentFault`]. sled alone does not promise that, so every value carries a version and its own CRC32,
//! and one more value, the manifest, covers all of them together, with the sequence number of the file `MANIFEST`.
//!
//! Nothing rests on it while `MANIFEST` can be read: a catalog that cannot be written is given up, and replaced when the
//! database is opened next. It is opened when something is stored, not before; readers never open it.
//!
//! sled's ways that matter here, all measured or read in 0.34.7: it panics at damage (`files` keeps that from it), waits
//! for ever if its threads cannot start or panic, panics in `drop` if the last sync fails (`guard` keeps both from us; a
//! build whose panics end the process never drops it), and does not check whether it got the memory for its page table.
//! Its `flush` uses `sync_file_range` and does not survive a power cut, so the file is synced again after each one; a
//! value over a quarter of `SLED_SEGMENT_SIZE` goes to a file of its own that is never synced, so records are stored in
//! short chunks; a database that was just dropped may stay locked for some milliseconds. Opening it starts its threads
//! (`sled-io-*`), which stay until the process ends.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backend::Backend;
use crate::error::IoReason;
use crate::path_text::PathText;

mod fault;
mod files;
mod guard;
pub(crate) mod record;

pub(crate) use fault::ContentFault;
pub(crate) use files::Files;
pub use record::CorpusRecord;

use files::SLED_SEGMENT_SIZE;
use guard::Guarded;

/// All corpora by their number.
pub(crate) type Corpora = BTreeMap<u64, CorpusRecord>;

/// Bytes of sled's cache: more than a catalog of ten thousand segments needs.
const SLED_CACHE_SIZE: u64 = 1 << 20;

/// Address space that must be free when sled starts. It uses 6 MiB for its page table and 2 MiB a thread, but the
/// allocator may first give an arena of 64 MiB to each of its eight threads.
const SLED_ADDRESS_SPACE: usize = 600 << 20;

/// Most time that another handle in this process takes to release a database after it was dropped.
const SLED_UNLOCK_TIME_MAX: Duration = Duration::from_secs(5);

/// The version of the values. It stands first in each of them. Version 1 was the only record of what there is, and had
/// no sequence number.
pub(crate) const VERSION: u8 = 2;

/// Payload of a chunk. 17 of them, the most sled keeps in a node, stay far below a quarter of its segment size.
const CHUNK_SIZE_MAX: usize = 56;

/// The key of the manifest. Chunk keys have 12 bytes.
const MANIFEST_KEY: &[u8] = b"manifest";

/// Keys and values as sled has them.
type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// The catalog of a database that is open for writing.
pub(crate) struct Catalog {
    backend: Arc<dyn Backend>,
    path: PathBuf,
    state: CatalogState,
}

enum CatalogState {
    /// sled has not been started. Its files are as it left them.
    Closed,
    /// sled has not been started. Its files are to be replaced.
    Void,
    Running(Running),
    /// An operation failed; what sled holds is unknown.
    GivenUp,
}

/// sled, and what its path leads through: where it is leaked, its threads may still open files there.
struct RunningSled {
    database: sled::Db,
    _backend: Arc<dyn Backend>,
}

struct Running {
    sled: Guarded<RunningSled>,
    /// The content of sled.
    pairs: Pairs,
    sequence: u64,
}

/// The content of a catalog.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) corpora: Corpora,
    /// That of the manifest. 0 in a catalog of version 1.
    pub(crate) sequence: u64,
}

impl fmt::Debug for Catalog {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Catalog({})", self.path.display())
    }
}

impl Catalog {
    /// The catalog in the directory `path`, which was closed and is unchanged.
    pub(crate) fn closed(backend: Arc<dyn Backend>, path: &Path) -> Catalog {
        Catalog {
            backend,
            path: path.to_path_buf(),
            state: CatalogState::Closed,
        }
    }

    /// A catalog in the directory `path`, in the place of whatever is there.
    pub(crate) fn void(backend: Arc<dyn Backend>, path: &Path) -> Catalog {
        Catalog {
            backend,
            path: path.to_path_buf(),
            state: CatalogState::Void,
        }
    }

    /// Opens the catalog in the directory `path` and reads all of it.
    pub(crate) fn open(
        backend: Arc<dyn Backend>,
        path: &Path,
    ) -> Result<(Catalog, Content), ContentFault> {
        if let Files::Missing = Files::read(&*backend, path)? {
            return Err(ContentFault::Missing);
        }
        files::check_form(&*backend, path)?;
        let running = Running::start(&backend, path)?;
        let content = decode(&running.pairs)?;
        let catalog = Catalog {
            backend,
            path: path.to_path_buf(),
            state: CatalogState::Running(running),
        };
        Ok((catalog, content))
    }

    /// Makes `corpora` the content of the catalog: all of it or, on an error or a crash, what it was before.
    ///
    /// Durable when it returns. After a fault the catalog is given up: sled may hold either state.
    pub(crate) fn store(&mut self, corpora: &Corpora, sequence: u64) -> Result<(), ContentFault> {
        let mut running = match std::mem::replace(&mut self.state, CatalogState::GivenUp) {
            CatalogState::Running(running) => running,
            CatalogState::Closed => Running::start(&self.backend, &self.path)?,
            CatalogState::Void => {
                let outward = self.backend.outward_path(&self.path);
                outward
                    .and_then(|path| clear(&path))
                    .map_err(ContentFault::Io)?;
                (self.backend)
                    .create_directory(&self.path)
                    .map_err(ContentFault::Io)?;
                Running::start(&self.backend, &self.path)?
            }
            CatalogState::GivenUp => {
                return Err(ContentFault::Damaged("it was given up before".to_owned()));
            }
        };
        running.store(corpora, sequence)?;
        (self.backend)
            .sync_file(&self.path.join("db"))
            .map_err(ContentFault::Io)?;
        self.state = CatalogState::Running(running);
        Ok(())
    }

    /// Closes sled, if it runs, and marks its files. What fails leaves them to be replaced by the next open.
    fn close(&mut self) -> Result<(), ContentFault> {
        let CatalogState::Running(running) =
            std::mem::replace(&mut self.state, CatalogState::GivenUp)
        else {
            return Ok(());
        };
        // Where a panic ends the process, nothing may be dropped that panics if a sync fails: sled is leaked, and its files,
        // all of whose content is durable, are replaced by the next open.
        if cfg!(panic = "abort") {
            return Ok(());
        }
        let db = self.path.join("db");
        // sled syncs it when it is dropped, and panics if that fails.
        self.backend.sync_file(&db).map_err(ContentFault::Io)?;
        running.sled.close()?;
        let outward = self.backend.outward_path(&db);
        let unlocked = outward.and_then(|db| wait_until_unlocked(&db));
        if unlocked.is_err() {
            // Threads of sled may go on opening paths that hold as long as the backend.
            std::mem::forget(Arc::clone(&self.backend));
        }
        unlocked.map_err(ContentFault::Io)?;
        files::mark_closed(&*self.backend, &self.path, running.sequence).map_err(ContentFault::Io)
    }
}

impl Drop for Catalog {
    fn drop(&mut self) {
        if let Err(fault) = self.close() {
            tracing::debug!(
                "{}: the catalog was not closed: {fault}",
                PathText(&self.path)
            );
        }
    }
}

impl Running {
    fn start(backend: &Arc<dyn Backend>, path: &Path) -> Result<Running, ContentFault> {
        files::mark_open(&**backend, path).map_err(ContentFault::Io)?;
        reserve_address_space()?;
        let directory = backend.outward_path(path).map_err(ContentFault::Io)?;
        let backend = Arc::clone(backend);
        let sled = Guarded::new(move || {
            Ok(RunningSled {
                database: open_database(&directory)?,
                _backend: backend,
            })
        })?;
        let pairs =
            sled.call(|sled| Ok(sled.database.iter().collect::<sled::Result<Vec<_>>>()?))?;
        let pairs: Pairs = (pairs.iter())
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect();
        let sequence = match decode(&pairs) {
            Ok(content) => content.sequence,
            Err(ContentFault::Missing) => 0,
            Err(fault) => return Err(fault),
        };
        Ok(Running {
            sled,
            pairs,
            sequence,
        })
    }

    fn store(&mut self, corpora: &Corpora, sequence: u64) -> Result<(), ContentFault> {
        let pairs = encode(corpora, sequence);
        if pairs == self.pairs {
            return Ok(());
        }
        let mut batch = sled::Batch::default();
        for (key, value) in &pairs {
            if self.pairs.get(key) != Some(value) {
                batch.insert(key.as_slice(), value.as_slice());
            }
        }
        for key in self.pairs.keys().filter(|key| !pairs.contains_key(*key)) {
            batch.remove(key.as_slice());
        }
        self.sled.call(|sled| {
            sled.database.apply_batch(batch)?;
            sled.database.flush()?;
            Ok(())
        })?;
        (self.pairs, self.sequence) = (pairs, sequence);
        Ok(())
    }
}

impl From<sled::Error> for ContentFault {
    fn from(error: sled::Error) -> ContentFault {
        match error {
            // A file that is too short is reported as an I/O error.
            sled::Error::Io(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                ContentFault::Io(error)
            }
            error => ContentFault::Damaged(error.to_string()),
        }
    }
}

impl fmt::Display for ContentFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContentFault::Missing => formatter.write_str("it is missing"),
            ContentFault::Damaged(what) => formatter.write_str(what),
            ContentFault::Version(version) => write!(formatter, "it has format version {version}"),
            ContentFault::Io(error) => IoReason(error).fmt(formatter),
        }
    }
}

/// Removes a catalog.
fn clear(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Fails where sled would use memory that it did not get.
fn reserve_address_space() -> Result<(), ContentFault> {
    // Never touched, so it takes no memory. The black box keeps the allocation from being optimized away.
    let mut space = Vec::<u8>::new();
    let reserved = space.try_reserve_exact(SLED_ADDRESS_SPACE);
    std::hint::black_box(&space);
    reserved.map_err(|_| {
        let size = SLED_ADDRESS_SPACE >> 20;
        ContentFault::Io(io::Error::new(
            io::ErrorKind::OutOfMemory,
            format!("out of memory: sled needs {size} MiB of address space"),
        ))
    })
}

fn open_database(path: &Path) -> Result<sled::Db, ContentFault> {
    let started = Instant::now();
    loop {
        let opened = sled::Config::new()
            .path(path)
            .segment_size(SLED_SEGMENT_SIZE)
            .cache_capacity(SLED_CACHE_SIZE)
            .flush_every_ms(None)
            .open();
        match opened {
            // Our own lock file keeps other processes out, so this is a handle that is being dropped.
            Err(sled::Error::Io(error))
                if error.to_string().starts_with("could not acquire lock")
                    && started.elapsed() < SLED_UNLOCK_TIME_MAX =>
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            other => return Ok(other?),
        }
    }
}

/// Returns when sled's threads have let go of its file.
fn wait_until_unlocked(db: &Path) -> io::Result<()> {
    let file = File::open(db)?;
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if started.elapsed() < SLED_UNLOCK_TIME_MAX => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// The pairs that stand for `corpora`: for each the record in chunks, keys (corpus, chunk number) big-endian, and the
/// manifest.
fn encode(corpora: &Corpora, sequence: u64) -> Pairs {
    let mut pairs = Pairs::new();
    let mut bytes = Vec::new();
    for (id, record) in corpora {
        bytes.clear();
        record.encode(&mut bytes);
        for (number, chunk) in (0_u32..).zip(bytes.chunks(CHUNK_SIZE_MAX)) {
            let key = [&id.to_be_bytes()[..], &number.to_be_bytes()].concat();
            let value = seal(&key, chunk);
            pairs.insert(key, value);
        }
    }
    let mut manifest = manifest_of(&pairs);
    manifest.extend(sequence.to_le_bytes());
    let manifest = seal(MANIFEST_KEY, &manifest);
    pairs.insert(MANIFEST_KEY.to_vec(), manifest);
    pairs
}

/// How many chunks there are and the CRC32 of all keys and values: the manifest without the sequence number.
fn manifest_of(chunks: &Pairs) -> Vec<u8> {
    let mut hasher = crc32fast::Hasher::new();
    for (key, value) in chunks {
        hasher.update(key);
        hasher.update(value);
    }
    let mut manifest = (chunks.len() as u64).to_le_bytes().to_vec();
    manifest.extend(hasher.finalize().to_le_bytes());
    manifest
}

fn seal(key: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(1 + payload.len() + 4);
    value.push(VERSION);
    value.extend(payload);
    value.extend(checksum(key, &value).to_le_bytes());
    value
}

fn checksum(key: &[u8], value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(value);
    hasher.finalize()
}

/// The version of a value and its payload.
fn unseal<'a>(key: &[u8], value: &'a [u8]) -> Result<(u8, &'a [u8]), ContentFault> {
    let damaged = || ContentFault::Damaged("a value has a wrong checksum".to_owned());
    let (content, crc) = value.split_last_chunk::<4>().ok_or_else(damaged)?;
    if checksum(key, content) != u32::from_le_bytes(*crc) {
        return Err(damaged());
    }
    match content {
        [version @ (1 | VERSION), payload @ ..] => Ok((*version, payload)),
        [version, ..] => Err(ContentFault::Version(*version)),
        [] => Err(damaged()),
    }
}

/// The corpora that `pairs` stand for, if they are exactly what [`encode`] made.
fn decode(pairs: &Pairs) -> Result<Content, ContentFault> {
    if pairs.is_empty() {
        return Err(ContentFault::Missing);
    }
    let damaged = |what: &str| ContentFault::Damaged(what.to_owned());
    let mut chunks = pairs.clone();
    let manifest = chunks
        .remove(MANIFEST_KEY)
        .ok_or_else(|| damaged("the manifest is missing"))?;
    let (version, manifest) = unseal(MANIFEST_KEY, &manifest)?;
    let (manifest, sequence) = match version {
        1 => (manifest, 0),
        _ => {
            let (manifest, sequence) = manifest
                .split_last_chunk::<8>()
                .ok_or_else(|| damaged("the manifest is too short"))?;
            (manifest, u64::from_le_bytes(*sequence))
        }
    };

    let mut records = BTreeMap::<u64, Vec<u8>>::new();
    for (key, value) in &chunks {
        let (_, payload) = unseal(key, value)?;
        let id = key
            .first_chunk::<8>()
            .ok_or_else(|| damaged("a key is too short"))?;
        // Keys are in order, so chunks come in order. Missing ones show in the manifest.
        let record = records.entry(u64::from_be_bytes(*id)).or_default();
        record.extend(payload);
    }
    if manifest_of(&chunks) != manifest {
        return Err(damaged("its values do not belong together"));
    }
    let mut corpora = Corpora::new();
    for (id, bytes) in records {
        let record = CorpusRecord::decode(&bytes).filter(|record| record.id == id);
        let record = record.ok_or_else(|| damaged("a corpus record makes no sense"))?;
        corpora.insert(id, record);
    }
    Ok(Content { corpora, sequence })
}

#[cfg(test)]
mod tests;
