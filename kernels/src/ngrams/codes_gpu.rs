//! Codes of 64 bits for windows of words that take more: the parts that words have in them.
//!
//! The invariant: codes are in the order of windows, and windows that share
//! one are distinguished as `codes.cuh` says. How often words are said to
//! occur is only about speed.

use crate::gpu::device::{Buffer, Gpu, arguments};
use crate::gpu::driver::{Header, Source, THREADS};
use crate::gpu::error::GpuError;
use crate::gpu::primitives;

/// With more than 2^BITS_MAX words the parts are too small.
const BITS_MAX: u32 = 26;

/// Words that are never inexact; as in `codes.cuh`.
const EXACT_WORDS: u32 = 2;

/// What kernels that code windows include.
pub(crate) const HEADER: Header = ("codes.cuh", include_str!("codes.cuh"));

pub(crate) static SOURCE: Source = Source {
    name: "codes.cu",
    text: include_str!("codes.cu"),
    headers: &[HEADER],
    constants: &[("CODES_THREADS", THREADS as u64)],
};

/// Bits of what orders inexact windows of `n` words of `bits` bits; `None` if these have no codes.
pub(crate) fn rest_bits(n: u32, bits: u32) -> Option<u32> {
    let rest = n.checked_sub(EXACT_WORDS + 1)?;
    // Bits of the words of a rest, and of their number.
    let all = (rest + 1) * bits + (u32::BITS - rest.leading_zeros());
    (bits <= BITS_MAX && all <= u64::BITS).then_some(all)
}

/// `[words]`: the parts of words; `weights` holds how often they occur.
pub(crate) fn parts(
    gpu: &Gpu,
    weights: &Buffer<u32>,
    words: usize,
) -> Result<Buffer<u64>, GpuError> {
    let own = gpu.allocate::<u32>(words)?;
    gpu.copy(&own, 0, weights, words)?;
    let before = primitives::scan::<u32, u64>(gpu, &own)?;
    let parts = gpu.allocate::<u64>(words)?;
    gpu.launch_looping(
        SOURCE.kernel("code_parts_kernel").moving(words * 2 * 8),
        words,
        arguments! { before, words, parts },
    )?;
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_have_room_in_64_bits() {
        assert_eq!(rest_bits(5, 18), Some(3 * 18 + 2));
        assert_eq!(rest_bits(3, 24), Some(24));
        assert_eq!(rest_bits(8, 10), Some(63));
        assert_eq!(rest_bits(5, 21), None);
        assert_eq!(rest_bits(2, 20), None);
        assert_eq!(rest_bits(3, 27), None);
    }
}
