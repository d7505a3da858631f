//! Parquet and Arrow IPC: what is written is read back, other types of columns, and damage.

use proptest::prelude::*;
use zipfdb_formats::{
    Error, FieldKind, FieldValue, Format, ReadOptions, Record, TableWriter, check_built_in,
};

use crate::support::{Kept, read, read_all_ways};

fn options() -> ReadOptions<'static> {
    ReadOptions::default()
}

#[test]
fn formats_that_are_not_built_in_name_their_feature() {
    for (format, feature, bytes) in [
        (Format::Parquet, "parquet", "PAR1"),
        (Format::Arrow, "arrow", "ARROW1"),
    ] {
        let is_built_in = match format {
            Format::Parquet => cfg!(feature = "parquet"),
            _ => cfg!(feature = "arrow"),
        };
        let columns = [("text".to_owned(), FieldKind::Text)];
        let written = TableWriter::new(format, &columns, Vec::new());
        assert_eq!(written.is_ok(), is_built_in);
        match check_built_in(format) {
            Ok(()) => assert!(is_built_in),
            Err(Error::NotBuiltIn { feature: found, .. }) => assert_eq!(found, feature),
            Err(error) => panic!("{error}"),
        }
        if !is_built_in {
            let kept = read(&format!("x.{feature}"), bytes.as_bytes(), &options());
            let wanted = format!("needs the feature `{feature}`");
            assert!(kept.rejects()[0].contains(&wanted), "{:?}", kept.rejects());
        }
    }
    assert!(check_built_in(Format::Csv).is_ok());
}

/// The formats that are built in, with names of files.
fn tables() -> Vec<(Format, &'static str)> {
    let all = [(Format::Parquet, "x.parquet"), (Format::Arrow, "x.arrow")];
    let built_in = all.into_iter();
    built_in
        .filter(|(format, _)| check_built_in(*format).is_ok())
        .collect()
}

const KINDS: [FieldKind; 7] = [
    FieldKind::Boolean,
    FieldKind::Integer,
    FieldKind::Real,
    FieldKind::Date,
    FieldKind::Timestamp,
    FieldKind::Text,
    FieldKind::Bytes,
];

/// A table of these rows, which have a text first.
fn written(format: Format, kinds: &[FieldKind], rows: &[Vec<FieldValue>]) -> Vec<u8> {
    let mut columns = vec![("content".to_owned(), FieldKind::Text)];
    let others = kinds.iter().enumerate();
    columns.extend(others.map(|(number, kind)| (format!("c{number}"), *kind)));
    let mut writer = TableWriter::new(format, &columns, Vec::new()).unwrap();
    rows.iter().for_each(|row| writer.push(row).unwrap());
    writer.finish().unwrap()
}

fn fields_of(kept: &Kept) -> Vec<Vec<FieldValue>> {
    let records = kept.records.iter();
    records
        .map(|(Record { fields, .. }, text)| {
            let text = FieldValue::Text(String::from_utf8(text.clone()).unwrap());
            let values = fields.iter().map(|(_, value)| value.clone());
            [text].into_iter().chain(values).collect()
        })
        .collect()
}

#[test]
fn large_tables_are_written_in_groups_and_read_in_batches() {
    let text = |number: i64| FieldValue::Text(format!("{number} ").repeat(200));
    let rows: Vec<Vec<FieldValue>> = (0..20_000)
        .map(|number| vec![text(number), FieldValue::Integer(number)])
        .collect();
    for (format, name) in tables() {
        let bytes = written(format, &[FieldKind::Integer], &rows);
        let kept = read(name, &bytes, &options());
        assert_eq!(kept.rejects(), [""; 0]);
        assert!(fields_of(&kept) == rows, "{name}");
        assert_eq!(kept.records[19_999].0.place.line, 20_000);
    }
}

#[test]
fn values_of_other_types_than_their_columns_are_refused() {
    for (format, _) in tables() {
        let columns = [("n".to_owned(), FieldKind::Integer)];
        let mut writer = TableWriter::new(format, &columns, Vec::new()).unwrap();
        writer.push(&[FieldValue::Integer(1)]).unwrap();
        let error = writer.push(&[FieldValue::Text("x".to_owned())]);
        let error = error.unwrap_err().to_string();
        assert!(
            error.starts_with("row 2: n: the value is not of the type"),
            "{error}"
        );
    }
}

#[test]
fn tables_that_are_cut_or_changed_are_rejected_or_read() {
    let rows = vec![
        vec![
            FieldValue::Text("one".to_owned()),
            FieldValue::Integer(1),
            FieldValue::Null,
        ],
        vec![
            FieldValue::Text("two".to_owned()),
            FieldValue::Null,
            FieldValue::Real(0.5),
        ],
    ];
    for (format, name) in tables() {
        let bytes = written(format, &[FieldKind::Integer, FieldKind::Real], &rows);
        for end in 0..bytes.len() {
            let kept = read(name, &bytes[..end], &options());
            assert!(
                kept.records.len() <= 2 && kept.rejects.len() <= 1,
                "{name} {end}"
            );
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x55;
            let kept = read(name, &changed, &options());
            assert!(kept.records.len() <= 2, "{name} {at}");
        }
    }
}

fn values_of(kind: FieldKind) -> BoxedStrategy<FieldValue> {
    match kind {
        FieldKind::Boolean => any::<bool>().prop_map(FieldValue::Boolean).boxed(),
        FieldKind::Integer => any::<i64>().prop_map(FieldValue::Integer).boxed(),
        FieldKind::Real => (any::<f64>())
            .prop_filter("a number", |real| !real.is_nan())
            .prop_map(FieldValue::Real)
            .boxed(),
        FieldKind::Date => (-800_000..800_000_i64).prop_map(FieldValue::Date).boxed(),
        FieldKind::Timestamp => any::<i64>().prop_map(FieldValue::Timestamp).boxed(),
        FieldKind::Text => ".{0,9}".prop_map(FieldValue::Text).boxed(),
        FieldKind::Bytes => proptest::collection::vec(any::<u8>(), 0..9)
            .prop_map(FieldValue::Bytes)
            .boxed(),
    }
}

fn any_table() -> impl Strategy<Value = (Vec<FieldKind>, Vec<Vec<FieldValue>>)> {
    let kinds = proptest::collection::vec(proptest::sample::select(KINDS.to_vec()), 0..6);
    kinds.prop_flat_map(|kinds| {
        let others = kinds.iter().map(|kind| {
            let values = proptest::option::of(values_of(*kind));
            values
                .prop_map(|value| value.unwrap_or(FieldValue::Null))
                .boxed()
        });
        let row: Vec<BoxedStrategy<FieldValue>> = [values_of(FieldKind::Text)]
            .into_iter()
            .chain(others)
            .collect();
        (Just(kinds), proptest::collection::vec(row, 0..6))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_table_is_read_back((kinds, rows) in any_table()) {
        for (format, name) in tables() {
            let bytes = written(format, &kinds, &rows);
            let kept = read_all_ways(name, &bytes, &options());
            prop_assert_eq!(kept.rejects(), [""; 0]);
            prop_assert_eq!(fields_of(&kept), rows.clone());
        }
    }
}
