//! The record log as part of a database: replay, recompression, what is removed and what is kept when something is lost.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::scenario::{
    self, CREATE, READ, Step, WRITE, build, contents, log_steps, observe, reopen, scratch, states,
    write_segment,
};
use zipfdb_storage::{
    CorpusSettings, Durability, Error, LogPosition, LogRecord, Publication, Store,
};

fn add(store: &Store, corpus: &str, name: &str) -> LogPosition {
    let id = store.corpus(corpus).unwrap().id;
    let record = LogRecord::insert(id, [(name, None, name.as_bytes())]).unwrap();
    store.append_commit(&[record], Durability::Full).unwrap()
}

fn log_files(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path.join("log")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Removes manifest and catalog.
fn forget_corpora(path: &Path) {
    std::fs::remove_file(path.join("MANIFEST")).unwrap();
    std::fs::remove_dir_all(path.join("catalog")).unwrap();
}

fn tombstones(path: &Path) -> usize {
    let entries = std::fs::read_dir(path.join("segments")).unwrap();
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().path();
    entries
        .filter(|entry| entry.as_ref().is_ok())
        .map(name)
        .filter(|path| path.extension().is_some_and(|kind| kind == "dropped"))
        .count()
}

/// A recompression that adds a segment with one file.
fn recompression(
    store: &Store,
    replaced: &[u64],
    merged: LogPosition,
    file: &str,
) -> Result<Publication, Error> {
    let mut publication = store.begin_recompression("a", replaced, merged)?;
    let (header, path) = publication.next_segment((16, 0, 0), true)?;
    write_segment(store.backend(), &path, &header, file)?;
    Ok(publication)
}

#[test]
fn every_state_of_a_log_comes_back_with_and_without_the_catalog() {
    let steps = log_steps();
    let states = states(&steps);
    for (count, state) in states.iter().enumerate() {
        let directory = scratch();
        let path = directory.path().join("a.zdb");
        build(&path, &steps[..count]);
        assert_eq!(reopen(&path), *state, "{count} steps");
        forget_corpora(&path);
        assert_eq!(observe(&Store::open(&path, READ).unwrap()), *state);
        assert_eq!(reopen(&path), *state, "{count} steps, without catalog");
    }
}

#[test]
fn an_older_catalog_is_brought_up_to_date_by_the_log() {
    let steps = log_steps();
    let states = states(&steps);
    for older in [2, 5, 9, 13, 16, 19] {
        let directory = scratch();
        let path = directory.path().join("a.zdb");
        build(&path, &steps[..older]);
        let kept = directory.path().join("catalog");
        scenario::copy_directory(&path.join("catalog"), &kept);
        build(&path, &steps[older..]);
        forget_corpora(&path);
        std::fs::rename(&kept, path.join("catalog")).unwrap();
        assert_eq!(
            reopen(&path),
            states[steps.len()],
            "catalog of step {older}"
        );
    }
}

#[test]
fn readers_see_what_was_written_beside_them_and_keep_what_they_saw() {
    let directory = scratch();
    let path = directory.path().join("a.zdb");
    build(&path, &log_steps()[..2]);
    let store = Store::open(&path, WRITE).unwrap();
    let reader = Store::open(&path, READ).unwrap();
    let before = observe(&store);
    Step::commit(Durability::Normal, &[("a", &["later"])])
        .perform(&store)
        .unwrap();
    assert_eq!(observe(&reader), before);
    let second = Store::open(&path, READ).unwrap();
    assert_eq!(observe(&second), observe(&store));
    assert_eq!(second.warnings(), [""; 0]);
    Step::Recompress("a").perform(&store).unwrap();
    assert_eq!(observe(&reader), before);
    assert_eq!(observe(&second), observe(&store));
    let refused = reader.append(&[LogRecord::delete(1, ["a"]).unwrap()]);
    assert!(matches!(refused, Err(Error::ReadOnly { .. })));
    assert!(matches!(
        reader.begin_recompression("a", &[], LogPosition::START),
        Err(Error::ReadOnly { .. })
    ));
}

#[test]
fn readers_of_a_busy_writer_see_a_prefix_of_its_commits() {
    let directory = scratch();
    let path = directory.path().join("a.zdb");
    let store = Store::open(&path, CREATE).unwrap();
    store.set_log_file_size(300);
    Step::Create("a").perform(&store).unwrap();
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| {
            for number in 0..40 {
                add(&store, "a", &format!("{number:02}"));
                if number % 5 == 4 {
                    Step::Recompress("a").perform(&store).unwrap();
                }
            }
        });
        let mut seen = 0;
        while !busy.is_finished() {
            let reader = Store::open(&path, READ).unwrap();
            let names = observe(&reader).remove("a").unwrap();
            let expected: Vec<String> = (0..names.len()).map(|name| format!("{name:02}")).collect();
            assert_eq!(names, expected);
            assert!(names.len() >= seen);
            seen = names.len();
        }
    });
}

#[test]
fn a_torn_commit_is_a_warning_once_and_a_damaged_one_an_error_for_ever() {
    let directory = scratch();
    let path = directory.path().join("a.zdb");
    build(&path, &log_steps()[..2]);
    let [file] = &log_files(&path)[..] else {
        panic!("one file")
    };
    let whole = std::fs::read(file).unwrap();
    let manifest = std::fs::read(path.join("MANIFEST")).unwrap();
    let store = Store::open(&path, WRITE).unwrap();
    add(&store, "a", "torn");
    drop(store);
    // As if the second process had written on in the file of the first.
    let newest = log_files(&path).pop().unwrap();
    std::fs::remove_file(newest).unwrap();
    std::fs::write(file, [&whole[..], &[1; 20]].concat()).unwrap();

    let expected = states(&log_steps()[..2]).pop().unwrap();
    // The manifest is the one from before it could note another file.
    std::fs::write(path.join("MANIFEST"), manifest).unwrap();
    for options in [READ, WRITE] {
        let store = Store::open(&path, options).unwrap();
        assert_eq!(observe(&store), expected);
        let warnings = store.warnings();
        assert_eq!(warnings.len(), 1);
        let place = format!("at byte {}: 20 bytes", whole.len());
        assert!(warnings[0].contains(&place), "{warnings:?}");
    }
    assert_eq!(reopen(&path), expected);

    let mut damaged = whole.clone();
    damaged[60] ^= 1;
    std::fs::write(file, damaged).unwrap();
    for options in [READ, WRITE, READ] {
        let error = Store::open(&path, options).unwrap_err();
        assert!(matches!(error, Error::CorruptLog { offset: 40, .. }));
        assert!(error.to_string().contains("0000000000000001.log"));
    }
    std::fs::write(file, whole).unwrap();
    assert_eq!(reopen(&path), expected);
}

/// Files by their paths in the database.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Files that get another content, or none.
type Changed = BTreeMap<PathBuf, Option<Vec<u8>>>;

fn files_of(path: &Path, folder: &str) -> Files {
    let files = contents(path).into_iter();
    files
        .filter(|(file, _)| file.starts_with(path.join(folder)) && file.is_file())
        .map(|(file, bytes)| (file.strip_prefix(path).unwrap().to_path_buf(), bytes))
        .collect()
}

/// What may happen to `files`, one thing at a time: what it is, and the files it changes. `older` has files as they were
/// before. Every `step`-th byte is flipped, and taken as an end.
fn damages(files: &Files, older: &[Files], step: usize) -> Vec<(String, Changed)> {
    let mut damages = Vec::new();
    for (index, (file, bytes)) in files.iter().enumerate() {
        let name = file.display();
        let mut one = |what: String, bytes: Option<Vec<u8>>| {
            damages.push((what, BTreeMap::from([(file.clone(), bytes)])));
        };
        for at in (index % step..bytes.len()).step_by(step) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            one(format!("byte {at} of {name} is flipped"), Some(flipped));
            let cut = Some(bytes[..at].to_vec());
            one(format!("{name} is cut to {at} bytes"), cut);
        }
        one(format!("{name} is zeros"), Some(vec![0; bytes.len()]));
        one(format!("{name} is missing"), None);
        for (age, old) in older.iter().enumerate() {
            if let Some(old) = old.get(file).filter(|old| *old != bytes) {
                one(format!("{name} is of state {age}"), Some(old.clone()));
            }
        }
        for (other, content) in files.iter().skip(index + 1) {
            let swapped = [(file.clone(), content), (other.clone(), bytes)];
            let swapped = swapped.map(|(file, bytes)| (file, Some(bytes.clone())));
            damages.push((
                format!("{name} and {} are swapped", other.display()),
                swapped.into(),
            ));
        }
    }
    damages
}

fn put(path: &Path, changed: &Changed) {
    for (file, bytes) in changed {
        match bytes {
            Some(bytes) => std::fs::write(path.join(file), bytes).unwrap(),
            None => std::fs::remove_file(path.join(file)).unwrap(),
        }
    }
}

#[test]
fn no_damage_to_the_log_or_the_manifest_of_a_closed_database_goes_unnoticed() {
    for (durability, file_size) in [
        (Durability::Full, 8 << 20),
        (Durability::Normal, 200),
        (Durability::Off, 8 << 20),
    ] {
        let directory = scratch();
        let path = directory.path().join("a.zdb");
        let store = Store::open(&path, CREATE).unwrap();
        Step::Create("a").perform(&store).unwrap();
        store.set_log_file_size(file_size);
        let id = store.corpus("a").unwrap().id;
        let mut older = Vec::new();
        for name in ["1", "2", "3"] {
            let record = LogRecord::insert(id, [(name, None, name.as_bytes())]).unwrap();
            store.append_commit(&[record], durability).unwrap();
            older.push([files_of(&path, "log"), files_of(&path, "MANIFEST")]);
        }
        let expected = observe(&store);
        drop(store);
        let mut cases = 0;
        for (index, folder) in ["log", "MANIFEST"].into_iter().enumerate() {
            let files = files_of(&path, folder);
            assert!(!files.is_empty(), "{folder}");
            let whole = files
                .iter()
                .map(|(file, bytes)| (file.clone(), Some(bytes.clone())));
            let whole = whole.collect();
            let older: Vec<Files> = older.iter().map(|older| older[index].clone()).collect();
            for (what, damaged) in damages(&files, &older, 3) {
                put(&path, &damaged);
                cases += 1;
                let context = format!("{durability:?}, files of {file_size}: {what}");
                match Store::open(&path, READ) {
                    Err(Error::CorruptLog { .. }) => {}
                    Err(error) => panic!("{context}: {error}"),
                    Ok(store) if folder == "MANIFEST" => {
                        assert_eq!(observe(&store), expected, "{context}")
                    }
                    Ok(store) => panic!("{context}: {:?}", store.warnings()),
                }
                if cases % 8 == 0 {
                    let copy = directory.path().join("copy.zdb");
                    scenario::copy_directory(&path, &copy);
                    match Store::open(&copy, WRITE) {
                        Err(Error::CorruptLog { .. }) => {}
                        Err(error) => panic!("{context}: {error}"),
                        Ok(store) => {
                            assert_eq!(folder, "MANIFEST", "{context}");
                            assert_eq!(observe(&store), expected, "{context}");
                        }
                    }
                    std::fs::remove_dir_all(copy).unwrap();
                }
                put(&path, &whole);
            }
        }
        assert!(cases > 100, "{cases}");
        assert_eq!(reopen(&path), expected);
    }
}

#[test]
fn damage_after_a_killed_process_is_an_error_or_reported_and_loses_only_what_followed_the_last_sync()
 {
    for durability in [Durability::Full, Durability::Normal] {
        let directory = scratch();
        let path = directory.path().join("a.zdb");
        let killed = directory.path().join("killed.zdb");
        let store = Store::open(&path, CREATE).unwrap();
        Step::Create("a").perform(&store).unwrap();
        let mut states = vec![observe(&store)];
        let mut ends = vec![40];
        for name in ["1", "2", "3"] {
            Step::commit(durability, &[("a", &[name])])
                .perform(&store)
                .unwrap();
            states.push(observe(&store));
            ends.push(store.log_position().offset as usize);
        }
        assert_eq!(store.log_position().file, 1);
        scenario::copy_directory(&path, &killed);
        drop(store);
        assert_eq!(observe(&Store::open(&killed, READ).unwrap()), states[3]);
        let files = files_of(&killed, "log");
        let whole = files
            .iter()
            .map(|(file, bytes)| (file.clone(), Some(bytes.clone())));
        let whole = whole.collect();
        let mut reported = 0;
        for (what, damaged) in damages(&files, &[], 1) {
            put(&killed, &damaged);
            let context = format!("{durability:?}: {what}");
            let size = damaged
                .values()
                .next()
                .unwrap()
                .as_ref()
                .map_or(0, Vec::len);
            match Store::open(&killed, READ) {
                Err(error) => assert!(matches!(error, Error::CorruptLog { .. }), "{context}"),
                // Nothing knows of more.
                Ok(store) if ends.contains(&size) && what.contains("cut") => {
                    let end = ends.iter().position(|end| *end == size).unwrap();
                    assert_eq!(observe(&store), states[end], "{context}");
                }
                Ok(store) => {
                    let left = observe(&store);
                    let left = states
                        .iter()
                        .position(|state| *state == left)
                        .expect(&context);
                    assert!(left < 3, "{context}");
                    let is_last = durability == Durability::Full && !what.contains("cut");
                    assert!(!is_last || left == 2, "{context}");
                    let [warning] = &store.warnings()[..] else {
                        panic!("{context}: {:?}", store.warnings());
                    };
                    assert!(
                        warning.contains(&format!("at byte {}", ends[left])),
                        "{context}: {warning}"
                    );
                    let check = store.check_log(|| Ok::<_, Error>(())).unwrap();
                    assert_eq!((check.faults.len(), check.dropped), (0, store.warnings()));
                    reported += 1;
                }
            }
            put(&killed, &whole);
        }
        assert!(reported > 100, "{reported}");

        // Commits behind a damaged one are reported while they are in the file.
        let mut damaged = files.values().next().unwrap().clone();
        damaged[ends[1] + 9] ^= 1;
        let file = killed.join(files.keys().next().unwrap());
        std::fs::write(&file, damaged).unwrap();
        if durability == Durability::Full {
            assert!(matches!(
                Store::open(&killed, WRITE),
                Err(Error::CorruptLog { .. })
            ));
            continue;
        }
        for options in [READ, WRITE, READ, WRITE] {
            let store = Store::open(&killed, options).unwrap();
            assert_eq!(observe(&store), states[1]);
            let warnings = store.warnings().join("\n");
            assert!(warnings.contains("1 of them whole"), "{warnings}");
        }
        let store = Store::open(&killed, WRITE).unwrap();
        Step::Recompress("a").perform(&store).unwrap();
        drop(store);
        assert_eq!(reopen(&killed), states[1]);
    }
}

/// Segments that hold edits of a commit, and a log without it, are no state that ever was.
#[test]
fn a_log_that_was_killed_and_ends_before_what_was_merged_is_damaged() {
    let directory = scratch();
    let path = directory.path().join("a.zdb");
    let killed = directory.path().join("killed.zdb");
    let store = Store::open(&path, CREATE).unwrap();
    Step::Create("a").perform(&store).unwrap();
    Step::Create("b").perform(&store).unwrap();
    add(&store, "b", "first");
    add(&store, "a", "second");
    let merged = add(&store, "b", "third");
    Step::Recompress("a").perform(&store).unwrap();
    let after = add(&store, "b", "fourth");
    assert_eq!((merged.file, after.file), (1, 1));
    scenario::copy_directory(&path, &killed);
    let whole = observe(&store);
    drop(store);
    let log = log_files(&killed).pop().unwrap();
    let bytes = std::fs::read(&log).unwrap();
    assert_eq!(bytes.len() as u64, after.offset);
    for size in 0..bytes.len() {
        std::fs::write(&log, &bytes[..size]).unwrap();
        match Store::open(&killed, READ) {
            Err(error) => assert!(matches!(error, Error::CorruptLog { .. }), "{error}"),
            Ok(store) => {
                assert!(size as u64 > merged.offset, "{size}");
                assert_ne!(observe(&store), whole);
            }
        }
    }
    std::fs::write(&log, &bytes).unwrap();
    assert_eq!(observe(&Store::open(&killed, READ).unwrap()), whole);
}

#[test]
fn a_log_that_is_damaged_while_it_is_open_is_found_by_a_check() {
    let directory = scratch();
    let path = directory.path().join("a.zdb");
    let store = Store::open(&path, CREATE).unwrap();
    Step::Create("a").perform(&store).unwrap();
    store.set_log_file_size(1);
    add(&store, "a", "1");
    add(&store, "a", "2");
    let reader = Store::open(&path, READ).unwrap();
    let faults = |store: &Store| {
        let check = store.check_log(|| Ok::<_, Error>(())).unwrap();
        assert_eq!(check.dropped, [""; 0]);
        let faults = check.faults.iter().map(ToString::to_string);
        faults.collect::<Vec<String>>()
    };
    assert_eq!(faults(&store), [""; 0]);
    assert_eq!(faults(&reader), [""; 0]);
    let [first, second] = &log_files(&path)[..] else {
        panic!("two files");
    };
    let mut damaged = std::fs::read(first).unwrap();
    damaged[50] ^= 1;
    std::fs::write(first, damaged).unwrap();
    std::fs::remove_file(second).unwrap();
    let found = faults(&store);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("0000000000000001.log: corrupt record log at byte 40"));
    assert!(found[1].contains("0000000000000002.log"));
    let stopped = store.check_log(|| Err(Error::ReadOnly { path: path.clone() }));
    assert!(matches!(stopped, Err(Error::ReadOnly { .. })));
}

#[test]
fn files_of_the_log_go_once_they_are_not_needed() {
    let directory = scratch();
    let path = directory.path().join("a.zdb");
    let store = Store::open(&path, CREATE).unwrap();
    store.set_log_file_size(1);
    Step::Create("a").perform(&store).unwrap();
    Step::Create("bb").perform(&store).unwrap();
    Step::publish("a", &["0"]).perform(&store).unwrap();
    add(&store, "a", "1");
    add(&store, "bb", "2");
    add(&store, "a", "3");
    assert_eq!(log_files(&path).len(), 3);

    let (_, held) = store.open_corpus("a").unwrap();
    Step::Recompress("a").perform(&store).unwrap();
    assert_eq!(log_files(&path).len(), 3, "`bb` needs the second");
    add(&store, "bb", "4");
    Step::Drop("bb").perform(&store).unwrap();
    // The third says that the segment that is still held is replaced, and that `bb` had records is in the fourth.
    assert_eq!(log_files(&path).len(), 2);
    assert_eq!(tombstones(&path), 1);
    drop(held);
    assert_eq!(log_files(&path).len(), 1);
    drop(store);
    assert_eq!(reopen(&path)["a"], ["0", "1", "3"]);
    assert_eq!(log_files(&path), [""; 0].map(PathBuf::from));
    assert_eq!(tombstones(&path), 0);
}

#[test]
fn a_corpus_does_not_inherit_records_of_one_that_was_dropped() {
    let directory = scratch();
    let path = directory.path().join("a.zdb");
    let store = Store::open(&path, CREATE).unwrap();
    Step::Create("a").perform(&store).unwrap();
    Step::Create("bb").perform(&store).unwrap();
    add(&store, "a", "1");
    let dropped = store.corpus("bb").unwrap().id;
    add(&store, "bb", "2");
    Step::Drop("bb").perform(&store).unwrap();
    let late = LogRecord::delete(dropped, ["2"]).unwrap();
    assert!(matches!(
        store.append(&[late]),
        Err(Error::NoSuchCorpus { .. })
    ));
    drop(store);
    for _ in 0..3 {
        let store = Store::open(&path, WRITE).unwrap();
        assert_eq!(store.warnings(), [""; 0]);
        Step::Create("bb").perform(&store).unwrap();
        assert!(store.corpus("bb").unwrap().id > dropped);
        assert_eq!(observe(&store)["bb"], [""; 0]);
        Step::Drop("bb").perform(&store).unwrap();
    }
}

#[test]
fn a_recompression_that_does_not_fit_is_refused_and_leaves_nothing() {
    let directory = scratch();
    let path = directory.path().join("a.zdb");
    let store = Store::open(&path, CREATE).unwrap();
    Step::Create("a").perform(&store).unwrap();
    Step::publish("a", &["1"]).perform(&store).unwrap();
    let early = add(&store, "a", "2");
    let late = add(&store, "a", "3");
    assert_eq!(store.log_position(), late);
    let segments = store.corpus("a").unwrap().segments;
    let after = LogPosition {
        file: late.file,
        offset: late.offset + 1,
    };
    assert!(matches!(
        recompression(&store, &segments, after, "x"),
        Err(Error::Invalid { .. })
    ));
    let unknown = recompression(&store, &[99], late, "x").unwrap();
    assert!(matches!(unknown.commit(), Err(Error::Invalid { .. })));
    let first = recompression(&store, &segments, early, "1 and 2").unwrap();
    let second = recompression(&store, &segments, late, "1, 2 and 3").unwrap();
    let third = recompression(&store, &[], LogPosition::START, "again").unwrap();
    first.commit().unwrap();
    assert_eq!(observe(&store)["a"], ["1 and 2", "3"]);
    assert!(matches!(second.commit(), Err(Error::Invalid { .. })));
    assert!(matches!(third.commit(), Err(Error::Invalid { .. })));
    let gone = recompression(&store, &[], late, "gone").unwrap();
    Step::Drop("a").perform(&store).unwrap();
    assert!(matches!(gone.commit(), Err(Error::NoSuchCorpus { .. })));
    drop(store);
    assert!(reopen(&path).is_empty());
}

#[test]
fn a_corpus_that_has_lost_its_marker_keeps_its_records() {
    for (segments, catalog) in [(false, true), (true, true), (true, false)] {
        let directory = scratch();
        let path = directory.path().join("a.zdb");
        let store = Store::open(&path, CREATE).unwrap();
        Step::Create("other").perform(&store).unwrap();
        Step::Create("a").perform(&store).unwrap();
        add(&store, "other", "1");
        if segments {
            Step::publish("a", &["1"]).perform(&store).unwrap();
        }
        add(&store, "a", "2");
        let before = observe(&store);
        let marker = format!("segments/{:08}.corpus", store.corpus("a").unwrap().id);
        drop(store);
        std::fs::remove_file(path.join(marker)).unwrap();
        if !catalog {
            forget_corpora(&path);
        }
        let store = Store::open(&path, WRITE).unwrap();
        assert_eq!(store.warnings().len(), if catalog { 1 } else { 2 });
        drop(store);
        // Settings are those of the segments then, and these the defaults except for the threshold.
        assert_eq!(reopen(&path), before);
    }
}

#[test]
fn records_of_a_corpus_that_is_lost_altogether_are_kept_and_reported() {
    let directory = scratch();
    let path = directory.path().join("a.zdb");
    let store = Store::open(&path, CREATE).unwrap();
    Step::Create("a").perform(&store).unwrap();
    add(&store, "a", "1");
    let id = store.corpus("a").unwrap().id;
    drop(store);
    std::fs::remove_file(path.join(format!("segments/{id:08}.corpus"))).unwrap();
    forget_corpora(&path);
    for _ in 0..2 {
        let store = Store::open(&path, WRITE).unwrap();
        let warnings = store.warnings().join("\n");
        assert!(warnings.contains("changes to corpus 1"), "{warnings}");
        Step::Create("a").perform(&store).unwrap();
        assert_eq!(observe(&store)["a"], [""; 0]);
        Step::Drop("a").perform(&store).unwrap();
    }
    assert_eq!(log_files(&path).len(), 1);
}

#[test]
fn the_recompress_threshold_is_kept_by_catalog_and_marker_and_not_by_segments() {
    let directory = scratch();
    let path = directory.path().join("a.zdb");
    let store = Store::open(&path, CREATE).unwrap();
    let settings = CorpusSettings {
        recompress_threshold: 1000,
        ..CorpusSettings::default()
    };
    let record = store.create_corpus("a", settings).unwrap();
    Step::publish("a", &["1"]).perform(&store).unwrap();
    assert!(matches!(
        store.set_recompress_threshold("a", 0),
        Err(Error::Invalid { .. })
    ));
    store.set_recompress_threshold("a", 2000).unwrap();
    drop(store);
    let threshold = || {
        let store = Store::open(&path, WRITE).unwrap();
        let segment = &store.open_corpus("a").unwrap().1[0];
        assert_eq!(segment.header().settings, CorpusSettings::default());
        store.corpus("a").unwrap().settings.recompress_threshold
    };
    assert_eq!(threshold(), 2000);
    forget_corpora(&path);
    assert_eq!(threshold(), 2000);
    let marker = format!("segments/{:08}.corpus", record.id);
    std::fs::remove_file(path.join(marker)).unwrap();
    forget_corpora(&path);
    assert_eq!(threshold(), CorpusSettings::RECOMPRESS_THRESHOLD_DEFAULT);
}

#[test]
fn a_database_in_memory_has_a_log_too() {
    let store = Store::in_memory();
    for (step, state) in log_steps().iter().zip(states(&log_steps()).iter().skip(1)) {
        step.perform(&store).unwrap();
        assert_eq!(observe(&store), *state);
    }
}
