//! Wildcards: `*`, `?` and `\`.

use super::characters::characters;

/// A part of a wildcard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// This character.
    Character(u32),
    /// Any character.
    One,
    /// Any characters.
    Any,
}

/// A pattern with `*` for any characters, `?` for one and `\` before a character that stands for itself; a `\` at the end stands for
/// itself.
#[derive(Debug, Clone)]
pub(super) struct Wildcard {
    parts: Vec<Part>,
    /// The text up to the first `*` or `?`.
    prefix: Vec<u8>,
}

impl Wildcard {
    pub(super) fn new(text: &[u8]) -> Self {
        let mut parts = Vec::new();
        let mut prefix = Vec::new();
        let mut is_prefix = true;
        let mut rest = text.iter().copied().peekable();
        // All special characters are ASCII, so the text between two of them can be taken byte by byte.
        let mut literal = Vec::new();
        let end = |literal: &mut Vec<u8>, parts: &mut Vec<Part>| {
            parts.extend(characters(literal).map(Part::Character));
            literal.clear();
        };
        while let Some(byte) = rest.next() {
            let special = match byte {
                b'*' => Part::Any,
                b'?' => Part::One,
                _ => {
                    let byte = (byte == b'\\')
                        .then(|| rest.next())
                        .flatten()
                        .unwrap_or(byte);
                    literal.push(byte);
                    if is_prefix {
                        prefix.push(byte);
                    }
                    continue;
                }
            };
            is_prefix = false;
            end(&mut literal, &mut parts);
            if special != Part::Any || parts.last() != Some(&Part::Any) {
                parts.push(special);
            }
        }
        end(&mut literal, &mut parts);
        Self { parts, prefix }
    }

    /// What every matching text begins with.
    pub(super) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Whether the pattern is a plain text.
    pub(super) fn is_literal(&self) -> bool {
        let is_character = |part: &Part| matches!(part, Part::Character(_));
        self.parts.iter().all(is_character)
    }

    /// Whether the whole text matches. Pattern times text at worst.
    pub(super) fn matches(&self, text: &[u8]) -> bool {
        if !text.starts_with(&self.prefix) {
            return false;
        }
        let mut rest = characters(text);
        let mut part = 0;
        // Behind the last `*`, and the text that was left when it had taken least.
        let mut retry = None;
        loop {
            if self.parts.get(part) == Some(&Part::Any) {
                part += 1;
                retry = Some((part, rest.clone()));
                continue;
            }
            let character = rest.next();
            match (self.parts.get(part), character) {
                (None, None) => return true,
                (Some(Part::One), Some(_)) => part += 1,
                (Some(&Part::Character(wanted)), Some(character)) if wanted == character => {
                    part += 1;
                }
                (_, None) => return false,
                (_, Some(_)) => {
                    let Some((behind, left)) = &mut retry else {
                        return false;
                    };
                    left.next();
                    part = *behind;
                    rest = left.clone();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &[u8], text: &[u8]) -> bool {
        Wildcard::new(pattern).matches(text)
    }

    /// As the definition says.
    fn naive(parts: &[Part], text: &[u32]) -> bool {
        match (parts, text) {
            ([], _) => text.is_empty(),
            ([Part::Any, rest @ ..], _) => {
                (0..=text.len()).any(|taken| naive(rest, &text[taken..]))
            }
            (_, []) => false,
            ([Part::One, rest @ ..], [_, text @ ..]) => naive(rest, text),
            ([Part::Character(wanted), rest @ ..], [character, text @ ..]) => {
                wanted == character && naive(rest, text)
            }
        }
    }

    #[test]
    fn a_question_mark_is_one_character_or_invalid_byte() {
        assert!(matches(b"?", "\u{1f600}".as_bytes()));
        assert!(matches(b"a??", b"a\xff\xfe"));
        assert!(!matches(b"?", b""));
        assert!(matches(b"*", b""));
    }

    #[test]
    fn a_backslash_takes_the_meaning_away() {
        assert!(matches(br"\*\?\\", br"*?\"));
        assert!(!matches(br"\*", b"x"));
        assert!(matches(br"x\", br"x\"));
        assert_eq!(Wildcard::new(br"a\*b*c").prefix(), b"a*b");
    }

    proptest! {
        #[test]
        fn matches_agree_with_the_definition(pattern in "[ab?*]{0,8}", text in "[ab]{0,10}") {
            let wildcard = Wildcard::new(pattern.as_bytes());
            let expected = naive(&wildcard.parts, &characters(text.as_bytes()).collect::<Vec<_>>());
            prop_assert_eq!(wildcard.matches(text.as_bytes()), expected);
        }
    }
}
