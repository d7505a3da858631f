//! Postings of a segment from an index on disk: for each word the files that have it, with counts, read a block at a time.
//!
//! Invariant: answers are those of the segment, or there is none: a damaged index is given up. Bytes: `storage/FORMAT.md`.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rayon::prelude::*;
use zipfdb_kernels::postings::similar_order;
use zipfdb_kernels::{
    CountTable, FileCount, MalformedBlock, PackedList, PackedLists, PostingsCodec,
    block_word_counts, pack_lists,
};
use zipfdb_storage::{Bytes, FileEntry, IndexKind, IndexReader, IndexRecord, IndexWriter};

use super::index_blocks::{IndexBlocks, StoredNumbers, write_numbers, write_packed_blocks};
use super::live_segment::LiveSegment;
use super::segment_view::{SegmentStructure, SegmentView};
use super::stored_index::IndexContent;
use super::structure::StructureKind;
use crate::bisect::gallop;
use crate::merge::sum_equal;
use crate::runtime::interrupt::check;
use crate::{Error, Result};

/// Words of a block of postings: about what is read and decoded for a look-up.
const BLOCK_WORDS: usize = 32;

/// The time of reading a byte of lists with its checksum, in nanoseconds.
const LISTS_READ_BYTE_COST: f64 = 0.5;

/// The result of reading a list.
type ListResult<T> = std::result::Result<T, MalformedBlock>;

/// The sections: the directory of lists, and that of the order of files.
const LISTS_SECTION: usize = 0;
const ORDER_SECTION: usize = 2;

/// The directory of the lists of an index of postings.
pub(super) struct PostingsIndex {
    ids: ListIds,
    /// By first token.
    blocks: IndexBlocks,
}

/// All lists of the index, verified: read once the time that queries have spent without them equals their price.
struct KeptLists(Bytes);

/// A block of lists.
enum BlockBytes<'a> {
    Kept(&'a [u8]),
    Read(Bytes),
}

impl Deref for BlockBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            BlockBytes::Kept(bytes) => bytes,
            BlockBytes::Read(bytes) => bytes,
        }
    }
}

/// The meaning of the ids in lists.
enum ListIds {
    /// Files; the number of files.
    Files(u32),
    /// Files in an order of similarity: the file of each id.
    Reordered(Vec<u32>),
    /// Blocks of `words` words each.
    Blocks {
        words: u32,
        /// The first block of each file, and behind the last the number of blocks.
        starts: Vec<u32>,
    },
}

impl ListIds {
    /// The number of ids.
    fn universe(&self) -> u32 {
        match self {
            ListIds::Files(files) => *files,
            // Numbered by u32.
            ListIds::Reordered(order) => order.len() as u32,
            ListIds::Blocks { starts, .. } => starts.last().copied().unwrap_or(0),
        }
    }

    /// The files of ids, ascending, each once.
    fn files(&self, ids: Vec<u32>) -> Vec<u32> {
        match self {
            ListIds::Files(_) => ids,
            ListIds::Reordered(order) => {
                let mut files: Vec<u32> = ids.iter().map(|&id| order[id as usize]).collect();
                files.sort_unstable();
                files
            }
            ListIds::Blocks { starts, .. } => {
                let mut files = files_of_blocks(starts, &ids);
                files.dedup();
                files
            }
        }
    }

    /// The files of ids with counts, ascending.
    fn file_counts(&self, ids: Vec<u32>, counts: Vec<u32>) -> Vec<FileCount> {
        let mut found: Vec<FileCount> = match self {
            ListIds::Files(_) => return ids.into_iter().zip(counts).collect(),
            ListIds::Reordered(order) => {
                let files = ids.iter().map(|&id| order[id as usize]);
                files.zip(counts).collect()
            }
            ListIds::Blocks { starts, .. } => {
                let files = files_of_blocks(starts, &ids);
                files.into_iter().zip(counts).collect()
            }
        };
        found.sort_unstable_by_key(|(file, _)| *file);
        sum_equal(
            &mut found,
            |left, right| left.0 == right.0,
            // A word occurs fewer than 2^32 times in a segment.
            |kept, next| kept.1 = kept.1.saturating_add(next.1),
        );
        found
    }
}

/// The file of each of some ascending blocks.
fn files_of_blocks(starts: &[u32], blocks: &[u32]) -> Vec<u32> {
    let mut file = 0;
    let of_block = |&block: &u32| {
        let rest = &starts[file + 1..];
        file += gallop(rest.len(), |at| rest[at] <= block);
        file as u32 // numbered by u32
    };
    blocks.iter().map(of_block).collect()
}

/// The first block of each file, in blocks of `block_words` words, and behind the last the number of blocks; none if they do not
/// fit into 32 bits.
fn first_blocks(files: &[FileEntry], block_words: u32) -> Option<Vec<u32>> {
    let mut end = 0u64;
    let mut starts = Vec::with_capacity(files.len() + 1);
    for words in files.iter().map(|file| file.words).chain([0]) {
        starts.push(u32::try_from(end).ok()?);
        end = end.checked_add(words.div_ceil(block_words.into()))?;
    }
    Some(starts)
}

impl IndexContent for PostingsIndex {
    const INDEX: IndexKind = IndexKind::Postings;

    fn open(live: &LiveSegment, reader: &Arc<IndexReader>) -> Result<PostingsIndex> {
        let record = &reader.header().record;
        let files = live.text_size().1 as u32; // a segment's files are counted by a u32
        let ids = match record.unit {
            0 if !record.is_reordered => ListIds::Files(files),
            0 => {
                let order = StoredNumbers::read(reader, ORDER_SECTION, files as usize)?;
                let order: Vec<u32> = order.all()?;
                let mut sorted = order.clone();
                sorted.sort_unstable();
                if !sorted.into_iter().eq(0..files) {
                    return Err(reader.corrupt("its order of files makes no sense").into());
                }
                ListIds::Reordered(order)
            }
            words => {
                let starts = first_blocks(live.files()?, words);
                let strange = || reader.corrupt("it has too many blocks");
                ListIds::Blocks {
                    words,
                    starts: starts.ok_or_else(strange)?,
                }
            }
        };
        let blocks = if reader.has_packed_lists() {
            IndexBlocks::read_packed(reader, LISTS_SECTION)?
        } else {
            IndexBlocks::read(reader, LISTS_SECTION)?
        };
        Ok(PostingsIndex { ids, blocks })
    }

    fn memory(&self) -> usize {
        let ids = match &self.ids {
            ListIds::Files(_) => 0,
            ListIds::Reordered(order) => size_of_val(&order[..]),
            ListIds::Blocks { starts, .. } => size_of_val(&starts[..]),
        };
        ids + self.blocks.memory()
    }

    fn write(
        segment: &SegmentView,
        record: &IndexRecord,
        writer: &mut IndexWriter,
        stop: &AtomicBool,
    ) -> Result<()> {
        let files = segment.files()?.len() as u32; // numbered by u32
        match (record.unit, record.is_reordered) {
            (0, false) => {
                let table = segment.word_files(stop)?;
                segment.write_lists(record, table, files, writer, stop)
            }
            (0, true) => {
                let words = segment.word_count()?;
                let order = similar_order(segment.file_words(stop)?, words);
                check(stop)?;
                let table = renumbered(segment.word_files(stop)?, &order);
                segment.write_lists(record, &table, files, writer, stop)?;
                let order = order.iter().copied().map(u64::from);
                Ok(write_numbers(writer, order.clone(), order.len())?)
            }
            (block_words, _) => {
                let view = segment.word_grammar()?.view();
                let blocks = block_word_counts(view, block_words as usize, stop)?;
                let universe = blocks.rows() as u32; // fewer than words
                let table = blocks.transposed(segment.word_count()? as usize);
                drop(blocks);
                segment.write_lists(record, &table, universe, writer, stop)
            }
        }
    }
}

impl SegmentStructure for KeptLists {
    const KIND: StructureKind = StructureKind::PostingsLists;

    fn bytes(&self) -> usize {
        self.0.len()
    }

    fn make(segment: &SegmentView, _: &AtomicBool) -> Result<Arc<KeptLists>> {
        let lists = segment.ask_index(|postings: &PostingsIndex| Ok(postings.blocks.all()?))?;
        Ok(Arc::new(KeptLists(
            lists.unwrap_or(Bytes::from(Vec::new())),
        )))
    }
}

/// The files of each word, numbered by their places in an order.
fn renumbered(table: &CountTable, order: &[u32]) -> CountTable {
    let mut places = vec![0; order.len()];
    for (place, &file) in (0..).zip(order) {
        places[file as usize] = place;
    }
    let rows = (0..table.rows()).into_par_iter().map(|word| {
        let files = table.row(word).iter();
        let mut row: Vec<FileCount> = files.map(|&(file, n)| (places[file as usize], n)).collect();
        row.sort_unstable_by_key(|(place, _)| *place);
        row
    });
    CountTable::of_rows(rows.collect())
}

impl PostingsIndex {
    /// The block with a word, if there is one, and its first token.
    fn block_of<'a>(
        &self,
        token: u32,
        kept: Option<&'a KeptLists>,
    ) -> Result<Option<(u32, BlockBytes<'a>)>> {
        let Some(block) = self.blocks.block_of(token) else {
            return Ok(None);
        };
        let bytes = match kept.and_then(|kept| kept.0.get(self.blocks.range(block))) {
            Some(bytes) => BlockBytes::Kept(bytes),
            None => BlockBytes::Read(self.blocks.block(block)?),
        };
        Ok(Some((self.blocks.key(block), bytes)))
    }

    /// The lists of a block of `all`, which is of words with these first tokens.
    fn rows(&self, all: &[u8], block: usize, tokens: &[u32]) -> Result<Vec<Vec<FileCount>>> {
        let bytes = &all[self.blocks.range(block)];
        let mut lists = PackedLists::new(bytes, self.blocks.key(block), self.ids.universe());
        let mut rows = Vec::with_capacity(tokens.len());
        let mut read = || {
            while let Some(list) = lists.next_list()? {
                if tokens.get(rows.len()) != Some(&list.token) {
                    return Err(MalformedBlock("a block has other words"));
                }
                rows.push(self.ids.file_counts(list.ids()?, list.counts()?));
            }
            if rows.len() == tokens.len() {
                Ok(())
            } else {
                Err(MalformedBlock("a block has too few words"))
            }
        };
        read().map_err(|error| self.malformed(error))?;
        Ok(rows)
    }

    /// The result of `intersect` on the lists of some words, the shortest first; no ids if one of the words has no list.
    fn common(
        &self,
        tokens: &[u32],
        kept: Option<&KeptLists>,
        intersect: impl FnOnce(&[PackedList<'_>]) -> ListResult<Vec<u32>>,
    ) -> Result<Vec<u32>> {
        let blocks = tokens.iter().map(|&token| self.block_of(token, kept));
        let blocks: Vec<Option<(u32, BlockBytes<'_>)>> = blocks.collect::<Result<_>>()?;
        let find = || {
            let mut lists = Vec::with_capacity(tokens.len());
            for (&token, block) in tokens.iter().zip(&blocks) {
                let Some((first, bytes)) = block else {
                    return Ok(Vec::new());
                };
                match PackedLists::new(bytes, *first, self.ids.universe()).find(token)? {
                    Some(list) => lists.push(list),
                    None => return Ok(Vec::new()),
                }
            }
            lists.sort_by_key(PackedList::len);
            intersect(&lists)
        };
        find().map_err(|error| self.malformed(error))
    }

    fn malformed(&self, error: MalformedBlock) -> Error {
        self.blocks.corrupt(error.0).into()
    }
}

/// The ids common to all lists; `ids` returns those of each, ascending.
fn common_of<'a>(
    lists: &[PackedList<'a>],
    ids: impl Fn(&PackedList<'a>) -> ListResult<Vec<u32>>,
) -> ListResult<Vec<u32>> {
    let mut lists = lists.iter();
    let mut common = lists.next().map_or(Ok(Vec::new()), &ids)?;
    for list in lists {
        let others = ids(list)?;
        let mut rest = &others[..];
        common.retain(|id| {
            rest = &rest[gallop(rest.len(), |at| rest[at] < *id)..];
            rest.first() == Some(id)
        });
    }
    Ok(common)
}

/// Blocks and those before them in their files, ascending, each once.
fn blocks_before(starts: &[u32], blocks: &[u32]) -> Vec<u32> {
    let files = files_of_blocks(starts, blocks);
    let mut found = Vec::with_capacity(2 * blocks.len());
    for (&block, file) in blocks.iter().zip(files) {
        if block > starts[file as usize] && found.last() != Some(&(block - 1)) {
            found.push(block - 1);
        }
        found.push(block);
    }
    found
}

impl SegmentView {
    /// Writes the lists of a table, whose ids are below `universe`. Without a codec each list has the one that suits it.
    fn write_lists(
        &self,
        record: &IndexRecord,
        table: &CountTable,
        universe: u32,
        writer: &mut IndexWriter,
        stop: &AtomicBool,
    ) -> Result<()> {
        let codec = PostingsCodec::from_number(record.codec);
        let tokens = &self.word_table()?.tokens;
        let blocks: Vec<(u32, Vec<u8>)> = (tokens.par_chunks(BLOCK_WORDS).enumerate())
            .map(|(number, tokens)| {
                let first = number * BLOCK_WORDS;
                let lists = (tokens.iter().enumerate())
                    .map(|(word, &token)| (token, table.row(first + word)));
                let mut bytes = Vec::new();
                pack_lists(lists, universe, codec, &mut bytes);
                (tokens[0], bytes)
            })
            .collect();
        write_packed_blocks(writer, &blocks, stop)
    }

    /// The result of `read` on the lists, which stay in memory once that pays.
    fn ask_lists<A>(
        &self,
        read: impl FnOnce(&PostingsIndex, Option<&KeptLists>) -> Result<A>,
    ) -> Result<Option<A>> {
        if let Some(kept) = self.pinned::<KeptLists>() {
            return self.ask_index(|postings: &PostingsIndex| read(postings, Some(kept)));
        }
        let begin = Instant::now();
        let budget = &self.budgets.postings;
        let found = self.ask_index(|postings: &PostingsIndex| {
            let size = postings.blocks.size();
            let price = (size as f64 * LISTS_READ_BYTE_COST) as u64; // below 2^40
            let stop = AtomicBool::new(false);
            let kept = self.pin_if_due::<KeptLists>(budget, price, size, &stop)?;
            read(postings, kept)
        });
        budget.add_since(begin);
        found
    }

    /// The files of a word, given its first token, with counts; none without an index.
    ///
    /// # Errors
    /// If the segment is damaged.
    pub(crate) fn postings(&self, token: u32) -> Result<Option<Vec<FileCount>>> {
        self.ask_lists(|postings, kept| {
            let Some((first, bytes)) = postings.block_of(token, kept)? else {
                return Ok(Vec::new());
            };
            let list = PackedLists::new(&bytes, first, postings.ids.universe()).find(token);
            let list = list.and_then(|list| match list {
                Some(list) => Ok(postings.ids.file_counts(list.ids()?, list.counts()?)),
                None => Ok(Vec::new()),
            });
            list.map_err(|error| postings.malformed(error))
        })
    }

    /// The files that have all of some words, at least one, given their first tokens; none without an index.
    ///
    /// # Errors
    /// If the segment is damaged.
    pub(crate) fn common_postings(&self, tokens: &[u32]) -> Result<Option<Vec<u32>>> {
        self.ask_lists(|postings, kept| match &postings.ids {
            ListIds::Files(_) | ListIds::Reordered(_) => {
                let found = postings.common(tokens, kept, |lists| {
                    let mut ids = lists[0].ids()?;
                    for list in &lists[1..] {
                        list.retain_common(&mut ids)?;
                    }
                    Ok(ids)
                })?;
                Ok(postings.ids.files(found))
            }
            ListIds::Blocks { .. } => postings.common(tokens, kept, |lists| {
                let files = |list: &PackedList<'_>| Ok(postings.ids.files(list.ids()?));
                common_of(lists, files)
            }),
        })
    }

    /// Files that may have a phrase of these words: a superset of those that have it. As [`SegmentView::common_postings`].
    ///
    /// # Errors
    /// If the segment is damaged.
    pub(crate) fn phrase_files(&self, tokens: &[u32]) -> Result<Option<Vec<u32>>> {
        let found = self.ask_lists(|postings, kept| match &postings.ids {
            ListIds::Blocks { words, starts } if tokens.len() <= *words as usize => {
                // The phrase begins in a block, and ends there or in the next one of the file.
                let found = postings.common(tokens, kept, |lists| {
                    common_of(lists, |list| Ok(blocks_before(starts, &list.ids()?)))
                })?;
                Ok(Some(postings.ids.files(found)))
            }
            _ => Ok(None),
        })?;
        match found {
            Some(Some(files)) => Ok(Some(files)),
            Some(None) => self.common_postings(tokens),
            None => Ok(None),
        }
    }

    /// For each word of the segment its files with counts, decoded from an index; none without a readable index.
    ///
    /// # Errors
    /// If the segment is damaged or `stop` is set.
    pub(super) fn postings_table(&self, stop: &AtomicBool) -> Result<Option<CountTable>> {
        let tokens = &self.word_table()?.tokens;
        self.ask_index(|postings: &PostingsIndex| {
            let all = postings.blocks.all()?;
            let blocks = tokens.par_chunks(BLOCK_WORDS).enumerate();
            let rows = blocks.map(|(block, tokens)| {
                check(stop)?;
                if block >= postings.blocks.len() || postings.blocks.key(block) != tokens[0] {
                    return Err(postings.malformed(MalformedBlock("a block has other words")));
                }
                postings.rows(&all, block, tokens)
            });
            let rows: Vec<Vec<Vec<FileCount>>> = rows.collect::<Result<_>>()?;
            Ok(CountTable::of_rows(rows.into_iter().flatten().collect()))
        })
    }
}
