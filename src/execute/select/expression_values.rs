//! `ExpressionValues`: the values of an expression on rows, made once for each text where a column of numbered texts alone
//! decides.
//!
//! Invariant: a value is what the evaluator gives for the row.

use std::sync::Arc;

use zipfdb_sql::query::ExpressionId;

use super::by_text::ByText;
use super::row::{RowAtHand, value_size};
use crate::batch::Batch;
use crate::expression::{Evaluator, Program};
use crate::{Result, Value};

/// The part of its memory that an operator gives to what is known of texts.
const TEXTS_SHARE: usize = 8;

/// The values of an expression.
#[derive(Debug)]
pub(super) struct ExpressionValues {
    expression: ExpressionId,
    at_hand: RowAtHand,
    by_text: ByText,
    /// Those that texts have.
    values: Vec<Value>,
    bytes: usize,
    bytes_max: usize,
}

impl ExpressionValues {
    /// The values of `expression`. Those that are kept for texts take about `bytes_max` bytes at most.
    pub(super) fn new(
        expression: ExpressionId,
        program: &Program,
        bytes_max: usize,
    ) -> ExpressionValues {
        let columns = program.columns([expression]);
        let is_column = program.column(expression).is_some();
        // A column's values are there.
        let by_text = ByText::new(if is_column { &[] } else { &columns }, bytes_max / 2);
        ExpressionValues {
            expression,
            by_text,
            at_hand: RowAtHand::new(columns),
            values: Vec::new(),
            bytes: 0,
            bytes_max: bytes_max / 2,
        }
    }

    /// The values of each expression of an operator that may keep `memory` bytes.
    pub(super) fn all(
        expressions: &[ExpressionId],
        program: &Program,
        memory: usize,
    ) -> Vec<ExpressionValues> {
        let share = memory / TEXTS_SHARE / expressions.len().max(1);
        let values = expressions.iter();
        let values = values.map(|&expression| ExpressionValues::new(expression, program, share));
        values.collect()
    }

    /// The expression.
    pub(super) fn expression(&self) -> ExpressionId {
        self.expression
    }

    /// Whether texts alone decide the values of a batch.
    pub(super) fn are_by_text(&mut self, batch: &Batch) -> bool {
        self.by_text.texts(batch).is_some()
    }

    /// Does some work on the value for a row.
    ///
    /// # Errors
    /// Those of the evaluator, and of `work`.
    pub(super) fn with<A>(
        &mut self,
        batch: &mut Batch,
        row: usize,
        evaluator: &mut Evaluator<Arc<Program>>,
        work: impl FnOnce(&Value) -> Result<A>,
    ) -> Result<A> {
        let text = self.by_text.texts(batch).map(|texts| texts[row]);
        if let Some(known) = text.and_then(|text| self.by_text.get(text)) {
            return work(&self.values[known as usize]);
        }
        evaluator.next_row();
        let Some(text) = text else {
            return self.at_hand.with(batch, row, |values| {
                work(evaluator.value(values, self.expression)?)
            });
        };
        let value = self
            .at_hand
            .with(batch, row, |values| evaluator.take(values, self.expression))?;
        if self.bytes > self.bytes_max {
            self.clear();
            // The next row begins anew.
            return work(&value);
        }
        self.bytes += size_of::<Value>() + value_size(&value);
        self.by_text.set(text, self.values.len() as u32);
        self.values.push(value);
        work(&self.values[self.values.len() - 1])
    }

    /// About how many bytes values take that are kept.
    pub(super) fn bytes(&self) -> usize {
        self.by_text.bytes() + self.bytes
    }

    /// Forgets them.
    pub(super) fn clear(&mut self) {
        self.by_text.clear();
        self.values = Vec::new();
        self.bytes = 0;
    }
}
