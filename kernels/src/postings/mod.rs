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
mod interpolative;
mod lines;
mod list;
mod list_line;
mod prefix_code;
mod roaring;
mod search;
mod segment_lines;
mod set_operations;
mod shared_lists;
mod simple16;
#[cfg(test)]
mod tests;
mod vector_join;
mod vector_search;
mod vector_unpack;

pub use bisection::similar_order;
pub(crate) use bit_layout::{BitArray, BitLayout, BlockLayout};
pub use codec::{MalformedPostings, PostingsCodec};
pub use counts::{decode_counts, encode_counts};
pub(crate) use gap_segments::SEGMENT as GAP_SEGMENT;
pub(crate) use lines::{LIST_FRACTION, SEGMENT_FRACTION};
pub use list::{PostingsCursor, PostingsList, SHORT_MAX, choose_codec, decode_ids, encode_ids};
pub(crate) use list_line::{BLOCK as BLOCK_IDS, RESIDUAL_BITS_MAX};
pub use search::{HashOffsets, ListIndex, SafeRange, SearchMethod, intersect_plain};
pub(crate) use set_operations::SEEK_RATIO;
pub use set_operations::{difference, intersect, intersect_count, union};
pub use shared_lists::{SharedLists, decode_shared_lists, encode_shared_lists};
pub(crate) use vector_search::keep_common;
pub use vector_search::keep_common_pairs;
