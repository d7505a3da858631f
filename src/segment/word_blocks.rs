//! Counts of single words from a few blocks of the dictionary: answers the first questions about words, before the
//! dictionary is worth decoding.
//!
//! The invariant: answers are those of the whole dictionary. Blocks that are looked at are checked to be in order, as the whole
//! is before the first look-up in it; the order of blocks rests on their checksum and the version of Unicode.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use zipfdb_kernels::WordTerminals;
use zipfdb_storage::{Dictionary, Segment, WordBlocks};

use super::live_segment::Parts;
use super::segment_view::{SegmentStructure, SegmentView};
use super::structure::StructureKind;
use super::word_order::{compare, order_fault, word_at};
use crate::Result;
use crate::answer::cost::DICTIONARY_TOKEN_COST;
use crate::tokenize::UNICODE_VERSION;

/// The words in blocks, if the file says how many words begin in each.
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

impl SegmentView {
    /// How often a word occurs in the segment; none if the dictionary is there, it is time to decode that, or the file has no
    /// blocks that can be trusted.
    pub(crate) fn count_in_blocks(&self, word: &[u8]) -> Result<Option<u64>> {
        match &self.parts {
            Parts::Stored(segment) => self.count_stored(segment, word),
            Parts::Text(_) => Ok(None),
            #[cfg(test)]
            Parts::Memory(_) => Ok(None),
        }
    }

    /// Whether words are counted in blocks: the dictionary is neither there nor due.
    pub(crate) fn asks_blocks(&self) -> bool {
        match &self.parts {
            Parts::Stored(segment) => {
                // Below 2^39.
                let price = (f64::from(segment.info().tokens) * DICTIONARY_TOKEN_COST) as u64;
                self.pinned::<Dictionary>().is_none()
                    && !self.budgets.dictionary.is_due(price)
                    && segment.header().unicode_version == UNICODE_VERSION
            }
            Parts::Text(_) => false,
            #[cfg(test)]
            Parts::Memory(_) => false,
        }
    }

    fn count_stored(&self, segment: &Segment, word: &[u8]) -> Result<Option<u64>> {
        if !self.asks_blocks() {
            return Ok(None);
        }
        let budget = &self.budgets.dictionary;
        let begin = Instant::now();
        let Some(blocks) = &self.pin::<StoredWordBlocks>()?.0 else {
            return Ok(None);
        };
        let found = self.find_in_blocks(segment, blocks, word)?;
        let total = match found.first < found.end {
            true => segment.word_total(blocks, found.first)?,
            false => 0,
        };
        budget.add_since(begin);
        Ok(Some(u64::from(total)))
    }

    /// The tokens of a word, from blocks of the dictionary unless that is there or due: for whoever asks for a few words, and may
    /// need no more of the dictionary.
    pub(crate) fn find_one_word(&self, word: &[u8]) -> Result<WordTerminals> {
        if let Parts::Stored(segment) = &self.parts
            && self.asks_blocks()
        {
            let begin = Instant::now();
            if let Some(blocks) = &self.pin::<StoredWordBlocks>()?.0 {
                let found = self.find_in_blocks(segment, blocks, word)?;
                self.budgets.dictionary.add_since(begin);
                return Ok(found);
            }
        }
        self.find_word(word)
    }

    /// The tokens of a word.
    fn find_in_blocks(
        &self,
        segment: &Segment,
        blocks: &WordBlocks,
        word: &[u8],
    ) -> Result<WordTerminals> {
        if blocks.is_empty() {
            return Ok(word_at(&Dictionary::default(), 0, word));
        }
        // The last block whose first word is less, or the first block.
        let (mut block, mut end) = (0, blocks.len());
        while end - block > 1 {
            let middle = block + (end - block) / 2;
            let first = segment.first_token(blocks, middle)?;
            match compare(first.dictionary.word(0), word).is_lt() {
                true => block = middle,
                false => end = middle,
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
            match compare(dictionary.word(middle), word).is_lt() {
                true => first = middle + 1,
                false => last = middle,
            }
        }
        // A word of the last block but one ends in the last.
        let found = word_at(dictionary, first, word);
        Ok(WordTerminals {
            first: run.first + found.first,
            spaced: run.first + found.spaced,
            end: run.first + found.end,
        })
    }
}
