//! The files of a copy of a database: they show what the store shows that they were taken from, whatever the writer does.

use std::path::Path;
use std::sync::Arc;

use crate::scenario::{CREATE, READ, WRITE, scratch};
use zipfdb_storage::{
    Backend, CorpusRecord, CorpusSettings, Durability, Error, LogPosition, LogRecord,
    MemoryBackend, Store,
};

fn commit(store: &Store, corpus: u64, file: &str) {
    let record = LogRecord::insert(corpus, [(file, None, &b"text"[..])]).unwrap();
    store.append_commit(&[record], Durability::Full).unwrap();
}

/// What a store shows: corpora and where the commits of its log end.
fn shown(store: &Store) -> (Vec<CorpusRecord>, Vec<LogPosition>) {
    let mut commits = Vec::new();
    let visit = |position, _: LogRecord<'_>| {
        commits.push(position);
        Ok::<_, Error>(())
    };
    store.replay(LogPosition::START, visit).unwrap();
    (store.corpora(), commits)
}

/// A copy of what a store shows.
fn copy(store: &Store, backend: &dyn Backend, path: &Path) {
    backend.create_directory(path).unwrap();
    for directory in Store::IMAGE_DIRECTORIES {
        backend.create_directory(&path.join(directory)).unwrap();
    }
    for file in store.image().unwrap() {
        let Some(content) = file.open().unwrap() else {
            continue;
        };
        let bytes = content.read_at(0, content.size()).unwrap();
        let mut written = backend.create(&path.join(file.path())).unwrap();
        written.write_all(&bytes).unwrap();
        written.sync().unwrap();
    }
}

#[test]
fn an_image_shows_what_its_store_shows() {
    let directory = scratch();
    let path = directory.path().join("a.zdb");
    let writer = Store::open(&path, CREATE).unwrap();
    let settings = CorpusSettings::default();
    let corpus = writer.create_corpus("c", settings.clone()).unwrap().id;
    writer.create_corpus("gone", settings.clone()).unwrap();
    let target = Path::new("copy.zdb");
    for round in 0..6 {
        // Every other round in a new file of the log.
        writer.set_log_file_size(if round % 2 == 0 { 1 } else { 8 << 20 });
        commit(&writer, corpus, &format!("f{round}"));
        if round == 3 {
            writer.drop_corpus("gone").unwrap();
        }
        let reader = Store::open(&path, READ).unwrap();
        let expected = shown(&reader);
        // The writer goes on.
        commit(&writer, corpus, &format!("later {round}"));
        writer
            .create_corpus(&format!("c{round}"), settings.clone())
            .unwrap();

        let memory = Arc::new(MemoryBackend::new());
        copy(&reader, &*memory, target);
        let copied = Store::open_with(memory.clone(), target, READ).unwrap();
        assert_eq!(shown(&copied), expected, "{round}");
        assert!(copied.warnings().is_empty(), "{:?}", copied.warnings());
        drop(copied);
        // A writer to the copy goes on from there.
        let copied = Store::open_with(memory, target, WRITE).unwrap();
        commit(&copied, corpus, "in the copy");
        assert_eq!(shown(&copied).1.len(), expected.1.len() + 1);
    }
}

#[test]
fn a_commit_that_is_being_written_is_no_part_of_an_image() {
    let directory = scratch();
    let path = directory.path().join("a.zdb");
    let writer = Store::open(&path, CREATE).unwrap();
    let corpus = writer
        .create_corpus("c", CorpusSettings::default())
        .unwrap()
        .id;
    commit(&writer, corpus, "whole");
    let log = std::fs::read_dir(path.join("log")).unwrap().next();
    let log = log.unwrap().unwrap().path();
    let size = std::fs::metadata(&log).unwrap().len();
    let mut file = std::fs::OpenOptions::new().append(true).open(&log).unwrap();
    std::io::Write::write_all(&mut file, b"half of").unwrap();

    let reader = Store::open(&path, READ).unwrap();
    let target = directory.path().join("copy.zdb");
    copy(&reader, &zipfdb_storage::FileBackend, &target);
    let copied = Store::open(&target, READ).unwrap();
    assert_eq!(shown(&copied), shown(&reader));
    assert!(copied.warnings().is_empty(), "{:?}", copied.warnings());
    let log = target.join("log").join(log.file_name().unwrap());
    assert_eq!(std::fs::metadata(log).unwrap().len(), size);
    drop(copied);
    let copied = Store::open(&target, WRITE).unwrap();
    assert_eq!(shown(&copied), shown(&reader));
}

#[test]
fn a_store_that_is_open_for_writing_has_no_image() {
    let directory = scratch();
    let writer = Store::open(directory.path().join("a.zdb"), CREATE).unwrap();
    assert!(matches!(writer.image(), Err(Error::Invalid { .. })));
}
