//! Texts of a dictionary as they stand in a field, for files with many rows.
//!
//! Invariant: a text that is plain is written in a field of the format, alone or joined with others by a space, as its own bytes.

use zipfdb_sql::plan::CopyFormat;

use crate::batch::{BatchColumn, TextColumn, TextDictionary};

/// Larger dictionaries are not copied.
const TEXTS_MAX: usize = 1 << 20;

/// With fewer rows the dictionary is not looked through.
const ROWS_MIN: usize = 1 << 10;

/// All texts of the dictionary of a column, and which of them are plain.
pub(super) struct DictionaryFields {
    dictionary: TextDictionary,
    texts: TextColumn,
    is_plain: Vec<bool>,
}

impl DictionaryFields {
    /// Of a column of a batch, if that pays.
    pub(super) fn of(column: &BatchColumn, format: CopyFormat) -> Option<DictionaryFields> {
        let (BatchColumn::Words { dictionary, .. } | BatchColumn::Ngrams { dictionary, .. }) =
            column
        else {
            return None;
        };
        if column.len() < ROWS_MIN || dictionary.len() > TEXTS_MAX {
            return None;
        }
        let texts = dictionary.texts();
        let is_plain = (0..texts.len()).map(|index| is_plain(texts.get(index), format));
        Some(DictionaryFields {
            dictionary: dictionary.clone(),
            is_plain: is_plain.collect(),
            texts,
        })
    }

    /// Appends the field of a row if its texts are plain, and says whether they are.
    pub(super) fn write(&self, column: &BatchColumn, row: usize, target: &mut Vec<u8>) -> bool {
        let (words, dictionary) = match column {
            BatchColumn::Words {
                indices,
                dictionary,
            } => (&indices[row..=row], dictionary),
            BatchColumn::Ngrams {
                n,
                indices,
                dictionary,
            } => (&indices[row * n..(row + 1) * n], dictionary),
            _ => return false,
        };
        let is_plain = |&word: &u32| self.is_plain[word as usize];
        if !dictionary.is_same(&self.dictionary) || !words.iter().all(is_plain) {
            return false;
        }
        for (index, &word) in words.iter().enumerate() {
            if index > 0 {
                target.push(b' ');
            }
            target.extend_from_slice(self.texts.get(word as usize));
        }
        true
    }
}

/// Whether a text needs neither quotes nor escapes, and is no BLOB.
fn is_plain(text: &[u8], format: CopyFormat) -> bool {
    let is_special = |byte: &u8| match format {
        CopyFormat::Csv => matches!(byte, b',' | b'"' | b'\r' | b'\n'),
        CopyFormat::Tsv => matches!(byte, b'\t' | b'\n' | b'\r' | b'\\'),
        CopyFormat::Json | CopyFormat::JsonLines => *byte < b' ' || matches!(byte, b'"' | b'\\'),
    };
    !text.is_empty() && !text.iter().any(is_special) && std::str::from_utf8(text).is_ok()
}
