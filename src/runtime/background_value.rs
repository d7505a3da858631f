//! `BackgroundValue`: a value that a thread of a pool works on while the thread of the statement goes on.
//!
//! When a result is needed whose work no thread of the pool has begun, the thread of the statement runs it: a busy pool does not delay
//! the statement. Invariant: pieces of work run one after the other, in the order of `begin`; only the running one has the value.

use std::sync::Arc;

use parking_lot::Mutex;
use rayon::ThreadPool;

use super::interrupt::{BegunWork, Interrupt, begin_apart};
use crate::{Error, Result};

/// A value and where it is: here, or moved to a task of the pool.
pub(crate) struct BackgroundValue<T> {
    pool: Arc<ThreadPool>,
    interrupt: Interrupt,
    place: ValuePlace<T>,
}

enum ValuePlace<T> {
    Here(T),
    /// The work, which the first thread that is free takes out, and the receiver of its result.
    Away(Arc<Mutex<Option<WaitingWork<T>>>>, BegunWork<T>),
    /// A task on the value ended with an error, so the value is gone.
    Lost,
}

type WaitingWork<T> = Box<dyn FnOnce() -> Result<T> + Send>;

impl<T: Send + 'static> BackgroundValue<T> {
    /// Wraps a value, with no work begun.
    pub(crate) fn new(of: T, pool: &Arc<ThreadPool>, interrupt: &Interrupt) -> BackgroundValue<T> {
        BackgroundValue {
            pool: pool.clone(),
            interrupt: interrupt.clone(),
            place: ValuePlace::Here(of),
        }
    }

    /// The value, after all queued work has finished.
    ///
    /// # Errors
    /// Those of the work, and of `Interrupt::check`. After an error the value is lost.
    pub(crate) fn here(&mut self) -> Result<&mut T> {
        if let ValuePlace::Away(..) = self.place {
            self.place = ValuePlace::Here(self.take()?);
        }
        match &mut self.place {
            ValuePlace::Here(of) => Ok(of),
            ValuePlace::Away(..) | ValuePlace::Lost => Err(Error::Interrupted),
        }
    }

    /// Queues work on the value, after all work queued before.
    ///
    /// # Errors
    /// As [`BackgroundValue::here`].
    pub(crate) fn begin(
        &mut self,
        work: impl FnOnce(&mut T) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let mut of = self.take()?;
        let work: WaitingWork<T> = Box::new(move || {
            work(&mut of)?;
            Ok(of)
        });
        let waits = Arc::new(Mutex::new(Some(work)));
        let of_pool = waits.clone();
        let begun = begin_apart(&self.pool, move |_| {
            let work = of_pool.lock().take();
            work.map_or(Err(Error::Interrupted), |work| work())
        });
        self.place = ValuePlace::Away(waits, begun);
        Ok(())
    }

    fn take(&mut self) -> Result<T> {
        match std::mem::replace(&mut self.place, ValuePlace::Lost) {
            ValuePlace::Here(of) => Ok(of),
            ValuePlace::Away(waits, begun) => {
                let work = waits.lock().take();
                work.map_or_else(|| self.interrupt.wait(begun), |work| work())
            }
            ValuePlace::Lost => Err(Error::Interrupted),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::runtime::interrupt::Interrupts;
    use crate::runtime::start_pool;

    #[test]
    fn work_is_done_in_order_until_a_piece_fails() {
        let pool = Arc::new(start_pool(Some(2)).unwrap());
        let mut numbers = BackgroundValue::new(Vec::new(), &pool, &Interrupt::never());
        for number in 0..100 {
            let push = move |numbers: &mut Vec<i32>| {
                numbers.push(number);
                Ok(())
            };
            numbers.begin(push).unwrap();
            if number % 7 == 0 {
                assert_eq!(numbers.here().unwrap().last(), Some(&number));
            }
        }
        assert_eq!(*numbers.here().unwrap(), (0..100).collect::<Vec<_>>());
        let fails = |_: &mut Vec<i32>| Err(Error::Timeout { milliseconds: 1 });
        numbers.begin(fails).unwrap();
        assert!(matches!(numbers.here(), Err(Error::Timeout { .. })));
        assert!(numbers.here().is_err());
        assert!(numbers.begin(|_| Ok(())).is_err());
    }

    #[test]
    fn a_waiting_thread_does_what_no_thread_has_begun() {
        let pool = Arc::new(start_pool(Some(1)).unwrap());
        let (release, is_released) = std::sync::mpsc::channel::<()>();
        // The only thread of the pool is busy until the sender is dropped.
        pool.spawn(move || {
            let _ = is_released.recv();
        });
        let mut number = BackgroundValue::new(1, &pool, &Interrupt::never());
        for _ in 0..3 {
            let double = |number: &mut i32| {
                *number *= 2;
                Ok(())
            };
            number.begin(double).unwrap();
        }
        assert_eq!(*number.here().unwrap(), 8);
        drop(release);
    }

    #[test]
    fn a_waiting_thread_ends_with_its_statement() {
        let pool = Arc::new(start_pool(Some(2)).unwrap());
        let interrupt = Interrupts::default().begin(50);
        let (release, is_released) = std::sync::mpsc::channel::<()>();
        let (begins, has_begun) = std::sync::mpsc::channel();
        let mut nothing = BackgroundValue::new((), &pool, &interrupt);
        let waits = move |(): &mut ()| {
            begins.send(()).unwrap();
            // Fails when the sender is dropped.
            let _ = is_released.recv();
            Ok(())
        };
        nothing.begin(waits).unwrap();
        has_begun.recv().unwrap();
        assert!(matches!(nothing.here(), Err(Error::Timeout { .. })));
        drop(release);
    }
}
