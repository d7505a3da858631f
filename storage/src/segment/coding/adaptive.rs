//! The small coder: binary arithmetic coding whose probabilities learn from what they see.
//!
//! For tables, maps and classes: a few thousand values that no static table could pay for. Sequential by nature, so
//! nothing large goes through here. The arithmetic is that of LZMA's range coder with 16-bit probabilities.

use super::Fault;

const RANGE_MIN: u32 = 1 << 24;

/// The probability of one binary decision, learned as it is used: fast at first, slower with experience.
#[derive(Clone, Copy, Debug)]
pub struct Bit {
    /// Probability of a zero, in 1/65536.
    zero: u16,
    seen: u8,
}

impl Default for Bit {
    fn default() -> Bit {
        Bit {
            zero: 1 << 15,
            seen: 0,
        }
    }
}

impl Bit {
    /// Slowest learning: one part in `SEEN_MAX + 2` of the error.
    const SEEN_MAX: u8 = 30;

    /// The part of `range` that a zero gets; never 0 and never all of it.
    fn bound(self, range: u32) -> u32 {
        (range >> 16) * u32::from(self.zero.clamp(64, u16::MAX - 63))
    }

    fn learn(&mut self, bit: bool) {
        let divisor = i32::from(self.seen) + 2;
        let target = if bit { 0 } else { i32::from(u16::MAX) };
        let zero = i32::from(self.zero);
        // Between the two, so it fits.
        self.zero = (zero + (target - zero) / divisor) as u16;
        self.seen = (self.seen + 1).min(Bit::SEEN_MAX);
    }
}

/// Writes binary decisions.
pub struct BitEncoder {
    low: u64,
    range: u32,
    /// The last byte, held back with `pending - 1` bytes 0xff after it until a carry is settled.
    cache: u8,
    pending: u64,
    bytes: Vec<u8>,
}

impl Default for BitEncoder {
    fn default() -> BitEncoder {
        BitEncoder {
            low: 0,
            range: u32::MAX,
            cache: 0,
            pending: 1,
            bytes: Vec::new(),
        }
    }
}

impl BitEncoder {
    /// Writes a decision.
    pub fn bit(&mut self, model: &mut Bit, bit: bool) {
        let bound = model.bound(self.range);
        if bit {
            self.low += u64::from(bound);
            self.range -= bound;
        } else {
            self.range = bound;
        }
        model.learn(bit);
        self.normalise();
    }

    /// Writes the low `bits` bits of `value`, high ones first, as they are.
    pub fn raw(&mut self, value: u32, bits: u32) {
        for bit in (0..bits).rev() {
            self.range >>= 1;
            if value >> bit & 1 == 1 {
                self.low += u64::from(self.range);
            }
            self.normalise();
        }
    }

    /// The bytes.
    pub fn finish(mut self) -> Vec<u8> {
        for _ in 0..5 {
            self.shift();
        }
        self.bytes
    }

    fn normalise(&mut self) {
        while self.range < RANGE_MIN {
            self.range <<= 8;
            self.shift();
        }
    }

    fn shift(&mut self) {
        if self.low < 0xff00_0000 || self.low > 0xffff_ffff {
            let carry = (self.low >> 32) as u8;
            let mut byte = self.cache;
            for _ in 0..self.pending {
                self.bytes.push(byte.wrapping_add(carry));
                byte = 0xff;
            }
            self.pending = 0;
            self.cache = (self.low >> 24) as u8;
        }
        self.pending += 1;
        self.low = (self.low & 0x00ff_ffff) << 8;
    }
}

/// Reads binary decisions. Never fails before [`BitDecoder::finish`]: past the end it reads zeros.
pub struct BitDecoder<'a> {
    code: u32,
    range: u32,
    rest: &'a [u8],
    overrun: bool,
}

impl<'a> BitDecoder<'a> {
    /// Starts on bytes of which all belong to one encoder.
    pub fn new(bytes: &'a [u8]) -> BitDecoder<'a> {
        let mut decoder = BitDecoder {
            code: 0,
            range: u32::MAX,
            rest: bytes,
            overrun: false,
        };
        for _ in 0..5 {
            decoder.shift();
        }
        decoder
    }

    /// Reads a decision.
    pub fn bit(&mut self, model: &mut Bit) -> bool {
        let bound = model.bound(self.range);
        let bit = self.code >= bound;
        if bit {
            self.code -= bound;
            self.range -= bound;
        } else {
            self.range = bound;
        }
        model.learn(bit);
        self.normalise();
        bit
    }

    /// Reads `bits` bits as they are.
    pub fn raw(&mut self, bits: u32) -> u32 {
        let mut value = 0;
        for _ in 0..bits {
            self.range >>= 1;
            let bit = self.code >= self.range;
            if bit {
                self.code -= self.range;
            }
            value = value << 1 | u32::from(bit);
            self.normalise();
        }
        value
    }

    /// Whether more was read than there is: what was read last means nothing, and loops had better stop.
    pub fn is_overrun(&self) -> bool {
        self.overrun
    }

    /// Checks that the bytes ended exactly here.
    pub fn finish(&self) -> Result<(), Fault> {
        if self.overrun || !self.rest.is_empty() {
            return Err(Fault("the tables do not end where they should"));
        }
        Ok(())
    }

    fn normalise(&mut self) {
        while self.range < RANGE_MIN {
            self.range <<= 8;
            self.shift();
        }
    }

    fn shift(&mut self) {
        let byte = match self.rest.split_first() {
            Some((&byte, rest)) => {
                self.rest = rest;
                byte
            }
            None => {
                self.overrun = true;
                0
            }
        };
        self.code = self.code << 8 | u32::from(byte);
    }
}

/// Either side of the coder, so that what is written and what is read is one piece of code.
pub trait Coder {
    /// Writes `bit`, or reads one and returns it.
    fn bit(&mut self, model: &mut Bit, bit: bool) -> bool;
    /// Writes the low `bits` bits of `value`, or reads as many.
    fn raw(&mut self, value: u32, bits: u32) -> u32;
}

impl Coder for BitEncoder {
    fn bit(&mut self, model: &mut Bit, bit: bool) -> bool {
        BitEncoder::bit(self, model, bit);
        bit
    }

    fn raw(&mut self, value: u32, bits: u32) -> u32 {
        BitEncoder::raw(self, value, bits);
        value
    }
}

impl Coder for BitDecoder<'_> {
    fn bit(&mut self, model: &mut Bit, _bit: bool) -> bool {
        BitDecoder::bit(self, model)
    }

    fn raw(&mut self, _value: u32, bits: u32) -> u32 {
        BitDecoder::raw(self, bits)
    }
}

/// Values below `1 << bits`, each bit learned under those before it.
pub struct BitTree {
    bits: u32,
    models: Vec<Bit>,
}

impl BitTree {
    /// A tree for values of `bits` bits.
    pub fn new(bits: u32) -> BitTree {
        BitTree {
            bits,
            models: vec![Bit::default(); 1 << bits],
        }
    }

    /// Writes `value`, or reads one.
    pub fn code(&mut self, coder: &mut impl Coder, value: u32) -> u32 {
        let mut node = 1usize;
        for bit in (0..self.bits).rev() {
            let bit = coder.bit(&mut self.models[node], value >> bit & 1 == 1);
            node = node << 1 | usize::from(bit);
        }
        (node - (1 << self.bits)) as u32
    }
}

/// Numbers of any size, small ones cheap: their width in unary, then the bits, the highest one learned.
pub struct Number {
    width: [Bit; 33],
    next: [Bit; 33],
}

impl Default for Number {
    fn default() -> Number {
        Number {
            width: [Bit::default(); 33],
            next: [Bit::default(); 33],
        }
    }
}

impl Number {
    /// Writes `value`, or reads one.
    pub fn code(&mut self, coder: &mut impl Coder, value: u32) -> u32 {
        let own = u32::BITS - value.leading_zeros();
        let mut width = 0;
        while width < 32 && coder.bit(&mut self.width[width as usize], width < own) {
            width += 1;
        }
        if width < 2 {
            return width;
        }
        let mut result = 1 << 1
            | u32::from(coder.bit(
                &mut self.next[width as usize],
                value >> (width - 2) & 1 == 1,
            ));
        if width > 2 {
            let bits = width - 2;
            result = result << bits | coder.raw(value & ((1 << bits) - 1), bits);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn script(coder: &mut impl Coder, values: &[u32]) -> Vec<u32> {
        let mut number = Number::default();
        let mut tree = BitTree::new(7);
        let mut skewed = Bit::default();
        let mut out = Vec::new();
        for &value in values {
            out.push(number.code(coder, value));
            assert_eq!(tree.code(coder, value & 127), out[out.len() - 1] & 127);
            coder.bit(&mut skewed, false);
            assert_eq!(coder.raw(value & 0xfff, 12), out[out.len() - 1] & 0xfff);
        }
        out
    }

    #[test]
    fn every_width_comes_back_and_the_end_is_exact() {
        let values: Vec<u32> = (0..32)
            .flat_map(|bit| [1u32 << bit, (1 << bit) - 1, u32::MAX >> bit])
            .chain([0; 300])
            .collect();
        let mut encoder = BitEncoder::default();
        script(&mut encoder, &values);
        let bytes = encoder.finish();
        let mut decoder = BitDecoder::new(&bytes);
        assert_eq!(script(&mut decoder, &values), values);
        decoder.finish().unwrap();
        for length in 0..bytes.len() {
            let mut decoder = BitDecoder::new(&bytes[..length]);
            let mut number = Number::default();
            for _ in 0..bytes.len() * 8 {
                number.code(&mut decoder, 0);
                decoder.raw(8);
            }
            assert!(decoder.is_overrun());
        }
    }

    #[test]
    fn carries_travel_through_held_back_bytes() {
        // Ones on a model that expects zeros push `low` up against its limit.
        for seed in 0..200u32 {
            let mut encoder = BitEncoder::default();
            let bits: Vec<bool> = (0..400u32)
                .map(|index| (index * 7 + seed).count_ones() % 3 == 0)
                .collect();
            let mut model = Bit::default();
            for &bit in &bits {
                encoder.bit(&mut model, bit);
                encoder.raw(0xffff, 16);
            }
            let bytes = encoder.finish();
            let mut decoder = BitDecoder::new(&bytes);
            let mut model = Bit::default();
            for &bit in &bits {
                assert_eq!(decoder.bit(&mut model), bit);
                assert_eq!(decoder.raw(16), 0xffff);
            }
            decoder.finish().unwrap();
        }
    }
}
