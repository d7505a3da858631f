//! Partitioned Elias-Fano (Ottaviano and Venturini, SIGIR 2014).
//!
//! The invariant: a partition is its first id and, for the ids up to the next partition's first, nothing if all are there, a
//! bit set, or low bits and a unary count of high bits, whichever is least; which of them follows from how many there are.
//!
//! Partitions are chosen by dynamic programming over borders at multiples of 16 ids, so that a border takes four bits less,
//! and are 1,024 ids at most, so that seeking decodes few. Every eighth partition has the bit where it begins; sizes of those
//! between follow from their headers.

use super::bit_packing::{BitInput, BitWriter, PackedArray, bit_length, read_bits, unpack};
use super::codec::MalformedPostings;
use super::vector_join::{self, LANES};
use super::vector_unpack;

/// Ids between two places where a partition may begin.
const GRAIN: usize = 16;

/// Grains of a partition at most.
const GRAINS_MAX: usize = 64;

/// Partitions that share an offset.
const SHARED: usize = 8;

/// Bits that are read at a time.
const WORD: u32 = 56;

/// How the ids of a partition behind its first are stored.
#[derive(Clone, Copy)]
enum PartitionShape {
    All,
    BitSet,
    /// Elias-Fano; its number of low bits.
    LowBits(u32),
}

/// The shape that takes least, and its bits, for `count` of `range` ids.
#[inline(always)]
fn shape(count: u64, range: u64) -> (PartitionShape, u64) {
    if count == 0 || count == range {
        return (PartitionShape::All, 0);
    }
    let low = bit_length(range / count) - 1;
    let bits = count * u64::from(low + 1) + (range >> low);
    if range <= bits {
        (PartitionShape::BitSet, range)
    } else {
        (PartitionShape::LowBits(low), bits)
    }
}

/// Where partitions begin, in grains, and the number of grains.
fn partition(ids: &[u32], universe: u32) -> Vec<usize> {
    let grains = ids.len().div_ceil(GRAIN);
    let header = u64::from(bit_length(universe.into()) + bit_length(grains as u64)) + 2;
    // For each border, the bits of all before it and the partition that ends there.
    let mut best = vec![(0, 0)];
    for end in 1..=grains {
        let next = ids.get(end * GRAIN).copied().unwrap_or(universe);
        let count = ids.len().min(end * GRAIN);
        let begins = end.saturating_sub(GRAINS_MAX)..end;
        let cost = |begin: usize| {
            let first = ids[begin * GRAIN];
            let behind = (count - begin * GRAIN - 1) as u64;
            let (_, bits) = shape(behind, u64::from(next - first - 1));
            (best[begin].0 + bits + header, begin)
        };
        let least = begins.map(cost).min();
        best.push(least.expect("there is a grain before"));
    }
    let mut begins = vec![grains];
    let mut end = grains;
    while end > 0 {
        end = best[end].1;
        begins.push(end);
    }
    begins.reverse();
    begins
}

/// Writes a list.
pub(super) fn encode(ids: &[u32], universe: u32, bytes: &mut Vec<u8>) {
    let begins = partition(ids, universe);
    let partitions = begins.len() - 1;
    let first_of = |partition: usize| ids.get(begins[partition] * GRAIN).copied();
    let mut offsets = Vec::new();
    let mut offset = 0;
    let mut sizes = Vec::new();
    for p in 0..partitions {
        if p % SHARED == 0 && p > 0 {
            offsets.push(offset);
        }
        let first = ids[begins[p] * GRAIN];
        let range = first_of(p + 1).unwrap_or(universe) - first - 1;
        let count = ids.len().min(begins[p + 1] * GRAIN) - begins[p] * GRAIN - 1;
        let (shape, bits) = shape(count as u64, range.into());
        sizes.push((shape, bits));
        offset += bits;
    }
    let mut writer = BitWriter::new(bytes);
    writer.put_number(partitions as u64);
    let begin_width = bit_length(begins[partitions] as u64 - 1);
    (begins[1..partitions].iter()).for_each(|&begin| writer.put(begin as u64, begin_width));
    let id_width = bit_length((universe - 1).into());
    (0..partitions).for_each(|p| writer.put(ids[begins[p] * GRAIN].into(), id_width));
    let offset_width = bit_length(offsets.last().copied().unwrap_or(0));
    writer.put(offset_width.into(), 6);
    (offsets.iter()).for_each(|&offset| writer.put(offset, offset_width));
    for (p, &(shape, bits)) in sizes.iter().enumerate() {
        let own = &ids[begins[p] * GRAIN..ids.len().min(begins[p + 1] * GRAIN)];
        let behind = own[1..].iter().map(|&id| u64::from(id - own[0] - 1));
        match shape {
            PartitionShape::All => {}
            PartitionShape::BitSet => put_ones(behind, bits, &mut writer),
            PartitionShape::LowBits(low) => {
                let mask = (1 << low) - 1;
                behind.clone().for_each(|id| writer.put(id & mask, low));
                let highs = (0..).zip(behind).map(|(k, id)| (id >> low) + k);
                put_ones(
                    highs,
                    bits - own[1..].len() as u64 * u64::from(low),
                    &mut writer,
                );
            }
        }
    }
    writer.finish();
}

/// Writes a bit vector whose bits at the places are 1.
fn put_ones(places: impl Iterator<Item = u64>, bits: u64, writer: &mut BitWriter<'_>) {
    let mut at = 0;
    let mut put_zeros = |to: u64, writer: &mut BitWriter<'_>| {
        while at < to {
            let zeros = (to - at).min(WORD.into());
            writer.put(0, zeros as u32); // WORD at most
            at += zeros;
        }
        at += 1;
    };
    for place in places {
        put_zeros(place, writer);
        writer.put(1, 1);
    }
    put_zeros(bits, writer);
}

/// A list that was opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct EliasFano<'a> {
    count: usize,
    universe: u32,
    /// Where each partition but the first begins, in grains.
    begins: PackedArray<'a>,
    firsts: PackedArray<'a>,
    offsets: PackedArray<'a>,
    bytes: &'a [u8],
    /// The bit where partitions begin.
    data: usize,
}

impl<'a> EliasFano<'a> {
    pub(super) fn open(
        bytes: &'a [u8],
        count: usize,
        universe: u32,
    ) -> Result<EliasFano<'a>, MalformedPostings> {
        let mut input = BitInput::new(bytes);
        let partitions = input.number()?;
        let grains = count.div_ceil(GRAIN);
        if partitions == 0 || partitions > grains as u64 {
            return Err(MalformedPostings);
        }
        let partitions = partitions as usize; // at most `grains`
        let begins = input.array(partitions - 1, bit_length(grains as u64 - 1))?;
        let firsts = input.array(partitions, bit_length((universe - 1).into()))?;
        let width = input.read(6) as u32;
        let offsets = input.array((partitions - 1) / SHARED, width)?;
        Ok(EliasFano {
            count,
            universe,
            begins,
            firsts,
            offsets,
            bytes,
            data: input.at,
        })
    }

    pub(super) fn blocks(&self) -> usize {
        self.firsts.len()
    }

    /// The index of the first id of a partition.
    pub(super) fn begin(&self, partition: usize) -> usize {
        match partition {
            0 => 0,
            _ if partition > self.begins.len() => self.count,
            _ => self
                .count
                .min(self.begins.get(partition - 1) as usize * GRAIN),
        }
    }

    /// The partition that an index lies in.
    pub(super) fn block_of(&self, index: usize) -> usize {
        let grain = (index / GRAIN) as u64;
        self.begins.count_while(0, |begin| begin <= grain)
    }

    /// The last partition from `from` on that begins with `id` or less; `from` if none does.
    pub(super) fn find(&self, id: u32, from: usize) -> usize {
        let before = |first| first <= u64::from(id);
        (from + self.firsts.count_while(from, before)).max(from + 1) - 1
    }

    /// The first id of a partition, how many follow, and how many may.
    fn header(&self, partition: usize) -> Result<(u64, u64, u64), MalformedPostings> {
        let first = self.firsts.get(partition);
        let next = if partition + 1 < self.firsts.len() {
            self.firsts.get(partition + 1)
        } else {
            self.universe.into()
        };
        let range = next.checked_sub(first + 1);
        let ids = self
            .begin(partition + 1)
            .checked_sub(self.begin(partition) + 1);
        match (range, ids) {
            (Some(range), Some(ids)) if ids as u64 <= range => Ok((first, ids as u64, range)),
            _ => Err(MalformedPostings),
        }
    }

    /// Appends the ids of a partition, which may be any if bytes are damaged.
    pub(super) fn decode(
        &self,
        partition: usize,
        ids: &mut Vec<u32>,
    ) -> Result<(), MalformedPostings> {
        let shared = partition / SHARED;
        let offset = shared
            .checked_sub(1)
            .map_or(0, |index| self.offsets.get(index));
        let mut at = self.data as u64 + offset;
        for before in shared * SHARED..partition {
            let (_, count, range) = self.header(before)?;
            at += shape(count, range).1;
        }
        self.decode_at(partition, at, ids).map(|_| ())
    }

    /// Appends all ids, which may be any if bytes are damaged: partitions follow each other, so no header is read twice.
    pub(super) fn decode_all(&self, ids: &mut Vec<u32>) -> Result<(), MalformedPostings> {
        let mut at = self.data as u64;
        for partition in 0..self.blocks() {
            at = self.decode_at(partition, at, ids)?;
        }
        Ok(())
    }

    /// Appends the ids of a partition that begins at a bit, and gives where it ends.
    #[inline(always)]
    fn decode_at(
        &self,
        partition: usize,
        at: u64,
        ids: &mut Vec<u32>,
    ) -> Result<u64, MalformedPostings> {
        let (first, count, range) = self.header(partition)?;
        let (shape, bits) = shape(count, range);
        let end = at + bits;
        if end > self.bytes.len() as u64 * 8 {
            return Err(MalformedPostings);
        }
        let behind = Behind {
            shape,
            at: at as usize, // a bit of the bytes
            bits,
            count: count as usize,
            first: first as u32 + 1, // below the universe
        };
        ids.push(first as u32);
        if vector_unpack::is_there() {
            behind.append_by_vectors(self.bytes, ids)?
        } else {
            behind.append(self.bytes, ids)?
        }
        Ok(end)
    }
}

/// The ids of a partition behind its first.
#[derive(Clone, Copy)]
struct Behind {
    shape: PartitionShape,
    at: usize,
    bits: u64,
    count: usize,
    /// What the least of them may be.
    first: u32,
}

impl Behind {
    /// Appends them.
    #[inline(always)]
    fn append(self, bytes: &[u8], ids: &mut Vec<u32>) -> Result<(), MalformedPostings> {
        let (at, count, first) = (self.at, self.count, self.first);
        let begin = ids.len();
        ids.resize(begin + count, 0);
        let ids = &mut ids[begin..];
        match self.shape {
            PartitionShape::All => {
                let all = (first..).zip(ids);
                all.for_each(|(id, place)| *place = id);
                Ok(())
            }
            PartitionShape::BitSet => {
                read_ones(bytes, at, self.bits, ids, |_, place, _| first + place)
            }
            PartitionShape::LowBits(low) => {
                unpack(bytes, at, low, ids);
                let lows = count * low as usize;
                // At least k, which are the ones before.
                let id = |k, place: u32, bits| first.wrapping_add((place - k) << low | bits);
                read_ones(bytes, at + lows, self.bits - lows as u64, ids, id)
            }
        }
    }

    /// The same by vectors, where these are there.
    #[inline(always)]
    fn append_by_vectors(self, bytes: &[u8], ids: &mut Vec<u32>) -> Result<(), MalformedPostings> {
        let (at, count, first) = (self.at, self.count, self.first);
        if matches!(self.shape, PartitionShape::All) {
            return self.append(bytes, ids);
        }
        let begin = ids.len();
        ids.resize(begin + count + 2 * LANES, 0);
        let own = &mut ids[begin..];
        let joined = match self.shape {
            PartitionShape::LowBits(low) => {
                unpack(bytes, at, low, &mut own[LANES..LANES + count]);
                let lows = count * low as usize;
                let (highs, low) = (self.bits - lows as u64, Some(low));
                vector_join::join_bits(bytes, at + lows, highs, (own, count), (first, low))
            }
            _ => vector_join::join_bits(bytes, at, self.bits, (own, count), (first, None)),
        };
        ids.truncate(begin + count);
        joined
    }
}

/// Replaces all of `ids` by what `id` makes of its index, the place of the one of this index, and what was there.
#[inline(always)]
fn read_ones(
    bytes: &[u8],
    at: usize,
    bits: u64,
    ids: &mut [u32],
    id: impl Fn(u32, u32, u32) -> u32,
) -> Result<(), MalformedPostings> {
    let mut k = 0;
    for begin in (0..bits).step_by(WORD as usize) {
        let width = (bits - begin).min(WORD.into()) as u32;
        let mut word = read_bits(bytes, at + begin as usize, width);
        let ones = word.count_ones() as usize;
        let places = ids.get_mut(k..k + ones).ok_or(MalformedPostings)?;
        for (index, place) in (k as u32..).zip(places) {
            *place = id(index, begin as u32 + word.trailing_zeros(), *place);
            word &= word.wrapping_sub(1);
        }
        k += ones;
    }
    if k == ids.len() {
        Ok(())
    } else {
        Err(MalformedPostings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::construct::pairs::mix;

    #[test]
    fn vectors_and_loops_give_the_same_ids() {
        if !vector_unpack::is_there() {
            eprintln!("skipped: no AVX-512");
            return;
        }
        for round in 0..3_000u64 {
            let bytes: Vec<u8> = (0..600).map(|at| mix(at ^ round << 9) as u8).collect();
            let count = mix(round) % 300 + 1;
            // Bits that say something else than the count are damaged.
            let range = count + mix(round ^ 1 << 40) % (count << (round % 9));
            let (shape, bits) = shape(count, range);
            let behind = Behind {
                shape,
                at: (round % 67) as usize,
                bits,
                count: count as usize,
                first: 5,
            };
            let mut bytes = bytes;
            if round % 2 == 0 {
                put_highs(&mut bytes, behind, range);
            }
            let [mut left, mut right] = [vec![7], vec![7]];
            let by_loops = behind.append(&bytes, &mut left);
            let by_vectors = behind.append_by_vectors(&bytes, &mut right);
            assert_eq!(by_loops, by_vectors, "{round}");
            if by_loops.is_ok() {
                assert_eq!(left, right, "{round}");
            }
            assert!(round % 2 == 1 || by_loops.is_ok(), "{round}");
        }
    }

    /// Makes as many of the bits of places ones as there are ids.
    fn put_highs(bytes: &mut [u8], behind: Behind, range: u64) {
        let (at, places) = match behind.shape {
            PartitionShape::All => return,
            PartitionShape::BitSet => (behind.at, range),
            PartitionShape::LowBits(low) => {
                let lows = behind.count * low as usize;
                (behind.at + lows, behind.bits - lows as u64)
            }
        };
        for place in 0..places as usize {
            // Spread over all places.
            let count = behind.count as u64;
            let is_one = (place as u64 + 1) * count / places > place as u64 * count / places;
            let (byte, bit) = ((at + place) / 8, (at + place) % 8);
            bytes[byte] = bytes[byte] & !(1 << bit) | u8::from(is_one) << bit;
        }
    }
}
