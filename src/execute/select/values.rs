//! VALUES: rows of constants.
//!
//! Invariant: rows come in the order in which they were written, each evaluated when it is asked for.

use std::sync::Arc;

use zipfdb_sql::query::ExpressionId;

use super::row::{Operator, WeightedRow};
use crate::Result;
use crate::expression::{Evaluator, Program};
use crate::interrupt::Pace;

pub(super) struct Values {
    evaluator: Evaluator<Arc<Program>>,
    values: std::vec::IntoIter<ExpressionId>,
    width: usize,
    pace: Pace,
}

impl Values {
    /// The rows that `values` make, `width` for each.
    pub(super) fn new(
        program: Arc<Program>,
        values: Vec<ExpressionId>,
        width: usize,
        pace: Pace,
    ) -> Values {
        Values {
            evaluator: Evaluator::of(program),
            values: values.into_iter(),
            width,
            pace,
        }
    }
}

impl Operator for Values {
    fn next(&mut self) -> Result<Option<WeightedRow>> {
        self.pace.step()?;
        self.evaluator.next_row();
        let mut values = Vec::with_capacity(self.width);
        for id in self.values.by_ref().take(self.width) {
            // Cloned: the same constant may stand in a row more than once.
            values.push(self.evaluator.value(&[], id)?.clone());
        }
        Ok((!values.is_empty()).then_some(WeightedRow { values, times: 1 }))
    }
}
