//! The shape of a token: features of its spelling that predict its neighbours.
//!
//! Rare tokens have no statistics of their own, so all tokens of a shape share a class. Only ASCII is examined.

/// Shapes are below this.
pub const SHAPES: usize = GAP_SHAPES + (2 << 12);

const GAP_SHAPES: usize = 16 << 10;

/// The shape of a word token.
///
/// Whether a space stands before the word, how the word begins, whether its second letter is a capital, and its
/// last two letters; for a number its length instead.
pub fn of_word(token: &[u8]) -> usize {
    let spaced = token.len() > 1 && token[0] == b' ';
    let word = &token[usize::from(spaced)..];
    let capital = |index: usize| word.get(index).is_some_and(u8::is_ascii_uppercase);
    let first = word.first().copied().unwrap_or(0);
    let (start, tail) = if first.is_ascii_digit() {
        (2, word.len().min(1023))
    } else {
        let start = if first.is_ascii_lowercase() {
            0
        } else {
            usize::from(!first.is_ascii_uppercase()) * 2 + 1
        };
        let last = |from_end: usize| {
            word.len()
                .checked_sub(from_end)
                .map_or(31, |index| letter(word[index]))
        };
        (start, last(1) << 5 | last(2))
    };
    (usize::from(capital(1)) << 3 | start << 1 | usize::from(spaced)) << 10 | tail
}

/// The shape of a gap token: whether it holds a line feed, its first byte and its last.
pub fn of_gap(token: &[u8]) -> usize {
    let low = |byte: Option<&u8>| usize::from(byte.copied().unwrap_or(0) & 63);
    let feed = usize::from(token.contains(&b'\n'));
    GAP_SHAPES + (feed << 12 | low(token.first()) << 6 | low(token.last()))
}

fn letter(byte: u8) -> usize {
    match byte {
        b'a'..=b'z' => usize::from(byte - b'a') + 1,
        b'A'..=b'Z' => usize::from(byte - b'A') + 1,
        b'0'..=b'9' => 27,
        0x80.. => 28,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_that_look_alike_have_one_shape() {
        assert_eq!(of_word(b" walking"), of_word(b" sing"));
        assert_eq!(of_word(b" 1984"), of_word(b" 2001"));
        assert_eq!(of_gap(b".\n\n"), of_gap(b".\r\n"));
    }

    #[test]
    fn tokens_that_look_different_have_two() {
        let words: [&[u8]; 12] = [
            b"a",
            b" a",
            b"A",
            b"walks",
            b"walked",
            b"Walked",
            b"WALKED",
            b"1",
            b"12",
            b" 12",
            b"\xc3\xa9",
            b"_d",
        ];
        let gaps: [&[u8]; 5] = [b" ", b"\n", b", ", b",\n", b" ,"];
        let shapes: Vec<usize> = words
            .iter()
            .map(|word| of_word(word))
            .chain(gaps.iter().map(|gap| of_gap(gap)))
            .collect();
        for (index, shape) in shapes.iter().enumerate() {
            assert!(*shape < SHAPES);
            assert!(!shapes[..index].contains(shape), "number {index}");
        }
    }

    #[test]
    fn any_bytes_have_a_shape() {
        for first in 0..=255 {
            for last in 0..=255 {
                assert!(of_word(&[first, last]) < SHAPES && of_gap(&[first, last]) < SHAPES);
            }
        }
        assert!(of_word(&[]) < SHAPES && of_gap(&[]) < SHAPES);
    }
}
