//! `RankedTexts`: for each text of a dictionary the place of a sort key's value in its order, where a column of numbered texts alone
//! decides.
//!
//! Invariant: rows that are sorted by the column of places, in the direction of the key, come in the order of the key. If the value of
//! one text cannot be computed, no text of its dictionary has a place.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use zipfdb_sql::query::SortKey;

use super::by_text::{sole_column, texts_of};
use super::context::Context;
use super::key::{KeyOrder, add_key};
use super::word_order::dense_ranks;
use crate::batch::{Batch, BatchColumn, TextDictionary};
use crate::expression::{Evaluator, Program};
use crate::runtime::interrupt::check;
use crate::{Error, Result, Value};

/// Places are made once rows are as many as texts, divided by this: a text then costs as much as its row where values are sorted.
const TEXTS_OF_ROW: usize = 8;

/// Texts that one task looks at, at least.
const TASK_TEXTS: usize = 1 << 12;

/// The part of memory that the values of all texts may take while they are sorted.
const VALUES_SHARE: usize = 4;

/// The places of the values of a key.
#[derive(Debug)]
pub(super) struct RankedTexts {
    key: SortKey,
    program: Arc<Program>,
    /// The column, if it alone decides.
    column: Option<usize>,
    known: Option<KnownPlaces>,
}

/// What is known of a dictionary.
#[derive(Debug)]
struct KnownPlaces {
    dictionary: TextDictionary,
    /// By number of the text; none if there are no places.
    places: Option<Vec<u32>>,
}

impl RankedTexts {
    pub(super) fn new(key: &SortKey, program: &Arc<Program>) -> RankedTexts {
        let columns = program.columns([key.expression]);
        RankedTexts {
            key: *key,
            program: program.clone(),
            column: sole_column(&columns),
            known: None,
        }
    }

    /// How many rows there have to be before [`RankedTexts::make`] should be called for a batch; none if it need not be.
    pub(super) fn rows_wanted(&self, batch: &Batch) -> Option<usize> {
        let (_, dictionary) = texts_of(batch, self.column)?;
        let known = self.known.as_ref();
        let is_known = known.is_some_and(|known| known.dictionary.is_same(dictionary));
        (!is_known).then(|| dictionary.len() / TEXTS_OF_ROW)
    }

    /// Finds out the places of the texts of a batch.
    ///
    /// # Errors
    /// If the query has to end.
    pub(super) fn make(&mut self, batch: &Batch, context: &Context) -> Result<()> {
        let (Some(column), Some((_, dictionary))) = (self.column, texts_of(batch, self.column))
        else {
            return Ok(());
        };
        let (key, program, texts) = (self.key, self.program.clone(), dictionary.clone());
        let (width, most) = (batch.columns().len(), context.memory / VALUES_SHARE);
        let values = context.values.clone();
        let places = context.interrupt.apart(&context.pool, move |stop| {
            let bytes = AtomicUsize::new(0);
            let ranges = (0..texts.len() as u32) // numbers are u32
                .into_par_iter()
                .step_by(TASK_TEXTS)
                .map(|first| {
                    check(stop)?;
                    let end = (first as usize + TASK_TEXTS).min(texts.len()) as u32;
                    let mut evaluator = Evaluator::of(program.clone());
                    let mut row = vec![Value::Null; width];
                    let mut keys = Vec::with_capacity((end - first) as usize);
                    for number in first..end {
                        row[column] = texts.value(number);
                        evaluator.next_row();
                        let value = evaluator.value(&row, key.expression)?;
                        let mut bytes = Vec::new();
                        add_key(value, KeyOrder::of(&key), &mut bytes, &values)?;
                        keys.push((bytes, number));
                    }
                    let taken = keys.iter().map(|(key, _)| key.len() + size_of_val(key));
                    let taken = taken.sum::<usize>();
                    match bytes.fetch_add(taken, Ordering::Relaxed) + taken > most {
                        true => Ok(None),
                        false => Ok(Some(keys)),
                    }
                });
            let keys = match ranges.collect::<Result<Option<Vec<_>>>>() {
                Ok(Some(keys)) => keys,
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                // It may be of a text that no row has.
                Ok(None) | Err(_) => return Ok(None),
            };
            let mut keys: Vec<(Vec<u8>, u32)> = keys.into_iter().flatten().collect();
            keys.par_sort_unstable();
            check(stop)?;
            Ok(Some(dense_ranks(&keys)))
        })?;
        self.known = Some(KnownPlaces {
            dictionary: dictionary.clone(),
            places,
        });
        Ok(())
    }

    /// The places of the values of a batch, if they are known.
    pub(super) fn column(&self, batch: &Batch) -> Option<BatchColumn> {
        let (indices, dictionary) = texts_of(batch, self.column)?;
        let known = self.known.as_ref()?;
        let places = known.places.as_ref()?;
        known.dictionary.is_same(dictionary).then(|| {
            let places = indices.iter().map(|&text| i64::from(places[text as usize]));
            // The sort turns numbers round if the key descends, and places have its order already.
            BatchColumn::Integers(match self.key.descending {
                false => places.collect(),
                true => places.map(|place| -place).collect(),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::{CorpusSettings, Database, Value};

    /// Rows of a statement, as texts.
    fn rows(database: &Database, sql: &str) -> Vec<String> {
        let rows = database.query(sql).unwrap();
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
        database.execute("RECOMPRESS c").unwrap();
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
        database.execute("RECOMPRESS c").unwrap();
        let key = "ABS(CAST(word AS INTEGER) * -1 - 1)";
        let all = database.query(&format!("SELECT word FROM c ORDER BY {key}"));
        let failed = all.and_then(|rows| rows.collect::<Result<Vec<_>, _>>());
        assert!(failed.is_err(), "{failed:?}");
        let sql =
            format!("SELECT word FROM c WHERE file = 'a' ORDER BY {key} DESC, position LIMIT 3");
        let found: Vec<Value> = (database.query(&sql).unwrap())
            .map(|row| row.unwrap().into_values().remove(0))
            .collect();
        assert_eq!(found, ["9", "8", "7"].map(Value::from));
    }
}
