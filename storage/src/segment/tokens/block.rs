//! Decoding blocks of tokens: several at a time on one thread, so that the loads of one hide behind the arithmetic of
//! others.
//!
//! Invariant: a block writes into its own part of the result only, and exactly the bytes that its section says, or there is a
//! fault. No token is copied on its way there.

use super::entry::{Capitals, SPACINGS, case_bit_row, head_row, shared_row};
use super::spelling::{Lookups, NumberedContext, SHARED_ESCAPE, SHARED_SAME};
use crate::segment::coding::Fault;
use crate::segment::coding::rans::{Below, Decoder};

/// Blocks that one thread decodes at a time.
pub const LANES: usize = 4;

/// Steps after which finished blocks are looked for.
const STEPS: usize = 64;

/// A block to be decoded.
pub struct BlockWork<'a> {
    /// Its bytes.
    pub coded: &'a [u8],
    /// Where the tokens begin in the result.
    pub start: u64,
    /// Their place: exactly as many bytes.
    pub target: &'a mut [u8],
    /// Where each of them ends in the result.
    pub ends: &'a mut [u64],
}

/// Decodes blocks on this thread.
pub fn decode_blocks(lookups: &Lookups, work: Vec<BlockWork<'_>>) -> Result<(), Fault> {
    let mut work = work.into_iter();
    let mut lanes = Vec::with_capacity(LANES);
    for block in work.by_ref().take(LANES) {
        lanes.push(BlockDecoder::new(lookups, block)?);
    }
    while !lanes.is_empty() {
        for _ in 0..STEPS {
            for lane in lanes.iter_mut().filter(|lane| !lane.is_done()) {
                lane.step(lookups)?;
            }
        }
        let mut place = 0;
        while let Some(lane) = lanes.get_mut(place) {
            if !lane.is_done() {
                place += 1;
                continue;
            }
            lane.finish()?;
            match work.next() {
                Some(block) => *lane = BlockDecoder::new(lookups, block)?,
                None => drop(lanes.swap_remove(place)),
            }
        }
    }
    Ok(())
}

/// Decodes the first entry of a block, which has a token at least, and no more.
pub fn decode_first(lookups: &Lookups, block: BlockWork<'_>) -> Result<(), Fault> {
    let mut decoder = BlockDecoder::new(lookups, block)?;
    while decoder.done == 0 {
        decoder.step(lookups)?;
    }
    Ok(())
}

/// A block being decoded.
struct BlockDecoder<'a> {
    decoder: Decoder<'a>,
    block: BlockWork<'a>,
    /// Bytes and tokens that are there.
    place: usize,
    done: usize,
    /// The folded word, as far as it is known, of the entry that is being decoded.
    folded: Vec<u8>,
    /// What its next byte is predicted from.
    context: NumberedContext,
    shared: usize,
    capitals: Capitals,
    spacing: u8,
}

impl<'a> BlockDecoder<'a> {
    fn new(lookups: &Lookups, block: BlockWork<'a>) -> Result<BlockDecoder<'a>, Fault> {
        let mut decoder = BlockDecoder {
            decoder: Decoder::new(block.coded),
            block,
            place: 0,
            done: 0,
            folded: Vec::new(),
            context: NumberedContext::default(),
            shared: 0,
            capitals: Capitals::None,
            spacing: 0,
        };
        decoder.begin_entry(lookups)?;
        Ok(decoder)
    }

    fn is_done(&self) -> bool {
        self.done == self.block.ends.len()
    }

    /// Reads how entries begin, up to one that has bytes of its own.
    fn begin_entry(&mut self, lookups: &Lookups) -> Result<(), Fault> {
        while !self.is_done() {
            let shared = lookups.shared(&mut self.decoder, shared_row(self.shared));
            if shared == SHARED_SAME {
                self.end_entry(lookups, true)?;
                continue;
            }
            let shared = match shared {
                SHARED_ESCAPE => SHARED_ESCAPE + self.decoder.below(Below::bits(8)) as usize,
                shared => shared,
            };
            if shared > self.folded.len() {
                return Err(Fault("a token shares more than the one before has"));
            }
            let byte = |index: usize| self.folded.get(index).copied();
            self.context =
                lookups.first_context(byte(shared), shared.checked_sub(1).and_then(byte));
            self.folded.truncate(shared);
            self.shared = shared;
            break;
        }
        Ok(())
    }

    /// Reads a byte of the folded word, or its end and how the next one begins. There is more to read.
    #[inline(always)]
    fn step(&mut self, lookups: &Lookups) -> Result<(), Fault> {
        match lookups.byte(&mut self.decoder, &mut self.context) {
            Some(byte) => {
                if self.folded.len() >= self.block.target.len() - self.place {
                    return Err(Fault("a token is too long"));
                }
                self.folded.push(byte);
                Ok(())
            }
            None => {
                self.end_entry(lookups, false)?;
                self.begin_entry(lookups)
            }
        }
    }

    /// Reads what follows the folded word, and writes the tokens.
    fn end_entry(&mut self, lookups: &Lookups, same: bool) -> Result<(), Fault> {
        if self.folded.is_empty() {
            return Err(Fault("a token is empty"));
        }
        let row = head_row(same, self.spacing, self.capitals);
        let head = lookups.head(&mut self.decoder, row);
        self.spacing = (head / Capitals::ALL.len()) as u8; // below HEADS
        self.capitals = Capitals::ALL[head % Capitals::ALL.len()];
        let spaces = SPACINGS[usize::from(self.spacing)];
        let size = self.folded.len();
        let first = self.place + usize::from(spaces[0]);
        for &spaced in spaces {
            let start = self.place;
            self.place += usize::from(spaced) + size;
            let token = (self.block.target.get_mut(start..self.place))
                .ok_or(Fault("a token is too long"))?;
            let end =
                (self.block.ends.get_mut(self.done)).ok_or(Fault("a block has too many tokens"))?;
            *end = self.block.start + self.place as u64;
            self.done += 1;
            if spaced {
                token[0] = b' ';
            }
            let word = &mut token[usize::from(spaced)..];
            if start + usize::from(spaced) == first {
                word.copy_from_slice(&self.folded);
                capitalise(word, self.capitals, |row| {
                    lookups.case_bit(&mut self.decoder, row)
                });
            } else {
                self.block
                    .target
                    .copy_within(first..first + size, self.place - size);
            }
        }
        Ok(())
    }

    fn finish(&self) -> Result<(), Fault> {
        if self.place != self.block.target.len() {
            return Err(Fault("the tokens of a block are too short"));
        }
        self.decoder.finish()
    }
}

/// Makes a folded word what it was; `case_bit` reads the case of a letter.
fn capitalise(word: &mut [u8], capitals: Capitals, mut case_bit: impl FnMut(usize) -> bool) {
    match capitals {
        Capitals::None => {}
        Capitals::First => word[0].make_ascii_uppercase(),
        Capitals::All => word.make_ascii_uppercase(),
        Capitals::Mixed => {
            let mut row = 0;
            for byte in word {
                if byte.is_ascii_alphabetic() && case_bit(row) {
                    byte.make_ascii_uppercase();
                }
                row = case_bit_row(*byte);
            }
        }
    }
}
