//! A byte of a database is wrong, whichever: an error or the right answer, never another one and never a panic.
//!
//! `ZIPFDB_CORRUPT_STEP=1` flips every byte.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;

use zipfdb::ingest::NoProgress;

use zipfdb::{CorpusSettings, Database, Durability, Value};
use zipfdb_test_model::{Change, Edit, State, Texts, check_counts};
use zipfdb_test_support::harness::{Random, contents, copy_directory, scratch};

/// A database with segments of several publications and edits of both corpora in two log files; and what it holds.
fn build(folder: &Path) -> State {
    let path = folder.join("d.zdb");
    let append = |file: &str, text: &str| Edit::Append(vec![(file.into(), text.into())]);
    let insert = |file: &str, text: &str| Edit::Insert(vec![(file.into(), 3, text.into())]);
    let commit = |corpus, edit| Change::Commit(Durability::Full, vec![(corpus, edit)]);
    let long = "the cat sat on the mat and the dog sat on the cat ".repeat(6);
    let copied = ["a", "b", "c"].map(|name| (name.to_owned(), format!("{name} {long}").into()));
    let [first, last] = [
        vec![
            Change::Create("plain"),
            Change::Copy("plain", copied.into()),
            Change::Create("Other"),
            commit("Other", append("x", "the cat and the dog")),
            Change::Recompress("Other"),
        ],
        vec![
            commit("plain", append("d", "cat and dog")),
            commit("plain", insert("a", "a cat ")),
            commit("plain", Edit::Delete(vec!["b".into()])),
            commit("Other", append("x", " on the mat")),
            commit("plain", Edit::Replace(vec![("c".into(), "a dog".into())])),
        ],
    ];
    let mut state = State::new();
    for changes in [first, last] {
        let database = Database::options().threads(1).open(&path).unwrap();
        for change in changes {
            change.perform(&database, folder).unwrap();
            change.apply(&mut state);
        }
    }
    state
}

/// What was found in a damaged database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    /// All is there, and right.
    Right,
    Error,
}

fn examine(path: &Path, read_only: bool, state: &State, context: &str) -> Found {
    let options = Database::options().threads(1).create(false);
    let Ok(database) = options.read_only(read_only).open(path) else {
        return Found::Error;
    };
    let mut worst = Found::Right;
    for (name, texts) in state {
        let mut found = Found::Right;
        let corpus = database.corpus(name).map_err(|error| {
            assert_ne!(database.warnings(), [""; 0], "{context}: {error}");
        });
        let Ok((corpus, snapshot)) = corpus.and_then(|corpus| {
            let snapshot = corpus.snapshot().map_err(drop)?;
            Ok((corpus, snapshot))
        }) else {
            worst = Found::Error;
            continue;
        };
        let sizes = snapshot
            .files()
            .iter()
            .map(|file| (&file.name[..], file.bytes));
        let sizes: Vec<(&str, u64)> = sizes.collect();
        let expected = texts.iter();
        let expected = expected.map(|(name, text)| (&name[..], text.len() as u64));
        let is_shown = sizes.iter().copied().eq(expected);
        assert!(is_shown, "{context}: {sizes:?}");
        for (file, text) in texts {
            match snapshot.extract(file, 0, u64::MAX) {
                Ok(found) => assert!(found == *text, "{context}: another text"),
                Err(_) => found = Found::Error,
            }
        }
        if check_counts(&snapshot, texts).is_err() {
            found = Found::Error;
        }
        let checks = corpus.check(&NoProgress);
        let is_sound =
            checks.is_ok_and(|checks| checks.iter().all(|check| check.problem.is_none()));
        // What a writer finds damaged may be made anew before it is checked: a recompression that is due begins when it opens.
        assert!(
            !is_sound || found != Found::Error || !read_only,
            "{context}: CHECK finds nothing"
        );
        if !is_sound {
            found = Found::Error;
        }
        worst = worst.max(found);
    }
    worst
}

#[test]
fn a_flipped_byte_is_an_error_or_does_not_matter() {
    let step = std::env::var("ZIPFDB_CORRUPT_STEP");
    let step: usize = step.map_or(7, |step| step.parse().unwrap());
    let seed = Random::seed(1);
    let mut random = Random::new(seed);
    let folder = scratch();
    let state = build(folder.path());
    let path = folder.path().join("d.zdb");
    assert_eq!(examine(&path, true, &state, "whole"), Found::Right);
    let mut seen = BTreeSet::new();
    let mut flips = [0; 2];
    for (file, bytes) in contents(&path) {
        if bytes.is_empty() {
            continue;
        }
        let name = file.strip_prefix(&path).unwrap().display().to_string();
        // The catalog is mostly empty space, and the reserve is nothing else; tests of the storage crate flip their bytes.
        let step = if name.starts_with("catalog") || name == "RESERVE" {
            step * 200
        } else {
            step
        };
        let mut at = random.below(step);
        while at < bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << random.below(8);
            let context = format!("ZIPFDB_SEED={seed}, byte {at} of {name}");
            fs::write(&file, &damaged).unwrap();
            let found = examine(&path, true, &state, &context);
            // Opening for writing changes files, and decides as opening for reading does.
            if random.below(8) == 0 {
                let copy = folder.path().join("copy.zdb");
                let _ = fs::remove_dir_all(&copy);
                copy_directory(&path, &copy);
                let written = examine(&copy, false, &state, &context);
                assert!(
                    written == found || found != Found::Right,
                    "{context}: {written:?}"
                );
            }
            flips[found as usize] += 1;
            seen.insert((name.split('/').next().unwrap().to_owned(), found));
            at += 1 + random.below(2 * step - 1);
        }
        fs::write(&file, &bytes).unwrap();
    }
    assert_eq!(examine(&path, true, &state, "whole again"), Found::Right);
    let [right, errors] = flips;
    println!("{errors} errors, {right} right answers");
    assert!(
        seen.contains(&("segments".to_owned(), Found::Error)),
        "{seen:?}"
    );
    assert!(seen.contains(&("log".to_owned(), Found::Error)), "{seen:?}");
}

#[test]
fn damage_to_the_log_fails_check_and_hides_nothing_else() {
    let folder = scratch();
    build(folder.path());
    let path = folder.path().join("d.zdb");
    // What is due is recompressed as soon as the database is open, and would change the segments between two checks.
    for corpus in ["plain", "Other"] {
        let database = Database::options().threads(1).open(&path).unwrap();
        let alter = format!("ALTER CORPUS {corpus} SET (recompress_threshold = '1MiB')");
        database.execute_batch(&alter).unwrap();
    }
    let database = Database::options().threads(1).open(&path).unwrap();
    let check = || {
        let rows = database.query("CHECK plain", ()).unwrap();
        let rows: Vec<_> = rows.collect();
        let (last, rows) = rows.split_last().unwrap();
        let last = last.as_ref().map(|row| row.values().to_vec());
        (rows.len(), last.map_err(ToString::to_string))
    };
    let (segments, last) = check();
    assert_eq!(last.unwrap()[3], Value::from("ok"));
    let log = contents(&path.join("log"));
    let (file, bytes) = log.iter().next_back().unwrap();
    let mut zeroed = fs::OpenOptions::new().write(true).open(file).unwrap();
    zeroed.write_all(&vec![0; bytes.len()]).unwrap();
    let (rows, last) = check();
    // A row of the log, and the verdict.
    assert_eq!(rows, segments + 2);
    assert!(last.unwrap_err().contains("and the record log are damaged"));
    let checks = database.corpus("plain").unwrap();
    let checks = checks.check(&NoProgress).unwrap();
    let of_log = checks.last().unwrap();
    assert_eq!(of_log.segment, None);
    let problem = of_log.problem.as_ref().unwrap();
    assert!(
        problem.contains("corrupt record log at byte 0"),
        "{problem}"
    );
}

/// What another program does to a file.
type Harm = fn(&Path, &[u8]);

/// Whether the file is harmed where it lies, and how.
const HARMS: [(&str, bool, Harm); 8] = [
    ("emptied", true, |path, _| resize(path, 0)),
    ("halved", true, |path, whole| resize(path, whole.len() / 2)),
    ("cut by a byte", true, |path, whole| {
        resize(path, whole.len() - 1);
    }),
    ("zeroed", true, |path, whole| {
        fs::write(path, vec![0; whole.len()]).unwrap();
    }),
    ("overwritten from the middle on", true, |path, whole| {
        let (kept, lost) = whole.split_at(whole.len() / 2);
        fs::write(path, [kept, &vec![0x5a; lost.len()]].concat()).unwrap();
    }),
    ("overwritten by a longer one", true, |path, whole| {
        let longer: Vec<u8> = whole.iter().chain(whole).rev().copied().collect();
        fs::write(path, longer).unwrap();
    }),
    ("removed", false, |path, _| fs::remove_file(path).unwrap()),
    ("replaced", false, |path, _| {
        let beside = path.with_extension("beside");
        fs::write(&beside, "another file").unwrap();
        fs::rename(beside, path).unwrap();
    }),
];

fn resize(path: &Path, size: usize) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_len(size as u64).unwrap();
}

#[test]
fn a_segment_harmed_under_an_open_database_is_an_error_or_does_not_matter() {
    let seed = Random::seed(1);
    let mut random = Random::new(seed);
    let folder = scratch();
    let path = folder.path().join("d.zdb");
    let mut text = || -> Vec<u8> {
        let letter = |random: &mut Random| char::from(b'a' + random.below(16) as u8);
        let letters = (0..20_000).map(|at| match at % 4 {
            0 => ' ',
            _ => letter(&mut random),
        });
        format!("cat{}", letters.collect::<String>()).into()
    };
    let texts: Texts = (0..12).map(|file| (format!("f{file}"), text())).collect();
    let database = Database::options().threads(1).open(&path).unwrap();
    let settings = CorpusSettings::default();
    database.create_corpus("plain", settings).unwrap();
    let copy = Change::Copy("plain", texts.clone().into_iter().collect());
    copy.perform(&database, folder.path()).unwrap();
    drop((copy, database));
    let segment = fs::read_dir(path.join("segments")).unwrap();
    let mut segment = segment.map(|entry| entry.unwrap().path());
    let segment = segment.find(|path| path.extension().is_some_and(|kind| kind == "seg"));
    let segment = segment.unwrap();
    let whole = fs::read(&segment).unwrap();
    assert!(whole.len() > 80 << 10, "a smaller one is read at once");
    let mut found = [0; 2];
    for read_only in [true, false] {
        // What was asked before: nothing, counts of words, one file, everything.
        for asked in 0..4 {
            for (harm, in_place, perform) in HARMS {
                let context = format!("{harm}, {asked}, {read_only}, ZIPFDB_SEED={seed}");
                let options = Database::options().threads(1).create(false);
                let database = options.read_only(read_only).open(&path).unwrap();
                let corpus = database.corpus("plain").unwrap();
                let snapshot = corpus.snapshot().unwrap();
                match asked {
                    1 => drop(snapshot.words().unwrap().to_vec()),
                    2 => drop(snapshot.extract("f3", 5, 100).unwrap()),
                    3 => check_counts(&snapshot, &texts).unwrap(),
                    _ => {}
                }
                perform(&segment, &whole);
                let mut is_right = true;
                for (file, text) in &texts {
                    match snapshot.extract(file, 0, u64::MAX) {
                        Ok(found) => assert!(found == *text, "{context}: another text"),
                        Err(_) => is_right = false,
                    }
                }
                is_right &= check_counts(&snapshot, &texts).is_ok();
                let checks = corpus.check(&NoProgress);
                let is_sound =
                    checks.is_ok_and(|checks| checks.iter().all(|check| check.problem.is_none()));
                assert_eq!(is_sound, !in_place, "{context}");
                assert!(is_right || in_place, "{context}");
                found[usize::from(is_right)] += 1;
                drop((snapshot, corpus, database));
                fs::write(&segment, &whole).unwrap();
            }
        }
    }
    let [errors, right] = found;
    println!("{errors} errors, {right} right answers");
    assert!(errors > 0 && right > 0);
}
