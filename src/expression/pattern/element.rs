//! The elements of patterns, and the characters of texts that need not be UTF-8.

/// An element of a LIKE or GLOB pattern.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Element {
    /// This character.
    One(u32),
    /// This lowercase ASCII letter, or its capital.
    Letter(u32),
    /// Any character.
    Any,
    /// Any number of characters.
    Many,
    /// A character in one of the ranges, or with `inverted` in none. Ranges ascend and do not meet.
    Set {
        ranges: Vec<(u32, u32)>,
        inverted: bool,
    },
    /// Nothing: a set without its end, or an ESCAPE with nothing behind it.
    Never,
}

impl Element {
    pub(super) fn accepts(&self, code: u32) -> bool {
        match self {
            Element::One(wanted) => code == *wanted,
            // A capital differs from its lowercase letter in one bit, and no other character does.
            Element::Letter(lower) => code | 0x20 == *lower,
            Element::Any => true,
            Element::Set { ranges, inverted } => {
                let behind = ranges.partition_point(|range| range.0 <= code);
                let is_in = behind > 0 && code <= ranges[behind - 1].1;
                is_in != *inverted
            }
            Element::Many | Element::Never => false,
        }
    }
}

/// Bytes outside of UTF-8 are the codes from here on.
pub(super) const STRAY_BYTES: u32 = 0x11_0000;

pub(super) fn characters(text: &[u8]) -> impl Iterator<Item = u32> + Clone + '_ {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (code, length) = (!rest.is_empty()).then(|| first_character(rest))?;
        rest = &rest[length..];
        Some(code)
    })
}

/// The first character of a text that is not empty, and its bytes.
pub(super) fn first_character(text: &[u8]) -> (u32, usize) {
    let first = text[0];
    let length = match first {
        0..0x80 => return (first.into(), 1),
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        _ => 4,
    };
    let bytes = text.get(..length).unwrap_or_default();
    match std::str::from_utf8(bytes)
        .ok()
        .and_then(|text| text.chars().next())
    {
        Some(character) => (character.into(), length),
        None => (STRAY_BYTES + u32::from(first), 1),
    }
}

/// The last character of a text that is not empty, and its bytes: the same that reading from the front finds.
pub(super) fn last_character(text: &[u8]) -> (u32, usize) {
    let last = text[text.len() - 1];
    if last < 0x80 {
        return (last.into(), 1);
    }
    // No other character overlaps a whole one, so reading from the front finds it too.
    let whole = (2..=4.min(text.len())).find_map(|length| {
        let (code, read) = first_character(&text[text.len() - length..]);
        (read == length).then_some((code, length))
    });
    whole.unwrap_or((STRAY_BYTES + u32::from(last), 1))
}

pub(super) fn push_code(code: u32, bytes: &mut Vec<u8>) {
    match char::from_u32(code) {
        Some(character) => {
            bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
        // A stray byte: the difference is below 256.
        None => bytes.push((code - STRAY_BYTES) as u8),
    }
}
