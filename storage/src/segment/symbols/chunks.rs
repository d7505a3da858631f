//! Where chunks begin and end: runs of coded symbols that know nothing of each other.
//!
//! Coded are all symbols of bodies but the first of each, level by level, and all of the root. A chunk of bodies ends
//! with a rule and never spans levels; a chunk of the root ends wherever its size is reached, whatever the file.

use std::ops::Range;

/// Coded symbols of a chunk of the root, and the least number of a chunk of bodies that is not the last of its level.
pub const CHUNK_SYMBOLS: usize = 8192;

/// A run of rules of one level whose bodies are coded together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyChunk {
    /// From 0.
    pub level: usize,
    /// The rules.
    pub rules: Range<usize>,
}

/// The chunks of all bodies.
pub fn of_bodies(rule_offsets: &[u32], level_offsets: &[u32]) -> Vec<BodyChunk> {
    let mut chunks = Vec::new();
    for (level, rules) in level_offsets.windows(2).enumerate() {
        let (first, end) = (rules[0] as usize, rules[1] as usize);
        let mut start = first;
        let mut coded = 0;
        for rule in first..end {
            coded += (rule_offsets[rule + 1] - rule_offsets[rule]) as usize - 1;
            if coded >= CHUNK_SYMBOLS || rule + 1 == end {
                chunks.push(BodyChunk {
                    level,
                    rules: start..rule + 1,
                });
                start = rule + 1;
                coded = 0;
            }
        }
    }
    chunks
}

/// The chunks of a root of `length` symbols.
pub fn of_root(length: usize) -> impl ExactSizeIterator<Item = Range<usize>> {
    (0..length.div_ceil(CHUNK_SYMBOLS))
        .map(move |chunk| chunk * CHUNK_SYMBOLS..((chunk + 1) * CHUNK_SYMBOLS).min(length))
}

/// The chunks of a root, by number, that hold the symbols at `positions`.
pub fn of_positions(positions: &Range<usize>) -> Range<usize> {
    let first = positions.start / CHUNK_SYMBOLS;
    first..positions.end.div_ceil(CHUNK_SYMBOLS).max(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_hold_every_rule_once_and_never_two_levels() {
        let rule_offsets: Vec<u32> = (0..10_001).map(|rule| rule * 3).collect();
        let chunks = of_bodies(&rule_offsets, &[0, 9000, 9001, 10_000]);
        assert_eq!(
            chunks[0],
            BodyChunk {
                level: 0,
                rules: 0..4096
            }
        );
        assert_eq!(
            chunks[2],
            BodyChunk {
                level: 0,
                rules: 8192..9000
            }
        );
        assert_eq!(
            chunks[3],
            BodyChunk {
                level: 1,
                rules: 9000..9001
            }
        );
        assert_eq!(
            chunks[4],
            BodyChunk {
                level: 2,
                rules: 9001..10_000
            }
        );
        assert_eq!(chunks.len(), 5);
        assert!(of_bodies(&[0], &[0]).is_empty());
    }

    #[test]
    fn chunks_of_the_root_cover_it() {
        assert_eq!(of_root(0).len(), 0);
        assert!(of_root(CHUNK_SYMBOLS).eq(std::iter::once(0..CHUNK_SYMBOLS)));
        assert_eq!(
            of_root(CHUNK_SYMBOLS + 1).last(),
            Some(CHUNK_SYMBOLS..CHUNK_SYMBOLS + 1)
        );
    }
}
