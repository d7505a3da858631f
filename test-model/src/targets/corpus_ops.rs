//! Changes of a database of every kind, closed and opened and without power in between, against a map of its texts.
//!
//! Each three bytes of the input are a step: what it is, and the seed of what is random in it. The invariant: texts,
//! counts, places and n-grams are those of the map; after a power cut they are those after some number of changes that
//! includes all that were acknowledged as durable.

use std::path::Path;
use std::sync::Arc;

use zipfdb::Database;
use zipfdb_storage::{Backend, MemoryBackend};

use crate::{Change, State, check, observe, possible};
use zipfdb_test_support::harness::{Random, scratch};
use zipfdb_test_support::power_cut::{PowerCut, PowerCutBackend};

const STEPS_MAX: usize = 5;

/// Bytes of an imported text, some segments.
const TEXT_SIZE_MAX: usize = 800;

/// The directory of the database on every disk.
const ROOT: &str = "disk";

/// A database on a disk in memory that can lose power.
struct Opened {
    backend: PowerCutBackend,
    database: Option<Database>,
}

impl Opened {
    /// On a disk with what a power cut left, or nothing.
    fn new(inner: MemoryBackend) -> Opened {
        let inner = Arc::new(inner);
        let power_cut = PowerCut::on(inner, Path::new(ROOT), u32::MAX);
        let mut opened = Opened {
            backend: PowerCutBackend(Arc::new(power_cut)),
            database: None,
        };
        assert!(opened.reopen(), "there is power");
        opened
    }

    /// Whether there was power enough.
    fn reopen(&mut self) -> bool {
        self.database = None;
        let options = Database::options().threads(1);
        let options = options.backend(Arc::new(self.backend.clone()));
        let database = options.open(Path::new(ROOT).join("d.zdb"));
        let disk = self.backend.0.disk.lock().expect("no holder panics");
        assert!(database.is_ok() || disk.last.is_some());
        self.database = database.ok().filter(|_| disk.last.is_none());
        self.database.is_some()
    }

    fn database(&self) -> &Database {
        self.database.as_ref().expect("it is open")
    }

    /// Compares all that is there with `state`, while there is power. False if there is none.
    fn check(&self, state: &State) -> bool {
        let set_syncs = |syncs| {
            let mut disk = self.backend.0.disk.lock().expect("no holder panics");
            let is_on = disk.last.is_none();
            is_on.then(|| std::mem::replace(&mut disk.syncs_left, syncs))
        };
        // A recompression in the background may sync meanwhile.
        let Some(syncs_left) = set_syncs(u32::MAX) else {
            return false;
        };
        check(self.database(), state);
        set_syncs(syncs_left);
        true
    }

    /// What a power cut now, or the one that was, leaves.
    fn lose_power(mut self, random: Random) -> Opened {
        self.backend.0.cut();
        self.database = None;
        let disk = self.backend.0.disk.lock().expect("no holder panics");
        let (root, left) = (Path::new(ROOT), MemoryBackend::new());
        disk.restore_on(&left, disk.live[root], root, &mut Some(random));
        drop(disk);
        Opened::new(left)
    }
}

/// One input.
pub fn run(bytes: &[u8]) {
    let folder = scratch();
    let empty = MemoryBackend::new();
    let root = empty.create_directory(Path::new(ROOT));
    root.expect("memory refuses no directory");
    let mut opened = Opened::new(empty);
    // At the last moment when it was known, and what has been done since.
    let mut known = State::new();
    let mut state = known.clone();
    let mut changes = Vec::new();
    for step in bytes.chunks_exact(3).take(STEPS_MAX) {
        let seed = u64::from(step[1]) << 8 | u64::from(step[2]);
        let mut random = Random::new(seed);
        let is_cut = match step[0] {
            0..16 => {
                let is_open = opened.reopen() && opened.check(&state);
                if is_open {
                    (known, changes) = (state.clone(), Vec::new());
                }
                !is_open
            }
            // Some syncs from now.
            16..32 => {
                let mut disk = opened.backend.0.disk.lock().expect("no holder panics");
                disk.syncs_left = random.below(16) as u32;
                false
            }
            32..40 => true,
            _ => {
                let mut change = Change::random(&mut random, &state);
                if let Change::Copy(_, files) = &mut change {
                    let texts = files.iter_mut().map(|(_, text)| text);
                    texts.for_each(|text| text.truncate(TEXT_SIZE_MAX));
                }
                let result = change.perform(opened.database(), folder.path());
                changes.push(change);
                match result {
                    Ok(()) => {
                        changes[changes.len() - 1].apply(&mut state);
                        false
                    }
                    Err(error) => {
                        let disk = opened.backend.0.disk.lock().expect("no holder panics");
                        assert!(disk.last.is_some(), "{error}");
                        true
                    }
                }
            }
        };
        let disk = opened.backend.0.disk.lock().expect("no holder panics");
        let is_off = disk.last.is_some();
        drop(disk);
        if is_cut || is_off {
            opened = opened.lose_power(random);
            let found = observe(opened.database()).expect("it can be read");
            // One change at most was not acknowledged, the last.
            let mut allowed = possible(&known, &changes, changes.len(), true);
            if is_cut {
                allowed.extend(possible(
                    &known,
                    &changes,
                    changes.len().saturating_sub(1),
                    true,
                ));
            }
            assert!(allowed.contains(&found), "{found:?} is none of {allowed:?}");
            assert!(opened.check(&found));
            (known, state, changes) = (found.clone(), found, Vec::new());
        }
    }
    // If the power has gone since the last step, what is left is the next input's to look at.
    opened.check(&state);
}
