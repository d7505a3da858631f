//! SET and RESET: names of settings and their values.
//!
//! Invariant: a setting that is accepted has a value within its bounds. Whether there is such a device is found when the
//! plan is carried out.

use std::ops::RangeInclusive;

use super::Binder;
use crate::error::{Error, Hint, NameKind, Result, shorten};
use crate::plan::Plan;
use crate::setting::{
    Device, Durability, GPU_MEMORY_LIMIT_MIN, MEMORY_LIMIT_MAX, MEMORY_LIMIT_MIN, Setting,
    Strategy, THREADS_MAX, TIMEOUT_MAX, VALUE_SIZE_LIMIT_MIN, WINDOW_MAX,
};
use crate::suggest::did_you_mean;
use crate::syntax::{Name, Operand};
use crate::value::Value;

impl Binder<'_> {
    pub(super) fn set(&self, name: &Name, value: &Operand) -> Result<Plan> {
        let setting = match self.setting(name)? {
            Setting::BatchWindow(_) => Setting::BatchWindow(self.window(value)?),
            Setting::BusyTimeout(_) => Setting::BusyTimeout(self.time(value, "busy_timeout")?),
            Setting::Device(_) => Setting::Device(self.device(value)?),
            Setting::Durability(_) => Setting::Durability(self.durability(value)?),
            Setting::GpuMemoryLimit(_) => Setting::GpuMemoryLimit(self.gpu_memory_limit(value)?),
            Setting::MemoryLimit(_) => Setting::MemoryLimit(self.memory_limit(value)?),
            Setting::RecompressAtExit(_) => Setting::RecompressAtExit(self.on_or_off(value)?),
            Setting::RecompressInterval(_) => {
                Setting::RecompressInterval(self.time(value, "recompress_interval")?)
            }
            Setting::RecompressRate(_) => {
                let (bounds, written) = (0..=MEMORY_LIMIT_MAX, "0..='1024GiB'");
                Setting::RecompressRate(self.size(value, "recompress_rate", bounds, written)?)
            }
            Setting::RecompressThreads(_) => Setting::RecompressThreads(self.threads(value)?),
            Setting::StatementTimeout(_) => {
                Setting::StatementTimeout(self.time(value, "statement_timeout")?)
            }
            Setting::Strategy(_) => Setting::Strategy(self.strategy(value)?),
            Setting::ValueSizeLimit(_) => {
                let bounds = VALUE_SIZE_LIMIT_MIN..=MEMORY_LIMIT_MAX;
                let written = "'1KiB'..='1024GiB'";
                Setting::ValueSizeLimit(self.size(value, "value_size_limit", bounds, written)?)
            }
        };
        Ok(Plan::Set(setting))
    }

    pub(super) fn reset(&self, name: &Name) -> Result<Plan> {
        self.setting(name).map(Plan::Set)
    }

    /// A setting with its default, by name.
    fn setting(&self, name: &Name) -> Result<Setting> {
        let found = Setting::DEFAULTS
            .into_iter()
            .find(|setting| setting.name().eq_ignore_ascii_case(&name.text));
        found.ok_or_else(|| {
            let hint = did_you_mean(&name.text, &Setting::NAMES, "settings are");
            self.no_such(name.at, NameKind::Setting, &name.text, hint)
        })
    }

    fn device(&self, operand: &Operand) -> Result<Device> {
        let text = self.text(operand, "device")?;
        let lower = text.to_ascii_lowercase();
        let device = match lower.as_str() {
            "auto" => Some(Device::Auto),
            "cpu" => Some(Device::Cpu),
            "cuda" => Some(Device::Cuda(None)),
            _ => lower
                .strip_prefix("cuda:")
                .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))
                .and_then(|digits| digits.parse().ok())
                .map(|number| Device::Cuda(Some(number))),
        };
        device.ok_or_else(|| {
            let bounds = "'auto', 'cpu', 'cuda' or 'cuda:1'";
            self.not_one_of(operand, "device", bounds, &text)
        })
    }

    fn memory_limit(&self, operand: &Operand) -> Result<Option<u64>> {
        let bounds = MEMORY_LIMIT_MIN..=MEMORY_LIMIT_MAX;
        let written = "'1MiB'..='1024GiB', or 'auto'";
        self.size_or_auto(operand, "memory_limit", bounds, written)
    }

    fn gpu_memory_limit(&self, operand: &Operand) -> Result<Option<u64>> {
        let bounds = GPU_MEMORY_LIMIT_MIN..=MEMORY_LIMIT_MAX;
        let written = "'64KiB'..='1024GiB', or 'auto'";
        self.size_or_auto(operand, "gpu_memory_limit", bounds, written)
    }

    /// Bytes; none for `'auto'`.
    fn size_or_auto(
        &self,
        operand: &Operand,
        name: &'static str,
        bounds: RangeInclusive<u64>,
        written: &str,
    ) -> Result<Option<u64>> {
        let value = self.value(&operand.kind);
        if matches!(value, Value::Text(text) if text.eq_ignore_ascii_case("auto")) {
            return Ok(None);
        }
        self.size(operand, name, bounds, written).map(Some)
    }

    fn durability(&self, operand: &Operand) -> Result<Durability> {
        let text = self.text(operand, "durability")?;
        let found = Durability::ALL
            .into_iter()
            .find(|durability| durability.name().eq_ignore_ascii_case(&text));
        let bounds = "'full', 'normal' or 'off'";
        found.ok_or_else(|| self.not_one_of(operand, "durability", bounds, &text))
    }

    fn strategy(&self, operand: &Operand) -> Result<Option<Strategy>> {
        let name = self.text(operand, "strategy")?;
        if name.eq_ignore_ascii_case("auto") {
            return Ok(None);
        }
        let found = Strategy::ALL
            .into_iter()
            .find(|strategy| strategy.name().eq_ignore_ascii_case(&name));
        found.map(Some).ok_or_else(|| {
            let mut names = vec!["auto"];
            names.extend(Strategy::ALL.map(Strategy::name));
            let hint = did_you_mean(&name, &names, "strategies are");
            self.no_such(operand.at, NameKind::Strategy, &name, hint)
        })
    }

    /// A number of threads; none for `'auto'`.
    fn threads(&self, operand: &Operand) -> Result<Option<u64>> {
        let what = "recompress_threads";
        let (value, bounds) = (self.value(&operand.kind), "0 to 1024, or 'auto'");
        let threads = match value {
            Value::Integer(threads) => u64::try_from(*threads).ok(),
            Value::Text(text) if text.eq_ignore_ascii_case("auto") => return Ok(None),
            Value::Text(text) => text.parse().ok(),
            _ => return Err(self.wrong_type(operand, what, "INTEGER or TEXT", Hint::NONE)),
        };
        match threads.filter(|&threads| threads <= THREADS_MAX) {
            Some(threads) => Ok(Some(threads)),
            None => {
                let found = match value {
                    Value::Text(text) => text.clone(),
                    other => other.to_string(),
                };
                Err(self.not_one_of(operand, what, bounds, &found))
            }
        }
    }

    fn on_or_off(&self, operand: &Operand) -> Result<bool> {
        let what = "recompress_at_exit";
        let text = self.text(operand, what)?;
        match text.to_ascii_lowercase().as_str() {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err(self.not_one_of(operand, what, "'on' or 'off'", &text)),
        }
    }

    /// A time in milliseconds.
    fn time(&self, operand: &Operand, what: &'static str) -> Result<u64> {
        let value = self.value(&operand.kind);
        let milliseconds = match value {
            Value::Integer(value) => u64::try_from(*value).ok(),
            Value::Text(text) => parse_time(text),
            _ => return Err(self.wrong_type(operand, what, "INTEGER or TEXT", Hint::NONE)),
        };
        milliseconds
            .filter(|value| *value <= TIMEOUT_MAX)
            .ok_or_else(|| Error::OutOfRange {
                at: self.source.at(operand.at),
                what: what.to_owned(),
                bounds: "a time in 0..='1000h'".to_owned(),
                found: shorten(&value.to_string()),
                hint: Hint::new("times are milliseconds, or text with a unit: ms, s, min, h"),
            })
    }

    fn window(&self, operand: &Operand) -> Result<u64> {
        let what = "batch_window";
        let value = self.value(&operand.kind);
        let microseconds = match value {
            Value::Integer(value) => u64::try_from(*value).ok().and_then(in_microseconds),
            Value::Text(text) => match text.trim().strip_suffix("us") {
                Some(number) => number.trim_end().parse().ok(),
                None => parse_time(text).and_then(in_microseconds),
            },
            _ => return Err(self.wrong_type(operand, what, "INTEGER or TEXT", Hint::NONE)),
        };
        microseconds
            .filter(|value| *value <= WINDOW_MAX)
            .ok_or_else(|| Error::OutOfRange {
                at: self.source.at(operand.at),
                what: what.to_owned(),
                bounds: "a time in 0..='1s'".to_owned(),
                found: shorten(&value.to_string()),
                hint: Hint::new("times are milliseconds, or text with a unit: us, ms, s"),
            })
    }

    fn not_one_of(&self, operand: &Operand, what: &str, bounds: &str, found: &str) -> Error {
        Error::OutOfRange {
            at: self.source.at(operand.at),
            what: what.to_owned(),
            bounds: bounds.to_owned(),
            found: format!("'{}'", shorten(found)),
            hint: Hint::NONE,
        }
    }
}

fn in_microseconds(milliseconds: u64) -> Option<u64> {
    milliseconds.checked_mul(1000)
}

/// Reads `500ms`, `5 s`, `2min`, `1000`: a whole number and perhaps a unit, in milliseconds.
fn parse_time(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let scale = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60 * 1000,
        "h" => 60 * 60 * 1000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_numbers_with_units() {
        for (text, milliseconds) in [
            ("0", Some(0)),
            ("500ms", Some(500)),
            (" 5 S ", Some(5000)),
            ("2min", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("18446744073709551615s", None),
            ("1.5s", None),
            ("-1s", None),
            ("1d", None),
            ("s", None),
            ("", None),
        ] {
            assert_eq!(parse_time(text), milliseconds, "{text}");
        }
    }

    #[test]
    fn defaults_are_named_as_the_list_says() {
        assert_eq!(Setting::DEFAULTS.map(Setting::name), Setting::NAMES);
    }
}
