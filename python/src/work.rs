//! Work of the database on behalf of Python: without the interpreter's lock, ended by Ctrl-C, and only in the process that opened it.
//!
//! Invariant: no lock of this crate is held by a thread that waits for the interpreter. Signals reach Python in its main thread alone:
//! there the work is done by another thread, while the main one looks for signals.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use zipfdb::InterruptHandle;

use crate::errors::{InterfaceError, OperationalError};

/// The time between two looks for signals.
const LOOK: Duration = Duration::from_millis(20);

/// A value that only the process that made it may use: its threads are not in a process that was forked.
pub(crate) struct Held<T> {
    value: Option<T>,
    process: u32,
}

impl<T> Held<T> {
    pub(crate) fn new(value: T) -> Held<T> {
        Held {
            value: Some(value),
            process: std::process::id(),
        }
    }

    /// The value.
    ///
    /// # Errors
    /// If it was closed, or belongs to another process.
    pub(crate) fn get(&self) -> PyResult<&T> {
        self.check_process()?;
        self.value.as_ref().ok_or_else(closed)
    }

    /// The value, to be changed.
    ///
    /// # Errors
    /// As `get`.
    pub(crate) fn get_mut(&mut self) -> PyResult<&mut T> {
        self.check_process()?;
        self.value.as_mut().ok_or_else(closed)
    }

    /// The value, taken out; none if it was closed.
    ///
    /// # Errors
    /// If it belongs to another process.
    pub(crate) fn take(&mut self) -> PyResult<Option<T>> {
        self.check_process()?;
        Ok(self.value.take())
    }

    fn check_process(&self) -> PyResult<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        Err(OperationalError::new_err(
            "the database was opened by the process that this one was forked from; hint: connect in each process, or start \
             processes by `spawn`",
        ))
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        // Closing would wait for threads that are not in this process.
        if self.process != std::process::id() {
            std::mem::forget(self.value.take());
        }
    }
}

fn closed() -> PyErr {
    InterfaceError::new_err("it is closed; hint: connect again")
}

/// Whether this is the thread that signals reach.
fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    main.eq(threading.call_method0("get_ident")?)
}

/// Does work without the interpreter's lock. A signal whose handler raises, such as Ctrl-C, interrupts the work and is raised.
///
/// # Errors
/// Those of the handler.
pub(crate) fn work<A: Send>(
    py: Python<'_>,
    interrupt: &InterruptHandle,
    work: impl FnOnce() -> A + Send,
) -> PyResult<A> {
    if is_main_thread(py)? {
        watched(py, interrupt, work, |_| Ok(()))
    } else {
        Ok(py.detach(work))
    }
}

/// As `work`, on another thread in any case; `look` is called while it is done.
///
/// # Errors
/// Those of `look` and of signal handlers; the work is interrupted then.
pub(crate) fn watched<A: Send>(
    py: Python<'_>,
    interrupt: &InterruptHandle,
    work: impl FnOnce() -> A + Send,
    mut look: impl FnMut(Python<'_>) -> PyResult<()> + Send,
) -> PyResult<A> {
    py.detach(|| {
        thread::scope(|scope| {
            let (done, is_done) = channel::<()>();
            let builder = thread::Builder::new().name("zipfdb-python".into());
            let working = builder.spawn_scoped(scope, move || {
                let answer = work();
                drop(done);
                answer
            });
            let working = working.map_err(|error| OperationalError::new_err(error.to_string()))?;
            let mut ended = Ok(());
            while is_done.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if ended.is_ok() {
                    ended = Python::attach(|py| py.check_signals().and_then(|()| look(py)));
                }
                if ended.is_err() {
                    interrupt.interrupt();
                }
            }
            let answer = working.join();
            ended?;
            match answer {
                Ok(answer) => Ok(answer),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    })
}
