//! GROUP BY of rows that a scan gives once for each group: every row is a group, whose size is how often the row occurs.
//!
//! Invariant: no two rows have equal keys; the scan promises it. Nothing is kept, and the order of rows stays.

use std::sync::Arc;

use zipfdb_sql::query::Aggregation;

use super::aggregate::take_arguments;
use super::groups::{Group, is_distinct};
use super::row::{Input, Operator, WeightedRow};
use crate::Result;
use crate::expression::{Evaluator, Program};

pub(super) struct AggregateUnique {
    input: Input,
    evaluator: Evaluator<Arc<Program>>,
    aggregation: Aggregation,
}

impl AggregateUnique {
    pub(super) fn new(
        input: Input,
        program: Arc<Program>,
        aggregation: Aggregation,
    ) -> AggregateUnique {
        AggregateUnique {
            input,
            evaluator: Evaluator::of(program),
            aggregation,
        }
    }
}

impl Operator for AggregateUnique {
    fn next(&mut self) -> Result<Option<WeightedRow>> {
        let Some(row) = self.input.next()? else {
            return Ok(None);
        };
        self.evaluator.next_row();
        let aggregation = &self.aggregation;
        let keys = aggregation.keys.iter();
        let keys = keys.map(|key| self.evaluator.take(&row.values, key.expression));
        let mut group = Group::new(aggregation, keys.collect::<Result<_>>()?);
        take_arguments(&mut self.evaluator, aggregation, &row, |index, value| {
            let times = if is_distinct(aggregation, index) {
                1
            } else {
                row.times
            };
            group.take(aggregation, index, value, times);
            Ok(())
        })?;
        let values = group.finish(aggregation)?;
        Ok(Some(WeightedRow { values, times: 1 }))
    }
}
