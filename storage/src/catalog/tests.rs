//! Tests of the catalog alone: encoding, size on disk, damage to sled's files.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::backend::FileBackend;
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
        assert_eq!(decode(&encode(&state)).unwrap(), state);
    }
    assert!(matches!(decode(&Pairs::new()), Err(Fault::Missing)));
}

#[test]
fn pairs_that_are_changed_lost_or_older_are_damage() {
    let pairs = encode(&three());
    for key in pairs.keys() {
        let mut lost = pairs.clone();
        lost.remove(key);
        assert!(matches!(decode(&lost), Err(Fault::Damaged(_))));

        for at in 0..pairs[key].len() {
            let mut changed = pairs.clone();
            changed.get_mut(key).unwrap()[at] ^= 0x10;
            assert!(matches!(decode(&changed), Err(Fault::Damaged(_))));
        }
    }
    let older = encode(&corpora([corpus(2, &"long".repeat(60), 3..39)]));
    let mut mixed = pairs.clone();
    for (key, value) in older {
        mixed.insert(key.clone(), value);
        let whole = mixed == pairs;
        assert!(whole || matches!(decode(&mixed), Err(Fault::Damaged(_))));
    }
}

#[test]
fn values_of_a_later_version_are_not_taken_for_damage() {
    let mut pairs = encode(&Corpora::new());
    let manifest = pairs.get_mut(MANIFEST_KEY).unwrap();
    manifest[0] = VERSION + 1;
    let content = manifest.len() - 4;
    let crc = checksum(MANIFEST_KEY, &manifest[..content]);
    manifest[content..].copy_from_slice(&crc.to_le_bytes());
    assert!(matches!(decode(&pairs), Err(Fault::Version(2))));
}

#[test]
fn a_state_is_read_back_after_reopening_and_from_a_copy() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog");
    assert!(matches!(
        Catalog::open(backend(), &path),
        Err(Fault::Missing)
    ));
    assert!(matches!(read_only(&path), Err(Fault::Missing)));

    let mut catalog = Catalog::create(backend(), &path, &Corpora::new()).unwrap();
    assert_eq!(read_only(&path).unwrap(), Corpora::new());
    catalog.store(&three()).unwrap();
    assert_eq!(read_only(&path).unwrap(), three(), "while it is open");
    drop(catalog);
    let (mut catalog, state) = Catalog::open(backend(), &path).unwrap();
    assert_eq!(state, three());
    let one = corpora([corpus(70, "b", [71, 72])]);
    catalog.store(&one).unwrap();
    drop(catalog);
    assert_eq!(Catalog::open(backend(), &path).unwrap().1, one);
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
    drop(Catalog::create(backend(), &path, &state).unwrap());
    assert!(disk_size(&path).0 < 1024, "{}", disk_size(&path).0);

    for round in 0..6 {
        let (mut catalog, _) = Catalog::open(backend(), &path).unwrap();
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
            catalog.store(&state).unwrap();
        }
    }
    assert!(disk_size(&path).0 <= 16 << 10, "{}", disk_size(&path).0);
}

#[test]
fn long_names_and_many_segments_need_no_blob_files() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog");
    let mut state = Corpora::new();
    let mut catalog = Catalog::create(backend(), &path, &state).unwrap();
    for id in 0..40 {
        state.insert(id, corpus(id, &format!("{id:0255}"), 0..50));
        catalog.store(&state).unwrap();
    }
    for segments in [1000, 2000] {
        state.insert(41, corpus(41, "many", 0..segments));
        catalog.store(&state).unwrap();
    }
    state.remove(&20);
    catalog.store(&state).unwrap();
    drop(catalog);
    assert_eq!(disk_size(&path.join("blobs")), (0, 0));
    assert_eq!(Catalog::open(backend(), &path).unwrap().1, state);
}

/// Every file of a catalog in turn is cut, flipped or removed: the answer is a state that was stored once, or a fault.
#[test]
fn a_damaged_catalog_never_answers_with_something_that_was_not_stored() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog");
    let mut stored = vec![Corpora::new()];
    let mut catalog = Catalog::create(backend(), &path, &stored[0]).unwrap();
    for id in 1..5 {
        let mut state = stored.last().unwrap().clone();
        state.insert(id, corpus(id, "name", id..id + 3));
        catalog.store(&state).unwrap();
        stored.push(state);
        if id == 2 {
            drop(catalog);
            catalog = Catalog::open(backend(), &path).unwrap().0; // makes sled write a snapshot file
        }
    }
    drop(catalog);

    let files = read_files(&path).unwrap();
    assert_eq!(files.len(), 3, "conf, db and a snapshot");
    let work = directory.path().join("work");
    let open_with = |name: &Path, bytes: Option<&[u8]>| {
        let _ = fs::remove_dir_all(&work);
        fs::create_dir(&work).unwrap();
        for (other, content) in &files {
            fs::write(work.join(other), content).unwrap();
        }
        match bytes {
            Some(bytes) => fs::write(work.join(name), bytes).unwrap(),
            None => fs::remove_file(work.join(name)).unwrap(),
        }
        match read_only(&work) {
            Ok(state) => assert!(stored.contains(&state), "{}", name.display()),
            Err(Fault::Damaged(_) | Fault::Missing) => {}
            Err(fault) => panic!("{}: {fault:?}", name.display()),
        }
    };
    for (name, bytes) in &files {
        open_with(name, None);
        let step = bytes.len().div_ceil(60);
        for at in (0..bytes.len()).step_by(step) {
            open_with(name, Some(&bytes[..at]));
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            open_with(name, Some(&flipped));
        }
    }
}

#[test]
fn a_panic_of_sled_is_damage_like_any_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog");
    let mut state = Corpora::new();
    let mut catalog = Catalog::create(backend(), &path, &state).unwrap();
    for id in 0..40 {
        state.insert(id, corpus(id, "name", []));
        catalog.store(&state).unwrap();
    }
    drop(catalog);
    // Two of its own segments with one number: it panics.
    let mut bytes = fs::read(path.join("db")).unwrap();
    bytes.copy_within(SLED_SEGMENT_SIZE..SLED_SEGMENT_SIZE + 512, 0);
    fs::write(path.join("db"), bytes).unwrap();
    let fault = read_only(&path).unwrap_err();
    assert!(fault.to_string().starts_with("sled panicked: "), "{fault}");
    let fault = Catalog::open(backend(), &path).unwrap_err();
    assert!(matches!(fault, Fault::Damaged(_)));
}

#[test]
fn every_store_ends_with_a_sync_of_what_it_wrote() {
    /// Keeps the catalog's file as it was when it was synced last.
    #[derive(Debug, Default)]
    struct Recording(parking_lot::Mutex<BTreeMap<PathBuf, Vec<u8>>>);

    impl Backend for Recording {
        fn read(&self, path: &Path) -> io::Result<crate::Bytes> {
            FileBackend.read(path)
        }
        fn create(&self, path: &Path) -> io::Result<Box<dyn crate::BackendFile>> {
            FileBackend.create(path)
        }
        fn sync_file(&self, path: &Path) -> io::Result<()> {
            let name = path.file_name().unwrap().into();
            self.0.lock().insert(name, fs::read(path)?);
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
    let mut catalog = Catalog::create(recording.clone(), &path, &state).unwrap();
    for id in 0..60 {
        state.insert(id, corpus(id, "name", id..id + id % 30));
        if id % 7 == 6 {
            state.remove(&(id - 3));
        }
        catalog.store(&state).unwrap();
        if id % 20 == 19 {
            drop(catalog);
            catalog = Catalog::open(recording.clone(), &path).unwrap().0;
        }
        let synced = directory.path().join(format!("synced{id}"));
        fs::create_dir(&synced).unwrap();
        for (name, bytes) in recording.0.lock().iter() {
            // Older snapshots of sled are gone, and with them their names.
            if path.join(name).exists() {
                fs::write(synced.join(name), bytes).unwrap();
            }
        }
        assert_eq!(read_only(&synced).unwrap(), state);
    }
}
