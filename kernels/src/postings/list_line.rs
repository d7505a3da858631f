//! Lists as residuals of one line: LRC and LRCSeg (Ao et al. 5.2).
//!
//! The invariant: any id is readable alone, so no residual is an exception. A list is its line, the largest residual, what the
//! widths of the residuals of blocks of 256 add up to, for LRCSeg the residual that each block begins at, and the residuals.

use super::bit_layout::{BitLayout, BlockLayout};
use super::bit_packing::{BitInput, BitWriter, PackedArray, bit_length, read_bits, unpack};
use super::codec::MalformedPostings;
use super::lines::{LIST_FRACTION, Line, unzigzag, zigzag};

/// Ids of a block.
pub const BLOCK: usize = 256;

/// Bits of a residual at most: a line may leave the universe.
pub const RESIDUAL_BITS_MAX: u64 = 36;

/// A list that was opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListLine<'a> {
    pub(super) count: usize,
    pub(super) line: Line,
    pub(super) residual_max: u64,
    ends: PackedArray<'a>,
    /// Empty for LRC.
    minima: PackedArray<'a>,
    bytes: &'a [u8],
    /// The bit where residuals begin.
    data: usize,
}

/// Writes a list; each block's residuals are above a minimum of its own if `is_local`.
pub(super) fn encode(ids: &[u32], is_local: bool, bytes: &mut Vec<u8>) {
    let line = Line::fit(ids, LIST_FRACTION);
    let residuals: Vec<u64> = (ids.iter().enumerate())
        // At least 0 by the line's base.
        .map(|(index, &id)| line.residual(index, id, LIST_FRACTION) as u64)
        .collect();
    let mut minima = Vec::new();
    let mut ends = Vec::new();
    let mut widths = Vec::new();
    for block in residuals.chunks(BLOCK) {
        let least = block.iter().min().copied().unwrap_or(0);
        let least = if is_local { least } else { 0 };
        let most = block.iter().max().copied().unwrap_or(0);
        let width = bit_length(most - least);
        minima.push(least);
        widths.push(width);
        ends.push(ends.last().copied().unwrap_or(0) + u64::from(width));
    }
    let most = residuals.iter().max().copied().unwrap_or(0);
    let mut writer = BitWriter::new(bytes);
    writer.put_number(zigzag(line.base));
    writer.put_number(line.slope);
    writer.put_number(most);
    let width = bit_length(ends.last().copied().unwrap_or(0));
    writer.put(width.into(), 6);
    ends.iter().for_each(|&end| writer.put(end, width));
    if is_local {
        let width = bit_length(minima.iter().max().copied().unwrap_or(0));
        writer.put(width.into(), 6);
        minima.iter().for_each(|&least| writer.put(least, width));
    }
    for (k, block) in residuals.chunks(BLOCK).enumerate() {
        for &residual in block {
            writer.put(residual - minima[k], widths[k]);
        }
    }
    writer.finish();
}

impl<'a> ListLine<'a> {
    pub(super) fn open(
        is_local: bool,
        bytes: &'a [u8],
        count: usize,
    ) -> Result<ListLine<'a>, MalformedPostings> {
        let mut input = BitInput::new(bytes);
        let line = Line {
            base: unzigzag(input.number()?),
            slope: input.number()?,
        };
        let residual_max = input.number()?;
        let blocks = count.div_ceil(BLOCK);
        let width = input.read(6) as u32;
        let ends = input.array(blocks, width)?;
        let minima = if is_local {
            let width = input.read(6) as u32;
            input.array(blocks, width)?
        } else {
            input.array(0, 0)?
        };
        let list = ListLine {
            count,
            line,
            residual_max,
            ends,
            minima,
            bytes,
            data: input.at,
        };
        // The last block is cut short.
        let begin = (blocks.checked_sub(2)).map_or(0, |before| ends.get(before) as usize);
        let width = ends.get(blocks - 1).checked_sub(begin as u64);
        let width = width.filter(|&width| width <= RESIDUAL_BITS_MAX);
        let width = width.ok_or(MalformedPostings)? as usize;
        let last = count - (blocks - 1) * BLOCK;
        let bits = begin.checked_mul(BLOCK).ok_or(MalformedPostings)?;
        let end = bits.checked_add(list.data + last * width);
        if end.is_some_and(|end| end <= bytes.len() * 8) {
            Ok(list)
        } else {
            Err(MalformedPostings)
        }
    }

    /// Where its residuals lie.
    pub(super) fn bit_layout(&self) -> BitLayout<'a> {
        BitLayout {
            bytes: self.bytes,
            blocks: BlockLayout::ListLine {
                base: self.line.base,
                slope: self.line.slope,
                minima: self.minima.place(),
                ends: self.ends.place(),
            },
            data: self.data as u64,
            firsts: Vec::new(),
        }
    }

    pub(super) fn blocks(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn begin(&self, block: usize) -> usize {
        self.count.min(block * BLOCK)
    }

    /// Where the residuals of a block begin, their width, and what they begin at.
    #[inline(always)]
    pub(super) fn slots(&self, block: usize) -> (usize, u64, i64) {
        let begin = block
            .checked_sub(1)
            .map_or(0, |before| self.ends.get(before));
        let width = self.ends.get(block).wrapping_sub(begin);
        let least = match self.minima.len() {
            0 => 0,
            _ => self.minima.get(block) as i64,
        };
        let at = (begin as usize).wrapping_mul(BLOCK);
        (self.data.wrapping_add(at), width, least)
    }

    /// One id, any if bytes are damaged.
    #[inline]
    pub(super) fn get(&self, index: usize) -> u32 {
        let (at, width, least) = self.slots(index / BLOCK);
        let width = width.min(RESIDUAL_BITS_MAX);
        let at = at.wrapping_add(index % BLOCK * width as usize);
        let residual = read_bits(self.bytes, at, width as u32) as i64;
        (self.line.at(index, LIST_FRACTION) + least + residual) as u32
    }

    /// The last block from `from` on that begins with `id` or less; `from` if none does.
    pub(super) fn find(&self, id: u32, from: usize) -> usize {
        let (first, end) = self
            .line
            .range(id, self.residual_max, self.count, LIST_FRACTION);
        let mut low = (first / BLOCK).saturating_sub(1).max(from);
        let mut high = (end / BLOCK + 1).min(self.blocks()).max(low + 1);
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

    /// Appends the ids of a block, which may be any if bytes are damaged.
    pub(super) fn decode(&self, block: usize, ids: &mut Vec<u32>) -> Result<(), MalformedPostings> {
        let (at, width, least) = self.slots(block);
        let first = self.begin(block);
        let count = self.begin(block + 1) - first;
        let line = Line {
            base: self.line.base.saturating_add(least),
            ..self.line
        };
        put_residuals(
            self.bytes,
            at,
            width,
            &line,
            first,
            LIST_FRACTION,
            count,
            ids,
        )
    }
}

/// Appends the ids of consecutive residuals of a line, which begin at the bit `at`; `first` is the index of the first.
#[expect(clippy::too_many_arguments, reason = "a place, a line and a range")]
pub(super) fn put_residuals(
    bytes: &[u8],
    at: usize,
    width: u64,
    line: &Line,
    first: usize,
    fraction: u32,
    count: usize,
    ids: &mut Vec<u32>,
) -> Result<(), MalformedPostings> {
    if width > RESIDUAL_BITS_MAX || at > bytes.len() * 8 {
        return Err(MalformedPostings);
    }
    let width = width as u32;
    let begin = ids.len();
    ids.resize(begin + count, 0);
    let ids = &mut ids[begin..];
    // Ids are 32 bits wide, so that sums may wrap.
    let base = line.base as u32;
    let mut along = line.slope.wrapping_mul(first as u64);
    if width <= 32 {
        unpack(bytes, at, width, ids);
        for id in ids {
            *id = id
                .wrapping_add(base)
                .wrapping_add((along >> fraction) as u32);
            along = along.wrapping_add(line.slope);
        }
        return Ok(());
    }
    for (k, id) in ids.iter_mut().enumerate() {
        let residual = read_bits(bytes, at + k * width as usize, width) as u32;
        *id = residual
            .wrapping_add(base)
            .wrapping_add((along >> fraction) as u32);
        along = along.wrapping_add(line.slope);
    }
    Ok(())
}
