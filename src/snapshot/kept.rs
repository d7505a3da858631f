//! What queries can do without, built once they have taken as long without it as building it takes.
//!
//! The invariant: answers do not depend on whether it is there. So neither a few queries nor a million pay much more than they
//! must. The counter is of time.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crate::Result;

/// Something to build or not.
pub(super) struct Kept<T> {
    built: OnceLock<T>,
    /// How many nanoseconds queries took that would have gained.
    spent: AtomicU64,
    /// Set while a query builds it.
    is_building: AtomicBool,
}

impl<T> Kept<T> {
    pub(super) fn new() -> Kept<T> {
        Kept {
            built: OnceLock::new(),
            spent: AtomicU64::new(0),
            is_building: AtomicBool::new(false),
        }
    }

    /// It, if it is there.
    pub(super) fn get(&self) -> Option<&T> {
        self.built.get()
    }

    /// Whether it has to be built, which takes `price` nanoseconds of one thread, by the next query.
    pub(super) fn is_due(&self, price: u64) -> bool {
        let threads = rayon::current_num_threads() as u64;
        self.built.get().is_none()
            && self.spent.load(Ordering::Relaxed) >= price / threads
            && !self.is_building.load(Ordering::Relaxed)
    }

    /// Says that a query took until now.
    pub(super) fn spend(&self, begin: Instant) {
        // 500 years fit.
        let taken = begin.elapsed().as_nanos() as u64;
        self.spent.fetch_add(taken, Ordering::Relaxed);
    }

    /// Makes it due.
    #[cfg(test)]
    pub(super) fn build_next(&self) {
        self.spent.store(u64::MAX, Ordering::Relaxed);
    }

    /// It, built if it is due. Just one thread builds; the others go on without.
    ///
    /// # Errors
    /// If building fails; a later query tries again.
    pub(super) fn get_or_build(
        &self,
        price: u64,
        build: impl FnOnce() -> Result<T>,
    ) -> Result<Option<&T>> {
        if let Some(built) = self.built.get() {
            return Ok(Some(built));
        }
        if !self.is_due(price) || self.is_building.swap(true, Ordering::Relaxed) {
            return Ok(None);
        }
        let built = build();
        self.spent.store(0, Ordering::Relaxed);
        self.is_building.store(false, Ordering::Relaxed);
        let built = built?;
        Ok(Some(self.built.get_or_init(|| built)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;
    use crate::Error;

    #[test]
    fn it_is_built_once_queries_have_taken_as_long_as_that_takes_and_again_if_that_fails() {
        let kept = Kept::new();
        let price = u64::try_from(Duration::from_secs(60).as_nanos()).unwrap();
        let of_threads = price * rayon::current_num_threads() as u64;
        let get = |build: fn() -> Result<u32>| kept.get_or_build(of_threads, build);
        kept.spend(Instant::now());
        assert!(!kept.is_due(of_threads));
        assert_eq!(get(|| Ok(1)).unwrap(), None);
        let long_ago = || Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
        kept.spend(long_ago());
        assert!(kept.is_due(of_threads) && kept.get().is_none());
        assert!(matches!(
            get(|| Err(Error::Interrupted)),
            Err(Error::Interrupted)
        ));
        assert!(!kept.is_due(of_threads));
        kept.spend(long_ago());
        assert_eq!(get(|| Ok(2)).unwrap(), Some(&2));
        assert_eq!(get(|| Ok(3)).unwrap(), Some(&2));
        assert!(!kept.is_due(of_threads));
    }
}
