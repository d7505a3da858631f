//! Whatever happens to manifest and catalog, or to one other file, the right state comes back with a warning that names
//! the fault.

use std::path::Path;

use crate::scenario::{
    READ, Random, State, Step, WRITE, build, contents, copy_directory, log_steps, observe, reopen,
    scratch, states, steps,
};
use zipfdb_storage::{Error, Store};

/// Opens a damaged database for reading, which must change nothing, and for writing. Both must show the state after
/// [`steps`]. If the catalog was replaced there must be a warning; returns all warnings of the writer.
fn recovers(path: &Path, damage: &str) -> Vec<String> {
    recovers_as(path, damage, states(&steps()).pop().unwrap())
}

fn recovers_as(path: &Path, damage: &str, expected: State) -> Vec<String> {
    let before = contents(path);
    let store = Store::open(path, READ).unwrap();
    assert_eq!(observe(&store), expected, "{damage}, read-only");
    drop(store);
    assert_eq!(contents(path), before, "{damage}");

    let store = Store::open(path, WRITE).unwrap();
    assert_eq!(observe(&store), expected, "{damage}");
    let warnings = store.warnings();
    drop(store);
    let replaced = path.join("catalog.aside").exists();
    let rebuilt = warnings
        .iter()
        .any(|text| text.contains("catalog was rebuilt"));
    assert!(!replaced || rebuilt, "{damage}: {warnings:?}");
    assert_eq!(reopen(path), expected, "{damage}, reopened");
    warnings
}

/// A closed database after [`steps`], and a place for damaged copies of it.
struct Original {
    directory: tempfile::TempDir,
}

impl Original {
    fn new() -> Original {
        Original::of(&steps())
    }

    fn of(steps: &[Step]) -> Original {
        let directory = scratch();
        build(&directory.path().join("original.zdb"), steps);
        Original { directory }
    }

    /// A copy with one file changed, or removed.
    fn damaged(
        &self,
        file: &str,
        change: impl FnOnce(Vec<u8>) -> Option<Vec<u8>>,
    ) -> std::path::PathBuf {
        let path = self.directory.path().join("damaged.zdb");
        let _ = std::fs::remove_dir_all(&path);
        copy_directory(&self.directory.path().join("original.zdb"), &path);
        let file = path.join(file);
        match change(std::fs::read(&file).unwrap()) {
            Some(bytes) => std::fs::write(&file, bytes).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        path
    }

    fn size(&self, file: &str) -> usize {
        let path = self.directory.path().join("original.zdb").join(file);
        std::fs::metadata(path).unwrap().len() as usize
    }

    /// Files in a directory, relative to the database.
    fn files(&self, directory: &str) -> Vec<String> {
        let path = self.directory.path().join("original.zdb").join(directory);
        let mut names: Vec<String> = std::fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.file_type().unwrap().is_file())
            .map(|entry| format!("{directory}/{}", entry.file_name().to_str().unwrap()))
            .collect();
        names.sort();
        names
    }
}

#[test]
fn a_deleted_manifest_or_catalog_is_rebuilt_with_a_warning() {
    let original = Original::new();
    let path = original.damaged("LOCK", Some);
    std::fs::remove_dir_all(path.join("catalog")).unwrap();
    assert_eq!(
        recovers(&path, "no catalog"),
        ["the catalog was rebuilt from the manifest: it is missing"]
    );
    let path = original.damaged("MANIFEST", |_| None);
    assert_eq!(
        recovers(&path, "no manifest"),
        ["the manifest was rebuilt from the catalog: it is missing"]
    );
    let path = original.damaged("MANIFEST", |_| None);
    std::fs::remove_dir_all(path.join("catalog")).unwrap();
    assert_eq!(
        recovers(&path, "neither"),
        ["the catalog was rebuilt from the segment files: it is missing"]
    );
}

#[test]
fn a_manifest_that_is_cut_or_flipped_is_reported_and_gives_the_right_state() {
    let original = Original::new();
    let mut random = Random::new(Random::seed(1));
    let size = original.size("MANIFEST");
    for round in 0..60 {
        let (at, bit) = (random.below(size), random.below(8));
        let path = original.damaged("MANIFEST", |mut bytes| {
            match round % 2 {
                0 => bytes[at] ^= 1 << bit,
                _ => bytes.truncate(at),
            }
            Some(bytes)
        });
        if round % 4 >= 2 {
            std::fs::remove_dir_all(path.join("catalog")).unwrap();
        }
        let reader = Store::open(&path, READ).unwrap();
        let warnings = reader.warnings().join("\n");
        assert!(
            warnings.contains("the manifest cannot be used"),
            "{warnings}"
        );
        drop(reader);
        let warnings = recovers(&path, &format!("bit {bit} of byte {at}")).join("\n");
        assert!(warnings.contains("was rebuilt from the"), "{warnings}");
    }
}

/// A file of a backup, say, among newer ones.
#[test]
fn an_older_manifest_than_the_catalog_is_not_believed() {
    let original = Original::of(&steps()[..5]);
    let old = original.directory.path().join("original.zdb/MANIFEST");
    let old = std::fs::read(old).unwrap();
    let original = Original::new();
    let path = original.damaged("MANIFEST", |_| Some(old));
    assert_eq!(
        recovers(&path, "older"),
        ["the manifest was rebuilt from the catalog: it is older"]
    );
}

/// What a process leaves that is killed between manifest and catalog.
#[test]
fn an_older_catalog_than_the_manifest_is_brought_up_to_date_without_a_word() {
    let original = Original::of(&steps()[..5]);
    let old = original.directory.path().join("original.zdb/catalog");
    let newer = Original::new();
    let path = newer.damaged("LOCK", Some);
    std::fs::remove_dir_all(path.join("catalog")).unwrap();
    copy_directory(&old, &path.join("catalog"));
    assert_eq!(recovers(&path, "older, closed"), [""; 0]);
    let path = newer.damaged("catalog/CLOSED", |_| None);
    std::fs::write(path.join("catalog/db"), "half a write").unwrap();
    assert_eq!(recovers(&path, "not closed"), [""; 0]);
    let store = Store::open(&path, WRITE).unwrap();
    Step::Create("later").perform(&store).unwrap();
    drop(store);
    std::fs::remove_file(path.join("MANIFEST")).unwrap();
    let store = Store::open(&path, WRITE).unwrap();
    assert_eq!(
        store.warnings(),
        ["the manifest was rebuilt from the catalog: it is missing"]
    );
    store.corpus("later").unwrap();
}

#[test]
fn a_catalog_with_a_file_removed_cut_or_flipped_gives_the_right_state() {
    let original = Original::new();
    let mut random = Random::new(Random::seed(1));
    let files = original.files("catalog");
    assert!(files.iter().any(|name| name == "catalog/db"));
    let mut rebuilt = 0;
    for file in files {
        let size = original.size(&file);
        let mut attempt = |damage: &str, change: &dyn Fn(Vec<u8>) -> Option<Vec<u8>>| {
            let path = original.damaged(&file, change);
            rebuilt += usize::from(!recovers(&path, &format!("{file}: {damage}")).is_empty());
        };
        attempt("removed", &|_| None);
        attempt("emptied", &|_| Some(Vec::new()));
        for _ in 0..20 {
            let at = random.below(size);
            attempt(&format!("cut at {at}"), &|bytes| Some(bytes[..at].to_vec()));
        }
        for _ in 0..80 {
            let (at, bit) = (random.below(size), random.below(8));
            attempt(&format!("bit {bit} of byte {at}"), &|mut bytes| {
                bytes[at] ^= 1 << bit;
                Some(bytes)
            });
        }
        attempt("zeroed", &|bytes| Some(vec![0; bytes.len()]));
    }
    println!("{rebuilt} were noticed");
    assert!(rebuilt > 30);
}

#[test]
fn a_damaged_catalog_beside_a_log_gives_the_right_state() {
    let steps = log_steps();
    let original = Original::of(&steps);
    let expected = states(&steps).pop().unwrap();
    let mut random = Random::new(Random::seed(1));
    let size = original.size("catalog/db");
    for _ in 0..100 {
        let (at, bit) = (random.below(size), random.below(8));
        let path = original.damaged("catalog/db", |mut bytes| {
            bytes[at] ^= 1 << bit;
            Some(bytes)
        });
        if at % 2 == 0 {
            std::fs::remove_file(path.join("MANIFEST")).unwrap();
        }
        recovers_as(&path, &format!("bit {bit} of byte {at}"), expected.clone());
    }
}

#[test]
fn a_lost_marker_loses_no_corpus_that_has_segments() {
    let original = Original::new();
    for marker in original.files("segments") {
        if !marker.ends_with(".corpus") {
            continue;
        }
        let path = original.damaged(&marker, |_| None);
        // The last attempt to restore it was cut short.
        std::fs::write(path.join(format!("{marker}.tmp")), "half").unwrap();
        assert_eq!(recovers(&path, &marker).len(), 1);
        let path = original.damaged(&marker, |_| None);
        std::fs::remove_dir_all(path.join("catalog")).unwrap();
        assert_eq!(recovers(&path, &marker).len(), 2);
        let path = original.damaged(&marker, |_| None);
        std::fs::remove_dir_all(path.join("catalog")).unwrap();
        std::fs::remove_file(path.join("MANIFEST")).unwrap();
        assert_eq!(recovers(&path, &marker).len(), 2);
    }
}

#[test]
fn a_lost_segment_is_an_error_of_its_corpus_only_and_is_reported_at_once() {
    let original = Original::new();
    let segment = original
        .files("segments")
        .into_iter()
        .find(|name| name.ends_with(".seg"));
    let path = original.damaged(&segment.unwrap(), |_| None);
    for options in [READ, WRITE] {
        let store = Store::open(&path, options).unwrap();
        assert!(store.warnings()[0].contains("is missing"));
        assert!(matches!(store.open_corpus("bb"), Err(Error::Io { .. })));
    }
    let store = Store::open(&path, WRITE).unwrap();
    Step::Create("a").perform(&store).unwrap();
    store.open_corpus("a").unwrap();
    store.drop_corpus("bb").unwrap();
    drop(store);
    assert_eq!(Store::open(&path, WRITE).unwrap().warnings(), [""; 0]);
}

#[test]
fn segments_without_manifest_and_catalog_that_are_not_all_there_are_set_aside_and_kept() {
    let original = Original::new();
    // `bb` has a publication of three segments and then one of one.
    let segments: Vec<String> = (original.files("segments").into_iter())
        .filter(|name| name.ends_with(".seg"))
        .collect();
    assert_eq!(segments.len(), 4);
    for (lost, damage) in [(0, false), (1, true), (2, false)] {
        let path = original.damaged(&segments[lost], |mut bytes| {
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            damage.then_some(bytes)
        });
        std::fs::remove_dir_all(path.join("catalog")).unwrap();
        std::fs::remove_file(path.join("MANIFEST")).unwrap();
        let expected = State::from([("bb".to_owned(), vec!["b5".to_owned()])]);
        assert_eq!(observe(&Store::open(&path, READ).unwrap()), expected);

        let store = Store::open(&path, WRITE).unwrap();
        assert_eq!(observe(&store), expected);
        let warnings = store.warnings().join("\n");
        assert!(warnings.contains("is incomplete"), "{warnings}");
        drop(store);
        let aside = || {
            let names = std::fs::read_dir(path.join("segments")).unwrap();
            names
                .filter(|entry| {
                    let name = entry.as_ref().unwrap().file_name();
                    name.to_str().unwrap().ends_with(".seg.aside")
                })
                .count()
        };
        assert_eq!(aside(), 2 + usize::from(damage));
        // The files stay there, and their numbers are not used again.
        let store = Store::open(&path, WRITE).unwrap();
        assert_eq!(store.warnings(), [""; 0]);
        Step::publish("bb", &["b6"]).perform(&store).unwrap();
        assert_eq!(aside(), 2 + usize::from(damage));
    }
}

#[test]
fn a_segment_with_the_content_of_another_is_refused() {
    let original = Original::new();
    let segments: Vec<String> = (original.files("segments").into_iter())
        .filter(|name| name.ends_with(".seg"))
        .collect();
    let other = original
        .directory
        .path()
        .join("original.zdb")
        .join(&segments[1]);
    let path = original.damaged(&segments[0], |_| Some(std::fs::read(other).unwrap()));
    let store = Store::open(&path, WRITE).unwrap();
    assert!(matches!(
        store.open_corpus("bb"),
        Err(Error::Corrupt { .. })
    ));
}

#[test]
fn a_manifest_or_catalog_of_a_later_release_is_refused_and_left_alone() {
    let original = Original::new();
    let path = original.damaged("MANIFEST", |mut bytes| {
        bytes[7] = 2;
        let content = bytes.len() - 4;
        let crc = crc32fast::hash(&bytes[..content]);
        bytes[content..].copy_from_slice(&crc.to_le_bytes());
        Some(bytes)
    });
    let before = contents(&path);
    for options in [READ, WRITE] {
        let error = Store::open(&path, options).unwrap_err();
        assert!(error.to_string().contains("format version 2"), "{error}");
    }
    assert_eq!(contents(&path), before);

    let path = original.damaged("MANIFEST", |_| None);
    std::fs::remove_file(path.join("catalog/CLOSED")).unwrap();
    {
        let database = sled::Config::new()
            .path(path.join("catalog"))
            .segment_size(8 << 10)
            .flush_every_ms(None)
            .open()
            .unwrap();
        let mut value = database.get("manifest").unwrap().unwrap().to_vec();
        value[0] = 3;
        let content = value.len() - 4;
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(b"manifest");
        hasher.update(&value[..content]);
        value[content..].copy_from_slice(&hasher.finalize().to_le_bytes());
        database.insert("manifest", value).unwrap();
        database.flush().unwrap();
    }
    let error = Store::open(&path, WRITE).unwrap_err();
    assert!(error.to_string().contains("format version 3"), "{error}");
    assert!(!path.join("catalog.aside").exists());
}
