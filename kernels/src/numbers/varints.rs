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

/// The number that `rest` begins with, which is moved behind it; none if it is cut off or longer than one that [`put`] writes.
pub(crate) fn take(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, behind) = rest.split_first()?;
        *rest = behind;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
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
            let mut rest = &bytes[at..];
            assert_eq!(take(&mut rest), Some(number));
            assert_eq!(read(&bytes, &mut at), number);
            assert_eq!(rest.len(), bytes.len() - at);
        }
        assert_eq!(at, bytes.len());
        assert_eq!(take(&mut &[0x80; 9][..]), None);
        assert_eq!(take(&mut &[0x80; 11][..]), None);
    }
}
