//! Locking of a database: one writer, any number of readers, none of which changes anything.

use std::io::{BufRead, BufReader};

use crate::scenario::{
    self, CREATE, READ, Step, WRITE, build, child, child_argument, contents, copy_directory,
    observe, start_child, states, steps,
};
use zipfdb_storage::{Error, Followed, OpenOptions, Store};

/// For reading, and one that does not exist may be created.
const SHOWN: OpenOptions = OpenOptions {
    read_only: true,
    create: true,
};

/// Not a test of its own: holds the database open until it is killed.
#[test]
fn child_that_holds_a_database_open() {
    let Some(path) = child_argument() else { return };
    let _store = Store::open(path, CREATE).unwrap();
    eprintln!("open");
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
fn a_writer_in_another_process_is_named_and_a_killed_one_blocks_no_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.zdb");
    build(&path, &steps());
    let expected = states(&steps()).pop().unwrap();

    let mut child = start_child(
        "locking::child_that_holds_a_database_open",
        path.to_str().unwrap(),
    );
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "open\n");

    let error = Store::open(&path, WRITE).unwrap_err();
    assert!(matches!(error, Error::Locked { holder: Some(holder), .. } if holder == child.id()));
    assert_eq!(
        error.to_string(),
        format!(
            "{}: database is open for writing in process {}; hint: wait until it has written, close it there, or open read-only",
            path.display(),
            child.id()
        )
    );
    let reader = Store::open(&path, READ).unwrap();
    assert_eq!(observe(&reader), expected, "beside the writer");

    child.kill().unwrap();
    child.wait().unwrap();
    let store = Store::open(&path, WRITE).unwrap();
    assert_eq!(store.warnings(), Vec::<String>::new());
    assert_eq!(observe(&store), expected);
}

#[test]
fn a_second_writer_in_this_process_is_refused_until_the_first_is_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.zdb");
    let store = Store::open(&path, CREATE).unwrap();
    let error = Store::open(&path, WRITE).unwrap_err();
    assert!(
        error.to_string().contains("in this process already"),
        "{error}"
    );
    drop(store);
    for _ in 0..3 {
        drop(Store::open(&path, WRITE).unwrap());
    }
}

#[test]
fn a_segment_held_after_the_store_is_closed_does_not_keep_it_locked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.zdb");
    build(&path, &steps());
    let store = Store::open(&path, WRITE).unwrap();
    let (_, segments) = store.open_corpus("bb").unwrap();
    drop(store);
    let store = Store::open(&path, WRITE).unwrap();
    store.drop_corpus("bb").unwrap();
    for segment in &segments {
        segment.verify().unwrap();
    }
}

#[test]
fn reading_changes_no_file_and_refuses_every_write() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.zdb");
    build(&path, &steps());
    // As after a crash: a publication that was never finished, an unknown file, and no lock file.
    std::fs::write(path.join("segments/00000099.seg.tmp"), "half").unwrap();
    std::fs::remove_file(path.join("LOCK")).unwrap();
    let before = contents(&path);

    let store = Store::open(&path, READ).unwrap();
    assert_eq!(observe(&store), states(&steps()).pop().unwrap());
    assert_eq!(store.warnings(), Vec::<String>::new());
    let refused = [
        store.create_corpus("new", scenario::settings("new")).err(),
        store.drop_corpus("bb").err(),
        store.begin_publication("bb").err(),
    ];
    for error in refused {
        assert!(matches!(error, Some(Error::ReadOnly { .. })));
    }
    drop(store);
    assert_eq!(contents(&path), before);
}

/// Not a test of its own: reads a database where no temporary directory can be made.
#[test]
fn child_that_reads_without_a_temporary_directory() {
    let Some(path) = child_argument() else { return };
    assert!(tempfile::tempdir().is_err());
    let store = Store::open(path, READ).unwrap();
    assert_eq!(observe(&store), states(&steps()).pop().unwrap());
    assert_eq!(store.warnings(), Vec::<String>::new());
    #[cfg(target_os = "linux")]
    for thread in std::fs::read_dir("/proc/self/task").unwrap() {
        let name = std::fs::read_to_string(thread.unwrap().path().join("comm")).unwrap();
        let starts = ["sled", "zipfdb"].map(|start| name.starts_with(start));
        assert_eq!(starts, [false, false], "a reader has started {name}");
    }
    eprintln!("read");
}

#[test]
fn reading_needs_no_place_to_write_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.zdb");
    build(&path, &steps());
    let mut child = child(
        "locking::child_that_reads_without_a_temporary_directory",
        path.to_str().unwrap(),
    );
    let output = child.env("TMPDIR", path.join("LOCK")).output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "read\n");
}

#[test]
fn a_reader_keeps_what_it_saw_whatever_the_writer_does() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.zdb");
    build(&path, &steps());
    let expected = states(&steps()).pop().unwrap();
    let writer = Store::open(&path, WRITE).unwrap();
    let reader = Store::open(&path, READ).unwrap();

    writer.drop_corpus("bb").unwrap();
    Step::Create("later").perform(&writer).unwrap();
    Step::publish("later", &["l1", "l2"])
        .perform(&writer)
        .unwrap();

    assert_eq!(observe(&reader), expected);
    let again = Store::open(&path, READ).unwrap();
    assert_eq!(observe(&again), observe(&writer));
    assert_eq!(again.warnings(), Vec::<String>::new());
}

#[test]
fn readers_beside_a_busy_writer_see_whole_publications_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.zdb");
    let writer = Store::open(&path, CREATE).unwrap();
    Step::Create("a").perform(&writer).unwrap();
    Step::Create("bb").perform(&writer).unwrap();
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| {
            for round in 0..40 {
                // `a` is always at most one publication ahead of `bb`.
                for corpus in ["a", "bb"] {
                    let files = (0..3).map(|file| format!("{round} {file}")).collect();
                    Step::Publish(corpus, files).perform(&writer).unwrap();
                }
                Step::Create("c").perform(&writer).unwrap();
                Step::publish("c", &["1", "2"]).perform(&writer).unwrap();
                Step::Drop("c").perform(&writer).unwrap();
            }
        });
        let mut seen = 0;
        while !busy.is_finished() {
            let state = observe(&Store::open(&path, READ).unwrap());
            let (a, b) = (state["a"].len(), state["bb"].len());
            assert!(a % 3 == 0 && b % 3 == 0, "part of a publication");
            assert!(a == b || a == b + 3, "{a} files and {b}");
            assert!(a >= seen, "back in time");
            assert!([None, Some(0), Some(2)].contains(&state.get("c").map(Vec::len)));
            seen = a;
        }
    });
}

#[test]
fn what_is_not_a_database_is_neither_opened_nor_changed() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing.zdb");
    for options in [READ, WRITE] {
        let error = Store::open(&missing, options).unwrap_err();
        assert!(matches!(error, Error::NoDatabase { path } if path == missing));
    }
    let nowhere = directory.path().join("none/missing.zdb");
    for options in [READ, WRITE, CREATE, SHOWN] {
        let error = Store::open(&nowhere, options).unwrap_err();
        assert!(matches!(error, Error::Io { path, .. } if path == directory.path().join("none")));
    }
    let other = directory.path().join("other");
    std::fs::create_dir(&other).unwrap();
    for options in [READ, WRITE] {
        assert!(matches!(
            Store::open(&other, options),
            Err(Error::NoDatabase { .. })
        ));
    }
    std::fs::write(other.join("thesis.txt"), "text").unwrap();
    for options in [READ, WRITE, CREATE, SHOWN] {
        assert!(matches!(
            Store::open(&other, options),
            Err(Error::NotADatabase { .. })
        ));
    }
    assert_eq!(std::fs::read_dir(&other).unwrap().count(), 1);

    let file = directory.path().join("file");
    std::fs::write(&file, "text").unwrap();
    for options in [READ, WRITE, CREATE] {
        Store::open(&file, options).unwrap_err();
    }
    let empty = directory.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    assert_eq!(
        observe(&Store::open(&empty, CREATE).unwrap()),
        scenario::State::new()
    );
}

#[test]
fn a_database_that_may_be_created_is_shown_empty_until_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.zdb");
    let store = Store::open(&path, SHOWN).unwrap();
    assert!(store.is_missing() && store.is_read_only());
    assert_eq!(observe(&store), scenario::State::new());
    assert_eq!(
        (store.views().unwrap(), store.indexes().unwrap()),
        (vec![], vec![])
    );
    let error = store.corpus("a").unwrap_err();
    assert!(matches!(error, Error::NoSuchCorpus { missing: Some(at), .. } if at == path));
    assert_eq!(store.follow().unwrap(), Followed::Same);
    assert!(!path.exists());

    build(&path, &steps());
    assert_eq!(store.follow().unwrap(), Followed::Changed);
    let store = Store::open(&path, SHOWN).unwrap();
    assert!(!store.is_missing());
    assert_eq!(observe(&store), states(&steps()).pop().unwrap());
    let error = store.corpus("none").unwrap_err();
    assert!(matches!(error, Error::NoSuchCorpus { missing: None, .. }));
}

#[test]
fn a_copied_database_opens_like_the_original() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.zdb");
    build(&path, &steps());
    let copy = directory.path().join("copy.zdb");
    copy_directory(&path, &copy);
    let store = Store::open(&copy, WRITE).unwrap();
    assert_eq!(observe(&store), states(&steps()).pop().unwrap());
}

#[test]
fn stores_publications_and_segments_may_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Store>();
    shared::<zipfdb_storage::Publication>();
    shared::<zipfdb_storage::Segment>();
}
