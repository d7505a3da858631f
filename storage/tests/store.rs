//! What a store does when nothing goes wrong.

use std::path::Path;
use std::sync::Arc;

use crate::scenario::{
    self, CREATE, READ, State, Step, log_steps, observe, reopen, scratch, states, steps,
};
use zipfdb_storage::{Backend, Error, MemoryBackend, Store};

#[test]
fn a_publication_to_a_corpus_that_was_dropped_and_created_again_is_refused() {
    let store = Store::in_memory();
    Step::Create("a").perform(&store).unwrap();
    let mut publication = store.begin_publication("a").unwrap();
    let (header, path) = publication.next_segment((16, 0, 0), true).unwrap();
    scenario::write_segment(store.backend(), &path, &header, "late").unwrap();
    store.drop_corpus("a").unwrap();
    Step::Create("a").perform(&store).unwrap();
    assert!(matches!(
        publication.commit(),
        Err(Error::NoSuchCorpus { .. })
    ));
    assert_eq!(observe(&store)["a"], [""; 0]);
    assert!(!store.backend().exists(&path).unwrap());
}

#[test]
fn a_database_in_memory_does_all_that_one_on_disk_does() {
    let store = Store::in_memory();
    for (step, state) in steps().iter().zip(states(&steps()).iter().skip(1)) {
        step.perform(&store).unwrap();
        assert_eq!(observe(&store), *state);
    }
    let segments = store.path().join("segments");
    let live: usize = store
        .corpora()
        .iter()
        .map(|record| record.segments.len() + 1)
        .sum();
    assert_eq!(
        store.backend().list(&segments).unwrap().len(),
        live,
        "nothing is left behind"
    );
}

#[test]
fn names_of_corpora_are_found_in_any_letter_case_and_kept_as_given() {
    let directory = scratch();
    let path = directory.path().join("a.zdb");
    let store = Store::open(&path, CREATE).unwrap();
    store
        .create_corpus("Reviews 2024", scenario::settings(""))
        .unwrap();
    let error = store
        .create_corpus("REVIEWS 2024", scenario::settings(""))
        .unwrap_err();
    assert_eq!(error.to_string(), "corpus `Reviews 2024` exists already");
    drop(store);
    let store = Store::open(&path, READ).unwrap();
    assert_eq!(store.corpus("reviews 2024").unwrap().name, "Reviews 2024");
    let error = store.corpus("revews").unwrap_err();
    assert_eq!(error.to_string(), "no such corpus `revews`");
}

/// Names in the `segments` directory of a store, without the extension `.corpus`.
fn segment_files(path: &Path) -> Vec<String> {
    let names = std::fs::read_dir(path.join("segments")).unwrap();
    let mut names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with(".corpus"))
        .collect();
    names.sort();
    names
}

#[test]
fn files_of_a_dropped_corpus_go_with_the_last_handle_of_each_segment() {
    let directory = scratch();
    let path = directory.path().join("a.zdb");
    let store = Store::open(&path, CREATE).unwrap();
    Step::Create("a").perform(&store).unwrap();
    Step::publish("a", &["1", "2", "3"])
        .perform(&store)
        .unwrap();
    let (record, mut first) = store.open_corpus("a").unwrap();
    let (_, mut second) = store.open_corpus("A").unwrap();
    drop(first.pop());
    drop(second.pop());
    let name = |index: usize| format!("{:08}.seg", record.segments[index]);
    let tombstone = format!("{:08}.dropped", record.id);

    store.drop_corpus("a").unwrap();
    assert_eq!(segment_files(&path), [tombstone.clone(), name(0), name(1)]);
    assert!(
        store.open_segment(record.segments[0]).is_err(),
        "not live any more"
    );
    drop(first);
    assert_eq!(segment_files(&path), [tombstone.clone(), name(0), name(1)]);
    drop(second.pop());
    assert_eq!(segment_files(&path), [tombstone, name(0)]);
    // The name is free at once.
    Step::Create("a").perform(&store).unwrap();
    second[0].verify().unwrap();
    drop(second);
    assert_eq!(segment_files(&path), [""; 0]);
    drop(store);
    assert_eq!(reopen(&path), State::from([("a".to_owned(), vec![])]));
}

#[test]
fn handles_of_a_segment_share_what_was_decoded() {
    let store = Store::in_memory();
    Step::Create("a").perform(&store).unwrap();
    Step::publish("a", &["1"]).perform(&store).unwrap();
    let (record, segments) = store.open_corpus("a").unwrap();
    let again = store.open_segment(record.segments[0]).unwrap();
    assert!(Arc::ptr_eq(&segments[0], &again));
    assert_eq!(again.id(), record.segments[0]);
}

#[test]
fn nothing_of_a_publication_shows_before_its_commit_and_all_of_it_after() {
    let store = Store::in_memory();
    Step::Create("a").perform(&store).unwrap();
    let mut publication = store.begin_publication("a").unwrap();
    for (index, file) in ["1", "2"].into_iter().enumerate() {
        let (header, path) = publication.next_segment((16, 0, 0), index == 1).unwrap();
        scenario::write_segment(store.backend(), &path, &header, file).unwrap();
        assert_eq!(observe(&store)["a"], [""; 0]);
    }
    Step::publish("a", &["sooner"]).perform(&store).unwrap();
    publication.commit().unwrap();
    assert_eq!(
        observe(&store)["a"],
        ["1", "2", "sooner"],
        "in order of number"
    );
}

#[test]
fn threads_may_publish_drop_and_read_at_once() {
    let directory = scratch();
    let path = directory.path().join("a.zdb");
    let store = Store::open(&path, CREATE).unwrap();
    Step::Create("a").perform(&store).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || {
                let own = ["b", "bb", "bbb", "bbbb"][thread];
                for round in 0..10 {
                    let files = (0..3)
                        .map(|file| format!("{thread} {round} {file}"))
                        .collect();
                    Step::Publish("a", files).perform(store).unwrap();
                    Step::Create(own).perform(store).unwrap();
                    Step::publish(own, &["1", "2"]).perform(store).unwrap();
                    let (_, held) = store.open_corpus(own).unwrap();
                    let (_, shared) = store.open_corpus("a").unwrap();
                    assert_eq!(shared.len() % 3, 0, "part of a publication");
                    Step::Drop(own).perform(store).unwrap();
                    for segment in held.iter().chain(&shared) {
                        segment.verify().unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(observe(&store)["a"].len(), 4 * 10 * 3);
    assert_eq!(
        segment_files(&path).len(),
        4 * 10 * 3,
        "nothing is left behind"
    );
    let before = observe(&store);
    drop(store);
    assert_eq!(reopen(&path), before);
}

#[test]
fn a_store_without_a_file_system_keeps_its_state_in_the_manifest_alone() {
    let root = Path::new("memory");
    let path = root.join("a.zdb");
    for steps in [steps(), log_steps()] {
        let backend = Arc::new(MemoryBackend::new());
        backend.create_directory(root).unwrap();
        let open = |options| Store::open_with(backend.clone(), &path, options).unwrap();
        let mut state = State::new();
        for step in steps {
            let store = open(CREATE);
            assert_eq!(store.warnings(), [""; 0]);
            assert_eq!(observe(&store), state);
            step.perform(&store).unwrap();
            step.apply(&mut state);
            drop(store);
            assert_eq!(observe(&open(READ)), state);
        }
        let names = backend.list(&path).unwrap();
        for name in ["catalog", "LOCK", "RESERVE"] {
            assert!(names.iter().all(|other| other != name), "{name}");
        }
    }
    assert!(!path.exists());
}
