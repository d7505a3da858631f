//! Queries built by hand, on made-up rows and on corpora, compared with plain answers.
//!
//! `plain` is the oracle: it evaluates a block one clause after the other, on rows in memory.

#![allow(clippy::unwrap_used)]

mod builder;
mod corpora;
mod interrupts;
mod made_up;
mod plain;

use self::builder::BlockBuilder;
use super::*;
use crate::{Error, Value};

/// The values of all rows.
fn values(rows: Rows) -> Vec<Vec<Value>> {
    rows.map(|row| row.unwrap().into_values()).collect()
}

/// The values of all rows, taken as columns of at most `rows_max` rows, in turn with rows.
fn batched(mut rows: Rows, rows_max: usize) -> Vec<Vec<Value>> {
    let mut values = Vec::new();
    while let Some(batch) = rows.next_batch(rows_max).unwrap() {
        assert!((1..=rows_max).contains(&batch.len()));
        values.extend((0..batch.len()).map(|row| batch.row(row)));
        values.extend(rows.next().map(|row| row.unwrap().into_values()));
    }
    values
}

/// The lines of an EXPLAIN.
fn lines(rows: Rows) -> Vec<String> {
    let lines = values(rows).into_iter().map(|row| match &row[..] {
        [Value::Text(line)] => line.clone(),
        other => panic!("{other:?}"),
    });
    lines.collect()
}
