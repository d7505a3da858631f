//! Threads that read, write and recompress one database at the same time, against the history of what was committed.
//!
//! The invariant: each commit writes its number into a file of each corpus, so a snapshot shows which commit it is of; it
//! must hold what the history has there, and be no older than what was acknowledged before it was taken and than what the
//! same thread has seen. `ZIPFDB_STRESS_ROUNDS` makes more commits, `ZIPFDB_SEED` starts from another number.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use zipfdb::ingest::{CopyOptions, NoProgress};

use zipfdb::{Database, Durability, Snapshot};
use zipfdb_test_model::{CORPORA, State, Texts, check_counts, random_edits, settings};
use zipfdb_test_support::harness::{Random, scratch};

/// The file that has the number of the last commit. Only the edit of the number names it.
const NUMBER: &str = "number";

/// The states that threads may find in the database they work on.
struct Oracle {
    /// What the corpora hold after each commit, except for numbers and imported files. A commit is added in its turn.
    history: Mutex<Vec<State>>,
    /// Commits before this one are acknowledged.
    acknowledged: AtomicUsize,
    /// Imported files; those that are acknowledged, by number.
    imported: AtomicUsize,
    /// Snapshots that were read through.
    checked: AtomicUsize,
    is_over: AtomicBool,
}

/// A number in letters, which every tokenizer takes for one word.
fn letters(number: usize) -> String {
    let digits = number.to_string().into_bytes();
    digits
        .iter()
        .map(|digit| char::from(digit - b'0' + b'a'))
        .collect()
}

fn number(letters: &[u8]) -> usize {
    let digits: String = letters
        .iter()
        .map(|letter| char::from(letter - b'a' + b'0'))
        .collect();
    digits.parse().unwrap()
}

fn imported(number: usize) -> (String, Vec<u8>) {
    let text = format!("the {} cat\n", letters(number)).repeat(1 + number % 40);
    (format!("x{number}"), text.into_bytes())
}

impl Oracle {
    fn new() -> Oracle {
        let empty = CORPORA.map(|corpus| (corpus, Texts::new()));
        Oracle {
            history: Mutex::new(vec![State::from(empty)]),
            acknowledged: AtomicUsize::new(0),
            imported: AtomicUsize::new(0),
            checked: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    /// Makes random edits in one commit.
    fn commit(&self, database: &Database, random: &mut Random) {
        let mut transaction = database.begin().unwrap();
        let durabilities = [Durability::Full, Durability::Normal, Durability::Off];
        transaction.set_durability(durabilities[random.below(3)]);
        let last = self.history.lock().unwrap().last().unwrap().clone();
        let mut next = last.clone();
        for (corpus, edit) in random_edits(random, &last) {
            edit.apply(next.get_mut(corpus).unwrap());
            edit.perform(&mut transaction, corpus).unwrap();
        }
        if random.below(8) == 0 {
            return transaction.rollback();
        }
        let number = {
            let mut history = self.history.lock().unwrap();
            history.push(next);
            history.len() - 1
        };
        for corpus in CORPORA {
            let row = (NUMBER, letters(number));
            transaction.replace_many(corpus, &[row]).unwrap();
        }
        transaction.commit().unwrap();
        self.acknowledged.fetch_max(number, Ordering::SeqCst);
    }

    /// Takes a snapshot and checks which commit it is of: not before `last`, and returned.
    fn snapshot(
        &self,
        database: &Database,
        corpus: &'static str,
        last: usize,
    ) -> (Snapshot, usize) {
        let least = self.acknowledged.load(Ordering::SeqCst);
        let least_imported = self.imported.load(Ordering::SeqCst);
        let snapshot = database.corpus(corpus).unwrap().snapshot().unwrap();
        let seen = match snapshot.file(NUMBER) {
            Some(_) => number(&snapshot.extract(NUMBER, 0, u64::MAX).unwrap()),
            None => 0,
        };
        assert!(seen >= least, "{corpus}: {seen} was taken after {least}");
        assert!(seen >= last, "{corpus}: {seen} after {last} was seen");
        if corpus == CORPORA[0] {
            let last = snapshot.file(&imported(least_imported).0);
            assert!(least_imported == 0 || last.is_some(), "{least_imported}");
        }
        (snapshot, seen)
    }

    /// Checks that a snapshot of commit `seen` holds what the history has there.
    fn check(&self, snapshot: &Snapshot, corpus: &'static str, seen: usize) {
        let mut expected = self.history.lock().unwrap()[seen][corpus].clone();
        if seen > 0 {
            expected.insert(NUMBER.into(), letters(seen).into());
        }
        let names: BTreeSet<String> = (snapshot.files().iter())
            .map(|file| file.name.to_string())
            .collect();
        for number in 1.. {
            let (name, text) = imported(number);
            if !names.contains(&name) {
                break;
            }
            expected.insert(name, text);
        }
        assert!(names.iter().eq(expected.keys()), "{seen}: {names:?}");
        for (name, text) in &expected {
            let found = snapshot.extract(name, 0, u64::MAX).unwrap();
            assert!(
                found == *text,
                "{corpus} {seen} {name}: {} is not {}",
                found.escape_ascii(),
                text.escape_ascii()
            );
        }
        check_counts(snapshot, &expected).unwrap();
        self.checked.fetch_add(1, Ordering::SeqCst);
    }

    /// Reads until the writers are done. Some snapshots are kept and read again when much has happened.
    fn read(&self, database: &Database, random: &mut Random) {
        let mut last = [0; CORPORA.len()];
        let mut kept: Vec<(Snapshot, &'static str, usize)> = Vec::new();
        while !self.is_over.load(Ordering::SeqCst) {
            let at = random.below(CORPORA.len());
            let corpus = CORPORA[at];
            let (snapshot, seen) = self.snapshot(database, corpus, last[at]);
            last[at] = seen;
            match random.below(3) {
                0 => kept.push((snapshot, corpus, seen)),
                _ => self.check(&snapshot, corpus, seen),
            }
            if kept.len() > 3 {
                let (snapshot, corpus, seen) = kept.swap_remove(random.below(3));
                self.check(&snapshot, corpus, seen);
            }
        }
        for (snapshot, corpus, seen) in kept {
            self.check(&snapshot, corpus, seen);
        }
    }

    /// Imports one file after the other into the first corpus.
    fn import(&self, database: &Database, folder: &Path, count: usize) {
        for number in 1..=count {
            let (name, text) = imported(number);
            let path = folder.join(name);
            fs::write(&path, text).unwrap();
            let corpus = database.corpus(CORPORA[0]).unwrap();
            corpus.copy_from(&path, &CopyOptions::default()).unwrap();
            self.imported.store(number, Ordering::SeqCst);
        }
    }
}

fn segment_files(database: &Path) -> usize {
    let entries = fs::read_dir(database.join("segments")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains(".seg")).count()
}

#[test]
fn every_snapshot_is_of_a_commit_that_is_not_older_than_what_was_acknowledged() {
    let rounds = std::env::var("ZIPFDB_STRESS_ROUNDS");
    let rounds: usize = rounds.map_or(250, |rounds| rounds.parse().unwrap());
    let seed = Random::seed(1);
    let folder = scratch();
    let path = folder.path().join("d.zdb");
    let database = Database::options().threads(2).open(&path).unwrap();
    for corpus in CORPORA {
        database.create_corpus(corpus, settings(corpus)).unwrap();
    }
    let oracle = Oracle::new();
    thread::scope(|scope| {
        let (oracle, database) = (&oracle, &database);
        let mut writers = Vec::new();
        for writer in 0..3 {
            let mut random = Random::new(seed * 100 + writer);
            writers.push(scope.spawn(move || {
                for _ in 0..rounds {
                    oracle.commit(database, &mut random);
                }
            }));
        }
        writers.push(scope.spawn(|| oracle.import(database, folder.path(), rounds / 8)));
        writers.push(scope.spawn(move || {
            for round in 0..rounds / 6 {
                let corpus = database.corpus(CORPORA[round % 2]).unwrap();
                corpus.recompress(&NoProgress).unwrap();
            }
        }));
        for reader in 0..3 {
            let mut random = Random::new(seed * 100 + 50 + reader);
            scope.spawn(move || oracle.read(database, &mut random));
        }
        let ends: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        // Readers end also when a writer has failed.
        oracle.is_over.store(true, Ordering::SeqCst);
        assert!(ends.iter().all(|end| end.is_ok()), "a writer failed");
    });

    let last = oracle.history.lock().unwrap().len() - 1;
    let checked = oracle.checked.load(Ordering::SeqCst);
    println!("{last} commits, {checked} snapshots");
    assert!(
        checked > rounds / 4,
        "{checked} snapshots are too few to believe"
    );
    let check = |database: &Database| {
        for corpus in CORPORA {
            let (snapshot, seen) = oracle.snapshot(database, corpus, last);
            oracle.check(&snapshot, corpus, seen);
        }
    };
    check(&database);
    for corpus in CORPORA {
        // A recompression in the background, once the database is opened again, would make files while they are counted.
        let never = format!("ALTER CORPUS \"{corpus}\" SET (recompress_threshold = '1GiB')");
        database.execute_batch(&never).unwrap();
    }
    drop(database);
    let database = Database::open(&path).unwrap();
    assert_eq!(database.warnings(), Vec::<String>::new());
    check(&database);
    let live = CORPORA.map(|corpus| database.corpus(corpus).unwrap().segments().unwrap().len());
    assert_eq!(segment_files(&path), live.iter().sum::<usize>());
}
