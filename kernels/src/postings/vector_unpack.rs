//! Packed numbers by vectors of AVX-512, where the processor has it.
//!
//! The invariant: numbers are those that the loop beside which this is called reads, for any bytes. It is asked first, and says how
//! many it has unpacked.

/// Fewer numbers are not worth a vector of indices.
const UNPACKED_MIN: usize = 32;

/// Whether the processor has the vectors.
#[inline(always)]
pub(super) fn is_there() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2");
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

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::*;

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
            // SAFETY: the slice has `READ` bytes.
            let read = unsafe { _mm512_loadu_epi8(read.as_ptr().cast()) };
            let words = _mm512_permutexvar_epi8(indices, read);
            let found = _mm512_and_si512(_mm512_srlv_epi64(words, shifts), mask);
            let found = _mm512_cvtepi64_epi32(found);
            // SAFETY: the chunk has eight numbers of 32 bits, as the vector has.
            unsafe { _mm256_storeu_si256(eight.as_mut_ptr().cast(), found) };
            // Eight numbers take as many bytes as one takes bits.
            byte += width as usize;
            done += UNPACKED;
        }
        done
    }
}
