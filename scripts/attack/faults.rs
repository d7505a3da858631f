//! Calls of the system that fail, in whatever library: the n-th for every n, alone or with all after it; and a full disk.
//!
//! The invariant: what fails is an error that says why, changes nothing, and reaches the host as an error. Afterwards the
//! database opens and has what was acknowledged. `fail_call.c` makes calls fail; it is compiled with `cc` and preloaded.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::campaign::{Campaign, Outcome, Trial, ensure};
use crate::child::{Ended, Running, command, run};
use crate::damage::{View, examine};
use zipfdb_test_model::killed::random_changes;
use zipfdb_test_model::{State, possible};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/attack/fail_call.c");

/// Changes of a scenario.
const CHANGES: usize = 14;

const ENOSPC: i32 = 28;
const EIO: i32 = 5;

/// Each way to fail: its name, the error, whether all later calls fail too, and its share of the trials.
const WAYS: [(&str, i32, bool, u64); 4] = [
    ("no-space-once", ENOSPC, false, 20),
    ("no-space-from", ENOSPC, true, 20),
    ("io-error-once", EIO, false, 20),
    ("io-error-from", EIO, true, 20),
];

/// The compiled library, and where it lies.
struct Shim(tempfile::TempDir);

impl Shim {
    fn compile() -> Result<Shim, String> {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("fail_call.so");
        let status = Command::new("cc")
            .args(["-O1", "-shared", "-fPIC", "-o"])
            .args([&library, Path::new(SOURCE)])
            .arg("-ldl")
            .status();
        match status {
            Ok(status) if status.success() => Ok(Shim(folder)),
            other => Err(format!("cc: {other:?}")),
        }
    }

    /// Runs a child of which a call below `under` fails. Returns how many calls there were.
    fn run(&self, arguments: &[&str], under: &Path, call: (u64, i32, bool)) -> (Ended, u64) {
        let report = tempfile::NamedTempFile::new().unwrap();
        let (number, error, onwards) = call;
        let mut child = command(arguments);
        child
            .env("LD_PRELOAD", self.0.path().join("fail_call.so"))
            .env(
                "FAIL_CALL",
                format!("{number} {error} {}", u8::from(onwards)),
            )
            .env("FAIL_UNDER", under)
            .env("FAIL_REPORT", report.path());
        let ended = Running::start(child).end();
        let report = fs::read_to_string(report.path()).unwrap();
        let calls = report
            .split(' ')
            .next()
            .and_then(|count| count.parse().ok());
        (ended, calls.unwrap_or(0))
    }
}

pub fn attack(campaign: &mut Campaign) {
    match Shim::compile() {
        Ok(shim) => {
            for (name, error, onwards, percent) in WAYS {
                let next = Calls::default();
                campaign.run(name, campaign.share(percent), |trial| {
                    changes(trial, &shim, &next, (error, onwards))
                });
            }
            let next = Calls::default();
            campaign.run("reader", campaign.share(10), |trial| {
                reader(trial, &shim, &next)
            });
            let next = Calls::default();
            campaign.run("repair", campaign.share(5), |trial| {
                repair(trial, &shim, &next)
            });
        }
        Err(reason) => campaign.skip("calls", &reason),
    }
    match FullDisk::try_mount() {
        Ok(()) => campaign.run("full-disk", campaign.share(5), full_disk),
        Err(reason) => campaign.skip("full-disk", &reason),
    }
}

/// How many calls each scenario makes, found out once.
#[derive(Default)]
struct Calls(AtomicU64);

impl Calls {
    /// The call that fails in this trial, and the seed of its scenario: all calls of one, then those of the next.
    fn choose(&self, trial: &Trial, count: impl Fn() -> u64) -> (u64, u64) {
        let mut calls = self.0.load(Ordering::Relaxed);
        if calls == 0 {
            calls = count().max(1);
            self.0.store(calls, Ordering::Relaxed);
        }
        // 7 and the count have no common divisor except for one in seven: every call gets its turn soon.
        let stride = if calls.is_multiple_of(7) { 11 } else { 7 };
        (1 + trial.number * stride % calls, 1 + trial.number / calls)
    }
}

/// What makes an error more than a shrug.
fn says_why(error: &str) -> bool {
    let reasons = [
        "os error",
        "earlier write failed",
        "hint: close the database",
    ];
    reasons.iter().any(|reason| error.contains(reason))
}

fn changes(trial: &Trial, shim: &Shim, calls: &Calls, (error, onwards): (i32, bool)) -> Outcome {
    let root = trial.path("root");
    fs::create_dir(&root).unwrap();
    let path = root.join("d.zdb");
    let count = CHANGES.to_string();
    let scenario = |seed: &str, call| {
        let arguments = ["scenario", seed, &count, root.to_str().unwrap(), "close"];
        shim.run(&arguments, &path, call)
    };
    let (call, seed) = calls.choose(trial, || {
        let (_, calls) = scenario("1", (0, error, false));
        fs::remove_dir_all(&root).unwrap();
        fs::create_dir(&root).unwrap();
        calls
    });
    let (ended, _) = scenario(&seed.to_string(), (call, error, onwards));
    let context = format!("call {call} of scenario {seed}");
    ended
        .is_clean()
        .map_err(|problem| format!("{context}: {problem}"))?;
    // What is tried again after an error may fail for what the error has left.
    if let Some(line) = ended.lines("error").next() {
        ensure(says_why(line), || {
            format!("{context}: a message without its reason: {line}")
        })?;
    }
    let changes = random_changes(seed, CHANGES);
    let done = ended.output.lines().filter(|line| *line == "done").count();
    let possible = possible(&State::new(), &changes, done, false);
    let view =
        View::of(&examine("create", &path)).map_err(|problem| format!("{context}: {problem}"))?;
    ensure(possible.iter().any(|state| view.is(state)), || {
        format!(
            "{context}: after {done} changes: {:?} of {possible:?}",
            view.reported()
        )
    })?;
    let again = View::of(&examine("create", &path))?;
    ensure(again.reported().is_empty(), || {
        format!("{context}: {:?}", again.reported())
    })?;
    trial.passed(
        match (ended.has("open"), ended.has("refused"), done == CHANGES) {
            (false, _, _) => "not opened",
            (true, true, _) => "refused",
            (true, false, true) => "done",
            (true, false, false) => return Err(format!("{context}: neither done nor refused")),
        },
    );
    Ok(())
}

/// A database that a process has left, and what it holds.
fn left(trial: &Trial) -> (PathBuf, State) {
    let root = trial.path("root");
    fs::create_dir(&root).unwrap();
    let count = CHANGES.to_string();
    let ended = run(&["scenario", "5", &count, root.to_str().unwrap(), "close"]);
    ended.is_clean().unwrap();
    let mut state = State::new();
    for change in random_changes(5, CHANGES) {
        change.apply(&mut state);
    }
    (root.join("d.zdb"), state)
}

fn reader(trial: &Trial, shim: &Shim, calls: &Calls) -> Outcome {
    let (path, state) = left(trial);
    let arguments = ["examine", "read", path.to_str().unwrap()];
    let (call, _) = calls.choose(trial, || shim.run(&arguments, &path, (0, EIO, false)).1);
    let onwards = trial.number % 2 == 1;
    let (ended, _) = shim.run(&arguments, &path, (call, EIO, onwards));
    let view = View::of(&ended).map_err(|problem| format!("call {call}: {problem}"))?;
    ensure(view.is(&state) || !view.reported().is_empty(), || {
        format!("call {call}: silently wrong")
    })?;
    trial.passed(if view.is(&state) { "right" } else { "reported" });
    Ok(())
}

fn repair(trial: &Trial, shim: &Shim, calls: &Calls) -> Outcome {
    let (path, state) = left(trial);
    let target = trial.path("repaired.zdb");
    let arguments = ["repair", path.to_str().unwrap(), target.to_str().unwrap()];
    let error = [EIO, ENOSPC][(trial.number % 2) as usize];
    // Calls on either side.
    let under = trial.folder.path();
    let (call, _) = calls.choose(trial, || {
        let (_, calls) = shim.run(&arguments, under, (0, ENOSPC, false));
        fs::remove_dir_all(&target).unwrap();
        calls
    });
    let (ended, _) = shim.run(&arguments, under, (call, error, trial.number % 4 > 1));
    ended
        .is_clean()
        .map_err(|problem| format!("call {call}: {problem}"))?;
    let reported = View::of(&ended)?;
    let view = View::of(&examine("read", &target))?;
    let is_right = view.is(&state);
    let is_reported =
        !view.reported().is_empty() || (ended.has("done") && !reported.reported().is_empty());
    ensure(is_right || is_reported, || {
        format!(
            "call {call}: opens as if complete after {:?}",
            reported.reported()
        )
    })?;
    trial.passed(if is_right { "right" } else { "reported" });
    Ok(())
}

/// A small file system in memory, which goes when this does.
struct FullDisk(PathBuf);

impl FullDisk {
    /// Whether it may be done here at all.
    fn try_mount() -> Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        FullDisk::new(&folder.path().join("disk")).map(drop)
    }

    fn new(path: &Path) -> Result<FullDisk, String> {
        fs::create_dir(path).unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=6m", "tmpfs"])
            .arg(path)
            .output();
        match mount {
            Ok(output) if output.status.success() => Ok(FullDisk(path.to_path_buf())),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Leaves no byte free.
    fn fill(&self) {
        let mut file = fs::File::create(self.0.join("filler")).unwrap();
        for size in [1 << 16, 1 << 12, 1] {
            let bytes = vec![1; size];
            while file.write_all(&bytes).is_ok() {}
        }
    }
}

impl Drop for FullDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// What makes room, and what needs little of it, works on a full disk.
fn full_disk(trial: &Trial) -> Outcome {
    let path = trial.path("disk");
    let disk = FullDisk::new(&path)?;
    let what = ["drop", "delete", "recompress"][(trial.number % 3) as usize];
    let database = path.join("d.zdb");
    let folder = path.to_str().unwrap();
    run(&["room", "prepare", folder]).is_clean()?;
    disk.fill();
    let ended = run(&["room", what, folder]);
    ended
        .is_clean()
        .map_err(|problem| format!("{what}: {problem}"))?;
    ensure(ended.has("done"), || {
        format!("{what}: {}", ended.output.trim())
    })?;
    let reader = examine("read", &database);
    let view = View::of(&reader).map_err(|problem| format!("{what}: {problem}"))?;
    ensure(view.reported().is_empty(), || {
        format!("{what}: {:?}", view.reported())
    })?;
    trial.passed(what);
    Ok(())
}
