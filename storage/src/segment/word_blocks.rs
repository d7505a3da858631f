//! Single words of a dictionary that is not decoded: their tokens, block by block, and how often they occur.
//!
//! Invariant: a block that is decoded alone has the tokens that the whole dictionary has there. The caller,
//! which knows the order of words, finds the block of a word. The sections are verified and stay in memory, coded.

use super::coding::{DecodeError, Fault, numbers::BLOCK_NUMBERS};
use super::tokens::{BLOCK_TOKENS, TokenBlocks};
use super::{Dictionary, totals};
use crate::backend::Bytes;
use std::fmt;
use std::ops::Range;

/// The word tokens of a segment in blocks.
pub struct WordBlocks {
    words: Bytes,
    /// Where the tokens begin in that section.
    start: usize,
    blocks: TokenBlocks,
    own_spaces: Vec<u32>,
    totals: Bytes,
    /// `[blocks + 1]`: how many words begin before each block.
    words_before: Vec<u32>,
}

/// Word tokens that follow each other.
#[derive(Debug)]
pub struct TokenRun {
    /// The first of them, by its id in the segment; the dictionary counts from it.
    pub first: u32,
    /// The tokens; there are no gap tokens.
    pub dictionary: Dictionary,
}

impl fmt::Debug for WordBlocks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("WordBlocks")
            .field("blocks", &self.blocks.len())
            .finish_non_exhaustive()
    }
}

impl WordBlocks {
    /// Takes verified sections; none if totals do not say how many words begin in each block. `start` is where the tokens
    /// begin in the section of words, `tokens_max` how many tokens there are with those of gaps.
    pub(super) fn new(
        words: Bytes,
        start: usize,
        own_spaces: Vec<u32>,
        totals: Bytes,
        tokens_max: u32,
    ) -> Result<Option<WordBlocks>, DecodeError> {
        let blocks = TokenBlocks::read(&words[start..])?;
        if blocks.tokens() as u64 > u64::from(tokens_max) {
            return Err(Fault("it has not as many tokens as it claims").into());
        }
        let words_before = totals::read_words_before(&totals, blocks.tokens())?;
        Ok(words_before.map(|words_before| WordBlocks {
            words,
            start,
            blocks,
            own_spaces,
            totals,
            words_before,
        }))
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        self.words.len()
            + self.totals.len()
            + self.blocks.bytes()
            + size_of_val(&self.own_spaces[..])
            + size_of_val(&self.words_before[..])
    }

    /// How many blocks there are.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether there is no word.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first token of a block.
    pub(super) fn first_token(&self, block: usize) -> Result<TokenRun, DecodeError> {
        let bytes = self.blocks.first(&self.words[self.start..], block)?;
        let first = block * BLOCK_TOKENS;
        self.run(first, vec![0, bytes.len() as u64], bytes)
    }

    /// The tokens of some blocks.
    pub(super) fn tokens(&self, blocks: Range<usize>) -> Result<TokenRun, DecodeError> {
        let first = blocks.start * BLOCK_TOKENS;
        let tokens = self.blocks.decode(&self.words[self.start..], blocks)?;
        self.run(first, tokens.offsets, tokens.bytes)
    }

    fn run(
        &self,
        first: usize,
        offsets: Vec<u64>,
        bytes: Vec<u8>,
    ) -> Result<TokenRun, DecodeError> {
        // Tokens are below 2^31.
        let (first, end) = (first as u32, (first + offsets.len() - 1) as u32);
        let from = self.own_spaces.partition_point(|&id| id < first);
        let to = self.own_spaces.partition_point(|&id| id < end);
        let own_spaces: Vec<u32> = self.own_spaces[from..to]
            .iter()
            .map(|id| id - first)
            .collect();
        let starts_with_space = |id: &u32| bytes[offsets[*id as usize] as usize] == b' ';
        if !own_spaces.iter().all(starts_with_space) {
            return Err(Fault("a space belongs to no word").into());
        }
        Ok(TokenRun {
            first,
            dictionary: Dictionary::new(offsets, bytes, end - first, own_spaces),
        })
    }

    /// The number of the word whose first token is this one.
    pub(super) fn word_number(&self, token: u32) -> Result<u32, DecodeError> {
        let (_, word) = self.numbered(token as usize / BLOCK_TOKENS, token)?;
        Ok(word as u32) // below the number of tokens
    }

    /// The tokens of a block that a word begins in, with the next block, and the word's number.
    fn numbered(&self, block: usize, token: u32) -> Result<(TokenRun, usize), DecodeError> {
        let strange = Fault("a token is not the first of its word");
        if block >= self.len() {
            return Err(strange.into());
        }
        let run = self.tokens(block..self.len().min(block + 2))?;
        let firsts = self.firsts(block, &run)?;
        let place = firsts.binary_search(&(token - run.first));
        let place = place.map_err(|_| strange)?;
        Ok((run, self.words_before[block] as usize + place))
    }

    /// A run of tokens that has those of the word with a number, and the place of its first one in
    /// the run.
    pub(super) fn word(&self, number: u32) -> Result<(TokenRun, u32), DecodeError> {
        if self.words_before[self.len()] <= number {
            return Err(Fault("there is no word of this number").into());
        }
        // The first entry is 0.
        let block = self
            .words_before
            .partition_point(|&before| before <= number)
            - 1;
        let run = self.tokens(block..self.len().min(block + 2))?;
        let place = (number - self.words_before[block]) as usize;
        let first = self.firsts(block, &run)?.get(place).copied();
        let first = first.ok_or(Fault(
            "a block of words has another number of words than it says",
        ))?;
        Ok((run, first))
    }

    /// How often the word occurs whose first token is this one.
    ///
    /// Work: that of decoding the words before it that have totals in the same block of numbers.
    pub(super) fn total(&self, token: u32) -> Result<u32, DecodeError> {
        let block = token as usize / BLOCK_TOKENS;
        let (last, word) = self.numbered(block, token)?;
        // The words from the first of the block of numbers on.
        let first_word = word / BLOCK_NUMBERS * BLOCK_NUMBERS;
        let before = |words: &u32| *words as usize <= first_word;
        let first_block = self.words_before.partition_point(before) - 1;
        let run = if first_block < block {
            self.tokens(first_block..self.len().min(block + 2))?
        } else {
            last
        };
        let mut offsets = self.firsts(first_block, &run)?;
        let skipped = first_word - self.words_before[first_block] as usize;
        if offsets.len() < skipped + (word - first_word) + 1 {
            return Err(Fault("a block of words has another number of words than it says").into());
        }
        // Where the word ends: where the next one begins, if there is one.
        offsets.push(run.dictionary.len());
        let offsets = &offsets[skipped..=skipped + (word - first_word) + 1];
        let count = self.words_before[self.len()] as usize;
        totals::read_one(&self.totals, count, first_word, &run.dictionary, offsets)
    }

    /// The first tokens of words in a run that begins with a block, which has as many words as is stored of its blocks.
    fn firsts(&self, block: usize, run: &TokenRun) -> Result<Vec<u32>, DecodeError> {
        let dictionary = &run.dictionary;
        let offsets = dictionary.try_word_offsets()?;
        let mut firsts = &offsets[..offsets.len() - 1];
        let end = (block + (dictionary.len() as usize).div_ceil(BLOCK_TOKENS)).min(self.len());
        let words = (self.words_before[end] - self.words_before[block]) as usize;
        // The first token of the block may be the second one of a word that begins before it.
        if firsts.len() == words + 1 && block > 0 {
            firsts = &firsts[1..];
        }
        if firsts.len() == words {
            Ok(firsts.to_vec())
        } else {
            Err(Fault("a block of words has another number of words than it says").into())
        }
    }
}
