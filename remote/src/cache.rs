//! Blocks of objects that were fetched, in memory and in a folder, least recently used ones going first.
//!
//! Invariant: a block that the cache gives has passed the test of its reader, which compares checksums; one that does not pass
//! is removed. Blocks take no more than the limits; a folder may be shared between processes,
//! each of which keeps to the limit as far as it has seen the folder.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::Result;
use crate::error::io_error;

/// The end of the name of a file of the cache.
const SUFFIX: &str = ".block";
/// The end of the name of a file that is being written.
const TEMPORARY_SUFFIX: &str = ".tmp";
/// A file begun longer ago than this is left over from a process that was killed.
const LEFT_OVER_AFTER: Duration = Duration::from_hours(1);

/// How blocks are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// Bytes of blocks in memory, beside what `memory_limit` says.
    pub memory_bytes: u64,
    /// A folder for blocks, which is created, and the bytes in it; none if they are kept in memory only.
    pub folder: Option<(PathBuf, u64)>,
}

impl Default for CacheOptions {
    /// 64 MiB in memory.
    fn default() -> Self {
        CacheOptions {
            memory_bytes: 64 << 20,
            folder: None,
        }
    }
}

/// Blocks by object and number.
#[derive(Debug)]
pub(crate) struct BlockCache {
    memory: Mutex<Recent<Bytes>>,
    folder: Option<Folder>,
}

/// What blocks are called: the object and the number of the block.
pub(crate) type BlockName = (Arc<str>, u64);

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    state: Mutex<FolderState>,
}

#[derive(Debug)]
struct FolderState {
    known: Recent<()>,
    /// Bytes put there since the folder was listed.
    added: u64,
}

/// Items of some bytes each, those used last kept.
#[derive(Debug)]
struct Recent<V> {
    limit: u64,
    used: u64,
    tick: u64,
    items: HashMap<BlockName, (V, u64, u64)>,
    order: BTreeMap<u64, BlockName>,
}

impl<V> Recent<V> {
    fn new(limit: u64) -> Recent<V> {
        Recent {
            limit,
            used: 0,
            tick: 0,
            items: HashMap::new(),
            order: BTreeMap::new(),
        }
    }

    /// An item, which is the one used last now.
    fn get(&mut self, name: &BlockName) -> Option<&V> {
        let (value, _, tick) = self.items.get_mut(name)?;
        self.order.remove(tick);
        self.tick += 1;
        *tick = self.tick;
        self.order.insert(self.tick, name.clone());
        Some(value)
    }

    /// Puts an item, and gives those that have to go.
    fn put(&mut self, name: BlockName, value: V, bytes: u64) -> Vec<BlockName> {
        self.remove(&name);
        self.tick += 1;
        self.used += bytes;
        self.order.insert(self.tick, name.clone());
        self.items.insert(name, (value, bytes, self.tick));
        let mut gone = Vec::new();
        while self.used > self.limit
            && let Some((_, name)) = self.order.first_key_value()
        {
            let name = name.clone();
            self.remove(&name);
            gone.push(name);
        }
        gone
    }

    fn remove(&mut self, name: &BlockName) {
        if let Some((_, bytes, tick)) = self.items.remove(name) {
            self.used -= bytes;
            self.order.remove(&tick);
        }
    }
}

impl BlockCache {
    /// Takes up what is in the folder.
    ///
    /// # Errors
    /// [`crate::Error::Io`] if the folder cannot be created or listed.
    pub(crate) fn new(options: &CacheOptions) -> Result<BlockCache> {
        let folder = match &options.folder {
            None => None,
            Some((path, limit)) => {
                fs::create_dir_all(path).map_err(io_error(path, "create"))?;
                let state = FolderState {
                    known: Recent::new(*limit),
                    added: 0,
                };
                let folder = Folder {
                    path: path.clone(),
                    state: Mutex::new(state),
                };
                folder
                    .list(&mut folder.state.lock())
                    .map_err(io_error(path, "list"))?;
                Some(folder)
            }
        };
        Ok(BlockCache {
            memory: Mutex::new(Recent::new(options.memory_bytes)),
            folder,
        })
    }

    /// A block, if it is there and passes the test; one that does not is removed.
    pub(crate) fn get(&self, name: &BlockName, is_right: impl Fn(&[u8]) -> bool) -> Option<Bytes> {
        if let Some(block) = self.memory.lock().get(name) {
            return Some(block.clone());
        }
        let block = self.folder.as_ref()?.read(name)?;
        if !is_right(&block) {
            tracing::warn!(
                "block {} of {}: the cache has a damaged one",
                name.1,
                name.0
            );
            self.folder.as_ref()?.remove(name);
            return None;
        }
        let block = Bytes::from(block);
        self.keep(name, &block);
        Some(block)
    }

    /// Keeps a block. A folder that cannot be written costs time, and is no error.
    pub(crate) fn put(&self, name: &BlockName, block: &Bytes) {
        self.keep(name, block);
        if let Some(folder) = &self.folder
            && let Err(error) = folder.write(name, block)
        {
            tracing::warn!("{}: cannot keep a block: {error}", folder.path.display());
        }
    }

    fn keep(&self, name: &BlockName, block: &Bytes) {
        self.memory
            .lock()
            .put(name.clone(), block.clone(), block.len() as u64);
    }
}

impl Folder {
    fn path_of(&self, name: &BlockName) -> PathBuf {
        self.path.join(format!("{}.{}{SUFFIX}", name.0, name.1))
    }

    fn read(&self, name: &BlockName) -> Option<Vec<u8>> {
        // One that another process has fetched since is not known here, but read all the same.
        let block = fs::read(self.path_of(name)).ok();
        let mut state = self.state.lock();
        match &block {
            Some(block) if state.known.get(name).is_none() => {
                let gone = state.known.put(name.clone(), (), block.len() as u64);
                gone.iter().for_each(|name| self.unlink(name));
            }
            Some(_) => {}
            None => state.known.remove(name),
        }
        block
    }

    /// Under a name of its own first: another process may read it while it is written.
    fn write(&self, name: &BlockName, block: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock();
        if block.len() as u64 > state.known.limit {
            return Ok(());
        }
        state.added += block.len() as u64;
        if state.added > state.known.limit / 8 {
            self.list(&mut state)?;
        }
        let gone = state.known.put(name.clone(), (), block.len() as u64);
        drop(state);
        gone.iter().for_each(|name| self.unlink(name));
        let temporary = format!("{}{TEMPORARY_SUFFIX}", Uuid::new_v4().simple());
        let temporary = self.path.join(temporary);
        let written = fs::File::create(&temporary)
            .and_then(|mut file| file.write_all(block))
            .and_then(|()| fs::rename(&temporary, self.path_of(name)));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
            self.state.lock().known.remove(name);
        }
        written
    }

    fn remove(&self, name: &BlockName) {
        self.state.lock().known.remove(name);
        self.unlink(name);
    }

    /// What is not there need not go.
    fn unlink(&self, name: &BlockName) {
        let _ = fs::remove_file(self.path_of(name));
    }

    /// Takes up what is in the folder and not known, as if it had been used when it was written, and removes what was left over.
    fn list(&self, state: &mut FolderState) -> io::Result<()> {
        state.added = 0;
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            // Another process may remove it meanwhile.
            let Ok(meta) = entry.metadata() else {
                continue;
            };
            let Some(name) = name_of(&entry.path()) else {
                if is_left_over(&entry.path(), &meta) {
                    let _ = fs::remove_file(entry.path());
                }
                continue;
            };
            found.push((meta.modified()?, name, meta.len()));
        }
        found.sort_by_key(|(modified, ..)| *modified);
        // Known blocks were used here: they come last.
        let (known, new): (Vec<_>, Vec<_>) = found
            .into_iter()
            .partition(|(_, name, _)| state.known.items.contains_key(name));
        let mut order: Vec<(BlockName, u64)> = new
            .into_iter()
            .map(|(_, name, size)| (name, size))
            .collect();
        let is_there: HashMap<BlockName, u64> = known
            .into_iter()
            .map(|(_, name, size)| (name, size))
            .collect();
        let used = state.known.order.values();
        order.extend(used.filter_map(|name| Some((name.clone(), *is_there.get(name)?))));
        state.known = Recent::new(state.known.limit);
        for (name, size) in order {
            let gone = state.known.put(name, (), size);
            gone.iter().for_each(|name| self.unlink(name));
        }
        Ok(())
    }
}

/// Whether a file was being written by a process that is no more.
fn is_left_over(path: &Path, meta: &fs::Metadata) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    let id = name.and_then(|name| name.strip_suffix(TEMPORARY_SUFFIX));
    let age = meta
        .modified()
        .ok()
        .and_then(|modified| modified.elapsed().ok());
    id.is_some_and(|id| Uuid::try_parse(id).is_ok()) && age.is_some_and(|age| age > LEFT_OVER_AFTER)
}

/// The block that a file of the folder holds.
fn name_of(path: &Path) -> Option<BlockName> {
    let (object, number) = path
        .file_name()?
        .to_str()?
        .strip_suffix(SUFFIX)?
        .split_once('.')?;
    Some((object.into(), number.parse().ok()?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    fn name(number: u64) -> BlockName {
        ("object".into(), number)
    }

    fn folder_bytes(path: &Path) -> u64 {
        let files = fs::read_dir(path).unwrap();
        files
            .map(|file| file.unwrap().metadata().unwrap().len())
            .sum()
    }

    #[test]
    fn blocks_used_last_are_kept_within_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let options = CacheOptions {
            memory_bytes: 0,
            folder: Some((folder.path().to_path_buf(), 1000)),
        };
        let cache = BlockCache::new(&options).unwrap();
        for number in 0..20 {
            cache.put(&name(number), &vec![number as u8; 100].into());
            assert!(cache.get(&name(0), |_| true).is_some(), "{number}");
            assert!(folder_bytes(folder.path()) <= 1000);
        }
        assert!(cache.get(&name(5), |_| true).is_none());
        let again = BlockCache::new(&options).unwrap();
        assert_eq!(again.get(&name(19), |_| true).unwrap(), vec![19; 100]);
        let smaller = CacheOptions {
            folder: Some((folder.path().to_path_buf(), 300)),
            ..options
        };
        drop(BlockCache::new(&smaller).unwrap());
        assert_eq!(folder_bytes(folder.path()), 300);
    }

    #[test]
    fn a_damaged_block_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let options = CacheOptions {
            memory_bytes: 0,
            folder: Some((folder.path().to_path_buf(), 1000)),
        };
        let cache = BlockCache::new(&options).unwrap();
        cache.put(&name(1), &vec![1; 100].into());
        assert!(cache.get(&name(1), |_| false).is_none());
        assert!(cache.get(&name(1), |_| true).is_none());
        assert_eq!(folder_bytes(folder.path()), 0);
    }

    #[test]
    fn what_a_killed_process_left_over_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, age: Duration| {
            let path = folder.path().join(name);
            let file = fs::File::create(&path).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
            path
        };
        let id = Uuid::nil().simple();
        let old = make(&format!("{id}.tmp"), 2 * LEFT_OVER_AFTER);
        let kept = [
            make(&format!("{}.tmp", Uuid::max().simple()), Duration::ZERO),
            make("notes.tmp", 2 * LEFT_OVER_AFTER),
        ];
        let options = CacheOptions {
            memory_bytes: 0,
            folder: Some((folder.path().to_path_buf(), 1000)),
        };
        drop(BlockCache::new(&options).unwrap());
        assert!(!old.exists());
        assert!(kept.iter().all(|path| path.exists()));
    }

    #[test]
    fn two_that_share_a_folder_keep_to_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let options = CacheOptions {
            memory_bytes: 0,
            folder: Some((folder.path().to_path_buf(), 1000)),
        };
        let caches = [&options, &options].map(|options| BlockCache::new(options).unwrap());
        for number in 0..100 {
            caches[number as usize % 2].put(&name(number), &vec![0; 100].into());
            // Each has seen what the other one put there before an eighth of the limit.
            assert!(folder_bytes(folder.path()) <= 1000 + 2 * 200);
        }
    }
}
