//! Simple-16: as many small numbers as fit into 28 bits of a word, in one of sixteen ways (Zhang et al., WWW 2008).
//!
//! The invariant: numbers are below 2^28, and the last word is filled up with zeros.

use super::bit_packing::{BitInput, BitWriter};
use super::codec::MalformedPostings;

/// Ways to cut 28 bits: (numbers, bits) one after the other.
const CUTS: [&[(u32, u32)]; 16] = [
    &[(28, 1)],
    &[(7, 2), (14, 1)],
    &[(7, 1), (7, 2), (7, 1)],
    &[(14, 1), (7, 2)],
    &[(14, 2)],
    &[(1, 4), (8, 3)],
    &[(1, 3), (4, 4), (3, 3)],
    &[(7, 4)],
    &[(4, 5), (2, 4)],
    &[(2, 4), (4, 5)],
    &[(3, 6), (2, 5)],
    &[(2, 5), (3, 6)],
    &[(4, 7)],
    &[(1, 10), (2, 9)],
    &[(2, 14)],
    &[(1, 28)],
];

/// One more than the largest number.
pub(super) const END: u64 = 1 << 28;

/// Widths of the numbers of a word.
fn widths(cut: usize) -> impl Iterator<Item = u32> {
    let runs = CUTS[cut].iter();
    runs.flat_map(|&(numbers, bits)| std::iter::repeat_n(bits, numbers as usize))
}

/// The way that takes most of the first numbers, and how many.
fn cut_of(numbers: &[u32]) -> (usize, usize) {
    let mut best = (15, 1);
    for cut in 0..CUTS.len() {
        let fitting = widths(cut).zip(numbers);
        let fitting = fitting.take_while(|&(width, &number)| number < 1 << width);
        let count = fitting.count();
        let is_whole = count == widths(cut).count() || count == numbers.len();
        if is_whole && count > best.1 {
            best = (cut, count);
        }
    }
    best
}

/// Words that the numbers take.
pub(super) fn words(mut numbers: &[u32]) -> usize {
    let mut words = 0;
    while !numbers.is_empty() {
        numbers = &numbers[cut_of(numbers).1..];
        words += 1;
    }
    words
}

/// Writes numbers below [`END`].
pub(super) fn encode(mut numbers: &[u32], writer: &mut BitWriter<'_>) {
    while !numbers.is_empty() {
        let (cut, count) = cut_of(numbers);
        writer.put(cut as u64, 4);
        for (k, width) in widths(cut).enumerate() {
            let number = numbers.get(k).copied().unwrap_or(0);
            writer.put(u64::from(number), width);
        }
        numbers = &numbers[count..];
    }
}

/// Reads as many numbers as `numbers` has places.
pub(super) fn decode(
    numbers: &mut [u32],
    input: &mut BitInput<'_>,
) -> Result<(), MalformedPostings> {
    let mut places = numbers.iter_mut();
    while places.len() > 0 {
        let cut = input.read(4) as usize;
        for width in widths(cut) {
            let number = input.read(width) as u32; // 28 bits at most
            if let Some(place) = places.next() {
                *place = number;
            }
        }
        input.check_end()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::construct::pairs::mix;

    #[test]
    fn every_cut_has_28_bits_and_numbers_come_back() {
        for cut in 0..16 {
            assert_eq!(widths(cut).sum::<u32>(), 28);
        }
        for count in 0..200 {
            for bits in 1..=28 {
                let number = |i| (mix(i * 77 + count) % (1 << (1 + mix(i) % bits))) as u32;
                let numbers: Vec<u32> = (0..count).map(number).collect();
                let mut bytes = Vec::new();
                let mut writer = BitWriter::new(&mut bytes);
                encode(&numbers, &mut writer);
                writer.finish();
                assert_eq!(bytes.len(), words(&numbers) * 4);
                let mut decoded = vec![0; numbers.len()];
                decode(&mut decoded, &mut BitInput::new(&bytes)).expect("was encoded");
                assert_eq!(decoded, numbers);
            }
        }
    }
}
