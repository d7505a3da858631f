//! `ByText`: a number for each text of a dictionary, where something is made once of each.
//!
//! Invariant: what is known of a text was said of the same text of the same dictionary.

use crate::batch::{Batch, BatchColumn, TextDictionary};

/// Numbers of what was made of the texts of a column.
#[derive(Debug)]
pub(super) struct ByText {
    /// The column, if it alone decides what is made.
    column: Option<usize>,
    dictionary: Option<TextDictionary>,
    /// By number of the text, one more than what is known; 0 for nothing.
    known: Vec<u32>,
    bytes_max: usize,
}

impl ByText {
    /// Numbers what is made of `columns`. It takes at most `bytes_max` bytes.
    pub(super) fn new(columns: &[usize], bytes_max: usize) -> ByText {
        ByText {
            column: sole_column(columns),
            dictionary: None,
            known: Vec::new(),
            bytes_max,
        }
    }

    /// The numbers of the texts of a batch, if they alone decide what is made and there is room.
    pub(super) fn texts<'a>(&mut self, batch: &'a Batch) -> Option<&'a [u32]> {
        let (indices, dictionary) = texts_of(batch, self.column)?;
        let is_same = |known: &TextDictionary| known.is_same(dictionary);
        if !self.dictionary.as_ref().is_some_and(is_same) {
            if dictionary.len() > self.bytes_max / size_of::<u32>() {
                return None;
            }
            self.dictionary = Some(dictionary.clone());
            self.known = vec![0; dictionary.len()];
        }
        Some(indices)
    }

    /// What is known of a text.
    #[inline]
    pub(super) fn get(&self, text: u32) -> Option<u32> {
        self.known[text as usize].checked_sub(1)
    }

    /// Makes something known of a text.
    pub(super) fn set(&mut self, text: u32, known: u32) {
        self.known[text as usize] = known + 1;
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.dictionary = None;
        self.known = Vec::new();
    }

    /// How many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.known[..])
    }
}

/// The column that alone decides what is made of `columns`; none if there are others, or none at all.
pub(super) fn sole_column(columns: &[usize]) -> Option<usize> {
    match columns {
        &[column] => Some(column),
        _ => None,
    }
}

/// The numbered texts of a column of a batch, with their dictionary, if it has such.
pub(super) fn texts_of(batch: &Batch, column: Option<usize>) -> Option<(&[u32], &TextDictionary)> {
    match &batch.columns()[column?] {
        BatchColumn::Words {
            indices,
            dictionary,
        } => Some((indices, dictionary)),
        _ => None,
    }
}
