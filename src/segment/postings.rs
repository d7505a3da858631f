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

use super::indexes::SegmentIndex;
use super::live_segment::LiveSegment;
use super::segment_view::{SegmentStructure, SegmentView};
use super::structure::StructureKind;
use crate::runtime::interrupt::check;
use crate::{Error, Result};

/// Words of a block of postings: about what is read and decoded for one.
const BLOCK_WORDS: usize = 32;

/// Bytes of the directory for a block: first token, where the block ends, its CRC32.
const BLOCK_ENTRY_BYTES: usize = 4 + 8 + 4;

/// The sections of an index of postings.
const DIRECTORY_SECTION: usize = 0;
const LISTS_SECTION: usize = 1;

/// Where the lists of an index of postings lie.
pub(super) struct PostingsDirectory {
    index: Arc<SegmentIndex>,
    reader: Arc<IndexReader>,
    files: u32,
    /// For each block its first token.
    first_tokens: Vec<u32>,
    /// For each block where it ends, and its CRC32.
    ends: Vec<(u64, u32)>,
}

/// That of the first index of postings whose file is whole, if there is one.
pub(super) struct StoredPostings(Option<PostingsDirectory>);

impl SegmentStructure for StoredPostings {
    const KIND: StructureKind = StructureKind::Postings;

    fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |directory| {
            size_of_val(&directory.first_tokens[..]) + size_of_val(&directory.ends[..])
        })
    }

    fn make(segment: &SegmentView, _: &AtomicBool) -> Result<Arc<StoredPostings>> {
        // The file table is that of the segment.
        let files = segment.text_size().1;
        let of_postings = |index: &Arc<SegmentIndex>| index.record.kind == IndexKind::Postings;
        let Some(stored) = segment.stored_segment() else {
            return Ok(Arc::new(StoredPostings(None)));
        };
        for index in segment.indexes().into_iter().filter(of_postings) {
            let Some(reader) = index.reader(stored) else {
                continue;
            };
            match PostingsDirectory::read(&index, reader, files) {
                Ok(directory) => return Ok(Arc::new(StoredPostings(Some(directory)))),
                Err(error) => give_up(segment, &index, &error),
            }
        }
        segment.indexes.forget_postings();
        Ok(Arc::new(StoredPostings(None)))
    }
}

/// Goes on without an index of postings that is damaged.
fn give_up(live: &LiveSegment, index: &SegmentIndex, error: &dyn std::fmt::Display) {
    index.give_up(error);
    live.indexes.forget_postings();
    live.slots.forget(StructureKind::Postings as usize);
}

impl PostingsDirectory {
    fn read(
        index: &Arc<SegmentIndex>,
        reader: Arc<IndexReader>,
        files: u64,
    ) -> zipfdb_storage::Result<PostingsDirectory> {
        let section = reader.section(DIRECTORY_SECTION)?;
        let (blocks, []) = section.as_chunks::<BLOCK_ENTRY_BYTES>() else {
            return Err(reader.corrupt("its directory is cut off"));
        };
        let (mut first_tokens, mut ends) = (Vec::new(), Vec::new());
        for block in blocks {
            let [a, b, c, d, end @ .., w, x, y, z] = *block;
            first_tokens.push(u32::from_le_bytes([a, b, c, d]));
            ends.push((u64::from_le_bytes(end), u32::from_le_bytes([w, x, y, z])));
        }
        let ends_ascend = ends.is_sorted_by(|left, right| left.0 <= right.0);
        let size = reader.section_size(LISTS_SECTION);
        if !ends_ascend
            || !first_tokens.is_sorted_by(|left, right| left < right)
            || ends.last().map_or(0, |(end, _)| *end) != size
        {
            return Err(reader.corrupt("its directory makes no sense"));
        }
        Ok(PostingsDirectory {
            index: index.clone(),
            files: u32::try_from(files).map_err(|_| reader.corrupt("it has too many files"))?,
            reader,
            first_tokens,
            ends,
        })
    }

    /// The bytes of a block.
    fn block(&self, block: usize) -> zipfdb_storage::Result<Bytes> {
        let start = block.checked_sub(1).map_or(0, |before| self.ends[before].0);
        let (end, crc32) = self.ends[block];
        self.reader.part(LISTS_SECTION, start, end - start, crc32)
    }

    /// The block that has a word, if any does, and its first token.
    fn block_of(&self, token: u32) -> Result<Option<(u32, Bytes)>> {
        let block = self.first_tokens.partition_point(|&first| first <= token);
        let Some(block) = block.checked_sub(1) else {
            return Ok(None);
        };
        Ok(Some((self.first_tokens[block], self.block(block)?)))
    }

    /// The lists of a block, which is of words with these first tokens.
    fn rows(&self, block: usize, tokens: &[u32]) -> Result<Vec<Vec<FileCount>>> {
        let bytes = self.block(block)?;
        let mut lists = PackedLists::new(&bytes, self.first_tokens[block], self.files);
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
        self.reader.corrupt(error.0).into()
    }
}

impl SegmentView {
    /// What an index of postings says, as `read` asks it; none if there is none that can be read.
    fn ask_postings<A>(
        &self,
        read: impl FnOnce(&PostingsDirectory) -> Result<A>,
    ) -> Result<Option<A>> {
        if !self.has_postings() {
            return Ok(None);
        }
        let Some(directory) = &self.pin::<StoredPostings>()?.0 else {
            return Ok(None);
        };
        directory.index.note_use();
        match read(directory) {
            Ok(answer) => Ok(Some(answer)),
            // The segment itself is not damaged.
            Err(Error::Storage(error)) => {
                give_up(self, &directory.index, &error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The files of a word, told by its first token, with counts; none if no index tells.
    ///
    /// # Errors
    /// If the segment is damaged.
    pub(crate) fn postings(&self, token: u32) -> Result<Option<Vec<FileCount>>> {
        self.ask_postings(|directory| {
            let Some((first, bytes)) = directory.block_of(token)? else {
                return Ok(Vec::new());
            };
            let list = PackedLists::new(&bytes, first, directory.files).find(token);
            let list = list.and_then(|list| match list {
                Some(list) => Ok(list.ids()?.into_iter().zip(list.counts()?).collect()),
                None => Ok(Vec::new()),
            });
            list.map_err(|error| directory.malformed(error))
        })
    }

    /// The files that have all of some words, of which there is at least one, told by their first tokens; none if no index tells.
    ///
    /// # Errors
    /// If the segment is damaged.
    pub(crate) fn common_postings(&self, tokens: &[u32]) -> Result<Option<Vec<u32>>> {
        self.ask_postings(|directory| {
            let blocks = tokens.iter().map(|&token| directory.block_of(token));
            let blocks: Vec<Option<(u32, Bytes)>> = blocks.collect::<Result<_>>()?;
            let intersect = || {
                let mut lists = Vec::with_capacity(tokens.len());
                for (&token, block) in tokens.iter().zip(&blocks) {
                    let Some((first, bytes)) = block else {
                        return Ok(Vec::new());
                    };
                    match PackedLists::new(bytes, *first, directory.files).find(token)? {
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
            intersect().map_err(|error| directory.malformed(error))
        })
    }

    /// For each word of the segment its files with counts, decoded from an index; none if there is none that can be read.
    ///
    /// # Errors
    /// If the segment is damaged or `stop` is set.
    pub(super) fn postings_table(&self, stop: &AtomicBool) -> Result<Option<CountTable>> {
        let tokens = &self.word_table()?.tokens;
        self.ask_postings(|directory| {
            let blocks = tokens.par_chunks(BLOCK_WORDS).enumerate();
            let rows = blocks.map(|(block, tokens)| {
                check(stop)?;
                if directory.first_tokens.get(block) != Some(&tokens[0]) {
                    return Err(directory.malformed(MalformedBlock("a block has other words")));
                }
                directory.rows(block, tokens)
            });
            let rows: Vec<Vec<Vec<FileCount>>> = rows.collect::<Result<_>>()?;
            Ok(CountTable::of_rows(rows.into_iter().flatten().collect()))
        })
    }

    /// Builds the file of an index.
    ///
    /// # Errors
    /// If the segment is damaged, the file cannot be written, the index was dropped, or `stop` is set.
    pub(crate) fn build_index(&self, record: &IndexRecord, stop: &AtomicBool) -> Result<()> {
        let Some(segment) = self.stored_segment() else {
            return Ok(());
        };
        segment.write_index(record, |writer| match record.kind {
            IndexKind::Postings => {
                let codec = PostingsCodec::from_number(record.codec);
                self.write_postings(codec, writer, stop)
            }
        })
    }

    /// Writes the sections of an index of postings. Without a codec each list has the one that suits it.
    ///
    /// # Errors
    /// If the segment is damaged, `stop` is set or the file cannot be written.
    fn write_postings(
        &self,
        codec: Option<PostingsCodec>,
        writer: &mut IndexWriter,
        stop: &AtomicBool,
    ) -> Result<()> {
        let table = self.word_files(stop)?;
        let tokens = &self.word_table()?.tokens;
        let files = self.files()?.len() as u32; // numbered by u32
        let blocks: Vec<&[u32]> = tokens.chunks(BLOCK_WORDS).collect();
        let packed: Vec<Vec<u8>> = (blocks.par_iter().enumerate())
            .map(|(number, tokens)| {
                let first = number * BLOCK_WORDS;
                let lists = (tokens.iter().enumerate())
                    .map(|(word, &token)| (token, table.row(first + word)));
                let mut bytes = Vec::new();
                pack_lists(lists, files, codec, &mut bytes);
                bytes
            })
            .collect();
        let mut end = 0u64;
        for (tokens, bytes) in blocks.iter().zip(&packed) {
            end += bytes.len() as u64;
            writer.write(&tokens[0].to_le_bytes())?;
            writer.write(&end.to_le_bytes())?;
            writer.write(&crc32fast::hash(bytes).to_le_bytes())?;
        }
        writer.end_section();
        for bytes in &packed {
            writer.write(bytes)?;
        }
        writer.end_section();
        Ok(())
    }
}
