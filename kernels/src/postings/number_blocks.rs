//! Blocks of numbers, as indexes store them: any of a block can be read without the others.
//!
//! A block has the least number (8 bytes), the width of what each is above that (1), and these, one after the other, lowest bit
//! first. The reader knows how many there are. The invariant: reading bytes of any content never panics.

use crate::postings::bit_packing::{BitWriter, bit_length, read_bits};

/// Bytes before the numbers.
const HEAD_SIZE: usize = 9;

/// Bits of a number at most, above the least.
const WIDTH_MAX: u32 = 57;

/// Appends a block of numbers, which lie less than 2^57 apart.
pub fn pack_numbers(numbers: impl Iterator<Item = u64> + Clone, bytes: &mut Vec<u8>) {
    let least = numbers.clone().min().unwrap_or(0);
    let most = numbers.clone().max().unwrap_or(0);
    let width = bit_length(most - least);
    assert!(width <= WIDTH_MAX, "numbers lie too far apart");
    bytes.extend(least.to_le_bytes());
    bytes.push(width as u8); // at most 57
    let mut bits = BitWriter::new(bytes);
    numbers.for_each(|number| bits.put(number - least, width));
    bits.finish();
}

/// A block of numbers that is read.
#[derive(Clone, Copy)]
pub struct NumberBlock<'a> {
    least: u64,
    width: u32,
    len: usize,
    bits: &'a [u8],
}

impl<'a> NumberBlock<'a> {
    /// The block that is stored in `bytes`; none if they do not hold `len` numbers.
    pub fn new(bytes: &'a [u8], len: usize) -> Option<NumberBlock<'a>> {
        let (head, bits) = bytes.split_first_chunk::<HEAD_SIZE>()?;
        let (least, &[width]) = head.split_first_chunk::<8>()? else {
            return None;
        };
        let width = u32::from(width);
        let size = len.checked_mul(width as usize)?.div_ceil(8);
        (width <= WIDTH_MAX && size == bits.len()).then_some(NumberBlock {
            least: u64::from_le_bytes(*least),
            width,
            len,
            bits,
        })
    }

    /// The number at a place; none if there are not as many.
    #[inline]
    pub fn get(&self, place: usize) -> Option<u64> {
        (place < self.len).then(|| self.at(place))
    }

    /// All numbers.
    pub fn iter(&self) -> impl Iterator<Item = u64> + use<'a> {
        let block = *self;
        (0..self.len).map(move |place| block.at(place))
    }

    #[inline(always)]
    fn at(&self, place: usize) -> u64 {
        let above = read_bits(self.bits, place * self.width as usize, self.width);
        self.least.wrapping_add(above)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::construct::pairs::mix;

    #[test]
    fn numbers_of_any_width_come_back_one_by_one_and_all() {
        for width in 0..=WIDTH_MAX {
            for len in [0, 1, 7, 64, 333] {
                let mask = (1 << width) - 1;
                let first = mix(u64::from(width)) >> 8;
                let numbers: Vec<u64> = (0..len).map(|at| first + (mix(at) & mask)).collect();
                let mut bytes = Vec::new();
                pack_numbers(numbers.iter().copied(), &mut bytes);
                let block = NumberBlock::new(&bytes, numbers.len()).expect("just packed");
                assert!(block.iter().eq(numbers.iter().copied()));
                for (place, &number) in numbers.iter().enumerate() {
                    assert_eq!(block.get(place), Some(number));
                }
                assert_eq!(block.get(numbers.len()), None);
                bytes.push(0);
                assert!(NumberBlock::new(&bytes, numbers.len()).is_none());
            }
        }
    }

    #[test]
    fn bytes_of_any_content_are_read_or_refused() {
        for seed in 0..2_000 {
            let len = mix(seed) as usize % 40;
            let bytes: Vec<u8> = (0..len as u64)
                .map(|at| mix(seed << 8 | at) as u8)
                .collect();
            for count in 0..20 {
                if let Some(block) = NumberBlock::new(&bytes, count) {
                    assert_eq!(block.iter().count(), count);
                }
            }
        }
        assert!(NumberBlock::new(&[0; HEAD_SIZE], usize::MAX).is_some());
        assert!(NumberBlock::new(&[1; HEAD_SIZE], usize::MAX).is_none());
    }
}
