//! Fields of the texts of a dictionary, for answers with many rows.
//!
//! Invariant: a plain text is written in a field of the format, alone or joined with others by a space, as its own bytes.

use zipfdb_sql::plan::RowFormat;

use super::field::is_plain;
use super::text_buffer::{SLOT_BYTES, TextBuffer};
use crate::batch::{BatchColumn, TextDictionary};

/// The most texts of a dictionary that is copied.
const TEXTS_MAX: usize = 1 << 20;

/// The least rows of a batch for which a dictionary is scanned.
const ROWS_MIN: usize = 1 << 10;

/// The length of a text that is plain, and longer than a slot.
const LONG: u8 = u8::MAX - 1;

/// The length of a text that is not plain.
const NOT_PLAIN: u8 = u8::MAX;

/// All texts of the dictionary of a column.
#[derive(Debug)]
pub(super) struct DictionaryFields {
    dictionary: TextDictionary,
    /// The bytes before and behind a text.
    quote: &'static [u8],
    /// Plain texts that fit.
    slots: Vec<[u8; SLOT_BYTES]>,
    /// The length of each text that is in its slot, or one of the two marks.
    lengths: Vec<u8>,
}

impl DictionaryFields {
    /// The fields of a column of a batch, if building them pays.
    pub(super) fn of(column: &BatchColumn, format: RowFormat) -> Option<DictionaryFields> {
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
            quote: match format {
                RowFormat::Csv | RowFormat::Tsv => b"",
                RowFormat::Json | RowFormat::JsonLines => b"\"",
            },
            slots,
            lengths,
        })
    }

    /// The numbers of the texts of a column, and the number of texts of a row, if the column has this dictionary.
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

    /// Appends texts joined by spaces as a field if they are plain. Returns whether they are.
    #[inline]
    pub(super) fn write(&self, texts: &[u32], target: &mut TextBuffer) -> bool {
        let start = target.len();
        target.text(self.quote);
        target.make_room(texts.len() * (SLOT_BYTES + 1));
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
        target.text(self.quote);
        true
    }
}
