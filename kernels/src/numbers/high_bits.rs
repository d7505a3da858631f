//! Flags in bytes to flags in bits.

/// The highest bit of each byte, that of the first byte lowest.
#[inline(always)]
pub fn high_bits(bytes: &[u8; 64]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    return moved(bytes);
    #[cfg(not(target_arch = "x86_64"))]
    gathered(bytes)
}

/// By the instruction that every x86-64 has for sixteen bytes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn moved(bytes: &[u8; 64]) -> u64 {
    use std::arch::x86_64::{_mm_movemask_epi8, _mm_set_epi64x};
    let sixteen = |index: usize| {
        let sixteen = u128::from_le_bytes(bytes.as_chunks().0[index]);
        let (high, low) = ((sixteen >> 64) as i64, sixteen as i64);
        // SAFETY: SSE2 is a part of x86-64.
        unsafe { _mm_movemask_epi8(_mm_set_epi64x(high, low)) }
    };
    // Of each there are 16.
    let sixteen = |index: usize| (sixteen(index) as u64) << (index * 16);
    sixteen(0) | sixteen(1) | sixteen(2) | sixteen(3)
}

/// By a multiplication for eight bytes.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline(always)]
fn gathered(bytes: &[u8; 64]) -> u64 {
    // The low bit of each byte times GATHER lands in one byte, in order.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    const LOW: u64 = 0x0101_0101_0101_0101;
    let mut mask = 0;
    for (index, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
        let eight = u64::from_le_bytes(*eight) >> 7 & LOW;
        mask |= (eight.wrapping_mul(GATHER) >> 56) << (index * 8);
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_find_each_bit() {
        let mut bytes = [0x7f; 64];
        let mut state = 1u64;
        for round in 0..1_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            bytes[state as usize >> 58] ^= (state >> 40) as u8;
            let bits = bytes.iter().rev();
            let expected = bits.fold(0, |mask, byte| mask << 1 | u64::from(byte >> 7));
            assert_eq!(high_bits(&bytes), expected, "{round}");
            assert_eq!(gathered(&bytes), expected, "{round}");
        }
    }
}
