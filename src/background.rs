//! Recompression in the background.
//!
//! The invariant: at most one thread recompresses for a database, and it has ended when the database is closed. It works on
//! half of the threads that there are, so that readers keep the others, and where the system has priorities of threads its own
//! have a low one, so that a reader who wakes up runs at once. A recompression that fails is tried again after the
//! next commit; meanwhile edits stay pending, which costs memory and time but nothing else.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::{self, JoinHandle};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::NoProgress;
use crate::database::Core;
use crate::interrupt::check;
use crate::recompress::{Scope, recompress};
use crate::sync;
use crate::sync::Mutex;

mod queue;

use queue::Queue;

/// A corpus is recompressed when this share of it is pending, if that is more than its threshold.
const PENDING_SHARE: u64 = 20;

/// Writers wait when so many times the threshold is pending.
const PENDING_FACTOR_MAX: u64 = 2;

/// Recompresses corpora of a database.
#[derive(Debug, Default)]
pub(crate) struct Background {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
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
        self.queue.add(corpus, || self.start(core));
        if pending >= threshold.saturating_mul(PENDING_FACTOR_MAX) {
            self.queue.wait(corpus);
        }
    }

    /// Ends the recompression of a corpus that was dropped.
    pub(crate) fn cancel(&self, corpus: u64) {
        self.queue.cancel(corpus);
    }

    /// Starts a thread where none runs; `false` if the system refuses.
    fn start(&self, core: &Arc<Core>) -> bool {
        let mut running = self.thread.lock();
        if let Some(earlier) = running.take() {
            // It has nothing left to do but to end.
            let _ = earlier.join();
        }
        let (queue, core) = (self.queue.clone(), core.clone());
        let thread = thread::Builder::new().name("zipfdb-recompress".into());
        match thread.spawn(move || run(&queue, &core)) {
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

fn run(queue: &Queue, core: &Core) {
    let pool = half_of(core.pool.current_num_threads());
    queue.run(|corpus, stop| {
        if let Some(pool) = &pool {
            recompress_due(core, pool, corpus, stop);
        }
    });
}

/// Recompresses what is due of a corpus, if it is still there.
fn recompress_due(core: &Core, pool: &ThreadPool, corpus: u64, stop: &AtomicBool) {
    let mut records = core.store.corpora().into_iter();
    let Some(record) = records.find(|record| record.id == corpus) else {
        return;
    };
    let name = &record.name;
    let go_on = || check(stop);
    match recompress(core, pool, name, Scope::Due, &NoProgress, stop, &go_on) {
        Ok(_) | Err(crate::Error::Interrupted) => {}
        Err(error) => tracing::warn!("cannot recompress corpus `{name}`: {error}"),
    }
}

fn half_of(threads: usize) -> Option<ThreadPool> {
    let pool = ThreadPoolBuilder::new()
        .num_threads((threads / 2).max(1))
        .thread_name(|index| format!("zipfdb-recompress-{index}"))
        .start_handler(|_| give_way())
        .build();
    pool.inspect_err(|error| tracing::warn!("cannot recompress in the background: {error}"))
        .ok()
}

/// How much less of a processor a thread gets than others that want it: a tenth.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// Lets threads of others go first, from now on.
fn give_way() {
    #[cfg(target_os = "linux")]
    {
        use rustix::{process::setpriority_process, thread::gettid};
        // Linux tells threads apart here. What a system refuses costs readers some milliseconds.
        if let Err(error) = setpriority_process(Some(gettid()), NICENESS) {
            tracing::debug!("recompression keeps its priority: {error}");
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.lock().take() {
            // A panic in it has been printed, and left the database as it was.
            let _ = thread.join();
        }
    }
}
