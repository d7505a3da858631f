//! Text to packed text.
//!
//! The invariant: the bytes depend on text and options alone, not on the number of threads, and data blocks know nothing of each
//! other. A block that coding does not shrink is stored as it is.

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::bit_block;
use super::error::PackedError;
use super::format::{BLOCK_ALIGNMENT, BlockEntry, PackCodec, PackHeader};
use super::match_finder::{MatchFinder, SearchEffort};
use super::parse::{Elimination, Parsing, Sequences, parse};
use crate::stop::check;

/// How text is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackOptions {
    /// How sequences are coded.
    pub codec: PackCodec,
    /// Which references a group does without, for decoders with a thread for each sequence.
    pub elimination: Elimination,
    /// Bytes of a data block: a power of two from 2^8 to 2^22.
    pub block_size: u32,
    /// Bytes that references go back at most: a power of two from 2^8 to 2^16.
    pub window: u32,
    /// Sequences of a sub-block of a Bit block: 8, 16, 32 or 64.
    pub sub_block: u8,
    /// Bits of a Huffman code at most: 9 to 12.
    pub code_bits: u8,
    /// How hard to look for matches: 1, fast, to 9, small.
    pub level: u8,
}

impl PackOptions {
    /// Those that are taken if nothing else is said.
    pub fn new(codec: PackCodec) -> PackOptions {
        PackOptions {
            codec,
            elimination: Elimination::Off,
            block_size: 1 << 18,
            window: 1 << 16,
            sub_block: 64,
            code_bits: 11,
            level: 6,
        }
    }

    /// The header of text of a size in bytes, without the checksum of its block table.
    ///
    /// # Errors
    ///
    /// [`PackedError::Option`] if the format has no room for an option, or for the number of blocks.
    pub fn header(&self, size: u64) -> Result<PackHeader, PackedError> {
        let header = PackHeader {
            codec: self.codec,
            is_direct: self.elimination != Elimination::Off,
            block_size: self.block_size,
            window: self.window,
            sub_block: self.sub_block,
            code_bits: self.code_bits,
            size,
            table_crc: 0,
        };
        let (option, value, allowed) = match header.check() {
            Err(refused) => refused,
            Ok(()) if !(1..=9).contains(&self.level) => ("level", self.level.into(), "1 to 9"),
            Ok(()) => return Ok(header),
        };
        Err(PackedError::Option {
            option,
            value,
            allowed,
        })
    }

    fn parsing(&self) -> Parsing {
        // Depth of chains, and a length that is good enough.
        let (depth, nice_length, lazy) = match self.level {
            ..=1 => (4, 16, 0),
            2 => (8, 32, 0),
            3 => (16, 32, 1),
            4 => (24, 48, 1),
            5 => (48, 64, 1),
            6 => (96, 128, 2),
            7 => (192, 192, 2),
            8 => (512, 257, 2),
            9.. => (2048, 257, 2),
        };
        Parsing {
            elimination: self.elimination,
            window: self.window as usize,
            effort: SearchEffort { depth, nice_length },
            lazy,
            // A record of Byte takes as much as four literals.
            length_min: match self.codec {
                PackCodec::Byte => 5,
                PackCodec::Bit => 3,
            },
            prefers_near: self.codec == PackCodec::Bit,
        }
    }
}

/// Packs data blocks one after the other: memory that they share.
#[derive(Default)]
pub struct BlockPacker {
    finder: MatchFinder,
    sequences: Sequences,
}

impl BlockPacker {
    /// Appends a data block to `bytes`. The text is not empty and has at most the options' block size, which
    /// [`PackOptions::header`] accepts.
    pub fn pack(&mut self, text: &[u8], options: &PackOptions, bytes: &mut Vec<u8>) -> BlockEntry {
        let begin = bytes.len();
        parse(
            text,
            options.parsing(),
            &mut self.finder,
            &mut self.sequences,
        );
        let Sequences { records, literals } = &self.sequences;
        match options.codec {
            PackCodec::Byte => {
                bytes.extend_from_slice(records.as_flattened());
                bytes.extend_from_slice(literals);
            }
            PackCodec::Bit => {
                bit_block::encode(
                    records,
                    literals,
                    options.sub_block,
                    options.code_bits,
                    bytes,
                );
            }
        }
        // Fewer than bytes of the block.
        let mut sequences = records.len() as u32;
        if bytes.len() - begin >= text.len() {
            bytes.truncate(begin);
            bytes.extend_from_slice(text);
            sequences = 0;
        }
        let size = (bytes.len() - begin).next_multiple_of(BLOCK_ALIGNMENT);
        bytes.resize(begin + size, 0);
        BlockEntry {
            // At most a block.
            bytes: size as u32,
            sequences,
            crc: crc32fast::hash(text),
        }
    }
}

/// Packs text, its blocks on all threads of the current pool. Takes memory for the packed text, and some MB for each thread.
///
/// # Errors
///
/// [`PackedError::Option`] if the format has no room for an option, [`PackedError::Stopped`] once the flag is set.
pub fn pack(text: &[u8], options: &PackOptions, stop: &AtomicBool) -> Result<Vec<u8>, PackedError> {
    let mut header = options.header(text.len() as u64)?;
    let blocks = text.par_chunks(options.block_size as usize);
    let packed = blocks.map_init(BlockPacker::default, |packer, text| {
        check(stop)?;
        let mut bytes = Vec::new();
        let entry = packer.pack(text, options, &mut bytes);
        Ok((entry, bytes))
    });
    let packed: Vec<(BlockEntry, Vec<u8>)> = packed.collect::<Result<_, PackedError>>()?;
    let table: Vec<u8> = packed
        .iter()
        .flat_map(|(entry, _)| entry.to_bytes())
        .collect();
    header.table_crc = crc32fast::hash(&table);
    let mut bytes = header.to_bytes().to_vec();
    bytes.reserve_exact(table.len() + packed.iter().map(|(_, block)| block.len()).sum::<usize>());
    bytes.extend(table);
    packed
        .iter()
        .for_each(|(_, block)| bytes.extend_from_slice(block));
    Ok(bytes)
}
