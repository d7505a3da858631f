//! UNION ALL: the rows of several inputs, one input after the other.
//!
//! Invariant: an input is dropped when its rows are returned. Texts pass on as texts: their numbers in a dictionary have another
//! meaning in each input.

use super::row::{Input, Operator};
use crate::Result;
use crate::batch::{Batch, BatchColumn, ColumnBuilder};

pub(super) struct Union {
    /// The next input is the last.
    inputs: Vec<Input>,
}

impl Union {
    pub(super) fn new(mut inputs: Vec<Input>) -> Union {
        inputs.reverse();
        Union { inputs }
    }
}

impl Operator for Union {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        while let Some(input) = self.inputs.last_mut() {
            if let Some(mut batch) = input.next_batch(rows_max)? {
                let (rows, times) = (batch.len(), batch.times.take());
                let columns = batch.into_columns().into_iter().map(without_dictionary);
                return Ok(Some(Batch::new(columns.collect(), rows, times)));
            }
            self.inputs.pop();
        }
        Ok(None)
    }
}

fn without_dictionary(column: BatchColumn) -> BatchColumn {
    match column {
        BatchColumn::Words { .. } | BatchColumn::Ngrams { .. } => {
            let mut texts = ColumnBuilder::default();
            (0..column.len()).for_each(|row| texts.push(column.value(row)));
            texts.finish()
        }
        other => other,
    }
}
