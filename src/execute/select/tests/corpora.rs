//! Queries on corpora: the scans, their requests, and the rows that they read.

use zipfdb_sql::query::{
    AggregateFunction, Collation, Comparison, Expression, Function, Query, Relation,
};
use zipfdb_sql::setting::{Device, Setting};

use super::super::scan::boundary::RequestedColumn;
use super::super::scan::{ScanColumn, Sourced, request};
use super::*;
use crate::CorpusSettings;
use crate::Database;
use crate::execute::select::scan::OrderKey;
use crate::ingest::CopyOptions;
use crate::runtime::interrupt::Interrupt;
use crate::runtime::memory::ValueMemory;

const A: &str = "The cat and the dog. The end.";
const B: &str = "A dog and a dog";

fn pets() -> Database {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), A).unwrap();
    std::fs::write(folder.path().join("b.txt"), B).unwrap();
    let database = Database::in_memory().unwrap();
    let corpus = database
        .create_corpus("pets", CorpusSettings::default())
        .unwrap();
    corpus
        .copy_from(folder.path(), &CopyOptions::default())
        .unwrap();
    database
}

fn words() -> Relation {
    Relation::Words {
        corpus: "pets".into(),
    }
}

fn files() -> Relation {
    Relation::Files {
        corpus: "pets".into(),
    }
}

fn answer(query: &Query) -> Vec<Vec<Value>> {
    values(select(pets().inner(), query.clone(), &Interrupt::never()).unwrap())
}

/// `SELECT columns FROM relation`.
fn columns(relation: Relation, columns: &[usize]) -> BlockBuilder {
    let mut block = BlockBuilder::relation(relation);
    for &column in columns {
        let column = block.column(column);
        block.output(column);
    }
    block
}

/// The request of a block to its relation.
fn sourced(block: &BlockBuilder, relation: Relation) -> Sourced {
    let (interrupt, memory) = (Interrupt::never(), ValueMemory::default());
    request(&block.0, &relation, 0, &interrupt, &memory).unwrap()
}

fn row<const N: usize>(values: [&str; N]) -> Vec<Value> {
    let value = |text: &str| match text.parse() {
        Ok(integer) => Value::Integer(integer),
        Err(_) => Value::from(text),
    };
    values.into_iter().map(value).collect()
}

#[test]
fn words_are_counted_without_case() {
    let mut block = BlockBuilder::relation(words());
    let word = block.column(1);
    let key = block.key(word, Collation::NoCase);
    let count = block.count();
    block.output(key);
    block.output(count);
    block.order_by(count, true);
    block.order_by(key, false);
    block.0.limit = Some(3);
    let found = answer(&block.query());
    assert_eq!(
        found,
        [row(["The", "3"]), row(["dog", "3"]), row(["A", "2"])]
    );
}

#[test]
fn words_have_their_place() {
    let mut block = columns(words(), &[0, 1, 2, 3, 4]);
    block.filter(1, Comparison::Equal, Value::from("dog"));
    let found = answer(&block.query());
    assert_eq!(
        found,
        [
            row(["a.txt", "dog", "4", "16", "3"]),
            row(["b.txt", "dog", "1", "2", "3"]),
            row(["b.txt", "dog", "4", "12", "3"]),
        ]
    );
}

#[test]
fn ngrams_do_not_cross_files() {
    let relation = Relation::Ngrams {
        corpus: "pets".into(),
        n: 2,
    };
    let mut block = columns(relation, &[0, 1, 2, 3]);
    block.filter(2, Comparison::GreaterOrEqual, Value::Integer(3));
    let found = answer(&block.query());
    assert_eq!(
        found,
        [
            row(["the dog", "a.txt", "3", "12"]),
            row(["dog The", "a.txt", "4", "16"]),
            row(["The end", "a.txt", "5", "21"]),
            row(["a dog", "b.txt", "3", "10"]),
        ]
    );
}

#[test]
fn term_vectors_rank_by_count_and_then_by_bytes() {
    let relation = Relation::TermVectors {
        corpus: "pets".into(),
        k: 2,
    };
    let found = answer(&columns(relation, &[0, 1, 2, 3]).query());
    assert_eq!(
        found,
        [
            row(["a.txt", "The", "2", "1"]),
            row(["a.txt", "and", "1", "2"]),
            row(["b.txt", "dog", "2", "1"]),
            row(["b.txt", "A", "1", "2"]),
        ]
    );
}

#[test]
fn content_is_fetched_after_sorting_and_cutting() {
    let mut block = columns(files(), &[0, 1]);
    let bytes = block.column(2);
    block.order_by(bytes, false);
    block.0.limit = Some(1);
    let requested = sourced(&block, files()).request.columns;
    let column = |column, is_deferred| RequestedColumn {
        column: ScanColumn::Column(column),
        is_deferred,
    };
    assert_eq!(
        requested,
        [column(2, false), column(0, false), column(1, true)]
    );
    let found = answer(&block.query());
    assert_eq!(found, [[Value::from("b.txt"), Value::from(B.as_bytes())]]);
}

#[test]
fn a_part_of_content_is_a_column_of_its_own() {
    let mut block = BlockBuilder::relation(files());
    let content = block.column(1);
    let (one, minus_four, three) = (block.value(1), block.value(4), block.value(3));
    let minus_four = block.add(Expression::Negate(minus_four));
    let start = block.call(Function::Substr, &[content, one, three]);
    let end = block.call(Function::Substr, &[content, minus_four]);
    let length = block.call(Function::OctetLength, &[content]);
    block.output(start);
    block.output(end);
    block.output(length);
    let requested = sourced(&block, files()).request.columns;
    let substr = |start, length| RequestedColumn {
        column: ScanColumn::Substr { start, length },
        is_deferred: true,
    };
    let bytes = RequestedColumn {
        column: ScanColumn::Column(2),
        is_deferred: false,
    };
    assert_eq!(requested, [bytes, substr(-4, None), substr(1, Some(3))]);
    let found = answer(&block.query());
    let expected = |start: &str, end: &str, length: i64| {
        vec![
            Value::from(start.as_bytes()),
            Value::from(end.as_bytes()),
            Value::Integer(length),
        ]
    };
    assert_eq!(
        found,
        [expected("The", "end.", 29), expected("A d", " dog", 15)]
    );
}

#[test]
fn a_part_that_depends_on_the_row_is_cut_from_the_content() {
    let mut block = BlockBuilder::relation(files());
    let (content, words) = (block.column(1), block.column(3));
    let part = block.call(Function::Substr, &[content, words, words]);
    block.output(part);
    block.filter(0, Comparison::Equal, Value::from("b.txt"));
    assert_eq!(answer(&block.query()), [[Value::from(&B.as_bytes()[4..9])]]);
}

#[test]
fn conditions_of_one_column_go_to_the_scan() {
    let mut block = columns(words(), &[3]);
    block.filter(0, Comparison::Equal, Value::from("a.txt"));
    block.filter(1, Comparison::Greater, Value::from("b"));
    let (position, offset) = (block.column(2), block.column(3));
    let both = block.compare(Comparison::Less, position, offset);
    block.0.filter.push(both);
    let sourced = sourced(&block, words());
    let filters = &sourced.request.filters;
    assert_eq!(filters[0].column(), 0);
    assert_eq!(filters[0].values(), Some(&[Value::from("a.txt")][..]));
    assert_eq!(filters[1].column(), 1);
    assert_eq!(sourced.rest, [both]);
    assert_eq!(sourced.request.columns.len(), 2);
    assert!(!sourced.request.merge);
}

#[test]
fn a_scan_learns_of_order_and_limit() {
    let mut block = columns(words(), &[1, 0]);
    let (file, offset) = (block.column(0), block.column(3));
    block.order_by(file, false);
    block.order_by(offset, true);
    block.0.limit = Some(5);
    block.0.offset = 2;
    let asked = sourced(&block, words()).request;
    let columns: Vec<_> = asked
        .columns
        .iter()
        .map(|requested| requested.column)
        .collect();
    assert_eq!(columns, [0, 3, 1].map(ScanColumn::Column));
    let order: Vec<_> = asked
        .wanted_order
        .iter()
        .map(|order| (order.key, order.descending))
        .collect();
    assert_eq!(
        order,
        [(0, false), (1, true)].map(|(column, descending)| (OrderKey::Column(column), descending))
    );
    assert_eq!(asked.limit, Some(7));
    block.0.distinct = true;
    let asked = sourced(&block, words()).request;
    assert_eq!((asked.limit, asked.merge), (None, true));
}

#[test]
fn sizes_and_settings_are_relations() {
    let database = pets();
    database
        .shared()
        .runtime
        .settings
        .lock()
        .set(Setting::Device(Device::Cpu));
    let run = |block: BlockBuilder| {
        values(select(database.inner(), block.query(), &Interrupt::never()).unwrap())
    };
    assert_eq!(
        run(columns(Relation::Corpora, &[0, 1, 2, 3, 4, 5])),
        [row(["pets", "unicode", "1", "2", "44", "12"])]
    );
    let segments = Relation::Segments {
        corpus: "pets".into(),
    };
    let found = run(columns(segments, &[1, 2, 3, 13]));
    assert_eq!(found[0][..3], row(["2", "44", "12"]));
    assert!(matches!(found[0][3], Value::Integer(1..)));
    let mut settings = columns(Relation::Settings, &[1, 2]);
    settings.filter(0, Comparison::Equal, Value::from("device"));
    assert_eq!(run(settings), [row(["cpu", "auto"])]);
}

#[test]
fn the_most_frequent_words_of_a_subquery() {
    let mut inner = BlockBuilder::relation(words());
    let word = inner.column(1);
    let lower = inner.call(Function::Lower, &[word]);
    inner.output(lower);
    let mut outer = BlockBuilder::from(zipfdb_sql::query::Source::Block(0));
    let word = outer.column(0);
    let longest = outer.aggregate(zipfdb_sql::query::Aggregate {
        parameter: None,
        order_by: Vec::new(),
        function: AggregateFunction::Max,
        argument: Some(word),
        distinct: false,
        collation: Collation::Binary,
        filter: None,
    });
    let count = outer.aggregate(zipfdb_sql::query::Aggregate {
        parameter: None,
        order_by: Vec::new(),
        function: AggregateFunction::Count,
        argument: Some(word),
        distinct: true,
        collation: Collation::Binary,
        filter: None,
    });
    outer.output(longest);
    outer.output(count);
    let query = Query {
        blocks: vec![inner.0, outer.0],
    };
    assert_eq!(answer(&query), [row(["the", "6"])]);
}

#[test]
fn each_parameter_set_knows_its_number() {
    let database = pets();
    let queries = ["dog", "cow", "The"].map(|word| {
        let mut block = columns(words(), &[3]);
        let binding = block.call(Function::Binding, &[]);
        block.output(binding);
        block.filter(1, Comparison::Equal, Value::from(word));
        block.query()
    });
    let found = values(select_many(database.inner(), queries.into(), &Interrupt::never()).unwrap());
    let expected = [[16, 0], [2, 0], [12, 0], [0, 2], [21, 2]];
    assert_eq!(found, expected.map(|row| row.map(Value::Integer)));
}
