//! Any bytes as a record log: commits are given whole or it is an error; never a panic, a hang or memory out of
//! proportion to the files (libFuzzer's limit on one allocation).
//!
//! The first byte chooses: files of any bytes; a file whose header and records have right checksums, so that the
//! decoders are reached; or a log that was written by a database and then damaged, which must give an error or a
//! prefix of what was written. The layout is that of storage/FORMAT.md.

use std::path::{Path, PathBuf};

use zipfdb_storage::{
    Backend, CorpusSettings, Durability, LogPosition, LogRecord, MemoryBackend, Store, read_log,
};

const MAGIC: [u8; 8] = *b"\x89ZDBLOG\n";
const VERSION: [u8; 4] = 1_u32.to_le_bytes();
const HEADER_SIZE: usize = MAGIC.len() + VERSION.len() + 8 + 16 + 4;

/// The kind that ends a commit.
const COMMIT: u8 = 4;

/// The position of each record's commit, and the record in words.
type Seen = Vec<(LogPosition, String)>;

/// One input.
pub fn run(bytes: &[u8]) {
    let Some((mode, rest)) = bytes.split_first() else {
        return;
    };
    match mode % 3 {
        0 => {
            let (first, second) = rest.split_at(rest.len() / 2);
            read(&[first.to_vec(), second.to_vec()]);
        }
        1 => drop(read(&[sealed(rest)])),
        _ => damage(rest),
    }
}

fn path_of(directory: &Path, number: usize) -> PathBuf {
    directory.join(format!("{number:016x}.log"))
}

/// Reads a log of these files, if it can be read.
fn read(files: &[Vec<u8>]) -> Option<Seen> {
    let directory = Path::new("log");
    let backend = MemoryBackend::new();
    backend
        .create_directory(directory)
        .expect("memory refuses no directory");
    for (number, bytes) in (1..).zip(files) {
        let mut file = backend
            .create(&path_of(directory, number))
            .expect("memory has room for a file");
        file.write_all(bytes).expect("memory takes all bytes");
    }
    let mut seen = Seen::new();
    let result = read_log(&backend, directory, |position, record| {
        let edits: Vec<_> = record.edits().collect();
        assert_eq!(edits.len(), record.edits().len());
        seen.push((position, format!("{} {edits:?}", record.corpus())));
    });
    result.ok().map(|_| seen)
}

/// A file of records of any content under right checksums: each is given by its kind, corpus and size of the payload,
/// and the payload. A commit follows, unless the kind has a bit that says no.
fn sealed(mut bytes: &[u8]) -> Vec<u8> {
    let mut file = [&MAGIC[..], &VERSION, &1_u64.to_le_bytes(), &[0; 16]].concat();
    file.extend(crc32fast::hash(&file).to_le_bytes());
    let mut records = 0_u32;
    while let [kind, corpus, size, rest @ ..] = bytes {
        let (payload, rest) = rest.split_at(rest.len().min(usize::from(*size)));
        bytes = rest;
        seal(&mut file, kind % 8, (*corpus).into(), payload);
        records += 1;
        if kind & 8 == 0 {
            let durable = HEADER_SIZE as u64;
            let commit = [&records.to_le_bytes()[..], &durable.to_le_bytes()].concat();
            seal(&mut file, COMMIT, 0, &commit);
            records = 0;
        }
    }
    file
}

/// Appends a record to file 1.
fn seal(file: &mut Vec<u8>, kind: u8, corpus: u64, payload: &[u8]) {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[kind]);
    hasher.update(&corpus.to_le_bytes());
    hasher.update(payload);
    hasher.update(&1_u64.to_le_bytes());
    hasher.update(&(file.len() as u64).to_le_bytes());
    let size = u32::try_from(payload.len()).expect("at most 255 bytes");
    file.extend(size.to_le_bytes());
    file.extend(hasher.finalize().to_le_bytes());
    file.push(kind);
    file.extend(corpus.to_le_bytes());
    file.extend(payload);
}

/// Writes a log as the bytes say, damages one of its files, and reads it.
fn damage(bytes: &[u8]) {
    let [file, at_high, at_low, change, value, commits @ ..] = bytes else {
        return;
    };
    let mut files = written(commits);
    let whole = read(&files).expect("a log that was written can be read");
    let count = files.len();
    if count == 0 {
        return;
    }
    let file = &mut files[usize::from(*file) % count];
    let at = usize::from(u16::from_be_bytes([*at_high, *at_low])) % file.len();
    match change % 5 {
        0 => file[at] ^= (*value).max(1),
        1 => file.truncate(at),
        2 => file.insert(at, *value),
        3 => file[at..].fill(*value),
        _ => file.extend_from_within(at..),
    }
    let Some(seen) = read(&files) else { return };
    assert!(
        whole.starts_with(&seen),
        "{seen:?} is no prefix of {whole:?}"
    );
    if let (Some((last, _)), Some((next, _))) = (seen.last(), whole.get(seen.len())) {
        assert_ne!(last, next, "part of a commit");
    }
}

/// The files of a log with a commit for each two bytes.
fn written(commits: &[u8]) -> Vec<Vec<u8>> {
    let store = Store::in_memory();
    store.set_log_file_size(150);
    let corpus = store
        .create_corpus("c", CorpusSettings::default())
        .expect("it is the first")
        .id;
    for commit in commits.chunks_exact(2).take(40) {
        let text = vec![commit[0]; usize::from(commit[1]) / 4];
        let rows = [("f", Some(commit[1].into()), &text[..]), ("f", None, b"x")];
        let records = [
            LogRecord::insert(corpus, rows),
            LogRecord::delete(corpus, ["f", "g"]),
        ];
        let records = records.map(|record| record.expect("it is small"));
        let records = &records[..1 + usize::from(commit[1] % 2)];
        let levels = [Durability::Full, Durability::Normal, Durability::Off];
        let level = levels[usize::from(commit[0] % 3)];
        store
            .append_commit(records, level)
            .expect("memory refuses nothing");
    }
    store
        .ensure_durable(store.log_position(), Durability::Normal)
        .expect("memory refuses nothing");
    let directory = store.path().join("log");
    let count = store
        .backend()
        .list(&directory)
        .map_or(0, |names| names.len());
    (1..=count)
        .map(|number| {
            store
                .backend()
                .read(&path_of(&directory, number))
                .expect("it is listed")
                .to_vec()
        })
        .collect()
}
