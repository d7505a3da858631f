//! What `RowWriter` writes, read back by readers that know nothing of this crate.
//!
//! Exactly how rows look is tested beside the code, and that COPY and the command line write the same in `cli/tests/zipf/formats.rs`.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::value::RawValue;
use zipfdb::Value;
use zipfdb::output::{RowFormat, RowWriter, value_text};

const NAMES: [&str; 2] = ["n", "a \"b\""];

fn written(format: RowFormat, rows: &[Vec<Value>]) -> String {
    let mut writer = RowWriter::new(format, NAMES, Vec::new());
    for row in rows {
        writer.write_row(row).unwrap();
    }
    String::from_utf8(writer.finish().unwrap()).unwrap()
}

#[test]
fn a_value_that_is_longer_than_the_buffer_is_whole() {
    // Parts of the text end within characters and escapes.
    let text = "\"\u{e9},\u{2028}".repeat(50_000);
    let blob = vec![0xff; 300_000];
    let rows = [vec![Value::from(text.as_str()), Value::Blob(blob.clone())]];
    let csv = written(RowFormat::Csv, &rows);
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let record = reader.records().next().unwrap().unwrap();
    assert_eq!(&record[0], text);
    assert_eq!(record[1], value_text(&Value::Blob(blob)).unwrap());
    let json = written(RowFormat::Json, &rows);
    let read: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(read[0]["n"], text);
}

fn values() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "[a,\"\t\r\n\\\\'XN0\u{0}\u{1f}\u{7f}\u{85}\u{e9}\u{2027}-\u{202a}\u{1f600}]{0,8}",
        "(X'|\\\\N)[0-9a-f]{0,4}'?",
        any::<String>(),
    ];
    prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::Integer),
        any::<f64>().prop_map(Value::Real),
        any::<u64>().prop_map(|bits| Value::Real(f64::from_bits(bits))),
        prop_oneof![Just(f64::INFINITY), Just(f64::NEG_INFINITY), Just(-0.0)].prop_map(Value::Real),
        text.prop_map(Value::Text),
        proptest::collection::vec(any::<u8>(), 0..9).prop_map(Value::Blob),
    ]
}

fn rows() -> impl Strategy<Value = Vec<Vec<Value>>> {
    proptest::collection::vec(proptest::collection::vec(values(), NAMES.len()), 0..6)
}

/// A value as its formats have it: NaN is NULL, and a BLOB that is UTF-8 a text.
fn normal(value: &Value) -> Value {
    match value {
        Value::Real(real) if real.is_nan() => Value::Null,
        Value::Blob(bytes) => match String::from_utf8(bytes.clone()) {
            Ok(text) => Value::Text(text),
            Err(_) => value.clone(),
        },
        value => value.clone(),
    }
}

/// The text that a field of TSV stands for; none for NULL.
fn unescaped(field: &str) -> Option<String> {
    if field == "\\N" {
        return None;
    }
    let mut text = String::new();
    let mut characters = field.chars();
    while let Some(character) = characters.next() {
        text.push(match character {
            '\\' => match characters.next().unwrap() {
                't' => '\t',
                'n' => '\n',
                'r' => '\r',
                other => other,
            },
            other => other,
        });
    }
    Some(text)
}

/// The value that JSON stands for.
fn of_json(raw: &str) -> Value {
    let parsed = serde_json::from_str(raw);
    match (raw.as_bytes()[0], parsed) {
        (b'n', _) => Value::Null,
        (b'"', Ok(serde_json::Value::String(text))) => Value::Text(text),
        (b'{', Ok(object)) => {
            let digits = object["hex"].as_str().unwrap();
            let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
            Value::Blob((0..digits.len()).step_by(2).map(byte).collect())
        }
        _ if raw.contains(['.', 'e']) => Value::Real(raw.parse().unwrap()),
        _ => Value::Integer(raw.parse().unwrap()),
    }
}

fn is_same(value: &Value, other: &Value) -> bool {
    match (value, other) {
        (Value::Real(real), Value::Real(other)) => real.to_bits() == other.to_bits(),
        (value, other) => value == other,
    }
}

proptest! {
    #[test]
    fn readers_of_csv_and_tsv_get_the_texts_of_values(rows in rows()) {
        let csv = written(RowFormat::Csv, &rows);
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        prop_assert_eq!(reader.headers().unwrap(), NAMES.to_vec());
        let records: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        let tsv = written(RowFormat::Tsv, &rows);
        let lines: Vec<&str> = tsv.split_terminator('\n').skip(1).collect();
        prop_assert_eq!((records.len(), lines.len()), (rows.len(), rows.len()));
        for ((record, line), row) in records.iter().zip(lines).zip(&rows) {
            let texts: Vec<Option<String>> = row
                .iter()
                .map(|value| value_text(value).map(|text| text.into_owned()))
                .collect();
            let read: Vec<Option<String>> = line.split('\t').map(unescaped).collect();
            prop_assert_eq!(&read, &texts);
            let texts: Vec<String> = texts.into_iter().map(Option::unwrap_or_default).collect();
            prop_assert_eq!(record, texts);
        }
    }

    #[test]
    fn readers_of_json_get_the_values(rows in rows()) {
        let array = written(RowFormat::Json, &rows);
        let array: Vec<BTreeMap<String, Box<RawValue>>> = serde_json::from_str(&array).unwrap();
        let lines = written(RowFormat::JsonLines, &rows);
        prop_assert_eq!(array.len(), rows.len());
        prop_assert_eq!(lines.lines().count(), rows.len());
        for ((object, line), row) in array.iter().zip(lines.lines()).zip(&rows) {
            let of_line: BTreeMap<String, Box<RawValue>> = serde_json::from_str(line).unwrap();
            for (name, value) in NAMES.iter().zip(row) {
                let read = of_json(object[*name].get());
                prop_assert!(is_same(&read, &normal(value)), "{:?} for {:?}", read, value);
                prop_assert_eq!(of_line[*name].get(), object[*name].get());
            }
        }
    }

    #[test]
    fn values_of_a_type_null_and_text_and_bytes_are_distinguished(first in values(), second in values()) {
        let (first, second) = (normal(&first), normal(&second));
        let is_number = |value: &Value| matches!(value, Value::Integer(_) | Value::Real(_));
        // In CSV and TSV the number 7 and the text are the same.
        let is_of_numbers = is_number(&first) != is_number(&second);
        for format in RowFormat::ALL {
            let of = |value: &Value| written(format, &[vec![value.clone(), Value::Null]]);
            let is_one = of(&first) == of(&second);
            prop_assert!(is_one == is_same(&first, &second) || is_of_numbers && is_one, "{:?}", format);
        }
    }
}
