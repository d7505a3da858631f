//! LIMIT and OFFSET.
//!
//! Invariant: rows are counted with their multiplicities; the multiplicity of a row may be cut. Once the limit is reached, no
//! further row is asked for.

use super::row::{Input, Operator};
use crate::Result;
use crate::batch::Batch;
use crate::runtime::interrupt::Pace;

pub(super) struct Limit {
    input: Input,
    /// Rows still to skip.
    offset: u64,
    /// Rows still to return.
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
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        while self.limit > 0 {
            self.pace.step()?;
            let wanted = self.offset.saturating_add(self.limit);
            let wanted = usize::try_from(wanted).map_or(rows_max, |wanted| wanted.min(rows_max));
            let Some(mut batch) = self.input.next_batch(wanted)? else {
                return Ok(None);
            };
            // The number of rows to skip whole, and the part of the next one's multiplicity to skip.
            let (mut first, mut skipped) = (0, 0);
            while first < batch.len() {
                skipped = batch.times_of(first).min(self.offset);
                self.offset -= skipped;
                if skipped < batch.times_of(first) {
                    break;
                }
                first += 1;
            }
            if first == batch.len() {
                continue;
            }
            if first > 0 {
                batch = batch.slice(first..batch.len());
            }
            let mut given = 0;
            for row in 0..batch.len() {
                let left = if row == 0 { skipped } else { 0 };
                let times = (batch.times_of(row) - left).min(self.limit);
                if times == 0 {
                    break;
                }
                if let Some(all) = &mut batch.times {
                    all[row] = times;
                }
                self.limit -= times;
                given += 1;
            }
            batch.truncate(given);
            return Ok(Some(batch));
        }
        Ok(None)
    }
}
