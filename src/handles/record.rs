//! `Record`: a text with metadata, to be added to a corpus; and values of SQL as declared columns store them.
//!
//! Invariant: a value that is stored is of the type of its column. Whether files are there is not known here.

use zipfdb_sql::{Misfit, ValueKind, misfit, quote, shorten};
use zipfdb_storage::{METADATA_TEXT_MAX, MetadataKind, MetadataSchema, MetadataValue};

use crate::answer::stored_value;
use crate::{Error, Result, Value};

/// A text with a name and metadata: a file to be.
///
/// ```
/// use zipfdb::{Database, Record, Value};
///
/// let db = Database::in_memory()?;
/// db.execute_batch("CREATE CORPUS posts (author TEXT, day DATE, likes INTEGER)")?;
/// let posts = db.corpus("posts")?;
/// posts.append_records(&[
///     Record::new("war and peace").named("a.txt").with("author", "Ann").with("day", "2020-01-31"),
///     Record::new("a text without a name gets a number").with("likes", 3),
/// ])?;
/// posts.set_metadata("a.txt", &[("likes", Value::Integer(5))])?;
/// let sql = "SELECT year(day), COUNT(*) FROM posts WHERE word = 'war' AND likes > 3 GROUP BY 1";
/// let row = db.query_row(sql, (), |row| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?)))?;
/// assert_eq!(row, (2020, 1));
/// let author = ("author".to_owned(), Value::from("Ann"));
/// assert_eq!(posts.metadata("a.txt")?[0], author);
/// # Ok::<(), zipfdb::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    pub(crate) file: Option<String>,
    pub(crate) text: Vec<u8>,
    values: Vec<(String, Value)>,
}

impl Record {
    /// A text without a name: it gets a number as its name.
    pub fn new(text: impl Into<Vec<u8>>) -> Record {
        Record {
            file: None,
            text: text.into(),
            values: Vec::new(),
        }
    }

    /// The same with a name.
    pub fn named(mut self, file: impl Into<String>) -> Record {
        self.file = Some(file.into());
        self
    }

    /// The same with a value in a declared column: dates and moments are texts such as `2020-01-31` and `2020-01-31 10:00:00`.
    pub fn with(mut self, column: impl Into<String>, value: impl Into<Value>) -> Record {
        self.values.push((column.into(), value.into()));
        self
    }

    /// Its values as a corpus stores them; `row` counts from 0.
    pub(crate) fn stored(
        &self,
        row: usize,
        schema: &MetadataSchema,
    ) -> Result<Vec<(u32, MetadataValue)>> {
        let values = self.values.iter();
        let values = values.map(|(name, value)| stored_at(row, schema, name, value));
        values.collect()
    }
}

/// The number of a column, and a value as it stores it.
pub(crate) fn stored_at(
    row: usize,
    schema: &MetadataSchema,
    name: &str,
    value: &Value,
) -> Result<(u32, MetadataValue)> {
    let column = schema.find(name).ok_or_else(|| {
        let names = schema.columns().iter().map(|column| column.name.as_str());
        let names: Vec<&str> = names.collect();
        let hint = match &names[..] {
            [] => "`ALTER CORPUS ... ADD COLUMN` declares columns".to_owned(),
            names => format!("declared columns are {}", names.join(", ")),
        };
        wrong_value(row, name, format!("there is no such column; hint: {hint}"))
    })?;
    let value = metadata_value(row, &column.name, value_kind(column.kind), value)?;
    Ok((column.id, value))
}

/// A value of a declared column as it is stored.
///
/// # Errors
/// If the column cannot hold it.
pub(crate) fn metadata_value(
    row: usize,
    name: &str,
    kind: ValueKind,
    value: &Value,
) -> Result<MetadataValue> {
    if let Value::Text(text) = value
        && text.len() > METADATA_TEXT_MAX
    {
        return Err(wrong_value(row, name, "a text has more than 16 MiB"));
    }
    stored_value(metadata_kind(kind), value).ok_or_else(|| {
        let misfit = misfit(kind, value);
        let hint = misfit.map_or("", Misfit::hint);
        let reason = match (misfit, value) {
            (Some(Misfit::Form(form)), Value::Text(text)) => {
                format!("{} is {form}; hint: {hint}", quote(&shorten(text)))
            }
            _ => format!(
                "{} stands where {} is expected; hint: {hint}",
                value.type_name(),
                kind.name()
            ),
        };
        wrong_value(row, name, reason)
    })
}

fn wrong_value(row: usize, column: &str, reason: impl Into<String>) -> Error {
    Error::Invalid {
        subject: format!("row {}: {column}", row + 1),
        reason: reason.into(),
    }
}

/// The kind of the values that a column of metadata shows.
pub(crate) fn value_kind(kind: MetadataKind) -> ValueKind {
    match kind {
        MetadataKind::Text => ValueKind::Text,
        MetadataKind::Integer => ValueKind::Integer,
        MetadataKind::Real => ValueKind::Real,
        MetadataKind::Boolean => ValueKind::Boolean,
        MetadataKind::Date => ValueKind::Date,
        MetadataKind::Timestamp => ValueKind::Timestamp,
    }
}

/// The type of a declared column as it is stored.
pub(crate) fn metadata_kind(kind: ValueKind) -> MetadataKind {
    match kind {
        ValueKind::Integer => MetadataKind::Integer,
        ValueKind::Real => MetadataKind::Real,
        ValueKind::Boolean => MetadataKind::Boolean,
        ValueKind::Date => MetadataKind::Date,
        ValueKind::Timestamp => MetadataKind::Timestamp,
        // No column is declared as BLOB.
        ValueKind::Text | ValueKind::Blob => MetadataKind::Text,
    }
}
