//! `CorpusSink`: rows that DataFusion inserts, as texts of files of a corpus.
//!
//! Invariant: a statement is one transaction. Its rows are collected, charged to DataFusion's memory pool, and written when the
//! last one is there; a statement that fails or is dropped before writes nothing.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::exec_err;
use datafusion::datasource::sink::DataSink;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use futures::StreamExt;

use crate::relation::failed;
use crate::source::{CorpusSource, blocking};
use crate::statement::quoted_name;

/// What happens to a file that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Insertion {
    /// The text is appended to it.
    Append,
    /// The text is all that it holds.
    Replace,
}

/// Writes files of a corpus.
#[derive(Debug)]
pub(crate) struct CorpusSink {
    source: Arc<CorpusSource>,
    corpus: String,
    insertion: Insertion,
    schema: SchemaRef,
}

impl CorpusSink {
    /// A sink for rows of `files()`: file, content, and columns that follow from these and have to be NULL.
    pub(crate) fn new(
        source: &Arc<CorpusSource>,
        corpus: &str,
        insertion: Insertion,
        columns: &Schema,
    ) -> CorpusSink {
        let fields = columns.fields().iter().enumerate().map(|(index, field)| {
            let is_nullable = index > 1 || field.is_nullable();
            Field::clone(field).with_nullable(is_nullable)
        });
        CorpusSink {
            source: source.clone(),
            corpus: corpus.to_owned(),
            insertion,
            schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
        }
    }

    /// The statement without its rows.
    fn statement(&self) -> String {
        let verb = match self.insertion {
            Insertion::Append => "INSERT",
            Insertion::Replace => "REPLACE",
        };
        format!("{verb} INTO {} (file, content)", quoted_name(&self.corpus))
    }
}

impl DisplayAs for CorpusSink {
    fn fmt_as(&self, _kind: DisplayFormatType, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ZipfInsert: {}", self.statement())
    }
}

#[async_trait]
impl DataSink for CorpusSink {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(
        &self,
        mut data: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let reservation = MemoryConsumer::new("ZipfInsert").register(context.memory_pool());
        let mut rows: Vec<(String, Vec<u8>)> = Vec::new();
        while let Some(batch) = data.next().await.transpose()? {
            for (column, field) in batch.columns().iter().zip(self.schema.fields()).skip(2) {
                if column.logical_null_count() < column.len() {
                    return exec_err!(
                        "column \"{}\" comes from the text and cannot be inserted; hint: name the columns (file, content)",
                        field.name()
                    );
                }
            }
            let (files, contents) = (batch.column(0), batch.column(1));
            let (files, contents) = (files.as_string_view(), contents.as_binary::<i64>());
            for (file, content) in files.iter().zip(contents) {
                let (Some(file), Some(content)) = (file, content) else {
                    return exec_err!("{}: NULL is no file and no content", self.statement());
                };
                reservation
                    .try_grow(file.len() + content.len() + size_of::<(String, Vec<u8>)>())?;
                rows.push((file.to_owned(), content.to_owned()));
            }
        }
        let count = rows.len() as u64;
        let (database, name) = (self.source.database.clone(), self.corpus.clone());
        let insertion = self.insertion;
        let statement = self.statement();
        let write = move || {
            let corpus = database.corpus(&name)?;
            match insertion {
                Insertion::Append => corpus.append_many(&rows),
                Insertion::Replace => corpus.replace_many(&rows),
            }
        };
        blocking(move || write().map_err(|error| failed(&statement, error))).await?;
        Ok(count)
    }
}
