//! LIKE, GLOB and REGEXP.
//!
//! A pattern is compiled into elements that match one character each, or any number. Only the last `%` or `*` is ever
//! tried again, so matching takes at most text times pattern steps. Texts are bytes: one that is not part of a UTF-8
//! character counts as a character that equals only itself.

use regex::bytes::Regex;
use zipfdb_sql::query::Matcher;

use super::convert::to_bytes;
use crate::{Error, Result, Value};

/// A compiled pattern.
#[derive(Debug, Clone)]
pub(crate) enum Pattern {
    /// Of LIKE or GLOB.
    Elements(Vec<Element>),
    /// Of REGEXP.
    Regex(Regex),
}

/// What one place of a LIKE or GLOB pattern matches.
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
    /// A character in one of the ranges, or with `inverted` in none.
    Set {
        ranges: Vec<(u32, u32)>,
        inverted: bool,
    },
    /// Nothing: a set without its end, or an ESCAPE with nothing behind it.
    Never,
}

impl Pattern {
    /// Compiles a pattern; none if it or its escape is NULL, and then the match is NULL.
    pub(crate) fn new(
        matcher: Matcher,
        pattern: &Value,
        escape: Option<&Value>,
    ) -> Result<Option<Pattern>> {
        let escape = match escape.map(to_bytes) {
            None => None,
            Some(None) => return Ok(None),
            Some(Some(escape)) => Some(single_character(&escape)?),
        };
        let Some(pattern) = to_bytes(pattern) else {
            return Ok(None);
        };
        Ok(Some(match matcher {
            Matcher::Like => Pattern::Elements(like(&pattern, escape)),
            Matcher::Glob => Pattern::Elements(glob(&pattern)),
            Matcher::Regexp => Pattern::Regex(regexp(&pattern)?),
        }))
    }

    /// Whether the text matches.
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        match self {
            Pattern::Elements(elements) => matches(elements, text),
            Pattern::Regex(regex) => regex.is_match(text),
        }
    }

    /// The bytes that every match begins with.
    pub(crate) fn prefix(&self) -> Vec<u8> {
        let mut prefix = Vec::new();
        if let Pattern::Elements(elements) = self {
            for element in elements {
                let Element::One(code) = element else { break };
                push_code(*code, &mut prefix);
            }
        }
        prefix
    }
}

fn single_character(escape: &[u8]) -> Result<u32> {
    match characters(escape).collect::<Vec<u32>>()[..] {
        [character] => Ok(character),
        _ => Err(Error::Invalid {
            subject: "ESCAPE".into(),
            reason: "must be a single character".into(),
        }),
    }
}

fn regexp(pattern: &[u8]) -> Result<Regex> {
    let invalid = |reason: String| Error::Invalid {
        subject: format!("regular expression \"{}\"", pattern.escape_ascii()),
        reason,
    };
    let text = std::str::from_utf8(pattern)
        .map_err(|_| invalid("it is not UTF-8; hint: write a byte as (?-u:\\xff)".into()))?;
    Regex::new(text).map_err(|error| {
        // The parser's message draws the pattern over several lines; its last one is the reason.
        let message = error.to_string();
        let reason = message.lines().last().unwrap_or_default();
        invalid(reason.trim().trim_start_matches("error: ").to_owned())
    })
}

fn like(pattern: &[u8], escape: Option<u32>) -> Vec<Element> {
    let mut elements = Vec::new();
    let mut rest = characters(pattern);
    let literal = |code: u32| match u8::try_from(code) {
        Ok(byte) if byte.is_ascii_alphabetic() => Element::Letter(byte.to_ascii_lowercase().into()),
        _ => Element::One(code),
    };
    while let Some(code) = rest.next() {
        elements.push(if Some(code) == escape {
            rest.next().map_or(Element::Never, literal)
        } else if code == u32::from(b'%') {
            Element::Many
        } else if code == u32::from(b'_') {
            Element::Any
        } else {
            literal(code)
        });
    }
    elements
}

fn glob(pattern: &[u8]) -> Vec<Element> {
    let mut elements = Vec::new();
    let mut rest = characters(pattern);
    while let Some(code) = rest.next() {
        elements.push(match u8::try_from(code) {
            Ok(b'*') => Element::Many,
            Ok(b'?') => Element::Any,
            Ok(b'[') => set(&mut rest),
            _ => Element::One(code),
        });
    }
    elements
}

/// The set whose `[` has been read.
fn set(rest: &mut (impl Iterator<Item = u32> + Clone)) -> Element {
    const CLOSE: u32 = b']' as u32;
    let mut ranges = Vec::new();
    let mut next = rest.next();
    let inverted = next == Some(u32::from(b'^'));
    if inverted {
        next = rest.next();
    }
    // Directly at the front it is a member.
    if next == Some(CLOSE) {
        ranges.push((CLOSE, CLOSE));
        next = rest.next();
    }
    let mut before = None;
    while let Some(code) = next {
        if code == CLOSE {
            return Element::Set { ranges, inverted };
        }
        let last = rest.clone().next().filter(|&code| code != CLOSE);
        match (before, last) {
            (Some(first), Some(last)) if code == u32::from(b'-') => {
                ranges.push((first, last));
                rest.next();
                before = None;
            }
            _ => {
                ranges.push((code, code));
                before = Some(code);
            }
        }
        next = rest.next();
    }
    Element::Never
}

fn matches(elements: &[Element], text: &[u8]) -> bool {
    let (mut element, mut at) = (0, 0);
    // Behind the last `Many`, and where its match ends so far.
    let mut again: Option<(usize, usize)> = None;
    loop {
        let matched = match (elements.get(element), text.get(at..)) {
            (None, Some([])) => return true,
            (Some(Element::Many), _) => {
                element += 1;
                if element == elements.len() {
                    return true;
                }
                again = Some((element, at));
                continue;
            }
            (Some(wanted), Some(rest @ [_, ..])) => {
                let (code, length) = first_character(rest);
                wanted.accepts(code).then_some(length)
            }
            _ => None,
        };
        match (matched, again) {
            (Some(length), _) => {
                element += 1;
                at += length;
            }
            (None, Some((behind, end))) if end < text.len() => {
                let (_, length) = first_character(&text[end..]);
                again = Some((behind, end + length));
                (element, at) = (behind, end + length);
            }
            _ => return false,
        }
    }
}

impl Element {
    fn accepts(&self, code: u32) -> bool {
        match self {
            Element::One(wanted) => code == *wanted,
            // A capital differs from its lowercase letter in one bit, and no other character does.
            Element::Letter(lower) => code | 0x20 == *lower,
            Element::Any => true,
            Element::Set { ranges, inverted } => {
                let is_in = ranges
                    .iter()
                    .any(|range| (range.0..=range.1).contains(&code));
                is_in != *inverted
            }
            Element::Many | Element::Never => false,
        }
    }
}

/// Bytes outside of UTF-8 are the codes from here on.
const STRAY_BYTES: u32 = 0x11_0000;

fn characters(text: &[u8]) -> impl Iterator<Item = u32> + Clone + '_ {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (code, length) = (!rest.is_empty()).then(|| first_character(rest))?;
        rest = &rest[length..];
        Some(code)
    })
}

/// The first character of a text that is not empty, and its bytes.
fn first_character(text: &[u8]) -> (u32, usize) {
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

fn push_code(code: u32, bytes: &mut Vec<u8>) {
    match char::from_u32(code) {
        Some(character) => {
            bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
        // A stray byte: the difference is below 256.
        None => bytes.push((code - STRAY_BYTES) as u8),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn is_match(matcher: Matcher, pattern: &[u8], text: &[u8]) -> bool {
        let pattern = Value::Blob(pattern.to_vec());
        let pattern = Pattern::new(matcher, &pattern, None).unwrap().unwrap();
        pattern.matches(text)
    }

    #[test]
    fn bytes_that_are_not_utf8_match_themselves_and_one_wildcard() {
        assert!(is_match(Matcher::Like, b"a\xff_%", b"A\xff\xfe"));
        assert!(!is_match(Matcher::Like, b"a\xff", b"a\xfe"));
        assert!(is_match(Matcher::Glob, b"?\xc3*", b"\xe4\xc3"));
        assert!(is_match(Matcher::Regexp, br"^(?-u:\xff)b$", b"\xffb"));
    }

    #[test]
    fn many_wildcards_take_no_exponential_time() {
        let text = "a".repeat(4000);
        let pattern = "%a".repeat(40) + "b";
        assert!(!is_match(
            Matcher::Like,
            pattern.as_bytes(),
            text.as_bytes()
        ));
    }

    #[test]
    fn a_bad_regular_expression_is_an_error_with_the_pattern_and_the_reason() {
        let error = Pattern::new(Matcher::Regexp, &Value::from("a(b"), None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "regular expression \"a(b\": unclosed group"
        );
    }

    #[test]
    fn only_glob_has_a_prefix_of_bytes() {
        let prefix = |matcher, pattern| {
            let pattern = Pattern::new(matcher, &Value::from(pattern), None);
            pattern.unwrap().unwrap().prefix()
        };
        assert_eq!(prefix(Matcher::Glob, "ab\u{e9}*c"), "ab\u{e9}".as_bytes());
        assert_eq!(prefix(Matcher::Glob, "[a]b"), b"");
        assert_eq!(prefix(Matcher::Like, "12a%"), b"12");
        assert_eq!(prefix(Matcher::Regexp, "^ab"), b"");
    }
}
