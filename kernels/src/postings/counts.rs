//! Counts of a word in each file of its list.
//!
//! The invariant: decoding gives the counts that were encoded, on other bytes an error or any counts of 1 at least, never a
//! panic. Most lists have counts of 1 only and take no byte. Others are blocks of 128 counts, each in that of eight codes
//! that takes least; what is coded is a count less 1.

use super::bit_packing::{BitInput, BitWriter, bit_length};
use super::codec::MalformedPostings;

/// Counts that share a code.
const BLOCK: usize = 128;

/// A code for numbers that are mostly small.
#[derive(Clone, Copy)]
enum CountCode {
    /// All numbers are 0.
    Zeros,
    /// The number of low bits, which stand behind a unary number of the rest.
    Rice(u32),
    /// The number of low bits, which stand behind the Elias gamma code of the rest plus 1.
    Golomb(u32),
}

/// By the tag of a block.
const CODES: [CountCode; 8] = [
    CountCode::Zeros,
    CountCode::Rice(0),
    CountCode::Rice(1),
    CountCode::Golomb(0),
    CountCode::Golomb(1),
    CountCode::Golomb(2),
    CountCode::Golomb(4),
    CountCode::Golomb(7),
];

const TAG_BITS: u32 = 3;

impl CountCode {
    /// Bits of a number; too many to be chosen where it cannot be written.
    fn size(self, number: u32) -> u64 {
        const IMPOSSIBLE: u64 = 1 << 40;
        match self {
            CountCode::Zeros if number == 0 => 0,
            CountCode::Zeros => IMPOSSIBLE,
            CountCode::Rice(low) => u64::from(number >> low) + 1 + u64::from(low),
            CountCode::Golomb(low) => {
                let length = bit_length(u64::from(number >> low) + 1);
                u64::from(2 * length - 1 + low)
            }
        }
    }

    fn put(self, number: u32, writer: &mut BitWriter<'_>) {
        let (zeros, low, rest) = match self {
            CountCode::Zeros => return,
            CountCode::Rice(low) => (number >> low, low, 0),
            CountCode::Golomb(low) => {
                let rest = bit_length(u64::from(number >> low) + 1) - 1;
                (rest, low, rest)
            }
        };
        (0..zeros).for_each(|_| writer.put(0, 1));
        writer.put(1, 1);
        let number = u64::from(number);
        match self {
            CountCode::Golomb(_) => writer.put((number >> low) + 1 - (1 << rest), rest),
            _ => debug_assert_eq!(rest, 0),
        }
        writer.put(number & ((1 << low) - 1), low);
    }

    #[inline(always)]
    fn read(self, input: &mut BitInput<'_>) -> Result<u64, MalformedPostings> {
        match self {
            CountCode::Zeros => Ok(0),
            CountCode::Rice(low) => Ok(u64::from(input.zeros()?) << low | input.read(low)),
            CountCode::Golomb(low) => {
                let rest = input.zeros()?;
                if rest > 32 {
                    return Err(MalformedPostings);
                }
                let high = (1 << rest) + input.read(rest) - 1;
                Ok(high << low | input.read(low))
            }
        }
    }
}

/// Appends counts, each 1 at least; nothing if all are 1.
///
/// # Panics
///
/// When a count is 0.
pub fn encode_counts(counts: &[u32], bytes: &mut Vec<u8>) {
    assert!(counts.iter().all(|&count| count > 0), "a count of 0");
    if counts.iter().all(|&count| count == 1) {
        return;
    }
    let mut writer = BitWriter::new(bytes);
    for block in counts.chunks(BLOCK) {
        let size =
            |code: &CountCode| -> u64 { block.iter().map(|&count| code.size(count - 1)).sum() };
        let least = (CODES.iter().enumerate()).min_by_key(|(_, code)| size(code));
        let (tag, code) = least.expect("there are codes");
        writer.put(tag as u64, TAG_BITS);
        block
            .iter()
            .for_each(|&count| code.put(count - 1, &mut writer));
    }
    writer.finish();
}

/// Appends `count` counts; on an error what was appended is taken away.
///
/// # Errors
///
/// [`MalformedPostings`] if no encoder writes these bytes for `count` counts.
pub fn decode_counts(
    bytes: &[u8],
    count: usize,
    counts: &mut Vec<u32>,
) -> Result<(), MalformedPostings> {
    let begin = counts.len();
    counts.resize(begin + count, 1);
    if bytes.is_empty() {
        return Ok(());
    }
    let decoded = decode_blocks(BitInput::new(bytes), &mut counts[begin..]);
    if decoded.is_err() {
        counts.truncate(begin);
    }
    decoded
}

fn decode_blocks(mut input: BitInput<'_>, counts: &mut [u32]) -> Result<(), MalformedPostings> {
    for block in counts.chunks_mut(BLOCK) {
        let tag = input.read(TAG_BITS) as usize;
        // One loop for each code.
        match CODES[tag] {
            CountCode::Zeros => {}
            CountCode::Rice(0) => decode_block(CountCode::Rice(0), &mut input, block)?,
            CountCode::Golomb(0) => decode_block(CountCode::Golomb(0), &mut input, block)?,
            code => decode_block(code, &mut input, block)?,
        }
        input.check_end()?;
    }
    Ok(())
}

#[inline(always)]
fn decode_block(
    code: CountCode,
    input: &mut BitInput<'_>,
    block: &mut [u32],
) -> Result<(), MalformedPostings> {
    for count in block {
        let number = code.read(input)? + 1;
        *count = u32::try_from(number).map_err(|_| MalformedPostings)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counts_of_1_take_nothing() {
        let mut bytes = Vec::new();
        encode_counts(&[1; 1000], &mut bytes);
        assert!(bytes.is_empty());
        let mut counts = vec![7];
        decode_counts(&bytes, 3, &mut counts).unwrap();
        assert_eq!(counts, [7, 1, 1, 1]);
    }

    proptest! {
        #[test]
        fn counts_come_back(
            exponents in prop::collection::vec(0..33u32, 0..400),
            widest in 0..33u32,
            bits: u64,
        ) {
            let number = |&exponent: &u32| {
                let top = 1u64 << (exponent.min(widest));
                (bits % top + 1).min(u32::MAX.into()) as u32
            };
            let counts: Vec<u32> = exponents.iter().map(number).collect();
            let mut bytes = Vec::new();
            encode_counts(&counts, &mut bytes);
            let mut decoded = Vec::new();
            decode_counts(&bytes, counts.len(), &mut decoded).unwrap();
            prop_assert_eq!(decoded, counts);
        }

        #[test]
        fn any_bytes_give_counts_or_an_error(
            bytes in prop::collection::vec(any::<u8>(), 0..100),
            count in 0..1000usize,
        ) {
            let mut counts = vec![5];
            match decode_counts(&bytes, count, &mut counts) {
                Ok(()) => {
                    prop_assert_eq!(counts.len(), count + 1);
                    prop_assert!(counts.iter().all(|&count| count > 0));
                }
                Err(MalformedPostings) => prop_assert_eq!(counts, [5]),
            }
        }
    }
}
