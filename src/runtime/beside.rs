//! `Beside`: something that a thread of a pool works on while the thread of the statement goes on.
//!
//! Invariant: pieces of work are done one after the other, in the order in which they were begun, and nobody else has it meanwhile.

use std::sync::Arc;

use rayon::ThreadPool;

use super::interrupt::{BegunWork, Interrupt, begin_apart};
use crate::{Error, Result};

/// What is worked on, here or on a thread of the pool.
pub(crate) struct Beside<T> {
    pool: Arc<ThreadPool>,
    interrupt: Interrupt,
    place: Place<T>,
}

enum Place<T> {
    Here(T),
    Away(BegunWork<T>),
    /// Work on it ended with an error.
    Lost,
}

impl<T: Send + 'static> Beside<T> {
    /// Something that is here.
    pub(crate) fn new(of: T, pool: &Arc<ThreadPool>, interrupt: &Interrupt) -> Beside<T> {
        Beside {
            pool: pool.clone(),
            interrupt: interrupt.clone(),
            place: Place::Here(of),
        }
    }

    /// It, after the work that was begun.
    ///
    /// # Errors
    /// As the work, and as `Interrupt::check`. After an error it is lost.
    pub(crate) fn here(&mut self) -> Result<&mut T> {
        if let Place::Away(_) = self.place {
            self.place = Place::Here(self.take()?);
        }
        match &mut self.place {
            Place::Here(of) => Ok(of),
            Place::Away(_) | Place::Lost => Err(Error::Interrupted),
        }
    }

    /// Begins work on it, after the work that was begun before.
    ///
    /// # Errors
    /// As [`Beside::here`].
    pub(crate) fn begin(
        &mut self,
        work: impl FnOnce(&mut T) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let mut of = self.take()?;
        self.place = Place::Away(begin_apart(&self.pool, move |_| {
            work(&mut of)?;
            Ok(of)
        }));
        Ok(())
    }

    fn take(&mut self) -> Result<T> {
        match std::mem::replace(&mut self.place, Place::Lost) {
            Place::Here(of) => Ok(of),
            Place::Away(begun) => self.interrupt.wait(begun),
            Place::Lost => Err(Error::Interrupted),
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
        let mut numbers = Beside::new(Vec::new(), &pool, &Interrupt::never());
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
    fn who_waits_for_it_ends_with_the_statement() {
        let pool = Arc::new(start_pool(Some(2)).unwrap());
        let interrupt = Interrupts::default().begin(50);
        let (release, is_released) = std::sync::mpsc::channel::<()>();
        let mut nothing = Beside::new((), &pool, &interrupt);
        let waits = move |(): &mut ()| {
            // Fails when the sender is gone.
            let _ = is_released.recv();
            Ok(())
        };
        nothing.begin(waits).unwrap();
        assert!(matches!(nothing.here(), Err(Error::Timeout { .. })));
        drop(release);
    }
}
