//! `Relation`: what a statement of ZipfDB can read, with the columns that DataFusion sees of it.
//!
//! Invariant: columns have the names and the order of ZipfDB's `SELECT *`. INTEGER is `Int64`, REAL `Float64`, TEXT `Utf8View`,
//! BLOB `LargeBinary`. Columns of views have the types of their first values. Which table
//! functions there are is the business of `functions`.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::plan_err;
use datafusion::error::{DataFusionError, Result};
use serde::{Deserialize, Serialize};
use zipfdb::{Reader, Value, ValueKind};

use crate::statement::{quoted_name, quoted_text};

/// The content of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ColumnKind {
    Integer,
    Real,
    Text,
    Blob,
}

impl ColumnKind {
    /// Its type in Arrow.
    pub(crate) fn data_type(self) -> DataType {
        match self {
            ColumnKind::Integer => DataType::Int64,
            ColumnKind::Real => DataType::Float64,
            ColumnKind::Text => DataType::Utf8View,
            ColumnKind::Blob => DataType::LargeBinary,
        }
    }
}

/// The type of a column that no list defines. Dates are TEXT, and booleans the INTEGERs 0 and 1, as in the own dialect.
fn undefined_type(kind: Option<ValueKind>) -> DataType {
    let kind = match kind {
        Some(ValueKind::Real) => ColumnKind::Real,
        Some(ValueKind::Text | ValueKind::Date | ValueKind::Timestamp) => ColumnKind::Text,
        Some(ValueKind::Blob) => ColumnKind::Blob,
        Some(ValueKind::Integer | ValueKind::Boolean) | None => ColumnKind::Integer,
    };
    kind.data_type()
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
        Field::new(self.name, self.kind.data_type(), self.is_nullable)
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

/// Rows of a view that decide the types of its columns.
const SAMPLE_ROWS: usize = 1024;

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
    /// The corpus, if all rows are of its files, each of one of them: they can be read some segments at a time.
    pub(crate) corpus: Option<String>,
    /// Its values may be of other types than the first ones, and its texts n-grams or in an order of their own.
    pub(crate) is_view: bool,
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
    pub(crate) fn corpus(reader: &Reader, name: &str) -> Result<Relation> {
        let relation = Relation::new(reader, quoted_name(name), WORDS, None)?;
        relation
            .by_files(Some(name))
            .counted(Some(name), RowCounting::Words)
    }

    /// Whatever FROM takes. Columns that are not defined, as those that corpora declare, are of the kind that ZipfDB gives them, INTEGER
    /// where it gives none, and may be NULL.
    ///
    /// # Errors
    /// If ZipfDB refuses it.
    pub(crate) fn new(
        reader: &Reader,
        from: String,
        definitions: &[ColumnDefinition],
        ngram_words: Option<usize>,
    ) -> Result<Relation> {
        let sql = format!("SELECT * FROM {from}");
        let statement = reader.prepare(&sql).map_err(|error| failed(&sql, error))?;
        let columns = statement.columns().map_err(|error| failed(&sql, error))?;
        let fields = columns.iter().map(|column| {
            let known = definitions.iter().find(|known| known.name == column.name());
            known.map_or_else(
                || Field::new(column.name(), undefined_type(column.kind()), true),
                |known| known.field(),
            )
        });
        Ok(Relation {
            from,
            schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
            ngram_words,
            corpus: None,
            is_view: false,
            count: None,
            file_rows: None,
        })
    }

    /// A view as a table. Its columns have the types of its first values, for which it is asked.
    ///
    /// # Errors
    /// If there is none of this name, it cannot be read, or a column has texts or BLOBs beside numbers.
    pub(crate) fn view(reader: &Reader, name: &str) -> Result<Relation> {
        let from = quoted_name(name);
        let sql = format!("SELECT * FROM {from} LIMIT {SAMPLE_ROWS}");
        let fail = |error| failed(&sql, error);
        let rows = reader.query(&sql, ()).map_err(fail)?;
        let names = rows.columns().iter().map(|column| column.name().to_owned());
        let mut columns: Vec<(String, DataType)> =
            names.map(|name| (name, DataType::Null)).collect();
        for row in rows {
            for ((column, data_type), value) in columns.iter_mut().zip(row.map_err(fail)?.values())
            {
                *data_type = match with_value(data_type, value) {
                    Some(wider) => wider,
                    None => return mixed(name, column),
                };
            }
        }
        let fields = columns.into_iter();
        let fields = fields.map(|(name, data_type)| Field::new(name, data_type, true));
        Ok(Relation {
            from,
            schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
            ngram_words: None,
            corpus: None,
            is_view: true,
            count: None,
            file_rows: None,
        })
    }

    /// The relation with a way to count its rows.
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

    /// The relation, all rows of which are of files of a corpus.
    pub(crate) fn by_files(self, corpus: Option<&str>) -> Relation {
        Relation {
            corpus: corpus.map(str::to_owned),
            ..self
        }
    }

    /// A column and its place.
    pub(crate) fn column(&self, name: &str) -> Option<(usize, &Field)> {
        let (index, field) = self.schema.column_with_name(name)?;
        Some((index, field))
    }
}

/// The type of a column of `data_type` that has this value too, if there is one.
fn with_value(data_type: &DataType, value: &Value) -> Option<DataType> {
    let own = match value {
        Value::Null => return Some(data_type.clone()),
        Value::Integer(_) => DataType::Int64,
        Value::Real(_) => DataType::Float64,
        Value::Text(_) => DataType::Utf8View,
        Value::Blob(_) => DataType::LargeBinary,
    };
    match (data_type, &own) {
        (DataType::Null, _) => Some(own),
        (data_type, own) if data_type == own => Some(data_type.clone()),
        (DataType::Int64 | DataType::Float64, DataType::Int64 | DataType::Float64) => {
            Some(DataType::Float64)
        }
        // A text is its bytes.
        (
            DataType::Utf8View | DataType::LargeBinary,
            DataType::Utf8View | DataType::LargeBinary,
        ) => Some(DataType::LargeBinary),
        _ => None,
    }
}

fn mixed<T>(view: &str, column: &str) -> Result<T> {
    plan_err!(
        "view \"{view}\": column \"{column}\" has texts beside numbers, which no column of Arrow can hold; hint: CAST it to \
         one type in the view"
    )
}

/// An error of ZipfDB with the statement that it is about.
pub(crate) fn failed(sql: &str, error: zipfdb::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error)).context(format!("ZipfDB: {sql}"))
}
