//! A disk that loses power at any sync: what was synced is there, of the rest some sectors, some names, or nothing.
//!
//! The invariant is that of kills, with the promises that hold for a power cut. Each cut starts from what the one before
//! has left, so recoveries are cut as well. The disk is simulated in this process; see `test-support`.

use std::sync::Arc;
use std::time::Duration;

use zipfdb::Database;
use zipfdb_storage::Backend;

use crate::campaign::{Campaign, Outcome, Trial, ensure};
use crate::kill::reopen;
use zipfdb_test_model::{Change, State, possible};
use zipfdb_test_support::harness::{Random, contents, copy_directory};
use zipfdb_test_support::power_cut::{PowerCut, PowerCutBackend};

/// Cuts one after the other.
const CHAIN: usize = 6;

/// Changes between two.
const CHANGES: usize = 30;

pub fn attack(campaign: &mut Campaign) {
    campaign.run("synced", campaign.share(30), |trial| {
        cuts(trial, false, false)
    });
    campaign.run("torn", campaign.share(50), |trial| cuts(trial, true, false));
    campaign.run("shared", campaign.share(20), |trial| {
        cuts(trial, true, true)
    });
}

/// By a process that shares the database, and gives its lock back between changes, or alone.
fn cuts(trial: &Trial, is_torn: bool, is_shared: bool) -> Outcome {
    let mut random = trial.random();
    let mut root = trial.path("0");
    std::fs::create_dir(&root).unwrap();
    let mut state = State::new();
    for round in 0..CHAIN {
        let syncs = random.below(90) as u32;
        let backend = PowerCutBackend(Arc::new(PowerCut::new(&root, syncs)));
        let options = Database::options().threads(1).shared(is_shared);
        let options = options.lock_kept(Duration::ZERO);
        let options = options.backend(Arc::new(backend.clone()) as Arc<dyn Backend>);
        let mut chance = Random::new(trial.seed.wrapping_add(round as u64));
        let mut chance_of_rest = Random::new(trial.seed ^ round as u64);
        let (mut changes, mut reached, mut done) = (Vec::new(), state.clone(), 0);
        let opened = options.open(root.join("d.zdb"));
        let has_opened = opened.is_ok();
        if let Ok(database) = opened {
            for _ in 0..CHANGES {
                let change = Change::random(&mut chance, &reached);
                change.apply(&mut reached);
                changes.push(change);
                let last = &changes[changes.len() - 1];
                if last.perform(&database, trial.folder.path()).is_err() {
                    break;
                }
                done += 1;
                if is_shared && chance_of_rest.below(3) == 0 {
                    // The lock is given back in this time.
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
            let mut disk = backend.0.disk.lock().unwrap();
            disk.last.get_or_insert_with(|| contents(&root));
        }
        let mut disk = backend.0.disk.lock().unwrap();
        disk.last.get_or_insert_with(|| contents(&root));
        let target = trial.path(&format!("{}", round + 1));
        let mut early = is_torn.then(|| Random::new(trial.seed ^ round as u64));
        disk.restore(disk.live[&root], &target, &mut early);
        drop(disk);
        let possible = possible(&state, &changes, done, true);
        // What is checked is a copy: the next cut may come while this one is being recovered from.
        let copy = trial.path("copy");
        let _ = std::fs::remove_dir_all(&copy);
        copy_directory(&target, &copy);
        let found = reopen(&copy.join("d.zdb"))?;
        ensure(possible.contains(&found), || {
            format!("after {syncs} syncs and {done} changes: {found:?} is none of {possible:?}")
        })?;
        trial.passed(match (has_opened, found == possible[0]) {
            (false, _) => "in open",
            (true, true) => "as durable",
            (true, false) => "more",
        });
        let _ = std::fs::remove_dir_all(&root);
        (root, state) = (target, found);
    }
    Ok(())
}
