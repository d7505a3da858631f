//! The bulk coder: range asymmetric numeral systems with static tables.
//!
//! State is 64 bits, renormalised by 32-bit words, kept in `2^31 .. 2^63` between operations. Symbols are pushed in
//! reverse and come back in order. One stream is one independent block: state first, then the words in the order they
//! are needed. After the last symbol the state is back where the encoder began, which a damaged stream is unlikely to
//! manage, so [`Decoder::finish`] is a check for free.

use super::Fault;
use std::hint::select_unpredictable;

/// Frequencies of a table add up to `1 << PROBABILITY_BITS`.
pub const PROBABILITY_BITS: u32 = 12;

/// Most bits that one raw operation carries.
pub const RAW_BITS_MAX: u32 = 31;

/// States are at least this between operations.
pub const STATE_MIN: u64 = 1 << 31;
const WORD_BITS: u32 = 32;

/// A symbol's part of the probability range: `start << 16 | frequency`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share(u32);

impl Share {
    /// A part of `frequency` beginning at `start`; both at most `1 << PROBABILITY_BITS`.
    pub fn new(start: u32, frequency: u32) -> Share {
        debug_assert!(start + frequency <= 1 << PROBABILITY_BITS);
        Share(start << 16 | frequency)
    }

    /// How much of the range the symbol has.
    #[inline(always)]
    pub fn frequency(self) -> u32 {
        self.0 & 0xffff
    }

    /// `start << 16 | frequency`.
    pub fn packed(self) -> u32 {
        self.0
    }

    #[inline(always)]
    pub(super) fn start(self) -> u32 {
        self.0 >> 16
    }
}

/// Writes one block. Give it everything in reverse.
pub struct Encoder {
    state: u64,
    /// Words in reverse.
    words: Vec<u32>,
}

impl Encoder {
    /// An empty block; `capacity` is a guess of its size in words.
    pub fn new(capacity: usize) -> Encoder {
        Encoder {
            state: STATE_MIN,
            words: Vec::with_capacity(capacity),
        }
    }

    /// Pushes a symbol whose share is not empty.
    pub fn push(&mut self, share: Share) {
        let frequency = u64::from(share.frequency());
        if self.state >= ((STATE_MIN >> PROBABILITY_BITS) << WORD_BITS) * frequency {
            self.flush_word();
        }
        self.state = ((self.state / frequency) << PROBABILITY_BITS)
            + self.state % frequency
            + u64::from(share.start());
    }

    /// Pushes the low `bits` bits of `value`, at most [`RAW_BITS_MAX`].
    pub fn push_raw(&mut self, value: u32, bits: u32) {
        if self.state >= (STATE_MIN << WORD_BITS) >> bits {
            self.flush_word();
        }
        self.state = self.state << bits | u64::from(value);
    }

    /// Pushes `value < count` in almost `log2(count)` bits: a short form for the first values, one bit more for the
    /// others.
    pub fn push_below(&mut self, value: u32, count: u32) {
        let Below { short, bits } = Below::new(count);
        if value < short {
            self.push_raw(value, bits);
        } else {
            let rest = value - short;
            self.push_raw((rest & 1) << bits | (short + (rest >> 1)), bits + 1);
        }
    }

    /// The block's bytes.
    pub fn finish(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(8 + 4 * self.words.len());
        bytes.extend_from_slice(&self.state.to_le_bytes());
        bytes.extend(self.words.iter().rev().flat_map(|word| word.to_le_bytes()));
        bytes
    }

    fn flush_word(&mut self) {
        self.words.push(self.state as u32);
        self.state >>= WORD_BITS;
    }
}

/// Reads one block. Never fails before [`Decoder::finish`]: past the end it reads zeros.
pub struct Decoder<'a> {
    state: u64,
    words: &'a [[u8; 4]],
    /// Index of the next word; beyond the last one once too many were taken.
    place: usize,
    /// Whether the block is words after a state.
    is_whole: bool,
}

impl<'a> Decoder<'a> {
    /// Starts on a block of which all bytes are given.
    pub fn new(block: &'a [u8]) -> Decoder<'a> {
        let (state, words) = match block.split_first_chunk::<8>() {
            Some((state, words)) => (u64::from_le_bytes(*state), words),
            None => (STATE_MIN, &[][..]),
        };
        let (words, rest) = words.as_chunks();
        Decoder {
            state,
            words,
            place: 0,
            is_whole: block.len() >= 8 && rest.is_empty(),
        }
    }

    /// Where in the probability range the next symbol lies.
    #[inline(always)]
    pub fn slot(&self) -> usize {
        (self.state & ((1 << PROBABILITY_BITS) - 1)) as usize
    }

    /// Steps over a symbol: the one whose share holds [`Decoder::slot`].
    #[inline(always)]
    pub fn advance(&mut self, share: Share) {
        let slot = self.slot() as u64;
        // Wraps only for a share that does not hold the slot, which tables never give.
        self.state = (u64::from(share.frequency()) * (self.state >> PROBABILITY_BITS))
            .wrapping_add(slot.wrapping_sub(u64::from(share.start())));
        self.refill();
    }

    /// Takes `bits` raw bits, at most [`RAW_BITS_MAX`].
    #[inline(always)]
    pub fn raw(&mut self, bits: u32) -> u32 {
        let value = (self.state & ((1u64 << bits) - 1)) as u32;
        self.state >>= bits;
        self.refill();
        value
    }

    /// Takes a value that [`Encoder::push_below`] pushed.
    #[inline(always)]
    pub fn below(&mut self, size: Below) -> u32 {
        let value = (self.state & ((1u64 << size.bits) - 1)) as u32;
        let next = (self.state >> size.bits) as u32 & 1;
        let long = u32::from(value >= size.short);
        let more = value.wrapping_sub(size.short).wrapping_add(next) & long.wrapping_neg();
        self.state >>= size.bits + long;
        self.refill();
        value.wrapping_add(more)
    }

    /// The state between two operations.
    #[cfg(target_arch = "x86_64")]
    pub fn state(&self) -> u64 {
        self.state
    }

    /// How many words were taken.
    #[cfg(target_arch = "x86_64")]
    pub fn place(&self) -> usize {
        self.place
    }

    /// A word of the block, for a decoder of another form; 0 after the last one.
    #[inline(always)]
    pub fn word(&self, place: usize) -> u32 {
        u32::from_le_bytes(self.words.get(place).copied().unwrap_or_default())
    }

    /// Goes on where that decoder stopped: with its state, `words` words further.
    #[cfg(target_arch = "x86_64")]
    pub fn resume(&mut self, state: u64, words: usize) {
        self.state = state;
        self.place += words;
    }

    /// Checks that the block ended exactly here.
    pub fn finish(&self) -> Result<(), Fault> {
        if !self.is_whole || self.state != STATE_MIN || self.place != self.words.len() {
            return Err(Fault("a block does not end where it should"));
        }
        Ok(())
    }

    /// Without a branch on the state, which would be mispredicted every other time; nor has [`Decoder::below`] any.
    #[inline(always)]
    fn refill(&mut self) {
        let short = self.state < STATE_MIN;
        let longer = self.state << WORD_BITS | u64::from(self.word(self.place));
        self.state = select_unpredictable(short, longer, self.state);
        self.place += usize::from(short);
    }
}

/// How values below some count are written: `bits` bits, and the values from `short` on with one bit more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Below {
    short: u32,
    bits: u32,
}

impl Below {
    /// For values below `count`, which is not 0 and at most `1 << 31`.
    #[inline(always)]
    pub fn new(count: u32) -> Below {
        debug_assert!(count > 0 && count <= 1 << RAW_BITS_MAX);
        let bits = count.ilog2();
        // 2^(bits + 1) - count, without overflow.
        Below {
            short: (1 << bits) - (count - (1 << bits)),
            bits,
        }
    }

    /// How many values there are.
    #[cfg(target_arch = "x86_64")]
    pub fn count(self) -> u32 {
        (2u32 << self.bits).wrapping_sub(self.short)
    }

    /// For values of exactly `bits` bits, at most [`RAW_BITS_MAX`].
    pub const fn bits(bits: u32) -> Below {
        Below {
            short: 1 << bits,
            bits,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_was_pushed_in_reverse_comes_back_in_order() {
        let shares = [Share::new(0, 1), Share::new(1, 4000), Share::new(4001, 95)];
        let mut number = 12_345u32;
        let mut next = || {
            number = number.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            number >> 8
        };
        let events: Vec<(usize, u32, u32, u32)> = (0..5000)
            .map(|_| {
                let (bits, count) = (next() % (RAW_BITS_MAX + 1), next() % 5000 + 1);
                (
                    (next() % 3) as usize,
                    bits,
                    (u64::from(next()) & ((1 << bits) - 1)) as u32,
                    next() % count * 1000 + count,
                )
            })
            .collect();
        let mut encoder = Encoder::new(0);
        for &(symbol, bits, raw, packed) in events.iter().rev() {
            let (value, count) = (packed / 1000, packed % 1000 + packed / 1000 + 1);
            encoder.push_below(value, count);
            encoder.push_raw(raw, bits);
            encoder.push(shares[symbol]);
        }
        let bytes = encoder.finish();
        let mut decoder = Decoder::new(&bytes);
        for &(symbol, bits, raw, packed) in &events {
            let slot = decoder.slot();
            let found = shares
                .iter()
                .rposition(|share| share.start() as usize <= slot)
                .unwrap();
            assert_eq!(found, symbol);
            decoder.advance(shares[found]);
            assert_eq!(decoder.raw(bits), raw);
            let (value, count) = (packed / 1000, packed % 1000 + packed / 1000 + 1);
            assert_eq!(decoder.below(Below::new(count)), value);
        }
        decoder.finish().unwrap();
    }

    #[test]
    fn a_block_that_is_short_or_long_does_not_finish() {
        let mut encoder = Encoder::new(0);
        for value in 0..100 {
            encoder.push_raw(value, 20);
        }
        let bytes = encoder.finish();
        for length in 0..bytes.len() {
            let mut decoder = Decoder::new(&bytes[..length]);
            for _ in 0..100 {
                decoder.raw(20);
            }
            assert!(decoder.finish().is_err());
        }
        let mut longer = bytes.clone();
        longer.extend([0; 4]);
        let mut decoder = Decoder::new(&longer);
        for _ in 0..100 {
            decoder.raw(20);
        }
        assert!(decoder.finish().is_err());
    }

    #[test]
    fn every_value_below_every_small_count_comes_back() {
        for count in 1..70 {
            for value in 0..count {
                let mut encoder = Encoder::new(0);
                encoder.push_below(value, count);
                let bytes = encoder.finish();
                let mut decoder = Decoder::new(&bytes);
                assert_eq!(decoder.below(Below::new(count)), value);
                decoder.finish().unwrap();
            }
        }
    }
}
