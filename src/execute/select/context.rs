//! What all operators of one query share.
//!
//! Invariant: operators that keep rows share the memory limit in equal parts, so together they stay within it. A single row
//! may be larger than a part; it is kept all the same.

use super::spill::SpillDirectory;
use crate::Database;
use crate::interrupt::{Interrupt, Pace};
use crate::settings::Settings;

/// What all operators of one query share.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) interrupt: Interrupt,
    pub(crate) settings: Settings,
    /// 0-based number of the parameter set.
    pub(crate) binding: u64,
    pub(crate) spill: SpillDirectory,
    /// Bytes that one operator may keep.
    pub(crate) memory: usize,
}

impl Context {
    /// For a statement that begins now, and its first parameter set.
    pub(crate) fn new(database: &Database) -> Context {
        let settings = *database.shared().settings.lock();
        Context {
            interrupt: database
                .shared()
                .interrupts
                .begin(settings.statement_timeout),
            settings,
            binding: 0,
            spill: SpillDirectory::beside(database.path().as_deref()),
            memory: usize::try_from(settings.memory_limit).unwrap_or(usize::MAX),
        }
    }

    pub(crate) fn pace(&self) -> Pace {
        self.interrupt.pace()
    }
}
