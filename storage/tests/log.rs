//! The record log as part of a database: replay, recompression, what is removed and what is kept when something is lost.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use scenario::{
    CREATE, READ, Step, WRITE, build, log_steps, observe, reopen, scratch, states, write_segment,
};
use zipfdb_storage::{
    CorpusSettings, Durability, Error, LogPosition, LogRecord, Publication, Store,
};

mod scenario;

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
        std::fs::remove_dir_all(path.join("catalog")).unwrap();
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
        std::fs::remove_dir_all(path.join("catalog")).unwrap();
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
    let store = Store::open(&path, WRITE).unwrap();
    add(&store, "a", "torn");
    drop(store);
    // As if the second process had written on in the file of the first.
    let newest = log_files(&path).pop().unwrap();
    std::fs::remove_file(newest).unwrap();
    std::fs::write(file, [&whole[..], &[1; 20]].concat()).unwrap();

    let expected = states(&log_steps()[..2]).pop().unwrap();
    let reader = Store::open(&path, READ).unwrap();
    assert_eq!(observe(&reader), expected);
    let store = Store::open(&path, WRITE).unwrap();
    let warnings = store.warnings();
    assert_eq!(warnings.len(), 1);
    let told = format!("at byte {}: 20 bytes", whole.len());
    assert!(warnings[0].contains(&told), "{warnings:?}");
    drop(store);
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

#[test]
fn files_of_the_log_go_once_nobody_needs_them() {
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
    // The third tells that the segment that is still held is replaced, and that `bb` had records is in the fourth.
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
            std::fs::remove_dir_all(path.join("catalog")).unwrap();
        }
        let store = Store::open(&path, WRITE).unwrap();
        assert_eq!(store.warnings().len(), if catalog { 1 } else { 2 });
        drop(store);
        // Settings are those of the segments then, and these the defaults but for the threshold.
        assert_eq!(reopen(&path), before);
    }
}

#[test]
fn records_of_a_corpus_that_is_lost_altogether_are_kept_and_told_of() {
    let directory = scratch();
    let path = directory.path().join("a.zdb");
    let store = Store::open(&path, CREATE).unwrap();
    Step::Create("a").perform(&store).unwrap();
    add(&store, "a", "1");
    let id = store.corpus("a").unwrap().id;
    drop(store);
    std::fs::remove_file(path.join(format!("segments/{id:08}.corpus"))).unwrap();
    std::fs::remove_dir_all(path.join("catalog")).unwrap();
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
    std::fs::remove_dir_all(path.join("catalog")).unwrap();
    assert_eq!(threshold(), 2000);
    let marker = format!("segments/{:08}.corpus", record.id);
    std::fs::remove_file(path.join(marker)).unwrap();
    std::fs::remove_dir_all(path.join("catalog")).unwrap();
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
