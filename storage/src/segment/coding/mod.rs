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

/// What a decoder says of bytes that no encoder wrote; the reader adds the file and the section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault(pub &'static str);

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
