//! A column of metadata: a value or NULL for each file, and how such columns are made.
//!
//! Invariant: values are in the form that SQL shows: dates and moments are texts, which are numbered. Files and segments are not
//! known here.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use zipfdb_sql::iso;
use zipfdb_storage::{MetadataKind, MetadataValue};

use crate::Value;

/// The values of a column of files, by number of the file.
#[derive(Debug, PartialEq)]
pub(crate) struct FileColumn {
    /// Whether each file has a value; none if all have.
    pub(crate) present: Option<Vec<bool>>,
    /// Those of files without a value are any.
    pub(crate) values: FileColumnValues,
}

/// The values of a column.
#[derive(Debug, PartialEq)]
pub(crate) enum FileColumnValues {
    /// INTEGER.
    Integers(Vec<i64>),
    /// REAL.
    Reals(Vec<f64>),
    /// TEXT: numbers of distinct texts.
    Texts {
        numbers: Vec<u32>,
        texts: Arc<Vec<String>>,
    },
}

/// The columns of a view with edits, by number, each made when it is first asked for.
pub(super) type EditedMetadata = Mutex<HashMap<u32, Arc<FileColumn>>>;

impl FileColumn {
    /// The value of a file.
    pub(crate) fn value(&self, file: usize) -> Value {
        if !self.has(file) {
            return Value::Null;
        }
        match &self.values {
            FileColumnValues::Integers(values) => Value::Integer(values[file]),
            FileColumnValues::Reals(values) => Value::Real(values[file]),
            FileColumnValues::Texts { numbers, texts } => {
                Value::Text(texts[numbers[file] as usize].clone())
            }
        }
    }

    /// The number of files.
    pub(crate) fn files(&self) -> usize {
        match &self.values {
            FileColumnValues::Integers(values) => values.len(),
            FileColumnValues::Reals(values) => values.len(),
            FileColumnValues::Texts { numbers, .. } => numbers.len(),
        }
    }

    /// Whether a file has a value.
    pub(crate) fn has(&self, file: usize) -> bool {
        self.present.as_ref().is_none_or(|present| present[file])
    }

    /// The memory that it takes, in bytes, about.
    pub(super) fn bytes(&self) -> usize {
        let present = self.present.as_ref().map_or(0, Vec::len);
        present
            + match &self.values {
                FileColumnValues::Integers(values) => size_of_val(&values[..]),
                FileColumnValues::Reals(values) => size_of_val(&values[..]),
                FileColumnValues::Texts { numbers, texts } => {
                    let texts = texts.iter().map(|text| size_of::<String>() + text.len());
                    size_of_val(&numbers[..]) + texts.sum::<usize>()
                }
            }
    }
}

/// A column in the making.
pub(super) struct FileColumnBuilder {
    pub(super) kind: MetadataKind,
    present: Vec<bool>,
    integers: Vec<i64>,
    reals: Vec<f64>,
    pub(super) numbers: Vec<u32>,
    texts: Vec<String>,
    number_of: HashMap<String, u32>,
}

impl FileColumnBuilder {
    pub(super) fn new(kind: MetadataKind, files: usize) -> FileColumnBuilder {
        FileColumnBuilder {
            kind,
            present: Vec::with_capacity(files),
            integers: Vec::new(),
            reals: Vec::new(),
            numbers: Vec::new(),
            texts: Vec::new(),
            number_of: HashMap::new(),
        }
    }

    /// Whether values are texts in SQL.
    pub(super) fn is_of_texts(&self) -> bool {
        matches!(
            self.kind,
            MetadataKind::Text | MetadataKind::Date | MetadataKind::Timestamp
        )
    }

    /// The number of a text, a new one if it was not met before.
    pub(super) fn number_of(&mut self, text: String) -> u32 {
        let next = self.texts.len() as u32; // at most one for each file, which are numbered by u32
        match self.number_of.get(&text) {
            Some(&number) => number,
            None => {
                self.texts.push(text.clone());
                self.number_of.insert(text, next);
                next
            }
        }
    }

    pub(super) fn push(&mut self, value: &MetadataValue) {
        match sql_value(self.kind, value) {
            Value::Integer(value) => self.push_integer(value),
            Value::Real(value) => {
                self.present.push(true);
                self.reals.push(value);
            }
            Value::Text(text) => {
                let number = self.number_of(text);
                self.push_number(number);
            }
            _ => self.push_null(),
        }
    }

    fn push_integer(&mut self, value: i64) {
        self.present.push(true);
        self.integers.push(value);
    }

    pub(super) fn push_number(&mut self, number: u32) {
        self.present.push(true);
        self.numbers.push(number);
    }

    pub(super) fn push_null(&mut self) {
        self.present.push(false);
        match self.kind {
            MetadataKind::Real => self.reals.push(0.0),
            _ if self.is_of_texts() => self.numbers.push(0),
            _ => self.integers.push(0),
        }
    }

    /// Appends the value that a file has in another column of the kind; `known` has the numbers of its texts here.
    pub(super) fn push_from(
        &mut self,
        column: &FileColumn,
        file: usize,
        known: &mut [Option<u32>],
    ) {
        if !column.has(file) {
            return self.push_null();
        }
        match &column.values {
            FileColumnValues::Integers(values) => self.push_integer(values[file]),
            FileColumnValues::Reals(values) => {
                self.present.push(true);
                self.reals.push(values[file]);
            }
            FileColumnValues::Texts { numbers, texts } => {
                let text = numbers[file] as usize;
                let number = match known[text] {
                    Some(number) => number,
                    None => *known[text].insert(self.number_of(texts[text].clone())),
                };
                self.push_number(number);
            }
        }
    }

    pub(super) fn finish(self) -> FileColumn {
        let values = match self.kind {
            MetadataKind::Real => FileColumnValues::Reals(self.reals),
            MetadataKind::Text | MetadataKind::Date | MetadataKind::Timestamp => {
                FileColumnValues::Texts {
                    numbers: self.numbers,
                    texts: Arc::new(self.texts),
                }
            }
            MetadataKind::Integer | MetadataKind::Boolean => {
                FileColumnValues::Integers(self.integers)
            }
        };
        FileColumn {
            present: self.present.contains(&false).then_some(self.present),
            values,
        }
    }
}

/// A value as SQL has it.
fn sql_value(kind: MetadataKind, value: &MetadataValue) -> Value {
    match (kind, value) {
        (MetadataKind::Date, MetadataValue::Integer(days)) => iso::date_text(*days).into(),
        (MetadataKind::Timestamp, MetadataValue::Integer(moment)) => {
            iso::timestamp_text(*moment).into()
        }
        (MetadataKind::Integer | MetadataKind::Boolean, MetadataValue::Integer(value)) => {
            Value::Integer(*value)
        }
        (MetadataKind::Real, MetadataValue::Real(value)) => Value::Real(*value),
        (MetadataKind::Text, MetadataValue::Text(text)) => Value::Text(text.to_string()),
        // Nothing else is stored.
        _ => Value::Null,
    }
}

/// A value of SQL as it is stored; none if a column of the kind cannot hold it.
pub(crate) fn stored_value(kind: MetadataKind, value: &Value) -> Option<MetadataValue> {
    Some(match (kind, value) {
        (_, Value::Null) => MetadataValue::Null,
        (MetadataKind::Text, Value::Text(text)) => MetadataValue::Text(text.as_str().into()),
        (MetadataKind::Integer, Value::Integer(value))
        | (MetadataKind::Boolean, Value::Integer(value @ 0..=1)) => MetadataValue::Integer(*value),
        // Rounds above 2^53, as CAST does.
        (MetadataKind::Real, Value::Integer(value)) => MetadataValue::Real(*value as f64),
        (MetadataKind::Real, Value::Real(value)) if !value.is_nan() => MetadataValue::Real(*value),
        (MetadataKind::Date, Value::Text(text)) => MetadataValue::Integer(iso::parse_date(text)?),
        (MetadataKind::Timestamp, Value::Text(text)) => {
            MetadataValue::Integer(iso::parse_timestamp(text)?)
        }
        _ => return None,
    })
}
