//! Work that waits for a thread, and who waits for the work.
//!
//! The invariant: while a corpus is queued there is a thread that will come to it, so whoever waits for one does not wait for
//! ever: not when the work panics, not when no thread can be started, not when the database is closed. The thread stays while a
//! corpus waits for its time, for which nobody else waits.

use std::thread;
use std::time::{Duration, Instant};

use crate::runtime::sync::{AtomicBool, Condvar, Mutex, Ordering};

/// Corpora, by number, that one thread works on, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    /// Signalled when a corpus is off the queue, or the thread has something to look at.
    changed: Condvar,
    /// What is being worked on is to end.
    stop: AtomicBool,
}

#[derive(Debug, Default)]
struct QueueState {
    /// The first one is what the thread works on or will next.
    corpora: Vec<u64>,
    /// Whether the first one was asked for while it was worked on: there may be more to do then.
    is_asked_again: bool,
    /// What is to be tried again, and when.
    later: Vec<(u64, Instant)>,
    /// What is to be looked at when its time has come.
    timers: Vec<(u64, Instant)>,
    /// Whether there is a thread that will look at them.
    is_running: bool,
    /// Nobody needs them any more.
    is_closed: bool,
}

/// How often who waits looks whether to go on.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

impl QueueState {
    /// Queues the corpora whose time has come.
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

    /// When the next time comes.
    fn next_due(&self) -> Option<Instant> {
        let waiting = self.later.iter().chain(&self.timers);
        waiting.map(|&(_, due)| due).min()
    }

    /// Forgets what waits for its time to work on a corpus.
    fn forget(&mut self, corpus: u64) {
        self.later.retain(|&(later, _)| later != corpus);
        self.timers.retain(|&(timed, _)| timed != corpus);
    }
}

impl Queue {
    /// Queues a corpus if it does not wait to be tried again; one that is being worked on comes once more after that. Without a
    /// thread, `start` starts one that calls [`Queue::run`], or says that it cannot: nothing is queued then. A thread that was
    /// started before has returned from [`Queue::run`] by then.
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

    /// Has a corpus worked on at a time, if it is not before that. `start` is as for [`Queue::add`].
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

    /// Ends the thread if it only waits for times to come, which are forgotten. Returns whether there is none then.
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

    /// Returns when a corpus is not queued any more, or `go_on`, which is asked every few milliseconds, says that there is no
    /// need to wait.
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

    /// Ends the work on a corpus that is gone. If it has not begun, `work` finds nothing to do.
    pub(crate) fn cancel(&self, corpus: u64) {
        let mut state = self.state.lock();
        if state.corpora.first() == Some(&corpus) {
            self.stop.store(true, Ordering::Relaxed);
        }
        state.forget(corpus);
        self.changed.notify_all();
    }

    /// A corpus is not to be tried again, nor looked at later.
    pub(crate) fn forget(&self, corpus: u64) {
        let mut state = self.state.lock();
        state.forget(corpus);
        self.changed.notify_all();
    }

    /// Ends all work, also what has not begun.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.later.clear();
        state.timers.clear();
        self.stop.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Works on what is queued until nothing is, nor waits for its time. `work` is to end soon once its flag is set, and
    /// says after which time it is to be tried again, if it is.
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

/// Takes a corpus off the queue when its turn is over, also by a panic, so that nobody waits for it.
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
        // What was stopped is not wanted any more.
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
