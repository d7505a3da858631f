//! What threads of a database wait for, under shuttle: in whatever order they run, nobody waits for ever, nobody is overtaken,
//! and readers see what is durable and nothing less than what was acknowledged.
//!
//! The invariant: the code under test is that of the database, but its locks let a seed choose who goes on. Log, disk and
//! segments are the simplest things that can stand in their place.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use shuttle::thread;
use zipfdb_storage::{Durability, LogPosition};
use zipfdb_test_support::locks::explore;

use crate::maintain::background::queue::Queue;
use crate::overlay::edits::{Base, CorpusCommit, Edits};
use crate::overlay::{EditBatch, FileState, Insertion, Overlay, StoredFiles};
use crate::runtime::sync::{AtomicBool, Mutex, Ordering};
use crate::runtime::turns::Turns;
use crate::{Error, Result};

#[test]
fn turns_come_one_at_a_time_in_order_and_also_after_one_who_gave_up() {
    explore(2_000, || {
        let turns = Turns::default();
        let is_taken = Arc::new(AtomicBool::new(false));
        let served = Arc::new(Mutex::new(0));
        let threads: Vec<_> = (0..4)
            .map(|number| {
                let (turns, is_taken, served) = (turns.clone(), is_taken.clone(), served.clone());
                thread::spawn(move || {
                    for _ in 0..2 {
                        let mut patience = number;
                        let go_on = || match patience {
                            0 if number > 0 => Err(()),
                            _ => {
                                patience -= 1.min(patience);
                                Ok(())
                            }
                        };
                        if let Ok(_turn) = turns.wait_while(go_on) {
                            assert!(!is_taken.swap(true, Ordering::SeqCst));
                            thread::yield_now();
                            *served.lock() += 1;
                            is_taken.store(false, Ordering::SeqCst);
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(
            *served.lock() >= 2,
            "who has no reason to give up is served"
        );
        drop(turns.wait());
    });
}

#[test]
fn nobody_overtakes_who_waits_longer() {
    explore(2_000, || {
        let turns = Turns::default();
        let first = turns.wait();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut threads = Vec::new();
        for number in 0..3 {
            let (line, order) = (turns.clone(), order.clone());
            threads.push(thread::spawn(move || {
                let _turn = line.wait();
                order.lock().push(number);
            }));
            while turns.waiting() <= number {
                thread::yield_now();
            }
        }
        drop(first);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(*order.lock(), [0, 1, 2]);
    });
}

/// A queue with the thread that works on it.
#[derive(Default)]
struct Worker {
    queue: Arc<Queue>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
    /// How often each corpus was worked on.
    done: Arc<Mutex<BTreeMap<u64, u32>>>,
    /// What fails the next time.
    refused: Arc<Mutex<BTreeSet<u64>>>,
}

impl Worker {
    /// As `Background` does it.
    fn add(&self, corpus: u64) {
        self.queue.add(corpus, || {
            let mut running = self.thread.lock();
            if let Some(earlier) = running.take() {
                earlier.join().unwrap();
            }
            let (queue, done) = (self.queue.clone(), self.done.clone());
            let refused = self.refused.clone();
            *running = Some(thread::spawn(move || {
                queue.run(|corpus, stop| {
                    for _ in 0..3 {
                        thread::yield_now();
                        if stop.load(Ordering::SeqCst) {
                            return None;
                        }
                    }
                    if refused.lock().remove(&corpus) {
                        return Some(Duration::ZERO);
                    }
                    *done.lock().entry(corpus).or_default() += 1;
                    None
                });
            }));
            true
        });
    }

    fn close(&self) {
        self.queue.close();
        if let Some(thread) = self.thread.lock().take() {
            thread.join().unwrap();
        }
    }
}

#[test]
fn whoever_waits_for_queued_work_finds_it_done() {
    explore(2_000, || {
        let worker = Arc::new(Worker::default());
        let threads: Vec<_> = (0..3)
            .map(|number| {
                let worker = worker.clone();
                thread::spawn(move || {
                    for corpus in [number % 2, 2] {
                        worker.add(corpus);
                        let Ok(()) = worker.queue.wait(corpus, || Ok::<(), Infallible>(()));
                        assert!(worker.done.lock().contains_key(&corpus));
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        worker.close();
    });
}

#[test]
fn nobody_waits_for_work_that_is_cancelled_or_whose_database_is_closed() {
    explore(2_000, || {
        let worker = Arc::new(Worker::default());
        let threads: Vec<_> = (0..2)
            .map(|number| {
                let worker = worker.clone();
                thread::spawn(move || {
                    for corpus in [number, 2] {
                        worker.add(corpus);
                        worker.queue.cancel(2);
                        let Ok(()) = worker.queue.wait(corpus, || Ok::<(), Infallible>(()));
                    }
                })
            })
            .collect();
        worker.close();
        for thread in threads {
            thread.join().unwrap();
        }
        worker.close();
    });
}

#[test]
fn work_that_fails_is_tried_again_without_being_asked_and_nobody_waits_for_it() {
    explore(2_000, || {
        let worker = Arc::new(Worker::default());
        worker.refused.lock().extend([0, 1]);
        let threads: Vec<_> = (0..2)
            .map(|number| {
                let worker = worker.clone();
                thread::spawn(move || {
                    worker.add(number);
                    let Ok(()) = worker.queue.wait(number, || Ok::<(), Infallible>(()));
                    while !worker.done.lock().contains_key(&number) {
                        thread::yield_now();
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        worker.close();
    });
}

#[test]
fn who_waits_may_give_up_and_a_close_ends_what_is_to_be_tried_again() {
    explore(2_000, || {
        let worker = Arc::new(Worker::default());
        worker.refused.lock().insert(0);
        let waiting = {
            let worker = worker.clone();
            thread::spawn(move || {
                worker.add(0);
                let mut patience = 2;
                let go_on = || match patience {
                    0 => Err(()),
                    _ => {
                        patience -= 1;
                        Ok(())
                    }
                };
                let _gave_up = worker.queue.wait(0, go_on);
            })
        };
        worker.close();
        waiting.join().unwrap();
        worker.close();
    });
}

/// A log without bytes: the commits that were appended, and how many of them the disk has.
#[derive(Default)]
struct Commits {
    appended: Mutex<Vec<Durability>>,
    durable: Mutex<u64>,
}

impl Commits {
    fn append(&self, durability: Durability) -> LogPosition {
        self.appended.lock().push(durability);
        self.end()
    }

    fn end(&self) -> LogPosition {
        at(self.appended.lock().len() as u64)
    }

    fn sync(&self) {
        let end = self.end().offset;
        thread::yield_now();
        let mut durable = self.durable.lock();
        *durable = end.max(*durable);
    }

    /// Makes commits up to a position durable, of which only full ones ask for it.
    fn ensure(&self, position: LogPosition, durability: Durability) {
        if durability == Durability::Full && *self.durable.lock() < position.offset {
            self.sync();
        }
    }

    /// Whether the first commits, so many, are as durable as was asked.
    fn is_durable(&self, commits: u64) -> bool {
        let appended = self.appended.lock();
        let full = (appended[..commits as usize].iter()).rposition(|it| *it == Durability::Full);
        full.is_none_or(|last| (last as u64) < *self.durable.lock())
    }
}

fn at(offset: u64) -> LogPosition {
    LogPosition { file: 1, offset }
}

/// A corpus of one file: the number of its segment, and how many bytes of the file that has.
#[derive(Clone, Copy)]
struct Segment {
    id: u64,
    bytes: u64,
}

impl StoredFiles for Segment {
    fn bytes(&self, _file: &str) -> Option<u64> {
        Some(self.bytes)
    }

    fn no_such_file(&self, _file: &str) -> Error {
        Error::Interrupted
    }
}

/// The bytes of the file; each commit adds one.
fn bytes(segment: Segment, overlay: &Overlay) -> u64 {
    match overlay.file("f") {
        None => segment.bytes,
        Some(FileState::Edited(file)) => file.pieces.bytes(),
        Some(FileState::Deleted) => 0,
    }
}

struct Database {
    writing: Turns,
    edits: Edits,
    log: Commits,
    live: Mutex<Segment>,
}

const CORPUS: u64 = 7;

impl Database {
    fn tip(&self) -> (Segment, Overlay) {
        let live = *self.live.lock();
        let tip = self.edits.tip(CORPUS);
        (live, tip.unwrap_or_else(|| Overlay::new([live.id].into())))
    }

    /// As `Transaction::commit`.
    fn commit(&self, durability: Durability) -> Result<()> {
        let turn = self.writing.wait();
        let (live, mut overlay) = self.tip();
        let batch = EditBatch::Insert(vec![Insertion {
            file: "f".into(),
            offset: None,
            text: "x".into(),
        }]);
        overlay.apply(&batch, &live, &mut || Ok(()))?;
        let commit = CorpusCommit {
            corpus: CORPUS,
            overlay,
            batches: vec![Arc::new(batch)],
        };
        let append = || Ok(self.log.append(durability));
        let ensure = |position, durability| {
            self.log.ensure(position, durability);
            Ok(())
        };
        (self.edits).commit(turn, vec![commit], durability, append, ensure)
    }

    /// As `recompress::recompress`.
    fn recompress(&self) -> Result<()> {
        let (live, overlay, merged) = {
            let _turn = self.writing.wait();
            let (live, overlay) = self.tip();
            (live, overlay, self.log.end())
        };
        thread::yield_now();
        let new = Segment {
            id: live.id + 1,
            bytes: bytes(live, &overlay),
        };
        let turn = self.writing.wait();
        let base = Base {
            segments: [new.id].into(),
            files: &new,
            go_on: &|| Ok(()),
        };
        (self.edits).rebase(&turn, CORPUS, merged, base, || {
            self.log.sync();
            *self.live.lock() = new;
            Ok(self.log.end())
        })
    }

    /// As `Corpus::snapshot`.
    fn snapshot(&self) -> u64 {
        loop {
            let overlay = self.edits.visible(CORPUS);
            let live = *self.live.lock();
            if overlay.rests_on(&[live.id]) {
                return bytes(live, &overlay);
            }
            thread::yield_now();
        }
    }
}

#[test]
fn readers_see_all_that_was_acknowledged_and_nothing_that_is_not_durable() {
    explore(2_000, || {
        let database = Arc::new(Database {
            writing: Turns::default(),
            edits: Edits::default(),
            log: Commits::default(),
            live: Mutex::new(Segment { id: 1, bytes: 0 }),
        });
        let acknowledged = Arc::new(Mutex::new(0));
        let mut threads = Vec::new();
        for _ in 0..3 {
            let (database, acknowledged) = (database.clone(), acknowledged.clone());
            threads.push(thread::spawn(move || {
                for durability in [Durability::Full, Durability::Off] {
                    database.commit(durability).unwrap();
                    *acknowledged.lock() += 1;
                }
            }));
        }
        threads.push({
            let database = database.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    database.recompress().unwrap();
                }
            })
        });
        let mut last = 0;
        for _ in 0..4 {
            let least = *acknowledged.lock();
            let seen = database.snapshot();
            assert!(seen >= least, "{seen} of {least}");
            assert!(seen >= last, "{seen} after {last}");
            assert!(database.log.is_durable(seen), "{seen}");
            last = seen;
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(database.snapshot(), 6);
    });
}
