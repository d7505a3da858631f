//! Whose turn it is: a lock that those who wait get in the order in which they came.
//!
//! The invariant: at most one turn is there, and nobody overtakes who waits longer. Who waits looks now and then whether it
//! is still worth it and keeps its place meanwhile, which a lock with a timeout would not do for it.

use std::collections::VecDeque;
#[cfg(test)]
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use super::sync::{Condvar, Mutex};

/// Gives turns, one at a time. Clones give the same ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns(Arc<Mutex<Line>>);

/// Those who wait and who does not.
#[derive(Debug, Default)]
struct Line {
    /// Whose turn it is.
    current: Option<u64>,
    /// Who waits, longest first, and what wakes them.
    waiting: VecDeque<(u64, Arc<Condvar>)>,
    /// How many have come.
    count: u64,
}

/// A turn. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Turn(Arc<Mutex<Line>>);

/// How often who waits looks whether to go on.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

impl Turns {
    /// Waits for a turn.
    #[cfg(test)]
    pub(crate) fn wait(&self) -> Turn {
        let Ok(turn) = self.wait_while(|| Ok::<(), Infallible>(()));
        turn
    }

    /// Waits for a turn as long as `go_on`, which is asked every few milliseconds, has no error.
    ///
    /// # Errors
    /// That of `go_on`.
    pub(crate) fn wait_while<E>(
        &self,
        mut go_on: impl FnMut() -> Result<(), E>,
    ) -> Result<Turn, E> {
        let mut line = self.0.lock();
        let me = line.count;
        line.count += 1;
        if line.current.is_none() {
            line.current = Some(me);
            return Ok(Turn(self.0.clone()));
        }
        let called = Arc::new(Condvar::new());
        line.waiting.push_back((me, called.clone()));
        loop {
            called.wait_for(&mut line, LOOK_INTERVAL);
            if line.current == Some(me) {
                return Ok(Turn(self.0.clone()));
            }
            if let Err(error) = go_on() {
                line.waiting.retain(|(other, _)| *other != me);
                return Err(error);
            }
        }
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.0.lock().waiting.len()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut line = self.0.lock();
        let next = line.waiting.pop_front();
        line.current = next.map(|(next, called)| {
            called.notify_one();
            next
        });
    }
}
