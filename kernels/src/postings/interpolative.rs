//! Binary interpolative coding (Moffat and Stuiver, 2000): the middle id first, in as many bits as the ids around it leave.
//!
//! The invariant: whatever bits are read, what comes out ascends within its bounds. Takes the fewest bits of all codecs here
//! and some five times the time of the others, so only short lists use it.

use super::bit_packing::{BitInput, BitWriter, bit_length};

/// Writes ids that ascend from `low` on, below `end`.
pub fn encode(ids: &[u32], low: u64, end: u64, writer: &mut BitWriter<'_>) {
    if ids.is_empty() || ids.len() as u64 == end - low {
        return;
    }
    let middle = ids.len() / 2;
    let id = u64::from(ids[middle]);
    let choices = end - low - ids.len() as u64 + 1;
    put_below(id - low - middle as u64, choices, writer);
    encode(&ids[..middle], low, id, writer);
    encode(&ids[middle + 1..], id + 1, end, writer);
}

/// Reads `ids.len()` ids, at most `end - low`.
pub fn decode(ids: &mut [u32], low: u64, end: u64, input: &mut BitInput<'_>) {
    if ids.is_empty() {
        return;
    }
    if ids.len() as u64 == end - low {
        for (k, id) in ids.iter_mut().enumerate() {
            // Below `end`, which is at most 2^32.
            *id = (low + k as u64) as u32;
        }
        return;
    }
    let middle = ids.len() / 2;
    let choices = end - low - ids.len() as u64 + 1;
    let id = low + middle as u64 + read_below(choices, input);
    ids[middle] = id as u32; // below `end`, which is at most 2^32
    let (left, right) = ids.split_at_mut(middle);
    decode(left, low, id, input);
    decode(&mut right[1..], id + 1, end, input);
}

/// A number below `choices`, in as many bits as there are choices or one less (truncated binary).
fn put_below(number: u64, choices: u64, writer: &mut BitWriter<'_>) {
    let width = bit_length(choices) - 1;
    let short = (2 << width) - choices;
    if number < short {
        return writer.put(number, width);
    }
    let number = number + short;
    writer.put(number >> 1, width);
    writer.put(number & 1, 1);
}

#[inline(always)]
fn read_below(choices: u64, input: &mut BitInput<'_>) -> u64 {
    let width = bit_length(choices) - 1;
    let short = (2 << width) - choices;
    let number = input.read(width);
    if number < short {
        return number;
    }
    number * 2 + input.read(1) - short
}
