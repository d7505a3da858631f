//! What processes do until they are killed or refused, and what must be left of it.
//!
//! The invariant: the parent process knows from the seed and from the lines that its children print what may be there.

use std::path::Path;
use std::thread;
use std::time::Duration;

use zipfdb::{Database, Durability};

use crate::{CORPORA, Change, State, Texts, observe, texts_of};
use zipfdb_test_support::harness::Random;

/// Changes that are possible one after the other.
pub fn random_changes(seed: u64, count: usize) -> Vec<Change> {
    let mut random = Random::new(seed);
    let mut state = State::new();
    let mut changes = Vec::new();
    for _ in 0..count {
        let change = Change::random(&mut random, &state);
        change.apply(&mut state);
        changes.push(change);
    }
    changes
}

/// Changes a database for ever, and reports each change that is done to `report_line`.
pub fn change_until_killed(
    database: &Database,
    seed: u64,
    folder: &Path,
    report_line: impl Fn(&str),
) {
    let mut random = Random::new(seed);
    let mut state = observe(database).unwrap();
    report_line("open");
    loop {
        let change = Change::random(&mut random, &state);
        change.perform(database, folder).unwrap();
        change.apply(&mut state);
        report_line("done");
    }
}

/// As [`change_until_killed`], but ends with the first error, which is printed. A database that is not shared refuses the change then
/// for good.
pub fn change_until_refused(
    database: &Database,
    is_shared: bool,
    seed: u64,
    folder: &Path,
    report_line: impl Fn(&str),
) {
    let mut random = Random::new(seed);
    let mut state = observe(database).unwrap();
    report_line("open");
    loop {
        let change = Change::random(&mut random, &state);
        if let Err(error) = change.perform(database, folder) {
            if !is_shared && change.perform(database, folder).is_ok() {
                report_line("changed after an error");
            }
            return report_line(&format!("refused {error}"));
        }
        change.apply(&mut state);
        report_line("done");
    }
}

/// Reads a shared database again and again until `is_over`, and prints the fingerprint of each corpus as it is in one snapshot.
pub fn read_until_over(
    database: &Database,
    is_over: impl Fn() -> bool,
    fingerprint: impl Fn(&Texts) -> u64,
    report_line: impl Fn(&str),
) {
    while !is_over() {
        for name in CORPORA {
            let snapshot = database.corpus(name).and_then(|corpus| corpus.snapshot());
            match snapshot.and_then(|snapshot| texts_of(&snapshot)) {
                Ok(texts) => report_line(&format!("saw {name} {}", fingerprint(&texts))),
                Err(error) => report_line(&format!("error {error}")),
            }
        }
    }
}

/// Threads that commit at once. Each durability has one; without any a commit may be lost.
const COMMITTERS: [Durability; 3] = [Durability::Full, Durability::Normal, Durability::Off];

/// The word that a commit of a thread appends; it names the thread and the commit.
fn word(thread: usize, number: usize) -> String {
    format!("{thread}.{number} ")
}

/// The words in a file; none if there is no such file.
fn words_of(database: &Database, file: &str) -> Vec<String> {
    let snapshot = database.corpus("plain").unwrap().snapshot().unwrap();
    let text = snapshot.extract(file, 0, u64::MAX).unwrap_or_default();
    let text = String::from_utf8(text).unwrap();
    text.split_inclusive(' ').map(str::to_owned).collect()
}

/// The threads of a process of several, each with its durability.
fn committers(process: usize) -> impl Iterator<Item = (usize, Durability)> {
    (process * COMMITTERS.len()..).zip(COMMITTERS)
}

/// Commits from several threads of one of some processes for ever, with a pause after each, and reports each commit that is
/// acknowledged: its thread and its number.
pub fn commit_until_killed(
    database: &Database,
    process: usize,
    pause: Duration,
    report_line: impl Fn(&str) + Sync,
) {
    if database.corpora().is_empty() {
        let create = Change::Create("plain");
        create.perform(database, Path::new("")).unwrap();
    }
    report_line("open");
    thread::scope(|scope| {
        for (thread, durability) in committers(process) {
            let begun = words_of(database, &format!("t{thread}")).len();
            let report_line = &report_line;
            scope.spawn(move || {
                for number in begun.. {
                    commit(database, thread, number, durability).unwrap();
                    report_line(&format!("{thread} {number}"));
                    thread::sleep(pause);
                }
            });
        }
    });
}

/// As [`commit_until_killed`], of a database that has its corpus; each thread ends with its first error, which is printed.
pub fn commit_until_refused(
    database: &Database,
    process: usize,
    pause: Duration,
    report_line: impl Fn(&str) + Sync,
) {
    let begun: Vec<_> = committers(process)
        .map(|(thread, durability)| {
            let begun = words_of(database, &format!("t{thread}")).len();
            (thread, durability, begun)
        })
        .collect();
    report_line("open");
    thread::scope(|scope| {
        for (thread, durability, begun) in begun {
            let report_line = &report_line;
            scope.spawn(move || {
                for number in begun.. {
                    if let Err(error) = commit(database, thread, number, durability) {
                        return report_line(&format!("refused {error}"));
                    }
                    report_line(&format!("{thread} {number}"));
                    thread::sleep(pause);
                }
            });
        }
    });
}

fn commit(
    database: &Database,
    thread: usize,
    number: usize,
    durability: Durability,
) -> zipfdb::Result<()> {
    let mut transaction = database.begin()?;
    transaction.set_durability(durability);
    let word = word(thread, number);
    let rows = [("all", &word), (&format!("t{thread}")[..], &word)];
    transaction.append_many("plain", &rows)?;
    transaction.commit()
}

/// Checks what [`commit_until_killed`] has left in `processes` processes, after the lines `printed` that they printed.
/// `before` is what this
/// returned the last time.
pub fn check_commits<'a>(
    database: &Database,
    printed: impl Iterator<Item = &'a str> + Clone,
    before: &[String],
    processes: usize,
) -> Result<Vec<String>, String> {
    let found = words_of(database, "all");
    if !found.starts_with(before) {
        return Err("less than before".to_owned());
    }
    for (thread, durability) in (0..processes).flat_map(committers) {
        let own = words_of(database, &format!("t{thread}"));
        let expected: Vec<String> = (0..own.len()).map(|number| word(thread, number)).collect();
        if own != expected {
            return Err(format!("{own:?}"));
        }
        let prefix = format!("{thread}.");
        let in_all = found.iter().filter(|word| word.starts_with(&prefix));
        if !in_all.eq(&own) {
            return Err("half of a commit".to_owned());
        }
        let prefix = format!("{thread} ");
        let numbers = printed
            .clone()
            .filter_map(|line| line.strip_prefix(&prefix));
        let numbers = numbers.map(|number| number.parse::<usize>().unwrap());
        let acknowledged = numbers.max().map_or(0, |number| number + 1);
        if own.len() < acknowledged && durability != Durability::Off {
            return Err(format!("{durability:?}: {} of {acknowledged}", own.len()));
        }
    }
    Ok(found)
}
