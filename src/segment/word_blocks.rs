//! Counts of single words from a few blocks of the dictionary: answers the first questions about words, before the dictionary is
//! worth decoding.
//!
//! The invariant: answers are those of the whole dictionary. Blocks that are read are checked to be in order, as the whole is
//! before the first look-up in it; their checksum and the version of Unicode vouch for the order of blocks.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use zipfdb_kernels::WordTerminals;
use zipfdb_storage::{Dictionary, Segment, WordBlocks};

use super::live_segment::Parts;
use super::segment_view::{SegmentStructure, SegmentView};
use super::structure::StructureKind;
use super::word_order::{compare, order_fault, word_at};
use crate::Result;
use crate::segment::cost::{BLOCKS_COST, BLOCKS_TOTAL_COST, DICTIONARY_TOKEN_COST, WORD_BYTE_COST};
use crate::tokenize::UNICODE_VERSION;

/// The words in blocks, if the file has the number of words that begin in each.
struct StoredWordBlocks(Option<WordBlocks>);

impl SegmentStructure for StoredWordBlocks {
    const KIND: StructureKind = StructureKind::WordBlocks;

    fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, WordBlocks::bytes)
    }

    fn make(segment: &SegmentView, _: &AtomicBool) -> Result<Arc<StoredWordBlocks>> {
        let blocks = match &segment.parts {
            Parts::Stored(stored) => stored.word_blocks()?,
            Parts::Text(_) => None,
            #[cfg(test)]
            Parts::Memory(_) => None,
        };
        Ok(Arc::new(StoredWordBlocks(blocks)))
    }
}

/// Bytes of words that the cost of a block includes.
const LONG_WORD_BYTES: usize = 1 << 10;

impl SegmentView {
    /// The count of a word in the segment; none if the dictionary is decoded or due, or the file has no valid blocks.
    pub(crate) fn count_in_blocks(&self, word: &[u8]) -> Result<Option<u64>> {
        self.ask_blocks(BLOCKS_COST + BLOCKS_TOTAL_COST, |segment, blocks, cost| {
            let found = self.find_in_blocks(segment, blocks, word, cost)?;
            Ok(if found.first < found.end {
                u64::from(segment.word_total(blocks, found.first)?)
            } else {
                0
            })
        })
    }

    /// Whether words are counted in blocks: the dictionary is neither decoded nor due.
    pub(crate) fn asks_blocks(&self) -> bool {
        match &self.parts {
            Parts::Stored(segment) => {
                // Below 2^39.
                let price = self.dictionary_cost() as u64;
                self.pinned::<Dictionary>().is_none()
                    && !self.budgets.dictionary.is_due(price)
                    && segment.header().unicode_version == UNICODE_VERSION
            }
            Parts::Text(_) => false,
            #[cfg(test)]
            Parts::Memory(_) => false,
        }
    }

    /// The cost of asking blocks, in nanoseconds: `cost`, or decoding all of them.
    pub(crate) fn blocks_cost(&self, cost: f64) -> f64 {
        cost.min(self.dictionary_cost())
    }

    /// The estimated time of decoding the dictionary, in nanoseconds.
    fn dictionary_cost(&self) -> f64 {
        match &self.parts {
            Parts::Stored(segment) => f64::from(segment.info().tokens) * DICTIONARY_TOKEN_COST,
            Parts::Text(_) => 0.0,
            #[cfg(test)]
            Parts::Memory(_) => 0.0,
        }
    }

    /// The tokens of a word, from blocks of the dictionary unless it is decoded or due: for queries with a few words, which may
    /// need no more of the dictionary.
    pub(crate) fn find_one_word(&self, word: &[u8]) -> Result<WordTerminals> {
        let found = self.ask_blocks(BLOCKS_COST, |segment, blocks, cost| {
            self.find_in_blocks(segment, blocks, word, cost)
        })?;
        found.map_or_else(|| self.find_word(word), Ok)
    }

    /// The number of a word from blocks of the dictionary, none if the segment does not have it; the outer none if the dictionary
    /// is decoded or due.
    pub(crate) fn number_in_blocks(&self, word: &[u8]) -> Result<Option<Option<u32>>> {
        self.ask_blocks(BLOCKS_COST, |segment, blocks, cost| {
            let found = self.find_in_blocks(segment, blocks, word, cost)?;
            if found.first == found.end {
                return Ok(None);
            }
            Ok(Some(segment.word_number(blocks, found.first)?))
        })
    }

    /// The tokens of the word with a number, from blocks of the dictionary unless it is decoded or due.
    pub(crate) fn tokens_of_one(&self, number: u32) -> Result<WordTerminals> {
        let found = self.ask_blocks(BLOCKS_COST, |segment, blocks, _| {
            let (run, first) = segment.numbered_word(blocks, number)?;
            let found = word_at(&run.dictionary, first, run.dictionary.word(first));
            Ok(shifted(found, run.first))
        })?;
        found.map_or_else(|| self.tokens_of(number), Ok)
    }

    /// The answer of `ask` from blocks of the dictionary; none if the dictionary is decoded or due, or the file has no valid
    /// blocks. The estimated cost is `cost` nanoseconds, to which `ask` adds those of long words.
    fn ask_blocks<A>(
        &self,
        cost: f64,
        ask: impl FnOnce(&Segment, &WordBlocks, &mut f64) -> Result<A>,
    ) -> Result<Option<A>> {
        let Parts::Stored(segment) = &self.parts else {
            return Ok(None);
        };
        if !self.asks_blocks() {
            return Ok(None);
        }
        let Some(blocks) = &self.pin::<StoredWordBlocks>()?.0 else {
            return Ok(None);
        };
        let mut long_words = 0.0;
        let answer = ask(segment, blocks, &mut long_words)?;
        // An estimate, as the price is: what is decoded must not depend on the load of the machine.
        let cost = self.blocks_cost(cost) + long_words;
        self.budgets.dictionary.add(cost as u64); // below 2^39
        Ok(Some(answer))
    }

    /// The tokens of a word. Adds the nanoseconds to `cost` of long words that are read on the way.
    fn find_in_blocks(
        &self,
        segment: &Segment,
        blocks: &WordBlocks,
        word: &[u8],
        cost: &mut f64,
    ) -> Result<WordTerminals> {
        if blocks.is_empty() {
            return Ok(word_at(&Dictionary::default(), 0, word));
        }
        // The last block whose first word is less, or the first block.
        let (mut block, mut end) = (0, blocks.len());
        while end - block > 1 {
            let middle = block + (end - block) / 2;
            let first = segment.first_token(blocks, middle)?;
            let first = first.dictionary.word(0);
            *cost += first.len().saturating_sub(LONG_WORD_BYTES) as f64 * WORD_BYTE_COST;
            if compare(first, word).is_lt() {
                block = middle;
            } else {
                end = middle;
            }
        }
        // The word may begin with the next block.
        let run = segment.block_tokens(blocks, block..blocks.len().min(block + 2))?;
        let dictionary = &run.dictionary;
        if let Some(fault) = order_fault(dictionary) {
            return Err(self.inconsistent(fault));
        }
        let (mut first, mut last) = (0, dictionary.len());
        while first < last {
            let middle = first + (last - first) / 2;
            if compare(dictionary.word(middle), word).is_lt() {
                first = middle + 1
            } else {
                last = middle
            }
        }
        // A word of the last block but one ends in the last.
        Ok(shifted(word_at(dictionary, first, word), run.first))
    }
}

/// The tokens of a word in a run that begins with another token.
fn shifted(word: WordTerminals, first: u32) -> WordTerminals {
    WordTerminals {
        first: first + word.first,
        spaced: first + word.spaced,
        end: first + word.end,
    }
}
