//! How rows look in an exported file: CSV, TSV and JSON.
//!
//! Invariant: every value can be told apart from every other of its type when it is read back; reals read back exactly.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::Value;
use crate::expression::{hex, real_to_literal};
use zipfdb_sql::plan::CopyFormat;

/// Writes rows in one format.
pub(super) struct Writer<W> {
    target: W,
    format: CopyFormat,
    names: Vec<String>,
    is_first: bool,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(target: W, format: CopyFormat, names: Vec<String>) -> Writer<W> {
        Writer {
            target,
            format,
            names,
            is_first: true,
        }
    }

    /// What comes before all rows.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        match self.format {
            CopyFormat::Csv | CopyFormat::Tsv => {
                let names = self.names.iter().cloned().map(Value::Text);
                let names: Vec<Value> = names.collect();
                self.row(&names)
            }
            CopyFormat::Json => self.target.write_all(b"[\n"),
            _ => Ok(()),
        }
    }

    pub(super) fn row(&mut self, values: &[Value]) -> io::Result<()> {
        let is_first = std::mem::replace(&mut self.is_first, false);
        match self.format {
            CopyFormat::Csv => self.fields(values, b",", csv_field),
            CopyFormat::Tsv => self.fields(values, b"\t", tsv_field),
            CopyFormat::JsonLines => {
                self.object(values)?;
                self.target.write_all(b"\n")
            }
            CopyFormat::Json => {
                if !is_first {
                    self.target.write_all(b",\n")?;
                }
                self.object(values)
            }
        }
    }

    /// What comes behind all rows; gives the target back.
    pub(super) fn end(mut self) -> io::Result<W> {
        if self.format == CopyFormat::Json {
            let end: &[u8] = if self.is_first { b"]\n" } else { b"\n]\n" };
            self.target.write_all(end)?;
        }
        Ok(self.target)
    }

    fn fields(
        &mut self,
        values: &[Value],
        separator: &[u8],
        field: fn(&Value) -> Cow<'_, str>,
    ) -> io::Result<()> {
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                self.target.write_all(separator)?;
            }
            self.target.write_all(field(value).as_bytes())?;
        }
        self.target.write_all(b"\n")
    }

    fn object(&mut self, values: &[Value]) -> io::Result<()> {
        self.target.write_all(b"{")?;
        for (index, (name, value)) in self.names.iter().zip(values).enumerate() {
            if index > 0 {
                self.target.write_all(b",")?;
            }
            write_json_text(name, &mut self.target)?;
            self.target.write_all(b":")?;
            match value {
                Value::Null => self.target.write_all(b"null")?,
                Value::Text(text) => write_json_text(text, &mut self.target)?,
                Value::Blob(_) => write_json_text(&plain(value), &mut self.target)?,
                number => self.target.write_all(plain(number).as_bytes())?,
            }
        }
        self.target.write_all(b"}")
    }
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

fn write_json_text(text: &str, target: &mut impl Write) -> io::Result<()> {
    target.write_all(b"\"")?;
    let mut rest = text;
    let is_special = |character: char| character < ' ' || matches!(character, '"' | '\\');
    while let Some(at) = rest.find(is_special) {
        target.write_all(&rest.as_bytes()[..at])?;
        match rest.as_bytes()[at] {
            b'"' => target.write_all(b"\\\"")?,
            b'\\' => target.write_all(b"\\\\")?,
            b'\n' => target.write_all(b"\\n")?,
            b'\r' => target.write_all(b"\\r")?,
            b'\t' => target.write_all(b"\\t")?,
            control => write!(target, "\\u{control:04x}")?,
        }
        // What was written is ASCII, one byte.
        rest = &rest[at + 1..];
    }
    target.write_all(rest.as_bytes())?;
    target.write_all(b"\"")
}
