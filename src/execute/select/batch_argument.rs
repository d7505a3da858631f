//! What aggregates take of the rows of a batch.
//!
//! Invariant: whatever is said of an aggregate holds for all rows of the batch.

use zipfdb_sql::query::{Aggregate, AggregateFunction};

use crate::batch::{Batch, BatchColumn};
use crate::expression::Program;

/// What an aggregate takes of the rows of a batch.
pub(super) enum BatchArgument {
    /// That they are there.
    Rows,
    /// Their values of this column, which are integers.
    Integers(usize),
    /// What has to be computed row by row.
    Computed,
}

impl BatchArgument {
    pub(super) fn of(aggregate: &Aggregate, program: &Program, batch: &Batch) -> BatchArgument {
        let column = aggregate
            .argument
            .and_then(|argument| program.column(argument));
        let integers =
            column.filter(|&column| matches!(batch.columns()[column], BatchColumn::Integers(_)));
        match (aggregate.distinct || aggregate.filter.is_some(), integers) {
            (true, _) => BatchArgument::Computed,
            (false, _) if counts_rows(aggregate, program, batch) => BatchArgument::Rows,
            (false, Some(column)) => BatchArgument::Integers(column),
            (false, None) => BatchArgument::Computed,
        }
    }
}

/// Whether an aggregate counts rows, or values of a column that has no NULL.
pub(super) fn counts_rows(aggregate: &Aggregate, program: &Program, batch: &Batch) -> bool {
    let may_be_null = |argument| match program.column(argument) {
        Some(column) => matches!(batch.columns()[column], BatchColumn::Values(_)),
        None => true,
    };
    aggregate.function == AggregateFunction::Count
        && aggregate.filter.is_none()
        && !aggregate.argument.is_some_and(may_be_null)
}
