//! `repair`: what is not damaged is in the new database, what is not there is told, the damaged one stays as it is.
//!
//! `ZIPFDB_CORRUPT_STEP=1` damages every byte.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use support::harness::{Random, contents, scratch};
use support::{Change, Edit, State, check, observe};
use zipfdb::{Database, Durability, NoProgress, RepairReport, repair};
use zipfdb_storage::{FileBackend, SegmentReader};

mod support;

/// Bytes of a log file before its first commit.
const HEADER_SIZE: usize = 40;

fn perform(path: &Path, changes: &[Change], states: &mut Vec<State>) {
    let database = Database::options().threads(1).open(path).unwrap();
    for change in changes {
        change.perform(&database, path.parent().unwrap()).unwrap();
        let mut state = states.last().unwrap().clone();
        change.apply(&mut state);
        states.push(state);
    }
}

/// A database with segments and, in its log, five commits. Returns what it held before them and after each.
fn build(path: &Path) -> Vec<State> {
    let append = |file: &str, text: &str| Edit::Append(vec![(file.into(), text.into())]);
    let insert = |file: &str, text: &str| Edit::Insert(vec![(file.into(), 3, text.into())]);
    let commit = |corpus, edit| Change::Commit(Durability::Full, vec![(corpus, edit)]);
    let copied = |names: [&str; 2]| {
        let text = |name: &str| format!("{name} {}", "the cat sat on the mat ".repeat(8));
        names
            .map(|name| (name.to_owned(), text(name).into()))
            .into()
    };
    let mut states = vec![State::new()];
    let segments = [
        Change::Create("plain"),
        Change::Copy("plain", copied(["a", "b"])),
        Change::Copy("plain", copied(["c", "e"])),
        Change::Create("Other"),
        commit("Other", append("x", "the cat and the dog")),
        Change::Recompress("Other"),
    ];
    perform(path, &segments, &mut states);
    states.drain(..states.len() - 1);
    let edits = [
        commit("plain", append("d", "cat and dog")),
        commit("plain", insert("a", "a cat ")),
        commit("Other", append("x", " on the mat")),
        commit("plain", Edit::Delete(vec!["b".into()])),
        commit("plain", Edit::Replace(vec![("c".into(), "a dog".into())])),
    ];
    perform(path, &edits, &mut states);
    states
}

/// Repairs a database, which must not change, and says what the new one holds.
fn repaired(path: &Path) -> (State, RepairReport) {
    let target = path.with_extension("repaired");
    let _ = fs::remove_dir_all(&target);
    let before = contents(path);
    let report = repair(path, &target, &NoProgress).unwrap();
    assert!(contents(path) == before, "the damaged database has changed");
    let database = Database::options().threads(1).open(&target).unwrap();
    assert_eq!(database.warnings(), Vec::<String>::new());
    let names = database.corpora();
    let known = |name: &String| support::CORPORA.contains(&name.as_str());
    assert!(names.iter().all(known), "{names:?}: {report:?}");
    let state = observe(&database).unwrap();
    check(&database, &state);
    assert_eq!(report.corpora, state.len() as u64);
    let texts = || state.values().flat_map(|texts| texts.values());
    assert_eq!(report.files, texts().count() as u64);
    assert_eq!(
        report.bytes,
        texts().map(|text| text.len() as u64).sum::<u64>()
    );
    (state, report)
}

fn segment_files(path: &Path) -> BTreeSet<String> {
    let reader = SegmentReader::open(&FileBackend, path).unwrap();
    let files = reader.files().unwrap().iter();
    files.map(|file| file.name.clone()).collect()
}

#[test]
fn a_sound_database_is_copied_and_nothing_is_lost() {
    let folder = scratch();
    let path = folder.path().join("d.zdb");
    let states = build(&path);
    let (state, report) = repaired(&path);
    assert_eq!(Some(&state), states.last());
    assert_eq!((report.lost, report.notes), (vec![], vec![]));
    let error = repair(&path, &path, &NoProgress).unwrap_err();
    assert!(error.to_string().contains("it exists"), "{error}");
}

#[test]
fn everything_that_is_not_damaged_is_saved() {
    let step = std::env::var("ZIPFDB_CORRUPT_STEP");
    let step: usize = step.map_or(40, |step| step.parse().unwrap());
    let seed = Random::seed(1);
    let mut random = Random::new(seed);
    let folder = scratch();
    let path = folder.path().join("d.zdb");
    let states = build(&path);
    let last = states.last().unwrap();
    let mut commits_seen = BTreeSet::new();
    let mut cases = 0;
    for (file, bytes) in contents(&path) {
        if bytes.is_empty() || file.ends_with("LOCK") {
            continue;
        }
        let name = file.strip_prefix(&path).unwrap().display().to_string();
        let step = match name.starts_with("catalog") {
            true => step * 1000,
            false => step,
        };
        let in_segment = match name.ends_with(".seg") {
            true => segment_files(&file),
            false => BTreeSet::new(),
        };
        // Once without the file at all.
        let mut at = None;
        let mut reached = 0;
        loop {
            match at {
                None => fs::remove_file(&file).unwrap(),
                Some(at) => {
                    let mut damaged = bytes.clone();
                    let damaged_byte: &mut u8 = &mut damaged[at];
                    *damaged_byte ^= 1 << random.below(8);
                    fs::write(&file, damaged).unwrap();
                }
            }
            cases += 1;
            let (state, report) = repaired(&path);
            let context = format!("ZIPFDB_SEED={seed}, {name}, byte {at:?}: {report:?}");
            if name.ends_with(".log") {
                let commits = states.iter().position(|known| *known == state);
                let commits = commits.unwrap_or_else(|| panic!("{context}: {state:?}"));
                let is_told = commits == states.len() - 1 || !report.lost.is_empty();
                // A log that is not there at all leaves no trace.
                assert!(is_told || at.is_none(), "{context}");
                // Without its header a file is as good as with it.
                if at.is_some_and(|at| at >= HEADER_SIZE) {
                    assert!(commits >= reached, "{context}: fewer commits than before");
                    reached = commits;
                    commits_seen.insert(commits);
                }
            } else {
                for (corpus, texts) in last {
                    for (file, text) in texts {
                        let is_there =
                            state.get(corpus).and_then(|texts| texts.get(file)) == Some(text);
                        let is_damaged = in_segment.contains(file);
                        assert!(is_there || is_damaged, "{context}: {file} is lost");
                        assert!(
                            is_there || !report.lost.is_empty(),
                            "{context}: nothing is said"
                        );
                    }
                    let extra = state.get(corpus).into_iter().flat_map(|texts| texts.keys());
                    let mut extra = extra.filter(|file| !texts.contains_key(*file));
                    assert_eq!(extra.next(), None, "{context}");
                }
                assert!(
                    report.lost.is_empty() || !in_segment.is_empty(),
                    "{context}"
                );
            }
            let next = at.map_or(random.below(step), |at| at + 1 + random.below(2 * step - 1));
            if next >= bytes.len() {
                break;
            }
            at = Some(next);
        }
        fs::write(&file, &bytes).unwrap();
    }
    println!("{cases} damaged databases, commits left of the log: {commits_seen:?}");
    assert!(commits_seen.len() > 3, "{commits_seen:?}");
}

#[test]
fn the_parts_that_are_left_of_a_file_are_saved() {
    let folder = scratch();
    let path = folder.path().join("d.zdb");
    let letter = |number: u32| char::from(b'a' + (number % 26) as u8);
    let words = (0..6000).map(|word| [letter(word / 26), letter(word), letter(word / 3), ' ']);
    let text = words.flatten().collect::<String>().into_bytes();
    let changes = [
        Change::Create("plain"),
        Change::Copy("plain", vec![("long".to_owned(), text.clone())]),
        Change::Commit(
            Durability::Full,
            vec![(
                "plain",
                Edit::Append(vec![("long".to_owned(), b"end".into())]),
            )],
        ),
    ];
    perform(&path, &changes, &mut vec![State::new()]);
    let mut segments: Vec<PathBuf> = contents(&path.join("segments")).into_keys().collect();
    segments.retain(|path| path.extension().is_some_and(|extension| extension == "seg"));
    assert!(segments.len() > 3, "{segments:?}");
    fs::write(&segments[1], "no segment").unwrap();
    let (state, report) = repaired(&path);
    assert!(
        report.lost.iter().any(|lost| lost.contains("\"long\"")),
        "{report:?}"
    );
    let mut covered = 0;
    for (name, part) in &state["plain"] {
        let start = name.strip_prefix("long.from-");
        let start: usize = start.map_or(0, |start| start.parse().unwrap());
        assert!(text[start..].starts_with(part), "{name}");
        covered += part.len();
    }
    assert!(
        covered < text.len() && covered >= text.len() / 2,
        "{covered}"
    );
    assert!(state["plain"].len() > 1, "{:?}", state["plain"].keys());
}
