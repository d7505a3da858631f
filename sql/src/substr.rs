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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn ranges_are_those_of_sqlite() {
        let mut checked = 0;
        for line in include_str!("../tests/substr_sqlite.txt").lines() {
            if line.starts_with('#') {
                continue;
            }
            let fields: Vec<&str> = line.split(' ').collect();
            let [size, start, length, result] = fields[..] else {
                panic!("{line}")
            };
            let length = (length != "-").then(|| length.parse().unwrap());
            let range = substr_range(start.parse().unwrap(), length, size.parse().unwrap());
            let bytes: String = range.map(|index| format!("{:02X}", index + 1)).collect();
            assert_eq!(bytes, result.trim_matches('-'), "{line}");
            checked += 1;
        }
        assert_eq!(checked, 3 * 15 * 16);
    }

    #[test]
    fn a_missing_length_means_all_bytes_of_the_largest_file() {
        assert_eq!(substr_range(1, None, u64::MAX), 0..u64::MAX);
        assert_eq!(substr_range(0, None, u64::MAX), 0..u64::MAX);
        assert_eq!(
            substr_range(i64::MIN, None, u64::MAX),
            (1 << 63) - 1..u64::MAX
        );
        assert_eq!(
            substr_range(i64::MAX, None, u64::MAX),
            (1 << 63) - 2..u64::MAX
        );
        assert_eq!(
            substr_range(-5, Some(i64::MAX), u64::MAX),
            u64::MAX - 5..u64::MAX
        );
        assert_eq!(
            substr_range(i64::MAX, Some(i64::MIN), u64::MAX),
            0..(1 << 63) - 2
        );
    }
}
