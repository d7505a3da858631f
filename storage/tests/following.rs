//! A store that reads beside one that writes, as another process would: what it takes up, and when it has to be opened anew.

use std::path::{Path, PathBuf};

use crate::scenario::{CREATE, READ, WRITE, scratch};
use zipfdb_storage::{CorpusSettings, Durability, Error, Followed, LogPosition, LogRecord, Store};

/// Bytes of a log file before its first commit.
const HEADER_SIZE: usize = 40;

/// The file of the log of a database that has one.
fn only_log_file(database: &Path) -> PathBuf {
    let mut files = std::fs::read_dir(database.join("log")).unwrap();
    files.next().unwrap().unwrap().path()
}

/// Commits a record of the corpus with a number.
fn commit(store: &Store, corpus: u64, file: &str) -> LogPosition {
    let record = LogRecord::insert(corpus, [(file, None, &b"text"[..])]).unwrap();
    store.append_commit(&[record], Durability::Normal).unwrap()
}

/// The positions of all commits behind `after`.
fn commits(store: &Store, after: LogPosition) -> Vec<LogPosition> {
    let mut found = Vec::new();
    store
        .replay(after, |position, _| {
            found.push(position);
            Ok::<_, Error>(())
        })
        .unwrap();
    found
}

fn open(path: &Path, options: zipfdb_storage::OpenOptions) -> Store {
    Store::open(path, options).unwrap()
}

#[test]
fn commits_are_taken_up_and_anything_else_is_reported() {
    let directory = scratch();
    let path = directory.path().join("a.zdb");
    let writer = open(&path, CREATE);
    let corpus = writer
        .create_corpus("c", CorpusSettings::default())
        .unwrap()
        .id;
    let reader = open(&path, READ);
    assert_eq!(reader.follow().unwrap(), Followed::Same);
    assert_eq!(writer.follow().unwrap(), Followed::Same);

    let mut expected = Vec::new();
    for (number, file_size) in [(0, 8 << 20), (1, 8 << 20), (2, 1), (3, 1), (4, 8 << 20)] {
        writer.set_log_file_size(file_size);
        let position = commit(&writer, corpus, &format!("f{number}"));
        assert_eq!(reader.follow().unwrap(), Followed::Grown, "{number}");
        assert_eq!(reader.follow().unwrap(), Followed::Same, "{number}");
        let last = expected.last().copied().unwrap_or_default();
        assert_eq!(commits(&reader, last), [position], "{number}");
        expected.push(position);
        assert_eq!(commits(&reader, LogPosition::START), expected);
        assert_eq!(reader.log_position(), position);
    }
    assert!(
        reader
            .check_log(|| Ok::<_, Error>(()))
            .unwrap()
            .faults
            .is_empty()
    );
    writer
        .create_corpus("d", CorpusSettings::default())
        .unwrap();
    assert_eq!(reader.follow().unwrap(), Followed::Changed);
    let reader = open(&path, READ);
    assert_eq!(reader.follow().unwrap(), Followed::Same);
    writer.drop_corpus("c").unwrap();
    assert_eq!(reader.follow().unwrap(), Followed::Changed);
}

#[test]
fn a_commit_that_is_not_whole_is_taken_up_once_it_is() {
    let directory = scratch();
    let path = directory.path().join("a.zdb");
    let writer = open(&path, CREATE);
    let corpus = writer
        .create_corpus("c", CorpusSettings::default())
        .unwrap()
        .id;
    let first = commit(&writer, corpus, "a");
    let newest = only_log_file(&path);
    let before = std::fs::read(&newest).unwrap();
    let second = commit(&writer, corpus, "b");
    let whole = std::fs::read(&newest).unwrap();
    let reader = {
        std::fs::write(&newest, &before).unwrap();
        open(&path, READ)
    };
    for cut in before.len() + 1..whole.len() {
        std::fs::write(&newest, &whole[..cut]).unwrap();
        assert_eq!(reader.follow().unwrap(), Followed::Same, "{cut}");
        assert_eq!(reader.log_position(), first);
    }
    std::fs::write(&newest, &whole).unwrap();
    assert_eq!(reader.follow().unwrap(), Followed::Grown);
    assert_eq!(commits(&reader, LogPosition::START), [first, second]);
}

/// What a reader sees that opens between the manifest of a new file of the log and the first commit in it.
#[test]
fn the_first_commit_of_a_file_is_taken_up_by_a_reader_that_looked_before_it() {
    let directory = scratch();
    let path = directory.path().join("a.zdb");
    let writer = open(&path, CREATE);
    let corpus = writer
        .create_corpus("c", CorpusSettings::default())
        .unwrap()
        .id;
    let position = commit(&writer, corpus, "a");
    let newest = only_log_file(&path);
    let whole = std::fs::read(&newest).unwrap();
    std::fs::write(&newest, &whole[..HEADER_SIZE]).unwrap();
    let reader = open(&path, READ);
    assert_eq!(reader.follow().unwrap(), Followed::Same);
    std::fs::write(&newest, &whole).unwrap();
    assert_eq!(reader.follow().unwrap(), Followed::Grown);
    assert_eq!(commits(&reader, LogPosition::START), [position]);
}

#[test]
fn a_closed_store_lets_others_write_and_says_which_state_it_left() {
    let directory = scratch();
    let path = directory.path().join("a.zdb");
    let closed = open(&path, CREATE);
    let corpus = closed
        .create_corpus("c", CorpusSettings::default())
        .unwrap()
        .id;
    let first = commit(&closed, corpus, "a");
    assert!(matches!(
        Store::open(&path, WRITE),
        Err(Error::Locked { .. })
    ));
    closed.close().unwrap();
    closed.close().unwrap();
    assert!(closed.is_read_only());
    assert_eq!(closed.follow().unwrap(), Followed::Changed);
    let refused = closed.create_corpus("d", CorpusSettings::default());
    assert!(
        matches!(refused, Err(Error::ReadOnly { .. })),
        "{refused:?}"
    );
    let record = LogRecord::insert(corpus, [("b", None, &b"text"[..])]).unwrap();
    assert!(closed.append(&[record]).is_err());

    let reader = open(&path, READ);
    assert_eq!(reader.sequence(), closed.sequence());
    assert!(closed.sequence().is_some());
    let writer = open(&path, WRITE);
    assert_eq!(writer.sequence(), closed.sequence());
    assert_eq!(writer.warnings(), Vec::<String>::new());
    let second = commit(&writer, corpus, "b");
    // Dropping it writes nothing.
    drop(closed);
    drop(writer);
    let store = open(&path, WRITE);
    assert_eq!(commits(&store, LogPosition::START), [first, second]);
    assert_ne!(store.sequence(), reader.sequence());
}
