//! Sets of small numbers, one bit each.
//!
//! The invariant: asking for a number beyond the end is allowed and answers
//! no. Sets are made at once; nothing is added or removed later.

use rayon::prelude::*;

/// Words that one thread makes at least.
const WORDS_MIN: usize = 1 << 10;

/// A set of numbers below a fixed end.
pub(crate) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// The indices of the values that `holds` accepts.
    pub(crate) fn of(values: &[u32], holds: impl Fn(u32) -> bool + Sync) -> Bits {
        let word = |values: &[u32]| {
            let bits = values.iter().enumerate();
            bits.fold(0, |word, (k, &value)| word | u64::from(holds(value)) << k)
        };
        let words = values.par_chunks(64).with_min_len(WORDS_MIN).map(word);
        Bits {
            words: words.collect(),
        }
    }

    /// 64 numbers a word, the lowest in bit 0 of the first.
    pub(crate) fn from_words(words: Vec<u64>) -> Bits {
        Bits { words }
    }

    /// 1 if `number` is in the set, else 0.
    #[inline(always)]
    pub(crate) fn get(&self, number: u32) -> u64 {
        match self.words.get((number >> 6) as usize) {
            Some(word) => (word >> (number & 63)) & 1,
            None => 0,
        }
    }

    /// 64 numbers a word, the lowest in bit 0 of the first.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// How many numbers are in the set.
    pub(crate) fn count(&self) -> usize {
        count_bits(&self.words)
    }
}

/// Visits the positions of the bits of many words, 64 a word, lowest first.
#[inline(always)]
pub(crate) fn for_each_bit(words: &[u64], mut visit: impl FnMut(usize)) {
    for (w, &word) in words.iter().enumerate() {
        for bit in bits_of(word) {
            visit(w * 64 + bit as usize);
        }
    }
}

/// How many bits are set in many words.
pub(crate) fn count_bits(words: &[u64]) -> usize {
    words.iter().map(|word| word.count_ones() as usize).sum()
}

/// The positions of the bits of a word, lowest first.
#[inline(always)]
pub(crate) fn bits_of(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_accepted_and_nothing_beyond_its_end() {
        let values: Vec<u32> = (0..1000).map(|i| i * 7 % 10).collect();
        let set = Bits::of(&values, |value| value < 3);
        for number in 0..2000 {
            let expected = values.get(number as usize).is_some_and(|&value| value < 3);
            assert_eq!(set.get(number), u64::from(expected));
        }
        assert_eq!(set.get(u32::MAX), 0);
        assert_eq!(set.count(), 300);
    }

    #[test]
    fn the_bits_of_a_word_come_lowest_first() {
        assert_eq!(bits_of(0).count(), 0);
        assert!(bits_of(1 << 63 | 0b101).eq([0, 2, 63]));
        assert!(bits_of(u64::MAX).eq(0..64));
    }
}
