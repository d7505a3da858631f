//! `Prefetch`: tasks of one statement that run on the threads of a pool while the thread of the statement continues.
//!
//! Invariant: answers come in the order in which tasks began. Dropping the queue keeps tasks that wait for a thread from running.

use std::collections::VecDeque;
use std::sync::Arc;

use rayon::ThreadPool;

use super::interrupt::{BegunWork, Interrupt, begin_apart};
use crate::Result;

/// Tasks that may be in flight for each thread of the pool: the running one and the next.
const BEGUN_OF_THREAD: usize = 2;

/// Tasks in flight, whose answers are taken in the order of their start.
pub(crate) struct Prefetch<A> {
    pool: Arc<ThreadPool>,
    interrupt: Interrupt,
    /// The number of tasks in flight from which on answers should be taken first.
    most: usize,
    begun: VecDeque<BegunWork<A>>,
}

impl<A: Send + 'static> Prefetch<A> {
    /// An empty queue for a statement.
    pub(crate) fn new(pool: &Arc<ThreadPool>, interrupt: &Interrupt) -> Prefetch<A> {
        Prefetch {
            pool: pool.clone(),
            interrupt: interrupt.clone(),
            most: pool.current_num_threads() * BEGUN_OF_THREAD,
            begun: VecDeque::new(),
        }
    }

    /// The same queue with `work` tasks in flight for each thread: fewer than the default keep large answers out of memory.
    pub(crate) fn of_each_thread(mut self, work: usize) -> Prefetch<A> {
        self.most = self.pool.current_num_threads() * work;
        self
    }

    /// Whether an answer should be taken before another task begins.
    pub(crate) fn is_full(&self) -> bool {
        self.begun.len() >= self.most
    }

    /// Appends the answer of a task that has already run.
    pub(crate) fn put(&mut self, answer: A) {
        self.begun.push_back(BegunWork::done(answer));
    }

    /// Begins a task on the pool.
    pub(crate) fn begin(&mut self, work: impl FnOnce() -> Result<A> + Send + 'static) {
        self.begun.push_back(begin_apart(&self.pool, |_| work()));
    }

    /// Waits for the oldest task; none if no task is in flight.
    ///
    /// # Errors
    /// Those of the task, and of `Interrupt::check`.
    pub(crate) fn next(&mut self) -> Result<Option<A>> {
        let first = self.begun.pop_front();
        first.map(|begun| self.interrupt.wait(begun)).transpose()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::Error;
    use crate::runtime::interrupt::Interrupts;
    use crate::runtime::start_pool;

    #[test]
    fn answers_come_in_the_order_in_which_work_was_begun() {
        let pool = Arc::new(start_pool(Some(2)).unwrap());
        let mut ahead = Prefetch::new(&pool, &Interrupt::never());
        let mut answers = Vec::new();
        for number in 0..50u64 {
            if ahead.is_full() {
                answers.extend(ahead.next().unwrap());
            }
            ahead.begin(move || {
                thread::sleep(Duration::from_micros(number * 7 % 5 * 100));
                Ok(number)
            });
        }
        while let Some(answer) = ahead.next().unwrap() {
            answers.push(answer);
        }
        assert_eq!(answers, (0..50).collect::<Vec<_>>());
        // A thread of the pool does not wait for itself.
        let on_pool = pool.install(|| {
            let mut ahead = Prefetch::new(&pool, &Interrupt::never());
            (0..3).for_each(|number| ahead.begin(move || Ok(number)));
            (ahead.next().unwrap(), ahead.next().unwrap())
        });
        assert_eq!(on_pool, (Some(0), Some(1)));
    }

    #[test]
    fn what_is_waited_for_ends_with_the_statement() {
        let pool = Arc::new(start_pool(Some(2)).unwrap());
        let interrupt = Interrupts::default().begin(50);
        let (release, is_released) = std::sync::mpsc::channel::<()>();
        let mut ahead = Prefetch::new(&pool, &interrupt);
        ahead.begin(move || Ok(is_released.recv().is_ok()));
        let error = ahead.next().unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
        drop(release);
        ahead.begin(|| Err(Error::Interrupted));
        assert!(ahead.next().is_err());
    }
}
