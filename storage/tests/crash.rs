//! Power cuts and killed processes: a database that is opened afterwards shows the state before or after the step that
//! was cut short, and everything that was acknowledged.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::scenario::power_cut::{PowerCut, PowerCutBackend};
use crate::scenario::{
    CREATE, Random, State, Step, WRITE, build, child_argument, contents, copy_directory, log_steps,
    observe, reopen, scratch, start_child, states, steps,
};
use zipfdb_storage::{Durability, Store};

/// Variants of a disk after a power cut: one holds only what was synced, the others also some unsynced writes.
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
            // The power may fail while unneeded files are removed, which is no reason not to open.
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
    for manifest in [true, false] {
        if !manifest {
            std::fs::remove_file(path.join("MANIFEST")).unwrap();
        }
        let steps = [Step::publish("bb", &["after"])];
        let syncs = cut_power_at_every_sync(base.path(), "a.zdb", &before, &steps);
        assert!(syncs > 5, "{syncs} syncs are too few to believe");
    }
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

/// Not a test of its own: works on a database until it is killed, printing each step that is done.
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
        let mut child = start_child("crash::child_that_works_until_it_is_killed", &argument);
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
