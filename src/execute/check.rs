//! CHECK: reads everything a corpus holds and says what is damaged.
//!
//! A damaged segment does not hide the state of the others: each gets a row.

use std::io::{self, Write};

use rayon::prelude::*;

use crate::corpus::{Corpus, SegmentCheck};
use crate::rows::{Column, Row, Rows};
use crate::snapshot::SegmentView;
use crate::{Error, Progress, Result, Value};

/// Checks every segment of a corpus, in order of id.
pub(crate) fn check(corpus: &Corpus, progress: &dyn Progress) -> Result<Vec<SegmentCheck>> {
    let readers = corpus.readers()?;
    progress.begin(
        "check",
        readers.iter().map(|reader| reader.info().bytes).sum(),
    );
    let checks = readers.into_iter().map(|reader| {
        let info = reader.info().clone();
        let problem = corpus
            .shared()
            .pool
            .install(|| {
                reader.verify()?;
                // A view of its own: what queries have decoded before proves nothing about the disk.
                check_content(&SegmentView::new(reader), progress)
            })
            .err();
        SegmentCheck {
            segment: info.segment_id,
            files: info.files.into(),
            bytes: info.bytes,
            problem: problem.map(|error| describe(&error)),
        }
    });
    let checks = checks.collect();
    progress.end();
    Ok(checks)
}

/// The rows of `CHECK c`; they end with an error if anything is damaged.
pub(super) fn rows(checks: Vec<SegmentCheck>) -> Rows {
    let columns = ["segment", "files", "bytes", "status"].map(Column::new);
    let damaged = checks
        .iter()
        .filter(|check| check.problem.is_some())
        .count();
    let verdict = (damaged > 0).then(|| {
        Err(Error::Damaged {
            damaged,
            segments: checks.len(),
        })
    });
    let rows = checks.into_iter().map(|check| {
        Ok(Row::new(vec![
            Value::from(check.segment as i64),
            Value::from(check.files as i64),
            Value::from(check.bytes as i64),
            Value::Text(check.problem.unwrap_or_else(|| "ok".into())),
        ]))
    });
    Rows::new(columns.into(), rows.chain(verdict))
}

/// Compares every file's bytes and words with what its entry promises.
fn check_content(segment: &SegmentView, progress: &dyn Progress) -> Result<()> {
    let files = segment.files()?;
    let words = segment.words_by_file()?;
    files.par_iter().enumerate().try_for_each(|(index, entry)| {
        let mut checksum = ChecksumWriter::default();
        segment
            .write_content(index as u32, &mut checksum)?
            .expect("a checksum takes any bytes");
        let problem = if checksum.bytes != entry.bytes {
            Some(format!(
                "{} bytes, its entry says {}",
                checksum.bytes, entry.bytes
            ))
        } else if checksum.crc32.clone().finalize() != entry.crc32 {
            Some("its content does not have the checksum that its entry says".to_owned())
        } else if words[index] != entry.words {
            Some(format!(
                "{} words, its entry says {}",
                words[index], entry.words
            ))
        } else {
            None
        };
        progress.advance(entry.bytes);
        match problem {
            None => Ok(()),
            Some(problem) => Err(Error::Inconsistent {
                segment: segment.id(),
                reason: format!("file \"{}\": {problem}", entry.name),
            }),
        }
    })
}

/// An error with its causes, in one line.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[derive(Default)]
struct ChecksumWriter {
    crc32: crc32fast::Hasher,
    bytes: u64,
}

impl Write for ChecksumWriter {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.crc32.update(buffer);
        self.bytes += buffer.len() as u64;
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
