//! All n-grams on disk: a phrase is counted in the block of its first word, and reading the table back is faster than building
//! it.
//!
//! Sections: blocks of rows, by their first words.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use zipfdb_kernels::NgramTable;
use zipfdb_storage::{Bytes, IndexKind, IndexReader, IndexRecord, IndexWriter};

use super::index_blocks::{IndexBlocks, write_blocks};
use super::live_segment::LiveSegment;
use super::segment_view::SegmentView;
use super::stored_index::IndexContent;
use crate::Result;

/// The directory of the rows of a table of n-grams.
pub(super) struct NgramIndex {
    files: usize,
    blocks: IndexBlocks,
}

impl IndexContent for NgramIndex {
    const INDEX: IndexKind = IndexKind::Ngrams;

    fn open(live: &LiveSegment, reader: &Arc<IndexReader>) -> Result<NgramIndex> {
        Ok(NgramIndex {
            files: live.text_size().1 as usize, // a segment's files are counted by a u32
            blocks: IndexBlocks::read(reader, 0)?,
        })
    }

    fn memory(&self) -> usize {
        self.blocks.memory()
    }

    fn write(
        segment: &SegmentView,
        _: &IndexRecord,
        writer: &mut IndexWriter,
        stop: &AtomicBool,
    ) -> Result<()> {
        let blocks = segment.pin_until::<NgramTable>(stop)?.blocks();
        let blocks = blocks.into_iter();
        let blocks: Vec<_> = blocks
            .map(|block| (block.first_word, block.bytes))
            .collect();
        Ok(write_blocks(writer, &blocks)?)
    }
}

impl NgramIndex {
    /// The rows of some blocks, of words below `word_count`.
    fn rows(&self, word_count: u32, blocks: &[(u32, Bytes)]) -> Result<NgramTable> {
        let table = NgramTable::of_blocks(self.files, word_count, blocks);
        let strange = || self.blocks.corrupt("a block of n-grams makes no sense");
        Ok(table.ok_or_else(strange)?)
    }

    fn block(&self, block: usize) -> Result<(u32, Bytes)> {
        Ok((self.blocks.key(block), self.blocks.block(block)?))
    }
}

impl SegmentView {
    /// The count of an n-gram by a table on disk; none if there is no table.
    ///
    /// # Errors
    /// If the segment is damaged.
    pub(crate) fn ngram_total_on_disk(&self, words: &[u32]) -> Result<Option<u64>> {
        self.ask_index(|index: &NgramIndex| {
            let block = words
                .first()
                .and_then(|&first| index.blocks.block_of(first));
            match block {
                Some(block) => Ok(index.rows(u32::MAX, &[index.block(block)?])?.count(words)),
                None => Ok(0),
            }
        })
    }

    /// The table on disk; none if there is no table.
    ///
    /// # Errors
    /// If the segment is damaged.
    pub(super) fn ngrams_on_disk(&self) -> Result<Option<NgramTable>> {
        let word_count = self.word_count()?;
        self.ask_index(|index: &NgramIndex| {
            let blocks = (0..index.blocks.len()).map(|block| index.block(block));
            index.rows(word_count, &blocks.collect::<Result<Vec<_>>>()?)
        })
    }
}
