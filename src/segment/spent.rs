//! When to build what queries can do without: once they have taken as long without it as building it takes.
//!
//! The rule of ski rental: neither a few queries nor a million pay more than about twice what they must. The invariant:
//! answers do not depend on what is built.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crate::Result;

/// The time that queries took because something is not there.
pub(crate) struct Spent {
    nanoseconds: AtomicU64,
    /// Set while a query builds it.
    is_building: AtomicBool,
}

impl Spent {
    pub(crate) fn new() -> Spent {
        Spent {
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
        self.nanoseconds.store(0, Ordering::Relaxed);
        self.is_building.store(false, Ordering::Relaxed);
        built.map(Some)
    }
}

/// What is built once it is due, and what queries took without it.
pub(crate) struct Kept<T> {
    built: OnceLock<T>,
    pub(crate) spent: Spent,
}

impl<T> Kept<T> {
    pub(crate) fn new() -> Kept<T> {
        Kept {
            built: OnceLock::new(),
            spent: Spent::new(),
        }
    }

    /// It, if it is there.
    pub(crate) fn get(&self) -> Option<&T> {
        self.built.get()
    }

    /// It, built if it is due.
    ///
    /// # Errors
    /// As [`Spent::build_if_due`].
    pub(crate) fn get_or_build(
        &self,
        price: u64,
        build: impl FnOnce() -> Result<T>,
    ) -> Result<Option<&T>> {
        if let Some(built) = self.built.get() {
            return Ok(Some(built));
        }
        let built = self.spent.build_if_due(price, build)?;
        Ok(built.map(|built| self.built.get_or_init(|| built)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Error;

    #[test]
    fn it_is_built_once_queries_have_taken_as_long_as_that_takes_and_again_if_that_fails() {
        let spent = Spent::new();
        let get = |build: fn() -> Result<u32>| spent.build_if_due(100, build);
        spent.add(99);
        assert!(!spent.is_due(100));
        assert_eq!(get(|| Ok(1)).unwrap(), None);
        spent.add(1);
        assert!(spent.is_due(100));
        let fails = || Err(Error::Interrupted);
        assert!(matches!(get(fails), Err(Error::Interrupted)));
        assert!(!spent.is_due(100));
        spent.add(1_000);
        let built = spent.build_if_due(100, || {
            // Who comes meanwhile goes on without.
            assert_eq!(get(|| Ok(2)).unwrap(), None);
            Ok(3)
        });
        assert_eq!(built.unwrap(), Some(3));
        assert_eq!(get(|| Ok(4)).unwrap(), None);
        spent.add_since(Instant::now());
        spent.make_due();
        assert!(spent.is_due(u64::MAX >> 1));
    }
}
