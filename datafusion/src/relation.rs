//! `Relation`: what a statement of ZipfDB can read, with the columns that DataFusion sees of it.
//!
//! Invariant: columns have the names and the order of ZipfDB's `SELECT *`. INTEGER is `Int64`, REAL `Float64`, TEXT `Utf8View`,
//! BLOB `LargeBinary`. Which table functions there are is the business of `functions`.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::error::{DataFusionError, Result};
use zipfdb::Database;

use crate::statement::{quoted_name, quoted_text};

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    Integer,
    Real,
    Text,
    Blob,
}

/// A column whose name is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ColumnDefinition {
    pub(crate) name: &'static str,
    pub(crate) kind: ColumnKind,
    /// Whether it may be NULL.
    pub(crate) is_nullable: bool,
}

impl ColumnDefinition {
    pub(crate) const fn new(name: &'static str, kind: ColumnKind) -> ColumnDefinition {
        ColumnDefinition {
            name,
            kind,
            is_nullable: false,
        }
    }

    pub(crate) const fn nullable(name: &'static str, kind: ColumnKind) -> ColumnDefinition {
        ColumnDefinition {
            name,
            kind,
            is_nullable: true,
        }
    }

    fn field(self) -> Field {
        let data_type = match self.kind {
            ColumnKind::Integer => DataType::Int64,
            ColumnKind::Real => DataType::Float64,
            ColumnKind::Text => DataType::Utf8View,
            ColumnKind::Blob => DataType::LargeBinary,
        };
        Field::new(self.name, data_type, self.is_nullable)
    }
}

/// Columns of a corpus.
const WORDS: &[ColumnDefinition] = &[
    ColumnDefinition::new("file", ColumnKind::Text),
    ColumnDefinition::new("word", ColumnKind::Text),
    ColumnDefinition::new("position", ColumnKind::Integer),
    ColumnDefinition::new("offset", ColumnKind::Integer),
    ColumnDefinition::new("length", ColumnKind::Integer),
];

/// How the rows of a relation can be counted without reading them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowCounting {
    /// One row for each word.
    Words,
    /// One row for each n words that follow one another.
    Ngrams,
    /// One row for each file.
    Files,
    /// Only by reading them.
    None,
}

/// A corpus, or a call of a table function.
#[derive(Debug)]
pub(crate) struct Relation {
    /// As FROM takes it.
    pub(crate) from: String,
    pub(crate) schema: SchemaRef,
    /// Words of an n-gram, if rows are n-grams.
    pub(crate) ngram_words: Option<usize>,
    /// Answers how many rows there are; reads file tables only.
    pub(crate) count: Option<String>,
    /// Answers how many rows each file has, in order of their names, if all rows are of files.
    pub(crate) file_rows: Option<String>,
}

impl Relation {
    /// A corpus as a table.
    ///
    /// # Errors
    /// If there is none of this name.
    pub(crate) fn corpus(database: &Database, name: &str) -> Result<Relation> {
        Relation::new(database, quoted_name(name), WORDS, None)?
            .counted(Some(name), RowCounting::Words)
    }

    /// Whatever FROM takes. Columns that are not defined are INTEGER and may be NULL.
    ///
    /// # Errors
    /// If ZipfDB refuses it.
    pub(crate) fn new(
        database: &Database,
        from: String,
        definitions: &[ColumnDefinition],
        ngram_words: Option<usize>,
    ) -> Result<Relation> {
        let sql = format!("SELECT * FROM {from}");
        let statement = database
            .prepare(&sql)
            .map_err(|error| failed(&sql, error))?;
        let columns = statement.columns().map_err(|error| failed(&sql, error))?;
        let fields = columns.iter().map(|column| {
            let known = definitions.iter().find(|known| known.name == column.name());
            known.map_or_else(
                || Field::new(column.name(), DataType::Int64, true),
                |known| known.field(),
            )
        });
        Ok(Relation {
            from,
            schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
            ngram_words,
            count: None,
            file_rows: None,
        })
    }

    /// The same, whose rows can be counted.
    pub(crate) fn counted(
        mut self,
        corpus: Option<&str>,
        counting: RowCounting,
    ) -> Result<Relation> {
        let Some(corpus) = corpus else {
            return Ok(self);
        };
        let files = format!("files({})", quoted_text(corpus));
        let before = self.ngram_words.unwrap_or(1).saturating_sub(1);
        self.count = match counting {
            RowCounting::Words => Some(format!("SELECT COALESCE(SUM(words), 0) FROM {files}")),
            RowCounting::Ngrams => Some(format!(
                "SELECT COALESCE(SUM(max(words - {before}, 0)), 0) FROM {files}"
            )),
            RowCounting::Files => Some(format!("SELECT COUNT(*) FROM {files}")),
            RowCounting::None => None,
        };
        if counting == RowCounting::Words {
            self.file_rows = Some(format!("SELECT file, words FROM {files} ORDER BY file"));
        }
        Ok(self)
    }

    /// A column and its place.
    pub(crate) fn column(&self, name: &str) -> Option<(usize, &Field)> {
        let (index, field) = self.schema.column_with_name(name)?;
        Some((index, field))
    }
}

/// An error of ZipfDB with the statement that it is about.
pub(crate) fn failed(sql: &str, error: zipfdb::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error)).context(format!("ZipfDB: {sql}"))
}
