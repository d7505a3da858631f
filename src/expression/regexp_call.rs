//! `regexp_extract` and `regexp_replace`: their arguments and results.
//!
//! Invariant: the answers are those of DuckDB for patterns that the crate `regex` reads alike: without a match `regexp_extract`
//! gives an empty text, and `regexp_replace` changes the first match unless its options have `g`. Arguments are read in place; no
//! copy is larger than they are.

use std::borrow::Cow;

use zipfdb_sql::query::Function;
use zipfdb_sql::quote;

use super::convert::{to_bytes, to_integer};
use super::pattern::Pattern;
use crate::batch::text_or_blob;
use crate::runtime::interrupt::Pace;
use crate::runtime::memory::ValueMemory;
use crate::{Error, Result, Value};

/// A call with its arguments, none of them NULL.
pub(super) struct RegexpCall<'a> {
    /// The pattern, with its options before it.
    pub(super) pattern: Cow<'a, Value>,
    kind: CallKind<'a>,
}

enum CallKind<'a> {
    /// The group.
    Extract(usize),
    Replace {
        replacement: Cow<'a, [u8]>,
        /// The match as a whole, and the groups in the replacement.
        groups: Vec<usize>,
        is_global: bool,
    },
}

/// A part of a replacement.
enum ReplacementPart<'a> {
    Bytes(&'a [u8]),
    Group(usize),
}

impl<'a> RegexpCall<'a> {
    /// Reads the arguments behind text and pattern.
    ///
    /// # Errors
    /// If a group, a replacement or options are not valid, or the pattern is too long.
    pub(super) fn new(
        function: Function,
        pattern: &'a Value,
        rest: &'a [Value],
        memory: &ValueMemory,
    ) -> Result<RegexpCall<'a>> {
        let invalid = |subject: String, reason: &str| Error::Invalid {
            subject,
            reason: reason.into(),
        };
        if function == Function::RegexpExtract {
            let group = rest.first().map_or(0, to_integer);
            let group = usize::try_from(group).map_err(|_| {
                invalid(
                    format!("regexp_extract, group {group}"),
                    "groups count from 0",
                )
            })?;
            return Ok(RegexpCall {
                pattern: Cow::Borrowed(pattern),
                kind: CallKind::Extract(group),
            });
        }
        let options = rest.get(1).and_then(to_bytes).unwrap_or_default();
        let unknown = |option: &&u8| !b"gcims".contains(option);
        if let Some(option) = options.iter().find(unknown) {
            let subject = format!("option {} of regexp_replace", quote(&[*option]));
            let reason = "it is none; hint: g replaces all matches, i ignores case, m and s are those of patterns, c is the default";
            return Err(invalid(subject, reason));
        }
        let flags: String = ['i', 'm', 's']
            .into_iter()
            .filter(|flag| options.contains(&(*flag as u8))) // ASCII
            .collect();
        let pattern = match (flags.is_empty(), to_bytes(pattern)) {
            (false, Some(bytes)) => {
                let length = (bytes.len() + flags.len() + 3) as u64;
                let mut written = memory.buffer("a pattern with its options", length)?;
                written.extend_from_slice(format!("(?{flags})").as_bytes());
                written.extend_from_slice(&bytes);
                Cow::Owned(text_or_blob(written))
            }
            _ => Cow::Borrowed(pattern),
        };
        let replacement = rest.first().and_then(to_bytes).unwrap_or_default();
        let mut groups = vec![0];
        for part in parts(&replacement) {
            match part {
                None => {
                    let subject = format!("replacement {}", quote(&replacement));
                    let reason = "a backslash stands before a digit, the number of a group, or another backslash";
                    return Err(invalid(subject, reason));
                }
                Some(ReplacementPart::Group(group)) if !groups.contains(&group) => {
                    groups.push(group);
                }
                Some(_) => {}
            }
        }
        Ok(RegexpCall {
            pattern,
            kind: CallKind::Replace {
                replacement,
                groups,
                is_global: options.contains(&b'g'),
            },
        })
    }

    /// The result of the call on a text.
    ///
    /// # Errors
    /// If it is too long, a replacement has a group that the pattern lacks, or the statement must end.
    pub(super) fn apply(
        &self,
        pattern: Option<&Pattern>,
        text: &Value,
        memory: &ValueMemory,
        pace: &mut Pace,
    ) -> Result<Value> {
        let (Some(Pattern::Regexp(regexp)), Some(text)) = (pattern, to_bytes(text)) else {
            return Ok(Value::Null);
        };
        match &self.kind {
            CallKind::Extract(group) => {
                let found = regexp.groups(&text, 0, &[*group], pace)?;
                let found = found.and_then(|groups| groups.into_iter().next().flatten());
                let found = &text[found.unwrap_or(0..0)];
                let mut bytes =
                    memory.buffer("the result of regexp_extract", found.len() as u64)?;
                bytes.extend_from_slice(found);
                Ok(text_or_blob(bytes))
            }
            CallKind::Replace {
                replacement,
                groups,
                is_global,
            } => {
                let mut replaced = Replaced {
                    bytes: Vec::new(),
                    memory,
                };
                let missing = groups.iter().find(|group| **group > regexp.group_count());
                let (mut kept, mut from, mut last_end) = (0, 0, None);
                while let Some(places) = regexp.groups(&text, from, groups, pace)? {
                    pace.step()?;
                    let Some(whole) = places.first().cloned().flatten() else {
                        break;
                    };
                    // An empty match right behind another is none.
                    if !(whole.is_empty() && last_end == Some(whole.end)) {
                        if let Some(group) = missing {
                            return Err(Error::Invalid {
                                subject: "regexp_replace".into(),
                                reason: format!("the pattern has no group {group}"),
                            });
                        }
                        replaced.push(&text[kept..whole.start])?;
                        for part in parts(replacement).flatten() {
                            match part {
                                ReplacementPart::Bytes(bytes) => replaced.push(bytes)?,
                                ReplacementPart::Group(group) => {
                                    let index = groups.iter().position(|known| *known == group);
                                    let place = index.and_then(|index| places[index].clone());
                                    replaced.push(&text[place.unwrap_or(0..0)])?;
                                }
                            }
                        }
                        kept = whole.end;
                        last_end = Some(whole.end);
                        if !is_global {
                            break;
                        }
                    }
                    from = if whole.is_empty() {
                        next_character(&text, whole.end)
                    } else {
                        whole.end
                    };
                    if from > text.len() {
                        break;
                    }
                }
                replaced.push(&text[kept..])?;
                Ok(text_or_blob(replaced.bytes))
            }
        }
    }
}

/// The start of the character behind this byte.
fn next_character(text: &[u8], at: usize) -> usize {
    let continues = |at: &usize| text.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let mut next = at + 1;
    while continues(&next) {
        next += 1;
    }
    next
}

/// The parts of a replacement: `\\1` is a group, `\\0` the match, `\\\\` a backslash; `None` for others.
fn parts(replacement: &[u8]) -> impl Iterator<Item = Option<ReplacementPart<'_>>> {
    let mut rest = replacement;
    std::iter::from_fn(move || {
        let (part, behind) = match (rest, memchr::memchr(b'\\', rest)) {
            ([], _) => return None,
            (_, None) => (Some(ReplacementPart::Bytes(rest)), &rest[rest.len()..]),
            (_, Some(0)) => match rest.get(1) {
                Some(digit @ b'0'..=b'9') => {
                    let group = usize::from(digit - b'0');
                    (Some(ReplacementPart::Group(group)), &rest[2..])
                }
                Some(b'\\') => (Some(ReplacementPart::Bytes(&rest[..1])), &rest[2..]),
                _ => (None, &rest[rest.len()..]),
            },
            (_, Some(at)) => (Some(ReplacementPart::Bytes(&rest[..at])), &rest[at..]),
        };
        rest = behind;
        Some(part)
    })
}

/// The text so far.
struct Replaced<'a> {
    bytes: Vec<u8>,
    memory: &'a ValueMemory,
}

impl Replaced<'_> {
    fn push(&mut self, bytes: &[u8]) -> Result<()> {
        let length = self.bytes.len().saturating_add(bytes.len());
        self.memory
            .check("the result of regexp_replace", length as u64)?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}
