//! REGEXP: a regular expression, searched for in texts of any length.
//!
//! The regex crate searches a text in one call, which nothing ends. So a long text goes byte by byte through the lazy DFA of
//! regex-automata. Invariant: the answer is that of the regex crate; where the DFA cannot tell (a Unicode word boundary
//! beside a byte that is not ASCII), that crate is asked.

use std::ops::Range;
use std::sync::OnceLock;

use regex::bytes::Regex;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Input, MatchError};
use regex_syntax::hir::{HirKind, Look};

use super::runs::FixedRun;
use crate::runtime::interrupt::Pace;
use crate::{Error, Result};

/// Texts from here on are searched step by step. The regex crate needs some milliseconds for less, at its slowest.
const LONG_TEXT: usize = 64 << 10;

/// Bytes between two looks whether to go on.
const PART: usize = 4 << 10;

/// A compiled regular expression.
#[derive(Debug, Clone)]
pub(crate) struct Regexp {
    regex: Regex,
    /// Made for the first long text; `None` if it would be too large.
    dfa: OnceLock<Option<Box<DFA>>>,
}

impl Regexp {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// If it is no regular expression.
    pub(super) fn new(pattern: &[u8]) -> Result<Regexp> {
        let invalid = |reason: String| Error::Invalid {
            subject: format!("regular expression \"{}\"", pattern.escape_ascii()),
            reason,
        };
        let text = std::str::from_utf8(pattern)
            .map_err(|_| invalid("it is not UTF-8; hint: write a byte as (?-u:\\xff)".into()))?;
        let regex = Regex::new(text).map_err(|error| {
            invalid(match place_of_fault(text) {
                Some((reason, character)) => format!("{reason} at character {character}"),
                // It is too large.
                None => error.to_string(),
            })
        })?;
        Ok(Regexp {
            regex,
            dfa: OnceLock::new(),
        })
    }

    /// The text that it is, if it is nothing else, perhaps between anchors.
    pub(super) fn fixed_run(&self) -> Option<FixedRun> {
        let mut parser = regex_syntax::ParserBuilder::new().utf8(false).build();
        let hir = parser.parse(self.regex.as_str()).ok()?;
        let mut parts = match hir.kind() {
            HirKind::Concat(parts) => &parts[..],
            _ => std::slice::from_ref(&hir),
        };
        let is_look = |part: &regex_syntax::hir::Hir, look| *part.kind() == HirKind::Look(look);
        let is_first = parts.first().is_some_and(|part| is_look(part, Look::Start));
        parts = &parts[usize::from(is_first)..];
        let is_last = parts.last().is_some_and(|part| is_look(part, Look::End));
        parts = &parts[..parts.len() - usize::from(is_last)];
        let [part] = parts else { return None };
        let HirKind::Literal(literal) = part.kind() else {
            return None;
        };
        let text = std::str::from_utf8(&literal.0).ok()?.to_owned();
        Some(FixedRun {
            text,
            is_first,
            is_last,
        })
    }

    /// Whether it matches anywhere in the text.
    ///
    /// # Errors
    /// If the statement has to end.
    pub(crate) fn matches(&self, text: &[u8], pace: &mut Pace) -> Result<bool> {
        if text.len() >= LONG_TEXT
            && let Some(dfa) = self.dfa.get_or_init(|| lazy_dfa(self.regex.as_str()))
            && let Some(is_match) = step_through(dfa, text, pace)?
        {
            return Ok(is_match);
        }
        pace.work(text.len())?;
        Ok(self.regex.is_match(text))
    }

    /// The groups of the first match at a byte of the text or behind it.
    pub(crate) fn groups(&self, text: &[u8], from: usize) -> Option<MatchGroups> {
        let captures = self.regex.captures_at(text, from)?;
        let groups = captures.iter();
        Some(
            groups
                .map(|group| group.map(|group| group.range()))
                .collect(),
        )
    }
}

/// What is wrong with a pattern, and the number of the character from 1; none if it can be parsed.
fn place_of_fault(pattern: &str) -> Option<(String, usize)> {
    let mut parser = regex_syntax::ParserBuilder::new().utf8(false).build();
    let (reason, offset) = match parser.parse(pattern).err()? {
        regex_syntax::Error::Parse(error) => (error.kind().to_string(), error.span().start.offset),
        regex_syntax::Error::Translate(error) => {
            (error.kind().to_string(), error.span().start.offset)
        }
        _ => return None,
    };
    let before = pattern.get(..offset).unwrap_or(pattern);
    Some((reason, before.chars().count() + 1))
}

/// Where groups of a match lie, the whole match first; none for a group that took no part in it.
pub(crate) type MatchGroups = Vec<Option<Range<usize>>>;

/// The same as `Regex::new` reads.
fn lazy_dfa(pattern: &str) -> Option<Box<DFA>> {
    DFA::builder()
        .configure(DFA::config().unicode_word_boundary(true))
        .syntax(syntax::Config::new().utf8(false))
        .thompson(
            thompson::Config::new()
                .utf8(false)
                .nfa_size_limit(Some(10 << 20)),
        )
        .build(pattern)
        .ok()
        .map(Box::new)
}

/// Whether the text has a match; `None` if the DFA cannot tell.
fn step_through(dfa: &DFA, text: &[u8], pace: &mut Pace) -> Result<Option<bool>> {
    let mut cache = dfa.create_cache();
    let Ok(mut state) = start(dfa, &mut cache, text) else {
        return Ok(None);
    };
    for part in text.chunks(PART) {
        pace.work(part.len())?;
        for &byte in part {
            // Without a limit for it the cache is cleared when it is full, and gives no error.
            let Ok(next) = dfa.next_state(&mut cache, state, byte) else {
                return Ok(None);
            };
            if next.is_tagged() {
                if next.is_match() {
                    return Ok(Some(true));
                } else if next.is_dead() {
                    return Ok(Some(false));
                } else if next.is_quit() {
                    return Ok(None);
                }
            }
            state = next;
        }
    }
    let end = dfa.next_eoi_state(&mut cache, state);
    Ok(end.ok().map(|end| end.is_match()))
}

fn start(
    dfa: &DFA,
    cache: &mut Cache,
    text: &[u8],
) -> std::result::Result<regex_automata::hybrid::LazyStateID, MatchError> {
    dfa.start_state_forward(cache, &Input::new(text))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::runtime::interrupt::Interrupt;

    #[test]
    fn a_long_text_matches_as_the_regex_crate_says() {
        let line = "The cat sat on the m\u{e4}t.\nIt \u{2019}s 17 \u{130}stanbul na\u{ef}ve; ";
        let text =
            |tail: &[u8]| [line.repeat(LONG_TEXT / line.len() + 1).as_bytes(), tail].concat();
        let texts = [
            text(b""),
            text(b"dog"),
            text(b"\xff\xfe dog\n"),
            text(b"\n"),
        ];
        let mut told = 0;
        for pattern in [
            "dog",
            "dog$",
            "(?m)dog$",
            "^The",
            "^dog",
            r"\Adog",
            r"dog\z",
            r"\bdog\b",
            r"(?-u:\b)dog",
            "(?i)DOG|bird",
            r"[a-z]+ [0-9]{3}",
            "",
            "$",
            "^$",
            "(?s)The.*dog",
            "The.*dog",
            r"(?-u:\xff)",
            r"\p{Greek}",
            r"\w+\s\W",
            "x{0,40}y{3}",
            r"(?m)^\s*$",
            r"[^\x00-\x{10ffff}]",
            r"\B17",
            "m.t",
            r"(?-u:m.t)",
        ] {
            let regexp = Regexp::new(pattern.as_bytes()).unwrap();
            let mut pace = Interrupt::never().pace();
            for text in &texts {
                let expected = regexp.regex.is_match(text);
                assert_eq!(
                    regexp.matches(text, &mut pace).unwrap(),
                    expected,
                    "{pattern}"
                );
                let dfa = regexp.dfa.get().unwrap().as_ref().unwrap();
                let stepped = step_through(dfa, text, &mut pace).unwrap();
                told += usize::from(stepped.is_some());
                assert!(
                    stepped.is_none_or(|stepped| stepped == expected),
                    "{pattern}"
                );
            }
        }
        assert!(told > 80, "{told}");
    }

    #[test]
    fn a_long_search_ends_with_an_interrupt() {
        let interrupt = Interrupt::never();
        interrupt.handle().interrupt();
        let regexp = Regexp::new(b"[a-q][^u-z]{13}x").unwrap();
        let text = "abcdefgh ".repeat(1 << 17);
        let error = regexp.matches(text.as_bytes(), &mut interrupt.pace());
        assert!(matches!(error, Err(Error::Interrupted)));
    }
}
