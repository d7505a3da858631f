//! Text to packed text.
//!
//! The invariant: the bytes depend on text and options alone, not on the number of threads, and data blocks know nothing of each
//! other. A block that coding does not shrink is stored as it is.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::bit_block;
use super::error::PackedError;
use super::fast_parse::{LastPositions, parse_fast};
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
    /// The default options of a codec.
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
            // A record of Byte takes the bytes of four literals.
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
    /// Last positions of hashes, for the fastest level.
    last: LastPositions,
    sequences: Sequences,
}

impl BlockPacker {
    /// Appends a data block to `bytes`. The text is not empty and has at most the options' block size, which
    /// [`PackOptions::header`] accepts.
    pub fn pack(&mut self, text: &[u8], options: &PackOptions, bytes: &mut Vec<u8>) -> BlockEntry {
        let begin = bytes.len();
        let sequences = &mut self.sequences;
        match (options.level, options.elimination) {
            (..=1, Elimination::Off) => {
                parse_fast(text, options.window as usize, &mut self.last, sequences);
            }
            _ => parse(text, options.parsing(), &mut self.finder, sequences),
        }
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

/// Packed text in pieces that follow each other.
#[derive(Debug)]
pub struct PackedPieces {
    /// Header and block table.
    pub front: Vec<u8>,
    /// The data blocks.
    pub blocks: Vec<Vec<u8>>,
}

/// Packs text of a size in bytes, its blocks on all threads of the current pool; `text` gives the bytes of a range. Takes memory for
/// the packed text, and some MB for each thread.
///
/// # Errors
///
/// [`PackedError::Option`] if the format has no room for an option, [`PackedError::Stopped`] once the flag is set.
pub fn pack_pieces<'a>(
    size: u64,
    text: impl Fn(Range<u64>) -> Cow<'a, [u8]> + Sync,
    options: &PackOptions,
    stop: &AtomicBool,
) -> Result<PackedPieces, PackedError> {
    let mut header = options.header(size)?;
    let blocks = (0..header.block_count()).into_par_iter();
    let packed = blocks.map_init(BlockPacker::default, |packer, block| {
        check(stop)?;
        let begin = block * u64::from(options.block_size);
        let range = begin..begin + header.block_len(block) as u64;
        let mut bytes = Vec::new();
        let entry = packer.pack(&text(range), options, &mut bytes);
        bytes.shrink_to_fit();
        Ok((entry, bytes))
    });
    let packed: Vec<(BlockEntry, Vec<u8>)> = packed.collect::<Result<_, PackedError>>()?;
    let (entries, blocks): (Vec<BlockEntry>, Vec<Vec<u8>>) = packed.into_iter().unzip();
    let table: Vec<u8> = entries.iter().flat_map(BlockEntry::to_bytes).collect();
    header.table_crc = crc32fast::hash(&table);
    let mut front = header.to_bytes().to_vec();
    front.extend(table);
    Ok(PackedPieces { front, blocks })
}

/// Packs text, as [`pack_pieces`], to one piece.
///
/// # Errors
///
/// Those of [`pack_pieces`].
pub fn pack(text: &[u8], options: &PackOptions, stop: &AtomicBool) -> Result<Vec<u8>, PackedError> {
    // Ranges are within the text.
    let of_text = |range: Range<u64>| text[range.start as usize..range.end as usize].into();
    let PackedPieces { front, blocks } = pack_pieces(text.len() as u64, of_text, options, stop)?;
    let mut bytes = front;
    bytes.reserve_exact(blocks.iter().map(Vec::len).sum());
    for block in &blocks {
        bytes.extend_from_slice(block);
    }
    Ok(bytes)
}
