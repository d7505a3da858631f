//! CSV and TSV, as the database writes them and as others do.
//!
//! CSV follows RFC 4180: fields stand between commas, quoted ones may have commas, line ends and `""` for a quote in them. A field
//! without quotes that is empty is NULL, and one like `X'00ff'` is bytes. TSV has one record a line, with `\t`, `\n`, `\r`, `\\` for
//! the characters and `\N` for NULL. The first line has the names of the fields.
//!
//! Invariant: a record is one line of the file or several, and has a value for each name. The csv crate is not used: it neither
//! distinguishes quoted fields nor reports a quote that does not end, and bounds no record.

use std::io::BufRead;
use std::sync::Arc;

use super::lines::{LineReader, without_end};
use crate::error::{Damage, Failure};
use crate::member::MemberRecords;
use crate::options::ReadOptions;
use crate::record::FieldValue;
use crate::roles::{Roles, take_roles};

/// A way to write rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Csv,
    Tsv,
}

/// Reads a record from each row behind the first.
pub(super) fn read(
    source: impl BufRead,
    dialect: Dialect,
    options: &ReadOptions<'_>,
    target: &mut MemberRecords<'_>,
) -> Result<(), Failure> {
    let mut own = None;
    let roles = Roles::of(options, &mut own);
    let mut rows = RowReader {
        lines: LineReader::new(source, options.limits.record_bytes),
        row: Vec::new(),
        bytes_max: options.limits.record_bytes,
        dialect,
    };
    let Some(first) = rows.next()? else {
        return Ok(());
    };
    let names = rows.fields(first)?;
    let names: Vec<Arc<str>> = (names.into_iter())
        .map(|name| match name {
            FieldValue::Text(name) | FieldValue::Untyped(name) => {
                name.strip_prefix('\u{feff}').unwrap_or(&name).into()
            }
            _ => "".into(),
        })
        .collect();
    while let Some(line) = rows.next()? {
        // An empty line is a row without fields, which some writers leave at the end.
        if without_end(&rows.row).is_empty() && names.len() > 1 {
            continue;
        }
        let record = rows.fields(line).and_then(|values| {
            if values.len() != names.len() {
                let reason = format!(
                    "it has {} fields, the first line has {}",
                    values.len(),
                    names.len()
                );
                return Err(Damage::at(line, 1, reason));
            }
            let fields = names.iter().cloned().zip(values).collect();
            take_roles(fields, &roles).map_err(|reason| Damage::at(line, 1, reason))
        });
        match record {
            Ok(record) => {
                target.text(&record.text)?;
                target.record(line, record.name, record.fields)?;
            }
            Err(damage) => target.reject(damage)?,
        }
    }
    Ok(())
}

/// Rows of a file.
struct RowReader<R> {
    lines: LineReader<R>,
    /// The row at hand.
    row: Vec<u8>,
    bytes_max: usize,
    dialect: Dialect,
}

impl<R: BufRead> RowReader<R> {
    /// Reads the next row. Returns the number of its first line.
    fn next(&mut self) -> Result<Option<u64>, Damage> {
        self.row.clear();
        let mut first = None;
        let mut is_quoted = false;
        while self.lines.next()? {
            let first = *first.get_or_insert(self.lines.number());
            let line = self.lines.whole();
            if self.row.len() + line.len() > self.bytes_max {
                return Err(Damage::at(
                    first,
                    0,
                    format!("a row of more than {} bytes", self.bytes_max),
                ));
            }
            self.row.extend_from_slice(line);
            // Each quote in a field of quotes begins or ends it, or is one of two; others are refused with the fields.
            if self.dialect == Dialect::Csv && memchr::memchr_iter(b'"', line).count() % 2 == 1 {
                is_quoted = !is_quoted;
            }
            if !is_quoted {
                return Ok(Some(first));
            }
        }
        match first {
            None => Ok(None),
            Some(first) => Err(Damage::at(first, 0, "a quote in the row does not end")),
        }
    }

    fn fields(&self, line: u64) -> Result<Vec<FieldValue>, Damage> {
        match self.dialect {
            Dialect::Csv => csv_fields(&self.row),
            Dialect::Tsv => tsv_fields(without_end(&self.row)),
        }
        .map_err(|(at, reason)| {
            let before = &self.row[..at];
            let lines = memchr::memchr_iter(b'\n', before).count() as u64;
            let column = at - memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
            Damage::at(line + lines, column as u64 + 1, reason)
        })
    }
}

type Fault = (usize, String);

/// The fields of a row of CSV with its line end.
fn csv_fields(row: &[u8]) -> Result<Vec<FieldValue>, Fault> {
    let row = without_end(row);
    let mut fields = Vec::new();
    let mut at = 0;
    loop {
        let start = at;
        if row.get(at) == Some(&b'"') {
            let mut value = Vec::new();
            at += 1;
            loop {
                let Some(quote) = memchr::memchr(b'"', &row[at..]) else {
                    return Err((start, "a quote does not end".to_owned()));
                };
                value.extend_from_slice(&row[at..at + quote]);
                at += quote + 1;
                if row.get(at) != Some(&b'"') {
                    break;
                }
                value.push(b'"');
                at += 1;
            }
            fields.push(FieldValue::Text(utf8(value, start)?));
        } else {
            let end = memchr::memchr(b',', &row[at..]).map_or(row.len(), |comma| at + comma);
            let value = &row[at..end];
            if let Some(quote) = memchr::memchr(b'"', value) {
                return Err((
                    at + quote,
                    "a quote in a field without quotes around it".to_owned(),
                ));
            }
            at = end;
            fields.push(match value {
                [] => FieldValue::Null,
                _ => unquoted(value, start)?,
            });
        }
        match row.get(at) {
            None => return Ok(fields),
            Some(b',') => at += 1,
            Some(_) => return Err((at, "a `,` must follow the quote".to_owned())),
        }
    }
}

/// The fields of a line of TSV without its line end.
fn tsv_fields(line: &[u8]) -> Result<Vec<FieldValue>, Fault> {
    let mut at = 0;
    let mut fields = Vec::new();
    for field in line.split(|&byte| byte == b'\t') {
        let start = at;
        at += field.len() + 1;
        if field == b"\\N" {
            fields.push(FieldValue::Null);
            continue;
        }
        if memchr::memchr(b'\\', field).is_none() {
            fields.push(unquoted(field, start)?);
            continue;
        }
        let mut value = Vec::with_capacity(field.len());
        let mut bytes = field.iter();
        while let Some(&byte) = bytes.next() {
            value.push(match byte {
                b'\\' => match bytes.next() {
                    Some(b't') => b'\t',
                    Some(b'n') => b'\n',
                    Some(b'r') => b'\r',
                    Some(&other) => other,
                    None => return Err((at - 2, "a `\\` at the end of a field".to_owned())),
                },
                byte => byte,
            });
        }
        fields.push(untyped(value, start)?);
    }
    Ok(fields)
}

/// A value that no quotes stand around.
fn unquoted(value: &[u8], at: usize) -> Result<FieldValue, Fault> {
    let hex = value
        .strip_prefix(b"X'")
        .and_then(|rest| rest.strip_suffix(b"'"));
    match hex.and_then(bytes_of_hex) {
        Some(bytes) => Ok(FieldValue::Bytes(bytes)),
        None => untyped(value.to_vec(), at),
    }
}

/// A value that is no text if all of its column are others.
fn untyped(value: Vec<u8>, at: usize) -> Result<FieldValue, Fault> {
    Ok(FieldValue::Untyped(utf8(value, at)?))
}

fn utf8(value: Vec<u8>, at: usize) -> Result<String, Fault> {
    String::from_utf8(value).map_err(|error| {
        let fault = error.utf8_error().valid_up_to();
        (
            at + fault,
            "it is not UTF-8; hint: the option encoding decodes it".to_owned(),
        )
    })
}

/// The bytes that hexadecimal digits stand for.
pub(super) fn bytes_of_hex(hex: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8); // below 16
    let pairs = hex.chunks(2).map(|pair| match pair {
        &[high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    });
    pairs.collect()
}
