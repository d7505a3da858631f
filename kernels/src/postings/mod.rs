//! Lists of ascending ids, such as the files of a word: compressed, decoded, sought and intersected.
//!
//! The invariant: ids are 0-based, ascend strictly and are below a universe that the caller knows, as it knows how many there
//! are. Bytes come from disk, so whatever they are, nothing panics. What is stored with a list counts as its size: headers,
//! and what makes blocks findable.
//!
//! The paper is Ao et al., Efficient Parallel Lists Intersection and Index Compression Algorithms using Graphics Processing
//! Units, PVLDB 4(8), 2011; sections are its. Nothing here knows words, files or disks.

mod bisection;
mod bit_layout;
pub(crate) mod bit_packing;
mod codec;
mod counts;
mod elias_fano;
mod gap_blocks;
mod gap_segments;
mod hash_offsets;
mod interpolative;
pub(crate) mod intersect_gpu;
mod lines;
mod list;
pub(crate) mod list_block;
mod list_line;
pub(crate) mod number_blocks;
pub(crate) mod query_batches_gpu;
mod roaring;
pub(crate) mod row_bits;
mod segment_lines;
mod simple16;
#[cfg(test)]
mod tests;
mod vector_join;
mod vector_search;
mod vector_unpack;

pub use bisection::similar_order;
pub use codec::{MalformedPostings, PostingsCodec};
pub use counts::{decode_counts, encode_counts};
pub use hash_offsets::HashOffsets;
pub(crate) use list::SEEK_RATIO;
pub use list::{PostingsCursor, PostingsList, SHORT_MAX, choose_codec, decode_ids, encode_ids};
pub(crate) use vector_search::{keep_common, keep_common_pairs};

/// What codecs and searches of other crates share with those here, as the `building_blocks` of `gpu`.
#[doc(hidden)]
pub mod building_blocks {
    pub use super::bit_layout::{BitArray, BitLayout, BlockLayout};
    pub use super::bit_packing::{BitInput, BitWriter, PackedArray, bit_length, read_bits};
    pub use super::gap_segments::SEGMENT as GAP_SEGMENT;
    pub use super::interpolative::{
        decode as decode_interpolative, encode as encode_interpolative,
    };
    pub use super::lines::{LIST_FRACTION, SEGMENT_FRACTION};
    pub use super::list::{SEEK_RATIO, count_below};
    pub use super::list_line::{BLOCK as BLOCK_IDS, RESIDUAL_BITS_MAX};
    pub use super::vector_search::{keep_common, keep_merged};
}
