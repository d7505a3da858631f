//! Metadata of imported files: values of the fields of records, from where an import has put them, to columns of new segments.
//!
//! Invariant: values are kept as their record has them, behind its text, and are converted when their segment is written; so a
//! value that a column cannot hold then, as the column has changed meanwhile, is left out, never another one. What a field of a
//! record is, and which columns are made for fields, is not known here.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use zipfdb_sql::iso;
use zipfdb_storage::{
    FileEntry, METADATA_TEXT_MAX, MetadataColumn, MetadataKind, MetadataSchema, MetadataValue,
    SegmentColumn, decode_values,
};

use crate::error::io_error;
use crate::paths::sources::{Listing, Source};
use crate::runtime::interrupt::check;
use crate::{Result, Value, output};

/// The greatest whole number below which every whole number is a REAL.
const REAL_WHOLE_MAX: f64 = (1_u64 << 53) as f64;

/// A value of a record as a column of a kind stores it: numbers, truth values, dates and moments may be texts, and numbers become
/// texts. None if it does not fit.
pub(crate) fn fitted(kind: MetadataKind, value: &MetadataValue) -> Option<MetadataValue> {
    use MetadataValue::{Integer, Null, Real, Text};
    Some(match (kind, value) {
        (_, Null) => Null,
        (MetadataKind::Text, Text(text)) if text.len() <= METADATA_TEXT_MAX => Text(text.clone()),
        (MetadataKind::Text, Integer(value)) => Text(value.to_string().into()),
        (MetadataKind::Text, Real(value)) => Text(output::value_text(&Value::Real(*value))?.into()),
        (MetadataKind::Integer, Integer(value)) => Integer(*value),
        (MetadataKind::Integer, Real(value))
            if value.fract() == 0.0 && value.abs() <= REAL_WHOLE_MAX =>
        {
            Integer(*value as i64) // in range by the test above
        }
        (MetadataKind::Integer, Text(text)) => Integer(text.trim().parse().ok()?),
        (MetadataKind::Real, Integer(value)) => Real(*value as f64), // rounds above 2^53, as CAST does
        (MetadataKind::Real, Real(value)) if !value.is_nan() => Real(*value),
        (MetadataKind::Real, Text(text)) => Real(parse_real(text)?),
        (MetadataKind::Boolean, Integer(value @ 0..=1)) => Integer(*value),
        (MetadataKind::Boolean, Text(text)) => Integer(parse_truth(text)?),
        (MetadataKind::Date, Text(text)) => Integer(iso::parse_date(text.trim())?),
        (MetadataKind::Timestamp, Text(text)) => Integer(iso::parse_timestamp(text.trim())?),
        _ => return None,
    })
}

/// The number that a text is, with digits; `1e999` is infinity.
fn parse_real(text: &str) -> Option<f64> {
    let text = text.trim();
    let is_of_number = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    let real = text.bytes().all(is_of_number).then(|| text.parse().ok());
    real.flatten().filter(|real: &f64| !real.is_nan())
}

fn parse_truth(text: &str) -> Option<i64> {
    let words = [("true", 1), ("false", 0), ("1", 1), ("0", 0)];
    let mut words = words.into_iter();
    let found = words.find(|(word, _)| text.trim().eq_ignore_ascii_case(word));
    found.map(|(_, truth)| truth)
}

/// The values of the records of a listing.
pub(crate) struct SourceValues<'a> {
    /// By name.
    sources: &'a [Source],
    /// By the numbers of fields: the column that takes each; none where the corpus has none any more.
    columns: Vec<Option<&'a MetadataColumn>>,
}

impl<'a> SourceValues<'a> {
    /// The values for columns that the corpus has.
    pub(crate) fn new(listing: &'a Listing, schema: &MetadataSchema) -> SourceValues<'a> {
        let columns = listing.fields.iter().map(|column| {
            let column = column.as_ref()?;
            schema.columns().contains(column).then_some(column)
        });
        SourceValues {
            sources: &listing.sources,
            columns: columns.collect(),
        }
    }

    /// Puts the values of files into the columns of a segment. Values of others stay, as those of sources at the paths `left_out`.
    ///
    /// # Errors
    /// If values cannot be read, and once `stop` is set.
    pub(crate) fn put(
        &self,
        mut known: Vec<SegmentColumn>,
        files: &[FileEntry],
        left_out: &HashSet<&Path>,
        stop: &AtomicBool,
    ) -> Result<Vec<SegmentColumn>> {
        let mut rows: Vec<Option<Vec<MetadataValue>>> = vec![None; self.columns.len()];
        for (row, file) in files.iter().enumerate() {
            check(stop)?;
            for (field, value) in self.of_file(&file.name, left_out)? {
                let Some(Some(column)) = self.columns.get(field as usize) else {
                    continue;
                };
                let Some(value) = fitted(column.kind, &value) else {
                    continue;
                };
                let values = rows[field as usize].get_or_insert_with(|| {
                    let known = known.iter().find(|known| known.column.id == column.id);
                    let value = |row| known.map_or(MetadataValue::Null, |known| known.value(row));
                    (0..files.len()).map(value).collect()
                });
                values[row] = value;
            }
        }
        for (column, values) in self.columns.iter().zip(rows) {
            let (Some(column), Some(values)) = (column, values) else {
                continue;
            };
            known.retain(|known| known.column.id != column.id);
            if values.iter().any(|value| *value != MetadataValue::Null) {
                known.push(SegmentColumn::new((*column).clone(), &values)?);
            }
        }
        known.sort_by_key(|column| column.column.id);
        Ok(known)
    }

    /// The values of a file with the numbers of their fields.
    fn of_file(&self, name: &str, left_out: &HashSet<&Path>) -> Result<Vec<(u32, MetadataValue)>> {
        let place = (self.sources).binary_search_by(|source| source.name.as_str().cmp(name));
        let source = place.ok().map(|place| &self.sources[place]);
        let Some(source) = source.filter(|source| !left_out.contains(&*source.path)) else {
            return Ok(Vec::new());
        };
        let Some(unpacked) = source.unpacked.as_ref().filter(|text| text.has_values()) else {
            return Ok(Vec::new());
        };
        let bytes = unpacked.read_values(source.bytes);
        let bytes = bytes.map_err(io_error("read", &source.path))?;
        let values = decode_values(&bytes).ok_or_else(|| std::io::ErrorKind::InvalidData.into());
        values.map_err(io_error("read", &source.path))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn values_fit_columns_that_can_hold_them_without_a_loss() {
        use MetadataKind::{Boolean, Date, Integer, Real, Text, Timestamp};
        let text = |text: &str| MetadataValue::Text(text.into());
        let integer = MetadataValue::Integer;
        let real = MetadataValue::Real;
        for (kind, value, expected) in [
            (Text, text("x"), Some(text("x"))),
            (Text, integer(-3), Some(text("-3"))),
            (Text, real(2.0), Some(text("2.0"))),
            (Integer, text(" 7"), Some(integer(7))),
            (Integer, text("7.0"), None),
            (Integer, text("many"), None),
            (Integer, real(3.0), Some(integer(3))),
            (Integer, real(3.5), None),
            (Integer, real(1e300), None),
            (Real, integer(3), Some(real(3.0))),
            (Real, text("0.1"), Some(real(0.1))),
            (Real, text("1e999"), Some(real(f64::INFINITY))),
            (Real, text("inf"), None),
            (Real, text("nan"), None),
            (Real, real(f64::NAN), None),
            (Boolean, text("TRUE"), Some(integer(1))),
            (Boolean, integer(0), Some(integer(0))),
            (Boolean, integer(2), None),
            (Boolean, text("yes"), None),
            (Date, text("1970-01-02"), Some(integer(1))),
            (Date, text("1970-01-02 00:00"), None),
            (Date, integer(1), None),
            (
                Timestamp,
                text("1970-01-01T00:00:01Z"),
                Some(integer(1_000_000)),
            ),
            (Timestamp, text("soon"), None),
        ] {
            assert_eq!(fitted(kind, &value), expected, "{kind:?} {value:?}");
        }
        for kind in MetadataKind::ALL {
            assert_eq!(
                fitted(kind, &MetadataValue::Null),
                Some(MetadataValue::Null)
            );
        }
    }
}
