//! `json_extract`, `->` and `->>`: parts of JSON texts, as SQLite has them (json1.html).
//!
//! A text is checked as a whole and then searched where it lies; nothing of it is built. Invariant: no depth of nesting uses the
//! thread's stack, and what is not JSON (RFC 8259) is an error, but that strings may hold control characters.

use std::ops::Range;

use super::convert::{text_or_blob, to_bytes};
use crate::runtime::interrupt::Pace;
use crate::runtime::memory::ValueMemory;
use crate::{Error, Result, Value};

/// Arrays and objects within each other, at most, as in SQLite.
const DEPTH_MAX: usize = 1000;

/// `json_extract(text, path, ...)`: one path gives a value, several an array.
///
/// # Errors
/// If the text is not JSON, a path is none, the value is too long or the statement has to end.
pub(super) fn extract(
    arguments: &[&Value],
    memory: &ValueMemory,
    pace: &mut Pace,
) -> Result<Value> {
    let Some((text, paths)) = arguments.split_first() else {
        return Ok(Value::Null);
    };
    let Some(text) = to_bytes(text) else {
        return Ok(Value::Null);
    };
    let root = Json::check(&text, pace)?;
    if let [path] = paths {
        let Some(path) = to_bytes(path) else {
            return Ok(Value::Null);
        };
        return match root.at(&path)? {
            Some(part) => part.value(memory),
            None => Ok(Value::Null),
        };
    }
    let mut array = b"[".to_vec();
    for (index, path) in paths.iter().enumerate() {
        let Some(path) = to_bytes(path) else {
            return Ok(Value::Null);
        };
        if index > 0 {
            array.push(b',');
        }
        match root.at(&path)? {
            Some(part) => part.write(&mut array, memory)?,
            None => array.extend_from_slice(b"null"),
        }
    }
    array.push(b']');
    Ok(text_or_blob(array))
}

/// `text -> path`, which gives JSON, and `text ->> path`, which gives a value. The path may be an index or a name alone.
///
/// # Errors
/// As `extract`.
pub(super) fn arrow(
    text: &Value,
    path: &Value,
    gives_json: bool,
    memory: &ValueMemory,
    pace: &mut Pace,
) -> Result<Value> {
    let (Some(text), Some(written)) = (to_bytes(text), to_bytes(path)) else {
        return Ok(Value::Null);
    };
    let root = Json::check(&text, pace)?;
    let part = match (path, &*written) {
        (_, [b'$', ..]) => root.at(&written)?,
        (Value::Integer(index), _) if *index < 0 => root.element_from_end(index.unsigned_abs()),
        (Value::Integer(index), _) => root.element(index.unsigned_abs()),
        (_, [b'[', .., b']']) => root.at(&[b"$", &*written].concat())?,
        (_, name) => root.member(name),
    };
    match part {
        None => Ok(Value::Null),
        Some(part) if gives_json => {
            let mut written = Vec::new();
            part.write(&mut written, memory)?;
            Ok(text_or_blob(written))
        }
        Some(part) => part.value(memory),
    }
}

/// A value within a text that has been checked.
#[derive(Clone)]
struct Json<'a> {
    text: &'a [u8],
    range: Range<usize>,
}

impl<'a> Json<'a> {
    /// The value that the whole text is.
    fn check(text: &'a [u8], pace: &mut Pace) -> Result<Json<'a>> {
        pace.work(text.len())?;
        let malformed = |at: usize| Error::Invalid {
            subject: "JSON".into(),
            reason: format!("the text is malformed at byte {}", at + 1),
        };
        let mut scanner = Scanner { text, at: 0 };
        scanner.spaces();
        let begin = scanner.at;
        scanner.value().ok_or_else(|| malformed(scanner.at))?;
        let range = begin..scanner.at;
        scanner.spaces();
        if scanner.at == text.len() {
            Ok(Json { text, range })
        } else {
            Err(malformed(scanner.at))
        }
    }

    fn bytes(&self) -> &'a [u8] {
        &self.text[self.range.clone()]
    }

    /// The part at a path: `$`, then `.name`, `."name"`, `[0]`, `[#-1]`. What follows a part that is not there is not read.
    fn at(&self, path: &[u8]) -> Result<Option<Json<'a>>> {
        let wrong = || Error::Invalid {
            subject: format!("JSON path \"{}\"", path.escape_ascii()),
            reason: "it is none; hint: paths are as '$.name[0]'".into(),
        };
        let mut rest = path.strip_prefix(b"$").ok_or_else(wrong)?;
        let mut part = self.clone();
        while let Some((first, behind)) = rest.split_first() {
            let found = match first {
                b'.' => {
                    let (name, end) = match behind.strip_prefix(b"\"") {
                        Some(quoted) => {
                            let end = memchr::memchr(b'"', quoted).ok_or_else(wrong)?;
                            (&quoted[..end], end + 2)
                        }
                        None => {
                            let ends = |byte: &u8| matches!(byte, b'.' | b'[');
                            let end = behind.iter().position(ends).unwrap_or(behind.len());
                            if end == 0 {
                                return Err(wrong());
                            }
                            (&behind[..end], end)
                        }
                    };
                    rest = &behind[end..];
                    part.member(name)
                }
                b'[' if part.bytes().first() != Some(&b'[') => return Ok(None),
                b'[' => {
                    let end = memchr::memchr(b']', behind).ok_or_else(wrong)?;
                    let (from_end, digits) = match behind[..end].strip_prefix(b"#") {
                        Some(rest) => (true, rest.strip_prefix(b"-").or(Some(rest))),
                        None => (false, Some(&behind[..end])),
                    };
                    let digits = digits.unwrap_or_default();
                    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
                    let is_behind_end = from_end && end == 1;
                    let has_sign = !from_end || behind[..end].starts_with(b"#-");
                    let is_index = is_behind_end || is_number && has_sign;
                    if !is_index {
                        return Err(wrong());
                    }
                    // An array is not so long.
                    let text = std::str::from_utf8(digits).unwrap_or_default();
                    let index = text.parse().unwrap_or(u64::MAX);
                    rest = &behind[end + 1..];
                    match (from_end, is_behind_end) {
                        (_, true) => None,
                        (true, _) => part.element_from_end(index),
                        (false, _) => part.element(index),
                    }
                }
                _ => return Err(wrong()),
            };
            match found {
                Some(found) => part = found,
                None => return Ok(None),
            }
        }
        Ok(Some(part))
    }

    /// The member of an object, the first of this name.
    fn member(&self, name: &[u8]) -> Option<Json<'a>> {
        let wanted = String::from_utf8_lossy(name);
        self.parts().find_map(|(label, part)| {
            let label = label?;
            let raw = &self.text[label.start + 1..label.end - 1];
            let is_same = raw == name || raw.contains(&b'\\') && unescaped(raw) == *wanted;
            is_same.then_some(part)
        })
    }

    /// The element of an array.
    fn element(&self, index: u64) -> Option<Json<'a>> {
        self.elements().nth(usize::try_from(index).ok()?)
    }

    /// The element of an array, from 1 for the last.
    fn element_from_end(&self, index: u64) -> Option<Json<'a>> {
        let count = self.elements().count() as u64;
        self.element(count.checked_sub(index)?)
    }

    fn elements(&self) -> impl Iterator<Item = Json<'a>> {
        let parts = self.parts();
        parts.filter_map(|(label, part)| label.is_none().then_some(part))
    }

    /// What an array or an object holds, with names of members in their quotes.
    fn parts(&self) -> impl Iterator<Item = (Option<Range<usize>>, Json<'a>)> + use<'a> {
        let text = self.text;
        let mut scanner = Scanner {
            text,
            at: self.range.start,
        };
        let opened = scanner.peek();
        scanner.at += 1;
        std::iter::from_fn(move || {
            if !matches!(opened, Some(b'[' | b'{')) {
                return None;
            }
            scanner.spaces();
            if let Some(b',') = scanner.peek() {
                scanner.at += 1;
                scanner.spaces();
            }
            if matches!(scanner.peek(), Some(b']' | b'}') | None) {
                return None;
            }
            let mut label = None;
            if opened == Some(b'{') {
                let begin = scanner.at;
                scanner.string()?;
                label = Some(begin..scanner.at);
                scanner.spaces();
                // The colon.
                scanner.at += 1;
                scanner.spaces();
            }
            let begin = scanner.at;
            scanner.value()?;
            let range = begin..scanner.at;
            Some((label, Json { text, range }))
        })
    }

    /// Writes it as JSON without spaces.
    fn write(&self, target: &mut Vec<u8>, memory: &ValueMemory) -> Result<()> {
        let bytes = self.bytes();
        let length = target.len().saturating_add(bytes.len());
        memory.check("the result of json_extract", length as u64)?;
        let mut in_string = false;
        let mut is_escaped = false;
        for &byte in bytes {
            if in_string || !is_space(byte) {
                target.push(byte);
            }
            if byte == b'"' && !is_escaped {
                in_string = !in_string;
            }
            is_escaped = byte == b'\\' && !is_escaped;
        }
        Ok(())
    }

    /// It as a value of SQL; arrays and objects are JSON.
    fn value(&self, memory: &ValueMemory) -> Result<Value> {
        let bytes = self.bytes();
        Ok(match bytes.first() {
            Some(b'n') => Value::Null,
            Some(b't') => Value::Integer(1),
            Some(b'f') => Value::Integer(0),
            Some(b'"') => {
                memory.check("the result of json_extract", bytes.len() as u64)?;
                Value::Text(unescaped(&bytes[1..bytes.len() - 1]))
            }
            Some(b'[' | b'{') => {
                let mut written = Vec::new();
                self.write(&mut written, memory)?;
                text_or_blob(written)
            }
            _ => {
                let number = std::str::from_utf8(bytes).unwrap_or_default();
                match number.parse() {
                    Ok(integer) => Value::Integer(integer),
                    Err(_) => Value::Real(number.parse().unwrap_or(0.0)),
                }
            }
        })
    }
}

/// What a string means, without its quotes. Halves of surrogates become U+FFFD.
fn unescaped(raw: &[u8]) -> String {
    let raw = String::from_utf8_lossy(raw);
    let mut text = String::with_capacity(raw.len());
    let mut characters = raw.chars();
    let mut units = Vec::new();
    while let Some(character) = characters.next() {
        let plain = match character {
            '\\' => match characters.next() {
                Some('u') => {
                    let digits: String = characters.by_ref().take(4).collect();
                    units.push(u16::from_str_radix(&digits, 16).unwrap_or(0xfffd));
                    continue;
                }
                Some('b') => '\u{8}',
                Some('f') => '\u{c}',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some(other) => other,
                None => break,
            },
            other => other,
        };
        text.push_str(&String::from_utf16_lossy(&units));
        units.clear();
        text.push(plain);
    }
    text.push_str(&String::from_utf16_lossy(&units));
    text
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// A walk over a text.
struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn spaces(&mut self) {
        while self.peek().is_some_and(is_space) {
            self.at += 1;
        }
    }

    /// Goes past a value; none if there is no whole one.
    fn value(&mut self) -> Option<()> {
        // For each array or object that is open, whether it is an object.
        let mut open: Vec<bool> = Vec::new();
        loop {
            self.spaces();
            match self.peek()? {
                byte @ (b'[' | b'{') => {
                    self.at += 1;
                    self.spaces();
                    let is_object = byte == b'{';
                    let is_empty = self.peek()? == if is_object { b'}' } else { b']' };
                    if !is_empty {
                        open.push(is_object);
                        if open.len() > DEPTH_MAX {
                            return None;
                        }
                        if is_object {
                            self.label()?;
                        }
                        continue;
                    }
                    self.at += 1;
                }
                b'"' => self.string()?,
                b't' => self.word(b"true")?,
                b'f' => self.word(b"false")?,
                b'n' => self.word(b"null")?,
                _ => self.number()?,
            }
            // A value has ended: what it lies in goes on or ends too.
            loop {
                let Some(&is_object) = open.last() else {
                    return Some(());
                };
                self.spaces();
                match (self.peek()?, is_object) {
                    (b',', _) => {
                        self.at += 1;
                        if is_object {
                            self.spaces();
                            self.label()?;
                        }
                        break;
                    }
                    (b'}', true) | (b']', false) => {
                        self.at += 1;
                        open.pop();
                    }
                    _ => return None,
                }
            }
        }
    }

    /// The name of a member and its colon.
    fn label(&mut self) -> Option<()> {
        self.string()?;
        self.spaces();
        (self.peek()? == b':').then(|| self.at += 1)
    }

    fn string(&mut self) -> Option<()> {
        if self.peek()? != b'"' {
            return None;
        }
        self.at += 1;
        loop {
            let byte = self.peek()?;
            self.at += 1;
            match byte {
                b'"' => return Some(()),
                b'\\' => match self.peek()? {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 1,
                    b'u' => {
                        let digits = self.text.get(self.at + 1..self.at + 5)?;
                        if !digits.iter().all(u8::is_ascii_hexdigit) {
                            return None;
                        }
                        self.at += 5;
                    }
                    _ => return None,
                },
                _ => {}
            }
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        let is_there = self.text[self.at..].starts_with(word);
        is_there.then(|| self.at += word.len())
    }

    fn digits(&mut self) -> Option<()> {
        let begin = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > begin).then_some(())
    }

    fn number(&mut self) -> Option<()> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let has_zero = self.peek() == Some(b'0');
        let begin = self.at;
        self.digits()?;
        if has_zero && self.at > begin + 1 {
            return None;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }
}
