//! `BuildBudget`: when to build a derived structure that queries can do without: once they have taken as long without it as
//! building it takes.
//!
//! The rule of ski rental: neither a few queries nor a million pay more than about twice what they must. The invariant:
//! answers do not depend on what is built. A structure that was evicted has to earn its price again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crate::Result;

/// The time that queries took because a structure is not there.
pub(crate) struct BuildBudget {
    nanoseconds: AtomicU64,
    /// Set while a query builds it.
    is_building: AtomicBool,
}

impl BuildBudget {
    pub(crate) fn new() -> BuildBudget {
        BuildBudget {
            nanoseconds: AtomicU64::new(0),
            is_building: AtomicBool::new(false),
        }
    }

    /// Says that a query takes so many nanoseconds.
    pub(crate) fn add(&self, nanoseconds: u64) {
        // 500 years fit.
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Says that a query took until now.
    pub(crate) fn add_since(&self, begin: Instant) {
        self.add(begin.elapsed().as_nanos() as u64);
    }

    /// Whether what takes `price` nanoseconds to build should be built, and no query is at it.
    pub(crate) fn is_due(&self, price: u64) -> bool {
        self.nanoseconds.load(Ordering::Relaxed) >= price
            && !self.is_building.load(Ordering::Relaxed)
    }

    /// Says that it was built: if it is evicted, it has to earn its price again.
    pub(crate) fn clear(&self) {
        self.nanoseconds.store(0, Ordering::Relaxed);
    }

    /// Makes it due, however fast or slow this machine is.
    #[cfg(test)]
    pub(crate) fn make_due(&self) {
        self.nanoseconds.store(u64::MAX >> 1, Ordering::Relaxed);
    }

    /// Builds it if it is due. Just one thread builds; the others go on without.
    ///
    /// # Errors
    /// If building fails; it is due again when queries have taken as long again.
    pub(crate) fn build_if_due<T>(
        &self,
        price: u64,
        build: impl FnOnce() -> Result<T>,
    ) -> Result<Option<T>> {
        if !self.is_due(price) || self.is_building.swap(true, Ordering::Relaxed) {
            return Ok(None);
        }
        let built = build();
        self.clear();
        self.is_building.store(false, Ordering::Relaxed);
        built.map(Some)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Error;

    #[test]
    fn it_is_built_once_queries_have_taken_as_long_as_that_takes_and_again_if_that_fails() {
        let budget = BuildBudget::new();
        let get = |build: fn() -> Result<u32>| budget.build_if_due(100, build);
        budget.add(99);
        assert!(!budget.is_due(100));
        assert_eq!(get(|| Ok(1)).unwrap(), None);
        budget.add(1);
        assert!(budget.is_due(100));
        let fails = || Err(Error::Interrupted);
        assert!(matches!(get(fails), Err(Error::Interrupted)));
        assert!(!budget.is_due(100));
        budget.add(1_000);
        let built = budget.build_if_due(100, || {
            // Who comes meanwhile goes on without.
            assert_eq!(get(|| Ok(2)).unwrap(), None);
            Ok(3)
        });
        assert_eq!(built.unwrap(), Some(3));
        assert_eq!(get(|| Ok(4)).unwrap(), None);
        budget.add_since(Instant::now());
        budget.make_due();
        assert!(budget.is_due(u64::MAX >> 1));
    }
}
