//! Batches of Arrow hold what rows hold: for random texts and statements, all kinds of columns, NULL, and answers without rows; also
//! on their way through the C stream interface and back into a corpus.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, RecordBatch, RecordBatchReader};
use arrow_schema::{DataType, TimeUnit};
use proptest::collection::vec;
use proptest::prelude::*;
use zipfdb::{Database, Row, Value};
use zipfdb_arrow::{
    ArrowArrayStreamReader, IntoRecordBatches, RecordBatches, RecordColumns, TextArrays,
    parameter_sets, records,
};

/// Statements whose rows are compared, over a corpus `c` with declared columns.
const STATEMENTS: [&str; 14] = [
    "SELECT * FROM c",
    "SELECT word, COUNT(*) AS n FROM c GROUP BY word ORDER BY n DESC, word",
    "SELECT word, file, COUNT(*) FROM c GROUP BY word, file ORDER BY 1, 2",
    "SELECT file, COUNT(*), AVG(length) FROM c GROUP BY file ORDER BY file",
    "SELECT * FROM files('c')",
    "SELECT file, author, day, moment, likes, price, good FROM files('c') ORDER BY file DESC",
    "SELECT ngram, COUNT(*) FROM ngrams('c', 2) GROUP BY ngram ORDER BY 2 DESC, 1",
    "SELECT ngram, file FROM ngrams('c', 3)",
    "SELECT DISTINCT upper(word) AS word FROM c ORDER BY 1",
    "SELECT likes + 1, likes * 0.5, author || '!' FROM files('c')",
    "SELECT CASE WHEN length > 2 THEN NULL ELSE word END AS short FROM c",
    "SELECT CAST(word AS BLOB), word = 'a', NULL FROM c",
    "SELECT word, position FROM c WHERE word = 'none' ORDER BY position",
    "SELECT COUNT(*) FROM c WHERE word IN ('a', 'b')",
];

fn database(texts: &[String]) -> Database {
    let database = Database::in_memory().unwrap();
    let create = "CREATE CORPUS c (author TEXT, day DATE, moment TIMESTAMP, likes INTEGER, price REAL, good BOOLEAN)";
    database.execute_batch(create).unwrap();
    let corpus = database.corpus("c").unwrap();
    for (number, text) in texts.iter().enumerate() {
        let mut record = zipfdb::Record::new(text.as_str()).named(format!("f{number}"));
        if number % 3 != 1 {
            record = record
                .with("author", format!("Ann {}", number % 2))
                .with("day", "2020-01-31")
                .with("moment", "2020-01-31 10:00:00.25");
        }
        if number % 2 == 0 {
            record = record
                .with("likes", 7)
                .with("price", 0.25)
                .with("good", number % 4 == 0);
        }
        corpus.append_records(&[record]).unwrap();
        // Some files are in a segment, and others pending.
        if number == texts.len() / 2 {
            database.execute_batch("RECOMPRESS c").unwrap();
        }
    }
    database
}

/// The values of a batch, as rows have them.
fn rows_of(batch: &RecordBatch) -> Vec<Vec<Value>> {
    let mut sets = parameter_sets(batch).unwrap();
    // Arrow has no INTEGER for truth, and what is read of it is one again.
    assert_eq!(sets.len(), batch.num_rows());
    sets.iter_mut()
        .for_each(|set| assert_eq!(set.len(), batch.num_columns()));
    sets
}

fn values_of(
    batches: impl Iterator<Item = Result<RecordBatch, arrow_schema::ArrowError>>,
) -> Vec<Vec<Value>> {
    batches.flat_map(|batch| rows_of(&batch.unwrap())).collect()
}

fn rows(database: &Database, sql: &str) -> Vec<Vec<Value>> {
    let rows = database.query(sql, ()).unwrap();
    rows.map(|row| row.map(Row::into_values).unwrap()).collect()
}

fn batches(database: &Database, sql: &str) -> RecordBatches {
    database
        .query(sql, ())
        .unwrap()
        .into_record_batches()
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn batches_hold_what_rows_hold(
        texts in vec("([a-c]|ab|the cat|[A-B]|\u{e4}|\\.|, | ){0,30}", 0..6),
        batch_rows in 1usize..5,
    ) {
        let database = database(&texts);
        let known = Arc::<TextArrays>::default();
        for sql in STATEMENTS {
            let expected = rows(&database, sql);
            for whole in [false, true] {
                let answer = database.query(sql, ()).unwrap();
                let answer = answer.into_record_batches_with(&known).unwrap();
                let answer = answer.with_batch_rows(if whole { 1 << 20 } else { batch_rows });
                let schema = answer.schema();
                let found: Vec<RecordBatch> = answer.map(Result::unwrap).collect();
                prop_assert!(found.iter().all(|batch| batch.schema() == schema));
                let found = values_of(found.into_iter().map(Ok));
                prop_assert_eq!(&found, &expected, "{}", sql);
            }
            let stream = batches(&database, sql).into_c_stream();
            let received = ArrowArrayStreamReader::try_new(stream).unwrap();
            prop_assert_eq!(&values_of(received), &expected, "{}", sql);
        }
    }

    #[test]
    fn what_was_read_can_be_written(texts in vec("[a-c ]{0,20}", 1..6)) {
        let source = database(&texts);
        let target = database(&[]);
        let files = "SELECT file, CAST(content AS BLOB) AS content, author, day, moment, likes, price, good FROM files('c')";
        let corpus = target.corpus("c").unwrap();
        for batch in batches(&source, files) {
            let records = records(&batch.unwrap(), &RecordColumns::default()).unwrap();
            corpus.append_records(&records).unwrap();
        }
        for sql in STATEMENTS {
            prop_assert_eq!(rows(&target, sql), rows(&source, sql), "{}", sql);
        }
    }
}

#[test]
fn columns_have_the_types_that_their_kinds_say() {
    let database = database(&["the cat and the dog".to_owned(), "a dog".to_owned()]);
    let text = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::LargeUtf8));
    let moment = DataType::Timestamp(TimeUnit::Microsecond, None);
    let files = "SELECT file, author, day, moment, likes, price, good FROM files('c')";
    let files_types = [
        text.clone(),
        DataType::LargeUtf8,
        DataType::Date32,
        moment,
        DataType::Int64,
        DataType::Float64,
        DataType::Boolean,
    ];
    let counts = "SELECT word, word AS w, COUNT(*), CAST(word AS BLOB) FROM c GROUP BY word";
    let counts_types = [
        text.clone(),
        DataType::LargeUtf8,
        DataType::Int64,
        DataType::LargeBinary,
    ];
    for (sql, types) in [(files, &files_types[..]), (counts, &counts_types[..])] {
        let found = batches(&database, sql).schema();
        let found: Vec<&DataType> = found
            .fields()
            .iter()
            .map(|field| field.data_type())
            .collect();
        assert_eq!(found, types.iter().collect::<Vec<_>>(), "{sql}");
        // They are the same without rows.
        let mut empty = batches(&database, &format!("{sql} LIMIT 0"));
        assert_eq!(empty.schema(), batches(&database, sql).schema(), "{sql}");
        assert!(empty.next().is_none());
    }
}

#[test]
fn batches_of_many_rows_share_the_texts_of_their_dictionary() {
    let text: String = (0..50_000)
        .map(|number| format!("w{} ", number % 9_000))
        .collect();
    let database = database(&[text]);
    database.execute_batch("RECOMPRESS c").unwrap();
    let known = Arc::<TextArrays>::default();
    let mut texts = Vec::new();
    for _ in 0..2 {
        let answer = database.query("SELECT word, position FROM c", ()).unwrap();
        let answer = answer.into_record_batches_with(&known).unwrap();
        for batch in answer.with_batch_rows(4_000).map(Result::unwrap) {
            texts.push(
                batch
                    .column(0)
                    .as_dictionary::<Int32Type>()
                    .values()
                    .clone(),
            );
        }
    }
    let shared = texts.last().unwrap();
    assert!(shared.len() >= 9_000);
    let count = texts
        .iter()
        .filter(|texts| Arc::ptr_eq(texts, shared))
        .count();
    assert!(count >= texts.len() - 2, "{count} of {}", texts.len());
    // A few rows have a dictionary of their own.
    let few = "SELECT word FROM c WHERE word = 'w7' LIMIT 3";
    let few = batches(&database, few).next().unwrap().unwrap();
    assert_eq!(few.column(0).as_dictionary::<Int32Type>().values().len(), 1);
}

#[test]
fn types_of_expressions_are_those_of_their_first_values() {
    let database = database(&["one two three four".to_owned()]);
    let sql = "SELECT CASE WHEN position > 1 THEN position + 0 END AS late FROM c";
    let late = batches(&database, sql);
    assert_eq!(late.schema().field(0).data_type(), &DataType::Int64);
    assert_eq!(values_of(late), rows(&database, sql));
    let mixed = "SELECT CASE WHEN position > 1 THEN position + 0 ELSE 0.5 END AS n FROM c";
    let expected = [0.5, 0.5, 2.0, 3.0].map(|real| vec![Value::Real(real)]);
    assert_eq!(values_of(batches(&database, mixed)), expected);
    let unlike = "SELECT CASE WHEN position > 1 THEN position + 0 ELSE word END AS n FROM c";
    let error = database
        .query(unlike, ())
        .unwrap()
        .into_record_batches()
        .unwrap_err();
    assert!(error.to_string().contains("CAST it to one type"), "{error}");
}

#[test]
fn words_that_are_no_text_are_refused_and_read_as_blobs() {
    let database = Database::in_memory().unwrap();
    database
        .execute_batch("CREATE CORPUS c WITH (tokenizer = 'whitespace')")
        .unwrap();
    let corpus = database.corpus("c").unwrap();
    corpus.append("f", b"good \xff\xfe").unwrap();
    let error = batches(&database, "SELECT word FROM c")
        .find_map(Result::err)
        .unwrap();
    assert!(error.to_string().contains("not UTF-8"), "{error}");
    let blobs = values_of(batches(
        &database,
        "SELECT CAST(word AS BLOB) AS word FROM c",
    ));
    let expected = [&b"good"[..], b"\xff\xfe"].map(|word| vec![Value::Blob(word.to_vec())]);
    assert_eq!(blobs, expected);
    assert_eq!(
        values_of(batches(&database, "SELECT word FROM c WHERE position = 0")).len(),
        1
    );
}

#[test]
fn a_batch_without_texts_is_refused() {
    let names = arrow_array::StringArray::from(vec!["a"]);
    let batch = RecordBatch::try_from_iter([("file", Arc::new(names) as _)]).unwrap();
    let error = records(&batch, &RecordColumns::default()).unwrap_err();
    let expected = "the batch has no column \"content\"; hint: it has file";
    assert_eq!(error.to_string(), expected);
    let texts = arrow_array::StringArray::from(vec![None, Some("b")]);
    let batch = RecordBatch::try_from_iter([("content", Arc::new(texts) as _)]).unwrap();
    let error = records(&batch, &RecordColumns::default()).unwrap_err();
    assert!(error.to_string().contains("NULL in row 1"), "{error}");
    let whole = batch.slice(1, 1);
    assert_eq!(records(&whole, &RecordColumns::default()).unwrap().len(), 1);
}
