//! Functions on texts: characters, case, trimming, searching.
//!
//! A number stands for its text, a BLOB for the text that its bytes are. Invariant: characters are counted as SQLite counts
//! them in UTF-8, so a BLOB that is no text still has a length in characters: bytes that continue a character count nothing.

use super::convert::{from_count, text_or_blob, to_bytes, to_integer};
use crate::Value;
use zipfdb_sql::substr_range;

/// Where each character begins.
fn character_starts(text: &[u8]) -> impl DoubleEndedIterator<Item = usize> + '_ {
    let is_start = |byte: u8| byte & 0xc0 != 0x80;
    text.iter()
        .enumerate()
        .filter(move |(index, byte)| *index == 0 || is_start(**byte))
        .map(|(index, _)| index)
}

fn character_count(text: &[u8]) -> u64 {
    match text.is_ascii() {
        true => text.len() as u64,
        false => character_starts(text).count() as u64,
    }
}

/// `length(x)` of what is not NULL.
pub(super) fn length(value: &Value) -> Value {
    match value {
        Value::Blob(bytes) => from_count(bytes.len() as u64),
        other => from_count(character_count(&to_bytes(other).unwrap_or_default())),
    }
}

/// `substr(text, start, length)`.
pub(super) fn substr(text: &[u8], start: i64, length: Option<i64>) -> Value {
    let range = substr_range(start, length, character_count(text));
    let byte_of = |character: u64| match text.is_ascii() {
        // At most the length of a slice.
        true => character as usize,
        false => {
            let mut starts = character_starts(text);
            starts.nth(character as usize).unwrap_or(text.len())
        }
    };
    text_or_blob(text[byte_of(range.start)..byte_of(range.end)].to_vec())
}

/// `instr(x, y)`: bytes of two BLOBs, else characters; 0 if there is none.
pub(super) fn instr(value: &Value, wanted: &Value) -> Value {
    let text = to_bytes(value).unwrap_or_default();
    let needle = to_bytes(wanted).unwrap_or_default();
    let in_bytes = matches!((value, wanted), (Value::Blob(_), Value::Blob(_)));
    from_count(match find(&text, &needle) {
        None => 0,
        Some(at) if in_bytes => at as u64 + 1,
        Some(at) => character_count(&text[..at]) + 1,
    })
}

/// Where `needle` first occurs.
fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    match needle {
        [] => Some(0),
        needle => text.windows(needle.len()).position(|part| part == needle),
    }
}

/// `replace(x, from, to)`.
pub(super) fn replace(value: &Value, from: Option<&Value>, to: Option<&Value>) -> Value {
    let (Some(text), Some(from)) = (to_bytes(value), from.and_then(to_bytes)) else {
        return Value::Null;
    };
    if from.is_empty() {
        return match value {
            Value::Blob(bytes) => text_or_blob(bytes.clone()),
            other => other.clone(),
        };
    }
    let Some(to) = to.and_then(to_bytes) else {
        return Value::Null;
    };
    let mut replaced = Vec::with_capacity(text.len());
    let mut rest = &*text;
    while let Some(at) = find(rest, &from) {
        replaced.extend_from_slice(&rest[..at]);
        replaced.extend_from_slice(&to);
        rest = &rest[at + from.len()..];
    }
    replaced.extend_from_slice(rest);
    text_or_blob(replaced)
}

/// `lower(x)` and `upper(x)`; bytes that are not UTF-8 stay.
pub(super) fn change_case(value: &Value, change: fn(&str) -> String) -> Value {
    let text = to_bytes(value).unwrap_or_default();
    let mut changed = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        changed.extend_from_slice(change(chunk.valid()).as_bytes());
        changed.extend_from_slice(chunk.invalid());
    }
    text_or_blob(changed)
}

/// `trim(x, characters)` at the wanted ends; spaces if no characters are given.
pub(super) fn trim(value: &Value, set: Option<&Value>, at_start: bool, at_end: bool) -> Value {
    let text = to_bytes(value).unwrap_or_default();
    let set = set.and_then(to_bytes).unwrap_or(b" ".as_slice().into());
    let mut ends: Vec<usize> = character_starts(&set).collect();
    ends.push(set.len());
    let characters: Vec<&[u8]> = ends
        .windows(2)
        .map(|range| &set[range[0]..range[1]])
        .collect();
    let mut rest = &*text;
    while let Some(found) = characters
        .iter()
        .find(|character| at_start && rest.starts_with(character))
    {
        rest = &rest[found.len()..];
    }
    while let Some(found) = characters
        .iter()
        .find(|character| at_end && rest.ends_with(character))
    {
        rest = &rest[..rest.len() - found.len()];
    }
    text_or_blob(rest.to_vec())
}

/// `concat_ws(separator, ...)`: NULLs are left out.
pub(super) fn concat(separator: &[u8], arguments: &[&Value]) -> Value {
    let texts: Vec<_> = arguments
        .iter()
        .filter_map(|value| to_bytes(value))
        .collect();
    text_or_blob(texts.join(separator))
}

/// `char(codepoint, ...)`: what is no character becomes U+FFFD.
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
