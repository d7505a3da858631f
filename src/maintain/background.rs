//! Recompression in the background.
//!
//! The invariant: at most one thread recompresses for a database, and it has ended when the database is closed. It works on
//! half of the threads that there are, or as many as `recompress_threads` says, so that readers keep the others, and where the system has priorities of threads its own
//! have a low one, so that a reader who wakes up runs at once. A recompression that fails is tried again by itself, after
//! longer and longer times; meanwhile edits stay pending, up to a limit beyond which text is refused.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuilder};
use zipfdb_storage::{CorpusRecord, IoReason, Segment, SegmentForm};

use crate::engine::core::Core;
use crate::error::{no_threads, with_causes};
use crate::maintain::indexes::{complete_indexes, missing_indexes};
use crate::maintain::ingest::segment_form;
use crate::maintain::recompress::{Scope, recompress};
use crate::maintain::throttle::Throttle;
use crate::overlay::Overlay;
use crate::runtime::interrupt::{Interrupt, check};
use crate::runtime::sync::Mutex;
use crate::{Error, NoProgress, Result};

pub(crate) mod queue;

use queue::Queue;

/// A corpus is recompressed when this share of it is pending, if that is more than its threshold.
const PENDING_SHARE: u64 = 20;

/// Writers wait when so many times the threshold is pending.
const PENDING_FACTOR_MAX: u64 = 2;

/// No text is taken when so many times the threshold is pending: writers wait before their turn, and are refused while
/// recompression fails.
const PENDING_FACTOR_HELD: u64 = 4;

/// Recompresses corpora of a database.
#[derive(Debug, Default)]
pub(crate) struct Background {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Background {
    /// Has a corpus recompressed if much of it is pending, and waits for that if it is far too much, until `interrupt` ends it.
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
        // What was committed stays so: a statement whose time is up has done its work all the same.
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

    /// Has the pending changes of a corpus merged when they are as old as the settings want, if there are some.
    fn set_timer(&self, core: &Arc<Core>, record: &CorpusRecord) {
        if let Some(due) = becomes_old(core, record.id) {
            let start = || self.start(core, record);
            self.queue.add_at(record.id, due, start);
        }
    }

    /// As `set_timer`, of all corpora: the settings have changed.
    pub(crate) fn set_timers(&self, core: &Arc<Core>) {
        if is_wanted(core) && !core.store.is_read_only() {
            for record in core.store.corpora() {
                self.set_timer(core, &record);
            }
        }
    }

    /// Has packed text of a corpus made grammars, if it has some.
    pub(crate) fn recompress_packed(&self, core: &Arc<Core>, record: &CorpusRecord) {
        if is_wanted(core) && has_packed(core, record) {
            self.queue.add(record.id, || self.start(core, record));
        }
    }

    /// Takes up what was left when the database was closed: recompressions that are due, and indexes that lack files.
    pub(crate) fn resume(&self, core: &Arc<Core>) {
        for record in core.store.corpora() {
            // What is damaged shows when it is used.
            let lacks_files = || {
                missing_indexes(core, &record.name, false).is_ok_and(|missing| !missing.is_empty())
            };
            if is_due(core, &record) || lacks_files() {
                self.queue.add(record.id, || self.start(core, &record));
            }
        }
    }

    /// Waits while far more of a corpus is pending than a writer may leave, as long as somebody works on it.
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

    /// Refuses text for a corpus if recompressing it fails and more is pending in `overlay` than memory should be left to.
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
        // Without a thread nobody else tries again.
        self.queue.add(record.id, || self.start(core, record));
        Err(Error::Held {
            corpus: record.name.clone(),
            pending,
            reason,
        })
    }

    /// Whether nothing is recompressed nor to be tried again. If so, timers of pending changes are forgotten.
    pub(crate) fn rest(&self) -> bool {
        self.queue.rest()
    }

    /// A corpus has been recompressed otherwise: nothing is to be tried again.
    pub(crate) fn recompressed(&self, core: &Core, corpus: u64) {
        core.failures.clear(corpus);
        self.queue.forget(corpus);
    }

    /// Ends the recompression of a corpus that was dropped.
    pub(crate) fn cancel(&self, corpus: u64) {
        self.queue.cancel(corpus);
    }

    /// Starts a thread where none runs; `false` if the system refuses.
    fn start(&self, core: &Arc<Core>, record: &CorpusRecord) -> bool {
        let mut running = self.thread.lock();
        if let Some(earlier) = running.take() {
            // It has nothing left to do but to end.
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

/// Whether what is pending of a corpus is packed before it is made a grammar.
fn is_packed_first(core: &Core, record: &CorpusRecord) -> bool {
    let pending = core.edits.pending_bytes(record.id);
    pending >= record.settings.recompress_threshold
        && segment_form(record.settings.ingest, pending) == SegmentForm::Text
}

/// How many bytes of a corpus are pending before it is recompressed.
fn threshold(core: &Core, record: &CorpusRecord) -> u64 {
    let size = core
        .stored_view(&record.name)
        .map_or(0, |(_, stored)| stored.bytes());
    let threshold = record.settings.recompress_threshold;
    threshold.max(size / PENDING_SHARE)
}

/// Whether so much of a corpus is pending, or for so long, that it is to be recompressed, or some of it is packed text.
fn is_due(core: &Core, record: &CorpusRecord) -> bool {
    let pending = core.edits.pending_bytes(record.id);
    let is_much =
        pending >= record.settings.recompress_threshold && pending >= threshold(core, record);
    let is_old = || becomes_old(core, record.id).is_some_and(|due| due <= Instant::now());
    is_much || is_old() || has_packed(core, record)
}

/// When the oldest pending change of a corpus has been so for `recompress_interval`; none if that is never.
fn becomes_old(core: &Core, corpus: u64) -> Option<Instant> {
    match core.runtime.settings.lock().recompress_interval {
        0 => None,
        interval => Some(core.edits.pending_since(corpus)? + Duration::from_millis(interval)),
    }
}

/// Whether some of a corpus is packed text. Only what segments say of themselves is looked at, no file table.
fn has_packed(core: &Core, record: &CorpusRecord) -> bool {
    let is_packed = |segment: &Arc<Segment>| segment.info().form == SegmentForm::Text;
    let opened = core.store.open_corpus(&record.name);
    opened.is_ok_and(|(_, segments)| segments.iter().any(is_packed))
}

/// Whether a corpus takes no text any more while so much is pending.
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
                // Of what was committed meanwhile.
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

/// Recompresses what is due of a corpus and builds what is missing of its indexes, in a pool that is started if it is not yet.
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
    // Where nothing is due an index lacks files.
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

/// Whether anything is recompressed in the background.
fn is_wanted(core: &Core) -> bool {
    core.runtime.settings.lock().recompress_threads != Some(0)
}

/// A pool whose threads let others go first.
fn low_pool(threads: usize) -> Result<ThreadPool> {
    let pool = ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|index| format!("zipfdb-recompress-{index}"))
        .start_handler(|_| give_way())
        .build();
    pool.map_err(no_threads)
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
