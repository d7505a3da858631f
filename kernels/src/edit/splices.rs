//! Places of inserted texts when many inserts are made at once.
//!
//! In   sizes of files; inserts, each a file, an offset or its end, and a length
//! Out  for each file the stretches of inserted text, in the order of the resulting text: the byte of the old file that
//!      each stands before, and which bytes of which insert it is
//! Work O(inserts * log(inserts of a file)); later inserts may split earlier ones, so
//!      there are fewer than twice as many stretches as inserts
//!
//! Each offset counts in what the inserts before have made. A sequence of inserts
//! is composed like functions: inserts are joined in pairs, pairs of pairs and so
//! on, each time an earlier list of stretches with a later one whose places are
//! those of the earlier one's result. So a GPU makes all inserts at once: see
//! `splices.cu`.

use std::ops::Range;

/// Some bytes that are put into a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insert {
    /// The file.
    pub file: u32,
    /// The byte before which they are put; [`APPEND`] for the end of the file.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
}

/// The offset of an insert at the end of its file.
pub const APPEND: u64 = u64::MAX;

/// A stretch of inserted text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Splice {
    /// The byte of the old file before which it stands.
    pub base: u64,
    /// The insert, by its number.
    pub insert: u32,
    /// The first of the insert's bytes that it has.
    pub start: u64,
    /// How many of them.
    pub length: u64,
}

/// Inserted text of some files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Splices {
    /// `[files + 1]`: those of file f are `splices[offsets[f]..offsets[f + 1]]`.
    pub offsets: Vec<u32>,
    /// In the order of the resulting text.
    pub splices: Vec<Splice>,
}

/// Places all inserts; each offset counts in the file as the inserts before have made it.
///
/// `sizes` is the size of each file. Sums of sizes and lengths stay below 2^62.
///
/// # Errors
///
/// The number of the first insert whose offset lies past the end of its file.
///
/// # Panics
///
/// When an insert names no file, or there are 2^31 inserts.
pub fn place_inserts(sizes: &[u64], inserts: &[Insert]) -> Result<Splices, u32> {
    assert!(inserts.len() < 1 << 31, "{} inserts", inserts.len());
    let mut grown = sizes.to_vec();
    let mut placed: Vec<(u32, Splice)> = Vec::with_capacity(inserts.len());
    for (number, insert) in (0..).zip(inserts) {
        let size = &mut grown[insert.file as usize];
        let base = if insert.offset == APPEND {
            *size
        } else {
            insert.offset
        };
        if base > *size {
            return Err(number);
        }
        *size += insert.length;
        if insert.length > 0 {
            let splice = Splice {
                base,
                insert: number,
                start: 0,
                length: insert.length,
            };
            placed.push((insert.file, splice));
        }
    }
    // Stable: inserts of a file stay in their order.
    placed.sort_by_key(|(file, _)| *file);
    let mut offsets = Vec::with_capacity(sizes.len() + 1);
    let mut splices: Vec<Splice> = Vec::with_capacity(placed.len());
    let mut rest = &placed[..];
    offsets.push(0);
    for file in 0..sizes.len() as u32 {
        let count = rest.partition_point(|&(other, _)| other == file);
        let (these, others) = rest.split_at(count);
        let these = these.iter().map(|&(_, splice)| splice);
        splices.extend(compose_all(these.collect()));
        // At most twice the number of inserts.
        offsets.push(splices.len() as u32);
        rest = others;
    }
    Ok(Splices { offsets, splices })
}

/// The inserts of one file, in sequence, as one list.
fn compose_all(splices: Vec<Splice>) -> Vec<Splice> {
    let mut runs: Vec<Range<usize>> = (0..splices.len()).map(|at| at..at + 1).collect();
    let mut splices = splices;
    while runs.len() > 1 {
        let mut composed = Vec::with_capacity(splices.len() * 2);
        let mut joined = Vec::with_capacity(runs.len().div_ceil(2));
        for pair in runs.chunks(2) {
            let begin = composed.len();
            let earlier = &splices[pair[0].clone()];
            match pair.get(1) {
                None => composed.extend_from_slice(earlier),
                Some(later) => compose(earlier, &splices[later.clone()], &mut composed),
            }
            joined.push(begin..composed.len());
        }
        splices = composed;
        runs = joined;
    }
    splices
}

/// What `earlier` and then `later`, whose places count in the result of `earlier`, make of a file.
fn compose(earlier: &[Splice], later: &[Splice], composed: &mut Vec<Splice>) {
    // Bytes of earlier stretches that lie before, and of the next one those that do.
    let (mut before, mut next, mut taken) = (0, 0, 0);
    for splice in later {
        let place = splice.base;
        while let Some(stretch) = earlier.get(next) {
            let start = stretch.base + before + taken;
            if start >= place {
                break;
            }
            let length = (stretch.length - taken).min(place - start);
            composed.push(Splice {
                start: stretch.start + taken,
                length,
                ..*stretch
            });
            taken += length;
            if taken < stretch.length {
                break;
            }
            before += taken;
            (next, taken) = (next + 1, 0);
        }
        let base = match earlier.get(next) {
            Some(stretch) if taken > 0 => stretch.base,
            _ => place - before,
        };
        composed.push(Splice { base, ..*splice });
    }
    for stretch in &earlier[next..] {
        composed.push(Splice {
            start: stretch.start + taken,
            length: stretch.length - taken,
            ..*stretch
        });
        taken = 0;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Random inserts into some files, all within them.
    pub(crate) fn random(seed: u64, files: u64, count: usize) -> (Vec<u64>, Vec<Insert>) {
        let mut state = seed;
        let mut below = |end: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % end
        };
        let sizes: Vec<u64> = (0..files).map(|_| below(40)).collect();
        let mut grown = sizes.clone();
        let mut inserts = Vec::new();
        for _ in 0..count {
            let file = below(files);
            let size = &mut grown[file as usize];
            let offset = match below(4) {
                0 => APPEND,
                1 => below(*size + 1).min(3),
                _ => below(*size + 1),
            };
            let length = below(6);
            *size += length;
            inserts.push(Insert {
                file: file as u32,
                offset,
                length,
            });
        }
        (sizes, inserts)
    }

    /// A byte of a file: of the old one, or of an insert.
    type Byte = (Option<u32>, u64);

    fn naive(sizes: &[u64], inserts: &[Insert]) -> Vec<Vec<Byte>> {
        let mut files: Vec<Vec<Byte>> = sizes
            .iter()
            .map(|&size| (0..size).map(|at| (None, at)).collect())
            .collect();
        for (number, insert) in (0..).zip(inserts) {
            let file = &mut files[insert.file as usize];
            let at = (insert.offset as usize).min(file.len());
            file.splice(at..at, (0..insert.length).map(|byte| (Some(number), byte)));
        }
        files
    }

    fn applied(sizes: &[u64], placed: &Splices) -> Vec<Vec<Byte>> {
        let file = |(file, &size): (usize, &u64)| {
            let range = placed.offsets[file] as usize..placed.offsets[file + 1] as usize;
            let (mut bytes, mut at) = (Vec::new(), 0);
            for splice in &placed.splices[range] {
                assert!(splice.length > 0 && splice.base >= at && splice.base <= size);
                bytes.extend((at..splice.base).map(|byte| (None, byte)));
                at = splice.base;
                let inserted = splice.start..splice.start + splice.length;
                bytes.extend(inserted.map(|byte| (Some(splice.insert), byte)));
            }
            bytes.extend((at..size).map(|byte| (None, byte)));
            bytes
        };
        sizes.iter().enumerate().map(file).collect()
    }

    #[test]
    fn placed_inserts_make_the_text_that_one_after_the_other_makes() {
        for seed in 0..300 {
            let (files, count) = (1 + seed % 4, (seed as usize * 7) % 90);
            let (sizes, inserts) = random(seed, files, count);
            let placed = place_inserts(&sizes, &inserts).unwrap();
            assert!(placed.splices.len() <= 2 * inserts.len());
            let expected = naive(&sizes, &inserts);
            assert_eq!(applied(&sizes, &placed), expected, "seed {seed}");
        }
    }

    #[test]
    fn the_first_insert_past_the_end_is_reported() {
        let insert = |offset, length| Insert {
            file: 0,
            offset,
            length,
        };
        let inserts = [insert(5, 2), insert(7, 1), insert(9, 1), insert(8, 1)];
        assert_eq!(place_inserts(&[5], &inserts), Err(2));
    }
}
