//! A few words packed into one integer.
//!
//! The invariant: keys of equally many words order as their words do. The first
//! word is in the highest bits; no two different n-grams have one key. What
//! width is needed is not decided here.

use std::fmt::Debug;

/// An unsigned integer of a fixed width.
pub(crate) trait WindowKey: Copy + Default + Ord + Debug + Send + Sync {
    const BITS: u32;
    const BYTES: usize = Self::BITS as usize / 8;
    /// To and from `BYTES` bytes, the lowest first.
    fn write(self, target: &mut [u8]);
    fn read(source: &[u8]) -> Self;
    fn from_word(word: u32) -> Self;
    /// The low 64 bits.
    fn low(self) -> u64;
    /// Shifts by less than `BITS`.
    fn shl(self, bits: u32) -> Self;
    fn shr(self, bits: u32) -> Self;
    fn or(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    /// How many bits it takes to write the number.
    fn used_bits(self) -> u32;

    /// `bits` ones, at most `BITS`.
    fn ones(bits: u32) -> Self {
        (0..bits).fold(Self::default(), |ones, _| {
            ones.shl(1).or(Self::from_word(1))
        })
    }
}

macro_rules! primitive_key {
    ($type:ty) => {
        impl WindowKey for $type {
            const BITS: u32 = <$type>::BITS;
            #[inline(always)]
            fn write(self, target: &mut [u8]) {
                target.copy_from_slice(&self.to_le_bytes());
            }
            #[inline(always)]
            fn read(source: &[u8]) -> $type {
                <$type>::from_le_bytes(source.first_chunk().copied().unwrap_or_default())
            }
            #[inline(always)]
            fn from_word(word: u32) -> $type {
                <$type>::from(word)
            }
            #[inline(always)]
            fn low(self) -> u64 {
                self as u64
            }
            #[inline(always)]
            fn shl(self, bits: u32) -> $type {
                self << bits
            }
            #[inline(always)]
            fn shr(self, bits: u32) -> $type {
                self >> bits
            }
            #[inline(always)]
            fn or(self, other: $type) -> $type {
                self | other
            }
            #[inline(always)]
            fn and(self, other: $type) -> $type {
                self & other
            }
            #[inline(always)]
            fn xor(self, other: $type) -> $type {
                self ^ other
            }
            #[inline(always)]
            fn used_bits(self) -> u32 {
                <$type>::BITS - self.leading_zeros()
            }
        }
    };
}

primitive_key!(u64);
primitive_key!(u128);

/// 256 bits: the high half, then the low one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wide(u128, u128);

impl WindowKey for Wide {
    const BITS: u32 = 256;
    fn write(self, target: &mut [u8]) {
        let (low, high) = target.split_at_mut(u128::BYTES);
        self.1.write(low);
        self.0.write(high);
    }
    fn read(source: &[u8]) -> Wide {
        let (low, high) = source.split_at(u128::BYTES);
        Wide(u128::read(high), u128::read(low))
    }
    fn from_word(word: u32) -> Wide {
        Wide(0, u128::from(word))
    }
    fn low(self) -> u64 {
        self.1 as u64
    }
    fn shl(self, bits: u32) -> Wide {
        match bits {
            0 => self,
            1..128 => Wide(self.0 << bits | self.1 >> (128 - bits), self.1 << bits),
            _ => Wide(self.1 << (bits - 128), 0),
        }
    }
    fn shr(self, bits: u32) -> Wide {
        match bits {
            0 => self,
            1..128 => Wide(self.0 >> bits, self.1 >> bits | self.0 << (128 - bits)),
            _ => Wide(0, self.0 >> (bits - 128)),
        }
    }
    fn or(self, other: Wide) -> Wide {
        Wide(self.0 | other.0, self.1 | other.1)
    }
    fn and(self, other: Wide) -> Wide {
        Wide(self.0 & other.0, self.1 & other.1)
    }
    fn xor(self, other: Wide) -> Wide {
        Wide(self.0 ^ other.0, self.1 ^ other.1)
    }
    fn used_bits(self) -> u32 {
        match self.0 {
            0 => self.1.used_bits(),
            high => 128 + high.used_bits(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<K: WindowKey>(words: &[u32], bits: u32) {
        let key = words.iter().fold(K::default(), |key, &word| {
            key.shl(bits).or(K::from_word(word))
        });
        for (index, &word) in words.iter().rev().enumerate() {
            let shifted = key.shr(bits * index as u32);
            assert_eq!(shifted.and(K::ones(bits)), K::from_word(word));
            assert_eq!(shifted.low() & u64::low(u64::ones(bits)), u64::from(word));
        }
        assert_eq!(key.xor(key), K::default());
        assert_eq!(K::ones(bits * 3).used_bits(), bits * 3);
        assert!(key.or(K::from_word(1)) >= key);
    }

    #[test]
    fn words_come_back_out_of_keys_of_every_width() {
        check::<u64>(&[5, 0, 1023, 7, 512, 1], 10);
        check::<u128>(&[1, 70_000, 131_071, 0, 9, 3, 100_000], 17);
        check::<Wide>(&[u32::MAX, 1, 0, 77, u32::MAX - 1, 5, 6, 7], 32);
        check::<Wide>(&[9, 1, 0, 77, 16_000, 5, 6, 7], 17);
    }
}
