//! `TextArrays`: all texts of dictionaries as arrays of Arrow, which the rows of batches share or are taken from by their numbers.
//!
//! Invariant: an array is made once as many rows as a part of its texts have been made one by one, or are asked for at once, so that
//! neither few rows nor many take much longer than they must. It goes when no answer can have its dictionary any more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int32Array, LargeStringArray, StringViewArray, UInt32Array,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_select::take::take;
use zipfdb::batch::{TextColumn, TextDictionary, WeakTextDictionary};

use crate::error::Result;
use crate::text_views::{TextFault, TextViews};

/// A dictionary becomes an array once as many rows as it has texts, divided by this, were made without.
const ROWS_SHARE: usize = 4;

/// Dictionaries that are known at a time at most: those of words and files of some corpora.
const KNOWN_MAX: usize = 8;

/// Arrays of the dictionaries that answers had last. Answers that share one make no array twice.
#[derive(Debug, Default)]
pub struct TextArrays(Mutex<Vec<KnownTexts>>);

/// A dictionary that answers have had.
#[derive(Debug)]
struct KnownTexts {
    dictionary: WeakTextDictionary,
    /// Rows that were made of it one by one.
    rows: usize,
    views: Texts<StringViewArray>,
    /// Texts by number, NULL where bytes are not UTF-8.
    values: Texts<Arc<LargeStringArray>>,
}

#[derive(Debug)]
enum Texts<A> {
    NotMade,
    Made(A),
    /// A word is no UTF-8, or the array would be too large. Rows may have none of those.
    NotText,
}

impl<A: Clone> Texts<A> {
    /// The array, which is made if it `is_due`.
    fn get(&mut self, is_due: bool, make: impl FnOnce() -> Option<A>) -> Option<A> {
        if matches!(self, Texts::NotMade) && is_due {
            *self = make().map_or(Texts::NotText, Texts::Made);
        }
        match self {
            Texts::Made(array) => Some(array.clone()),
            Texts::NotMade | Texts::NotText => None,
        }
    }
}

impl KnownTexts {
    /// Whether it is time to make an array for `rows` more rows; if not, they are counted.
    fn is_due(&mut self, dictionary: &TextDictionary, rows: usize) -> bool {
        let is_due = self.rows >= dictionary.len() / ROWS_SHARE || rows >= dictionary.len();
        if !is_due {
            self.rows += rows;
        }
        is_due
    }
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
        let Some(texts) = self.views(dictionary, indices.len()) else {
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

    /// An array of these numbers and all texts of their dictionary, which arrays share; the numbers back if it is not time to make
    /// one of all texts, or there is none.
    ///
    /// # Errors
    /// [`TextFault::NotUtf8`] if one of the texts is no UTF-8.
    pub(crate) fn share(
        &self,
        dictionary: &TextDictionary,
        indices: Vec<u32>,
    ) -> Result<std::result::Result<ArrayRef, Vec<u32>>, TextFault> {
        let Some(texts) = self.values(dictionary, indices.len()) else {
            return Ok(Err(indices));
        };
        // A number of the dictionary is less than 2^31, which `all_values` checks.
        let is_not_text = |&index: &u32| texts.is_null(index as usize);
        if texts.null_count() > 0 && indices.iter().any(is_not_text) {
            return Err(TextFault::NotUtf8);
        }
        let rows = indices.len();
        let keys = ScalarBuffer::<i32>::new(Buffer::from_vec(indices), 0, rows);
        let array = DictionaryArray::<Int32Type>::new(Int32Array::new(keys, None), texts);
        Ok(Ok(Arc::new(array)))
    }

    fn views(&self, dictionary: &TextDictionary, rows: usize) -> Option<StringViewArray> {
        let mut known = self.known();
        let known = find(&mut known, dictionary);
        let is_due = known.is_due(dictionary, rows);
        known.views.get(is_due, || all_views(dictionary))
    }

    fn values(&self, dictionary: &TextDictionary, rows: usize) -> Option<Arc<LargeStringArray>> {
        let mut known = self.known();
        let known = find(&mut known, dictionary);
        let is_due = known.is_due(dictionary, rows);
        known.values.get(is_due, || all_values(dictionary))
    }

    fn known(&self) -> MutexGuard<'_, Vec<KnownTexts>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|known| known.dictionary.is_alive());
        known
    }
}

/// What is known of a dictionary, which is added if it is new.
fn find<'a>(known: &'a mut Vec<KnownTexts>, dictionary: &TextDictionary) -> &'a mut KnownTexts {
    let place = known
        .iter()
        .position(|known| known.dictionary.is_of(dictionary));
    let place = place.unwrap_or_else(|| {
        if known.len() == KNOWN_MAX {
            known.remove(0);
        }
        known.push(KnownTexts {
            dictionary: dictionary.downgrade(),
            rows: 0,
            views: Texts::NotMade,
            values: Texts::NotMade,
        });
        known.len() - 1
    });
    &mut known[place]
}

/// None if one of them is no UTF-8, or has 4 GiB.
fn all_views(dictionary: &TextDictionary) -> Option<StringViewArray> {
    let mut texts = TextViews::default();
    // Numbers are u32.
    (0..dictionary.len() as u32).for_each(|number| texts.push(dictionary.bytes(number)));
    texts.array().ok()
}

/// None if a key of Arrow's cannot number all of them.
fn all_values(dictionary: &TextDictionary) -> Option<Arc<LargeStringArray>> {
    i32::try_from(dictionary.len()).ok()?;
    let texts = dictionary.texts();
    let array = large_strings(texts, None).ok();
    array.or_else(|| texts_or_null(dictionary)).map(Arc::new)
}

/// Texts by number, NULL where bytes are not UTF-8.
fn texts_or_null(dictionary: &TextDictionary) -> Option<LargeStringArray> {
    let mut texts = TextColumn::default();
    // Numbers are u32.
    let is_text = (0..dictionary.len() as u32).map(|number| {
        let text = std::str::from_utf8(dictionary.bytes(number)).ok();
        texts.bytes.extend_from_slice(text.unwrap_or("").as_bytes());
        texts.offsets.push(texts.bytes.len() as u64);
        text.is_some()
    });
    let is_text: Vec<bool> = is_text.collect();
    large_strings(texts, Some(NullBuffer::from(is_text))).ok()
}

/// Texts as an array, without a copy.
///
/// # Errors
/// If one of them is no UTF-8.
pub(crate) fn large_strings(
    texts: TextColumn,
    nulls: Option<NullBuffer>,
) -> Result<LargeStringArray, TextFault> {
    let bytes = Buffer::from_vec(texts.bytes);
    let array = LargeStringArray::try_new(offset_buffer(texts.offsets), bytes, nulls);
    array.map_err(|_| TextFault::NotUtf8)
}

/// Offsets without a copy: they are sizes of what is in memory, so they are as large as i64.
pub(crate) fn offset_buffer(offsets: Vec<u64>) -> OffsetBuffer<i64> {
    let rows = offsets.len();
    OffsetBuffer::new(ScalarBuffer::<i64>::new(Buffer::from_vec(offsets), 0, rows))
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
    #[test]
    fn arrays_share_the_texts_of_their_dictionary() {
        let database = database("'a word and another-one-that-is-longer-than-a-view or so'");
        let (arrays, dictionary) = (TextArrays::default(), words(&database));
        let share = |indices: &[u32]| arrays.share(&dictionary, indices.to_vec()).unwrap();
        let last = dictionary.len() as u32 - 1;
        assert_eq!(share(&[last]), Err(vec![last]));
        let (first, second) = (share(&[last, 0]).unwrap(), share(&[1]).unwrap());
        let (first, second) = (
            first.as_dictionary::<Int32Type>(),
            second.as_dictionary::<Int32Type>(),
        );
        assert!(Arc::ptr_eq(first.values(), second.values()));
        assert_eq!(first.values().len(), dictionary.len());
        let text = first.values().as_string::<i64>().value(last as usize);
        assert_eq!(text.as_bytes(), dictionary.bytes(last));
    }

    #[test]
    fn bytes_that_are_no_text_are_an_error_where_a_row_has_them() {
        let database = database("X'61ff62206f72'");
        let (arrays, dictionary) = (TextArrays::default(), words(&database));
        let is_text = |number: &u32| std::str::from_utf8(dictionary.bytes(*number)).is_ok();
        let (texts, others): (Vec<u32>, Vec<u32>) = (0..2).partition(is_text);
        assert_eq!((texts.len(), others.len()), (1, 1));
        let all = vec![texts[0], others[0]];
        assert_eq!(
            arrays.share(&dictionary, all).unwrap_err(),
            TextFault::NotUtf8
        );
        let shared = arrays.share(&dictionary, texts).unwrap().unwrap();
        assert_eq!(shared.len(), 1);
    }
}
