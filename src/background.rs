//! Recompression in the background.
//!
//! The invariant: at most one thread recompresses for a database, and it has ended when the database is closed. It works on
//! half of the threads that there are, so that readers keep the others. A recompression that fails is tried again after the
//! next commit; meanwhile edits stay pending, which costs memory and time but nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use parking_lot::{Condvar, Mutex};
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::NoProgress;
use crate::database::Core;
use crate::recompress::{Scope, recompress};

/// A corpus is recompressed when this share of it is pending, if that is more than its threshold.
const PENDING_SHARE: u64 = 20;

/// Writers wait when so many times the threshold is pending.
const PENDING_FACTOR_MAX: u64 = 2;

/// Recompresses corpora of a database.
#[derive(Debug, Default)]
pub(crate) struct Background {
    work: Arc<Work>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the thread shares with those who ask for it.
#[derive(Debug, Default)]
struct Work {
    /// Nobody needs the database any more.
    stop: AtomicBool,
    queue: Mutex<Queue>,
    /// Signalled when a corpus is done.
    done: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    /// The corpora to recompress, by number; the first one is being recompressed.
    corpora: Vec<u64>,
    /// Whether there is a thread that will look at them.
    is_running: bool,
}

impl Background {
    /// Has a corpus recompressed if much of it is pending, and waits for that if it is far too much.
    pub(crate) fn recompress_if_due(&self, core: &Arc<Core>, corpus: u64) {
        let Some(record) = core
            .store
            .corpora()
            .into_iter()
            .find(|record| record.id == corpus)
        else {
            return;
        };
        let pending = core.edits.pending_bytes(corpus);
        let threshold = record.settings.recompress_threshold;
        if pending < threshold {
            return;
        }
        let size = core
            .stored_view(&record.name)
            .map_or(0, |(_, stored)| stored.bytes());
        let threshold = threshold.max(size / PENDING_SHARE);
        if pending < threshold {
            return;
        }
        let mut queue = self.work.queue.lock();
        if !queue.corpora.contains(&corpus) {
            queue.corpora.push(corpus);
            queue.is_running = queue.is_running || self.start(core);
            if !queue.is_running {
                queue.corpora.clear();
            }
        }
        if pending >= threshold.saturating_mul(PENDING_FACTOR_MAX) {
            while queue.corpora.contains(&corpus) {
                self.work.done.wait(&mut queue);
            }
        }
    }

    /// Starts a thread where none runs; `false` if the system refuses.
    fn start(&self, core: &Arc<Core>) -> bool {
        let mut running = self.thread.lock();
        if let Some(earlier) = running.take() {
            // It has nothing left to do but to end.
            let _ = earlier.join();
        }
        let (work, core) = (self.work.clone(), core.clone());
        let thread = thread::Builder::new().name("zipfdb-recompress".into());
        match thread.spawn(move || work.run(&core)) {
            Ok(handle) => {
                *running = Some(handle);
                true
            }
            Err(error) => {
                tracing::warn!("cannot recompress in the background: {error}");
                false
            }
        }
    }
}

impl Work {
    fn run(&self, core: &Core) {
        let pool = half_of(core.pool.current_num_threads());
        loop {
            let corpus = {
                let mut queue = self.queue.lock();
                let Some(&corpus) = queue.corpora.first() else {
                    queue.is_running = false;
                    return;
                };
                corpus
            };
            let _done = Done(self, corpus);
            let records = core.store.corpora().into_iter();
            let record = records.into_iter().find(|record| record.id == corpus);
            if let (Some(record), Some(pool), false) =
                (record, &pool, self.stop.load(Ordering::Relaxed))
            {
                let name = &record.name;
                match recompress(core, pool, name, Scope::Due, &NoProgress, &self.stop) {
                    Ok(_) | Err(crate::Error::Interrupted) => {}
                    Err(error) => tracing::warn!("cannot recompress corpus `{name}`: {error}"),
                }
            }
        }
    }
}

/// Takes a corpus off the queue when its turn is over, also by a panic, so that nobody waits for it.
struct Done<'a>(&'a Work, u64);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue.lock();
        queue.corpora.retain(|&other| other != self.1);
        if thread::panicking() {
            queue.is_running = false;
            queue.corpora.clear();
        }
        self.0.done.notify_all();
    }
}

fn half_of(threads: usize) -> Option<ThreadPool> {
    let pool = ThreadPoolBuilder::new()
        .num_threads((threads / 2).max(1))
        .thread_name(|index| format!("zipfdb-recompress-{index}"))
        .build();
    pool.inspect_err(|error| tracing::warn!("cannot recompress in the background: {error}"))
        .ok()
}

impl Drop for Background {
    fn drop(&mut self) {
        self.work.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.lock().take() {
            // A panic in it has been printed, and left the database as it was.
            let _ = thread.join();
        }
    }
}
