//! Adds values to a block that is bound.
//!
//! Invariant: what the block means does not change, for nothing in it refers to the new values yet.

use super::arena::{for_each_operand, for_each_root};
use crate::query::{Block, Expression, ExpressionId};
use crate::value::Value;

impl Block {
    /// Puts values in front of all expressions, the first with the id 0. All other ids of the block move on by their number.
    pub fn put_first(&mut self, values: Vec<Value>) {
        // No more than there are expressions, which are fewer than 2^31.
        let count = values.len() as u32;
        let shift = |id: &mut ExpressionId| id.0 += count;
        for expression in &mut self.expressions {
            for_each_operand(expression, shift);
        }
        for_each_root(self, shift);
        let values = values
            .into_iter()
            .map(|value| Expression::Value(value.into()));
        self.expressions.splice(0..0, values);
    }
}
