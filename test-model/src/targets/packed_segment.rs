//! A database whose only segment is packed text, damaged as the input says: every question has an error or the right answer; never a
//! panic or a hang.
//!
//! Each four bytes behind the first damage the file of the segment. If the first byte is odd the file is sealed again, so that
//! what reads files and blocks is reached: then answers may be others, for names and sizes of files may be.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use zipfdb::{Database, IngestMode};
use zipfdb_storage::{Backend, MemoryBackend, SegmentForm};

use super::open_segment::seal;
use zipfdb_test_support::harness::scratch;

/// The directory of the database.
const ROOT: &str = "disk/d.zdb";

const DAMAGES_MAX: usize = 4;

const QUESTIONS: [&str; 7] = [
    "SELECT file, bytes, words FROM files('c') ORDER BY file",
    "SELECT COUNT(*) FROM c WHERE word = 'the'",
    "SELECT word, COUNT(*) FROM c GROUP BY word ORDER BY word",
    "SELECT file, offset FROM c WHERE word = 'cat' ORDER BY file, offset",
    "SELECT file, substr(content, 300, 50) FROM files('c') ORDER BY file",
    "SELECT file, content FROM files('c') ORDER BY file",
    "SELECT ngram, COUNT(*) FROM ngrams('c', 2) GROUP BY ngram ORDER BY ngram",
];

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// What a database answers; errors as none.
type Answers = Vec<Option<String>>;

/// The files of the database before it is damaged, and its answers.
fn base() -> &'static (Files, Answers) {
    static BASE: OnceLock<(Files, Answers)> = OnceLock::new();
    BASE.get_or_init(|| {
        let folder = scratch();
        for (name, times) in [("a", 0), ("b", 1), ("c", 300)] {
            let text = "the cat sat on the mat, na\u{ef}vely. ".repeat(times);
            fs::write(folder.path().join(name), text).expect("there is room");
        }
        let backend = Arc::new(MemoryBackend::new());
        create_folders(&backend, Path::new(ROOT));
        let database = open(backend.clone()).expect("it is new");
        let create = "CREATE CORPUS c WITH (ingest = 'fast')";
        database.execute_batch(create).expect("the name is free");
        let corpus = database.corpus("c").expect("it was created");
        let settings = corpus.settings().expect("it was created");
        assert_eq!(settings.ingest, IngestMode::Fast);
        let copy = format!("COPY c FROM '{}'", folder.path().display());
        database
            .execute_batch(&copy)
            .expect("the files can be read");
        let answers = answers(&database);
        assert!(answers.iter().all(Option::is_some));
        drop((corpus, database));
        let mut files = Files::new();
        read_all(&*backend, Path::new(ROOT), &mut files);
        (files, answers)
    })
}

fn open(backend: Arc<MemoryBackend>) -> zipfdb::Result<Database> {
    let options = Database::options().threads(1).backend(backend);
    let database = options.open(ROOT)?;
    database.execute_batch("SET recompress_threads = 0")?;
    Ok(database)
}

fn answers(database: &Database) -> Answers {
    let ask = |sql: &&str| {
        let rows = database.query(sql, ()).ok()?;
        let rows: Result<Vec<_>, _> = rows.collect();
        rows.ok().map(|rows| format!("{rows:?}"))
    };
    QUESTIONS.iter().map(ask).collect()
}

/// Creates the folders that a path lies in.
fn create_folders(backend: &MemoryBackend, path: &Path) {
    for folder in path.ancestors().skip(1).collect::<Vec<_>>().iter().rev() {
        let created = backend.create_directory(folder);
        created.expect("memory refuses no directory");
    }
}

fn read_all(backend: &dyn Backend, folder: &Path, files: &mut Files) {
    for name in backend.list(folder).expect("it is there") {
        let path = folder.join(name);
        match backend.open(&path) {
            Ok(file) => {
                let bytes = file.read_at(0, file.size()).expect("memory can be read");
                files.insert(path, bytes.to_vec());
            }
            Err(_) => read_all(backend, &path, files),
        }
    }
}

/// One input.
pub fn run(bytes: &[u8]) {
    let Some((mode, damages)) = bytes.split_first() else {
        return;
    };
    let (files, expected) = base();
    let backend = MemoryBackend::new();
    for (path, bytes) in files {
        create_folders(&backend, path);
        let mut bytes = bytes.clone();
        if path.extension().is_some_and(|extension| extension == "seg") {
            for damage in damages.as_chunks().0.iter().take(DAMAGES_MAX) {
                change(&mut bytes, *damage);
            }
            if mode % 2 == 1 {
                seal(&mut bytes, SegmentForm::Text);
            }
        }
        let mut file = backend.create(path).expect("memory has room for a file");
        file.write_all(&bytes).expect("memory takes all bytes");
    }
    let Ok(database) = open(Arc::new(backend)) else {
        return;
    };
    for (question, (found, expected)) in QUESTIONS
        .iter()
        .zip(answers(&database).iter().zip(expected))
    {
        let is_right = found.is_none() || found == expected || mode % 2 == 1;
        assert!(is_right, "{question}: {found:?}");
    }
}

/// Damages a file: the place, what happens, a value.
fn change(file: &mut Vec<u8>, [high, low, how, value]: [u8; 4]) {
    if file.is_empty() {
        return;
    }
    let at = usize::from(u16::from_be_bytes([high, low])) % file.len();
    match how % 4 {
        0 => file[at] ^= value.max(1),
        1 => file.truncate(at),
        2 => file.insert(at, value),
        _ => file[at..].iter_mut().take(8).for_each(|byte| *byte = value),
    }
}
