//! Fields of records: the declared columns that take them, and the columns that are made for others.
//!
//! Invariant: a record is rejected if a declared column cannot hold its value. The type of a new column is the first of BOOLEAN,
//! INTEGER, REAL, DATE, TIMESTAMP and TEXT that holds all values of the field as they are written, whatever thread reads them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use zipfdb_formats::FieldValue;
use zipfdb_sql::{is_declarable, iso, quote, shorten};
use zipfdb_storage::{METADATA_TEXT_MAX, MetadataKind, MetadataSchema, MetadataValue};

use super::{ImportedFields, LeftFields, NewColumn};
use crate::maintain::source_values::fitted;

/// Types of new columns, the narrowest first.
const KINDS: [MetadataKind; 6] = [
    MetadataKind::Boolean,
    MetadataKind::Integer,
    MetadataKind::Real,
    MetadataKind::Date,
    MetadataKind::Timestamp,
    MetadataKind::Text,
];

/// A set of [`KINDS`], by bits.
type Kinds = u8;

/// All kinds.
const ALL: Kinds = (1 << KINDS.len()) - 1;

fn kinds(of: &[MetadataKind]) -> Kinds {
    let bits = (KINDS.iter().enumerate()).filter(|(_, kind)| of.contains(kind));
    bits.fold(0, |kinds, (bit, _)| kinds | 1 << bit)
}

/// The kinds of columns that hold a value as it is written.
fn kinds_of(value: &FieldValue) -> Kinds {
    use MetadataKind::{Boolean, Integer, Real, Text};
    match value {
        FieldValue::Null => ALL,
        FieldValue::Boolean(_) => kinds(&[Boolean, Text]),
        FieldValue::Integer(_) => kinds(&[Integer, Real, Text]),
        FieldValue::Real(_) => kinds(&[Real, Text]),
        FieldValue::Date(_) => kinds(&[MetadataKind::Date, MetadataKind::Timestamp, Text]),
        FieldValue::Timestamp(_) => kinds(&[MetadataKind::Timestamp, Text]),
        FieldValue::Bytes(_) => 0,
        FieldValue::Text(text) | FieldValue::Untyped(text) if text.len() > METADATA_TEXT_MAX => 0,
        FieldValue::Text(text) => kinds_of_text(text),
        FieldValue::Untyped(text) => {
            let is_whole = text
                .parse()
                .is_ok_and(|value: i64| value.to_string() == *text);
            let of_number = if is_whole {
                kinds(&[Integer, Real])
            } else if is_decimal(text) {
                kinds(&[Real])
            } else if text == "true" || text == "false" {
                kinds(&[Boolean])
            } else {
                0
            };
            of_number | kinds_of_text(text)
        }
    }
}

fn kinds_of_text(text: &str) -> Kinds {
    use MetadataKind::{Date, Text, Timestamp};
    if iso::parse_date(text).is_some() {
        kinds(&[Date, Timestamp, Text])
    } else if iso::parse_timestamp(text).is_some() {
        kinds(&[Timestamp, Text])
    } else {
        kinds(&[Text])
    }
}

/// Whether a text is a number with a point or an exponent, without zeros before it, as numbers of JSON are.
fn is_decimal(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    let is_plain = match digits {
        [b'0', second, ..] => !second.is_ascii_digit(),
        [first, ..] => first.is_ascii_digit(),
        [] => false,
    };
    let has_sign = digits.iter().any(|byte| b".eE".contains(byte));
    let value = MetadataValue::Text(text.into());
    is_plain && has_sign && fitted(MetadataKind::Real, &value).is_some()
}

/// A value as it is kept until its segment is written; none for bytes, and for days outside of the years 0000 to 9999.
fn kept(value: &FieldValue) -> Option<MetadataValue> {
    Some(match value {
        FieldValue::Null => MetadataValue::Null,
        FieldValue::Boolean(true) => MetadataValue::Text("true".into()),
        FieldValue::Boolean(false) => MetadataValue::Text("false".into()),
        FieldValue::Integer(value) => MetadataValue::Integer(*value),
        FieldValue::Real(value) => MetadataValue::Real(*value),
        FieldValue::Text(text) | FieldValue::Untyped(text) => {
            MetadataValue::Text(text.as_str().into())
        }
        FieldValue::Date(days) => MetadataValue::Text(iso::date_text(*days)?.into()),
        FieldValue::Timestamp(moment) => MetadataValue::Text(iso::timestamp_text(*moment)?.into()),
        FieldValue::Bytes(_) => return None,
    })
}

/// The numbers of fields, which all threads share: declared columns first, then others as they are met.
pub(super) struct FieldNumbers<'a> {
    schema: &'a MetadataSchema,
    creates_columns: bool,
    others: Mutex<HashMap<String, u32>>,
}

impl<'a> FieldNumbers<'a> {
    pub(super) fn new(schema: &'a MetadataSchema, creates_columns: bool) -> FieldNumbers<'a> {
        FieldNumbers {
            schema,
            creates_columns,
            others: Mutex::default(),
        }
    }

    fn target(&self, name: &str) -> FieldTarget {
        let mut columns = self.schema.columns().iter();
        if let Some(place) = columns.position(|column| column.name.eq_ignore_ascii_case(name)) {
            return FieldTarget::Declared(place as u32); // few columns
        }
        if !self.creates_columns || !is_declarable(name) {
            return FieldTarget::Left;
        }
        let mut others = self.others.lock();
        let next = self.schema.columns().len() + others.len();
        // Names of fields are in memory, at least a byte each.
        let number = *(others.entry(name.to_ascii_lowercase())).or_insert(next as u32);
        FieldTarget::Other(number)
    }

    /// What all threads have found.
    pub(super) fn settle(self, found: Vec<FoundFields>) -> ImportedFields {
        let mut left = LeftFields::new();
        let mut others: BTreeMap<u32, FoundField> = BTreeMap::new();
        for FoundFields {
            left: of_thread,
            others: of_others,
        } in found
        {
            for (field, records) in of_thread {
                *left.entry(field).or_default() += records;
            }
            for (number, field) in of_others {
                match others.get_mut(&number) {
                    Some(known) => known.join(field),
                    None => drop(others.insert(number, field)),
                }
            }
        }
        let mut others: Vec<(u32, FoundField)> = others.into_iter().collect();
        others.sort_by_key(|(_, field)| field.first);
        let mut new = Vec::new();
        for (number, field) in others {
            match field.kind() {
                Some(kind) => new.push(NewColumn {
                    field: number,
                    name: field.name.to_string(),
                    kind,
                }),
                None => *left.entry(field.name).or_default() += field.records,
            }
        }
        ImportedFields {
            declared: self.schema.columns().to_vec(),
            new,
            left,
        }
    }
}

/// What becomes of a field.
#[derive(Clone, Copy)]
enum FieldTarget {
    /// A declared column, by place.
    Declared(u32),
    /// A field for a new column, by number.
    Other(u32),
    /// No column takes it.
    Left,
}

/// Fields of records that one thread has read.
#[derive(Default)]
pub(super) struct FoundFields {
    left: LeftFields,
    others: HashMap<u32, FoundField>,
}

/// A field that no declared column takes.
struct FoundField {
    name: Arc<str>,
    /// Kinds of columns that hold all its values.
    kinds: Kinds,
    has_values: bool,
    records: u64,
    /// Where it was met first: the number of the source, and that of the field among those that were new there.
    first: (usize, usize),
}

impl FoundField {
    fn join(&mut self, other: FoundField) {
        self.kinds &= other.kinds;
        self.has_values |= other.has_values;
        self.records += other.records;
        if other.first < self.first {
            (self.first, self.name) = (other.first, other.name);
        }
    }

    /// The type of its column; none if no column holds all its values.
    fn kind(&self) -> Option<MetadataKind> {
        if !self.has_values {
            return Some(MetadataKind::Text);
        }
        let mut kinds = KINDS.into_iter().enumerate();
        kinds
            .find(|(bit, _)| self.kinds & 1 << bit != 0)
            .map(|(_, kind)| kind)
    }
}

/// Gives numbers to the fields of the records that one thread reads.
pub(super) struct FieldReader<'a> {
    numbers: &'a FieldNumbers<'a>,
    known: HashMap<Arc<str>, FieldTarget>,
    /// The number of the source at hand, and of the fields that were new in it.
    source: usize,
    new: usize,
    found: FoundFields,
}

impl<'a> FieldReader<'a> {
    pub(super) fn new(numbers: &'a FieldNumbers<'a>) -> FieldReader<'a> {
        FieldReader {
            numbers,
            known: HashMap::new(),
            source: 0,
            new: 0,
            found: FoundFields::default(),
        }
    }

    /// The records to come are of this source.
    pub(super) fn begin_source(&mut self, number: usize) {
        (self.source, self.new) = (number, 0);
    }

    pub(super) fn finish(self) -> FoundFields {
        self.found
    }

    /// The values of a record that columns take, by the numbers of fields.
    ///
    /// # Errors
    /// Why a declared column cannot hold its value.
    pub(super) fn values(
        &mut self,
        fields: &[(Arc<str>, FieldValue)],
    ) -> Result<Vec<(u32, MetadataValue)>, String> {
        let mut values: Vec<(u32, MetadataValue)> = Vec::with_capacity(fields.len());
        let mut targets = Vec::with_capacity(fields.len());
        for (name, value) in fields {
            let target = match self.known.get(name) {
                Some(target) => *target,
                None => {
                    let target = self.numbers.target(name);
                    self.known.insert(Arc::clone(name), target);
                    target
                }
            };
            targets.push(target);
            let (number, kept) = match target {
                FieldTarget::Declared(place) => {
                    (place, Some(self.declared(place as usize, name, value)?))
                }
                FieldTarget::Other(number) => (number, kept(value)),
                FieldTarget::Left => continue,
            };
            if values.iter().any(|(known, _)| *known == number) {
                return Err(format!(
                    "it has several fields for the column {}",
                    quote(&**name)
                ));
            }
            values.extend(kept.map(|value| (number, value)));
        }
        // The record is taken.
        for ((name, value), target) in fields.iter().zip(targets) {
            match target {
                FieldTarget::Declared(_) => {}
                FieldTarget::Other(number) => self.see(number, name, value),
                FieldTarget::Left => match self.found.left.get_mut(name) {
                    Some(records) => *records += 1,
                    None => drop(self.found.left.insert(Arc::clone(name), 1)),
                },
            }
        }
        Ok(values)
    }

    /// A value of a declared column, which holds it.
    fn declared(
        &self,
        place: usize,
        name: &str,
        value: &FieldValue,
    ) -> Result<MetadataValue, String> {
        let kind = self.numbers.schema.columns()[place].kind;
        let kept = kept(value);
        if let Some(value) = kept.filter(|value| fitted(kind, value).is_some()) {
            return Ok(value);
        }
        let shown = match value {
            FieldValue::Text(text) | FieldValue::Untyped(text) => quote(&shorten(text)),
            FieldValue::Boolean(value) => value.to_string(),
            FieldValue::Integer(value) => value.to_string(),
            FieldValue::Real(value) => value.to_string(),
            FieldValue::Bytes(_) => "a value of bytes".to_owned(),
            FieldValue::Date(_) | FieldValue::Timestamp(_) => "a day of another age".to_owned(),
            FieldValue::Null => "NULL".to_owned(),
        };
        let hint = match kind {
            MetadataKind::Date => "; hint: a date is written as `YYYY-MM-DD`",
            MetadataKind::Timestamp => "; hint: a moment is written as `YYYY-MM-DD HH:MM:SS`",
            MetadataKind::Boolean => "; hint: true, false, 1 and 0 are BOOLEAN",
            _ => "",
        };
        let kind = kind.name();
        Err(format!(
            "{name}: {shown} cannot stand in a column of {kind}{hint}"
        ))
    }

    /// Takes note of a value of a field that no declared column takes.
    fn see(&mut self, number: u32, name: &Arc<str>, value: &FieldValue) {
        let (source, new) = (self.source, &mut self.new);
        let field = self.found.others.entry(number).or_insert_with(|| {
            *new += 1;
            FoundField {
                name: Arc::clone(name),
                kinds: ALL,
                has_values: false,
                records: 0,
                first: (source, *new),
            }
        });
        field.kinds &= kinds_of(value);
        field.has_values |= *value != FieldValue::Null;
        field.records += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_column_has_the_narrowest_type_that_holds_all_values() {
        let text = |text: &str| FieldValue::Text(text.to_owned());
        let untyped = |text: &str| FieldValue::Untyped(text.to_owned());
        let cases = [
            (
                vec![FieldValue::Boolean(true), FieldValue::Null],
                Some(MetadataKind::Boolean),
            ),
            (
                vec![FieldValue::Integer(1), FieldValue::Integer(0)],
                Some(MetadataKind::Integer),
            ),
            (
                vec![FieldValue::Integer(1), FieldValue::Real(0.5)],
                Some(MetadataKind::Real),
            ),
            (
                vec![FieldValue::Integer(1), FieldValue::Boolean(true)],
                Some(MetadataKind::Text),
            ),
            (vec![text("2024-01-01")], Some(MetadataKind::Date)),
            (
                vec![text("2024-01-01"), text("2024-01-01T10:00Z")],
                Some(MetadataKind::Timestamp),
            ),
            (
                vec![text("2024-01-01"), text("soon")],
                Some(MetadataKind::Text),
            ),
            (vec![text("7")], Some(MetadataKind::Text)),
            (
                vec![untyped("7"), untyped("-12")],
                Some(MetadataKind::Integer),
            ),
            (
                vec![untyped("7"), untyped("0.50"), untyped("1e9")],
                Some(MetadataKind::Real),
            ),
            (vec![untyped("007")], Some(MetadataKind::Text)),
            (vec![untyped("00.5")], Some(MetadataKind::Text)),
            (vec![untyped("+7")], Some(MetadataKind::Text)),
            (vec![untyped("1.2.3")], Some(MetadataKind::Text)),
            (
                vec![untyped("true"), untyped("false")],
                Some(MetadataKind::Boolean),
            ),
            (vec![untyped("")], Some(MetadataKind::Text)),
            (vec![FieldValue::Null], Some(MetadataKind::Text)),
            (vec![FieldValue::Bytes(vec![255])], None),
        ];
        let schema = MetadataSchema::default();
        for (values, expected) in cases {
            let numbers = FieldNumbers::new(&schema, true);
            let mut reader = FieldReader::new(&numbers);
            for value in &values {
                let fields = [("x".into(), value.clone())];
                assert!(reader.values(&fields).is_ok());
            }
            let found = reader.finish();
            let kind = numbers.settle(vec![found]).new.first().map(|new| new.kind);
            assert_eq!(kind, expected, "{values:?}");
        }
    }
}
