//! Blocks of an index file: the unit of reading, each with a checksum of its own.
//!
//! A sequence of blocks is two sections: a directory, which is read whole, and the blocks. Both may be packed, as texts are:
//! small similar lists take a third of their bytes then. Invariant: no byte of a block is returned before its checksum is
//! verified, and no number that its bytes do not hold. Bytes: `storage/FORMAT.md`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use zipfdb_kernels::gompresso::{
    BlockTable, BlockUnpacker, HEADER_SIZE, PackCodec, PackHeader, PackOptions, PackedError,
    PackedReader, References, pack,
};
use zipfdb_kernels::{NumberBlock, pack_numbers};
use zipfdb_storage::{Bytes, IndexReader, IndexWriter, Result};

/// Bytes of the directory for a block: key of the first item, end of the block, its CRC32.
const BLOCK_ENTRY_BYTES: usize = 4 + 8 + 4;

/// Numbers of a block, except the last.
const BLOCK_NUMBERS: usize = 1 << 11;

/// Bytes of a block of plain bytes, except the last.
const BLOCK_BYTES: usize = 1 << 13;

/// Bytes of blocks that are packed together. Larger pieces are hardly smaller in all, and a whole piece is unpacked for each
/// block.
const PIECE_BYTES: u32 = 1 << 14;

/// The directory of blocks.
pub(super) struct IndexBlocks {
    reader: Arc<IndexReader>,
    /// The section of the blocks.
    section: usize,
    /// The pieces that the blocks are packed in, if they are.
    pieces: Option<BlockTable>,
    /// For each block the key of its first item.
    keys: Vec<u32>,
    /// For each block its end and its CRC32.
    ends: Vec<(u64, u32)>,
}

impl IndexBlocks {
    /// Reads the directory in section `directory`; the blocks are the section after it. Their keys must ascend.
    pub(super) fn read(reader: &Arc<IndexReader>, directory: usize) -> Result<IndexBlocks> {
        let size = reader.section_size(directory + 1);
        let entries = reader.section(directory)?;
        IndexBlocks::of_directory(reader, directory, &entries, size, None)
    }

    /// As [`IndexBlocks::read`], for blocks that [`write_packed_blocks`] wrote.
    pub(super) fn read_packed(reader: &Arc<IndexReader>, directory: usize) -> Result<IndexBlocks> {
        let entries = unpacked(reader, &reader.section(directory)?)?;
        let damaged = |error| of_packed(reader, error);
        let (section, size) = (directory + 1, reader.section_size(directory + 1));
        let header = reader.unverified(section, 0, size.min(HEADER_SIZE as u64))?;
        let header = PackHeader::read(&header).map_err(damaged)?;
        let begin = header.blocks_begin().min(size);
        let front = reader.unverified(section, 0, begin)?;
        let table = front.get(HEADER_SIZE..).unwrap_or_default();
        let pieces = BlockTable::read(&header, table, size).map_err(damaged)?;
        IndexBlocks::of_directory(reader, directory, &entries, header.size, Some(pieces))
    }

    /// The directory of blocks with `size` bytes.
    fn of_directory(
        reader: &Arc<IndexReader>,
        directory: usize,
        entries: &[u8],
        size: u64,
        pieces: Option<BlockTable>,
    ) -> Result<IndexBlocks> {
        let (entries, []) = entries.as_chunks::<BLOCK_ENTRY_BYTES>() else {
            return Err(reader.corrupt("a directory is cut off"));
        };
        let (mut keys, mut ends) = (Vec::new(), Vec::new());
        for entry in entries {
            let [a, b, c, d, end @ .., w, x, y, z] = *entry;
            keys.push(u32::from_le_bytes([a, b, c, d]));
            ends.push((u64::from_le_bytes(end), u32::from_le_bytes([w, x, y, z])));
        }
        let ends_ascend = ends.is_sorted_by(|left, right| left.0 <= right.0);
        if !ends_ascend
            || !keys.is_sorted_by(|left, right| left < right)
            || ends.last().map_or(0, |(end, _)| *end) != size
        {
            return Err(reader.corrupt("a directory makes no sense"));
        }
        Ok(IndexBlocks {
            reader: reader.clone(),
            section: directory + 1,
            pieces,
            keys,
            ends,
        })
    }

    /// Memory of the directory in bytes.
    pub(super) fn memory(&self) -> usize {
        let pieces = self.pieces.as_ref().map_or(0, BlockTable::bytes);
        size_of_val(&self.keys[..]) + size_of_val(&self.ends[..]) + pieces
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The key of the first item of a block.
    pub(super) fn key(&self, block: usize) -> u32 {
        self.keys[block]
    }

    /// The last block whose first key is at most `key`.
    pub(super) fn block_of(&self, key: u32) -> Option<usize> {
        self.keys
            .partition_point(|&first| first <= key)
            .checked_sub(1)
    }

    /// The bytes of a block, verified.
    pub(super) fn block(&self, block: usize) -> Result<Bytes> {
        let Range { start, end } = self.range(block);
        let crc32 = self.ends[block].1;
        match &self.pieces {
            None => {
                let (start, size) = (start as u64, (end - start) as u64);
                self.reader.part(self.section, start, size, crc32)
            }
            Some(pieces) => {
                let bytes = self.unpacked_part(pieces, start..end)?;
                if crc32fast::hash(&bytes) == crc32 {
                    Ok(Bytes::from(bytes))
                } else {
                    Err(self.corrupt("a block is not what its directory says"))
                }
            }
        }
    }

    /// A range of the bytes of all blocks, from the pieces that have it.
    fn unpacked_part(&self, pieces: &BlockTable, range: Range<usize>) -> Result<Vec<u8>> {
        let size = pieces.header().block_size as usize;
        let (mut bytes, mut unpacker) = (Vec::with_capacity(range.len()), BlockUnpacker::default());
        for piece in range.start / size..range.end.div_ceil(size) {
            let stored = pieces.stored(piece);
            let stored_size = stored.end - stored.start;
            let stored = (self.reader).unverified(self.section, stored.start, stored_size)?;
            let mut text = vec![0; pieces.block_len(piece)];
            let order = References::Sequential;
            (pieces.unpack(&mut unpacker, piece, &stored, &mut text, order))
                .map_err(|error| of_packed(&self.reader, error))?;
            let first = piece * size;
            let from = range.start.max(first) - first;
            let to = range.end.min(first + text.len()) - first;
            bytes.extend_from_slice(&text[from..to]);
        }
        Ok(bytes)
    }

    /// All blocks, verified.
    pub(super) fn all(&self) -> Result<Bytes> {
        let section = self.reader.section(self.section)?;
        let all = match self.pieces {
            None => section,
            Some(_) => Bytes::from(unpacked(&self.reader, &section)?),
        };
        if all.len() as u64 == self.size() {
            Ok(all)
        } else {
            Err(self.corrupt("it is not what it was when it was opened"))
        }
    }

    /// The size of all blocks.
    pub(super) fn size(&self) -> u64 {
        self.ends.last().map_or(0, |(end, _)| *end)
    }

    /// The range of a block in the bytes of all.
    pub(super) fn range(&self, block: usize) -> Range<usize> {
        let start = block.checked_sub(1).map_or(0, |before| self.ends[before].0);
        // A file is smaller than memory can be addressed.
        start as usize..self.ends[block].0 as usize
    }

    /// The error for blocks that are not valid.
    pub(super) fn corrupt(&self, fault: &'static str) -> zipfdb_storage::Error {
        self.reader.corrupt(fault)
    }
}

/// The content of a packed section.
fn unpacked(reader: &IndexReader, section: &[u8]) -> Result<Vec<u8>> {
    let never = AtomicBool::new(false);
    let found = PackedReader::open(section).and_then(|packed| packed.unpack(&never));
    found.map_err(|error| of_packed(reader, error))
}

/// The error for a damaged packed section.
fn of_packed(reader: &IndexReader, error: PackedError) -> zipfdb_storage::Error {
    tracing::debug!("{error}");
    reader.corrupt("what is packed in it is damaged")
}

/// Reads a section of `N` numbers of eight bytes each.
pub(super) fn read_sizes<const N: usize>(reader: &IndexReader, section: usize) -> Result<[u64; N]> {
    let bytes = reader.section(section)?;
    let (numbers, rest) = bytes.as_chunks::<8>();
    let numbers: Vec<u64> = numbers.iter().copied().map(u64::from_le_bytes).collect();
    match (<[u64; N]>::try_from(numbers), rest) {
        (Ok(sizes), []) => Ok(sizes),
        _ => Err(reader.corrupt("its sizes make no sense")),
    }
}

/// Writes numbers of eight bytes each, as one section.
pub(super) fn write_sizes(writer: &mut IndexWriter, sizes: &[u64]) -> Result<()> {
    for size in sizes {
        writer.write(&size.to_le_bytes())?;
    }
    writer.end_section();
    Ok(())
}

/// Writes blocks with their directory, as two sections.
pub(super) fn write_blocks(
    writer: &mut IndexWriter,
    blocks: &[(u32, impl AsRef<[u8]>)],
) -> Result<()> {
    writer.write(&directory_of(blocks))?;
    writer.end_section();
    for (_, bytes) in blocks {
        writer.write(bytes.as_ref())?;
    }
    writer.end_section();
    Ok(())
}

/// As [`write_blocks`], with both sections packed.
///
/// # Errors
/// Those of `writer`, or if `stop` is set.
pub(super) fn write_packed_blocks(
    writer: &mut IndexWriter,
    blocks: &[(u32, impl AsRef<[u8]>)],
    stop: &AtomicBool,
) -> crate::Result<()> {
    let options = PackOptions {
        block_size: PIECE_BYTES,
        ..PackOptions::new(PackCodec::Bit)
    };
    let mut all = Vec::new();
    (blocks.iter()).for_each(|(_, bytes)| all.extend_from_slice(bytes.as_ref()));
    for section in [directory_of(blocks), all] {
        // The options are those of the format, so the only error is an early end.
        let packed = pack(&section, &options, stop).map_err(|_| crate::Error::Interrupted)?;
        writer.write(&packed)?;
        writer.end_section();
    }
    Ok(())
}

/// The directory of blocks with their keys.
fn directory_of(blocks: &[(u32, impl AsRef<[u8]>)]) -> Vec<u8> {
    let mut directory = Vec::with_capacity(blocks.len() * BLOCK_ENTRY_BYTES);
    let mut end = 0u64;
    for (key, bytes) in blocks {
        let bytes = bytes.as_ref();
        end += bytes.len() as u64;
        directory.extend(key.to_le_bytes());
        directory.extend(end.to_le_bytes());
        directory.extend(crc32fast::hash(bytes).to_le_bytes());
    }
    directory
}

/// Numbers in blocks, which can be read one by one.
pub(super) struct StoredNumbers {
    blocks: IndexBlocks,
    len: usize,
}

impl StoredNumbers {
    /// Reads the directory of `len` numbers, fewer than 2^32.
    pub(super) fn read(
        reader: &Arc<IndexReader>,
        directory: usize,
        len: usize,
    ) -> Result<StoredNumbers> {
        let blocks = IndexBlocks::read(reader, directory)?;
        let firsts = (0..len).step_by(BLOCK_NUMBERS);
        if blocks.keys.iter().map(|&key| key as usize).eq(firsts) {
            Ok(StoredNumbers { blocks, len })
        } else {
            Err(reader.corrupt("the number of its entries differs from that of its segment"))
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.blocks.memory()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The numbers of a range.
    pub(super) fn range<N>(&self, range: Range<usize>) -> Result<Vec<N>>
    where
        N: TryFrom<u64> + Clone + Default + Send,
    {
        if range.end > self.len {
            return Err(self.corrupt());
        }
        let first = range.start / BLOCK_NUMBERS;
        let start = first * BLOCK_NUMBERS;
        let end = self.len.min(range.end.next_multiple_of(BLOCK_NUMBERS));
        let mut numbers = vec![N::default(); end.saturating_sub(start)];
        let blocks = numbers.par_chunks_mut(BLOCK_NUMBERS).enumerate();
        blocks.try_for_each(|(number, target)| {
            let bytes = self.blocks.block(first + number)?;
            let block = self.number_block(&bytes, first + number)?;
            for (target, number) in target.iter_mut().zip(block.iter()) {
                *target = N::try_from(number).map_err(|_| self.corrupt())?;
            }
            Ok(())
        })?;
        numbers.truncate(range.end - start);
        numbers.drain(..range.start - start);
        Ok(numbers)
    }

    /// All numbers.
    pub(super) fn all<N>(&self) -> Result<Vec<N>>
    where
        N: TryFrom<u64> + Clone + Default + Send,
    {
        self.range(0..self.len)
    }

    fn number_block<'a>(&self, bytes: &'a [u8], number: usize) -> Result<NumberBlock<'a>> {
        let len = (self.len - number * BLOCK_NUMBERS).min(BLOCK_NUMBERS);
        NumberBlock::new(bytes, len).ok_or_else(|| self.corrupt())
    }

    fn corrupt(&self) -> zipfdb_storage::Error {
        self.corrupt_with("a block of numbers makes no sense")
    }

    /// The error for numbers that are not valid.
    pub(super) fn corrupt_with(&self, fault: &'static str) -> zipfdb_storage::Error {
        self.blocks.corrupt(fault)
    }
}

/// Writes numbers in blocks, as two sections.
pub(super) fn write_numbers(
    writer: &mut IndexWriter,
    numbers: impl Iterator<Item = u64> + Clone,
    len: usize,
) -> Result<()> {
    let mut rest = numbers;
    let blocks = (0..len).step_by(BLOCK_NUMBERS).map(|first| {
        let mut bytes = Vec::new();
        pack_numbers(rest.clone().take(BLOCK_NUMBERS), &mut bytes);
        rest.by_ref().take(BLOCK_NUMBERS).for_each(drop);
        // There are fewer than 2^32.
        (first as u32, bytes)
    });
    write_blocks(writer, &blocks.collect::<Vec<_>>())
}

/// Plain bytes in blocks.
pub(super) struct StoredBytes(IndexBlocks);

impl StoredBytes {
    /// The bytes whose directory is this section.
    pub(super) fn read(reader: &Arc<IndexReader>, directory: usize) -> Result<StoredBytes> {
        let blocks = IndexBlocks::read(reader, directory)?;
        let size = reader.section_size(directory + 1);
        let ends = (1..=blocks.len() as u64).map(|end| size.min(end * BLOCK_BYTES as u64));
        if blocks.ends.iter().map(|(end, _)| *end).eq(ends) {
            Ok(StoredBytes(blocks))
        } else {
            Err(reader.corrupt("its bytes are cut in another way"))
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.0.memory()
    }

    pub(super) fn len(&self) -> u64 {
        self.0.size()
    }

    /// All bytes.
    pub(super) fn all(&self) -> Result<Vec<u8>> {
        let blocks = (0..self.0.len()).into_par_iter();
        let blocks = blocks.map(|number| self.0.block(number));
        let blocks: Vec<Bytes> = blocks.collect::<Result<_>>()?;
        let mut bytes = Vec::with_capacity(self.len() as usize);
        blocks
            .iter()
            .for_each(|block| bytes.extend_from_slice(block));
        Ok(bytes)
    }
}

/// Writes plain bytes in blocks, as two sections.
pub(super) fn write_bytes(writer: &mut IndexWriter, bytes: &[u8]) -> Result<()> {
    // Fewer than 2^32 blocks.
    let blocks: Vec<(u32, &[u8])> = (0..).zip(bytes.chunks(BLOCK_BYTES)).collect();
    write_blocks(writer, &blocks)
}

/// The blocks that one question has read of an index, by section and number.
#[derive(Default)]
pub(super) struct ReadBlocks(RefCell<HashMap<(usize, usize), Bytes>>);

impl ReadBlocks {
    fn block(&self, blocks: &IndexBlocks, number: usize) -> Result<Bytes> {
        let key = (blocks.section, number);
        if let Some(bytes) = self.0.borrow().get(&key) {
            return Ok(bytes.clone());
        }
        let bytes = blocks.block(number)?;
        self.0.borrow_mut().insert(key, bytes.clone());
        Ok(bytes)
    }

    /// A number.
    pub(super) fn number<N>(&self, numbers: &StoredNumbers, index: usize) -> Result<N>
    where
        N: TryFrom<u64>,
    {
        if index >= numbers.len {
            return Err(numbers.corrupt());
        }
        let (number, place) = (index / BLOCK_NUMBERS, index % BLOCK_NUMBERS);
        let bytes = self.block(&numbers.blocks, number)?;
        let found = numbers.number_block(&bytes, number)?.get(place);
        let found = found.and_then(|found| N::try_from(found).ok());
        found.ok_or_else(|| numbers.corrupt())
    }

    /// Calls `read` with the bytes from `at` on: `size` at least, fewer only at the end.
    pub(super) fn bytes<R>(
        &self,
        stored: &StoredBytes,
        at: u64,
        size: usize,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<R> {
        if at > stored.len() {
            return Err(stored.0.corrupt("it leads to bytes that it has not"));
        }
        let (number, skipped) = ((at as usize) / BLOCK_BYTES, (at as usize) % BLOCK_BYTES);
        if number == stored.0.len() {
            return Ok(read(&[]));
        }
        let block = self.block(&stored.0, number)?;
        let first = &block[skipped..];
        let is_last = number + 1 == stored.0.len();
        if is_last || first.len() >= size {
            return Ok(read(first));
        }
        let mut joined = first.to_vec();
        for next in number + 1..stored.0.len() {
            if joined.len() >= size {
                break;
            }
            joined.extend_from_slice(&self.block(&stored.0, next)?);
        }
        Ok(read(&joined))
    }
}
