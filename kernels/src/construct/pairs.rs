//! Pairs of neighbours, what orders them, and what becomes of a sequence when they are replaced.

/// Ends a file in the sequence; it is in no pair, and no symbol.
pub(crate) const SEPARATOR: u32 = u32::MAX;

/// Depth of a rule above which priorities are the mix alone.
pub(crate) const DEPTH_MAX: u16 = 64;

/// Construction ends after a round at the lowest threshold that removes less than one of `LAST` symbols.
pub(crate) const LAST: usize = 200;

/// The threshold is halved after a round that removes less than one of `WEAK` symbols.
pub(crate) const WEAK: usize = 1000;

/// Flag in a number: the position is at an odd offset in a run, no candidate.
pub(crate) const ODD: u32 = 1 << 31;

/// What the rounds leave: rule `terminal_count + r` is `pairs[r]`.
pub(crate) struct Paired {
    /// Left symbol in the upper half.
    pub(crate) pairs: Vec<u64>,
    /// The files' symbols, a [`SEPARATOR`] after each file.
    pub(crate) sequence: Vec<u32>,
    pub(crate) rounds: u32,
}

/// Mixes a pair: the finaliser of splitmix64, which maps no two values to one.
#[inline(always)]
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The pair at a position, left symbol in the upper half.
#[inline(always)]
pub(crate) fn pair_at(symbols: &[u32], i: usize) -> u64 {
    u64::from(symbols[i]) << 32 | u64::from(symbols[i + 1])
}
