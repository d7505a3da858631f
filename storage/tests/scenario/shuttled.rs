//! Locks for code whose interleavings are explored: those of parking_lot, as far as we use them, over those of shuttle.
//!
//! The invariant: a file that takes its locks from here does what it does with parking_lot's, but which thread goes on
//! whenever one waits or wakes another is drawn from a seed, which is printed when a run fails and can be given. Code under
//! test is compiled a second time with these in the place of its locks; nothing of this is in the crates themselves. Atomics
//! are sequentially consistent here whatever they ask for: they are flags, what they guard is guarded by locks too.

#![allow(dead_code, clippy::unwrap_used)]

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use shuttle::scheduler::RandomScheduler;
use shuttle::sync;
use shuttle::{Config, Runner};

pub use shuttle::sync::atomic::{AtomicBool, Ordering};

/// Runs `test` many times, each time with its threads in another order.
pub fn explore(iterations: usize, test: impl Fn() + Send + Sync + 'static) {
    let seed = std::env::var("ZIPFDB_SEED").map_or(1, |seed| seed.parse().unwrap());
    println!("ZIPFDB_SEED={seed}");
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    config.silence_warnings = true;
    let scheduler = RandomScheduler::new_from_seed(seed, iterations);
    Runner::new(scheduler, config).run(test);
}

#[derive(Debug, Default)]
pub struct Mutex<T>(sync::Mutex<T>);

pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// Away while it waits or is unlocked for a moment.
    guard: Option<sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    pub fn new(value: T) -> Mutex<T> {
        Mutex(sync::Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard {
            mutex: self,
            guard: Some(self.take()),
        }
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap()
    }

    /// Parking_lot's locks are not poisoned by a panic.
    fn take(&self) -> sync::MutexGuard<'_, T> {
        let locked = self.0.lock();
        locked.unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<T> MutexGuard<'_, T> {
    pub fn unlocked<U>(guard: &mut Self, run: impl FnOnce() -> U) -> U {
        guard.guard = None;
        let result = run();
        guard.guard = Some(guard.mutex.take());
        result
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_ref().unwrap()
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().unwrap()
    }
}

#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    pub fn new() -> Condvar {
        Condvar::default()
    }

    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let waited = self.0.wait(guard.guard.take().unwrap());
        guard.guard = Some(waited.unwrap_or_else(|poisoned| poisoned.into_inner()));
    }

    /// Comes back at once as if the time were up, or waits.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _time: Duration) {
        use shuttle::rand::Rng;
        match shuttle::rand::thread_rng().gen_bool(0.5) {
            true => MutexGuard::unlocked(guard, shuttle::thread::yield_now),
            false => self.wait(guard),
        }
    }

    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
