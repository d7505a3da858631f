//! `Setting`: what SET changes for a database handle.
//!
//! Invariant: a `Setting` that is `in_bounds` holds a valid value, as one that was parsed does. Names and values are parsed in
//! `bind`; what a setting does is the executor's business.

use std::ops::RangeInclusive;

/// The least `memory_limit` in bytes.
pub(crate) const MEMORY_LIMIT_MIN: u64 = 1 << 20;
/// The greatest `memory_limit` in bytes.
pub(crate) const MEMORY_LIMIT_MAX: u64 = 1 << 40;

/// The least `gpu_memory_limit` in bytes.
pub(crate) const GPU_MEMORY_LIMIT_MIN: u64 = 1 << 16;

/// The least `value_size_limit` in bytes.
pub(crate) const VALUE_SIZE_LIMIT_MIN: u64 = 1 << 10;

/// The greatest `statement_timeout`, `busy_timeout` and `recompress_interval` in milliseconds.
pub(crate) const TIMEOUT_MAX: u64 = 1000 * 60 * 60 * 1000;

/// The greatest `recompress_threads`.
pub(crate) const THREADS_MAX: u64 = 1024;

/// The greatest `batch_window` in microseconds.
pub(crate) const WINDOW_MAX: u64 = 1_000_000;

/// A setting with its new value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// `SET batch_window = '200us'`: for how long single look-ups wait for others, in microseconds; 0 for not at all.
    BatchWindow(u64),
    /// `SET busy_timeout = '5s'` or milliseconds: for how long a write waits for another process that writes.
    BusyTimeout(u64),
    /// `SET device = 'auto' | 'cpu' | 'cuda' | 'cuda:1'`.
    Device(Device),
    /// `SET gpu_memory_limit = '8GiB'`: bytes that the database may use of each GPU; none for `'auto'`, most of it.
    GpuMemoryLimit(Option<u64>),
    /// `SET strategy = 'auto' | 'totals' | ...`: none for `'auto'`, the planner's choice.
    Strategy(Option<Strategy>),
    /// `SET durability = 'full' | 'normal' | 'off'`.
    Durability(Durability),
    /// `SET memory_limit = '256MiB'`: bytes that the cache holds, and that sorting, grouping and DISTINCT of one query keep
    /// before they spill; none for `'auto'`, a quarter of the machine's memory.
    MemoryLimit(Option<u64>),
    /// `SET recompress_at_exit = 'on' | 'off'`: whether the command line merges pending changes when it ends.
    RecompressAtExit(bool),
    /// `SET recompress_interval = '10min'` or milliseconds: changes that have been pending for this time are merged in the
    /// background, however few they are; 0 for never.
    RecompressInterval(u64),
    /// `SET recompress_rate = '20MiB'`: bytes of text a second that recompression in the background reads at most; 0 for no bound.
    RecompressRate(u64),
    /// `SET recompress_threads = 2`: how many threads recompress in the background; 0 for none, no number for `'auto'`, half of
    /// all.
    RecompressThreads(Option<u64>),
    /// `SET statement_timeout = '5s'` or milliseconds: a statement that takes longer ends with an error; 0 for never.
    StatementTimeout(u64),
    /// `SET value_size_limit = '16MiB'`: bytes of the longest TEXT or BLOB that a query makes or reads.
    ValueSizeLimit(u64),
}

impl Setting {
    /// All settings with the values they have at the start, sorted by name.
    pub const DEFAULTS: [Setting; 13] = [
        Setting::BatchWindow(0),
        Setting::BusyTimeout(5000),
        Setting::Device(Device::Auto),
        Setting::Durability(Durability::Full),
        Setting::GpuMemoryLimit(None),
        Setting::MemoryLimit(None),
        Setting::RecompressAtExit(false),
        Setting::RecompressInterval(0),
        Setting::RecompressRate(0),
        Setting::RecompressThreads(None),
        Setting::StatementTimeout(0),
        Setting::Strategy(None),
        Setting::ValueSizeLimit(1_000_000_000),
    ];

    /// Names of all settings, sorted.
    pub const NAMES: [&'static str; 13] = [
        "batch_window",
        "busy_timeout",
        "device",
        "durability",
        "gpu_memory_limit",
        "memory_limit",
        "recompress_at_exit",
        "recompress_interval",
        "recompress_rate",
        "recompress_threads",
        "statement_timeout",
        "strategy",
        "value_size_limit",
    ];

    /// The setting, if its number is within the bounds that SET allows.
    ///
    /// # Errors
    /// The bounds, if it is not: bytes, milliseconds, microseconds or threads.
    pub fn in_bounds(self) -> Result<Setting, RangeInclusive<u64>> {
        let (number, bounds) = match self {
            Setting::BatchWindow(number) => (number, 0..=WINDOW_MAX),
            Setting::BusyTimeout(number)
            | Setting::RecompressInterval(number)
            | Setting::StatementTimeout(number) => (number, 0..=TIMEOUT_MAX),
            Setting::GpuMemoryLimit(Some(number)) => {
                (number, GPU_MEMORY_LIMIT_MIN..=MEMORY_LIMIT_MAX)
            }
            Setting::MemoryLimit(Some(number)) => (number, MEMORY_LIMIT_MIN..=MEMORY_LIMIT_MAX),
            Setting::RecompressRate(number) => (number, 0..=MEMORY_LIMIT_MAX),
            Setting::RecompressThreads(Some(number)) => (number, 0..=THREADS_MAX),
            Setting::ValueSizeLimit(number) => (number, VALUE_SIZE_LIMIT_MIN..=MEMORY_LIMIT_MAX),
            Setting::Device(_)
            | Setting::Durability(_)
            | Setting::GpuMemoryLimit(None)
            | Setting::MemoryLimit(None)
            | Setting::RecompressAtExit(_)
            | Setting::RecompressThreads(None)
            | Setting::Strategy(_) => return Ok(self),
        };
        if bounds.contains(&number) {
            Ok(self)
        } else {
            Err(bounds)
        }
    }

    /// The name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Setting::BatchWindow(_) => "batch_window",
            Setting::BusyTimeout(_) => "busy_timeout",
            Setting::Device(_) => "device",
            Setting::Durability(_) => "durability",
            Setting::GpuMemoryLimit(_) => "gpu_memory_limit",
            Setting::MemoryLimit(_) => "memory_limit",
            Setting::RecompressAtExit(_) => "recompress_at_exit",
            Setting::RecompressInterval(_) => "recompress_interval",
            Setting::RecompressRate(_) => "recompress_rate",
            Setting::RecompressThreads(_) => "recompress_threads",
            Setting::StatementTimeout(_) => "statement_timeout",
            Setting::Strategy(_) => "strategy",
            Setting::ValueSizeLimit(_) => "value_size_limit",
        }
    }
}

/// Where queries run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Device {
    /// Where it is estimated to be fastest.
    #[default]
    Auto,
    /// On threads of the host.
    Cpu,
    /// On NVIDIA GPUs: on one by number, or on all.
    Cuda(Option<u32>),
}

/// What a commit survives once it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A power cut: it is on disk.
    #[default]
    Full,
    /// The end of the process: the operating system has it. A power cut may lose the newest commits.
    Normal,
    /// Nothing: it may be in the process only. The end of the process may lose the newest commits.
    Off,
}

impl Durability {
    /// All of them.
    pub const ALL: [Durability; 3] = [Durability::Full, Durability::Normal, Durability::Off];

    /// The name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Full => "full",
            Durability::Normal => "normal",
            Durability::Off => "off",
        }
    }
}

/// An algorithm that answers from the grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// Stored totals of files and segments: nothing of the grammar is read.
    Totals,
    /// Weights of all symbols, top-down by level.
    Weights,
    /// Weights of (file, symbol), top-down for each file.
    FileWeights,
    /// Tables of words for each rule, bottom-up by level.
    LocalTables,
    /// From a symbol to the rules and root positions that use it.
    Parents,
    /// All words in order, streamed from the root.
    RootStream,
    /// Expanding the few files that are asked.
    Decode,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Strategy; 7] = [
        Strategy::Totals,
        Strategy::Weights,
        Strategy::FileWeights,
        Strategy::LocalTables,
        Strategy::Parents,
        Strategy::RootStream,
        Strategy::Decode,
    ];

    /// The name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::Totals => "totals",
            Strategy::Weights => "weights",
            Strategy::FileWeights => "file_weights",
            Strategy::LocalTables => "local_tables",
            Strategy::Parents => "parents",
            Strategy::RootStream => "root_stream",
            Strategy::Decode => "decode",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_in_bounds_and_numbers_beyond_them_are_not() {
        for setting in Setting::DEFAULTS {
            assert_eq!(setting.in_bounds(), Ok(setting));
        }
        assert!(Setting::MemoryLimit(Some(0)).in_bounds().is_err());
        assert!(Setting::StatementTimeout(u64::MAX).in_bounds().is_err());
        assert_eq!(
            Setting::RecompressThreads(Some(2000)).in_bounds(),
            Err(0..=THREADS_MAX)
        );
    }
}
