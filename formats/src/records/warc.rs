//! Web archives, WARC 1.0 and 1.1 (ISO 28500): resources with their URIs and dates.
//!
//! Invariant: records of the types `response`, `resource` and `conversion` are texts, others are passed over. The text of a response
//! is what follows the header of HTTP. Text passes through, whatever its size; headers are bounded.

use std::io::{BufRead, Read};
use std::sync::Arc;

use super::lines::without_end;
use crate::error::{Damage, Failure};
use crate::member::MemberRecords;
use crate::options::ReadOptions;
use crate::record::FieldValue;

/// Bytes of a text that are read at a time.
const BUFFER_BYTES: usize = 128 << 10;

/// Bytes of the header of a record, and of one of HTTP.
const HEADER_BYTES_MAX: u64 = 1 << 20;

/// Reads the resources of a web archive.
pub(super) fn read(
    source: impl BufRead,
    options: &ReadOptions<'_>,
    target: &mut MemberRecords<'_>,
) -> Result<(), Failure> {
    let mut warc = WarcReader {
        source,
        line: 0,
        options,
    };
    while warc.record(target)? {}
    Ok(())
}

struct WarcReader<'a, R> {
    source: R,
    /// Lines of headers so far, from which places are made; blocks are not counted.
    line: u64,
    options: &'a ReadOptions<'a>,
}

impl<R: BufRead> WarcReader<'_, R> {
    /// Reads a record. Returns whether there was one.
    fn record(&mut self, target: &mut MemberRecords<'_>) -> Result<bool, Failure> {
        let Some(version) = self.first_line()? else {
            return Ok(false);
        };
        if !version.starts_with(b"WARC/") {
            return Err(self.damage("a record must begin with `WARC/`").into());
        }
        let mut header = Headers::default();
        header.read(&mut self.source, &mut self.line)?;
        let length = header
            .get("content-length")
            .and_then(|length| length.trim().parse::<u64>().ok());
        let Some(length) = length else {
            return Err(self.damage("a record without a `Content-Length`").into());
        };
        let kind = header
            .get("warc-type")
            .unwrap_or_default()
            .to_ascii_lowercase();
        let mut rest = length;
        if matches!(kind.as_str(), "response" | "resource" | "conversion") {
            let is_http = kind == "response"
                && header.get("content-type").is_some_and(|kind| {
                    kind.trim_start()
                        .to_ascii_lowercase()
                        .starts_with("application/http")
                });
            let mut media = header.get("content-type").map(str::to_owned);
            if is_http && self.options.text.as_deref() != Some("block") {
                let mut http = Headers::default();
                let mut block = (&mut self.source).take(rest);
                http.read(&mut block, &mut 0)?;
                rest = block.limit();
                media = http.get("content-type").map(str::to_owned);
            }
            let mut buffer = vec![0; BUFFER_BYTES];
            while rest > 0 {
                let size =
                    usize::try_from(rest).map_or(buffer.len(), |rest| rest.min(buffer.len()));
                let count = self.source.read(&mut buffer[..size])?;
                if count == 0 {
                    return Err(self.damage("the archive ends in a record").into());
                }
                target.text(&buffer[..count])?;
                rest -= count as u64;
            }
            self.give(&header, media, target)?;
        }
        let passed = std::io::copy(&mut (&mut self.source).take(rest), &mut std::io::sink())?;
        if passed < rest {
            return Err(self.damage("the archive ends in a record").into());
        }
        Ok(true)
    }

    fn give(
        &self,
        header: &Headers,
        media: Option<String>,
        target: &mut MemberRecords<'_>,
    ) -> Result<(), Failure> {
        let value = |text: Option<&str>| {
            text.map_or(FieldValue::Null, |text| FieldValue::Text(text.to_owned()))
        };
        let uri = header
            .get("warc-target-uri")
            .map(|uri| uri.trim_matches(['<', '>']));
        let mut fields: Vec<(Arc<str>, FieldValue)> = vec![
            ("uri".into(), value(uri)),
            ("date".into(), value(header.get("warc-date"))),
            ("content_type".into(), value(media.as_deref())),
            ("record_id".into(), value(header.get("warc-record-id"))),
        ];
        let name = match &self.options.name {
            None => None,
            Some(name) => {
                let place = fields.iter().position(|(field, _)| **field == **name);
                let found = place.and_then(|place| fields.remove(place).1.into_name());
                if found.is_none() {
                    let reason = format!("the record has no `{name}`, which gives the name");
                    return Ok(target.reject(Damage::at(self.line, 1, reason))?);
                }
                found
            }
        };
        Ok(target.record(self.line, name, fields)?)
    }

    /// The first line of the next record, behind blank lines.
    fn first_line(&mut self) -> Result<Option<Vec<u8>>, Damage> {
        let mut line = Vec::new();
        loop {
            line.clear();
            self.line += 1;
            let count = (&mut self.source)
                .take(HEADER_BYTES_MAX)
                .read_until(b'\n', &mut line);
            match count.map_err(Damage::from)? {
                0 => return Ok(None),
                _ if without_end(&line).is_empty() => {}
                _ => return Ok(Some(line)),
            }
        }
    }

    fn damage(&self, reason: &str) -> Damage {
        Damage::whole(format!("{reason}, at line {} of its headers", self.line))
    }
}

/// Headers, by names in small letters.
#[derive(Default)]
struct Headers(Vec<(String, String)>);

impl Headers {
    /// Reads headers to the blank line behind them, or to the end.
    fn read(&mut self, source: &mut impl BufRead, lines: &mut u64) -> Result<(), Damage> {
        let mut source = source.take(HEADER_BYTES_MAX);
        let mut line = Vec::new();
        loop {
            line.clear();
            *lines += 1;
            if source.read_until(b'\n', &mut line).map_err(Damage::from)? == 0 {
                let reason = "a header of more than 1 MiB";
                return if source.limit() == 0 {
                    Err(Damage::whole(reason))
                } else {
                    Ok(())
                };
            }
            let line = String::from_utf8_lossy(without_end(&line));
            if line.is_empty() {
                return Ok(());
            }
            match line.split_once(':') {
                // A line that begins with white space continues the one before.
                _ if line.starts_with([' ', '\t']) => {
                    if let Some((_, value)) = self.0.last_mut() {
                        value.push(' ');
                        value.push_str(line.trim());
                    }
                }
                Some((name, value)) => self
                    .0
                    .push((name.trim().to_ascii_lowercase(), value.trim().to_owned())),
                None => {}
            }
        }
    }

    fn get(&self, name: &str) -> Option<&str> {
        let mut all = self.0.iter();
        all.find(|(own, _)| own == name)
            .map(|(_, value)| value.as_str())
    }
}
