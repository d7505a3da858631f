//! Recompression in the background.
//!
//! The invariant: at most one thread recompresses for a database, and it has ended when the database is closed. It uses half of
//! the threads, or `recompress_threads` of them, and leaves the rest to readers; where threads have priorities its own run at a
//! low one, so that a reader that wakes up runs at once. A failed recompression is tried again after longer and longer waits;
//! meanwhile edits stay pending, up to a limit beyond which text is refused.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuilder};
use zipfdb_storage::{CorpusRecord, IoReason, Segment, SegmentForm};

use crate::engine::core::Core;
use crate::error::{no_threads, with_causes};
use crate::ingest::NoProgress;
use crate::maintain::indexes::{complete_indexes, missing_indexes};
use crate::maintain::ingest::segment_form;
use crate::maintain::recompress::{Scope, recompress};
use crate::maintain::throttle::Throttle;
use crate::overlay::Overlay;
use crate::runtime::interrupt::{Interrupt, check};
use crate::runtime::sync::Mutex;
use crate::{Error, Result};

pub(crate) mod queue;

use queue::Queue;

/// A corpus is recompressed when 1/`PENDING_SHARE` of it is pending, if that is more than its threshold.
const PENDING_SHARE: u64 = 20;

/// Writers wait from this multiple of the threshold on.
const PENDING_FACTOR_MAX: u64 = 2;

/// From this multiple of the threshold on no text is taken: writers wait for the lock, and are refused while recompression fails.
const PENDING_FACTOR_HELD: u64 = 4;

/// Recompresses corpora of a database.
#[derive(Debug, Default)]
pub(crate) struct Background {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Background {
    /// Queues a corpus that is due, and sets the timer of one that is not. From `PENDING_FACTOR_MAX` thresholds on, waits for the
    /// recompression or until `interrupt` ends the wait.
    pub(crate) fn recompress_if_due(&self, core: &Arc<Core>, corpus: u64, interrupt: &Interrupt) {
        let Some(record) = core
            .store
            .corpora()
            .into_iter()
            .find(|record| record.id == corpus)
        else {
            return;
        };
        if !is_wanted(core) {
            return;
        }
        if !is_due(core, &record) {
            return self.set_timer(core, &record);
        }
        let pending_min = threshold(core, &record).saturating_mul(PENDING_FACTOR_MAX);
        self.queue.add(corpus, || self.start(core, &record));
        // The commit is done: a statement whose time is up during this wait has succeeded.
        drop(self.wait(core, corpus, pending_min, interrupt));
    }

    /// Waits while a corpus is queued and has at least `pending_min` bytes pending.
    ///
    /// # Errors
    /// That of `interrupt`.
    fn wait(
        &self,
        core: &Core,
        corpus: u64,
        pending_min: u64,
        interrupt: &Interrupt,
    ) -> Result<()> {
        self.queue.wait(corpus, || {
            interrupt.check()?;
            Ok(core.edits.pending_bytes(corpus) >= pending_min)
        })
    }

    /// Sets a timer to merge the pending changes of a corpus at the age of `recompress_interval`, if there are some.
    fn set_timer(&self, core: &Arc<Core>, record: &CorpusRecord) {
        if let Some(due) = becomes_old(core, record.id) {
            let start = || self.start(core, record);
            self.queue.add_at(record.id, due, start);
        }
    }

    /// Sets the timers of all corpora anew, after a change of the settings.
    pub(crate) fn set_timers(&self, core: &Arc<Core>) {
        if is_wanted(core) && !core.store.is_read_only() {
            for record in core.store.corpora() {
                self.set_timer(core, &record);
            }
        }
    }

    /// Queues a corpus with packed text, to make grammars of it.
    pub(crate) fn recompress_packed(&self, core: &Arc<Core>, record: &CorpusRecord) {
        if is_wanted(core) && has_packed(core, record) {
            self.queue.add(record.id, || self.start(core, record));
        }
    }

    /// Resumes what was left when the database was closed: recompressions that are due, and indexes that lack files.
    pub(crate) fn resume(&self, core: &Arc<Core>) {
        for record in core.store.corpora() {
            // Damage is reported when the index is used.
            let lacks_files = || {
                missing_indexes(core, &record.name, false).is_ok_and(|missing| !missing.is_empty())
            };
            if is_due(core, &record) || lacks_files() {
                self.queue.add(record.id, || self.start(core, &record));
            }
        }
    }

    /// Waits while a corpus has more than `PENDING_FACTOR_HELD` thresholds pending and is queued.
    ///
    /// # Errors
    /// That of `interrupt`.
    pub(crate) fn hold(
        &self,
        core: &Core,
        record: &CorpusRecord,
        interrupt: &Interrupt,
    ) -> Result<()> {
        if !is_held(core, record, core.edits.pending_bytes(record.id)) {
            return Ok(());
        }
        let pending_min = threshold(core, record).saturating_mul(PENDING_FACTOR_HELD);
        self.wait(core, record.id, pending_min, interrupt)
    }

    /// Refuses text for a corpus if recompressing it fails and `overlay` has more pending than the limit for memory.
    ///
    /// # Errors
    /// `Held`.
    pub(crate) fn refuse_if_held(
        &self,
        core: &Arc<Core>,
        record: &CorpusRecord,
        overlay: &Overlay,
    ) -> Result<()> {
        let Some(reason) = core.failures.reason(record.id) else {
            return Ok(());
        };
        let pending = overlay.pending_bytes();
        if !is_held(core, record, pending) {
            return Ok(());
        }
        // Without a running thread the failed recompression would not be tried again.
        self.queue.add(record.id, || self.start(core, record));
        Err(Error::Held {
            corpus: record.name.clone(),
            pending,
            reason,
        })
    }

    /// Whether no recompression runs or waits to be tried again. If so, timers of pending changes are dropped.
    pub(crate) fn rest(&self) -> bool {
        self.queue.rest()
    }

    /// Ends the attempts on a corpus that was recompressed by another caller.
    pub(crate) fn recompressed(&self, core: &Core, corpus: u64) {
        core.failures.clear(corpus);
        self.queue.forget(corpus);
    }

    /// Ends the recompression of a corpus that was dropped.
    pub(crate) fn cancel(&self, corpus: u64) {
        self.queue.cancel(corpus);
    }

    /// Starts a thread if none runs; `false` if the system refuses.
    fn start(&self, core: &Arc<Core>, record: &CorpusRecord) -> bool {
        let mut running = self.thread.lock();
        if let Some(earlier) = running.take() {
            // The earlier thread only has to end.
            let _ = earlier.join();
        }
        let (queue, shared) = (self.queue.clone(), core.clone());
        let thread = thread::Builder::new().name("zipfdb-recompress".into());
        match thread.spawn(move || run(&queue, &shared)) {
            Ok(handle) => {
                *running = Some(handle);
                true
            }
            Err(error) => {
                let reason = format!("cannot start a thread: {}", IoReason(&error));
                core.failures.add(record.id, &record.name, reason);
                false
            }
        }
    }
}

/// Whether pending edits of a corpus are packed before they become a grammar.
fn is_packed_first(core: &Core, record: &CorpusRecord) -> bool {
    let pending = core.edits.pending_bytes(record.id);
    pending >= record.settings.recompress_threshold
        && segment_form(record.settings.ingest, pending) == SegmentForm::Text
}

/// The bytes of pending edits from which on a corpus is recompressed.
fn threshold(core: &Core, record: &CorpusRecord) -> u64 {
    let size = core
        .stored_view(&record.name)
        .map_or(0, |(_, stored)| stored.bytes());
    let threshold = record.settings.recompress_threshold;
    threshold.max(size / PENDING_SHARE)
}

/// Whether a recompression is due: enough is pending, or for long enough, or some of the corpus is packed text.
fn is_due(core: &Core, record: &CorpusRecord) -> bool {
    let pending = core.edits.pending_bytes(record.id);
    let is_much =
        pending >= record.settings.recompress_threshold && pending >= threshold(core, record);
    let is_old = || becomes_old(core, record.id).is_some_and(|due| due <= Instant::now());
    is_much || is_old() || has_packed(core, record)
}

/// The time when the oldest pending change of a corpus reaches the age of `recompress_interval`; none if it never does.
fn becomes_old(core: &Core, corpus: u64) -> Option<Instant> {
    match core.runtime.settings.lock().recompress_interval {
        0 => None,
        interval => Some(core.edits.pending_since(corpus)? + Duration::from_millis(interval)),
    }
}

/// Whether some of a corpus is packed text. Reads the headers of segments, and no file table.
fn has_packed(core: &Core, record: &CorpusRecord) -> bool {
    let is_packed = |segment: &Arc<Segment>| segment.info().form == SegmentForm::Text;
    let opened = core.store.open_corpus(&record.name);
    opened.is_ok_and(|(_, segments)| segments.iter().any(is_packed))
}

/// Whether a corpus with `pending` bytes of pending edits takes no text.
fn is_held(core: &Core, record: &CorpusRecord, pending: u64) -> bool {
    let is_held = |threshold: u64| pending >= threshold.saturating_mul(PENDING_FACTOR_HELD);
    is_held(record.settings.recompress_threshold) && is_held(threshold(core, record))
}

fn run(queue: &Queue, core: &Core) {
    let mut pool = None;
    queue.run(|corpus, stop| {
        let mut records = core.store.corpora().into_iter();
        let record = records.find(|record| record.id == corpus)?;
        let done = recompress_due(core, &mut pool, &record, stop);
        match done {
            Ok(()) => {
                core.failures.clear(corpus);
                // A timer for the edits that were committed meanwhile.
                if let Some(due) = becomes_old(core, corpus) {
                    queue.add_at(corpus, due, || false);
                }
            }
            Err(Error::Interrupted) => {}
            Err(error) => {
                return Some((core.failures).add(corpus, &record.name, with_causes(&error)));
            }
        }
        None
    });
}

/// Recompresses a corpus if that is due and builds its missing indexes, in a pool that is started at first use.
fn recompress_due(
    core: &Core,
    pool: &mut Option<ThreadPool>,
    record: &CorpusRecord,
    stop: &AtomicBool,
) -> Result<()> {
    let name = &record.name;
    let threads = match core.runtime.settings.lock().recompress_threads {
        Some(threads) => usize::try_from(threads).unwrap_or(usize::MAX),
        None => core.runtime.pool.current_num_threads() / 2,
    };
    let threads = threads.max(1);
    let pool = match pool {
        Some(pool) if pool.current_num_threads() == threads => pool,
        _ => pool.insert(low_pool(threads)?),
    };
    // If no recompression is due, an index lacks files.
    if is_due(core, record) {
        let throttle = Throttle::new(core.runtime.settings.lock().recompress_rate, stop);
        let go_on = || check(stop);
        let recompress = |scope| recompress(core, pool, name, scope, &throttle, stop, &go_on);
        if is_packed_first(core, record) {
            recompress(Scope::Packed)?;
        }
        recompress(Scope::Due)?;
    }
    complete_indexes(core, pool, name, &NoProgress, stop);
    Ok(())
}

/// Whether the settings allow recompression in the background.
fn is_wanted(core: &Core) -> bool {
    core.runtime.settings.lock().recompress_threads != Some(0)
}

/// A pool of threads with low priority.
fn low_pool(threads: usize) -> Result<ThreadPool> {
    let pool = ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|index| format!("zipfdb-recompress-{index}"))
        .start_handler(|_| give_way())
        .build();
    pool.map_err(no_threads)
}

/// The nice value of those threads: they get about a tenth of a processor that others want too.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// Lowers the priority of this thread.
fn give_way() {
    #[cfg(target_os = "linux")]
    {
        use rustix::{process::setpriority_process, thread::gettid};
        // Linux sets priorities by thread. A refusal costs readers some milliseconds.
        if let Err(error) = setpriority_process(Some(gettid()), NICENESS) {
            tracing::debug!("recompression keeps its priority: {error}");
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.lock().take() {
            // The panic was printed, and left the database as it was.
            let _ = thread.join();
        }
    }
}
