//! INSERT, REPLACE, DELETE and transactions.
//!
//! Invariant: all rows of a statement are known before the first edit is made, so a statement sees the texts before it, and a
//! failed one has changed nothing.

use std::sync::Arc;

use bytes::Bytes;
use zipfdb_sql::Plan;
use zipfdb_sql::plan::InsertColumn;
use zipfdb_sql::query::Query;

use super::select::select;
use crate::handles::session::Session;
use crate::overlay::{EditBatch, Insertion};
use crate::runtime::interrupt::Interrupt;
use crate::{Error, Result, Row, Rows, Value};

/// The most bytes of text in one statement.
const STATEMENT_BYTES_MAX: usize = 1 << 30;

/// Rows of INSERT or REPLACE.
pub(crate) struct InsertRows {
    pub(crate) corpus: String,
    pub(crate) columns: Vec<InsertColumn>,
    pub(crate) query: Query,
    pub(crate) replace: bool,
}

/// Runs INSERT or REPLACE.
pub(crate) fn insert(
    session: &Arc<Session>,
    insert: InsertRows,
    interrupt: &Interrupt,
) -> Result<Rows> {
    let place = |wanted| insert.columns.iter().position(|&column| column == wanted);
    let (file, content) = (place(InsertColumn::File), place(InsertColumn::Content));
    let offset = place(InsertColumn::Offset);
    let mut names = crate::overlay::edits::Names::default();
    let mut rows = Vec::new();
    let mut bytes = 0usize;
    let selected = select(session, insert.query, interrupt)?;
    let notices = selected.notices().to_vec();
    for (number, row) in selected.enumerate() {
        let mut values = row?.into_values();
        let mut take = |place: Option<usize>| {
            let value = place.and_then(|place| values.get_mut(place));
            value.map_or(Value::Null, |value| std::mem::replace(value, Value::Null))
        };
        let name = take(file);
        let Value::Text(name) = name else {
            return Err(wrong_type(number, "file", &name, "TEXT"));
        };
        let text = match take(content) {
            Value::Text(text) => Bytes::from(text),
            Value::Blob(bytes) => Bytes::from(bytes),
            other => return Err(wrong_type(number, "content", &other, "TEXT or BLOB")),
        };
        let offset = match offset {
            None => None,
            Some(_) => match take(offset) {
                Value::Integer(offset) => Some(u64::try_from(offset).map_err(|_| {
                    wrong(
                        number,
                        "offset",
                        format!("{offset} is negative; hint: offsets count from 0"),
                    )
                })?),
                other => return Err(wrong_type(number, "offset", &other, "INTEGER")),
            },
        };
        bytes = bytes.saturating_add(text.len());
        if bytes > STATEMENT_BYTES_MAX {
            let reason =
                "the texts of a statement are together at most 1 GiB; hint: use several statements";
            return Err(wrong(number, "content", reason));
        }
        rows.push(Insertion {
            file: names.shared(&name),
            offset,
            text,
        });
    }
    let changed = rows.len() as u64;
    let batch = if insert.replace {
        EditBatch::Replace(rows.into_iter().map(|row| (row.file, row.text)).collect())
    } else {
        EditBatch::Insert(rows)
    };
    session.edit(&insert.corpus, batch, interrupt)?;
    Ok(Rows::none().with_changed(changed).with_notices(notices))
}

/// Runs DELETE: `query` returns the names of the files.
pub(crate) fn delete(
    session: &Arc<Session>,
    corpus: &str,
    query: Query,
    interrupt: &Interrupt,
) -> Result<Rows> {
    let mut files: Vec<Arc<str>> = Vec::new();
    let selected = select(session, query, interrupt)?;
    let notices = selected.notices().to_vec();
    for row in selected {
        let row: Row = row?;
        if let Value::Text(name) = &row[0] {
            files.push(name.as_str().into());
        }
    }
    let changed = files.len() as u64;
    session.edit(corpus, EditBatch::Delete(files), interrupt)?;
    Ok(Rows::none().with_changed(changed).with_notices(notices))
}

/// The error for a value of a type that its column does not take.
fn wrong_type(row: usize, column: &str, found: &Value, expected: &str) -> Error {
    let reason = match (found, expected) {
        (Value::Null, _) => format!("NULL stands where {expected} is expected"),
        (_, "TEXT") => format!(
            "{} stands where TEXT is expected; hint: CAST(x AS TEXT) makes it one",
            found.type_name()
        ),
        (_, "INTEGER") => format!(
            "{} stands where INTEGER is expected; hint: an offset is a number of bytes, from 0",
            found.type_name()
        ),
        _ => format!("{} stands where {expected} is expected", found.type_name()),
    };
    wrong(row, column, reason)
}

fn wrong(row: usize, column: &str, reason: impl Into<String>) -> Error {
    Error::Invalid {
        subject: format!("row {}: {column}", row + 1),
        reason: reason.into(),
    }
}

/// The name of a statement that must not be part of a transaction; none for others.
pub(crate) fn is_alone(plan: &Plan) -> Option<&'static str> {
    match plan {
        Plan::CreateCorpus { .. } => Some("CREATE CORPUS"),
        Plan::AlterCorpus { .. } => Some("ALTER CORPUS"),
        Plan::DropCorpus { .. } => Some("DROP CORPUS"),
        Plan::CreateView { .. } => Some("CREATE VIEW"),
        Plan::DropView { .. } => Some("DROP VIEW"),
        Plan::CreateIndex { .. } => Some("CREATE INDEX"),
        Plan::DropIndex { .. } => Some("DROP INDEX"),
        Plan::CopyFrom { .. } => Some("COPY ... FROM"),
        Plan::Recompress { .. } => Some("RECOMPRESS"),
        _ => None,
    }
}
