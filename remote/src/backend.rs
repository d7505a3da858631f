//! A version of a remote database as files that can be read.
//!
//! Invariant: bytes that are given are those that were published: each block is compared with its checksum, wherever it comes
//! from. Blocks that follow one another are fetched by one request, and all that a read needs at once.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use zipfdb_storage::{Backend, BackendReader, Bytes as FileBytes};

use crate::blocks::{BLOCK_BYTES, SUM_BYTES, block_count};
use crate::cache::{BlockCache, BlockName};
use crate::store::{OBJECTS, RemoteStore, for_each};
use crate::version::{Version, VersionFile};
use crate::{Error, Result};

/// Bytes of one request at most.
const REQUEST_BYTES: u64 = 8 << 20;

/// Most fetches of a block that does not have its checksum.
const ATTEMPTS: u32 = 3;

/// Files whose beginnings and ends are fetched at once.
const FILES_AT_ONCE: usize = 16;

/// The files of a version.
#[derive(Debug)]
pub(crate) struct RemoteBackend {
    root: PathBuf,
    files: BTreeMap<PathBuf, Arc<RemoteFile>>,
    directories: BTreeSet<PathBuf>,
}

#[derive(Debug)]
struct RemoteFile {
    store: RemoteStore,
    cache: Arc<BlockCache>,
    object: Arc<str>,
    size: u64,
    sums_crc32: u32,
    sums: OnceLock<Vec<u32>>,
}

impl RemoteBackend {
    /// The files of a version, in a directory `root` that is nowhere else.
    pub(crate) fn new(
        store: &RemoteStore,
        version: &Version,
        cache: &Arc<BlockCache>,
        root: &Path,
    ) -> RemoteBackend {
        let file = |file: &VersionFile| RemoteFile {
            store: store.clone(),
            cache: cache.clone(),
            object: Arc::from(&file.object[..]),
            size: file.size,
            sums_crc32: file.sums_crc32,
            sums: OnceLock::new(),
        };
        let files: BTreeMap<PathBuf, Arc<RemoteFile>> = (version.files.iter())
            .map(|known| (root.join(&known.path), Arc::new(file(known))))
            .collect();
        let mut directories: BTreeSet<PathBuf> = (zipfdb_storage::Store::IMAGE_DIRECTORIES.iter())
            .map(|name| root.join(name))
            .collect();
        directories.insert(root.to_path_buf());
        RemoteBackend {
            root: root.to_path_buf(),
            files,
            directories,
        }
    }

    /// Fetches what opening reads: small files, and of others the first block, the last one and the checksums.
    pub(crate) fn fetch_edges(&self) -> Result<()> {
        let files: Vec<&Arc<RemoteFile>> = self.files.values().collect();
        for_each(&files, FILES_AT_ONCE, |file| {
            let blocks = block_count(file.size);
            file.sums()?;
            file.blocks(0..blocks.min(1)).map(drop)
        })
    }
}

impl RemoteFile {
    /// The checksum of each block. They stand behind the last block, which is fetched with them.
    fn sums(&self) -> Result<&[u32]> {
        if let Some(sums) = self.sums.get() {
            return Ok(sums);
        }
        let blocks = block_count(self.size);
        // The name of no block: its number is behind the last.
        let name: BlockName = (self.object.clone(), blocks);
        let is_right = |sums: &[u8]| crc32fast::hash(sums) == self.sums_crc32;
        let found = match self.cache.get(&name, is_right) {
            Some(sums) => sums,
            None => {
                let last = self.size
                    - self
                        .size
                        .min(self.block_range(blocks.saturating_sub(1)).start);
                let start = self.size - last;
                let end = self.size + blocks * SUM_BYTES;
                let tail = self.fetch(start..end, |tail| is_right(&tail[last as usize..]))?;
                let (block, sums) = (tail.slice(..last as usize), tail.slice(last as usize..));
                self.cache.put(&name, &sums);
                if blocks > 0 && crc32fast::hash(&block) == sum_at(&sums, blocks as usize - 1) {
                    self.cache.put(&(self.object.clone(), blocks - 1), &block);
                }
                sums
            }
        };
        let sums = (0..blocks as usize)
            .map(|block| sum_at(&found, block))
            .collect();
        Ok(self.sums.get_or_init(|| sums))
    }

    fn block_range(&self, block: u64) -> Range<u64> {
        let start = block * BLOCK_BYTES;
        start..(start + BLOCK_BYTES).min(self.size)
    }

    /// Some blocks that follow one another.
    fn blocks(&self, range: Range<u64>) -> Result<Vec<Bytes>> {
        let sums = self.sums()?;
        let name = |block: u64| -> BlockName { (self.object.clone(), block) };
        let is_right = |block: u64, bytes: &[u8]| {
            let range = self.block_range(block);
            bytes.len() as u64 == range.end - range.start
                && crc32fast::hash(bytes) == sums[block as usize]
        };
        let first = range.start;
        let mut found: Vec<Option<Bytes>> = range
            .clone()
            .map(|block| self.cache.get(&name(block), |bytes| is_right(block, bytes)))
            .collect();
        for attempt in 1.. {
            let runs = missing_runs(first, &found);
            if runs.is_empty() {
                break;
            }
            let bytes = |run: &Range<u64>| {
                self.block_range(run.start).start..self.block_range(run.end - 1).end
            };
            let ranges: Vec<Range<u64>> = runs.iter().map(bytes).collect();
            let answers = self.store.read_ranges(&self.object_name(), &ranges)?;
            let mut wrong = None;
            for (run, answer) in runs.into_iter().zip(answers) {
                let start = self.block_range(run.start).start;
                for block in run {
                    let range = self.block_range(block);
                    let range = (range.start - start) as usize..(range.end - start) as usize;
                    // A copy: a slice would keep the whole answer.
                    match answer.get(range).filter(|bytes| is_right(block, bytes)) {
                        Some(bytes) => {
                            let bytes = Bytes::copy_from_slice(bytes);
                            self.cache.put(&name(block), &bytes);
                            found[(block - first) as usize] = Some(bytes);
                        }
                        None => wrong = Some(block),
                    }
                }
            }
            if let Some(block) = wrong
                && attempt == ATTEMPTS
            {
                let fault = format!("block {block} has a wrong checksum");
                return Err(self.store.corrupt(&self.object_name(), fault));
            }
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Bytes of the object that pass a test.
    fn fetch(&self, range: Range<u64>, is_right: impl Fn(&[u8]) -> bool) -> Result<Bytes> {
        let size = range.end - range.start;
        if size == 0 {
            return Ok(Bytes::new());
        }
        for _ in 0..ATTEMPTS {
            let found = self
                .store
                .read_ranges(&self.object_name(), slice::from_ref(&range))?;
            let found = found.into_iter().next().unwrap_or_default();
            if found.len() as u64 == size && is_right(&found) {
                return Ok(found);
            }
        }
        let fault = "its checksums are damaged, or the object is not whole";
        Err(self.store.corrupt(&self.object_name(), fault))
    }

    fn object_name(&self) -> String {
        format!("{OBJECTS}/{}", self.object)
    }

    fn read(&self, offset: u64, size: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(size as usize);
        let end = offset + size;
        let mut start = offset;
        while start < end {
            let first = start / BLOCK_BYTES;
            let stop = end.min((first + REQUEST_BYTES / BLOCK_BYTES) * BLOCK_BYTES);
            for (block, content) in (first..).zip(self.blocks(first..stop.div_ceil(BLOCK_BYTES))?) {
                let base = block * BLOCK_BYTES;
                let from = start.saturating_sub(base).min(content.len() as u64);
                let to = (stop - base).min(content.len() as u64);
                bytes.extend_from_slice(&content[from as usize..to as usize]);
            }
            start = stop;
        }
        Ok(bytes)
    }
}

fn sum_at(sums: &[u8], block: usize) -> u32 {
    let bytes = sums[block * 4..].first_chunk::<4>();
    u32::from_le_bytes(*bytes.expect("there is a checksum for each block"))
}

/// Blocks that are missing, those that follow one another together.
fn missing_runs(first: u64, found: &[Option<Bytes>]) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for (block, _) in (first..).zip(found).filter(|(_, found)| found.is_none()) {
        match runs.last_mut() {
            Some(run) if run.end == block => run.end += 1,
            _ => runs.push(block..block + 1),
        }
    }
    runs
}

impl BackendReader for RemoteFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, size: u64) -> io::Result<FileBytes> {
        if offset.checked_add(size).is_none_or(|end| end > self.size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read(offset, size)
            .map(FileBytes::from)
            .map_err(Error::into_io)
    }
}

impl Backend for RemoteBackend {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn BackendReader>> {
        match self.files.get(path) {
            Some(file) => Ok(file.clone()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        if !self.directories.contains(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let files = self.files.keys();
        let directories = self.directories.iter().filter(|known| **known != self.root);
        let inside = files
            .chain(directories)
            .filter(|known| known.parent() == Some(path));
        let mut names: Vec<OsString> = inside
            .filter_map(|known| Some(known.file_name()?.to_owned()))
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.files.contains_key(path) || self.directories.contains(path))
    }

    fn is_file_system(&self) -> bool {
        false
    }
}
