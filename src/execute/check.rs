//! CHECK: reads all of a corpus and reports damage.
//!
//! A damaged segment does not hide the state of the others: each gets a row.

use crate::error::with_causes;
use crate::handles::corpus::Corpus;
use crate::handles::row::Column;
use crate::handles::rows::Rows;
use crate::ingest::Progress;
use crate::maintain::indexes::missing_indexes;
use crate::runtime::interrupt::Interrupt;
use crate::{Error, Result, Value, ValueKind};

/// The result of CHECK for one segment, or for the record log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentCheck {
    /// The segment's number; `None` for the record log, which has an entry only if there is a finding.
    pub segment: Option<u64>,
    /// Files in it, or parts of files.
    pub files: u64,
    /// Bytes of text in it.
    pub bytes: u64,
    /// The damage; `None` if there is none.
    pub problem: Option<String>,
    /// Findings that cost no data: commits that were dropped and are not known to have been durable, indexes that are missing or
    /// damaged.
    pub note: Option<String>,
}

/// Checks every segment of a corpus, in order of id, and the record log, which all corpora share.
pub(crate) fn check(
    corpus: &Corpus,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<Vec<SegmentCheck>> {
    let segments = corpus.readers()?;
    // Faults that the store cannot see: parts of files that do not fit together, words in another order.
    let reader = corpus.reader(interrupt);
    interrupt.check()?;
    progress.begin(
        "check",
        segments.iter().map(|segment| segment.info().bytes).sum(),
    );
    let checks = segments.into_iter().map(|segment| {
        interrupt.check()?;
        let info = segment.info().clone();
        let pool = &corpus.shared().runtime.pool;
        let stored = interrupt.apart(pool, move |stop| Ok(segment.verify_until(stop)))?;
        interrupt.check()?;
        let problem = match (stored, &reader) {
            (Err(error), _) => Some(Error::from(error)),
            (Ok(()), Ok(reader)) => reader.check_words(info.segment_id).err(),
            (Ok(()), Err(_)) => None,
        };
        progress.advance(info.bytes);
        Ok(SegmentCheck {
            segment: Some(info.segment_id),
            files: info.files.into(),
            bytes: info.bytes,
            problem: problem.map(|error| with_causes(&error)),
            note: None,
        })
    });
    let mut checks: Vec<SegmentCheck> = checks.collect::<Result<_>>()?;
    progress.end();
    if let Err(error) = reader {
        let is_at_fault = |check: &SegmentCheck| match &error {
            Error::Inconsistent { segment, .. } => check.segment == Some(*segment),
            _ => false,
        };
        let problem = with_causes(&error);
        match checks.iter().position(is_at_fault) {
            Some(place) => drop(checks[place].problem.get_or_insert(problem)),
            // A segment that cannot be read has its problem already.
            None if checks.iter().any(|check| check.problem.is_some()) => {}
            None => return Err(error),
        }
    }
    interrupt.check()?;
    note_indexes(corpus, &mut checks)?;
    let log = corpus
        .shared()
        .core()
        .store
        .check_log(|| interrupt.check())?;
    let of_log = |problem, note| SegmentCheck {
        segment: None,
        files: 0,
        bytes: 0,
        problem,
        note,
    };
    checks.extend((log.faults.iter()).map(|error| of_log(Some(with_causes(error)), None)));
    checks.extend((log.dropped.into_iter()).map(|dropped| of_log(None, Some(dropped))));
    Ok(checks)
}

/// Adds a note to each segment for the indexes without a whole file.
fn note_indexes(corpus: &Corpus, checks: &mut [SegmentCheck]) -> Result<()> {
    let missing = match missing_indexes(&corpus.shared().core(), corpus.name(), true) {
        Ok(missing) => missing,
        // The damage was found before.
        Err(Error::Storage(_) | Error::Inconsistent { .. }) => return Ok(()),
        Err(error) => return Err(error),
    };
    for (live, record) in missing {
        let mut checks = checks.iter_mut();
        let Some(check) = checks.find(|check| check.segment == Some(live.id())) else {
            continue;
        };
        let name = record.name;
        let note = format!(
            "index `{name}` is missing or damaged, queries go on without it; \
             hint: CREATE INDEX IF NOT EXISTS builds it anew"
        );
        check.note = Some(match check.note.take() {
            Some(before) => format!("{before}\n{note}"),
            None => note,
        });
    }
    Ok(())
}

/// The rows of `CHECK c`; they end with an error if anything is damaged.
pub(super) fn rows(checks: Vec<SegmentCheck>) -> Rows {
    let integer = |name| Column::new(name, Some(ValueKind::Integer));
    let mut columns: Vec<Column> = ["segment", "files", "bytes"].map(integer).into();
    columns.push(Column::new("status", Some(ValueKind::Text)));
    let is_damaged = |check: &&SegmentCheck| check.problem.is_some();
    let of_segments = || checks.iter().filter(|check| check.segment.is_some());
    let damaged = of_segments().filter(is_damaged).count();
    let segments = of_segments().count();
    let log = checks.iter().filter(is_damaged).count() > damaged;
    let verdict = (damaged > 0 || log).then_some(Err(Error::Damaged {
        damaged,
        segments,
        log,
    }));
    let number = |number: u64| Value::from(number as i64);
    let rows = checks.into_iter().map(move |check| {
        Ok(vec![
            check.segment.map_or(Value::Null, number),
            check.segment.map_or(Value::Null, |_| number(check.files)),
            check.segment.map_or(Value::Null, |_| number(check.bytes)),
            Value::Text((check.problem.or(check.note)).unwrap_or_else(|| "ok".into())),
        ])
    });
    Rows::new(columns, rows.chain(verdict))
}
