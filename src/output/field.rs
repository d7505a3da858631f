//! One value as a field of a row: the form of each type in each format.
//!
//! Invariant: different values of one type have different forms, and reals read back bit for bit; a BLOB that is UTF-8 looks like
//! the text. The special characters of a format are known here alone. The table of `docs/SQL.md` says the same.

use std::borrow::Cow;
use std::fmt::Write;
use std::io;

use super::text_buffer::{RowSink, TextBuffer};
use crate::Value;
use zipfdb_sql::plan::RowFormat;

/// The beginning of a BLOB that is not UTF-8 in CSV and TSV; texts with this beginning are marked.
const BLOB_MARK: &[u8] = b"X'";

/// Bytes of a BLOB that are written at a time.
const BLOB_PART_BYTES: usize = 1 << 15;

/// The text of a value as fields of CSV have it before quoting; none for NULL.
///
/// A real is the shortest decimal number that reads back as the same, with a point or an exponent; infinity is `1e999`, which
/// readers take for it. A BLOB that is not UTF-8 is `X'00ff'`. NaN, which no answer has, counts as NULL.
///
/// ```
/// use zipfdb::Value;
/// use zipfdb::output::value_text;
///
/// assert_eq!(value_text(&Value::Real(2.0)).as_deref(), Some("2.0"));
/// assert_eq!(value_text(&Value::Blob(b"text".to_vec())).as_deref(), Some("text"));
/// assert_eq!(value_text(&Value::Null), None);
/// ```
pub fn value_text(value: &Value) -> Option<Cow<'_, str>> {
    Some(match value {
        Value::Null => return None,
        Value::Real(real) if real.is_nan() => return None,
        Value::Real(real) => {
            let mut text = String::new();
            write_real(*real, &mut text);
            Cow::Owned(text)
        }
        Value::Text(text) => Cow::Borrowed(text),
        Value::Blob(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => Cow::Owned(value.to_string()),
        },
        Value::Integer(integer) => Cow::Owned(integer.to_string()),
    })
}

/// Writes a real that is not NaN.
fn write_real(real: f64, target: &mut impl Write) {
    let written = if real.is_finite() {
        write!(target, "{real:?}")
    } else if real > 0.0 {
        target.write_str("1e999")
    } else {
        target.write_str("-1e999")
    };
    written.expect("memory takes all");
}

/// Whether bytes are a text that stands for itself in a field, alone or behind others of the kind and a space.
pub(super) fn is_plain(bytes: &[u8], format: RowFormat) -> bool {
    is_unmarked(bytes, format) && std::str::from_utf8(bytes).is_ok()
}

/// Whether a text needs no quotes, marks and escapes except those of every JSON field.
fn is_unmarked(text: &[u8], format: RowFormat) -> bool {
    let has_mark = || text.is_empty() || text.starts_with(BLOB_MARK);
    match format {
        RowFormat::Csv => {
            !has_mark() && !(text.iter()).any(|byte| matches!(byte, b',' | b'"' | b'\r' | b'\n'))
        }
        RowFormat::Tsv => !has_mark() && next_escape(text, format).is_none(),
        RowFormat::Json | RowFormat::JsonLines => next_escape(text, format).is_none(),
    }
}

/// Appends a value.
///
/// # Errors
/// Those of the output, as of all below.
pub(super) fn write_value(
    value: &Value,
    format: RowFormat,
    sink: &mut RowSink<'_>,
) -> io::Result<()> {
    match value {
        Value::Null => write_null(format, &mut sink.buffer),
        Value::Integer(integer) => write_integer(*integer, &mut sink.buffer),
        Value::Real(real) => write_number(*real, format, &mut sink.buffer),
        Value::Text(text) => write_text(text, format, sink)?,
        Value::Blob(bytes) => write_bytes(bytes, format, sink)?,
    }
    Ok(())
}

fn write_null(format: RowFormat, buffer: &mut TextBuffer) {
    buffer.text(match format {
        RowFormat::Csv => b"",
        RowFormat::Tsv => b"\\N",
        RowFormat::Json | RowFormat::JsonLines => b"null",
    });
}

/// Appends a real.
pub(super) fn write_number(real: f64, format: RowFormat, buffer: &mut TextBuffer) {
    if real.is_nan() {
        write_null(format, buffer);
    } else {
        write_real(real, buffer);
    }
}

/// Appends an integer in decimal.
pub(super) fn write_integer(integer: i64, buffer: &mut TextBuffer) {
    buffer.make_room(1);
    if let 0..10 = integer {
        // Below 10.
        buffer.byte(b'0' + integer as u8);
        return;
    }
    if integer < 0 {
        buffer.byte(b'-');
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
    buffer.text(&digits[start..]);
}

/// Appends a text, or a BLOB if the bytes are not UTF-8.
pub(super) fn write_bytes(
    bytes: &[u8],
    format: RowFormat,
    sink: &mut RowSink<'_>,
) -> io::Result<()> {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    if let Ok(text) = std::str::from_utf8(bytes) {
        return write_text(text, format, sink);
    }
    let (before, behind): (&[u8], &[u8]) = match format {
        RowFormat::Csv | RowFormat::Tsv => (BLOB_MARK, b"'"),
        RowFormat::Json | RowFormat::JsonLines => (b"{\"hex\":\"", b"\"}"),
    };
    sink.text(before)?;
    for part in bytes.chunks(BLOB_PART_BYTES) {
        sink.buffer.make_room(2 * part.len());
        for byte in part {
            sink.buffer.byte(DIGITS[usize::from(byte >> 4)]);
            sink.buffer.byte(DIGITS[usize::from(byte & 15)]);
        }
        sink.relieve()?;
    }
    sink.text(behind)
}

/// Appends a text.
pub(super) fn write_text(text: &str, format: RowFormat, sink: &mut RowSink<'_>) -> io::Result<()> {
    let mut rest = text.as_bytes();
    let (before, behind) = match format {
        // The text has no quotes that would be doubled.
        RowFormat::Csv if is_unmarked(rest, format) => return sink.text(rest),
        RowFormat::Tsv if rest.starts_with(BLOB_MARK) => ("\\", ""),
        RowFormat::Tsv => ("", ""),
        RowFormat::Csv | RowFormat::Json | RowFormat::JsonLines => ("\"", "\""),
    };
    sink.buffer.text(before.as_bytes());
    while let Some(at) = next_escape(rest, format) {
        sink.text(&rest[..at])?;
        let (escape, length) = match rest[at..] {
            [b'"', ..] if format == RowFormat::Csv => ("\"\"", 1),
            [b'"', ..] => ("\\\"", 1),
            [b'\\', ..] => ("\\\\", 1),
            [b'\n', ..] => ("\\n", 1),
            [b'\r', ..] => ("\\r", 1),
            [b'\t', ..] => ("\\t", 1),
            [0xc2, ..] => ("\\u0085", 2),
            [0xe2, _, 0xa8, ..] => ("\\u2028", 3),
            [0xe2, ..] => ("\\u2029", 3),
            _ => {
                write!(sink.buffer, "\\u{:04x}", rest[at]).expect("a buffer takes all");
                ("", 1)
            }
        };
        sink.text(escape.as_bytes())?;
        rest = &rest[at + length..];
    }
    sink.text(rest)?;
    sink.text(behind.as_bytes())
}

/// The place of the first character of a text that is not written as it is. In JSON the line ends of Unicode are among these, so
/// that a line of JSON is one line for every reader.
fn next_escape(text: &[u8], format: RowFormat) -> Option<usize> {
    let mut from = 0;
    loop {
        let mut bytes = text[from..].iter();
        let at = from
            + match format {
                RowFormat::Csv => bytes.position(|&byte| byte == b'"'),
                RowFormat::Tsv => {
                    bytes.position(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b'\\'))
                }
                RowFormat::Json | RowFormat::JsonLines => bytes
                    .position(|&byte| byte < b' ' || matches!(byte, b'"' | b'\\' | 0xc2 | 0xe2)),
            }?;
        match text[at..] {
            // U+0085, U+2028 and U+2029, and other characters with the same first byte.
            [0xc2, 0x85, ..] | [0xe2, 0x80, 0xa8 | 0xa9, ..] => return Some(at),
            [0xc2 | 0xe2, ..] => from = at + 1,
            _ => return Some(at),
        }
    }
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

    #[test]
    fn texts_of_values_lose_nothing() {
        for (value, text) in [
            (Value::Null, None),
            (Value::Integer(i64::MIN), Some("-9223372036854775808")),
            (Value::Real(1.0), Some("1.0")),
            (Value::Real(-0.0), Some("-0.0")),
            (Value::Real(0.1 + 0.2), Some("0.30000000000000004")),
            (Value::Real(1e300), Some("1e300")),
            (Value::Real(5e-324), Some("5e-324")),
            (Value::Real(f64::INFINITY), Some("1e999")),
            (Value::Real(f64::NEG_INFINITY), Some("-1e999")),
            (Value::Real(f64::NAN), None),
            (Value::from("X'00'"), Some("X'00'")),
            (Value::Blob(b"ab".to_vec()), Some("ab")),
            (Value::Blob(vec![0xff, 0x0a]), Some("X'ff0a'")),
            (Value::Blob(vec![]), Some("")),
        ] {
            assert_eq!(value_text(&value).as_deref(), text, "{value:?}");
        }
    }

    #[test]
    fn only_line_ends_of_unicode_have_escapes_beside_ascii() {
        let all: String = (' '..'\u{3000}').collect();
        let mut rest = all.as_bytes();
        let mut escaped = Vec::new();
        while let Some(at) = next_escape(rest, RowFormat::Json) {
            let text = std::str::from_utf8(&rest[at..]).unwrap_or_default();
            let character = text.chars().next().unwrap_or_default();
            escaped.push(character);
            rest = &rest[at + character.len_utf8()..];
        }
        assert_eq!(escaped, ['"', '\\', '\u{85}', '\u{2028}', '\u{2029}']);
    }
}
