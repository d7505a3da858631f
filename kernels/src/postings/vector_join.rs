//! High and low bits of ids joined by vectors of AVX-512, where the processor has it.
//!
//! The invariant: ids are those that the loop of `elias_fano` gives, for any bytes.

use super::bit_packing::read_bits;
use super::codec::MalformedPostings;
use super::vector_unpack::is_there;

/// Ids of a vector, and how far behind their ids low bits lie.
pub(super) const LANES: usize = 16;

/// Turns the places of the ones among `bits` bits, of which there are `count`, into ids: the place itself, or with `low` bits of the
/// id, which lie [`LANES`] behind where it goes, the place less the ones before it above these. `first` is added to each.
///
/// # Errors
///
/// [`MalformedPostings`] if there are not as many ones; ids are any then.
///
/// # Panics
///
/// When there are no such vectors, or not twice as many [`LANES`] behind the ids.
pub(super) fn join_bits(
    bytes: &[u8],
    at: usize,
    bits: u64,
    (ids, count): (&mut [u32], usize),
    (first, low): (u32, Option<u32>),
) -> Result<(), MalformedPostings> {
    assert!(is_there() && ids.len() >= count + 2 * LANES);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the processor has what the functions are compiled for, and there is room behind the ids.
    return unsafe {
        match low {
            Some(low) => x86_64::join_bits::<true>(bytes, at, bits, (ids, count), (first, low)),
            None => x86_64::join_bits::<false>(bytes, at, bits, (ids, count), (first, 0)),
        }
    };
    #[cfg(not(target_arch = "x86_64"))]
    unreachable!("there are no such vectors")
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::*;

    use super::{LANES, MalformedPostings, read_bits};

    /// Bits that are read at a time: three times as many as a vector has lanes.
    const WORD: u64 = 48;

    /// # Safety
    ///
    /// `ids` has twice [`LANES`] behind the first `count`.
    #[target_feature(enable = "avx512f,avx512bw,popcnt,bmi1,bmi2")]
    pub(super) unsafe fn join_bits<const HAS_LOWS: bool>(
        bytes: &[u8],
        at: usize,
        bits: u64,
        (ids, count): (&mut [u32], usize),
        (first, low): (u32, u32),
    ) -> Result<(), MalformedPostings> {
        let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let shift = _mm_cvtsi32_si128(low as i32);
        let first = _mm512_set1_epi32(first.cast_signed());
        let mut k = 0;
        for begin in (0..bits).step_by(WORD as usize) {
            let width = (bits - begin).min(WORD) as u32;
            let mut word = read_bits(bytes, at + begin as usize, width);
            let mut place = begin as u32;
            for _ in 0..WORD as usize / LANES {
                let ones = word as u16;
                let places = _mm512_maskz_compress_epi32(ones, lanes);
                // SAFETY: k is `count` at most, and behind that lie at least twice the items read or written.
                unsafe {
                    let to = ids.as_mut_ptr().add(k);
                    let own = if HAS_LOWS {
                        // Places less the ones before them.
                        let before = place.wrapping_sub(k as u32).cast_signed();
                        let highs = _mm512_add_epi32(places, _mm512_set1_epi32(before));
                        let highs = _mm512_sll_epi32(_mm512_sub_epi32(highs, lanes), shift);
                        let lows = _mm512_loadu_epi32(to.add(LANES).cast());
                        _mm512_or_si512(highs, lows)
                    } else {
                        _mm512_add_epi32(places, _mm512_set1_epi32(place.cast_signed()))
                    };
                    _mm512_storeu_epi32(to.cast(), _mm512_add_epi32(own, first));
                }
                k += ones.count_ones() as usize;
                if k > count {
                    return Err(MalformedPostings);
                }
                word >>= LANES;
                place += LANES as u32;
            }
        }
        if k == count {
            Ok(())
        } else {
            Err(MalformedPostings)
        }
    }
}
