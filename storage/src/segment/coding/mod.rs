//! Entropy coding: numbers and symbols to bits and back, knowing nothing of grammars or files.
//!
//! Two coders. [`rans`] codes the bulk with static tables, block by block, so blocks decode in parallel. [`adaptive`]
//! codes the small things (the tables themselves, maps, classes) and learns as it goes. Everything is integer
//! arithmetic: the bytes depend on the values alone.

pub mod adaptive;
pub mod blocks;
pub mod cluster;
pub mod logarithm;
pub mod numbers;
pub mod rans;
pub mod tables;
pub mod varint;

use crate::Error;

/// What a decoder says of bytes that no encoder wrote; the reader adds the file and the section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault(pub &'static str);

/// Why bytes were not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// No encoder wrote them.
    Fault(Fault),
    /// The system has no memory for what they stand for.
    NoMemory(NoMemory),
}

impl From<Fault> for DecodeError {
    fn from(fault: Fault) -> DecodeError {
        DecodeError::Fault(fault)
    }
}

impl From<NoMemory> for DecodeError {
    fn from(error: NoMemory) -> DecodeError {
        DecodeError::NoMemory(error)
    }
}

/// The system refused this allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory {
    /// How many.
    pub bytes: u64,
}

impl NoMemory {
    /// The error that says what they were for.
    pub fn of(self, what: impl Into<String>) -> Error {
        Error::NoMemory {
            what: what.into(),
            bytes: self.bytes,
        }
    }
}

/// Makes room for exactly `count` more items.
pub fn reserve<T>(items: &mut Vec<T>, count: usize) -> Result<(), NoMemory> {
    items.try_reserve_exact(count).map_err(|_| NoMemory {
        bytes: (count as u64).saturating_mul(size_of::<T>() as u64),
    })
}

/// An empty vector with room for `count` items.
pub fn reserved<T>(count: usize) -> Result<Vec<T>, NoMemory> {
    let mut items = Vec::new();
    reserve(&mut items, count)?;
    Ok(items)
}

/// `count` copies of `item`.
pub fn filled<T: Clone>(item: T, count: usize) -> Result<Vec<T>, NoMemory> {
    let mut items = reserved(count)?;
    items.resize(count, item);
    Ok(items)
}

/// Most bytes of memory that one byte of a file may stand for, per decoded array.
///
/// Writers pad a stream that compresses better; readers refuse a stream that claims more. It bounds what a made-up
/// file can make a reader allocate, whatever its counts say.
pub const EXPANSION_MAX: u64 = 64;

/// Pads `bytes` with zeros until they may stand for `decoded` bytes.
pub fn pad(bytes: &mut Vec<u8>, decoded: u64) {
    let least = usize::try_from(decoded.div_ceil(EXPANSION_MAX)).expect("decoded data fits memory");
    if bytes.len() < least {
        bytes.resize(least, 0);
    }
}

/// Refuses `coded` bytes that claim to stand for more than they may.
pub fn check_expansion(coded: usize, decoded: u64) -> Result<(), Fault> {
    if decoded.div_ceil(EXPANSION_MAX) > coded as u64 {
        return Err(Fault("it claims to hold more than its size allows"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_no_system_has_is_an_error() {
        let bytes = (usize::MAX / 2) as u64;
        assert_eq!(reserved::<u8>(usize::MAX / 2), Err(NoMemory { bytes }));
        assert_eq!(filled(0u8, usize::MAX / 2), Err(NoMemory { bytes }));
        let bytes = (usize::MAX / 16 * 8) as u64;
        assert_eq!(filled(0u64, usize::MAX / 16), Err(NoMemory { bytes }));
    }
}
