//! Limits on what a source may unpack to, so that a small file cannot fill memory or disk.
//!
//! Invariant: all bytes that any decompression gives are counted before they are used, those of archives in archives at each level.

use std::cell::Cell;
use std::io::{self, Read};

/// Bytes that any source may unpack to.
const UNPACKED_FREE: u64 = 1 << 30;
/// Bytes that a source may unpack to for each of its bytes, beyond [`UNPACKED_FREE`].
const RATIO_MAX: u64 = 1000;

/// Limits on one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that it may unpack to; none for 1 GiB or a thousand times its own size, whichever is more.
    pub unpacked_bytes: Option<u64>,
    /// Bytes of a record that is held in memory: a line, a JSON object, a row, a message.
    pub record_bytes: usize,
    /// Archives and compressed files inside of each other.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            unpacked_bytes: None,
            record_bytes: 256 << 20,
            depth: 8,
        }
    }
}

/// Bytes that a source may unpack to of which `read` bytes were read, with [`Limits::unpacked_bytes`].
pub(crate) fn unpacked_max(read: u64, limit: Option<u64>) -> u64 {
    limit.unwrap_or(read.saturating_mul(RATIO_MAX).max(UNPACKED_FREE))
}

/// Bytes of a source, read and unpacked.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    read: Cell<u64>,
    unpacked: Cell<u64>,
}

impl Meter {
    /// A reader of the source itself.
    pub(crate) fn source<R: Read>(&self, source: R) -> SourceBytes<'_, R> {
        SourceBytes {
            source,
            read: &self.read,
        }
    }

    /// A reader of what was unpacked.
    pub(crate) fn unpacked<R: Read>(&self, unpacked: R, limits: Limits) -> UnpackedBytes<'_, R> {
        UnpackedBytes {
            unpacked,
            meter: self,
            limit: limits.unpacked_bytes,
        }
    }

    /// Counts bytes of the source that are read without [`Meter::source`].
    pub(crate) fn add_source_bytes(&self, bytes: u64) {
        self.read.set(self.read.get().saturating_add(bytes));
    }
}

pub(crate) struct SourceBytes<'a, R> {
    source: R,
    read: &'a Cell<u64>,
}

impl<R: Read> Read for SourceBytes<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.read.set(self.read.get() + count as u64);
        Ok(count)
    }
}

pub(crate) struct UnpackedBytes<'a, R> {
    unpacked: R,
    meter: &'a Meter,
    limit: Option<u64>,
}

impl<R: Read> Read for UnpackedBytes<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.unpacked.read(buffer)?;
        let unpacked = self.meter.unpacked.get() + count as u64;
        self.meter.unpacked.set(unpacked);
        let read = self.meter.read.get();
        let limit = unpacked_max(read, self.limit);
        if unpacked > limit {
            return Err(io::Error::other(format!(
                "it unpacks to more than {limit} bytes, from {read} bytes so far; hint: unpack_limit = '100GiB' allows more"
            )));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_source_unpacks_to_a_gibibyte_or_a_thousand_times_its_size() {
        let meter = Meter::default();
        let mut reader = meter.unpacked(io::repeat(0), Limits::default());
        let mut byte = [0];
        meter.unpacked.set(UNPACKED_FREE - 1);
        reader.read_exact(&mut byte).unwrap();
        let error = reader.read_exact(&mut byte).unwrap_err().to_string();
        assert!(
            error.starts_with("it unpacks to more than 1073741824 bytes"),
            "{error}"
        );
        meter.add_source_bytes(2 << 20);
        reader.read_exact(&mut byte).unwrap();
        meter.unpacked.set((2 << 20) * RATIO_MAX);
        reader.read_exact(&mut byte).unwrap_err();
    }
}
