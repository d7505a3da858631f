//! Bits to ids by vectors of AVX-512, where the processor has it.
//!
//! The invariant: what is written is what the loops beside which these are called write, for any bytes. They are asked first, and
//! say whether they did it.

use super::bit_packing::read_bits;
use super::codec::MalformedPostings;

/// Numbers of a vector, and how far behind their ids low bits lie.
pub(super) const LANES: usize = 16;

/// Fewer numbers are not worth a vector of indices.
const UNPACKED_MIN: usize = 32;

/// Whether there are such vectors.
#[inline(always)]
pub(super) fn is_there() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Unpacks the first of some numbers of `width` bits, 1 to 32, from the bit `at` on; how many.
#[inline(always)]
pub(super) fn unpack(bytes: &[u8], at: usize, width: u32, numbers: &mut [u32]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if numbers.len() >= UNPACKED_MIN && is_there() {
        // SAFETY: the processor has what the function is compiled for.
        return unsafe { x86_64::unpack(bytes, at, width, numbers) };
    }
    0
}

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

    /// Numbers that are unpacked at a time.
    const UNPACKED: usize = 8;

    /// Bytes that are read for these.
    const READ: usize = 64;

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn unpack(bytes: &[u8], at: usize, width: u32, numbers: &mut [u32]) -> usize {
        let lanes = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
        // Where each of eight numbers begins: eight bytes from there have it.
        let bits = _mm512_add_epi64(
            _mm512_mul_epu32(lanes, _mm512_set1_epi64(width.into())),
            _mm512_set1_epi64((at % 8) as i64),
        );
        let first_bytes = _mm512_srli_epi64::<3>(bits);
        let spread = _mm512_shuffle_epi8(
            first_bytes,
            _mm512_set4_epi64(0x0808_0808_0808_0808, 0, 0x0808_0808_0808_0808, 0),
        );
        let indices = _mm512_add_epi8(spread, _mm512_set1_epi64(0x0706_0504_0302_0100));
        let shifts = _mm512_and_si512(bits, _mm512_set1_epi64(7));
        let mask = _mm512_set1_epi64((1i64 << width) - 1);
        let (mut byte, mut done) = (at / 8, 0);
        for eight in numbers.as_chunks_mut::<UNPACKED>().0 {
            let Some(read) = bytes.get(byte..byte + READ) else {
                break;
            };
            // SAFETY: so many bytes are there.
            let read = unsafe { _mm512_loadu_epi8(read.as_ptr().cast()) };
            let words = _mm512_permutexvar_epi8(indices, read);
            let found = _mm512_and_si512(_mm512_srlv_epi64(words, shifts), mask);
            let found = _mm512_cvtepi64_epi32(found);
            // SAFETY: there are eight numbers of 32 bits.
            unsafe { _mm256_storeu_si256(eight.as_mut_ptr().cast(), found) };
            // Eight numbers take as many bytes as one takes bits.
            byte += width as usize;
            done += UNPACKED;
        }
        done
    }

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
                // SAFETY: k is `count` at most, and behind that lie twice as many as are read or written.
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
        match k == count {
            true => Ok(()),
            false => Err(MalformedPostings),
        }
    }
}
