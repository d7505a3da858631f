//! Lists as residuals of a line for each segment: SegLRC and HS_LRC (Ao et al. 5.2 and 4.4).
//!
//! The invariant: any id is readable alone, so no residual is an exception. Segments are 256 ids each, or the buckets of a
//! hash, which are the ids that share their leading bits. A list has four arrays by segment: for buckets where each begins,
//! the bases of lines, their slopes, and where residuals end.

use super::bit_layout::{BitLayout, BlockLayout, HashBuckets};
use super::bit_packing::{BitInput, BitWriter, PackedArray, bit_length, read_bits, width_of};
use super::codec::MalformedPostings;
use super::lines::{Line, SEGMENT_FRACTION, unzigzag, zigzag};
use super::list_line::{BLOCK, RESIDUAL_BITS_MAX, put_residuals};

/// What a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Segmentation {
    /// 256 ids.
    Length,
    /// The ids that are the same above a number of lowest bits.
    Hash(u32),
}

impl Segmentation {
    /// Buckets of about `bucket` ids: the least m with n / b <= 2^m leading bits, of those that ids of the universe have.
    pub(super) fn hash(bucket: usize, count: usize, universe: u32) -> Segmentation {
        let id_bits = bit_length(u64::from(universe) - 1);
        let leading = count.div_ceil(bucket).next_power_of_two().trailing_zeros();
        Segmentation::Hash(id_bits - leading.min(id_bits))
    }
}

/// The bits of an id above the lowest `shift`, which may be all.
fn leading(id: u32, shift: u32) -> u32 {
    id.checked_shr(shift).unwrap_or(0)
}

/// A list that was opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentLines<'a> {
    segmentation: Segmentation,
    count: usize,
    /// Where each bucket but the first begins.
    begins: PackedArray<'a>,
    bases: PackedArray<'a>,
    slopes: PackedArray<'a>,
    ends: PackedArray<'a>,
    bytes: &'a [u8],
    /// The bit where residuals begin.
    data: usize,
}

/// Writes a list.
pub(super) fn encode(ids: &[u32], segmentation: Segmentation, bytes: &mut Vec<u8>) {
    let mut writer = BitWriter::new(bytes);
    let mut begins = vec![0];
    match segmentation {
        Segmentation::Length => begins.extend((BLOCK..ids.len()).step_by(BLOCK)),
        Segmentation::Hash(shift) => {
            let last = ids.last().map_or(0, |&last| leading(last, shift));
            begins.extend(
                (1..=last).map(|hash| ids.partition_point(|&id| leading(id, shift) < hash)),
            );
            writer.put_number(u64::from(last) + 1);
            let width = bit_length(ids.len() as u64);
            let inner = begins[1..].iter();
            inner.for_each(|&begin| writer.put(begin as u64, width));
        }
    }
    begins.push(ids.len());
    let mut lines = Vec::new();
    let mut residuals = Vec::new();
    let (mut widths, mut ends) = (Vec::new(), Vec::new());
    for (segment, bounds) in begins.windows(2).enumerate() {
        let own = &ids[bounds[0]..bounds[1]];
        let mut line = match own {
            [] => Line::default(),
            _ => Line::fit(own, SEGMENT_FRACTION),
        };
        let above = own.iter().enumerate();
        // At least 0 by the line's base.
        residuals
            .extend(above.map(|(index, &id)| line.residual(index, id, SEGMENT_FRACTION) as u64));
        let width = width_of(residuals[bounds[0]..].iter().copied());
        if let (Segmentation::Hash(shift), false) = (segmentation, own.is_empty()) {
            line.base -= (segment as i64) << shift;
        }
        let units = match segmentation {
            Segmentation::Length => u64::from(width),
            Segmentation::Hash(_) => own.len() as u64 * u64::from(width),
        };
        ends.push(ends.last().copied().unwrap_or(0) + units);
        lines.push(line);
        widths.push(width);
    }
    let bases: Vec<u64> = lines.iter().map(|line| zigzag(line.base)).collect();
    let slopes: Vec<u64> = lines.iter().map(|line| line.slope).collect();
    for numbers in [&bases, &slopes, &ends] {
        let width = width_of(numbers.iter().copied());
        writer.put(width.into(), 6);
        numbers.iter().for_each(|&number| writer.put(number, width));
    }
    for (bounds, &width) in begins.windows(2).zip(&widths) {
        let own = residuals[bounds[0]..bounds[1]].iter();
        own.for_each(|&residual| writer.put(residual, width));
    }
    writer.finish();
}

impl<'a> SegmentLines<'a> {
    pub(super) fn open(
        segmentation: Segmentation,
        bytes: &'a [u8],
        count: usize,
        universe: u32,
    ) -> Result<SegmentLines<'a>, MalformedPostings> {
        let mut input = BitInput::new(bytes);
        let (segments, begins) = match segmentation {
            Segmentation::Length => (count.div_ceil(BLOCK), input.array(0, 0)?),
            Segmentation::Hash(shift) => {
                let buckets = input.number()?;
                if buckets == 0 || buckets - 1 > leading(universe - 1, shift).into() {
                    return Err(MalformedPostings);
                }
                let buckets = buckets as usize; // 2^32 at most
                let width = bit_length(count as u64);
                (buckets, input.array(buckets - 1, width)?)
            }
        };
        let mut array = || {
            let width = input.read(6) as u32;
            input.array(segments, width)
        };
        let (bases, slopes, ends) = (array()?, array()?, array()?);
        Ok(SegmentLines {
            segmentation,
            count,
            begins,
            bases,
            slopes,
            ends,
            bytes,
            data: input.at,
        })
    }

    /// Where its residuals lie.
    pub(super) fn bit_layout(&self) -> BitLayout<'a> {
        let buckets = match self.segmentation {
            Segmentation::Length => None,
            Segmentation::Hash(shift) => Some(HashBuckets {
                begins: self.begins.place(),
                shift,
                count: self.blocks() as u32, // at most the universe
            }),
        };
        BitLayout {
            bytes: self.bytes,
            blocks: BlockLayout::SegmentLines {
                bases: self.bases.place(),
                slopes: self.slopes.place(),
                ends: self.ends.place(),
                buckets,
            },
            data: self.data as u64,
            firsts: Vec::new(),
        }
    }

    pub(super) fn blocks(&self) -> usize {
        self.bases.len()
    }

    pub(super) fn begin(&self, segment: usize) -> usize {
        match self.segmentation {
            Segmentation::Length => self.count.min(segment * BLOCK),
            Segmentation::Hash(_) if segment == 0 => 0,
            Segmentation::Hash(_) if segment > self.begins.len() => self.count,
            Segmentation::Hash(_) => self.count.min(self.begins.get(segment - 1) as usize),
        }
    }

    /// The segment that an index lies in.
    pub(super) fn block_of(&self, index: usize) -> usize {
        match self.segmentation {
            Segmentation::Length => index / BLOCK,
            Segmentation::Hash(_) => self.begins.count_while(0, |begin| begin <= index as u64),
        }
    }

    fn line(&self, segment: usize) -> Line {
        let above = match self.segmentation {
            Segmentation::Length => 0,
            Segmentation::Hash(shift) => (segment as i64) << shift,
        };
        Line {
            base: unzigzag(self.bases.get(segment)) + above,
            slope: self.slopes.get(segment),
        }
    }

    /// Where the residuals of a segment begin, and their width.
    fn slots(&self, segment: usize, count: usize) -> (usize, u64) {
        let begin = (segment.checked_sub(1)).map_or(0, |before| self.ends.get(before));
        let units = self.ends.get(segment).wrapping_sub(begin);
        let (unit, width) = match self.segmentation {
            Segmentation::Length => (BLOCK, units),
            Segmentation::Hash(_) => (1, units.checked_div(count as u64).unwrap_or(0)),
        };
        let at = (begin as usize).wrapping_mul(unit);
        (self.data.wrapping_add(at), width)
    }

    /// One id, any if bytes are damaged.
    pub(super) fn get(&self, index: usize) -> u32 {
        let segment = self.block_of(index);
        let begin = self.begin(segment);
        let count = self.begin(segment + 1).saturating_sub(begin);
        let (at, width) = self.slots(segment, count);
        let width = width.min(RESIDUAL_BITS_MAX);
        let index = index.saturating_sub(begin);
        let at = at.wrapping_add(index.wrapping_mul(width as usize));
        let residual = read_bits(self.bytes, at, width as u32) as i64;
        (self.line(segment).at(index, SEGMENT_FRACTION) + residual) as u32
    }

    /// A segment from `from` on before which all ids are less than `id`, as far as possible.
    pub(super) fn find(&self, id: u32, from: usize) -> usize {
        if let Segmentation::Hash(shift) = self.segmentation {
            return from.max(leading(id, shift) as usize).min(self.blocks());
        }
        let (mut low, mut step) = (from, 1);
        while low + step < self.blocks() && self.get((low + step) * BLOCK) <= id {
            low += step;
            step *= 2;
        }
        let mut high = self.blocks().min(low + step).max(low + 1);
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            if self.get(middle * BLOCK) <= id {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Appends the ids of a segment, which may be any if bytes are damaged.
    pub(super) fn decode(
        &self,
        segment: usize,
        ids: &mut Vec<u32>,
    ) -> Result<(), MalformedPostings> {
        let begin = self.begin(segment);
        let count = self.begin(segment + 1).checked_sub(begin);
        let count = count.ok_or(MalformedPostings)?;
        let (at, width) = self.slots(segment, count);
        let bits = (width.checked_mul(count as u64)).and_then(|bits| bits.checked_add(at as u64));
        if bits.is_none_or(|bits| bits > self.bytes.len() as u64 * 8) {
            return Err(MalformedPostings);
        }
        let line = self.line(segment);
        let fraction = SEGMENT_FRACTION;
        put_residuals(self.bytes, at, width, &line, 0, fraction, count, ids)
    }
}
