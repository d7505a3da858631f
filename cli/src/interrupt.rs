//! Ctrl-C while a statement runs: ends the statement and not the program.
//!
//! Invariant: a key press reaches only what runs at that moment; between statements it does nothing (at the prompt the
//! terminal gives the key to the line editor). Programs that nobody types at do not install this and die of Ctrl-C.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zipfdb::InterruptHandle;

use crate::message;

/// Said when the first Ctrl-C did not help.
const STILL_RUNNING: &str = "\nstill running: this step cannot be stopped halfway and ends by itself; Ctrl-\\ ends zipf at once (a COPY \
     that was not finished leaves nothing in the database)";

/// Passes Ctrl-C on to the statement that runs.
#[derive(Debug, Clone, Default)]
pub struct CtrlC {
    state: Arc<InterruptState>,
}

#[derive(Debug, Default)]
struct InterruptState {
    running: Mutex<Option<InterruptHandle>>,
    /// Since the statement began.
    presses: AtomicU32,
}

impl CtrlC {
    /// Takes over Ctrl-C for the rest of the program. Where that is not possible it goes on to end the program.
    pub fn install() -> CtrlC {
        let ctrl_c = CtrlC::default();
        let handler = ctrl_c.clone();
        let installed = ctrlc::set_handler(move || {
            if handler.press() == 2 {
                message::note(STILL_RUNNING);
            }
        });
        if let Err(error) = installed {
            tracing::warn!("Ctrl-C will end zipf: {error}");
        }
        ctrl_c
    }

    /// A statement begins, which `handle` interrupts. It ends when the answer is dropped.
    pub fn begin(&self, handle: InterruptHandle) -> Running<'_> {
        let mut running = self.running();
        self.state.presses.store(0, Ordering::Relaxed);
        *running = Some(handle);
        Running(self)
    }

    /// The key was pressed; returns how often since the statement began, 0 if none runs.
    fn press(&self) -> u32 {
        let running = self.running();
        match &*running {
            Some(handle) => {
                handle.interrupt();
                self.state.presses.fetch_add(1, Ordering::Relaxed) + 1
            }
            None => 0,
        }
    }

    fn running(&self) -> MutexGuard<'_, Option<InterruptHandle>> {
        let running = self.state.running.lock();
        running.unwrap_or_else(PoisonError::into_inner)
    }
}

/// A statement that Ctrl-C interrupts.
pub struct Running<'a>(&'a CtrlC);

impl Running<'_> {
    /// Whether the key was pressed since the statement began.
    pub fn is_interrupted(&self) -> bool {
        self.0.state.presses.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *self.0.running() = None;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_press_reaches_only_what_runs() {
        let database = zipfdb::Database::in_memory().unwrap();
        let ctrl_c = CtrlC::default();
        assert_eq!(ctrl_c.press(), 0);
        let running = ctrl_c.begin(database.interrupt_handle());
        assert!(!running.is_interrupted());
        assert_eq!((ctrl_c.press(), ctrl_c.press()), (1, 2));
        assert!(running.is_interrupted());
        drop(running);
        assert_eq!(ctrl_c.press(), 0);
        assert!(!ctrl_c.begin(database.interrupt_handle()).is_interrupted());
    }
}
