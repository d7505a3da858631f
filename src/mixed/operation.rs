//! Questions and edits of a batch, and their files.

use std::sync::Arc;

use zipfdb_storage::Tokenizer;

use crate::Error;
use crate::answer::StoredView;
use crate::answer::access_path::Run;
use crate::overlay::Overlay;

/// One of many operations; see [`crate::Corpus::mixed_many`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// The count of a word in a file.
    Count {
        /// The file.
        file: &'a str,
        /// The word.
        word: &'a [u8],
    },
    /// The places of a word in a file.
    Search {
        /// The file.
        file: &'a str,
        /// The word.
        word: &'a [u8],
    },
    /// A range of bytes of a file.
    Extract {
        /// The file.
        file: &'a str,
        /// The first of them, from 0.
        offset: u64,
        /// The length of the range, which ends with the file at the latest.
        length: u64,
    },
    /// Inserts text into a file.
    Insert {
        /// The file.
        file: &'a str,
        /// The byte of the file, in its current version, to insert before.
        offset: u64,
        /// The text to insert.
        text: &'a [u8],
    },
    /// Appends text to a file, which is created if it is not there.
    Append {
        /// The file.
        file: &'a str,
        /// The text to append.
        text: &'a [u8],
    },
}

/// The result of an [`Operation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The result of [`Operation::Count`].
    Count(u64),
    /// The result of [`Operation::Search`]: the offsets of the word's first bytes, ascending.
    Offsets(Vec<u64>),
    /// The result of [`Operation::Extract`].
    Bytes(Vec<u8>),
    /// The result of an edit.
    Edited,
}

impl<'a> Operation<'a> {
    pub(super) fn file(&self) -> &'a str {
        match *self {
            Operation::Count { file, .. }
            | Operation::Search { file, .. }
            | Operation::Extract { file, .. }
            | Operation::Insert { file, .. }
            | Operation::Append { file, .. } => file,
        }
    }

    pub(super) fn is_edit(&self) -> bool {
        matches!(self, Operation::Insert { .. } | Operation::Append { .. })
    }

    pub(super) fn is_append(&self) -> bool {
        matches!(self, Operation::Append { .. })
    }

    /// The text that an edit adds; empty for a question.
    pub(super) fn text(&self) -> &'a [u8] {
        match *self {
            Operation::Insert { text, .. } | Operation::Append { text, .. } => text,
            _ => &[],
        }
    }
}

/// A corpus that operations run on.
pub(crate) struct Target<'a> {
    pub(crate) stored: &'a Arc<StoredView>,
    pub(crate) overlay: &'a mut Overlay,
    pub(crate) tokenizer: Tokenizer,
    /// The limits of the run.
    pub(crate) run: Run<'a>,
}

/// An error of one operation, with its number.
pub(super) fn at(operation: usize, error: Error) -> Error {
    Error::Invalid {
        subject: format!("operation {}", operation + 1),
        reason: error.to_string(),
    }
}
