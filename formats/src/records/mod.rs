//! Files to records, one module for each kind of format.
//!
//! Invariant: a reader holds one record in memory at most, within the limits; text that is a whole file passes through. A record
//! that cannot be used is rejected with its line and column; what cannot be cut into records any further is damage.

mod csv;
mod json;
mod lines;
mod mbox;
mod tags;
mod warc;

use std::io::{BufReader, Read};

use crate::error::{Damage, Failure};
use crate::format::Format;
use crate::member::MemberRecords;
use crate::options::ReadOptions;
use crate::tables::check_built_in;

/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 128 << 10;

/// Reads a member in a format.
pub(crate) fn read(
    format: Format,
    source: Box<dyn Read + '_>,
    options: &ReadOptions<'_>,
    target: &mut MemberRecords<'_>,
) -> Result<(), Failure> {
    let buffered = |source| BufReader::with_capacity(BUFFER_BYTES, source);
    match format {
        Format::Text => text(source, target, |_| {}),
        Format::Html | Format::Xml if options.strips_tags => {
            let mut filter = tags::TagFilter::new(format == Format::Html);
            text(source, target, |bytes| filter.strip(bytes))
        }
        Format::Html | Format::Xml => text(source, target, |_| {}),
        Format::JsonLines => json::read_lines(buffered(source), options, target),
        Format::Json => json::read_values(buffered(source), options, target),
        Format::Csv => csv::read(buffered(source), csv::Dialect::Csv, options, target),
        Format::Tsv => csv::read(buffered(source), csv::Dialect::Tsv, options, target),
        Format::Mbox => mbox::read(buffered(source), options, target),
        Format::Warc => warc::read(buffered(source), options, target),
        Format::Lines => lines::read(buffered(source), false, options, target),
        Format::Paragraphs => lines::read(buffered(source), true, options, target),
        Format::Parquet | Format::Arrow => table(format, source, options, target),
    }
}

#[cfg(feature = "arrow")]
fn table(
    format: Format,
    source: Box<dyn Read + '_>,
    options: &ReadOptions<'_>,
    target: &mut MemberRecords<'_>,
) -> Result<(), Failure> {
    check_built_in(format).map_err(|error| Damage::whole(error.to_string()))?;
    crate::tables::read(format, source, options, target)
}

#[cfg(not(feature = "arrow"))]
fn table(
    format: Format,
    _source: Box<dyn Read + '_>,
    _options: &ReadOptions<'_>,
    _target: &mut MemberRecords<'_>,
) -> Result<(), Failure> {
    check_built_in(format).map_err(|error| Damage::whole(error.to_string()))?;
    Ok(())
}

/// Passes a text on as one record.
fn text(
    mut source: Box<dyn Read + '_>,
    target: &mut MemberRecords<'_>,
    mut change: impl FnMut(&mut [u8]),
) -> Result<(), Failure> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match source.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                change(&mut buffer[..count]);
                target.text(&buffer[..count])?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(target.whole()?)
}
