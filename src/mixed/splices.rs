//! A file over the operations of a batch: the stretches of inserted text in each version, and their places.
//!
//! The invariant: all stretches that the edits of the batch leave stand in the order of the *last* text, which has every byte of
//! every text before it, in the same order. So a byte has one fixed place, that in the last text, and a version differs from it
//! only in the stretches that it lacks. Going from one version to the next costs what two blocks of sums cost, wherever the edit
//! is, and a place is looked up in a few steps.

use std::ops::Range;

use zipfdb_kernels::Splice;

use crate::bisect::{gallop, partition_point};

/// Stretches in a block of sums.
const BLOCK: usize = 256;

/// The text that the edits of a batch insert into a file.
pub(super) struct Stretches {
    /// The bytes of the file before the batch.
    base_bytes: u64,
    /// For each stretch, in the order of the last text: the byte of the file that it stands before.
    bases: Vec<u64>,
    /// For each stretch: the number of its edit among those of the file.
    edits: Vec<u32>,
    /// For each stretch: its first byte in the text of the edit.
    starts: Vec<u64>,
    /// `[stretches + 1]`: the bytes of all stretches before each.
    sums: Vec<u64>,
    /// The stretches of edit e are `of_edits[firsts[e]..firsts[e + 1]]`, ascending.
    firsts: Vec<u32>,
    of_edits: Vec<u32>,
    /// For each k the number of stretches before byte `k << shift` of the base.
    before: Vec<u32>,
    shift: u32,
}

/// The source of some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ByteSource {
    /// A range of the file before the batch.
    Base(Range<u64>),
    /// A range of the text of an edit.
    Edit(usize, Range<usize>),
}

/// A part of the text of a version.
#[derive(Clone, Debug)]
pub(super) struct StretchPart {
    pub(super) source: ByteSource,
    /// The place of its first byte in the last text.
    pub(super) place: u64,
    pub(super) length: u64,
}

/// A version of the text: after the first `edits` edits.
pub(super) struct Version<'a> {
    stretches: &'a Stretches,
    /// The number of edits made.
    edits: usize,
    /// Bytes of the stretches present: before each block, and before each stretch in its block.
    blocks: Vec<u64>,
    within: Vec<u64>,
    bytes: u64,
}

impl Stretches {
    /// For a file with `base_bytes` bytes before the batch, and `edits` edits.
    pub(super) fn new(
        base_bytes: u64,
        edits: usize,
        splices: impl ExactSizeIterator<Item = Splice>,
    ) -> Stretches {
        let count = splices.len();
        let mut bases = Vec::with_capacity(count);
        let mut of_stretches = Vec::with_capacity(count);
        let mut starts = Vec::with_capacity(count);
        let mut sums = Vec::with_capacity(count + 1);
        let mut firsts = vec![0u32; edits + 1];
        let mut sum = 0;
        for splice in splices {
            bases.push(splice.base);
            of_stretches.push(splice.insert);
            starts.push(splice.start);
            sums.push(sum);
            sum += splice.length;
            firsts[splice.insert as usize + 1] += 1;
        }
        sums.push(sum);
        for edit in 0..edits {
            firsts[edit + 1] += firsts[edit];
        }
        let mut next = firsts.clone();
        let mut of_edits = vec![0; count];
        // There are fewer than 2^32 stretches: at most twice the number of inserts.
        for (index, &edit) in (0..).zip(&of_stretches) {
            let next = &mut next[edit as usize];
            of_edits[*next as usize] = index;
            *next += 1;
        }
        // About one stretch for each entry.
        let entries = base_bytes / (count as u64 + 1);
        let shift = u64::BITS - entries.leading_zeros();
        let mut before = Vec::with_capacity((base_bytes >> shift) as usize + 2);
        let mut index = 0;
        for entry in 0..=(base_bytes >> shift) {
            while bases.get(index).is_some_and(|&base| base < entry << shift) {
                index += 1;
            }
            before.push(index as u32);
        }
        before.push(count as u32);
        Stretches {
            base_bytes,
            bases,
            edits: of_stretches,
            starts,
            sums,
            firsts,
            of_edits,
            before,
            shift,
        }
    }

    /// The number of stretches.
    fn len(&self) -> usize {
        self.bases.len()
    }

    /// The bytes of a stretch.
    fn length(&self, index: usize) -> u64 {
        self.sums[index + 1] - self.sums[index]
    }

    /// The stretches of an edit, ascending.
    pub(super) fn of_edit(&self, edit: usize) -> &[u32] {
        &self.of_edits[self.firsts[edit] as usize..self.firsts[edit + 1] as usize]
    }

    /// The bytes of the base before which the first edits insert text, ascending.
    pub(super) fn bases(&self, edits: usize) -> impl Iterator<Item = u64> {
        let all = self.bases.iter().zip(&self.edits);
        let made = all.filter(move |&(_, &edit)| (edit as usize) < edits);
        made.map(|(&base, _)| base)
    }

    /// The inserted text: before which byte of the base which range of which edit, in order.
    pub(super) fn inserted(&self) -> impl Iterator<Item = (u64, usize, Range<usize>)> {
        (0..self.len()).map(|index| {
            let (edit, range) = self.edit_range(index, 0..self.length(index));
            (self.bases[index], edit, range)
        })
    }

    /// The byte of the base before which a stretch stands; the end for none.
    fn base(&self, index: usize) -> u64 {
        self.bases.get(index).copied().unwrap_or(self.base_bytes)
    }

    /// A range of a stretch, as a range of its edit's text.
    fn edit_range(&self, index: usize, range: Range<u64>) -> (usize, Range<usize>) {
        // Within a text in memory.
        let at = |offset: u64| (self.starts[index] + offset) as usize;
        (self.edits[index] as usize, at(range.start)..at(range.end))
    }

    /// The number of stretches before a byte of the base.
    fn count_before(&self, offset: u64) -> usize {
        // The table has an entry for every byte.
        let entry = (offset >> self.shift) as usize;
        let (from, to) = (self.before[entry] as usize, self.before[entry + 1] as usize);
        from + self.bases[from..to].partition_point(|&base| base <= offset)
    }

    /// The stretch at a place in the last text, or the first one behind it.
    fn at_place(&self, place: u64) -> usize {
        partition_point(self.len(), |index| {
            self.bases[index] + self.sums[index + 1] <= place
        })
    }

    /// The first byte of the base at or behind a place of the last text, and whether it is at that place.
    pub(super) fn base_of_place(&self, place: u64) -> (u64, bool) {
        let index = self.at_place(place);
        let (base, found) = (self.base(index), place - self.sums[index]);
        (base.min(found), found < base)
    }

    /// The version after the first `edits` edits.
    pub(super) fn moment(&self, edits: usize) -> Version<'_> {
        let count = self.len() + 1;
        let mut moment = Version {
            stretches: self,
            edits,
            blocks: Vec::with_capacity(count.div_ceil(BLOCK)),
            within: Vec::with_capacity(count),
            bytes: self.base_bytes,
        };
        let mut sum = 0;
        for index in 0..count {
            if index % BLOCK == 0 {
                moment.blocks.push(moment.bytes - self.base_bytes);
                sum = 0;
            }
            moment.within.push(sum);
            if index < self.len() {
                // Both cases are as likely, so no branch is used.
                let is_made = u64::from((self.edits[index] as usize) < edits);
                sum += is_made * self.length(index);
                moment.bytes += is_made * self.length(index);
            }
        }
        moment
    }
}

impl Version<'_> {
    /// Makes the next edit.
    pub(super) fn advance(&mut self) {
        let stretches = self.stretches;
        for &index in stretches.of_edit(self.edits) {
            let index = index as usize;
            let length = stretches.length(index);
            let block = index / BLOCK;
            let end = self.within.len().min((block + 1) * BLOCK);
            (self.within[index + 1..].iter_mut())
                .take(end - (index + 1))
                .for_each(|sum| *sum += length);
            (self.blocks[block + 1..].iter_mut()).for_each(|sum| *sum += length);
            self.bytes += length;
        }
        self.edits += 1;
    }

    /// The size of the text in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of edits made.
    pub(super) fn edits(&self) -> usize {
        self.edits
    }

    /// Bytes of the present stretches before stretch `index`.
    fn sum(&self, index: usize) -> u64 {
        self.blocks[index / BLOCK] + self.within[index]
    }

    /// Appends the offsets of bytes of the base, which ascend.
    pub(super) fn append_offsets(&self, bases: &[u64], offsets: &mut Vec<u64>) {
        let stretches = self.stretches;
        let mut rest = bases;
        while let Some(&first) = rest.first() {
            let index = stretches.count_before(first);
            let sum = self.sum(index);
            // Bytes up to the next stretch move by the same distance.
            let count = match stretches.bases.get(index) {
                Some(&base) => gallop(rest.len(), |at| rest[at] < base),
                None => rest.len(),
            };
            let (alike, later) = rest.split_at(count);
            offsets.extend(alike.iter().map(|base| base + sum));
            rest = later;
        }
    }

    /// The offset of the byte at a place in the last text; the version must have it.
    pub(super) fn offset_of_place(&self, place: u64) -> u64 {
        // The byte is in the stretch, or in the base before it.
        let index = self.stretches.at_place(place);
        place - self.stretches.sums[index] + self.sum(index)
    }

    /// The range of a stretch that the version has.
    pub(super) fn range(&self, index: u32) -> Range<u64> {
        let index = index as usize;
        let start = self.stretches.bases[index] + self.sum(index);
        start..start + self.stretches.length(index)
    }

    /// The sources of a range of bytes, as far as the text goes.
    pub(super) fn parts(&self, range: Range<u64>) -> impl Iterator<Item = StretchPart> {
        let stretches = self.stretches;
        let count = stretches.len();
        let is_before = move |index: usize, at: u64| {
            index < count && stretches.bases[index] + self.sum(index + 1) <= at
        };
        let end = range.end.min(self.bytes);
        let mut at = range.start;
        // The first stretch that ends behind `at`, once it was found.
        let mut found = None;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            // The next stretch is usually adjacent to the last one, unless many are absent.
            let near = found.map(|last| if is_before(last, at) { last + 1 } else { last });
            let index = match near {
                Some(index) if !is_before(index, at) => index,
                _ => partition_point(count, |index| is_before(index, at)),
            };
            found = Some(index);
            let sum = self.sum(index);
            let start = stretches.base(index) + sum;
            let (source, place, to) = if index < count && at >= start {
                let to = end.min(start + stretches.length(index));
                let (edit, range) = stretches.edit_range(index, at - start..to - start);
                let place = stretches.bases[index] + stretches.sums[index] + (at - start);
                (ByteSource::Edit(edit, range), place, to)
            } else {
                let to = end.min(start);
                let place = at - sum + stretches.sums[index];
                (ByteSource::Base(at - sum..to - sum), place, to)
            };
            let length = to - at;
            at = to;
            Some(StretchPart {
                source,
                place,
                length,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use zipfdb_kernels::{Insert, place_inserts};

    use super::*;

    #[test]
    fn every_moment_has_its_text_and_its_places() {
        let mut state = 11u64;
        let mut below = |limit: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % limit
        };
        for (base_bytes, edits) in [(0, 5), (1, 40), (10, 900), (5000, 700)] {
            let base: Vec<u8> = (0..base_bytes).map(|_| b'a' + below(26) as u8).collect();
            let mut texts = vec![base.clone()];
            let (mut inserts, mut inserted) = (Vec::new(), Vec::new());
            for _ in 0..edits {
                let mut text = texts.last().unwrap().clone();
                let more: Vec<u8> = (0..below(5)).map(|_| b'A' + below(26) as u8).collect();
                let offset = match below(3) {
                    0 => text.len() as u64,
                    _ => below(text.len() as u64 + 1),
                };
                let at = offset as usize;
                text.splice(at..at, more.iter().copied());
                inserts.push(Insert {
                    file: 0,
                    offset,
                    length: more.len() as u64,
                });
                inserted.push(more);
                texts.push(text);
            }
            let placed = place_inserts(&[base_bytes], &inserts).unwrap();
            let stretches = Stretches::new(base_bytes, edits, placed.splices.into_iter());
            let last = texts.last().unwrap();
            let mut moment = stretches.moment(0);
            for (made, text) in texts.iter().enumerate() {
                if made > 0 {
                    moment.advance();
                    for &index in stretches.of_edit(made - 1) {
                        assert!(moment.range(index).end <= text.len() as u64);
                    }
                }
                assert_eq!(moment.bytes(), text.len() as u64);
                let fresh = stretches.moment(made);
                assert!(fresh.blocks == moment.blocks && fresh.within == moment.within);
                let bases: Vec<u64> = (0..base_bytes).filter(|_| below(3) > 0).collect();
                let mut offsets = Vec::new();
                moment.append_offsets(&bases, &mut offsets);
                let offset = |base: u64| {
                    let mut only = Vec::new();
                    moment.append_offsets(&[base], &mut only);
                    only[0]
                };
                assert!(bases.iter().map(|&base| offset(base)).eq(offsets));
                let from = below(text.len() as u64 + 1);
                let (mut at, mut found) = (from, Vec::new());
                for part in moment.parts(from..from + 70) {
                    let start = found.len();
                    match part.source {
                        ByteSource::Base(range) => {
                            assert_eq!(offset(range.start), at);
                            let base_place = stretches.base_of_place(part.place);
                            assert_eq!(base_place, (range.start, true));
                            found
                                .extend_from_slice(&base[range.start as usize..range.end as usize]);
                        }
                        ByteSource::Edit(edit, range) => {
                            assert!(!stretches.base_of_place(part.place).1);
                            found.extend_from_slice(&inserted[edit][range]);
                        }
                    }
                    assert_eq!((found.len() - start) as u64, part.length);
                    for more in 0..part.length {
                        let place = part.place + more;
                        assert_eq!(last[place as usize], found[start + more as usize]);
                        assert_eq!(moment.offset_of_place(place), at + more);
                    }
                    at += part.length;
                }
                let to = text.len().min(from as usize + 70);
                assert_eq!(found, &text[from as usize..to]);
            }
        }
    }
}
