//! How rows look in an exported file: CSV, TSV and JSON.
//!
//! Invariant: every value can be told apart from every other of its type when it is read back; reals read back exactly.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use super::dictionary_fields::DictionaryFields;
use super::text_buffer::TextBuffer;
use crate::Value;
use crate::batch::{Batch, BatchColumn};
use crate::expression::{hex, real_to_literal};
use zipfdb_sql::plan::CopyFormat;

/// Rows in one format.
pub(super) struct RowFormat {
    format: CopyFormat,
    /// What comes before the value of each column.
    before: Vec<Vec<u8>>,
    names: Vec<String>,
}

/// For each column its dictionary, once there were enough rows.
#[derive(Clone, Default)]
pub(super) struct ColumnDictionaries(Vec<Option<Arc<DictionaryFields>>>);

/// Bytes that are written at a time.
pub(super) const BUFFER_BYTES: usize = 1 << 16;

/// A column of a batch, as it is written.
enum Field<'a> {
    /// Texts of a dictionary, so many in each row.
    Texts(&'a DictionaryFields, &'a [u32], usize),
    Integers(&'a [i64]),
    Other,
}

impl RowFormat {
    pub(super) fn new(format: CopyFormat, names: Vec<String>) -> RowFormat {
        let before = names.iter().enumerate().map(|(index, name)| {
            let mut before = Vec::new();
            match format {
                CopyFormat::Csv | CopyFormat::Tsv if index == 0 => {}
                CopyFormat::Csv => before.push(b','),
                CopyFormat::Tsv => before.push(b'\t'),
                CopyFormat::Json | CopyFormat::JsonLines => {
                    before.push(if index == 0 { b'{' } else { b',' });
                    write_json_text(name, &mut before);
                    before.push(b':');
                }
            }
            before
        });
        RowFormat {
            before: before.collect(),
            format,
            names,
        }
    }

    /// What comes before all rows.
    pub(super) fn head(&self) -> Vec<u8> {
        match self.format {
            CopyFormat::Csv | CopyFormat::Tsv => {
                let mut head = Vec::new();
                for (name, before) in self.names.iter().zip(&self.before) {
                    head.extend_from_slice(before);
                    write_value(&Value::Text(name.clone()), self.format, &mut head);
                }
                head.push(b'\n');
                head
            }
            CopyFormat::Json => b"[\n".to_vec(),
            CopyFormat::JsonLines => Vec::new(),
        }
    }

    /// What comes behind all rows, if there are any.
    pub(super) fn tail(&self, has_rows: bool) -> &'static [u8] {
        match (self.format, has_rows) {
            (CopyFormat::Json, false) => b"]\n",
            (CopyFormat::Json, true) => b"\n]\n",
            _ => b"",
        }
    }

    /// Looks through the dictionaries of a batch that are not known.
    pub(super) fn know(&self, batch: &Batch, dictionaries: &mut ColumnDictionaries) {
        let ColumnDictionaries(known) = dictionaries;
        known.resize_with(batch.columns().len(), || None);
        for (known, column) in known.iter_mut().zip(batch.columns()) {
            if known.is_none() {
                *known = DictionaryFields::of(column, self.format).map(Arc::new);
            }
        }
    }

    /// Appends all rows of a batch to a buffer, which `flush` may empty between two rows. `is_first` says whether there are no rows
    /// before them.
    ///
    /// # Errors
    /// That of `flush`.
    pub(super) fn write(
        &self,
        batch: &Batch,
        ColumnDictionaries(dictionaries): &ColumnDictionaries,
        is_first: bool,
        buffer: &mut TextBuffer,
        mut flush: impl FnMut(&mut TextBuffer) -> io::Result<()>,
    ) -> io::Result<()> {
        let columns = batch.columns().iter().zip(dictionaries);
        let fields: Vec<Field<'_>> = columns
            .map(|(column, known)| {
                let texts = known.as_ref().and_then(|known| {
                    let (texts, n) = known.texts(column)?;
                    Some(Field::Texts(known, texts, n))
                });
                match (texts, column) {
                    (Some(texts), _) => texts,
                    (None, BatchColumn::Integers(integers)) => Field::Integers(integers),
                    (None, _) => Field::Other,
                }
            })
            .collect();
        // A value that is no plain text.
        let mut value = Vec::new();
        for row in 0..batch.len() {
            if self.format == CopyFormat::Json && !(is_first && row == 0) {
                buffer.text(b",\n");
            }
            for (index, field) in fields.iter().enumerate() {
                buffer.text(&self.before[index]);
                self.write_field(field, &batch.columns()[index], row, (buffer, &mut value));
            }
            match self.format {
                CopyFormat::Csv | CopyFormat::Tsv => buffer.text(b"\n"),
                CopyFormat::JsonLines => buffer.text(b"}\n"),
                CopyFormat::Json => buffer.text(b"}"),
            }
            flush(buffer)?;
        }
        Ok(())
    }

    fn write_field(
        &self,
        field: &Field<'_>,
        column: &BatchColumn,
        row: usize,
        (buffer, value): (&mut TextBuffer, &mut Vec<u8>),
    ) {
        let quote: &[u8] = match self.format {
            CopyFormat::Csv | CopyFormat::Tsv => b"",
            CopyFormat::Json | CopyFormat::JsonLines => b"\"",
        };
        match field {
            Field::Texts(known, texts, n) => {
                let start = buffer.len();
                buffer.text(quote);
                if known.write(&texts[row * n..(row + 1) * n], buffer) {
                    buffer.text(quote);
                    return;
                }
                buffer.truncate(start);
            }
            Field::Integers(integers) => {
                write_integer(integers[row], buffer);
                return;
            }
            Field::Other => {}
        }
        value.clear();
        value.shrink_to(2 * BUFFER_BYTES);
        match column {
            BatchColumn::Values(values) => write_value(&values[row], self.format, value),
            column => write_value(&column.value(row), self.format, value),
        }
        buffer.text(value);
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
fn write_integer(integer: i64, target: &mut TextBuffer) {
    target.make_room(1);
    if let 0..10 = integer {
        // Below 10.
        target.byte(b'0' + integer as u8);
        return;
    }
    if integer < 0 {
        target.byte(b'-');
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
    target.text(&digits[start..]);
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
            let mut written = TextBuffer::default();
            write_integer(integer, &mut written);
            assert_eq!(written.bytes(), integer.to_string().into_bytes());
        }
    }
}
