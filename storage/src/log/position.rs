//! Positions in the record log.

use crate::fingerprint::Fingerprint;

/// A place between two commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition {
    /// The number of the log file.
    pub file: u64,
    /// The byte in it.
    pub offset: u64,
}

impl LogPosition {
    /// Before every commit.
    pub const START: LogPosition = LogPosition { file: 0, offset: 0 };
}

/// What the log holds at least, as something outside of it remembers.
///
/// Damage to the newest commits, and files that are missing at either end, leave no trace in the log itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogExtent {
    /// Files from this number on may be needed: none of them was removed.
    pub(crate) oldest: u64,
    /// The file is there, and all commits up to here are durable.
    pub(crate) end: LogPosition,
}

impl LogExtent {
    /// Takes that the log is durable up to `position`, unless that is in another file than its end.
    pub(crate) fn raise(&mut self, position: LogPosition) {
        if position.file == self.end.file {
            self.end = self.end.max(position);
        }
    }
}

/// The newest file of the log with all its bytes, whatever they mean. All that comes to the log comes behind them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogTail {
    /// 0 if there is no file.
    pub(crate) number: u64,
    pub(crate) size: u64,
    /// Fingerprint of all its bytes.
    pub(crate) fingerprint: u64,
}

impl LogTail {
    /// Whether the file of this number may have these bytes now: they begin with those that it had before.
    pub(crate) fn is_continued_by(&self, bytes: &[u8]) -> bool {
        let before = usize::try_from(self.size)
            .ok()
            .and_then(|size| bytes.get(..size));
        before.is_some_and(|before| Fingerprint::of(before) == self.fingerprint)
    }
}
