//! Packed numbers that never fall, with random access.
//!
//! Numbers lie in blocks of 64. A block has its first number, and what each is above that in as many bits as the largest of
//! these needs, so a difference of w bits makes a block of w words of 64 bits, and the start of the next block gives the width.
//! The invariant: `get` gives what was pushed.

/// Numbers of a block.
const BLOCK: usize = 64;

/// Numbers that never fall.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackedNumbers {
    /// The first number of each block.
    firsts: Vec<u64>,
    /// Where each block begins in `words`, except for the first; the last ends where they do.
    ends: Vec<usize>,
    words: Vec<u64>,
    /// Numbers of blocks that are packed.
    packed: usize,
    /// Numbers of the last block while it is not full.
    rest: Vec<u64>,
}

impl PackedNumbers {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.packed + self.rest.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Size of the arrays.
    pub fn bytes(&self) -> usize {
        let own = size_of_val(&self.firsts[..]) + size_of_val(&self.words[..]);
        own + size_of_val(&self.ends[..]) + size_of_val(&self.rest[..])
    }

    /// Appends a number that is not less than the last one.
    #[inline]
    pub fn push(&mut self, number: u64) {
        debug_assert!(self.rest.last().is_none_or(|&last| last <= number));
        self.rest.push(number);
        if self.rest.len() == BLOCK {
            self.pack();
        }
    }

    /// Packs the last block, which is full.
    fn pack(&mut self) {
        let (first, last) = (self.rest[0], self.rest[BLOCK - 1]);
        let width = (u64::BITS - (last - first).leading_zeros()) as usize;
        let begin = self.words.len();
        self.words.resize(begin + width, 0);
        let words = &mut self.words[begin..];
        for (place, &number) in self.rest.iter().enumerate() {
            let (above, bit) = (number - first, place * width);
            let (word, shift) = (bit / BLOCK, bit % BLOCK);
            if width > 0 {
                words[word] |= above << shift;
            }
            if shift + width > BLOCK {
                words[word + 1] |= above >> (BLOCK - shift);
            }
        }
        self.firsts.push(first);
        self.ends.push(self.words.len());
        self.packed += BLOCK;
        self.rest.clear();
    }

    /// Gives back memory beyond what the numbers need.
    pub fn shrink(&mut self) {
        self.firsts.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.words.shrink_to_fit();
        self.rest.shrink_to_fit();
    }

    /// The number at an index.
    ///
    /// # Panics
    /// If there are not as many.
    #[inline]
    pub fn get(&self, index: usize) -> u64 {
        if index >= self.packed {
            return self.rest[index - self.packed];
        }
        let (block, place) = (index / BLOCK, index % BLOCK);
        let begin = block.checked_sub(1).map_or(0, |before| self.ends[before]);
        let words = &self.words[begin..self.ends[block]];
        let width = words.len();
        if width == 0 {
            return self.firsts[block];
        }
        let (word, shift) = (place * width / BLOCK, place * width % BLOCK);
        let mut above = words[word] >> shift;
        if shift + width > BLOCK {
            above |= words[word + 1] << (BLOCK - shift);
        }
        self.firsts[block] + (above & (u64::MAX >> (BLOCK - width)))
    }

    /// All numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> {
        (0..self.len()).map(|index| self.get(index))
    }
}

impl Extend<u64> for PackedNumbers {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, numbers: I) {
        numbers.into_iter().for_each(|number| self.push(number));
    }
}

impl FromIterator<u64> for PackedNumbers {
    fn from_iter<I: IntoIterator<Item = u64>>(numbers: I) -> PackedNumbers {
        let mut packed = PackedNumbers::default();
        packed.extend(numbers);
        packed.shrink();
        packed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::construct::pairs::mix;

    #[test]
    fn every_number_comes_back_however_wide_blocks_are() {
        for bits in 0..=64 {
            for count in [0, 1, 63, 64, 65, 200, 1000] {
                // Sorted, they are anything up to as many bits.
                let mask = u64::MAX.checked_shr(64 - bits).unwrap_or(0);
                let mut numbers: Vec<u64> = (0..count).map(|i| mix(i) & mask).collect();
                numbers.sort_unstable();
                let packed: PackedNumbers = numbers.iter().copied().collect();
                assert_eq!(packed.len(), numbers.len());
                assert_eq!(packed.is_empty(), numbers.is_empty());
                assert!(packed.iter().eq(numbers.iter().copied()));
            }
        }
    }

    #[test]
    fn numbers_close_together_take_little() {
        let packed: PackedNumbers = (0..64_000).map(|i| i * 3).collect();
        // 8 bits each, and 16 bytes a block.
        assert_eq!(packed.bytes(), 64_000 + 1_000 * 16);
        assert_eq!(PackedNumbers::from_iter([7; 64]).bytes(), 16);
    }
}
