//! Processes that are killed at random moments while they write, and readers beside them.
//!
//! The invariant: what is found afterwards is a state after some number of whole changes that includes all that were
//! acknowledged, except for those whose durability promises nothing; readers see such states only, in their order.

use std::path::Path;
use std::time::{Duration, Instant};

use zipfdb::Database;

use crate::campaign::{Campaign, Outcome, Trial, copy_anew, ensure};
use crate::child::{Ended, Running, change_of, command, fingerprint, prepare, run};
use zipfdb_test_model::killed::check_commits;
use zipfdb_test_model::{Change, State, check, observe, possible};
use zipfdb_test_support::harness::{Random, contents};

/// Kills on the same directory, one after the other.
const CHAIN: usize = 8;

pub fn attack(campaign: &mut Campaign) {
    campaign.run("changes", campaign.share(30), |trial| changes(trial, false));
    campaign.run("shared changes", campaign.share(10), |trial| {
        changes(trial, true)
    });
    campaign.run("threads", campaign.share(10), threads);
    campaign.run("processes", campaign.share(10), processes);
    for what in ["copy", "recompress", "drop", "replace"] {
        campaign.run(what, campaign.share(8), |trial| statement(trial, what));
    }
    campaign.run("repair", campaign.share(8), repair);
}

/// Opens a database as a crash left it, checks all it holds, and that it opens without complaint the next time.
pub fn reopen(path: &Path) -> Outcome<State> {
    let open = || {
        let options = Database::options().threads(1);
        options.open(path).map_err(|error| error.to_string())
    };
    let database = open()?;
    let state = observe(&database).map_err(|error| error.to_string())?;
    check(&database, &state);
    drop(database);
    let database = open()?;
    let mut warnings = database.warnings();
    // The warning comes until the file whose commits do not count is removed.
    warnings.retain(|warning| !warning.contains("not known to have been durable"));
    ensure(warnings.is_empty(), || {
        format!("warned twice: {warnings:?}")
    })?;
    let again = observe(&database).map_err(|error| error.to_string())?;
    ensure(again == state, || {
        "another state the second time".to_owned()
    })?;
    Ok(state)
}

/// A reader beside the writer, which ends when it is asked to.
struct Beside(Running);

impl Beside {
    fn start(path: &Path) -> Beside {
        Beside(Running::reader("reader", path))
    }

    /// What it saw must be some of `states`, in their order.
    fn end(self, states: &[State]) -> Outcome {
        let ended = self.0.end_reader()?;
        for word in ["error", "warning"] {
            if let Some(line) = ended.lines(word).next() {
                return Err(format!("reader: {word} {line}"));
            }
        }
        let known: Vec<u64> = states.iter().map(fingerprint).collect();
        let mut from = 0;
        for seen in ended.lines("saw") {
            let seen: u64 = seen.parse().unwrap();
            let at = known[from..].iter().position(|state| *state == seen);
            let at = at.ok_or_else(|| {
                let is_past = known[..from].contains(&seen);
                format!("a reader saw what never was, or what was over ({is_past})")
            })?;
            from += at;
        }
        Ok(())
    }
}

/// Kills a child some time after it has said that it is open, or before.
fn kill_after(mut writer: Running, pause: Duration) -> Outcome<Ended> {
    std::thread::sleep(pause);
    let _ = writer.child.kill();
    let ended = writer.end();
    use std::os::unix::process::ExitStatusExt;
    let is_killed = ended.status.signal() == Some(9);
    ensure(is_killed || ended.status.success(), || {
        ended.complaints.clone()
    })?;
    ensure(ended.complaints.is_empty(), || ended.complaints.clone())?;
    Ok(ended)
}

/// Changes of all kinds, by a process that shares the database or has it alone.
fn changes(trial: &Trial, is_shared: bool) -> Outcome {
    let mut random = trial.random();
    let path = trial.path("d.zdb");
    let folder = trial.folder.path().to_str().unwrap();
    let mut state = State::new();
    for round in 0..CHAIN {
        let seed = trial.seed.wrapping_add(round as u64);
        let reader = (round % 2 == 1).then(|| Beside::start(&path));
        let what = if is_shared {
            "shared-changes"
        } else {
            "changes"
        };
        let writer = Running::start(command(&[what, &seed.to_string(), folder]));
        let ended = kill_after(writer, Duration::from_micros(random.below(120_000) as u64))?;
        let done = ended.output.lines().filter(|line| *line == "done").count();
        let mut chance = Random::new(seed);
        let mut reached = state.clone();
        let mut states = vec![state.clone()];
        let mut changes = Vec::new();
        for _ in 0..=done {
            let change = Change::random(&mut chance, &reached);
            change.apply(&mut reached);
            states.push(reached.clone());
            changes.push(change);
        }
        reader.map_or(Ok(()), |reader| reader.end(&states))?;
        let possible = possible(&state, &changes, done, false);
        let found = reopen(&path)?;
        ensure(possible.contains(&found), || {
            format!("after {done} of {changes:?}: {found:?} is none of {possible:?}")
        })?;
        trial.passed(match (ended.has("open"), found == possible[0]) {
            (false, _) => "in open",
            (true, true) => "as acknowledged",
            (true, false) => "more",
        });
        state = found;
    }
    Ok(())
}

fn threads(trial: &Trial) -> Outcome {
    let mut random = trial.random();
    let path = trial.path("d.zdb");
    let mut all = Vec::new();
    for _ in 0..CHAIN {
        let writer = Running::start(command(&["committers", path.to_str().unwrap()]));
        let ended = kill_after(writer, Duration::from_micros(random.below(150_000) as u64))?;
        if !ended.has("open") && all.is_empty() {
            reopen(&path)?;
            trial.passed("in open");
            continue;
        }
        let database = Database::options().threads(1).open(&path);
        let database = database.map_err(|error| error.to_string())?;
        all = check_commits(&database, ended.output.lines(), &all, 1)?;
        trial.passed("as acknowledged");
    }
    Ok(())
}

/// Two processes that commit to one database, killed one after the other.
fn processes(trial: &Trial) -> Outcome {
    let mut random = trial.random();
    let path = trial.path("d.zdb");
    let open = || {
        let database = Database::options().threads(1).open(&path);
        database.map_err(|error| error.to_string())
    };
    let create = Change::Create("plain").perform(&open()?, trial.folder.path());
    create.map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    for _ in 0..CHAIN {
        let start = |process: &str| {
            let path = path.to_str().unwrap();
            Running::start(command(&["shared-committers", path, process]))
        };
        let (first, second) = (start("0"), start("1"));
        let mut pause = || Duration::from_micros(random.below(150_000) as u64);
        let first = kill_after(first, pause())?;
        let second = kill_after(second, pause())?;
        let reported = first.output.lines().chain(second.output.lines());
        all = check_commits(&open()?, reported, &all, 2)?;
        trial.passed("as acknowledged");
    }
    Ok(())
}

/// How long a statement takes without a kill.
fn duration(trial: &Trial, what: &str) -> Outcome<Duration> {
    let folder = trial.folder.path().to_str().unwrap();
    let start = Instant::now();
    let ended = run(&["one", what, folder]);
    ended.is_clean()?;
    ensure(ended.has("done"), || ended.output.clone())?;
    Ok(start.elapsed())
}

fn statement(trial: &Trial, what: &str) -> Outcome {
    let mut random = trial.random();
    let (path, base) = (trial.path("d.zdb"), trial.path("base.zdb"));
    let before = prepare(&base);
    let mut after = before.clone();
    change_of(what).apply(&mut after);
    copy_anew(&base, &path);
    let whole = duration(trial, what)?;
    ensure(reopen(&path)? == after, || {
        "another state without a kill".to_owned()
    })?;
    for round in 0..CHAIN {
        copy_anew(&base, &path);
        let reader = (round % 2 == 1).then(|| Beside::start(&path));
        let folder = trial.folder.path().to_str().unwrap();
        let writer = Running::start(command(&["one", what, folder]));
        // The process starts in some of this time.
        let ended = kill_after(writer, whole.mul_f64(random.below(1100) as f64 / 1000.0))?;
        let states = [before.clone(), after.clone()];
        reader.map_or(Ok(()), |reader| reader.end(&states))?;
        let found = reopen(&path)?;
        let is_known = found == after || (found == before && !ended.has("done"));
        ensure(is_known, || format!("{found:?} after {:?}", ended.output))?;
        trial.passed(match (found == after, ended.has("open")) {
            (true, _) => "after",
            (false, true) => "before",
            (false, false) => "in open",
        });
    }
    Ok(())
}

fn repair(trial: &Trial) -> Outcome {
    let mut random = trial.random();
    let (path, target) = (trial.path("d.zdb"), trial.path("repaired.zdb"));
    prepare(&path);
    // A lost segment, and all that is reported then.
    let segments = contents(&path.join("segments")).into_keys();
    let segments: Vec<_> = segments
        .filter(|path| path.extension().is_some_and(|extension| extension == "seg"))
        .collect();
    std::fs::write(&segments[random.below(segments.len())], "no segment").unwrap();
    let source = contents(&path);
    let whole = duration(trial, "repair")?;
    let expected = reopen(&target)?;
    for _ in 0..CHAIN {
        let _ = std::fs::remove_dir_all(&target);
        let folder = trial.folder.path().to_str().unwrap();
        let writer = Running::start(command(&["one", "repair", folder]));
        let ended = kill_after(writer, whole.mul_f64(random.below(1100) as f64 / 1000.0))?;
        ensure(contents(&path) == source, || {
            "the source has changed".to_owned()
        })?;
        let options = Database::options().threads(1).create(false);
        let opened = options.open(&target);
        let how = match opened {
            Ok(database) => {
                let found = observe(&database).map_err(|error| error.to_string())?;
                let is_reported = !database.warnings().is_empty();
                ensure(found == expected || is_reported, || {
                    let files =
                        |state: &State| state.values().map(|texts| texts.len()).sum::<usize>();
                    let (found, expected) = (files(&found), files(&expected));
                    format!("a killed repair opens as if complete: {found} of {expected} files")
                })?;
                "complete"
            }
            Err(error) => {
                ensure(!ended.has("done"), || format!("it was done: {error}"))?;
                "refused"
            }
        };
        // Once more, onto what is left of it, or after that was removed.
        let again = run(&["one", "repair", folder]);
        again.is_clean()?;
        if !again.has("done") {
            std::fs::remove_dir_all(&target).map_err(|error| error.to_string())?;
            let again = run(&["one", "repair", folder]);
            again.is_clean()?;
            ensure(again.has("done"), || again.output.clone())?;
        }
        ensure(reopen(&target)? == expected, || "another repair".to_owned())?;
        trial.passed(how);
    }
    Ok(())
}
