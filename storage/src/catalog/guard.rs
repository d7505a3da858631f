//! A thread for code that may panic, hang or do so when it is dropped.
//!
//! Invariant: nothing that this code does reaches the caller but as a [`ContentFault`]: a panic is caught and prints nothing, a
//! call that does not return is given up after [`CALL_TIME_MAX`], and what was in use at that moment is leaked instead
//! of dropped. Where a panic ends the process (`panic = "abort"`) only the second and third hold; the catalog leaks there
//! what may panic when it is dropped.

use std::cell::Cell;
use std::io;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::sync::{Arc, Once};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use crate::catalog::fault::ContentFault;

/// How long a call may take. It covers a few syncs of a small file.
#[cfg(not(test))]
const CALL_TIME_MAX: Duration = Duration::from_secs(30);
#[cfg(test)]
const CALL_TIME_MAX: Duration = Duration::from_secs(2);

/// A value that lives on a thread of its own. Dropped without [`Guarded::close`], it is leaked.
pub(super) struct Guarded<V> {
    jobs: std::sync::mpsc::Sender<Job<V>>,
}

/// Where the end of a job is reported. Of one type for all jobs: a channel of each type of answer is a lot of code.
type Ended = SyncSender<Result<(), ContentFault>>;

enum Job<V> {
    /// Uses the value; false if it must not be used any more.
    Use(Box<dyn FnOnce(&V) -> bool + Send>, Ended),
    /// Drops the value.
    Close(Ended),
}

impl<V: 'static> Guarded<V> {
    /// Makes a value on a new thread.
    pub(super) fn new(
        make: impl FnOnce() -> Result<V, ContentFault> + Send + 'static,
    ) -> Result<Guarded<V>, ContentFault> {
        let (jobs, received) = channel();
        let (sender, made) = sync_channel(1);
        install_hook();
        thread::Builder::new()
            .name("zipfdb-catalog".to_owned())
            .spawn(move || {
                QUIET.set(true);
                match guarded(make) {
                    Ok(value) => {
                        let _ = sender.send(Ok(()));
                        work(value, &received);
                    }
                    Err(fault) => drop(sender.send(Err(fault))),
                }
            })
            .map_err(ContentFault::Io)?;
        wait(&made)?;
        Ok(Guarded { jobs })
    }

    /// Uses the value. After a fault it must not be used again.
    pub(super) fn call<T: Send + 'static>(
        &self,
        run: impl FnOnce(&V) -> Result<T, ContentFault> + Send + 'static,
    ) -> Result<T, ContentFault> {
        let answer = Arc::new(Mutex::new(None));
        let (sender, done) = sync_channel(1);
        let target = Arc::clone(&answer);
        let job = move |value: &V| {
            let result = guarded(|| run(value));
            let is_usable = result.is_ok();
            *target.lock() = Some(result);
            is_usable
        };
        // If the thread has ended, there is no answer.
        let _ = self.jobs.send(Job::Use(Box::new(job), sender));
        wait(&done)?;
        let answer = answer.lock().take();
        answer.expect("a job that has ended has left its answer")
    }

    /// Drops the value.
    pub(super) fn close(self) -> Result<(), ContentFault> {
        let (sender, done) = sync_channel(1);
        let _ = self.jobs.send(Job::Close(sender));
        wait(&done)
    }
}

fn work<V>(value: V, jobs: &Receiver<Job<V>>) {
    loop {
        match jobs.recv() {
            Ok(Job::Use(job, sender)) => {
                let is_usable = job(&value);
                let _ = sender.send(Ok(()));
                if !is_usable {
                    return std::mem::forget(value);
                }
            }
            Ok(Job::Close(sender)) => {
                let _ = sender.send(guarded(|| {
                    drop(value);
                    Ok(())
                }));
                return;
            }
            Err(_) => return std::mem::forget(value),
        }
    }
}

fn wait(done: &Receiver<Result<(), ContentFault>>) -> Result<(), ContentFault> {
    match done.recv_timeout(CALL_TIME_MAX) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => Err(ContentFault::Io(io::Error::new(
            io::ErrorKind::TimedOut,
            "sled does not answer",
        ))),
        Err(RecvTimeoutError::Disconnected) => {
            Err(ContentFault::Damaged("sled was given up before".to_owned()))
        }
    }
}

/// Runs something of sled's. A panic, which its code answers damage with in places, is a fault like others.
fn guarded<T>(run: impl FnOnce() -> Result<T, ContentFault>) -> Result<T, ContentFault> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| {
        let message = (payload.downcast_ref::<String>().map(String::as_str))
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        let fault = ContentFault::Damaged(format!("sled panicked: {message}"));
        // Dropping the payload may panic as well.
        std::mem::forget(payload);
        Err(fault)
    })
}

thread_local! {
    /// Panics of this thread are caught and become errors.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Makes panics of guarded threads print nothing. All others go to the hook that was there before.
fn install_hook() {
    static INSTALLED: Once = Once::new();
    if thread::panicking() {
        return; // a hook cannot be changed now
    }
    INSTALLED.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            // A thread that is ending may have lost the flag; it is none of ours then.
            if !QUIET.try_with(Cell::get).unwrap_or(false) {
                previous(panic);
            }
        }));
    });
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts and panics when it is dropped.
    struct Bomb(Arc<AtomicUsize>);

    impl Drop for Bomb {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
            panic!("dropped");
        }
    }

    #[test]
    fn a_panic_in_a_call_is_a_fault_and_the_value_is_leaked() {
        let drops = Arc::<AtomicUsize>::default();
        let bomb = Bomb(Arc::clone(&drops));
        let guarded = Guarded::new(|| Ok(bomb)).unwrap();
        guarded.call(|_| Ok(())).unwrap();
        let fault = guarded.call(|_| -> Result<(), ContentFault> { panic!("five {}", 5) });
        assert_eq!(fault.unwrap_err().to_string(), "sled panicked: five 5");
        guarded.call(|_| Ok(())).unwrap_err();
        guarded.close().unwrap_err();
        assert_eq!(drops.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_panic_while_the_value_is_made_or_dropped_is_a_fault() {
        let drops = Arc::<AtomicUsize>::default();
        let bomb = Bomb(Arc::clone(&drops));
        let fault = Guarded::new(|| Ok(bomb)).unwrap().close().unwrap_err();
        assert_eq!(fault.to_string(), "sled panicked: dropped");
        assert_eq!(drops.load(Ordering::SeqCst), 1);

        let made = Guarded::<()>::new(|| panic!("made"));
        assert_eq!(made.err().unwrap().to_string(), "sled panicked: made");
        let bomb = Bomb(Arc::clone(&drops));
        let fault = Guarded::new(|| Ok(()))
            .unwrap()
            .call(|()| -> Result<(), ContentFault> { panic::panic_any(bomb) });
        assert_eq!(
            fault.unwrap_err().to_string(),
            "sled panicked: no message",
            "a payload that panics when it is dropped"
        );
    }

    #[test]
    fn a_call_that_does_not_return_is_given_up() {
        let guarded = Guarded::new(|| Ok(())).unwrap();
        let fault = guarded.call(|()| -> Result<(), ContentFault> {
            loop {
                thread::park();
            }
        });
        assert!(
            matches!(fault, Err(ContentFault::Io(error)) if error.kind() == io::ErrorKind::TimedOut)
        );
    }

    #[test]
    fn only_guarded_panics_are_kept_from_the_hook_that_was_there() {
        static SEEN: AtomicUsize = AtomicUsize::new(0);
        const MARK: &str = "seen by the hook of the host";
        install_hook();
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if panic.payload().downcast_ref::<&str>() == Some(&MARK) {
                SEEN.fetch_add(1, Ordering::SeqCst);
            } else {
                previous(panic);
            }
        }));
        let fault = Guarded::new(|| Ok(()))
            .unwrap()
            .call(|()| -> Result<(), ContentFault> { panic!("quiet") });
        assert!(fault.is_err());
        thread::spawn(|| panic::panic_any(MARK)).join().unwrap_err();
        assert_eq!(SEEN.load(Ordering::SeqCst), 1);
    }
}
