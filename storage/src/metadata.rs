//! Metadata of files: the columns that a corpus declares, and their values.
//!
//! Invariant: a column keeps its number for ever, and a number is given once: values of a column that was dropped are never those
//! of a later one. What SQL makes of a value is not known here.

use std::sync::Arc;

use crate::{Error, Result};

/// The types of columns. The numbers are those on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MetadataKind {
    /// Text in UTF-8.
    Text = 0,
    /// 64-bit signed integers.
    Integer = 1,
    /// 64-bit floating point numbers.
    Real = 2,
    /// 0 or 1.
    Boolean = 3,
    /// Days since 1970-01-01.
    Date = 4,
    /// Microseconds since 1970-01-01 00:00:00.
    Timestamp = 5,
}

impl MetadataKind {
    /// All kinds, in the order of their numbers on disk.
    pub const ALL: [MetadataKind; 6] = [
        MetadataKind::Text,
        MetadataKind::Integer,
        MetadataKind::Real,
        MetadataKind::Boolean,
        MetadataKind::Date,
        MetadataKind::Timestamp,
    ];

    /// The name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            MetadataKind::Text => "TEXT",
            MetadataKind::Integer => "INTEGER",
            MetadataKind::Real => "REAL",
            MetadataKind::Boolean => "BOOLEAN",
            MetadataKind::Date => "DATE",
            MetadataKind::Timestamp => "TIMESTAMP",
        }
    }

    /// The number on disk.
    pub fn to_disk(self) -> u8 {
        self as u8
    }

    /// The kind with this number on disk, if there is one.
    pub fn from_disk(number: u8) -> Option<MetadataKind> {
        MetadataKind::ALL.get(usize::from(number)).copied()
    }

    /// Whether a column of the kind can hold a value. NULL can be in any.
    pub fn holds(self, value: &MetadataValue) -> bool {
        match (self, value) {
            (_, MetadataValue::Null)
            | (MetadataKind::Text, MetadataValue::Text(_))
            | (MetadataKind::Real, MetadataValue::Real(_))
            | (
                MetadataKind::Integer | MetadataKind::Date | MetadataKind::Timestamp,
                MetadataValue::Integer(_),
            ) => true,
            (MetadataKind::Boolean, MetadataValue::Integer(value)) => (0..=1).contains(value),
            _ => false,
        }
    }
}

/// A column that files of a corpus have beside their text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MetadataColumn {
    /// Its number in the corpus.
    pub id: u32,
    /// Its name, unique in the corpus in any case of ASCII letters.
    pub name: String,
    /// The type of its values.
    pub kind: MetadataKind,
}

/// The columns of a corpus.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MetadataSchema {
    columns: Vec<MetadataColumn>,
    /// The number of the next column.
    next: u32,
}

/// A value of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum MetadataValue {
    /// None.
    Null,
    /// A number, a truth value, a date or a moment.
    Integer(i64),
    /// A floating point number.
    Real(f64),
    /// A text.
    Text(Arc<str>),
}

/// Columns of a corpus at most.
pub const METADATA_COLUMNS_MAX: usize = 1000;

/// Bytes of the name of a column at most.
const NAME_SIZE_MAX: usize = 255;

/// Bytes of a text at most.
pub const METADATA_TEXT_MAX: usize = 1 << 24;

impl MetadataSchema {
    /// The columns, in the order in which they were added.
    pub fn columns(&self) -> &[MetadataColumn] {
        &self.columns
    }

    /// The column of a name in any case of ASCII letters.
    pub fn find(&self, name: &str) -> Option<&MetadataColumn> {
        let mut columns = self.columns.iter();
        columns.find(|column| column.name.eq_ignore_ascii_case(name))
    }

    /// Whether the corpus never had a column.
    pub(crate) fn is_untouched(&self) -> bool {
        self.next == 0
    }

    /// Adds a column behind the others.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is one of this name, the name is empty, too long or has control characters, or there are too
    /// many columns.
    pub fn add(&mut self, name: &str, kind: MetadataKind) -> Result<()> {
        let invalid = |fault| {
            Err(Error::Invalid {
                what: "column",
                fault,
            })
        };
        if self.find(name).is_some() {
            return invalid("there is one of this name already");
        }
        if !is_column_name(name) {
            return invalid("its name is not 1 to 255 bytes without control characters");
        }
        if self.columns.len() >= METADATA_COLUMNS_MAX || self.next == u32::MAX {
            return invalid("there are too many");
        }
        self.columns.push(MetadataColumn {
            id: self.next,
            name: name.to_owned(),
            kind,
        });
        self.next += 1;
        Ok(())
    }

    /// Drops a column; its values go with the next recompression. Whether there was one of this name.
    pub fn remove(&mut self, name: &str) -> bool {
        let count = self.columns.len();
        let is_it = |column: &MetadataColumn| column.name.eq_ignore_ascii_case(name);
        self.columns.retain(|column| !is_it(column));
        self.columns.len() < count
    }

    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.next.to_le_bytes());
        bytes.extend((self.columns.len() as u16).to_le_bytes()); // at most METADATA_COLUMNS_MAX
        for column in &self.columns {
            bytes.extend(column.id.to_le_bytes());
            bytes.push(column.kind.to_disk());
            bytes.push(column.name.len() as u8); // at most NAME_SIZE_MAX
            bytes.extend(column.name.as_bytes());
        }
    }

    /// Takes what [`MetadataSchema::encode`] wrote off the front of `bytes`.
    pub(crate) fn decode(bytes: &mut &[u8]) -> Option<MetadataSchema> {
        fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
            let (taken, rest) = bytes.split_first_chunk::<N>()?;
            *bytes = rest;
            Some(*taken)
        }
        let next = u32::from_le_bytes(take(bytes)?);
        let count = u16::from_le_bytes(take(bytes)?);
        let mut schema = MetadataSchema::default();
        for _ in 0..count {
            let id = u32::from_le_bytes(take(bytes)?);
            let [kind, size] = take(bytes)?;
            let (name, rest) = bytes.split_at_checked(usize::from(size))?;
            *bytes = rest;
            schema.next = id;
            schema
                .add(
                    std::str::from_utf8(name).ok()?,
                    MetadataKind::from_disk(kind)?,
                )
                .ok()?;
        }
        let is_rising = schema.columns.is_sorted_by(|a, b| a.id < b.id);
        if next == 0 || next < schema.next || !is_rising {
            return None;
        }
        schema.next = next;
        Some(schema)
    }
}

/// Whether a column may have this name.
pub(crate) fn is_column_name(name: &str) -> bool {
    (1..=NAME_SIZE_MAX).contains(&name.len()) && !name.chars().any(char::is_control)
}

impl MetadataValue {
    /// Bytes that it takes, about.
    pub fn size(&self) -> usize {
        match self {
            MetadataValue::Text(text) => size_of::<MetadataValue>() + text.len(),
            _ => size_of::<MetadataValue>(),
        }
    }
}

/// Small numbers of either sign as small numbers.
pub(crate) fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// The number that [`zigzag`] made another of.
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_comes_back_and_numbers_are_given_once() {
        let mut schema = MetadataSchema::default();
        schema.add("author", MetadataKind::Text).unwrap();
        schema.add("day", MetadataKind::Date).unwrap();
        assert!(schema.add("AUTHOR", MetadataKind::Real).is_err());
        assert!(schema.remove("Author") && !schema.remove("author"));
        schema.add("author", MetadataKind::Real).unwrap();
        let ids: Vec<u32> = schema.columns().iter().map(|column| column.id).collect();
        assert_eq!(ids, [1, 2]);
        let mut bytes = Vec::new();
        schema.encode(&mut bytes);
        let mut rest = &bytes[..];
        assert_eq!(MetadataSchema::decode(&mut rest), Some(schema));
        assert!(rest.is_empty());
        for size in 0..bytes.len() {
            assert_eq!(MetadataSchema::decode(&mut &bytes[..size]), None);
        }
    }

    #[test]
    fn zigzag_is_undone() {
        for value in [0, -1, 1, i64::MIN, i64::MAX] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
    }
}
