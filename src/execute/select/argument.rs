//! The arguments of aggregates in the rows of a batch.
//!
//! Invariant: a property of an aggregate holds for all rows of the batch.

use zipfdb_sql::query::{Aggregate, AggregateFunction, Collation};

use crate::batch::{Batch, BatchColumn, TextDictionary};
use crate::expression::Program;

fn is_extreme_by_bytes(aggregate: &Aggregate) -> bool {
    let is_extreme = matches!(
        aggregate.function,
        AggregateFunction::Min | AggregateFunction::Max
    );
    is_extreme && aggregate.collation == Collation::Binary
}

/// The number of the text that MIN or MAX takes of some, by bytes; none if there is none, or for another aggregate. BLOBs come
/// after all texts.
pub(super) fn extreme_text(
    aggregate: &Aggregate,
    numbers: &[u32],
    dictionary: &TextDictionary,
) -> Option<u32> {
    if !is_extreme_by_bytes(aggregate) {
        return None;
    }
    let place = |number: u32| {
        let bytes = dictionary.bytes(number);
        (std::str::from_utf8(bytes).is_err(), bytes)
    };
    let (&first, rest) = numbers.split_first()?;
    let mut best = (first, place(first));
    for &number in rest {
        if number != best.0 {
            let place = place(number);
            let is_better = match aggregate.function {
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
pub(super) fn may_be_null(aggregate: &Aggregate, program: &Program, batch: &Batch) -> bool {
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
        database.execute_batch(sql).unwrap();
        let extremes = |condition: &str| {
            let sql = format!("SELECT MIN(word), MAX(word) FROM c WHERE {condition}");
            let mut rows = database.query(&sql, ()).unwrap();
            rows.next().unwrap().unwrap().into_values()
        };
        let blob = |byte: u8| Value::Blob(vec![byte]);
        assert_eq!(extremes("1"), [Value::from("a"), blob(0xff)]);
        assert_eq!(extremes("file = 'g'"), [blob(0xe0), blob(0xf0)]);
        let texts = "word IN ('b', 'z', '\u{e4}')";
        assert_eq!(extremes(texts), [Value::from("b"), Value::from("\u{e4}")]);
    }
}
