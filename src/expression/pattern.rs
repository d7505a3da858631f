//! LIKE, GLOB and REGEXP.
//!
//! A pattern is compiled into elements that match one character each, in runs with any number of characters between them
//! (`runs`). Texts are bytes: one that is not part of a UTF-8 character counts as a character that equals only itself.
//! Invariant: the memory of a compiled pattern is counted with the values of its statement, before it is compiled.

mod element;
mod regexp;
mod runs;

use zipfdb_sql::query::Matcher;

use self::element::{characters, push_code};
use self::regexp::Regexp;
use self::runs::ElementRuns;
use super::convert::to_bytes;
use crate::runtime::interrupt::Pace;
use crate::runtime::memory::{Held, ValueMemory};
use crate::{Error, Result, Value};

pub(super) use self::element::Element;
pub(crate) use self::runs::{FixedRun, NeededLiteral};

/// The most bytes of a pattern of LIKE or GLOB, as in SQLite.
const PATTERN_BYTES_MAX: usize = 50_000;

/// A compiled pattern.
#[derive(Debug)]
pub(crate) enum Pattern {
    /// A pattern of LIKE or GLOB.
    Runs {
        runs: ElementRuns,
        /// Counts the memory of the runs.
        _held: Held,
    },
    /// A pattern of REGEXP.
    Regexp(Regexp),
}

impl Pattern {
    /// Compiles a pattern, or for REGEXP parses it; none if it or its escape is NULL, and then the match is NULL.
    ///
    /// # Errors
    /// If the pattern is too long, takes too much memory or is no regular expression, or its escape is not one character.
    pub(crate) fn new(
        matcher: Matcher,
        pattern: &Value,
        escape: Option<&Value>,
        memory: &ValueMemory,
    ) -> Result<Option<Pattern>> {
        let escape = match escape.map(to_bytes) {
            None => None,
            Some(None) => return Ok(None),
            Some(Some(escape)) => Some(single_character(&escape)?),
        };
        let Some(pattern) = to_bytes(pattern) else {
            return Ok(None);
        };
        let elements = match matcher {
            Matcher::Regexp => {
                let regexp = Regexp::new(&pattern, false, memory)?;
                return Ok(Some(Pattern::Regexp(regexp)));
            }
            Matcher::Like => like,
            Matcher::Glob => |pattern: &[u8], _| glob(pattern),
        };
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(Error::Invalid {
                subject: "LIKE or GLOB".into(),
                reason: format!(
                    "the pattern has {} bytes, at most {PATTERN_BYTES_MAX} can be matched; hint: instr finds longer texts",
                    pattern.len()
                ),
            });
        }
        let mut held = memory.hold();
        held.reserve("a compiled pattern", ElementRuns::bytes_max(&pattern))?;
        let runs = ElementRuns::new(&elements(&pattern, escape));
        Ok(Some(Pattern::Runs { runs, _held: held }))
    }

    /// A regular expression with the places of its groups; none if it is NULL.
    ///
    /// # Errors
    /// As `new`.
    pub(super) fn with_groups(pattern: &Value, memory: &ValueMemory) -> Result<Option<Pattern>> {
        let Some(pattern) = to_bytes(pattern) else {
            return Ok(None);
        };
        let regexp = Regexp::new(&pattern, true, memory)?;
        Ok(Some(Pattern::Regexp(regexp)))
    }

    /// Whether the text matches.
    ///
    /// # Errors
    /// If the statement must end.
    pub(crate) fn matches(&self, text: &[u8], pace: &mut Pace) -> Result<bool> {
        match self {
            Pattern::Runs { runs, .. } => runs.matches(text, pace),
            Pattern::Regexp(regexp) => regexp.matches(text, pace),
        }
    }

    /// The longest string that every match has, or the first bytes of it; none if there is no such string.
    pub(crate) fn literal(&self, bytes_max: usize) -> Option<NeededLiteral> {
        match self {
            Pattern::Runs { runs, .. } => runs.literal(bytes_max),
            Pattern::Regexp(regexp) => regexp.literal(bytes_max),
        }
    }

    /// The texts that every match has, one after the other; none if that is not known.
    pub(crate) fn fixed_runs(&self) -> Option<Vec<FixedRun>> {
        match self {
            Pattern::Runs { runs, .. } => runs.fixed_runs(),
            Pattern::Regexp(regexp) => regexp.fixed_run().map(|run| vec![run]),
        }
    }

    /// The bytes that every match begins with.
    pub(crate) fn prefix(&self) -> Vec<u8> {
        let mut prefix = Vec::new();
        if let Pattern::Runs { runs, .. } = self {
            for element in runs.first() {
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
            return Element::Set {
                ranges: disjoint(ranges),
                inverted,
            };
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

/// The same codes in ranges that ascend and do not meet.
fn disjoint(mut ranges: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    ranges.retain(|(first, last)| first <= last);
    ranges.sort_unstable();
    ranges.dedup_by(|next, kept| {
        let meet = next.0 <= kept.1 + 1;
        if meet {
            kept.1 = kept.1.max(next.1);
        }
        meet
    });
    ranges
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;
    use crate::runtime::interrupt::Interrupt;

    fn memory() -> ValueMemory {
        ValueMemory::default()
    }

    fn is_match(matcher: Matcher, pattern: &[u8], text: &[u8]) -> bool {
        let pattern = Value::Blob(pattern.to_vec());
        let pattern = Pattern::new(matcher, &pattern, None, &memory())
            .unwrap()
            .unwrap();
        let mut pace = Interrupt::never().pace();
        pattern.matches(text, &mut pace).unwrap()
    }

    #[test]
    fn bytes_that_are_not_utf8_match_themselves_and_one_wildcard() {
        assert!(is_match(Matcher::Like, b"a\xff_%", b"A\xff\xfe"));
        assert!(!is_match(Matcher::Like, b"a\xff", b"a\xfe"));
        assert!(is_match(Matcher::Glob, b"?\xc3*", b"\xe4\xc3"));
        assert!(!is_match(Matcher::Glob, b"*\xc3*", "\u{e4}".as_bytes()));
        assert!(!is_match(Matcher::Glob, b"*\xa4", "\u{e4}".as_bytes()));
        assert!(is_match(Matcher::Regexp, br"^(?-u:\xff)b$", b"\xffb"));
    }

    /// The elements of a pattern, matched one by one with every possible length of `Many`.
    fn is_match_by_trying(elements: &[Element], text: &[u8]) -> bool {
        let codes: Vec<u32> = characters(text).collect();
        // For each number of first characters, whether the elements so far match them.
        let mut ends = vec![false; codes.len() + 1];
        ends[0] = true;
        for element in elements {
            let mut is_any = false;
            let next = (0..=codes.len()).map(|end| {
                is_any |= ends[end];
                match element {
                    Element::Many => is_any,
                    element => end > 0 && ends[end - 1] && element.accepts(codes[end - 1]),
                }
            });
            ends = next.collect();
        }
        ends[codes.len()]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]
        #[test]
        fn runs_match_what_their_elements_match(
            pattern in proptest::collection::vec(
                prop::sample::select(vec![
                    "a", "A", "b", "%", "*", "_", "?", "[a-b]", "[^a]", "[^\u{e4}]", "\u{e4}", "[\u{e0}-\u{ef}b]", "aba",
                    "abababab", "[b-a]",
                ]),
                0..90,
            ),
            text in proptest::collection::vec(
                prop::sample::select(vec![&b"a"[..], b"A", b"b", b"ab", "\u{e4}".as_bytes(), b"\xc3", b"\xa4", b"ababab"]),
                0..60,
            ),
            cut in 0..90usize,
        ) {
            let pattern = pattern[..cut.min(pattern.len())].concat();
            let mut pattern = pattern.into_bytes();
            if cut % 5 == 0 {
                pattern.push(0xa4);
            }
            let text = text.concat();
            for (matcher, elements) in [
                (Matcher::Like, like(&pattern, None)),
                (Matcher::Glob, glob(&pattern)),
            ] {
                let expected = is_match_by_trying(&elements, &text);
                prop_assert_eq!(is_match(matcher, &pattern, &text), expected, "{:?}", matcher);
            }
        }
    }

    #[test]
    fn runs_longer_than_a_machine_word_are_found() {
        for (pattern, filler) in [("a", "a"), ("_", "a"), ("aB", "Ab"), ("\u{e4}", "\u{e4}")] {
            for length in [63, 64, 65, 130] {
                let run = pattern.repeat(length);
                let text = |count| format!("x{}y", filler.repeat(count));
                let like = format!("%{run}y%");
                let count =
                    |text: String| is_match(Matcher::Like, like.as_bytes(), text.as_bytes());
                assert!(
                    count(text(length)) && count(text(length + 70)),
                    "{pattern} {length}"
                );
                // The wildcard takes the `x` too.
                assert_eq!(
                    count(text(length - 1)),
                    pattern == "_",
                    "{pattern} {length}"
                );
            }
        }
    }

    /// An interrupt that has happened: every check ends.
    fn interrupted() -> Pace {
        let interrupt = Interrupt::never();
        interrupt.handle().interrupt();
        interrupt.pace()
    }

    #[test]
    fn many_wildcards_take_time_in_proportion_to_the_text() {
        // Text times pattern would be 10^11 steps, of minutes.
        let text = "a".repeat(4_000_000);
        for pattern in [
            "%a".repeat(10_000) + "b",
            format!("%{}b%", "a".repeat(40_000)),
        ] {
            assert!(!is_match(
                Matcher::Like,
                pattern.as_bytes(),
                text.as_bytes()
            ));
            assert!(!is_match(
                Matcher::Glob,
                pattern.replace('%', "*").as_bytes(),
                text.as_bytes()
            ));
        }
    }

    #[test]
    fn an_interrupt_ends_matching_within_a_text() {
        let text = "a".repeat(1 << 20);
        for (matcher, pattern) in [
            (Matcher::Like, "%b%"),
            (Matcher::Like, "%_b%"),
            (Matcher::Glob, "*b*"),
            (Matcher::Glob, "*[b-c]*"),
            (Matcher::Regexp, "b"),
        ] {
            let pattern = Pattern::new(matcher, &Value::from(pattern), None, &memory());
            let found = pattern
                .unwrap()
                .unwrap()
                .matches(text.as_bytes(), &mut interrupted());
            assert!(matches!(found, Err(Error::Interrupted)), "{matcher:?}");
        }
        let long = format!("%{}b%", "a".repeat(100));
        for pattern in [long.clone(), long.replace("ab", "_b")] {
            let pattern = Pattern::new(
                Matcher::Like,
                &Value::from(pattern.as_str()),
                None,
                &memory(),
            );
            let found = pattern
                .unwrap()
                .unwrap()
                .matches(text.as_bytes(), &mut interrupted());
            assert!(matches!(found, Err(Error::Interrupted)));
        }
    }

    #[test]
    fn a_pattern_that_is_too_long_is_an_error() {
        let pattern = Value::Text("a".repeat(PATTERN_BYTES_MAX + 1));
        let error = Pattern::new(Matcher::Like, &pattern, None, &memory()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "LIKE or GLOB: the pattern has 50001 bytes, at most 50000 can be matched; hint: instr finds longer texts"
        );
        assert!(Pattern::new(Matcher::Regexp, &pattern, None, &memory()).is_ok());
    }

    #[test]
    fn a_bad_regular_expression_is_an_error_with_the_pattern_and_the_reason() {
        let error =
            Pattern::new(Matcher::Regexp, &Value::from("a(b"), None, &memory()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "regular expression \"a(b\": unclosed group at character 2"
        );
    }

    #[test]
    fn only_glob_has_a_prefix_of_bytes() {
        let prefix = |matcher, pattern| {
            let pattern = Pattern::new(matcher, &Value::from(pattern), None, &memory());
            pattern.unwrap().unwrap().prefix()
        };
        assert_eq!(prefix(Matcher::Glob, "ab\u{e9}*c"), "ab\u{e9}".as_bytes());
        assert_eq!(prefix(Matcher::Glob, "[a]b"), b"");
        assert_eq!(prefix(Matcher::Like, "12a%"), b"12");
        assert_eq!(prefix(Matcher::Regexp, "^ab"), b"");
    }
}
