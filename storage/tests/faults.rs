//! The operating system refuses one call: an error, never a panic, and nothing half done.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::scenario::faulty::{Faulty, Mode};
use crate::scenario::{
    self, CREATE, State, Step, WRITE, build, log_steps, observe, reopen, scratch, states, steps,
};
use zipfdb_storage::{Durability, Error, Result, Store};

/// Does `steps` on a database in `path` with call number `call` failing. Whether the end was reached with calls left.
fn fail_one_call(path: &Path, before: &State, steps: &[Step], mode: Mode, call: i64) -> bool {
    let faults = Faulty::new(mode, call);
    let mut state = before.clone();
    let mut next = state.clone();
    // After the last step that is there for good, and after each since.
    let mut possible = vec![state.clone()];
    let opened = Store::open_with(Arc::new(faults.clone()), path, CREATE);
    if let Ok(store) = &opened {
        for step in steps {
            next = state.clone();
            step.apply(&mut next);
            let mut result = step.perform(store);
            if let Err(error) = result {
                assert!(matches!(error, Error::Io { .. }), "{error}");
                let found = observe(store);
                assert!(
                    possible.contains(&found),
                    "{mode:?}, call {call}: a failed step shows: {error}: {found:?}"
                );
                result = step.perform(store);
            }
            if let Err(error) = result {
                // The outcome is unknown: the next open decides.
                assert!(matches!(error, Error::Poisoned { .. }), "{error}");
                let found = observe(store);
                assert!(
                    possible.contains(&found),
                    "{mode:?}, call {call}: a failed step shows: {found:?}"
                );
                break;
            }
            state = next.clone();
            if step.survives(false) {
                possible.clear();
            }
            possible.push(state.clone());
        }
    }
    drop(opened);
    let found = reopen(path);
    possible.push(next);
    assert!(
        possible.contains(&found),
        "{mode:?}, call {call}: {found:?} is none of {possible:?}"
    );
    faults.left.load(Ordering::Relaxed) >= 0
}

fn fail_every_call(prepare: impl Fn(&Path), before: &State, steps: &[Step], calls_min: i64) {
    for mode in [Mode::Refused, Mode::Done, Mode::NoSpace] {
        for call in 0.. {
            let directory = scratch();
            let path = directory.path().join("a.zdb");
            prepare(&path);
            if fail_one_call(&path, before, steps, mode, call) {
                assert!(call >= calls_min, "{call} calls are too few to believe");
                break;
            }
        }
    }
}

#[test]
fn a_call_that_fails_while_a_database_is_created_and_used_leaves_the_old_or_the_new_state() {
    let steps = [
        Step::Create("a"),
        Step::publish("a", &["a1", "a2"]),
        Step::Abandon("a"),
        Step::DropHeld("a"),
        Step::Create("bb"),
    ];
    fail_every_call(|_| (), &State::new(), &steps, 60);
}

#[test]
fn a_call_that_fails_while_indexes_are_built_leaves_segments_and_whole_indexes() {
    let steps = [
        Step::Create("a"),
        Step::publish("a", &["a1", "a2"]),
        Step::Index("a"),
        Step::publish("a", &["a3"]),
        Step::Index("a"),
        Step::Recompress("a"),
        Step::Index("a"),
        Step::DropIndex("a"),
    ];
    fail_every_call(|_| (), &State::new(), &steps, 80);
}

#[test]
fn a_call_that_fails_while_the_log_is_used_leaves_the_old_or_the_new_state() {
    let steps = [
        Step::Create("a"),
        Step::commit(Durability::Off, &[("a", &["a1", "a2"])]),
        Step::commit(Durability::Normal, &[("a", &["a3", "-a1"])]),
        Step::RecompressHeld("a"),
    ];
    fail_every_call(|_| (), &State::new(), &steps, 60);
}

#[test]
fn a_call_that_fails_while_the_log_is_replayed_and_merged_loses_nothing() {
    let steps = log_steps();
    let before = states(&steps[..14]).pop().unwrap();
    let prepare = |path: &Path| build(path, &steps[..14]);
    fail_every_call(prepare, &before, &[Step::Recompress("bb")], 20);
}

#[test]
fn a_call_that_fails_while_an_interrupted_commit_is_recovered_loses_nothing() {
    let before = states(&steps()).pop().unwrap();
    let prepare = |path: &Path| {
        build(path, &steps());
        let segments = path.join("segments");
        std::fs::write(segments.join("00000100.seg.tmp"), "half").unwrap();
        // A corpus that was dropped and whose segments were in use.
        let mut files = std::fs::read_dir(&segments)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let marker = files.find(|path| path.extension().is_some_and(|name| name == "corpus"));
        let marker = marker.unwrap();
        std::fs::rename(&marker, marker.with_extension("dropped")).unwrap();
        std::fs::remove_dir_all(path.join("catalog")).unwrap();
        std::fs::remove_file(path.join("MANIFEST")).unwrap();
    };
    let mut after = before.clone();
    after.remove("bb");
    fail_every_call(prepare, &after, &[], 10);
}

#[test]
fn after_a_failed_sync_writes_are_refused_and_reads_go_on() {
    let directory = scratch();
    let path = directory.path().join("a.zdb");
    build(&path, &steps());
    let faults = Faulty::new(Mode::Refused, i64::MAX);
    let store = Store::open_with(Arc::new(faults.clone()), &path, WRITE).unwrap();
    let before = observe(&store);
    let publication = store.begin_publication("bb").unwrap();

    // Creating a corpus first writes its marker under a temporary name: until that is renamed, nothing has happened and
    // it may be tried again.
    let mut harmless = 0;
    let error = loop {
        faults.left.store(harmless, Ordering::Relaxed);
        let first = store.create_corpus("x", scenario::settings("x"));
        faults.left.store(i64::MAX, Ordering::Relaxed);
        let again = match first {
            Ok(record) => Ok(record), // the call did not matter
            Err(_) => store.create_corpus("x", scenario::settings("x")),
        };
        match again {
            Ok(_) => store.drop_corpus("x").unwrap(),
            Err(error) => break error,
        }
        harmless += 1;
    };
    assert!(harmless >= 4, "create, write in two parts, sync");
    assert!(matches!(error, Error::Poisoned { .. }));
    let refused: [Result<()>; 4] = [
        store.create_corpus("y", scenario::settings("y")).map(drop),
        store.drop_corpus("bb"),
        store.begin_publication("bb").map(drop),
        Step::publish("bb", &["z"]).perform(&store),
    ];
    for result in refused {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Poisoned { .. }));
        assert!(error.to_string().contains("hint: close the database"));
    }
    assert_eq!(observe(&store), before);
    drop(publication);
    drop(store);
    let store = Store::open(&path, WRITE).unwrap();
    store.drop_corpus("bb").unwrap();
}

#[test]
fn a_publication_that_is_not_whole_is_refused_and_leaves_nothing() {
    let directory = scratch();
    let path = directory.path().join("a.zdb");
    build(&path, &steps());
    let store = Store::open(&path, WRITE).unwrap();
    let before = observe(&store);

    let mut publication = store.begin_publication("bb").unwrap();
    publication.next_segment((16, 0, 0), false).unwrap();
    assert!(
        matches!(publication.commit(), Err(Error::Invalid { .. })),
        "no last segment"
    );

    let mut publication = store.begin_publication("bb").unwrap();
    publication.next_segment((16, 0, 0), true).unwrap();
    assert!(matches!(
        publication.next_segment((16, 0, 0), true),
        Err(Error::Invalid { .. })
    ));
    assert!(
        matches!(publication.commit(), Err(Error::Io { .. })),
        "not written"
    );

    let mut publication = store.begin_publication("bb").unwrap();
    let (_, target) = publication.next_segment((16, 0, 0), true).unwrap();
    std::fs::copy(path.join("segments").join(segment_name(&path)), target).unwrap();
    assert!(
        matches!(publication.commit(), Err(Error::Corrupt { .. })),
        "of another segment"
    );

    store.begin_publication("bb").unwrap().commit().unwrap();

    let publication = store.begin_publication("bb").unwrap();
    store.drop_corpus("bb").unwrap();
    Step::Create("bb").perform(&store).unwrap();
    drop(publication);
    assert_ne!(before, observe(&store));
    drop(store);
    assert_eq!(reopen(&path)["bb"], [""; 0]);
}

/// Any segment of a database.
fn segment_name(path: &Path) -> OsString {
    let mut names = std::fs::read_dir(path.join("segments")).unwrap();
    names
        .find_map(|entry| {
            let name = entry.unwrap().file_name();
            name.to_str().unwrap().ends_with(".seg").then_some(name)
        })
        .unwrap()
}
