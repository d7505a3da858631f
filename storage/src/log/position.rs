//! Places in the record log.

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
