//! Operators on made-up rows: random blocks compared with the oracle, within memory and far beyond it.
//!
//! The scan takes its rows and its promises from thread-local variables, so that it can be a plain function.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use proptest::prelude::*;
use zipfdb_sql::plan::ExplainFormat;
use zipfdb_sql::query::{
    Aggregate, AggregateFunction, BinaryOperator, Collation, Comparison, Expression, Function,
    Query, Relation, Source,
};
use zipfdb_sql::setting::Setting;

use super::super::context::Context;
use super::super::explain::{Describe, Description};
use super::super::row::{Operator, RowCollector};
use super::super::scan::boundary::RowOrder;
use super::super::scan::{Properties, Scan, ScanColumn, ScanRequest};
use super::*;
use crate::Database;
use crate::batch::{BatchColumn, TextDictionary};

thread_local! {
    /// Rows of (text or NULL, small number, any number), with their multiplicities.
    static ROWS: RefCell<Vec<(Vec<Value>, u64)>> = const { RefCell::new(Vec::new()) };
    static PROPERTIES: RefCell<Properties> = RefCell::new(Properties::default());
    /// Whether rows come in order of their last column, which the scan promises then.
    static IN_ORDER: Cell<bool> = const { Cell::new(false) };
    /// Whether equal rows are merged, which the scan promises then.
    static IS_UNIQUE: Cell<bool> = const { Cell::new(false) };
    /// Whether columns of texts are in places numbers of one dictionary or another, in batches of a few rows.
    static HAS_DICTIONARIES: Cell<bool> = const { Cell::new(false) };
}

pub(super) struct MadeUp {
    rows: std::vec::IntoIter<(Vec<Value>, u64)>,
    properties: Properties,
    /// Two dictionaries of the same texts in another order, if there are some.
    dictionaries: Vec<TextDictionary>,
    batches: usize,
}

impl MadeUp {
    fn new(rows: Vec<(Vec<Value>, u64)>, properties: Properties) -> MadeUp {
        let mut dictionaries = Vec::new();
        if HAS_DICTIONARIES.get() {
            let values = rows.iter().flat_map(|(row, _)| row);
            let texts = values.filter_map(|value| match value {
                Value::Text(text) => Some(text.clone()),
                _ => None,
            });
            let texts: BTreeSet<String> = texts.collect();
            dictionaries.push(TextDictionary::made(
                texts.iter().rev().cloned().collect::<Vec<_>>(),
            ));
            dictionaries.push(TextDictionary::made(texts.into_iter().collect()));
        }
        MadeUp {
            rows: rows.into_iter(),
            properties,
            dictionaries,
            batches: 0,
        }
    }

    /// A column by the numbers of a dictionary, if all of its values are texts.
    fn numbered(column: BatchColumn, dictionary: &TextDictionary) -> BatchColumn {
        let numbers = (0..column.len()).map(|row| {
            let value = column.value(row);
            let mut texts = 0..dictionary.len() as u32;
            texts.find(|&text| dictionary.value(text) == value)
        });
        match numbers.collect::<Option<Vec<u32>>>() {
            None => column,
            Some(indices) => BatchColumn::Words {
                indices,
                dictionary: dictionary.clone(),
            },
        }
    }
}

impl Operator for MadeUp {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        let mut rows = RowCollector::default();
        let mut times = Vec::new();
        let rows_max = if self.dictionaries.is_empty() {
            rows_max
        } else {
            rows_max.min(3)
        };
        for (values, row_times) in self.rows.by_ref().take(rows_max) {
            rows.push(values);
            times.push(row_times);
        }
        self.batches += 1;
        // Most batches have the first one.
        let dictionary = self
            .dictionaries
            .get(usize::from(self.batches.is_multiple_of(8)));
        let batch = rows.finish();
        Ok(batch.map(|batch| {
            let count = batch.len();
            let columns = batch.into_columns().into_iter();
            let columns = columns.map(|column| match dictionary {
                Some(dictionary) if !self.batches.is_multiple_of(5) => {
                    MadeUp::numbered(column, dictionary)
                }
                _ => column,
            });
            Batch::new(columns.collect(), count, Some(times))
        }))
    }
}

impl Scan for MadeUp {
    fn properties(&self) -> Properties {
        self.properties.clone()
    }

    fn description(&self) -> Arc<dyn Describe> {
        let mut description = Description::new("made up", String::new(), Some(9));
        description.lines.push("strategy: none".into());
        Arc::new(description)
    }

    fn into_operator(self: Box<Self>) -> Box<dyn Operator> {
        self
    }
}

fn open(_: &Arc<Session>, request: ScanRequest, _: &Context) -> Result<Box<dyn Scan>> {
    let mut rows: Vec<(Vec<Value>, u64)> = Vec::new();
    for (row, times) in ROWS.with_borrow(Clone::clone) {
        let mut passes = true;
        for filter in &request.filters {
            passes &= filter.matches(&row[filter.column()])?;
        }
        let values = request
            .columns
            .iter()
            .map(|requested| match requested.column {
                ScanColumn::Column(column) => row[column].clone(),
                ScanColumn::Substr { .. } | ScanColumn::Excerpt(_) => panic!("there is no content"),
            });
        if passes {
            rows.push((values.collect(), times));
        }
    }
    let mut properties = PROPERTIES.with_borrow(Clone::clone);
    if IN_ORDER.get() {
        let mut columns = request.columns.iter();
        let column = columns.position(|requested| requested.column == ScanColumn::Column(2));
        properties.order = Vec::from_iter(column.map(RowOrder::ascending));
    }
    if IS_UNIQUE.get() {
        let mut merged: Vec<(Vec<Value>, u64)> = Vec::new();
        let is_same = |left: &[Value], right: &[Value]| {
            let mut pairs = left.iter().zip(right);
            pairs.all(|(left, right)| left.compare(right).is_eq())
        };
        for (values, times) in rows {
            match merged.iter_mut().find(|(known, _)| is_same(known, &values)) {
                Some((_, known)) => *known += times,
                None => merged.push((values, times)),
            }
        }
        rows = merged;
        properties.is_unique = true;
    }
    Ok(Box::new(MadeUp::new(rows, properties)))
}

fn words() -> Relation {
    Relation::Words {
        corpus: "made up".into(),
    }
}

/// Answers on the rows of the thread with `memory` bytes.
fn answer(query: &Query, memory: u64) -> Result<Rows> {
    let database = Database::in_memory()?;
    database
        .shared()
        .runtime
        .settings
        .lock()
        .set(Setting::MemoryLimit(Some(memory)));
    select_from(
        database.inner(),
        vec![query.clone()],
        open,
        &database.inner().shared().runtime.interrupt(),
    )
}

fn rows() -> impl Strategy<Value = Vec<(Vec<Value>, u64)>> {
    let text = prop_oneof![
        Just(Value::Null),
        "[abAB]{0,2}".prop_map(Value::Text),
        "[\u{e9}\u{c9}]".prop_map(Value::Text),
        Just(Value::Blob(vec![0xff])),
    ];
    let small = prop_oneof![
        Just(Value::Null),
        (-2i64..3).prop_map(Value::Integer),
        (-2i32..3).prop_map(|n| Value::Real(f64::from(n) / 2.0)),
    ];
    let number = (-100i64..100).prop_map(Value::Integer);
    let row = (text, small, number).prop_map(|(a, b, c)| vec![a, b, c]);
    proptest::collection::vec((row, 1u64..4), 0..120)
}

/// The shape of a random block.
#[derive(Debug, Clone)]
struct Shape {
    keys: Vec<(usize, bool)>,
    aggregates: Vec<(u8, usize, bool, bool, bool)>,
    is_grouped: bool,
    filter: Option<i64>,
    compares_columns: bool,
    having: bool,
    distinct: bool,
    order_by: Vec<(usize, bool, bool, bool)>,
    limit: Option<u64>,
    offset: u64,
}

fn shapes() -> impl Strategy<Value = Shape> {
    let keys = proptest::collection::vec((0usize..2, any::<bool>()), 0..3);
    let aggregate = (
        0u8..8,
        0usize..3,
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    );
    let aggregates = proptest::collection::vec(aggregate, 0..4);
    let order = (0usize..9, any::<bool>(), any::<bool>(), any::<bool>());
    (
        (keys, aggregates, any::<bool>()),
        (proptest::option::of(-2i64..3), any::<bool>(), any::<bool>()),
        any::<bool>(),
        proptest::collection::vec(order, 0..3),
        (proptest::option::of(0u64..20), 0u64..4),
    )
        .prop_map(|(grouping, conditions, distinct, order_by, cut)| Shape {
            keys: grouping.0,
            aggregates: grouping.1,
            is_grouped: grouping.2,
            filter: conditions.0,
            compares_columns: conditions.1,
            having: conditions.2,
            distinct,
            order_by,
            limit: cut.0,
            offset: cut.1,
        })
}

fn is_ordered(shape: &Shape) -> bool {
    shape.limit.is_some() || shape.offset > 0 || !shape.order_by.is_empty()
}

fn collation(nocase: bool) -> Collation {
    if nocase {
        Collation::NoCase
    } else {
        Collation::Binary
    }
}

fn block(shape: &Shape) -> BlockBuilder {
    let mut block = BlockBuilder::relation(words());
    if let Some(filter) = shape.filter {
        block.filter(1, Comparison::GreaterOrEqual, Value::Integer(filter));
    }
    if shape.compares_columns {
        let (left, right) = (block.column(1), block.column(2));
        let condition = block.compare(Comparison::Less, left, right);
        block.0.filter.push(condition);
    }
    if shape.is_grouped {
        for (column, nocase) in &shape.keys {
            let column = block.column(*column);
            let key = block.key(column, collation(*nocase));
            block.output(key);
        }
        let count = block.count();
        block.output(count);
        for &(function, column, distinct, nocase, filtered) in &shape.aggregates {
            let function = [
                AggregateFunction::Count,
                AggregateFunction::Sum,
                AggregateFunction::Total,
                AggregateFunction::Avg,
                AggregateFunction::Min,
                AggregateFunction::Max,
                AggregateFunction::GroupConcat,
                AggregateFunction::Median,
            ][usize::from(function)];
            // Joined texts distinguish 1 from 1.0, equal rows do not.
            let is_joined = function == AggregateFunction::GroupConcat;
            let argument = block.column(if is_joined { 0 } else { column });
            let filter = filtered.then(|| {
                let (left, right) = (block.column(2), block.value(0));
                block.compare(Comparison::Greater, left, right)
            });
            let value = block.aggregate(Aggregate {
                parameter: None,
                order_by: Vec::new(),
                function,
                argument: Some(argument),
                distinct,
                collation: collation(nocase),
                filter,
            });
            block.output(value);
        }
        if shape.having {
            let two = block.value(2);
            let condition = block.compare(Comparison::GreaterOrEqual, count, two);
            block.0.having.push(condition);
        }
    } else {
        let (text, small) = (block.column(0), block.column(1));
        block.output(text);
        let sum = block.add(Expression::Binary {
            operator: BinaryOperator::Add,
            left: small,
            right: small,
        });
        block.output(sum);
        let length = block.call(Function::Length, &[text]);
        block.output(length);
        if !shape.distinct {
            let number = block.column(2);
            block.output(number);
        }
    }
    block.0.distinct = shape.distinct;
    let outputs: Vec<_> = block
        .0
        .outputs
        .iter()
        .map(|output| output.expression)
        .collect();
    for &(output, descending, nulls_first, nocase) in &shape.order_by {
        block.order_by(outputs[output % outputs.len()], descending);
        let key = block.0.order_by.last_mut().unwrap();
        key.nulls_first = nulls_first;
        key.collation = collation(nocase);
    }
    if is_ordered(shape) {
        // Only a total order defines which rows are cut.
        for output in outputs {
            block.order_by(output, false);
        }
    }
    block.0.limit = shape.limit;
    block.0.offset = shape.offset;
    block
}

/// INTEGER and REAL that are equal may stand for one another in keys, and so does 0 for -0.
fn normal(rows: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    let value = |value| match value {
        Value::Integer(integer) => Value::Real(integer as f64),
        Value::Real(real) => Value::Real(real + 0.0),
        other => other,
    };
    let row = |row: Vec<Value>| row.into_iter().map(value).collect();
    rows.into_iter().map(row).collect()
}

fn sorted(mut rows: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    rows.sort_by(|a, b| {
        let mut pairs = a.iter().zip(b).map(|(a, b)| a.compare(b));
        pairs
            .find(|ordering| ordering.is_ne())
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn blocks_answer_as_the_oracle_whatever_the_memory(
        mut rows in rows(),
        mut shape in shapes(),
        memory in prop_oneof![Just(0u64), 100u64..4000, Just(1 << 20)],
        batch_rows in proptest::option::of(1usize..9),
        in_order: bool,
        is_unique: bool,
        has_dictionaries: bool,
    ) {
        // Merging rows changes the order of ties, except for total orders.
        let is_unique = is_unique && (shape.is_grouped || is_ordered(&shape));
        if in_order {
            for (row, _) in &mut rows {
                if let Value::Integer(number) = &mut row[2] {
                    *number /= 20;
                }
            }
            rows.sort_by(|(left, _), (right, _)| left[2].compare(&right[2]));
            if !shape.is_grouped && !shape.distinct {
                shape.order_by.insert(0, (2, false, false, false));
            }
        }
        let block = block(&shape).0;
        let repeated: Vec<Vec<Value>> = rows
            .iter()
            .flat_map(|(row, times)| vec![row.clone(); *times as usize])
            .collect();
        let expected = normal(plain::answer(&block, &repeated));
        IN_ORDER.set(in_order);
        IS_UNIQUE.set(is_unique);
        HAS_DICTIONARIES.set(has_dictionaries);
        ROWS.set(rows);
        let rows = answer(&Query { blocks: vec![block] }, memory).unwrap();
        let found = normal(match batch_rows {
            None => values(rows),
            Some(size) => batched(rows, size),
        });
        IN_ORDER.set(false);
        IS_UNIQUE.set(false);
        HAS_DICTIONARIES.set(false);
        if is_ordered(&shape) {
            prop_assert_eq!(&found, &expected);
        }
        prop_assert_eq!(sorted(found), sorted(expected));
    }
}

#[test]
fn blocks_read_the_block_before_them() {
    let rows = [("a", 2), ("b", 3), ("a", 1)];
    let rows = rows.map(|(text, times)| {
        (
            vec![Value::from(text), Value::Integer(1), Value::Null],
            times,
        )
    });
    ROWS.set(rows.to_vec());
    let mut inner = BlockBuilder::relation(words());
    let word = inner.column(0);
    let key = inner.key(word, Collation::Binary);
    let count = inner.count();
    inner.output(key);
    inner.output(count);
    let mut outer = BlockBuilder::from(Source::Block(0));
    let count = outer.column(1);
    let sum = outer.aggregate(Aggregate {
        parameter: None,
        order_by: Vec::new(),
        function: AggregateFunction::Sum,
        argument: Some(count),
        distinct: true,
        collation: Collation::Binary,
        filter: None,
    });
    outer.output(sum);
    let query = Query {
        blocks: vec![inner.0, outer.0],
    };
    assert_eq!(
        values(answer(&query, 1 << 20).unwrap()),
        [[Value::Integer(3)]]
    );
}

#[test]
fn a_query_without_from_has_one_row() {
    let mut block = BlockBuilder::from(Source::Nothing);
    let (a, b) = (block.value("a"), block.value(2));
    let joined = block.add(Expression::Binary {
        operator: BinaryOperator::Concatenate,
        left: a,
        right: b,
    });
    let binding = block.call(Function::Binding, &[]);
    block.output(joined);
    block.output(binding);
    let rows = answer(&block.query(), 0).unwrap();
    assert_eq!(rows.columns()[1].name(), "c1");
    assert_eq!(values(rows), [[Value::from("a2"), Value::Integer(0)]]);
}

/// Rows that are unique and in order need neither a table of groups nor sorting.
fn ordered_block() -> Query {
    let rows = [("a", 2), ("b", 3), ("c", 1)];
    let rows = rows.map(|(text, times)| (vec![Value::from(text)], times));
    ROWS.set(rows.to_vec());
    let mut block = BlockBuilder::relation(words());
    let word = block.column(0);
    let key = block.key(word, Collation::Binary);
    let count = block.count();
    block.output(key);
    block.output(count);
    block.order_by(key, false);
    block.order_by(count, true);
    block.0.distinct = true;
    block.query()
}

#[test]
fn what_a_scan_promises_is_not_done_again() {
    let query = ordered_block();
    let expected = values(answer(&query, 1 << 20).unwrap());
    let database = Database::in_memory().unwrap();
    let before = lines(
        explain_from(
            database.inner(),
            &query,
            (false, ExplainFormat::Text),
            open,
            &Interrupt::never(),
        )
        .unwrap(),
    );
    assert_eq!(
        before,
        [
            "project: 2 columns (about 1 rows)",
            "  sort: 2 keys (about 1 rows)",
            "    aggregate: 1 key, 1 aggregate (about 1 rows)",
            "      made up (about 9 rows)",
            "          strategy: none",
        ]
    );
    PROPERTIES.set(Properties {
        order: vec![RowOrder::ascending(0)],
        is_unique: true,
    });
    let after = lines(
        explain_from(
            database.inner(),
            &query,
            (false, ExplainFormat::Text),
            open,
            &Interrupt::never(),
        )
        .unwrap(),
    );
    assert_eq!(
        after,
        [
            "project: 2 columns (about 9 rows)",
            "  group rows as they are: 1 key, 1 aggregate (about 9 rows)",
            "    made up (about 9 rows)",
            "        strategy: none",
        ]
    );
    let found = values(answer(&query, 1 << 20).unwrap());
    PROPERTIES.set(Properties::default());
    assert_eq!(found, expected);
}

#[test]
fn explain_analyze_counts_rows_and_time() {
    let query = ordered_block();
    let database = Database::in_memory().unwrap();
    let lines = lines(
        explain_from(
            database.inner(),
            &query,
            (true, ExplainFormat::Text),
            open,
            &Interrupt::never(),
        )
        .unwrap(),
    );
    assert!(
        lines[0].starts_with("project: 2 columns (3 rows in "),
        "{lines:?}"
    );
    assert!(
        lines[3].starts_with("      made up (6 rows in "),
        "{lines:?}"
    );
    assert!(lines[3].ends_with(", about 9 rows)"), "{lines:?}");
}

#[test]
fn distinct_orders_by_what_is_selected_only() {
    let mut block = BlockBuilder::relation(words());
    let (word, other) = (block.column(0), block.column(2));
    block.output(word);
    block.0.distinct = true;
    block.order_by(other, false);
    let error = answer(&block.query(), 0).map(drop).unwrap_err();
    assert!(
        error.to_string().starts_with("ORDER BY: with DISTINCT"),
        "{error}"
    );
}

#[test]
fn a_sum_of_integers_that_overflows_is_an_error() {
    ROWS.set(vec![(
        vec![Value::Null, Value::Null, Value::Integer(i64::MAX)],
        2,
    )]);
    let mut block = BlockBuilder::relation(words());
    let number = block.column(2);
    let sum = block.aggregate(Aggregate {
        parameter: None,
        order_by: Vec::new(),
        function: AggregateFunction::Sum,
        argument: Some(number),
        distinct: false,
        collation: Collation::Binary,
        filter: None,
    });
    block.output(sum);
    let mut rows = answer(&block.query(), 0).unwrap();
    let error = rows.next().unwrap().unwrap_err();
    assert!(error.to_string().contains("integer overflow"), "{error}");
    assert!(rows.next().is_none());
}

#[test]
fn a_constant_condition_that_fails_reads_nothing() {
    let mut block = BlockBuilder::relation(words());
    let count = block.count();
    block.output(count);
    let never = block.value(0);
    block.0.filter.push(never);
    let query = block.query();
    ROWS.set(vec![(vec![Value::Null; 3], 5)]);
    let found = values(answer(&query, 1 << 20).unwrap());
    assert_eq!(found, [[Value::Integer(0)]]);
    let database = Database::in_memory().unwrap();
    let lines = lines(
        explain_from(
            database.inner(),
            &query,
            (true, ExplainFormat::Text),
            open,
            &Interrupt::never(),
        )
        .unwrap(),
    );
    assert!(
        lines[2].starts_with("    filter: nothing passes (0 rows"),
        "{lines:?}"
    );
    assert!(lines[3].starts_with("      made up (0 rows"), "{lines:?}");
}
