//! `regexp_extract` and `regexp_replace`: their arguments, and what they make of a text.
//!
//! Invariant: the answers are those of DuckDB for patterns that the crate `regex` reads alike: without a match `regexp_extract`
//! gives an empty text, and `regexp_replace` changes the first match unless its options have `g`.

use zipfdb_sql::query::Function;

use super::convert::{text_or_blob, to_bytes, to_integer};
use super::pattern::Pattern;
use crate::runtime::interrupt::Pace;
use crate::runtime::memory::ValueMemory;
use crate::{Error, Result, Value};

/// A call whose arguments are there, none of them NULL.
pub(super) struct RegexpCall {
    /// The pattern, with its options before it.
    pub(super) pattern: Value,
    kind: CallKind,
}

enum CallKind {
    /// The group.
    Extract(usize),
    Replace {
        replacement: Vec<Replacement>,
        is_global: bool,
    },
}

/// A part of a replacement.
enum Replacement {
    Bytes(Vec<u8>),
    Group(usize),
}

impl RegexpCall {
    /// Reads what follows text and pattern.
    ///
    /// # Errors
    /// If a group, a replacement or options are not what they should be.
    pub(super) fn new(function: Function, pattern: &Value, rest: &[Value]) -> Result<RegexpCall> {
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
                pattern: pattern.clone(),
                kind: CallKind::Extract(group),
            });
        }
        let mut flags = String::new();
        let mut is_global = false;
        for option in rest.get(1).and_then(to_bytes).unwrap_or_default().iter() {
            match option {
                b'g' => is_global = true,
                b'c' => {}
                b'i' | b'm' | b's' => flags.push(char::from(*option)),
                _ => {
                    let subject = format!("option {} of regexp_replace", option.escape_ascii());
                    let reason = "it is none; hint: g replaces all matches, i ignores case, m and s are those of patterns, c is \
                                  the default";
                    return Err(invalid(subject, reason));
                }
            }
        }
        let pattern = match (flags.is_empty(), to_bytes(pattern)) {
            (false, Some(bytes)) => {
                text_or_blob([format!("(?{flags})").as_bytes(), &bytes].concat())
            }
            _ => pattern.clone(),
        };
        let replacement = rest.first().and_then(to_bytes).unwrap_or_default();
        let replacement = parts(&replacement).ok_or_else(|| {
            let subject = format!("replacement \"{}\"", replacement.escape_ascii());
            let reason =
                "a backslash stands before a digit, the number of a group, or another backslash";
            invalid(subject, reason)
        })?;
        Ok(RegexpCall {
            pattern,
            kind: CallKind::Replace {
                replacement,
                is_global,
            },
        })
    }

    /// What the call makes of a text.
    ///
    /// # Errors
    /// If it is too long, a replacement has a group that the pattern has not, or the statement has to end.
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
        // The search for a match that is not there ends with the statement.
        let has_match = regexp.matches(&text, pace)?;
        match &self.kind {
            CallKind::Extract(_) if !has_match => Ok(Value::Text(String::new())),
            CallKind::Extract(group) => {
                let found = regexp
                    .groups(&text, 0)
                    .and_then(|groups| groups.get(*group).cloned()?);
                let found = &text[found.unwrap_or(0..0)];
                let mut bytes =
                    memory.buffer("the result of regexp_extract", found.len() as u64)?;
                bytes.extend_from_slice(found);
                Ok(text_or_blob(bytes))
            }
            CallKind::Replace {
                replacement,
                is_global,
            } => {
                let mut replaced = Replaced {
                    bytes: Vec::new(),
                    memory,
                };
                let (mut kept, mut from, mut last_end) = (0, 0, None);
                while let Some(groups) = regexp.groups(&text, from).filter(|_| has_match) {
                    let Some(whole) = groups.first().cloned().flatten() else {
                        break;
                    };
                    pace.work(whole.end - from + 1)?;
                    // An empty match right behind another is none.
                    if !(whole.is_empty() && last_end == Some(whole.end)) {
                        replaced.push(&text[kept..whole.start])?;
                        for part in replacement {
                            match part {
                                Replacement::Bytes(bytes) => replaced.push(bytes)?,
                                Replacement::Group(group) => {
                                    let group =
                                        groups.get(*group).ok_or_else(|| Error::Invalid {
                                            subject: "regexp_replace".into(),
                                            reason: format!("the pattern has no group {group}"),
                                        })?;
                                    replaced.push(&text[group.clone().unwrap_or(0..0)])?;
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

/// Where the character behind this byte begins.
fn next_character(text: &[u8], at: usize) -> usize {
    let continues = |at: &usize| text.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let mut next = at + 1;
    while continues(&next) {
        next += 1;
    }
    next
}

/// The parts of a replacement: `\\1` is what a group holds, `\\0` the match, `\\\\` a backslash.
fn parts(replacement: &[u8]) -> Option<Vec<Replacement>> {
    let mut parts = Vec::new();
    let mut rest = replacement;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        parts.push(Replacement::Bytes(rest[..at].to_vec()));
        parts.push(match rest.get(at + 1)? {
            digit @ b'0'..=b'9' => Replacement::Group(usize::from(digit - b'0')),
            b'\\' => Replacement::Bytes(b"\\".to_vec()),
            _ => return None,
        });
        rest = &rest[at + 2..];
    }
    parts.push(Replacement::Bytes(rest.to_vec()));
    Some(parts)
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
