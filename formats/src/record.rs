//! Records, and the sink that takes them.
//!
//! Invariant: the bytes of a record's text are given before the record; a reject drops those that no record followed.

use std::sync::Arc;

use crate::error::{Place, Reject, Result};

/// A text with its name and fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its name.
    pub name: RecordName,
    /// Its fields in order: names and values. The text and the name are no fields.
    pub fields: Vec<(Arc<str>, FieldValue)>,
    /// Where it begins.
    pub place: Place,
}

/// The name of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordName {
    /// The whole source, or a member of it, by its path: as file systems have names, and as bytes.
    Path(Vec<u8>),
    /// A number in a member, from 1.
    Numbered {
        /// The path of the member.
        path: Vec<u8>,
        /// The number.
        number: u64,
    },
    /// A name that stands in the record.
    Given(String),
}

/// A value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldValue {
    /// No value.
    Null,
    /// A truth value.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A number.
    Real(f64),
    /// Text; arrays, lists and objects are their JSON.
    Text(String),
    /// Text of a format that has no types, as CSV and logs: it may stand for a number, a truth value or text.
    Untyped(String),
    /// Days since 1970-01-01.
    Date(i64),
    /// Microseconds since 1970-01-01 00:00:00.
    Timestamp(i64),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// The type of a column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Truth values.
    Boolean,
    /// 64-bit whole numbers.
    Integer,
    /// 64-bit floating point numbers.
    Real,
    /// Days.
    Date,
    /// Moments.
    Timestamp,
    /// Text.
    Text,
    /// Bytes.
    Bytes,
}

impl FieldValue {
    /// The value as a name; none if it cannot be one.
    pub(crate) fn into_name(self) -> Option<String> {
        match self {
            FieldValue::Text(text) | FieldValue::Untyped(text) => Some(text),
            FieldValue::Integer(number) => Some(number.to_string()),
            FieldValue::Boolean(_)
            | FieldValue::Real(_)
            | FieldValue::Date(_)
            | FieldValue::Timestamp(_)
            | FieldValue::Null => None,
            FieldValue::Bytes(bytes) => String::from_utf8(bytes).ok(),
        }
    }
}

/// The receiver of the records of a source, in their order.
pub trait RecordSink {
    /// Takes the next bytes of the text of the record to come.
    ///
    /// # Errors
    /// Whatever ends reading.
    fn text(&mut self, bytes: &[u8]) -> Result<()>;

    /// Takes a record, whose text is complete.
    ///
    /// # Errors
    /// Whatever ends reading.
    fn record(&mut self, record: Record) -> Result<()>;

    /// Takes a part that cannot be read. The text since the last record is no part of any.
    ///
    /// # Errors
    /// The reject, if reading ends with it.
    fn reject(&mut self, reject: Reject) -> Result<()>;
}
