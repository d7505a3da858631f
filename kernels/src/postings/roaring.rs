//! Roaring containers: for each 65,536 ids of the universe an array of 16-bit numbers, a bit set or runs (Lemire et al.,
//! 2016).
//!
//! The invariant: a container is of the kind that takes fewest bytes. Containers are those of the portable format, its
//! headers are not: it stores keys, counts and offsets of containers in 16 bytes or more even of a list that has one
//! container, where the count and the universe are known and nothing but the kind has to be stored.

use super::bit_packing::{BitInput, BitWriter, PackedArray, bit_length, width_of};
use super::codec::MalformedPostings;

/// Low bits of an id, which its container stores.
const LOW_BITS: u32 = 16;

/// How a container stores ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContainerKind {
    Array,
    BitSet,
    /// First and last of each run.
    Runs,
}

/// A list that was opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoaringList<'a> {
    count: usize,
    universe: u32,
    kinds: PackedArray<'a>,
    /// The index of the first id of each container but the first.
    begins: PackedArray<'a>,
    /// Where each container but the last ends.
    ends: PackedArray<'a>,
    data: &'a [u8],
}

/// Writes a list.
pub(super) fn encode(ids: &[u32], universe: u32, bytes: &mut Vec<u8>) {
    let containers = (universe - 1) >> LOW_BITS;
    let begin_of = |high: u32| ids.partition_point(|&id| id >> LOW_BITS < high);
    let begins: Vec<usize> = (0..=containers).map(begin_of).chain([ids.len()]).collect();
    let mut data = Vec::new();
    let mut kinds = Vec::new();
    let mut ends = Vec::new();
    for (high, bounds) in (0..).zip(begins.windows(2)) {
        let own = &ids[bounds[0]..bounds[1]];
        let last = (universe - 1 - (high << LOW_BITS)).min(u16::MAX.into());
        kinds.push(put_container(own, last, &mut data));
        ends.push(data.len() as u64);
    }
    ends.pop();
    let mut writer = BitWriter::new(bytes);
    kinds.iter().for_each(|&kind| writer.put(kind as u64, 2));
    let width = bit_length(ids.len() as u64);
    let inner = &begins[1..begins.len() - 1];
    inner
        .iter()
        .for_each(|&begin| writer.put(begin as u64, width));
    let width = width_of(ends.iter().copied());
    writer.put(width.into(), 6);
    ends.iter().for_each(|&end| writer.put(end, width));
    writer.finish();
    bytes.extend_from_slice(&data);
}

/// Appends a container of ids whose low bits are `last` at most.
fn put_container(ids: &[u32], last: u32, data: &mut Vec<u8>) -> ContainerKind {
    let breaks = ids.windows(2).filter(|pair| pair[1] - pair[0] > 1).count();
    let runs = breaks + usize::from(!ids.is_empty());
    let sizes = [
        (ids.len() * 2, ContainerKind::Array),
        (last as usize / 8 + 1, ContainerKind::BitSet),
        (runs * 4, ContainerKind::Runs),
    ];
    let (size, kind) = sizes
        .into_iter()
        .min_by_key(|&(size, _)| size)
        .expect("three");
    let put = |data: &mut Vec<u8>, id: u32| data.extend((id as u16).to_le_bytes());
    match kind {
        ContainerKind::Array => ids.iter().for_each(|&id| put(data, id)),
        ContainerKind::BitSet => {
            let begin = data.len();
            data.resize(begin + size, 0);
            for &id in ids {
                let low = usize::from(id as u16);
                data[begin + low / 8] |= 1 << (low % 8);
            }
        }
        ContainerKind::Runs => {
            for run in ids.chunk_by(|a, b| b - a == 1) {
                put(data, run[0]);
                put(data, run[run.len() - 1]);
            }
        }
    }
    kind
}

impl<'a> RoaringList<'a> {
    pub(super) fn open(
        bytes: &'a [u8],
        count: usize,
        universe: u32,
    ) -> Result<RoaringList<'a>, MalformedPostings> {
        let mut input = BitInput::new(bytes);
        let containers = ((universe - 1) >> LOW_BITS) as usize + 1;
        let kinds = input.array(containers, 2)?;
        let begins = input.array(containers - 1, bit_length(count as u64))?;
        let width = input.read(6) as u32;
        let ends = input.array(containers - 1, width)?;
        Ok(RoaringList {
            count,
            universe,
            kinds,
            begins,
            ends,
            data: &bytes[input.at.div_ceil(8).min(bytes.len())..],
        })
    }

    pub(super) fn blocks(&self) -> usize {
        self.kinds.len()
    }

    pub(super) fn begin(&self, container: usize) -> usize {
        match container {
            0 => 0,
            _ if container > self.begins.len() => self.count,
            _ => self.count.min(self.begins.get(container - 1) as usize),
        }
    }

    /// The container that an index lies in.
    pub(super) fn block_of(&self, index: usize) -> usize {
        self.begins.count_while(0, |begin| begin <= index as u64)
    }

    /// The container of an id, from `from` on.
    pub(super) fn find(&self, id: u32, from: usize) -> usize {
        from.max((id >> LOW_BITS) as usize).min(self.blocks())
    }

    /// Appends the ids of a container, which may be any if bytes are damaged.
    pub(super) fn decode(
        &self,
        container: usize,
        ids: &mut Vec<u32>,
    ) -> Result<(), MalformedPostings> {
        let count = (self.begin(container + 1)).checked_sub(self.begin(container));
        let count = count.ok_or(MalformedPostings)?;
        let end_of = |container| self.ends.get(container) as usize; // 57 bits at most
        let begin = container.checked_sub(1).map_or(0, end_of);
        let end = if container + 1 == self.blocks() {
            self.data.len()
        } else {
            end_of(container)
        };
        let data = self.data.get(begin..end).ok_or(MalformedPostings)?;
        let high = (container as u32) << LOW_BITS;
        let expected = ids.len() + count;
        match self.kinds.get(container) {
            0 => {
                let (numbers, _) = data.as_chunks::<2>();
                let numbers = numbers.iter().take(count);
                ids.extend(numbers.map(|&low| high | u32::from(u16::from_le_bytes(low))));
            }
            1 => {
                let last = (self.universe - 1 - high).min(u16::MAX.into()) as usize;
                let data = data.get(..last / 8 + 1).ok_or(MalformedPostings)?;
                for (first, word) in (0..).step_by(64).zip(data.chunks(8)) {
                    let mut bytes = [0; 8];
                    bytes[..word.len()].copy_from_slice(word);
                    let mut word = u64::from_le_bytes(bytes);
                    if ids.len() + word.count_ones() as usize > expected {
                        return Err(MalformedPostings);
                    }
                    while word > 0 {
                        ids.push(high | first | word.trailing_zeros());
                        word &= word - 1;
                    }
                }
            }
            2 => {
                for run in data.as_chunks::<4>().0 {
                    let number = |k: usize| u32::from(u16::from_le_bytes([run[k], run[k + 1]]));
                    let (first, last) = (number(0), number(2));
                    if first > last || ids.len() + (last - first) as usize >= expected {
                        return Err(MalformedPostings);
                    }
                    ids.extend((high | first)..=(high | last));
                }
            }
            _ => return Err(MalformedPostings),
        }
        if ids.len() == expected {
            Ok(())
        } else {
            Err(MalformedPostings)
        }
    }
}
