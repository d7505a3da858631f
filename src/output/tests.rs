//! The exact output, the same by rows, by batches and on other threads. `tests/output.rs` tests what readers get.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use crate::batch::{Batch, ColumnBuilder};
use crate::{CorpusSettings, Database, Value};

const NAMES: [&str; 2] = ["n", "a \"b\""];

fn written(format: RowFormat, names: &[&str], rows: &[Vec<Value>]) -> String {
    let mut writer = RowWriter::new(format, names.iter().copied(), Vec::new());
    for row in rows {
        writer.write_row(row).unwrap();
    }
    String::from_utf8(writer.finish().unwrap()).unwrap()
}

/// Rows of two values as a batch, of columns of the narrowest kinds.
fn batch(rows: &[Vec<Value>]) -> Batch {
    let columns = (0..NAMES.len()).map(|column| {
        let mut builder = ColumnBuilder::default();
        rows.iter().for_each(|row| builder.push_copy(&row[column]));
        builder.finish()
    });
    Batch::new(columns.collect(), rows.len(), None)
}

#[test]
fn each_format_is_exactly_this() {
    let rows = [
        vec![
            Value::Integer(1),
            Value::from("a,\"b\"\r\n\tc\\\u{1}\u{e9}\u{2028}"),
        ],
        vec![Value::Real(0.1 + 0.2), Value::Blob(vec![0, 0xff])],
        vec![Value::Null, Value::from("")],
        vec![Value::Real(f64::NEG_INFINITY), Value::from("X'00ff'")],
        vec![Value::Real(1e15), Value::Blob(b"text".to_vec())],
        vec![Value::Real(f64::NAN), Value::Real(f64::INFINITY)],
    ];
    assert_eq!(
        written(RowFormat::Csv, &NAMES, &rows),
        concat!(
            "n,\"a \"\"b\"\"\"\n",
            "1,\"a,\"\"b\"\"\r\n\tc\\\u{1}\u{e9}\u{2028}\"\n",
            "0.30000000000000004,X'00ff'\n",
            ",\"\"\n",
            "-1e999,\"X'00ff'\"\n",
            "1000000000000000.0,text\n",
            ",1e999\n",
        )
    );
    assert_eq!(
        written(RowFormat::Tsv, &NAMES, &rows),
        concat!(
            "n\ta \"b\"\n",
            "1\ta,\"b\"\\r\\n\\tc\\\\\u{1}\u{e9}\u{2028}\n",
            "0.30000000000000004\tX'00ff'\n",
            "\\N\t\n",
            "-1e999\t\\X'00ff'\n",
            "1000000000000000.0\ttext\n",
            "\\N\t1e999\n",
        )
    );
    let lines = [
        "{\"n\":1,\"a \\\"b\\\"\":\"a,\\\"b\\\"\\r\\n\\tc\\\\\\u0001\u{e9}\\u2028\"}",
        "{\"n\":0.30000000000000004,\"a \\\"b\\\"\":{\"hex\":\"00ff\"}}",
        "{\"n\":null,\"a \\\"b\\\"\":\"\"}",
        "{\"n\":-1e999,\"a \\\"b\\\"\":\"X'00ff'\"}",
        "{\"n\":1000000000000000.0,\"a \\\"b\\\"\":\"text\"}",
        "{\"n\":null,\"a \\\"b\\\"\":1e999}",
    ];
    let written_lines = written(RowFormat::JsonLines, &NAMES, &rows);
    assert_eq!(
        written_lines,
        lines.map(|line| format!("{line}\n")).concat()
    );
    let written_array = written(RowFormat::Json, &NAMES, &rows);
    assert_eq!(written_array, format!("[\n{}\n]\n", lines.join(",\n")));
}

#[test]
fn without_rows_there_are_names_or_an_empty_array() {
    let names = "n,\"a \"\"b\"\"\"\n";
    assert_eq!(written(RowFormat::Csv, &NAMES, &[]), names);
    assert_eq!(written(RowFormat::Tsv, &NAMES, &[]), "n\ta \"b\"\n");
    assert_eq!(written(RowFormat::Json, &NAMES, &[]), "[]\n");
    assert_eq!(written(RowFormat::JsonLines, &NAMES, &[]), "");
    for format in RowFormat::ALL {
        let mut target = Vec::new();
        drop(RowWriter::new(format, NAMES, &mut target));
        assert!(target.is_empty(), "{format:?}");
    }
}

#[test]
fn columns_of_one_name_are_renamed_in_every_format_with_a_notice() {
    let row = [1, 2, 3].map(Value::Integer);
    for format in RowFormat::ALL {
        let mut writer = RowWriter::new(format, ["x", "x", "x_2"], Vec::new());
        let notices: Vec<String> = writer.notices().iter().map(ToString::to_string).collect();
        let notice = "columns of one name are written under names of their own: \"x_3\"; hint: AS names a column";
        assert_eq!(notices, [notice]);
        writer.write_row(&row).unwrap();
        let text = String::from_utf8(writer.finish().unwrap()).unwrap();
        let expected = match format {
            RowFormat::Csv => "x,x_3,x_2\n1,2,3\n",
            RowFormat::Tsv => "x\tx_3\tx_2\n1\t2\t3\n",
            RowFormat::Json => "[\n{\"x\":1,\"x_3\":2,\"x_2\":3}\n]\n",
            RowFormat::JsonLines => "{\"x\":1,\"x_3\":2,\"x_2\":3}\n",
        };
        assert_eq!(text, expected);
    }
}

#[test]
fn texts_of_dictionaries_are_written_as_others() {
    let words = "plain don\u{2019}t X'00' \"q\" a,b \\N \\ \u{85} \u{2028}x \u{e9} a-word-that-is-longer-than-a-slot"
        .split(' ')
        .collect::<Vec<&str>>();
    let mut text = Vec::new();
    for number in 0..3000 {
        text.extend_from_slice(words[number * 7 % words.len()].as_bytes());
        text.extend_from_slice(if number % 11 == 0 { b" \xff " } else { b" " });
    }
    let database = Database::in_memory().unwrap();
    let settings = CorpusSettings {
        tokenizer: crate::Tokenizer::Whitespace,
        ..CorpusSettings::default()
    };
    let corpus = database.create_corpus("c", settings).unwrap();
    corpus.append_many(&[("f", &text)]).unwrap();
    for sql in [
        "SELECT word, file, offset FROM c ORDER BY offset",
        "SELECT ngram, offset FROM ngrams('c', 2) ORDER BY offset",
        "SELECT ngram, COUNT(*), 1.5, NULL FROM ngrams('c', 3) GROUP BY ngram, offset ORDER BY ngram, offset",
    ] {
        let rows: Vec<Vec<Value>> = (database.query(sql, ()).unwrap())
            .map(|row| row.unwrap().into_values())
            .collect();
        for format in RowFormat::ALL {
            let mut answer = database.query(sql, ()).unwrap();
            let names: Vec<String> = (answer.columns().iter())
                .map(|column| column.name().to_owned())
                .collect();
            let mut by_batch = RowWriter::new(format, &names, Vec::new());
            let mut elsewhere = RowWriter::new(format, &names, Vec::new());
            while let Some(batch) = answer.next_batch(2000).unwrap() {
                by_batch.write_batch(&batch).unwrap();
                let format = elsewhere.take(batch);
                elsewhere.write_formatted(format()).unwrap();
            }
            let mut by_row = RowWriter::new(format, &names, Vec::new());
            rows.iter().for_each(|row| by_row.write_row(row).unwrap());
            let by_row = by_row.finish().unwrap();
            assert!(by_batch.finish().unwrap() == by_row, "{format:?}: {sql}");
            assert!(elsewhere.finish().unwrap() == by_row, "{format:?}: {sql}");
        }
    }
}

fn rows() -> impl Strategy<Value = Vec<Vec<Value>>> {
    let value = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::Integer),
        any::<u64>().prop_map(|bits| Value::Real(f64::from_bits(bits))),
        "[a,\"\n\\\\'X\u{1f}\u{e9}\u{2028}]{0,8}".prop_map(Value::Text),
        proptest::collection::vec(any::<u8>(), 0..9).prop_map(Value::Blob),
    ];
    let column = prop_oneof![
        Just(any::<i64>().prop_map(Value::Integer).boxed()),
        Just(any::<f64>().prop_map(Value::Real).boxed()),
        Just("[a,\"\u{e9}]{0,4}".prop_map(Value::Text).boxed()),
        Just(value.boxed()),
    ];
    let columns = (column.clone(), column);
    columns.prop_flat_map(|(first, second)| {
        let row = (first, second).prop_map(|(first, second)| vec![first, second]);
        proptest::collection::vec(row, 0..6)
    })
}

proptest! {
    #[test]
    fn a_batch_is_written_as_its_rows(rows in rows()) {
        for format in RowFormat::ALL {
            let mut writer = RowWriter::new(format, NAMES, Vec::new());
            writer.write_batch(&batch(&rows)).unwrap();
            let by_batch = String::from_utf8(writer.finish().unwrap()).unwrap();
            prop_assert_eq!(by_batch, written(format, &NAMES, &rows));
        }
    }
}
