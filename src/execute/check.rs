//! CHECK: reads everything a corpus holds and says what is damaged.
//!
//! A damaged segment does not hide the state of the others: each gets a row.

use crate::corpus::{Corpus, SegmentCheck};
use crate::rows::{Column, Row, Rows};
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
        let problem = corpus.shared().pool.install(|| reader.verify()).err();
        progress.advance(info.bytes);
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
    let verdict = (damaged > 0).then_some(Err(Error::Damaged {
        damaged,
        segments: checks.len(),
    }));
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
