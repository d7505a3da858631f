//! Tests of the catalog alone: encoding, size on disk, damage to sled's files.

#![allow(clippy::unwrap_used)]

use std::io::Write;

use super::*;
use crate::backend::{FileBackend, MemoryBackend};
use crate::{CorpusSettings, LogPosition, Tokenizer};

fn corpus(id: u64, name: &str, segments: impl IntoIterator<Item = u64>) -> CorpusRecord {
    CorpusRecord {
        id,
        name: name.to_owned(),
        settings: CorpusSettings {
            tokenizer: Tokenizer::Alnum,
            ..CorpusSettings::default()
        },
        merged_position: LogPosition::START,
        segments: segments.into_iter().collect(),
    }
}

fn corpora(records: impl IntoIterator<Item = CorpusRecord>) -> Corpora {
    records
        .into_iter()
        .map(|record| (record.id, record))
        .collect()
}

fn three() -> Corpora {
    corpora([
        corpus(1, "a", []),
        corpus(2, &"long".repeat(60), 3..40),
        corpus(70, "b", [71]),
    ])
}

fn backend() -> Arc<dyn Backend> {
    Arc::new(FileBackend)
}

#[test]
fn corpora_come_back_from_their_pairs() {
    for state in [Corpora::new(), three()] {
        let content = decode(&encode(&state, 7)).unwrap();
        assert_eq!((content.corpora, content.sequence), (state, 7));
    }
    assert!(matches!(decode(&Pairs::new()), Err(ContentFault::Missing)));
}

#[test]
fn pairs_that_are_changed_lost_or_older_are_damage() {
    let pairs = encode(&three(), 7);
    for key in pairs.keys() {
        let mut lost = pairs.clone();
        lost.remove(key);
        assert!(matches!(decode(&lost), Err(ContentFault::Damaged(_))));

        for at in 0..pairs[key].len() {
            let mut changed = pairs.clone();
            changed.get_mut(key).unwrap()[at] ^= 0x10;
            assert!(matches!(decode(&changed), Err(ContentFault::Damaged(_))));
        }
    }
    let older = encode(&corpora([corpus(2, &"long".repeat(60), 3..39)]), 7);
    let mut mixed = pairs.clone();
    for (key, value) in older {
        mixed.insert(key.clone(), value);
        let whole = mixed == pairs;
        assert!(whole || matches!(decode(&mixed), Err(ContentFault::Damaged(_))));
    }
}

#[test]
fn values_of_a_later_version_are_not_taken_for_damage() {
    let mut pairs = encode(&Corpora::new(), 7);
    let manifest = pairs.get_mut(MANIFEST_KEY).unwrap();
    manifest[0] = VERSION + 1;
    let content = manifest.len() - 4;
    let crc = checksum(MANIFEST_KEY, &manifest[..content]);
    manifest[content..].copy_from_slice(&crc.to_le_bytes());
    assert!(matches!(decode(&pairs), Err(ContentFault::Version(3))));
}

/// The pairs of a catalog of version 1.
fn encode_first_version(corpora: &Corpora) -> Pairs {
    let mut pairs = encode(corpora, 0);
    pairs.remove(MANIFEST_KEY);
    let seal = |key: &[u8], payload: &[u8]| {
        let mut value = [&[1], payload].concat();
        value.extend(checksum(key, &value).to_le_bytes());
        value
    };
    for (key, value) in &mut pairs {
        *value = seal(key, &value[1..value.len() - 4]);
    }
    let manifest = seal(MANIFEST_KEY, &manifest_of(&pairs));
    pairs.insert(MANIFEST_KEY.to_vec(), manifest);
    pairs
}

#[test]
fn a_catalog_of_the_first_version_is_read_and_written_anew() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog");
    let pairs = encode_first_version(&three());
    {
        let database = open_database(&path).unwrap();
        for (key, value) in pairs {
            database.insert(key, value).unwrap();
        }
        database.flush().unwrap();
    }
    let (mut catalog, content) = Catalog::open(backend(), &path).unwrap();
    let expected = Content {
        corpora: three(),
        sequence: 0,
    };
    assert_eq!(content, expected);
    catalog.store(&three(), 5).unwrap();
    drop(catalog);
    assert_eq!(stored(&path), (three(), 5));
}

fn create(path: &Path, corpora: &Corpora) -> Catalog {
    let mut catalog = Catalog::void(backend(), path);
    catalog.store(corpora, 1).unwrap();
    catalog
}

/// What a closed catalog holds.
fn stored(path: &Path) -> (Corpora, u64) {
    let (_, content) = Catalog::open(backend(), path).unwrap();
    (content.corpora, content.sequence)
}

#[test]
fn a_state_is_read_back_after_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog");
    assert!(matches!(
        Catalog::open(backend(), &path),
        Err(ContentFault::Missing)
    ));
    assert!(matches!(
        Files::read(&FileBackend, &path),
        Ok(Files::Missing)
    ));

    let mut catalog = create(&path, &Corpora::new());
    catalog.store(&three(), 4).unwrap();
    assert!(matches!(Files::read(&FileBackend, &path), Ok(Files::Open)));
    drop(catalog);
    assert!(matches!(
        Files::read(&FileBackend, &path),
        Ok(Files::Closed(4))
    ));
    assert_eq!(stored(&path), (three(), 4));

    let one = corpora([corpus(70, "b", [71, 72])]);
    let mut catalog = Catalog::closed(backend(), &path);
    catalog.store(&one, 9).unwrap();
    drop(catalog);
    assert_eq!(stored(&path), (one, 9));
}

#[test]
fn a_catalog_that_stores_nothing_is_not_opened() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog");
    drop(create(&path, &three()));
    let before = read_files(&path);
    drop(Catalog::closed(backend(), &path));
    assert_eq!(read_files(&path), before);
}

/// A handle that was leaked holds the lock of sled's file for as long as the process lives.
#[test]
fn a_catalog_that_was_given_up_can_be_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog");
    let mut catalog = create(&path, &Corpora::new());
    let CatalogState::Running(running) = &catalog.state else {
        panic!("it was just used");
    };
    let fault = running
        .sled
        .call(|_| -> Result<(), ContentFault> { panic!("as sled does") });
    assert!(matches!(fault, Err(ContentFault::Damaged(_))));
    catalog.store(&three(), 2).unwrap_err();
    catalog.store(&three(), 3).unwrap_err();
    drop(catalog);
    assert!(matches!(Files::read(&FileBackend, &path), Ok(Files::Open)));

    let mut catalog = Catalog::void(backend(), &path);
    catalog.store(&three(), 4).unwrap();
    drop(catalog);
    assert_eq!(stored(&path), (three(), 4));
}

fn read_files(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            files.insert(entry.file_name().into(), fs::read(entry.path()).unwrap());
        }
    }
    files
}

/// Bytes of all files below `path`, and how many there are.
fn disk_size(path: &Path) -> (u64, usize) {
    let mut total = (0, 0);
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        let (size, files) = if entry.file_type().unwrap().is_dir() {
            disk_size(&entry.path())
        } else {
            (entry.metadata().unwrap().len(), 1)
        };
        total = (total.0 + size, total.1 + files);
    }
    total
}

#[test]
fn a_catalog_of_a_few_corpora_stays_below_sixteen_kibibytes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog");
    let mut state = corpora([corpus(1, "docs", [])]);
    drop(create(&path, &state));
    assert!(disk_size(&path).0 < 1024, "{}", disk_size(&path).0);

    for round in 0..6 {
        let mut catalog = Catalog::closed(backend(), &path);
        state.insert(
            10 * round,
            corpus(10 * round, &format!("corpus{round}"), []),
        );
        for segment in 1..5 {
            state
                .get_mut(&(10 * round))
                .unwrap()
                .segments
                .push(10 * round + segment);
            catalog.store(&state, 1).unwrap();
        }
    }
    assert!(disk_size(&path).0 <= 16 << 10, "{}", disk_size(&path).0);
}

#[test]
fn long_names_and_many_segments_need_no_blob_files() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog");
    let mut state = Corpora::new();
    let mut catalog = create(&path, &state);
    for id in 0..40 {
        state.insert(id, corpus(id, &format!("{id:0255}"), 0..50));
        catalog.store(&state, 1).unwrap();
    }
    for segments in [1000, 2000] {
        state.insert(41, corpus(41, "many", 0..segments));
        catalog.store(&state, 1).unwrap();
    }
    state.remove(&20);
    catalog.store(&state, 1).unwrap();
    drop(catalog);
    assert_eq!(disk_size(&path.join("blobs")), (0, 0));
    assert_eq!(stored(&path).0, state);
}

/// Every byte of every file of a catalog is cut off or flipped, every file removed: the damage is seen without sled.
#[test]
fn any_change_to_the_files_of_a_closed_catalog_is_seen_before_sled_is_started() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog");
    let mut state = Corpora::new();
    let mut catalog = create(&path, &state);
    for id in 1..5 {
        state.insert(id, corpus(id, "name", id..id + 3));
        catalog.store(&state, id).unwrap();
        if id == 2 {
            drop(catalog);
            catalog = Catalog::closed(backend(), &path); // makes sled write a snapshot file
        }
    }
    drop(catalog);
    let files = read_files(&path);
    assert_eq!(files.len(), 4, "conf, db, a snapshot and the mark");

    let memory = MemoryBackend::new();
    memory.create_directory(&path).unwrap();
    let write = |name: &Path, bytes: &[u8]| {
        let _ = memory.remove(&path.join(name));
        let mut file = memory.create(&path.join(name)).unwrap();
        file.write_all(bytes).unwrap();
    };
    for (name, bytes) in &files {
        write(name, bytes);
    }
    assert!(matches!(Files::read(&memory, &path), Ok(Files::Closed(4))));
    for (name, bytes) in &files {
        let is_mark = name == Path::new("CLOSED");
        let step = bytes.len().div_ceil(2000);
        for at in (0..bytes.len()).step_by(step) {
            write(name, &bytes[..at]);
            let found = Files::read(&memory, &path);
            assert!(matches!(found, Ok(Files::Damaged(_))), "{name:?} {at}");
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            write(name, &flipped);
            let found = Files::read(&memory, &path);
            assert!(matches!(found, Ok(Files::Damaged(_))), "{name:?} {at}");
        }
        memory.remove(&path.join(name)).unwrap();
        let found = Files::read(&memory, &path).unwrap();
        if is_mark {
            assert!(matches!(found, Files::Open))
        } else {
            assert!(matches!(found, Files::Damaged(_)), "{name:?}")
        }
        write(name, bytes);
    }
    write(Path::new("snap.0000000000000001"), b"strange");
    assert!(matches!(Files::read(&memory, &path), Ok(Files::Damaged(_))));
}

/// Files of a catalog that was not closed are opened if need be, and what sled is known to panic at is refused before.
#[test]
fn files_that_sled_panics_at_are_refused_without_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog");
    let mut state = Corpora::new();
    let mut catalog = create(&path, &state);
    for id in 0..40 {
        state.insert(id, corpus(id, "name", []));
        catalog.store(&state, id).unwrap();
    }
    drop(catalog);
    fs::remove_file(path.join("CLOSED")).unwrap();
    let files = read_files(&path);
    let check = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = files[Path::new(name)].clone();
        change(&mut bytes);
        fs::write(path.join(name), bytes).unwrap();
        let fault = files::check_form(&FileBackend, &path);
        fs::write(path.join(name), &files[Path::new(name)]).unwrap();
        assert!(matches!(fault, Err(ContentFault::Damaged(_))), "{fault:?}");
    };
    files::check_form(&FileBackend, &path).unwrap();
    for at in 0..files[Path::new("conf")].len() {
        check("conf", &|bytes| bytes[at] ^= 1);
        check("conf", &|bytes| bytes.truncate(at));
    }
    for at in 0..20 {
        check("db", &|bytes| bytes[SLED_SEGMENT_SIZE + at] ^= 1);
        check("db", &|bytes| bytes.truncate(SLED_SEGMENT_SIZE + at.max(1)));
    }
    check("db", &Vec::clear);
    // Two of its own segments with one number.
    check("db", &|bytes| {
        bytes.copy_within(SLED_SEGMENT_SIZE..SLED_SEGMENT_SIZE + 512, 0);
    });
    assert_eq!(stored(&path).0, state);

    // sled zeroes segments that are free when it starts, the first one as any other.
    let mut db = files[Path::new("db")].clone();
    db[..SLED_SEGMENT_SIZE].fill(0);
    fs::remove_dir_all(&path).unwrap();
    fs::create_dir(&path).unwrap();
    for (name, bytes) in &files {
        fs::write(path.join(name), bytes).unwrap();
    }
    fs::write(path.join("db"), &db).unwrap();
    files::check_form(&FileBackend, &path).unwrap();
    match Catalog::open(backend(), &path) {
        Ok((_, content)) => assert_eq!(content.corpora, state),
        Err(fault) => assert!(!fault.to_string().contains("panic"), "{fault}"),
    }
}

#[test]
fn every_store_ends_with_a_sync_of_what_it_wrote() {
    /// Keeps the catalog's file as it was when it was synced last.
    #[derive(Debug, Default)]
    struct Recording(parking_lot::Mutex<BTreeMap<PathBuf, Vec<u8>>>);

    impl Backend for Recording {
        fn open(&self, path: &Path) -> io::Result<Arc<dyn crate::BackendReader>> {
            FileBackend.open(path)
        }
        fn create(&self, path: &Path) -> io::Result<Box<dyn crate::BackendFile>> {
            FileBackend.create(path)
        }
        fn sync_file(&self, path: &Path) -> io::Result<()> {
            let name = path.file_name().unwrap().into();
            // Threads of sled may write what comes next at this moment: half of a write is never on a disk that has
            // been synced.
            let (mut bytes, mut again) = (fs::read(path)?, fs::read(path)?);
            while bytes != again {
                bytes = std::mem::replace(&mut again, fs::read(path)?);
            }
            self.0.lock().insert(name, bytes);
            Ok(())
        }
        fn rename(&self, source: &Path, target: &Path) -> io::Result<()> {
            FileBackend.rename(source, target)
        }
        fn remove(&self, path: &Path) -> io::Result<()> {
            FileBackend.remove(path)
        }
        fn create_directory(&self, path: &Path) -> io::Result<()> {
            FileBackend.create_directory(path)
        }
        fn sync_directory(&self, path: &Path) -> io::Result<()> {
            FileBackend.sync_directory(path)
        }
        fn list(&self, path: &Path) -> io::Result<Vec<std::ffi::OsString>> {
            FileBackend.list(path)
        }
        fn exists(&self, path: &Path) -> io::Result<bool> {
            FileBackend.exists(path)
        }
    }

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog");
    let recording = Arc::new(Recording::default());
    let mut state = Corpora::new();
    let mut catalog = Catalog::void(recording.clone(), &path);
    for id in 0..60 {
        state.insert(id, corpus(id, "name", id..id + id % 30));
        if id % 7 == 6 {
            state.remove(&(id - 3));
        }
        catalog.store(&state, id).unwrap();
        if id % 20 == 19 {
            drop(catalog);
            catalog = Catalog::closed(recording.clone(), &path);
        }
        let synced = directory.path().join(format!("synced{id}"));
        fs::create_dir(&synced).unwrap();
        for (name, bytes) in recording.0.lock().iter() {
            // Older snapshots of sled are gone, and with them their names.
            if path.join(name).exists() {
                fs::write(synced.join(name), bytes).unwrap();
            }
        }
        if !synced.join("conf").exists() {
            fs::copy(path.join("conf"), synced.join("conf")).unwrap();
        }
        assert_eq!(stored(&synced).0, state);
    }
}
