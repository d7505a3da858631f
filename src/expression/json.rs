//! `json_extract`, `->` and `->>`: parts of JSON texts, as in SQLite (json1.html).
//!
//! A text is checked as a whole and then searched in place; no tree of it is built. Invariant: no depth of nesting uses the
//! thread's stack, every pass over a text polls, and text that is not JSON (RFC 8259) is an error, except that strings may hold
//! control characters.

use std::ops::Range;

use zipfdb_sql::quote;

use super::convert::to_bytes;
use super::text::PART;
use crate::batch::text_or_blob;
use crate::runtime::interrupt::Pace;
use crate::runtime::memory::ValueMemory;
use crate::{Error, Result, Value};

/// The deepest nesting of arrays and objects, as in SQLite.
const DEPTH_MAX: usize = 1000;

/// `json_extract(text, path, ...)`: one path gives a value, several an array.
///
/// # Errors
/// If the text is not JSON, a path is not valid, the value is too long or the statement must end.
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
        return match root.at(&path, pace)? {
            Some(part) => part.value(memory, pace),
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
        match root.at(&path, pace)? {
            Some(part) => part.write(&mut array, memory, pace)?,
            None => array.extend_from_slice(b"null"),
        }
    }
    array.push(b']');
    Ok(text_or_blob(array))
}

/// `text -> path`, which gives JSON, and `text ->> path`, which gives a value. The path may be an index or a name alone.
///
/// # Errors
/// Those of `extract`.
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
        (_, [b'$', steps @ ..]) => root.follow(&written, steps, pace)?,
        (Value::Integer(index), _) if *index < 0 => {
            root.element_from_end(index.unsigned_abs(), pace)?
        }
        (Value::Integer(index), _) => root.element(index.unsigned_abs(), pace)?,
        (_, [b'[', .., b']']) => root.follow(&written, &written, pace)?,
        (_, name) => root.member(name, pace)?,
    };
    match part {
        None => Ok(Value::Null),
        Some(part) if gives_json => {
            let mut written = Vec::new();
            part.write(&mut written, memory, pace)?;
            Ok(text_or_blob(written))
        }
        Some(part) => part.value(memory, pace),
    }
}

/// A value within a text that has been checked.
#[derive(Clone)]
struct Json<'a> {
    text: &'a [u8],
    range: Range<usize>,
}

impl<'a> Json<'a> {
    /// Checks the text, and returns its value.
    fn check(text: &'a [u8], pace: &mut Pace) -> Result<Json<'a>> {
        let mut scanner = Scanner { text, at: 0, pace };
        let scanned = scanner.spaces().and_then(|()| {
            let begin = scanner.at;
            scanner.value()?;
            let range = begin..scanner.at;
            scanner.spaces()?;
            Ok(range)
        });
        match scanned {
            Ok(range) if scanner.at == text.len() => Ok(Json { text, range }),
            Err(Fault::Ended(error)) => Err(error),
            Ok(_) | Err(Fault::Malformed) => Err(Error::Invalid {
                subject: "JSON".into(),
                reason: format!("the text is malformed at byte {}", scanner.at + 1),
            }),
        }
    }

    fn bytes(&self) -> &'a [u8] {
        &self.text[self.range.clone()]
    }

    /// The part at a path: `$`, then `.name`, `."name"`, `[0]`, `[#-1]`. The path behind a missing part is not read.
    fn at(&self, path: &[u8], pace: &mut Pace) -> Result<Option<Json<'a>>> {
        let steps = path.strip_prefix(b"$").ok_or_else(|| no_path(path))?;
        self.follow(path, steps, pace)
    }

    /// As `at`, for the path behind the `$`.
    fn follow(&self, path: &[u8], steps: &[u8], pace: &mut Pace) -> Result<Option<Json<'a>>> {
        let wrong = || no_path(path);
        let mut rest = steps;
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
                    part.member(name, pace)?
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
                    // No array has that length.
                    let text = std::str::from_utf8(digits).unwrap_or_default();
                    let index = text.parse().unwrap_or(u64::MAX);
                    rest = &behind[end + 1..];
                    if is_behind_end {
                        None
                    } else if from_end {
                        part.element_from_end(index, pace)?
                    } else {
                        part.element(index, pace)?
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
    fn member(&self, name: &[u8], pace: &mut Pace) -> Result<Option<Json<'a>>> {
        let mut parts = self.parts();
        while let Some((label, part)) = parts.next(pace)? {
            let Some(label) = label else { continue };
            let raw = &self.text[label.start + 1..label.end - 1];
            // An escape is longer than its meaning.
            let may_be_same = raw.len() > name.len() && raw.contains(&b'\\');
            let is_same = raw == name
                || may_be_same && unescaped(raw, pace)? == *String::from_utf8_lossy(name);
            if is_same {
                return Ok(Some(part));
            }
        }
        Ok(None)
    }

    /// The element of an array.
    fn element(&self, index: u64, pace: &mut Pace) -> Result<Option<Json<'a>>> {
        let mut left = index;
        let mut parts = self.parts();
        while let Some((label, part)) = parts.next(pace)? {
            if label.is_some() {
                return Ok(None);
            }
            if left == 0 {
                return Ok(Some(part));
            }
            left -= 1;
        }
        Ok(None)
    }

    /// The element of an array, from 1 for the last.
    fn element_from_end(&self, index: u64, pace: &mut Pace) -> Result<Option<Json<'a>>> {
        let mut count = 0u64;
        let mut parts = self.parts();
        while let Some((None, _)) = parts.next(pace)? {
            count += 1;
        }
        match count.checked_sub(index) {
            Some(index) => self.element(index, pace),
            None => Ok(None),
        }
    }

    /// The parts of an array or object, with names of members in their quotes.
    fn parts(&self) -> JsonParts<'a> {
        JsonParts {
            text: self.text,
            at: self.range.start + 1,
            opened: self.bytes().first().copied(),
        }
    }

    /// Writes it as JSON without spaces.
    fn write(&self, target: &mut Vec<u8>, memory: &ValueMemory, pace: &mut Pace) -> Result<()> {
        let bytes = self.bytes();
        let length = target.len().saturating_add(bytes.len());
        memory.check("the result of json_extract", length as u64)?;
        let mut in_string = false;
        let mut is_escaped = false;
        for part in bytes.chunks(PART) {
            pace.work(part.len())?;
            for &byte in part {
                if in_string || !is_space(byte) {
                    target.push(byte);
                }
                if byte == b'"' && !is_escaped {
                    in_string = !in_string;
                }
                is_escaped = byte == b'\\' && !is_escaped;
            }
        }
        Ok(())
    }

    /// The value in SQL; arrays and objects are JSON.
    fn value(&self, memory: &ValueMemory, pace: &mut Pace) -> Result<Value> {
        let bytes = self.bytes();
        Ok(match bytes.first() {
            Some(b'n') => Value::Null,
            Some(b't') => Value::Integer(1),
            Some(b'f') => Value::Integer(0),
            Some(b'"') => {
                memory.check("the result of json_extract", bytes.len() as u64)?;
                Value::Text(unescaped(&bytes[1..bytes.len() - 1], pace)?)
            }
            Some(b'[' | b'{') => {
                let mut written = Vec::new();
                self.write(&mut written, memory, pace)?;
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

fn no_path(path: &[u8]) -> Error {
    Error::Invalid {
        subject: format!("JSON path {}", quote(path)),
        reason: "it is none; hint: paths are as '$.name[0]'".into(),
    }
}

/// A walk over the parts of an array or object.
struct JsonParts<'a> {
    text: &'a [u8],
    at: usize,
    /// The first byte; only a bracket or a brace has parts.
    opened: Option<u8>,
}

impl<'a> JsonParts<'a> {
    /// The next part, with the place of its name if it has one.
    fn next(&mut self, pace: &mut Pace) -> Result<Option<(Option<Range<usize>>, Json<'a>)>> {
        let is_object = match self.opened {
            Some(b'[') => false,
            Some(b'{') => true,
            _ => return Ok(None),
        };
        let mut scanner = Scanner {
            text: self.text,
            at: self.at,
            pace,
        };
        let found = scanner.part(is_object);
        self.at = scanner.at;
        match found {
            Ok(None) | Err(Fault::Malformed) => Ok(None),
            Err(Fault::Ended(error)) => Err(error),
            Ok(Some((label, range))) => {
                let text = self.text;
                Ok(Some((label, Json { text, range })))
            }
        }
    }
}

/// The meaning of a string, without its quotes. Halves of surrogates become U+FFFD.
fn unescaped(raw: &[u8], pace: &mut Pace) -> Result<String> {
    let raw = String::from_utf8_lossy(raw);
    let mut text = String::with_capacity(raw.len());
    let mut characters = raw.chars();
    let mut units = Vec::new();
    while let Some(character) = characters.next() {
        pace.work(character.len_utf8())?;
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
        if !units.is_empty() {
            text.push_str(&String::from_utf16_lossy(&units));
            units.clear();
        }
        text.push(plain);
    }
    text.push_str(&String::from_utf16_lossy(&units));
    Ok(text)
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// A walk over a text.
struct Scanner<'a, 'p> {
    text: &'a [u8],
    at: usize,
    pace: &'p mut Pace,
}

/// The reason why a walk ended.
enum Fault {
    /// The text is not JSON.
    Malformed,
    /// The statement must end.
    Ended(Error),
}

type Scanned<T = ()> = std::result::Result<T, Fault>;

/// The place of a member's name, none for an element, and that of the part.
type PartPlace = (Option<Range<usize>>, Range<usize>);

impl Scanner<'_, '_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// The next byte, where the text cannot end.
    fn byte(&self) -> Scanned<u8> {
        self.peek().ok_or(Fault::Malformed)
    }

    fn skip(&mut self, bytes: usize) -> Scanned {
        self.at += bytes;
        self.pace.work(bytes).map_err(Fault::Ended)
    }

    fn spaces(&mut self) -> Scanned {
        while self.peek().is_some_and(is_space) {
            self.skip(1)?;
        }
        Ok(())
    }

    /// Skips the next part of an array or an object.
    fn part(&mut self, is_object: bool) -> Scanned<Option<PartPlace>> {
        self.spaces()?;
        if let Some(b',') = self.peek() {
            self.skip(1)?;
            self.spaces()?;
        }
        if matches!(self.peek(), Some(b']' | b'}') | None) {
            return Ok(None);
        }
        let mut label = None;
        if is_object {
            let begin = self.at;
            self.string()?;
            label = Some(begin..self.at);
            self.spaces()?;
            // The colon.
            self.skip(1)?;
            self.spaces()?;
        }
        let begin = self.at;
        self.value()?;
        Ok(Some((label, begin..self.at)))
    }

    /// Skips a value.
    fn value(&mut self) -> Scanned {
        // For each open array or object, whether it is an object.
        let mut open: Vec<bool> = Vec::new();
        loop {
            self.spaces()?;
            match self.byte()? {
                byte @ (b'[' | b'{') => {
                    self.skip(1)?;
                    self.spaces()?;
                    let is_object = byte == b'{';
                    let is_empty = self.byte()? == if is_object { b'}' } else { b']' };
                    if !is_empty {
                        open.push(is_object);
                        if open.len() > DEPTH_MAX {
                            return Err(Fault::Malformed);
                        }
                        if is_object {
                            self.label()?;
                        }
                        continue;
                    }
                    self.skip(1)?;
                }
                b'"' => self.string()?,
                b't' => self.word(b"true")?,
                b'f' => self.word(b"false")?,
                b'n' => self.word(b"null")?,
                _ => self.number()?,
            }
            // A value has ended: its container continues or ends too.
            loop {
                let Some(&is_object) = open.last() else {
                    return Ok(());
                };
                self.spaces()?;
                match (self.byte()?, is_object) {
                    (b',', _) => {
                        self.skip(1)?;
                        if is_object {
                            self.spaces()?;
                            self.label()?;
                        }
                        break;
                    }
                    (b'}', true) | (b']', false) => {
                        self.skip(1)?;
                        open.pop();
                    }
                    _ => return Err(Fault::Malformed),
                }
            }
        }
    }

    /// Skips the name of a member and its colon.
    fn label(&mut self) -> Scanned {
        self.string()?;
        self.spaces()?;
        match self.byte()? {
            b':' => self.skip(1),
            _ => Err(Fault::Malformed),
        }
    }

    fn string(&mut self) -> Scanned {
        if self.byte()? != b'"' {
            return Err(Fault::Malformed);
        }
        self.skip(1)?;
        loop {
            let rest = &self.text[self.at..];
            self.skip(memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len()))?;
            let byte = self.byte()?;
            self.skip(1)?;
            match byte {
                b'\\' => match self.byte()? {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.skip(1)?,
                    b'u' => {
                        let digits = self.text.get(self.at + 1..self.at + 5);
                        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                            return Err(Fault::Malformed);
                        }
                        self.skip(5)?;
                    }
                    _ => return Err(Fault::Malformed),
                },
                _ => return Ok(()),
            }
        }
    }

    fn word(&mut self, word: &[u8]) -> Scanned {
        if !self.text[self.at..].starts_with(word) {
            return Err(Fault::Malformed);
        }
        self.skip(word.len())
    }

    fn digits(&mut self) -> Scanned {
        let begin = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.skip(1)?;
        }
        if self.at == begin {
            return Err(Fault::Malformed);
        }
        Ok(())
    }

    fn number(&mut self) -> Scanned {
        if self.peek() == Some(b'-') {
            self.skip(1)?;
        }
        let has_zero = self.peek() == Some(b'0');
        let begin = self.at;
        self.digits()?;
        if has_zero && self.at > begin + 1 {
            return Err(Fault::Malformed);
        }
        if self.peek() == Some(b'.') {
            self.skip(1)?;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.skip(1)?;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.skip(1)?;
            }
            self.digits()?;
        }
        Ok(())
    }
}
