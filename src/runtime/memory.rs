//! `ValueMemory`: limits on the size of a value and on the values of one statement together, and allocations that fail with an
//! error.
//!
//! The length of a value is checked before it is allocated. Invariant: values of `COUNTED_BYTES_MIN` and more are counted from
//! their making until their row is done; smaller ones are not, as their number is that of the expressions of the statement.
//! Operators count rows that they keep themselves, against their own shares.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::runtime::settings::Settings;
use crate::{Error, Result, Value};

/// Values of fewer bytes are not counted.
const COUNTED_BYTES_MIN: u64 = 4 << 10;

/// The least limit for the values of a row, however small `memory_limit` is.
const ROW_BYTES_MIN: u64 = 16 << 20;

/// The limits on values of one statement, and the bytes in use. Clones count together.
#[derive(Debug, Clone)]
pub(crate) struct ValueMemory {
    /// The longest value, in bytes.
    value_bytes: u64,
    /// The limit for all values of a row together, in bytes.
    row_bytes: u64,
    used: Arc<AtomicU64>,
}

impl Default for ValueMemory {
    fn default() -> ValueMemory {
        ValueMemory::new(&Settings::default())
    }
}

impl ValueMemory {
    pub(crate) fn new(settings: &Settings) -> ValueMemory {
        ValueMemory {
            value_bytes: settings.value_size_limit,
            row_bytes: settings.memory_limit().max(ROW_BYTES_MIN),
            used: Arc::default(),
        }
    }

    /// Limits values to `bytes` together.
    pub(crate) fn of(bytes: u64) -> ValueMemory {
        ValueMemory {
            value_bytes: bytes,
            row_bytes: bytes,
            used: Arc::default(),
        }
    }

    /// Checks that a value of `bytes` may be made; `what` names it in the error.
    ///
    /// # Errors
    /// If it is too long, alone or beside the other values of its row.
    pub(crate) fn check(&self, what: &str, bytes: u64) -> Result<()> {
        self.check_length(what, bytes)?;
        self.check_left(what, bytes)
    }

    /// Checks that `bytes` more fit beside what is counted; `what` names them in the error.
    ///
    /// # Errors
    /// If they do not fit. Fewer than `COUNTED_BYTES_MIN` always fit.
    pub(crate) fn check_left(&self, what: &str, bytes: u64) -> Result<()> {
        // Counts of other threads may be a moment old; nothing else depends on them.
        let left = (self.row_bytes).saturating_sub(self.used.load(Ordering::Relaxed));
        if bytes < COUNTED_BYTES_MIN || bytes <= left {
            return Ok(());
        }
        Err(Error::TooLarge {
            what: what.to_owned(),
            bytes,
            setting: "memory_limit",
            left,
        })
    }

    /// The limit for all values of a row together, in bytes.
    pub(crate) fn row_bytes(&self) -> u64 {
        self.row_bytes
    }

    /// Checks the length of a single value.
    ///
    /// # Errors
    /// If it is longer than `value_size_limit`.
    pub(crate) fn check_length(&self, what: &str, bytes: u64) -> Result<()> {
        if bytes <= self.value_bytes {
            return Ok(());
        }
        Err(Error::TooLarge {
            what: what.to_owned(),
            bytes,
            setting: "value_size_limit",
            left: self.value_bytes,
        })
    }

    /// Checks that a structure made of a row and kept for it alone may take `bytes`.
    ///
    /// # Errors
    /// If it is more than the limit for all values of a row.
    pub(crate) fn check_alone(&self, what: &str, bytes: u64) -> Result<()> {
        if bytes <= self.row_bytes {
            return Ok(());
        }
        Err(Error::TooLarge {
            what: what.to_owned(),
            bytes,
            setting: "memory_limit",
            left: self.row_bytes,
        })
    }

    /// An empty buffer for a value of exactly `bytes`.
    ///
    /// # Errors
    /// Those of `check`, and if the system refuses the memory.
    pub(crate) fn buffer(&self, what: &str, bytes: u64) -> Result<Vec<u8>> {
        self.check(what, bytes)?;
        reserved(what, usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// A copy of a value.
    ///
    /// # Errors
    /// Those of `buffer`.
    pub(crate) fn copy(&self, value: &Value) -> Result<Value> {
        let bytes = size(value);
        if bytes < COUNTED_BYTES_MIN {
            return Ok(value.clone());
        }
        let what = "a copy of a value";
        self.check(what, bytes)?;
        copy(what, value)
    }

    /// A counter of values, which takes them off when dropped.
    pub(crate) fn hold(&self) -> Held {
        Held {
            memory: self.clone(),
            bytes: 0,
        }
    }

    /// The bytes counted now.
    #[cfg(test)]
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

/// An empty vector with room for `count` items; `what` names them in the error.
///
/// # Errors
/// If the system refuses the memory.
pub(crate) fn reserved<T>(what: &str, count: usize) -> Result<Vec<T>> {
    let mut items = Vec::new();
    match items.try_reserve_exact(count) {
        Ok(()) => Ok(items),
        Err(_) => Err(Error::NoMemory {
            what: what.to_owned(),
            bytes: (count as u64).saturating_mul(size_of::<T>() as u64),
        }),
    }
}

/// A copy of a value that is not counted.
///
/// # Errors
/// Those of `reserved`.
pub(crate) fn copy(what: &str, value: &Value) -> Result<Value> {
    Ok(match value {
        Value::Text(text) => {
            let mut copy = String::new();
            if copy.try_reserve_exact(text.len()).is_err() {
                return Err(Error::NoMemory {
                    what: what.to_owned(),
                    bytes: size(value),
                });
            }
            copy.push_str(text);
            Value::Text(copy)
        }
        Value::Blob(blob) => {
            let mut copy = reserved(what, blob.len())?;
            copy.extend_from_slice(blob);
            Value::Blob(copy)
        }
        Value::Null | Value::Integer(_) | Value::Real(_) => value.clone(),
    })
}

/// The bytes that a value keeps on the heap.
pub(crate) fn size(value: &Value) -> u64 {
    match value {
        Value::Text(text) => text.len() as u64,
        Value::Blob(bytes) => bytes.len() as u64,
        _ => 0,
    }
}

/// Whether a value is large enough to be counted.
pub(crate) fn is_counted(value: &Value) -> bool {
    size(value) >= COUNTED_BYTES_MIN
}

/// Values that are counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    memory: ValueMemory,
    bytes: u64,
}

impl Held {
    /// Counts a value.
    pub(crate) fn add(&mut self, value: &Value) {
        if is_counted(value) {
            self.add_bytes(size(value));
        }
    }

    /// Counts bytes that belong to no value.
    pub(crate) fn add_bytes(&mut self, bytes: u64) {
        self.memory.used.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
    }

    /// As `add_bytes`, before the bytes are allocated.
    ///
    /// # Errors
    /// If they do not fit beside what is counted.
    pub(crate) fn reserve(&mut self, what: &str, bytes: u64) -> Result<()> {
        self.memory.check_left(what, bytes)?;
        self.add_bytes(bytes);
        Ok(())
    }

    /// Whether no value is counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Stops counting all of its values.
    pub(crate) fn clear(&mut self) {
        if self.bytes > 0 {
            self.memory.used.fetch_sub(self.bytes, Ordering::Relaxed);
            self.bytes = 0;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use zipfdb_sql::setting::Setting;

    use super::*;

    #[test]
    fn values_count_until_their_row_is_done() {
        let mut settings = Settings::default();
        settings.set(Setting::MemoryLimit(Some(32 << 20)));
        settings.value_size_limit = 20 << 20;
        let memory = ValueMemory::new(&settings);
        let refused = |bytes: u64| memory.check("it", bytes).unwrap_err().to_string();
        let too_long = refused((20 << 20) + 1);
        assert!(too_long.contains("value_size_limit allows 20971520"));
        let value = Value::Blob(vec![0; 20 << 20]);
        let mut held = memory.clone().hold();
        held.add(&memory.copy(&value).unwrap());
        assert_eq!(memory.used(), 20 << 20);
        let too_many = refused(20 << 20);
        assert!(
            too_many.contains("memory_limit allows 12582912"),
            "{too_many}"
        );
        assert!(memory.copy(&value).is_err());
        // Small values are not counted and never refused.
        held.add(&Value::from("small"));
        assert_eq!(memory.used(), 20 << 20);
        memory.check("it", COUNTED_BYTES_MIN - 1).unwrap();
        drop(held);
        assert_eq!(memory.used(), 0);
        memory.check("it", 20 << 20).unwrap();
    }

    #[test]
    fn memory_that_the_system_lacks_is_an_error() {
        let memory = ValueMemory::of(u64::MAX);
        let error = memory.buffer("the result of hex", u64::MAX).unwrap_err();
        assert!(matches!(error, Error::NoMemory { .. }), "{error}");
    }
}
