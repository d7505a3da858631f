//! Matches of a text with what is before it, by chains of positions with the same hash.
//!
//! The invariant: a match that is found begins at most a window back, and its source ends where the caller allows it to. Which
//! match is found depends on the text, the options and what was inserted alone.

use super::format::MATCH_MAX;

/// Bits of the hash of four bytes, which begin the chains, and of three.
const HASH_BITS: u32 = 15;

/// Bytes under a hash of a chain.
pub(super) const HASHED: usize = 4;
const SHORT: usize = 3;

/// Farther matches of three bytes cost more than literals.
const SHORT_DISTANCE_MAX: usize = 4096;

/// Positions of a text by hash. Positions are stored plus 1.
#[derive(Default)]
pub(super) struct MatchFinder {
    heads: Vec<u32>,
    short_heads: Vec<u32>,
    /// By position within the window: the one inserted before of the same hash.
    previous: Vec<u32>,
    window: usize,
    finds_short: bool,
}

/// A match: how long, and how far back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FoundMatch {
    pub(super) length: usize,
    pub(super) distance: usize,
}

/// How hard to look.
#[derive(Clone, Copy, Debug)]
pub(super) struct SearchEffort {
    /// Positions of a chain.
    pub(super) depth: u32,
    /// A match of this length is good enough.
    pub(super) nice_length: usize,
}

impl MatchFinder {
    /// Forgets all positions. Matches of three bytes are looked for only if said so.
    pub(super) fn begin(&mut self, window: usize, finds_short: bool) {
        self.heads.clear();
        self.heads.resize(1 << HASH_BITS, 0);
        self.short_heads.clear();
        if finds_short {
            self.short_heads.resize(1 << HASH_BITS, 0);
        }
        // Links of positions that were forgotten are not followed: heads lead to what was inserted, and each position within the
        // window has a link of its own.
        self.previous.resize(window, 0);
        self.window = window;
        self.finds_short = finds_short;
    }

    /// Makes a position known, unless too few bytes follow.
    #[inline]
    pub(super) fn insert(&mut self, text: &[u8], at: usize) {
        let Some(hash) = hash_at(text, at) else {
            return;
        };
        let mask = self.window - 1;
        self.previous[at & mask] = self.heads[hash];
        // Blocks have fewer than 2^32 bytes.
        self.heads[hash] = at as u32 + 1;
        if self.finds_short {
            let hash = short_hash_at(text, at);
            self.short_heads[hash] = at as u32 + 1;
        }
    }

    /// The longest match at a position that is longer than `longer_than`, at least 2; of equally long ones the first found. `source_end`
    /// says where a source that begins somewhere has to end.
    #[inline]
    pub(super) fn find(
        &self,
        text: &[u8],
        at: usize,
        longer_than: usize,
        effort: SearchEffort,
        source_end: impl Fn(usize) -> usize,
    ) -> Option<FoundMatch> {
        let hash = hash_at(text, at)?;
        let length_max = MATCH_MAX.min(text.len() - at);
        let mut best = longer_than;
        let mut found = None;
        let mut consider = |source: usize, best: &mut usize| {
            let is_longer = *best < length_max && text[source + *best] == text[at + *best];
            if !is_longer {
                return;
            }
            let length = common(text, source, at, length_max);
            if length <= *best {
                return;
            }
            let length = length.min(source_end(source).saturating_sub(source));
            if length > *best {
                *best = length;
                found = Some(FoundMatch {
                    length,
                    distance: at - source,
                });
            }
        };
        if self.finds_short && best < SHORT {
            let next = self.short_heads[short_hash_at(text, at)] as usize;
            if next > 0 && at - (next - 1) <= SHORT_DISTANCE_MAX.min(self.window) {
                consider(next - 1, &mut best);
            }
        }
        let mut next = self.heads[hash] as usize;
        for _ in 0..effort.depth {
            if next == 0 || best >= effort.nice_length {
                break;
            }
            let source = next - 1;
            if at - source > self.window {
                break;
            }
            consider(source, &mut best);
            next = self.previous[source & (self.window - 1)] as usize;
        }
        found
    }
}

/// The hash of the next four bytes; none near the end.
#[inline(always)]
fn hash_at(text: &[u8], at: usize) -> Option<usize> {
    let bytes = text.get(at..at + HASHED)?.try_into().expect("four");
    let product = u32::from_le_bytes(bytes).wrapping_mul(0x9e37_79b1);
    Some((product >> (u32::BITS - HASH_BITS)) as usize)
}

/// The hash of the first three of four bytes.
#[inline(always)]
fn short_hash_at(text: &[u8], at: usize) -> usize {
    let bytes = text[at..at + HASHED].try_into().expect("four");
    let product = (u32::from_le_bytes(bytes) << 8).wrapping_mul(0x9e37_79b1);
    (product >> (u32::BITS - HASH_BITS)) as usize
}

/// How many bytes are the same from two positions on, at most `most`. `most` bytes follow the later position.
#[inline(always)]
fn common(text: &[u8], source: usize, at: usize, most: usize) -> usize {
    let left = &text[source..source + most];
    let right = &text[at..at + most];
    let mut length = 0;
    for (left, right) in left.as_chunks::<8>().0.iter().zip(right.as_chunks::<8>().0) {
        let differing = u64::from_le_bytes(*left) ^ u64::from_le_bytes(*right);
        if differing != 0 {
            return length + differing.trailing_zeros() as usize / 8;
        }
        length += 8;
    }
    let rest = left[length..].iter().zip(&right[length..]);
    length + rest.take_while(|(left, right)| left == right).count()
}
