//! The oracle: a block on rows in memory, one clause after the other, without weights, spilling or shortcuts.
//!
//! Invariant: rows are sorted stably, so ties keep the order of the source; only expressions are shared with the engine.

use std::cmp::Ordering;

use zipfdb_sql::query::{AggregateFunction, Block, Collation, ExpressionId};

use crate::Value;
use crate::batch::text_or_blob;
use crate::expression::{Evaluator, Layout, Program, compare, to_real};
use crate::runtime::interrupt::Interrupt;
use crate::runtime::memory::ValueMemory;

type Row = Vec<Value>;

/// The rows of a block whose source has these rows.
pub(super) fn answer(block: &Block, source: &[Row]) -> Vec<Row> {
    let width = source.first().map_or(0, Vec::len);
    let program = Program::new(
        &block.expressions,
        &Layout::whole(width, 0),
        0,
        &Interrupt::never(),
        &ValueMemory::default(),
    )
    .unwrap();
    let of = |program: &Program, row: &[Value], id: ExpressionId| {
        Evaluator::of(program).take(row, id).unwrap()
    };
    let all = |program: &Program, row: &[Value], ids: &[ExpressionId]| {
        Evaluator::of(program).are_true(row, ids).unwrap()
    };
    let mut rows: Vec<Row> = source
        .iter()
        .filter(|row| all(&program, row, &block.filter))
        .cloned()
        .collect();
    let mut above = program;
    if let Some(aggregation) = &block.aggregation {
        let mut groups: Vec<(Row, Vec<Row>)> = Vec::new();
        for row in rows {
            let keys = aggregation.keys.iter();
            let keys: Row = keys.map(|key| of(&above, &row, key.expression)).collect();
            let is_same = |other: &Row| {
                let pairs = keys.iter().zip(other).zip(&aggregation.keys);
                pairs
                    .map(|((a, b), key)| compare(a, b, key.collation))
                    .all(Ordering::is_eq)
            };
            match groups.iter_mut().find(|group| is_same(&group.0)) {
                None => groups.push((keys, vec![row])),
                Some((shown, rows)) => {
                    rows.push(row);
                    for (shown, key) in shown.iter_mut().zip(keys) {
                        if compare(&key, shown, Collation::Binary).is_lt() {
                            *shown = key;
                        }
                    }
                }
            }
        }
        if groups.is_empty() && aggregation.keys.is_empty() {
            groups.push((Vec::new(), Vec::new()));
        }
        rows = Vec::new();
        for (mut row, members) in groups {
            for aggregate in &aggregation.aggregates {
                let members = members.iter().filter(|member| {
                    let filter: Vec<ExpressionId> = aggregate.filter.into_iter().collect();
                    all(&above, member, &filter)
                });
                let mut arguments: Row = members
                    .map(|member| match aggregate.argument {
                        None => Value::Integer(1),
                        Some(argument) => of(&above, member, argument),
                    })
                    .filter(|value| *value != Value::Null)
                    .collect();
                let collation = aggregate.collation;
                let order = |a: &Value, b: &Value| {
                    compare(a, b, collation).then_with(|| compare(a, b, Collation::Binary))
                };
                let is_joined = aggregate.function == AggregateFunction::GroupConcat;
                arguments.sort_by(order);
                if aggregate.distinct {
                    arguments.dedup_by(|a, b| compare(a, b, collation).is_eq());
                } else if is_joined {
                    arguments.sort_by(|a, b| compare(a, b, Collation::Binary));
                }
                row.push(aggregated(aggregate.function, collation, &arguments));
            }
            rows.push(row);
        }
        let layout = Layout {
            keys: aggregation.keys.len(),
            ..Layout::default()
        };
        above = Program::new(
            &block.expressions,
            &layout,
            0,
            &Interrupt::never(),
            &ValueMemory::default(),
        )
        .unwrap();
        rows.retain(|row| all(&above, row, &block.having));
    }
    let mut shown: Vec<(Row, Row)> = rows
        .iter()
        .map(|row| {
            let outputs = block.outputs.iter();
            let keys = block.order_by.iter();
            (
                keys.map(|key| of(&above, row, key.expression)).collect(),
                outputs
                    .map(|output| of(&above, row, output.expression))
                    .collect(),
            )
        })
        .collect();
    if block.distinct {
        let mut kept: Vec<(Row, Row)> = Vec::new();
        for row in shown {
            let is_same = |other: &(Row, Row)| {
                let mut pairs = other.1.iter().zip(&row.1);
                pairs.all(|(a, b)| compare(a, b, Collation::Binary).is_eq())
            };
            if !kept.iter().any(is_same) {
                kept.push(row);
            }
        }
        shown = kept;
    }
    shown.sort_by(|a, b| {
        for (index, key) in block.order_by.iter().enumerate() {
            let (a, b) = (&a.0[index], &b.0[index]);
            let is_null = |value: &Value| *value == Value::Null;
            let ordering = match (is_null(a), is_null(b)) {
                (false, false) if key.descending => compare(b, a, key.collation),
                (false, false) => compare(a, b, key.collation),
                (a, b) if key.nulls_first => b.cmp(&a),
                (a, b) => a.cmp(&b),
            };
            if ordering.is_ne() {
                return ordering;
            }
        }
        Ordering::Equal
    });
    let shown = shown.into_iter().map(|(_, outputs)| outputs);
    let limit = block.limit.unwrap_or(u64::MAX);
    let skipped = shown.skip(usize::try_from(block.offset).unwrap());
    skipped
        .take(usize::try_from(limit).unwrap_or(usize::MAX))
        .collect()
}

/// An aggregate of sorted arguments.
fn aggregated(function: AggregateFunction, collation: Collation, arguments: &[Value]) -> Value {
    let count = arguments.len();
    let is_integer = |value: &Value| matches!(value, Value::Integer(_));
    let sum: f64 = arguments.iter().map(to_real).sum();
    match function {
        AggregateFunction::Count => Value::Integer(i64::try_from(count).unwrap()),
        AggregateFunction::Total => Value::Real(sum),
        _ if count == 0 => Value::Null,
        AggregateFunction::Avg => Value::Real(sum / count as f64),
        AggregateFunction::Sum if arguments.iter().all(is_integer) => Value::Integer(sum as i64),
        AggregateFunction::Sum => Value::Real(sum),
        AggregateFunction::Min => arguments[0].clone(),
        AggregateFunction::Max => {
            let greatest = arguments.last().unwrap();
            let mut equal = arguments.iter();
            let first = equal.find(|value| compare(value, greatest, collation).is_eq());
            first.unwrap().clone()
        }
        AggregateFunction::GroupConcat => {
            let texts = arguments.iter().map(|value| match value {
                Value::Text(text) => text.clone().into_bytes(),
                Value::Blob(bytes) => bytes.clone(),
                other => other.to_string().into_bytes(),
            });
            text_or_blob(texts.collect::<Vec<Vec<u8>>>().join(&b","[..]))
        }
        AggregateFunction::Median | AggregateFunction::PercentileCont => {
            let mut numbers: Vec<f64> = arguments.iter().map(to_real).collect();
            numbers.sort_by(f64::total_cmp);
            let (below, above) = (numbers[(count - 1) / 2], numbers[count / 2]);
            Value::Real(below + (above - below) * 0.5)
        }
        AggregateFunction::VarPop
        | AggregateFunction::VarSamp
        | AggregateFunction::StddevPop
        | AggregateFunction::StddevSamp => unreachable!("they are rounded otherwise"),
    }
}
