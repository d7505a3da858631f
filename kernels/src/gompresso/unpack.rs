//! Packed text to text: all of it, or a data block.
//!
//! The invariant: what is given is what was packed, or an error; a checksum is taken of every block. Memory is bounded by what is
//! stored: header and block table are checked before anything is made for what they say.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::bit_block::BitDecoder;
use super::error::{BlockFault, PackedError, PackedPart};
use super::format::{BlockEntry, ENTRY_SIZE, HEADER_SIZE, PackCodec, PackHeader};
use super::references::{ReferenceRounds, References, resolve};
use crate::stop::check;

/// Unpacks data blocks one after the other: memory that they share.
#[derive(Default)]
pub struct BlockUnpacker {
    decoder: BitDecoder,
}

impl BlockUnpacker {
    /// Unpacks a data block from its bytes and checks it. `text` has the size of the block's text.
    ///
    /// # Errors
    ///
    /// [`PackedError::Block`] or [`PackedError::Checksum`] if it is damaged; `text` has any bytes then.
    pub fn unpack(
        &mut self,
        header: &PackHeader,
        block: u64,
        entry: &BlockEntry,
        bytes: &[u8],
        text: &mut [u8],
        order: References,
    ) -> Result<ReferenceRounds, PackedError> {
        let rounds = self.decode(header, entry, bytes, text, order);
        let rounds = rounds.map_err(|fault| fault.of(block))?;
        let found = crc32fast::hash(text);
        if found == entry.crc {
            Ok(rounds)
        } else {
            Err(PackedError::Checksum {
                part: PackedPart::Block(block),
                expected: entry.crc,
                found,
            })
        }
    }

    fn decode(
        &mut self,
        header: &PackHeader,
        entry: &BlockEntry,
        bytes: &[u8],
        text: &mut [u8],
        order: References,
    ) -> Result<ReferenceRounds, BlockFault> {
        if !entry.holds(header.codec, text.len()) || bytes.len() != entry.bytes as usize {
            return Err(BlockFault::Bytes);
        }
        let sequences = entry.sequences as usize;
        if sequences == 0 {
            text.copy_from_slice(&bytes[..text.len()]);
            return Ok(ReferenceRounds::default());
        }
        match header.codec {
            PackCodec::Byte => {
                let (records, rest) = bytes.as_chunks::<4>().0.split_at(sequences);
                // Without the bytes that fill the last word.
                let literals = records.iter().map(|record| usize::from(record[0])).sum();
                let is_filled = (rest.len() * 4)
                    .checked_sub(literals)
                    .is_some_and(|rest| rest < 4);
                if is_filled {
                    resolve(records, &rest.as_flattened()[..literals], text, order)
                } else {
                    Err(BlockFault::Bytes)
                }
            }
            PackCodec::Bit => {
                let decoder = &mut self.decoder;
                let (sub_block, code_bits) = (header.sub_block, header.code_bits);
                decoder.decode(bytes, sequences, text.len(), sub_block, code_bits)?;
                resolve(&decoder.records, &decoder.literals, text, order)
            }
        }
    }
}

/// Where the data blocks of packed text lie: header and block table, checked.
#[derive(Clone, Debug)]
pub struct BlockTable {
    header: PackHeader,
    entries: Vec<BlockEntry>,
    /// `[blocks + 1]`: where each block begins in the packed text, and the end.
    begins: Vec<u64>,
}

impl BlockTable {
    /// Reads what lies between the header and the first block of packed text of `size` bytes, [`PackHeader::blocks_begin`] less
    /// [`HEADER_SIZE`] bytes. Takes 20 bytes of memory for each block.
    ///
    /// # Errors
    ///
    /// [`PackedError`] if the table is damaged, or not of packed text of that size.
    pub fn read(header: &PackHeader, table: &[u8], size: u64) -> Result<BlockTable, PackedError> {
        let mut end = header.blocks_begin();
        let wrong_size = |expected| PackedError::Size {
            expected,
            found: size,
        };
        if (HEADER_SIZE + table.len()) as u64 != end || end > size {
            return Err(wrong_size(end));
        }
        let crc = crc32fast::hash(table);
        if crc != header.table_crc {
            return Err(PackedError::Checksum {
                part: PackedPart::Table,
                expected: header.table_crc,
                found: crc,
            });
        }
        let (mut entries, mut begins) = (Vec::new(), vec![end]);
        for (block, entry) in table.as_chunks::<ENTRY_SIZE>().0.iter().enumerate() {
            let entry = BlockEntry::read(entry);
            entry.check(header, block as u64)?;
            end += u64::from(entry.bytes);
            entries.push(entry);
            begins.push(end);
        }
        if end == size {
            Ok(BlockTable {
                header: *header,
                entries,
                begins,
            })
        } else {
            Err(wrong_size(end))
        }
    }

    /// What the blocks have in common.
    pub fn header(&self) -> &PackHeader {
        &self.header
    }

    /// How many data blocks there are.
    pub fn block_count(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.entries[..]) + size_of_val(&self.begins[..])
    }

    /// Bytes of text of a block.
    ///
    /// # Panics
    ///
    /// When there is no such block.
    pub fn block_len(&self, block: usize) -> usize {
        assert!(block < self.block_count(), "no block {block}");
        self.header.block_len(block as u64)
    }

    /// Where the stored bytes of a block lie in the packed text.
    ///
    /// # Panics
    ///
    /// When there is no such block.
    pub fn stored(&self, block: usize) -> Range<u64> {
        self.begins[block]..self.begins[block + 1]
    }

    /// Unpacks a block from its stored bytes and checks it. `text` has the size of the block's text.
    ///
    /// # Errors
    ///
    /// [`PackedError::Block`] or [`PackedError::Checksum`] if it is damaged; `text` has any bytes then.
    ///
    /// # Panics
    ///
    /// When there is no such block, or `text` has another size.
    pub fn unpack(
        &self,
        unpacker: &mut BlockUnpacker,
        block: usize,
        stored: &[u8],
        text: &mut [u8],
        order: References,
    ) -> Result<ReferenceRounds, PackedError> {
        assert!(
            text.len() == self.block_len(block),
            "the block has another size"
        );
        let entry = &self.entries[block];
        unpacker.unpack(&self.header, block as u64, entry, stored, text, order)
    }
}

/// Packed text in memory, whose header and block table were checked.
#[derive(Clone, Debug)]
pub struct PackedReader<'a> {
    table: BlockTable,
    bytes: &'a [u8],
}

impl<'a> PackedReader<'a> {
    /// Reads header and block table. Takes 20 bytes of memory for each block.
    ///
    /// # Errors
    ///
    /// [`PackedError`] if the bytes are no packed text, or damaged before the first block.
    pub fn open(bytes: &'a [u8]) -> Result<PackedReader<'a>, PackedError> {
        let header = PackHeader::read(bytes)?;
        let (begin, size) = (header.blocks_begin(), bytes.len() as u64);
        if begin > size {
            return Err(PackedError::Size {
                expected: begin,
                found: size,
            });
        }
        // Within the bytes.
        let table = BlockTable::read(&header, &bytes[HEADER_SIZE..begin as usize], size)?;
        Ok(PackedReader { table, bytes })
    }

    /// What the blocks have in common.
    pub fn header(&self) -> &PackHeader {
        self.table.header()
    }

    /// How many data blocks there are.
    pub fn block_count(&self) -> usize {
        self.table.block_count()
    }

    /// Bytes of text of a block.
    ///
    /// # Panics
    ///
    /// When there is no such block.
    pub fn block_len(&self, block: usize) -> usize {
        self.table.block_len(block)
    }

    /// All data blocks, one after the other.
    pub fn blocks_bytes(&self) -> &'a [u8] {
        // Within the bytes, as checked.
        &self.bytes[self.header().blocks_begin() as usize..]
    }

    /// The entry of a block, and its stored bytes.
    ///
    /// # Panics
    ///
    /// When there is no such block.
    pub fn block(&self, block: usize) -> (BlockEntry, &'a [u8]) {
        let Range { start, end } = self.table.stored(block);
        // Within the bytes, as checked.
        let stored = &self.bytes[start as usize..end as usize];
        (self.table.entries[block], stored)
    }

    /// Unpacks one block, which has as many bytes as `text`.
    ///
    /// # Errors
    ///
    /// [`PackedError::Block`] or [`PackedError::Checksum`] if it is damaged; `text` has any bytes then.
    ///
    /// # Panics
    ///
    /// When there is no such block, or `text` has another size.
    pub fn unpack_block(&self, block: usize, text: &mut [u8]) -> Result<(), PackedError> {
        let mut unpacker = BlockUnpacker::default();
        let order = References::Sequential;
        self.unpack_block_with(&mut unpacker, block, text, order)?;
        Ok(())
    }

    fn unpack_block_with(
        &self,
        unpacker: &mut BlockUnpacker,
        block: usize,
        text: &mut [u8],
        order: References,
    ) -> Result<ReferenceRounds, PackedError> {
        let (_, stored) = self.block(block);
        self.table.unpack(unpacker, block, stored, text, order)
    }

    /// Unpacks all text on all threads of the current pool.
    ///
    /// # Errors
    ///
    /// [`PackedError`] of the first block that is damaged, [`PackedError::Stopped`] once the flag is set.
    pub fn unpack(&self, stop: &AtomicBool) -> Result<Vec<u8>, PackedError> {
        // Bounded by what is stored: entries were checked.
        let mut text = vec![0; self.header().size as usize];
        self.unpack_to(&mut text, References::Sequential, stop)?;
        Ok(text)
    }

    /// Unpacks all text to memory of its size, with the references of groups in some order, and counts their rounds.
    ///
    /// # Errors
    ///
    /// As [`PackedReader::unpack`]; `text` has any bytes then.
    ///
    /// # Panics
    ///
    /// When `text` has another size.
    pub fn unpack_to(
        &self,
        text: &mut [u8],
        order: References,
        stop: &AtomicBool,
    ) -> Result<ReferenceRounds, PackedError> {
        assert!(
            text.len() as u64 == self.header().size,
            "the text has another size"
        );
        let blocks = text
            .par_chunks_mut(self.header().block_size as usize)
            .enumerate();
        let unpacked = blocks.map_init(BlockUnpacker::default, |unpacker, (block, text)| {
            check(stop)?;
            self.unpack_block_with(unpacker, block, text, order)
        });
        // The first error in order of blocks, whatever the threads did.
        let rounds: Vec<Result<ReferenceRounds, PackedError>> = unpacked.collect();
        rounds
            .into_iter()
            .try_fold(ReferenceRounds::default(), |sum, rounds| {
                Ok(sum.and(rounds?))
            })
    }
}
