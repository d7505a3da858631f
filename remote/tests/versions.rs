//! Versions of a remote database: readers see whole ones only, whatever publishes, fails or collects meanwhile.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use support::{FaultyStore, answers, create, files_below, insert, remote};
use zipfdb::Database;
use zipfdb_remote::{CacheOptions, Error, RemoteStore};

fn open(store: &RemoteStore, version: Option<u64>) -> Database {
    let options = Database::options().threads(2);
    store
        .open(version, options, &CacheOptions::default())
        .unwrap()
}

#[test]
fn versions_answer_as_the_database_did_when_it_was_pushed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zdb");
    let database = create(&path, 6);
    let objects = FaultyStore::new();
    let store = remote(&objects);
    let mut expected = Vec::new();
    let mut before = None;
    for round in 0..4 {
        // Beside the writer.
        let pushed = store.push(&path, false).unwrap();
        assert_eq!(pushed.version, round + 1);
        if before.is_some() {
            assert!(pushed.kept > 0, "{pushed:?}");
        }
        before = Some(pushed);
        expected.push(answers(&database));
        insert(&database, 20 + round..21 + round);
        database
            .execute_batch("DELETE FROM c WHERE file = 'f002'")
            .unwrap();
    }
    assert_eq!(store.versions().unwrap(), [1, 2, 3, 4]);
    for (number, expected) in (1..).zip(&expected) {
        assert_eq!(&answers(&open(&store, Some(number))), expected, "{number}");
        let pulled = folder.path().join(format!("pulled-{number}.zdb"));
        assert_eq!(store.pull(Some(number), &pulled).unwrap(), number);
        let pulled = Database::open(&pulled).unwrap();
        assert_eq!(&answers(&pulled), expected, "{number}");
        insert(&pulled, 90..91);
    }
    assert_eq!(&answers(&open(&store, None)), expected.last().unwrap());
    let error = open(&store, None)
        .execute_batch("DROP CORPUS c")
        .unwrap_err();
    assert!(error.to_string().contains("read"), "{error}");
}

#[test]
fn an_overtaken_writer_gets_an_error_and_replaces_only_if_asked() {
    let folder = tempfile::tempdir().unwrap();
    let store = remote(&FaultyStore::new());
    let path = |name: &str| folder.path().join(name);
    drop(create(&path("a.zdb"), 3));
    drop(create(&path("other.zdb"), 2));
    store.push(path("a.zdb"), false).unwrap();
    store.pull(None, path("b.zdb")).unwrap();
    insert(&Database::open(path("b.zdb")).unwrap(), 50..51);
    assert_eq!(store.push(path("b.zdb"), false).unwrap().version, 2);
    for name in ["a.zdb", "other.zdb"] {
        let error = store.push(path(name), false).unwrap_err();
        assert!(matches!(error, Error::Conflict { found: 2, .. }), "{error}");
        assert!(error.to_string().contains("hint: pull it"), "{error}");
    }
    assert_eq!(store.push(path("other.zdb"), true).unwrap().version, 3);
    let other = Database::open(path("other.zdb")).unwrap();
    assert_eq!(answers(&open(&store, None)), answers(&other));
    let taken = store.pull(None, path("a.zdb")).unwrap_err();
    assert!(matches!(taken, Error::Io { .. }), "{taken}");
    assert!(matches!(
        store.pull(Some(9), path("c.zdb")),
        Err(Error::NoSuchVersion { .. })
    ));
    assert!(!path("c.zdb").exists());
}

#[test]
fn of_two_publishers_at_once_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = remote(&FaultyStore::new());
    drop(create(&folder.path().join("0.zdb"), 2));
    store.push(folder.path().join("0.zdb"), false).unwrap();
    for round in 0..8 {
        let paths = ["left", "right"].map(|side| folder.path().join(format!("{side}-{round}.zdb")));
        for (path, file) in paths.iter().zip(60..) {
            store.pull(None, path).unwrap();
            insert(
                &Database::open(path).unwrap(),
                file + 2 * round..file + 2 * round + 1,
            );
        }
        let barrier = Barrier::new(2);
        let pushed = thread::scope(|scope| {
            let pushing = paths.each_ref().map(|path| {
                let (store, barrier) = (&store, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    store.push(path, false)
                })
            });
            pushing.map(|thread| thread.join().unwrap())
        });
        let winner = pushed.iter().position(Result::is_ok).unwrap();
        assert!(matches!(pushed[1 - winner], Err(Error::Conflict { .. })));
        let winner = Database::open(&paths[winner]).unwrap();
        assert_eq!(answers(&open(&store, None)), answers(&winner));
        assert_eq!(store.versions().unwrap().len() as u64, round + 2);
    }
}

#[test]
fn a_publisher_that_dies_at_any_request_leaves_the_version_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zdb");
    let database = create(&path, 3);
    let objects = FaultyStore::new();
    let store = remote(&objects);
    store.push(&path, false).unwrap();
    let mut published = answers(&database);
    let mut died = 0;
    for requests in 0.. {
        insert(&database, 100 + requests..101 + requests);
        objects.fail_after(requests as i64);
        let pushed = store.push(&path, false);
        let is_through = objects.left() > 0;
        objects.fail_after(i64::MAX);
        match pushed {
            Ok(_) => published = answers(&database),
            Err(_) => died += 1,
        }
        assert_eq!(answers(&open(&store, None)), published, "{requests}");
        let collected = store.collect(Duration::ZERO).unwrap();
        assert_eq!(
            answers(&open(&store, None)),
            published,
            "{requests}: {collected:?}"
        );
        if is_through {
            break;
        }
        // No other process has published.
        store.push(&path, false).unwrap();
        published = answers(&database);
        assert_eq!(answers(&open(&store, None)), published, "{requests}");
    }
    assert!(died > 5, "{died}");
}

#[test]
fn a_collection_leaves_what_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zdb");
    let database = create(&path, 3);
    let store = remote(&FaultyStore::new());
    for round in 0..3 {
        store.push(&path, false).unwrap();
        insert(&database, 30 + round..31 + round);
        database.execute_batch("RECOMPRESS c").unwrap();
    }
    let old = open(&store, Some(1));
    let expected = answers(&old);
    let day = Duration::from_secs(86_400);
    let collected = store.collect(day).unwrap();
    assert_eq!((collected.versions, collected.objects), (0, 0));
    assert_eq!(answers(&old), expected);
    let newest = answers(&open(&store, None));
    let collected = store.collect(Duration::ZERO).unwrap();
    assert!(
        collected.versions == 2 && collected.objects > 0,
        "{collected:?}"
    );
    assert_eq!(store.versions().unwrap(), [3]);
    assert_eq!(answers(&open(&store, None)), newest);
    let none = store.collect(Duration::ZERO).unwrap();
    assert_eq!((none.versions, none.objects), (0, 0));
    assert!(matches!(
        store.open(Some(1), Database::options(), &CacheOptions::default()),
        Err(Error::NoSuchVersion {
            version: Some(1),
            ..
        })
    ));
}

#[test]
fn a_version_that_a_collection_repeats_can_be_pulled_and_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zdb");
    drop(create(&path, 2));
    let objects = FaultyStore::new();
    let store = remote(&objects);
    store.push(&path, false).unwrap();
    insert(&Database::open(&path).unwrap(), 40..41);
    // A publisher that dies after it has announced itself.
    objects.fail_after(3);
    assert!(store.push(&path, false).is_err());
    objects.fail_after(i64::MAX);
    store.collect(Duration::ZERO).unwrap();
    assert_eq!(store.versions().unwrap().last(), Some(&2));
    let pulled = folder.path().join("b.zdb");
    assert_eq!(store.pull(None, &pulled).unwrap(), 2);
    insert(&Database::open(&pulled).unwrap(), 41..42);
    assert_eq!(store.push(&pulled, false).unwrap().version, 3);
    let error = store.push(&path, false).unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
}

#[test]
fn damage_is_an_error_and_never_another_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zdb");
    let expected = answers(&create(&path, 4));
    let url = format!("file://{}/remote.zdb", folder.path().display());
    let store = RemoteStore::new(&url).unwrap();
    store.push(&path, false).unwrap();
    // What is behind the content of a file, a pull does not need.
    let check_pull = || {
        let pulled = folder.path().join("pulled.zdb");
        match store.pull(None, &pulled) {
            Err(error) => assert!(
                !pulled.exists() && error.to_string().contains(&url),
                "{error}"
            ),
            Ok(_) => {
                assert_eq!(answers(&Database::open(&pulled).unwrap()), expected);
                fs::remove_dir_all(&pulled).unwrap();
            }
        }
    };
    let mut refused = 0;
    for object in files_below(&folder.path().join("remote.zdb")) {
        let bytes = fs::read(&object).unwrap();
        for place in [0, bytes.len() / 2, bytes.len().saturating_sub(1)] {
            let mut damaged = bytes.clone();
            damaged[place] ^= 4;
            fs::write(&object, &damaged).unwrap();
            let opened = store.open(
                None,
                Database::options().threads(2),
                &CacheOptions::default(),
            );
            match opened {
                Err(error) => {
                    refused += 1;
                    assert!(error.to_string().contains(&url), "{error}");
                }
                Ok(database) => assert_eq!(answers(&database), expected),
            }
            check_pull();
            fs::write(&object, &bytes[..place]).unwrap();
            check_pull();
        }
        fs::write(&object, &bytes).unwrap();
    }
    assert!(refused > 10, "{refused}");
    assert_eq!(answers(&open(&store, None)), expected);
}

#[test]
fn what_the_cache_has_is_not_fetched_again_and_damage_in_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zdb");
    let expected = answers(&create(&path, 4));
    let objects = FaultyStore::new();
    let store = remote(&objects);
    store.push(&path, false).unwrap();
    let cached = folder.path().join("cache");
    let cache = CacheOptions {
        memory_bytes: 0,
        folder: Some((cached.clone(), 64 << 20)),
    };
    let ask = |requests: i64| {
        objects.fail_after(requests);
        let database = store.open(None, Database::options().threads(2), &cache);
        let found = database.map(|database| answers(&database));
        let used = requests - objects.left();
        objects.fail_after(i64::MAX);
        (found.unwrap(), used)
    };
    let (first, cold) = ask(10_000);
    let (second, warm) = ask(10_000);
    assert_eq!([&first, &second], [&expected; 2]);
    // Which version is the newest, and what it has.
    assert!(warm == 2 && cold > 3 * warm, "{cold} {warm}");
    for block in files_below(&cached) {
        let mut bytes = fs::read(&block).unwrap();
        bytes.iter_mut().for_each(|byte| *byte ^= 1);
        fs::write(&block, bytes).unwrap();
    }
    let (third, again) = ask(10_000);
    assert_eq!(third, expected);
    assert!(again > warm, "{again}");
}
