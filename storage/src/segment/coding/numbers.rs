//! Streams of numbers, most of them small: lengths, gaps, frequency classes.
//!
//! A number is a symbol (itself below 8; above, its width and the bit after its leading one) and the remaining bits
//! raw. The table of a number depends on its row, which writer and reader know beforehand. Blocks of
//! [`BLOCK_NUMBERS`] decode in parallel.

use super::adaptive::{BitDecoder, BitEncoder};
use super::tables::{Lookup, Tables};
use super::{DecodeError, Fault, blocks, check_expansion, filled, pad, rans};
use rayon::prelude::*;
use std::ops::Range;

/// Numbers of a block; the last one may have fewer.
pub const BLOCK_NUMBERS: usize = 16_384;

/// Symbols of the alphabet: 0..8 and two for each width from 4 to 32.
const SYMBOLS: usize = 8 + 2 * 29;

/// The next power of two above SYMBOLS.
const LOOKUP_SYMBOLS: usize = 128;

const SIZE: u64 = size_of::<u32>() as u64;

/// Appends `values`. `row_of(index)`, below `rows`, says which table value `index` is coded under.
pub fn write(
    out: &mut Vec<u8>,
    values: &[u32],
    rows: usize,
    row_of: impl Fn(usize) -> usize + Sync,
) {
    let part = values.len().div_ceil(rayon::current_num_threads());
    let counts = (values.par_iter().enumerate())
        .with_min_len(part.max(BLOCK_NUMBERS))
        .fold(
            || vec![0u32; rows * SYMBOLS],
            |mut counts, (index, &value)| {
                counts[row_of(index) * SYMBOLS + split(value).0] += 1;
                counts
            },
        )
        .reduce_with(|mut left, right| {
            (left.iter_mut().zip(right)).for_each(|(left, right)| *left += right);
            left
        })
        .unwrap_or_else(|| vec![0; rows * SYMBOLS]);
    let tables = Tables::from_counts(SYMBOLS, &counts);
    let shares = tables.shares();
    let coded: Vec<Vec<u8>> = values
        .par_chunks(BLOCK_NUMBERS)
        .enumerate()
        .map(|(block, values)| {
            let mut encoder = rans::Encoder::new(values.len() / 8);
            for (index, &value) in values.iter().enumerate().rev() {
                let (symbol, bits, raw) = split(value);
                encoder.push_raw(raw, bits);
                encoder.push(shares[row_of(block * BLOCK_NUMBERS + index) * SYMBOLS + symbol]);
            }
            encoder.finish()
        })
        .collect();
    let mut part = Vec::new();
    let mut coder = BitEncoder::default();
    tables.write(&mut coder, |row| row.checked_sub(1));
    blocks::write_part(&mut part, &coder.finish());
    blocks::write(&mut part, &coded);
    pad(&mut part, values.len() as u64 * SIZE);
    blocks::write_part(out, &part);
}

/// Takes `count` numbers off the front of `input`, written with the same `rows` and `row_of`.
pub fn read(
    input: &mut &[u8],
    count: usize,
    rows: usize,
    row_of: impl Fn(usize) -> usize + Sync,
) -> Result<Vec<u32>, DecodeError> {
    let mut part = blocks::read_part(input)?;
    check_expansion(part.len(), count as u64 * SIZE)?;
    let lookup = read_tables(&mut part, rows)?;
    let coded = blocks::read(&mut part, count.div_ceil(BLOCK_NUMBERS))?;
    let mut values = filled(0, count)?;
    let blocks = values.par_chunks_mut(BLOCK_NUMBERS * LANES).enumerate();
    (blocks.zip(coded.par_chunks(LANES))).try_for_each(|((task, values), coded)| {
        let first = task * BLOCK_NUMBERS * LANES;
        let mut lanes = Vec::with_capacity(LANES);
        for (block, (values, bytes)) in values.chunks_mut(BLOCK_NUMBERS).zip(coded).enumerate() {
            lanes.push(NumberLane {
                decoder: rans::Decoder::new(bytes),
                values,
                first: first + block * BLOCK_NUMBERS,
            });
        }
        match <[NumberLane<'_>; LANES]>::try_from(lanes) {
            Ok(lanes) => decode_together(lanes, &lookup, &row_of),
            Err(lanes) => {
                (lanes.into_iter()).try_for_each(|lane| decode_together([lane], &lookup, &row_of))
            }
        }
    })?;
    Ok(values)
}

/// As [`read`], but only the numbers of `range`, which lie in one block, and those before them in it are decoded. Returns all
/// of these.
pub fn read_block(
    input: &mut &[u8],
    count: usize,
    rows: usize,
    range: Range<usize>,
    row_of: impl Fn(usize) -> usize + Sync,
) -> Result<Vec<u32>, DecodeError> {
    let mut part = blocks::read_part(input)?;
    check_expansion(part.len(), count as u64 * SIZE)?;
    let lookup = read_tables(&mut part, rows)?;
    let coded = blocks::read(&mut part, count.div_ceil(BLOCK_NUMBERS))?;
    let block = range.start / BLOCK_NUMBERS;
    let first = block * BLOCK_NUMBERS;
    let bytes = coded
        .get(block)
        .ok_or(Fault("it has not as many numbers"))?;
    let mut decoder = rans::Decoder::new(bytes);
    let mut values = filled(
        0,
        range
            .end
            .min(count)
            .saturating_sub(first)
            .min(BLOCK_NUMBERS),
    )?;
    for (index, value) in values.iter_mut().enumerate() {
        let symbol = lookup.symbol(&mut decoder, row_of(first + index));
        *value = join(symbol, |bits| decoder.raw(bits));
    }
    Ok(values)
}

fn read_tables(part: &mut &[u8], rows: usize) -> Result<Lookup<LOOKUP_SYMBOLS>, DecodeError> {
    let mut coder = BitDecoder::new(blocks::read_part(part)?);
    let tables = Tables::read(&mut coder, rows, SYMBOLS, |row| row.checked_sub(1))?;
    coder.finish()?;
    Ok(tables.lookup_all()?)
}

/// Blocks that one thread decodes at a time, so that the loads of one hide behind the arithmetic of others.
const LANES: usize = 4;

/// A block being decoded.
struct NumberLane<'a> {
    decoder: rans::Decoder<'a>,
    values: &'a mut [u32],
    /// Index of its first number.
    first: usize,
}

fn decode_together<const N: usize>(
    mut lanes: [NumberLane<'_>; N],
    lookup: &Lookup<LOOKUP_SYMBOLS>,
    row_of: &(impl Fn(usize) -> usize + Sync),
) -> Result<(), Fault> {
    let shortest = lanes
        .iter()
        .map(|lane| lane.values.len())
        .min()
        .unwrap_or(0);
    for index in 0..shortest {
        let mut symbols = [0; N];
        for (lane, symbol) in lanes.iter_mut().zip(&mut symbols) {
            *symbol = lookup.symbol(&mut lane.decoder, row_of(lane.first + index));
        }
        for (lane, &symbol) in lanes.iter_mut().zip(&symbols) {
            lane.values[index] = join(symbol, |bits| lane.decoder.raw(bits));
        }
    }
    for lane in &mut lanes {
        for (index, value) in lane.values.iter_mut().enumerate().skip(shortest) {
            let symbol = lookup.symbol(&mut lane.decoder, row_of(lane.first + index));
            *value = join(symbol, |bits| lane.decoder.raw(bits));
        }
        lane.decoder.finish()?;
    }
    Ok(())
}

/// A number's symbol, how many raw bits follow, and those bits.
fn split(value: u32) -> (usize, u32, u32) {
    if value < 8 {
        return (value as usize, 0, 0);
    }
    let bits = value.ilog2() - 1;
    let symbol = 8 + 2 * (bits - 2) + (value >> bits & 1);
    (symbol as usize, bits, value & ((1 << bits) - 1))
}

/// The number of a symbol, whose raw bits `raw` fetches.
#[inline(always)]
fn join(symbol: usize, mut raw: impl FnMut(u32) -> u32) -> u32 {
    // Without a branch, which would be mispredicted often: no bits are 0. Symbols are below SYMBOLS.
    let symbol = symbol as u32;
    let is_whole = u32::from(symbol < 8);
    let bits = (symbol.wrapping_sub(8) / 2 + 2) & is_whole.wrapping_sub(1);
    let top = (2 | symbol & 1) << bits | raw(bits);
    let mask = is_whole.wrapping_neg();
    symbol & mask | top & !mask
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_number_is_its_symbol_and_its_raw_bits() {
        for value in
            (0..2000).chain((0..32).flat_map(|bit| [1u32 << bit, u32::MAX >> bit, (1 << bit) + 1]))
        {
            let (symbol, bits, raw) = split(value);
            assert!(symbol < SYMBOLS);
            let joined = join(symbol, |asked| {
                assert_eq!(asked, bits);
                raw
            });
            assert_eq!(joined, value);
        }
    }

    #[test]
    fn numbers_of_several_rows_and_blocks_come_back() {
        for count in [0, 1, 5, BLOCK_NUMBERS, BLOCK_NUMBERS * 2 + 3] {
            let values: Vec<u32> = (0..count as u32)
                .map(|index| (index.wrapping_mul(2_654_435_761) >> 3) >> (index % 3 * 10 + 5))
                .collect();
            let mut bytes = Vec::new();
            write(&mut bytes, &values, 3, |index| index % 3);
            bytes.push(9);
            let mut input = &bytes[..];
            assert_eq!(
                read(&mut input, count, 3, |index| index % 3).unwrap(),
                values
            );
            assert_eq!(input, [9]);
        }
    }

    #[test]
    fn a_block_alone_has_the_same_numbers() {
        let count = BLOCK_NUMBERS * 2 + 100;
        let values: Vec<u32> = (0..count as u32)
            .map(|index| index % 1000 * (index % 7))
            .collect();
        let mut bytes = Vec::new();
        write(&mut bytes, &values, 7, |index| index % 7);
        for word in [0, 5, BLOCK_NUMBERS - 1, BLOCK_NUMBERS, count - 1] {
            let range = word..word + 1;
            let found = read_block(&mut &bytes[..], count, 7, range, |index| index % 7).unwrap();
            let first = word / BLOCK_NUMBERS * BLOCK_NUMBERS;
            assert_eq!(found, values[first..=word]);
        }
        assert!(read_block(&mut &bytes[..], count, 7, count * 2..count * 2 + 1, |_| 0).is_err());
    }

    #[test]
    fn equal_numbers_take_the_least_size_that_may_hold_them() {
        let count = 1_000_000;
        let mut bytes = Vec::new();
        write(&mut bytes, &vec![3; count], 1, |_| 0);
        assert!(bytes.len() < count / 15, "{}", bytes.len());
        assert_eq!(
            read(&mut &bytes[..], count, 1, |_| 0).unwrap(),
            vec![3; count]
        );
        assert!(read(&mut &bytes[..], count * 2, 1, |_| 0).is_err());
    }
}
