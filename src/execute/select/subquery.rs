//! Subqueries in expressions: each is answered once, before the block that it stands in, and its answer takes its place.
//!
//! Invariant: the returned block has no subquery in its expressions. A set of values stays within the memory of an operator, or
//! the query fails; equal values are stored once.

use std::sync::Arc;

use zipfdb_sql::query::{Affinity, Block, Collation, Expression, Query};

use super::build::Builder;
use super::distinct::Distinct;
use super::row::{Input, Operator, value_size};
use crate::batch::BATCH_ROWS;
use crate::expression::{apply_affinity, compare};
use crate::segment::cache::Reservation;
use crate::{Error, Result, Value};

/// Bytes of a value of a set beside its own: itself, the counts of its `Arc`, and its places in the lists that hold it.
const VALUE_BYTES: usize = size_of::<Value>() + 6 * size_of::<usize>();

impl Builder<'_> {
    /// The block with answers in place of subqueries, and the memory of their values.
    ///
    /// # Errors
    /// Those of the subqueries, and if a set of values does not fit into memory.
    pub(super) fn answered(
        &mut self,
        query: &Query,
        block: &Block,
    ) -> Result<(Block, Reservation)> {
        let mut block = block.clone();
        let mut reservation = self.context.reservation();
        let mut bytes = 0;
        for expression in &mut block.expressions {
            let answer = match expression {
                Expression::Subquery { block } => {
                    Expression::Value(Arc::new(self.scalar(query, *block)?))
                }
                Expression::Exists { block } => {
                    let (mut input, below) = self.subquery(query, *block)?;
                    let exists = input.next_batch(1)?.is_some();
                    self.plan.end_subquery(below, "exists", u64::from(exists));
                    Expression::Value(Arc::new(Value::Integer(i64::from(exists))))
                }
                Expression::InSubquery {
                    operand,
                    block,
                    affinity,
                    negated,
                    collation,
                } => {
                    let values = self.values_of(query, *block, *affinity, &mut bytes)?;
                    reservation.cover(bytes);
                    Expression::InValues {
                        operand: *operand,
                        values: Arc::new(values),
                        negated: *negated,
                        collation: *collation,
                    }
                }
                _ => continue,
            };
            *expression = answer;
        }
        Ok((block, reservation))
    }

    /// The only output of the first row.
    fn scalar(&mut self, query: &Query, block: usize) -> Result<Value> {
        let (mut input, below) = self.subquery(query, block)?;
        let batch = input.next_batch(1)?;
        self.plan
            .end_subquery(below, "one value", u64::from(batch.is_some()));
        let value = batch.and_then(|batch| Some(batch.columns().first()?.value(0)));
        Ok(value.unwrap_or(Value::Null))
    }

    /// The distinct values of the only output, sorted; `bytes` grows by their size.
    fn values_of(
        &mut self,
        query: &Query,
        block: usize,
        affinity: Affinity,
        bytes: &mut usize,
    ) -> Result<Vec<Arc<Value>>> {
        let (input, below) = self.subquery(query, block)?;
        let mut rows = Distinct::new(input, 1, &self.context)?;
        let mut values = Vec::new();
        let mut pace = self.context.pace();
        while let Some(batch) = rows.next_batch(BATCH_ROWS)? {
            for row in 0..batch.len() {
                pace.step()?;
                let Some(column) = batch.columns().first() else {
                    continue;
                };
                let value = match affinity {
                    Affinity::None => column.value(row),
                    affinity => apply_affinity(&column.value(row), affinity, &self.context.values)?,
                };
                *bytes = bytes.saturating_add(value_size(&value) + VALUE_BYTES);
                if *bytes > self.context.memory {
                    return Err(Error::TooLarge {
                        what: "the values of a subquery behind IN".to_owned(),
                        bytes: *bytes as u64,
                        setting: "memory_limit",
                        left: self.context.memory as u64,
                    });
                }
                values.push(Arc::new(value));
            }
        }
        values.sort_by(|a, b| compare(a, b, Collation::Binary));
        self.plan
            .end_subquery(below, "set of values", values.len() as u64);
        Ok(values)
    }

    /// Builds a subquery, and returns the argument of `end_subquery` with it.
    fn subquery(&mut self, query: &Query, block: usize) -> Result<(Input, Vec<usize>)> {
        let below = self.plan.begin_subquery();
        let input = self.block(query, block)?;
        Ok((input, below))
    }
}
