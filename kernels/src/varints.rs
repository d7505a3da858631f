//! Numbers in as many bytes as they need: seven bits each, the lowest first; all but the last have the highest bit set.
//!
//! Invariant: `read`, begun where `put` began a number, gives that number.

/// Appends a number.
#[inline]
pub(crate) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// The number that begins at `at`, which is moved behind it.
#[inline(always)]
pub(crate) fn read(bytes: &[u8], at: &mut usize) -> u64 {
    let mut byte = bytes[*at];
    *at += 1;
    let mut number = u64::from(byte & 0x7f);
    let mut shift = 7;
    while byte >= 0x80 {
        byte = bytes[*at];
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_sizes_come_back() {
        let powers = (0..64).map(|bit| 1u64 << bit);
        let numbers: Vec<u64> = (powers.flat_map(|power| [power - 1, power, power + 1]))
            .chain([u64::MAX])
            .collect();
        let mut bytes = Vec::new();
        numbers.iter().for_each(|&number| put(&mut bytes, number));
        let mut at = 0;
        for number in numbers {
            assert_eq!(read(&bytes, &mut at), number);
        }
        assert_eq!(at, bytes.len());
    }
}
