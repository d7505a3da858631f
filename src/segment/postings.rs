//! Postings of a segment from an index on disk: for each word the files that have it, with counts, read a block at a time.
//!
//! Invariant: what is given is what the segment gives, or nothing: an index that is damaged is given up. Bytes:
//! `storage/FORMAT.md`.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use zipfdb_kernels::{
    CountTable, FileCount, MalformedBlock, PackedList, PackedLists, PostingsCodec, pack_lists,
};
use zipfdb_storage::{Bytes, IndexKind, IndexReader, IndexRecord, IndexWriter};

use super::index_blocks::{IndexBlocks, write_blocks};
use super::live_segment::LiveSegment;
use super::segment_view::SegmentView;
use super::stored_index::IndexContent;
use super::structure::StructureKind;
use crate::runtime::interrupt::check;
use crate::{Error, Result};

/// Words of a block of postings: about what is read and decoded for one.
const BLOCK_WORDS: usize = 32;

/// Where the lists of an index of postings lie.
pub(super) struct PostingsIndex {
    files: u32,
    /// By first token.
    blocks: IndexBlocks,
}

impl IndexContent for PostingsIndex {
    const INDEX: IndexKind = IndexKind::Postings;
    const STRUCTURE: StructureKind = StructureKind::Postings;

    fn open(
        live: &LiveSegment,
        reader: &Arc<IndexReader>,
    ) -> zipfdb_storage::Result<PostingsIndex> {
        Ok(PostingsIndex {
            files: live.text_size().1 as u32, // a segment's files are counted by a u32
            blocks: IndexBlocks::read(reader, 0)?,
        })
    }

    fn memory(&self) -> usize {
        self.blocks.memory()
    }

    fn write(
        segment: &SegmentView,
        record: &IndexRecord,
        writer: &mut IndexWriter,
        stop: &AtomicBool,
    ) -> Result<()> {
        // Without a codec each list has the one that suits it.
        let codec = PostingsCodec::from_number(record.codec);
        let table = segment.word_files(stop)?;
        let tokens = &segment.word_table()?.tokens;
        let files = segment.files()?.len() as u32; // numbered by u32
        let blocks: Vec<(u32, Vec<u8>)> = (tokens.par_chunks(BLOCK_WORDS).enumerate())
            .map(|(number, tokens)| {
                let first = number * BLOCK_WORDS;
                let lists = (tokens.iter().enumerate())
                    .map(|(word, &token)| (token, table.row(first + word)));
                let mut bytes = Vec::new();
                pack_lists(lists, files, codec, &mut bytes);
                (tokens[0], bytes)
            })
            .collect();
        Ok(write_blocks(writer, &blocks)?)
    }
}

impl PostingsIndex {
    /// The block that has a word, if any does, and its first token.
    fn block_of(&self, token: u32) -> Result<Option<(u32, Bytes)>> {
        let block = self.blocks.block_of(token);
        let block = block.map(|block| Ok((self.blocks.key(block), self.blocks.block(block)?)));
        block.transpose()
    }

    /// The lists of a block, which is of words with these first tokens.
    fn rows(&self, block: usize, tokens: &[u32]) -> Result<Vec<Vec<FileCount>>> {
        let bytes = self.blocks.block(block)?;
        let mut lists = PackedLists::new(&bytes, self.blocks.key(block), self.files);
        let mut rows = Vec::with_capacity(tokens.len());
        let mut read = || {
            while let Some(list) = lists.next_list()? {
                if tokens.get(rows.len()) != Some(&list.token) {
                    return Err(MalformedBlock("a block has other words"));
                }
                rows.push(list.ids()?.into_iter().zip(list.counts()?).collect());
            }
            match rows.len() == tokens.len() {
                true => Ok(()),
                false => Err(MalformedBlock("a block has too few words")),
            }
        };
        read().map_err(|error| self.malformed(error))?;
        Ok(rows)
    }

    fn malformed(&self, error: MalformedBlock) -> Error {
        self.blocks.corrupt(error.0).into()
    }
}

impl SegmentView {
    /// The files of a word, told by its first token, with counts; none if no index tells.
    ///
    /// # Errors
    /// If the segment is damaged.
    pub(crate) fn postings(&self, token: u32) -> Result<Option<Vec<FileCount>>> {
        self.ask_index(|postings: &PostingsIndex| {
            let Some((first, bytes)) = postings.block_of(token)? else {
                return Ok(Vec::new());
            };
            let list = PackedLists::new(&bytes, first, postings.files).find(token);
            let list = list.and_then(|list| match list {
                Some(list) => Ok(list.ids()?.into_iter().zip(list.counts()?).collect()),
                None => Ok(Vec::new()),
            });
            list.map_err(|error| postings.malformed(error))
        })
    }

    /// The files that have all of some words, of which there is at least one, told by their first tokens; none if no index tells.
    ///
    /// # Errors
    /// If the segment is damaged.
    pub(crate) fn common_postings(&self, tokens: &[u32]) -> Result<Option<Vec<u32>>> {
        self.ask_index(|postings: &PostingsIndex| {
            let blocks = tokens.iter().map(|&token| postings.block_of(token));
            let blocks: Vec<Option<(u32, Bytes)>> = blocks.collect::<Result<_>>()?;
            let intersect = || {
                let mut lists = Vec::with_capacity(tokens.len());
                for (&token, block) in tokens.iter().zip(&blocks) {
                    let Some((first, bytes)) = block else {
                        return Ok(Vec::new());
                    };
                    match PackedLists::new(bytes, *first, postings.files).find(token)? {
                        Some(list) => lists.push(list),
                        None => return Ok(Vec::new()),
                    }
                }
                lists.sort_by_key(PackedList::len);
                let mut files = match lists.first() {
                    Some(shortest) => shortest.ids()?,
                    None => Vec::new(),
                };
                for list in lists.iter().skip(1) {
                    list.retain_common(&mut files)?;
                }
                Ok(files)
            };
            intersect().map_err(|error| postings.malformed(error))
        })
    }

    /// For each word of the segment its files with counts, decoded from an index; none if there is none that can be read.
    ///
    /// # Errors
    /// If the segment is damaged or `stop` is set.
    pub(super) fn postings_table(&self, stop: &AtomicBool) -> Result<Option<CountTable>> {
        let tokens = &self.word_table()?.tokens;
        self.ask_index(|postings: &PostingsIndex| {
            let blocks = tokens.par_chunks(BLOCK_WORDS).enumerate();
            let rows = blocks.map(|(block, tokens)| {
                check(stop)?;
                if block >= postings.blocks.len() || postings.blocks.key(block) != tokens[0] {
                    return Err(postings.malformed(MalformedBlock("a block has other words")));
                }
                postings.rows(block, tokens)
            });
            let rows: Vec<Vec<Vec<FileCount>>> = rows.collect::<Result<_>>()?;
            Ok(CountTable::of_rows(rows.into_iter().flatten().collect()))
        })
    }
}
