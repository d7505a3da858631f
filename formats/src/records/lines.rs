//! Lines and paragraphs, as logs have them; and lines as other readers take them.
//!
//! Invariant: the texts of lines and the line ends between them are the file. Only LF ends a line, and a CR before it belongs to
//! the line end.

use std::io::BufRead;

use crate::error::{Damage, Failure};
use crate::member::MemberRecords;
use crate::options::ReadOptions;

/// The lines of a file.
pub(super) struct LineReader<R> {
    source: R,
    /// The line at hand, with its line end.
    line: Vec<u8>,
    number: u64,
    bytes_max: usize,
}

impl<R: BufRead> LineReader<R> {
    pub(super) fn new(source: R, bytes_max: usize) -> LineReader<R> {
        LineReader {
            source,
            line: Vec::new(),
            number: 0,
            bytes_max,
        }
    }

    /// Reads the next line, with its line end. Returns whether there is one.
    pub(super) fn next(&mut self) -> Result<bool, Damage> {
        self.line.clear();
        self.number += 1;
        loop {
            let bytes = match self.source.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    let reason = Damage::from(error).reason;
                    return Err(Damage::at(self.number, 0, reason));
                }
            };
            let end = memchr::memchr(b'\n', bytes);
            let count = end.map_or(bytes.len(), |end| end + 1);
            if self.line.len() + count > self.bytes_max {
                return Err(self.too_long());
            }
            self.line.extend_from_slice(&bytes[..count]);
            self.source.consume(count);
            if end.is_some() || count == 0 {
                return Ok(!self.line.is_empty());
            }
        }
    }

    fn too_long(&self) -> Damage {
        let reason = format!("a line of more than {} bytes", self.bytes_max);
        Damage::at(self.number, 0, reason)
    }

    /// The number of the line at hand, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The line at hand with its line end.
    pub(super) fn whole(&self) -> &[u8] {
        &self.line
    }

    /// The line at hand without its line end.
    pub(super) fn line(&self) -> &[u8] {
        without_end(&self.line)
    }
}

/// A line without its line end.
pub(super) fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Makes a record of each line, or of each run of lines that are not blank.
pub(super) fn read(
    source: impl BufRead,
    is_paragraphs: bool,
    options: &ReadOptions<'_>,
    target: &mut MemberRecords<'_>,
) -> Result<(), Failure> {
    let mut lines = LineReader::new(source, options.limits.record_bytes);
    let mut paragraph = Vec::new();
    let mut first = 0;
    while lines.next()? {
        if !is_paragraphs {
            record(lines.number(), lines.line(), options, target)?;
            continue;
        }
        if !lines.line().trim_ascii().is_empty() {
            if paragraph.is_empty() {
                first = lines.number();
            }
            if paragraph.len() + lines.whole().len() > options.limits.record_bytes {
                let reason = format!(
                    "a paragraph of more than {} bytes",
                    options.limits.record_bytes
                );
                return Err(Damage::at(first, 0, reason).into());
            }
            paragraph.extend_from_slice(lines.whole());
        } else if !paragraph.is_empty() {
            record(first, without_end(&paragraph), options, target)?;
            paragraph.clear();
        }
    }
    if !paragraph.is_empty() {
        record(first, without_end(&paragraph), options, target)?;
    }
    Ok(())
}

fn record(
    line: u64,
    text: &[u8],
    options: &ReadOptions<'_>,
    target: &mut MemberRecords<'_>,
) -> Result<(), Failure> {
    let fields = match &options.fields {
        None => Vec::new(),
        Some(pattern) => match pattern.fields(text) {
            Some(fields) => fields,
            None => {
                let damage = Damage::at(
                    line,
                    1,
                    "it does not match the regular expression of the option fields",
                );
                return Ok(target.reject(damage)?);
            }
        },
    };
    let mut fields = fields;
    let name = match &options.name {
        None => None,
        Some(name) => {
            let place = fields.iter().position(|(field, _)| **field == **name);
            let found = place.and_then(|place| fields.remove(place).1.into_name());
            if found.is_none() {
                let reason = format!("it has no field `{name}`, which gives the name");
                return Ok(target.reject(Damage::at(line, 1, reason))?);
            }
            found
        }
    };
    let text = match &options.text {
        None => text.to_vec(),
        Some(name) => {
            let place = fields.iter().position(|(field, _)| **field == **name);
            match place.map(|place| fields.remove(place).1) {
                Some(crate::record::FieldValue::Untyped(text)) => text.into_bytes(),
                Some(crate::record::FieldValue::Bytes(bytes)) => bytes,
                _ => {
                    let reason = format!("it has no field `{name}`, which gives the text");
                    return Ok(target.reject(Damage::at(line, 1, reason))?);
                }
            }
        }
    };
    target.text(&text)?;
    Ok(target.record(line, name, fields)?)
}
