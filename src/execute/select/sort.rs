//! ORDER BY.
//!
//! Rows are taken before the first is returned, within the limit of memory (`external_sort.rs`). If rows come in the order of the
//! first keys already, a part ends where these keys change. Invariant: rows with equal keys keep their order.

use std::sync::Arc;

use zipfdb_sql::query::SortKey;

use super::context::Context;
use super::external_sort::{ExternalSort, SortedRows};
use super::row::{Input, Operator};
use crate::Result;
use crate::batch::{BATCH_ROWS, Batch};
use crate::expression::Program;
use crate::runtime::interrupt::Pace;

pub(super) struct Sort {
    /// None once all rows are taken.
    input: Option<Input>,
    /// Rows that were taken and are not sorted yet.
    ahead: Option<Batch>,
    sort: ExternalSort,
    sorted: Option<SortedRows>,
    /// The columns by which rows come in order already: the first keys.
    given: Vec<usize>,
    pace: Pace,
}

/// The least number of rows that are sorted at a time, if they come in order of the first keys.
const PART_ROWS: usize = if cfg!(test) { 16 } else { 1 << 15 };

impl Sort {
    /// Sorts rows of `width` columns by `keys`, given that they come in order of the first `given` of them; `limit` is the most
    /// rows that are used.
    pub(super) fn new(
        input: Input,
        (program, width): (Arc<Program>, usize),
        keys: Vec<SortKey>,
        given: usize,
        limit: Option<u64>,
        context: &Context,
    ) -> Sort {
        let columns = keys[..given].iter();
        Sort {
            input: Some(input),
            ahead: None,
            sort: ExternalSort::new((&program, width), &keys, given, limit, context),
            sorted: None,
            given: columns
                .map_while(|key| program.column(key.expression))
                .collect(),
            pace: context.pace(),
        }
    }

    /// The next rows of the part that has `taken` rows so far, and whether they are its last.
    fn next_of_part(&mut self, taken: usize) -> Result<Option<(Batch, bool)>> {
        self.pace.step()?;
        let next = match (self.ahead.take(), &mut self.input) {
            (Some(batch), _) => Some(batch),
            (None, Some(input)) => input.next_batch(BATCH_ROWS)?,
            (None, None) => None,
        };
        let Some(batch) = next else {
            self.input = None;
            return Ok(None);
        };
        if self.given.is_empty() || taken + batch.len() < PART_ROWS {
            return Ok(Some((batch, false)));
        }
        let change = (1..batch.len())
            .rev()
            .find(|&row| self.changes(&batch, row));
        let Some(change) = change else {
            return Ok(Some((batch, false)));
        };
        self.ahead = Some(batch.slice(change..batch.len()));
        Ok(Some((batch.slice(0..change), true)))
    }

    /// Whether a row differs from the one before it in a column by which rows come in order.
    fn changes(&self, batch: &Batch, row: usize) -> bool {
        let mut columns = self.given.iter().map(|&column| &batch.columns()[column]);
        columns.any(|column| column.has_equal_numbers(row - 1, row) == Some(false))
    }

    /// Takes and sorts the rows of the next part.
    fn sort_part(&mut self) -> Result<Option<SortedRows>> {
        let mut taken = 0;
        while let Some((batch, is_last)) = self.next_of_part(taken)? {
            taken += batch.len();
            self.sort.take(batch)?;
            if is_last {
                break;
            }
        }
        self.sort.finish()
    }
}

impl Operator for Sort {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        loop {
            self.pace.step()?;
            if let Some(sorted) = &mut self.sorted
                && let Some(batch) = sorted.next_batch(rows_max)?
            {
                return Ok(Some(batch));
            }
            self.sorted = None;
            if self.input.is_none() && self.ahead.is_none() {
                return Ok(None);
            }
            self.sorted = self.sort_part()?;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::{CorpusSettings, Database, Value};

    /// Rows of a statement, as texts.
    fn rows(database: &Database, sql: &str) -> Vec<String> {
        let rows = database.query(sql, ()).unwrap();
        rows.map(|row| format!("{:?}", row.unwrap().into_values()))
            .collect()
    }

    #[test]
    fn rows_come_in_the_order_of_values_whatever_these_are() {
        let database = Database::in_memory().unwrap();
        let corpus = database.create_corpus("c", CorpusSettings::default());
        let corpus = corpus.unwrap();
        let word = |number: usize| match number % 7 {
            0 => format!("Word{}", number % 11),
            1 => format!("wORD{}", number % 13),
            2 => (number % 17).to_string(),
            3 => format!("e\u{301}{}", number % 5),
            _ => format!("x{}", number % 19),
        };
        let texts = (0..40).map(|file| {
            let words = (0..50).map(|place| word(file * 31 + place * place));
            (format!("f{file:02}"), words.collect::<Vec<_>>().join(" "))
        });
        let texts: Vec<(String, String)> = texts.collect();
        corpus.append_many(&texts).unwrap();
        database.execute_batch("RECOMPRESS c").unwrap();
        let keys = [
            "LOWER(word)",
            "SUBSTR(word, 2)",
            "NULLIF(SUBSTR(LOWER(word), 1, 1), 'w')",
            "CASE WHEN word GLOB '[0-9]*' THEN CAST(word AS INTEGER) ELSE word END",
            "LENGTH(word) * 1.5",
            "LOWER(word) COLLATE NOCASE",
            "SUBSTR(file, 2, 1)",
            "LOWER(word) || SUBSTR(file, 1, 2)",
        ];
        let directions = ["", " DESC", " NULLS LAST", " DESC NULLS FIRST"];
        for key in keys {
            for direction in directions {
                let order = format!("{key}{direction}, LENGTH(file || word) DESC, file, position");
                for limit in ["", " LIMIT 100"] {
                    let sql = format!("SELECT file, word, position FROM c ORDER BY {order}{limit}");
                    // A value that a subquery made is no text of a dictionary.
                    let plain = format!(
                        "SELECT file, word, position FROM (SELECT file || '' AS file, word || '' AS word, position FROM c) \
                         ORDER BY {order}{limit}"
                    );
                    assert_eq!(rows(&database, &sql), rows(&database, &plain), "{sql}");
                }
            }
        }
    }

    #[test]
    fn a_text_that_no_row_has_may_have_no_value() {
        let database = Database::in_memory().unwrap();
        let corpus = database.create_corpus("c", CorpusSettings::default());
        let files = [
            ("a", "1 2 3 9 8 7 1 2 3 4 5 6"),
            ("b", "9223372036854775807"),
        ];
        corpus.unwrap().append_many(&files).unwrap();
        database.execute_batch("RECOMPRESS c").unwrap();
        let key = "ABS(CAST(word AS INTEGER) * -1 - 1)";
        let all = database.query(&format!("SELECT word FROM c ORDER BY {key}"), ());
        let failed = all.and_then(|rows| rows.collect::<Result<Vec<_>, _>>());
        assert!(failed.is_err(), "{failed:?}");
        let sql =
            format!("SELECT word FROM c WHERE file = 'a' ORDER BY {key} DESC, position LIMIT 3");
        let found: Vec<Value> = (database.query(&sql, ()).unwrap())
            .map(|row| row.unwrap().into_values().remove(0))
            .collect();
        assert_eq!(found, ["9", "8", "7"].map(Value::from));
    }
}
