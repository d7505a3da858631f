//! `BuildBudget`: when to build an optional derived structure: once the time that queries have spent without it equals the time
//! to build it.
//!
//! The rule of ski rental: the total cost is at most about twice the least possible, for any number of queries. The invariant:
//! answers do not depend on what is built. A structure that was evicted has to earn its price again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crate::Result;

/// The time that queries spent without a structure.
pub(crate) struct BuildBudget {
    nanoseconds: AtomicU64,
    /// Set while a query builds the structure.
    is_building: AtomicBool,
}

impl BuildBudget {
    pub(crate) fn new() -> BuildBudget {
        BuildBudget {
            nanoseconds: AtomicU64::new(0),
            is_building: AtomicBool::new(false),
        }
    }

    /// Adds the time of a query, in nanoseconds.
    pub(crate) fn add(&self, nanoseconds: u64) {
        // The sum has room for 500 years.
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Adds the time of a query since `begin`.
    pub(crate) fn add_since(&self, begin: Instant) {
        self.add(begin.elapsed().as_nanos() as u64);
    }

    /// Whether a structure with a price of `price` nanoseconds should be built, and no query builds it.
    pub(crate) fn is_due(&self, price: u64) -> bool {
        self.nanoseconds.load(Ordering::Relaxed) >= price
            && !self.is_building.load(Ordering::Relaxed)
    }

    /// Starts again at zero once the structure is built: if it is evicted, it has to earn its price again.
    pub(crate) fn clear(&self) {
        self.nanoseconds.store(0, Ordering::Relaxed);
    }

    /// Makes it due, for tests on machines of any speed.
    #[cfg(test)]
    pub(crate) fn make_due(&self) {
        self.nanoseconds.store(u64::MAX >> 1, Ordering::Relaxed);
    }

    /// Builds the structure if it is due. One thread builds; the others continue without it.
    ///
    /// # Errors
    /// If building fails; it is due again when queries have spent its price once more.
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
            // A thread that comes meanwhile continues without the structure.
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
