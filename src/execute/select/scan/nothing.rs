//! The scan of no FROM: one row without columns.
//!
//! Invariant: exactly one row.

use super::super::row::{Operator, WeightedRow};
use crate::Result;

/// Gives one row without columns.
pub(crate) struct Nothing {
    is_done: bool,
}

impl Nothing {
    pub(crate) fn new() -> Nothing {
        Nothing { is_done: false }
    }
}

impl Operator for Nothing {
    fn next(&mut self) -> Result<Option<WeightedRow>> {
        let row = WeightedRow {
            values: Vec::new(),
            times: 1,
        };
        Ok((!std::mem::replace(&mut self.is_done, true)).then_some(row))
    }
}
