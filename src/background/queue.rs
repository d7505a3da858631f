//! Work that waits for a thread, and who waits for the work.
//!
//! The invariant: while a corpus is queued there is a thread that will come to it, so whoever waits for one does not wait for
//! ever: not when the work panics, not when no thread can be started, not when the database is closed.

use std::thread;

use super::sync::{AtomicBool, Condvar, Mutex, Ordering};

/// Corpora, by number, that one thread works on, one after the other.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// Signalled when a corpus is off the queue.
    done: Condvar,
    /// What is being worked on is to end.
    stop: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// The first one is what the thread works on or will next.
    corpora: Vec<u64>,
    /// Whether there is a thread that will look at them.
    is_running: bool,
    /// Nobody needs them any more.
    is_closed: bool,
}

impl Queue {
    /// Queues a corpus if it is not yet. Without a thread, `start` starts one that calls [`Queue::run`], or says that it
    /// cannot: nothing is queued then. A thread that was started before has returned from [`Queue::run`] by then.
    pub(super) fn add(&self, corpus: u64, start: impl FnOnce() -> bool) {
        let mut state = self.state.lock();
        if state.corpora.contains(&corpus) {
            return;
        }
        state.corpora.push(corpus);
        state.is_running = state.is_running || start();
        if !state.is_running {
            state.corpora.clear();
        }
    }

    /// Returns when a corpus is not queued any more.
    pub(super) fn wait(&self, corpus: u64) {
        let mut state = self.state.lock();
        while state.corpora.contains(&corpus) {
            self.done.wait(&mut state);
        }
    }

    /// Ends the work on a corpus that is gone. If it has not begun, `work` finds nothing to do.
    pub(super) fn cancel(&self, corpus: u64) {
        let state = self.state.lock();
        if state.corpora.first() == Some(&corpus) {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Ends all work, also what has not begun.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Works on what is queued until nothing is. `work` is to end soon once its flag is set.
    pub(super) fn run(&self, mut work: impl FnMut(u64, &AtomicBool)) {
        loop {
            let corpus = {
                let mut state = self.state.lock();
                let Some(&corpus) = state.corpora.first() else {
                    state.is_running = false;
                    return;
                };
                self.stop.store(state.is_closed, Ordering::Relaxed);
                corpus
            };
            let _done = Done(self, corpus);
            if !self.stop.load(Ordering::Relaxed) {
                work(corpus, &self.stop);
            }
        }
    }
}

/// Takes a corpus off the queue when its turn is over, also by a panic, so that nobody waits for it.
struct Done<'a>(&'a Queue, u64);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.corpora.retain(|&other| other != self.1);
        if thread::panicking() {
            state.is_running = false;
            state.corpora.clear();
        }
        self.0.done.notify_all();
    }
}
