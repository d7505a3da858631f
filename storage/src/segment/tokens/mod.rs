//! Tokens to bytes and back: front coding with learned spelling.
//!
//! Tokens in dictionary order share most of their beginnings. A *word entry* is a word, with or without a space before
//! it or both; of its folded form (ASCII capitals made small) only what follows the part shared with the entry before
//! is written, byte by byte under the two bytes before; then how it is capitalised. Nothing requires the order: other
//! orders only cost more.
//!
//! Invariant: a block of [`BLOCK_TOKENS`] tokens depends on nothing but the spelling model, so blocks decode in
//! parallel, each into its own part of the result.

mod block;
mod context;
mod entry;
mod spelling;

use crate::segment::coding::adaptive::{BitDecoder, BitEncoder};
use crate::segment::coding::{
    DecodeError, Fault, blocks, check_expansion, filled, pad, rans, reserved, varint,
};
use block::{BlockWork, LANES};
use entry::{Entry, Previous};
use rayon::prelude::*;
use spelling::{Event, Lookups, Spelling};
use std::ops::Range;

/// Tokens of a block; the last one may have fewer.
pub const BLOCK_TOKENS: usize = 1024;

/// Tasks that the blocks of a section are cut into, for each thread, at most.
const TASKS_A_THREAD: usize = 4;

/// A section of tokens: `offsets` has one number more than there are tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Where each token begins in `bytes`, from 0, and the end.
    pub offsets: Vec<u64>,
    /// The tokens.
    pub bytes: Vec<u8>,
}

/// Encodes the tokens that `token(0..count)` gives; none is empty. `spaced` says that a space before a word is apart
/// from the word.
pub fn encode<'a>(count: usize, spaced: bool, token: impl Fn(usize) -> &'a [u8] + Sync) -> Vec<u8> {
    let starts: Vec<usize> = (0..count).step_by(BLOCK_TOKENS).collect();
    let events: Vec<Vec<Event>> = starts
        .par_iter()
        .map(|&start| {
            let end = (start + BLOCK_TOKENS).min(count);
            let mut events = Vec::new();
            let mut previous = Previous::default();
            let mut next = start;
            while next < end {
                let entry = Entry::parse(
                    token(next),
                    (next + 1 < end).then(|| token(next + 1)),
                    spaced,
                );
                next += entry.tokens();
                previous.write(&entry, &mut events);
            }
            events
        })
        .collect();
    let spelling = Spelling::learn(&events);
    let shares = spelling.shares();
    let coded: Vec<Vec<u8>> = events
        .par_iter()
        .map(|events| {
            let mut encoder = rans::Encoder::new(events.len() / 8);
            events
                .iter()
                .rev()
                .for_each(|event| shares.push(&mut encoder, event));
            encoder.finish()
        })
        .collect();

    let mut out = Vec::new();
    varint::write(&mut out, count as u64);
    let mut coder = BitEncoder::default();
    spelling.write(&mut coder);
    blocks::write_part(&mut out, &coder.finish());
    let mut total = 0;
    for &start in &starts {
        let size: u64 = (start..(start + BLOCK_TOKENS).min(count))
            .map(|index| token(index).len() as u64)
            .sum();
        varint::write(&mut out, size);
        total += size;
    }
    blocks::write(&mut out, &coded);
    pad(&mut out, total.max(count as u64 * size_of::<u64>() as u64));
    out
}

/// Appends ascending ids, by their distances.
pub fn encode_ids(ids: &[u32]) -> Vec<u8> {
    let mut out = Vec::new();
    varint::write(&mut out, ids.len() as u64);
    let mut previous = 0;
    for &id in ids {
        varint::write(&mut out, u64::from(id - previous));
        previous = id;
    }
    out
}

/// Takes ascending ids below `end` off the front of `input`.
pub fn decode_ids(input: &mut &[u8], end: u32) -> Result<Vec<u32>, DecodeError> {
    let count = varint::read(input)?;
    // Each takes a byte, so this bounds the allocation by what is there.
    if count > input.len() as u64 {
        return Err(Fault("it has too many spaces").into());
    }
    let mut ids: Vec<u32> = reserved(count as usize)?;
    for _ in 0..count {
        let distance = varint::read_u32(input)?;
        let id = ids
            .last()
            .map_or(Some(distance), |previous| previous.checked_add(distance));
        let ascends = ids.is_empty() || distance > 0;
        match id {
            Some(id) if id < end && ascends => ids.push(id),
            _ => return Err(Fault("a space belongs to no word").into()),
        }
    }
    Ok(ids)
}

/// Decodes a section.
pub fn decode(section: &[u8]) -> Result<Tokens, DecodeError> {
    let blocks = TokenBlocks::read(section)?;
    blocks.decode(section, 0..blocks.len())
}

/// Where the blocks of a section lie, and what it takes to decode them.
pub struct TokenBlocks {
    lookups: Lookups,
    /// How many tokens there are.
    count: usize,
    /// For each block the bytes of its tokens, and where it lies in the section.
    blocks: Vec<(u64, Range<usize>)>,
}

impl TokenBlocks {
    /// Reads what comes before the blocks of a section.
    pub fn read(section: &[u8]) -> Result<TokenBlocks, DecodeError> {
        let mut input = section;
        let count = varint::read(&mut input)?;
        check_expansion(section.len(), count.saturating_mul(size_of::<u64>() as u64))?;
        let count = usize::try_from(count).map_err(|_| Fault("it has too many tokens"))?;
        let mut coder = BitDecoder::new(blocks::read_part(&mut input)?);
        let lookups = Spelling::read(&mut coder)?.lookups()?;
        coder.finish()?;
        let block_count = count.div_ceil(BLOCK_TOKENS);
        let mut blocks = reserved(block_count)?;
        let mut total = 0u64;
        for _ in 0..block_count {
            let size = varint::read(&mut input)?;
            total = total
                .checked_add(size)
                .ok_or(Fault("its tokens are too long"))?;
            check_expansion(section.len(), total)?;
            blocks.push((size, 0..0));
        }
        let sizes = blocks::read_sizes(&mut input, block_count)?;
        let mut end = section.len() - input.len();
        for ((_, range), size) in blocks.iter_mut().zip(sizes) {
            *range = end..end.saturating_add(size);
            end = range.end;
        }
        if end > section.len() {
            return Err(Fault("it ends early").into());
        }
        Ok(TokenBlocks {
            lookups,
            count,
            blocks,
        })
    }

    /// How many blocks there are.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// How many tokens there are.
    pub fn tokens(&self) -> usize {
        self.count
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        self.lookups.bytes() + size_of_val(&self.blocks[..])
    }

    /// The tokens of some blocks of the section that it was read from.
    pub fn decode(&self, section: &[u8], blocks: Range<usize>) -> Result<Tokens, DecodeError> {
        let count = self.count.min(blocks.end * BLOCK_TOKENS) - blocks.start * BLOCK_TOKENS;
        let blocks = &self.blocks[blocks];
        let total: u64 = blocks.iter().map(|(size, _)| size).sum();
        let mut tokens = Tokens {
            offsets: filled(0, count + 1)?,
            bytes: filled(0, total as usize)?, // checked against the section
        };
        let mut work = reserved(blocks.len())?;
        let mut rest = &mut tokens.bytes[..];
        let mut start = 0;
        for ((size, range), ends) in blocks
            .iter()
            .zip(tokens.offsets[1..].chunks_mut(BLOCK_TOKENS))
        {
            let (target, after) = rest.split_at_mut(*size as usize); // part of `total`
            rest = after;
            work.push(BlockWork {
                coded: &section[range.clone()],
                start,
                target,
                ends,
            });
            start += size;
        }
        let tasks = TASKS_A_THREAD * rayon::current_num_threads();
        let task_blocks = blocks.len().div_ceil(tasks).max(LANES);
        (work.into_par_iter().chunks(task_blocks))
            .try_for_each(|work| block::decode_blocks(&self.lookups, work))?;
        Ok(tokens)
    }

    /// The first token of a block.
    pub fn first(&self, section: &[u8], block: usize) -> Result<Vec<u8>, DecodeError> {
        let (size, range) = &self.blocks[block];
        let tokens = (self.count - block * BLOCK_TOKENS).min(BLOCK_TOKENS);
        let mut bytes = filled(0, *size as usize)?; // checked against the section
        let mut ends = filled(0, tokens)?;
        block::decode_first(
            &self.lookups,
            BlockWork {
                coded: &section[range.clone()],
                start: 0,
                target: &mut bytes,
                ends: &mut ends,
            },
        )?;
        bytes.truncate(ends[0] as usize); // within the block
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn round_trip(tokens: &[&[u8]], spaced: bool) -> usize {
        let section = encode(tokens.len(), spaced, |index| tokens[index]);
        let blocks = TokenBlocks::read(&section).unwrap();
        for (block, tokens) in tokens.chunks(BLOCK_TOKENS).enumerate() {
            assert_eq!(blocks.first(&section, block).unwrap(), tokens[0]);
            let alone = blocks.decode(&section, block..block + 1).unwrap();
            assert_eq!(alone.bytes, tokens.concat());
            assert_eq!(alone.offsets.len(), tokens.len() + 1);
        }
        let decoded = decode(&section).unwrap();
        let found: Vec<&[u8]> = decoded
            .offsets
            .windows(2)
            .map(|pair| &decoded.bytes[pair[0] as usize..pair[1] as usize])
            .collect();
        assert_eq!(found, tokens);
        section.len()
    }

    #[test]
    fn tokens_of_every_kind_come_back() {
        round_trip(&[], true);
        round_trip(&[b"a"], true);
        let long = vec![b'x'; 5000];
        let longer = vec![b'x'; 5001];
        let words: [&[u8]; 20] = [
            b" ",
            b"a",
            b" a",
            b"A",
            b" A",
            b"AB",
            b"aB",
            b" 1a",
            b"1A",
            b"Ab1C",
            b"don't",
            b" Don't",
            b"\xc3\xa9t\xc3\xa9",
            b"\xff\x00A",
            &long,
            &longer,
            b"zebra",
            b"Zebra",
            b" zebra",
            b"@[",
        ];
        round_trip(&words, true);
        round_trip(&words, false);
    }

    #[test]
    fn many_tokens_fill_several_blocks_and_stay_small() {
        let tokens: Vec<String> = (0..5000u32)
            .flat_map(|number| {
                let word = format!(
                    "{}{}",
                    ["al", "be", "Ga", "DE"][(number / 1250) as usize],
                    number * 7 % 10_000
                );
                if number % 3 == 0 {
                    vec![word.clone(), format!(" {word}")]
                } else {
                    vec![format!(" {word}")]
                }
            })
            .collect();
        let tokens: Vec<&[u8]> = tokens.iter().map(|token| token.as_bytes()).collect();
        let size = round_trip(&tokens, true);
        assert!(size < 12_000, "{size}");
    }

    #[test]
    fn damaged_sections_give_tokens_or_a_fault() {
        let tokens: [&[u8]; 6] = [b"apple", b" apple", b"Apple", b"applet", b" bee", b"beet"];
        let section = encode(tokens.len(), true, |index| tokens[index]);
        let first = |section: &[u8]| match TokenBlocks::read(section) {
            Ok(blocks) if blocks.len() > 0 => drop(blocks.first(section, 0)),
            _ => {}
        };
        for length in 0..section.len() {
            let _ = decode(&section[..length]);
            first(&section[..length]);
        }
        for index in 0..section.len() {
            for flip in 1..=255 {
                let mut damaged = section.clone();
                damaged[index] ^= flip;
                let _ = decode(&damaged);
                first(&damaged);
            }
        }
    }
}
