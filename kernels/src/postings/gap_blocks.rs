//! Lists as gaps, in blocks that are found by their first ids: PFD, NewPFD, ParaPFD and BP128.
//!
//! The invariant: a block decodes alone. A list is the first id of each block in as many bits as the universe needs, where
//! each block but the last ends, and the blocks, which begin at bytes. Gaps are stored less 1, since ids ascend.

use std::ops::Range;

use bitpacking::{BitPacker, BitPacker4x};

use super::bit_layout::{BitLayout, BlockLayout};
use super::bit_packing::{BitInput, BitWriter, PackedArray, bit_length};
use super::codec::MalformedPostings;
use super::gap_segments::{self, EXCEPTIONS_MAX, Exceptions, SEGMENT};
use super::interpolative;

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GapCoding {
    /// 256 ids: gaps in segments of 64.
    Segments(Exceptions),
    /// 128 ids, vertically in vectors of four; what is left over is interpolative.
    Vectors,
}

impl GapCoding {
    fn block(self) -> usize {
        match self {
            GapCoding::Segments(_) => 4 * SEGMENT,
            GapCoding::Vectors => BitPacker4x::BLOCK_LEN,
        }
    }
}

/// A list that was opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct GapBlocks<'a> {
    coding: GapCoding,
    count: usize,
    universe: u32,
    firsts: PackedArray<'a>,
    ends: PackedArray<'a>,
    data: &'a [u8],
}

/// Writes a list; exceptions are at most the given percentage.
pub(super) fn encode(
    ids: &[u32],
    universe: u32,
    coding: GapCoding,
    exceptions_max: usize,
    bytes: &mut Vec<u8>,
) {
    let mut data = Vec::new();
    let mut ends = Vec::new();
    for block in ids.chunks(coding.block()) {
        match coding {
            GapCoding::Segments(kind) => {
                let gaps: Vec<u32> = block.windows(2).map(|pair| pair[1] - pair[0] - 1).collect();
                let mut writer = BitWriter::new(&mut data);
                for segment in gaps.chunks(SEGMENT) {
                    gap_segments::encode(segment, kind, exceptions_max, &mut writer);
                }
                writer.finish();
            }
            GapCoding::Vectors if block.len() == BitPacker4x::BLOCK_LEN => {
                let packer = BitPacker4x::new();
                let initial = block[0].checked_sub(1);
                let width = packer.num_bits_strictly_sorted(initial, block);
                let begin = data.len();
                data.resize(begin + BitPacker4x::compressed_block_size(width), 0);
                packer.compress_strictly_sorted(initial, block, &mut data[begin..], width);
            }
            GapCoding::Vectors => {
                let mut writer = BitWriter::new(&mut data);
                let low = u64::from(block[0]) + 1;
                interpolative::encode(&block[1..], low, universe.into(), &mut writer);
                writer.finish();
            }
        }
        ends.push(data.len() as u64);
    }
    ends.pop();
    let mut writer = BitWriter::new(bytes);
    for &first in ids.iter().step_by(coding.block()) {
        writer.put(first.into(), bit_length((universe - 1).into()));
    }
    let end_width = bit_length(ends.last().copied().unwrap_or(0));
    writer.put(end_width.into(), 6);
    ends.iter().for_each(|&end| writer.put(end, end_width));
    writer.finish();
    bytes.extend_from_slice(&data);
}

/// Writes a list with the share of exceptions that takes least.
pub(super) fn encode_least(ids: &[u32], universe: u32, coding: GapCoding, bytes: &mut Vec<u8>) {
    encode(ids, universe, coding, EXCEPTIONS_MAX, bytes);
}

impl<'a> GapBlocks<'a> {
    pub(super) fn open(
        coding: GapCoding,
        bytes: &'a [u8],
        count: usize,
        universe: u32,
    ) -> Result<GapBlocks<'a>, MalformedPostings> {
        let mut input = BitInput::new(bytes);
        let blocks = count.div_ceil(coding.block());
        let firsts = input.array(blocks, bit_length((universe - 1).into()))?;
        let width = input.read(6) as u32;
        let ends = input.array(blocks - 1, width)?;
        let data = &bytes[input.at.div_ceil(8)..];
        Ok(GapBlocks {
            coding,
            count,
            universe,
            firsts,
            ends,
            data,
        })
    }

    /// Where its gaps lie; none if they are not segments that a kernel reads.
    pub(super) fn bit_layout(&self) -> Option<BitLayout<'a>> {
        if self.coding != GapCoding::Segments(Exceptions::Arrays) {
            return None;
        }
        let bytes = self.firsts.bytes();
        Some(BitLayout {
            bytes,
            blocks: BlockLayout::Gaps {
                ends: self.ends.place(),
            },
            data: (bytes.len() - self.data.len()) as u64 * 8,
            firsts: Vec::new(),
        })
    }

    /// The first id of a block.
    pub(super) fn first_of(&self, block: usize) -> u32 {
        self.firsts.get(block) as u32 // 32 bits at most
    }

    pub(super) fn blocks(&self) -> usize {
        self.firsts.len()
    }

    /// The index of the first id of a block.
    pub(super) fn begin(&self, block: usize) -> usize {
        self.count.min(block * self.coding.block())
    }

    /// The block that an index lies in.
    pub(super) fn block_of(&self, index: usize) -> usize {
        index / self.coding.block()
    }

    /// The last block from `from` on that begins with `id` or less; `from` if none does.
    pub(super) fn find(&self, id: u32, from: usize) -> usize {
        let before = |first| first <= u64::from(id);
        (from + self.firsts.count_while(from, before)).max(from + 1) - 1
    }

    /// Bytes of a block.
    fn range(&self, block: usize) -> Range<usize> {
        let end_of = |block| self.ends.get(block) as usize; // 57 bits at most
        let begin = block.checked_sub(1).map_or(0, end_of);
        let is_last = block + 1 == self.blocks();
        begin..if is_last {
            self.data.len()
        } else {
            end_of(block)
        }
    }

    /// Appends the ids of a block, which may be any if bytes are damaged.
    pub(super) fn decode(&self, block: usize, ids: &mut Vec<u32>) -> Result<(), MalformedPostings> {
        let count = self.begin(block + 1) - self.begin(block);
        let first = self.first_of(block);
        let data = self.data.get(self.range(block)).ok_or(MalformedPostings)?;
        let begin = ids.len();
        ids.resize(begin + count, first);
        let ids = &mut ids[begin..];
        match self.coding {
            GapCoding::Segments(kind) => {
                let mut input = BitInput::new(data);
                for segment in ids[1..].chunks_mut(SEGMENT) {
                    gap_segments::decode(segment, kind, &mut input)?;
                }
                let mut last = first;
                for id in &mut ids[1..] {
                    last = last.wrapping_add(*id).wrapping_add(1);
                    *id = last;
                }
            }
            GapCoding::Vectors if count == BitPacker4x::BLOCK_LEN => {
                let width = data.len() / BitPacker4x::compressed_block_size(1);
                if width > 32 {
                    return Err(MalformedPostings);
                }
                let initial = first.checked_sub(1);
                let packer = BitPacker4x::new();
                packer.decompress_strictly_sorted(initial, data, ids, width as u8);
            }
            GapCoding::Vectors => {
                let low = u64::from(first) + 1;
                let end = u64::from(self.universe);
                if (count as u64) > (end + 1).saturating_sub(low) {
                    return Err(MalformedPostings);
                }
                let mut input = BitInput::new(data);
                interpolative::decode(&mut ids[1..], low, end, &mut input);
                input.check_end()?;
            }
        }
        Ok(())
    }
}
