//! What the gap tokens of a grammar say of the boundaries of lines and paragraphs, read backwards.
//!
//! Invariant: a gap is the sequence of its tokens, and its boundaries are those of the definition in `search::places`, however it is
//! cut into tokens. Tokens that do the same are one class, and the classes do not depend on the text.

use std::collections::HashMap;

/// What was read last of a gap, backwards.
const SCAN_STATES: usize = 5;

/// Nothing before which a line break would end an empty line.
pub(crate) const NO_BREAK: u8 = 0;
/// A line break, then blanks only.
const BREAK: u8 = 1;
/// A line feed, which a carriage return before it belongs to.
const LINE_FEED: u8 = 2;
/// The last byte of U+2029, and the last two.
const LAST_BYTE: u8 = 3;
const LAST_BYTES: u8 = 4;

/// Bytes that gaps distinguish; all others are one kind.
const KINDS: [u8; 7] = [b'\n', b'\r', b' ', b'\t', 0xe2, 0x80, 0xa9];
const OTHER: u8 = b'.';

/// What reading a token does.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct GapClass {
    /// Whether a line ends in it.
    pub(crate) has_line_end: bool,
    /// For each state of the scan the next one, and whether an empty line ends in the token.
    pub(crate) scans: [(u8, bool); SCAN_STATES],
}

/// The classes of gap tokens.
pub(crate) struct GapClasses {
    pub(crate) classes: Vec<GapClass>,
    /// For each class and kind of byte the class of a token that has this byte in front.
    longer: Vec<[u16; KINDS.len() + 1]>,
}

impl GapClasses {
    /// All classes there are; `reads_paragraphs` is whether empty lines matter.
    pub(crate) fn new(reads_paragraphs: bool) -> GapClasses {
        let empty = GapClass {
            has_line_end: false,
            scans: [NO_BREAK, BREAK, LINE_FEED, LAST_BYTE, LAST_BYTES].map(|state| (state, false)),
        };
        let empty = if reads_paragraphs {
            empty
        } else {
            GapClass {
                scans: [(NO_BREAK, false); SCAN_STATES],
                ..empty
            }
        };
        let mut found = GapClasses {
            classes: vec![empty.clone()],
            longer: Vec::new(),
        };
        let mut numbers = HashMap::from([(empty, 0)]);
        while let Some(class) = found.classes.get(found.longer.len()).cloned() {
            let longer = KINDS.into_iter().chain([OTHER]).map(|byte| {
                let next = class.with(byte, reads_paragraphs);
                *numbers.entry(next.clone()).or_insert_with(|| {
                    found.classes.push(next);
                    // The transformations of five states are fewer than 2^16 here: a test counts them.
                    (found.classes.len() - 1) as u16
                })
            });
            let longer: Vec<u16> = longer.collect();
            found.longer.push(std::array::from_fn(|kind| longer[kind]));
        }
        found
    }

    /// The class of a gap token.
    pub(crate) fn class_of(&self, token: &[u8]) -> u16 {
        token.iter().rev().fold(0, |class, byte| {
            let kind = KINDS.iter().position(|kind| kind == byte);
            self.longer[usize::from(class)][kind.unwrap_or(KINDS.len())]
        })
    }
}

impl GapClass {
    /// The class of a token with a byte before those of this class.
    fn with(&self, byte: u8, reads_paragraphs: bool) -> GapClass {
        let scans = if reads_paragraphs {
            self.scans.map(|(state, has_ended)| {
                let (next, ends) = scan(state, byte);
                (next, has_ended || ends)
            })
        } else {
            self.scans
        };
        GapClass {
            has_line_end: self.has_line_end || matches!(byte, b'\n' | b'\r'),
            scans,
        }
    }
}

/// The next state of a scan, and whether an empty line ends.
fn scan(state: u8, byte: u8) -> (u8, bool) {
    match (byte, state) {
        (b'\n', BREAK | LINE_FEED) => (LINE_FEED, true),
        (b'\n', _) => (LINE_FEED, false),
        (b'\r', BREAK) => (BREAK, true),
        (b'\r', _) => (BREAK, false),
        (b' ' | b'\t', BREAK | LINE_FEED) => (BREAK, false),
        (0xa9, _) => (LAST_BYTE, false),
        (0x80, LAST_BYTE) => (LAST_BYTES, false),
        (0xe2, LAST_BYTES) => (NO_BREAK, true),
        _ => (NO_BREAK, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a line ends in a gap, and whether it has an empty line: forwards, by the definition.
    fn defined(gap: &[u8]) -> (bool, bool) {
        let text = String::from_utf8_lossy(gap)
            .replace("\r\n", "\n")
            .replace('\r', "\n");
        let is_blank = |text: &str| text.chars().all(|char| matches!(char, ' ' | '\t'));
        let parts: Vec<&str> = text.split('\n').collect();
        let inner = parts.get(1..parts.len() - 1).unwrap_or_default();
        let has_empty_line = inner.iter().any(|part| is_blank(part)) || text.contains('\u{2029}');
        (parts.len() > 1, has_empty_line)
    }

    #[test]
    fn gaps_have_the_boundaries_of_the_definition_wherever_they_are_cut() {
        let classes = GapClasses::new(true);
        assert!(classes.classes.len() < 200, "{}", classes.classes.len());
        let parts: [&[u8]; 7] = [
            b"\n",
            b"\r",
            b" ",
            b"\t",
            b",",
            "\u{2029}".as_bytes(),
            b"\r\n",
        ];
        for number in 0..parts.len().pow(5) {
            let digits = (0..5).map(|digit| number / parts.len().pow(digit) % parts.len());
            let gap: Vec<u8> = digits.flat_map(|digit| parts[digit]).copied().collect();
            let expected = defined(&gap);
            for cut in 0..gap.len() {
                let (left, right) = gap.split_at(cut);
                let (mut has_line, mut has_empty, mut state) = (false, false, NO_BREAK);
                for token in [right, left] {
                    let class = &classes.classes[usize::from(classes.class_of(token))];
                    let (next, ends) = class.scans[usize::from(state)];
                    (has_line, has_empty) = (has_line | class.has_line_end, has_empty | ends);
                    state = next;
                }
                assert_eq!((has_line, has_empty), expected, "{gap:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn lines_alone_need_two_classes() {
        let classes = GapClasses::new(false);
        assert_eq!(classes.classes.len(), 2);
        assert_eq!(
            [&b"; "[..], b";\n"].map(|gap| classes.class_of(gap)),
            [0, 1]
        );
    }
}
