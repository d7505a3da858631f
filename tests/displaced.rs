//! Whole databases whose directories other programs move, replace or restore while they are open: a commit that went elsewhere is
//! an error, no other database is touched, and no statement reads two of them.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zipfdb::ingest::NoProgress;

use zipfdb::pack::{PackCodec, PackOptions, pack_file, unpack_file};

use zipfdb::repair::repair;

use zipfdb::storage::StorageError;

use zipfdb::{Database, DatabaseOptions, Error, InterruptHandle, Result, Value};
use zipfdb_test_support::harness::{contents, copy_directory, scratch};

/// How a database is opened.
type Open = fn(&Path) -> Result<Database>;

/// As the command line opens it, and as a program does by default.
const WAYS: [(&str, Open); 2] = [
    ("shared", |path| shared().open(path)),
    ("alone", |path| Database::options().threads(2).open(path)),
];

/// One that keeps the lock until the test is over.
fn shared() -> DatabaseOptions {
    let options = Database::options().threads(2).shared(true);
    options.lock_kept(Duration::from_secs(3600))
}

struct Folder(tempfile::TempDir);

impl Folder {
    /// Databases `a` and `b` of one corpus each, closed, and a copy of `a` from before its last file.
    fn new() -> Folder {
        let folder = Folder(scratch());
        for (name, files) in [("a", ["a1", "a2"]), ("b", ["b1", "b2"])] {
            let database = Database::open(folder.path(name)).unwrap();
            database.execute_batch("CREATE CORPUS c").unwrap();
            insert(&database, files[0]).unwrap();
            database.execute_batch("RECOMPRESS c").unwrap();
            drop(database);
            if name == "a" {
                copy_directory(&folder.path("a"), &folder.path("backup"));
            }
            let database = Database::open(folder.path(name)).unwrap();
            insert(&database, files[1]).unwrap();
        }
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn replace(&self) {
        fs::rename(self.path("a"), self.path("a.old")).unwrap();
        fs::rename(self.path("b"), self.path("a")).unwrap();
    }

    fn put_back(&self) {
        fs::rename(self.path("a"), self.path("b")).unwrap();
        fs::rename(self.path("a.old"), self.path("a")).unwrap();
    }

    /// The files of a directory by their names in it, except for process ids.
    fn contents(&self, name: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        let top = self.path(name);
        let files = contents(&top).into_iter();
        let files = files.map(|(path, bytes)| (path.strip_prefix(&top).unwrap().into(), bytes));
        files
            .filter(|(path, _): &(PathBuf, _)| path != Path::new("LOCK"))
            .collect()
    }
}

/// Copies the files of a directory over those of another, and removes those that it lacks.
fn restore(source: &Path, target: &Path) {
    for entry in fs::read_dir(target).unwrap() {
        let target = entry.unwrap().path();
        if target.is_file() && !source.join(target.file_name().unwrap()).exists() {
            fs::remove_file(target).unwrap();
        }
    }
    for entry in fs::read_dir(source).unwrap() {
        let source = entry.unwrap().path();
        let target = target.join(source.file_name().unwrap());
        if source.is_dir() {
            let _ = fs::create_dir(&target);
            restore(&source, &target);
        } else {
            fs::copy(&source, &target).unwrap();
        }
    }
}

fn insert(database: &Database, file: &str) -> Result<()> {
    let insert = format!("INSERT INTO c (file, content) VALUES ('{file}', 'text of {file} ')");
    database.execute_batch(&insert).map(drop)
}

fn names(database: &Database) -> Result<Vec<String>> {
    let rows = database.query("SELECT file, content FROM files('c') ORDER BY file", ())?;
    rows.map(|row| match row?.into_values().as_slice() {
        [Value::Text(file), Value::Blob(content)] => {
            assert_eq!(
                content.escape_ascii().to_string(),
                format!("text of {file} ")
            );
            Ok(file.clone())
        }
        other => panic!("{other:?}"),
    })
    .collect()
}

/// What a database holds that is opened anew, and all of it sound.
fn found(path: &Path) -> Vec<String> {
    let database = Database::options().create(false).open(path).unwrap();
    assert_eq!(database.warnings(), Vec::<String>::new());
    for check in database.corpus("c").unwrap().check(&NoProgress).unwrap() {
        assert_eq!(check.problem, None);
    }
    names(&database).unwrap()
}

fn assert_displaced<T: std::fmt::Debug>(case: &str, result: Result<T>) {
    let error = result.expect_err(case);
    let is_displaced = matches!(error, Error::Storage(StorageError::Displaced { .. }));
    assert!(is_displaced, "{case}: {error}");
}

#[test]
fn a_commit_to_a_directory_that_was_replaced_is_an_error_and_both_databases_stay_as_they_were() {
    for (way, open) in WAYS {
        let folder = Folder::new();
        let database = open(&folder.path("a")).unwrap();
        database.execute_batch("BEGIN").unwrap();
        insert(&database, "a3").unwrap();
        let (before, other) = (folder.contents("a"), folder.contents("b"));
        folder.replace();
        assert_displaced(way, database.execute_batch("COMMIT"));
        assert!(insert(&database, "a4").is_err(), "{way}");
        assert!(database.execute_batch("RECOMPRESS c").is_err(), "{way}");
        drop(database);
        assert_eq!(folder.contents("a.old"), before, "{way}");
        assert_eq!(folder.contents("a"), other, "{way}");
        assert_eq!(found(&folder.path("a.old")), ["a1", "a2"], "{way}");
        assert_eq!(found(&folder.path("a")), ["b1", "b2"], "{way}");
    }
}

#[test]
fn a_database_that_was_made_anew_is_not_written_by_a_handle_of_the_one_before() {
    for (way, open) in WAYS {
        let folder = Folder::new();
        let database = open(&folder.path("a")).unwrap();
        insert(&database, "a3").unwrap();
        fs::remove_dir_all(folder.path("a")).unwrap();
        let made = Database::open(folder.path("a")).unwrap();
        made.execute_batch("CREATE CORPUS c").unwrap();
        insert(&made, "n1").unwrap();
        let before = folder.contents("a");
        assert_displaced(way, insert(&database, "a4"));
        assert!(insert(&database, "a5").is_err(), "{way}");
        drop(database);
        assert_eq!(folder.contents("a"), before, "{way}");
        insert(&made, "n2").unwrap();
        drop(made);
        assert_eq!(found(&folder.path("a")), ["n1", "n2"], "{way}");
    }
}

#[test]
fn a_commit_to_a_directory_that_was_restored_in_place_is_an_error_and_what_was_restored_stays() {
    for (way, open) in WAYS {
        for is_written_before in [false, true] {
            let folder = Folder::new();
            let database = open(&folder.path("a")).unwrap();
            if is_written_before {
                insert(&database, "a3").unwrap();
            }
            database.execute_batch("BEGIN").unwrap();
            insert(&database, "a4").unwrap();
            restore(&folder.path("backup"), &folder.path("a"));
            assert_displaced(way, database.execute_batch("COMMIT"));
            assert!(database.execute_batch("RECOMPRESS c").is_err(), "{way}");
            drop(database);
            assert_eq!(folder.contents("a"), folder.contents("backup"), "{way}");
            assert_eq!(found(&folder.path("a")), ["a1"], "{way}");
        }
    }
}

#[test]
fn a_removed_lock_file_lets_no_second_writer_in() {
    for (way, open) in WAYS {
        let folder = Folder::new();
        let first = open(&folder.path("a")).unwrap();
        insert(&first, "a3").unwrap();
        fs::remove_file(folder.path("a/LOCK")).unwrap();
        let second = shared().open(folder.path("a")).unwrap();
        second.execute_batch("SET busy_timeout = 0").unwrap();
        let refused = insert(&second, "a4");
        let is_locked = matches!(refused, Err(Error::Storage(StorageError::Locked { .. })));
        assert!(is_locked, "{way}: {refused:?}");
        assert!(Database::open(folder.path("a")).is_err(), "{way}");
        assert_displaced(way, first.execute_batch("RECOMPRESS c"));
        drop(first);
        insert(&second, "a5").unwrap();
        second.execute_batch("RECOMPRESS c").unwrap();
        drop(second);
        assert_eq!(found(&folder.path("a")), ["a1", "a2", "a3", "a5"], "{way}");
    }
}

#[test]
fn a_statement_on_a_shared_path_of_another_database_is_an_error_and_reads_neither() {
    for is_writer in [false, true] {
        let folder = Folder::new();
        let database = shared().open(folder.path("a")).unwrap();
        let mut expected = vec!["a1".to_owned(), "a2".to_owned()];
        if is_writer {
            insert(&database, "a3").unwrap();
            expected.push("a3".to_owned());
        }
        assert_eq!(names(&database).unwrap(), expected);
        let snapshot = database.corpus("c").unwrap().snapshot().unwrap();
        folder.replace();
        let other = folder.contents("a");
        assert_displaced("read", names(&database));
        assert_displaced("write", insert(&database, "a4"));
        assert!(database.begin().is_err());
        assert!(database.corpus("c").is_err());
        assert_eq!(snapshot.extract("a1", 0, 4).unwrap(), b"text");
        fs::rename(folder.path("a"), folder.path("b")).unwrap();
        assert_displaced("nothing there", names(&database));
        fs::rename(folder.path("b"), folder.path("a")).unwrap();
        assert_eq!(folder.contents("a"), other);
        folder.put_back();
        if !is_writer {
            assert_eq!(names(&database).unwrap(), expected);
            insert(&database, "a4").unwrap();
            expected.push("a4".to_owned());
        }
        drop((database, snapshot));
        assert_eq!(found(&folder.path("a")), expected);
        assert_eq!(found(&folder.path("b")), ["b1", "b2"]);
    }
}

/// The manifest has the same number, the log the same size, and a part of it that was read before is another one.
#[test]
fn a_shared_database_that_was_restored_in_place_is_read_as_it_is_now() {
    let folder = Folder::new();
    let path = folder.path("a");
    fs::remove_dir_all(folder.path("backup")).unwrap();
    copy_directory(&path, &folder.path("backup"));
    let write = |files: &[&str]| {
        let database = Database::open(&path).unwrap();
        files
            .iter()
            .for_each(|file| insert(&database, file).unwrap());
    };
    write(&["x1"]);
    let readers = [(); 3].map(|()| shared().lock_kept(Duration::ZERO).open(&path).unwrap());
    for reader in &readers {
        assert_eq!(names(reader).unwrap(), ["a1", "a2", "x1"]);
    }
    for entry in fs::read_dir(path.join("log")).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    restore(&folder.path("backup"), &path);
    write(&["y1"]);
    assert_eq!(names(&readers[0]).unwrap(), ["a1", "a2", "y1"]);
    write(&["z1"]);
    assert_eq!(names(&readers[0]).unwrap(), ["a1", "a2", "y1", "z1"]);
    assert_eq!(names(&readers[1]).unwrap(), ["a1", "a2", "y1", "z1"]);
    insert(&readers[2], "w1").unwrap();
    for reader in &readers {
        assert_eq!(names(reader).unwrap(), ["a1", "a2", "w1", "y1", "z1"]);
    }
    drop(readers);
    assert_eq!(found(&path), ["a1", "a2", "w1", "y1", "z1"]);
}

#[test]
fn nothing_but_the_database_writes_into_its_directory() {
    let folder = Folder::new();
    let text = folder.path("text");
    fs::write(&text, "some text").unwrap();
    let packed = folder.path("packed");
    pack_file(
        &text,
        &packed,
        &PackOptions::new(PackCodec::Bit),
        &NoProgress,
        &InterruptHandle::new(),
    )
    .unwrap();
    std::os::unix::fs::symlink("a/segments", folder.path("link")).unwrap();
    let database = Database::open(folder.path("b")).unwrap();
    let before = folder.contents("a");
    for inside in ["a/x", "a/segments/x", "link/x", "b/../a/log/new/x", "a/x/"] {
        let target = folder.path(inside);
        let path = target.display();
        let refused = [
            pack_file(
                &text,
                &target,
                &PackOptions::new(PackCodec::Bit),
                &NoProgress,
                &InterruptHandle::new(),
            )
            .err(),
            unpack_file(&packed, &target, &NoProgress, &InterruptHandle::new()).err(),
            repair(
                folder.path("b"),
                &target,
                &NoProgress,
                &InterruptHandle::new(),
            )
            .err(),
            repair(
                folder.path("a"),
                &target,
                &NoProgress,
                &InterruptHandle::new(),
            )
            .err(),
            Database::open(&target).err(),
            shared().open(&target).err(),
            database.execute_batch(&format!("COPY c TO '{path}'")).err(),
            database
                .execute_batch(&format!(
                    "COPY (SELECT * FROM c) TO '{path}' WITH (format = 'csv')"
                ))
                .err(),
        ];
        for (number, error) in refused.into_iter().enumerate() {
            let error = error.unwrap_or_else(|| panic!("{inside}: {number}"));
            let message = error.to_string();
            let is_reported =
                message.contains("inside the database") || message.contains("the damaged database");
            assert!(is_reported, "{inside}: {number}: {message}");
        }
        assert_eq!(folder.contents("a"), before, "{inside}");
    }
    // One that is there is opened wherever it lies.
    fs::rename(folder.path("backup"), folder.path("a/backup")).unwrap();
    assert_eq!(found(&folder.path("a/backup")), ["a1"]);
}

#[test]
fn a_repair_writes_neither_into_the_damaged_database_nor_around_it() {
    let folder = Folder::new();
    // Only the mark of a repair says that it is a database.
    for file in ["MANIFEST", "LOCK", "catalog/db"] {
        fs::remove_file(folder.path("a").join(file)).unwrap();
    }
    std::os::unix::fs::symlink("a", folder.path("link")).unwrap();
    let before = contents(&folder.path("a"));
    for source in ["a", "link", "a/"] {
        for target in [
            "a",
            "a/",
            "a/in",
            "a/in/",
            "link",
            "link/in",
            "a/segments/in",
            "b/../a/in",
        ] {
            let error = repair(
                folder.path(source),
                folder.path(target),
                &NoProgress,
                &InterruptHandle::new(),
            );
            let message = error.expect_err(target).to_string();
            assert!(
                message.contains("a repair writes nothing"),
                "{source} {target}: {message}"
            );
            assert!(message.contains("; hint: "), "{message}");
        }
    }
    // A database within what a repair has left, by whatever name.
    let left = folder.path("left");
    fs::create_dir_all(left.join("segments")).unwrap();
    fs::write(left.join("REPAIR"), "").unwrap();
    fs::rename(folder.path("a"), left.join("segments/a")).unwrap();
    std::os::unix::fs::symlink("left/segments/a", folder.path("a")).unwrap();
    for source in ["left/segments/a", "a"] {
        let error = repair(
            folder.path(source),
            &left,
            &NoProgress,
            &InterruptHandle::new(),
        );
        let message = error.unwrap_err().to_string();
        assert!(
            message.contains("the damaged database") && message.contains("is inside it"),
            "{message}"
        );
    }
    fs::remove_file(folder.path("a")).unwrap();
    fs::rename(left.join("segments/a"), folder.path("a")).unwrap();
    assert_eq!(contents(&folder.path("a")), before);
    // Beside it is where it belongs, and onto what is left of an earlier one.
    for target in ["repaired", "left"] {
        repair(
            folder.path("a"),
            folder.path(target),
            &NoProgress,
            &InterruptHandle::new(),
        )
        .unwrap();
        assert_eq!(found(&folder.path(target)), ["a1", "a2"]);
    }
}
