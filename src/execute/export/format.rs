//! How rows look in an exported file: CSV, TSV and JSON.
//!
//! Invariant: every value can be told apart from every other of its type when it is read back; reals read back exactly.

use std::borrow::Cow;
use std::io::{self, Write};

use super::dictionary_fields::DictionaryFields;
use crate::Value;
use crate::batch::{Batch, BatchColumn};
use crate::expression::{hex, real_to_literal};
use zipfdb_sql::plan::CopyFormat;

/// Writes rows in one format.
pub(super) struct Writer<W> {
    target: W,
    format: CopyFormat,
    names: Vec<String>,
    is_first: bool,
    /// For each column its dictionary, once there were enough rows.
    dictionaries: Vec<Option<DictionaryFields>>,
    /// What is not written yet.
    buffer: Vec<u8>,
}

/// Bytes that are written at a time.
const BUFFER_BYTES: usize = 1 << 16;

impl<W: Write> Writer<W> {
    pub(super) fn new(target: W, format: CopyFormat, names: Vec<String>) -> Writer<W> {
        Writer {
            target,
            format,
            dictionaries: Vec::new(),
            buffer: Vec::new(),
            names,
            is_first: true,
        }
    }

    /// What comes before all rows.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        match self.format {
            CopyFormat::Csv | CopyFormat::Tsv => {
                for (index, name) in self.names.iter().enumerate() {
                    if index > 0 {
                        self.buffer.push(separator(self.format));
                    }
                    let name = Value::Text(name.clone());
                    write_value(&name, self.format, &mut self.buffer);
                }
                self.buffer.push(b'\n');
            }
            CopyFormat::Json => self.buffer.extend_from_slice(b"[\n"),
            CopyFormat::JsonLines => {}
        }
        self.flush()
    }

    /// Writes all rows of a batch.
    pub(super) fn batch(&mut self, batch: &Batch) -> io::Result<()> {
        let columns = batch.columns();
        self.dictionaries.resize_with(columns.len(), || None);
        for (known, column) in self.dictionaries.iter_mut().zip(columns) {
            if known.is_none() {
                *known = DictionaryFields::of(column, self.format);
            }
        }
        for row in 0..batch.len() {
            match self.format {
                CopyFormat::Csv | CopyFormat::Tsv => self.fields(columns, row),
                CopyFormat::JsonLines => self.object(columns, row),
                CopyFormat::Json => {
                    if !std::mem::replace(&mut self.is_first, false) {
                        self.buffer.extend_from_slice(b",\n");
                    }
                    self.object(columns, row);
                }
            }
            if self.format != CopyFormat::Json {
                self.buffer.push(b'\n');
            }
            if self.buffer.len() >= BUFFER_BYTES {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.target.write_all(&self.buffer)?;
        self.buffer.clear();
        self.buffer.shrink_to(2 * BUFFER_BYTES);
        Ok(())
    }

    /// What comes behind all rows; gives the target back.
    pub(super) fn end(mut self) -> io::Result<W> {
        if self.format == CopyFormat::Json {
            let end: &[u8] = if self.is_first { b"]\n" } else { b"\n]\n" };
            self.buffer.extend_from_slice(end);
        }
        self.flush()?;
        Ok(self.target)
    }

    fn fields(&mut self, columns: &[BatchColumn], row: usize) {
        for (index, column) in columns.iter().enumerate() {
            if index > 0 {
                self.buffer.push(separator(self.format));
            }
            let known = self.dictionaries[index].as_ref();
            if !known.is_some_and(|known| known.write(column, row, &mut self.buffer)) {
                write_field(column, row, self.format, &mut self.buffer);
            }
        }
    }

    fn object(&mut self, columns: &[BatchColumn], row: usize) {
        self.buffer.push(b'{');
        for (index, (name, column)) in self.names.iter().zip(columns).enumerate() {
            if index > 0 {
                self.buffer.push(b',');
            }
            write_json_text(name, &mut self.buffer);
            self.buffer.push(b':');
            let start = self.buffer.len();
            self.buffer.push(b'"');
            let known = self.dictionaries[index].as_ref();
            if known.is_some_and(|known| known.write(column, row, &mut self.buffer)) {
                self.buffer.push(b'"');
            } else {
                self.buffer.truncate(start);
                write_field(column, row, self.format, &mut self.buffer);
            }
        }
        self.buffer.push(b'}');
    }
}

fn separator(format: CopyFormat) -> u8 {
    match format {
        CopyFormat::Tsv => b'\t',
        _ => b',',
    }
}

/// Appends the value of a row.
fn write_field(column: &BatchColumn, row: usize, format: CopyFormat, target: &mut Vec<u8>) {
    match column {
        BatchColumn::Integers(integers) => write_integer(integers[row], target),
        BatchColumn::Values(values) => write_value(&values[row], format, target),
        column => write_value(&column.value(row), format, target),
    }
}

/// Appends a value as a field, or as a value of JSON.
fn write_value(value: &Value, format: CopyFormat, target: &mut Vec<u8>) {
    match (format, value) {
        (CopyFormat::Csv, value) => target.extend_from_slice(csv_field(value).as_bytes()),
        (CopyFormat::Tsv, value) => target.extend_from_slice(tsv_field(value).as_bytes()),
        (_, Value::Null) => target.extend_from_slice(b"null"),
        (_, Value::Text(text)) => write_json_text(text, target),
        (_, Value::Blob(_)) => write_json_text(&plain(value), target),
        (_, number) => target.extend_from_slice(plain(number).as_bytes()),
    }
}

/// Appends an integer in decimal.
fn write_integer(integer: i64, target: &mut Vec<u8>) {
    if integer < 0 {
        target.push(b'-');
    }
    let (mut digits, mut start) = ([0; 20], 20);
    let mut rest = integer.unsigned_abs();
    loop {
        start -= 1;
        // Below 10.
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    target.extend_from_slice(&digits[start..]);
}

/// A value without quotes; nothing for NULL.
fn plain(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::Integer(integer) => Cow::Owned(integer.to_string()),
        Value::Real(real) => Cow::Owned(real_to_literal(*real)),
        Value::Text(text) => Cow::Borrowed(text),
        Value::Blob(bytes) => Cow::Owned(hex(bytes).to_ascii_lowercase()),
    }
}

fn csv_field(value: &Value) -> Cow<'_, str> {
    let text = plain(value);
    let is_null = matches!(value, Value::Null);
    if is_null || !(text.is_empty() || text.contains([',', '"', '\r', '\n'])) {
        return text;
    }
    Cow::Owned(format!("\"{}\"", text.replace('"', "\"\"")))
}

fn tsv_field(value: &Value) -> Cow<'_, str> {
    if matches!(value, Value::Null) {
        return Cow::Borrowed("\\N");
    }
    let text = plain(value);
    if !text.contains(['\t', '\n', '\r', '\\']) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\t' => escaped.push_str("\\t"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\\' => escaped.push_str("\\\\"),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

fn write_json_text(text: &str, target: &mut Vec<u8>) {
    target.push(b'"');
    let mut rest = text;
    let is_special = |character: char| character < ' ' || matches!(character, '"' | '\\');
    while let Some(at) = rest.find(is_special) {
        target.extend_from_slice(&rest.as_bytes()[..at]);
        match rest.as_bytes()[at] {
            b'"' => target.extend_from_slice(b"\\\""),
            b'\\' => target.extend_from_slice(b"\\\\"),
            b'\n' => target.extend_from_slice(b"\\n"),
            b'\r' => target.extend_from_slice(b"\\r"),
            b'\t' => target.extend_from_slice(b"\\t"),
            control => target.extend_from_slice(format!("\\u{control:04x}").as_bytes()),
        }
        // What was written is ASCII, one byte.
        rest = &rest[at + 1..];
    }
    target.extend_from_slice(rest.as_bytes());
    target.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_written_as_the_standard_library_does() {
        for integer in [0, 7, -7, 10, 99, 1_000_000, i64::MAX, i64::MIN] {
            let mut written = Vec::new();
            write_integer(integer, &mut written);
            assert_eq!(written, integer.to_string().into_bytes());
        }
    }
}
