//! Tokenizers whose words are maximal runs of a class of characters.
//!
//! `alnum` and `whitespace` need no context: one bit for each byte says whether it belongs to a word. The bits of ASCII are
//! computed a block at a time, those of other characters one by one. Bytes that are not UTF-8 count as a character each.

use super::block::{BLOCK_BYTES, Block, MaskRuns, low_bits};
use super::cutter::{Cutter, Sink};

/// A class of characters whose maximal runs are words.
pub trait Class {
    /// Whether an ASCII byte belongs to the class; must compile to compares.
    fn ascii(byte: u8) -> bool;
    /// Whether a character that is not ASCII belongs to the class.
    fn character(character: char) -> bool;
    /// Whether a byte that is not UTF-8 belongs to the class.
    const INVALID: bool;
}

/// The words of `alnum`.
pub struct Alphanumeric;

impl Class for Alphanumeric {
    #[inline(always)]
    fn ascii(byte: u8) -> bool {
        (byte | 0x20).wrapping_sub(b'a') < 26 || byte.wrapping_sub(b'0') < 10
    }

    fn character(character: char) -> bool {
        character.is_alphanumeric()
    }

    const INVALID: bool = false;
}

/// The words of `whitespace`.
pub struct NotWhitespace;

impl Class for NotWhitespace {
    #[inline(always)]
    fn ascii(byte: u8) -> bool {
        !(byte == b' ' || byte.wrapping_sub(b'\t') < 5)
    }

    fn character(character: char) -> bool {
        !character.is_whitespace()
    }

    const INVALID: bool = true;
}

/// Passes the words of the cutter's text to it.
pub fn words<C: Class, S: Sink>(cutter: &mut Cutter<'_, S>) {
    let text = cutter.text;
    // The bits of a character that reaches over the end of the last block, and their number.
    let mut spill = 0;
    let mut spill_count = 0;
    let mut runs = MaskRuns::default();
    for base in (0..text.len()).step_by(BLOCK_BYTES) {
        let block = Block::load(text, base);
        let other = block.mask(|byte| byte >= 0x80);
        let mut class = block.mask(C::ascii) & !other & low_bits(text.len() - base);
        if other != 0 {
            class |= spill;
            let mut rest = other & !low_bits(spill_count);
            (spill, spill_count) = (0, 0);
            while rest != 0 {
                let index = rest.trailing_zeros() as usize;
                let (belongs, size) = match decode(&text[base + index..]) {
                    Some(character) => (C::character(character), character.len_utf8()),
                    None => (C::INVALID, 1),
                };
                let end = index + size;
                let bits = low_bits(end.min(BLOCK_BYTES)) & !low_bits(index);
                rest &= !bits;
                class |= if belongs { bits } else { 0 };
                if end > BLOCK_BYTES {
                    spill_count = end - BLOCK_BYTES;
                    spill = if belongs { low_bits(spill_count) } else { 0 };
                }
            }
        }
        if S::COUNTS_ONLY {
            cutter.sink.more_words(runs.count(class, base, |_, _| true));
        } else {
            runs.push(class, base, |start, end| cutter.word(start, end));
        }
    }
    if let Some(start) = runs.take_open() {
        if S::COUNTS_ONLY {
            cutter.sink.more_words(1)
        } else {
            cutter.word(start, text.len())
        }
    }
}

/// The character that `text` starts with, if it starts with one.
#[inline]
pub fn decode(text: &[u8]) -> Option<char> {
    let lead = u32::from(*text.first()?);
    // The bits of the lead byte, the number of bytes after it, and the first character that needs as long a form.
    let (bits, following, first) = match lead {
        0..0x80 => (lead, 0, 0),
        0xC0..0xE0 => (lead & 0x1F, 1, 0x80),
        0xE0..0xF0 => (lead & 0x0F, 2, 0x800),
        0xF0..0xF8 => (lead & 0x07, 3, 0x1_0000),
        _ => return None,
    };
    let mut code = bits;
    for &byte in text.get(1..1 + following)? {
        if byte & 0xC0 != 0x80 {
            return None;
        }
        code = code << 6 | u32::from(byte & 0x3F);
    }
    // Refuses surrogates and numbers above U+10FFFF.
    char::from_u32(code).filter(|_| code >= first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_accepts_what_the_standard_library_accepts() {
        for character in '\0'..=char::MAX {
            let mut buffer = [b'x'; 5];
            let size = character.encode_utf8(&mut buffer).len();
            assert_eq!(decode(&buffer), Some(character));
            assert_eq!(decode(&buffer[..size - 1]), None);
        }
        let mut number = 1_u32;
        for _ in 0..2_000_000 {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Mostly lead bytes and bytes that may follow.
            let bytes = (number | 0x80).swap_bytes().to_be_bytes();
            let bytes = [bytes[0] | 0xC0, bytes[1], bytes[2], bytes[3]];
            let expected = bytes
                .utf8_chunks()
                .next()
                .and_then(|chunk| chunk.valid().chars().next());
            assert_eq!(decode(&bytes), expected, "{bytes:x?}");
        }
    }
}
