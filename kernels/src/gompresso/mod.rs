//! Text packed in blocks that decode on a warp of a GPU each, and on CPUs.
//!
//! The invariant: unpacking gives the packed text or an error, whatever the bytes are, and all ways to unpack give the same. A data
//! block knows nothing of the others, so that each can be read alone. Not here: files, and where packed text is of use.
//!
//! After Sitaridi et al., "Massively-Parallel Lossless Data Decompression", ICPP 2016: LZ77 sequences of a literal string and a
//! reference, in groups of 32, as they are ([`PackCodec::Byte`]) or in Huffman codes ([`PackCodec::Bit`]). `parse` makes
//! sequences, `fast_parse` those of the fastest level, `bit_block` codes them, `references` makes text of them; `format` is what lies around, byte by byte in
//! `storage/FORMAT.md`. The twins on a GPU are in `bench/kernels`: no
//! database unpacks there.

mod bit_block;
mod error;
mod fast_parse;
mod format;
mod huffman;
mod match_finder;
mod pack;
mod parse;
mod references;
mod symbols;
#[cfg(test)]
mod tests;
mod unpack;

pub use error::{BlockFault, PackedError, PackedPart};
pub use format::{
    BLOCK_ALIGNMENT, BLOCK_SIZE_MAX, BLOCK_SIZE_MIN, BlockEntry, CODE_BITS_MAX, CODE_BITS_MIN,
    ENTRY_SIZE, GROUP, HEADER_SIZE, LITERALS_MAX, MATCH_MAX, MATCH_MIN, PackCodec, PackHeader,
    WINDOW_MAX, WINDOW_MIN,
};
pub use pack::{BlockPacker, PackOptions, PackedPieces, pack, pack_pieces};
pub use parse::Elimination;
pub use references::{ReferenceRounds, References};
pub use unpack::{BlockTable, BlockUnpacker, PackedReader};

/// What the twins on a GPU share with the code here, as the `building_blocks` of `gpu`.
#[doc(hidden)]
pub mod building_blocks {
    pub use super::bit_block::{BITS_WIDTH_MAX, HEAD_SIZE, LITERALS_WIDTH_MAX};
    pub use super::symbols::{DISTANCE_SYMBOLS, NO_MATCH, TEXT_SYMBOLS};
}
