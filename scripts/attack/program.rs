//! What the host programs do, by their arguments.
//!
//! Invariant: a program says each thing it has done when it is done, a line each, and ends at its first panic.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};
use zipfdb::ingest::{CopyOptions, NoProgress};
use zipfdb::repair::repair;
use zipfdb::{Database, InterruptHandle};
use zipfdb_test_model::killed::{
    change_until_killed, change_until_refused, commit_until_killed, commit_until_refused,
    random_changes, read_until_over,
};
use zipfdb_test_model::{self, Change, State, Texts, check_counts, observe};

use crate::child::{LOCK_KEPT, change_of, fingerprint, hex, open, prepare, report_line, share};
use crate::{damage, hostile, limits, timeouts};

/// The host program.
pub fn main(arguments: &[String]) {
    std::panic::set_hook(Box::new(|info| {
        let text = info.to_string().replace('\n', " ");
        let _ = writeln!(std::io::stderr(), "panic: {text}");
        std::process::abort();
    }));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["changes", seed, folder] => {
            let database = open(&Path::new(folder).join("d.zdb")).unwrap();
            change_until_killed(
                &database,
                seed.parse().unwrap(),
                Path::new(folder),
                report_line,
            );
        }
        ["shared-changes", seed, folder] => {
            let database = share(&Path::new(folder).join("d.zdb")).unwrap();
            change_until_killed(
                &database,
                seed.parse().unwrap(),
                Path::new(folder),
                report_line,
            );
        }
        ["committers", path] => {
            let database = open(Path::new(path)).unwrap();
            commit_until_killed(&database, 0, Duration::ZERO, report_line);
        }
        ["shared-committers", path, process] => {
            let database = share(Path::new(path)).unwrap();
            let process = process.parse().unwrap();
            commit_until_killed(&database, process, 2 * LOCK_KEPT, report_line);
        }
        ["changes-beside", way, seed, folder] => {
            let folder = Path::new(folder);
            let is_shared = way == "shared";
            let open = if is_shared { share } else { open };
            match open(&folder.join("d.zdb")) {
                Ok(database) => {
                    let seed = seed.parse().unwrap();
                    change_until_refused(&database, is_shared, seed, folder, report_line);
                }
                Err(error) => report_line(&format!("refused {error}")),
            }
        }
        ["committers-beside", way, path, process] => {
            let is_shared = way == "shared";
            let open = if is_shared { share } else { open };
            let pause = if is_shared {
                2 * LOCK_KEPT
            } else {
                Duration::ZERO
            };
            match open(Path::new(path)) {
                Ok(database) => {
                    commit_until_refused(&database, process.parse().unwrap(), pause, report_line);
                }
                Err(error) => report_line(&format!("refused {error}")),
            }
        }
        ["reader-beside", path] => {
            let stop = until_stopped();
            // The reader must not make a database at a path whose database was
            // removed.
            let options = Database::options().threads(2).shared(true).create(false);
            match options.open(path) {
                Ok(database) => {
                    let is_over = || stop.try_recv() == Err(mpsc::TryRecvError::Disconnected);
                    read_until_over(&database, is_over, fingerprint, report_line);
                }
                Err(error) => report_line(&format!("error {error}")),
            }
        }
        ["one", what, folder] => one(what, Path::new(folder)),
        ["reader", path] => read_until_stopped(Path::new(path)),
        ["examine", mode, path] => examine(mode, Path::new(path)),
        ["repair", source, target] => run_repair(Path::new(source), Path::new(target)),
        ["scenario", seed, count, folder, how] => {
            let (seed, count) = (seed.parse().unwrap(), count.parse().unwrap());
            scenario(seed, count, Path::new(folder), how);
        }
        ["limited", resource, value, seed, count, folder] => {
            let resource = match resource {
                "memory" => Resource::As,
                _ => Resource::Nofile,
            };
            let value: u64 = value.parse().unwrap();
            let limit = Rlimit {
                current: Some(value),
                maximum: Some(value),
            };
            setrlimit(resource, limit).unwrap();
            let (seed, count) = (seed.parse().unwrap(), count.parse().unwrap());
            scenario(seed, count, Path::new(folder), "close");
            limits::queries(Path::new(folder));
        }
        ["build", variant, process, how, folder] => {
            let changes =
                &damage::script(variant.parse().unwrap())[process.parse::<usize>().unwrap()];
            let folder = Path::new(folder);
            let database = open(&folder.join("d.zdb")).unwrap();
            for change in changes {
                change.perform(&database, folder).unwrap();
            }
            if how == "leave" {
                std::process::exit(0);
            }
        }
        ["room", what, folder] => make_room(what, Path::new(folder)),
        ["hostile", number] => hostile::run(number.parse().unwrap()),
        ["timeouts", group, folder] => timeouts::run(group, Path::new(folder)),
        _ => panic!("{arguments:?}"),
    }
}

/// A single statement on a database that was prepared.
fn one(what: &str, folder: &Path) {
    let path = folder.join("d.zdb");
    if what == "repair" {
        report_line("open");
        run_repair(&path, &folder.join("repaired.zdb"));
        return;
    }
    let database = open(&path).unwrap();
    let change = change_of(what);
    let import = folder.join("files");
    if let Change::Copy(_, files) = &change {
        let _ = std::fs::create_dir(&import);
        for (name, text) in files {
            std::fs::write(import.join(name), text).unwrap();
        }
    }
    report_line("open");
    match &change {
        Change::Copy(corpus, _) => {
            let corpus = database.corpus(corpus).unwrap();
            corpus.copy_from(&import, &CopyOptions::default()).unwrap();
        }
        change => change.perform(&database, folder).unwrap(),
    }
    report_line("done");
}

/// Statements that need little room or make some, on a database that was prepared.
fn make_room(what: &str, folder: &Path) {
    let path = folder.join("d.zdb");
    if what == "prepare" {
        prepare(&path);
        // Hundreds of segments of some bytes each would take a block of the disk each.
        let database = open(&path).unwrap();
        let larger = "ALTER CORPUS plain SET (segment_size = '1MiB')";
        database.execute_batch(larger).unwrap();
        return;
    }
    let database = match open(&path) {
        Ok(database) => database,
        Err(error) => return report_line(&format!("error {error}")),
    };
    let result = match what {
        "drop" => database.drop_corpus("Other"),
        "delete" => database
            .corpus("plain")
            .and_then(|corpus| corpus.delete_many(&["api1"])),
        _ => {
            let corpus = database.corpus("plain");
            corpus.and_then(|corpus| corpus.recompress(&NoProgress).map(drop))
        }
    };
    match result {
        Ok(()) => report_line("done"),
        Err(error) => report_line(&format!("error {error}")),
    }
}

/// Disconnected when standard input ends.
fn until_stopped() -> mpsc::Receiver<()> {
    let (sender, stop) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        drop(sender);
    });
    stop
}

/// Opens a database for reading again and again until standard input ends, and prints what it sees each
/// time.
fn read_until_stopped(path: &Path) {
    let stop = until_stopped();
    loop {
        let options = Database::options().threads(1).read_only(true);
        match options.open(path) {
            Ok(database) => {
                let state = observe(&database).unwrap();
                for (corpus, texts) in &state {
                    let corpus = database.corpus(corpus).unwrap();
                    check_counts(&corpus.snapshot().unwrap(), texts).unwrap();
                }
                for warning in database.warnings() {
                    report_line(&format!("warning {warning}"));
                }
                report_line(&format!("saw {}", fingerprint(&state)));
            }
            Err(error) => report_line(&format!("error {error}")),
        }
        if stop.try_recv() == Err(mpsc::TryRecvError::Disconnected) {
            return;
        }
    }
}

/// Opens a database, and prints all that is in it and all that is wrong with it.
fn examine(mode: &str, path: &Path) {
    let options = Database::options().threads(1).create(mode == "create");
    let database = match options.read_only(mode == "read").open(path) {
        Ok(database) => database,
        Err(error) => return report_line(&format!("error {error}")),
    };
    for name in database.corpora() {
        let hex_name = hex(name.as_bytes());
        let corpus = database.corpus(&name).unwrap();
        match corpus.check(&NoProgress) {
            Ok(checks) => {
                for problem in checks.iter().filter_map(|check| check.problem.as_ref()) {
                    report_line(&format!("problem {problem}"));
                }
            }
            Err(error) => report_line(&format!("problem {error}")),
        }
        let snapshot = match corpus.snapshot() {
            Ok(snapshot) => snapshot,
            Err(error) => {
                report_line(&format!("error {error}"));
                continue;
            }
        };
        report_line(&format!("corpus {hex_name}"));
        let mut texts = Texts::new();
        let mut is_whole = true;
        for file in snapshot.files() {
            let name = hex(file.name.as_bytes());
            match snapshot.extract(&file.name, 0, u64::MAX) {
                Ok(text) => {
                    report_line(&format!("file {hex_name} {name} {}", hex(&text)));
                    texts.insert(file.name.to_string(), text);
                }
                Err(error) => {
                    is_whole = false;
                    report_line(&format!("error {error}"));
                }
            }
        }
        if is_whole && let Err(error) = check_counts(&snapshot, &texts) {
            report_line(&format!("error {error}"));
        }
    }
    for warning in database.warnings() {
        report_line(&format!("warning {warning}"));
    }
}

/// Repairs a database, and prints the report.
fn run_repair(source: &Path, target: &Path) {
    match repair(source, target, &NoProgress, &InterruptHandle::new()) {
        Ok(report) => {
            report
                .lost
                .iter()
                .for_each(|line| report_line(&format!("lost {line}")));
            report
                .notes
                .iter()
                .for_each(|line| report_line(&format!("note {line}")));
            report_line("done");
        }
        Err(error) => report_line(&format!("error {error}")),
    }
}

/// Makes changes, each twice if it fails once, and prints their outcomes. Then the database is closed, or left
/// open.
fn scenario(seed: u64, count: usize, folder: &Path, how: &str) {
    let database = match open(&folder.join("d.zdb")) {
        Ok(database) => database,
        Err(error) => return report_line(&format!("error {error}")),
    };
    report_line("open");
    let mut state = State::new();
    for change in random_changes(seed, count) {
        let mut result = change.perform(&database, folder);
        if let Err(error) = result {
            report_line(&format!("error {error}"));
            // What fails changes nothing.
            match observe(&database) {
                Ok(found) => assert_eq!(found, state, "{change:?}"),
                Err(error) => report_line(&format!("error {error}")),
            }
            result = change.perform(&database, folder);
        }
        if let Err(error) = result {
            report_line(&format!("error {error}"));
            report_line("refused");
            break;
        }
        change.apply(&mut state);
        report_line("done");
    }
    match how {
        // As a kill would leave it, at a moment when nothing is going on.
        "leave" => std::process::exit(0),
        _ => drop(database),
    }
    report_line("closed");
}
