//! The queue of corpora for the background thread, and the waits for it.
//!
//! The invariant: while a corpus is queued there is a thread that will work on it, so no wait lasts for ever: not when the work
//! panics, not when no thread can be started, not when the database is closed. The thread also stays while a corpus waits for its
//! time; no caller waits for that.

use std::thread;
use std::time::{Duration, Instant};

use crate::runtime::sync::{AtomicBool, Condvar, Mutex, Ordering};

/// A queue of corpora, by number, that one thread works on, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    /// Signalled when a corpus leaves the queue, or the thread has new work.
    changed: Condvar,
    /// Whether the running work is to end.
    stop: AtomicBool,
}

#[derive(Debug, Default)]
struct QueueState {
    /// The first corpus is the one in work, or the next.
    corpora: Vec<u64>,
    /// Whether the first corpus was queued again while in work: there may be more to do then.
    is_asked_again: bool,
    /// The corpora to be tried again, and when.
    later: Vec<(u64, Instant)>,
    /// The corpora with a timer, and when it ends.
    timers: Vec<(u64, Instant)>,
    /// Whether a thread serves the queue.
    is_running: bool,
    /// Whether the queue is closed: no work is needed any more.
    is_closed: bool,
}

/// Interval at which a waiting thread checks for interruption.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

impl QueueState {
    /// Queues the corpora that are due.
    fn take_up(&mut self) {
        let now = Instant::now();
        for waiting in [&mut self.later, &mut self.timers] {
            for (corpus, _) in waiting.extract_if(.., |(_, due)| *due <= now) {
                if !self.corpora.contains(&corpus) {
                    self.corpora.push(corpus);
                }
            }
        }
    }

    /// The earliest time at which a corpus is due.
    fn next_due(&self) -> Option<Instant> {
        let waiting = self.later.iter().chain(&self.timers);
        waiting.map(|&(_, due)| due).min()
    }

    /// Drops the waits and timers of a corpus.
    fn forget(&mut self, corpus: u64) {
        self.later.retain(|&(later, _)| later != corpus);
        self.timers.retain(|&(timed, _)| timed != corpus);
    }
}

impl Queue {
    /// Queues a corpus unless it waits to be tried again; one that is in work is worked on once more. Without a thread, `start`
    /// starts one that calls [`Queue::run`], or returns false: nothing is queued then. A thread that was started before has
    /// returned from [`Queue::run`] by then.
    pub(crate) fn add(&self, corpus: u64, start: impl FnOnce() -> bool) {
        let mut state = self.state.lock();
        let is_later = state.later.iter().any(|&(later, _)| later == corpus);
        if is_later {
            return;
        }
        if state.corpora.contains(&corpus) {
            state.is_asked_again |= state.corpora.first() == Some(&corpus);
            return;
        }
        state.corpora.push(corpus);
        state.is_running = state.is_running || start();
        if !state.is_running {
            state.corpora.clear();
        }
        self.changed.notify_all();
    }

    /// Queues a corpus at `due`, or at an earlier time that is already set. `start` is as for [`Queue::add`].
    pub(crate) fn add_at(&self, corpus: u64, due: Instant, start: impl FnOnce() -> bool) {
        let mut state = self.state.lock();
        if state.is_closed {
            return;
        }
        match (state.timers.iter_mut()).find(|(timed, _)| *timed == corpus) {
            Some((_, known)) => *known = due.min(*known),
            None => state.timers.push((corpus, due)),
        }
        state.is_running = state.is_running || start();
        if !state.is_running {
            state.timers.clear();
        }
        self.changed.notify_all();
    }

    /// Ends the thread if it only waits for times, which are dropped. Returns whether no thread runs then.
    pub(crate) fn rest(&self) -> bool {
        let mut state = self.state.lock();
        if state.corpora.is_empty() && state.later.is_empty() && !state.timers.is_empty() {
            state.timers.clear();
            self.changed.notify_all();
            while state.is_running && state.corpora.is_empty() {
                self.changed.wait_for(&mut state, LOOK_INTERVAL);
            }
        }
        state.corpora.is_empty() && state.later.is_empty() && !state.is_running
    }

    /// Waits until a corpus has left the queue, or `go_on`, called every few milliseconds, says that the wait is over.
    ///
    /// # Errors
    /// That of `go_on`.
    pub(crate) fn wait<E>(
        &self,
        corpus: u64,
        mut go_on: impl FnMut() -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut state = self.state.lock();
        while state.corpora.contains(&corpus) && go_on()? {
            self.changed.wait_for(&mut state, LOOK_INTERVAL);
        }
        Ok(())
    }

    /// Ends the work on a corpus that is gone. Work that has not begun finds nothing to do.
    pub(crate) fn cancel(&self, corpus: u64) {
        let mut state = self.state.lock();
        if state.corpora.first() == Some(&corpus) {
            self.stop.store(true, Ordering::Relaxed);
        }
        state.forget(corpus);
        self.changed.notify_all();
    }

    /// Drops the waits and timers of a corpus.
    pub(crate) fn forget(&self, corpus: u64) {
        let mut state = self.state.lock();
        state.forget(corpus);
        self.changed.notify_all();
    }

    /// Ends all work, begun or not.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.later.clear();
        state.timers.clear();
        self.stop.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Works on queued corpora until none is queued or waits for its time. `work` must end soon once its flag is set; it returns
    /// the wait until the next attempt, if one is needed.
    pub(crate) fn run(&self, mut work: impl FnMut(u64, &AtomicBool) -> Option<Duration>) {
        loop {
            let corpus = {
                let mut state = self.state.lock();
                loop {
                    state.take_up();
                    if let Some(&corpus) = state.corpora.first() {
                        self.stop.store(state.is_closed, Ordering::Relaxed);
                        state.is_asked_again = false;
                        break corpus;
                    }
                    let Some(due) = state.next_due() else {
                        state.is_running = false;
                        self.changed.notify_all();
                        return;
                    };
                    let left = due.saturating_duration_since(Instant::now());
                    self.changed.wait_for(&mut state, left);
                }
            };
            let mut done = Done {
                queue: self,
                corpus,
                again: None,
            };
            if !self.stop.load(Ordering::Relaxed) {
                done.again = work(corpus, &self.stop);
            }
        }
    }
}

/// Guard of the corpus in work: takes it off the queue when dropped, also on panic.
struct Done<'a> {
    queue: &'a Queue,
    corpus: u64,
    again: Option<Duration>,
}

impl Drop for Done<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        state.corpora.retain(|&other| other != self.corpus);
        let is_asked_again = std::mem::take(&mut state.is_asked_again);
        // Work that was stopped is not tried again.
        if !self.queue.stop.load(Ordering::Relaxed) {
            match self.again {
                Some(delay) => state.later.push((self.corpus, Instant::now() + delay)),
                None if is_asked_again => state.corpora.push(self.corpus),
                None => {}
            }
        }
        if thread::panicking() {
            state.is_running = false;
            state.corpora.clear();
            state.later.clear();
            state.timers.clear();
        }
        self.queue.changed.notify_all();
    }
}
