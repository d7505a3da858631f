//! Symbols of Bit blocks: literals, lengths and distances as in DEFLATE, with more of the last two.
//!
//! The invariant: a value is a symbol and some more bits, and every value up to the maxima of the format has one symbol. A device
//! gets the same tables.

use super::format::{MATCH_MAX, MATCH_MIN, WINDOW_MAX};

/// A sequence without a reference.
pub const NO_MATCH: usize = 256;

/// The symbol of the shortest match.
pub(crate) const LENGTHS_BEGIN: usize = 257;

/// Literals, the end of a string without a reference, lengths.
pub const TEXT_SYMBOLS: usize = LENGTHS_BEGIN + 28;

/// Distances up to 2^16.
pub const DISTANCE_SYMBOLS: usize = 32;

/// More bits of a length symbol: four symbols for each number of bits, eight for none.
pub(crate) const fn length_extra_bits(symbol: usize) -> u32 {
    let index = symbol - LENGTHS_BEGIN;
    // At most 5.
    if index < 8 { 0 } else { index as u32 / 4 - 1 }
}

/// The least length of a length symbol.
pub(crate) const fn length_base(symbol: usize) -> usize {
    let index = symbol - LENGTHS_BEGIN;
    if index < 8 {
        MATCH_MIN + index
    } else {
        MATCH_MIN + ((4 + index % 4) << length_extra_bits(symbol))
    }
}

/// More bits of a distance symbol: two symbols for each number of bits, four for none.
pub(crate) const fn distance_extra_bits(symbol: usize) -> u32 {
    // At most 14.
    if symbol < 4 { 0 } else { symbol as u32 / 2 - 1 }
}

/// The least distance of a distance symbol.
pub(crate) const fn distance_base(symbol: usize) -> usize {
    if symbol < 4 {
        1 + symbol
    } else {
        1 + ((2 + symbol % 2) << distance_extra_bits(symbol))
    }
}

/// The symbol of a length.
#[inline]
pub(crate) fn length_symbol(length: usize) -> usize {
    let value = length - MATCH_MIN;
    if value < 8 {
        return LENGTHS_BEGIN + value;
    }
    let bits = value.ilog2() as usize - 2;
    LENGTHS_BEGIN + 4 * bits + (value >> bits)
}

/// The symbol of a distance.
#[inline]
pub(crate) fn distance_symbol(distance: usize) -> usize {
    let value = distance - 1;
    if value < 4 {
        return value;
    }
    let bits = value.ilog2() as usize - 1;
    2 * bits + (value >> bits)
}

const _: () = {
    assert!(length_base(TEXT_SYMBOLS - 1) + (1 << length_extra_bits(TEXT_SYMBOLS - 1)) > MATCH_MAX);
    let last = DISTANCE_SYMBOLS - 1;
    assert!(distance_base(last) + (1 << distance_extra_bits(last)) - 1 == WINDOW_MAX as usize);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_distance_is_in_the_range_of_its_symbol() {
        for length in MATCH_MIN..=MATCH_MAX {
            let symbol = length_symbol(length);
            assert!(symbol < TEXT_SYMBOLS);
            let more = length - length_base(symbol);
            assert!(more < 1 << length_extra_bits(symbol), "length {length}");
        }
        for distance in 1..=WINDOW_MAX as usize {
            let symbol = distance_symbol(distance);
            assert!(symbol < DISTANCE_SYMBOLS);
            let more = distance - distance_base(symbol);
            assert!(
                more < 1 << distance_extra_bits(symbol),
                "distance {distance}"
            );
        }
    }
}
