//! Content of files, read for the rows that are left after sorting and LIMIT.
//!
//! Invariant: only deferred columns change; order and number of rows stay.

use super::row::{Input, Operator, WeightedRow};
use super::scan::Fetch;
use crate::Result;

pub(super) struct FetchDeferred {
    input: Input,
    fetch: Box<dyn Fetch>,
}

impl FetchDeferred {
    pub(super) fn new(input: Input, fetch: Box<dyn Fetch>) -> FetchDeferred {
        FetchDeferred { input, fetch }
    }
}

impl Operator for FetchDeferred {
    fn next(&mut self) -> Result<Option<WeightedRow>> {
        let Some(mut row) = self.input.next()? else {
            return Ok(None);
        };
        self.fetch.fetch(&mut row.values)?;
        Ok(Some(row))
    }
}
