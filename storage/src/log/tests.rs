//! The log alone, on files in memory: what is appended is replayed, and damage is distinguished from a torn end.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use parking_lot::Mutex;
use proptest::prelude::*;

use super::scan::Cut;
use super::*;
use crate::backend::{BackendFile, BackendReader, MemoryBackend};

/// A commit as it is observed: its position, and each record with its corpus and what it says.
type Seen = Vec<(LogPosition, Vec<(u64, String)>)>;

fn backend() -> Arc<MemoryBackend> {
    let backend = Arc::new(MemoryBackend::new());
    backend.create_directory(Path::new("db")).unwrap();
    backend
}

fn open(backend: &Arc<MemoryBackend>) -> Result<Log> {
    let found = Scan::read(&**backend, Path::new("db/log"), None)?;
    let torn = found.torn.is_some();
    let log = new_log(backend.clone(), found);
    if torn {
        log.begin_file()?;
    }
    Ok(log)
}

fn new_log(backend: Arc<dyn Backend>, found: Scan) -> Log {
    Log::new(
        backend,
        Path::new("db"),
        found,
        LogPosition::START,
        Box::new(|_| Ok(())),
        Arc::default(),
    )
}

fn insert(corpus: u64, text: &str) -> LogRecord<'static> {
    LogRecord::insert(corpus, [("file", None, text.as_bytes())]).unwrap()
}

fn commit(log: &Log, text: &str) -> LogPosition {
    let position = log.append(&[insert(1, text)], |_| true).unwrap();
    log.ensure(position, Durability::Full).unwrap();
    position
}

fn describe(record: &LogRecord<'_>) -> String {
    record.edits().map(|edit| format!("{edit:?};")).collect()
}

fn replay(log: &Log) -> Seen {
    let mut seen = Seen::new();
    for file in log.read(LogPosition::START).unwrap() {
        file.read()
            .unwrap()
            .replay(|position, record| {
                let said = (record.corpus(), describe(&record));
                match seen.last_mut() {
                    Some((last, commit)) if *last == position => commit.push(said),
                    _ => seen.push((position, vec![said])),
                }
                Ok::<_, Error>(())
            })
            .unwrap();
    }
    seen
}

fn path(number: u64) -> PathBuf {
    path_of(Path::new("db/log"), number)
}

/// Gives a file another content.
fn put(backend: &MemoryBackend, number: u64, bytes: &[u8]) {
    let _ = backend.remove(&path(number));
    let mut file = backend.create(&path(number)).unwrap();
    file.write_all(bytes).unwrap();
}

/// Three commits in one file, the middle one of two records; what is seen of them, and the file.
fn three_commits() -> (Arc<MemoryBackend>, Seen, Vec<u8>) {
    let backend = backend();
    let log = open(&backend).unwrap();
    commit(&log, "one");
    let records = [insert(1, "two"), LogRecord::delete(2, ["a", "b"]).unwrap()];
    let position = log.append(&records, |_| true).unwrap();
    log.ensure(position, Durability::Full).unwrap();
    commit(&log, "three");
    let seen = replay(&log);
    drop(log);
    let bytes = backend.read(&path(1)).unwrap().to_vec();
    (backend, seen, bytes)
}

#[test]
fn a_log_cut_at_any_byte_gives_the_commits_before_it_and_goes_on() {
    let (backend, seen, bytes) = three_commits();
    assert_eq!(seen.len(), 3);
    for size in 0..bytes.len() {
        put(&backend, 1, &bytes[..size]);
        let whole = seen.iter().filter(|(end, _)| end.offset <= size as u64);
        let mut expected: Seen = whole.cloned().collect();
        let end = expected
            .last()
            .map_or(frame::HEADER_SIZE, |(end, _)| end.offset as usize);

        let found = Scan::read(&*backend, Path::new("db/log"), None).unwrap();
        let torn = found.torn.as_ref().map(ToString::to_string);
        assert_eq!(torn.is_some(), size > end, "{size}");
        if let Some(torn) = torn {
            let cut = format!("cut short at byte {end}: {} bytes", size - end);
            assert!(torn.contains(&cut), "{torn}");
            assert!(torn.contains("0000000000000001.log"), "{torn}");
        }
        let log = open(&backend).unwrap();
        assert_eq!(replay(&log), expected, "{size}");
        commit(&log, "after");
        expected.push((log.end(), vec![(1, describe(&insert(1, "after")))]));
        drop(log);
        // What was cut off stays where it is and is never asked for again.
        let found = Scan::read(&*backend, Path::new("db/log"), None).unwrap();
        assert_eq!(found.torn, None);
        assert_eq!(replay(&new_log(backend.clone(), found)), expected);
        backend.remove(&path(2)).unwrap();
    }
}

#[test]
fn a_flipped_byte_is_corruption_unless_it_is_in_the_last_commit() {
    let (backend, seen, bytes) = three_commits();
    let last = seen[1].0.offset as usize;
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        put(&backend, 1, &flipped);
        let found = Scan::read(&*backend, Path::new("db/log"), None);
        if at >= last {
            // It looks like a commit that was not written whole.
            let found = found.unwrap();
            assert!(found.torn.is_some());
            assert_eq!(replay(&new_log(backend.clone(), found)), seen[..2]);
            continue;
        }
        let error = found.unwrap_err();
        let Error::CorruptLog { path, offset, .. } = &error else {
            panic!("{error}");
        };
        assert!(path.ends_with("0000000000000001.log"));
        assert!(*offset as usize <= at, "{error}");
        assert!(error.to_string().contains("corrupt record log at byte"));
    }
}

#[test]
fn a_file_that_another_follows_must_be_whole() {
    let (backend, _, bytes) = three_commits();
    commit(&open(&backend).unwrap(), "four");
    assert!(backend.exists(&path(2)).unwrap());
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        for damaged in [&flipped[..], &bytes[..at]] {
            put(&backend, 1, damaged);
            let found = Scan::read(&*backend, Path::new("db/log"), None);
            assert!(matches!(found, Err(Error::CorruptLog { .. })), "{at}");
        }
    }
    put(&backend, 1, &[&bytes[..], b"what was torn off"].concat());
    assert_eq!(replay(&open(&backend).unwrap()).len(), 4);
}

#[test]
fn a_missing_file_is_corruption_unless_it_is_the_oldest() {
    let backend = backend();
    let log = open(&backend).unwrap();
    log.set_file_size(1);
    for text in ["one", "two", "three"] {
        commit(&log, text);
    }
    drop(log);
    backend.remove(&path(1)).unwrap();
    let log = open(&backend).unwrap();
    assert_eq!(replay(&log).len(), 2);
    commit(&log, "four");
    drop(log);
    backend.remove(&path(3)).unwrap();
    let error = open(&backend).unwrap_err();
    assert!(
        error.to_string().contains("the file is missing; hint"),
        "{error}"
    );
}

#[test]
fn a_file_whose_creation_was_cut_short_does_not_count() {
    let (backend, mut seen, _) = three_commits();
    let header = frame::header(2, seen[2].0);
    for size in 0..header.len() {
        put(&backend, 2, &header[..size]);
        put(&backend, 3, &[0; 30]);
        let log = open(&backend).unwrap();
        assert_eq!(replay(&log), seen);
        commit(&log, "after");
        assert!(backend.exists(&path(4)).unwrap());
        let after = (log.end(), vec![(1, describe(&insert(1, "after")))]);
        drop(log);
        let log = open(&backend).unwrap();
        assert_eq!(replay(&log).last(), Some(&after));
        assert_eq!(log.end(), after.0);
        drop(log);
        backend.remove(&path(4)).unwrap();
    }
    seen.pop();
    // A header of another version: nothing is known of what follows.
    let mut later = frame::header(3, seen[1].0);
    later[8] = 9;
    let crc = crc32fast::hash(&later[..later.len() - 4]).to_le_bytes();
    let at = later.len() - 4;
    later[at..].copy_from_slice(&crc);
    put(&backend, 3, &later);
    assert!(matches!(
        open(&backend),
        Err(Error::Version { found: 9, .. })
    ));
}

#[test]
fn records_that_make_no_sense_under_right_checksums_are_corruption() {
    let position = LogPosition {
        file: 1,
        offset: frame::HEADER_SIZE as u64,
    };
    let merged = |added: u64, end: u64| {
        let merge = Merge {
            corpus: 1,
            publication: 2,
            position: LogPosition {
                file: 1,
                offset: end,
            },
            added: vec![added],
            replaced: vec![],
        };
        merge.encode()
    };
    let commit = |records: u32| {
        let commit = frame::Commit {
            records,
            durable: 0,
        };
        commit.encode().to_vec()
    };
    let delete = LogRecord::delete(1, ["a"]).unwrap().payload().to_vec();
    let good: [(u8, u64, Vec<u8>); 2] = [(2, 1, delete.clone()), (4, 0, commit(1))];
    let wrong: [&[(u8, u64, Vec<u8>)]; 9] = [
        &[(2, 1, delete.clone()), (4, 0, commit(2))],
        &[(2, 1, delete.clone()), (4, 0, vec![0; 11])],
        &[(2, 1, delete[..4].to_vec()), (4, 0, commit(1))],
        &[(2, u64::MAX, delete.clone()), (4, 0, commit(1))],
        &[(6, 1, delete.clone()), (4, 0, commit(1))],
        &[(0, 1, delete.clone()), (4, 0, commit(1))],
        &[(5, 1, merged(u64::MAX, 0)), (4, 0, commit(1))],
        &[(5, 1, merged(3, 1000)), (4, 0, commit(1))],
        &[(5, 1, vec![0; 7]), (4, 0, commit(1))],
    ];
    for records in wrong {
        let mut bytes = frame::header(1, LogPosition::START);
        let mut place = position;
        for (kind, corpus, payload) in good.iter().chain(records) {
            let sum = frame::Sum::new(*kind, *corpus, payload);
            frame::write(&mut bytes, &mut place, (*kind, *corpus, payload), sum);
        }
        let backend = backend();
        backend.create_directory(Path::new("db/log")).unwrap();
        put(&backend, 1, &bytes);
        let error = open(&backend).unwrap_err();
        assert!(matches!(error, Error::CorruptLog { .. }), "{error}");
    }
}

#[test]
fn files_roll_between_commits_and_go_in_their_order_when_they_are_not_needed() {
    let backend = backend();
    let log = open(&backend).unwrap();
    log.set_file_size(200);
    let mut seen = Seen::new();
    for number in 0..20 {
        let text = format!("commit {number}");
        let position = commit(&log, &text);
        seen.push((position, vec![(1, describe(&insert(1, &text)))]));
    }
    assert_eq!(replay(&log), seen);
    let newest = log.end().file;
    assert!(newest > 3);
    assert!(log.mentions(1));
    log.remove_files(|file| file.number >= 3).unwrap();
    assert_eq!(
        replay(&log),
        seen.iter()
            .filter(|(at, _)| at.file >= 3)
            .cloned()
            .collect::<Seen>()
    );
    log.remove_files(|file| file.number == 4).unwrap();
    assert_eq!(replay(&log)[0].0.file, 4);
    log.remove_files(|_| false).unwrap();
    assert_eq!(replay(&log)[0].0.file, newest, "it is written to");
    let end = log.end();
    drop(log);

    let log = open(&backend).unwrap();
    log.remove_files(|_| false).unwrap();
    assert!(!log.mentions(1));
    assert_eq!(backend.list(Path::new("db/log")).unwrap(), [""; 0]);
    assert!(commit(&log, "later") > end, "numbers do not come again");
    drop(log);
    backend.remove(&path(newest + 1)).unwrap();
    let found = Scan::read(&*backend, Path::new("db/log"), None).unwrap();
    let keep = Box::new(|_| Ok(()));
    let log = Log::new(backend, Path::new("db"), found, end, keep, Arc::default());
    assert!(commit(&log, "later") > end, "nor after all files are gone");
}

#[test]
fn a_commit_to_a_corpus_that_is_gone_leaves_nothing() {
    let backend = backend();
    let log = open(&backend).unwrap();
    let error = log
        .append(&[insert(1, "a"), insert(2, "b")], |corpus| corpus == 1)
        .unwrap_err();
    assert!(matches!(error, Error::NoSuchCorpus { .. }));
    assert_eq!(log.append(&[], |_| false).unwrap(), log.end());
    assert!(!log.mentions(1));
    assert_eq!(replay(&log), []);
}

#[test]
fn bytes_that_wait_in_the_process_are_bounded() {
    let backend = backend();
    let log = open(&backend).unwrap();
    let text = "x".repeat(LOG_BUFFER_SIZE / 4);
    let mut seen = Vec::new();
    for _ in 0..10 {
        let position = log.append(&[insert(1, &text)], |_| true).unwrap();
        log.ensure(position, Durability::Off).unwrap();
        seen.push(replay(&log).len());
    }
    assert_eq!(seen, [0, 0, 0, 4, 4, 4, 4, 8, 8, 8]);
    log.ensure(log.end(), Durability::Normal).unwrap();
    assert_eq!(replay(&log).len(), 10);
    let position = log.append(&[insert(1, "last")], |_| true).unwrap();
    log.ensure(position, Durability::Off).unwrap();
    drop(log);
    assert_eq!(replay(&open(&backend).unwrap()).len(), 11);
}

/// A log whose extent is kept beside it, as the manifest does.
struct Kept {
    backend: Arc<MemoryBackend>,
    extent: Arc<Mutex<Option<LogExtent>>>,
}

impl Kept {
    fn scan(&self) -> Result<Scan> {
        Scan::read(&*self.backend, Path::new("db/log"), *self.extent.lock())
    }

    fn open(&self) -> Result<Log> {
        let found = self.scan()?;
        let torn = found.torn.is_some();
        let extent = self.extent.clone();
        let keep = move |new: Option<LogExtent>| {
            *extent.lock() = new;
            Ok(())
        };
        let start = LogPosition::START;
        let (path, poison) = (Path::new("db"), Arc::default());
        let log = Log::new(
            self.backend.clone(),
            path,
            found,
            start,
            Box::new(keep),
            poison,
        );
        log.keep_found()?;
        if torn {
            log.begin_file()?;
        }
        Ok(log)
    }

    /// All files and the extent, to start over from.
    fn copy(&self) -> (Files, Option<LogExtent>) {
        let numbers = list(&*self.backend, Path::new("db/log")).unwrap();
        let files = numbers.into_iter().map(|number| {
            let bytes = self.backend.read(&path(number)).unwrap();
            (number, bytes.to_vec())
        });
        (files.collect(), *self.extent.lock())
    }

    fn from(files: &Files, extent: Option<LogExtent>) -> Kept {
        let backend = backend();
        backend.create_directory(Path::new("db/log")).unwrap();
        for (number, bytes) in files {
            put(&backend, *number, bytes);
        }
        Kept {
            backend,
            extent: Arc::new(Mutex::new(extent)),
        }
    }
}

type Files = BTreeMap<u64, Vec<u8>>;

/// What may happen to the files of a log, one thing at a time: what it is, and the files then. `older` has states that
/// files were in before.
fn damages(files: &Files, older: &[Files]) -> Vec<(String, Files)> {
    let mut damages = Vec::new();
    let mut add = |what: String, change: &dyn Fn(&mut Files)| {
        let mut damaged = files.clone();
        change(&mut damaged);
        damages.push((what, damaged));
    };
    let numbers: Vec<u64> = files.keys().copied().collect();
    for (number, bytes) in files {
        for at in 0..bytes.len() {
            let what = format!("byte {at} of {number} is flipped");
            add(what, &|files| {
                files.get_mut(number).unwrap()[at] ^= 1 << (at % 8);
            });
            let what = format!("{number} is cut to {at} bytes");
            add(what, &|files| {
                files.get_mut(number).unwrap().truncate(at);
            });
        }
        add(format!("{number} is zeros"), &|files| {
            files.get_mut(number).unwrap().fill(0);
        });
        add(format!("{number} is missing"), &|files| {
            files.remove(number);
        });
        for (age, before) in older.iter().enumerate() {
            if let Some(old) = before.get(number).filter(|old| *old != bytes) {
                let what = format!("{number} is as it was in state {age}");
                add(what, &|files| drop(files.insert(*number, old.clone())));
            }
        }
        for other in numbers.iter().filter(|other| *other > number) {
            add(format!("{number} and {other} are swapped"), &|files| {
                let (a, b) = (files[number].clone(), files[other].clone());
                files.extend([(*number, b), (*other, a)]);
            });
        }
    }
    damages
}

#[test]
fn no_damage_to_a_log_that_was_closed_goes_unnoticed() {
    for (durability, count, file_size) in [
        (Durability::Full, 3, LOG_FILE_SIZE),
        (Durability::Normal, 5, LOG_FILE_SIZE),
        (Durability::Off, 3, LOG_FILE_SIZE),
        (Durability::Full, 5, 150),
        (Durability::Normal, 3, 1),
        (Durability::Off, 3, 150),
    ] {
        let kept = Kept::from(&Files::new(), None);
        let log = kept.open().unwrap();
        log.set_file_size(file_size);
        let mut older = Vec::new();
        for number in 0..count {
            let record = insert(1, &format!("commit {number}"));
            let position = log.append(&[record], |_| true).unwrap();
            log.ensure(position, durability).unwrap();
            older.push(kept.copy().0);
        }
        drop(log);
        let seen = replay(&kept.open().unwrap());
        assert_eq!(seen.len(), count);
        let (files, extent) = kept.copy();
        assert!(files.len() <= 3);
        for (what, damaged) in damages(&files, &older) {
            let kept = Kept::from(&damaged, extent);
            let context = format!("{durability:?}, files of {file_size}: {what}");
            let error = kept.open().expect_err(&context);
            assert!(
                matches!(error, Error::CorruptLog { .. }),
                "{context}: {error}"
            );
            let found = kept.scan().expect_err("the same again");
            assert_eq!(found.to_string(), error.to_string());
        }
    }
}

/// What is left after a process was killed says of commits that follow the last sync what was read, and no more.
#[test]
fn damage_to_a_log_that_was_not_closed_is_reported_or_takes_whole_commits_from_its_end() {
    for (durability, file_size) in [
        (Durability::Full, LOG_FILE_SIZE),
        (Durability::Normal, LOG_FILE_SIZE),
        (Durability::Full, 150),
        (Durability::Normal, 150),
    ] {
        let kept = Kept::from(&Files::new(), None);
        let log = kept.open().unwrap();
        log.set_file_size(file_size);
        let mut older = Vec::new();
        for number in 0..4 {
            let record = insert(1, &format!("commit {number}"));
            let position = log.append(&[record], |_| true).unwrap();
            log.ensure(position, durability).unwrap();
            older.push(kept.copy().0);
        }
        let seen = replay(&log);
        let (files, extent) = kept.copy();
        let newest = *files.keys().last().unwrap();
        let durable = match durability {
            // The last one is not followed by any that knows.
            Durability::Full => seen[seen.len() - 2].0,
            _ => extent.unwrap().end,
        };
        for (what, damaged) in damages(&files, &older) {
            let context = format!("{durability:?}, files of {file_size}: {what}");
            let kept = Kept::from(&damaged, extent);
            let Ok(found) = kept.scan() else {
                continue;
            };
            let torn = found.torn.clone();
            let log = kept.open().unwrap();
            let left = replay(&log);
            assert!(seen.starts_with(&left), "{context}");
            // A cut, or an older state, that ends between two commits leaves nothing to be seen.
            let is_whole = |bytes: &Vec<u8>| {
                let size = bytes.len() as u64;
                let ends = (seen.iter()).map(|(end, _)| *end);
                let ends = ends.filter(|end| end.file == newest).map(|end| end.offset);
                ends.chain([frame::HEADER_SIZE as u64])
                    .any(|end| end == size)
            };
            let is_cut = what.contains(" cut to ") || what.contains("as it was");
            let is_silent = is_cut && is_whole(&damaged[&newest]);
            let least = if is_cut { extent.unwrap().end } else { durable };
            let least = seen.iter().filter(|(at, _)| *at <= least).count();
            assert!(left.len() >= least, "{context}: {left:?}");
            assert_eq!(torn.is_none(), is_silent, "{context}");
            let has_commit = torn.as_ref().is_some_and(Cut::has_commit);
            drop(log);
            // Reported while the file holds commits that do not count.
            let again = kept.scan().unwrap();
            assert_eq!(again.dropped.len(), usize::from(has_commit), "{context}");
            assert_eq!(replay(&kept.open().unwrap()), left, "{context}");
        }
    }
}

/// Files in memory whose syncs are counted, wait to be let through, and may fail.
#[derive(Debug)]
struct Gate {
    inner: Arc<MemoryBackend>,
    syncs: Arc<AtomicU32>,
    /// Receives a message for each sync that has begun.
    started: Mutex<Option<Sender<()>>>,
    /// What each sync waits for, if anything: whether it succeeds.
    pass: Arc<Mutex<Option<Receiver<bool>>>>,
}

struct GatedFile {
    inner: Box<dyn BackendFile>,
    syncs: Arc<AtomicU32>,
    started: Option<Sender<()>>,
    pass: Arc<Mutex<Option<Receiver<bool>>>>,
}

impl Write for GatedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl BackendFile for GatedFile {
    fn sync(&mut self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::SeqCst);
        let pass = self.pass.lock();
        let Some(pass) = &*pass else {
            return Ok(());
        };
        self.started.as_ref().unwrap().send(()).unwrap();
        if pass.recv().unwrap() {
            Ok(())
        } else {
            Err(io::Error::other("no"))
        }
    }
}

impl Backend for Gate {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn BackendReader>> {
        self.inner.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn BackendFile>> {
        Ok(Box::new(GatedFile {
            inner: self.inner.create(path)?,
            syncs: Arc::clone(&self.syncs),
            started: self.started.lock().clone(),
            pass: Arc::clone(&self.pass),
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
}

/// A log behind a gate that is open, one commit long; the gate's ends and how many syncs there were.
fn gated() -> (Log, Arc<Gate>, Receiver<()>) {
    let (started, starts) = channel();
    let gate = Arc::new(Gate {
        inner: backend(),
        syncs: Arc::default(),
        started: Mutex::new(Some(started)),
        pass: Arc::default(),
    });
    let log = new_log(gate.clone(), Scan::default());
    commit(&log, "first");
    (log, gate, starts)
}

#[test]
fn commits_that_come_during_a_sync_share_the_next_one() {
    let (log, gate, starts) = gated();
    let before = gate.syncs.load(Ordering::SeqCst);
    let (open, pass) = channel();
    *gate.pass.lock() = Some(pass);
    let ensure = |position| log.ensure(position, Durability::Full);
    std::thread::scope(|scope| {
        scope.spawn(|| commit(&log, "leader"));
        starts.recv().unwrap();
        let positions: Vec<LogPosition> = (0..8)
            .map(|number| {
                let record = insert(1, &number.to_string());
                log.append(&[record], |_| true).unwrap()
            })
            .collect();
        let waiting: Vec<_> = (positions.into_iter())
            .map(|position| scope.spawn(move || ensure(position)))
            .collect();
        open.send(true).unwrap();
        open.send(true).unwrap();
        for thread in waiting {
            thread.join().unwrap().unwrap();
        }
    });
    assert_eq!(gate.syncs.load(Ordering::SeqCst) - before, 2);
    assert_eq!(replay(&log).len(), 10);
}

#[test]
fn a_failed_sync_fails_all_that_wait_and_every_later_commit() {
    let (log, gate, starts) = gated();
    let (open, pass) = channel();
    *gate.pass.lock() = Some(pass);
    let ensure = |position| log.ensure(position, Durability::Full);
    std::thread::scope(|scope| {
        let position = log.append(&[insert(1, "a")], |_| true).unwrap();
        let leader = scope.spawn(move || ensure(position));
        starts.recv().unwrap();
        let waiting = scope.spawn(move || ensure(position));
        let unwritten = log.append(&[insert(1, "b")], |_| true).unwrap();
        open.send(false).unwrap();
        assert!(matches!(leader.join().unwrap(), Err(Error::Io { .. })));
        assert!(matches!(
            waiting.join().unwrap(),
            Err(Error::Poisoned { .. })
        ));
        let ensured = log.ensure(unwritten, Durability::Off);
        assert!(matches!(ensured, Err(Error::Poisoned { .. })));
    });
    let later = log.append(&[insert(1, "c")], |_| true);
    assert!(matches!(later, Err(Error::Poisoned { .. })));
    assert_eq!(replay(&log).len(), 1, "what was acknowledged can be read");
}

#[test]
fn threads_that_commit_at_once_find_their_commits_in_the_order_of_their_positions() {
    let backend = backend();
    let log = open(&backend).unwrap();
    log.set_file_size(2000);
    let acknowledged = Mutex::new(Seen::new());
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (log, acknowledged) = (&log, &acknowledged);
            scope.spawn(move || {
                let levels = [Durability::Full, Durability::Normal, Durability::Off];
                for number in 0..60 {
                    let text = format!("{thread} {number}");
                    let records = [insert(thread, &text), insert(9, &text)];
                    let position = log.append(&records, |_| true).unwrap();
                    log.ensure(position, levels[number % 3]).unwrap();
                    let said = records
                        .iter()
                        .map(|record| (record.corpus(), describe(record)));
                    acknowledged.lock().push((position, said.collect()));
                }
            });
        }
    });
    drop(log);
    let mut acknowledged = acknowledged.into_inner();
    acknowledged.sort();
    let seen = replay(&open(&backend).unwrap());
    assert!(seen == acknowledged);
    assert!(seen.last().unwrap().0.file > 3);
}

#[derive(Clone, Debug)]
enum Action {
    /// Corpora of the records of a commit, size of their texts, durability.
    Commit(Vec<u64>, usize, u8),
    Reopen,
    /// The newest file loses this number of bytes of what was appended since the log
    /// was opened.
    Cut(usize),
    FileSize(u64),
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let action = prop_oneof![
        8 => (prop::collection::vec(1_u64..4, 1..4), 0_usize..400, 0_u8..3)
            .prop_map(|(corpora, size, level)| Action::Commit(corpora, size, level)),
        1 => Just(Action::Reopen),
        1 => (0_usize..600).prop_map(Action::Cut),
        1 => (0_u64..3000).prop_map(Action::FileSize),
    ];
    prop::collection::vec(action, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        rng_seed: prop::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_is_done_a_replay_gives_a_prefix_of_the_commits(actions in actions()) {
        let backend = backend();
        let mut log = open(&backend).unwrap();
        let mut model = Seen::new();
        let mut opened_at = log.end();
        for (number, action) in actions.into_iter().enumerate() {
            match action {
                Action::Commit(corpora, size, level) => {
                    let text = format!("{number} ").repeat(size / 4);
                    let records: Vec<_> = corpora.iter().map(|id| insert(*id, &text)).collect();
                    let position = log.append(&records, |_| true).unwrap();
                    let levels = [Durability::Off, Durability::Normal, Durability::Full];
                    log.ensure(position, levels[usize::from(level)]).unwrap();
                    let said = records.iter().map(|record| (record.corpus(), describe(record)));
                    model.push((position, said.collect()));
                }
                Action::Reopen => {
                    drop(log);
                    log = open(&backend).unwrap();
                    opened_at = log.end();
                }
                Action::Cut(bytes) => {
                    let newest = log.end().file;
                    drop(log);
                    if newest > opened_at.file {
                        let content = backend.read(&path(newest)).unwrap().to_vec();
                        let left = content.len().saturating_sub(bytes).max(frame::HEADER_SIZE);
                        put(&backend, newest, &content[..left]);
                        model.retain(|(at, _)| at.file < newest || at.offset <= left as u64);
                    }
                    log = open(&backend).unwrap();
                    opened_at = log.end();
                }
                Action::FileSize(bytes) => log.set_file_size(bytes),
            }
            log.ensure(log.end(), Durability::Normal).unwrap();
            prop_assert_eq!(replay(&log), model.clone());
        }
    }
}
