//! `Row`: one row of an answer, with its columns, and the Rust types that its values are read as.
//!
//! Invariant: a row has a value for each of its columns, which all rows of an answer share. Reading never converts a value but to
//! a wider type that holds it exactly: another value is an error that names the column.

use std::fmt;
use std::ops::Index;
use std::sync::Arc;

use zipfdb_sql::{ValueKind, quote};

use crate::{Error, Result, Value};

/// A column of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    name: String,
    kind: Option<ValueKind>,
}

impl Column {
    pub(crate) fn new(name: impl Into<String>, kind: Option<ValueKind>) -> Column {
        Column {
            name: name.into(),
            kind,
        }
    }

    /// The column's alias, or its expression as it was written.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kind of the column's values beside NULL, if the statement alone shows it: that of columns of corpora and table
    /// functions, counts, comparisons and most functions, not that of arithmetic on integers, which becomes REAL where it overflows.
    /// Words and n-grams are TEXT, though one that is not UTF-8 is a BLOB.
    pub fn kind(&self) -> Option<ValueKind> {
        self.kind
    }
}

/// One row of an answer: a value for each column.
///
/// ```
/// use zipfdb::{Database, Value};
///
/// let db = Database::in_memory()?;
/// let row = db.query("SELECT 'the' AS word, 2 AS n, NULL AS note", ())?.next().expect("a row")?;
/// assert_eq!(row.get::<String>("word")?, "the");
/// assert_eq!(row.get::<u32>(1)?, 2);
/// assert_eq!(row.get::<Option<String>>("note")?, None);
/// assert_eq!(row[1], Value::Integer(2));
/// let error = row.get::<i64>("word").unwrap_err();
/// assert_eq!(error.to_string(), r#"column "word": it holds TEXT, not an integer; hint: read it as `String`"#);
/// # Ok::<(), zipfdb::Error>(())
/// ```
#[derive(Clone)]
pub struct Row {
    columns: Arc<[Column]>,
    values: Vec<Value>,
}

impl Row {
    pub(crate) fn new(columns: Arc<[Column]>, values: Vec<Value>) -> Row {
        Row { columns, values }
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The values in order of the columns.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// The values, taken out.
    pub fn into_values(self) -> Vec<Value> {
        self.values
    }

    /// The value of a column, by its number from 0 or its name, as a type.
    ///
    /// # Errors
    /// If there is no such column, or its value is not of the type.
    pub fn get<T: FromValue>(&self, index: impl RowIndex) -> Result<T> {
        let index = index.column(&self.columns)?;
        let value = &self.values[index];
        T::from_value(value)
            .ok_or_else(|| wrong_value(self.columns[index].name(), value, T::WANTED))
    }
}

/// Rows are equal if their values are, whatever the names of their columns.
impl PartialEq for Row {
    fn eq(&self, other: &Row) -> bool {
        self.values == other.values
    }
}

impl Index<usize> for Row {
    type Output = Value;

    /// The value of column `index`, from 0.
    ///
    /// # Panics
    /// If there is no such column.
    fn index(&self, index: usize) -> &Value {
        &self.values[index]
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.columns.iter().map(Column::name);
        let entries = names.zip(&self.values);
        formatter.debug_map().entries(entries).finish()
    }
}

/// What names a column of a [`Row`]: its number from 0, or its name in any case of ASCII letters. Of columns with one name the first
/// is meant.
pub trait RowIndex {
    /// The number of the column.
    ///
    /// # Errors
    /// If there is no such column.
    fn column(self, columns: &[Column]) -> Result<usize>;
}

impl RowIndex for usize {
    fn column(self, columns: &[Column]) -> Result<usize> {
        if self < columns.len() {
            return Ok(self);
        }
        Err(Error::Invalid {
            subject: format!("column {self}"),
            reason: format!(
                "there is no such column; hint: the row has {}, numbered from 0",
                columns.len()
            ),
        })
    }
}

impl RowIndex for &str {
    fn column(self, columns: &[Column]) -> Result<usize> {
        let found = columns
            .iter()
            .position(|column| column.name.eq_ignore_ascii_case(self));
        found.ok_or_else(|| {
            let names: Vec<String> = columns.iter().map(|column| quote(&column.name)).collect();
            Error::Invalid {
                subject: format!("column {}", quote(self)),
                reason: format!(
                    "there is no such column; hint: the row has {}",
                    names.join(", ")
                ),
            }
        })
    }
}

/// A Rust type that a [`Value`] can be read as, by [`Row::get`].
///
/// Integers are read as integers of any type that holds them, and as `bool` if they are 0 or 1; REAL and INTEGER as `f64`, if it
/// holds the number exactly; TEXT as `String`; BLOB and TEXT as `Vec<u8>`; NULL as `Option`; anything as `Value`.
pub trait FromValue: Sized {
    /// What is wanted, for an error: `an integer`.
    const WANTED: &'static str;

    /// The value as this type; none if it is of another kind, or out of range.
    fn from_value(value: &Value) -> Option<Self>;
}

/// Implements [`FromValue`] for types of integers.
macro_rules! integers_from_values {
    ($($integer:ty: $wanted:literal,)+) => {$(
        impl FromValue for $integer {
            const WANTED: &'static str = $wanted;

            fn from_value(value: &Value) -> Option<$integer> {
                match value {
                    Value::Integer(integer) => (*integer).try_into().ok(),
                    _ => None,
                }
            }
        }
    )+};
}

integers_from_values! {
    i64: "an integer",
    i32: "an integer from -2147483648 to 2147483647",
    u32: "an integer from 0 to 4294967295",
    u64: "an integer from 0 on",
    usize: "an integer from 0 on",
}

impl FromValue for bool {
    const WANTED: &'static str = "0 or 1";

    fn from_value(value: &Value) -> Option<bool> {
        match value {
            Value::Integer(0) => Some(false),
            Value::Integer(1) => Some(true),
            _ => None,
        }
    }
}

impl FromValue for f64 {
    const WANTED: &'static str = "a number that is exact in 64-bit floating point";

    fn from_value(value: &Value) -> Option<f64> {
        /// Integers up to this size are all exact.
        const EXACT_MAX: u64 = 1 << 53;
        match value {
            Value::Real(real) => Some(*real),
            Value::Integer(integer) if integer.unsigned_abs() <= EXACT_MAX => Some(*integer as f64),
            _ => None,
        }
    }
}

impl FromValue for String {
    const WANTED: &'static str = "text";

    fn from_value(value: &Value) -> Option<String> {
        match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }
}

impl FromValue for Vec<u8> {
    const WANTED: &'static str = "bytes or text";

    fn from_value(value: &Value) -> Option<Vec<u8>> {
        match value {
            Value::Blob(bytes) => Some(bytes.clone()),
            Value::Text(text) => Some(text.clone().into_bytes()),
            _ => None,
        }
    }
}

impl FromValue for Value {
    const WANTED: &'static str = "a value";

    fn from_value(value: &Value) -> Option<Value> {
        Some(value.clone())
    }
}

impl<T: FromValue> FromValue for Option<T> {
    const WANTED: &'static str = T::WANTED;

    fn from_value(value: &Value) -> Option<Option<T>> {
        match value {
            Value::Null => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}

/// The error for a value that cannot be read as wanted.
fn wrong_value(column: &str, value: &Value, wanted: &str) -> Error {
    let (held, hint) = match value {
        Value::Null => ("NULL".to_owned(), "read it as `Option`"),
        // A number that is out of range says which it is.
        Value::Integer(integer) => (
            format!("the INTEGER {integer}"),
            "read it as `i64`, or CAST it in the statement",
        ),
        Value::Real(_) => (
            "REAL".to_owned(),
            "read it as `f64`, or CAST it in the statement",
        ),
        Value::Text(_) => ("TEXT".to_owned(), "read it as `String`"),
        Value::Blob(_) => ("a BLOB".to_owned(), "read it as `Vec<u8>`"),
    };
    Error::Invalid {
        subject: format!("column {}", quote(column)),
        reason: format!("it holds {held}, not {wanted}; hint: {hint}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn row(values: Vec<Value>) -> Row {
        let columns = (0..values.len()).map(|number| Column::new(format!("c{number}"), None));
        Row::new(columns.collect(), values)
    }

    #[test]
    fn values_are_read_as_types_that_hold_them() {
        let row = row(vec![
            Value::Integer(1),
            Value::Real(0.5),
            Value::from("a"),
            Value::from(vec![255u8]),
            Value::Null,
        ]);
        assert_eq!(
            (row.get::<i64>(0).unwrap(), row.get::<i32>(0).unwrap()),
            (1, 1)
        );
        assert_eq!(
            (row.get::<u32>(0).unwrap(), row.get::<u64>(0).unwrap()),
            (1, 1)
        );
        assert_eq!(
            (
                row.get::<usize>("c0").unwrap(),
                row.get::<bool>("C0").unwrap()
            ),
            (1, true)
        );
        assert_eq!(
            (row.get::<f64>(0).unwrap(), row.get::<f64>(1).unwrap()),
            (1.0, 0.5)
        );
        assert_eq!(row.get::<String>(2).unwrap(), "a");
        assert_eq!(
            (
                row.get::<Vec<u8>>(2).unwrap(),
                row.get::<Vec<u8>>(3).unwrap()
            ),
            (vec![97], vec![255])
        );
        assert_eq!(row.get::<Value>(4).unwrap(), Value::Null);
        assert_eq!(row.get::<Option<i64>>(4).unwrap(), None);
        assert_eq!(row.get::<Option<i64>>(0).unwrap(), Some(1));
    }

    #[test]
    fn a_value_that_a_type_does_not_hold_is_an_error_that_names_the_column() {
        let row = row(vec![
            Value::Integer(-1),
            Value::Integer((1 << 53) + 1),
            Value::Null,
            Value::from(vec![255u8]),
        ]);
        let message = |error: Error| error.to_string();
        assert_eq!(
            message(row.get::<u32>(0).unwrap_err()),
            "column \"c0\": it holds the INTEGER -1, not an integer from 0 to 4294967295; hint: read it as `i64`, or CAST it in \
             the statement"
        );
        assert!(row.get::<bool>(0).is_err());
        assert!(row.get::<f64>(1).is_err());
        assert_eq!(
            message(row.get::<String>("c2").unwrap_err()),
            "column \"c2\": it holds NULL, not text; hint: read it as `Option`"
        );
        assert_eq!(
            message(row.get::<Option<String>>(3).unwrap_err()),
            "column \"c3\": it holds a BLOB, not text; hint: read it as `Vec<u8>`"
        );
        assert_eq!(
            message(row.get::<i64>(4).unwrap_err()),
            "column 4: there is no such column; hint: the row has 4, numbered from 0"
        );
        assert_eq!(
            message(row.get::<i64>("n").unwrap_err()),
            "column \"n\": there is no such column; hint: the row has \"c0\", \"c1\", \"c2\", \"c3\""
        );
    }
}
