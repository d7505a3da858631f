//! A directory that other programs move, replace, restore or change while it is open: a write fails, and nothing is lost or touched
//! that another writer may rely on.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use crate::scenario::{
    self, CREATE, READ, State, Step, WRITE, build, contents, copy_directory, observe, reopen,
    scratch,
};
use zipfdb_storage::{
    Backend, BackendFile, BackendReader, Durability, Error, FileBackend, Followed, HeldDirectory,
    LogPosition, LogRecord, RepairTarget, Result, Store, ViewRecord,
};

/// The directories of a test.
struct Folder {
    top: tempfile::TempDir,
}

impl Folder {
    /// A database `a`, an older copy of it, `backup`, and another database `b`, all closed.
    fn new() -> Folder {
        let folder = Folder { top: scratch() };
        build(&folder.path("a"), &Folder::steps());
        copy_directory(&folder.path("a"), &folder.path("backup"));
        build(&folder.path("b"), &other_steps());
        folder
    }

    fn steps() -> Vec<Step> {
        vec![
            Step::Create("a"),
            Step::publish("a", &["a1", "a2"]),
            Step::commit(Durability::Full, &[("a", &["a3"])]),
            Step::Create("bb"),
            Step::publish("bb", &["b1"]),
        ]
    }

    fn path(&self, name: &str) -> PathBuf {
        self.top.path().join(name)
    }

    /// All files but the process ids in lock files.
    fn contents(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = contents(self.top.path());
        files.retain(|path, _| !path.ends_with("LOCK"));
        files
    }
}

/// Other numbers and names than those of `a`, and more of them.
fn other_steps() -> Vec<Step> {
    vec![
        Step::Create("a"),
        Step::publish("a", &["a5", "a6", "a7"]),
        Step::commit(Durability::Full, &[("a", &["a8", "-a5"])]),
        Step::Create("other"),
        Step::commit(Durability::Full, &[("other", &["c1"])]),
    ]
}

fn state_of(steps: &[Step]) -> State {
    scenario::states(steps).pop().unwrap()
}

/// Copies the files of a directory over those of another, which stay the same files.
fn restore(source: &Path, target: &Path) {
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

fn newest_log_file(database: &Path) -> PathBuf {
    let files = fs::read_dir(database.join("log")).unwrap();
    files.map(|entry| entry.unwrap().path()).max().unwrap()
}

/// What another program does to `a`; where the database is afterwards that was open, if anywhere, and whether it is as it was.
struct Interference {
    name: &'static str,
    act: fn(&Folder),
    left: Option<&'static str>,
}

const INTERFERENCES: [Interference; 10] = [
    Interference {
        name: "moved",
        act: |folder| fs::rename(folder.path("a"), folder.path("a.old")).unwrap(),
        left: Some("a.old"),
    },
    Interference {
        name: "replaced",
        act: |folder| {
            fs::rename(folder.path("a"), folder.path("a.old")).unwrap();
            fs::rename(folder.path("b"), folder.path("a")).unwrap();
        },
        left: Some("a.old"),
    },
    Interference {
        name: "removed",
        act: |folder| fs::remove_dir_all(folder.path("a")).unwrap(),
        left: None,
    },
    Interference {
        name: "made anew",
        act: |folder| {
            fs::remove_dir_all(folder.path("a")).unwrap();
            build(&folder.path("a"), &other_steps());
        },
        left: None,
    },
    Interference {
        name: "restored in place",
        act: |folder| restore(&folder.path("backup"), &folder.path("a")),
        left: None,
    },
    Interference {
        name: "lock removed",
        act: |folder| fs::remove_file(folder.path("a/LOCK")).unwrap(),
        left: Some("a"),
    },
    Interference {
        name: "lock replaced",
        act: |folder| {
            fs::copy(folder.path("a/LOCK"), folder.path("copy")).unwrap();
            fs::rename(folder.path("copy"), folder.path("a/LOCK")).unwrap();
        },
        left: Some("a"),
    },
    Interference {
        name: "manifest restored",
        act: |folder| {
            fs::copy(folder.path("backup/MANIFEST"), folder.path("a/MANIFEST")).unwrap();
        },
        left: None,
    },
    Interference {
        name: "log swapped",
        act: |folder| {
            fs::rename(folder.path("a/log"), folder.path("log")).unwrap();
            fs::rename(folder.path("b/log"), folder.path("a/log")).unwrap();
        },
        left: None,
    },
    Interference {
        name: "segments swapped",
        act: |folder| {
            fs::rename(folder.path("a/segments"), folder.path("segments")).unwrap();
            fs::rename(folder.path("b/segments"), folder.path("a/segments")).unwrap();
        },
        left: None,
    },
];

/// A recompression that reads nothing.
fn recompress(store: &Store) -> Result<()> {
    let merged = store.log_position();
    let replaced = store.corpus("a")?.segments;
    let mut publication = store.begin_recompression("a", &replaced, merged)?;
    let (header, path) = publication.next_segment((16, 0, 0), true)?;
    scenario::write_segment(store.backend(), &path, &header, "a9")?;
    publication.commit()
}

type Change = fn(&Store) -> Result<()>;

/// Every kind of change.
fn writes() -> Vec<(&'static str, Change)> {
    use Durability::{Full, Normal, Off};
    vec![
        ("commit", |store| {
            Step::commit(Full, &[("a", &["a9"])]).perform(store)
        }),
        ("commit without sync", |store| {
            Step::commit(Normal, &[("a", &["a9"])]).perform(store)
        }),
        ("commit without write", |store| {
            Step::commit(Off, &[("a", &["a9"])]).perform(store)
        }),
        ("create", |store| Step::Create("new").perform(store)),
        ("publish", |store| {
            Step::publish("a", &["a9"]).perform(store)
        }),
        ("recompress", recompress),
        ("drop", |store| Step::Drop("bb").perform(store)),
        ("settings", |store| Step::Resize("bb").perform(store)),
        ("index", |store| Step::Index("bb").perform(store)),
        ("views", |store| {
            store.change_views(|views| {
                views.push(ViewRecord {
                    name: "v".into(),
                    sql: "SELECT 1".into(),
                });
                Ok(())
            })
        }),
    ]
}

fn is_displaced(error: &Error) -> bool {
    let message = error.to_string();
    matches!(error, Error::Displaced { .. })
        && message.contains(" while the database was open; hint: ")
        && (message.contains("another one now") || message.contains("changed, removed or replaced"))
}

#[test]
fn a_write_to_a_directory_that_is_not_what_it_was_fails_and_touches_nothing() {
    for interference in &INTERFERENCES {
        for (what, write) in writes() {
            let case = format!("{}, {what}", interference.name);
            let folder = Folder::new();
            let store = Store::open(folder.path("a"), WRITE).unwrap();
            let last = Step::commit(Durability::Full, &[("a", &["a4", "-a1"])]);
            last.perform(&store).unwrap();
            let expected = state_of(&[Folder::steps(), vec![last]].concat());
            let bb = store.open_corpus("bb").unwrap(); // a directory that is gone has no files to open

            (interference.act)(&folder);
            let before = folder.contents();
            let error = write(&store).expect_err(&case);
            assert!(is_displaced(&error), "{case}: {error}");
            assert_eq!(folder.contents(), before, "{case}");

            // For good, also when all is as it was before.
            let again = Step::commit(Durability::Full, &[("a", &["a9"])]).perform(&store);
            let again = again.unwrap_err();
            let is_refused = matches!(again, Error::Poisoned { .. }) || is_displaced(&again);
            assert!(is_refused, "{case}: {again}");
            assert!(store.check_writable().is_err(), "{case}");
            drop((bb, store));
            assert_eq!(folder.contents(), before, "{case}: when it was closed");
            if let Some(left) = interference.left {
                assert_eq!(reopen(&folder.path(left)), expected, "{case}");
            }
            match interference.name {
                "replaced" | "made anew" => {
                    let other = state_of(&other_steps());
                    assert_eq!(reopen(&folder.path("a")), other, "{case}");
                }
                "restored in place" => {
                    // The log has a file that the backup lacks, as the same copy of a closed database has.
                    fs::remove_file(newest_log_file(&folder.path("a"))).unwrap();
                    assert_eq!(
                        reopen(&folder.path("a")),
                        state_of(&Folder::steps()),
                        "{case}"
                    );
                }
                _ => {}
            }
        }
    }
}

#[test]
fn what_was_begun_before_is_not_finished_in_another_directory() {
    let folder = Folder::new();
    let store = Store::open(folder.path("a"), WRITE).unwrap();
    let mut publication = store.begin_publication("a").unwrap();
    let (header, path) = publication.next_segment((16, 0, 0), true).unwrap();
    scenario::write_segment(store.backend(), &path, &header, "a9").unwrap();
    let held = store.open_corpus("bb").unwrap();
    store.drop_corpus("bb").unwrap();

    fs::rename(folder.path("a"), folder.path("a.old")).unwrap();
    copy_directory(&folder.path("a.old"), &folder.path("a"));
    let before = folder.contents();
    let error = publication.commit().unwrap_err();
    assert!(is_displaced(&error), "{error}");
    // Their files would go with the last handle.
    drop(held);
    drop(store);
    assert_eq!(folder.contents(), before);
    let mut expected = state_of(&Folder::steps());
    expected.remove("bb");
    assert_eq!(reopen(&folder.path("a")), expected);
    assert_eq!(reopen(&folder.path("a.old")), expected);
}

#[test]
fn reading_goes_on_in_the_directory_that_was_opened() {
    let folder = Folder::new();
    let expected = state_of(&Folder::steps());
    for options in [WRITE, READ] {
        let store = Store::open(folder.path("a"), options).unwrap();
        fs::rename(folder.path("a"), folder.path("a.old")).unwrap();
        fs::rename(folder.path("b"), folder.path("a")).unwrap();
        assert_eq!(observe(&store), expected);
        let error = store.check_directory().unwrap_err();
        assert!(is_displaced(&error), "{error}");
        let error = store.reopen(READ).unwrap_err();
        assert!(is_displaced(&error), "{error}");
        if options == READ {
            let error = store.follow().unwrap_err();
            assert!(is_displaced(&error), "{error}");
        }
        fs::rename(folder.path("a"), folder.path("b")).unwrap();
        fs::rename(folder.path("a.old"), folder.path("a")).unwrap();
        store.check_directory().unwrap();
        assert_eq!(store.follow().unwrap(), Followed::Same);
        assert_eq!(observe(&store.reopen(READ).unwrap()), expected);
    }
}

#[test]
fn a_second_writer_is_refused_when_the_lock_file_is_gone() {
    let folder = Folder::new();
    let first = Store::open(folder.path("a"), WRITE).unwrap();
    fs::remove_file(folder.path("a/LOCK")).unwrap();
    let before = folder.contents();
    let refused = Store::open(folder.path("a"), WRITE).unwrap_err();
    assert!(matches!(refused, Error::Locked { .. }), "{refused}");
    assert!(!folder.path("a/LOCK").exists());
    assert_eq!(folder.contents(), before);
    drop(first);
    Store::open(folder.path("a"), WRITE).unwrap();
}

/// Where directories cannot be locked, or the other is an older release: the one that finds another `LOCK` does not write.
#[test]
fn of_two_writers_with_a_lock_file_each_the_first_one_stops() {
    let folder = Folder::new();
    let first = Store::open(folder.path("a"), WRITE).unwrap();
    let commit =
        |store: &Store, file| Step::commit(Durability::Full, &[("a", &[file])]).perform(store);
    commit(&first, "a4").unwrap();
    fs::remove_file(folder.path("a/LOCK")).unwrap();
    // Both folders are other ones, so that nothing but the file keeps the second writer away.
    fs::rename(folder.path("a/segments"), folder.path("segments")).unwrap();
    copy_directory(&folder.path("segments"), &folder.path("a/segments"));
    let second = Store::open(folder.path("a"), WRITE).unwrap();
    commit(&second, "a5").unwrap();
    let error = commit(&first, "a6").unwrap_err();
    assert!(is_displaced(&error), "{error}");
    assert!(Step::Recompress("a").perform(&first).is_err());
    drop(first);
    commit(&second, "a7").unwrap();
    Step::Recompress("a").perform(&second).unwrap();
    drop(second);
    let names = &reopen(&folder.path("a"))["a"];
    assert_eq!(names, &["a1", "a2", "a3", "a4", "a5", "a7"]);
}

#[test]
fn what_takes_nothing_away_is_no_reason_to_stop() {
    let folder = Folder::new();
    let path = folder.path("a");
    let store = Store::open(&path, WRITE).unwrap();
    let mut expected = state_of(&Folder::steps());
    let mut number = 10;
    let mut write = |what: &str| {
        number += 1;
        let (first, second) = (format!("n{number}"), format!("m{number}"));
        for step in [
            Step::commit(Durability::Full, &[("a", &[&first])]),
            Step::Recompress("a"),
            Step::commit(Durability::Normal, &[("a", &[&second])]),
        ] {
            step.perform(&store)
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            step.apply(&mut expected);
        }
    };
    write("nothing");
    let each = |act: &dyn Fn(&Path)| {
        let files = contents(&path).into_keys();
        files.for_each(|file| act(&file));
        act(&path);
    };
    each(&|file| {
        let mode = if file.is_dir() { 0o700 } else { 0o600 };
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    });
    write("chmod");
    each(&|file| {
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30);
        fs::File::open(file)
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
    });
    write("touch");
    let links = folder.path("links");
    fs::create_dir(&links).unwrap();
    each(&|file| {
        if file.is_file() {
            let name = file
                .strip_prefix(&path)
                .unwrap()
                .to_string_lossy()
                .replace('/', "-");
            fs::hard_link(file, links.join(name)).unwrap();
        }
    });
    write("a copy of links");
    copy_directory(&path, &folder.path("copy"));
    write("a copy");
    fs::rename(&path, folder.path("aside")).unwrap();
    fs::rename(folder.path("aside"), &path).unwrap();
    write("there and back");
    fs::copy(path.join("MANIFEST"), path.join("same")).unwrap();
    fs::rename(path.join("same"), path.join("MANIFEST")).unwrap();
    write("the same manifest in another file");
    fs::write(path.join("notes"), "of a user").unwrap();
    write("a strange file");
    std::os::unix::fs::symlink(&path, folder.path("link")).unwrap();
    write("a link");
    drop(store);
    assert_eq!(reopen(&path), expected);

    // A log that was found is not written to: a copy of it is as good.
    let store = Store::open(&path, WRITE).unwrap();
    let newest = newest_log_file(&path);
    fs::copy(&newest, path.join("same")).unwrap();
    fs::rename(path.join("same"), &newest).unwrap();
    let step = Step::commit(Durability::Full, &[("a", &["a9"])]);
    step.perform(&store).unwrap();
    step.apply(&mut expected);
    // One that is open is.
    let newest = newest_log_file(&path);
    fs::copy(&newest, path.join("same")).unwrap();
    fs::rename(path.join("same"), &newest).unwrap();
    let error = Step::commit(Durability::Full, &[("a", &["a0"])])
        .perform(&store)
        .unwrap_err();
    assert!(is_displaced(&error), "{error}");
    drop(store);
    assert_eq!(reopen(&path), expected);
}

#[test]
fn a_path_that_is_a_link_means_the_directory_that_it_led_to() {
    let folder = Folder::new();
    let link = folder.path("link");
    std::os::unix::fs::symlink("a", &link).unwrap();
    let store = Store::open(&link, WRITE).unwrap();
    Step::commit(Durability::Full, &[("a", &["a4"])])
        .perform(&store)
        .unwrap();
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("b", &link).unwrap();
    let before = folder.contents();
    let error = Step::Recompress("a").perform(&store).unwrap_err();
    assert!(is_displaced(&error), "{error}");
    drop(store);
    assert_eq!(folder.contents(), before);
    assert_eq!(reopen(&folder.path("b")), state_of(&other_steps()));
}

#[test]
fn a_repair_whose_target_was_replaced_does_not_finish_the_other_one() {
    let top = scratch();
    let (path, aside) = (top.path().join("target"), top.path().join("aside"));
    let target = RepairTarget::begin(&path, top.path()).unwrap();
    let store = target.open().unwrap();
    Step::Create("a").perform(&store).unwrap();
    fs::rename(&path, &aside).unwrap();
    copy_directory(&aside, &path);
    let error = Step::Create("bb").perform(&store).unwrap_err();
    assert!(is_displaced(&error), "{error}");
    drop(store);
    let before = contents(&path);
    let error = target.finish().unwrap_err();
    assert!(is_displaced(&error), "{error}");
    assert_eq!(contents(&path), before);
    for path in [path, aside] {
        let error = Store::open(&path, READ).unwrap_err();
        assert!(matches!(error, Error::UnfinishedRepair { .. }), "{error}");
    }
}

type Act = Box<dyn FnOnce() + Send>;

/// The real file system, with something that happens once, right before a file is synced.
#[derive(Clone)]
struct OnSync {
    inner: Arc<dyn Backend>,
    act: Arc<Mutex<Option<Act>>>,
}

impl std::fmt::Debug for OnSync {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("OnSync")
    }
}

struct OnSyncFile {
    inner: Box<dyn BackendFile>,
    backend: OnSync,
}

impl Write for OnSyncFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl BackendFile for OnSyncFile {
    fn sync(&mut self) -> io::Result<()> {
        if let Some(act) = self.backend.act.lock().unwrap().take() {
            act();
        }
        self.inner.sync()
    }
}

impl Backend for OnSync {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn BackendReader>> {
        self.inner.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn BackendFile>> {
        Ok(Box::new(OnSyncFile {
            inner: self.inner.create(path)?,
            backend: self.clone(),
        }))
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.inner.sync_file(path)
    }

    fn rename(&self, source: &Path, target: &Path) -> io::Result<()> {
        self.inner.rename(source, target)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.inner.create_directory(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.inner.sync_directory(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.inner.list(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }

    fn within(&self, directory: &Arc<HeldDirectory>) -> Option<Arc<dyn Backend>> {
        Some(Arc::new(OnSync {
            inner: self.inner.within(directory)?,
            act: Arc::clone(&self.act),
        }))
    }

    fn outward_path(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.outward_path(path)
    }
}

/// Between the question and the answer: what is written goes to the directory that was opened, and is not acknowledged.
#[test]
fn a_directory_that_is_replaced_during_a_commit_fails_it_and_the_other_one_is_untouched() {
    for (what, write) in writes() {
        if what == "commit without write" || what == "commit without sync" {
            continue;
        }
        let folder = Arc::new(Folder::new());
        let backend = OnSync {
            inner: Arc::new(FileBackend),
            act: Arc::default(),
        };
        let act = Arc::clone(&backend.act);
        let store = Store::open_with(Arc::new(backend), &folder.path("a"), WRITE).unwrap();
        // So that the log has a file.
        Step::commit(Durability::Full, &[("a", &["a4"])])
            .perform(&store)
            .unwrap();
        let other = contents(&folder.path("b"));
        let swapped = Arc::clone(&folder);
        *act.lock().unwrap() = Some(Box::new(move || {
            fs::rename(swapped.path("a"), swapped.path("a.old")).unwrap();
            fs::rename(swapped.path("b"), swapped.path("a")).unwrap();
        }));
        let error = write(&store).unwrap_err();
        assert!(is_displaced(&error), "{what}: {error}");
        drop(store);
        let untouched: BTreeMap<_, _> = (contents(&folder.path("a")).into_iter())
            .map(|(path, bytes)| {
                let path = path.strip_prefix(folder.path("a")).unwrap().to_path_buf();
                (folder.path("b").join(path), bytes)
            })
            .collect();
        assert_eq!(untouched, other, "{what}");
        let found = reopen(&folder.path("a.old"));
        assert!(found["a"].contains(&"a4".to_owned()), "{what}: {found:?}");
        assert_eq!(
            reopen(&folder.path("a")),
            state_of(&other_steps()),
            "{what}"
        );
    }
}

fn commit(store: &Store, corpus: u64, file: &str) {
    let record = LogRecord::insert(corpus, [(file, None, &b"text"[..])]).unwrap();
    store.append_commit(&[record], Durability::Full).unwrap();
}

fn files(store: &Store) -> Vec<String> {
    let mut names = Vec::new();
    let replayed = store.replay(LogPosition::START, |_, record| {
        for edit in record.edits() {
            if let zipfdb_storage::Edit::Insert { file, .. } = edit {
                names.push(file.to_owned());
            }
        }
        Ok::<_, Error>(())
    });
    replayed.unwrap();
    names
}

/// The copy that is restored has a manifest of the same number, and what is committed then a log of the same size.
#[test]
fn a_log_that_was_restored_is_not_read_on_from_where_another_one_ended() {
    let top = scratch();
    let (path, backup) = (top.path().join("a"), top.path().join("backup"));
    let store = Store::open(&path, CREATE).unwrap();
    let corpus = store
        .create_corpus("a", scenario::settings("a"))
        .unwrap()
        .id;
    commit(&store, corpus, "first");
    drop(store);
    copy_directory(&path, &backup);
    let write = |names: &[&str]| {
        let store = Store::open(&path, WRITE).unwrap();
        names.iter().for_each(|name| commit(&store, corpus, name));
    };
    write(&["left"]);
    let readers = [(); 2].map(|()| Store::open(&path, READ).unwrap());
    for reader in &readers {
        assert_eq!(reader.follow().unwrap(), Followed::Same);
        assert_eq!(files(reader), ["first", "left"]);
    }
    restore(&backup, &path);
    fs::remove_file(newest_log_file(&path)).unwrap();
    write(&["made"]);
    let fresh = Store::open(&path, READ).unwrap();
    assert_eq!(
        fresh.sequence(),
        readers[0].sequence(),
        "as the test wants it"
    );
    assert_eq!(fresh.log_position(), readers[0].log_position());
    assert_eq!(readers[0].follow().unwrap(), Followed::Changed);
    assert!(!fresh.continues(&readers[0]));
    assert!(Store::open(&path, READ).unwrap().continues(&fresh));

    let store = Store::open(&path, WRITE).unwrap();
    commit(&store, corpus, "more");
    assert_eq!(readers[1].follow().unwrap(), Followed::Changed);
    assert_eq!(fresh.follow().unwrap(), Followed::Grown);
    assert_eq!(files(&fresh), ["first", "made", "more"]);
    let now = readers[1].reopen(READ).unwrap();
    assert!(!now.continues(&readers[1]));
    assert_eq!(files(&now), ["first", "made", "more"]);
}
