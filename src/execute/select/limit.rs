//! LIMIT and OFFSET.
//!
//! Invariant: rows are counted with how often they occur; a row may be cut to fewer times. Once the limit is reached, no
//! further row is asked for.

use super::row::{Input, Operator, WeightedRow};
use crate::Result;
use crate::runtime::interrupt::Pace;

pub(super) struct Limit {
    input: Input,
    /// Rows still to leave out.
    offset: u64,
    /// Rows still to give.
    limit: u64,
    pace: Pace,
}

impl Limit {
    pub(super) fn new(input: Input, offset: u64, limit: Option<u64>, pace: Pace) -> Limit {
        Limit {
            input,
            pace,
            offset,
            limit: limit.unwrap_or(u64::MAX),
        }
    }
}

impl Operator for Limit {
    fn next(&mut self) -> Result<Option<WeightedRow>> {
        while self.limit > 0 {
            self.pace.step()?;
            let Some(mut row) = self.input.next()? else {
                return Ok(None);
            };
            let skipped = row.times.min(self.offset);
            self.offset -= skipped;
            row.times = (row.times - skipped).min(self.limit);
            self.limit -= row.times;
            if row.times > 0 {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }
}
