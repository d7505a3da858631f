//! JSON lines, and JSON: an array of objects, or a sequence of objects.
//!
//! Invariant: one object is in memory at a time. Strings are text, `{"hex":"00ff"}` is bytes, as the database writes values that are
//! not UTF-8; other objects and arrays become their JSON.

use std::borrow::Cow;
use std::fmt;
use std::io::BufRead;
use std::sync::Arc;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::lines::LineReader;
use crate::error::{Damage, Failure};
use crate::member::MemberRecords;
use crate::options::ReadOptions;
use crate::record::FieldValue;
use crate::roles::{Roles, take_roles};

/// Reads an object from each line; blank lines are none.
pub(super) fn read_lines(
    source: impl BufRead,
    options: &ReadOptions<'_>,
    target: &mut MemberRecords<'_>,
) -> Result<(), Failure> {
    let mut own = None;
    let roles = Roles::of(options, &mut own);
    let mut lines = LineReader::new(source, options.limits.record_bytes);
    while lines.next()? {
        let line = lines.line();
        let line = match lines.number() {
            1 => line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line),
            _ => line,
        };
        if !line.trim_ascii().is_empty() {
            object(line, lines.number(), 0, &roles, target)?;
        }
    }
    Ok(())
}

/// Reads an array of objects, or a sequence of objects.
pub(super) fn read_values(
    source: impl BufRead,
    options: &ReadOptions<'_>,
    target: &mut MemberRecords<'_>,
) -> Result<(), Failure> {
    let mut own = None;
    let roles = Roles::of(options, &mut own);
    let mut bytes = Bytes {
        source,
        line: 1,
        column: 1,
    };
    bytes.pass_mark()?;
    let is_array = bytes.next_visible()? == Some(b'[');
    if is_array {
        bytes.advance();
    }
    let mut value = Vec::new();
    let mut is_first = true;
    loop {
        match bytes.next_visible()? {
            None if is_array => return Err(bytes.damage("the array does not end").into()),
            None => return Ok(()),
            Some(b']') if is_array => {
                bytes.advance();
                return match bytes.next_visible()? {
                    None => Ok(()),
                    Some(_) => Err(bytes.damage("there is something behind the array").into()),
                };
            }
            Some(_) if is_array && !is_first => {
                if bytes.next_visible()? != Some(b',') {
                    return Err(bytes.damage("a `,` is missing").into());
                }
                bytes.advance();
                bytes.next_visible()?;
            }
            Some(_) => {}
        }
        is_first = false;
        let (line, column) = (bytes.line, bytes.column);
        bytes.object(&mut value, options.limits.record_bytes)?;
        object(&value, line, column - 1, &roles, target)?;
    }
}

/// Makes a record of an object that begins at a line, behind `columns` bytes.
fn object(
    json: &[u8],
    line: u64,
    columns: u64,
    roles: &Roles<'_>,
    target: &mut MemberRecords<'_>,
) -> Result<(), Failure> {
    let members = match serde_json::from_slice::<Members<'_>>(json) {
        Ok(members) => members.0,
        Err(error) => {
            let text = error.to_string();
            let place = format!(" at line {} column {}", error.line(), error.column());
            let reason = text.strip_suffix(&place).unwrap_or(&text);
            let lines_before = (error.line() as u64).saturating_sub(1);
            let columns = if lines_before == 0 { columns } else { 0 };
            let column = columns + error.column() as u64;
            let damage = Damage::at(
                line + lines_before,
                column.max(1),
                format!("it is no JSON object: {reason}"),
            );
            return Ok(target.reject(damage)?);
        }
    };
    match take_roles(members, roles) {
        Ok(record) => {
            target.text(&record.text)?;
            Ok(target.record(line, record.name, record.fields)?)
        }
        Err(reason) => Ok(target.reject(Damage::at(line, columns + 1, reason))?),
    }
}

/// Bytes of JSON with their places.
struct Bytes<R> {
    source: R,
    line: u64,
    column: u64,
}

impl<R: BufRead> Bytes<R> {
    /// Passes over a byte order mark of UTF-8.
    fn pass_mark(&mut self) -> Result<(), Damage> {
        if self.peek()? == Some(0xEF) {
            for expected in *b"\xEF\xBB\xBF" {
                if self.peek()? != Some(expected) {
                    return Err(self.damage("it is no JSON"));
                }
                self.source.consume(1);
            }
        }
        Ok(())
    }

    fn peek(&mut self) -> Result<Option<u8>, Damage> {
        loop {
            match self.source.fill_buf() {
                Ok(bytes) => return Ok(bytes.first().copied()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let reason = Damage::from(error).reason;
                    return Err(self.damage(reason));
                }
            }
        }
    }

    /// Passes over the next byte, which `peek` has given.
    fn advance(&mut self) {
        self.source.consume(1);
        self.column += 1;
    }

    /// The next byte that is no white space.
    fn next_visible(&mut self) -> Result<Option<u8>, Damage> {
        loop {
            match self.peek()? {
                Some(b'\n') => {
                    self.source.consume(1);
                    self.line += 1;
                    self.column = 1;
                }
                Some(b' ' | b'\t' | b'\r') => self.advance(),
                other => return Ok(other),
            }
        }
    }

    fn damage(&self, reason: impl Into<String>) -> Damage {
        Damage::at(self.line, self.column, reason)
    }

    /// Reads an object, which begins here, into `value`. It ends with the bracket that closes it; whether it is valid is checked
    /// elsewhere.
    fn object(&mut self, value: &mut Vec<u8>, bytes_max: usize) -> Result<(), Damage> {
        value.clear();
        let start = (self.line, self.column);
        if self.peek()? != Some(b'{') {
            return Err(self.damage("an object must begin here"));
        }
        let (mut depth, mut is_string, mut is_escaped) = (0_u64, false, false);
        loop {
            if self.peek()?.is_none() {
                return Err(Damage::at(start.0, start.1, "the object does not end"));
            }
            let bytes = self.source.fill_buf().map_err(Damage::from)?;
            let mut end = None;
            for (at, &byte) in bytes.iter().enumerate() {
                match byte {
                    _ if is_escaped => is_escaped = false,
                    b'\\' if is_string => is_escaped = true,
                    b'"' => is_string = !is_string,
                    b'{' | b'[' if !is_string => depth += 1,
                    b'}' | b']' if !is_string => depth -= 1,
                    _ => {}
                }
                if depth == 0 {
                    end = Some(at + 1);
                    break;
                }
            }
            let count = end.unwrap_or(bytes.len());
            if value.len() + count > bytes_max {
                return Err(Damage::at(
                    start.0,
                    start.1,
                    format!("an object of more than {bytes_max} bytes"),
                ));
            }
            let taken = &bytes[..count];
            value.extend_from_slice(taken);
            match memchr::memrchr(b'\n', taken) {
                Some(last) => {
                    self.line += memchr::memchr_iter(b'\n', taken).count() as u64;
                    self.column = (count - last) as u64;
                }
                None => self.column += count as u64,
            }
            self.source.consume(count);
            if end.is_some() {
                return Ok(());
            }
        }
    }
}

/// The members of an object.
struct Members<'a>(
    Vec<(Arc<str>, FieldValue)>,
    std::marker::PhantomData<&'a ()>,
);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members<'de>, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members: Vec<(Arc<str>, FieldValue)> = Vec::new();
                while let Some(key) = map.next_key::<Cow<'de, str>>()? {
                    let value = map.next_value::<MemberValue>()?.0;
                    if members.iter().any(|(other, _)| **other == *key) {
                        let reason = format!("it has `{key}` twice");
                        return Err(serde::de::Error::custom(reason));
                    }
                    members.push((key.into(), value));
                }
                Ok(Members(members, std::marker::PhantomData))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

/// The value of a member.
///
/// Numbers are read by the standard library, which rounds as it should and takes `1e999`, as the database writes infinity.
struct MemberValue(FieldValue);

impl<'de> Deserialize<'de> for MemberValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MemberValue, D::Error> {
        let json = <&RawValue>::deserialize(deserializer)?.get();
        if json.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
            return match number(json) {
                Some(number) => Ok(MemberValue(number)),
                None => Err(serde::de::Error::custom("a number cannot be read")),
            };
        }
        let value = serde_json::from_str::<OtherValue>(json);
        let value = value.map_err(serde::de::Error::custom)?;
        Ok(MemberValue(value.0))
    }
}

/// The value of a number of JSON.
fn number(json: &str) -> Option<FieldValue> {
    if json.bytes().any(|byte| b".eE".contains(&byte)) {
        return json.parse().ok().map(FieldValue::Real);
    }
    // As everywhere in the database, whole numbers beyond 64 bits with a sign are numbers with a point.
    let whole = json.parse().map(FieldValue::Integer).ok();
    whole.or_else(|| json.parse().ok().map(FieldValue::Real))
}

/// A value that is no number.
struct OtherValue(FieldValue);

impl<'de> Deserialize<'de> for OtherValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OtherValue, D::Error> {
        struct ValueVisitor;
        impl<'de> Visitor<'de> for ValueVisitor {
            type Value = OtherValue;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a value")
            }

            fn visit_unit<E>(self) -> Result<OtherValue, E> {
                Ok(OtherValue(FieldValue::Null))
            }

            fn visit_bool<E>(self, value: bool) -> Result<OtherValue, E> {
                Ok(OtherValue(FieldValue::Boolean(value)))
            }

            fn visit_str<E>(self, value: &str) -> Result<OtherValue, E> {
                Ok(OtherValue(FieldValue::Text(value.to_owned())))
            }

            fn visit_string<E>(self, value: String) -> Result<OtherValue, E> {
                Ok(OtherValue(FieldValue::Text(value)))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, sequence: A) -> Result<OtherValue, A::Error> {
                let value = Value::deserialize(SeqAccessDeserializer::new(sequence))?;
                Ok(OtherValue(FieldValue::Text(value.to_string())))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OtherValue, A::Error> {
                let value = Value::deserialize(MapAccessDeserializer::new(map))?;
                if let Value::Object(members) = &value
                    && members.len() == 1
                    && let Some(Value::String(hex)) = members.get("hex")
                    && let Some(bytes) = super::csv::bytes_of_hex(hex.as_bytes())
                {
                    return Ok(OtherValue(FieldValue::Bytes(bytes)));
                }
                Ok(OtherValue(FieldValue::Text(value.to_string())))
            }
        }
        deserializer.deserialize_any(ValueVisitor)
    }
}
