//! The scan of a query without FROM: one row without columns.
//!
//! Invariant: exactly one row.

use super::super::row::Operator;
use crate::Result;
use crate::batch::Batch;

/// Returns one row without columns.
pub(crate) struct Nothing {
    is_done: bool,
}

impl Nothing {
    pub(crate) fn new() -> Nothing {
        Nothing { is_done: false }
    }
}

impl Operator for Nothing {
    fn next_batch(&mut self, _: usize) -> Result<Option<Batch>> {
        let is_done = std::mem::replace(&mut self.is_done, true);
        Ok((!is_done).then(|| Batch::new(Vec::new(), 1, None)))
    }
}
