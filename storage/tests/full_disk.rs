//! A full disk: the database opens, says what is wrong, and can be made smaller.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::scenario::{
    self, CREATE, State, Step, WRITE, build, contents, observe, reopen, scratch,
};
use zipfdb_storage::{
    Backend, BackendFile, BackendReader, Durability, Error, FileBackend, HeldDirectory, Store,
};

/// Bytes of a block: a disk gives files whole blocks.
const BLOCK_SIZE: usize = 4096;

/// The file system, on a disk with a fixed number of blocks. Files of sled take none.
#[derive(Clone, Debug)]
struct SmallDisk {
    blocks: Arc<Mutex<Blocks>>,
    inner: Arc<dyn Backend>,
}

#[derive(Debug, Default)]
struct Blocks {
    free: usize,
    /// Bytes of each file.
    sizes: BTreeMap<PathBuf, usize>,
}

impl Blocks {
    fn forget(&mut self, path: &Path) {
        let size = self.sizes.remove(path).unwrap_or(0);
        self.free += size.div_ceil(BLOCK_SIZE);
    }
}

impl SmallDisk {
    /// With `free` blocks free beside what is in `path`.
    fn new(path: &Path, free: usize) -> SmallDisk {
        let files = contents(path).into_iter();
        let sizes = files.map(|(path, bytes)| (path, bytes.len())).collect();
        SmallDisk {
            blocks: Arc::new(Mutex::new(Blocks { free, sizes })),
            inner: Arc::new(FileBackend),
        }
    }

    fn set_free(&self, blocks: usize) {
        self.blocks.lock().unwrap().free = blocks;
    }

    fn free(&self) -> usize {
        self.blocks.lock().unwrap().free
    }
}

struct SmallDiskFile {
    disk: SmallDisk,
    path: PathBuf,
    inner: Box<dyn BackendFile>,
}

impl Write for SmallDiskFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut blocks = self.disk.blocks.lock().unwrap();
        let size = blocks.sizes.get(&self.path).copied().unwrap_or(0);
        let room = size.next_multiple_of(BLOCK_SIZE) - size + blocks.free * BLOCK_SIZE;
        if room == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let written = self.inner.write(&bytes[..bytes.len().min(room)])?;
        let new = (size + written).div_ceil(BLOCK_SIZE) - size.div_ceil(BLOCK_SIZE);
        blocks.free -= new;
        blocks.sizes.insert(self.path.clone(), size + written);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl BackendFile for SmallDiskFile {
    fn sync(&mut self) -> io::Result<()> {
        self.inner.sync()
    }
}

impl Backend for SmallDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn BackendReader>> {
        self.inner.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn BackendFile>> {
        Ok(Box::new(SmallDiskFile {
            disk: self.clone(),
            path: path.to_path_buf(),
            inner: self.inner.create(path)?,
        }))
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.inner.sync_file(path)
    }

    fn rename(&self, source: &Path, target: &Path) -> io::Result<()> {
        self.inner.rename(source, target)?;
        let mut blocks = self.blocks.lock().unwrap();
        blocks.forget(target);
        if let Some(size) = blocks.sizes.remove(source) {
            blocks.sizes.insert(target.to_path_buf(), size);
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)?;
        self.blocks.lock().unwrap().forget(path);
        Ok(())
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.inner.create_directory(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.inner.sync_directory(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.inner.list(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }

    fn within(&self, directory: &Arc<HeldDirectory>) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(SmallDisk {
            blocks: Arc::clone(&self.blocks),
            inner: self.inner.within(directory)?,
        }))
    }

    fn outward_path(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.outward_path(path)
    }
}

fn prepared_steps() -> Vec<Step> {
    vec![
        Step::Create("a"),
        Step::publish("a", &["a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9"]),
        Step::Create("bb"),
        Step::publish("bb", &["b1", "b2"]),
        Step::commit(Durability::Full, &[("bb", &["b3", "b4"])]),
    ]
}

fn deletion(file: &str) -> Step {
    Step::commit(Durability::Full, &[("bb", &[file])])
}

fn is_full(error: &Error) -> bool {
    let message = error.to_string();
    matches!(error, Error::Full { .. })
        && message.contains("no room for more text: No space left on device; hint: make room")
}

/// Adds text until that is refused, which must do no harm.
fn fill(store: &Store, state: &mut State) {
    for number in 0.. {
        let name = format!("f{number:03}");
        let step = Step::commit(Durability::Full, &[("bb", &[&name])]);
        match step.perform(store) {
            Ok(()) => step.apply(state),
            Err(error) => {
                assert!(is_full(&error), "{error}");
                break;
            }
        }
        assert!(number < 1000);
    }
    let refused = [
        store.create_corpus("x", scenario::settings("x")).err(),
        store.begin_publication("bb").err(),
    ];
    for error in refused {
        assert!(is_full(&error.unwrap()));
    }
    assert_eq!(&observe(store), state);
}

#[test]
fn on_a_full_disk_text_is_refused_and_can_be_deleted() {
    let directory = scratch();
    let path = directory.path().join("a.zdb");
    build(&path, &prepared_steps());
    let disk = SmallDisk::new(&path, 100);
    let backend = || Arc::new(disk.clone());
    let store = Store::open_with(backend(), &path, WRITE).unwrap();
    let mut state = observe(&store);
    disk.set_free(0);
    fill(&store, &mut state);

    // Small commits that delete, then a recompression of little, then a corpus.
    for step in [deletion("-b1"), deletion("-b3"), Step::Recompress("bb")] {
        step.perform(&store).unwrap();
        step.apply(&mut state);
        assert_eq!(observe(&store), state);
    }
    drop(store);
    assert!(disk.free() < 16, "what was kept in reserve, in part");
    let store = Store::open_with(backend(), &path, WRITE).unwrap();
    assert_eq!(store.warnings(), [""; 0]);
    assert_eq!(observe(&store), state);
    let step = Step::Drop("a");
    step.perform(&store).unwrap();
    step.apply(&mut state);

    // Nine segments made room enough to go on.
    assert!(disk.free() > 0);
    let step = Step::publish("bb", &["b5"]);
    step.perform(&store).unwrap();
    step.apply(&mut state);
    drop(store);
    assert_eq!(reopen(&path), state);
}

#[test]
fn a_database_that_was_closed_on_a_full_disk_opens_there_and_shrinks() {
    let directory = scratch();
    let path = directory.path().join("a.zdb");
    build(&path, &prepared_steps());
    let disk = SmallDisk::new(&path, 0);
    let backend = || Arc::new(disk.clone());
    let mut state = reopen(&path);
    for step in [deletion("-b2"), deletion("-b4"), Step::Drop("a")] {
        // In a new file of the log each time, and the manifest replaced.
        let store = Store::open_with(backend(), &path, CREATE).unwrap();
        step.perform(&store).unwrap();
        step.apply(&mut state);
        assert_eq!(observe(&store), state);
        drop(store);
    }
    assert_eq!(reopen(&path), state);
}

/// A commit that is too large for the disk fails half written; what was kept in reserve is there afterwards.
#[test]
fn a_commit_that_fills_the_disk_leaves_room_to_delete() {
    let directory = scratch();
    let path = directory.path().join("a.zdb");
    build(&path, &prepared_steps());
    let mut state = reopen(&path);
    let disk = SmallDisk::new(&path, 4);
    let backend = || Arc::new(disk.clone());
    let store = Store::open_with(backend(), &path, WRITE).unwrap();
    let names: Vec<String> = (0..400).map(|number| format!("{number:0200}")).collect();
    let step = Step::Commit(Durability::Full, vec![("bb", names)]);
    let error = step.perform(&store).unwrap_err();
    let message = error.to_string();
    assert!(
        message.ends_with("cannot write: No space left on device"),
        "{message}"
    );
    let error = deletion("-b1").perform(&store).unwrap_err();
    assert!(matches!(error, Error::Poisoned { .. }), "{error}");
    // What follows from a failure says what that was.
    assert!(error.to_string().contains(&message), "{error}");
    drop(store);

    assert!(disk.free() <= 4);
    let store = Store::open_with(backend(), &path, WRITE).unwrap();
    for step in [deletion("-b1"), Step::Drop("a")] {
        step.perform(&store).unwrap();
        step.apply(&mut state);
    }
    assert_eq!(observe(&store), state);
    drop(store);
    assert_eq!(reopen(&path), state);
}
