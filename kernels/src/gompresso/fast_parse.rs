//! Text of a data block to sequences, as fast as it goes: one earlier position a hash, the first match is taken, and text in which
//! nothing repeats is passed over in growing steps, as LZ4 does (Collet, 2011).
//!
//! The invariant: sequences make the text, with the bounds of the format. The result depends on text and window alone.

use std::ops::Range;

use super::format::{LITERALS_MAX, MATCH_MAX, MATCH_MIN, PackSequence};
use super::parse::Sequences;

/// Bits of the hash of [`HASHED`] bytes. More make text no smaller, fewer find too little.
const HASH_BITS: u32 = 14;

/// Bytes that a match has at least: fewer pay little in records of four bytes.
const HASHED: usize = 5;

/// The step between positions grows by one after this many positions without a match.
const MISSES_A_STEP: usize = 1 << 6;

/// The low 16 bits of the last position of each hash, which identify it within the largest window; 2 bytes each stay in the nearest
/// cache.
pub(super) struct LastPositions(Box<[u16; 1 << HASH_BITS]>);

impl Default for LastPositions {
    fn default() -> LastPositions {
        LastPositions(Box::new([0; 1 << HASH_BITS]))
    }
}

/// Literals that are copied at once.
const COPIED: usize = 16;

/// Parses a text to sequences, which are kept for the next call. `last` is memory for the next call too.
pub(super) fn parse_fast(
    text: &[u8],
    window: usize,
    last: &mut LastPositions,
    sequences: &mut Sequences,
) {
    let last = &mut *last.0;
    last.fill(0);
    sequences.records.clear();
    sequences.literals.clear();
    // Where the literals begin that are not written yet.
    let mut string = 0;
    let (mut at, mut misses) = (0, 0);
    while let Some(word) = word_at(text, at) {
        let place = &mut last[hash(word)];
        let distance = usize::from((at as u16).wrapping_sub(*place));
        *place = at as u16;
        // Whatever the place says: bytes are compared.
        let source = at.wrapping_sub(distance);
        let same = |other: u64| (other ^ word) << (u64::BITS as usize - 8 * HASHED) == 0;
        let is_found = (1..=window).contains(&distance)
            && source < at
            && word_at(text, source).is_some_and(same);
        if !is_found {
            misses += 1;
            at += 1 + misses / MISSES_A_STEP;
            continue;
        }
        let mut source = source;
        misses = 0;
        let mut end = at + HASHED + common(&text[source + HASHED..], &text[at + HASHED..]);
        while at > string && source > 0 && text[at - 1] == text[source - 1] {
            at -= 1;
            source -= 1;
        }
        // What is left behind whole matches may be too short for one.
        let rest = (end - at) % MATCH_MAX;
        if (1..MATCH_MIN).contains(&rest) {
            end -= rest;
        }
        sequences.push_match(text, string..at, end - at, at - source);
        string = end;
        if let Some(word) = word_at(text, end - 2) {
            last[hash(word)] = (end - 2) as u16;
        }
        at = end;
    }
    sequences.push_literals(text, string);
}

impl Sequences {
    /// Appends literals, then a match of any length whose pieces are long enough each.
    fn push_match(&mut self, text: &[u8], string: Range<usize>, length: usize, distance: usize) {
        let mut literals = self.push_whole_strings(text, string);
        let mut left = length;
        while left > 0 {
            let piece = left.min(MATCH_MAX);
            let sequence = PackSequence {
                literals,
                length: piece,
                distance,
            };
            self.records.push(sequence.to_record());
            literals = 0;
            left -= piece;
        }
    }

    /// Appends literals that no match follows.
    fn push_literals(&mut self, text: &[u8], begin: usize) {
        let rest = self.push_whole_strings(text, begin..text.len());
        if rest > 0 {
            self.push_string(rest);
        }
    }

    /// Appends literals, of which only the last string, which is not full, gets no record yet; how long that is.
    fn push_whole_strings(&mut self, text: &[u8], string: Range<usize>) -> usize {
        let mut left = string.len();
        let (end, mut at) = (self.literals.len() + left, string.start);
        // Short strings are copied by a few words, beyond their ends.
        while at < string.end {
            match text[at..].first_chunk::<COPIED>() {
                Some(chunk) => self.literals.extend_from_slice(chunk),
                None => self.literals.extend_from_slice(&text[at..]),
            }
            at += COPIED;
        }
        self.literals.truncate(end);
        while left > LITERALS_MAX {
            self.push_string(LITERALS_MAX);
            left -= LITERALS_MAX;
        }
        left
    }

    fn push_string(&mut self, literals: usize) {
        let sequence = PackSequence {
            literals,
            length: 0,
            distance: 1,
        };
        self.records.push(sequence.to_record());
    }
}

/// The eight bytes from a position on; none near the end.
#[inline(always)]
fn word_at(text: &[u8], at: usize) -> Option<u64> {
    let bytes = text.get(at..at + 8)?.try_into().expect("eight");
    Some(u64::from_le_bytes(bytes))
}

/// The hash of the first bytes of a word.
#[inline(always)]
fn hash(word: u64) -> usize {
    let front = word << (u64::BITS as usize - 8 * HASHED);
    (front.wrapping_mul(0x9e37_79b1_85eb_ca87) >> (u64::BITS - HASH_BITS)) as usize
}

/// How many bytes two texts begin with alike; the second is the shorter.
#[inline(always)]
fn common(left: &[u8], right: &[u8]) -> usize {
    let mut length = 0;
    while let (Some(left), Some(right)) = (word_at(left, length), word_at(right, length)) {
        let differing = left ^ right;
        if differing != 0 {
            return length + differing.trailing_zeros() as usize / 8;
        }
        length += 8;
    }
    while length < right.len() && left[length] == right[length] {
        length += 1;
    }
    length
}
