//! Reports the progress of long work to the host program.
//!
//! Calls come from any thread of the database's pool, amounts only grow, and
//! every `begin` is followed by an `end` unless the operation failed.

/// Receives the progress of a long operation; units are bytes of text.
pub trait Progress: Sync {
    /// A stage begins that will process `total` bytes; 0 if that is not known.
    fn begin(&self, stage: &str, total: u64);
    /// `amount` more bytes are done.
    fn advance(&self, amount: u64);
    /// The stage is over.
    fn end(&self);
}

/// Ignores all progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn begin(&self, _stage: &str, _total: u64) {}
    fn advance(&self, _amount: u64) {}
    fn end(&self) {}
}
