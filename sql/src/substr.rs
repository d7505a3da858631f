//! The arithmetic of `substr(content, start, length)`: SQLite's rules for BLOBs.
//!
//! Invariant: the range lies within `0..size` and is never reversed. Reading the bytes is the caller's job.

use std::ops::Range;

/// The 0-based byte range that `substr(x, start, length)` takes of an `x` of `size` bytes.
///
/// `start` counts from 1; a negative `start` counts from the end; 0 is the place before the first byte, which uses up
/// one byte of `length`. A negative `length` takes the bytes before `start`. Without `length` all bytes from `start`
/// on are taken. What lies outside of `x` is cut off.
///
/// This is SQLite's rule for every argument, but one: SQLite reads a missing length as its limit of 1e9 bytes, we read
/// it as no limit.
pub fn substr_range(start: i64, length: Option<i64>, size: u64) -> Range<u64> {
    // No sum below leaves the range of i128.
    let size = i128::from(size);
    let mut first = i128::from(start);
    let mut length = length.map_or(i128::from(u64::MAX) * 4, i128::from);
    if first < 0 {
        first += size;
        if first < 0 {
            length = if length < 0 { 0 } else { length + first };
            first = 0;
        }
    } else if first > 0 {
        first -= 1;
    } else if length > 0 {
        length -= 1;
    }
    if length < 0 {
        length = first.min(-length);
        first -= length;
    }
    let begin = first.clamp(0, size);
    let end = (first + length).clamp(begin, size);
    let bound = "both ends were clamped to a u64";
    u64::try_from(begin).expect(bound)..u64::try_from(end).expect(bound)
}
