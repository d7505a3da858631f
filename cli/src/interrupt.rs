//! Signals that ask the program to end: Ctrl-C, SIGTERM and SIGHUP.
//!
//! Invariant: the first one interrupts the work that runs, so that the work cleans up, and then the program ends as the signal would
//! have ended it; the second ends it at once, and so does the first where no work runs that leaves anything. At the prompt
//! Ctrl-C ends the statement and not the program, and between statements it does nothing (the terminal gives the key to the line
//! editor). A signal that was ignored when the program began, as `nohup` has it, stays ignored.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use zipfdb::InterruptHandle;

use crate::error::Error;
use crate::message;

/// The message after the first Ctrl-C at the prompt had no effect.
const STILL_RUNNING: &str = "\nstill running: this step cannot be stopped halfway and ends by itself; Ctrl-\\ ends zipf at once (a COPY \
     that was not finished leaves nothing in the database)";

/// Interval at which work that was interrupted is interrupted again.
const INSISTENCE: Duration = Duration::from_millis(20);

/// The number of the signal that Ctrl-C sends, on every system.
const KEY: i32 = 2;

/// The exit code of a program that a signal ended is this plus the number of the signal, as in shells.
const CODE_OF_SIGNAL: i32 = 128;

/// Passes signals on to the work that runs.
#[derive(Debug, Clone, Default)]
pub struct Signals {
    state: Arc<SignalState>,
}

#[derive(Debug, Default)]
struct SignalState {
    running: Mutex<Vec<RunningWork>>,
    /// How often the work has been interrupted since it began.
    presses: AtomicU32,
    /// The signal that ends the program, 0 if there is none.
    ends: AtomicI32,
    /// Whether Ctrl-C ends statements and not the program.
    is_prompt: bool,
}

#[derive(Debug)]
struct RunningWork {
    handle: InterruptHandle,
    /// Whether it has come to an end that leaves nothing wherever it is cut.
    may_be_cut: bool,
}

/// The reaction to a signal.
#[derive(Debug, PartialEq, Eq)]
enum Reaction {
    /// None.
    Wait,
    /// Interrupt the work again and again: a statement of it that began after the first interrupt is not affected by that.
    Insist,
    /// Say that the work does not end yet.
    Explain,
    /// End the program.
    End,
}

impl Signals {
    /// Takes the signals over for the rest of the program. Those that cannot be taken over still end the program.
    pub fn install(is_prompt: bool) -> Signals {
        let signals = Signals {
            state: Arc::new(SignalState {
                is_prompt,
                ..SignalState::default()
            }),
        };
        let handler = signals.clone();
        let installed = system::listen(move |signal| match handler.react(signal) {
            Reaction::Wait => {}
            Reaction::Insist => handler.insist(),
            Reaction::Explain => message::note(STILL_RUNNING),
            Reaction::End => system::end_by(signal),
        });
        if let Err(error) = installed {
            tracing::warn!("signals will end zipf at once: {error}");
        }
        signals
    }

    /// Work begins, which `handle` interrupts. It ends when the answer is dropped.
    pub fn begin(&self, handle: InterruptHandle) -> Running<'_> {
        let mut running = self.running();
        if running.is_empty() {
            self.state.presses.store(0, Ordering::Relaxed);
        }
        running.push(RunningWork {
            handle,
            may_be_cut: false,
        });
        Running(self)
    }

    /// Goes on unless a signal is to end the program.
    ///
    /// # Errors
    /// [`Error::Signal`].
    pub fn check(&self) -> Result<(), Error> {
        match self.state.ends.load(Ordering::Relaxed) {
            0 => Ok(()),
            _ => Err(Error::Signal),
        }
    }

    /// Ends the program if a signal is to do that.
    pub fn end(&self) {
        match self.state.ends.load(Ordering::Relaxed) {
            0 => {}
            signal => system::end_by(signal),
        }
    }

    fn react(&self, signal: i32) -> Reaction {
        let running = self.running();
        let is_key = self.state.is_prompt && signal == KEY;
        if !is_key {
            let before = self.state.ends.swap(signal, Ordering::Relaxed);
            if before != 0 || running.last().is_none_or(|work| work.may_be_cut) {
                return Reaction::End;
            }
        }
        if running.is_empty() {
            return Reaction::Wait;
        }
        running.iter().for_each(|work| work.handle.interrupt());
        match self.state.presses.fetch_add(1, Ordering::Relaxed) {
            0 => Reaction::Insist,
            1 if is_key => Reaction::Explain,
            _ => Reaction::Wait,
        }
    }

    /// Interrupts what runs until it ends, on a thread of its own.
    fn insist(&self) {
        let signals = self.clone();
        let insist = move || {
            while signals.interrupt_again() {
                thread::sleep(INSISTENCE);
            }
        };
        if let Err(error) = thread::Builder::new()
            .name("interrupts".into())
            .spawn(insist)
        {
            tracing::debug!("an interrupt is not repeated: {error}");
        }
    }

    /// Interrupts what runs if it was interrupted before; `false` if it is over.
    fn interrupt_again(&self) -> bool {
        let running = self.running();
        let is_interrupted = self.state.presses.load(Ordering::Relaxed) > 0;
        if is_interrupted {
            running.iter().for_each(|work| work.handle.interrupt());
        }
        is_interrupted && !running.is_empty()
    }

    fn running(&self) -> MutexGuard<'_, Vec<RunningWork>> {
        let running = self.state.running.lock();
        running.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Work that signals interrupt.
pub struct Running<'a>(&'a Signals);

impl Running<'_> {
    /// Whether it was interrupted.
    pub fn is_interrupted(&self) -> bool {
        self.0.state.presses.load(Ordering::Relaxed) > 0
    }

    /// From here on the work leaves nothing that would have to be cleaned up: a signal that ends the program need not wait.
    pub fn may_be_cut(&self) {
        if let Some(work) = self.0.running().last_mut() {
            work.may_be_cut = true;
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running().pop();
    }
}

#[cfg(unix)]
mod system {
    use std::io;
    use std::process;
    use std::thread;

    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::emulate_default_handler;

    /// Calls `react` for each signal, on a thread of its own.
    pub(super) fn listen(react: impl Fn(i32) + Send + 'static) -> io::Result<()> {
        let ignored = ignored();
        let signals = [SIGINT, SIGTERM, SIGHUP].into_iter();
        let mut signals = Signals::new(signals.filter(|signal| ignored & bit(*signal) == 0))?;
        let listener = thread::Builder::new().name("signals".into());
        listener.spawn(move || signals.forever().for_each(react))?;
        Ok(())
    }

    /// Ends the program as the signal does by default.
    pub(super) fn end_by(signal: i32) {
        // The first process of a container is not ended by signals.
        if process::id() != 1 {
            let _ = emulate_default_handler(signal);
        }
        process::exit(super::CODE_OF_SIGNAL + signal);
    }

    /// The signals that the program was started to ignore, a bit for each.
    #[cfg(target_os = "linux")]
    fn ignored() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .unwrap_or(0)
    }

    /// Which signals are ignored cannot be asked here: SIGHUP, which `nohup` ignores, is left as it is.
    #[cfg(not(target_os = "linux"))]
    fn ignored() -> u64 {
        bit(SIGHUP)
    }

    fn bit(signal: i32) -> u64 {
        1 << (signal - 1)
    }
}

#[cfg(not(unix))]
mod system {
    use std::io;
    use std::process;

    /// Calls `react` for each Ctrl-C, on a thread of its own.
    pub(super) fn listen(react: impl Fn(i32) + Send + 'static) -> io::Result<()> {
        ctrlc::set_handler(move || react(super::KEY)).map_err(io::Error::other)
    }

    /// Ends the program.
    pub(super) fn end_by(signal: i32) {
        process::exit(super::CODE_OF_SIGNAL + signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMINATE: i32 = 15;

    fn signals(is_prompt: bool) -> Signals {
        Signals {
            state: Arc::new(SignalState {
                is_prompt,
                ..SignalState::default()
            }),
        }
    }

    #[test]
    fn a_press_at_the_prompt_reaches_only_what_runs() {
        let signals = signals(true);
        assert_eq!(signals.react(KEY), Reaction::Wait);
        let running = signals.begin(InterruptHandle::new());
        assert!(!running.is_interrupted());
        assert!(!signals.interrupt_again());
        assert_eq!(signals.react(KEY), Reaction::Insist);
        assert!(running.is_interrupted() && signals.interrupt_again());
        assert_eq!(signals.react(KEY), Reaction::Explain);
        assert_eq!(signals.react(KEY), Reaction::Wait);
        drop(running);
        assert!(!signals.interrupt_again());
        assert_eq!(signals.react(KEY), Reaction::Wait);
        assert!(!signals.begin(InterruptHandle::new()).is_interrupted());
        assert!(signals.check().is_ok());
    }

    #[test]
    fn the_first_signal_lets_work_clean_up_and_the_second_does_not() {
        for is_prompt in [true, false] {
            let signals = signals(is_prompt);
            let running = signals.begin(InterruptHandle::new());
            assert_eq!(signals.react(TERMINATE), Reaction::Insist);
            assert!(running.is_interrupted());
            assert!(signals.check().is_err());
            assert_eq!(signals.react(TERMINATE), Reaction::End);
        }
    }

    #[test]
    fn a_signal_ends_the_program_where_nothing_would_be_left() {
        let idle = signals(false);
        assert_eq!(idle.react(KEY), Reaction::End);
        let at_prompt = signals(true);
        assert_eq!(at_prompt.react(TERMINATE), Reaction::End);
        for (is_prompt, signal) in [(false, KEY), (true, TERMINATE)] {
            let signals = signals(is_prompt);
            let running = signals.begin(InterruptHandle::new());
            running.may_be_cut();
            assert_eq!(signals.react(signal), Reaction::End);
        }
    }

    #[test]
    fn work_within_work_ends_with_it() {
        let signals = signals(false);
        let outer = signals.begin(InterruptHandle::new());
        let inner = signals.begin(InterruptHandle::new());
        inner.may_be_cut();
        drop(inner);
        assert_eq!(signals.react(KEY), Reaction::Insist);
        assert!(outer.is_interrupted());
        let inner = signals.begin(InterruptHandle::new());
        assert!(inner.is_interrupted());
        drop(inner);
        assert_eq!(signals.react(KEY), Reaction::End);
    }
}
