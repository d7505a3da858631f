//! Where the numbers of an encoded list lie, for kernels, which read the bytes as they are stored.
//!
//! The invariant: what is told was read from headers that may be damaged, so that any of it may lead out of the bytes. Lists
//! of codecs whose blocks no kernel reads have no layout.

/// What a kernel has to know of a list to read one block, or one id.
#[derive(Clone, Debug)]
pub(crate) struct BitLayout<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) blocks: BlockLayout,
    /// The bit where what blocks hold begins.
    pub(crate) data: u64,
    /// The first id of each block; empty where blocks are found by a hash.
    pub(crate) firsts: Vec<u32>,
}

/// Where an array of numbers of one width lies; all of them are 0 if there are none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BitArray {
    /// Its first bit.
    pub(crate) at: u64,
    /// 57 at most.
    pub(crate) width: u32,
}

/// What blocks are, with their arrays.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BlockLayout {
    /// Gaps of 256 ids (ParaPFD).
    Gaps { ends: BitArray },
    /// Residuals of one line, 256 ids a block (LRC, LRCSeg).
    ListLine {
        base: i64,
        slope: u64,
        minima: BitArray,
        ends: BitArray,
    },
    /// Residuals of a line for each 256 ids (SegLRC), or for each bucket, which begin at `begins`, but for the first, and whose
    /// ids are the same above the lowest `shift` bits (HS_LRC).
    SegmentLines {
        bases: BitArray,
        slopes: BitArray,
        ends: BitArray,
        buckets: Option<HashBuckets>,
    },
}

/// The buckets of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HashBuckets {
    pub(crate) begins: BitArray,
    pub(crate) shift: u32,
    pub(crate) count: u32,
}
