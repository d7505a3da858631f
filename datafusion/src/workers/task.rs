//! `Task`: a request to a worker, as it is sent.
//!
//! Invariant: a task means the same to both sides, or is refused: it names the release and the publication it is about.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{exec_datafusion_err, internal_err};
use datafusion::error::Result;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use zipfdb_remote::{ImportPart, ImportPlace};

use crate::relation::ColumnKind;

/// The release of this crate. Statements and rows may differ between any two.
pub(crate) const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// A statement on some segments of a corpus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Task {
    /// Release of the coordinator.
    pub(crate) release: String,
    /// The number of the database's version.
    pub(crate) version: u64,
    /// What published it: no other database has the same.
    pub(crate) publication: String,
    pub(crate) corpus: String,
    /// Numbers of segments.
    pub(crate) segments: Vec<u64>,
    /// A SELECT of ZipfDB's dialect.
    pub(crate) sql: String,
    /// The columns of its rows; without any its only value is a number of rows.
    pub(crate) columns: Vec<TaskColumn>,
    /// Rows at most, if it has no columns.
    pub(crate) limit: Option<usize>,
    /// Rows of a batch.
    pub(crate) batch_rows: usize,
}

/// A column of rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TaskColumn {
    name: String,
    kind: ColumnKind,
    is_nullable: bool,
}

impl TaskColumn {
    /// The columns of a schema.
    ///
    /// # Errors
    /// If ZipfDB has no such type.
    pub(crate) fn of(schema: &Schema) -> Result<Vec<TaskColumn>> {
        let column = |field: &Arc<Field>| {
            let kind = match field.data_type() {
                DataType::Int64 => ColumnKind::Integer,
                DataType::Float64 => ColumnKind::Real,
                DataType::Utf8View => ColumnKind::Text,
                DataType::LargeBinary => ColumnKind::Blob,
                other => return internal_err!("no worker gives a column of type {other}"),
            };
            Ok(TaskColumn {
                name: field.name().clone(),
                kind,
                is_nullable: field.is_nullable(),
            })
        };
        schema.fields().iter().map(column).collect()
    }
}

impl Task {
    pub(crate) fn schema(&self) -> SchemaRef {
        let columns = self.columns.iter();
        let fields = columns
            .map(|column| Field::new(&column.name, column.kind.data_type(), column.is_nullable));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and texts are JSON")
    }

    /// # Errors
    /// As [`decode`].
    pub(crate) fn decode(bytes: &[u8]) -> Result<Task> {
        decode(bytes)
    }
}

/// A task of any kind.
///
/// # Errors
/// If the bytes are none of this release. The text of the error is sent to the coordinator.
fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    #[derive(Deserialize)]
    struct Head {
        release: String,
    }
    let fail = |error| exec_datafusion_err!("not a task: {error}");
    let head: Head = serde_json::from_slice(bytes).map_err(fail)?;
    if head.release != RELEASE {
        return Err(exec_datafusion_err!(
            "the worker has release {RELEASE} and the coordinator {}; hint: run the same release everywhere",
            head.release
        ));
    }
    serde_json::from_slice(bytes).map_err(fail)
}

/// A part of an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ImportTask {
    /// Release of the coordinator.
    pub(super) release: String,
    /// The number of the version that the import adds to.
    pub(super) version: u64,
    /// What published that.
    pub(super) publication: String,
    pub(super) place: ImportPlace,
    pub(super) part: ImportPart,
}

impl ImportTask {
    /// The type of the action that it travels as.
    pub(super) const ACTION: &'static str = "import";

    pub(super) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and texts are JSON")
    }

    /// # Errors
    /// As [`decode`].
    pub(super) fn decode(bytes: &[u8]) -> Result<ImportTask> {
        decode(bytes)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn tasks_come_back_and_those_of_other_releases_do_not() {
        let schema = Schema::new(vec![
            Field::new("word", DataType::Utf8View, false),
            Field::new("n", DataType::Int64, true),
        ]);
        let task = Task {
            release: RELEASE.into(),
            version: 3,
            publication: "p".into(),
            corpus: "books".into(),
            segments: vec![1, 7],
            sql: "SELECT 1".into(),
            columns: TaskColumn::of(&schema).unwrap(),
            limit: None,
            batch_rows: 8192,
        };
        assert_eq!(*task.schema(), schema);
        assert_eq!(Task::decode(&task.encode()).unwrap(), task);
        let other = Task {
            release: "0.0.0".into(),
            ..task
        };
        let refused = Task::decode(&other.encode()).unwrap_err().to_string();
        assert!(
            refused.contains("0.0.0") && refused.contains(RELEASE),
            "{refused}"
        );
        assert!(Task::decode(b"{}").is_err());
        assert!(TaskColumn::of(&Schema::new(vec![Field::new("a", DataType::Int8, true)])).is_err());
    }
}
