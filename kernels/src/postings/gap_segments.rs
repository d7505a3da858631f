//! Segments of at most 64 numbers that are mostly small: PForDelta, NewPFD and ParaPFor (Ao et al. 5.1, appendix D).
//!
//! The invariant: decoding gives the numbers that were encoded, and on other bits an error or any numbers, never a panic. A
//! segment says how wide it is and which numbers are exceptions, not how many numbers it has.
//!
//! All share a header: the width b of a slot in 6 bits, and how many exceptions there are in 7. Without exceptions the slots
//! follow at once. Widths of what belongs to exceptions are bit lengths: the logarithms of the paper are one short at powers
//! of two.

use super::bit_packing::{BitInput, BitWriter, bit_length, unpack, width_of};
use super::codec::MalformedPostings;
use super::simple16;

/// Numbers of a segment at most.
pub const SEGMENT: usize = 64;

/// Numbers of a segment that may be exceptions, in percent.
pub(super) const EXCEPTIONS_MAX: usize = 60;

/// Bits of the fields of a header.
const WIDTH_BITS: u32 = 6;
const COUNT_BITS: u32 = 7;
const INDEX_BITS: u32 = 6;

/// How exceptions are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exceptions {
    /// Their slots are a linked list, their values stand behind the slots.
    Linked,
    /// Their slots have the low bits; positions and the rest are coded by Simple-16.
    Simple16,
    /// Their slots have the low bits; positions and the rest are plain arrays.
    Arrays,
}

/// One way to write a segment.
struct SegmentPlan {
    width: u32,
    /// Indices of the exceptions, ascending.
    exceptions: Vec<u32>,
    size: usize,
}

/// Writes a segment with the slot width that takes fewest bits while at most `exceptions_max` percent are exceptions.
pub(super) fn encode(
    numbers: &[u32],
    kind: Exceptions,
    exceptions_max: usize,
    writer: &mut BitWriter<'_>,
) {
    let widest = numbers
        .iter()
        .map(|&number| bit_length(number.into()))
        .max();
    let widest = widest.unwrap_or(0);
    let plans = (0..=widest).rev().map(|width| plan(numbers, kind, width));
    let allowed = numbers.len() * exceptions_max / 100;
    // Wide slots come first, and have no exceptions.
    let plans = plans.take_while(|plan| plan.exceptions.len() <= allowed);
    let plan = plans.min_by_key(|plan| plan.size);
    let plan = plan.expect("the widest slots need no exceptions");
    writer.put(u64::from(plan.width), WIDTH_BITS);
    writer.put(plan.exceptions.len() as u64, COUNT_BITS);
    match kind {
        Exceptions::Linked => put_linked(numbers, &plan, writer),
        Exceptions::Simple16 | Exceptions::Arrays => put_split(numbers, kind, &plan, writer),
    }
}

/// What does not fit into slots of `width` bits, and bits of the segment.
fn plan(numbers: &[u32], kind: Exceptions, width: u32) -> SegmentPlan {
    let exceeds = |number: u32| u64::from(number) >> width > 0;
    let mut exceptions = Vec::new();
    for (index, &number) in (0..).zip(numbers) {
        let last = exceptions.last().copied();
        // A distance that its slot cannot hold forces an exception in between.
        let is_forced = kind == Exceptions::Linked
            && last.is_some_and(|last: u32| {
                let reach = 1 << width.min(INDEX_BITS);
                index - last == reach
                    && (numbers[index as usize..].iter()).any(|&number| exceeds(number))
            });
        if exceeds(number) || is_forced {
            exceptions.push(index);
        }
    }
    let slots = numbers.len() * width as usize;
    let extra = match (kind, exceptions.is_empty()) {
        (_, true) => 0,
        (Exceptions::Linked, _) => {
            let wide = width_of(of(numbers, &exceptions)) as usize;
            (INDEX_BITS + WIDTH_BITS) as usize + exceptions.len() * wide
        }
        (Exceptions::Arrays, _) => {
            let (index, high) = array_widths(numbers, &exceptions, width);
            (3 + WIDTH_BITS) as usize + exceptions.len() * (index + high) as usize
        }
        (Exceptions::Simple16, _) => {
            let (distances, highs) = distances_and_highs(numbers, &exceptions, width);
            if highs.iter().all(|&high| u64::from(high) < simple16::END) {
                32 * (simple16::words(&distances) + simple16::words(&highs))
            } else {
                usize::MAX / 2
            }
        }
    };
    SegmentPlan {
        width,
        exceptions,
        size: slots + extra,
    }
}

/// The numbers at some indices.
fn of(numbers: &[u32], indices: &[u32]) -> impl Iterator<Item = u64> {
    let at = |&index: &u32| u64::from(numbers[index as usize]);
    indices.iter().map(at)
}

/// Bits of an index of an exception, and of what its slot does not hold; both 0 without exceptions.
fn array_widths(numbers: &[u32], exceptions: &[u32], width: u32) -> (u32, u32) {
    let index = bit_length(exceptions.last().copied().unwrap_or(0).into());
    let wide = width_of(of(numbers, exceptions));
    (index, wide.saturating_sub(width))
}

/// Distances between exceptions, less 1, and what their slots do not hold.
fn distances_and_highs(numbers: &[u32], exceptions: &[u32], width: u32) -> (Vec<u32>, Vec<u32>) {
    let mut next = 0;
    let distance = |&index: &u32| index - std::mem::replace(&mut next, index + 1);
    let distances = exceptions.iter().map(distance).collect();
    // Slots of 32 bits have no exceptions.
    let highs = of(numbers, exceptions).map(|number| (number >> width) as u32);
    (distances, highs.collect())
}

fn put_linked(numbers: &[u32], plan: &SegmentPlan, writer: &mut BitWriter<'_>) {
    let SegmentPlan {
        width, exceptions, ..
    } = plan;
    let wide = width_of(of(numbers, exceptions));
    if let Some(&first) = exceptions.first() {
        writer.put(u64::from(first), INDEX_BITS);
        writer.put(u64::from(wide), WIDTH_BITS);
    }
    let mut rest = exceptions.iter().copied().peekable();
    for (index, &number) in (0..).zip(numbers) {
        let slot = match rest.next_if_eq(&index) {
            // The last has no next, so any distance does.
            Some(_) => rest.peek().map_or(0, |next| next - index - 1),
            None => number,
        };
        writer.put(u64::from(slot), *width);
    }
    of(numbers, exceptions).for_each(|number| writer.put(number, wide));
}

fn put_split(numbers: &[u32], kind: Exceptions, plan: &SegmentPlan, writer: &mut BitWriter<'_>) {
    let SegmentPlan {
        width, exceptions, ..
    } = plan;
    let (index_width, high_width) = array_widths(numbers, exceptions, *width);
    if kind == Exceptions::Arrays && !exceptions.is_empty() {
        writer.put(u64::from(index_width), 3);
        writer.put(u64::from(high_width), WIDTH_BITS);
    }
    for &number in numbers {
        let low = u64::from(number) & ((1 << width) - 1);
        writer.put(low, *width);
    }
    let (distances, highs) = distances_and_highs(numbers, exceptions, *width);
    if kind == Exceptions::Simple16 {
        simple16::encode(&distances, writer);
        simple16::encode(&highs, writer);
        return;
    }
    for &index in exceptions {
        writer.put(u64::from(index), index_width);
    }
    for high in highs {
        writer.put(u64::from(high), high_width);
    }
}

/// Reads a segment of `numbers.len()` numbers.
pub(super) fn decode(
    numbers: &mut [u32],
    kind: Exceptions,
    input: &mut BitInput<'_>,
) -> Result<(), MalformedPostings> {
    let width = input.read(WIDTH_BITS) as u32;
    let count = input.read(COUNT_BITS) as usize;
    if width > 32 || count > numbers.len() || (width == 32 && count > 0) {
        return Err(MalformedPostings);
    }
    let (first, wide) = match (kind, count) {
        (_, 0) | (Exceptions::Simple16, _) => (0, 0),
        (Exceptions::Linked, _) => (input.read(INDEX_BITS), input.read(WIDTH_BITS) as u32),
        (Exceptions::Arrays, _) => (input.read(3), input.read(WIDTH_BITS) as u32),
    };
    if wide > 32 {
        return Err(MalformedPostings);
    }
    unpack(input.bytes, input.at, width, numbers);
    input.at += numbers.len() * width as usize;
    if count == 0 {
        return input.check_end();
    }
    match kind {
        Exceptions::Linked => {
            let mut index = first as usize;
            for _ in 0..count {
                let slot = numbers.get_mut(index).ok_or(MalformedPostings)?;
                let number = input.read(wide) as u32; // 32 bits at most
                index += std::mem::replace(slot, number) as usize + 1;
            }
        }
        Exceptions::Simple16 => {
            let (mut distances, mut highs) = ([0; SEGMENT], [0; SEGMENT]);
            simple16::decode(&mut distances[..count], input)?;
            simple16::decode(&mut highs[..count], input)?;
            let mut next = 0;
            for (&distance, &high) in distances.iter().zip(&highs).take(count) {
                let index = next + distance as usize;
                *numbers.get_mut(index).ok_or(MalformedPostings)? |= high << width;
                next = index + 1;
            }
        }
        Exceptions::Arrays => {
            let mut highs = BitInput {
                at: input.at + count * first as usize,
                ..*input
            };
            for _ in 0..count {
                let index = input.read(first as u32) as usize; // 7 at most
                let high = highs.read(wide) as u32; // 32 bits at most
                *numbers.get_mut(index).ok_or(MalformedPostings)? |= high << width;
            }
            input.at = highs.at;
        }
    }
    input.check_end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::construct::pairs::mix;

    #[test]
    fn segments_come_back_whatever_share_may_be_exceptions() {
        let kinds = [Exceptions::Linked, Exceptions::Simple16, Exceptions::Arrays];
        for kind in kinds {
            for count in [0, 1, 2, 31, 63, 64] {
                for exceptions_max in [0, 10, 20, 60] {
                    for seed in 0..60 {
                        let number = |i| {
                            let x = mix(i + seed * 1000);
                            let bits = if x % 7 < seed % 5 {
                                seed % 33
                            } else {
                                seed % 4
                            };
                            (mix(x) & ((1u64 << bits) - 1)) as u32
                        };
                        let numbers: Vec<u32> = (0..count).map(number).collect();
                        let mut bytes = Vec::new();
                        let mut writer = BitWriter::new(&mut bytes);
                        encode(&numbers, kind, exceptions_max, &mut writer);
                        writer.finish();
                        let mut decoded = vec![0; numbers.len()];
                        let mut input = BitInput::new(&bytes);
                        decode(&mut decoded, kind, &mut input).expect("was encoded");
                        assert_eq!(decoded, numbers, "{kind:?} {exceptions_max} {seed}");
                        assert_eq!(input.at.div_ceil(8), bytes.len());
                    }
                }
            }
        }
    }

    #[test]
    fn exceptions_make_a_segment_with_one_large_number_small() {
        let mut numbers = [1; 64];
        numbers[50] = 1 << 20;
        for kind in [Exceptions::Linked, Exceptions::Simple16, Exceptions::Arrays] {
            let size = |exceptions_max| {
                let mut bytes = Vec::new();
                let mut writer = BitWriter::new(&mut bytes);
                encode(&numbers, kind, exceptions_max, &mut writer);
                writer.finish();
                bytes.len()
            };
            assert!(size(60) < 20);
            assert!(size(0) > 160);
        }
    }
}
