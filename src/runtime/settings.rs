//! `Settings`: the settings of a database handle and its clones, as SET left them.
//!
//! Invariant: values are valid, the front end has checked them. They are not stored: a database opens with the defaults.

use crate::runtime::machine::memory_share;
use zipfdb_sql::setting::{Device, Durability, Setting, Strategy};

/// The settings in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Microseconds; 0 if look-ups are not gathered.
    pub(crate) batch_window: u64,
    /// Milliseconds.
    pub(crate) busy_timeout: u64,
    pub(crate) device: Device,
    pub(crate) durability: Durability,
    /// Bytes of each GPU; none for the default, most of its memory.
    pub(crate) gpu_memory_limit: Option<u64>,
    pub(crate) strategy: Option<Strategy>,
    /// Bytes; none for the default, a share of the machine's memory.
    memory_limit: Option<u64>,
    pub(crate) recompress_at_exit: bool,
    /// Milliseconds; 0 if old edits alone start no recompression.
    pub(crate) recompress_interval: u64,
    /// Bytes a second; 0 for no limit.
    pub(crate) recompress_rate: u64,
    /// None for the default, half of the threads.
    pub(crate) recompress_threads: Option<u64>,
    /// Milliseconds; 0 for no limit.
    pub(crate) statement_timeout: u64,
    /// The longest value in bytes.
    pub(crate) value_size_limit: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            batch_window: 0,
            busy_timeout: 5000,
            device: Device::Auto,
            durability: Durability::Full,
            gpu_memory_limit: None,
            strategy: None,
            memory_limit: None,
            recompress_at_exit: false,
            recompress_interval: 0,
            recompress_rate: 0,
            recompress_threads: None,
            statement_timeout: 0,
            value_size_limit: 1_000_000_000,
        }
    }
}

impl Settings {
    /// Sets a value.
    pub(crate) fn set(&mut self, setting: Setting) {
        match setting {
            Setting::BatchWindow(microseconds) => self.batch_window = microseconds,
            Setting::BusyTimeout(milliseconds) => self.busy_timeout = milliseconds,
            Setting::Device(device) => self.device = device,
            Setting::Durability(durability) => self.durability = durability,
            Setting::GpuMemoryLimit(bytes) => self.gpu_memory_limit = bytes,
            Setting::Strategy(strategy) => self.strategy = strategy,
            Setting::MemoryLimit(bytes) => self.memory_limit = bytes,
            Setting::RecompressAtExit(is_on) => self.recompress_at_exit = is_on,
            Setting::RecompressInterval(milliseconds) => self.recompress_interval = milliseconds,
            Setting::RecompressRate(bytes) => self.recompress_rate = bytes,
            Setting::RecompressThreads(threads) => self.recompress_threads = threads,
            Setting::StatementTimeout(milliseconds) => self.statement_timeout = milliseconds,
            Setting::ValueSizeLimit(bytes) => self.value_size_limit = bytes,
        }
    }

    /// Bytes that the cache may hold, and that one query may keep before it spills.
    pub(crate) fn memory_limit(&self) -> u64 {
        self.memory_limit.unwrap_or_else(memory_share)
    }

    /// Each setting as SET writes it, with its description; sorted by name.
    pub(crate) fn list(&self) -> [(Setting, &'static str); 13] {
        [
            (
                Setting::BatchWindow(self.batch_window),
                "Time for which single look-ups of many threads wait to be answered together; 0 for never.",
            ),
            (
                Setting::BusyTimeout(self.busy_timeout),
                "Time for which a write waits for another process that writes; 0 for not at all.",
            ),
            (
                Setting::Device(self.device),
                "Where queries run: auto, cpu, cuda for all GPUs, or cuda:N for one.",
            ),
            (
                Setting::Durability(self.durability),
                "What commits survive: full a power cut, normal the end of the process, off nothing.",
            ),
            (
                Setting::GpuMemoryLimit(self.gpu_memory_limit),
                "Memory of each GPU that this database may use; auto for nine tenths of it.",
            ),
            (
                Setting::MemoryLimit(self.memory_limit),
                "Memory of decoded parts and derived structures, and what sorting and grouping of a query keep before they use the disk; auto for a quarter of the machine's.",
            ),
            (
                Setting::RecompressAtExit(self.recompress_at_exit),
                "Whether the command line recompresses corpora with pending changes when it ends: on or off.",
            ),
            (
                Setting::RecompressInterval(self.recompress_interval),
                "Time after which pending changes are merged in the background, however few they are; 0 for never.",
            ),
            (
                Setting::RecompressRate(self.recompress_rate),
                "Bytes of text a second that recompression in the background reads at most; 0 for no bound.",
            ),
            (
                Setting::RecompressThreads(self.recompress_threads),
                "Threads that recompress in the background: 0 for none, auto for half of all.",
            ),
            (
                Setting::StatementTimeout(self.statement_timeout),
                "Time after which a statement ends with an error; 0 for never.",
            ),
            (
                Setting::Strategy(self.strategy),
                "Algorithm that answers from the grammar: auto for the planner's choice.",
            ),
            (
                Setting::ValueSizeLimit(self.value_size_limit),
                "Bytes of the longest TEXT or BLOB that a query makes or reads.",
            ),
        ]
    }
}

/// The value of a setting as SET writes it.
pub(crate) fn value_text(setting: Setting) -> String {
    match setting {
        Setting::BatchWindow(0) => "0".into(),
        Setting::BatchWindow(microseconds) => format!("{microseconds}us"),
        Setting::Device(Device::Auto) => "auto".into(),
        Setting::Device(Device::Cpu) => "cpu".into(),
        Setting::Device(Device::Cuda(None)) => "cuda".into(),
        Setting::Device(Device::Cuda(Some(number))) => format!("cuda:{number}"),
        Setting::GpuMemoryLimit(None) | Setting::MemoryLimit(None) => "auto".into(),
        Setting::Durability(durability) => durability.name().into(),
        Setting::Strategy(strategy) => strategy.map_or("auto", Strategy::name).into(),
        Setting::RecompressRate(0) => "0".into(),
        Setting::MemoryLimit(Some(bytes))
        | Setting::RecompressRate(bytes)
        | Setting::ValueSizeLimit(bytes)
        | Setting::GpuMemoryLimit(Some(bytes)) => {
            let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
            let unit = units
                .into_iter()
                .find(|(bits, _)| bytes > 0 && bytes.trailing_zeros() >= *bits);
            match unit {
                Some((bits, name)) => format!("{}{name}", bytes >> bits),
                None => format!("{bytes}B"),
            }
        }
        Setting::RecompressAtExit(is_on) => if is_on { "on" } else { "off" }.into(),
        Setting::RecompressThreads(None) => "auto".into(),
        Setting::RecompressThreads(Some(threads)) => threads.to_string(),
        Setting::StatementTimeout(milliseconds)
        | Setting::BusyTimeout(milliseconds)
        | Setting::RecompressInterval(milliseconds) => match milliseconds {
            0 => "0".into(),
            _ => format!("{milliseconds}ms"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_listed_by_name_with_their_values() {
        let mut settings = Settings::default();
        settings.set(Setting::Device(Device::Cuda(Some(1))));
        settings.set(Setting::RecompressRate(20 << 20));
        settings.set(Setting::StatementTimeout(1500));
        settings.set(Setting::MemoryLimit(Some(1000)));
        settings.set(Setting::Strategy(Some(Strategy::RootStream)));
        let list = settings.list();
        assert_eq!(list.map(|(setting, _)| setting.name()), Setting::NAMES);
        let values = list.map(|(setting, _)| value_text(setting));
        assert_eq!(
            values,
            [
                "0",
                "5000ms",
                "cuda:1",
                "full",
                "auto",
                "1000B",
                "off",
                "0",
                "20MiB",
                "auto",
                "1500ms",
                "root_stream",
                "1000000000B"
            ]
        );
        let defaults = Settings::default().list();
        let defaults = defaults.map(|(setting, _)| value_text(setting));
        assert_eq!(
            defaults,
            [
                "0",
                "5000ms",
                "auto",
                "full",
                "auto",
                "auto",
                "off",
                "0",
                "0",
                "auto",
                "0",
                "auto",
                "1000000000B"
            ]
        );
    }
}
