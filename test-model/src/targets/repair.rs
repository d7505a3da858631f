//! A small database, damaged as the input says and then repaired.
//!
//! The first byte chooses the database, and whether the repair is cut short; each five bytes after it damage a file. The
//! invariant: the source stays as it is; what is not reported lost is there, byte for byte; a target whose repair was
//! cut short does not open as if it were complete.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use zipfdb::ingest::{NoProgress, Progress};

use zipfdb::repair::{RepairReport, repair};

use zipfdb::{Database, Durability, InterruptHandle};

use crate::{Change, Edit, State, observe, random_edits};
use zipfdb_test_support::harness::{Random, contents, scratch};

const DAMAGES_MAX: usize = 4;

/// Number of databases to choose from.
const BASES: u64 = 4;

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A database before it is damaged.
#[derive(Clone)]
struct Base {
    files: Files,
    /// The same at an earlier moment.
    older: Files,
    /// Its content, before which it had the others, as long as the newest log file has existed.
    states: Vec<State>,
    /// The process that wrote it ended without closing it.
    was_killed: bool,
}

impl Base {
    fn build(number: u64) -> Base {
        let folder = scratch();
        let path = folder.path().join("d.zdb");
        let mut random = Random::new(number);
        let text = |name: &str| format!("{name} {}", "the cat sat on the mat ".repeat(30));
        let copied = ["a", "b"].map(|name| (name.to_owned(), text(name).into()));
        let edit = Edit::Append(vec![("x".to_owned(), "the cat and the dog".into())]);
        let mut state = State::new();
        let mut older = Files::new();
        let mut states = Vec::new();
        for process in 0..3 {
            let database = Database::options().threads(1).open(&path);
            let database = database.expect("it is sound");
            states = vec![state.clone()];
            let mut changes = Vec::new();
            if process == 0 {
                changes = vec![
                    Change::Create("plain"),
                    Change::Copy("plain", copied.clone().into()),
                    Change::Create("Other"),
                    Change::Commit(Durability::Full, vec![("Other", edit.clone())]),
                    Change::Recompress("Other"),
                ];
            }
            let mut next = state.clone();
            changes.iter().for_each(|change| change.apply(&mut next));
            for _ in 0..4 {
                let change = Change::Commit(Durability::Full, random_edits(&mut random, &next));
                change.apply(&mut next);
                changes.push(change);
            }
            for change in changes {
                let done = change.perform(&database, folder.path());
                done.expect("it is possible");
                change.apply(&mut state);
                states.push(state.clone());
            }
            match process {
                0 => {}
                1 => older = relative(&path),
                _ if number % 2 == 1 => {
                    // What is on the disk now a kill would leave.
                    return Base {
                        files: relative(&path),
                        older,
                        states,
                        was_killed: true,
                    };
                }
                _ => {}
            }
        }
        Base {
            files: relative(&path),
            older,
            states,
            was_killed: false,
        }
    }
}

/// The files of a database by their paths in it.
fn relative(path: &Path) -> Files {
    let files = contents(path)
        .into_iter()
        .filter(|(file, _)| file.is_file());
    let files = files.map(|(file, bytes)| {
        let name = file.strip_prefix(path).expect("it is below");
        (name.to_path_buf(), bytes)
    });
    files.collect()
}

fn write(files: &Files, path: &Path) {
    for directory in ["segments", "log", "catalog"] {
        fs::create_dir_all(path.join(directory)).expect("a directory");
    }
    for (name, bytes) in files {
        let file = path.join(name);
        let parent = file.parent().expect("it is below");
        fs::create_dir_all(parent).expect("a directory");
        fs::write(&file, bytes).expect("a file");
    }
}

/// Which files of the log are not as they were.
#[derive(Clone, Copy)]
struct LogDamage {
    any: bool,
    newest: bool,
}

/// Damages a file as five bytes say, if there is one.
fn damage(files: &mut Files, base: &Base, how: &[u8]) -> Option<()> {
    let &[file, kind, high, low, value] = how else {
        return None;
    };
    let names: Vec<&PathBuf> = files.keys().collect();
    let name = names.get(usize::from(file) % names.len().max(1))?;
    let name = PathBuf::from(name);
    let other = names[usize::from(value) % names.len()].clone();
    let bytes = files.get_mut(&name)?;
    let at = usize::from(u16::from_be_bytes([high, low])) % (bytes.len() + 1);
    let to = bytes.len().min(at + usize::from(value));
    match kind % 8 {
        0 if at < bytes.len() => bytes[at] ^= value.max(1),
        1 => bytes[at..to].fill(0),
        2 => bytes[at..].fill(value),
        3 => bytes.truncate(at),
        4 => drop(bytes.splice(at..at, [value; 5])),
        5 => drop(files.remove(&name)),
        6 => {
            let bytes = files.remove(&name)?;
            let swapped = files.insert(other, bytes)?;
            files.insert(name.clone(), swapped);
        }
        _ => {
            let old = base.older.get(&name)?.clone();
            files.insert(name.clone(), old);
        }
    }
    Some(())
}

/// Puts something in the way of the new manifest when the repair has come so far.
struct Obstacle {
    target: PathBuf,
    left: AtomicU8,
}

impl Obstacle {
    fn step(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            let _ = fs::create_dir(self.target.join("MANIFEST.tmp"));
        }
    }
}

impl Progress for Obstacle {
    fn begin(&self, _stage: &str, _total: u64) {
        self.step();
    }

    fn advance(&self, _amount: u64) {
        self.step();
    }

    fn end(&self) {
        self.step();
    }
}

/// One input.
pub fn run(bytes: &[u8]) {
    static BUILT: OnceLock<Vec<Base>> = OnceLock::new();
    let Some((&first, damages)) = bytes.split_first() else {
        return;
    };
    let bases = BUILT.get_or_init(|| (0..BASES).map(Base::build).collect());
    let base = &bases[usize::from(first) % bases.len()];
    let mut files = base.files.clone();
    for how in damages.chunks_exact(5).take(DAMAGES_MAX) {
        damage(&mut files, base, how);
    }
    let logs = base
        .files
        .iter()
        .filter(|(name, _)| name.starts_with("log"));
    let is_damaged = logs.map(|(name, bytes)| files.get(name) != Some(bytes));
    let is_damaged: Vec<bool> = is_damaged.collect();
    let log = LogDamage {
        any: is_damaged.contains(&true),
        newest: is_damaged.last() == Some(&true),
    };
    // Without all three no file says how far the log went, nor that there was
    // one.
    let is_forgotten = ["MANIFEST", "RESERVE", "catalog/CLOSED"]
        .iter()
        .all(|name| !files.contains_key(Path::new(name)));
    let base = &Base {
        was_killed: base.was_killed || is_forgotten,
        ..base.clone()
    };
    let folder = scratch();
    let (source, target) = (folder.path().join("d.zdb"), folder.path().join("new.zdb"));
    write(&files, &source);
    let cut_after = first / 4 % 16;
    if cut_after > 0 {
        let obstacle = Obstacle {
            target: target.clone(),
            left: AtomicU8::new(cut_after),
        };
        let cut = repair(&source, &target, &obstacle, &InterruptHandle::new());
        let _ = fs::remove_dir(target.join("MANIFEST.tmp"));
        match cut {
            Ok(report) => compare(&target, &report, base, log),
            Err(_) => {
                let opened = Database::options().threads(1).create(false).open(&target);
                assert!(opened.is_err(), "what is not complete opens");
            }
        }
        let _ = fs::remove_dir_all(&target);
    }
    let repaired = repair(&source, &target, &NoProgress, &InterruptHandle::new());
    assert!(relative(&source) == files, "the source has changed");
    if let Ok(report) = repaired {
        compare(&target, &report, base, log);
    }
}

/// All is there, or something is reported lost.
fn compare(target: &Path, report: &RepairReport, base: &Base, log: LogDamage) {
    let options = Database::options().threads(1).read_only(true);
    let database = options.open(target).expect("it is complete");
    assert_eq!(database.warnings(), [""; 0]);
    if !report.lost.is_empty() {
        // Whatever there is can be read, under whatever name.
        for corpus in database.corpora() {
            let snapshot = database
                .corpus(&corpus)
                .and_then(|corpus| corpus.snapshot());
            let snapshot = snapshot.expect("it is sound");
            for file in snapshot.files() {
                let text = snapshot
                    .extract(&file.name, 0, u64::MAX)
                    .expect("it is sound");
                assert_eq!(text.len() as u64, file.bytes);
            }
        }
        return;
    }
    // Damage to the manifest and to the log at once.
    let may_be_less = report.notes.iter().any(|note| note.contains("may be lost"));
    let found = observe(&database).expect("it can be read");
    let is_whole = base.states.last() == Some(&found);
    // After a kill, damage to the end of the log may look like commits that were cut short.
    let is_cut_short = base.was_killed && log.newest && base.states.contains(&found);
    let is_reported = may_be_less && log.any;
    assert!(
        is_whole || is_cut_short || is_reported,
        "no fault is reported: {report:?}"
    );
}
