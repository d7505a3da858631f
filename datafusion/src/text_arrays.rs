//! `TextArrays`: all texts of dictionaries as arrays of Arrow, from which those of rows are taken by their numbers.
//!
//! Invariant: an array is made once as many rows as a part of its texts have been made one by one, so that neither few rows nor many
//! take much longer than they must. It goes when no answer can have its dictionary any more.

use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{ArrayRef, AsArray, StringViewArray, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::error::Result;
use zipfdb::batch::{TextDictionary, WeakTextDictionary};

use crate::text_views::TextViews;

/// A dictionary becomes an array once as many rows as it has texts, divided by this, were made without.
const ROWS_SHARE: usize = 4;

/// Dictionaries that are known at a time at most: those of words and files of some corpora.
const KNOWN_MAX: usize = 8;

/// Arrays of the dictionaries that answers had last.
#[derive(Debug, Default)]
pub(crate) struct TextArrays(Mutex<Vec<KnownTexts>>);

/// A dictionary that answers have had.
#[derive(Debug)]
struct KnownTexts {
    dictionary: WeakTextDictionary,
    /// Rows that were made of it one by one.
    rows: usize,
    texts: Texts,
}

#[derive(Debug)]
enum Texts {
    NotMade,
    Made(StringViewArray),
    /// A word is no UTF-8. Rows may have none of those.
    NotText,
}

impl TextArrays {
    /// The texts of a dictionary with these numbers; none if it is not time to make an array of all its texts, or there is none.
    ///
    /// # Errors
    /// If a number is not in the dictionary.
    pub(crate) fn take(
        &self,
        dictionary: &TextDictionary,
        indices: &[u32],
    ) -> Result<Option<ArrayRef>> {
        let Some(texts) = self.texts(dictionary, indices.len()) else {
            return Ok(None);
        };
        let taken = take(&texts, &UInt32Array::from(indices.to_vec()), None)?;
        // Long texts are copied, so that a batch holds no more than its own.
        Ok(Some(if texts.data_buffers().is_empty() {
            taken
        } else {
            Arc::new(taken.as_string_view().gc())
        }))
    }

    fn texts(&self, dictionary: &TextDictionary, rows: usize) -> Option<StringViewArray> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|known| known.dictionary.is_alive());
        let place = match known
            .iter()
            .position(|known| known.dictionary.is_of(dictionary))
        {
            Some(place) => place,
            None => {
                if known.len() == KNOWN_MAX {
                    known.remove(0);
                }
                known.push(KnownTexts {
                    dictionary: dictionary.downgrade(),
                    rows: 0,
                    texts: Texts::NotMade,
                });
                known.len() - 1
            }
        };
        let known = &mut known[place];
        if matches!(known.texts, Texts::NotMade) {
            if known.rows < dictionary.len() / ROWS_SHARE {
                known.rows += rows;
                return None;
            }
            known.texts = all_texts(dictionary).map_or(Texts::NotText, Texts::Made);
        }
        match &known.texts {
            Texts::Made(texts) => Some(texts.clone()),
            Texts::NotMade | Texts::NotText => None,
        }
    }
}

/// None if one of them is no UTF-8, or has 4 GiB.
fn all_texts(dictionary: &TextDictionary) -> Option<StringViewArray> {
    let mut texts = TextViews::default();
    // Numbers are u32.
    (0..dictionary.len() as u32).for_each(|number| texts.push(dictionary.bytes(number)));
    texts.array().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use zipfdb::Database;
    use zipfdb::batch::BatchColumn;

    use super::*;

    /// The words of a corpus of one file.
    fn words(database: &Database) -> TextDictionary {
        let mut rows = database.query("SELECT word FROM c", ()).unwrap();
        let batch = rows.next_batch(100).unwrap().unwrap();
        match batch.into_columns().remove(0) {
            BatchColumn::Words { dictionary, .. } => dictionary,
            other => panic!("{other:?}"),
        }
    }

    fn database(content: &str) -> Database {
        let database = Database::in_memory().unwrap();
        database
            .execute_batch("CREATE CORPUS c WITH (tokenizer = 'whitespace')")
            .unwrap();
        let insert = format!("INSERT INTO c (file, content) VALUES ('f', {content})");
        database.execute_batch(&insert).unwrap();
        database.execute_batch("RECOMPRESS c").unwrap();
        database
    }

    #[test]
    fn rows_are_taken_from_an_array_of_all_texts_once_that_pays() {
        let database = database("'a word and another-one-that-is-longer-than-a-view or so'");
        let (arrays, dictionary) = (TextArrays::default(), words(&database));
        let last = dictionary.len() as u32 - 1;
        let indices = [last, 0, 1, last, 2];
        assert!(arrays.take(&dictionary, &indices[..1]).unwrap().is_none());
        // Another answer, whose snapshot is another one.
        let dictionary = words(&database);
        assert!(arrays.take(&dictionary, &indices).unwrap().is_some());
        for indices in [&indices[..], &[], &[1, 1]] {
            let taken = arrays.take(&dictionary, indices).unwrap().unwrap();
            let texts: Vec<&[u8]> = taken
                .as_string_view()
                .iter()
                .map(|text| text.unwrap().as_bytes())
                .collect();
            let expected: Vec<&[u8]> = indices
                .iter()
                .map(|&index| dictionary.bytes(index))
                .collect();
            assert_eq!(texts, expected);
            // No batch holds the texts of others.
            let held = taken
                .as_string_view()
                .data_buffers()
                .iter()
                .map(|buffer| buffer.len());
            let long = expected
                .iter()
                .filter(|text| text.len() > 12)
                .map(|text| text.len());
            assert_eq!(held.sum::<usize>(), long.sum::<usize>());
        }
    }

    #[test]
    fn a_dictionary_with_other_bytes_than_text_is_no_array() {
        let database = database("X'61ff62 20 6f72'".replace(' ', "").as_str());
        let (arrays, dictionary) = (TextArrays::default(), words(&database));
        for _ in 0..3 {
            assert!(arrays.take(&dictionary, &[0]).unwrap().is_none());
        }
    }
}
