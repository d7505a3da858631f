//! A whole database that loses its process, its power or a call of the system: opened again, it has what was acknowledged
//! and nothing but whole changes, in their order.
//!
//! `ZIPFDB_KILL_ROUNDS` kills more processes, `ZIPFDB_CRASH_STEP=1` tries every sync and every call, `ZIPFDB_SEED` starts
//! from another number.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use zipfdb::{Database, Durability};
use zipfdb_storage::Backend;
use zipfdb_test_model::killed::{
    change_until_killed, check_commits, commit_until_killed, random_changes,
};
use zipfdb_test_model::{Change, Edit, State, check, observe, possible};
use zipfdb_test_support::faulty::{Faulty, Mode};
use zipfdb_test_support::harness::{Random, child_argument, contents, scratch, start_child};
use zipfdb_test_support::power_cut::{PowerCut, PowerCutBackend};

fn variable(name: &str, default: usize) -> usize {
    let value = std::env::var(name);
    value.map_or(default, |value| value.parse().unwrap())
}

/// Opens a database as a crash left it, checks all it holds, and that it opens without complaint the next time except for what
/// stands behind the end of a log.
fn reopen(path: &Path) -> State {
    let open = || Database::options().threads(1).open(path).unwrap();
    let database = open();
    let state = observe(&database).unwrap();
    check(&database, &state);
    drop(database);
    let database = open();
    let mut warnings = database.warnings();
    warnings.retain(|warning| !warning.contains("not known to have been durable"));
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(observe(&database).unwrap(), state);
    state
}

/// Prints a line to the process that kills this one, in one piece, so that no kill leaves half of it.
fn report_line(line: &str) {
    let line = format!("{line}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// Not a test of its own: changes a database until it is killed, printing each change that is done.
#[test]
fn child_that_changes_a_database_until_it_is_killed() {
    let Some(argument) = child_argument() else {
        return;
    };
    let (seed, folder) = argument.split_once(' ').unwrap();
    let folder = Path::new(folder);
    let options = Database::options().threads(2);
    let database = options.open(folder.join("d.zdb")).unwrap();
    change_until_killed(&database, seed.parse().unwrap(), folder, report_line);
}

#[test]
fn a_killed_process_leaves_what_it_acknowledged_and_whole_changes() {
    let rounds = variable("ZIPFDB_KILL_ROUNDS", 25) as u64;
    let seed = Random::seed(1);
    let mut random = Random::new(seed);
    let folder = scratch();
    let path = folder.path().join("d.zdb");
    let mut state = State::new();
    let (mut acknowledged, mut unacknowledged) = (0, 0);
    for round in 0..rounds {
        let child_seed = seed * 100_000 + round;
        let argument = format!("{child_seed} {}", folder.path().display());
        let test = "crash::child_that_changes_a_database_until_it_is_killed";
        let mut child = start_child(test, &argument);
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        // Some are killed while the database is being opened.
        let mut opened = round % 8 != 7;
        if opened {
            assert_eq!(lines.next().unwrap().unwrap(), "open");
        }
        std::thread::sleep(Duration::from_micros(random.below(30_000) as u64));
        child.kill().unwrap();
        child.wait().unwrap();

        let mut done = 0;
        let mut complaints = String::new();
        for line in lines {
            match line.unwrap().as_str() {
                "open" => opened = true,
                "done" => done += 1,
                other => complaints = complaints + other + "\n",
            }
        }
        assert_eq!(complaints, "", "round {round}");
        assert!(opened || done == 0);
        let mut child_random = Random::new(child_seed);
        let mut reached = state.clone();
        let mut changes = Vec::new();
        for _ in 0..=done {
            let change = Change::random(&mut child_random, &reached);
            change.apply(&mut reached);
            changes.push(change);
        }
        let possible = possible(&state, &changes, done, false);
        let found = reopen(&path);
        assert!(
            possible.contains(&found),
            "ZIPFDB_SEED={seed}, round {round}, after {done} of {changes:?}: {found:?} is none of {possible:?}"
        );
        acknowledged += done;
        unacknowledged += usize::from(found != possible[0]);
        state = found;
    }
    println!(
        "{rounds} kills, {acknowledged} acknowledged changes, {unacknowledged} times more was found"
    );
}

/// Not a test of its own: commits from several threads until it is killed, printing each commit that is acknowledged.
#[test]
fn child_whose_threads_commit_until_it_is_killed() {
    let Some(path) = child_argument() else {
        return;
    };
    let database = Database::options().threads(2).open(path).unwrap();
    commit_until_killed(&database, 0, Duration::ZERO, report_line);
}

#[test]
fn threads_of_a_killed_process_leave_what_was_acknowledged_and_whole_commits() {
    let rounds = variable("ZIPFDB_KILL_ROUNDS", 10);
    let mut random = Random::new(Random::seed(1));
    let folder = scratch();
    let path = folder.path().join("d.zdb");
    let mut all = Vec::new();
    for round in 0..rounds {
        let test = "crash::child_whose_threads_commit_until_it_is_killed";
        let mut child = start_child(test, path.to_str().unwrap());
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "open");
        std::thread::sleep(Duration::from_micros(random.below(60_000) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        let printed: Vec<String> = lines.map(Result::unwrap).collect();
        let database = Database::options().threads(1).open(&path).unwrap();
        all = check_commits(&database, printed.iter().map(String::as_str), &all, 1)
            .unwrap_or_else(|problem| panic!("round {round}: {problem}"));
    }
    println!("{rounds} kills, {} commits", all.len());
    assert!(all.len() > rounds);
}

/// Variants of a disk after a power cut: one holds only what was synced, the others also some unsynced writes.
const VARIANTS: u32 = 3;

/// Cuts the power at some or all syncs of `changes`. Returns how many syncs there are, and how many were tried.
fn cut_power(changes: &[Change], seed: u64, step: usize) -> (u32, u32) {
    let mut random = Random::new(seed);
    let mut tried = 0;
    let mut syncs = random.below(step) as u32;
    loop {
        let folder = scratch();
        let root = folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let backend = PowerCutBackend(Arc::new(PowerCut::new(&root, syncs)));
        let options = Database::options().threads(1);
        let options = options.backend(Arc::new(backend.clone()) as Arc<dyn Backend>);
        let mut done = 0;
        if let Ok(database) = options.open(root.join("d.zdb")) {
            for change in changes {
                if change.perform(&database, folder.path()).is_err() {
                    break;
                }
                done += 1;
            }
        }
        let mut disk = backend.0.disk.lock().unwrap();
        let finished = disk.last.is_none();
        let used = syncs - disk.syncs_left;
        disk.last.get_or_insert_with(|| contents(&root));
        let possible = possible(&State::new(), changes, done, true);
        for variant in 0..VARIANTS {
            let target = folder.path().join(format!("after{variant}"));
            let mut chance = match variant {
                0 => None,
                _ => Some(Random::new(seed + u64::from(VARIANTS * syncs + variant))),
            };
            disk.restore(disk.live[&root], &target, &mut chance);
            let found = reopen(&target.join("d.zdb"));
            assert!(
                possible.contains(&found),
                "ZIPFDB_SEED={seed}, after {syncs} syncs and {done} changes, variant {variant}: {found:?} is none of \
                 {possible:?}"
            );
        }
        tried += 1;
        if finished {
            assert_eq!(done, changes.len());
            return (used, tried);
        }
        syncs += 1 + random.below(2 * step - 1) as u32;
    }
}

#[test]
fn a_power_cut_leaves_what_was_durable_and_whole_changes() {
    let step = variable("ZIPFDB_CRASH_STEP", 8);
    let seed = Random::seed(1);
    let (syncs, tried) = cut_power(&random_changes(seed, 60), seed, step);
    println!("{syncs} syncs, power cut at {tried} of them");
    assert!(syncs > 100, "{syncs} syncs are too few to believe");
}

/// Makes `changes` with call number `call` failing. Whether the end was reached with calls left.
fn fail_one_call(changes: &[Change], mode: Mode, call: i64) -> bool {
    let folder = scratch();
    let path = folder.path().join("d.zdb");
    let faults = Faulty::new(mode, call);
    let options = Database::options().threads(1);
    let options = options.backend(Arc::new(faults.clone()) as Arc<dyn Backend>);
    let context = format!("{mode:?}, call {call}");
    let opened = options.open(&path);
    let mut possible = vec![State::new()];
    let mut state = State::new();
    if let Ok(database) = &opened {
        for change in changes {
            let mut result = change.perform(database, folder.path());
            let mut next = state.clone();
            change.apply(&mut next);
            if result.is_err() {
                assert_eq!(observe(database).unwrap(), state, "{context}: {change:?}");
                // Nothing has happened and it may be tried again, or nothing is written any more.
                result = change.perform(database, folder.path());
            }
            if let Err(error) = result {
                assert_eq!(observe(database).unwrap(), state, "{context}: {change:?}");
                let error = error.to_string();
                let is_explained = error.contains("an earlier write failed")
                    || error.contains("takes no more text");
                assert!(is_explained, "{context}: {change:?}: {error}");
                let refused = Change::Create("Other").perform(database, folder.path());
                let refused = refused.unwrap_err().to_string();
                assert!(refused.contains("an earlier write failed") || refused.contains("exists"));
                possible.push(next);
                break;
            }
            state = next;
            if change.survives(false) {
                possible.clear();
            }
            possible.push(state.clone());
        }
    }
    drop(opened);
    let found = reopen(&path);
    assert!(
        possible.contains(&found),
        "{context}: {found:?} is none of {possible:?}"
    );
    faults.left.load(Ordering::Relaxed) >= 0
}

#[test]
fn a_call_that_fails_is_an_error_and_leaves_whole_changes() {
    let step = variable("ZIPFDB_CRASH_STEP", 10);
    let seed = Random::seed(1);
    let changes = random_changes(seed, 25);
    let mut random = Random::new(seed);
    for mode in [Mode::Refused, Mode::Done, Mode::NoSpace] {
        let mut call = random.below(step) as i64;
        let mut tried = 0;
        while !fail_one_call(&changes, mode, call) {
            call += 1 + random.below(2 * step - 1) as i64;
            tried += 1;
        }
        println!("{mode:?}: {tried} of about {call} calls failed");
        assert!(call > 100, "{call} calls are too few to believe");
    }
}

#[test]
fn after_a_failed_sync_writes_are_refused_and_reads_go_on() {
    let folder = scratch();
    let path = folder.path().join("d.zdb");
    let faults = Faulty::new(Mode::Refused, i64::MAX);
    let options = || {
        let backend = Arc::new(faults.clone());
        Database::options().threads(1).backend(backend)
    };
    let append = |text: &str| {
        let edit = Edit::Append(vec![("f".to_owned(), text.into())]);
        Change::Commit(Durability::Full, vec![("plain", edit)])
    };
    let database = options().open(&path).unwrap();
    let mut state = State::new();
    for change in [Change::Create("plain"), append("cat "), append("dog ")] {
        change.perform(&database, folder.path()).unwrap();
        change.apply(&mut state);
    }
    // The next commit writes, then syncs.
    faults.left.store(0, Ordering::Relaxed);
    append("lost ")
        .perform(&database, folder.path())
        .unwrap_err();
    faults.left.store(i64::MAX, Ordering::Relaxed);
    for change in [
        append("more "),
        Change::Create("Other"),
        Change::Drop("plain"),
        Change::Recompress("plain"),
        Change::Copy("plain", vec![("g".to_owned(), b"cat".to_vec())]),
    ] {
        let error = change.perform(&database, folder.path()).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("hint: close the database"), "{error}");
        check(&database, &state);
    }
    drop(database);
    let database = options().open(&path).unwrap();
    assert_eq!(observe(&database).unwrap(), state);
    append("again").perform(&database, folder.path()).unwrap();
}

#[test]
fn a_commit_that_fails_is_not_seen_and_statements_after_it_say_so() {
    for durability in ["full", "normal"] {
        let mut call = 0;
        loop {
            let folder = scratch();
            let path = folder.path().join("d.zdb");
            let faults = Faulty::new(Mode::Done, i64::MAX);
            let options = Database::options().threads(1);
            let database = options
                .backend(Arc::new(faults.clone()) as Arc<dyn Backend>)
                .open(&path)
                .unwrap();
            let created = Change::Create("plain");
            created.perform(&database, folder.path()).unwrap();
            let prepare = "INSERT INTO plain (file, content) VALUES ('f', 'cat '), ('g', 'dog ')";
            database.execute_batch(prepare).unwrap();
            database
                .execute_batch(&format!("SET durability = '{durability}'"))
                .unwrap();
            let before = observe(&database).unwrap();

            let delete = "DELETE FROM plain WHERE file = 'f'";
            faults.left.store(call, Ordering::Relaxed);
            let result = database.execute_batch(delete);
            faults.left.store(i64::MAX, Ordering::Relaxed);
            if result.is_ok() {
                break;
            }
            for statement in [
                delete,
                "DELETE FROM plain WHERE file = 'none'",
                "INSERT INTO plain (file, content) VALUES ('f', 'more ')",
                "INSERT INTO plain (file, offset, content) VALUES ('f', 2, 'more ')",
                "BEGIN",
            ] {
                assert_eq!(observe(&database).unwrap(), before, "call {call}");
                let error = database.execute_batch(statement).unwrap_err().to_string();
                assert!(
                    error.contains("an earlier write failed"),
                    "call {call}: {statement}: {error}"
                );
            }
            drop(database);
            let mut after = before.clone();
            let edit = Edit::Delete(vec!["f".to_owned()]);
            Change::Commit(Durability::Full, vec![("plain", edit)]).apply(&mut after);
            let found = reopen(&path);
            assert!(found == before || found == after, "call {call}: {found:?}");
            call += 1;
        }
        assert!(call >= 1, "{durability}: no call can fail");
    }
}
