//! Changes of a database of every kind, closed and opened and without power in between, against a map of its texts.
//!
//! Each three bytes of the input are a step: what it is, and the seed of what is random in it. The invariant: texts,
//! counts, places and n-grams are those of the map; after a power cut they are those after some number of changes that
//! includes all that were acknowledged as durable.

#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use support::harness::{Random, contents, scratch};
use support::power_cut::{PowerCut, PowerCutBackend};
use support::{Change, State, check, observe, possible};
use zipfdb::Database;

#[path = "../../tests/support/mod.rs"]
mod support;

const STEPS_MAX: usize = 32;

/// A database on a disk that can lose power.
struct Opened {
    root: PathBuf,
    backend: PowerCutBackend,
    database: Option<Database>,
}

impl Opened {
    fn new(root: PathBuf) -> Opened {
        let backend = PowerCutBackend(Arc::new(PowerCut::new(&root, u32::MAX)));
        let mut opened = Opened {
            root,
            backend,
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
        let database = options.open(self.root.join("d.zdb"));
        let disk = self.backend.0.disk.lock().expect("nobody panics");
        assert!(database.is_ok() || disk.last.is_some());
        self.database = database.ok().filter(|_| disk.last.is_none());
        self.database.is_some()
    }

    fn database(&self) -> &Database {
        self.database.as_ref().expect("it is open")
    }

    /// What a power cut now, or the one that was, leaves.
    fn lose_power(mut self, target: &Path, random: Random) -> Opened {
        let mut disk = self.backend.0.disk.lock().expect("nobody panics");
        disk.last.get_or_insert_with(|| contents(&self.root));
        drop(disk);
        self.database = None;
        let disk = self.backend.0.disk.lock().expect("nobody panics");
        disk.restore(disk.live[&self.root], target, &mut Some(random));
        Opened::new(target.to_path_buf())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let folder = scratch();
    let root = folder.path().join("0");
    fs::create_dir(&root).expect("a directory");
    let mut opened = Opened::new(root);
    // At the last moment when it was known, and what has been done since.
    let mut known = State::new();
    let mut state = known.clone();
    let mut changes = Vec::new();
    for (number, step) in bytes.chunks_exact(3).take(STEPS_MAX).enumerate() {
        let seed = u64::from(step[1]) << 8 | u64::from(step[2]);
        let mut random = Random::new(seed);
        let is_cut = match step[0] {
            0..16 => {
                let is_open = opened.reopen();
                if is_open {
                    check(opened.database(), &state);
                    (known, changes) = (state.clone(), Vec::new());
                }
                !is_open
            }
            // Some syncs from now.
            16..32 => {
                let mut disk = opened.backend.0.disk.lock().expect("nobody panics");
                disk.syncs_left = random.below(16) as u32;
                false
            }
            32..40 => true,
            _ => {
                let change = Change::random(&mut random, &state);
                let result = change.perform(opened.database(), folder.path());
                changes.push(change);
                match result {
                    Ok(()) => {
                        changes[changes.len() - 1].apply(&mut state);
                        false
                    }
                    Err(error) => {
                        let disk = opened.backend.0.disk.lock().expect("nobody panics");
                        assert!(disk.last.is_some(), "{error}");
                        true
                    }
                }
            }
        };
        let disk = opened.backend.0.disk.lock().expect("nobody panics");
        let is_off = disk.last.is_some();
        drop(disk);
        if is_cut || is_off {
            let target = folder.path().join(format!("{}", number + 1));
            opened = opened.lose_power(&target, random);
            let found = observe(opened.database()).expect("it can be read");
            let mut at_most = known.clone();
            changes.iter().for_each(|change| change.apply(&mut at_most));
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
            check(opened.database(), &found);
            (known, state, changes) = (found.clone(), found, Vec::new());
        }
    }
    check(opened.database(), &state);
});
