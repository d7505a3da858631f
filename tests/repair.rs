//! `repair`: what is not damaged is in the new database, what is missing is reported, the damaged one stays as it is.
//!
//! `ZIPFDB_CORRUPT_STEP=1` damages every byte.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use zipfdb::ingest::{NoProgress, Progress};

use zipfdb::repair::{RepairReport, repair};

use zipfdb::{Database, Durability, Error, InterruptHandle};
use zipfdb_storage::{FileBackend, SegmentReader};
use zipfdb_test_model::{CORPORA, Change, Edit, State, check, observe};
use zipfdb_test_support::harness::{Random, contents, scratch};

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
    let report = repair(path, &target, &NoProgress, &InterruptHandle::new()).unwrap();
    assert!(contents(path) == before, "the damaged database has changed");
    let database = Database::options().threads(1).open(&target).unwrap();
    assert_eq!(database.warnings(), Vec::<String>::new());
    let names = database.corpora();
    let known = |name: &String| CORPORA.contains(&name.as_str());
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
    let target = path.with_extension("repaired");
    let error = repair(&path, &target, &NoProgress, &InterruptHandle::new()).unwrap_err();
    assert!(error.to_string().contains("it exists"), "{error}");
}

#[test]
fn views_are_saved_or_reported_to_be_lost() {
    let folder = scratch();
    let path = folder.path().join("d.zdb");
    build(&path);
    let database = Database::options().threads(1).open(&path).unwrap();
    database
        .execute_batch("CREATE VIEW three AS SELECT 3 AS n")
        .unwrap();
    drop(database);
    let (_, report) = repaired(&path);
    assert_eq!((report.lost, report.notes), (vec![], vec![]));
    let target = path.with_extension("repaired");
    let database = Database::options().threads(1).open(&target).unwrap();
    let rows = database.query("SELECT n FROM three", ()).unwrap();
    let rows: Vec<_> = rows.map(|row| row.unwrap().values().to_vec()).collect();
    assert_eq!(rows, [[zipfdb::Value::Integer(3)]]);
    drop(database);

    let views = path.join("VIEWS");
    let mut bytes = fs::read(&views).unwrap();
    bytes[10] ^= 1;
    fs::write(&views, bytes).unwrap();
    let (_, report) = repaired(&path);
    assert_eq!(report.lost.len(), 1, "{report:?}");
    assert!(report.lost[0].starts_with("all views: "), "{report:?}");
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
        let step = if name.starts_with("catalog") || name == "RESERVE" {
            step * 1000
        } else {
            step
        };
        let in_segment = if name.ends_with(".seg") {
            segment_files(&file)
        } else {
            BTreeSet::new()
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
                let is_reported = commits == states.len() - 1 || !report.lost.is_empty();
                assert!(is_reported, "{context}");
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

/// The files of the log of a database, in their order.
fn log_files(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = contents(&path.join("log")).into_iter();
    files.collect()
}

#[test]
fn no_loss_of_files_of_the_log_is_hidden() {
    let folder = scratch();
    let path = folder.path().join("d.zdb");
    let mut states = vec![State::new()];
    let append = |text: &str| Edit::Append(vec![("d".into(), text.into())]);
    let commit = |text: &str| Change::Commit(Durability::Full, vec![("plain", append(text))]);
    perform(&path, &[Change::Create("plain")], &mut states);
    // A file of the log for each time that it is opened.
    for texts in [["the cat", " sat"], [" on", " the mat"], [" and", " slept"]] {
        perform(&path, &texts.map(commit), &mut states);
    }
    let last = states.last().unwrap();
    let files = log_files(&path);
    assert_eq!(files.len(), 3);
    let mut cases = 0;
    let mut examine = |what: &str| {
        cases += 1;
        let (state, report) = repaired(&path);
        let context = format!("{what}: {report:?}");
        assert!(states.contains(&state), "{context}: {state:?}");
        assert!(state == *last || !report.lost.is_empty(), "{context}");
    };
    for (index, (file, bytes)) in files.iter().enumerate() {
        let name = file.file_name().unwrap().display();
        let sizes = match index {
            0 => (0..=HEADER_SIZE + 1)
                .step_by(13)
                .chain([HEADER_SIZE])
                .collect(),
            _ => vec![index, HEADER_SIZE, bytes.len() / 2, bytes.len() - 1],
        };
        for size in sizes {
            fs::write(file, &bytes[..size]).unwrap();
            examine(&format!("{name} is cut to {size} bytes"));
        }
        fs::write(file, vec![0; bytes.len()]).unwrap();
        examine(&format!("{name} is zeros"));
        fs::remove_file(file).unwrap();
        examine(&format!("{name} is missing"));
        fs::write(file, bytes).unwrap();
        if let Some((other, content)) = files.get(index + 1) {
            fs::write(file, content).unwrap();
            fs::write(other, bytes).unwrap();
            examine(&format!("{name} and the next one are swapped"));
            fs::write(file, bytes).unwrap();
            fs::write(other, content).unwrap();
        }
    }
    fs::remove_dir_all(path.join("log")).unwrap();
    examine("the log is missing");
    assert!(cases > 15, "{cases}");
}

/// Interrupts a repair after `left` steps.
struct Interrupting {
    left: AtomicU64,
    handle: InterruptHandle,
}

impl Progress for Interrupting {
    fn begin(&self, _: &str, _: u64) {}

    fn advance(&self, _: u64) {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.handle.interrupt();
        }
    }

    fn end(&self) {}
}

#[test]
fn a_repair_that_is_interrupted_leaves_nothing() {
    let folder = scratch();
    let path = folder.path().join("d.zdb");
    let target = folder.path().join("new.zdb");
    let states = build(&path);
    for steps in 1..4 {
        let handle = InterruptHandle::new();
        let interrupting = Interrupting {
            left: steps.into(),
            handle: handle.clone(),
        };
        let interrupted = repair(&path, &target, &interrupting, &handle);
        assert!(matches!(interrupted, Err(Error::Interrupted)), "{steps}");
        assert!(!target.exists());

        fs::create_dir(&target).unwrap();
        let interrupted = repair(&path, &target, &NoProgress, &handle);
        assert!(matches!(interrupted, Err(Error::Interrupted)), "{steps}");
        assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
        fs::remove_dir(&target).unwrap();
    }
    repair(&path, &target, &NoProgress, &InterruptHandle::new()).unwrap();
    let database = Database::options().threads(1).open(&target).unwrap();
    assert_eq!(observe(&database).unwrap(), *states.last().unwrap());
}

#[cfg(unix)]
#[test]
fn what_is_made_of_a_private_database_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let folder = scratch();
    let path = folder.path().join("d.zdb");
    build(&path);
    for mode in [0o700, 0o750, 0o755] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let target = folder.path().join(format!("{mode:o}.zdb"));
        repair(&path, &target, &NoProgress, &InterruptHandle::new()).unwrap();
        let found = fs::metadata(&target).unwrap().permissions().mode();
        assert_eq!(found & 0o777, mode);
    }
}

struct Killed(AtomicU64);

impl Progress for Killed {
    fn begin(&self, _: &str, _: u64) {}

    fn advance(&self, _: u64) {
        assert!(self.0.fetch_sub(1, Ordering::SeqCst) > 1, "killed");
    }

    fn end(&self) {}
}

#[test]
fn a_repair_that_was_cut_short_cannot_be_taken_for_one_that_was_not() {
    let folder = scratch();
    let path = folder.path().join("d.zdb");
    let target = folder.path().join("new.zdb");
    let states = build(&path);
    for steps in 1..4 {
        let killed = Killed(steps.into());
        let ended = catch_unwind(AssertUnwindSafe(|| {
            repair(&path, &target, &killed, &InterruptHandle::new())
        }));
        assert!(ended.is_err(), "{steps} steps are all");
        for read_only in [true, false] {
            let options = Database::options().threads(1).read_only(read_only);
            let error = options.open(&target).unwrap_err().to_string();
            let command = format!("`zipf repair {} {}`", path.display(), target.display());
            assert!(error.contains(&command), "{error}");
        }
        let error = repair(
            &target,
            folder.path().join("other.zdb"),
            &NoProgress,
            &InterruptHandle::new(),
        )
        .unwrap_err();
        assert!(error.to_string().contains("did not finish"), "{error}");
    }
    let report = repair(&path, &target, &NoProgress, &InterruptHandle::new()).unwrap();
    assert_eq!(report.lost, Vec::<String>::new());
    let database = Database::options().threads(1).open(&target).unwrap();
    assert_eq!(observe(&database).unwrap(), *states.last().unwrap());
    assert!(!target.join("REPAIR").exists());

    // What is not of a repair is left alone.
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    for name in ["notes.txt", "REPAIR"] {
        fs::write(other.join(name), "mine").unwrap();
        repair(&path, &other, &NoProgress, &InterruptHandle::new()).unwrap_err();
        assert_eq!(fs::read_to_string(other.join("notes.txt")).unwrap(), "mine");
    }
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
