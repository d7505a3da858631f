//! Numbers of any width in bits, lowest bit first, in bytes that come from disk.
//!
//! The invariant: reading never panics. Bits behind the end are 0; the reader of a whole list compares its end with that of the
//! bytes.

use super::bit_layout::BitArray;
use super::codec::MalformedPostings;
use super::vector_unpack;

/// Bits that a number needs; 0 for 0.
#[inline(always)]
pub fn bit_length(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

/// A number with the `width` lowest bits set; 64 at most.
#[inline(always)]
fn mask(width: u32) -> u64 {
    u64::MAX.checked_shr(u64::BITS - width).unwrap_or(0)
}

/// Appends bits to bytes; the first begins a byte.
pub struct BitWriter<'a> {
    bytes: &'a mut Vec<u8>,
    word: u64,
    used: u32,
}

impl<'a> BitWriter<'a> {
    /// Appends to these bytes.
    pub fn new(bytes: &'a mut Vec<u8>) -> BitWriter<'a> {
        BitWriter {
            bytes,
            word: 0,
            used: 0,
        }
    }

    /// The lowest `width` bits of a number, 57 at most.
    #[inline]
    pub fn put(&mut self, number: u64, width: u32) {
        debug_assert!(width <= 57 && number & !mask(width) == 0);
        self.word |= number << self.used;
        self.used += width;
        while self.used >= 8 {
            self.bytes.push(self.word as u8);
            self.word >>= 8;
            self.used -= 8;
        }
    }

    /// A number below 2^57 behind its length, for headers.
    pub fn put_number(&mut self, number: u64) {
        let length = bit_length(number);
        self.put(u64::from(length), 6);
        self.put(number, length);
    }

    /// Fills up the last byte.
    pub fn finish(self) {
        if self.used > 0 {
            self.bytes.push(self.word as u8);
        }
    }
}

/// `width` bits from the bit `at` on, 57 at most.
#[inline(always)]
pub fn read_bits(bytes: &[u8], at: usize, width: u32) -> u64 {
    let byte = at / 8;
    let word = match bytes.get(byte..byte.saturating_add(8)) {
        Some(word) => u64::from_le_bytes(word.try_into().expect("eight bytes")),
        None => last_word(bytes, byte),
    };
    (word >> (at % 8)) & mask(width)
}

/// The bytes from one on, of which there are fewer than eight.
#[cold]
fn last_word(bytes: &[u8], byte: usize) -> u64 {
    let rest = bytes.get(byte..).unwrap_or_default();
    let places = rest.iter().enumerate();
    places.fold(0, |word, (k, &byte)| word | u64::from(byte) << (8 * k))
}

/// Reads bits one after the other.
#[derive(Clone, Copy, Debug)]
pub struct BitInput<'a> {
    /// All bytes.
    pub bytes: &'a [u8],
    /// The next bit.
    pub at: usize,
}

impl<'a> BitInput<'a> {
    /// Reads from the first bit on.
    pub fn new(bytes: &'a [u8]) -> BitInput<'a> {
        BitInput { bytes, at: 0 }
    }

    /// The next `width` bits, 57 at most, and passes them.
    #[inline(always)]
    pub fn read(&mut self, width: u32) -> u64 {
        let number = read_bits(self.bytes, self.at, width);
        self.at += width as usize;
        number
    }

    /// What `put_number` wrote.
    pub fn number(&mut self) -> Result<u64, MalformedPostings> {
        let length = self.read(6) as u32;
        if length > 57 {
            return Err(MalformedPostings);
        }
        Ok(self.read(length))
    }

    /// The zeros before the next one, and passes both.
    #[inline(always)]
    pub fn zeros(&mut self) -> Result<u32, MalformedPostings> {
        let mut zeros = 0;
        loop {
            let word = read_bits(self.bytes, self.at, 57);
            if word != 0 {
                let more = word.trailing_zeros();
                self.at += more as usize + 1;
                return Ok(zeros + more);
            }
            zeros += 57;
            self.at += 57;
            if self.at >= self.bytes.len() * 8 {
                return Err(MalformedPostings);
            }
        }
    }

    /// An array of `len` numbers of `width` bits, passed over.
    pub fn array(&mut self, len: usize, width: u32) -> Result<PackedArray<'a>, MalformedPostings> {
        if width > 57 {
            return Err(MalformedPostings);
        }
        let array = PackedArray {
            bytes: self.bytes,
            at: self.at,
            width,
            len,
        };
        self.at += len * width as usize;
        self.check_end()?;
        Ok(array)
    }

    /// Whether everything so far was there.
    #[inline]
    pub fn check_end(&self) -> Result<(), MalformedPostings> {
        if self.at <= self.bytes.len() * 8 {
            Ok(())
        } else {
            Err(MalformedPostings)
        }
    }
}

/// Numbers of one width that lie one behind the other.
#[derive(Clone, Copy, Debug)]
pub struct PackedArray<'a> {
    bytes: &'a [u8],
    at: usize,
    width: u32,
    len: usize,
}

impl<'a> PackedArray<'a> {
    /// Where it lies in the bytes of its list.
    pub(super) fn place(&self) -> BitArray {
        BitArray {
            at: self.at as u64,
            width: self.width,
        }
    }

    /// The bytes of its list.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// How many there are.
    #[expect(clippy::len_without_is_empty, reason = "nothing asks")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The number at an index.
    #[inline(always)]
    pub fn get(&self, index: usize) -> u64 {
        debug_assert!(index < self.len);
        read_bits(
            self.bytes,
            self.at + index * self.width as usize,
            self.width,
        )
    }

    /// How many of the numbers from `first` on come before the first that does not satisfy, where those that do come first.
    /// Gallops, so that it is fast where there are few.
    pub(super) fn count_while(&self, first: usize, satisfies: impl Fn(u64) -> bool) -> usize {
        let mut step = 1;
        let mut low = first;
        while low + step <= self.len && satisfies(self.get(low + step - 1)) {
            low += step;
            step *= 2;
        }
        let mut high = self.len.min(low + step - 1).max(low);
        while low < high {
            let middle = low + (high - low) / 2;
            if satisfies(self.get(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low - first
    }
}

/// The width that all of the numbers fit in.
pub(super) fn width_of(numbers: impl IntoIterator<Item = u64>) -> u32 {
    bit_length(numbers.into_iter().fold(0, |all, number| all | number))
}

/// Unpacks numbers of `width` bits, 32 at most, from the bit `at` on.
pub(super) fn unpack(bytes: &[u8], at: usize, width: u32, numbers: &mut [u32]) {
    let done = match width {
        1..=32 => vector_unpack::unpack(bytes, at, width, numbers),
        _ => 0,
    };
    let (numbers, at) = (&mut numbers[done..], at + done * width as usize);
    macro_rules! by_width {
        ($($width:literal)*) => {
            match width {
                $($width => unpack_width::<$width>(bytes, at, numbers),)*
                _ => numbers.fill(0),
            }
        };
    }
    by_width!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);
}

/// Eight numbers take as many bytes as one takes bits, so that all shifts of eight are constants except for the first.
#[inline(always)]
fn unpack_width<const WIDTH: usize>(bytes: &[u8], at: usize, numbers: &mut [u32]) {
    let (mut byte, shift) = (at / 8, at % 8);
    let mut eights = numbers.chunks_exact_mut(8);
    let mut at = at;
    for eight in &mut eights {
        match bytes.get(byte..byte + WIDTH + 8) {
            Some(bytes) => {
                for (k, number) in eight.iter_mut().enumerate() {
                    let bit = k * WIDTH;
                    let word = bytes[bit / 8..bit / 8 + 8].try_into();
                    let word = u64::from_le_bytes(word.expect("eight bytes"));
                    *number = (word >> (shift + bit % 8) & mask(WIDTH as u32)) as u32;
                }
            }
            None => {
                for (k, number) in eight.iter_mut().enumerate() {
                    *number = read_bits(bytes, at + k * WIDTH, WIDTH as u32) as u32;
                }
            }
        }
        byte += WIDTH;
        at += WIDTH * 8;
    }
    for number in eights.into_remainder() {
        *number = read_bits(bytes, at, WIDTH as u32) as u32;
        at += WIDTH;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::construct::pairs::mix;

    #[test]
    fn numbers_of_all_widths_come_back_from_any_bit() {
        for width in 0..=32u32 {
            for lead in 0..9 {
                for count in [0, 1, 7, 8, 9, 64, 255] {
                    let numbers: Vec<u64> = (0..count).map(|i| mix(i) & mask(width)).collect();
                    let mut bytes = Vec::new();
                    let mut writer = BitWriter::new(&mut bytes);
                    writer.put(0, lead);
                    numbers.iter().for_each(|&number| writer.put(number, width));
                    writer.finish();
                    let mut unpacked = vec![1; numbers.len()];
                    unpack(&bytes, lead as usize, width, &mut unpacked);
                    assert!(
                        unpacked
                            .iter()
                            .map(|&number| u64::from(number))
                            .eq(numbers.iter().copied())
                    );
                    let mut input = BitInput::new(&bytes);
                    input.at = lead as usize;
                    assert!(numbers.iter().all(|&number| input.read(width) == number));
                    assert_eq!(input.check_end(), Ok(()));
                    assert_eq!(input.at.div_ceil(8), bytes.len());
                }
            }
        }
    }

    #[test]
    fn bits_behind_the_end_are_zeros() {
        assert_eq!(read_bits(&[255], 4, 57), 15);
        assert_eq!(read_bits(&[255], 8, 57), 0);
        assert_eq!(read_bits(&[], usize::MAX, 57), 0);
        assert!(BitInput::new(&[0; 20]).zeros().is_err());
        assert!(BitInput::new(&[255; 20]).number().is_err());
    }

    #[test]
    fn galloping_counts_what_comes_first() {
        let mut bytes = Vec::new();
        let mut writer = BitWriter::new(&mut bytes);
        (0..100).for_each(|number| writer.put(number * 2, 9));
        writer.finish();
        let array = BitInput::new(&bytes).array(100, 9);
        let array = array.expect("all are there");
        for first in 0..=100 {
            for below in 0..210 {
                let expected = (first..100).take_while(|&i| i * 2 < below).count();
                let counted = array.count_while(first, |number| number < below as u64);
                assert_eq!(counted, expected);
            }
        }
    }
}
