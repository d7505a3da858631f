//! Ends a statement early: on request, or when its time is up.
//!
//! Invariant: `Interrupt::check` never waits and costs two loads and, with a timeout, a look at the clock, so every long loop
//! calls it every few thousand steps. An interrupted statement is not resumed.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rayon::ThreadPool;

use crate::error::no_threads;
use crate::{Error, Result};

/// Interrupts statements from another thread; made by [`crate::Rows::interrupt_handle`] for one query, and by
/// [`crate::Database::interrupt_handle`] for all that run at that moment. A new handle is for work without a database, such as
/// [`crate::pack::pack_file`] and [`crate::repair::repair`].
///
/// Interrupted work ends with [`Error::Interrupted`], usually within milliseconds; a COPY that is writing a segment completes
/// that first, and publishes nothing. Work that is over, or that starts later, is not affected.
///
/// ```
/// use zipfdb::Database;
///
/// let db = Database::in_memory()?;
/// let handle = db.interrupt_handle();
/// std::thread::spawn(move || handle.interrupt()).join().expect("the thread ends");
/// # Ok::<(), zipfdb::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct InterruptHandle {
    target: InterruptTarget,
}

#[derive(Debug, Clone)]
enum InterruptTarget {
    Query(Arc<AtomicBool>),
    Database(Arc<AtomicU64>),
}

impl InterruptHandle {
    /// A handle for work that takes it as an argument: it interrupts work that runs now and work that begins later.
    pub fn new() -> InterruptHandle {
        InterruptHandle {
            target: InterruptTarget::Query(Arc::default()),
        }
    }

    /// Begins work that this handle interrupts.
    pub(crate) fn begin(&self) -> Interrupt {
        match &self.target {
            InterruptTarget::Query(is_interrupted) => Interrupt {
                is_interrupted: is_interrupted.clone(),
                ..Interrupts::default().begin(0)
            },
            InterruptTarget::Database(interrupts) => Interrupts(interrupts.clone()).begin(0),
        }
    }

    /// Interrupts the work of this handle.
    pub fn interrupt(&self) {
        match &self.target {
            InterruptTarget::Query(is_interrupted) => is_interrupted.store(true, Ordering::Relaxed),
            InterruptTarget::Database(interrupts) => {
                interrupts.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Default for InterruptHandle {
    fn default() -> InterruptHandle {
        InterruptHandle::new()
    }
}

/// The number of times that all queries of a database were interrupted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupts(Arc<AtomicU64>);

impl Interrupts {
    /// A handle that interrupts all queries that have begun.
    pub(crate) fn handle(&self) -> InterruptHandle {
        InterruptHandle {
            target: InterruptTarget::Database(self.0.clone()),
        }
    }

    /// Begins a query that may take `timeout` milliseconds; 0 for no limit.
    pub(crate) fn begin(&self, timeout: u64) -> Interrupt {
        let now = Instant::now();
        // A deadline that the clock cannot represent is none.
        let ends = now.checked_add(Duration::from_millis(timeout));
        Interrupt {
            is_interrupted: Arc::default(),
            interrupts: self.0.clone(),
            before: self.0.load(Ordering::Relaxed),
            deadline: ends.filter(|_| timeout > 0).map(|ends| (ends, timeout)),
        }
    }
}

/// Whether one query must end.
#[derive(Debug, Clone)]
pub(crate) struct Interrupt {
    is_interrupted: Arc<AtomicBool>,
    interrupts: Arc<AtomicU64>,
    /// The value of `interrupts` when the query began.
    before: u64,
    /// The deadline, and the timeout in milliseconds.
    deadline: Option<(Instant, u64)>,
}

impl Interrupt {
    /// A handle that interrupts this query.
    pub(crate) fn handle(&self) -> InterruptHandle {
        InterruptHandle {
            target: InterruptTarget::Query(self.is_interrupted.clone()),
        }
    }

    /// Returns an error once the query must end.
    ///
    /// # Errors
    /// `Interrupted` or `Timeout`.
    pub(crate) fn check(&self) -> Result<()> {
        let is_interrupted = self.is_interrupted.load(Ordering::Relaxed)
            || self.interrupts.load(Ordering::Relaxed) != self.before;
        if is_interrupted {
            return Err(Error::Interrupted);
        }
        match self.deadline {
            Some((ends, milliseconds)) if Instant::now() >= ends => {
                Err(Error::Timeout { milliseconds })
            }
            _ => Ok(()),
        }
    }

    /// Runs parallel work on the threads of a pool, and sets the flag passed to it when the query must end.
    ///
    /// # Errors
    /// Those of the work, and of `check`.
    pub(crate) fn watch<A: Send>(
        &self,
        pool: &ThreadPool,
        work: impl FnOnce(&Arc<AtomicBool>) -> Result<A> + Send,
    ) -> Result<A> {
        let (mut work, mut answer) = (Some(work), None);
        self.watch_task(pool, &mut |stop| {
            answer = work.take().map(|work| work(stop));
        });
        match answer.unwrap_or(Err(Error::Interrupted)) {
            Err(Error::Interrupted) => self.check().and(Err(Error::Interrupted)),
            answer => answer,
        }
    }

    /// `watch` for work of any type of answer, so that its scope is compiled once. A panic of the task is passed on.
    fn watch_task(&self, pool: &ThreadPool, task: &mut (dyn FnMut(&Arc<AtomicBool>) + Send)) {
        let stop = Arc::new(AtomicBool::new(false));
        let (done, is_done) = mpsc::channel::<()>();
        pool.in_place_scope(|scope| {
            let stop = &stop;
            scope.spawn(move |_| {
                task(stop);
                drop(done);
            });
            self.set_when_over(stop, &is_done);
        });
    }

    /// Sets a flag when the query must end, and returns when the other side of a channel is dropped.
    fn set_when_over(&self, stop: &AtomicBool, is_done: &mpsc::Receiver<()>) {
        while is_done.recv_timeout(Interrupt::WATCH_INTERVAL)
            == Err(mpsc::RecvTimeoutError::Timeout)
        {
            if self.check().is_err() {
                stop.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Runs work on the threads of a pool and waits for it. When the query must end, the wait ends first: work that has not begun
    /// is dropped, as on a busy pool, and running work sees its flag set while no thread waits for it.
    ///
    /// # Errors
    /// Those of the work, and of `check`.
    pub(crate) fn apart<A: Send + 'static>(
        &self,
        pool: &ThreadPool,
        work: impl FnOnce(&Arc<AtomicBool>) -> Result<A> + Send + 'static,
    ) -> Result<A> {
        self.wait(begin_apart(pool, work))
    }

    /// Runs a blocking system call on a thread of its own, and abandons the thread when the query must end.
    ///
    /// # Errors
    /// Those of the work, and of `check`; if the system refuses a thread.
    pub(crate) fn apart_from_all<A: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<A> + Send + 'static,
    ) -> Result<A> {
        let thread = thread::Builder::new().name("zipfdb-waits".into());
        let (begun, work) = BegunWork::new(|_| work());
        thread.spawn(work).map_err(no_threads)?;
        self.wait(begun)
    }

    /// Waits for work begun elsewhere, until the query must end.
    ///
    /// # Errors
    /// Those of the work, and of `check`.
    pub(crate) fn wait<A>(&self, begun: BegunWork<A>) -> Result<A> {
        self.wait_until_dropped(&begun.is_done)?;
        let answer = begun.answer.lock().take();
        match answer {
            // Without an answer the work was not run.
            None | Some(Ok(Err(Error::Interrupted))) => self.check().and(Err(Error::Interrupted)),
            Some(Ok(answer)) => answer,
            Some(Err(panic)) => resume_unwind(panic),
        }
    }

    fn wait_until_dropped(&self, is_done: &mpsc::Receiver<()>) -> Result<()> {
        while is_done.recv_timeout(Interrupt::WATCH_INTERVAL)
            == Err(mpsc::RecvTimeoutError::Timeout)
        {
            self.check()?;
        }
        Ok(())
    }

    /// Runs work on this thread, and sets the flag passed to it when the query must end. For work that waits for other threads:
    /// run on a thread of the pool, it could occupy the thread that they need, or hold what they wait for.
    ///
    /// # Errors
    /// Those of the work, and of `check`; if the system refuses a thread.
    pub(crate) fn attend<A>(&self, work: impl FnOnce(&Arc<AtomicBool>) -> Result<A>) -> Result<A> {
        let (mut work, mut answer) = (Some(work), None);
        self.attend_task(&mut |stop| {
            answer = work.take().map(|work| work(stop));
        })?;
        match answer.unwrap_or(Err(Error::Interrupted)) {
            Err(Error::Interrupted) => self.check().and(Err(Error::Interrupted)),
            answer => answer,
        }
    }

    /// `attend` for work of any type of answer, so that its scope is compiled once.
    fn attend_task(&self, task: &mut dyn FnMut(&Arc<AtomicBool>)) -> Result<()> {
        let stop = Arc::new(AtomicBool::new(false));
        let (done, is_done) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let stop = &stop;
            let looking = thread::Builder::new().name("zipfdb-interrupt".into());
            looking
                .spawn_scoped(scope, move || self.set_when_over(stop, &is_done))
                .map_err(no_threads)?;
            task(stop);
            drop(done);
            Ok(())
        })
    }

    const WATCH_INTERVAL: Duration = Duration::from_millis(10);

    /// A counter that checks at every 64th step.
    pub(crate) fn pace(&self) -> Pace {
        Pace {
            interrupt: self.clone(),
            steps: 0,
            bytes: 0,
        }
    }

    /// An interrupt that never ends its work.
    #[cfg(test)]
    pub(crate) fn never() -> Interrupt {
        Interrupts::default().begin(0)
    }
}

/// Work that was begun on another thread. Dropping this sets the flag of the work: work that waits for a thread does not run then,
/// and work that runs may end early.
pub(crate) struct BegunWork<A> {
    stop: Arc<AtomicBool>,
    answer: Arc<Mutex<Option<thread::Result<Result<A>>>>>,
    /// The other side is dropped when the answer is there, or the work will not run.
    is_done: mpsc::Receiver<()>,
}

/// Work to be run once. Its type does not depend on the work, so that threads and pools are called from one place.
type Task = Box<dyn FnOnce() + Send>;

impl<A: Send + 'static> BegunWork<A> {
    /// Work that is already done.
    pub(super) fn done(answer: A) -> BegunWork<A> {
        let (begun, work) = BegunWork::new(|_| Ok(answer));
        work();
        begun
    }

    /// The handle to wait with, and the work, to be run once.
    fn new(
        work: impl FnOnce(&Arc<AtomicBool>) -> Result<A> + Send + 'static,
    ) -> (BegunWork<A>, Task) {
        let (done, is_done) = mpsc::channel();
        let begun = BegunWork {
            stop: Arc::new(AtomicBool::new(false)),
            answer: Arc::new(Mutex::new(None)),
            is_done,
        };
        let (flag, answer) = (begun.stop.clone(), begun.answer.clone());
        let task = Box::new(move || {
            if check(&flag).is_ok() {
                let result = catch_unwind(AssertUnwindSafe(|| work(&flag)));
                *answer.lock() = Some(result);
            }
            drop(done);
        });
        (begun, task)
    }
}

impl<A> Drop for BegunWork<A> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Begins work on the threads of a pool; on a thread of that pool, runs it.
pub(crate) fn begin_apart<A: Send + 'static>(
    pool: &ThreadPool,
    work: impl FnOnce(&Arc<AtomicBool>) -> Result<A> + Send + 'static,
) -> BegunWork<A> {
    let (begun, work) = BegunWork::new(work);
    match pool.current_thread_index() {
        // A thread of the pool would wait for itself, for example a host that queries from its progress callback.
        Some(_) => work(),
        None => pool.spawn(work),
    }
    begun
}

/// Returns an error if the flag from `Interrupt::watch` is set.
///
/// # Errors
/// `Interrupted`.
pub(crate) fn check(stop: &AtomicBool) -> Result<()> {
    // The flag guards no other memory.
    if stop.load(Ordering::Relaxed) {
        Err(Error::Interrupted)
    } else {
        Ok(())
    }
}

/// The flag of work that is never interrupted.
pub(crate) static NEVER: AtomicBool = AtomicBool::new(false);

/// Counts the steps of a loop and checks for an interrupt at intervals, the first time at the first step.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    interrupt: Interrupt,
    steps: u32,
    /// Bytes of work since the last check for them.
    bytes: usize,
}

impl Pace {
    const STEPS: u32 = 64;

    /// Bytes between two checks: milliseconds of work at some nanoseconds a byte.
    const BYTES: usize = 1 << 18;

    /// Checks at once, before work that cannot be divided.
    ///
    /// # Errors
    /// Those of `Interrupt::check`.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.bytes = 0;
        self.interrupt.check()
    }

    /// Counts one step.
    ///
    /// # Errors
    /// Those of `Interrupt::check`.
    pub(crate) fn step(&mut self) -> Result<()> {
        if self.steps == 0 {
            self.interrupt.check()?;
            self.steps = Pace::STEPS;
        }
        self.steps -= 1;
        Ok(())
    }

    /// Counts work that takes time in proportion to `bytes`.
    ///
    /// # Errors
    /// Those of `Interrupt::check`.
    pub(crate) fn work(&mut self, bytes: usize) -> Result<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes >= Pace::BYTES {
            self.check()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_handle_of_one_query_leaves_others_alone() {
        let interrupts = Interrupts::default();
        let (one, other) = (interrupts.begin(0), interrupts.begin(0));
        one.handle().interrupt();
        assert!(matches!(one.check(), Err(Error::Interrupted)));
        assert!(other.check().is_ok());
    }

    #[test]
    fn a_new_handle_ends_what_it_is_given_to() {
        let handle = InterruptHandle::new();
        let interrupt = handle.begin();
        assert!(interrupt.check().is_ok());
        handle.interrupt();
        assert!(matches!(interrupt.check(), Err(Error::Interrupted)));
        assert!(handle.begin().check().is_err());
        assert!(InterruptHandle::new().begin().check().is_ok());
    }

    #[test]
    fn a_handle_of_the_database_ends_what_runs_and_not_what_comes() {
        let interrupts = Interrupts::default();
        let before = interrupts.begin(0);
        interrupts.handle().interrupt();
        assert!(before.check().is_err());
        assert!(interrupts.begin(0).check().is_ok());
    }

    #[test]
    fn work_that_cannot_begin_is_left_alone() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1);
        let pool = pool.build().unwrap();
        let (go_on, is_over) = mpsc::channel::<()>();
        pool.spawn(move || {
            let _ = is_over.recv();
        });
        let interrupt = Interrupt::never();
        interrupt.handle().interrupt();
        let is_done = Arc::new(AtomicBool::new(false));
        let flag = is_done.clone();
        let result = interrupt.apart(&pool, move |_| {
            flag.store(true, Ordering::Relaxed);
            Ok(())
        });
        assert!(matches!(result, Err(Error::Interrupted)));
        // The thread of the pool finishes the abandoned work, and then this.
        drop(go_on);
        pool.install(|| ());
        assert!(!is_done.load(Ordering::Relaxed));
    }

    #[test]
    fn work_that_never_polls_delays_no_thread() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1);
        let pool = pool.build().unwrap();
        let (go_on, is_over) = mpsc::channel::<()>();
        let (begun, has_begun) = mpsc::channel();
        let interrupt = Interrupt::never();
        let handle = interrupt.handle();
        thread::scope(|scope| {
            scope.spawn(move || {
                has_begun.recv().unwrap();
                handle.interrupt();
            });
            let result = interrupt.apart(&pool, move |_| {
                begun.send(()).unwrap();
                let _ = is_over.recv();
                Ok(())
            });
            assert!(matches!(result, Err(Error::Interrupted)));
        });
        drop(go_on);
    }

    #[test]
    fn a_thread_of_the_pool_waits_for_no_thread() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1);
        let pool = pool.build().unwrap();
        let asked = pool.install(|| Interrupt::never().apart(&pool, |_| Ok(7)));
        assert_eq!(asked.unwrap(), 7);
    }

    #[test]
    fn a_panic_of_work_is_passed_on() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1);
        let pool = pool.build().unwrap();
        let work = || Interrupt::never().apart(&pool, |_| -> Result<()> { panic!("of work") });
        let panic = catch_unwind(AssertUnwindSafe(work)).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"of work"));
        assert_eq!(Interrupt::never().apart(&pool, |_| Ok(7)).unwrap(), 7);
    }

    #[test]
    fn a_query_ends_when_its_time_is_up() {
        let interrupts = Interrupts::default();
        let mut interrupt = interrupts.begin(u64::MAX);
        assert!(interrupt.check().is_ok());
        interrupt.deadline = Some((Instant::now(), 5));
        assert!(matches!(
            interrupt.check(),
            Err(Error::Timeout { milliseconds: 5 })
        ));
    }
}
