//! Power cuts and killed processes: a database that is opened afterwards shows the state before or after the step that
//! was cut short, and everything that was acknowledged.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use scenario::{
    CREATE, Random, State, Step, WRITE, build, child_argument, contents, copy_directory, log_steps,
    observe, reopen, scratch, start_child, states, steps,
};
use zipfdb_storage::{Backend, BackendFile, Bytes, Durability, FileBackend, Store};

mod scenario;

/// A file or directory, whatever its name is at the moment.
type Node = u64;

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
struct Disk {
    nodes: Node,
    /// Paths as the running program sees them.
    live: BTreeMap<PathBuf, Node>,
    content: BTreeMap<Node, Vec<u8>>,
    directories: BTreeMap<Node, Entries>,
    /// The power goes off, or the process is killed, when this many syncs were done.
    syncs_left: u32,
    /// Whether it is the process that ends: the system's memory then keeps what was not synced.
    kill: bool,
    /// The process was killed.
    killed: bool,
    /// All files as they were in the system's memory at that moment.
    last: Option<BTreeMap<PathBuf, Vec<u8>>>,
}

/// A backend on a real directory that keeps account of what a power cut would leave.
///
/// Once the power is off, every operation fails and nothing changes any more. The catalog's files are written by
/// others; their content is taken when they are synced through here.
#[derive(Debug)]
struct PowerCut {
    root: PathBuf,
    disk: Mutex<Disk>,
}

impl PowerCut {
    /// On `root` as it is now, all of it durable.
    fn new(root: &Path, syncs: u32) -> PowerCut {
        let mut disk = Disk {
            syncs_left: syncs,
            ..Disk::default()
        };
        disk.adopt(root);
        PowerCut {
            root: root.to_path_buf(),
            disk: Mutex::new(disk),
        }
    }

    fn powered(&self) -> io::Result<MutexGuard<'_, Disk>> {
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
            disk.last = Some(contents(&self.root));
            return Err(io::Error::other("the power goes off"));
        }
        disk.syncs_left -= 1;
        Ok(disk)
    }
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
    fn adopt(&mut self, path: &Path) -> Node {
        let node = self.new_node(path, path.is_dir());
        if path.is_dir() {
            for name in FileBackend.list(path).unwrap() {
                let child = self.adopt(&path.join(&name));
                let entries = self.directories.get_mut(&node).unwrap();
                entries.durable.insert(name, child);
            }
        } else {
            self.content.insert(node, std::fs::read(path).unwrap());
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
    fn notice(&mut self, path: &Path) {
        let present = FileBackend.list(path).unwrap();
        for name in &present {
            let child = path.join(name);
            if !self.live.contains_key(&child) {
                self.add(&child, child.is_dir());
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

    /// Writes to `target` what the disk holds of the directory `node`, whose last name was `path`.
    ///
    /// Without `random` that is exactly what was synced. With it, a random number of the changes to each directory,
    /// in their order, and the content of some files got there early.
    fn restore(&self, node: Node, target: &Path, random: &mut Option<Random>) {
        std::fs::create_dir(target).unwrap();
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
                self.restore(child, &target, random);
                continue;
            }
            let durable = self.content.get(&child).cloned().unwrap_or_default();
            let last = (self.live.iter())
                .find(|(_, node)| **node == child)
                .and_then(|(path, _)| self.last.as_ref().unwrap().get(path));
            let bytes = match (random.as_mut().map(|random| random.below(4)), last) {
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
                _ => durable,
            };
            std::fs::write(target, bytes).unwrap();
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
        let bytes = std::fs::read(&self.path)?;
        disk.content.insert(self.node, bytes);
        Ok(())
    }
}

/// The backend that stores hold: `create` needs the `Arc`.
#[derive(Clone, Debug)]
struct PowerCutBackend(Arc<PowerCut>);

impl Backend for PowerCutBackend {
    fn read(&self, path: &Path) -> io::Result<Bytes> {
        let _disk = self.0.powered()?;
        FileBackend.read(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn BackendFile>> {
        let mut disk = self.0.powered()?;
        let inner = FileBackend.create(path)?;
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
        disk.notice(path.parent().unwrap());
        let node = disk.live[path];
        disk.content.insert(node, std::fs::read(path)?);
        Ok(())
    }

    fn rename(&self, source: &Path, target: &Path) -> io::Result<()> {
        let mut disk = self.0.powered()?;
        FileBackend.rename(source, target)?;
        disk.rename(source, target);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.0.powered()?;
        FileBackend.remove(path)?;
        disk.live.remove(path);
        let name = path.file_name().unwrap().to_owned();
        disk.parent(path).pending.push(Change::Remove(name));
        Ok(())
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.0.powered()?;
        FileBackend.create_directory(path)?;
        if !disk.live.contains_key(path) {
            disk.add(path, true);
        }
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.0.sync()?;
        disk.notice(path);
        let node = disk.live[path];
        let entries = disk.directories.get_mut(&node).unwrap();
        for change in std::mem::take(&mut entries.pending) {
            change.apply(&mut entries.durable);
        }
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let _disk = self.0.powered()?;
        FileBackend.list(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let _disk = self.0.powered()?;
        FileBackend.exists(path)
    }
}

/// How often it is tried what else may have got to the disk by chance, and once what was synced and nothing else.
const VARIANTS: u32 = 4;

/// The states that may be found after `acknowledged` of `steps`: after the last one that is there for good, after any
/// later one, or after the one that was cut short.
fn possible(before: &State, steps: &[Step], acknowledged: usize, power_cut: bool) -> Vec<State> {
    let mut state = before.clone();
    let mut possible = vec![state.clone()];
    for (number, step) in steps.iter().take(acknowledged + 1).enumerate() {
        step.apply(&mut state);
        if number < acknowledged && step.survives(power_cut) {
            possible.clear();
        }
        possible.push(state.clone());
    }
    possible
}

/// Opens `name` in a copy of `base` and does `steps`, once with a power cut before every sync, and opens what is left:
/// it must be the state that was acknowledged last, or the next one. Returns how many syncs there are.
fn cut_power_at_every_sync(base: &Path, name: &str, before: &State, steps: &[Step]) -> u32 {
    let seed = Random::seed(1);
    for syncs in 0.. {
        let directory = scratch();
        let root = directory.path().join("root");
        copy_directory(base, &root);
        let backend = PowerCutBackend(Arc::new(PowerCut::new(&root, syncs)));
        let mut acknowledged = 0;
        if let Ok(store) = Store::open_with(Arc::new(backend.clone()), &root.join(name), CREATE) {
            for step in steps {
                if step.perform(&store).is_err() {
                    break;
                }
                acknowledged += 1;
            }
        }
        let mut disk = backend.0.disk.lock().unwrap();
        let finished = disk.last.is_none();
        disk.last.get_or_insert_with(|| contents(&root));

        let possible = possible(before, steps, acknowledged, true);
        for variant in 0..VARIANTS {
            let target = directory.path().join(format!("after{variant}"));
            let mut random = match variant {
                0 => None,
                _ => Some(Random::new(seed + u64::from(VARIANTS * syncs + variant))),
            };
            disk.restore(disk.live[&root], &target, &mut random);
            let found = reopen(&target.join(name));
            assert!(
                possible.contains(&found),
                "after {syncs} syncs, variant {variant}: {found:?} is none of {possible:?}"
            );
        }
        if finished {
            assert_eq!(acknowledged, steps.len());
            return syncs;
        }
    }
    unreachable!("every scenario ends")
}

#[test]
fn a_power_cut_at_any_sync_leaves_the_old_or_the_new_state() {
    let base = scratch();
    let syncs = cut_power_at_every_sync(base.path(), "a.zdb", &State::new(), &steps());
    assert!(syncs > 40, "{syncs} syncs are too few to believe");
}

#[test]
fn a_power_cut_at_any_sync_of_the_log_leaves_a_prefix_of_the_commits() {
    let base = scratch();
    let syncs = cut_power_at_every_sync(base.path(), "a.zdb", &State::new(), &log_steps());
    assert!(syncs > 80, "{syncs} syncs are too few to believe");
}

#[test]
fn a_power_cut_while_a_log_is_replayed_and_written_on_leaves_a_prefix_of_the_commits() {
    for part in [3, 16] {
        let base = scratch();
        let steps = log_steps();
        build(&base.path().join("a.zdb"), &steps[..part]);
        let before = states(&steps[..part]).pop().unwrap();
        let next = &steps[part..part + 2];
        cut_power_at_every_sync(base.path(), "a.zdb", &before, next);
    }
}

#[test]
fn a_power_cut_after_a_killed_process_leaves_one_state_and_loses_none_that_was_seen() {
    let steps = [
        Step::Create("a"),
        Step::publish("a", &["a1", "a2"]),
        Step::commit(Durability::Normal, &[("a", &["a3"])]),
        Step::Recompress("a"),
        Step::Drop("a"),
    ];
    let possible = states(&steps);
    let last = Step::Create("later");
    for killed_at in 0.. {
        let mut finished = false;
        for cut_at in 0.. {
            let directory = scratch();
            let root = directory.path().join("root");
            std::fs::create_dir(&root).unwrap();
            let path = root.join("a.zdb");
            let backend = PowerCutBackend(Arc::new(PowerCut::new(&root, killed_at)));
            backend.0.disk.lock().unwrap().kill = true;
            if let Ok(store) = Store::open_with(Arc::new(backend.clone()), &path, CREATE) {
                finished = steps.iter().all(|step| step.perform(&store).is_ok());
            }
            {
                let mut disk = backend.0.disk.lock().unwrap();
                (disk.kill, disk.killed, disk.syncs_left) = (false, false, cut_at);
            }
            // What the next process saw and did, the power cut must not take away.
            let mut seen = None;
            let mut next = None;
            // It may have gone off while files were removed that nobody needs, which is no reason not to open.
            let opened = Store::open_with(Arc::new(backend.clone()), &path, CREATE)
                .ok()
                .filter(|_| backend.0.powered().is_ok());
            if let Some(store) = opened {
                let mut state = observe(&store);
                seen = Some(state.clone());
                let done = last.perform(&store).is_ok();
                last.apply(&mut state);
                next = Some(state);
                if done {
                    seen.clone_from(&next);
                }
            }
            let mut disk = backend.0.disk.lock().unwrap();
            let survived = disk.last.is_none();
            disk.last.get_or_insert_with(|| contents(&root));
            let target = directory.path().join("after");
            disk.restore(disk.live[&root], &target, &mut None);
            let found = reopen(&target.join("a.zdb"));
            let context = format!("killed at sync {killed_at}, cut at {cut_at} of the next");
            assert!(
                seen.is_none() && possible.contains(&found)
                    || seen.is_some_and(|seen| seen == found)
                    || next.is_some_and(|next| next == found),
                "{context}: {found:?}"
            );
            if survived {
                break;
            }
        }
        if finished {
            return;
        }
    }
}

#[test]
fn a_power_cut_after_reopening_leaves_the_old_or_the_new_state() {
    let base = scratch();
    let path = base.path().join("a.zdb");
    let mut before = State::new();
    // Each time it is opened, sled writes files of its own and removes older ones.
    for part in [0..4, 4..7, 7..10] {
        build(&path, &steps()[part.clone()]);
        steps()[part]
            .iter()
            .for_each(|step| step.apply(&mut before));
    }
    let syncs = cut_power_at_every_sync(base.path(), "a.zdb", &before, &steps()[10..]);
    assert!(syncs > 10, "{syncs} syncs are too few to believe");
}

#[test]
fn a_power_cut_while_a_catalog_is_rebuilt_loses_nothing() {
    let base = scratch();
    let path = base.path().join("a.zdb");
    build(&path, &steps());
    let before = states(&steps()).pop().unwrap();
    let damaged = path.join("catalog/db");
    let mut bytes = std::fs::read(&damaged).unwrap();
    bytes[30] ^= 1;
    std::fs::write(&damaged, bytes).unwrap();
    let steps = [Step::publish("bb", &["after"])];
    let syncs = cut_power_at_every_sync(base.path(), "a.zdb", &before, &steps);
    assert!(syncs > 5, "{syncs} syncs are too few to believe");
}

const CORPORA: [&str; 3] = ["a", "bb", "ccc"];

/// A step that is possible in `state`. No two steps of a seed and number give files the same names: a publication must
/// not hold a name that the log has deleted.
fn random_step(random: &mut Random, state: &State, seed: u64, number: usize) -> Step {
    let corpus = CORPORA[random.below(CORPORA.len())];
    if !state.contains_key(corpus) {
        return Step::Create(corpus);
    }
    let name = |index: usize| state[corpus].get(index).map(|name| format!("-{name}"));
    match random.below(16) {
        0 => Step::Drop(corpus),
        1 => Step::DropHeld(corpus),
        2 | 3 => Step::Abandon(corpus),
        4 => Step::Recompress(corpus),
        5 => Step::RecompressHeld(corpus),
        kind @ 6..12 => {
            use Durability::{Full, Normal, Off};
            let mut edits = vec![format!("{seed} {number} log")];
            edits.extend(name(random.below(8)));
            Step::Commit([Full, Normal, Off][kind % 3], vec![(corpus, edits)])
        }
        _ => {
            let count = 1 + random.below(4);
            let files = (0..count)
                .map(|file| format!("{seed} {number} {file}"))
                .collect();
            Step::Publish(corpus, files)
        }
    }
}

/// Not a test of its own: works on a database until it is killed, telling each step that is done.
#[test]
fn child_that_works_until_it_is_killed() {
    let Some(argument) = child_argument() else {
        return;
    };
    let (seed, path) = argument.split_once(' ').unwrap();
    let seed = seed.parse().unwrap();
    let mut random = Random::new(seed);
    let store = Store::open(path, CREATE).unwrap();
    let mut state = observe(&store);
    eprintln!("open");
    for number in 0.. {
        let step = random_step(&mut random, &state, seed, number);
        step.perform(&store).unwrap();
        step.apply(&mut state);
        eprintln!("done");
    }
}

#[test]
fn a_process_killed_at_any_moment_leaves_the_old_or_the_new_state() {
    let seed = Random::seed(1);
    let mut random = Random::new(seed);
    let directory = scratch();
    let path = directory.path().join("a.zdb");
    let mut state = State::new();
    let mut cut_short = 0;
    for round in 0..40 {
        let child_seed = seed * 1000 + round;
        let argument = format!("{child_seed} {}", path.display());
        let mut child = start_child("child_that_works_until_it_is_killed", &argument);
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        // Most rounds end within some steps, some while the database is being opened.
        let mut opened = false;
        if round % 8 != 7 {
            opened = lines.next().unwrap().unwrap() == "open";
        }
        std::thread::sleep(Duration::from_micros(random.below(20_000) as u64));
        child.kill().unwrap();
        child.wait().unwrap();

        let mut done = 0;
        for line in lines {
            match line.unwrap().as_str() {
                "open" => opened = true,
                "done" => done += 1,
                other => panic!("{other}"),
            }
        }
        assert!(opened || done == 0);
        let mut random_steps = Random::new(child_seed);
        let mut steps = Vec::new();
        let mut reached = state.clone();
        for number in 0..=done {
            let step = random_step(&mut random_steps, &reached, child_seed, number);
            step.apply(&mut reached);
            steps.push(step);
        }
        let possible = possible(&state, &steps, done, false);
        let found = reopen(&path);
        assert!(
            possible.contains(&found),
            "round {round}: {found:?} is none of {possible:?}"
        );
        cut_short += usize::from(found != possible[0]);
        state = found;
    }
    println!("{cut_short} of 40 kills came between the commit of a step and its acknowledgement");
    assert_eq!(observe(&Store::open(&path, WRITE).unwrap()), state);
}
