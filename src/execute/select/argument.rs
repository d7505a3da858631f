//! What aggregates take of the rows of a batch.
//!
//! Invariant: whatever is said of an aggregate holds for all rows of the batch.

use zipfdb_sql::query::{Aggregate, AggregateFunction, Collation};

use crate::batch::{Batch, BatchColumn, TextDictionary};
use crate::expression::Program;

/// What an aggregate takes of the rows of a batch that pass its FILTER.
#[derive(Debug, Clone, Copy)]
pub(super) enum BatchArgument {
    /// That they are there.
    Rows,
    /// Their values of this column, which are integers.
    Integers(usize),
    /// The least or greatest of their values of this column by bytes, which are numbered texts.
    Texts(usize),
    /// What has to be computed row by row.
    Computed,
}

impl BatchArgument {
    pub(super) fn of(aggregate: &Aggregate, program: &Program, batch: &Batch) -> BatchArgument {
        let column = aggregate
            .argument
            .and_then(|argument| program.column(argument));
        if aggregate.function == AggregateFunction::Count && !may_be_null(aggregate, program, batch)
        {
            return BatchArgument::Rows;
        }
        match column.map(|column| (column, &batch.columns()[column])) {
            Some((column, BatchColumn::Integers(_))) => BatchArgument::Integers(column),
            Some((column, BatchColumn::Words { .. })) if is_extreme_by_bytes(aggregate) => {
                BatchArgument::Texts(column)
            }
            _ => BatchArgument::Computed,
        }
    }
}

fn is_extreme_by_bytes(aggregate: &Aggregate) -> bool {
    let is_extreme = matches!(
        aggregate.function,
        AggregateFunction::Min | AggregateFunction::Max
    );
    is_extreme && aggregate.collation == Collation::Binary
}

/// The number of the text that MIN or MAX takes of some; none if there is none. BLOBs come after all texts.
pub(super) fn extreme_text(
    function: AggregateFunction,
    numbers: &[u32],
    dictionary: &TextDictionary,
) -> Option<u32> {
    let place = |number: u32| {
        let bytes = dictionary.bytes(number);
        (std::str::from_utf8(bytes).is_err(), bytes)
    };
    let (&first, rest) = numbers.split_first()?;
    let mut best = (first, place(first));
    for &number in rest {
        if number != best.0 {
            let place = place(number);
            let is_better = match function {
                AggregateFunction::Max => place > best.1,
                _ => place < best.1,
            };
            if is_better {
                best = (number, place);
            }
        }
    }
    Some(best.0)
}

/// Whether an aggregate counts rows, or values of a column that has no NULL.
pub(super) fn counts_rows(aggregate: &Aggregate, program: &Program, batch: &Batch) -> bool {
    aggregate.function == AggregateFunction::Count
        && aggregate.filter.is_none()
        && !may_be_null(aggregate, program, batch)
}

/// Whether the argument of an aggregate may be NULL for some row.
fn may_be_null(aggregate: &Aggregate, program: &Program, batch: &Batch) -> bool {
    let may_be_null = |argument| match program.column(argument) {
        Some(column) => matches!(batch.columns()[column], BatchColumn::Values(_)),
        None => true,
    };
    aggregate.argument.is_some_and(may_be_null)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::{Database, Value};

    #[test]
    fn words_that_are_no_utf8_come_after_all_texts() {
        let database = Database::in_memory().unwrap();
        let sql = "CREATE CORPUS c WITH (tokenizer = 'whitespace');
                   INSERT INTO c (file, content) VALUES ('f', X'6220FF2061207A20C3A4'), ('g', X'F020E0')";
        database.execute(sql).unwrap();
        let extremes = |condition: &str| {
            let sql = format!("SELECT MIN(word), MAX(word) FROM c WHERE {condition}");
            let mut rows = database.query(&sql).unwrap();
            rows.next().unwrap().unwrap().into_values()
        };
        let blob = |byte: u8| Value::Blob(vec![byte]);
        assert_eq!(extremes("1"), [Value::from("a"), blob(0xff)]);
        assert_eq!(extremes("file = 'g'"), [blob(0xe0), blob(0xf0)]);
        let texts = "word IN ('b', 'z', '\u{e4}')";
        assert_eq!(extremes(texts), [Value::from("b"), Value::from("\u{e4}")]);
    }
}
