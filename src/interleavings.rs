//! Locks and queues of a database under shuttle: in any order of threads, no thread waits for ever or is overtaken, and readers
//! see what is durable and nothing less than what was acknowledged.
//!
//! The invariant: the code under test is that of the database, but a seed chooses the thread that runs next at each lock. Log,
//! disk and segments are the simplest substitutes.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use shuttle::thread;
use zipfdb_storage::{Durability, LogPosition};
use zipfdb_test_support::locks::explore;

use crate::maintain::background::queue::Queue;
use crate::overlay::edits::{Base, CorpusCommit, Edits};
use crate::overlay::{EditBatch, FileState, Insertion, Overlay, StoredFiles};
use crate::runtime::fair_mutex::FairMutex;
use crate::runtime::sync::{AtomicBool, Mutex, Ordering};
use crate::{Error, Result};

#[test]
fn turns_come_one_at_a_time_in_order_and_also_after_one_that_gave_up() {
    explore(2_000, || {
        let turns = FairMutex::default();
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
            "a waiter that does not give up gets the lock"
        );
        drop(turns.wait());
    });
}

#[test]
fn no_thread_overtakes_one_that_waits_longer() {
    explore(2_000, || {
        let turns = FairMutex::default();
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
    /// The number of times that each corpus was worked on.
    done: Arc<Mutex<BTreeMap<u64, u32>>>,
    /// The corpora whose next recompression fails.
    refused: Arc<Mutex<BTreeSet<u64>>>,
    /// The amount of work to do, and the amount when the last finished work began.
    wanted: Arc<Mutex<u32>>,
    reached: Arc<Mutex<u32>>,
}

impl Worker {
    /// As `Background` does it.
    fn add(&self, corpus: u64) {
        self.queue.add(corpus, || self.start());
    }

    fn add_at(&self, corpus: u64, due: Instant) {
        self.queue.add_at(corpus, due, || self.start());
    }

    fn start(&self) -> bool {
        let mut running = self.thread.lock();
        if let Some(earlier) = running.take() {
            earlier.join().unwrap();
        }
        let (queue, done) = (self.queue.clone(), self.done.clone());
        let refused = self.refused.clone();
        let (wanted, reached) = (self.wanted.clone(), self.reached.clone());
        *running = Some(thread::spawn(move || {
            queue.run(|corpus, stop| {
                let wanted = *wanted.lock();
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
                *reached.lock() = wanted;
                None
            });
        }));
        true
    }

    fn close(&self) {
        self.queue.close();
        if let Some(thread) = self.thread.lock().take() {
            thread.join().unwrap();
        }
    }
}

/// Runs `work` on `count` threads, each with its number, and waits for them.
fn on_threads(worker: &Arc<Worker>, count: u64, work: fn(&Worker, u64)) {
    let threads: Vec<_> = (0..count)
        .map(|number| {
            let worker = worker.clone();
            thread::spawn(move || work(&worker, number))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_thread_that_waits_for_queued_work_finds_it_done() {
    explore(2_000, || {
        let worker = Arc::new(Worker::default());
        on_threads(&worker, 3, |worker, number| {
            for corpus in [number % 2, 2] {
                worker.add(corpus);
                let Ok(()) = worker.queue.wait(corpus, || Ok::<_, Infallible>(true));
                assert!(worker.done.lock().contains_key(&corpus));
            }
        });
        worker.close();
    });
}

#[test]
fn work_that_is_asked_for_while_it_is_done_is_done_once_more() {
    explore(2_000, || {
        let worker = Arc::new(Worker::default());
        on_threads(&worker, 2, |worker, _| {
            *worker.wanted.lock() += 1;
            worker.add(0);
        });
        while !worker.queue.rest() {
            thread::yield_now();
        }
        assert_eq!(*worker.reached.lock(), 2);
        worker.close();
    });
}

#[test]
fn no_thread_waits_for_work_that_is_cancelled_or_whose_database_is_closed() {
    explore(2_000, || {
        let worker = Arc::new(Worker::default());
        let threads: Vec<_> = (0..2)
            .map(|number| {
                let worker = worker.clone();
                thread::spawn(move || {
                    for corpus in [number, 2] {
                        worker.add(corpus);
                        worker.queue.cancel(2);
                        let Ok(()) = worker.queue.wait(corpus, || Ok::<_, Infallible>(true));
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
fn work_that_fails_is_tried_again_without_being_asked_and_no_thread_waits_for_it() {
    explore(2_000, || {
        let worker = Arc::new(Worker::default());
        worker.refused.lock().extend([0, 1]);
        on_threads(&worker, 2, |worker, number| {
            worker.add(number);
            let Ok(()) = worker.queue.wait(number, || Ok::<_, Infallible>(true));
            while !worker.done.lock().contains_key(&number) {
                thread::yield_now();
            }
        });
        worker.close();
    });
}

#[test]
fn what_is_timed_is_worked_on_or_forgotten_by_a_rest_or_a_close() {
    const LONG: Duration = Duration::from_secs(3600);
    explore(2_000, || {
        let worker = Arc::new(Worker::default());
        let now = Instant::now();
        let timing = {
            let worker = worker.clone();
            thread::spawn(move || {
                worker.add_at(0, now + LONG);
                worker.add_at(1, now + LONG);
                worker.add_at(1, now);
                while !worker.done.lock().contains_key(&1) {
                    thread::yield_now();
                }
            })
        };
        worker.add(2);
        let Ok(()) = worker.queue.wait(2, || Ok::<_, Infallible>(true));
        timing.join().unwrap();
        // Only the timer is left.
        while !worker.queue.rest() {
            thread::yield_now();
        }
        assert!(!worker.done.lock().contains_key(&0));
        worker.add_at(0, now + LONG);
        worker.close();
        worker.add_at(0, now);
        assert!(worker.queue.rest());
    });
}

#[test]
fn a_waiting_thread_may_give_up_and_a_close_ends_what_is_to_be_tried_again() {
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
                        Ok(true)
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

/// A log without bytes: the number of commits appended, handed to the system, and on disk.
struct Commits {
    appended: Mutex<Vec<Durability>>,
    written: Mutex<u64>,
    durable: Mutex<u64>,
    /// The number of writes and syncs that still succeed. The first failure ends all later ones.
    left: Mutex<u32>,
}

impl Commits {
    /// A log of which `left` writes and syncs succeed.
    fn new(left: u32) -> Commits {
        Commits {
            appended: Mutex::default(),
            written: Mutex::default(),
            durable: Mutex::default(),
            left: Mutex::new(left),
        }
    }

    /// As `Store::append`: refused after a failure.
    fn append(&self, durability: Durability) -> Result<LogPosition> {
        if *self.left.lock() == 0 {
            return Err(Error::Interrupted);
        }
        self.appended.lock().push(durability);
        Ok(self.end())
    }

    fn end(&self) -> LogPosition {
        at(self.appended.lock().len() as u64)
    }

    /// Writes all that was appended, and syncs it if asked. Other threads may append meanwhile.
    fn write(&self, sync: bool) -> Result<()> {
        let end = self.end().offset;
        thread::yield_now();
        {
            let mut left = self.left.lock();
            *left = left.saturating_sub(1);
            if *left == 0 {
                return Err(Error::Interrupted);
            }
        }
        for state in [Some(&self.written), sync.then_some(&self.durable)]
            .into_iter()
            .flatten()
        {
            let mut state = state.lock();
            *state = end.max(*state);
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.write(true)
    }

    /// As `Store::ensure_durable`.
    fn ensure(&self, position: LogPosition, durability: Durability) -> Result<()> {
        let is_sync = durability == Durability::Full;
        let state = if is_sync {
            &self.durable
        } else {
            &self.written
        };
        if durability == Durability::Off || *state.lock() >= position.offset {
            return Ok(());
        }
        self.write(is_sync)
    }

    /// Whether the first `commits` commits are as durable as was asked.
    fn is_durable(&self, commits: u64) -> bool {
        let appended = self.appended.lock();
        let last = |asked: Durability| {
            (appended[..commits as usize].iter()).rposition(|durability| *durability == asked)
        };
        let is_in = |asked: Option<usize>, state: &Mutex<u64>| {
            asked.is_none_or(|last| (last as u64) < *state.lock())
        };
        is_in(last(Durability::Full), &self.durable)
            && is_in(last(Durability::Normal), &self.written)
    }
}

fn at(offset: u64) -> LogPosition {
    LogPosition { file: 1, offset }
}

/// A corpus of one file: the number of its segment, and the bytes of the file in it.
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
    writing: FairMutex,
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
        let append = || self.log.append(durability);
        let ensure = |position, durability| self.log.ensure(position, durability);
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
        (self.edits).rebase(&turn, CORPUS, merged, base, self.log.end(), |swap| {
            self.log.sync()?;
            swap(&mut || *self.live.lock() = new);
            // The files of the old segments are removed here.
            thread::yield_now();
            Ok(())
        })
    }

    /// As `Corpus::snapshot`: it never waits.
    fn snapshot(&self) -> u64 {
        let (overlay, live) = self.edits.visible_with(CORPUS, || *self.live.lock());
        assert!(overlay.rests_on(&[live.id]));
        bytes(live, &overlay)
    }
}

#[test]
fn readers_see_all_that_was_acknowledged_and_nothing_that_is_not_durable() {
    explore(2_000, || {
        let database = Arc::new(Database {
            writing: FairMutex::default(),
            edits: Edits::default(),
            log: Commits::new(u32::MAX),
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

#[test]
fn commits_whose_sync_fails_are_seen_by_no_reader_nor_are_those_of_less_durability_behind_them() {
    for left in 1..8 {
        explore(400, move || {
            let database = Arc::new(Database {
                writing: FairMutex::default(),
                edits: Edits::default(),
                log: Commits::new(left),
                live: Mutex::new(Segment { id: 1, bytes: 0 }),
            });
            let acknowledged = Arc::new(Mutex::new(0));
            let mut threads = Vec::new();
            let of_threads = [
                [Durability::Full, Durability::Off],
                [Durability::Normal, Durability::Full],
                [Durability::Off, Durability::Normal],
            ];
            for durabilities in of_threads {
                let (database, acknowledged) = (database.clone(), acknowledged.clone());
                threads.push(thread::spawn(move || {
                    for durability in durabilities {
                        if database.commit(durability).is_ok() {
                            *acknowledged.lock() += 1;
                        }
                    }
                }));
            }
            threads.push({
                let database = database.clone();
                thread::spawn(move || {
                    // A failure is like that of a commit, and changes nothing.
                    let _ = database.recompress();
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
            let seen = database.snapshot();
            assert!(database.log.is_durable(seen), "{seen} in the end");
            assert!(seen >= *acknowledged.lock(), "{seen} in the end");
        });
    }
}
