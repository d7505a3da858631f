//! Locks for code whose interleavings are explored: those of parking_lot, as far as we use them, and within [`explore`] those
//! of shuttle.
//!
//! Crates take their locks from here when they are compiled for their unit tests, and from parking_lot otherwise. The
//! invariant: code does with these what it does with parking_lot's, but within `explore` which thread goes on whenever one waits or
//! wakes another is drawn from a seed, which is printed when a run fails and can be given. Atomics are sequentially
//! consistent there whatever they ask for: they are flags, what they guard is guarded by locks too.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use shuttle::scheduler::RandomScheduler;
use shuttle::sync;
use shuttle::{Config, Runner};

pub use std::sync::atomic::Ordering;

thread_local! {
    /// Whether this thread runs the threads of `explore`, which are all on one thread of the system.
    static EXPLORES: Cell<bool> = const { Cell::new(false) };
}

/// Runs `test` many times, each time with its threads in another order.
pub fn explore(iterations: usize, test: impl Fn() + Send + Sync + 'static) {
    /// Ends it, also after a panic.
    struct Exploring;
    impl Drop for Exploring {
        fn drop(&mut self) {
            EXPLORES.set(false);
        }
    }
    let seed = std::env::var("ZIPFDB_SEED").map_or(1, |seed| seed.parse().expect("it is a number"));
    println!("ZIPFDB_SEED={seed}");
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    config.silence_warnings = true;
    let scheduler = RandomScheduler::new_from_seed(seed, iterations);
    EXPLORES.set(true);
    let _exploring = Exploring;
    Runner::new(scheduler, config).run(test);
}

/// A mutex of where it was made.
#[derive(Debug)]
pub struct Mutex<T>(MutexKind<T>);

#[derive(Debug)]
enum MutexKind<T> {
    Real(parking_lot::Mutex<T>),
    Explored(sync::Mutex<T>),
}

/// A locked mutex.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// Away while it waits or is unlocked for a moment.
    guard: Option<GuardKind<'a, T>>,
}

#[derive(Debug)]
enum GuardKind<'a, T> {
    Real(parking_lot::MutexGuard<'a, T>),
    Explored(sync::MutexGuard<'a, T>),
}

impl<T> Mutex<T> {
    /// A mutex that is not locked.
    pub fn new(value: T) -> Mutex<T> {
        Mutex(if EXPLORES.get() {
            MutexKind::Explored(sync::Mutex::new(value))
        } else {
            MutexKind::Real(parking_lot::Mutex::new(value))
        })
    }

    /// Waits until it is free.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard {
            mutex: self,
            guard: Some(self.take()),
        }
    }

    /// Its content: the borrow is exclusive.
    pub fn get_mut(&mut self) -> &mut T {
        match &mut self.0 {
            MutexKind::Real(mutex) => mutex.get_mut(),
            MutexKind::Explored(mutex) => match mutex.get_mut() {
                Ok(value) => value,
                Err(poisoned) => poisoned.into_inner(),
            },
        }
    }

    fn take(&self) -> GuardKind<'_, T> {
        match &self.0 {
            MutexKind::Real(mutex) => GuardKind::Real(mutex.lock()),
            // Parking_lot's locks are not poisoned by a panic.
            MutexKind::Explored(mutex) => GuardKind::Explored(match mutex.lock() {
                Ok(guard) => guard,
                Err(poisoned) => poisoned.into_inner(),
            }),
        }
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

impl<T> MutexGuard<'_, T> {
    /// Unlocks it while `run` runs.
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
        match self.guard.as_ref().expect("it is locked") {
            GuardKind::Real(guard) => guard,
            GuardKind::Explored(guard) => guard,
        }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match self.guard.as_mut().expect("it is locked") {
            GuardKind::Real(guard) => guard,
            GuardKind::Explored(guard) => guard,
        }
    }
}

/// What threads wait for that hold a mutex made in the same place.
#[derive(Debug)]
pub struct Condvar(CondvarKind);

#[derive(Debug)]
enum CondvarKind {
    Real(parking_lot::Condvar),
    Explored(sync::Condvar),
}

impl Default for Condvar {
    fn default() -> Condvar {
        Condvar(if EXPLORES.get() {
            CondvarKind::Explored(sync::Condvar::new())
        } else {
            CondvarKind::Real(parking_lot::Condvar::new())
        })
    }
}

impl Condvar {
    /// No thread waits for it yet.
    pub fn new() -> Condvar {
        Condvar::default()
    }

    /// Waits until it is notified.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        match (&self.0, guard.guard.take()) {
            (CondvarKind::Real(condvar), Some(GuardKind::Real(mut locked))) => {
                condvar.wait(&mut locked);
                guard.guard = Some(GuardKind::Real(locked));
            }
            (CondvarKind::Explored(condvar), Some(GuardKind::Explored(locked))) => {
                let waited = condvar.wait(locked);
                guard.guard = Some(GuardKind::Explored(match waited {
                    Ok(locked) => locked,
                    Err(poisoned) => poisoned.into_inner(),
                }));
            }
            _ => panic!("mutex and condition are made in different places"),
        }
    }

    /// Waits until it is notified or the time is up. Within `explore` it comes back at once as if the time were up, or waits.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) {
        use shuttle::rand::Rng;
        match (&self.0, &mut guard.guard) {
            (CondvarKind::Real(condvar), Some(GuardKind::Real(locked))) => {
                condvar.wait_for(locked, time);
            }
            _ if shuttle::rand::thread_rng().gen_bool(0.5) => {
                MutexGuard::unlocked(guard, shuttle::thread::yield_now);
            }
            _ => self.wait(guard),
        }
    }

    /// Wakes one that waits.
    pub fn notify_one(&self) {
        match &self.0 {
            CondvarKind::Real(condvar) => drop(condvar.notify_one()),
            CondvarKind::Explored(condvar) => condvar.notify_one(),
        }
    }

    /// Wakes all that wait.
    pub fn notify_all(&self) {
        match &self.0 {
            CondvarKind::Real(condvar) => drop(condvar.notify_all()),
            CondvarKind::Explored(condvar) => condvar.notify_all(),
        }
    }
}

/// A flag. Within `explore` another thread may go on before each look at it.
#[derive(Debug, Default)]
pub struct AtomicBool(std::sync::atomic::AtomicBool);

impl AtomicBool {
    /// A flag.
    pub fn new(value: bool) -> AtomicBool {
        AtomicBool(value.into())
    }

    /// What it says.
    pub fn load(&self, order: Ordering) -> bool {
        go_on();
        self.0.load(order)
    }

    /// Sets it.
    pub fn store(&self, value: bool, order: Ordering) {
        go_on();
        self.0.store(value, order);
    }

    /// Sets it, and says what it said before.
    pub fn swap(&self, value: bool, order: Ordering) -> bool {
        go_on();
        self.0.swap(value, order)
    }
}

/// For code that does not know where its flag comes from.
impl Deref for AtomicBool {
    type Target = std::sync::atomic::AtomicBool;

    fn deref(&self) -> &std::sync::atomic::AtomicBool {
        &self.0
    }
}

/// Lets another thread go on, within `explore`.
fn go_on() {
    if EXPLORES.get() {
        shuttle::thread::yield_now();
    }
}
