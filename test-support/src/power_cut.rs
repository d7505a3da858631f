//! A disk that loses power: what was synced is there afterwards, and by chance some of the rest.
//!
//! The invariant: [`PowerCut`] changes nothing but the directory below it, real or in memory, and what [`Disk::restore`]
//! writes is a state that this directory could have had on a real disk. It knows nothing of databases.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use zipfdb_storage::{Backend, BackendFile, BackendReader, FileBackend, HeldDirectory};

use crate::harness::Random;

/// What a disk writes as a whole or not at all.
const SECTOR_SIZE: usize = 512;

/// A file or directory, whatever its name is at the moment.
pub type Node = u64;

/// A change to the names in a directory.
#[derive(Clone, Debug)]
enum Change {
    Add(OsString, Node),
    Remove(OsString),
    Rename(OsString, OsString),
}

/// A directory as it is on the disk, and changes that only the system's memory has.
#[derive(Clone, Debug, Default)]
struct Entries {
    durable: BTreeMap<OsString, Node>,
    pending: Vec<Change>,
}

/// What a disk would hold: the content of a file as of its last sync, the names in a directory as of its last sync.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    nodes: Node,
    /// Paths as the running program sees them.
    pub live: BTreeMap<PathBuf, Node>,
    content: BTreeMap<Node, Vec<u8>>,
    directories: BTreeMap<Node, Entries>,
    /// The power goes off, or the process is killed, when this many syncs were done.
    pub syncs_left: u32,
    /// Whether it is the process that ends: the system's memory then keeps what was not synced.
    pub kill: bool,
    /// The process was killed.
    pub killed: bool,
    /// All files as they were in the system's memory at that moment.
    pub last: Option<BTreeMap<PathBuf, Vec<u8>>>,
}

/// A backend on a directory of another one that keeps account of what a power cut would leave.
///
/// Once the power is off, every operation fails and nothing changes any more. The catalog's files are written by
/// others; their content is taken when they are synced through here.
#[derive(Debug)]
pub struct PowerCut {
    inner: Arc<dyn Backend>,
    /// The backend of `root` itself.
    outer: Arc<dyn Backend>,
    root: PathBuf,
    pub disk: Arc<Mutex<Disk>>,
}

impl PowerCut {
    /// On the real directory `root` as it is now, all of it durable.
    pub fn new(root: &Path, syncs: u32) -> PowerCut {
        PowerCut::on(Arc::new(FileBackend), root, syncs)
    }

    /// The same on a directory of another backend.
    pub fn on(inner: Arc<dyn Backend>, root: &Path, syncs: u32) -> PowerCut {
        let mut disk = Disk {
            syncs_left: syncs,
            ..Disk::default()
        };
        disk.adopt(&*inner, root);
        PowerCut {
            outer: Arc::clone(&inner),
            inner,
            root: root.to_path_buf(),
            disk: Arc::new(Mutex::new(disk)),
        }
    }

    pub fn powered(&self) -> io::Result<MutexGuard<'_, Disk>> {
        let disk = self.disk.lock().unwrap();
        if disk.last.is_some() || disk.killed {
            return Err(io::Error::other("the power is off"));
        }
        Ok(disk)
    }

    fn sync(&self) -> io::Result<MutexGuard<'_, Disk>> {
        let mut disk = self.powered()?;
        if disk.syncs_left == 0 && disk.kill {
            disk.killed = true;
            return Err(io::Error::other("the process is killed"));
        }
        if disk.syncs_left == 0 {
            disk.last = Some(contents(&*self.outer, &self.root));
            return Err(io::Error::other("the power goes off"));
        }
        disk.syncs_left -= 1;
        Ok(disk)
    }

    /// The power goes off, if it has not yet.
    pub fn cut(&self) {
        let mut disk = self.disk.lock().unwrap();
        disk.last
            .get_or_insert_with(|| contents(&*self.outer, &self.root));
    }
}

fn is_directory(backend: &dyn Backend, path: &Path) -> bool {
    backend.list(path).is_ok()
}

/// All files below a directory with their content, as [`crate::harness::contents`] has them.
fn contents(backend: &dyn Backend, path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for name in backend.list(path).unwrap() {
        let entry = path.join(name);
        if is_directory(backend, &entry) {
            files.extend(contents(backend, &entry));
            files.insert(entry, Vec::new());
        } else {
            let bytes = backend.read(&entry).unwrap().to_vec();
            files.insert(entry, bytes);
        }
    }
    files
}

impl Disk {
    fn new_node(&mut self, path: &Path, directory: bool) -> Node {
        self.nodes += 1;
        if directory {
            self.directories.insert(self.nodes, Entries::default());
        }
        self.live.insert(path.to_path_buf(), self.nodes);
        self.nodes
    }

    /// Takes over what is there, as durable.
    fn adopt(&mut self, backend: &dyn Backend, path: &Path) -> Node {
        let node = self.new_node(path, is_directory(backend, path));
        if is_directory(backend, path) {
            for name in backend.list(path).unwrap() {
                let child = self.adopt(backend, &path.join(&name));
                let entries = self.directories.get_mut(&node).unwrap();
                entries.durable.insert(name, child);
            }
        } else {
            let bytes = backend.read(path).unwrap();
            self.content.insert(node, bytes.to_vec());
        }
        node
    }

    fn parent(&mut self, path: &Path) -> &mut Entries {
        let parent = self.live[path.parent().unwrap()];
        self.directories.get_mut(&parent).unwrap()
    }

    fn add(&mut self, path: &Path, directory: bool) -> Node {
        let node = self.new_node(path, directory);
        let name = path.file_name().unwrap().to_owned();
        self.parent(path).pending.push(Change::Add(name, node));
        node
    }

    fn rename(&mut self, source: &Path, target: &Path) {
        let moved: Vec<_> = (self.live.iter())
            .filter(|(path, _)| path.starts_with(source))
            .map(|(path, node)| (path.clone(), *node))
            .collect();
        for (path, node) in moved {
            self.live.remove(&path);
            let path = match path.strip_prefix(source).unwrap() {
                rest if rest == Path::new("") => target.to_path_buf(),
                rest => target.join(rest),
            };
            self.live.insert(path, node);
        }
        let names = [source, target].map(|path| path.file_name().unwrap().to_owned());
        let [source, name] = names;
        self.parent(target)
            .pending
            .push(Change::Rename(source, name));
    }

    /// Notices what others did in a directory (the catalog's).
    fn notice(&mut self, backend: &dyn Backend, path: &Path) {
        let present = backend.list(path).unwrap();
        for name in &present {
            let child = path.join(name);
            if !self.live.contains_key(&child) {
                self.add(&child, is_directory(backend, &child));
            }
        }
        let gone: Vec<_> = (self.live.keys())
            .filter(|child| child.parent() == Some(path))
            .filter(|child| !present.iter().any(|name| child.ends_with(name)))
            .cloned()
            .collect();
        for child in gone {
            self.live.remove(&child);
            let name = child.file_name().unwrap().to_owned();
            self.parent(&child).pending.push(Change::Remove(name));
        }
    }

    /// Writes to the real directory `target` what the disk holds of the directory `node`.
    ///
    /// Without `random` that is exactly what was synced. With it, a random number of the changes to each directory,
    /// in their order, and the content of some files, or sectors of them, got there early.
    pub fn restore(&self, node: Node, target: &Path, random: &mut Option<Random>) {
        assert!(!target.exists());
        self.restore_on(&FileBackend, node, target, random);
    }

    /// The same on another backend.
    pub fn restore_on(
        &self,
        backend: &dyn Backend,
        node: Node,
        target: &Path,
        random: &mut Option<Random>,
    ) {
        backend.create_directory(target).unwrap();
        let entries = &self.directories[&node];
        let mut names = entries.durable.clone();
        let early = match random {
            Some(random) => random.below(entries.pending.len() + 1),
            None => 0,
        };
        for change in &entries.pending[..early] {
            change.apply(&mut names);
        }
        for (name, child) in names {
            let target = target.join(name);
            if self.directories.contains_key(&child) {
                self.restore_on(backend, child, &target, random);
                continue;
            }
            let durable = self.content.get(&child).cloned().unwrap_or_default();
            let last = (self.live.iter())
                .find(|(_, node)| **node == child)
                .and_then(|(path, _)| self.last.as_ref().unwrap().get(path));
            let bytes = match (random.as_mut().map(|random| random.below(6)), last) {
                (Some(1), Some(last)) => last.clone(),
                // The pages that were written first.
                (Some(2), Some(last)) => {
                    let mut bytes = durable;
                    let part = last.len() / 2;
                    bytes.resize(bytes.len().max(part), 0);
                    bytes[..part].copy_from_slice(&last[..part]);
                    bytes
                }
                // The pages that were written last, and not those between.
                (Some(3), Some(last)) => {
                    let mut bytes = last.clone();
                    let known = durable.len().min(last.len());
                    let part = known + (last.len() - known) / 2;
                    bytes[known..part].fill(0);
                    bytes
                }
                // Any sectors, and the file as long as it was or cut anywhere.
                (Some(4), Some(last)) => {
                    let random = random.as_mut().unwrap();
                    let mut bytes = last.clone();
                    for start in (0..last.len()).step_by(SECTOR_SIZE) {
                        let end = last.len().min(start + SECTOR_SIZE);
                        if random.below(2) == 0 {
                            bytes[start..end].fill(0);
                            if let Some(known) = durable.get(start..durable.len().min(end)) {
                                bytes[start..start + known.len()].copy_from_slice(known);
                            }
                        }
                    }
                    let known = durable.len().min(last.len());
                    bytes.truncate(known + random.below(last.len() - known + 1));
                    bytes
                }
                _ => durable,
            };
            let mut file = backend.create(&target).unwrap();
            file.write_all(&bytes).unwrap();
        }
    }
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<OsString, Node>) {
        match self {
            Change::Add(name, node) => drop(names.insert(name.clone(), *node)),
            Change::Remove(name) => drop(names.remove(name)),
            Change::Rename(source, target) => {
                if let Some(node) = names.remove(source) {
                    names.insert(target.clone(), node);
                }
            }
        }
    }
}

/// A file that takes its content to the disk when it is synced.
struct PowerCutFile {
    backend: Arc<PowerCut>,
    path: PathBuf,
    node: Node,
    inner: Box<dyn BackendFile>,
}

impl Write for PowerCutFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _disk = self.backend.powered()?;
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl BackendFile for PowerCutFile {
    fn sync(&mut self) -> io::Result<()> {
        let mut disk = self.backend.sync()?;
        let bytes = self.backend.inner.read(&self.path)?;
        disk.content.insert(self.node, bytes.to_vec());
        Ok(())
    }
}

/// The backend that stores hold: `create` needs the `Arc`.
#[derive(Clone, Debug)]
pub struct PowerCutBackend(pub Arc<PowerCut>);

impl Backend for PowerCutBackend {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn BackendReader>> {
        let _disk = self.0.powered()?;
        self.0.inner.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn BackendFile>> {
        let mut disk = self.0.powered()?;
        let inner = self.0.inner.create(path)?;
        let node = disk.add(path, false);
        Ok(Box::new(PowerCutFile {
            backend: Arc::clone(&self.0),
            path: path.to_path_buf(),
            node,
            inner,
        }))
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.0.sync()?;
        disk.notice(&*self.0.inner, path.parent().unwrap());
        let node = disk.live[path];
        let bytes = self.0.inner.read(path)?;
        disk.content.insert(node, bytes.to_vec());
        Ok(())
    }

    fn rename(&self, source: &Path, target: &Path) -> io::Result<()> {
        let mut disk = self.0.powered()?;
        self.0.inner.rename(source, target)?;
        disk.rename(source, target);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.0.powered()?;
        self.0.inner.remove(path)?;
        disk.live.remove(path);
        let name = path.file_name().unwrap().to_owned();
        disk.parent(path).pending.push(Change::Remove(name));
        Ok(())
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.0.powered()?;
        self.0.inner.create_directory(path)?;
        if !disk.live.contains_key(path) {
            disk.add(path, true);
        }
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.0.sync()?;
        disk.notice(&*self.0.inner, path);
        let node = disk.live[path];
        let entries = disk.directories.get_mut(&node).unwrap();
        for change in std::mem::take(&mut entries.pending) {
            change.apply(&mut entries.durable);
        }
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let _disk = self.0.powered()?;
        self.0.inner.list(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let _disk = self.0.powered()?;
        self.0.inner.exists(path)
    }

    fn is_file_system(&self) -> bool {
        self.0.inner.is_file_system()
    }

    fn within(&self, directory: &Arc<HeldDirectory>) -> Option<Arc<dyn Backend>> {
        let held = PowerCut {
            inner: self.0.inner.within(directory)?,
            outer: Arc::clone(&self.0.outer),
            root: self.0.root.clone(),
            disk: Arc::clone(&self.0.disk),
        };
        Some(Arc::new(PowerCutBackend(Arc::new(held))))
    }

    fn outward_path(&self, path: &Path) -> io::Result<PathBuf> {
        self.0.inner.outward_path(path)
    }
}
