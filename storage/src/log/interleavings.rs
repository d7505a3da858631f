//! The writer of the log under shuttle: in whatever order threads run, what is acknowledged is on the disk.
//!
//! The invariant: the code under test is that of the store, but a seed chooses at each lock which thread goes on.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use shuttle::thread;
use zipfdb_test_support::locks::explore;

use super::sync::Mutex;
use super::{Durability, Log, LogPosition, LogRecord, Scan};
use crate::backend::{Backend, BackendFile, BackendReader, MemoryBackend};
use crate::{Error, Result};

/// Files in memory, what of them a power cut would leave, and syncs that fail. Every operation lets others go first.
#[derive(Debug)]
struct Disk {
    files: MemoryBackend,
    /// What of each file is synced.
    synced: Arc<Mutex<BTreeMap<PathBuf, Vec<u8>>>>,
    /// Syncs that succeed before one fails.
    syncs_left: Arc<AtomicU32>,
}

struct DiskFile {
    inner: Box<dyn BackendFile>,
    path: PathBuf,
    written: Vec<u8>,
    synced: Arc<Mutex<BTreeMap<PathBuf, Vec<u8>>>>,
    syncs_left: Arc<AtomicU32>,
}

impl Disk {
    fn new(syncs: u32) -> Arc<Disk> {
        let files = MemoryBackend::new();
        files.create_directory(Path::new("db")).unwrap();
        Arc::new(Disk {
            files,
            synced: Arc::default(),
            syncs_left: Arc::new(syncs.into()),
        })
    }

    fn log(self: &Arc<Disk>) -> Log {
        Log::new(
            self.clone(),
            Path::new("db"),
            Scan::default(),
            LogPosition::START,
            Box::new(|_| Ok(())),
            Arc::default(),
        )
    }

    /// The positions of the commits that a power cut now would leave.
    fn left(&self) -> Vec<LogPosition> {
        let disk = MemoryBackend::new();
        for path in ["db", "db/log"] {
            disk.create_directory(Path::new(path)).unwrap();
        }
        for (path, bytes) in &*self.synced.lock() {
            disk.create(path).unwrap().write_all(bytes).unwrap();
        }
        let mut commits = Vec::new();
        super::read_log(&disk, Path::new("db/log"), |position, _| {
            commits.push(position);
        })
        .unwrap();
        commits
    }
}

impl Write for DiskFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        thread::yield_now();
        self.written.extend(bytes);
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl BackendFile for DiskFile {
    fn sync(&mut self) -> io::Result<()> {
        thread::yield_now();
        let left = self.syncs_left.load(Ordering::SeqCst);
        if left == 0 {
            return Err(io::Error::other("no"));
        }
        self.syncs_left.store(left - 1, Ordering::SeqCst);
        let written = self.written.clone();
        self.synced.lock().insert(self.path.clone(), written);
        thread::yield_now();
        Ok(())
    }
}

impl Backend for Disk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn BackendReader>> {
        self.files.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn BackendFile>> {
        thread::yield_now();
        Ok(Box::new(DiskFile {
            inner: self.files.create(path)?,
            path: path.to_path_buf(),
            written: Vec::new(),
            synced: self.synced.clone(),
            syncs_left: self.syncs_left.clone(),
        }))
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.files.sync_file(path)
    }

    fn rename(&self, source: &Path, target: &Path) -> io::Result<()> {
        self.files.rename(source, target)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        thread::yield_now();
        self.synced.lock().remove(path);
        self.files.remove(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.files.create_directory(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        thread::yield_now();
        self.files.sync_directory(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.files.list(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.files.exists(path)
    }
}

fn append(log: &Log, text: &str) -> Result<LogPosition> {
    let record = LogRecord::insert(1, [("file", None, text.as_bytes())])?;
    log.append(&[record], |_| true)
}

const LEVELS: [Durability; 3] = [Durability::Full, Durability::Normal, Durability::Off];

/// Threads that commit, each twice; `acknowledged` collects what was acknowledged to
/// them.
fn commit_from_threads(
    log: &Arc<Log>,
    acknowledged: &Arc<Mutex<Vec<(LogPosition, Durability)>>>,
) -> Vec<thread::JoinHandle<Vec<Result<()>>>> {
    let threads = (0..3).map(|number| {
        let (log, acknowledged) = (log.clone(), acknowledged.clone());
        thread::spawn(move || {
            let commit = |index: usize| {
                let position = append(&log, "some words")?;
                let durability = LEVELS[(number * index) % 3];
                log.ensure(position, durability)?;
                acknowledged.lock().push((position, durability));
                Ok(())
            };
            (0..2).map(commit).collect()
        })
    });
    threads.collect()
}

#[test]
fn what_is_acknowledged_is_on_the_disk_with_all_before_it() {
    explore(1_000, || {
        let disk = Disk::new(u32::MAX);
        let log = Arc::new(disk.log());
        // Every second commit begins a file.
        log.set_file_size(150);
        let acknowledged = Arc::default();
        let threads = commit_from_threads(&log, &acknowledged);
        for _ in 0..2 {
            let durable: Vec<LogPosition> = (acknowledged.lock().iter())
                .filter(|(_, durability)| *durability == Durability::Full)
                .map(|(position, _)| *position)
                .collect();
            let left = disk.left();
            assert!(durable.iter().all(|position| left.contains(position)));
            thread::yield_now();
        }
        for thread in threads {
            assert!(thread.join().unwrap().iter().all(|commit| commit.is_ok()));
        }
        drop(log);
        let mut all: Vec<LogPosition> = acknowledged.lock().iter().map(|(at, _)| *at).collect();
        all.sort();
        assert_eq!(disk.left(), all);
    });
}

#[test]
fn after_a_sync_failed_nothing_is_acknowledged_that_is_not_on_the_disk() {
    for syncs in 0..5 {
        explore(200, move || {
            let disk = Disk::new(syncs);
            let log = Arc::new(disk.log());
            log.set_file_size(150);
            let acknowledged = Arc::default();
            let threads = commit_from_threads(&log, &acknowledged);
            let results = threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap());
            let errors: Vec<Error> = results.filter_map(Result::err).collect();
            let failed = errors
                .iter()
                .filter(|error| matches!(error, Error::Io { .. }));
            assert!(
                failed.count() <= 1,
                "one thread gets the failure, the others `Poisoned`"
            );
            if !errors.is_empty() {
                assert!(matches!(append(&log, ""), Err(Error::Poisoned { .. })));
            }
            let left = disk.left();
            let end = log.end();
            if log.ensure(end, Durability::Full).is_ok() {
                assert!(end == LogPosition::START || left.contains(&end));
            }
            for (position, durability) in &*acknowledged.lock() {
                if *durability == Durability::Full {
                    assert!(left.contains(position), "{position:?}");
                }
            }
        });
    }
}

#[test]
fn files_that_are_not_needed_go_in_their_order_while_others_are_written() {
    explore(500, || {
        let disk = Disk::new(u32::MAX);
        let log = Arc::new(disk.log());
        log.set_file_size(150);
        let threads = commit_from_threads(&log, &Arc::default());
        let remover = {
            let (log, disk) = (log.clone(), disk.clone());
            thread::spawn(move || {
                for oldest in 2..5 {
                    log.remove_files(|file| file.number >= oldest).unwrap();
                    disk.left(); // fails if a file between others is missing
                }
            })
        };
        for thread in threads {
            assert!(thread.join().unwrap().iter().all(|commit| commit.is_ok()));
        }
        remover.join().unwrap();
        drop(log);
        disk.left();
    });
}
