//! Texts of a dictionary as they stand in a field, for files with many rows.
//!
//! Invariant: a text that is plain is written in a field of the format, alone or joined with others by a space, as its own bytes.

use zipfdb_sql::plan::CopyFormat;

use super::text_buffer::{SLOT_BYTES, TextBuffer};
use crate::batch::{BatchColumn, TextDictionary};

/// Larger dictionaries are not copied.
const TEXTS_MAX: usize = 1 << 20;

/// With fewer rows the dictionary is not looked through.
const ROWS_MIN: usize = 1 << 10;

/// The length of a text that is plain, and longer than a slot.
const LONG: u8 = u8::MAX - 1;

/// The length of a text that is not plain.
const NOT_PLAIN: u8 = u8::MAX;

/// All texts of the dictionary of a column.
pub(super) struct DictionaryFields {
    dictionary: TextDictionary,
    /// Plain texts that fit.
    slots: Vec<[u8; SLOT_BYTES]>,
    /// How long each text is, if it is in its slot.
    lengths: Vec<u8>,
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
        let mut slots = vec![[0; SLOT_BYTES]; dictionary.len()];
        // Numbers are u32.
        let lengths = (0..).zip(&mut slots).map(|(number, slot)| {
            let text = dictionary.bytes(number);
            if !is_plain(text, format) {
                return NOT_PLAIN;
            }
            if text.len() > SLOT_BYTES {
                return LONG;
            }
            slot[..text.len()].copy_from_slice(text);
            // A slot is shorter than 254.
            text.len() as u8
        });
        let lengths = lengths.collect();
        Some(DictionaryFields {
            dictionary: dictionary.clone(),
            slots,
            lengths,
        })
    }

    /// The numbers of the texts of a column, and how many each row has, if the column is of this dictionary.
    pub(super) fn texts<'a>(&self, column: &'a BatchColumn) -> Option<(&'a [u32], usize)> {
        let (indices, n, dictionary) = match column {
            BatchColumn::Words {
                indices,
                dictionary,
            } => (indices, 1, dictionary),
            BatchColumn::Ngrams {
                n,
                indices,
                dictionary,
            } => (indices, *n, dictionary),
            _ => return None,
        };
        dictionary
            .is_same(&self.dictionary)
            .then_some((&indices[..], n))
    }

    /// Appends texts joined by spaces if they are plain, and says whether they are.
    #[inline]
    pub(super) fn write(&self, texts: &[u32], target: &mut TextBuffer) -> bool {
        target.make_room(texts.len() * (SLOT_BYTES + 1));
        let start = target.len();
        for (index, &number) in texts.iter().enumerate() {
            if index > 0 {
                target.byte(b' ');
            }
            match self.lengths[number as usize] {
                NOT_PLAIN => {
                    target.truncate(start);
                    return false;
                }
                LONG => {
                    target.text(self.dictionary.bytes(number));
                    target.make_room((texts.len() - index) * (SLOT_BYTES + 1));
                }
                length => target.slot(&self.slots[number as usize], length.into()),
            }
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
