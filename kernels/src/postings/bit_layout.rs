//! Where the numbers of an encoded list lie, for kernels, which read the bytes as they are stored.
//!
//! The invariant: a layout was read from headers that may be damaged, so that any of it may lead out of the bytes. Lists
//! of codecs whose blocks no kernel reads have no layout.

/// What a kernel has to know of a list to read one block, or one id.
#[derive(Clone, Debug)]
pub struct BitLayout<'a> {
    /// The list as it is stored.
    pub bytes: &'a [u8],
    /// How it is coded.
    pub blocks: BlockLayout,
    /// The bit where what blocks hold begins.
    pub data: u64,
    /// The first id of each block; empty where blocks are found by a hash.
    pub firsts: Vec<u32>,
}

/// Where an array of numbers of one width lies; all of them are 0 if there are none.
#[derive(Clone, Copy, Debug, Default)]
pub struct BitArray {
    /// Its first bit.
    pub at: u64,
    /// 57 at most.
    pub width: u32,
}

/// What blocks are, with their arrays.
#[derive(Clone, Copy, Debug)]
pub enum BlockLayout {
    /// Gaps of 256 ids (ParaPFD).
    Gaps {
        /// Where blocks end.
        ends: BitArray,
    },
    /// Residuals of one line, 256 ids a block (LRC, LRCSeg).
    ListLine {
        /// The id at index 0 by the line.
        base: i64,
        /// Its slope.
        slope: u64,
        /// The least residual of each block.
        minima: BitArray,
        /// Where blocks end.
        ends: BitArray,
    },
    /// Residuals of a line for each 256 ids (SegLRC), or for each bucket, which begin at `begins`, except for the first, and whose
    /// ids are the same above the lowest `shift` bits (HS_LRC).
    SegmentLines {
        /// The first id by each line.
        bases: BitArray,
        /// The slope of each line.
        slopes: BitArray,
        /// Where blocks end.
        ends: BitArray,
        /// What blocks are, if not 256 ids each.
        buckets: Option<HashBuckets>,
    },
}

/// The buckets of a list.
#[derive(Clone, Copy, Debug)]
pub struct HashBuckets {
    /// Where their ids begin, except for the first.
    pub begins: BitArray,
    /// Low bits of an id, which its bucket leaves open.
    pub shift: u32,
    /// How many there are.
    pub count: u32,
}
