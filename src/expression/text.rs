//! Functions on texts: characters, case, trimming, searching.
//!
//! A number stands for its text, a BLOB for the text of its bytes. Invariant: characters are counted as SQLite counts them in
//! UTF-8, so a BLOB that is no text still has a length in characters: bytes that continue a character do not count.

use std::collections::HashSet;

use memchr::memchr2;
use memchr::memmem::Finder;
use zipfdb_sql::substr_range;

use super::convert::{from_count, to_bytes, to_integer};
use crate::batch::text_or_blob;
use crate::runtime::interrupt::Pace;
use crate::runtime::memory::ValueMemory;
use crate::{Result, Value};

/// The least bytes of work between two checks for interruption.
pub(super) const PART: usize = 1 << 18;

/// The start of each character.
fn character_starts(text: &[u8]) -> impl DoubleEndedIterator<Item = usize> + '_ {
    let is_start = |byte: u8| byte & 0xc0 != 0x80;
    text.iter()
        .enumerate()
        .filter(move |(index, byte)| *index == 0 || is_start(**byte))
        .map(|(index, _)| index)
}

fn character_count(text: &[u8]) -> u64 {
    if text.is_ascii() {
        text.len() as u64
    } else {
        character_starts(text).count() as u64
    }
}

/// `length(x)` of a value that is not NULL.
pub(super) fn length(value: &Value) -> Value {
    match value {
        Value::Blob(bytes) => from_count(bytes.len() as u64),
        other => from_count(character_count(&to_bytes(other).unwrap_or_default())),
    }
}

/// `substr(text, start, length)`.
pub(super) fn substr(
    text: &[u8],
    start: i64,
    length: Option<i64>,
    memory: &ValueMemory,
) -> Result<Value> {
    let range = substr_range(start, length, character_count(text));
    // A character's number is at most the length of the slice.
    let byte_of = |character: u64| {
        if text.is_ascii() {
            character as usize
        } else {
            let mut starts = character_starts(text);
            starts.nth(character as usize).unwrap_or(text.len())
        }
    };
    let part = &text[byte_of(range.start)..byte_of(range.end)];
    part_of(part, "the result of substr", memory).map(text_or_blob)
}

/// Bytes of an argument, copied.
pub(super) fn part_of(part: &[u8], what: &str, memory: &ValueMemory) -> Result<Vec<u8>> {
    let mut copy = memory.buffer(what, part.len() as u64)?;
    copy.extend_from_slice(part);
    Ok(copy)
}

/// `instr(x, y)`: bytes of two BLOBs, else characters; 0 if there is none.
///
/// # Errors
/// If the statement must end.
pub(super) fn instr(value: &Value, wanted: &Value, pace: &mut Pace) -> Result<Value> {
    let text = to_bytes(value).unwrap_or_default();
    let needle = to_bytes(wanted).unwrap_or_default();
    let in_bytes = matches!((value, wanted), (Value::Blob(_), Value::Blob(_)));
    let found = find(&text, 0, &Finder::new(&*needle), pace)?;
    Ok(from_count(match found {
        None => 0,
        Some(at) if in_bytes => at as u64 + 1,
        Some(at) => character_count(&text[..at]) + 1,
    }))
}

/// The first place of the needle at a byte of the text or behind it.
fn find(text: &[u8], mut at: usize, needle: &Finder<'_>, pace: &mut Pace) -> Result<Option<usize>> {
    let length = needle.needle().len();
    loop {
        let end = text.len().min(at + PART.max(2 * length));
        if let Some(found) = needle.find(&text[at..end]) {
            // Needles may be adjacent.
            pace.work(found + 1)?;
            return Ok(Some(at + found));
        }
        pace.work(end - at)?;
        if end == text.len() {
            return Ok(None);
        }
        // A match may begin in this part and end behind it.
        at = end - (length - 1);
    }
}

/// `replace(x, from, to)`.
///
/// # Errors
/// If it is too long, or the statement must end.
pub(super) fn replace(
    value: &Value,
    from: Option<&Value>,
    to: Option<&Value>,
    memory: &ValueMemory,
    pace: &mut Pace,
) -> Result<Value> {
    const WHAT: &str = "the result of replace";
    let (Some(text), Some(from)) = (to_bytes(value), from.and_then(to_bytes)) else {
        return Ok(Value::Null);
    };
    if from.is_empty() {
        return match value {
            Value::Blob(bytes) => part_of(bytes, WHAT, memory).map(text_or_blob),
            other => memory.copy(other),
        };
    }
    let Some(to) = to.and_then(to_bytes) else {
        return Ok(Value::Null);
    };
    let from = Finder::new(&*from);
    // A result that cannot grow needs no count.
    let growth = to.len().saturating_sub(from.needle().len()) as u64;
    let mut bytes = text.len() as u64;
    if growth > 0 {
        let mut next = 0;
        while let Some(at) = find(&text, next, &from, pace)? {
            bytes = bytes.saturating_add(growth);
            next = at + from.needle().len();
        }
    }
    let mut replaced = memory.buffer(WHAT, bytes)?;
    let mut kept = 0;
    while let Some(at) = find(&text, kept, &from, pace)? {
        pace.work(to.len())?;
        replaced.extend_from_slice(&text[kept..at]);
        replaced.extend_from_slice(&to);
        kept = at + from.needle().len();
    }
    replaced.extend_from_slice(&text[kept..]);
    Ok(text_or_blob(replaced))
}

/// `split_part(x, separator, number)`: parts count from 1, or from -1 at the end; an empty text for a missing part. An empty
/// separator splits all characters.
///
/// # Errors
/// If it is too long, or the statement must end.
pub(super) fn split_part(
    arguments: &[&Value],
    memory: &ValueMemory,
    pace: &mut Pace,
) -> Result<Value> {
    let [value, separator, number] = arguments else {
        return Ok(Value::Null);
    };
    let text = to_bytes(value).unwrap_or_default();
    let separator = to_bytes(separator).unwrap_or_default();
    let finder = Finder::new(&*separator);
    let number = to_integer(number);
    let index = match number {
        0 => None,
        1.. => Some(number.unsigned_abs() - 1),
        // Parts are counted first: there may be one for each byte, too many to be kept.
        _ => {
            let mut count = 0u64;
            let mut next = Some(0);
            while let Some(begin) = next {
                next = end_of_part(&text, begin, &finder, pace)?.1;
                count += 1;
            }
            count.checked_sub(number.unsigned_abs())
        }
    };
    let mut found = 0..0;
    let mut next = index.map(|_| 0);
    let mut left = index.unwrap_or(0);
    while let Some(begin) = next {
        let (end, behind) = end_of_part(&text, begin, &finder, pace)?;
        if left == 0 {
            found = begin..end;
            break;
        }
        left -= 1;
        next = behind;
    }
    part_of(&text[found], "the result of split_part", memory).map(text_or_blob)
}

/// The end of a part of a text, and the start of the next one if there is one. Without a separator a part is a character.
fn end_of_part(
    text: &[u8],
    begin: usize,
    separator: &Finder<'_>,
    pace: &mut Pace,
) -> Result<(usize, Option<usize>)> {
    if separator.needle().is_empty() {
        let continues = |byte: &&u8| **byte & 0xc0 == 0x80;
        let rest = text.get(begin + 1..).unwrap_or_default();
        let end = text
            .len()
            .min(begin + 1 + rest.iter().take_while(continues).count());
        pace.work(end - begin)?;
        return Ok((end, (end < text.len()).then_some(end)));
    }
    let end = find(text, begin, separator, pace)?;
    let length = separator.needle().len();
    Ok((end.unwrap_or(text.len()), end.map(|end| end + length)))
}

/// The case that `change_case` makes of letters.
#[derive(Debug, Clone, Copy)]
pub(super) enum Case {
    Lower,
    Upper,
}

impl Case {
    fn changed(self, text: &str) -> String {
        match self {
            Case::Lower => text.to_lowercase(),
            Case::Upper => text.to_uppercase(),
        }
    }

    /// The length of the changed text. A sigma at the end of a word has the same length.
    fn changed_bytes(self, text: &str) -> usize {
        let characters = text.chars();
        match self {
            _ if text.is_ascii() => text.len(),
            Case::Lower => characters
                .flat_map(char::to_lowercase)
                .map(char::len_utf8)
                .sum(),
            Case::Upper => characters
                .flat_map(char::to_uppercase)
                .map(char::len_utf8)
                .sum(),
        }
    }
}

/// `lower(x)` and `upper(x)`; bytes that are not UTF-8 stay.
///
/// # Errors
/// If it is too long, or the statement must end.
pub(super) fn change_case(
    value: &Value,
    case: Case,
    memory: &ValueMemory,
    pace: &mut Pace,
) -> Result<Value> {
    let what = match case {
        Case::Lower => "the result of lower",
        Case::Upper => "the result of upper",
    };
    let text = to_bytes(value).unwrap_or_default();
    let mut bytes = 0;
    for chunk in text.utf8_chunks() {
        for part in CasedParts(chunk.valid()) {
            pace.work(part.len())?;
            bytes += case.changed_bytes(part);
        }
        bytes += chunk.invalid().len();
    }
    let mut changed = memory.buffer(what, bytes as u64)?;
    for chunk in text.utf8_chunks() {
        for part in CasedParts(chunk.valid()) {
            pace.work(part.len())?;
            changed.extend_from_slice(case.changed(part).as_bytes());
        }
        changed.extend_from_slice(chunk.invalid());
    }
    Ok(text_or_blob(changed))
}

/// A text, cut where no letter depends on others of its word.
struct CasedParts<'a>(&'a str);

impl<'a> Iterator for CasedParts<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.0.is_empty() {
            return None;
        }
        let behind = self.0.as_bytes().get(PART..).unwrap_or_default();
        let space = memchr2(b' ', b'\n', behind);
        let (part, rest) = (self.0).split_at(space.map_or(self.0.len(), |space| PART + space));
        self.0 = rest;
        Some(part)
    }
}

/// `trim(x, characters)` at the wanted ends; spaces if no characters are given.
///
/// # Errors
/// If it is too long, or the statement must end.
pub(super) fn trim(
    value: &Value,
    set: Option<&Value>,
    (at_start, at_end): (bool, bool),
    memory: &ValueMemory,
    pace: &mut Pace,
) -> Result<Value> {
    let text = to_bytes(value).unwrap_or_default();
    let set = set.and_then(to_bytes).unwrap_or(b" ".as_slice().into());
    let characters = distinct_characters(&set, memory, pace)?;
    let mut rest = &*text;
    while let Some(found) = characters
        .iter()
        .find(|character| at_start && rest.starts_with(character))
    {
        pace.work(characters.len())?;
        rest = &rest[found.len()..];
    }
    while let Some(found) = characters
        .iter()
        .find(|character| at_end && rest.ends_with(character))
    {
        pace.work(characters.len())?;
        rest = &rest[..rest.len() - found.len()];
    }
    part_of(rest, "the result of trim", memory).map(text_or_blob)
}

/// The distinct characters of a set, in order.
fn distinct_characters<'s>(
    set: &'s [u8],
    memory: &ValueMemory,
    pace: &mut Pace,
) -> Result<Vec<&'s [u8]>> {
    /// The memory of a character here and in the table.
    const CHARACTER_BYTES: u64 = 3 * size_of::<&[u8]>() as u64;
    let bytes = character_count(set).saturating_mul(CHARACTER_BYTES);
    memory.check_left("the characters of trim", bytes)?;
    let mut known = HashSet::new();
    let mut characters = Vec::new();
    let mut starts = character_starts(set).peekable();
    while let Some(start) = starts.next() {
        pace.work(1 << 4)?;
        let character = &set[start..starts.peek().copied().unwrap_or(set.len())];
        if known.insert(character) {
            characters.push(character);
        }
    }
    Ok(characters)
}

/// `concat_ws(separator, ...)`: NULLs are left out. `what` names the result.
pub(super) fn concat(
    what: &str,
    separator: &[u8],
    arguments: &[&Value],
    memory: &ValueMemory,
) -> Result<Value> {
    let texts: Vec<_> = arguments
        .iter()
        .filter_map(|value| to_bytes(value))
        .collect();
    let separators = texts
        .len()
        .saturating_sub(1)
        .saturating_mul(separator.len());
    // All except the separators is in memory.
    let bytes = texts.iter().map(|text| text.len() as u64).sum::<u64>();
    let mut joined = memory.buffer(what, bytes.saturating_add(separators as u64))?;
    for (index, text) in texts.iter().enumerate() {
        if index > 0 {
            joined.extend_from_slice(separator);
        }
        joined.extend_from_slice(text);
    }
    Ok(text_or_blob(joined))
}

/// `char(codepoint, ...)`: numbers that are no characters become U+FFFD.
pub(super) fn from_code_points(arguments: &[&Value]) -> Value {
    let characters = arguments.iter().map(|value| {
        let code = u32::try_from(to_integer(value)).ok();
        code.and_then(char::from_u32)
            .unwrap_or(char::REPLACEMENT_CHARACTER)
    });
    Value::Text(characters.collect())
}

/// `unicode(x)`; NULL of an empty text.
pub(super) fn first_code_point(value: &Value) -> Value {
    let text = to_bytes(value).unwrap_or_default();
    let first = text.utf8_chunks().next().map(|chunk| {
        let character = chunk.valid().chars().next();
        character.unwrap_or(char::REPLACEMENT_CHARACTER)
    });
    first.map_or(Value::Null, |character| {
        Value::Integer(u32::from(character).into())
    })
}
