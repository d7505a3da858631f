//! The catalog: which corpora there are, with which settings and which live segments. The only module that knows sled.
//!
//! Invariant: what [`Catalog::open`] returns is a state that [`Catalog::store`] was given once, whole and unchanged;
//! anything else is a [`Fault`]. sled alone does not promise that, so every value carries a version and its own CRC32,
//! and one more value, the manifest, covers all of them together. Which of the states given it is (a damaged log may
//! lose its end and so bring back an older one) is not known here: recovery compares it with the segment files.
//!
//! It deliberately holds nothing that other files could not tell again, and does not repair itself.
//!
//! sled's ways that matter here, all measured with 0.34.7: its `flush` uses `sync_file_range` and does not survive a
//! power cut, so the file is synced again after each one; a value over a quarter of `SLED_SEGMENT_SIZE` goes to a file
//! of its own that is never synced, so records are stored in short chunks; a database that was just dropped may stay
//! locked for some milliseconds. The first write starts its threads (`sled-io-*`), which stay until the process ends.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backend::Backend;
use crate::{Error, Result};

pub(crate) mod record;

pub use record::CorpusRecord;

/// All corpora by their number.
pub(crate) type Corpora = BTreeMap<u64, CorpusRecord>;

/// sled's unit of allocation, and so the size of a small catalog. 4 KiB would send full nodes to files of their own.
const SLED_SEGMENT_SIZE: usize = 8 << 10;

/// More than a catalog of ten thousand segments needs.
const SLED_CACHE_SIZE: u64 = 1 << 20;

/// How long another handle in this process may take to let go of a database after it was dropped.
const SLED_UNLOCK_TIME_MAX: Duration = Duration::from_secs(5);

/// The version of the values. It stands first in each of them.
pub(crate) const VERSION: u8 = 1;

/// Payload of a chunk. 17 of them, the most sled keeps in a node, stay far below a quarter of its segment size.
const CHUNK_SIZE_MAX: usize = 56;

/// The key of the manifest. Chunk keys have 12 bytes.
const MANIFEST_KEY: &[u8] = b"manifest";

/// Keys and values as sled has them.
type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Why a catalog could not be opened.
#[derive(Debug)]
pub(crate) enum Fault {
    /// There is none, or an empty one: nothing was ever stored.
    Missing,
    /// There is one and it cannot be trusted. What is wrong, in words.
    Damaged(String),
    /// Values of a version of a later release: not damage, and not to be replaced.
    Version(u8),
    /// The operating system refused; the catalog itself may well be good.
    Io(io::Error),
    /// There is no place for the copy that a reader needs.
    NoCopy(io::Error),
}

/// The catalog of a database that is open for writing.
pub(crate) struct Catalog {
    backend: Arc<dyn Backend>,
    path: PathBuf,
    database: sled::Db,
    /// What the database holds.
    pairs: Pairs,
}

impl fmt::Debug for Catalog {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Catalog({})", self.path.display())
    }
}

impl Catalog {
    /// Opens the catalog in the directory `path` and reads all of it.
    ///
    /// sled repairs and rewrites its files when it opens them, so they are synced before this returns.
    pub(crate) fn open(
        backend: Arc<dyn Backend>,
        path: &Path,
    ) -> std::result::Result<(Catalog, Corpora), Fault> {
        if !backend.exists(path).map_err(Fault::Io)? {
            return Err(Fault::Missing);
        }
        let database = open_database(path)?;
        let pairs = read_pairs(&database)?;
        let corpora = decode(&pairs)?;
        let catalog = Catalog {
            backend,
            path: path.to_path_buf(),
            database,
            pairs,
        };
        catalog.sync_all().map_err(Fault::Io)?;
        Ok((catalog, corpora))
    }

    /// Creates a catalog in the directory `path`, which must not exist or be an empty catalog, and stores `corpora`.
    pub(crate) fn create(
        backend: Arc<dyn Backend>,
        path: &Path,
        corpora: &Corpora,
    ) -> Result<Catalog> {
        let failed = |source| Error::Io {
            path: path.to_path_buf(),
            action: "create the catalog",
            source,
        };
        backend.create_directory(path).map_err(failed)?;
        let database = open_database(path).map_err(|fault| failed(fault.into_io()))?;
        let mut catalog = Catalog {
            backend,
            path: path.to_path_buf(),
            database,
            pairs: Pairs::new(),
        };
        catalog.store(corpora)?;
        catalog.sync_all().map_err(failed)?;
        Ok(catalog)
    }

    /// Makes `corpora` the content of the catalog: all of it or, on an error or a crash, what it was before.
    ///
    /// Durable when it returns. After an error the catalog must not be used again: sled may hold either state.
    pub(crate) fn store(&mut self, corpora: &Corpora) -> Result<()> {
        let pairs = encode(corpora);
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
        let failed = |source| Error::Io {
            path: self.path.clone(),
            action: "write the catalog",
            source,
        };
        guarded(|| {
            self.database.apply_batch(batch)?;
            self.database.flush()
        })
        .map_err(|fault| failed(fault.into_io()))?;
        self.backend
            .sync_file(&self.path.join("db"))
            .map_err(failed)?;
        self.pairs = pairs;
        Ok(())
    }

    /// Syncs every file of sled's directory and the directory itself.
    fn sync_all(&self) -> io::Result<()> {
        for name in self.backend.list(&self.path)? {
            let path = self.path.join(name);
            if path.is_file() {
                self.backend.sync_file(&path)?;
            }
        }
        self.backend.sync_directory(&self.path)
    }
}

/// Reads the catalog in the directory `path` without writing there, even while another process writes to it.
///
/// sled cannot open read-only, so it opens a copy in a temporary directory. A copy made while the files changed is
/// made again; one that is torn after all is damaged or an older state, as after a crash.
pub(crate) fn read_only(path: &Path) -> std::result::Result<Corpora, Fault> {
    let files = read_files_at_rest(path)?;
    let copy = tempfile::Builder::new()
        .prefix("zipfdb-catalog-")
        .tempdir()
        .map_err(Fault::NoCopy)?;
    for (name, bytes) in files {
        fs::write(copy.path().join(name), bytes).map_err(Fault::NoCopy)?;
    }
    let database = open_database(copy.path())?;
    decode(&read_pairs(&database)?)
}

/// The files of sled's directory (it has no subdirectory that we use), read until two reads agree.
fn read_files_at_rest(path: &Path) -> std::result::Result<BTreeMap<PathBuf, Vec<u8>>, Fault> {
    let mut last = None;
    for _ in 0..20 {
        let files = match read_files(path) {
            // A snapshot may be replaced between listing and reading.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if !path.try_exists().map_err(Fault::Io)? {
                    return Err(Fault::Missing);
                }
                None
            }
            Err(error) => return Err(Fault::Io(error)),
            Ok(files) => Some(files),
        };
        if files.is_some() && files == last {
            break;
        }
        if last.is_some() {
            std::thread::sleep(Duration::from_millis(1));
        }
        last = files;
    }
    last.ok_or_else(|| Fault::Damaged("its files change all the time".to_owned()))
}

fn read_files(path: &Path) -> io::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            files.insert(entry.file_name().into(), fs::read(entry.path())?);
        }
    }
    Ok(files)
}

impl Fault {
    /// For where damage cannot be: in a catalog just created.
    fn into_io(self) -> io::Error {
        match self {
            Fault::Io(error) | Fault::NoCopy(error) => error,
            other => io::Error::other(other.to_string()),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Missing => formatter.write_str("it is missing"),
            Fault::Damaged(what) => formatter.write_str(what),
            Fault::Version(version) => write!(formatter, "it has format version {version}"),
            Fault::Io(error) | Fault::NoCopy(error) => error.fmt(formatter),
        }
    }
}

fn open_database(path: &Path) -> std::result::Result<sled::Db, Fault> {
    let started = Instant::now();
    loop {
        let opened = guarded(|| {
            sled::Config::new()
                .path(path)
                .segment_size(SLED_SEGMENT_SIZE)
                .cache_capacity(SLED_CACHE_SIZE)
                .flush_every_ms(None)
                .open()
        });
        match opened {
            // Our own lock file keeps other processes out, so this is a handle that is being dropped.
            Err(Fault::Io(error))
                if error.to_string().starts_with("could not acquire lock")
                    && started.elapsed() < SLED_UNLOCK_TIME_MAX =>
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            other => return other,
        }
    }
}

fn read_pairs(database: &sled::Db) -> std::result::Result<Pairs, Fault> {
    guarded(|| {
        database
            .iter()
            .map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())))
            .collect()
    })
}

/// Runs something of sled's. A panic, which its code answers damage with in places, is an error like others.
fn guarded<T>(run: impl FnOnce() -> sled::Result<T>) -> std::result::Result<T, Fault> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(value)) => Ok(value),
        // A file that is too short is reported as an I/O error.
        Ok(Err(sled::Error::Io(error))) if error.kind() != io::ErrorKind::UnexpectedEof => {
            Err(Fault::Io(error))
        }
        Ok(Err(error)) => Err(Fault::Damaged(error.to_string())),
        Err(panic) => {
            let message = (panic.downcast_ref::<String>().map(String::as_str))
                .or_else(|| panic.downcast_ref::<&str>().copied());
            Err(Fault::Damaged(format!(
                "sled panicked: {}",
                message.unwrap_or("no message")
            )))
        }
    }
}

/// The pairs that stand for `corpora`: for each the record in chunks, keys (corpus, chunk number) big-endian, and the
/// manifest.
fn encode(corpora: &Corpora) -> Pairs {
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
    let manifest = seal(MANIFEST_KEY, &manifest_of(&pairs));
    pairs.insert(MANIFEST_KEY.to_vec(), manifest);
    pairs
}

/// How many chunks there are and the CRC32 of all keys and values.
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

fn unseal<'a>(key: &[u8], value: &'a [u8]) -> std::result::Result<&'a [u8], Fault> {
    let damaged = || Fault::Damaged("a value has a wrong checksum".to_owned());
    let (content, crc) = value.split_last_chunk::<4>().ok_or_else(damaged)?;
    if checksum(key, content) != u32::from_le_bytes(*crc) {
        return Err(damaged());
    }
    match content {
        [VERSION, payload @ ..] => Ok(payload),
        [version, ..] => Err(Fault::Version(*version)),
        [] => Err(damaged()),
    }
}

/// The corpora that `pairs` stand for, if they are exactly what [`encode`] made.
fn decode(pairs: &Pairs) -> std::result::Result<Corpora, Fault> {
    if pairs.is_empty() {
        return Err(Fault::Missing);
    }
    let damaged = |what: &str| Fault::Damaged(what.to_owned());
    let mut chunks = pairs.clone();
    let manifest = chunks
        .remove(MANIFEST_KEY)
        .ok_or_else(|| damaged("the manifest is missing"))?;
    let manifest = unseal(MANIFEST_KEY, &manifest)?;

    let mut records = BTreeMap::<u64, Vec<u8>>::new();
    for (key, value) in &chunks {
        let payload = unseal(key, value)?;
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
    Ok(corpora)
}

#[cfg(test)]
mod tests;
