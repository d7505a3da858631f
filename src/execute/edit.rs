//! INSERT, REPLACE, UPDATE, DELETE and transactions.
//!
//! Invariant: all rows of a statement are known before the first edit is made, so a statement sees the texts before it, and a
//! failed one has changed nothing.

use std::sync::Arc;

use bytes::Bytes;
use zipfdb_sql::Plan;
use zipfdb_sql::plan::InsertColumn;
use zipfdb_sql::query::{MetadataColumn, Query};

use super::select::select;
use crate::handles::record::metadata_value;
use crate::handles::session::Session;
use crate::overlay::edits::Names;
use crate::overlay::{EditBatch, FileValues, Insertion};
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
    let place = |wanted| insert.columns.iter().position(|column| *column == wanted);
    let (file, content) = (place(InsertColumn::File), place(InsertColumn::Content));
    let offset = place(InsertColumn::Offset);
    let declared = insert.columns.iter().enumerate();
    let declared = declared.filter_map(|(place, column)| match column {
        InsertColumn::Metadata(column) => Some((place, column.clone())),
        _ => None,
    });
    let declared: Vec<(usize, MetadataColumn)> = declared.collect();
    let mut names = Names::default();
    let (mut rows, mut metadata) = (Vec::new(), Vec::new());
    let mut bytes = 0usize;
    let selected = select(session, insert.query, interrupt)?;
    let notices = selected.notices().to_vec();
    for (number, row) in selected.enumerate() {
        let mut values = row?.into_values();
        let mut take = |place: Option<usize>| {
            let value = place.and_then(|place| values.get_mut(place));
            value.map_or(Value::Null, |value| std::mem::replace(value, Value::Null))
        };
        let name: Arc<str> = match (file, take(file)) {
            // Named when all rows are known.
            (None, _) => Arc::from(""),
            (Some(_), Value::Text(name)) => names.shared(&name),
            (Some(_), name) => return Err(wrong_type(number, "file", &name, "TEXT")),
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
        for (place, column) in &declared {
            let value = metadata_value(number, &column.name, column.kind, &take(Some(*place)))?;
            bytes = bytes.saturating_add(value.size());
            metadata.push((column.id, value));
        }
        if bytes > STATEMENT_BYTES_MAX {
            let reason =
                "the texts of a statement are together at most 1 GiB; hint: use several statements";
            return Err(wrong(number, "content", reason));
        }
        rows.push(Insertion {
            file: name,
            offset,
            text,
        });
    }
    let changed = rows.len() as u64;
    session.edit_with(&insert.corpus, interrupt, |edits| {
        if file.is_none() {
            let new = edits.new_names(&insert.corpus, rows.len())?;
            (rows.iter_mut().zip(new)).for_each(|(row, name)| row.file = name);
        }
        let mut batches = Vec::with_capacity(2);
        let set = metadata.chunks(declared.len().max(1)).zip(&rows);
        let set: Vec<FileValues> = set
            .map(|(values, row)| (row.file.clone(), values.to_vec()))
            .collect();
        batches.push(if insert.replace {
            EditBatch::Replace(rows.into_iter().map(|row| (row.file, row.text)).collect())
        } else {
            EditBatch::Insert(rows)
        });
        batches.push(EditBatch::Set(set));
        Ok(batches)
    })?;
    Ok(Rows::none().with_changed(changed).with_notices(notices))
}

/// Runs UPDATE: `query` returns the names of files, and a value for each column.
pub(crate) fn update(
    session: &Arc<Session>,
    corpus: &str,
    columns: &[MetadataColumn],
    query: Query,
    interrupt: &Interrupt,
) -> Result<Rows> {
    let mut set: Vec<FileValues> = Vec::new();
    let selected = select(session, query, interrupt)?;
    let notices = selected.notices().to_vec();
    for (number, row) in selected.enumerate() {
        let mut values = row?.into_values().into_iter();
        let Some(Value::Text(name)) = values.next() else {
            continue;
        };
        let values = columns.iter().zip(values).map(|(column, value)| {
            Ok((
                column.id,
                metadata_value(number, &column.name, column.kind, &value)?,
            ))
        });
        set.push((name.into(), values.collect::<Result<_>>()?));
    }
    let changed = set.len() as u64;
    session.edit(corpus, vec![EditBatch::Set(set)], interrupt)?;
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
    session.edit(corpus, vec![EditBatch::Delete(files)], interrupt)?;
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
        Plan::AlterCorpus { .. } | Plan::AddColumn { .. } | Plan::DropColumn { .. } => {
            Some("ALTER CORPUS")
        }
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
