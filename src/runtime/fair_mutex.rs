//! A lock that is granted in order of arrival.
//!
//! The invariant: at most one turn exists, and waiters get it in the order in which they came. A waiting thread checks for
//! interruption at intervals and keeps its place meanwhile, which a lock with a timeout would not do.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use super::sync::{Condvar, Mutex};

/// The lock. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct FairMutex(Arc<Mutex<Line>>);

/// The holder of the lock and the queue of waiters.
#[derive(Debug, Default)]
struct Line {
    /// The number of the holder.
    current: Option<u64>,
    /// The waiters by number, longest first, and what wakes each.
    waiting: VecDeque<(u64, Arc<Condvar>)>,
    /// The number of threads that have asked so far.
    count: u64,
}

/// The held lock; dropped, it passes to the next waiter.
#[derive(Debug)]
pub(crate) struct FairMutexGuard(Arc<Mutex<Line>>);

/// Interval at which a waiting thread checks for interruption.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

impl FairMutex {
    /// Waits for the lock.
    pub(crate) fn wait(&self) -> FairMutexGuard {
        let Ok(turn) = self.wait_while(|| Ok::<(), Infallible>(()));
        turn
    }

    /// Waits for the lock until `go_on`, called every few milliseconds, returns an error.
    ///
    /// # Errors
    /// That of `go_on`.
    pub(crate) fn wait_while<E>(
        &self,
        mut go_on: impl FnMut() -> Result<(), E>,
    ) -> Result<FairMutexGuard, E> {
        let mut line = self.0.lock();
        let me = line.count;
        line.count += 1;
        if line.current.is_none() {
            line.current = Some(me);
            return Ok(FairMutexGuard(self.0.clone()));
        }
        let called = Arc::new(Condvar::new());
        line.waiting.push_back((me, called.clone()));
        loop {
            called.wait_for(&mut line, LOOK_INTERVAL);
            if line.current == Some(me) {
                return Ok(FairMutexGuard(self.0.clone()));
            }
            if let Err(error) = go_on() {
                line.waiting.retain(|(other, _)| *other != me);
                return Err(error);
            }
        }
    }

    /// The number of waiters.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.0.lock().waiting.len()
    }
}

impl Drop for FairMutexGuard {
    fn drop(&mut self) {
        let mut line = self.0.lock();
        let next = line.waiting.pop_front();
        line.current = next.map(|(next, called)| {
            called.notify_one();
            next
        });
    }
}
